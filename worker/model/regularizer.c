/* Regularizers: keras.regularizers L1, L2, L1L2: the penalty l1 sum |w| + l2 sum w^2 of a tensor is
 * added to the mean loss. A microbatch of n examples adds n times the penalty and its gradient, so
 * that the mean over examples has them once, whatever the split. */
#include "worker/model/layers.h"

#include <math.h>

enum { LANES = 16 };

/* In lanes and an order that do not depend on the CPU. */
static double penalty(float l1, float l2, const float *w, uint64_t n)
{
    double absolute[LANES] = {0}, square[LANES] = {0};
    for (uint64_t i = 0; i < n; i++) {
        double v = (double)w[i];
        absolute[i % LANES] += fabs(v);
        square[i % LANES] += v * v;
    }
    double sum = 0.0;
    for (int k = 0; k < LANES; k++)
        sum += (double)l1 * absolute[k] + (double)l2 * square[k];
    return sum;
}

static bool is_regularized(const struct op *op)
{
    const struct job_weights *kernel = &op->layer->kernel, *bias = &op->layer->bias;
    return op->tensors > 0 && (kernel->l1 > 0 || kernel->l2 > 0 || bias->l1 > 0 || bias->l2 > 0);
}

double regularizer_penalty(const struct model *m, const float *w)
{
    double sum = 0.0;
    for (uint32_t i = 0; i < m->ops; i++) {
        const struct op *op = &m->op[i];
        const struct tensor *t = &m->layout.tensor[op->tensor];
        if (!is_regularized(op))
            continue;
        sum +=
            penalty(op->layer->kernel.l1, op->layer->kernel.l2, w + t[0].offset_elems, t[0].elems);
        if (op->layer->use_bias)
            sum +=
                penalty(op->layer->bias.l1, op->layer->bias.l2, w + t[1].offset_elems, t[1].elems);
    }
    return sum;
}

/* dw += n (l1 sign(w) + 2 l2 w) */
static void add(float *dw, const float *w, uint64_t elems, float l1, float l2, float n)
{
    const float a = n * l1, b = 2.0f * n * l2;
    for (uint64_t i = 0; i < elems; i++) {
        float sign = w[i] > 0.0f ? a : w[i] < 0.0f ? -a : 0.0f;
        dw[i] += sign + b * w[i];
    }
}

void regularizer_backward(const struct model *m, const struct op *op, float *dw, const float *w,
                          uint32_t n)
{
    const struct tensor *t = &m->layout.tensor[op->tensor];
    if (!is_regularized(op))
        return;
    add(dw + t[0].offset_elems, w + t[0].offset_elems, t[0].elems, op->layer->kernel.l1,
        op->layer->kernel.l2, (float)n);
    if (op->layer->use_bias)
        add(dw + t[1].offset_elems, w + t[1].offset_elems, t[1].elems, op->layer->bias.l1,
            op->layer->bias.l2, (float)n);
}
