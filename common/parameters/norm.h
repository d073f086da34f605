/* What clipping and the NaN guard must know of a gradient. */
#ifndef GRADWIRE_COMMON_PARAMETERS_NORM_H
#define GRADWIRE_COMMON_PARAMETERS_NORM_H

#include "common/parameters/layout.h"

/* What the NaN guard calls absurd in a slot: magnitudes beyond 1e30. Squares of them overflow float, and an average of
 * squares that has been there makes all updates 0 for ever. */
#define NORM_SLOT_MOST 1e60

struct norm_sums {
    double weights; /* the squares of the weights' gradients: what the global norm is made of */
    double
        statistics; /* the same of what is pushed for moving averages: to see that it is finite */
};

/* Elements [first, first + n) of the flat block; g points to the first. A sum is not finite where an element is not,
 * and only there. The same bits for the same (first, n) at every SIMD level. */
struct norm_sums norm_squares(const struct layout *l, uint64_t first, const float *g, size_t n);

/* The first tensor of that range whose sum of squares there is not finite, or above `most`; NULL: none. */
const char *norm_broken_tensor(const struct layout *l, uint64_t first, const float *g, size_t n,
                               double most);

/* The squares of a summed gradient above which the NaN guard rejects it: those of a mean beyond 1e15, whose squares
 * would be an absurd slot, unless clipping scales it down. */
double norm_most(float clip, double examples);

/* min(1, c / N), N = sqrt(squares) / examples the norm of the mean gradient; 1 where c is 0 (no clipping), and where
 * N is NaN. [Pascanu et al. 2013; tf.clip_by_global_norm] */
float norm_scale(double squares, uint64_t examples, float c);

#endif
