/* Metrics from the sums that struct sums carries. */
#ifndef GRADWIRE_WORKER_MODEL_METRIC_H
#define GRADWIRE_WORKER_MODEL_METRIC_H

#include "common/job/job.h"

/* How many sums the job's metrics need, at most SUMS_MAX: one for each, in its place, and behind
 * them one more for each that is no mean over examples (precision, recall, normalized_entropy, calibration). The last is
 * that of the examples' weights, where the job has a column of them. */
uint32_t metric_sums(const struct job *job);

/* Metric i of the job by these sums; 0 where Keras divides by nothing. NAN: auc, which is no sum (an evaluator sorts for
 * it); means over no examples, or over none with a weight; normalized_entropy of one class; calibration without a positive label. */
double metric_value(const struct job *job, uint32_t i, const double *sum, double examples);

const char *metric_name(enum metric_kind kind);

/* Keras's mode "auto": of an error or a loss the smaller is the better. */
bool metric_larger_is_better(enum metric_kind kind);

#endif
