/* The list of optimizers: their numbers on the wire, their steps with the slots of each, their settings, and the
 * values that a step reads. kernels_optimizers.h has the formula of each step; optimizer.c says which optimizer
 * uses which step. */
#pragma once

#include <float.h>
#include <stdbool.h>
#include <stdint.h>

/* Numbers of the wire: add new ones at the end. */
enum optimizer_kind { OPT_SGD, OPT_ADAM, OPT_ADAGRAD, OPT_RMSPROP, OPT_ADAMW, OPT_FTRL, OPT_LAMB };
enum { OPTIMIZER_KINDS = OPT_LAMB + 1 };

/* STEP(its number, its name, its number of slots, the names of the slots) */
#define OPTIMIZER_STEPS(STEP)                                                                      \
    STEP(SGD, sgd, 0, NULL)                                                                        \
    STEP(MOMENTUM, momentum, 1, "momentum")                                                        \
    STEP(NESTEROV, nesterov, 1, "momentum")                                                        \
    STEP(ADAM, adam, 2, "m", "v")                                                                  \
    STEP(AMSGRAD, amsgrad, 3, "m", "v", "v_hat")                                                   \
    STEP(ADAGRAD, adagrad, 1, "accumulator")                                                       \
    STEP(RMSPROP, rmsprop, 1, "velocity")                                                          \
    STEP(RMSPROP_MOMENTUM, rmsprop_momentum, 2, "velocity", "momentum")                            \
    STEP(RMSPROP_CENTERED, rmsprop_centered, 2, "velocity", "average_gradient")                    \
    STEP(RMSPROP_CENTERED_MOMENTUM, rmsprop_centered_momentum, 3, "velocity", "average_gradient",  \
         "momentum")                                                                               \
    STEP(FTRL, ftrl, 2, "accumulator", "linear")                                                   \
    STEP(LAMB, lamb, 2, "m", "v")

/* REAL(member, its field in the wire's Settings, the smallest and the largest value accepted from a peer);
 * FLAG(member, field); COUNT(member, field) */
#define OPTIMIZER_BELOW_ONE (1.0f - FLT_EPSILON / 2)
#define OPTIMIZER_NUMBERS(REAL, FLAG, COUNT)                                                       \
    /* training.learning_rate, or the optimizer's own; by default Keras's */                       \
    REAL(learning_rate, learning_rate, 0, FLT_MAX)                                                 \
    REAL(momentum, momentum, 0, 1)                                                                 \
    FLAG(nesterov, nesterov)                                                                       \
    REAL(beta_1, beta_1, 0, OPTIMIZER_BELOW_ONE)                                                   \
    REAL(beta_2, beta_2, 0, OPTIMIZER_BELOW_ONE)                                                   \
    REAL(epsilon, epsilon, 0, FLT_MAX)                                                             \
    FLAG(amsgrad, amsgrad)                 /* adam, adamw */                                       \
    REAL(rho, rho, 0, OPTIMIZER_BELOW_ONE) /* rmsprop */                                           \
    FLAG(centered, centered)               /* rmsprop */                                           \
    /* adagrad, ftrl */                                                                            \
    REAL(initial_accumulator_value, initial_accumulator_value, 0, FLT_MAX)                         \
    REAL(learning_rate_power, learning_rate_power, -FLT_MAX, 0) /* ftrl, and the next four */      \
    REAL(beta, beta, 0, FLT_MAX)                                                                   \
    REAL(l1, l1_regularization_strength, 0, FLT_MAX)                                               \
    REAL(l2, l2_regularization_strength, 0, FLT_MAX)                                               \
    REAL(l2_shrinkage, l2_shrinkage_regularization_strength, 0, FLT_MAX)                           \
    FLAG(rowwise, rowwise)                       /* adagrad, of rows of a table */                 \
    REAL(weight_decay, weight_decay, 0, FLT_MAX) /* 0: none */                                     \
    /* gradients averaged for one update; 0 or 1: no accumulation */                               \
    COUNT(accumulation_steps, gradient_accumulation_steps)                                         \
    FLAG(use_ema, use_ema) /* a slot keeps a moving average of the weights */                      \
    REAL(ema_momentum, ema_momentum, 0, 1)                                                         \
    /* updates between overwrites of the weights by the average; 0: never */                       \
    COUNT(ema_overwrite_frequency, ema_overwrite_frequency)

#define OPTIMIZER_STEP_NUMBER(NUMBER, ...) STEP_##NUMBER,
enum optimizer_step { OPTIMIZER_STEPS(OPTIMIZER_STEP_NUMBER) OPTIMIZER_STEP_KINDS };

/* Declare members of a struct; OPTIMIZER_NO_MEMBER omits a type of member. */
#define OPTIMIZER_REAL_MEMBER(member, ...) float member;
#define OPTIMIZER_FLAG_MEMBER(member, field) bool member;
#define OPTIMIZER_COUNT_MEMBER(member, field) uint32_t member;
#define OPTIMIZER_NO_MEMBER(member, field)

/* The values that an update needs besides the blocks; each optimizer reads its own. */
struct update_rates {
    float inv_n; /* g is the sum over examples; g * inv_n is the mean */
    float decay; /* applied first: w -= w * decay */
    float lr;    /* rate * ratio; for adam also times sqrt(1 - beta_2^t) / (1 - beta_1^t) */
    float one_minus_beta_1, one_minus_beta_2; /* adam, amsgrad, lamb */
    float correction_1, correction_2;         /* lamb: 1 - beta^t */
    float power, l2_added, shrinkage;         /* ftrl */
    OPTIMIZER_NUMBERS(OPTIMIZER_REAL_MEMBER, OPTIMIZER_NO_MEMBER, OPTIMIZER_NO_MEMBER)
};
