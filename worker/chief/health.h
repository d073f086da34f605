/* How each process of the job is, for its page: what it last told of itself (VITALS), and how fast it has worked
 * lately. All of it comes from peers, and nothing but the page depends on it. */
#ifndef GRADWIRE_WORKER_CHIEF_HEALTH_H
#define GRADWIRE_WORKER_CHIEF_HEALTH_H

#include <jansson.h>

#include "common/serve/vitals_note.h"

struct health {
    bool known;
    int64_t heard_ms;
    uint64_t resident_bytes, tasks;
    double examples, computed_s, waited_s;
    /* A moving mean over some seconds; NAN: nothing was done yet. */
    double task_s;     /* computing, for each task */
    double examples_s; /* per second */
    double wait_share; /* of the time of a step, from 0 to 1 */
    char http[320];    /* "host:port"; "": nowhere */
    uint32_t warnings;
    struct log_kept warning[LOG_KEPT];
};

/* `peer`: its address as "host:port", for a process that answers on each of its addresses. */
void health_hear(struct health *h, const Gradwire__Vitals *m, const char *peer, int64_t now_ms);
/* Its fields of /status are added to `to`: lag is what a page shows. */
void health_put(const struct health *h, json_t *to, int64_t now_ms);
/* The task_s above which a worker is slow: 1.5 times the median of those that are known; INFINITY: there is no other. */
double health_slow_s(const struct health *h, uint32_t n);
/* One of its warnings, with the process's name. */
json_t *health_warning(const struct log_kept *w, const char *process);

#endif
