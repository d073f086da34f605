/* Metrics: keras.metrics. accuracy depends on the loss, as in Keras: SparseCategoricalAccuracy or BinaryAccuracy.
 * The latter compares the probability with 0.5; with from_logits: true that means a logit of 0 (Keras compares the
 * logit itself with 0.5, a known trap that is not copied). */
#include "model/metric.h"
#include "model/layers.h"

#include <math.h>

#include "common/base/real.h"
#include "common/math/kernels.h"

static const struct metric {
    const char *name;
    bool ratio; /* a quotient of two sums, not a mean over examples */
    bool larger_is_better;
    enum { CLASSES, ONE_OUTPUT, TWO_CLASSES } wants;
} metrics[] = {
    [METRIC_ACCURACY] = {"accuracy", false, true, CLASSES},
    [METRIC_MEAN_ABSOLUTE_ERROR] = {"mean_absolute_error", false, false, ONE_OUTPUT},
    [METRIC_MEAN_SQUARED_ERROR] = {"mean_squared_error", false, false, ONE_OUTPUT},
    [METRIC_AUC] = {"auc", false, true, TWO_CLASSES},
    [METRIC_PRECISION] = {"precision", true, true, TWO_CLASSES},
    [METRIC_RECALL] = {"recall", true, true, TWO_CLASSES},
    [METRIC_LOGLOSS] = {"logloss", false, false, TWO_CLASSES},
    [METRIC_NORMALIZED_ENTROPY] = {"normalized_entropy", true, false, TWO_CLASSES},
    [METRIC_CALIBRATION] = {"calibration", true, false, TWO_CLASSES},
};

const char *metric_name(enum metric_kind kind)
{
    return metrics[kind].name;
}

bool metric_larger_is_better(enum metric_kind kind)
{
    return metrics[kind].larger_is_better;
}

/* Index of metric i's second sum. */
static uint32_t second_sum(const enum metric_kind *kind, uint32_t n, uint32_t i)
{
    uint32_t at = n;
    for (uint32_t k = 0; k < i; k++)
        at += metrics[kind[k]].ratio;
    return at;
}

uint32_t metric_sums(const struct job *job)
{
    return second_sum(job->model.metric, job->model.metrics, job->model.metrics) +
           job_has_weights(job);
}

/* The mean logloss divided by the entropy of the labels' own rate, -(p log p + (1 - p) log(1 - p)): He et al. 2014,
 * equation (1). Below 1 if the model knows more than the rate. NAN for labels of one class, because 0 log 0 is NAN. */
static double normalized_entropy(double logloss, double positives, double examples)
{
    double p = positives / examples, q = 1.0 - p;
    return logloss / examples / -(p * real_log(p) + q * real_log(q));
}

double metric_value(const struct job *job, uint32_t i, const double *sum, double examples)
{
    if (job_has_weights(job)) /* the sum of weights is the last sum */
        examples = sum[metric_sums(job) - 1];
    enum metric_kind kind = job->model.metric[i];
    if (kind == METRIC_AUC || examples <= 0)
        return NAN;
    if (!metrics[kind].ratio)
        return sum[i] / examples;
    double of = sum[second_sum(job->model.metric, job->model.metrics, i)];
    if (kind == METRIC_NORMALIZED_ENTROPY)
        return normalized_entropy(sum[i], of, examples);
    if (kind == METRIC_CALIBRATION)
        return of > 0 ? sum[i] / of : NAN;
    return of > 0 ? sum[i] / of : 0.0;
}

enum err metric_check(const struct model *m, enum metric_kind kind, struct errmsg *e)
{
    const struct metric *metric = &metrics[kind];
    if (metric->wants == ONE_OUTPUT)
        return m->shape.dim[0] == 1
                   ? ERR_OK
                   : err_set(e, ERR_INPUT,
                             "model.metrics: %s does not fit %u outputs: use accuracy",
                             metric->name, m->shape.dim[0]);
    if (metric->wants == CLASSES ? loss_is_crossentropy(m->loss)
                                 : m->loss == LOSS_BINARY_CROSSENTROPY)
        return ERR_OK;
    return err_set(e, ERR_INPUT, "model.metrics: %s does not fit %s: %s", metric->name,
                   loss_name(m->loss),
                   metric->wants == CLASSES
                       ? "use mean_absolute_error, or a cross-entropy as the loss"
                       : "it is a metric of two classes, and needs the loss binary_crossentropy");
}

enum err metric_attach(struct model *m, const struct job *job, struct errmsg *e)
{
    m->weighted = job_has_weights(job);
    for (uint32_t i = 0; i < job->model.metrics; i++) {
        enum err code = metric_check(m, job->model.metric[i], e);
        if (code)
            return code;
        m->metric[m->metrics++] = job->model.metric[i];
    }
    return ERR_OK;
}

/* An example's value times its weight. With weight 0 it is 0, even if the value is not finite. */
static double weigh(const float *weight, size_t i, double value)
{
    if (!weight)
        return value;
    return weight[i] > 0.0f ? (double)weight[i] * value : 0.0;
}

