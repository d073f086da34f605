/* Finds values that are not finite: one sum of squares checks many values; only where it is not finite is each value
 * checked alone. */
#include "common/checkpoint/broken.h"

#include <math.h>

#include "common/math/kernels.h"

/* Elements checked at a time: they fit the first-level cache. */
enum { CHECKED_ELEMS = 4096 };

static bool is_finite(const float *w, uint64_t n)
{
    /* the sum of squares of floats cannot overflow a double */
    return isfinite(kernels()->sum_squares(w, (size_t)n));
}

void broken_find(struct broken *to, const struct checkpoint_shard *blocks)
{
    for (uint64_t at = 0; at < blocks->elems; at += CHECKED_ELEMS) {
        uint64_t n = blocks->elems - at < CHECKED_ELEMS ? blocks->elems - at : CHECKED_ELEMS;
        if (is_finite(blocks->w + at, n))
            continue;
        while (isfinite(blocks->w[at]))
            at++;
        *to = (struct broken){.kind = BROKEN_ELEM, .elem = blocks->first_elem + at};
        return;
    }
}

void broken_find_in_rows(struct broken *to, const struct row_group *g,
                         const struct checkpoint_table *of)
{
    const float *w = g->values;
    if (is_finite(w, (uint64_t)g->rows * (of->dim + of->slots)))
        return; /* one check for all rows, including their slots */
    for (uint32_t i = 0; i < g->rows && to->kind == BROKEN_NONE; i++, w += of->dim + of->slots)
        if (!is_finite(w, of->dim))
            *to = (struct broken){.kind = BROKEN_ROW, .table = g->table, .mixed = g->mixed[i]};
}
