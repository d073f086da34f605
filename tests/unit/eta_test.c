/* The time left (worker/control/progress.h), over the steps of jobs whose end is known. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdbool.h>
#include <stdio.h>

#include "worker/control/progress.h"

enum { STEPS_MAX = 20000 };

/* The steps of a job that a chief's process sees. */
struct trace {
    bool all_wait;
    uint64_t epochs, steps; /* steps: of an epoch */
    uint64_t n;
    uint64_t position[STEPS_MAX]; /* of the job, from 1 */
    double at_s[STEPS_MAX];
    double end_s;
};

static struct trace trace; /* of the test that runs */

static void begin(bool all_wait, uint64_t epochs, uint64_t steps)
{
    trace = (struct trace){.all_wait = all_wait, .epochs = epochs, .steps = steps};
}

/* A step of `seconds`; then the process waits `after_s`. */
static void add(uint64_t position, double seconds, double after_s)
{
    assert_true(trace.n < STEPS_MAX);
    trace.position[trace.n] = position;
    trace.at_s[trace.n++] = trace.end_s + seconds;
    trace.end_s += seconds + after_s;
}

static struct eta_place place(uint64_t position)
{
    return (struct eta_place){.epoch = (position - 1) / trace.steps + 1,
                              .epochs = trace.epochs,
                              .step = (position - 1) % trace.steps + 1,
                              .steps = trace.steps};
}

/* How much the time left is off: the largest factor, from the part `from` of the steps on. */
static double worst(double from)
{
    struct eta t = {.all_wait = trace.all_wait};
    double worst = 1;
    for (uint64_t i = 0; i < trace.n; i++) {
        struct eta_place at = place(trace.position[i]);
        eta_step(&t, &at, 1000 + trace.at_s[i]);
        double truth_s = trace.end_s - trace.at_s[i], said_s = eta_left_s(&t, &at);
        if ((double)i < from * (double)trace.n || truth_s < fmax(1, 0.02 * trace.end_s))
            continue; /* of the last steps, chance decides */
        double factor = isnan(said_s)      ? (double)INFINITY
                        : said_s > truth_s ? said_s / truth_s
                                           : truth_s / said_s;
        worst = fmax(worst, factor);
    }
    return worst;
}

/* From a twentieth of the job on, the time left is within 1.5 times of the truth. */
static void assert_told(void)
{
    double factor = worst(0.05);
    if (!(factor <= 1.5))
        fail_msg("the time left is off by %.2f times", factor);
}

static uint32_t seed;
static double random_1(void)
{
    seed = seed * 1664525 + 1013904223;
    return (double)(seed >> 8) / (1 << 24);
}

static void eta_of_steady_steps_is_exact(void **state)
{
    (void)state;
    begin(true, 4, 250);
    for (uint64_t i = 1; i <= 1000; i++)
        add(i, 0.02, 0);
    assert_told();
    assert_true(worst(0.05) < 1.01);
}

static void eta_does_not_count_the_slow_first_steps_or_what_was_before_them(void **state)
{
    (void)state;
    begin(true, 1, 1000);
    trace.end_s = 0;
    for (uint64_t i = 1; i <= 1000; i++)
        add(i, i == 1 ? 10 : i < 6 ? 0.3 : 0.022, 0);
    trace.end_s -= 10; /* the first step came after 10 s of waiting: this is not training */
    for (uint64_t i = 0; i < trace.n; i++)
        trace.at_s[i] -= 10;
    assert_told();
}

static void eta_counts_an_evaluation_for_each_epoch_once_one_was_seen(void **state)
{
    (void)state;
    begin(true, 10, 100);
    for (uint64_t i = 1; i <= 1000; i++)
        add(i, 0.01, i % 100 == 0 ? 0.4 : 0);
    assert_told();
    assert_true(worst(0.11) < 1.05);
    begin(true, 10, 100); /* a pause that is as long as the training, and four times as long */
    for (uint64_t i = 1; i <= 1000; i++)
        add(i, 0.01, i % 100 == 0 ? 4 : 0);
    assert_true(worst(0.11) < 1.05);
}

/* The pauses of the first three epochs end with a step of `early_s`, and those that follow are of 10 s. */
static void add_pauses_that_change(double early_s)
{
    begin(true, 40, 100);
    for (uint64_t i = 1; i <= 4000; i++)
        add(i, i % 100 == 1 && i <= 301 ? early_s : 0.01, i % 100 == 0 && i > 300 ? 10 : 0);
}

static void eta_follows_pauses_that_are_longer_from_some_epoch_on(void **state)
{
    (void)state;
    add_pauses_that_change(0.01); /* early_stopping.start_from_epoch: the best checkpoint begins */
    assert_true(worst(0.126) < 1.05); /* from the second long pause on */
    add_pauses_that_change(0);
    assert_true(worst(0.126) < 1.05);
    begin(true, 40, 100); /* a single wait */
    for (uint64_t i = 1; i <= 4000; i++)
        add(i, 0.01, i % 100 ? 0 : i == 1000 ? 20 : 0.4);
    assert_true(worst(0.26) < 1.2);
}

