/* Rows of the job file's keys for updating weights: of the job (table_training.c) and of each table (table_tables.c).
 * Both files define these macros before they write the rows:
 *   OPTIMIZER_KEY(name, type, member, text, ...)  an option of an optimizer, such as "sgd.momentum"; member of
 *                                                 struct optimizer
 *   SCHEDULE_KEY(name, type, member, text, ...)   an option of a schedule; member of struct schedule
 *   OPTIMIZER_KEYS(word, rate, decay)             RATE_AND_DECAY, and the other keys of every optimizer
 *   NESTEROV_HEEDED, ROWWISE_HEEDED               the conditions under which these two keys have an effect */
#pragma once

#include <float.h>

#include "job/table.h"

/* ---- optimizers ---- */

/* The optimizers that tables can use: all but lamb. */
#define LAZY_OPTIMIZER_WORDS                                                                       \
    {"sgd", OPT_SGD, NULL, "Gradient descent, optionally with momentum."},                         \
        {"adam", OPT_ADAM, NULL, "Uses moving means of the gradients and of their squares."},      \
        {"adagrad", OPT_ADAGRAD, NULL,                                                             \
         "Each weight has its own rate, which falls as its squared gradients add up."},            \
        {"adamw", OPT_ADAMW, NULL, "`adam` with weight decay by default."},                        \
        {"ftrl", OPT_FTRL, NULL, "Follow the regularized leader, for sparse linear models."},      \
    {                                                                                              \
        "rmsprop", OPT_RMSPROP, NULL,                                                              \
            "Each weight has its own rate, computed from its recent squared gradients."            \
    }

#define OPTIMIZER_REAL(name, member, range, by_default, ...)                                       \
    OPTIMIZER_KEY(name, REAL, member, __VA_ARGS__, range, .identity = true, .fallback = by_default)
#define OPTIMIZER_BOOL(name, member, text)                                                         \
    OPTIMIZER_KEY(name, BOOL, member, text, EXAMPLE("true"), .identity = true, .fallback = "false")
/* The keys of every optimizer. */
#define RATE_AND_DECAY(word, rate, decay)                                                          \
    OPTIMIZER_KEY(word ".learning_rate", REAL, learning_rate,                                      \
                  "Another name of `training.learning_rate`. Set only one of the two.",            \
                  EXAMPLE("0.002"), POSITIVE, .alias = true, .fallback = rate),                    \
        OPTIMIZER_REAL(word ".weight_decay", weight_decay, NOT_NEGATIVE, decay,                    \
                       "Before each update, `w -= w * weight_decay * rate`. This term is not "     \
                       "added to the gradient. 0: off.",                                           \
                       EXAMPLE("0.01"))
#define ADAM_KEYS(word)                                                                            \
    OPTIMIZER_REAL(word ".beta_1", beta_1, BELOW_ONE, "0.9",                                       \
                   "The decay of the moving mean of gradients.", EXAMPLE("0.95")),                 \
        OPTIMIZER_REAL(word ".beta_2", beta_2, BELOW_ONE, "0.999",                                 \
                       "The decay of the moving mean of squared gradients.", EXAMPLE("0.99")),     \
        OPTIMIZER_REAL(word ".epsilon", epsilon, NOT_NEGATIVE, "1e-7",                             \
                       "A number added to the square root of the mean of squares.",                \
                       EXAMPLE("1e-8"))
#define AMSGRAD_KEY(word)                                                                          \
    OPTIMIZER_BOOL(word ".amsgrad", amsgrad,                                                       \
                   "Use the largest mean of squares so far instead of the current mean.")

#define MOMENTUM_DOC                                                                               \
    "The share of the last move that is added to the next move. `training.update: async` and "     \
    "`ssp` already act like a momentum of about 1 - 1/workers, so choose a lower value with "      \
    "these modes."
#define ACCUMULATOR_DOC "The first value of the sum of squared gradients.", EXAMPLE("0.01")

#define SGD_KEYS                                                                                   \
    OPTIMIZER_KEYS("sgd", "0.01", "0"),                                                            \
        OPTIMIZER_REAL("sgd.momentum", momentum, UP_TO_ONE, "0", MOMENTUM_DOC, EXAMPLE("0.9")),    \
        OPTIMIZER_KEY("sgd.nesterov", BOOL, nesterov, "Use Nesterov's momentum.", EXAMPLE("true"), \
                      .identity = true, NESTEROV_HEEDED, .fallback = "false")
