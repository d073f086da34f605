/* Optimizers as Keras 3 defines them, over flat blocks. Pure. A ps runs them; a worker runs them in geo mode and
 * in the learning-rate finder. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/math/optimizers.h"
#include "common/math/schedule.h"

struct optimizer {
    enum optimizer_kind kind;
    struct schedule schedule;
    OPTIMIZER_NUMBERS(OPTIMIZER_REAL_MEMBER, OPTIMIZER_FLAG_MEMBER, OPTIMIZER_COUNT_MEMBER)
    /* of the current update: if above 1, the rate is divided by it; 0 in a job's settings */
    uint64_t staleness;
};

enum { OPTIMIZER_SLOTS_MAX = 5 };

/* Returns the number of slots (floats per parameter) that the optimizer keeps: sgd 0, with momentum 1; adam 2,
 * with amsgrad 3; and so on. */
uint32_t optimizer_slots(const struct optimizer *o);
const char *optimizer_slot_name(const struct optimizer *o, uint32_t slot); /* a static string */
/* Returns a slot's value before the first update. The slot of the moving average is different: it starts with the
 * initial weights. */
float optimizer_slot_initial(const struct optimizer *o, uint32_t slot);
/* Returns the slot that holds the moving average of the weights; UINT32_MAX if none does. */
uint32_t optimizer_average_slot(const struct optimizer *o);

/* Returns how many updates the first `t` gradients make: with accumulation, one per accumulation_steps gradients. */
uint64_t optimizer_updates(const struct optimizer *o, uint64_t t);
/* Returns the learning rate of update t (from 1), by the schedule. */
double optimizer_rate(const struct optimizer *o, uint64_t t);

/* Returns whether an update needs a trust ratio for each tensor, computed from norms over all shards: only lamb. */
bool optimizer_is_trusted(const struct optimizer *o);
/* Returns whether updates are linear: one update by the sum of two gradients equals the two updates by each of
 * them. True for sgd, also with momentum. */
bool optimizer_is_linear(const struct optimizer *o);
/* Computes the inputs of the trust ratio, (n) each: the direction u of the update by gradient t, and the weights
 * after decay. g and inv_n are optimizer_gradient's. Slots are unchanged. */
void optimizer_direction(const struct optimizer *o, uint64_t t, float *u, float *decayed,
                         const float *w, float *const slots[OPTIMIZER_SLOTS_MAX], const float *g,
                         float inv_n, size_t n);
/* Returns the trust ratio of a tensor from the sums of squares over it; 1 if either is 0. */
float optimizer_ratio(double squares_of_decayed, double squares_of_u);

/* Returns the gradient that the update will use: g itself, or with accumulation, the sum of all accumulated gradients,
 * in `room` (n). g * *inv_n must be the mean of g; afterwards, the result times *inv_n is the mean to use. NULL: with
 * accumulation, gradient `t` completes no update. Slots are unchanged. */
const float *optimizer_gradient(const struct optimizer *o, uint64_t t, float *room,
                                float *const slots[OPTIMIZER_SLOTS_MAX], const float *g,
                                float *inv_n, size_t n);

/* Returns whether an element with weight, slots and gradient 0 becomes 0 / 0: the optimizer has no epsilon. */
bool optimizer_divides_zeros(const struct optimizer *o);

/* The factors of an update. */
struct optimizer_factors {
    float inv_n; /* g * inv_n is the mean gradient */
    float scale; /* clipping's factor for the mean gradient; 1: no clipping */
    float ratio; /* factor of the rate: the tensor's trust ratio; 1: none */
};

/* Updates n weights: w_out = w after the update by the mean gradient. `t` is the number of this gradient, from 1;
 * without accumulation it is also the update's number. With accumulation, only every accumulation_steps-th call
 * updates; other calls copy w. slots[i] are updated in place. w_out can be w or g. Thread: any; no state. */
void optimizer_apply(const struct optimizer *o, uint64_t t, struct optimizer_factors f,
                     float *w_out, const float *w, float *const slots[OPTIMIZER_SLOTS_MAX],
                     const float *g, size_t n);

/* ---- rows of a table: the lazy form. A row without a gradient does not change, nor do its slots; weight decay
 * skips it. ---- */

struct kernel_row; /* defined in common/math/kernels.h */

/* The rate of a row: the same for all; by the row's count of updates (adam); by its squared gradients (row-wise
 * adagrad); or too small, so that no row changes (ftrl). */
enum optimizer_row_rates { ROWS_ALIKE, ROWS_BY_COUNT, ROWS_BY_SQUARES, ROWS_STAND };

/* Values shared by all rows of a step. */
struct optimizer_rows {
    const struct optimizer *o;
    double rate;
    struct update_rates rates;
    void (*step)(const struct kernel_row *row, size_t rows, const struct update_rates *r,
                 size_t n); /* a kernel */
    enum optimizer_row_rates rates_are;
};

/* Returns whether the optimizer has a lazy form: no moving average, no accumulation, not lamb. */
bool optimizer_is_lazy(const struct optimizer *o);
/* Prepares update t (from 1). The optimizer must be lazy. */
struct optimizer_rows optimizer_rows_of(const struct optimizer *o, uint64_t t,
                                        struct optimizer_factors f);

/* optimizer_row_slots returns the number of floats that a row of `dim` weights needs for its slots.
 * optimizer_row_initial writes their values before the row's first update. */
uint32_t optimizer_row_slots(const struct optimizer *o, uint32_t dim);
void optimizer_row_initial(const struct optimizer *o, float *slots, uint32_t dim);

/* Returns the learning rate for one update of a row. `count` is the number of the row's update, from 1, for Adam's
 * bias correction. For row-wise adagrad this also updates the row's one slot, by g (dim). Its formula is FBGEMM's
 * (TorchRec's) exact one: a += mean(g^2); w - lr g / (sqrt(a) + epsilon). */
float optimizer_own_rate(const struct optimizer_rows *r, uint64_t count, float *slot,
                         const float *g, uint32_t dim);
static inline float optimizer_row_rate(const struct optimizer_rows *r, uint64_t count, float *slot,
                                       const float *g, uint32_t dim)
{
    return r->rates_are == ROWS_ALIKE ? r->rates.lr : optimizer_own_rate(r, count, slot, g, dim);
}

/* Updates rows by their mean gradients, each with its own rate. No row can appear twice. Thread: any; no state. */
void optimizer_apply_rows(const struct optimizer_rows *r, const struct kernel_row *row, size_t rows,
                          uint32_t dim);
