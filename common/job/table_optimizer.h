/* Rows of the job file's keys for updating weights: of the job (table_training.c) and of each table (table_tables.c).
 * Both files define these macros before they write the rows:
 *   OPTIMIZER_KEY(name, type, member, text, ...)  an option of an optimizer, such as "sgd.momentum"; member of
 *                                                 struct optimizer
 *   SCHEDULE_KEY(name, type, member, text, ...)   an option of a schedule; member of struct schedule
 *   OPTIMIZER_KEYS(word, rate, decay)             RATE_AND_DECAY, and the other keys of every optimizer
 *   NESTEROV_HEEDED, ROWWISE_HEEDED               the conditions under which these two keys have an effect */
#ifndef GRADWIRE_COMMON_JOB_TABLE_OPTIMIZER_H
#define GRADWIRE_COMMON_JOB_TABLE_OPTIMIZER_H

#include <float.h>

#include "common/job/table.h"

/* ---- optimizers ---- */

/* The optimizers that tables can use: all but lamb. */
#define LAZY_OPTIMIZER_WORDS                                                                       \
    {"sgd", OPT_SGD, NULL}, {"adam", OPT_ADAM, NULL}, {"adagrad", OPT_ADAGRAD, NULL},              \
        {"adamw", OPT_ADAMW, NULL}, {"ftrl", OPT_FTRL, NULL},                                      \
    {                                                                                              \
        "rmsprop", OPT_RMSPROP, NULL                                                               \
    }

#define OPTIMIZER_REAL(name, member, range, by_default, text)                                      \
    OPTIMIZER_KEY(name, REAL, member, text, range, .identity = true, .fallback = by_default)
#define OPTIMIZER_BOOL(name, member, text)                                                         \
    OPTIMIZER_KEY(name, BOOL, member, text, .identity = true, .fallback = "false")
/* The keys of every optimizer. */
#define RATE_AND_DECAY(word, rate, decay)                                                          \
    OPTIMIZER_KEY(word ".learning_rate", REAL, learning_rate,                                      \
                  "the same key as `training.learning_rate`: one of them is given", POSITIVE,      \
                  .alias = true, .fallback = rate),                                                \
        OPTIMIZER_REAL(word ".weight_decay", weight_decay, NOT_NEGATIVE, decay,                    \
                       "before each update `w -= w * weight_decay * rate`, decoupled from the "    \
                       "gradient; 0: none")
#define ADAM_KEYS(word)                                                                            \
    OPTIMIZER_REAL(word ".beta_1", beta_1, BELOW_ONE, "0.9", "decay of the mean of gradients"),    \
        OPTIMIZER_REAL(word ".beta_2", beta_2, BELOW_ONE, "0.999",                                 \
                       "decay of the mean of their squares"),                                      \
        OPTIMIZER_REAL(word ".epsilon", epsilon, NOT_NEGATIVE, "1e-7",                             \
                       "added to the root of the second mean")
#define AMSGRAD_KEY(word)                                                                          \
    OPTIMIZER_BOOL(word ".amsgrad", amsgrad, "the largest second mean so far takes its place")

#define BESIDES_MOMENTUM                                                                           \
    "; `training.update: async` and `ssp` add momentum of about 1 - 1/workers by themselves: set " \
    "less of it there"

#define SGD_KEYS                                                                                   \
    OPTIMIZER_KEYS("sgd", "0.01", "0"),                                                            \
        OPTIMIZER_REAL("sgd.momentum", momentum, UP_TO_ONE, "0",                                   \
                       "share of the last move that is kept" BESIDES_MOMENTUM),                    \
        OPTIMIZER_KEY("sgd.nesterov", BOOL, nesterov, "Nesterov's momentum", .identity = true,     \
                      NESTEROV_HEEDED, .fallback = "false")
#define ADAGRAD_KEYS                                                                               \
    OPTIMIZER_KEYS("adagrad", "0.001", "0"),                                                       \
        OPTIMIZER_REAL("adagrad.initial_accumulator_value", initial_accumulator_value,             \
                       NOT_NEGATIVE, "0.1", "first value of the sum of squares"),                  \
        OPTIMIZER_REAL("adagrad.epsilon", epsilon, NOT_NEGATIVE, "1e-7",                           \
                       "added to the sum of squares, under the root"),                             \
        OPTIMIZER_KEY("adagrad.rowwise", BOOL, rowwise,                                            \
                      "rows of tables: one accumulator a row, the sum of its gradients' mean "     \
                      "squares; epsilon is added outside of the root (TorchRec's)",                \
                      .identity = true, ROWWISE_HEEDED, .fallback = "false")
#define RMSPROP_KEYS                                                                               \
    OPTIMIZER_KEYS("rmsprop", "0.001", "0"),                                                       \
        OPTIMIZER_REAL("rmsprop.rho", rho, BELOW_ONE, "0.9", "decay of the mean of squares"),      \
        OPTIMIZER_REAL("rmsprop.momentum", momentum, UP_TO_ONE, "0",                               \
                       "share of the last move that is kept" BESIDES_MOMENTUM),                    \
        OPTIMIZER_REAL("rmsprop.epsilon", epsilon, NOT_NEGATIVE, "1e-7",                           \
                       "added to the mean of squares, under the root"),                            \
        OPTIMIZER_BOOL("rmsprop.centered", centered, "the variance takes the mean square's place")
