/* How often the chief takes cuts: by the job's keys, or by what the last one cost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "worker/chief/core/chief_state.h"

static uint64_t made;

static uint64_t steps(const struct chief *c)
{
    (void)c;
    return made;
}

static const struct chief_mode mode = {.steps = steps};

enum { BEGAN = 1000000 };

/* A generation has begun at BEGAN, at step 40, and 50 are made. */
static struct chief chief_of(uint32_t every_steps, uint32_t every_seconds)
{
    struct chief c = {.mode = &mode,
                      .now_ms = BEGAN,
                      .last_cut_ms = BEGAN,
                      .published_step = 40,
                      .published_cut = 7,
                      .config.checkpoint = {every_steps, every_seconds, .keep = 3}};
    made = 50;
    pace_begin(&c);
    return c;
}

/* Cut 8 of this step, decided on at `began_ms`, is published at `ends_ms`. */
static void publish(struct chief *c, uint64_t step, int64_t began_ms, int64_t ends_ms)
{
    c->now_ms = c->last_cut_ms = ends_ms;
    c->cut = (struct chief_cut){.began_ms = began_ms};
    c->published_step = step;
    c->published_cut++;
    pace_published(c);
}

static bool due_at(struct chief *c, int64_t ms)
{
    c->now_ms = ms;
    return pace_is_due(c);
}

static void a_cut_is_due_when_the_last_one_took_one_percent_of_the_time(void **state)
{
    (void)state;
    struct chief c = chief_of(CHECKPOINT_AUTO, CHECKPOINT_AUTO);
    publish(&c, 50, BEGAN, BEGAN + 40);
    made = 51;
    assert_false(due_at(&c, BEGAN + 3999)); /* from its beginning */
    assert_true(due_at(&c, BEGAN + 4000));
    publish(&c, 51, BEGAN + 4000, BEGAN + 4020);
    made = 52;
    assert_false(
        due_at(&c, BEGAN + 5999)); /* the last one counts alone: the one before it is paid off */
    assert_true(due_at(&c, BEGAN + 6000));
}

static void cuts_that_cost_nothing_are_a_second_apart(void **state)
{
    (void)state;
    struct chief c = chief_of(CHECKPOINT_AUTO, CHECKPOINT_AUTO);
    publish(&c, 50, BEGAN, BEGAN);
    made = 1000;
    assert_false(due_at(&c, BEGAN + CHIEF_CUT_LEAST_MS - 1));
    assert_true(due_at(&c, BEGAN + CHIEF_CUT_LEAST_MS));
}

static void without_a_step_no_cut_is_due(void **state)
{
    (void)state;
    struct chief c = chief_of(CHECKPOINT_AUTO, CHECKPOINT_AUTO);
    publish(&c, 50, BEGAN, BEGAN + 1);
    assert_false(due_at(&c, BEGAN + 1000000));
}

/* Its snapshot has gigabytes. */
static void a_cut_that_costs_much_is_due_after_500_steps_and_60_s_as_ever(void **state)
{
    (void)state;
    struct chief c = chief_of(CHECKPOINT_AUTO, CHECKPOINT_AUTO);
    publish(&c, 50, BEGAN, BEGAN + 5000);
    made = 549;
    assert_false(due_at(&c, BEGAN + 499999));
    assert_true(due_at(&c, BEGAN + 500000)); /* it is paid off, however few the steps */
    made = 550;
    assert_false(due_at(&c, BEGAN + 5000 + 59999)); /* from its end */
    assert_true(due_at(&c, BEGAN + 5000 + 60000));
}

static void a_chief_that_has_published_none_takes_one_to_learn_what_it_costs(void **state)
{
    (void)state;
    struct chief c = chief_of(CHECKPOINT_AUTO, CHECKPOINT_AUTO);
    assert_false(due_at(&c, BEGAN + CHIEF_CUT_LEAST_MS - 1));
    assert_true(due_at(&c, BEGAN + CHIEF_CUT_LEAST_MS));
}

