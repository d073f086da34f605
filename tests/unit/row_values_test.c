/* Rows by key in one process: key lists that are joined, rows that are copied out. */
#include "common/rows/row_values.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/rng.h"

/* Tables 0 and 2 share list 0, table 1 has list 1. */
static const struct row_layout LAYOUT = {.lists = 2,
                                         .tables = 3,
                                         .table = {{.name = "a", .dim = 2, .list = 0},
                                                   {.name = "b", .dim = 1, .list = 1},
                                                   {.name = "c", .dim = 3, .list = 0}}};

#define KEYS(...)                                                                                  \
    ((struct key_list){sizeof((uint64_t[]){__VA_ARGS__}) / 8, (const uint64_t[]){__VA_ARGS__}})
static const struct key_list NONE;

/* A row's value says whose it is. */
static float value(uint32_t table, uint64_t mixed, uint32_t i)
{
    return (float)(table * 1000) + (float)mixed * 10.0f + (float)i;
}

static void fill(struct row_values *v)
{
    for (uint32_t t = 0; t < LAYOUT.tables; t++) {
        const struct row_value_keys *l = &v->list[LAYOUT.table[t].list];
        for (uint32_t k = 0; k < l->keys; k++)
            for (uint32_t i = 0; i < LAYOUT.table[t].dim; i++)
                v->w[t][k * LAYOUT.table[t].dim + i] = value(t, l->mixed[k], i);
    }
}

static void assert_keys(const struct row_values *v, uint32_t list, const struct key_list *want)
{
    assert_int_equal(v->list[list].keys, want->keys);
    if (want->keys)
        assert_memory_equal(v->list[list].mixed, want->mixed, want->keys * sizeof *want->mixed);
}

static void a_task_wants_the_union_of_its_leaves_keys(void **state)
{
    (void)state;
    const struct key_list first[] = {KEYS(1, 5, 9), NONE}, second[] = {KEYS(5, 6), KEYS(7)},
                          third[] = {KEYS(0, 9, UINT64_MAX), KEYS(2, 7)};
    const struct leaf_keys a = {.lists = 2, .list = first}, b = {.lists = 2, .list = second},
                           c = {.lists = 2, .list = third};
    const struct leaf_keys *leaf[] = {&a, NULL, &b, &c};
    struct row_values v;
    row_values_init(&v, &LAYOUT);
    assert_int_equal(row_values_want(&v, leaf, 4, NULL), ERR_OK);
    assert_keys(&v, 0, &KEYS(0, 1, 5, 6, 9, UINT64_MAX));
    assert_keys(&v, 1, &KEYS(2, 7));
    assert_int_equal(row_values_want(&v, leaf + 1, 2, NULL), ERR_OK);
    assert_keys(&v, 0, &KEYS(5, 6));
    assert_int_equal(row_values_want(&v, leaf, 0, NULL), ERR_OK);
    assert_keys(&v, 0, &NONE);
    assert_keys(&v, 1, &NONE);
    row_values_close(&v);
}

static int ascending(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static uint32_t distinct(uint64_t *key, uint32_t n)
{
    uint32_t kept = 0;
    qsort(key, n, sizeof *key, ascending);
    for (uint32_t i = 0; i < n; i++)
        if (kept == 0 || key[kept - 1] != key[i])
            key[kept++] = key[i];
    return kept;
}

/* Compared with sorting all of them together. */
static void the_union_of_any_number_of_leaves_is_sorted_and_without_doubles(void **state)
{
    (void)state;
    enum { LEAVES = 9, KEYS_MAX = 40 };
    static uint64_t key[LEAVES][KEYS_MAX], all[LEAVES * KEYS_MAX];
    struct row_values v;
    row_values_init(&v, &LAYOUT);
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct key_list list[LEAVES][2] = {{{0}}};
        struct leaf_keys leaf[LEAVES];
        const struct leaf_keys *leaves[LEAVES];
        uint32_t n = (uint32_t)(seed % LEAVES) + 1, total = 0;
        for (uint32_t i = 0; i < n; i++) {
            uint32_t keys = (uint32_t)(rng_u64(seed, i) % KEYS_MAX);
            for (uint32_t k = 0; k < keys; k++)
                key[i][k] = rng_u64(seed, 100 * i + k + 50) % 90;
            memcpy(all + total, key[i], keys * sizeof *all);
            total += keys;
            list[i][0] = (struct key_list){distinct(key[i], keys), key[i]};
            leaf[i] = (struct leaf_keys){.lists = 2, .list = list[i]};
            leaves[i] = &leaf[i];
        }
        assert_int_equal(row_values_want(&v, leaves, n, NULL), ERR_OK);
        assert_keys(&v, 0, &(struct key_list){distinct(all, total), all});
    }
    row_values_close(&v);
}