#define ADAGRAD_KEYS                                                                               \
    OPTIMIZER_KEYS("adagrad", "0.001", "0"),                                                       \
        OPTIMIZER_REAL("adagrad.initial_accumulator_value", initial_accumulator_value,             \
                       NOT_NEGATIVE, "0.1", ACCUMULATOR_DOC),                                      \
        OPTIMIZER_REAL("adagrad.epsilon", epsilon, NOT_NEGATIVE, "1e-7",                           \
                       "A number added to the sum of squares before its square root is taken.",    \
                       EXAMPLE("1e-8")),                                                           \
        OPTIMIZER_KEY("adagrad.rowwise", BOOL, rowwise,                                            \
                      "Keep one accumulator for each row of a table instead of one for each "      \
                      "weight. The accumulator sums the means of the row's squared gradients. "    \
                      "`epsilon` is added to its square root, as in TorchRec.",                    \
                      EXAMPLE("true"), .identity = true, ROWWISE_HEEDED, .fallback = "false")
#define RMSPROP_KEYS                                                                               \
    OPTIMIZER_KEYS("rmsprop", "0.001", "0"),                                                       \
        OPTIMIZER_REAL("rmsprop.rho", rho, BELOW_ONE, "0.9",                                       \
                       "The decay of the moving mean of squared gradients.", EXAMPLE("0.95")),     \
        OPTIMIZER_REAL("rmsprop.momentum", momentum, UP_TO_ONE, "0", MOMENTUM_DOC,                 \
                       EXAMPLE("0.9")),                                                            \
        OPTIMIZER_REAL("rmsprop.epsilon", epsilon, NOT_NEGATIVE, "1e-7",                           \
                       "A number added to the mean of squares before its square root is taken.",   \
                       EXAMPLE("1e-8")),                                                           \
        OPTIMIZER_BOOL("rmsprop.centered", centered,                                               \
                       "Divide by the square root of the variance of the gradients, instead of "   \
                       "the mean of their squares.")
#define FTRL_KEYS                                                                                  \
    OPTIMIZER_KEYS("ftrl", "0.001", "0"),                                                          \
        OPTIMIZER_REAL("ftrl.learning_rate_power", learning_rate_power, NOT_POSITIVE, "-0.5",      \
                       "The learning rate is multiplied by the sum of squared gradients to this "  \
                       "power. Values other than -0.5 are slow to compute.",                       \
                       EXAMPLE("-0.4")),                                                           \
        OPTIMIZER_REAL("ftrl.initial_accumulator_value", initial_accumulator_value, NOT_NEGATIVE,  \
                       "0.1", ACCUMULATOR_DOC),                                                    \
        OPTIMIZER_REAL("ftrl.l1_regularization_strength", l1, NOT_NEGATIVE, "0",                   \
                       "The strength of the L1 penalty, which sets small weights to 0.",           \
                       EXAMPLE("0.001")),                                                          \
        OPTIMIZER_REAL("ftrl.l2_regularization_strength", l2, NOT_NEGATIVE, "0",                   \
                       "The strength of the L2 penalty, which keeps all weights small.",           \
                       EXAMPLE("0.001")),                                                          \
        OPTIMIZER_REAL("ftrl.l2_shrinkage_regularization_strength", l2_shrinkage, NOT_NEGATIVE,    \
                       "0",                                                                        \
                       "Similar to weight decay: `2 * l2_shrinkage_regularization_strength * w` "  \
                       "is added to the gradient, but not to the sum of squared gradients.",       \
                       EXAMPLE("0.001")),                                                          \
        OPTIMIZER_REAL("ftrl.beta", beta, NOT_NEGATIVE, "0",                                       \
                       "The parameter beta of the FTRL paper.", EXAMPLE("1"))

/* The keys of the optimizers that tables can use. */
#define LAZY_OPTIMIZER_KEYS                                                                        \
    SGD_KEYS, OPTIMIZER_KEYS("adam", "0.001", "0"), ADAM_KEYS("adam"), AMSGRAD_KEY("adam"),        \
        OPTIMIZER_KEYS("adamw", "0.001", "0.004"), ADAM_KEYS("adamw"), AMSGRAD_KEY("adamw"),       \
        ADAGRAD_KEYS, RMSPROP_KEYS, FTRL_KEYS

/* ---- schedules ---- */

#define SCHEDULE_WORDS                                                                             \
    {"constant", SCHEDULE_CONSTANT, NULL, "The rate does not change."},                            \
        {"exponential_decay", SCHEDULE_EXPONENTIAL_DECAY, NULL,                                    \
         "`rate * decay_rate^(t / decay_steps)`, where t is the number of updates so far."},       \
        {"cosine_decay", SCHEDULE_COSINE_DECAY, NULL,                                              \
         "The rate falls along half a cosine to `alpha` times its initial value. An optional "     \
         "warm-up comes first."},                                                                  \
        {"polynomial_decay", SCHEDULE_POLYNOMIAL_DECAY, NULL,                                      \
         "The rate falls to `end_learning_rate`, linearly or with another `power`."},              \
        {"piecewise_constant_decay", SCHEDULE_PIECEWISE_CONSTANT_DECAY, NULL,                      \
         "The rate has a given value in each given range of updates."},                            \
    {                                                                                              \
        "inverse_time_decay", SCHEDULE_INVERSE_TIME_DECAY, NULL,                                   \
            "`rate / (1 + decay_rate * t / decay_steps)`, where t is the number of updates so "    \
            "far."                                                                                 \
    }

