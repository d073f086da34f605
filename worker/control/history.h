/* How a job has gone, as points of a curve: at most HISTORY_MAX, whatever its length. When they are full every second
 * one goes, and from then on half as many are taken. The newest is always there. Pure. */
#ifndef GRADWIRE_WORKER_CONTROL_HISTORY_H
#define GRADWIRE_WORKER_CONTROL_HISTORY_H

#include <jansson.h>
#include <stdint.h>

enum { HISTORY_MAX = 240, HISTORY_VALUES = 4 };

struct history_point {
    uint64_t step;                /* of the job, the last one that it counts */
    double value[HISTORY_VALUES]; /* NAN: there is none */
};

struct history {
    uint32_t n;
    uint64_t every, seen; /* one of `every` points is kept for good */
    struct history_point point[HISTORY_MAX];
};

/* All zero is one without points. A step that is not behind the last one's was rolled back: what follows it goes. */
void history_add(struct history *h, const struct history_point *p);
/* Points from this step on go: a rollback undid them. */
void history_drop(struct history *h, uint64_t step);
/* [[step, value, ..], ..] with the first `values` of each; null for what is not finite. NULL: no memory. */
json_t *history_json(const struct history *h, uint32_t values);

#endif
