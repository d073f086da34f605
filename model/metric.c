/* The metrics of a job: their sums, their values, and whether they fit the model. */
#include "model/metric.h"

#include <math.h>

#include "model/loss.h"

const struct metric_type *metric_type_of(enum metric_kind kind)
{
#define TYPE(kind, word, better, meaning) [METRIC_##kind] = &metric_##word,
    static const struct metric_type *const types[] = {JOB_METRICS(TYPE, JOB_NO_ALIAS)};
    return types[kind];
}

bool metric_is_needed(const struct job *job, enum metric_needs needs)
{
    for (uint32_t i = 0; i < job->model.metrics; i++)
        if (metric_type_of(job->model.metric[i].kind)->needs == needs)
            return true;
    return false;
}

/* ---- sums ---- */

/* Index of metric i's second sum. */
static uint32_t second_sum(const struct job_metric *metric, uint32_t n, uint32_t i)
{
    uint32_t at = n;
    for (uint32_t k = 0; k < i; k++)
        at += metric_type_of(metric[k].kind)->value != NULL;
    return at;
}

uint32_t metric_sums(const struct job *job)
{
    return second_sum(job->model.metric, job->model.metrics, job->model.metrics) +
           job_has_weights(job);
}

double metric_value(const struct job *job, uint32_t i, const double *sum, double examples)
{
    const struct metric_type *type = metric_type_of(job->model.metric[i].kind);
    if (job_has_weights(job)) /* the sum of weights is the last sum */
        examples = sum[metric_sums(job) - 1];
    if (type->needs != METRIC_SUMS || examples <= 0)
        return NAN;
    if (!type->value)
        return sum[i] / examples;
    return type->value(sum[i], sum[second_sum(job->model.metric, job->model.metrics, i)], examples);
}

double metric_weigh(const struct outputs *o, size_t i, double value)
{
    if (!o->weight)
        return value;
    return o->weight[i] > 0.0f ? (double)o->weight[i] * value : 0.0;
}

void metric_add(double sum[SUMS_MAX], const struct outputs *o)
{
    const struct model *m = o->model;
    for (uint32_t i = 0; i < m->metrics; i++) {
        const struct metric_type *type = metric_type_of(m->metric[i].kind);
        if (type->needs == METRIC_SUMS)
            type->add(&sum[i], &sum[second_sum(m->metric, m->metrics, i)], o);
    }
    double all = 0.0;
    for (size_t i = 0; i < o->n && m->weighted; i++)
        all += metric_weigh(o, i, 1.0);
    if (m->weighted)
        sum[second_sum(m->metric, m->metrics, m->metrics)] += all;
}

/* ---- the model that a metric fits ---- */

enum err metric_wants_one_output(const struct model *m, const char *name, struct errmsg *e)
{
    return m->shape.dim[0] == 1
               ? ERR_OK
               : err_set(e, ERR_INPUT, "model.metrics: %s does not fit %u outputs: use accuracy",
                         name, m->shape.dim[0]);
}

static enum err metric_misfit(const struct model *m, const char *name, const char *use,
                              struct errmsg *e)
{
    return err_set(e, ERR_INPUT, "model.metrics: %s does not fit %s: %s", name,
                   job_loss_word(m->loss), use);
}

enum err metric_wants_classes(const struct model *m, const char *name, struct errmsg *e)
{
    return job_loss_labels(m->loss) != LABELS_VALUES
               ? ERR_OK
               : metric_misfit(m, name, "use mean_absolute_error, or a cross-entropy as the loss",
                               e);
}

enum err metric_wants_two_classes(const struct model *m, const char *name, struct errmsg *e)
{
    return job_loss_labels(m->loss) == LABELS_TWO_CLASSES
               ? ERR_OK
               : metric_misfit(
                     m, name,
                     "it is a metric of two classes, and needs the loss binary_crossentropy", e);
}

enum err metric_attach(struct model *m, const struct job *job, struct errmsg *e)
{
    enum err err = ERR_OK;
    m->weighted = job_has_weights(job);
    for (uint32_t i = 0; i < job->model.metrics && !err; i++) {
        m->metric[m->metrics++] = job->model.metric[i];
        err = metric_type_of(job->model.metric[i].kind)->check(m, job->model.metric[i].name, e);
    }
    return err;
}
