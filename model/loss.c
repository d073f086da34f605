/* Losses: keras.losses, per example, without the mean: the ps divides by the number of examples. A cross-entropy
 * always works on logits: either given as such (from_logits), or by fusing the last softmax or sigmoid, which Keras
 * does too if it can see the activation (keras/src/backend/tensorflow/nn.py, _get_logits). */
#include "model/layers.h"

#include <assert.h>
#include <math.h>

#include "common/math/kernels.h"
#include "common/base/mem.h"
#include "model/model.h"

const char *loss_name(enum loss_kind kind)
{
    static const char *const names[] = {"sparse_categorical_crossentropy", "binary_crossentropy",
                                        "mean_squared_error", "mean_absolute_error"};
    return names[kind];
}

bool loss_is_crossentropy(enum loss_kind kind)
{
    return kind == LOSS_SPARSE_CATEGORICAL_CROSSENTROPY || kind == LOSS_BINARY_CROSSENTROPY;
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

/* The activation that is part of the loss's formula. */
static enum activation fusable(enum loss_kind kind)
{
    return kind == LOSS_SPARSE_CATEGORICAL_CROSSENTROPY ? ACT_SOFTMAX : ACT_SIGMOID;
}

static enum err attach_crossentropy(struct model *m, bool from_logits, struct errmsg *e)
{
    const struct op *last = &m->op[m->ops - 1];
    enum activation found = last_activation(m), match = fusable(m->loss);
    if (from_logits && found != ACT_LINEAR)
        return err_set(e, ERR_INPUT,
                       "model.loss: %s with from_logits: true needs a linear last layer, but %s "
                       "has %s: remove %s",
                       loss_name(m->loss), last->layer->name, activation_name(found),
                       found == match ? "from_logits or the activation" : "the activation");
    if (from_logits)
        return ERR_OK;
    if (last->type != &activation_op || found != match)
        return err_set(e, ERR_INPUT,
                       "model.loss: %s does not fit %s, whose last activation is %s: use "
                       "from_logits: true with a linear last layer, or a last %s",
                       loss_name(m->loss), last->layer->name, activation_name(found),
                       activation_name(match));
    m->fused = true;
    m->value = m->op[--m->ops].input[0];
    return ERR_OK;
}

static enum err attach_regression(struct model *m, struct errmsg *e)
{
    const char *layer = m->op[m->ops - 1].layer->name;
    if (last_activation(m) != ACT_SOFTMAX)
        return ERR_OK;
    return err_set(e, ERR_INPUT,
                   "model.loss: %s does not fit the last softmax of %s: use linear, relu, sigmoid "
                   "or tanh, or sparse_categorical_crossentropy",
                   loss_name(m->loss), layer);
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
    if (m->loss == LOSS_SPARSE_CATEGORICAL_CROSSENTROPY && outputs < 2)
        return err_set(e, ERR_INPUT,
                       "model.loss: %s chooses among classes, but %s has 1 output: use units of at "
                       "least 2, or binary_crossentropy",
                       loss_name(m->loss), layer);
    if (m->loss != LOSS_SPARSE_CATEGORICAL_CROSSENTROPY && outputs != 1)
        return err_set(
            e, ERR_INPUT,
            "model.loss: %s has one label for each row, but %s gives %u outputs: use units: 1%s",
            loss_name(m->loss), layer, outputs,
            m->loss == LOSS_BINARY_CROSSENTROPY ? ", or sparse_categorical_crossentropy" : "");
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
                       loss_name(m->loss));
    m->class_weight = mem_floats(classes);
    if (!m->class_weight)
        return err_set(e, ERR_NOMEM, "model: out of memory");
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
    code = loss_is_crossentropy(m->loss) ? attach_crossentropy(m, job->model.from_logits, e)
                                         : attach_regression(m, e);
    return job_blame(job, PLACE_LOSS, code, e);
}

/* ---- the formulas ---- */

/* Multiply an example's loss and gradient by its weight. With a weight of 0 they are 0, even if they were not
 * finite. */
