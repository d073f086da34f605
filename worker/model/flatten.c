/* Flatten: (a, b, ..) -> (a * b * ..). Rows are contiguous, so there is nothing to compute. */
#include "worker/model/layers.h"

enum err flatten_add(struct model *m, const struct job_layer *l, const struct tap *from,
                     struct errmsg *e)
{
    (void)from;
    uint64_t elems = 1;
    for (uint32_t i = 0; i < m->shape.rank; i++)
        if (__builtin_mul_overflow(elems, m->shape.dim[i], &elems) || elems > UINT32_MAX)
            return err_set(e, ERR_INPUT, "model.layers: %s: its input is too large", l->name);
    m->shape = (struct shape){.rank = 1, .dim = {(uint32_t)elems}};
    return ERR_OK;
}
