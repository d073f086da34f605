/* Dropout: keras.layers.Dropout. In training an element is 0 with probability `rate` and x / (1 -
 * rate) otherwise; in evaluation nothing happens. The randomness is a function of (key, position).
 */
#include "worker/model/layers.h"

#include <string.h>

#include "common/math/kernels.h"

enum err dropout_add(struct model *m, const struct job_layer *l, const char *name, struct errmsg *e)
{
    if (!(l->rate >= 0.0f && l->rate < 1.0f))
        return err_set(e, ERR_INPUT, "model.layers: %s: rate %g is not in [0, 1)", name,
                       (double)l->rate);
    if (l->rate == 0.0f)
        return ERR_OK;
    uint32_t elems = shape_elems(&m->shape);
    const struct op op = {
        .kind = OP_DROPOUT, .layer = name, .outer = 1, .in = elems, .out = elems, .rate = l->rate};
    (void)op_append(m, &op);
    return ERR_OK;
}

void dropout_forward(const struct op *op, float *y, uint8_t *mask, const float *x, uint64_t key,
                     size_t elems)
{
    if (y != x)
        memcpy(y, x, elems * sizeof *y);
    kernels()->dropout(y, mask, key, op->rate, elems);
}

void dropout_backward(const struct op *op, float *dy, const uint8_t *mask, size_t elems)
{
    kernels()->dropout_backward(dy, mask, op->rate, elems);
}
