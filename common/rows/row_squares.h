/* Sums of squares of rows' gradients: what clipping by the norm and the NaN guard must know of them. Keys ascend. Pure. */
#ifndef GRADWIRE_COMMON_ROWS_ROW_SQUARES_H
#define GRADWIRE_COMMON_ROWS_ROW_SQUARES_H

#include "common/rows/key.h"

/* squares[b - of.first] += the sum of squares of those rows of g (n, dim) that are of bucket b. All are of these buckets.
 * A sum is not finite where an element is not, and only there. The same bits for the same rows at every SIMD level. */
void row_squares_add(double *squares, struct bucket_range of, const uint64_t *mixed, const float *g,
                     uint32_t n, uint32_t dim);

/* The first of the rows g (n, dim) whose sum of squares is not finite, or above `most`; n: there is none. */
uint32_t row_squares_beyond(const float *g, double most, uint32_t n, uint32_t dim);

#endif
