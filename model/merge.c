/* Layers with several inputs: keras.layers.Add, and keras.layers.Concatenate over the last axis. */
#include "common/base/digits.h"
#include "model/layers.h"

#include <string.h>

#include "common/math/kernels.h"

/* True if equal except for the last `free` axes. */
static bool merge_fits(const struct shape *a, const struct shape *b, uint32_t free)
{
    return a->rank == b->rank && memcmp(a->dim, b->dim, (a->rank - free) * sizeof a->dim[0]) == 0;
}

/* Begin an op of all inputs; each shape must be equal to the first one's, except for the last `free` axes. */
static enum err merge_begin(struct op *op, const struct model *m, const struct job_layer *l,
                            uint32_t free, const struct op_type *type, struct errmsg *e)
{
    char first[64], other[64];
    if (l->inputs < 2)
        return err_set(e, ERR_INPUT, "model.layers: %s: it needs at least two inputs", l->name);
    *op = (struct op){.type = type, .layer = l, .outer = 1, .inputs = l->inputs};
    (void)digits_list(first, sizeof first, m->shape.dim, m->shape.rank);
    for (uint32_t i = 0; i < l->inputs; i++) {
        op->input[i] = m->from[i].value;
        if (merge_fits(&m->shape, &m->from[i].shape, free))
            continue;
        (void)digits_list(other, sizeof other, m->from[i].shape.dim, m->from[i].shape.rank);
        return err_set(
            e, ERR_INPUT,
            "model.layers: %s: its first input has shape (%s), but its input %u has (%s): %s",
            l->name, first, i + 1, other,
            free ? "all axes but the last must be equal" : "they must be equal");
    }
    return ERR_OK;
}

/* ---- add ---- */

static const struct op_type add_op;

enum err add_add(struct model *m, const struct job_layer *l, struct errmsg *e)
{
    struct op op;
    enum err code = merge_begin(&op, m, l, 0, &add_op, e);
    if (code)
        return code;
    op.in = op.out = shape_elems(&m->shape);
    op.elementwise = true;
    op_append(m, &op);
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

enum err concatenate_add(struct model *m, const struct job_layer *l, struct errmsg *e)
{
    struct op op;
    enum err code = merge_begin(&op, m, l, 1, &concatenate_op, e);
    if (code)
        return code;
    uint32_t *last = &m->shape.dim[m->shape.rank - 1];
    uint64_t width = 0;
    op.outer = shape_elems(&m->shape) / *last;
    for (uint32_t i = 0; i < l->inputs; i++) {
        op.width[i] = m->from[i].shape.dim[m->shape.rank - 1];
        width += op.width[i];
    }
    if (width * op.outer > INT32_MAX)
        return err_set(e, ERR_INPUT, "model.layers: %s: its output is too large", l->name);
    *last = op.in = op.out = (uint32_t)width;
    op_append(m, &op);
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

static const struct op_type concatenate_op = {
    .forward = concatenate_forward, .backward = concatenate_backward, .side_by_side = true};

enum err merge_inputs(struct model *m, const struct job_layer *l, struct errmsg *e)
{
    bool merges = layer_has(l->kind, LAYER_MERGES);
    return merges ? ERR_OK : concatenate_add(m, l, e);
}
