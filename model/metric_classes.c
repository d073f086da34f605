/* Metrics that count classes: keras.metrics.
 *
 * accuracy depends on the loss, as in Keras: SparseCategoricalAccuracy or BinaryAccuracy. The latter compares the
 * probability with 0.5; with from_logits: true that means a logit of 0 (Keras compares the logit itself with 0.5, a known
 * trap that is not copied). */
#include "model/loss.h"
#include "model/metric.h"

/* The first index of the largest value. */
static size_t argmax(const float *z, size_t cols)
{
    size_t best = 0;
    for (size_t c = 1; c < cols; c++)
        best = z[c] > z[best] ? c : best;
    return best;
}

static void count_right(double *sum, double *of, const struct outputs *o)
{
    bool two = job_loss_labels(o->head->loss) == LABELS_TWO_CLASSES;
    double right = 0.0;
    (void)of;
    for (size_t i = 0; i < o->n; i++)
        right += metric_weigh(o, i,
                              two ? (o->z[i] > 0.0f) == (o->y[i] > 0.5f)
                                  : argmax(o->z + i * o->cols, o->cols) == (size_t)o->y[i]);
    *sum += right;
}

double metric_positives(const struct outputs *o)
{
    double sum = 0.0;
    for (size_t i = 0; i < o->n; i++)
        sum += metric_weigh(o, i, o->y[i] > 0.5f);
    return sum;
}

static double predicted_positives(const struct outputs *o)
{
    double sum = 0.0;
    for (size_t i = 0; i < o->n; i++)
        sum += metric_weigh(o, i, o->z[i] > 0.0f);
    return sum;
}

static double true_positives(const struct outputs *o)
{
    double sum = 0.0;
    for (size_t i = 0; i < o->n; i++)
        sum += metric_weigh(o, i, o->z[i] > 0.0f && o->y[i] > 0.5f);
    return sum;
}

static void count_precision(double *sum, double *of, const struct outputs *o)
{
    *sum += true_positives(o);
    *of += predicted_positives(o);
}

static void count_recall(double *sum, double *of, const struct outputs *o)
{
    *sum += true_positives(o);
    *of += metric_positives(o);
}

static double share(double sum, double of, double examples)
{
    (void)examples;
    return of > 0 ? sum / of : 0.0;
}

const struct metric_type metric_accuracy = {.check = metric_wants_classes, .add = count_right};
const struct metric_type metric_precision = {
    .check = metric_wants_two_classes, .add = count_precision, .value = share};
const struct metric_type metric_recall = {
    .check = metric_wants_two_classes, .add = count_recall, .value = share};
