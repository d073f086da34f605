/* Dense: keras.layers.Dense, y = act(x W + b) over the last axis; W is (in, out) as in Keras. */
#include "worker/model/layers.h"

#include <cblas.h>

#include "common/math/kernels.h"

enum err dense_add(struct model *m, const struct job_layer *l, const char *name, struct errmsg *e)
{
    uint32_t last = m->shape.rank - 1, outer = 1;
    for (uint32_t i = 0; i < last; i++)
        outer *= m->shape.dim[i];
    uint64_t out_elems;
    if (l->units == 0 || __builtin_mul_overflow((uint64_t)outer, l->units, &out_elems) ||
        out_elems > INT32_MAX)
        return err_set(e, ERR_INPUT, "model.layers: %s: units is 0, or too large", name);
    struct op op = {.kind = OP_DENSE,
                    .layer = name,
                    .outer = outer,
                    .in = m->shape.dim[last],
                    .out = l->units,
                    .activation = l->activation == ACT_RELU ? ACT_RELU : ACT_LINEAR,
                    .bias = l->use_bias};
    struct tensor kernel = {.rank = 2, .shape = {op.in, op.out}};
    enum err code = weights_add_kernel_and_bias(m, &op, l, &kernel, e);
    if (code)
        return code;
    (void)op_append(m, &op);
    m->shape.dim[last] = l->units;
    return op.activation == l->activation ? ERR_OK : activation_add(m, l, name, e);
}

void dense_forward(const struct op *op, float *y, const float *w, const float *x, size_t rows)
{
    int n = (int)rows, in = (int)op->in, out = (int)op->out;
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, out, in, 1.0f, x, in,
                w + op->kernel_offset, out, 0.0f, y, out);
    if (op->bias)
        kernels()->bias_act(y, y, w + op->bias_offset, op->activation == ACT_RELU, rows, op->out);
    else if (op->activation == ACT_RELU)
        kernels()->relu_backward(y, y, rows * op->out); /* y = 0 where y <= 0 */
}

void dense_backward(const struct op *op, float *dx, float *dw, float *dy, const float *w,
                    const float *x, const float *y, size_t rows)
{
    int n = (int)rows, in = (int)op->in, out = (int)op->out;
    if (op->activation == ACT_RELU)
        kernels()->relu_backward(dy, y, rows * op->out);
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, in, out, n, 1.0f, x, in, dy, out, 0.0f,
                dw + op->kernel_offset, out);
    if (op->bias)
        kernels()->column_sums(dw + op->bias_offset, dy, rows, op->out);
    if (dx)
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, n, in, out, 1.0f, dy, out,
                    w + op->kernel_offset, out, 0.0f, dx, in);
}
