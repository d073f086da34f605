/* How a job has gone, as points of a curve: at most HISTORY_MAX, whatever its length. When they are full every second
 * one goes, and from then on half as many are taken. The newest is always there. Pure. */
#ifndef GRADWIRE_WORKER_CONTROL_HISTORY_H
#define GRADWIRE_WORKER_CONTROL_HISTORY_H

#include <jansson.h>
#include <stdint.h>

#include "common/parameters/limits.h"
#include "worker/model/evaluation.h"

/* Values of a point after a step: loss, examples/s, each metric. Of an epoch: loss and each metric, and those of the evaluation. */
enum {
    HISTORY_MAX = 240,
    HISTORY_VALUES = 2 * (1 + METRICS_MAX),
    HISTORY_RATE = 1,
    HISTORY_STEP_METRICS = 2
};

struct history_point {
    uint64_t step;                /* of the job, the last one that it counts */
    double value[HISTORY_VALUES]; /* NAN: not known */
};

struct history {
    uint32_t n;
    uint64_t every, seen; /* one of `every` points is kept for good */
    struct history_point point[HISTORY_MAX];
};

/* The point of an epoch (from 1) of a job with so many metrics. `eval` NULL: not evaluated. */
struct history_point history_epoch(uint64_t epoch, uint32_t metrics, double loss,
                                   const double *metric, const struct evaluation *eval);
/* All zero is one without points. A step that is not behind the last one's was rolled back: what follows it goes. */
void history_add(struct history *h, const struct history_point *p);
/* Points from this step on go: a rollback undid them. */
void history_drop(struct history *h, uint64_t step);
/* [[step, value, ..], ..] with the first `values` of each; null for what is not finite. NULL: no memory. */
json_t *history_json(const struct history *h, uint32_t values);

#endif
