/* The learning rate as a function of the update's number: Keras 3's schedules, with an optional linear warm-up.
 * Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum schedule_kind {
    SCHEDULE_CONSTANT,
    SCHEDULE_EXPONENTIAL_DECAY,
    SCHEDULE_COSINE_DECAY,
    SCHEDULE_POLYNOMIAL_DECAY,
    SCHEDULE_PIECEWISE_CONSTANT_DECAY,
    SCHEDULE_INVERSE_TIME_DECAY
};
enum { SCHEDULE_KINDS = SCHEDULE_INVERSE_TIME_DECAY + 1 };

enum { SCHEDULE_LIST_MAX = 16 };
struct schedule_integers {
    uint32_t n, value[SCHEDULE_LIST_MAX];
};
struct schedule_reals {
    uint32_t n;
    float value[SCHEDULE_LIST_MAX];
};

/* The schedule. All zeros is a constant rate. */
struct schedule {
    enum schedule_kind kind;
    uint32_t warmup_steps; /* for every kind: updates whose rate rises to the schedule's */
    uint32_t decay_steps;
    float decay_rate;             /* exponential, inverse time */
    bool staircase;               /* exponential, inverse time */
    float alpha, warmup_target;   /* cosine; warmup_target 0: none */
    uint32_t warmup_target_steps; /* cosine: the steps up to warmup_target, Keras's warmup_steps */
    float end_learning_rate, power;
    bool cycle;                          /* polynomial */
    struct schedule_integers boundaries; /* piecewise, ascending */
    struct schedule_reals values;        /* piecewise: one more than boundaries */
};

/* Returns the rate of update t (from 1). `rate` is the job's learning rate (Keras's initial_learning_rate). The
 * bits are the same on every machine: common/base/real.h. Thread: any; no state. */
double schedule_rate(const struct schedule *s, float rate, uint64_t t);
