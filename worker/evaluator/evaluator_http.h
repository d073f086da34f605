/* The evaluator's HTTP (common/serve/http.h), on its own thread and loop, because main reads checkpoints and
 * computes. */
#ifndef GRADWIRE_WORKER_EVALUATOR_EVALUATOR_HTTP_H
#define GRADWIRE_WORKER_EVALUATOR_EVALUATOR_HTTP_H

#include <stdatomic.h>

#include "common/cluster/cluster.h"
#include "job/job.h"
#include "worker/control/http_thread.h"

/* The evaluator's last result. The main thread writes it, the HTTP thread reads it. */
struct evaluator_meter {
    /* number of results of this process; 0: the other fields have no meaning */
    _Atomic uint64_t results;
    _Atomic uint64_t cut, step;
    _Atomic double loss, metric[METRICS_MAX], seconds;
    atomic_bool seen; /* a checkpoint has been found */
};

/* The caller's memory, which must not move while the thread answers. */
struct evaluator_http {
    const struct job *job;
    const struct cluster *cluster;
    const struct evaluator_meter *meter;
    struct http_thread *thread; /* NULL: no thread */
};

/* If `fd` is -1, no thread starts. All arguments must outlive it. Errors: ERR_NOMEM. */
enum err evaluator_http_begin(struct evaluator_http *h, int fd, const struct job *job,
                              const struct cluster *cluster, const struct evaluator_meter *meter,
                              struct errmsg *e) MUST_CHECK;

#endif
