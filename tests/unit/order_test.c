#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "data/dataset.h"

enum { ROWS = 1003, BATCH = 64, LEAVES = 4 };

static const struct order plain = {
    .rows = ROWS, .batch_size = BATCH, .seed = 1, .microbatches = LEAVES};

/* The rows of a whole epoch in their order; returns how many. */
static uint64_t epoch_rows(const struct order *o, uint64_t epoch, uint64_t out[static ROWS])
{
    uint64_t n = 0, leaf_rows[BATCH + 1];
    for (uint64_t b = 0; b < order_batches(o); b++)
        for (uint32_t leaf = 0; leaf < o->microbatches; leaf++) {
            uint32_t count = order_leaf(o, epoch * order_batches(o) + b, leaf, leaf_rows);
            assert_true(n + count <= ROWS);
            memcpy(out + n, leaf_rows, count * sizeof *leaf_rows);
            n += count;
        }
    return n;
}

static void order_counts_a_short_last_batch(void **state)
{
    (void)state;
    struct order o = plain;
    assert_int_equal(order_batches(&o), 16);
    o.rows = 1024;
    assert_int_equal(order_batches(&o), 16);
    o.rows = 1025;
    assert_int_equal(order_batches(&o), 17);
    o.rows = 1;
    assert_int_equal(order_batches(&o), 1);
}

static void order_deals_every_row_once_in_an_epoch(void **state)
{
    (void)state;
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        uint64_t rows[ROWS];
        uint8_t seen[ROWS] = {0};
        assert_int_equal(epoch_rows(&plain, epoch, rows), ROWS);
        for (int i = 0; i < ROWS; i++) {
            assert_true(rows[i] < ROWS);
            assert_int_equal(seen[rows[i]]++, 0);
        }
    }
}

static void order_of_a_batch_does_not_depend_on_its_leaves(void **state)
{
    (void)state;
    uint64_t whole[ROWS], rows[ROWS];
    struct order o = plain;
    o.microbatches = 1;
    assert_int_equal(epoch_rows(&o, 2, whole), ROWS);
    for (o.microbatches = 2; o.microbatches <= 64; o.microbatches *= 2) {
        assert_int_equal(epoch_rows(&o, 2, rows), ROWS);
        assert_memory_equal(rows, whole, sizeof rows);
    }
}

static void order_puts_position_p_into_the_leaf_of_its_formula(void **state)
{
    (void)state;
    uint64_t rows[BATCH + 1];
    struct order o = {.rows = 11, .batch_size = 64, .seed = 1, .microbatches = 4};
    static const uint32_t wanted[] = {2, 3, 3,
                                      3}; /* borders 0, 2.75, 5.5, 8.25, 11, rounded down */
    for (uint32_t leaf = 0; leaf < 4; leaf++)
        assert_int_equal(order_leaf(&o, 0, leaf, rows), wanted[leaf]);
}

static void order_gives_empty_leaves_in_a_very_short_batch(void **state)
{
    (void)state;
    uint64_t rows[BATCH + 1], n = 0;
    struct order o = {.rows = 65, .batch_size = 64, .seed = 1, .microbatches = 8};
    for (uint32_t leaf = 0; leaf < 8; leaf++)
        n += order_leaf(&o, 1, leaf, rows);
    assert_int_equal(n, 1);
}

static unsigned same_places(const struct order *a, uint64_t epoch_a, const struct order *b,
                            uint64_t epoch_b)
{
    uint64_t x[ROWS], y[ROWS];
    unsigned same = 0;
    epoch_rows(a, epoch_a, x);
    epoch_rows(b, epoch_b, y);
    for (int i = 0; i < ROWS; i++)
        same += x[i] == y[i];
    return same;
}

static void order_is_another_one_in_each_epoch_and_for_each_seed(void **state)
{
    (void)state;
    struct order other = plain;
    other.seed = 2;
    assert_int_equal(same_places(&plain, 5, &plain, 5), ROWS);
    assert_true(same_places(&plain, 0, &plain, 1) < 12); /* one on average */
    assert_true(same_places(&plain, 0, &other, 0) < 12);
    assert_true(same_places(&plain, 1, &other, 0) < 12);
}

static uint64_t held_of(uint64_t key, double share, uint64_t numbers)
{
    uint64_t held = 0;
    for (uint64_t n = 0; n < numbers; n++)
        held += order_holds_out(key, n, share);
    return held;
}

/* As docs/reference/data.md computes them. */
static void order_holds_out_a_share_by_a_hash(void **state)
{
    (void)state;
    static const uint64_t rows[] = {3, 9, 18, 34, 46},
                          keys[] = {11, 14, 15, 17, 21, 38, 40, 41, 42};
    const uint64_t of_rows = order_hold_key(7, false), of_keys = order_hold_key(7, true);
    for (uint64_t n = 0, i = 0, k = 0; n < 60; n++) {
        bool row = i < sizeof rows / sizeof *rows && rows[i] == n;
        bool key = k < sizeof keys / sizeof *keys && keys[k] == n;
        assert_int_equal(order_holds_out(of_rows, n, 0.1), row);
        assert_int_equal(order_holds_out(of_keys, n, 0.1), key);
        i += row;
        k += key;
    }
    assert_int_equal(held_of(of_rows, 0.1, 100000), 10132);
    assert_int_equal(held_of(of_keys, 0.1, 100000), 9846);
    assert_int_equal(order_hold_key(8, true), of_keys);
    assert_int_not_equal(order_hold_key(8, false), of_rows);
}

static void order_holds_out_the_last_rows_rounded_down(void **state)
{
    (void)state;
    assert_int_equal(order_last(1000, 0.1), 100);
    assert_int_equal(order_last(19, 0.1), 1);
    assert_int_equal(order_last(9, 0.1), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order_counts_a_short_last_batch),
        cmocka_unit_test(order_deals_every_row_once_in_an_epoch),
        cmocka_unit_test(order_of_a_batch_does_not_depend_on_its_leaves),
        cmocka_unit_test(order_puts_position_p_into_the_leaf_of_its_formula),
        cmocka_unit_test(order_gives_empty_leaves_in_a_very_short_batch),
        cmocka_unit_test(order_is_another_one_in_each_epoch_and_for_each_seed),
        cmocka_unit_test(order_holds_out_a_share_by_a_hash),
        cmocka_unit_test(order_holds_out_the_last_rows_rounded_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
