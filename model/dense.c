/* Dense: keras.layers.Dense, y = act(x W + b) over the last axis; W is (in, out) as in Keras. */
#include "model/layers.h"

#include <cblas.h>
#include <string.h>

#include "common/math/kernels.h"

static const struct op_type dense_op;

enum err dense_add(struct model *m, const struct job_layer *l, struct errmsg *e)
{
    uint32_t last = m->shape.rank - 1, units = l->dense.units;
    uint32_t outer = shape_elems(&m->shape) / m->shape.dim[last];
    if (units == 0 || (uint64_t)outer * units > INT32_MAX)
        return err_set(e, ERR_INPUT, "model.layers: %s: units is 0, or too large", l->name);
    bool relu = l->dense.activation == ACT_RELU;
    struct op op = {.type = &dense_op,
                    .layer = l,
                    .outer = outer,
                    .in = m->shape.dim[last],
                    .out = units,
                    .blas = true,
                    .activation = relu ? ACT_RELU : ACT_LINEAR,
                    .reads_x = true,
                    .reads_y = relu};
    struct tensor kernel = {.rank = 2, .shape = {op.in, op.out}};
    enum err code = weights_add_kernel_and_bias(m, &op, &kernel, e);
    if (code)
        return code;
    op_append(m, &op);
    m->shape.dim[last] = units;
    if (!relu)
        activation_append(m, l, l->dense.activation);
    return ERR_OK;
}

/* ---- a trained model's forward: without BLAS, which packs the kernel in each call ---- */

enum { INPUTS_STEP = 512 }; /* so many of a panel's rows stay in the second-level cache */

static size_t panels(const struct op *op)
{
    return (op->out + KERNEL_PANEL - 1) / KERNEL_PANEL;
}

static size_t dense_packed_elems(const struct op *op)
{
    return op->out == 1 ? KERNEL_PANEL + op->in : panels(op) * (op->in + 1) * KERNEL_PANEL;
}

/* For each panel, which is KERNEL_PANEL columns: their biases (0 if there are none), and their part of W. A single column
 * stays as it is. */
static void dense_pack(const struct op *op, float *packed, const float *w)
{
    const float *kernel = w + op->kernel_offset;
    if (op->out == 1) {
        packed[0] = op->layer->use_bias ? w[op->bias_offset] : 0;
        memcpy(packed + KERNEL_PANEL, kernel, op->in * sizeof *packed);
        return;
    }
    memset(packed, 0, dense_packed_elems(op) * sizeof *packed);
    for (size_t first = 0; first < op->out; first += KERNEL_PANEL) {
        size_t cols = op->out - first < KERNEL_PANEL ? op->out - first : KERNEL_PANEL;
        if (op->layer->use_bias)
            memcpy(packed, w + op->bias_offset + first, cols * sizeof *packed);
        packed += KERNEL_PANEL;
        for (size_t i = 0; i < op->in; i++, packed += KERNEL_PANEL)
            memcpy(packed, kernel + i * op->out + first, cols * sizeof *packed);
    }
}

static void multiply_packed(const struct op *op, const struct op_pass *p)
{
    struct kernel_dense s = {.rows = p->rows, .in = op->in, .x_row = op->in, .y_row = op->out};
    const float *panel = p->packed;
    if (op->out == 1) {
        kernels()->dense_one(p->y, p->x[0], panel + KERNEL_PANEL, panel[0], &s);
        return;
    }
    for (size_t first = 0; first < op->out; first += KERNEL_PANEL) {
        const float *w = panel + KERNEL_PANEL;
        s.cols = op->out - first < KERNEL_PANEL ? op->out - first : KERNEL_PANEL;
        for (size_t i = 0; i < op->in; i += INPUTS_STEP) {
            s.in = op->in - i < INPUTS_STEP ? op->in - i : INPUTS_STEP;
            kernels()->dense(p->y + first, p->x[0] + i, w + i * KERNEL_PANEL, i ? NULL : panel, &s);
        }
        panel += (size_t)(op->in + 1) * KERNEL_PANEL;
    }
}

/* ---- forward, backward ---- */

/* y (rows, out) = act(x (rows, in) W (in, out) + b (out)) */
static void dense_forward(const struct op *op, const struct op_pass *p)
{
    int n = (int)p->rows, in = (int)op->in, out = (int)op->out;
    float *y = p->y;
    if (p->packed) {
        multiply_packed(op, p);
        if (op->activation == ACT_RELU)
            kernels()->relu_backward(y, y, p->rows * op->out); /* y = 0 where y <= 0 */
        return;
    }
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, out, in, 1.0f, p->x[0], in,
                p->w + op->kernel_offset, out, 0.0f, y, out);
    if (op->layer->use_bias)
        kernels()->bias_act(y, y, p->w + op->bias_offset, op->activation == ACT_RELU, p->rows,
                            op->out);
    else if (op->activation == ACT_RELU)
        kernels()->relu_backward(y, y, p->rows * op->out); /* y = 0 where y <= 0 */
}

/* dW (in, out) = x^T dy, db (out) = column sums of dy */
static void backward_weights(const struct op *op, const struct op_pass *p)
{
    int n = (int)p->rows, in = (int)op->in, out = (int)op->out;
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, in, out, n, 1.0f, p->x[0], in, p->dy, out,
                0.0f, p->dw + op->kernel_offset, out);
    if (op->layer->use_bias)
        kernels()->column_sums(p->dw + op->bias_offset, p->dy, p->rows, op->out);
}

/* dx (rows, in) = dy W^T */
static void dense_backward(const struct op *op, const struct op_pass *p)
{
    int n = (int)p->rows, in = (int)op->in, out = (int)op->out;
    if (op->activation == ACT_RELU)
        kernels()->relu_backward(p->dy, p->y, p->rows * op->out);
    if (p->dw)
        backward_weights(op, p);
    if (p->dx)
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, n, in, out, 1.0f, p->dy, out,
                    p->w + op->kernel_offset, out, 0.0f, p->dx, in);
}

static const struct op_type dense_op = {.forward = dense_forward,
                                        .backward = dense_backward,
                                        .pack = dense_pack,
                                        .packed_elems = dense_packed_elems};
