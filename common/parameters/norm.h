/* Norms: of gradients, for clipping and for the NaN guard; and of pieces of tensors, for lamb. */
#pragma once

#include "common/parameters/layout.h"
#include "common/parameters/plan.h"

/* The NaN guard's limit for a slot's sum of squares: values beyond 1e30. Their squares overflow a float. Once an
 * average of squares holds such a value, all later updates are 0. */
#define NORM_SLOT_MOST 1e60

struct norm_sums {
    double weights; /* sum of squares of weights' gradients: the global norm is computed from it */
    /* same for the values pushed for moving averages; it only shows whether they are finite */
    double statistics;
};

/* Sums the squares of elements [first, first + n) of the flat block; g points to the first of them. A sum is
 * infinite or NaN exactly if one of its elements is. The bits are the same at every SIMD level. */
struct norm_sums norm_squares(const struct layout *l, uint64_t first, const float *g, size_t n);

/* Returns the name of the first tensor in that range whose sum of squares is not finite or exceeds `most`; NULL if
 * none. */
const char *norm_broken_tensor(const struct layout *l, uint64_t first, const float *g, size_t n,
                               double most);

/* Returns the sum of squares above which the NaN guard rejects the sum of `examples` gradients: a mean gradient of norm
 * 1e15, whose squares would break a slot. With clipping the limit is DBL_MAX, because clipping scales such a gradient
 * down. */
double norm_most(float clip, double examples);

/* Returns min(1, c / N), where N = sqrt(squares) / examples is the norm of the mean gradient; 1 if c is 0 (no
 * clipping) or N is NaN. Source: Pascanu et al. 2013; tf.clip_by_global_norm. */
float norm_scale(double squares, uint64_t examples, float c);

/* Pieces for lamb's norms: the intersections of chunks and weights. Each piece gives two doubles, summed in a
 * fixed order. Added in the order of the block, their totals are the same for any number of shards. Pure. */
/* sums of squares of a piece: of the decayed weights, and of the direction */
enum { TRUST_SUMS = 2 };

struct trust_piece {
    uint32_t tensor;
    /* elements of the flat block, without the gap after the tensor; `elems` can be 0 */
    uint64_t first, elems;
    bool last; /* the last piece of its tensor */
};

/* Finds the next piece in [*at, end) and moves *at after it. Returns false if none is left. */
bool trust_next(const struct layout *l, uint64_t *at, uint64_t end, struct trust_piece *p);

/* Writes first[c], the number of pieces before chunk first_chunk + c, counted from first_chunk; first[chunks] is
 * their total. `first` has chunks + 1 elements. */
void trust_index(const struct layout *l, const struct plan *p, uint32_t first_chunk,
                 uint32_t chunks, uint32_t *first);

/* Computes the ratio of each tensor of the layout from the sums of all pieces, in order; statistics get 1. */
void trust_ratios(const struct layout *l, const struct plan *p, const double *sums, float *ratio);
