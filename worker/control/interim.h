/* The HTTP of a worker's process while no other thread of it can answer: its data are read, or its job is done. So a
 * process is alive and ready from its first moment on, however long that takes.
 *
 * Happy path: interim_begin -> a thread answers -> interim_end; whoever answers next has a descriptor of the same socket,
 * where who comes in between waits. Failure modes: no memory, no thread. */
#ifndef GRADWIRE_WORKER_CONTROL_INTERIM_H
#define GRADWIRE_WORKER_CONTROL_INTERIM_H

#include "common/cluster/cluster.h"
#include "common/job/job.h"
#include "common/process/process_state.h"
#include "worker/control/http_thread.h"

/* The caller's memory, which stays where it is while the thread answers. */
struct interim {
    const struct job *job;
    const struct cluster *cluster;
    enum process_state state;
    struct http_thread *thread; /* NULL: nothing answers */
};

/* Nothing answers where `fd` is -1: no HTTP is wanted. `fd` stays the caller's; job and cluster are used until
 * interim_end. Errors: ERR_NOMEM. */
enum err interim_begin(struct interim *i, int fd, const struct job *job,
                       const struct cluster *cluster, enum process_state state,
                       struct errmsg *e) MUST_CHECK;
void interim_end(struct interim *i); /* nothing to do where nothing answers */

#endif
