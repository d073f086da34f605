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

bool metric_is_needed(const struct job *job, uint32_t head, enum metric_needs needs)
{
    for (uint32_t i = 0; i < job->model.metrics; i++)
        if (job->model.metric[i].head == head &&
            metric_type_of(job->model.metric[i].kind)->needs == needs)
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

/* True if the means of the head's metrics are over a sum of its labels' weights. */
static bool is_counted(const struct job *job, uint32_t head)
{
    const struct job_head *h = &job->model.head[head];
    return h->masked || h->labels > 1 || job_has_weights(job);
}

/* Index of that sum, behind all others. */
static uint32_t count_sum(const struct job *job, uint32_t head)
{
    uint32_t at = second_sum(job->model.metric, job->model.metrics, job->model.metrics);
    for (uint32_t i = 0; i < head; i++)
        at += is_counted(job, i);
    return at;
}

uint32_t metric_sums(const struct job *job)
{
    return count_sum(job, job->model.heads) + job->metrics.progressive;
}

uint32_t metric_progressive(const struct job *job)
{
    for (uint32_t i = 0; i < job->model.metrics && job->metrics.progressive; i++)
        if (job->model.metric[i].kind == METRIC_PROGRESSIVE)
            return 1 + i;
    return 0;
}

double metric_examples(const struct job *job, uint32_t head, const double *sum, double examples)
{
    return is_counted(job, head) ? sum[count_sum(job, head)] : examples;
}

double metric_value(const struct job *job, uint32_t i, const double *sum, double examples)
{
    const struct metric_type *type = metric_type_of(job->model.metric[i].kind);
    if (metric_progressive(job) == 1 + i)
        return examples > 0 ? sum[i] : NAN;
    examples = metric_examples(job, job->model.metric[i].head, sum, examples);
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

void metric_add(double sum[SUMS_MAX], const struct model *m, uint32_t head, const struct outputs *o)
{
    for (uint32_t i = 0; i < m->metrics; i++) {
        const struct metric_type *type = metric_type_of(m->metric[i].kind);
        if (type->needs == METRIC_SUMS && m->metric[i].head == head)
            type->add(&sum[i], &sum[second_sum(m->metric, m->metrics, i)], o);
    }
    double all = 0.0;
    for (size_t i = 0; i < o->n && o->head->counted; i++)
        all += metric_weigh(o, i, 1.0);
    if (o->head->counted)
        sum[o->head->count_sum] += all;
}

/* ---- the model that a metric fits ---- */

enum err metric_wants_one_output(const struct head *h, const char *name, struct errmsg *e)
{
    return head_cols(h) == 1
               ? ERR_OK
               : err_set(e, ERR_INPUT, "model.metrics: %s does not fit %u outputs: use accuracy",
                         name, h->shape.dim[0]);
}

static enum err metric_misfit(const struct head *h, const char *name, const char *use,
                              struct errmsg *e)
{
    return err_set(e, ERR_INPUT, "model.metrics: %s does not fit %s: %s", name,
                   job_loss_word(h->loss), use);
}

enum err metric_wants_classes(const struct head *h, const char *name, struct errmsg *e)
{
    return job_loss_labels(h->loss) != LABELS_VALUES
               ? ERR_OK
               : metric_misfit(h, name, "use mean_absolute_error, or a cross-entropy as the loss",
                               e);
}

enum err metric_wants_two_classes(const struct head *h, const char *name, struct errmsg *e)
{
    return job_loss_labels(h->loss) == LABELS_TWO_CLASSES
               ? ERR_OK
               : metric_misfit(
                     h, name,
                     "it is a metric of two classes, and needs the loss binary_crossentropy", e);
}

enum err metric_check(const struct model *m, const struct job_metric *metric, struct errmsg *e)
{
    return metric_type_of(metric->kind)->check(&m->head[metric->head], metric->name, e);
}

enum err metric_attach(struct model *m, const struct job *job, struct errmsg *e)
{
    enum err err = ERR_OK;
    if (metric_sums(job) > SUMS_MAX)
        return err_set(e, ERR_INPUT, "model.metrics: %u sums are too many for %u heads: use fewer",
                       metric_sums(job), job->model.heads);
    m->progressive = metric_progressive(job);
    m->error_sum = metric_sums(job) - 1;
    for (uint32_t i = 0; i < m->heads; i++) {
        m->head[i].counted = is_counted(job, i);
        m->head[i].count_sum = count_sum(job, i);
    }
    for (uint32_t i = 0; i < job->model.metrics && !err; i++) {
        m->metric[m->metrics++] = job->model.metric[i];
        err = metric_check(m, &job->model.metric[i], e);
    }
    return err;
}
