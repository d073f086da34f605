/* Layers with several inputs: keras.layers.Add, and keras.layers.Concatenate over the last axis. */
#include "worker/model/layers.h"

#include <string.h>

#include "common/math/kernels.h"

static enum err refuse_shapes(const char *name, const struct tap *from, uint32_t odd,
                              const char *wanted, struct errmsg *e)
{
    char first[64], other[64];
    shape_text(&from[0].shape, first, sizeof first);
    shape_text(&from[odd].shape, other, sizeof other);
    return err_set(e, ERR_INPUT,
                   "model.layers: %s: its first input has shape %s, its input %u has %s: %s", name,
                   first, odd + 1, other, wanted);
}

/* Equal but for the last `free` axes. */
static bool same_shape(const struct shape *a, const struct shape *b, uint32_t free)
{
    return a->rank == b->rank && memcmp(a->dim, b->dim, (a->rank - free) * sizeof a->dim[0]) == 0;
}

enum err merge_add(struct model *m, const struct job_layer *l, const char *name,
                   const struct tap *from, uint32_t inputs, struct errmsg *e)
{
    bool joins = l->kind == LAYER_CONCATENATE;
    uint32_t last = from[0].shape.rank - 1;
    if (inputs < 2)
        return err_set(e, ERR_INPUT, "model.layers: %s: at least two inputs are meant", name);
    struct op op = {
        .kind = joins ? OP_CONCATENATE : OP_ADD, .layer = name, .outer = 1, .inputs = inputs};
    uint64_t width = 0;
    for (uint32_t i = 0; i < inputs; i++) {
        if (!same_shape(&from[0].shape, &from[i].shape, joins ? 1 : 0))
            return refuse_shapes(
                name, from, i, joins ? "all axes but the last must be equal" : "they must be equal",
                e);
        op.input[i] = from[i].value;
        op.width[i] = from[i].shape.dim[last];
        width += op.width[i];
    }
    struct shape shape = from[0].shape;
    if (joins) {
        if (width * (shape_elems(&shape) / shape.dim[last]) > INT32_MAX)
            return err_set(e, ERR_INPUT, "model.layers: %s: its output is too large", name);
        op.outer = shape_elems(&shape) / shape.dim[last];
        shape.dim[last] = (uint32_t)width;
    }
    op.in = op.out = shape_elems(&shape) / op.outer;
    (void)op_append(m, &op);
    m->shape = shape;
    return ERR_OK;
}

void add_forward(const struct op *op, float *y, const float *const *x, size_t elems)
{
    kernels()->add(y, x[0], x[1], elems);
    for (uint32_t i = 2; i < op->inputs; i++)
        kernels()->add(y, y, x[i], elems);
}

void concatenate_forward(const struct op *op, float *y, const float *const *x, size_t rows)
{
    for (size_t r = 0; r < rows; r++)
        for (uint32_t i = 0; i < op->inputs; i++) {
            memcpy(y, x[i] + r * op->width[i], op->width[i] * sizeof *y);
            y += op->width[i];
        }
}

void concatenate_backward(const struct op *op, uint32_t input, float *dx, const float *dy,
                          size_t rows)
{
    for (uint32_t i = 0; i < input; i++)
        dy += op->width[i];
    for (size_t r = 0; r < rows; r++)
        memcpy(dx + r * op->width[input], dy + r * op->out, op->width[input] * sizeof *dx);
}
