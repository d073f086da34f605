/* The evaluator's HTTP (common/serve/http.h), on a thread and loop of its own: main reads checkpoints and computes. */
#ifndef GRADWIRE_WORKER_EVALUATE_EVALUATOR_HTTP_H
#define GRADWIRE_WORKER_EVALUATE_EVALUATOR_HTTP_H

#include <stdatomic.h>

#include "common/cluster/cluster.h"
#include "common/job/job.h"
#include "worker/control/http_thread.h"

/* Main writes it, the HTTP thread reads it. */
struct evaluator_meter {
    _Atomic uint64_t results; /* of this process; 0: the rest says nothing */
    _Atomic uint64_t cut, step;
    _Atomic double loss, metric[METRICS_MAX], seconds;
    atomic_bool seen; /* a checkpoint was there */
};

/* The caller's memory, which stays where it is while the thread answers. */
struct evaluator_http {
    const struct job *job;
    const struct cluster *cluster;
    const struct evaluator_meter *meter;
    struct http_thread *thread; /* NULL: nothing answers */
};

/* Nothing answers where `fd` is -1. All that is given outlives it. Errors: ERR_NOMEM. */
enum err evaluator_http_begin(struct evaluator_http *h, int fd, const struct job *job,
                              const struct cluster *cluster, const struct evaluator_meter *meter,
                              struct errmsg *e) MUST_CHECK;

#endif
