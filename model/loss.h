/* The inside of model: heads and their losses. A loss is a loss_type, in the file of its formula, and a row of JOB_LOSSES
 * (job/job.h); loss.c joins it with a head's outputs. */
#pragma once

#include "model/layers.h"

/* A whole microbatch: what a head reads for its examples, and what is known of them. */
struct outputs {
    const struct head *head;
    size_t n, cols; /* n: labels of all examples, head->labels of each one after the other */
    const float *z; /* (n, cols): logits if the loss works on them, otherwise the model's outputs */
    const float *y; /* (n): labels; 0 where they are absent */
    const float *weight; /* (n): 0 for absent labels; NULL: all 1 */
    float *scratch;      /* (2, n) */
};

struct loss_type {
    /* The last activation that is part of the loss's formula, which works on logits. ACT_LINEAR: none; the formula works on
     * outputs. */
    enum activation fused;
    /* Returns the sum over the labels of the label's loss; dz (n, cols) = its gradient by z. */
    double (*add)(float *dz, const struct outputs *o);
};
#define LOSS_TYPE(kind, word, labels, meaning) extern const struct loss_type loss_##word;
JOB_LOSSES(LOSS_TYPE, JOB_NO_ALIAS)
#undef LOSS_TYPE

/* For each head: check the pair of its loss and its last activation, fuse it (the activation is removed, if nothing else reads
 * it), check the outputs. Errors: ERR_INPUT, naming what would fit. */
enum err loss_attach(struct model *m, const struct job *job, struct errmsg *e) MUST_CHECK;

/* The activation of the head's outputs, ignoring dropouts after it. */
static inline enum activation loss_last_activation(const struct model *m, const struct head *h)
{
    uint32_t v = h->value;
    while (v > 0 && m->op[v - 1].type == &dropout_op)
        v = m->op[v - 1].input[0];
    return v > 0 ? m->op[v - 1].activation : ACT_LINEAR;
}

/* The name of the layer that the head reads. */
static inline const char *loss_layer(const struct model *m, const struct head *h)
{
    return m->op[h->value - 1].layer->name;
}

/* The sum over n labels of the loss, and its gradient: loss_type's add. */
double loss_add(float *dz, const struct outputs *o);

/* p (n, cols) = the outputs from z; p may be z. */
void loss_outputs(float *p, const struct outputs *o);

/* Multiply the loss and the gradient of label i by its weight. With a weight of 0 they are 0, even if they were not
 * finite. */
static inline double loss_weigh(double loss, float *dz, const struct outputs *o, size_t i)
{
    if (!o->weight)
        return loss;
    float weight = o->weight[i];
    for (size_t c = i * o->cols; c < (i + 1) * o->cols; c++)
        dz[c] = weight > 0.0f ? dz[c] * weight : 0.0f;
    return weight > 0.0f ? loss * (double)weight : 0.0;
}