static double weigh(double loss, float *dz, const float *weight, size_t i, size_t cols)
{
    if (!weight)
        return loss;
    for (size_t c = 0; c < cols; c++)
        dz[c] = weight[i] > 0.0f ? dz[c] * weight[i] : 0.0f;
    return weight[i] > 0.0f ? loss * (double)weight[i] : 0.0;
}

/* log(sum exp(z)) - z[label]; gradient softmax(z) - onehot(label) */
static double sparse_categorical(float *dz, float *scratch, const float *z, const float *y,
                                 const float *weight, size_t n, size_t cols)
{
    float *max = scratch, *log_sum = scratch + n;
    softmax_rows(dz, max, log_sum, z, n, cols);
    kernels()->log(log_sum, log_sum, n);
    double loss = 0.0;
    for (size_t i = 0; i < n; i++) {
        size_t label = (size_t)y[i];
        assert(label < cols);
        double own = (double)log_sum[i] + ((double)max[i] - (double)z[i * cols + label]);
        dz[i * cols + label] -= 1.0f;
        loss += weigh(own, dz + i * cols, weight, i, cols);
    }
    return loss;
}

/* log(1 + e) for e in [0, 1] without losing a small e: Kahan's correction by e / ((1 + e) - 1); log_u is log(1 + e). */
static float log1p_of(float e, float log_u)
{
    float u = 1.0f + e;
    return u == 1.0f ? e : log_u * (e / (u - 1.0f));
}

/* max(z, 0) - z y + log(1 + exp(-|z|)) (tf.nn.sigmoid_cross_entropy_with_logits); gradient
 * sigmoid(z) - y */
static double binary(float *dz, float *scratch, const float *z, const float *y, const float *weight,
                     size_t n)
{
    const struct kernels *k = kernels();
    float *e = scratch, *log_u = scratch + n;
    for (size_t i = 0; i < n; i++)
        e[i] = -fabsf(z[i]);
    k->exp(e, e, n);
    for (size_t i = 0; i < n; i++)
        log_u[i] = 1.0f + e[i];
    k->log(log_u, log_u, n);
    k->sigmoid(dz, z, n);
    double loss = 0.0;
    for (size_t i = 0; i < n; i++) {
        double linear = (double)(z[i] <= 0.0f ? 0.0f : z[i]) - (double)z[i] * (double)y[i];
        double own = linear + (double)log1p_of(e[i], log_u[i]);
        dz[i] -= y[i];
        loss += weigh(own, dz + i, weight, i, 1);
    }
    return loss;
}

/* (z - y)^2; gradient 2 (z - y) */
static double squared(float *dz, const float *z, const float *y, const float *weight, size_t n)
{
    double loss = 0.0;
    for (size_t i = 0; i < n; i++) {
        float d = z[i] - y[i];
        dz[i] = 2.0f * d;
        loss += weigh((double)d * (double)d, dz + i, weight, i, 1);
    }
    return loss;
}

/* z - y|; gradient: its sign, 0 at 0 (and NaN for NaN) */
static double absolute(float *dz, const float *z, const float *y, const float *weight, size_t n)
{
    double loss = 0.0;
    for (size_t i = 0; i < n; i++) {
        float d = z[i] - y[i];
        dz[i] = d > 0.0f ? 1.0f : d < 0.0f ? -1.0f : d;
        loss += weigh((double)fabsf(d), dz + i, weight, i, 1);
    }
    return loss;
}

double loss_rows(enum loss_kind kind, float *dz, float *scratch, const float *z, const float *y,
                 const float *weight, size_t n, size_t cols)
{
    switch (kind) {
    case LOSS_SPARSE_CATEGORICAL_CROSSENTROPY:
        return sparse_categorical(dz, scratch, z, y, weight, n, cols);
    case LOSS_BINARY_CROSSENTROPY:
        return binary(dz, scratch, z, y, weight, n);
    case LOSS_MEAN_SQUARED_ERROR:
        return squared(dz, z, y, weight, n);
    case LOSS_MEAN_ABSOLUTE_ERROR:
        return absolute(dz, z, y, weight, n);
    }
    return 0.0;
}
