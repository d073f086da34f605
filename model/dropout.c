/* Dropout: keras.layers.Dropout. In training an element is 0 with probability `rate`, and x / (1 - rate) otherwise;
 * in evaluation it is unchanged. The random numbers are a function of (key, position). */
#include "model/layers.h"

#include <string.h>

#include "common/math/kernels.h"

enum err dropout_add(struct model *m, const struct job_layer *l, struct errmsg *e)
{
    float rate = l->dropout.rate;
    if (!(rate >= 0.0f && rate < 1.0f))
        return err_set(e, ERR_INPUT, "model.layers: %s: rate %g is not in [0, 1)", l->name,
                       (double)rate);
    if (rate == 0.0f)
        return ERR_OK;
    uint32_t elems = shape_elems(&m->shape);
    const struct op op = {.type = &dropout_op,
                          .layer = l,
                          .outer = 1,
                          .in = elems,
                          .out = elems,
                          .elementwise = true,
                          .drops = true};
    op_append(m, &op);
    return ERR_OK;
}

static size_t dropout_state_bytes(const struct op *op, size_t n)
{
    return n * op_out_elems(op); /* the mask */
}

static void dropout_forward(const struct op *op, const struct op_pass *p)
{
    size_t elems = p->n * op_out_elems(op);
    if (p->y != p->x[0]) /* copied: x's slot may be reused before y is read */
        memcpy(p->y, p->x[0], elems * sizeof *p->y);
    if (p->train)
        kernels()->dropout(p->y, p->state, p->key, op->layer->dropout.rate, elems);
}

static void dropout_backward(const struct op *op, const struct op_pass *p)
{
    kernels()->dropout_backward(p->dy, p->state, op->layer->dropout.rate, p->n * op_out_elems(op));
}

const struct op_type dropout_op = {
    .forward = dropout_forward, .backward = dropout_backward, .state_bytes = dropout_state_bytes};
