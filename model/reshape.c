/* Reshape: keras.layers.Reshape. Rows are contiguous, so there is nothing to compute. */
#include "model/layers.h"

#include <string.h>

enum err reshape_add(struct model *m, const struct job_layer *l, struct errmsg *e)
{
    uint64_t before = shape_elems(&m->shape), behind = 1;
    for (uint32_t i = 0; i < l->reshape.rank; i++)
        if (behind == UINT64_MAX || __builtin_mul_overflow(behind, l->reshape.shape[i], &behind))
            behind = UINT64_MAX;
    if (before != behind)
        return err_set(e, ERR_INPUT,
                       "model.layers: %s: target_shape has %llu elements, but its input has %llu",
                       l->name, (unsigned long long)behind, (unsigned long long)before);
    m->shape.rank = l->reshape.rank;
    memcpy(m->shape.dim, l->reshape.shape, l->reshape.rank * sizeof *l->reshape.shape);
    return ERR_OK;
}
