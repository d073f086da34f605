/* Regularizers: keras.regularizers L1, L2, L1L2: the penalty l1 sum |w| + l2 sum w^2 of a tensor is added to the
 * mean loss. A microbatch of n examples adds n times the penalty and its gradient, so the mean over examples
 * contains them once, whatever the split. */
#include "model/layers.h"
#include "model/model.h"

#include <math.h>

enum { LANES = 16 };

/* Uses lanes and an order that do not depend on the CPU. */
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

static double penalty_of(const struct job_weights *by, const float *block, const struct tensor *t)
{
    return penalty(by->l1, by->l2, block + t->offset_elems, t->elems);
}

/* As in Keras, the loss contains no regularizer of a frozen layer. */
static bool is_regularized(const struct op *op)
{
    const struct job_weights *kernel = &op->layer->kernel, *bias = &op->layer->bias;
    return op->tensors > 0 && !op_is_frozen(op) &&
           (kernel->l1 > 0 || kernel->l2 > 0 || bias->l1 > 0 || bias->l2 > 0);
}

double model_penalty(const struct model *m, const float *w)
{
    double sum = 0.0;
    for (uint32_t i = 0; i < m->ops; i++) {
        const struct op *op = &m->op[i];
        const struct tensor *t = &m->layout.tensor[op->tensor];
        if (!is_regularized(op))
            continue;
        sum += penalty_of(&op->layer->kernel, w, t);
        if (op->layer->use_bias)
            sum += penalty_of(&op->layer->bias, w, t + op->tensors - 1);
    }
    return sum;
}

/* dw (elems) += n (l1 sign(w) + 2 l2 w) */
static void add(float *dw, const float *w, uint64_t elems, float l1, float l2, float n)
{
    const float a = n * l1, b = 2.0f * n * l2;
    for (uint64_t i = 0; i < elems; i++) {
        float sign = w[i] > 0.0f ? a : w[i] < 0.0f ? -a : 0.0f;
        dw[i] += sign + b * w[i];
    }
}

static void add_to(float *dw, const float *w, const struct tensor *t, const struct job_weights *by,
                   float n)
{
    add(dw + t->offset_elems, w + t->offset_elems, t->elems, by->l1, by->l2, n);
}

void regularizer_backward(const struct model *m, const struct op *op, float *dw, const float *w,
                          float n)
{
    const struct tensor *t = &m->layout.tensor[op->tensor];
    if (!is_regularized(op))
        return;
    add_to(dw, w, t, &op->layer->kernel, n);
    if (op->layer->use_bias)
        add_to(dw, w, t + op->tensors - 1, &op->layer->bias, n);
}

/* ---- rows of tables ---- */

/* Number of floats of table t that the microbatch looks up; 0 without a regularizer. */
static uint64_t looked_up(const struct model *m, uint32_t t, const struct op_pass *p)
{
    const struct row_table_spec *spec = &m->layout.rows->table[t];
    bool on = m->row_penalty[t].l1 > 0 || m->row_penalty[t].l2 > 0;
    return on ? (uint64_t)p->keys->list[spec->list].keys * spec->dim : 0;
}

double regularizer_rows(const struct model *m, const struct op_pass *p)
{
    double sum = 0.0;
    for (uint32_t t = 0; m->layout.rows && t < m->layout.rows->tables; t++)
        sum +=
            penalty(m->row_penalty[t].l1, m->row_penalty[t].l2, p->table->w[t], looked_up(m, t, p));
    return (double)p->n * sum;
}

void regularizer_backward_rows(const struct model *m, const struct op_pass *p)
{
    for (uint32_t t = 0; m->layout.rows && t < m->layout.rows->tables; t++)
        add(p->table->dw[t], p->table->w[t], looked_up(m, t, p), m->row_penalty[t].l1,
            m->row_penalty[t].l2, (float)p->n);
}
