/* A chief that fails before it has connected (its data are wrong, its checkpoints cannot be read) tells the ps, and through
 * ps 0 the workers, which would wait for it otherwise.
 *
 * Happy path: connect to every ps -> hello with the exit code and the reason -> the ps closes the connection.
 * Failure modes: a ps does not answer within FAILED_START_MS, or refuses this process: the log says how long it waits. */
#ifndef GRADWIRE_WORKER_CONTROL_FAILED_START_H
#define GRADWIRE_WORKER_CONTROL_FAILED_START_H

#include "common/cluster/cluster.h"
#include "job/job.h"
#include "common/wire/msg.h"

enum { FAILED_START_MS = 2000 };

/* Returns within FAILED_START_MS. The caller must hold DIR: a second process of a chief, which cannot get it, must not end
 * the job of the first. 0 < what->exit_code < 128. Thread: main. */
void failed_start_tell(const struct job *job, const struct cluster *cluster,
                       const Gradwire__Done *what);

#endif
