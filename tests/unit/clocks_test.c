/* The clocks of bounded staleness: who holds whom up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ps/core/clocks.h"

static uint64_t enter(struct clocks *c, uint32_t worker, uint64_t incarnation, uint64_t entry)
{
    uint64_t clock = UINT64_MAX;
    assert_int_equal(clocks_enter(c, worker, incarnation, entry, &clock), ERR_OK);
    return clock;
}

static void a_worker_may_be_ahead_of_the_last_by_the_bound(void **state)
{
    (void)state;
    struct clocks c = {0};
    assert_true(clocks_may_read(&c, 1000, 0)); /* nobody is live */
    assert_int_equal(enter(&c, 0, 1, 1), 0);
    assert_int_equal(enter(&c, 1, 1, 1), 0);
    clocks_tick(&c, 0, 1, 1, 3, false);
    assert_int_equal(clocks_least(&c), 0);
    assert_int_equal(clocks_last(&c)->worker, 1);
    assert_true(clocks_may_read(&c, 0, 0));
    assert_true(clocks_may_read(&c, 3, 3));
    assert_false(clocks_may_read(&c, 3, 2));
    clocks_tick(&c, 1, 1, 1, 1, false);
    assert_true(clocks_may_read(&c, 3, 2));
    clocks_close(&c);
}

static void who_is_idle_holds_nobody_up(void **state)
{
    (void)state;
    struct clocks c = {0};
    assert_int_equal(enter(&c, 0, 1, 1) + enter(&c, 1, 1, 1), 0);
    clocks_tick(&c, 0, 1, 1, 9, false);
    clocks_tick(&c, 1, 1, 1, 4, true);
    assert_int_equal(clocks_least(&c), 9);
    clocks_tick(&c, 0, 1, 1, 10, true);
    assert_int_equal(clocks_least(&c), UINT64_MAX);
    clocks_close(&c);
}

static void who_begins_does_so_at_the_least_clock_or_at_the_highest_there_was(void **state)
{
    (void)state;
    struct clocks c = {0};
    assert_int_equal(enter(&c, 0, 1, 1), 0);
    clocks_tick(&c, 0, 1, 1, 5, false);
    assert_int_equal(enter(&c, 1, 1, 1), 5);
    clocks_tick(&c, 0, 1, 1, 6, false);
    assert_int_equal(enter(&c, 1, 1, 1), 5); /* sent again */
    clocks_tick(&c, 0, 1, 1, 7, true);
    clocks_tick(&c, 1, 1, 1, 6, true);
    assert_int_equal(enter(&c, 1, 1, 2), 7); /* nobody is live */
    assert_int_equal(enter(&c, 0, 1, 2), 7);
    clocks_close(&c);
}

static void what_was_said_of_a_former_entry_or_comes_late_changes_nothing(void **state)
{
    (void)state;
    struct clocks c = {0};
    assert_int_equal(enter(&c, 0, 1, 1), 0);
    clocks_tick(&c, 0, 1, 1, 5, false);
    clocks_tick(&c, 0, 1, 1, 4, false);
    assert_int_equal(clocks_least(&c), 5);
    assert_int_equal(enter(&c, 0, 1, 2), 5);
    clocks_tick(&c, 0, 1, 1, 5, true); /* that it was idle is long over */
    assert_int_equal(clocks_least(&c), 5);
    clocks_tick(&c, 7, 1, 1, 5, true); /* nobody */
    clocks_tick(&c, 0, 2, 2, 8, false);
    assert_int_equal(clocks_least(&c), 5);
    clocks_close(&c);
}

static void a_dead_process_holds_all_up_until_it_is_dropped(void **state)
{
    (void)state;
    struct clocks c = {0};
    assert_int_equal(enter(&c, 0, 1, 1) + enter(&c, 1, 1, 1), 0);
    clocks_tick(&c, 0, 1, 1, 2, false);
    assert_int_equal(enter(&c, 1, 5, 1), 0); /* its successor */
    clocks_tick(&c, 1, 5, 1, 2, false);
    assert_false(clocks_may_read(&c, 2, 1));
    clocks_drop(&c, 1, 5);
    assert_true(clocks_may_read(&c, 2, 0));
    assert_int_equal(clocks_least(&c), 2);
    clocks_drop(&c, 1, 6);
    assert_int_equal(c.n, 1);
    clocks_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_worker_may_be_ahead_of_the_last_by_the_bound),
        cmocka_unit_test(who_is_idle_holds_nobody_up),
        cmocka_unit_test(who_begins_does_so_at_the_least_clock_or_at_the_highest_there_was),
        cmocka_unit_test(what_was_said_of_a_former_entry_or_comes_late_changes_nothing),
        cmocka_unit_test(a_dead_process_holds_all_up_until_it_is_dropped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
