/* Which ps a worker does not reach: two ps with two shards each. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "worker/core/unreached.h"

enum { SHARDS = 4 };

static struct plan_shard shard[SHARDS] = {{.ps = 0}, {.ps = 0}, {.ps = 1}, {.ps = 1}};
static const struct plan plan = {.shards = SHARDS, .shard = shard};

static void all_up(struct unreached *u)
{
    assert_int_equal(unreached_begin(u, SHARDS, 1000), ERR_OK);
    for (uint32_t i = 0; i < SHARDS; i++)
        unreached_up(u, i);
}

static void a_link_that_is_dialed_again_at_once_is_no_news(void **state)
{
    (void)state;
    struct unreached u = {0};
    all_up(&u);
    unreached_down(&u, 2, 5000, 0, true);
    assert_false(unreached_is_news(&u, &plan, 5000 + UNREACHED_AFTER_MS - 1));
    unreached_up(&u, 2);
    assert_false(unreached_is_news(&u, &plan, 9000));
    unreached_close(&u);
}

static void a_ps_that_is_not_reached_is_told_once_with_the_time_since_it_was_heard(void **state)
{
    (void)state;
    struct unreached u = {0};
    uint32_t ps = 7;
    int64_t away_ms;
    all_up(&u);
    unreached_down(&u, 3, 20000, 8000, true);
    unreached_down(&u, 3, 21000, 0, true); /* dialed again, in vain */
    assert_true(unreached_longest(&u, &plan, 21000, &ps, &away_ms));
    assert_int_equal(ps, 1);
    assert_int_equal(away_ms, 9000);
    assert_true(unreached_is_news(&u, &plan, 21000));
    assert_false(unreached_is_news(&u, &plan, 22000));
    unreached_welcomed(&u); /* by another chief */
    assert_true(unreached_is_news(&u, &plan, 23000));
    unreached_up(&u, 3);
    assert_true(unreached_is_news(&u, &plan, 24000));
    assert_false(unreached_longest(&u, &plan, 24000, &ps, &away_ms));
    unreached_close(&u);
}

static void the_ps_that_is_away_longest_is_named(void **state)
{
    (void)state;
    struct unreached u = {0};
    uint32_t ps;
    int64_t away_ms;
    all_up(&u);
    unreached_down(&u, 0, 6000, 0, true);
    unreached_down(&u, 2, 5000, 0, true);
    assert_true(unreached_longest(&u, &plan, 10000, &ps, &away_ms));
    assert_int_equal(ps, 1);
    unreached_up(&u, 2);
    assert_true(unreached_longest(&u, &plan, 10000, &ps, &away_ms));
    assert_int_equal(ps, 0);
    unreached_close(&u);
}

static void a_ps_that_never_answered_is_away_from_the_beginning(void **state)
{
    (void)state;
    struct unreached u = {0};
    uint32_t ps;
    int64_t away_ms;
    assert_int_equal(unreached_begin(&u, SHARDS, 1000), ERR_OK);
    assert_true(unreached_longest(&u, &plan, 4000, &ps, &away_ms));
    assert_int_equal(away_ms, 3000);
    unreached_close(&u);
}

enum { BOUND_S = 60, ANSWERS_MS = 2000 };

static enum unreached_act look(struct unreached *u, int64_t now_ms)
{
    struct unreached_seen seen;
    (void)unreached_look(u, &plan, now_ms - 1, BOUND_S, ANSWERS_MS, &seen); /* none is late */
    return unreached_look(u, &plan, now_ms, BOUND_S, ANSWERS_MS, &seen);
}

static void parked_it_tells_nothing_and_comes_back_when_every_shard_answers(void **state)
{
    (void)state;
    struct unreached u = {0};
    all_up(&u);
    unreached_down(&u, 2, 5000, 0, true);
    unreached_park(&u, 7000);
    assert_int_equal(look(&u, 7001), UNREACHED_NOTHING);
    unreached_up(&u, 2);
    unreached_down(&u, 0, 9000, 0, true); /* it turns us away, and is dialed again */
    assert_int_equal(look(&u, 9002 + ANSWERS_MS + UNREACHED_AFTER_MS), UNREACHED_NOTHING);
    unreached_up(&u, 0); /* so late */
    unreached_down(&u, 0, 13000, 0, true);
    assert_int_equal(look(&u, 13000 + ANSWERS_MS), UNREACHED_BACK);
    assert_int_equal(u.park, PARK_IS_OVER);
    assert_int_equal(look(&u, 20000), UNREACHED_NOTHING); /* until the chief says something */
    unreached_welcomed(&u);
    assert_int_equal(u.park, UNPARKED);
    unreached_close(&u);
}

