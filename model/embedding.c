/* Embedding: keras.layers.Embedding over a dense table: input_dim rows of output_dim. The inputs are row numbers as
 * floats, like all data. Without input_dim it looks up keys in a growing table. */
#include "model/layers.h"
#include "common/base/digits.h"

#include <math.h>
#include <string.h>

/* keras/src/initializers/random_initializers.py: "uniform" is RandomUniform(-0.05, 0.05). */
static const float UNIFORM_LIMIT = 0.05f;

static const struct op_type embedding_op;

enum err embedding_add(struct model *m, const struct job_layer *l, struct errmsg *e)
{
    uint32_t rows = l->embedding.input_dim, width = l->embedding.output_dim;
    if (l->lookups)
        return lookup_append(m, l, BAG_SUM, e);
    if (m->value != 0 && m->op[m->value - 1].type != &select_op)
        return err_set(e, ERR_INPUT,
                       "model.layers: %s looks up values of the data: it must read the model's "
                       "input, with at most a flatten or reshape between",
                       l->name);
    uint32_t outer = shape_elems(&m->shape);
    if (m->shape.rank == TENSOR_RANK_MAX)
        return err_set(e, ERR_INPUT,
                       "model.layers: %s: its input already has %u dimensions, and it would add "
                       "one: that is too many",
                       l->name, m->shape.rank);
    if (rows == 0 || width == 0 || (uint64_t)outer * width > INT32_MAX)
        return err_set(e, ERR_INPUT, "model.layers: %s: its output is too large", l->name);
    struct op op = {
        .type = &embedding_op, .layer = l, .outer = outer, .in = 1, .out = width, .reads_x = true};
    struct tensor table = {.rank = 2, .shape = {rows, width}};
    const struct job_weights init = {.initializer = INIT_RANDOM_UNIFORM,
                                     .init_value = UNIFORM_LIMIT,
                                     .init_other = -UNIFORM_LIMIT};
    enum err code = weights_add(m, &op, &op.kernel_offset, &table, "embeddings", &init, e);
    if (code)
        return code;
    op_append(m, &op);
    m->shape.dim[m->shape.rank++] = width;
    return ERR_OK;
}

/* NaN is not a row number, and neither is a number with a fraction (for example, a scaled one). */
static bool row_of(const struct op *op, float id, size_t *row)
{
    if (!(id >= 0.0f && id < (float)op->layer->embedding.input_dim) || id != truncf(id))
        return false;
    *row = (size_t)id;
    return true;
}

static void refuse(const struct op *op, float id, struct op_fault *fault)
{
    uint32_t rows = op->layer->embedding.input_dim;
    if (fault->err)
        return;
    if (isfinite(id) && id != truncf(id))
        fault->err = err_set(&fault->why, ERR_INPUT,
                             "the data: %s looks up row %g, which is not a whole number: a column "
                             "that it reads must have integers, and no scale",
                             op->layer->name, digits_printed((double)id));
    else
        fault->err =
            err_set(&fault->why, ERR_INPUT,
                    "the data: %s looks up row %g, but its table has rows 0 to %u (input_dim %u)",
                    op->layer->name, digits_printed((double)id), rows - 1, rows);
}

/* y (rows, out) = the rows of the table that x (rows) names. An invalid number counts as row 0. */
static void embedding_forward(const struct op *op, const struct op_pass *p)
{
    const float *table = p->w + op->kernel_offset, *x = p->x[0];
    for (size_t r = 0; r < p->rows; r++) {
        size_t row = 0;
        if (!row_of(op, x[r], &row))
            refuse(op, x[r], p->fault);
        memcpy(p->y + r * op->out, table + row * op->out, op->out * sizeof *p->y);
    }
}

/* The whole table's gradient: 0 where no row was read. */
static void embedding_backward(const struct op *op, const struct op_pass *p)
{
    float *table = p->dw + op->kernel_offset;
    memset(table, 0, (size_t)op->layer->embedding.input_dim * op->out * sizeof *table);
    for (size_t r = 0; r < p->rows; r++) {
        size_t row = 0;
        (void)row_of(op, p->x[0][r], &row);
        for (uint32_t c = 0; c < op->out; c++)
            table[row * op->out + c] += p->dy[r * op->out + c];
    }
}

static const struct op_type embedding_op = {.forward = embedding_forward,
                                            .backward = embedding_backward};
