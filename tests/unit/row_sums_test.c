/* Sums of rows' gradients: a merge by key, which skips what is absent. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/mem.h"
#include "common/base/rng.h"
#include "common/rows/row_sums.h"

static const struct row_layout layout = {.lists = 2,
                                         .tables = 3,
                                         .table = {{.name = "a", .dim = 2, .list = 0},
                                                   {.name = "b", .dim = 1, .list = 0},
                                                   {.name = "c", .dim = 3, .list = 1}}};

static void open_leaf(struct row_sums *s, const uint64_t *first, uint32_t n, const uint64_t *second,
                      uint32_t m, float value)
{
    const struct key_list lists[] = {{n, first}, {m, second}};
    const struct leaf_keys keys = {.lists = 2, .list = lists};
    row_sums_init(s, &layout);
    assert_int_equal(row_sums_begin(s, &keys), ERR_OK);
    for (uint32_t i = 0; i < n; i++) {
        assert_true(s->g[0][2 * i] == 0 && s->g[0][2 * i + 1] == 0 && s->g[1][i] == 0);
        s->g[0][2 * i] = value + (float)first[i];
        s->g[1][i] = -value;
    }
    for (uint32_t i = 0; i < 3 * m; i++)
        s->g[2][i] = value * (float)i;
}

static void a_sum_has_the_keys_of_both_and_skips_what_is_absent(void **state)
{
    (void)state;
    struct row_sums a, b, sum;
    open_leaf(&a, (uint64_t[]){1, 4, 9}, 3, NULL, 0, 100);
    open_leaf(&b, (uint64_t[]){0, 4, 10}, 3, (uint64_t[]){7}, 1, 200);
    a.g[1][0] = -0.0f; /* absent is not added as 0: the sign stays */
    row_sums_init(&sum, &layout);
    assert_int_equal(row_sums_add(&sum, &a, &b), ERR_OK);
    const uint64_t want[] = {0, 1, 4, 9, 10};
    const float first[] = {200, 0, 101, 0, 308, 0, 109, 0, 210, 0};
    const float second[] = {-200, -0.0f, -300, -100, -200};
    assert_int_equal(sum.list[0].keys, 5);
    assert_memory_equal(sum.list[0].mixed, want, sizeof want);
    assert_memory_equal(sum.g[0], first, sizeof first);
    assert_memory_equal(sum.g[1], second, sizeof second);
    assert_int_equal(sum.list[1].keys, 1);
    assert_memory_equal(sum.g[2], b.g[2], 3 * sizeof(float));
    assert_int_equal(row_sums_begin(&sum, NULL), ERR_OK);
    assert_int_equal(sum.list[0].keys + sum.list[1].keys, 0);
    row_sums_close(&a);
    row_sums_close(&b);
    row_sums_close(&sum);
}

static void random_sums_are_those_of_a_plain_loop(void **state)
{
    (void)state;
    enum { KEYS = 64 };
    struct row_sums a, b, sum;
    row_sums_init(&sum, &layout);
    for (uint64_t seed = 0; seed < 200; seed++) {
        uint64_t key[2][KEYS];
        uint32_t n[2] = {0, 0};
        double want[KEYS] = {0};
        uint32_t there = 0;
        for (uint32_t i = 0; i < KEYS; i++) {
            uint64_t r = rng_u64(seed, i);
            for (uint32_t side = 0; side < 2; side++)
                if (r >> side & 1)
                    key[side][n[side]++] = i;
            want[i] = (double)((r & 1) ? 10 + i : 0) + (double)((r >> 1 & 1) ? 20 + i : 0);
        }
        open_leaf(&a, key[0], n[0], NULL, 0, 10);
        open_leaf(&b, key[1], n[1], NULL, 0, 20);
        assert_int_equal(row_sums_add(&sum, &a, &b), ERR_OK);
        for (uint32_t i = 0; i < KEYS; i++) {
            if (want[i] == 0)
                continue;
            assert_true(sum.list[0].mixed[there] == i);
            assert_true((double)sum.g[0][2 * there++] == want[i]);
        }
        assert_int_equal(sum.list[0].keys, there);
        row_sums_close(&a);
        row_sums_close(&b);
    }
    row_sums_close(&sum);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sum_has_the_keys_of_both_and_skips_what_is_absent),
        cmocka_unit_test(random_sums_are_those_of_a_plain_loop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