#define FTRL_KEYS                                                                                  \
    OPTIMIZER_KEYS("ftrl", "0.001", "0"),                                                          \
        OPTIMIZER_REAL("ftrl.learning_rate_power", learning_rate_power, NOT_POSITIVE, "-0.5",      \
                       "how the rate falls with the sum of squares; others than -0.5 are slow"),   \
        OPTIMIZER_REAL("ftrl.initial_accumulator_value", initial_accumulator_value, NOT_NEGATIVE,  \
                       "0.1", "first value of the sum of squares"),                                \
        OPTIMIZER_REAL("ftrl.l1_regularization_strength", l1, NOT_NEGATIVE, "0",                   \
                       "makes small weights 0"),                                                   \
        OPTIMIZER_REAL("ftrl.l2_regularization_strength", l2, NOT_NEGATIVE, "0",                   \
                       "makes weights small"),                                                     \
        OPTIMIZER_REAL("ftrl.l2_shrinkage_regularization_strength", l2_shrinkage, NOT_NEGATIVE,    \
                       "0", "as weight decay: on the gradient, not on the sum of squares"),        \
        OPTIMIZER_REAL("ftrl.beta", beta, NOT_NEGATIVE, "0", "beta of the paper")

/* The keys of the optimizers that tables can use. */
#define LAZY_OPTIMIZER_KEYS                                                                        \
    SGD_KEYS, OPTIMIZER_KEYS("adam", "0.001", "0"), ADAM_KEYS("adam"), AMSGRAD_KEY("adam"),        \
        OPTIMIZER_KEYS("adamw", "0.001", "0.004"), ADAM_KEYS("adamw"), AMSGRAD_KEY("adamw"),       \
        ADAGRAD_KEYS, RMSPROP_KEYS, FTRL_KEYS

/* ---- schedules ---- */

#define SCHEDULE_WORDS                                                                             \
    {"constant", SCHEDULE_CONSTANT, NULL},                                                         \
        {"exponential_decay", SCHEDULE_EXPONENTIAL_DECAY, NULL},                                   \
        {"cosine_decay", SCHEDULE_COSINE_DECAY, NULL},                                             \
        {"polynomial_decay", SCHEDULE_POLYNOMIAL_DECAY, NULL},                                     \
        {"piecewise_constant_decay", SCHEDULE_PIECEWISE_CONSTANT_DECAY, NULL},                     \
    {                                                                                              \
        "inverse_time_decay", SCHEDULE_INVERSE_TIME_DECAY, NULL                                    \
    }

#define DECAY_STEPS(of, text)                                                                      \
    SCHEDULE_KEY(of ".decay_steps", U32, decay_steps, text, RANGE(1, UINT32_MAX), .required = true)
#define DECAY_RATE(of, text)                                                                       \
    SCHEDULE_KEY(of ".decay_rate", REAL, decay_rate, text, NOT_NEGATIVE, .required = true)
#define STAIRCASE(of)                                                                              \
    SCHEDULE_KEY(of ".staircase", BOOL, staircase, "in steps of decay_steps", .fallback = "false")

#define SCHEDULE_KEYS                                                                              \
    DECAY_STEPS("exponential_decay", "rate * decay_rate^(t / decay_steps)"),                       \
        DECAY_RATE("exponential_decay", "what is left of the rate after decay_steps"),             \
        STAIRCASE("exponential_decay"),                                                            \
        DECAY_STEPS("cosine_decay", "updates of half a cosine from the rate to alpha of it"),      \
        SCHEDULE_KEY("cosine_decay.alpha", REAL, alpha,                                            \
                     "what is left of the rate in the end, as a share", NOT_NEGATIVE,              \
                     .fallback = "0"),                                                             \
        SCHEDULE_KEY("cosine_decay.warmup_target", REAL, warmup_target,                            \
                     "the rate that warmup_steps climb to before it decays; 0: none",              \
                     NOT_NEGATIVE, .fallback = "0"),                                               \
        SCHEDULE_KEY("cosine_decay.warmup_steps", U32, warmup_target_steps,                        \
                     "updates from the rate to warmup_target", RANGE(0, UINT32_MAX),               \
                     .fallback = "0"),                                                             \
        DECAY_STEPS("polynomial_decay", "updates from the rate to end_learning_rate"),             \
        SCHEDULE_KEY("polynomial_decay.end_learning_rate", REAL, end_learning_rate,                \
                     "the last rate", NOT_NEGATIVE, .fallback = "0.0001"),                         \
        SCHEDULE_KEY("polynomial_decay.power", REAL, power,                                        \
                     "of the part that is left: 1 is a line", NOT_NEGATIVE, .fallback = "1"),      \
        SCHEDULE_KEY("polynomial_decay.cycle", BOOL, cycle,                                        \
                     "begin again beyond decay_steps, each time longer", .fallback = "false"),     \
        SCHEDULE_KEY("piecewise_constant_decay.boundaries", INTEGERS, boundaries,                  \
                     "rising numbers of updates: up to and with each, its value is the rate",      \
                     RANGE(0, UINT32_MAX), .required = true),                                      \
        SCHEDULE_KEY("piecewise_constant_decay.values", REALS, values,                             \
                     "one rate more than boundaries; they take the place of "                      \
                     "training.learning_rate",                                                     \
                     NOT_NEGATIVE, .required = true),                                              \
        DECAY_STEPS("inverse_time_decay", "rate / (1 + decay_rate * t / decay_steps)"),            \
        DECAY_RATE("inverse_time_decay", "how fast"), STAIRCASE("inverse_time_decay")

#endif
