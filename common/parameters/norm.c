#include "common/parameters/norm.h"

#include <float.h>
#include <math.h>

#include "common/math/kernels.h"

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

struct norm_sums norm_squares(const struct layout *l, uint64_t first, const float *g, size_t n)
{
    struct norm_sums sums = {0, 0};
    uint64_t end = first + n;
    uint32_t i = layout_find(l, first);
    for (uint64_t begin = first; begin < end; i++) {
        enum tensor_role role = l->tensor[i].role;
        while (layout_end(l, i) < end && l->tensor[i + 1].role == role)
            i++; /* adjacent tensors of one role in a single kernel call */
        uint64_t stop = smaller(layout_end(l, i), end);
        double squares = kernels()->sum_squares(g + (begin - first), (size_t)(stop - begin));
        if (role == TENSOR_WEIGHT)
            sums.weights += squares;
        else
            sums.statistics += squares;
        begin = stop;
    }
    return sums;
}

const char *norm_broken_tensor(const struct layout *l, uint64_t first, const float *g, size_t n,
                               double most)
{
    uint64_t end = first + n;
    uint32_t i = layout_find(l, first);
    for (uint64_t begin = first; begin < end; i++) {
        uint64_t stop = smaller(layout_end(l, i), end);
        double squares = kernels()->sum_squares(g + (begin - first), (size_t)(stop - begin));
        if (!(squares <= most))
            return l->tensor[i].name;
        begin = stop;
    }
    return NULL;
}

double norm_most(float clip, double examples)
{
    return clip > 0 ? DBL_MAX : 1e30 * examples * examples;
}

float norm_scale(double squares, uint64_t examples, float c)
{
    if (c <= 0 || examples == 0)
        return 1.0f;
    return (float)fmin(1.0, (double)c / (sqrt(squares) / (double)examples));
}
