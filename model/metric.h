/* Metrics. A metric is a metric_type, in the file of its formula, and a row of JOB_METRICS (job/job.h). It needs
 * either sums over the examples, which workers and threads add to their own, or all examples in the order of their
 * scores, which only an evaluation has. */
#pragma once

#include "common/base/err.h"
#include "job/job.h"

struct model;
struct model_run;
struct leaf;
struct head;    /* layers.h */
struct outputs; /* loss.h */

enum metric_needs { METRIC_SUMS, METRIC_SCORES };
enum { METRIC_RANKED_BYTES = 64 };

/* An example for METRIC_SCORES. */
struct scored {
    float score, weight; /* neither is NaN; weight > 0 */
    bool positive;
};

struct metric_type {
    enum metric_needs needs;
    /* Whether it fits its head's loss and number of outputs: one of metric_wants_*. Errors: ERR_INPUT, with what it needs. */
    enum err (*check)(const struct head *h, const char *name, struct errmsg *e);

    /* METRIC_SUMS. Add these labels to *sum, and to *of if it has two sums. Sums of several microbatches are added. */
    void (*add)(double *sum, double *of, const struct outputs *o);
    /* The value, if it has two sums. NULL: it has one, and is its mean over labels. */
    double (*value)(double sum, double of, double examples);

    /* METRIC_SCORES. Add the next example in ascending order of scores to *ranked, METRIC_RANKED_BYTES that begin as zeros. */
    void (*add_scored)(void *ranked, const struct scored *row);
    double (*value_of_scored)(const void *ranked); /* NAN: undefined */
    const char *undefined; /* the reason, after "all rows"; NULL: the value is always defined */
};
#define METRIC_ONE_CLASS "have one class; it needs rows of both"
#define METRIC_TYPE(kind, word, better, meaning) extern const struct metric_type metric_##word;
JOB_METRICS(METRIC_TYPE, JOB_NO_ALIAS)
#undef METRIC_TYPE

const struct metric_type *metric_type_of(enum metric_kind kind);

/* Whether the metric fits its head. Errors: ERR_INPUT, with what it needs. */
enum err metric_check(const struct model *m, const struct job_metric *metric,
                      struct errmsg *e) MUST_CHECK;

/* True if a metric of that head needs that. */
bool metric_is_needed(const struct job *job, uint32_t head, enum metric_needs needs);

/* Write what METRIC_SCORES need of the last pass, over these examples, for one of the head's labels. Returns their number:
 * examples without the label are left out. */
uint32_t metric_scores(struct model_run *r, uint32_t head, uint32_t label, const struct leaf *of,
                       struct scored *out);

/* The number of sums that the job's metrics need, at most SUMS_MAX: one for each, at its index, and after them one
 * more for each metric that is not a mean over examples (precision, recall, normalized_entropy, calibration). The
 * last are the sums of the labels' weights of each head, if the job has a column of them, and of heads that have several labels
 * or can lack them. The very last is the error of a progressive auc. */
uint32_t metric_sums(const struct job *job);

/* metrics.progressive: 1 + the index of auc, which then is not a sum: the lead shard sets it, and, as the last sum, its error
 * (common/math/bins.h). Workers leave both NAN. 0: the job has none. */
uint32_t metric_progressive(const struct job *job);

/* The number that means of the head's metrics are divided by: the sum of its labels' weights if the job has such a sum. */
double metric_examples(const struct job *job, uint32_t head, const double *sum, double examples);

/* Metric i of the job from these sums; 0 if Keras divides by nothing. NAN: it is not of sums; means over no examples,
 * or over none with a weight; normalized_entropy of one class; calibration without a positive label. */
double metric_value(const struct job *job, uint32_t i, const double *sum, double examples);

/* ---- the inside of model ---- */

/* Set the job's metrics. Errors: ERR_INPUT: a metric does not fit its head's loss or outputs; the sums are too many. */
enum err metric_attach(struct model *m, const struct job *job, struct errmsg *e) MUST_CHECK;
/* Add the labels to the sums of a head's metrics, and their weights to the sum that means are divided by. */
void metric_add(double sum[SUMS_MAX], const struct model *m, uint32_t head,
                const struct outputs *o);
/* The value of label i times its weight. With weight 0 it is 0, even if the value is not finite. */
double metric_weigh(const struct outputs *o, size_t i, double value);
double metric_positives(const struct outputs *o);

enum err metric_wants_one_output(const struct head *h, const char *name,
                                 struct errmsg *e) MUST_CHECK;
enum err metric_wants_classes(const struct head *h, const char *name, struct errmsg *e) MUST_CHECK;
enum err metric_wants_two_classes(const struct head *h, const char *name,
                                  struct errmsg *e) MUST_CHECK;