/* A ps that dies again and again does not make each generation begin with a cut. */
static void a_generation_counts_from_its_beginning_and_keeps_the_cost(void **state)
{
    (void)state;
    struct chief c = chief_of(CHECKPOINT_AUTO, CHECKPOINT_AUTO);
    publish(&c, 50, BEGAN, BEGAN + 40);
    made = 60;
    c.now_ms = BEGAN + 3000;
    pace_begin(&c);
    assert_false(due_at(&c, BEGAN + 3000 + 3999));
    assert_true(due_at(&c, BEGAN + 3000 + 4000));
}

static void keys_that_are_given_are_obeyed(void **state)
{
    (void)state;
    struct chief c = chief_of(20, 0);
    publish(&c, 50, BEGAN, BEGAN + 40);
    made = 69;
    assert_false(due_at(&c, BEGAN + 1000000));
    made = 70;
    assert_true(due_at(&c, BEGAN + 40));
    c = chief_of(0, 10);
    publish(&c, 50, BEGAN, BEGAN + 1);
    made = 51;
    assert_false(due_at(&c, BEGAN + 1 + 9999));
    assert_true(due_at(&c, BEGAN + 1 + 10000));
    c = chief_of(0, 0);
    publish(&c, 50, BEGAN, BEGAN + 1);
    made = 1000000;
    assert_false(due_at(&c, BEGAN + 1000000000));
}

static void beside_a_key_that_is_given_auto_is_500_steps_or_60_s(void **state)
{
    (void)state;
    struct chief c = chief_of(20, CHECKPOINT_AUTO);
    publish(&c, 50, BEGAN, BEGAN + 1);
    made = 1000;
    assert_false(due_at(&c, BEGAN + 1 + 59999));
    assert_true(due_at(&c, BEGAN + 1 + 60000));
    c = chief_of(CHECKPOINT_AUTO, 1);
    publish(&c, 50, BEGAN, BEGAN + 1);
    made = 549;
    assert_false(due_at(&c, BEGAN + 1000000));
    made = 550;
    assert_true(due_at(&c, BEGAN + 1 + 1000));
}

static void an_evaluation_counts_as_a_part_of_its_cut(void **state)
{
    (void)state;
    struct chief c = chief_of(CHECKPOINT_AUTO, CHECKPOINT_AUTO);
    c.config.timeouts.evaluator_s = 300;
    publish(&c, 50, BEGAN, BEGAN + 40);
    made = 60;
    pace_judged(&c, c.published_cut, 160);
    assert_false(due_at(&c, BEGAN + 19999));
    assert_true(due_at(&c, BEGAN + 20000));
}

/* It is behind, or is not there. */
static void a_cut_without_the_evaluator_s_result_is_followed_as_ever(void **state)
{
    (void)state;
    struct chief c = chief_of(CHECKPOINT_AUTO, CHECKPOINT_AUTO);
    c.config.timeouts.evaluator_s = 300;
    pace_judged(&c, c.published_cut, 1); /* of the one before */
    publish(&c, 50, BEGAN, BEGAN + 1);
    made = 549;
    assert_false(due_at(&c, BEGAN + 1000000));
    made = 550;
    assert_false(due_at(&c, BEGAN + 1 + 59999));
    assert_true(due_at(&c, BEGAN + 1 + 60000));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cut_is_due_when_the_last_one_took_one_percent_of_the_time),
        cmocka_unit_test(cuts_that_cost_nothing_are_a_second_apart),
        cmocka_unit_test(without_a_step_no_cut_is_due),
        cmocka_unit_test(a_cut_that_costs_much_is_due_after_500_steps_and_60_s_as_ever),
        cmocka_unit_test(a_chief_that_has_published_none_takes_one_to_learn_what_it_costs),
        cmocka_unit_test(a_generation_counts_from_its_beginning_and_keeps_the_cost),
        cmocka_unit_test(keys_that_are_given_are_obeyed),
        cmocka_unit_test(beside_a_key_that_is_given_auto_is_500_steps_or_60_s),
        cmocka_unit_test(an_evaluation_counts_as_a_part_of_its_cut),
        cmocka_unit_test(a_cut_without_the_evaluator_s_result_is_followed_as_ever),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
