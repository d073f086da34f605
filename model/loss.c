/* The loss of a model: keras.losses, per example, without the mean: the ps divides by the number of examples. A
 * cross-entropy always works on logits: either given as such (from_logits), or by fusing the last softmax or sigmoid, which
 * Keras does too if it can see the activation (keras/src/backend/tensorflow/nn.py, _get_logits). */
#include "model/loss.h"

#include <string.h>

#include "common/base/mem.h"
#include "common/math/kernels.h"

static const struct loss_type *loss_type_of(const struct model *m)
{
#define TYPE(kind, word, labels, meaning) [LOSS_##kind] = &loss_##word,
    static const struct loss_type *const types[] = {JOB_LOSSES(TYPE, JOB_NO_ALIAS)};
    return types[m->loss];
}

/* ---- valid pairs of a loss and a last activation ---- */

/* The activation of the outputs, ignoring dropouts after it. */
static enum activation last_activation(const struct model *m)
{
    uint32_t i = m->ops;
    while (i > 0 && m->op[i - 1].type == &dropout_op)
        i--;
    return i > 0 ? m->op[i - 1].activation : ACT_LINEAR;
}

static enum err fuse(struct model *m, bool from_logits, struct errmsg *e)
{
    const struct op *last = &m->op[m->ops - 1];
    enum activation found = last_activation(m), match = loss_type_of(m)->fused;
    if (from_logits && found != ACT_LINEAR)
        return err_set(e, ERR_INPUT,
                       "model.loss: %s with from_logits: true needs a linear last layer, but %s "
                       "has %s: remove %s",
                       job_loss_word(m->loss), last->layer->name, activation_name(found),
                       found == match ? "from_logits or the activation" : "the activation");
    if (from_logits)
        return ERR_OK;
    if (last->type != &activation_op || found != match)
        return err_set(e, ERR_INPUT,
                       "model.loss: %s does not fit %s, whose last activation is %s: use "
                       "from_logits: true with a linear last layer, or a last %s",
                       job_loss_word(m->loss), last->layer->name, activation_name(found),
                       activation_name(match));
    m->fused = true;
    m->value = m->op[--m->ops].input[0];
    return ERR_OK;
}

static enum err refuse_softmax(const struct model *m, struct errmsg *e)
{
    const char *layer = m->op[m->ops - 1].layer->name;
    if (last_activation(m) != ACT_SOFTMAX)
        return ERR_OK;
    return err_set(e, ERR_INPUT,
                   "model.loss: %s does not fit the last softmax of %s: use linear, relu, sigmoid "
                   "or tanh, or sparse_categorical_crossentropy",
                   job_loss_word(m->loss), layer);
}

static enum err check_outputs(const struct model *m, struct errmsg *e)
{
    const char *layer = m->op[m->ops - 1].layer->name;
    if (m->shape.rank != 1)
        return err_set(e, ERR_INPUT,
                       "model.loss: %s gives %u dimensions for each row, but the loss needs one: "
                       "put a flatten before it",
                       layer, m->shape.rank);
    uint32_t outputs = m->shape.dim[0];
    enum job_labels labels = job_loss_labels(m->loss);
    if (labels == LABELS_CLASSES && outputs < 2)
        return err_set(e, ERR_INPUT,
                       "model.loss: %s chooses among classes, but %s has 1 output: use units of at "
                       "least 2, or binary_crossentropy",
                       job_loss_word(m->loss), layer);
    if (labels != LABELS_CLASSES && outputs != 1)
        return err_set(
            e, ERR_INPUT,
            "model.loss: %s has one label for each row, but %s gives %u outputs: use units: 1%s",
            job_loss_word(m->loss), layer, outputs,
            labels == LABELS_TWO_CLASSES ? ", or sparse_categorical_crossentropy" : "");
    return ERR_OK;
}

/* Set the weights of all classes, if some are given. */
static enum err attach_class_weights(struct model *m, const struct job *job, struct errmsg *e)
{
    uint32_t classes = model_classes(m), n = job->training.class_weights;
    if (n == 0)
        return ERR_OK;
    if (classes == 0)
        return err_set(e, ERR_INPUT,
                       "training.class_weight: %s has no classes: use a cross-entropy",
                       job_loss_word(m->loss));
    m->class_weight = mem_floats(classes);
    if (!m->class_weight)
        return err_memory_of(e, "model");
    for (uint32_t i = 0; i < classes; i++)
        m->class_weight[i] = 1.0f;
    for (uint32_t i = 0; i < n; i++) {
        const struct class_weight *c = &job->training.class_weight[i];
        if (c->label >= classes)
            return err_set(e, ERR_INPUT,
                           "training.class_weight: there is no class %u: the model has %u, 0 to %u",
                           c->label, classes, classes - 1);
        m->class_weight[c->label] = c->weight;
    }
    return ERR_OK;
}

enum err loss_attach(struct model *m, const struct job *job, struct errmsg *e)
{
    m->loss = job->model.loss;
    enum err code = job_blame(job, PLACE_LOSS, check_outputs(m, e), e);
    if (!code)
        code = job_blame(job, PLACE_CLASS_WEIGHT, attach_class_weights(m, job, e), e);
    if (code)
        return code;
    code = loss_type_of(m)->fused != ACT_LINEAR ? fuse(m, job->model.from_logits, e)
                                                : refuse_softmax(m, e);
    return job_blame(job, PLACE_LOSS, code, e);
}

/* ---- running ---- */

double loss_add(float *dz, const struct outputs *o)
{
    return loss_type_of(o->model)->add(dz, o);
}

void loss_outputs(float *p, const struct outputs *o)
{
    if (!o->model->fused)
        memcpy(p, o->z, o->n * o->cols * sizeof *p);
    else if (loss_type_of(o->model)->fused == ACT_SOFTMAX)
        softmax_rows(p, NULL, NULL, o->z, o->n, o->cols);
    else
        kernels()->sigmoid(p, o->z, o->n * o->cols);
}
