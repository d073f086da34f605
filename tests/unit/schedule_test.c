#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "common/math/optimizer.h"
#include "tests/reference/schedule_keras.h"
#include "common/math/schedule.h"

static const struct {
    const char *name;
    float rate;
    struct schedule s;
} CASES[] = {
    {"exponential",
     0.1f,
     {.kind = SCHEDULE_EXPONENTIAL_DECAY, .decay_steps = 30, .decay_rate = 0.5f}},
    {"exponential_staircase",
     0.1f,
     {.kind = SCHEDULE_EXPONENTIAL_DECAY,
      .decay_steps = 10,
      .decay_rate = 0.96f,
      .staircase = true}},
    {"cosine", 0.1f, {.kind = SCHEDULE_COSINE_DECAY, .decay_steps = 100}},
    {"cosine_warmup",
     0.01f,
     {.kind = SCHEDULE_COSINE_DECAY,
      .decay_steps = 90,
      .alpha = 0.1f,
      .warmup_target = 0.2f,
      .warmup_target_steps = 11}},
    {"polynomial",
     0.1f,
     {.kind = SCHEDULE_POLYNOMIAL_DECAY,
      .decay_steps = 100,
      .end_learning_rate = 0.0001f,
      .power = 1.0f}},
    {"polynomial_root",
     0.1f,
     {.kind = SCHEDULE_POLYNOMIAL_DECAY,
      .decay_steps = 100,
      .end_learning_rate = 0.01f,
      .power = 0.5f}},
    {"polynomial_cycle",
     0.1f,
     {.kind = SCHEDULE_POLYNOMIAL_DECAY,
      .decay_steps = 30,
      .end_learning_rate = 0.01f,
      .power = 2.0f,
      .cycle = true}},
    {"piecewise",
     9.0f,
     {.kind = SCHEDULE_PIECEWISE_CONSTANT_DECAY,
      .boundaries = {2, {10, 100}},
      .values = {3, {0.5f, 0.25f, 0.125f}}}},
    {"inverse_time",
     0.1f,
     {.kind = SCHEDULE_INVERSE_TIME_DECAY, .decay_steps = 30, .decay_rate = 0.5f}},
    {"inverse_time_staircase",
     0.1f,
     {.kind = SCHEDULE_INVERSE_TIME_DECAY,
      .decay_steps = 10,
      .decay_rate = 2.0f,
      .staircase = true}},
};
enum { CASES_N = sizeof CASES / sizeof *CASES };

static const struct schedule *case_named(const char *name, float *rate)
{
    for (int i = 0; i < CASES_N; i++) {
        if (strcmp(CASES[i].name, name) == 0) {
            *rate = CASES[i].rate;
            return &CASES[i].s;
        }
    }
    fail_msg("no case %s", name);
    return NULL;
}

/* Keras computes in float, and a power of what is almost 0 has few right digits there. */
static void keras_has_the_same_rates(void **state)
{
    (void)state;
    assert_int_equal(sizeof KERAS / sizeof *KERAS, CASES_N);
    for (int c = 0; c < CASES_N; c++) {
        float rate = 0;
        const struct schedule *s = case_named(KERAS[c].name, &rate);
        for (size_t i = 0; i < sizeof KERAS_STEP / sizeof *KERAS_STEP; i++) {
            double is = schedule_rate(s, rate, KERAS_STEP[i] + 1);
            if (!(fabs(is - KERAS[c].rate[i]) <= 1e-7))
                fail_msg("%s, step %d: %.9g, Keras has %.9g", KERAS[c].name, (int)KERAS_STEP[i], is,
                         KERAS[c].rate[i]);
        }
    }
}

/* The formulas once more, by libm. */
static double formula(const struct schedule *s, double rate, double step)
{
    double p = step / s->decay_steps, end = (double)s->end_learning_rate;
    if (s->staircase)
        p = floor(p);
    if (s->kind == SCHEDULE_EXPONENTIAL_DECAY)
        return rate * pow((double)s->decay_rate, p);
    if (s->kind == SCHEDULE_INVERSE_TIME_DECAY)
        return rate / (1 + (double)s->decay_rate * p);
    if (s->kind == SCHEDULE_COSINE_DECAY)
        return rate * ((1 - (double)s->alpha) * 0.5 * (1 + cos(3.14159265358979324 * fmin(p, 1))) +
                       (double)s->alpha);
    return (rate - end) * pow(1 - fmin(p, 1), (double)s->power) + end;
}

