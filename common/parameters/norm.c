#include "common/parameters/norm.h"

#include <assert.h>
#include <float.h>
#include <math.h>

#include "common/math/kernels.h"
#include "common/math/optimizer.h"

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

bool trust_next(const struct layout *l, uint64_t *at, uint64_t end, struct trust_piece *p)
{
    for (uint32_t i = *at < end ? layout_find(l, *at) : 0; *at < end; i++) {
        uint64_t first = *at;
        *at = layout_end(l, i) < end ? layout_end(l, i) : end;
        if (l->tensor[i].role == TENSOR_WEIGHT) {
            uint64_t stop = l->tensor[i].offset_elems + l->tensor[i].elems;
            stop = stop < *at ? stop : *at;
            *p = (struct trust_piece){.tensor = i,
                                      .first = first,
                                      .elems = stop > first ? stop - first : 0,
                                      .last = *at == layout_end(l, i)};
            assert(p->first + p->elems <= *at && *at <= end);
            assert(p->first >= l->tensor[i].offset_elems && p->first < layout_end(l, i));
            return true;
        }
    }
    return false;
}

void trust_index(const struct layout *l, const struct plan *p, uint32_t first_chunk,
                 uint32_t chunks, uint32_t *first)
{
    uint32_t n = 0;
    for (uint32_t c = 0; c < chunks; c++) {
        uint64_t at = plan_chunk_elem(p, first_chunk + c);
        uint64_t end = plan_chunk_elem(p, first_chunk + c + 1);
        struct trust_piece piece;
        first[c] = n;
        while (trust_next(l, &at, end, &piece))
            n++;
    }
    first[chunks] = n;
}

void trust_ratios(const struct layout *l, const struct plan *p, const double *sums, float *ratio)
{
    double squares[TRUST_SUMS] = {0};
    struct trust_piece piece;
    for (uint32_t i = 0; i < l->tensors; i++)
        ratio[i] = 1.0f;
    for (uint32_t c = 0; c < p->chunks; c++) {
        uint64_t at = plan_chunk_elem(p, c), end = plan_chunk_elem(p, c + 1);
        while (trust_next(l, &at, end, &piece)) {
            for (int k = 0; k < TRUST_SUMS; k++)
                squares[k] += *sums++;
            if (!piece.last)
                continue;
            ratio[piece.tensor] = optimizer_ratio(squares[0], squares[1]);
            squares[0] = squares[1] = 0;
        }
    }
    assert(squares[0] == 0 && squares[1] == 0); /* the last piece has ended its tensor */
}
