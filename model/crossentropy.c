/* The cross-entropies, which work on logits: a last softmax or sigmoid is part of the formula. And the metrics of the
 * predicted probabilities of two classes. */
#include <assert.h>
#include <math.h>

#include "common/base/real.h"
#include "common/math/kernels.h"
#include "model/loss.h"
#include "model/metric.h"

/* ---- losses ---- */

/* log(sum exp(z)) - z[label]; gradient softmax(z) - onehot(label) */
static double add_classes(float *dz, const struct outputs *o)
{
    float *max = o->scratch, *log_sum = o->scratch + o->n;
    softmax_rows(dz, max, log_sum, o->z, o->n, o->cols);
    kernels()->log(log_sum, log_sum, o->n);
    double loss = 0.0;
    for (size_t i = 0; i < o->n; i++) {
        size_t label = (size_t)o->y[i];
        assert(label < o->cols);
        double own = (double)log_sum[i] + ((double)max[i] - (double)o->z[i * o->cols + label]);
        dz[i * o->cols + label] -= 1.0f;
        loss += loss_weigh(own, dz, o, i);
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
static double add_two_classes(float *dz, const struct outputs *o)
{
    const struct kernels *k = kernels();
    const float *z = o->z;
    float *e = o->scratch, *log_u = o->scratch + o->n;
    for (size_t i = 0; i < o->n; i++)
        e[i] = -fabsf(z[i]);
    k->exp(e, e, o->n);
    for (size_t i = 0; i < o->n; i++)
        log_u[i] = 1.0f + e[i];
    k->log(log_u, log_u, o->n);
    k->sigmoid(dz, z, o->n);
    double loss = 0.0;
    for (size_t i = 0; i < o->n; i++) {
        double linear = (double)(z[i] <= 0.0f ? 0.0f : z[i]) - (double)z[i] * (double)o->y[i];
        double own = linear + (double)log1p_of(e[i], log_u[i]);
        dz[i] -= o->y[i];
        loss += loss_weigh(own, dz, o, i);
    }
    return loss;
}

const struct loss_type loss_sparse_categorical_crossentropy = {ACT_SOFTMAX, add_classes};
const struct loss_type loss_binary_crossentropy = {ACT_SIGMOID, add_two_classes};

/* ---- metrics ---- */

/* -log of the probability of the label: log(1 + exp(-z)) or log(1 + exp(z)) */
static void add_logloss(double *sum, double *of, const struct outputs *o)
{
    double all = 0.0;
    (void)of;
    for (size_t i = 0; i < o->n; i++)
        o->scratch[i] = o->y[i] > 0.5f ? -o->z[i] : o->z[i];
    kernels()->softplus(o->scratch, o->scratch, o->n);
    for (size_t i = 0; i < o->n; i++)
        all += metric_weigh(o, i, (double)o->scratch[i]);
    *sum += all;
}

static void add_logloss_and_positives(double *sum, double *of, const struct outputs *o)
{
    add_logloss(sum, NULL, o);
    *of += metric_positives(o);
}

/* The mean logloss divided by the entropy of the labels' own rate, -(p log p + (1 - p) log(1 - p)): He et al. 2014,
 * equation (1). Below 1 if the model knows more than the rate. NAN for labels of one class, because 0 log 0 is NAN. */
static double normalized_entropy(double logloss, double positives, double examples)
{
    double p = positives / examples, q = 1.0 - p;
    return logloss / examples / -(p * real_log(p) + q * real_log(q));
}

static void add_predictions_and_positives(double *sum, double *of, const struct outputs *o)
{
    double predictions = 0.0;
    kernels()->sigmoid(o->scratch, o->z, o->n);
    for (size_t i = 0; i < o->n; i++)
        predictions += metric_weigh(o, i, (double)o->scratch[i]);
    *sum += predictions;
    *of += metric_positives(o);
}

static double calibration(double predictions, double positives, double examples)
{
    (void)examples;
    return positives > 0 ? predictions / positives : NAN;
}

const struct metric_type metric_logloss = {.check = metric_wants_two_classes, .add = add_logloss};
const struct metric_type metric_normalized_entropy = {.check = metric_wants_two_classes,
                                                      .add = add_logloss_and_positives,
                                                      .value = normalized_entropy,
                                                      .undefined = METRIC_ONE_CLASS};
const struct metric_type metric_calibration = {
    .check = metric_wants_two_classes,
    .add = add_predictions_and_positives,
    .value = calibration,
    .undefined = "have the first class; it needs rows of the second"};
