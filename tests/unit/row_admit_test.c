/* Admission of rows: counts in a sketch, and coins. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/mem.h"
#include "ps/rows/row_admit.h"

enum { SEED = 7 };
static const struct bucket_range all = {0, ROW_BUCKETS};

static struct row_admit admit_of(struct row_admission rule, struct bucket_range of)
{
    const struct row_table_spec t = {.name = "ids", .dim = 1, .admission = rule};
    struct row_admit a;
    assert_int_equal(row_admit_init(&a, &t, of, SEED), ERR_OK);
    return a;
}

static bool touch(struct row_admit *a, uint64_t mixed, uint64_t clock)
{
    uint32_t undo;
    return row_admit_touch(a, mixed, clock, &undo);
}

static void without_a_rule_each_touch_makes_its_row(void **state)
{
    (void)state;
    struct row_admit a = admit_of((struct row_admission){.min_count = 1}, all);
    assert_true(touch(&a, 0, 1));
    assert_true(touch(&a, UINT64_MAX, 2));
    assert_null(row_admit_sketch(&a, 0));
    row_admit_close(&a);
}

static void the_touch_with_the_number_makes_the_row(void **state)
{
    (void)state;
    for (uint32_t n = 2; n <= ROW_MIN_COUNT_MAX; n += n == 2 ? 1 : 84) {
        struct row_admit a = admit_of((struct row_admission){.min_count = n, .sketch_mb = 1}, all);
        for (uint64_t key = 0; key < 1000; key++)
            for (uint32_t i = 1; i <= n + 2; i++)
                assert_int_equal(touch(&a, key_mix(key), i), i >= n);
        row_admit_close(&a);
    }
}

/* A counter is never below the touches of any of its keys, and 255 stays. */
static void a_full_sketch_admits_too_early_and_never_too_late(void **state)
{
    (void)state;
    enum { KEYS = 500, N = 5 };
    struct bucket_range one = {9, 10};
    struct row_admit a = admit_of((struct row_admission){.min_count = N, .sketch_mb = 1}, one);
    uint32_t early = 0, late = 0;
    for (uint32_t round = 1; round <= 300; round++)
        for (uint64_t k = 0; k < KEYS; k++) {
            bool made = touch(&a, (UINT64_C(9) << 52) | (key_mix(k) >> 12), round);
            early += made && round < N;
            late += !made && round >= N;
        }
    assert_true(early > 0);
    assert_int_equal(late, 0);
    for (uint32_t i = 0; i < a.bucket_bytes; i++)
        assert_true(row_admit_sketch(&a, 9)[i] == UINT8_MAX || row_admit_sketch(&a, 9)[i] == 0);
    row_admit_close(&a);
}

/* Only the least of a key's counters grow: fewer keys of a crowded bucket come too early. */
static void a_count_raises_no_counter_above_the_keys_own_estimate(void **state)
{
    (void)state;
    struct bucket_range one = {0, 1};
    struct row_admit a = admit_of((struct row_admission){.min_count = 200, .sketch_mb = 1}, one);
    uint64_t sum = 0;
    for (uint64_t k = 0; k < 2000; k++)
        (void)touch(&a, key_mix(k) >> 12, 1);
    for (uint32_t i = 0; i < a.bucket_bytes; i++)
        sum += row_admit_sketch(&a, 0)[i];
    assert_true(sum < 4 * 2000 * 3 / 4); /* else each touch raises four */
    row_admit_close(&a);
}

static void a_buckets_counts_do_not_depend_on_the_number_of_shards(void **state)
{
    (void)state;
    const struct row_admission rule = {.min_count = 3, .sketch_mb = 2};
    struct row_admit whole = admit_of(rule, all), half = admit_of(rule, bucket_shard(1, 2));
    assert_int_equal(whole.bucket_bytes, 512);
    for (uint64_t k = 0; k < 20000; k++) {
        uint64_t mixed = key_mix(k % 7000);
        bool made = touch(&whole, mixed, 1);
        if (key_bucket(mixed) >= ROW_BUCKETS / 2)
            assert_int_equal(touch(&half, mixed, 1), made);
    }
    for (uint32_t b = ROW_BUCKETS / 2; b < ROW_BUCKETS; b++)
        assert_memory_equal(row_admit_sketch(&whole, b), row_admit_sketch(&half, b), 512);
    row_admit_close(&whole);
    row_admit_close(&half);
}

static void touches_that_are_taken_back_in_reverse_leave_no_count(void **state)
{
    (void)state;
    struct bucket_range one = {0, 1};
    struct row_admit a = admit_of((struct row_admission){.min_count = 9, .sketch_mb = 1}, one);
    uint8_t before[256];
    uint32_t undo[300];
    for (uint64_t k = 0; k < 100; k++)
        (void)touch(&a, key_mix(k) >> 12, 1);
    memcpy(before, row_admit_sketch(&a, 0), sizeof before);
    for (uint64_t k = 0; k < 300; k++)
        (void)row_admit_touch(&a, key_mix(k) >> 12, 1, &undo[k]);
    for (uint64_t k = 300; k-- > 0;)
        row_admit_undo(&a, key_mix(k) >> 12, undo[k]);
    assert_memory_equal(row_admit_sketch(&a, 0), before, sizeof before);
    row_admit_close(&a);
}

static void coins_are_of_table_key_and_clock_and_fall_as_often_as_said(void **state)
{
    (void)state;
    struct row_admit a = admit_of((struct row_admission){.probability = 0.25f}, all);
    struct row_admit b = admit_of((struct row_admission){.probability = 0.25f}, all);
    uint32_t made = 0, again = 0;
    for (uint64_t k = 0; k < 40000; k++) {
        bool first = touch(&a, key_mix(k), 5);
        assert_int_equal(touch(&b, key_mix(k), 5), first);
        made += first;
        again += first && touch(&a, key_mix(k), 6);
    }
    assert_true(made > 9600 && made < 10400);
    assert_true(again > 2200 && again < 2800);
    row_admit_close(&a);
    row_admit_close(&b);
}

static void no_memory_for_a_sketch_is_said(void **state)
{
    (void)state;
    const struct row_table_spec t = {
        .name = "ids", .dim = 1, .admission = {.min_count = 2, .sketch_mb = 1}};
    struct row_admit a;
    mem_fail_at(0);
    assert_int_equal(row_admit_init(&a, &t, all, SEED), ERR_NOMEM);
    assert_true(mem_fail_fired());
    mem_fail_at(-1);
    row_admit_close(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_rule_each_touch_makes_its_row),
        cmocka_unit_test(the_touch_with_the_number_makes_the_row),
        cmocka_unit_test(a_full_sketch_admits_too_early_and_never_too_late),
        cmocka_unit_test(a_count_raises_no_counter_above_the_keys_own_estimate),
        cmocka_unit_test(a_buckets_counts_do_not_depend_on_the_number_of_shards),
        cmocka_unit_test(touches_that_are_taken_back_in_reverse_leave_no_count),
        cmocka_unit_test(coins_are_of_table_key_and_clock_and_fall_as_often_as_said),
        cmocka_unit_test(no_memory_for_a_sketch_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
