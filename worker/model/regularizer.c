/* Regularizers: keras.regularizers L1, L2, L1L2: the penalty l1 sum |w| + l2 sum w^2 of a tensor is
 * added to the mean loss. A microbatch of n examples adds n times the penalty and its gradient, so
 * that the mean over examples has them once, whatever the split. */
#include "worker/model/layers.h"
#include "worker/model/model.h"

#include <math.h>

enum { LANES = 16 };

/* In lanes and an order that do not depend on the CPU. */
static double penalty(const struct job_weights *by, const float *block, const struct tensor *t)
{
    const float *w = block + t->offset_elems;
    double absolute[LANES] = {0}, square[LANES] = {0};
    for (uint64_t i = 0; i < t->elems; i++) {
        double v = (double)w[i];
        absolute[i % LANES] += fabs(v);
        square[i % LANES] += v * v;
    }
    double sum = 0.0;
    for (int k = 0; k < LANES; k++)
        sum += (double)by->l1 * absolute[k] + (double)by->l2 * square[k];
    return sum;
}

static bool is_regularized(const struct op *op)
{
    const struct job_weights *kernel = &op->layer->kernel, *bias = &op->layer->bias;
    return op->tensors > 0 && (kernel->l1 > 0 || kernel->l2 > 0 || bias->l1 > 0 || bias->l2 > 0);
}

double model_penalty(const struct model *m, const float *w)
{
    double sum = 0.0;
    for (uint32_t i = 0; i < m->ops; i++) {
        const struct op *op = &m->op[i];
        const struct tensor *t = &m->layout.tensor[op->tensor];
        if (!is_regularized(op))
            continue;
        sum += penalty(&op->layer->kernel, w, t);
        if (op->layer->use_bias)
            sum += penalty(&op->layer->bias, w, t + op->tensors - 1);
    }
    return sum;
}

/* dw += n (l1 sign(w) + 2 l2 w) */
static void add(float *dw, const float *w, const struct tensor *t, const struct job_weights *by,
                float n)
{
    const float a = n * by->l1, b = 2.0f * n * by->l2;
    for (uint64_t i = t->offset_elems; i < t->offset_elems + t->elems; i++) {
        float sign = w[i] > 0.0f ? a : w[i] < 0.0f ? -a : 0.0f;
        dw[i] += sign + b * w[i];
    }
}

void regularizer_backward(const struct model *m, const struct op *op, float *dw, const float *w,
                          float n)
{
    const struct tensor *t = &m->layout.tensor[op->tensor];
    if (!is_regularized(op))
        return;
    add(dw, w, t, &op->layer->kernel, n);
    if (op->layer->use_bias)
        add(dw, w, t + op->tensors - 1, &op->layer->bias, n);
}