static void a_leaf_gets_its_rows_of_all_tables_of_the_list(void **state)
{
    (void)state;
    const struct key_list list[] = {KEYS(1, 5, 9, 12), KEYS(3)};
    const struct leaf_keys all = {.lists = 2, .list = list}, *leaf = &all;
    struct row_values v;
    row_values_init(&v, &LAYOUT);
    assert_int_equal(row_values_want(&v, &leaf, 1, NULL), ERR_OK);
    fill(&v);
    float a[4], b[1] = {-1}, c[6];
    float *const w[] = {a, b, c};
    assert_int_equal(row_values_copy(&v, 0, &KEYS(5, 12), w, NULL), 2);
    for (uint32_t i = 0; i < 2; i++) {
        assert_true(a[i] == value(0, 5, i) && a[2 + i] == value(0, 12, i));
        assert_true(c[i] == value(2, 5, i) && c[3 + i] == value(2, 12, i));
    }
    assert_true(b[0] == -1.0f);
    row_values_close(&v);
}

static void a_key_that_is_not_there_is_counted_and_its_row_left_alone(void **state)
{
    (void)state;
    const struct key_list list[] = {KEYS(1), KEYS(3, 8)};
    const struct leaf_keys all = {.lists = 2, .list = list}, *leaf = &all;
    struct row_values v;
    row_values_init(&v, &LAYOUT);
    assert_int_equal(row_values_want(&v, &leaf, 1, NULL), ERR_OK);
    fill(&v);
    float b[] = {-1, -1, -1, -1};
    float *const w[] = {NULL, b, NULL};
    assert_int_equal(row_values_copy(&v, 1, &KEYS(2, 3, 5, 9), w, NULL), 1);
    assert_true(b[0] == -1.0f && b[1] == value(1, 3, 0) && b[2] == -1.0f && b[3] == -1.0f);
    row_values_close(&v);
}

static void a_leaf_gets_the_marks_of_absent_rows_which_end_with_the_next_keys(void **state)
{
    (void)state;
    const struct key_list list[] = {KEYS(1, 5, 9, 12), KEYS(3)};
    const struct leaf_keys all = {.lists = 2, .list = list}, *leaf = &all;
    struct row_values v;
    float a[4], c[6];
    float *const w[] = {a, NULL, c};
    uint8_t absent[2] = {7, 7};
    row_values_init(&v, &LAYOUT);
    assert_int_equal(row_values_want(&v, &leaf, 1, NULL), ERR_OK);
    v.absent[0][3] = 0;
    assert_int_equal(row_values_copy(&v, 0, &KEYS(5, 12), w, absent), 2);
    assert_true(absent[0] == 1 && absent[1] == 0);
    assert_int_equal(row_values_want(&v, &leaf, 1, NULL), ERR_OK);
    assert_int_equal(v.absent[0][3], 1);
    row_values_close(&v);
}

