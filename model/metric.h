/* Metrics computed from struct sums. */
#ifndef GRADWIRE_MODEL_METRIC_H
#define GRADWIRE_MODEL_METRIC_H

#include "common/base/err.h"
#include "job/job.h"

/* The number of sums that the job's metrics need, at most SUMS_MAX: one for each, at its index, and after them one
 * more for each metric that is not a mean over examples (precision, recall, normalized_entropy, calibration). The
 * last is the sum of the examples' weights, if the job has a column of them. */
uint32_t metric_sums(const struct job *job);

/* Metric i of the job from these sums; 0 if Keras divides by nothing. NAN: auc, which is not a sum (an evaluator
 * sorts for it); means over no examples, or over none with a weight; normalized_entropy of one class; calibration
 * without a positive label. */
double metric_value(const struct job *job, uint32_t i, const double *sum, double examples);

const char *metric_name(enum metric_kind kind);

struct model;
/* Whether the metric fits the model's loss and number of outputs. Errors: ERR_INPUT, with what it needs. */
enum err metric_check(const struct model *m, enum metric_kind kind, struct errmsg *e) MUST_CHECK;

/* As Keras's mode "auto": false for errors and losses. */
bool metric_larger_is_better(enum metric_kind kind);

#endif