static void it_gives_up_behind_the_bound_later_where_it_is_not_parked(void **state)
{
    (void)state;
    struct unreached u = {0};
    struct unreached_seen seen;
    all_up(&u);
    unreached_down(&u, 2, 1000, 0, true);
    u.looked_ms = 60000;
    assert_int_equal(unreached_look(&u, &plan, 61001, BOUND_S, ANSWERS_MS, &seen), UNREACHED_TELL);
    assert_int_equal(unreached_look(&u, &plan, 62000, BOUND_S, ANSWERS_MS, &seen),
                     UNREACHED_NOTHING);
    unreached_park(&u, 62000);
    assert_int_equal(unreached_look(&u, &plan, 62001, BOUND_S, ANSWERS_MS, &seen),
                     UNREACHED_GIVE_UP);
    assert_int_equal(seen.ps, 1);
    u.park = UNPARKED;
    u.looked_ms = 71000;
    assert_int_equal(unreached_look(&u, &plan, 71001, BOUND_S, ANSWERS_MS, &seen),
                     UNREACHED_GIVE_UP);
    unreached_close(&u);
}

/* Messages that came meanwhile have not been read. */
static void a_look_that_comes_late_says_nothing(void **state)
{
    (void)state;
    struct unreached u = {0};
    struct unreached_seen seen;
    all_up(&u);
    unreached_down(&u, 2, 5000, 0, true);
    u.looked_ms = 5000;
    assert_int_equal(
        unreached_look(&u, &plan, 5001 + UNREACHED_LATE_MS, BOUND_S, ANSWERS_MS, &seen),
        UNREACHED_NOTHING);
    assert_int_equal(
        unreached_look(&u, &plan, 5002 + UNREACHED_LATE_MS, BOUND_S, ANSWERS_MS, &seen),
        UNREACHED_TELL);
    unreached_close(&u);
}

/* A path that loses large packets: each hello passes, and no push. */
static void a_hello_that_is_accepted_again_and_again_ends_no_absence(void **state)
{
    (void)state;
    struct unreached u = {0};
    uint32_t ps;
    int64_t away_ms;
    all_up(&u);
    unreached_down(&u, 2, 20000, 8000, true);
    unreached_greeted(&u, 2);
    assert_false(unreached_longest(&u, &plan, 30000, &ps, &away_ms));
    unreached_down(&u, 2, 30000, 8000, true);
    unreached_greeted(&u, 2);
    assert_true(unreached_longest(&u, &plan, 31000, &ps, &away_ms));
    assert_int_equal(away_ms, 19000);
    unreached_up(&u, 2);
    assert_false(unreached_longest(&u, &plan, 31000, &ps, &away_ms));
    /* with nothing asked, as an idle worker's, the hello is enough */
    unreached_down(&u, 2, 40000, 0, true);
    unreached_greeted(&u, 2);
    unreached_down(&u, 2, 50000, 0, false);
    unreached_greeted(&u, 2);
    assert_false(unreached_longest(&u, &plan, 60000, &ps, &away_ms));
    /* and while it is parked */
    unreached_down(&u, 2, 60000, 0, true);
    unreached_park(&u, 61000);
    unreached_greeted(&u, 2);
    assert_false(unreached_longest(&u, &plan, 70000, &ps, &away_ms));
    unreached_close(&u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_link_that_is_dialed_again_at_once_is_no_news),
        cmocka_unit_test(a_ps_that_is_not_reached_is_told_once_with_the_time_since_it_was_heard),
        cmocka_unit_test(the_ps_that_is_away_longest_is_named),
        cmocka_unit_test(a_ps_that_never_answered_is_away_from_the_beginning),
        cmocka_unit_test(parked_it_tells_nothing_and_comes_back_when_every_shard_answers),
        cmocka_unit_test(it_gives_up_behind_the_bound_later_where_it_is_not_parked),
        cmocka_unit_test(a_look_that_comes_late_says_nothing),
        cmocka_unit_test(a_hello_that_is_accepted_again_and_again_ends_no_absence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