static void lookups_that_miss_are_counted_and_their_first_keys_kept(void **state)
{
    (void)state;
    enum { KEYS_N = 30 };
    uint64_t mixed[KEYS_N];
    uint8_t absent[KEYS_N];
    for (uint32_t i = 0; i < KEYS_N; i++) {
        mixed[i] = 100 + i;
        absent[i] = i != 3;
    }
    const uint32_t at[] = {3, 4, LOOKUP_NONE, 4, 9, 9}, count[] = {2, 2, 1};
    const struct lookup_column c = {.width = 2, .count = count, .at = at};
    struct row_misses m = {0}, other = {0};
    const struct key_list list = {KEYS_N, mixed};
    row_misses_count(&m, &c, 3, &list, absent);
    assert_true(m.lookups == 4 && m.missed == 3 && m.kept == 2);
    assert_true(m.mixed[0] == 104 && m.mixed[1] == 109);
    assert_true(m.times[0] == 2 && m.times[1] == 1);
    uint32_t each[KEYS_N];
    for (uint32_t i = 0; i < KEYS_N; i++)
        each[i] = i;
    row_misses_count(&other, &(struct lookup_column){.width = 1, .at = each}, KEYS_N, &list,
                     absent);
    assert_true(other.missed == KEYS_N - 1 && other.kept == ROW_MISSES_KEPT);
    row_misses_join(&m, &other);
    assert_true(m.lookups == KEYS_N + 4 && m.missed == KEYS_N + 2 && m.kept == ROW_MISSES_KEPT);
    assert_true(m.times[0] == 3 && m.times[1] == 2 && m.times[2] == 1);
}

static void memory_that_is_there_is_used_again(void **state)
{
    (void)state;
    const struct key_list many[] = {KEYS(1, 5, 9, 12), KEYS(3)}, few[] = {KEYS(2, 4), KEYS(6)};
    const struct leaf_keys a = {.lists = 2, .list = many}, b = {.lists = 2, .list = few};
    const struct leaf_keys *leaf[] = {&a, &b};
    struct row_values v;
    row_values_init(&v, &LAYOUT);
    assert_int_equal(row_values_want(&v, leaf, 2, NULL), ERR_OK);
    mem_fail_at(0);
    assert_int_equal(row_values_want(&v, leaf + 1, 1, NULL), ERR_OK);
    assert_int_equal(row_values_want(&v, leaf, 2, NULL), ERR_OK);
    assert_false(mem_fail_fired());
    mem_fail_at(-1);
    row_values_close(&v);
}

static void without_memory_there_are_no_keys_and_the_next_call_may_succeed(void **state)
{
    (void)state;
    const struct key_list list[] = {KEYS(1, 5, 9, 12), KEYS(3)};
    const struct leaf_keys all = {.lists = 2, .list = list}, *leaf = &all;
    bool fired = true;
    for (long n = 0; fired; n++) {
        struct row_values v;
        row_values_init(&v, &LAYOUT);
        mem_fail_at(n);
        enum err err = row_values_want(&v, &leaf, 1, NULL);
        fired = mem_fail_fired();
        mem_fail_at(-1);
        assert_int_equal(err, fired ? ERR_NOMEM : ERR_OK);
        assert_int_equal(row_values_want(&v, &leaf, 1, NULL), ERR_OK);
        assert_keys(&v, 0, &list[0]);
        fill(&v);
        row_values_close(&v);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_task_wants_the_union_of_its_leaves_keys),
        cmocka_unit_test(the_union_of_any_number_of_leaves_is_sorted_and_without_doubles),
        cmocka_unit_test(a_leaf_gets_its_rows_of_all_tables_of_the_list),
        cmocka_unit_test(a_key_that_is_not_there_is_counted_and_its_row_left_alone),
        cmocka_unit_test(a_leaf_gets_the_marks_of_absent_rows_which_end_with_the_next_keys),
        cmocka_unit_test(lookups_that_miss_are_counted_and_their_first_keys_kept),
        cmocka_unit_test(memory_that_is_there_is_used_again),
        cmocka_unit_test(without_memory_there_are_no_keys_and_the_next_call_may_succeed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
