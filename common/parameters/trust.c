#include "common/parameters/trust.h"

#include <assert.h>

#include "common/math/optimizer.h"

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
