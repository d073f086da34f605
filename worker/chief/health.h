/* The condition of each process of the job, for the job's page: the last VITALS that it sent, and its recent speed.
 * All of it comes from peers, and only the page depends on it. */
#ifndef GRADWIRE_WORKER_CHIEF_HEALTH_H
#define GRADWIRE_WORKER_CHIEF_HEALTH_H

#include <jansson.h>

#include "common/serve/vitals.h"

struct health {
    bool known;
    int64_t heard_ms;
    uint64_t resident_bytes, tasks;
    double examples, computed_s, waited_s;
    /* Moving means over some seconds; NAN: nothing to measure yet. */
    double task_s;     /* seconds of computing for each task */
    double examples_s; /* per second */
    double wait_share; /* share of a step's time, from 0 to 1 */
    char http[320];    /* "host:port"; "": it serves no HTTP */
    uint32_t warnings;
    struct log_kept warning[LOG_KEPT];
};

/* `peer`: the process's address as "host:port"; used if the process serves HTTP on all of its addresses. */
void health_hear(struct health *h, const Gradwire__Vitals *m, const char *peer, int64_t now_ms);
/* Add its fields to `to`, for /status, in the format of the job's page. */
void health_put(const struct health *h, json_t *to, int64_t now_ms);
/* The limit above which a worker's task_s is slow: 1.5 times the median of the known task_s of h (n). INFINITY: fewer
 * than two are known, or no memory. */
double health_slow_s(const struct health *h, uint32_t n);
/* One warning as JSON, with the process's name. */
json_t *health_warning(const struct log_kept *w, const char *process);

#endif
