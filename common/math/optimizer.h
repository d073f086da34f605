/* Optimizers as Keras 3 defines them, over flat blocks. Pure. Used by ps; by tests and the bench beside it. */
#ifndef GRADWIRE_COMMON_MATH_OPTIMIZER_H
#define GRADWIRE_COMMON_MATH_OPTIMIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/math/schedule.h"

/* On the wire and in checkpoints' jobs: new ones are added at the end. */
enum optimizer_kind { OPT_SGD, OPT_ADAM, OPT_ADAGRAD, OPT_RMSPROP, OPT_ADAMW, OPT_FTRL, OPT_LAMB };
enum { OPTIMIZER_KINDS = OPT_LAMB + 1 };

struct optimizer {
    enum optimizer_kind kind;
    float learning_rate; /* training.learning_rate, or the optimizer's own; default Keras's */
    struct schedule schedule;
    float momentum;
    bool nesterov;
    float beta_1, beta_2, epsilon;
    bool amsgrad;                                          /* adam, adamw */
    float rho;                                             /* rmsprop */
    bool centered;                                         /* rmsprop */
    float initial_accumulator_value;                       /* adagrad, ftrl */
    float learning_rate_power, beta, l1, l2, l2_shrinkage; /* ftrl */
    float weight_decay;                                    /* 0: none */
    uint32_t accumulation_steps; /* gradients whose mean is an update's; 0, 1: each is one */
    bool use_ema;                /* a slot keeps a moving average of the weights */
    float ema_momentum;
    uint32_t ema_overwrite_frequency; /* updates until the weights become it; 0: never */
    uint64_t
        staleness; /* of the update at hand: the rate is divided by it, if it is above 1; in a job 0 */
};

enum { OPTIMIZER_SLOTS_MAX = 5 };

/* How many slots (floats per parameter) the optimizer keeps: sgd 0, with momentum 1; adam 2, with amsgrad 3; .. */
uint32_t optimizer_slots(const struct optimizer *o);
const char *optimizer_slot_name(const struct optimizer *o, uint32_t slot);
/* What a slot holds before the first update; the average holds the initial weights. */
float optimizer_slot_initial(const struct optimizer *o, uint32_t slot);
/* Which of the slots holds the moving average of the weights; UINT32_MAX: none does. */
uint32_t optimizer_average_slot(const struct optimizer *o);

/* How many updates `t` gradients have made: with accumulation, one of every accumulation_steps. */
uint64_t optimizer_updates(const struct optimizer *o, uint64_t t);
/* The learning rate of update t, from 1, as its schedule has it. */
double optimizer_rate(const struct optimizer *o, uint64_t t);

/* lamb alone. What its trust ratio is made of, (n) each: the direction of the update that gradient t makes, and the
 * weights with their decay taken; g and inv_n are optimizer_gradient's. Nothing else changes. */
void optimizer_direction(const struct optimizer *o, uint64_t t, float *u, float *decayed,
                         const float *w, float *const slots[OPTIMIZER_SLOTS_MAX], const float *g,
                         float inv_n, size_t n);
/* lamb's ratio of a tensor from the sums of squares over it; 1 where either is 0. */
float optimizer_ratio(double squares_of_decayed, double squares_of_u);

/* As optimizer_apply, by `ratio` of the rate: lamb's, of the tensor that these elements are in. */
void optimizer_apply_trusted(const struct optimizer *o, uint64_t t, float ratio, float *w_out,
                             const float *w, float *const slots[OPTIMIZER_SLOTS_MAX],
                             const float *g, float inv_n, size_t n);

/* The gradient that is the last of update t's, as the update will see it: g itself, or, where gradients are accumulated,
 * the sum of them all in `room` (n), with *inv_n the share of each. NULL: `t` makes no update. Nothing else changes. */
const float *optimizer_gradient(const struct optimizer *o, uint64_t t, float *room,
                                float *const slots[OPTIMIZER_SLOTS_MAX], const float *g,
                                float *inv_n, size_t n);

/* As optimizer_apply_trusted, with the mean gradient of the update times `scale`: clipping's. */
void optimizer_apply_clipped(const struct optimizer *o, uint64_t t, float ratio, float scale,
                             float *w_out, const float *w, float *const slots[OPTIMIZER_SLOTS_MAX],
                             const float *g, float inv_n, size_t n);

/* w_out = update of w by the mean gradient g * inv_n; `t` is the number of this gradient, from 1, and of the update
 * unless gradients are accumulated: then w_out = w but for every accumulation_steps-th. slots[i] are updated in place.
 * w_out may be w, or g. Thread: any; no state. */
void optimizer_apply(const struct optimizer *o, uint64_t t, float *w_out, const float *w,
                     float *const slots[OPTIMIZER_SLOTS_MAX], const float *g, float inv_n,
                     size_t n);

#endif