static void eta_of_epochs_of_one_step_counts_what_is_between_them(void **state)
{
    (void)state;
    begin(true, 200, 1);
    for (uint64_t i = 1; i <= 200; i++)
        add(i, 0.05, 0.1);
    assert_told();
}

static void eta_after_a_resume_or_a_takeover_knows_only_its_own_steps(void **state)
{
    (void)state;
    begin(true, 10, 200);
    for (uint64_t i = 1501; i <= 2000; i++)
        add(i, 0.03, i % 200 == 0 ? 0.5 : 0);
    assert_told();
    struct eta t = {.all_wait = true};
    struct eta_place at = place(1501);
    eta_step(&t, &at, 7000);
    assert_true(isnan(eta_left_s(&t, &at)));
    assert_true(eta_is_early(&t, &at)); /* 1 of 500 */
    at = place(1530);
    eta_step(&t, &at, 7001);
    assert_false(eta_is_early(&t, &at));
}

static void eta_bears_jitter(void **state)
{
    (void)state;
    for (seed = 1; seed < 200; seed++) {
        begin(true, 5, 200);
        for (uint64_t i = 1; i <= 1000; i++) {
            double noise = random_1() + random_1();
            add(i, random_1() < 0.02 ? 0.15 : 0.01 + 0.02 * noise, 0);
        }
        assert_told();
    }
}

static void eta_follows_a_rate_that_changes_and_forgets_a_single_wait(void **state)
{
    (void)state;
    begin(true, 10, 400);
    for (uint64_t i = 1; i <= 4000; i++) /* at 40 s, two of three workers leave */
        add(i, i <= 2000 ? 0.02 : 0.06, 0);
    assert_true(worst(0.54) < 1.5); /* from 40 s + 9 s on */
    begin(true, 10, 400);
    for (uint64_t i = 1; i <= 4000; i++) /* a worker starts again */
        add(i, i == 300 ? 5 : 0.02, 0);
    assert_told();
}

static void eta_after_hours_follows_a_change_within_minutes(void **state)
{
    (void)state;
    begin(true, 1, 18000);
    for (uint64_t i = 1; i <= 18000; i++)
        add(i, i <= 9000 ? 4 : 1, 0);
    assert_true(worst(9250.0 / 18000) < 1.5);
}

static void eta_goes_back_with_a_rollback(void **state)
{
    (void)state;
    begin(true, 2, 500);
    for (uint64_t i = 1; i <= 600; i++)
        add(i, 0.02, i == 600 ? 3 : 0);
    for (uint64_t i = 401; i <= 1000; i++)
        add(i, 0.02, 0);
    assert_true(worst(0.55) < 1.1); /* from the rollback on: 600 of 1200 steps */
}

static void eta_in_async_is_early_at_a_batch_before_the_first_one(void **state)
{
    (void)state;
    begin(false, 1, 1000);
    struct eta t = {.all_wait = false};
    static const uint64_t ended[] = {7, 6, 5};
    for (size_t i = 0; i < sizeof ended / sizeof ended[0]; i++) {
        struct eta_place at = place(ended[i]);
        eta_step(&t, &at, (double)i);
        assert_true(eta_is_early(&t, &at));
    }
}

static void eta_in_async_bears_bursts_and_batches_in_another_order(void **state)
{
    (void)state;
    for (seed = 1; seed < 50; seed++) {
        begin(false, 4, 1000);
        for (uint64_t i = 1; i + 40 <= 4000; i += 3) /* every third batch, with two other workers */
            add(i + (uint64_t)(random_1() * 8), (i / 3) % 20 == 0 ? 0.2 : 0.0005, 0);
        assert_told();
    }
    begin(false, 4, 1000); /* the chief's worker evaluates, and the others train */
    for (uint64_t i = 1; i <= 4000; i += i % 1000 == 1 ? 60 : 3)
        add(i, i % 1000 < 3 ? 0.2 : 0.01, 0);
    assert_told();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(eta_of_steady_steps_is_exact),
        cmocka_unit_test(eta_does_not_count_the_slow_first_steps_or_what_was_before_them),
        cmocka_unit_test(eta_counts_an_evaluation_for_each_epoch_once_one_was_seen),
        cmocka_unit_test(eta_follows_pauses_that_are_longer_from_some_epoch_on),
        cmocka_unit_test(eta_of_epochs_of_one_step_counts_what_is_between_them),
        cmocka_unit_test(eta_after_a_resume_or_a_takeover_knows_only_its_own_steps),
        cmocka_unit_test(eta_bears_jitter),
        cmocka_unit_test(eta_follows_a_rate_that_changes_and_forgets_a_single_wait),
        cmocka_unit_test(eta_after_hours_follows_a_change_within_minutes),
        cmocka_unit_test(eta_goes_back_with_a_rollback),
        cmocka_unit_test(eta_in_async_is_early_at_a_batch_before_the_first_one),
        cmocka_unit_test(eta_in_async_bears_bursts_and_batches_in_another_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
