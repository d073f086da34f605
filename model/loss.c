/* The losses of a model's heads: keras.losses, per example, without the mean: the ps divides by the number of examples. A
 * cross-entropy always works on logits: either given as such (from_logits), or by fusing the last softmax or sigmoid, which
 * Keras does too if it can see the activation (keras/src/backend/tensorflow/nn.py, _get_logits). */
#include "model/loss.h"

#include <string.h>

#include "common/base/mem.h"
#include "common/math/kernels.h"

static const struct loss_type *loss_type_of(const struct head *h)
{
#define TYPE(kind, word, labels, meaning) [LOSS_##kind] = &loss_##word,
    static const struct loss_type *const types[] = {JOB_LOSSES(TYPE, JOB_NO_ALIAS)};
    return types[h->loss];
}

/* ---- valid pairs of a loss and a last activation ---- */

static enum err fuse(struct model *m, struct head *h, bool from_logits, struct errmsg *e)
{
    const uint32_t last = h->value - 1;
    enum activation found = loss_last_activation(m, h), match = loss_type_of(h)->fused;
    if (from_logits && found != ACT_LINEAR)
        return err_set(e, ERR_INPUT,
                       "model.loss: %s with from_logits: true needs a linear last layer, but %s "
                       "has %s: remove %s",
                       job_loss_word(h->loss), loss_layer(m, h), activation_name(found),
                       found == match ? "from_logits or the activation" : "the activation");
    if (from_logits)
        return ERR_OK;
    if (m->op[last].type != &activation_op || found != match)
        return err_set(e, ERR_INPUT,
                       "model.loss: %s does not fit %s, whose last activation is %s: use "
                       "from_logits: true with a linear last layer, or a last %s",
                       job_loss_word(h->loss), loss_layer(m, h), activation_name(found),
                       activation_name(match));
    h->fused = true;
    h->value = m->op[last].input[0];
    if (value_readers(m, last + 1) == 0)
        op_remove(m, last);
    return ERR_OK;
}

static enum err refuse_softmax(const struct model *m, const struct head *h, struct errmsg *e)
{
    if (loss_last_activation(m, h) != ACT_SOFTMAX)
        return ERR_OK;
    return err_set(e, ERR_INPUT,
                   "model.loss: %s does not fit the last softmax of %s: use linear, relu, sigmoid "
                   "or tanh, or sparse_categorical_crossentropy",
                   job_loss_word(h->loss), loss_layer(m, h));
}

static enum err check_outputs(const struct model *m, const struct head *h, struct errmsg *e)
{
    if (h->value == 0)
        return err_set(e, ERR_INPUT, "model.loss: %s has no layer to read", h->reader.name);
    const char *layer = loss_layer(m, h);
    if (h->shape.rank != 1)
        return err_set(e, ERR_INPUT,
                       "model.loss: %s gives %u dimensions for each row, but the loss needs one: "
                       "put a flatten before it",
                       layer, h->shape.rank);
    uint32_t outputs = h->shape.dim[0];
    enum job_labels labels = job_loss_labels(h->loss);
    if (h->labels != 1 && (labels == LABELS_CLASSES || h->labels != outputs))
        return err_set(e, ERR_INPUT, "model.loss: %s: %s gives %u outputs for %u labels",
                       job_loss_word(h->loss), layer, outputs, h->labels);
    if (labels == LABELS_CLASSES && outputs < 2)
        return err_set(e, ERR_INPUT,
                       "model.loss: %s chooses among classes, but %s has 1 output: use units of at "
                       "least 2, or binary_crossentropy",
                       job_loss_word(h->loss), layer);
    if (labels != LABELS_CLASSES && outputs != h->labels)
        return err_set(
            e, ERR_INPUT,
            "model.loss: %s has one label for each row, but %s gives %u outputs: use units: 1%s",
            job_loss_word(h->loss), layer, outputs,
            labels == LABELS_TWO_CLASSES ? ", or sparse_categorical_crossentropy" : "");
    return ERR_OK;
}

/* Set the weights of all classes, if some are given. */
static enum err attach_class_weights(struct head *h, const struct job_head *from, struct errmsg *e)
{
    uint32_t classes = head_classes(h);
    if (from->class_weights == 0)
        return ERR_OK;
    if (classes == 0)
        return err_set(e, ERR_INPUT,
                       "training.class_weight: %s has no classes: use a cross-entropy",
                       job_loss_word(h->loss));
    h->class_weight = mem_floats(classes);
    if (!h->class_weight)
        return err_memory_of(e, "model");
    for (uint32_t i = 0; i < classes; i++)
        h->class_weight[i] = 1.0f;
    for (uint32_t i = 0; i < from->class_weights; i++) {
        const struct class_weight *c = &from->class_weight[i];
        if (c->label >= classes)
            return err_set(e, ERR_INPUT,
                           "training.class_weight: there is no class %u: the model has %u, 0 to %u",
                           c->label, classes, classes - 1);
        h->class_weight[c->label] = c->weight;
    }
    return ERR_OK;
}

static enum err attach(struct model *m, const struct job *job, uint32_t i, struct errmsg *e)
{
    struct head *h = &m->head[i];
    const struct job_head *from = &job->model.head[i];
    enum err code = job_blame(job, PLACE_LOSS, check_outputs(m, h, e), e);
    if (!code)
        code = job_blame(job, PLACE_CLASS_WEIGHT, attach_class_weights(h, from, e), e);
    if (code)
        return code;
    code = loss_type_of(h)->fused != ACT_LINEAR ? fuse(m, h, from->from_logits, e)
                                                : refuse_softmax(m, h, e);
    return job_blame(job, PLACE_LOSS, code, e);
}

enum err loss_attach(struct model *m, const struct job *job, struct errmsg *e)
{
    enum err code = ERR_OK;
    for (uint32_t i = 0; i < m->heads && !code; i++)
        code = attach(m, job, i, e);
    return code;
}

/* ---- running ---- */

double loss_add(float *dz, const struct outputs *o)
{
    return loss_type_of(o->head)->add(dz, o);
}

void loss_outputs(float *p, const struct outputs *o)
{
    if (!o->head->fused)
        memcpy(p, o->z, o->n * o->cols * sizeof *p);
    else if (loss_type_of(o->head)->fused == ACT_SOFTMAX)
        softmax_rows(p, NULL, NULL, o->z, o->n, o->cols);
    else
        kernels()->sigmoid(p, o->z, o->n * o->cols);
}
