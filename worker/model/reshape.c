/* Reshape: keras.layers.Reshape. Rows are contiguous, so there is nothing to compute. */
#include "worker/model/layers.h"

#include <string.h>

static uint64_t elems_of(uint32_t rank, const uint32_t *dim)
{
    uint64_t elems = 1;
    for (uint32_t i = 0; i < rank; i++)
        if (__builtin_mul_overflow(elems, dim[i], &elems))
            return UINT64_MAX;
    return elems;
}

enum err reshape_add(struct model *m, const struct job_layer *l, const char *name, struct errmsg *e)
{
    uint64_t before = elems_of(m->shape.rank, m->shape.dim),
             behind = elems_of(l->target_rank, l->target_shape);
    if (before != behind)
        return err_set(e, ERR_INPUT,
                       "model.layers: %s: target_shape has %llu elements, its input has %llu", name,
                       (unsigned long long)behind, (unsigned long long)before);
    m->shape.rank = l->target_rank;
    memcpy(m->shape.dim, l->target_shape, l->target_rank * sizeof *l->target_shape);
    return ERR_OK;
}
