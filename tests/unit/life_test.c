/* The life of a ps: which events lead where, and what never comes back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ps/life.h"

enum { NO_MORE = -1 };

/* After these events, up to NO_MORE. */
static enum life after(bool done, const int *what)
{
    enum life l = life_begin(done);
    for (; *what != NO_MORE; what++)
        l = life_next(l, (enum life_event) * what);
    return l;
}

#define AFTER(done, ...) after(done, (const int[]){__VA_ARGS__, NO_MORE})

static void a_ps_trains_from_the_first_generation_until_its_loop_ends(void **state)
{
    (void)state;
    assert_true(life_is[life_begin(false)].before_chief);
    assert_int_equal(AFTER(false, LIFE_CHIEF), LIFE_MET);
    assert_int_equal(AFTER(false, LIFE_CHIEF, LIFE_ENTER), LIFE_TRAINING);
    assert_int_equal(AFTER(false, LIFE_CHIEF, LIFE_ENTER, LIFE_CHIEF, LIFE_ENTER), LIFE_TRAINING);
    assert_int_equal(AFTER(false, LIFE_CHIEF, LIFE_ENTER, LIFE_STOP), LIFE_STOPPING);
    assert_true(life_is[LIFE_TRAINING].entered);
    assert_false(life_is[LIFE_MET].entered);
}

static void a_ps_that_waits_for_ever_is_idle_until_a_generation_begins(void **state)
{
    (void)state;
    assert_int_equal(AFTER(false, LIFE_ALONE), LIFE_IDLE);
    assert_int_equal(AFTER(false, LIFE_CHIEF, LIFE_ALONE), LIFE_IDLE);
    assert_int_equal(AFTER(false, LIFE_ALONE, LIFE_CHIEF), LIFE_IDLE);
    assert_int_equal(AFTER(false, LIFE_ALONE, LIFE_CHIEF, LIFE_ENTER), LIFE_TRAINING);
    assert_true(life_is[LIFE_IDLE].rests);
    assert_false(life_is[LIFE_IDLE].done);
}

static void a_job_that_is_done_stays_so_until_a_generation_begins(void **state)
{
    (void)state;
    assert_true(life_is[life_begin(true)].done);
    assert_true(life_is[life_begin(true)].before_chief);
    assert_int_equal(AFTER(true, LIFE_CHIEF), LIFE_DONE_MET);
    assert_int_equal(AFTER(true, LIFE_CHIEF, LIFE_CHIEF), LIFE_DONE_MET);
    assert_int_equal(AFTER(true, LIFE_CHIEF, LIFE_OVER), LIFE_DONE_MET);
    assert_int_equal(AFTER(true, LIFE_CHIEF, LIFE_ENTER), LIFE_TRAINING);
    assert_int_equal(AFTER(false, LIFE_CHIEF, LIFE_OVER), LIFE_DONE_MET);
    assert_int_equal(AFTER(false, LIFE_ALONE, LIFE_CHIEF, LIFE_OVER), LIFE_DONE_MET);
    assert_false(life_is[LIFE_DONE_MET].before_chief);
    assert_true(life_is[LIFE_DONE_MET].rests);
}

static void a_ps_that_is_told_to_go_waits_only_where_it_has_parameters(void **state)
{
    (void)state;
    assert_int_equal(AFTER(false, LIFE_CHIEF, LIFE_ENTER, LIFE_TOLD), LIFE_GOING);
    assert_int_equal(AFTER(false, LIFE_CHIEF, LIFE_ENTER, LIFE_TOLD, LIFE_ENTER, LIFE_CHIEF),
                     LIFE_GOING);
    assert_true(life_is[LIFE_GOING].entered);
    assert_int_equal(AFTER(false, LIFE_TOLD), LIFE_LEAVING);
    assert_int_equal(AFTER(false, LIFE_CHIEF, LIFE_TOLD), LIFE_LEAVING);
    assert_int_equal(AFTER(false, LIFE_ALONE, LIFE_TOLD), LIFE_LEAVING);
    assert_int_equal(AFTER(true, LIFE_TOLD), LIFE_LEAVING);
    assert_false(life_is[LIFE_LEAVING].entered);
}

static void no_other_life_follows_when_a_ps_was_told_to_go(void **state)
{
    (void)state;
    const int *const told[] = {
        (const int[]){LIFE_TOLD, LIFE_STOP, NO_MORE},
        (const int[]){LIFE_STOP, LIFE_TOLD, NO_MORE},
        (const int[]){LIFE_CHIEF, LIFE_ENTER, LIFE_TOLD, LIFE_TOLD, LIFE_STOP, NO_MORE},
        (const int[]){LIFE_CHIEF, LIFE_ENTER, LIFE_STOP, LIFE_TOLD, LIFE_TOLD, NO_MORE},
    };
    for (size_t i = 0; i < sizeof told / sizeof *told; i++)
        assert_int_equal(after(false, told[i]), LIFE_LAST);
    assert_false(life_is[AFTER(false, LIFE_CHIEF, LIFE_ENTER, LIFE_STOP)].told);
}

static void the_outside_is_told_training_only_while_a_chief_is_there(void **state)
{
    (void)state;
    static const struct {
        enum life life;
        enum process_state alone, with_chief;
    } want[] = {
        {LIFE_NEW, STATE_WAITING, STATE_WAITING},    {LIFE_MET, STATE_WAITING, STATE_WAITING},
        {LIFE_IDLE, STATE_IDLE, STATE_IDLE},         {LIFE_DONE, STATE_DONE, STATE_DONE},
        {LIFE_DONE_MET, STATE_DONE, STATE_DONE},     {LIFE_TRAINING, STATE_WAITING, STATE_TRAINING},
        {LIFE_GOING, STATE_WAITING, STATE_TRAINING},
    };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        assert_int_equal(life_process_state(want[i].life, false), want[i].alone);
        assert_int_equal(life_process_state(want[i].life, true), want[i].with_chief);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ps_trains_from_the_first_generation_until_its_loop_ends),
        cmocka_unit_test(a_ps_that_waits_for_ever_is_idle_until_a_generation_begins),
        cmocka_unit_test(a_job_that_is_done_stays_so_until_a_generation_begins),
        cmocka_unit_test(a_ps_that_is_told_to_go_waits_only_where_it_has_parameters),
        cmocka_unit_test(no_other_life_follows_when_a_ps_was_told_to_go),
        cmocka_unit_test(the_outside_is_told_training_only_while_a_chief_is_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
