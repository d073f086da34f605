/* Sums of squares of rows' gradients, for clipping by norm and for the NaN guard. Keys ascend. Pure. */
#ifndef GRADWIRE_COMMON_ROWS_ROW_SQUARES_H
#define GRADWIRE_COMMON_ROWS_ROW_SQUARES_H

#include "common/rows/key.h"

/* Adds to squares[b - of.first], for each bucket b, the squares of the rows of g (n, dim) in that bucket. All rows
 * must be in `of`. A sum is infinite or NaN exactly if an element is. The bits are the same for the same rows at
 * every SIMD level. */
void row_squares_add(double *squares, struct bucket_range of, const uint64_t *mixed, const float *g,
                     uint32_t n, uint32_t dim);

/* Returns the index of the first row of g (n, dim) whose sum of squares is not finite or exceeds `most`; n if
 * there is none. */
uint32_t row_squares_beyond(const float *g, double most, uint32_t n, uint32_t dim);

#endif
