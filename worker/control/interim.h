/* The HTTP of a worker's process while no other thread of it can answer: its data are read, or its job is done. So a
 * process is alive and ready from its first moment on, however long that takes.
 *
 * Happy path: interim_new -> a thread answers -> interim_free; whoever answers next has a descriptor of the same socket,
 * where who comes in between waits. Failure modes: no memory, no thread. */
#ifndef GRADWIRE_WORKER_CONTROL_INTERIM_H
#define GRADWIRE_WORKER_CONTROL_INTERIM_H

#include "common/cluster/cluster.h"
#include "common/job/job.h"
#include "common/process/process_state.h"

struct interim;

/* *out NULL where `fd` is -1: no HTTP is wanted. `fd` stays the caller's; job and cluster are used until interim_free.
 * Errors: ERR_NOMEM. */
enum err interim_new(struct interim **out, int fd, const struct job *job,
                     const struct cluster *cluster, enum process_state state,
                     struct errmsg *e) MUST_CHECK;
void interim_free(struct interim *i); /* NULL is none */

#endif
