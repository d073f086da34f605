/* HTTP of a worker's process while none of its other threads can answer: it reads its data, or its job is done. So a
 * process is alive and ready from the start, however long that takes.
 *
 * Happy path: interim_begin -> a thread answers -> interim_end. The server that follows has a descriptor of the same
 * socket, so connections made in between wait in it. Failure modes: no memory, no thread. */
#ifndef GRADWIRE_WORKER_CONTROL_INTERIM_H
#define GRADWIRE_WORKER_CONTROL_INTERIM_H

#include "common/cluster/cluster.h"
#include "job/job.h"
#include "common/process/process_state.h"
#include "worker/control/http_thread.h"

/* The caller's memory, which must not move while the thread answers. */
struct interim {
    const struct job *job;
    const struct cluster *cluster;
    enum process_state state;
    struct http_thread *thread; /* NULL: no thread */
};

/* If `fd` is -1, no HTTP is wanted, and no thread starts. `fd` stays the caller's; job and cluster are used until
 * interim_end. Errors: ERR_NOMEM. */
enum err interim_begin(struct interim *i, int fd, const struct job *job,
                       const struct cluster *cluster, enum process_state state,
                       struct errmsg *e) MUST_CHECK;
void interim_end(struct interim *i); /* does nothing if no thread runs */

#endif