#define DECAY_STEPS(of, text)                                                                      \
    SCHEDULE_KEY(of ".decay_steps", U32, decay_steps, text, EXAMPLE("1000"), RANGE(1, UINT32_MAX), \
                 .required = true)
#define DECAY_RATE(of, ...)                                                                        \
    SCHEDULE_KEY(of ".decay_rate", REAL, decay_rate, __VA_ARGS__, NOT_NEGATIVE, .required = true)
#define STAIRCASE(of)                                                                              \
    SCHEDULE_KEY(of ".staircase", BOOL, staircase,                                                 \
                 "Change the rate only every `decay_steps` updates.", EXAMPLE("true"),             \
                 .fallback = "false")

#define SCHEDULE_KEYS                                                                              \
    DECAY_STEPS("exponential_decay",                                                               \
                "Multiply the rate by `decay_rate` once in this many updates."),                   \
        DECAY_RATE("exponential_decay", "The factor of the rate for each `decay_steps` updates.",  \
                   EXAMPLE("0.9")),                                                                \
        STAIRCASE("exponential_decay"),                                                            \
        DECAY_STEPS("cosine_decay", "The number of updates in which the rate falls."),             \
        SCHEDULE_KEY(                                                                              \
            "cosine_decay.alpha", REAL, alpha,                                                     \
            "The share of the initial rate (or of `warmup_target`) that is left at the end.",      \
            EXAMPLE("0.1"), NOT_NEGATIVE, .fallback = "0"),                                        \
        SCHEDULE_KEY("cosine_decay.warmup_target", REAL, warmup_target,                            \
                     "The rate at the end of the warm-up, when the decay begins. 0: no warm-up.",  \
                     EXAMPLE("0.1"), NOT_NEGATIVE, .fallback = "0"),                               \
        SCHEDULE_KEY("cosine_decay.warmup_steps", U32, warmup_target_steps,                        \
                     "The number of updates in which the rate rises from the initial rate to "     \
                     "`warmup_target`.",                                                           \
                     EXAMPLE("100"), RANGE(0, UINT32_MAX), .fallback = "0"),                       \
        DECAY_STEPS("polynomial_decay",                                                            \
                    "The number of updates in which the rate falls to `end_learning_rate`."),      \
        SCHEDULE_KEY("polynomial_decay.end_learning_rate", REAL, end_learning_rate,                \
                     "The rate at the end.", EXAMPLE("0.001"), NOT_NEGATIVE,                       \
                     .fallback = "0.0001"),                                                        \
        SCHEDULE_KEY(                                                                              \
            "polynomial_decay.power", REAL, power,                                                 \
            "The shape of the fall: the part of the rate above `end_learning_rate` is multiplied " \
            "by the share of `decay_steps` that is left, to this power. 1: linear.",               \
            EXAMPLE("2"), NOT_NEGATIVE, .fallback = "1"),                                          \
        SCHEDULE_KEY(                                                                              \
            "polynomial_decay.cycle", BOOL, cycle,                                                 \
            "After `decay_steps` updates, do not stay at the end rate. The length of the decay "   \
            "becomes the next multiple of `decay_steps`, so the rate jumps up and falls again.",   \
            EXAMPLE("true"), .fallback = "false"),                                                 \
        SCHEDULE_KEY(                                                                              \
            "piecewise_constant_decay.boundaries", INTEGERS, boundaries,                           \
            "The end of each range except the last, as a number of updates so far, in rising "     \
            "order. A range includes its end.",                                                    \
            EXAMPLE("[1000, 2000]"), RANGE(0, UINT32_MAX), .required = true),                      \
        SCHEDULE_KEY("piecewise_constant_decay.values", REALS, values,                             \
                     "The rate of each range. This list has one more element than `boundaries`. "  \
                     "It replaces `training.learning_rate`.",                                      \
                     EXAMPLE("[0.1, 0.01, 0.001]"), NOT_NEGATIVE, .required = true),               \
        DECAY_STEPS(                                                                               \
            "inverse_time_decay",                                                                  \
            "After t updates the rate is divided by `1 + decay_rate * t / decay_steps`. This "     \
            "divisor grows by `decay_rate` in each `decay_steps` updates."),                       \
        DECAY_RATE("inverse_time_decay",                                                           \
                   "The growth of the divisor of the rate in each `decay_steps` updates.",         \
                   EXAMPLE("0.5")),                                                                \
        STAIRCASE("inverse_time_decay")