/* The first index of the largest value. */
static size_t argmax(const float *z, size_t cols)
{
    size_t best = 0;
    for (size_t c = 1; c < cols; c++)
        best = z[c] > z[best] ? c : best;
    return best;
}

static double categorical_accuracy(const float *z, const float *y, const float *weight, size_t n,
                                   size_t cols)
{
    double hits = 0.0;
    for (size_t i = 0; i < n; i++)
        hits += weigh(weight, i, argmax(z + i * cols, cols) == (size_t)y[i]);
    return hits;
}

static double binary_accuracy(const float *z, const float *y, const float *weight, size_t n)
{
    double hits = 0.0;
    for (size_t i = 0; i < n; i++)
        hits += weigh(weight, i, (z[i] > 0.0f) == (y[i] > 0.5f));
    return hits;
}

static double absolute_error(const float *outputs, const float *y, const float *weight, size_t n)
{
    double sum = 0.0;
    for (size_t i = 0; i < n; i++)
        sum += weigh(weight, i, (double)fabsf(outputs[i] - y[i]));
    return sum;
}

static double squared_error(const float *outputs, const float *y, const float *weight, size_t n)
{
    double sum = 0.0;
    for (size_t i = 0; i < n; i++)
        sum += weigh(weight, i, (double)(outputs[i] - y[i]) * (double)(outputs[i] - y[i]));
    return sum;
}

/* -log of the probability of the label: log(1 + exp(-z)) or log(1 + exp(z)) */
static double logloss(float *scratch, const float *z, const float *y, const float *weight, size_t n)
{
    for (size_t i = 0; i < n; i++)
        scratch[i] = y[i] > 0.5f ? -z[i] : z[i];
    kernels()->softplus(scratch, scratch, n);
    double sum = 0.0;
    for (size_t i = 0; i < n; i++)
        sum += weigh(weight, i, (double)scratch[i]);
    return sum;
}

/* Count true positives, and all predicted (precision) or actual (recall) positives. */
static void count_positives(double *right, double *all, bool precision, const float *z,
                            const float *y, const float *weight, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        bool predicted = z[i] > 0.0f, is = y[i] > 0.5f;
        *right += weigh(weight, i, predicted && is);
        *all += weigh(weight, i, precision ? predicted : is);
    }
}

static double positives(const float *y, const float *weight, size_t n)
{
    double sum = 0.0;
    for (size_t i = 0; i < n; i++)
        sum += weigh(weight, i, y[i] > 0.5f);
    return sum;
}

static double probabilities(float *scratch, const float *z, const float *weight, size_t n)
{
    kernels()->sigmoid(scratch, z, n);
    double sum = 0.0;
    for (size_t i = 0; i < n; i++)
        sum += weigh(weight, i, (double)scratch[i]);
    return sum;
}

void metric_weigh(const struct model *m, double *sum, const float *weight, size_t n)
{
    double all = 0.0;
    for (size_t i = 0; i < n; i++)
        all += weigh(weight, i, 1.0);
    if (m->weighted)
        sum[second_sum(m->metric, m->metrics, m->metrics)] += all;
}

void metric_rows(const struct model *m, uint32_t i, double *sum, float *scratch, const float *z,
                 const float *y, const float *weight, size_t n, size_t cols)
{
    enum metric_kind kind = m->metric[i];
    const float *outputs = z;
    if (m->fused && (kind == METRIC_MEAN_ABSOLUTE_ERROR || kind == METRIC_MEAN_SQUARED_ERROR)) {
        kernels()->sigmoid(scratch, z, n);
        outputs = scratch;
    }
    switch (kind) {
    case METRIC_ACCURACY:
        sum[i] += m->loss == LOSS_BINARY_CROSSENTROPY ? binary_accuracy(z, y, weight, n)
                                                      : categorical_accuracy(z, y, weight, n, cols);
        return;
    case METRIC_MEAN_ABSOLUTE_ERROR:
        sum[i] += absolute_error(outputs, y, weight, n);
        return;
    case METRIC_MEAN_SQUARED_ERROR:
        sum[i] += squared_error(outputs, y, weight, n);
        return;
    case METRIC_PRECISION:
    case METRIC_RECALL:
        count_positives(&sum[i], &sum[second_sum(m->metric, m->metrics, i)],
                        kind == METRIC_PRECISION, z, y, weight, n);
        return;
    case METRIC_LOGLOSS:
        sum[i] += logloss(scratch, z, y, weight, n);
        return;
    case METRIC_NORMALIZED_ENTROPY:
        sum[i] += logloss(scratch, z, y, weight, n);
        sum[second_sum(m->metric, m->metrics, i)] += positives(y, weight, n);
        return;
    case METRIC_CALIBRATION:
        sum[i] += probabilities(scratch, z, weight, n);
        sum[second_sum(m->metric, m->metrics, i)] += positives(y, weight, n);
        return;
    case METRIC_AUC: /* not a sum */
        return;
    }
}
