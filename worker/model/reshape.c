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

enum err reshape_add(struct model *m, const struct job_layer *l, const struct tap *from,
                     struct errmsg *e)
{
    (void)from;
    uint64_t before = elems_of(m->shape.rank, m->shape.dim),
             behind = elems_of(l->reshape.rank, l->reshape.shape);
    if (before != behind)
        return err_set(e, ERR_INPUT,
                       "model.layers: %s: target_shape has %llu elements, its input has %llu",
                       l->name, (unsigned long long)behind, (unsigned long long)before);
    m->shape.rank = l->reshape.rank;
    memcpy(m->shape.dim, l->reshape.shape, l->reshape.rank * sizeof *l->reshape.shape);
    return ERR_OK;
}
