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

/* `odd` input's shape must be the first one's, but for the last `free` axes. */
static enum err check_shapes(const struct job_layer *l, const struct tap *from, uint32_t free,
                             struct errmsg *e)
{
    if (l->inputs < 2)
        return err_set(e, ERR_INPUT, "model.layers: %s: at least two inputs are meant", l->name);
    for (uint32_t i = 1; i < l->inputs; i++)
        if (!same_shape(&from[0].shape, &from[i].shape, free))
            return refuse_shapes(
                l->name, from, i,
                free ? "all axes but the last must be equal" : "they must be equal", e);
    return ERR_OK;
}

static struct op make(const struct job_layer *l, const struct tap *from, const struct op_type *type)
{
    struct op op = {.type = type, .layer = l, .outer = 1, .inputs = l->inputs};
    for (uint32_t i = 0; i < l->inputs; i++)
        op.input[i] = from[i].value;
    return op;
}

/* ---- add ---- */

static const struct op_type add_op;

enum err add_add(struct model *m, const struct job_layer *l, const struct tap *from,
                 struct errmsg *e)
{
    enum err code = check_shapes(l, from, 0, e);
    if (code)
        return code;
    struct op op = make(l, from, &add_op);
    op.in = op.out = shape_elems(&m->shape);
    op.elementwise = true;
    (void)op_append(m, &op);
    return ERR_OK;
}

/* y = the sum of all x, in their order */
static void add_forward(const struct op *op, const struct op_pass *p)
{
    size_t elems = p->n * op_out_elems(op);
    kernels()->add(p->y, p->x[0], p->x[1], elems);
    for (uint32_t i = 2; i < op->inputs; i++)
        kernels()->add(p->y, p->y, p->x[i], elems);
}

static void add_backward(const struct op *op, const struct op_pass *p)
{
    if (p->dx && p->dx != p->dy)
        memcpy(p->dx, p->dy, p->n * op_out_elems(op) * sizeof *p->dx);
}

static const struct op_type add_op = {.forward = add_forward, .backward = add_backward};

/* ---- concatenate ---- */

static const struct op_type concatenate_op;

enum err concatenate_add(struct model *m, const struct job_layer *l, const struct tap *from,
                         struct errmsg *e)
{
    enum err code = check_shapes(l, from, 1, e);
    if (code)
        return code;
    struct op op = make(l, from, &concatenate_op);
    uint32_t *last = &m->shape.dim[m->shape.rank - 1];
    uint64_t width = 0;
    op.outer = shape_elems(&m->shape) / *last;
    for (uint32_t i = 0; i < l->inputs; i++) {
        op.width[i] = from[i].shape.dim[m->shape.rank - 1];
        width += op.width[i];
    }
    if (width * op.outer > INT32_MAX)
        return err_set(e, ERR_INPUT, "model.layers: %s: its output is too large", l->name);
    *last = op.in = op.out = (uint32_t)width;
    (void)op_append(m, &op);
    return ERR_OK;
}

/* y (rows, out) = the rows of all x (rows, width) side by side */
static void concatenate_forward(const struct op *op, const struct op_pass *p)
{
    float *y = p->y;
    for (size_t r = 0; r < p->rows; r++)
        for (uint32_t i = 0; i < op->inputs; i++) {
            memcpy(y, p->x[i] + r * op->width[i], op->width[i] * sizeof *y);
            y += op->width[i];
        }
}

static void concatenate_backward(const struct op *op, const struct op_pass *p)
{
    const float *dy = p->dy;
    uint32_t width = op->width[p->input];
    if (!p->dx)
        return;
    for (uint32_t i = 0; i < p->input; i++)
        dy += op->width[i];
    for (size_t r = 0; r < p->rows; r++)
        memcpy(p->dx + r * width, dy + r * op->out, width * sizeof *p->dx);
}

static const struct op_type concatenate_op = {.forward = concatenate_forward,
                                              .backward = concatenate_backward};
