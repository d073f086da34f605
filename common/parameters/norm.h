/* Norms of gradients, for clipping and for the NaN guard. */
#ifndef GRADWIRE_COMMON_PARAMETERS_NORM_H
#define GRADWIRE_COMMON_PARAMETERS_NORM_H

#include "common/parameters/layout.h"

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

#endif
