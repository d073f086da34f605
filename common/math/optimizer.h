/* Optimizers as Keras 3 defines them, over flat blocks. Pure. A ps runs them; a worker does in geo and in the
 * learning-rate finder. */
#ifndef GRADWIRE_COMMON_MATH_OPTIMIZER_H
#define GRADWIRE_COMMON_MATH_OPTIMIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/math/optimizers.h"
#include "common/math/schedule.h"

struct optimizer {
    enum optimizer_kind kind;
    struct schedule schedule;
    OPTIMIZER_NUMBERS(OPTIMIZER_REAL_MEMBER, OPTIMIZER_FLAG_MEMBER, OPTIMIZER_COUNT_MEMBER)
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

/* An update takes a trust ratio of each tensor, which norms over all shards make: lamb's. */
bool optimizer_is_trusted(const struct optimizer *o);
/* An update by the sum of two gradients is the sum of the updates by each: sgd's, with momentum, too. */
bool optimizer_is_linear(const struct optimizer *o);
/* What the trust ratio is made of, (n) each: the direction of the update that gradient t makes, and the
 * weights with their decay taken; g and inv_n are optimizer_gradient's. Nothing else changes. */
void optimizer_direction(const struct optimizer *o, uint64_t t, float *u, float *decayed,
                         const float *w, float *const slots[OPTIMIZER_SLOTS_MAX], const float *g,
                         float inv_n, size_t n);
/* The trust ratio of a tensor from the sums of squares over it; 1 where either is 0. */
float optimizer_ratio(double squares_of_decayed, double squares_of_u);

/* The gradient that is the last of update t's, as the update will see it: g itself, or, where gradients are accumulated,
 * the sum of them all in `room` (n), with *inv_n the share of each. NULL: `t` makes no update. Nothing else changes. */
const float *optimizer_gradient(const struct optimizer *o, uint64_t t, float *room,
                                float *const slots[OPTIMIZER_SLOTS_MAX], const float *g,
                                float *inv_n, size_t n);

/* What an update is made with beside the gradient. */
struct optimizer_factors {
    float inv_n; /* g * inv_n is the mean gradient */
    float scale; /* of the update's mean gradient: clipping's; 1: none */
    float ratio; /* of the rate: the trust ratio of the tensor that the elements are in; 1: none */
};

/* w_out = update of w by the mean gradient; `t` is the number of this gradient, from 1, and of the update unless
 * gradients are accumulated: then w_out = w but for every accumulation_steps-th. slots[i] are updated in place. w_out may
 * be w, or g. Thread: any; no state. */
void optimizer_apply(const struct optimizer *o, uint64_t t, struct optimizer_factors f,
                     float *w_out, const float *w, float *const slots[OPTIMIZER_SLOTS_MAX],
                     const float *g, size_t n);

/* ---- rows of a table: the lazy form. A row that has no gradient stands still, its slots and its decay too. ---- */

struct kernel_row; /* common/math/kernels.h */

enum optimizer_row_rates { ROWS_ALIKE, ROWS_BY_COUNT, ROWS_BY_SQUARES, ROWS_STAND };

/* What is the same for all rows of a step. */
struct optimizer_rows {
    const struct optimizer *o;
    double rate;
    struct update_rates rates;
    void (*step)(const struct kernel_row *row, size_t rows, const struct update_rates *r,
                 size_t n); /* a kernel */
    enum optimizer_row_rates rates_are;
};

/* It has a lazy form: it keeps no average, accumulates nothing and is not lamb. */
bool optimizer_is_lazy(const struct optimizer *o);
/* The rate is that of update t, from 1. The optimizer is lazy. */
struct optimizer_rows optimizer_rows_of(const struct optimizer *o, uint64_t t,
                                        struct optimizer_factors f);

/* How many floats a row of `dim` weights has beside them, and what it has there before its first update. */
uint32_t optimizer_row_slots(const struct optimizer *o, uint32_t dim);
void optimizer_row_initial(const struct optimizer *o, float *slots, uint32_t dim);

/* The rate of one update of a row. `count` is the update's number, from 1: Adam's bias correction goes by it. Row-wise
 * adagrad's one slot is updated here, by g (dim): it is FBGEMM's (TorchRec's) exact one,
 * a += mean(g^2); w - lr g / (sqrt(a) + epsilon). */
float optimizer_own_rate(const struct optimizer_rows *r, uint64_t count, float *slot,
                         const float *g, uint32_t dim);
static inline float optimizer_row_rate(const struct optimizer_rows *r, uint64_t count, float *slot,
                                       const float *g, uint32_t dim)
{
    return r->rates_are == ROWS_ALIKE ? r->rates.lr : optimizer_own_rate(r, count, slot, g, dim);
}

/* Update rows by the mean of their gradients, each at its rate. No row is there twice. Thread: any; no state. */
void optimizer_apply_rows(const struct optimizer_rows *r, const struct kernel_row *row, size_t rows,
                          uint32_t dim);

#endif
