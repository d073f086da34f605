/* Eviction of rows by age: who is there, how many, and whose memory comes back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/base/mem.h"
#include "ps/rows/row_evict.h"

static const struct bucket_range all = {0, ROW_BUCKETS};

static void a_row_is_gone_so_many_clocks_after_its_touch(void **state)
{
    (void)state;
    assert_true(row_is_there(3, 10, 10));
    assert_true(row_is_there(3, 10, 12));
    assert_false(row_is_there(3, 10, 13));
    assert_true(row_is_there(3, 10, 9)); /* touched in the step in the making */
    assert_true(row_is_there(0, 1, UINT64_MAX));
}

enum { KEYS = 3000, UNSEEN = 7, CLOCKS = 300 };

/* Touch some rows at this clock, in the table and in stamp[]. */
static void touch_some(struct row_evict *e, struct row_table *t, uint64_t *stamp, uint64_t clock)
{
    for (uint32_t i = 0; i < 200; i++) {
        uint32_t k = (uint32_t)rand() % KEYS, row;
        uint64_t mixed = key_mix(k);
        if (row_table_find(t, &mixed, 1, &row))
            (void)row_evict_leave(e, row_stamp(t, row));
        else
            assert_int_equal(row_table_add(t, mixed, &row), ERR_OK);
        row_set_stamp(t, row, clock);
        row_evict_enter(e, clock);
        stamp[k] = clock;
    }
}

static uint64_t rows_there(const uint64_t *stamp, uint64_t clock)
{
    uint64_t rows = 0;
    for (uint32_t k = 0; k < KEYS; k++)
        rows += stamp[k] && row_is_there(UNSEEN, stamp[k], clock);
    return rows;
}

static void rows_are_counted_by_their_stamps_whenever_the_sweeper_comes(void **state)
{
    (void)state;
    static uint64_t stamp[KEYS];
    struct row_table *t;
    struct row_evict e;
    assert_int_equal(row_table_new(&t, 1, 0, all), ERR_OK);
    assert_int_equal(row_evict_init(&e, UNSEEN), ERR_OK);
    for (uint64_t clock = 1; clock <= CLOCKS; clock++) {
        uint64_t before = e.rows, gone = row_evict_advance(&e, clock);
        assert_int_equal(before - e.rows, gone);
        assert_int_equal(e.rows, rows_there(stamp, clock));
        if (rand() % 3 == 0)
            row_evict_sweep(&e, t, clock, 0);
        touch_some(&e, t, stamp, clock);
        assert_int_equal(e.rows, rows_there(stamp, clock));
    }
    struct row_evict again;
    assert_int_equal(row_evict_init(&again, UNSEEN), ERR_OK);
    row_evict_count(&again, t, CLOCKS);
    assert_int_equal(again.rows, e.rows);
    (void)row_evict_advance(&e, CLOCKS + 2 * UNSEEN);
    assert_int_equal(e.rows, 0);
    row_evict_close(&again);
    row_evict_close(&e);
    row_table_free(t);
}

static void the_sweeper_looks_at_a_bounded_number_of_rows_and_comes_to_all(void **state)
{
    (void)state;
    struct row_table *t;
    struct row_evict e;
    assert_int_equal(row_table_new(&t, 1, 0, all), ERR_OK);
    assert_int_equal(row_evict_init(&e, UNSEEN), ERR_OK);
    for (uint64_t k = 0; k < 10000; k++) {
        uint32_t row;
        assert_int_equal(row_table_add(t, key_mix(k), &row), ERR_OK);
        row_set_stamp(t, row, k % 2 ? 1 : 100);
    }
    row_evict_sweep(&e, t, 1 + UNSEEN - 1, 0);
    assert_int_equal(row_table_rows(t), 10000); /* none is absent yet */
    row_evict_sweep(&e, t, 1 + UNSEEN, 0);
    assert_in_range(row_table_rows(t), 7900, 9999);
    for (int i = 0; i < 6; i++)
        row_evict_sweep(&e, t, 1 + UNSEEN, 0);
    assert_int_equal(row_table_rows(t), 5000);
    row_evict_close(&e);
    row_table_free(t);
}

static void no_memory_for_counts_is_said(void **state)
{
    (void)state;
    struct row_evict e;
    mem_fail_at(0);
    assert_int_equal(row_evict_init(&e, UNSEEN), ERR_NOMEM);
    mem_fail_at(-1);
    row_evict_close(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_is_gone_so_many_clocks_after_its_touch),
        cmocka_unit_test(rows_are_counted_by_their_stamps_whenever_the_sweeper_comes),
        cmocka_unit_test(the_sweeper_looks_at_a_bounded_number_of_rows_and_comes_to_all),
        cmocka_unit_test(no_memory_for_counts_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
