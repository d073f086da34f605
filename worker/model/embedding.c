/* Embedding: keras.layers.Embedding over a dense table: input_dim rows of output_dim. The inputs
 * are numbers of rows, as the data has them: floats. */
#include "worker/model/layers.h"

#include <string.h>

/* keras/src/initializers/random_initializers.py: "uniform" is RandomUniform(-0.05, 0.05). */
static const float UNIFORM_LIMIT = 0.05f;

enum err embedding_add(struct model *m, const struct job_layer *l, const char *name,
                       struct errmsg *e)
{
    if (m->value != 0)
        return err_set(e, ERR_INPUT,
                       "model.layers: %s looks up what the data has: it reads the model's input, "
                       "at most a flatten or reshape between them",
                       name);
    uint32_t outer = shape_elems(&m->shape);
    if (m->shape.rank == TENSOR_RANK_MAX)
        return err_set(e, ERR_INPUT, "model.layers: %s: its input has %u dimensions already", name,
                       m->shape.rank);
    if (l->input_dim == 0 || l->output_dim == 0 || (uint64_t)outer * l->output_dim > INT32_MAX)
        return err_set(e, ERR_INPUT, "model.layers: %s: its output is too large", name);
    struct op op = {.kind = OP_EMBEDDING,
                    .layer = name,
                    .outer = outer,
                    .rows = l->input_dim,
                    .in = 1,
                    .out = l->output_dim};
    struct tensor table = {.rank = 2, .shape = {l->input_dim, l->output_dim}};
    enum err code =
        weights_add(m, &op, &op.kernel_offset, &table, "embeddings",
                    (struct first_values){INIT_RANDOM_UNIFORM, UNIFORM_LIMIT, -UNIFORM_LIMIT}, e);
    if (code)
        return code;
    (void)op_append(m, &op);
    m->shape.dim[m->shape.rank++] = l->output_dim;
    return ERR_OK;
}

/* NaN is none. */
static bool row_of(const struct op *op, float id, size_t *row)
{
    if (!(id >= 0.0f && id < (float)op->rows))
        return false;
    *row = (size_t)id;
    return true;
}

bool embedding_forward(const struct op *op, float *y, const float *w, const float *x, size_t rows,
                       size_t *bad)
{
    const float *table = w + op->kernel_offset;
    bool good = true;
    for (size_t r = 0; r < rows; r++) {
        size_t row = 0;
        if (!row_of(op, x[r], &row) && good) {
            *bad = r;
            good = false;
        }
        memcpy(y + r * op->out, table + row * op->out, op->out * sizeof *y);
    }
    return good;
}

void embedding_backward(const struct op *op, float *dw, const float *dy, const float *x,
                        size_t rows)
{
    float *table = dw + op->kernel_offset;
    memset(table, 0, (size_t)op->rows * op->out * sizeof *table);
    for (size_t r = 0; r < rows; r++) {
        size_t row = 0;
        (void)row_of(op, x[r], &row);
        for (uint32_t c = 0; c < op->out; c++)
            table[row * op->out + c] += dy[r * op->out + c];
    }
}
