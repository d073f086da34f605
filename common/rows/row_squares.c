#include "common/rows/row_squares.h"

#include <assert.h>

#include "common/math/kernels.h"

void row_squares_add(double *squares, struct bucket_range of, const uint64_t *mixed, const float *g,
                     uint32_t n, uint32_t dim)
{
    for (uint32_t first = 0, end = 0; first < n; first = end) {
        uint32_t bucket = key_bucket(mixed[first]);
        assert(bucket >= of.first && bucket < of.end);
        while (end < n && key_bucket(mixed[end]) == bucket)
            end++;
        squares[bucket - of.first] +=
            kernels()->sum_squares(g + (size_t)first * dim, (size_t)(end - first) * dim);
    }
}

uint32_t row_squares_beyond(const float *g, double most, uint32_t n, uint32_t dim)
{
    uint32_t i = 0;
    while (i < n && kernels()->sum_squares(g + (size_t)i * dim, dim) <= most)
        i++;
    return i;
}
