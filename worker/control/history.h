/* The progress of a job as the points of a curve: at most HISTORY_MAX, however long the job is. When they are full,
 * every second one is dropped, and from then on half as many are kept. The newest is always kept. Pure. */
#ifndef GRADWIRE_WORKER_CONTROL_HISTORY_H
#define GRADWIRE_WORKER_CONTROL_HISTORY_H

#include <jansson.h>
#include <stdint.h>

#include "common/parameters/limits.h"
#include "model/evaluation.h"

/* Values of a point after a step: loss, examples/s, each metric, the time left. Values of an epoch's point: loss and each metric,
 * then loss and each metric of the evaluation. */
enum {
    HISTORY_MAX = 240,
    HISTORY_VALUES = 2 * (1 + METRICS_MAX),
    HISTORY_RATE = 1,
    HISTORY_STEP_METRICS = 2,
    /* not on the curve: the time left in seconds, and whether that is early (progress.h) */
    HISTORY_LEFT = HISTORY_STEP_METRICS + METRICS_MAX,
    HISTORY_EARLY
};

struct history_point {
    uint64_t step;                /* of the job: the last step that the point covers */
    double value[HISTORY_VALUES]; /* NAN: not known */
};

struct history {
    uint32_t n;
    uint64_t every,
        seen; /* of `every` points one is kept permanently; seen: points added and not undone */
    struct history_point point[HISTORY_MAX];
};

/* The point of an epoch (from 1) in a job with so many metrics. `eval` NULL: not evaluated. */
struct history_point history_epoch(uint64_t epoch, uint32_t metrics, const struct evaluation *found,
                                   const struct evaluation *eval);
/* Add a point; an all-zero history has no points. If the step is not after the last point's, a rollback happened:
 * points from this step on are dropped first. */
void history_add(struct history *h, const struct history_point *p);
/* Drop the points from this step on, because a rollback has undone them. */
void history_drop(struct history *h, uint64_t step);
/* [[step, value, ...], ...] with the first `values` values of each; null: not finite. NULL: no memory. */
json_t *history_json(const struct history *h, uint32_t values);

#endif