static void each_step_follows_the_formula(void **state)
{
    static const char *const names[] = {
        "exponential",  "exponential_staircase", "cosine", "polynomial", "polynomial_root",
        "inverse_time", "inverse_time_staircase"};
    (void)state;
    for (size_t c = 0; c < sizeof names / sizeof *names; c++) {
        float rate = 0;
        const struct schedule *s = case_named(names[c], &rate);
        for (uint64_t step = 0; step < 400; step++) {
            double want = formula(s, (double)rate, (double)step);
            assert_true(fabs(schedule_rate(s, rate, step + 1) - want) <= 1e-15);
        }
    }
}

/* Updates 31 and 61 are the last of a cycle, at its lowest. */
static void a_cycle_ends_at_its_multiple(void **state)
{
    (void)state;
    float rate = 0;
    const struct schedule *s = case_named("polynomial_cycle", &rate);
    assert_true(fabs(schedule_rate(s, rate, 31) - 0.01) < 1e-9);
    assert_true(fabs(schedule_rate(s, rate, 61) - 0.01) < 1e-9);
    assert_true(schedule_rate(s, rate, 32) > 0.02);
}

static void warmup_climbs_to_any_schedule_and_ends_there(void **state)
{
    (void)state;
    struct schedule s = {.warmup_steps = 4};
    static const double want[] = {0.25, 0.5, 0.75, 1, 1, 1};
    for (uint64_t t = 1; t <= 6; t++)
        assert_true(schedule_rate(&s, 1.0f, t) == want[t - 1]);
    struct schedule decay = {.kind = SCHEDULE_EXPONENTIAL_DECAY,
                             .decay_steps = 1,
                             .decay_rate = 0.5f,
                             .warmup_steps = 2};
    assert_true(schedule_rate(&decay, 1.0f, 1) == 0.5);
    assert_true(fabs(schedule_rate(&decay, 1.0f, 2) - 0.5) < 1e-15);
    assert_true(fabs(schedule_rate(&decay, 1.0f, 3) - 0.25) < 1e-15);
}

static const struct optimizer_factors ALONE = {1, 1, 1};

static void an_update_takes_the_rate_of_its_number(void **state)
{
    (void)state;
    const struct optimizer o = {.kind = OPT_SGD,
                                .learning_rate = 9.0f,
                                .schedule = {.kind = SCHEDULE_PIECEWISE_CONSTANT_DECAY,
                                             .boundaries = {1, {1}},
                                             .values = {2, {0.5f, 0.25f}}}};
    float w = 1.0f;
    const float g = 1.0f;
    static const float want[] = {0.5f, 0.0f, -0.25f, -0.5f};
    for (uint64_t t = 1; t <= 4; t++) {
        optimizer_apply(&o, t, ALONE, &w, &w, (float *[OPTIMIZER_SLOTS_MAX]){NULL}, &g, 1);
        assert_true(w == want[t - 1]);
    }
}

/* adam's first move is the rate itself, whatever the gradient. */
static void adam_goes_by_the_schedule_too(void **state)
{
    (void)state;
    const struct optimizer o = {.kind = OPT_ADAM,
                                .learning_rate = 0.5f,
                                .beta_1 = 0.9f,
                                .beta_2 = 0.999f,
                                .schedule = {.warmup_steps = 2}};
    float w = 1.0f, m = 0, v = 0;
    const float g = 3.0f;
    optimizer_apply(&o, 1, ALONE, &w, &w, (float *[OPTIMIZER_SLOTS_MAX]){&m, &v}, &g, 1);
    assert_true(fabsf(w - 0.75f) < 1e-6f);
}

/* It divides by the rate, and the weights would be gone. */
static void ftrl_stays_where_it_is_when_the_rate_is_0(void **state)
{
    (void)state;
    const struct optimizer o = {.kind = OPT_FTRL,
                                .learning_rate = 0.1f,
                                .learning_rate_power = -0.5f,
                                .schedule = {.kind = SCHEDULE_COSINE_DECAY, .decay_steps = 2}};
    float from = 1.0f, w = 0, n = 0.1f, z = 0;
    const float g = 1.0f;
    float *slots[OPTIMIZER_SLOTS_MAX] = {&n, &z};
    optimizer_apply(&o, 3, ALONE, &w, &from, slots, &g, 1);
    assert_true(w == 1.0f && n == 0.1f && z == 0.0f);
    optimizer_apply(&o, 2, ALONE, &w, &from, slots, &g, 1);
    assert_true(isfinite(w) && w != 1.0f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keras_has_the_same_rates),
        cmocka_unit_test(each_step_follows_the_formula),
        cmocka_unit_test(a_cycle_ends_at_its_multiple),
        cmocka_unit_test(warmup_climbs_to_any_schedule_and_ends_there),
        cmocka_unit_test(an_update_takes_the_rate_of_its_number),
        cmocka_unit_test(adam_goes_by_the_schedule_too),
        cmocka_unit_test(ftrl_stays_where_it_is_when_the_rate_is_0),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
