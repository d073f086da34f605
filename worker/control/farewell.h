/* A worker that finds at its start that the job is done tells the chief so before it ends or rests. The chief may still be
 * waiting for its predecessor, which was killed while the job ended, to confirm the end.
 *
 * Happy path: connect to ps 0 -> the chief's address -> connect to the chief -> hello (idle) -> an answer.
 * Failure modes: the job is over for all (ps 0 reports that, or does not answer within FAREWELL_MS: there is no one to
 * tell), ps 0 or the chief refuses us (the same). */
#ifndef GRADWIRE_WORKER_CONTROL_FAREWELL_H
#define GRADWIRE_WORKER_CONTROL_FAREWELL_H

#include "common/cluster/cluster.h"
#include "common/wire/msg.h"
#include "job/job.h"

enum { FAREWELL_MS = 2000 };

/* Returns within FAREWELL_MS. A failure is not reported: the chief then waits for timeouts.worker_rejoin_s.
 * Thread: main. */
void farewell_say(const struct job *job, const struct cluster *cluster);

/* A chief that fails before it has connected (its data are wrong, its checkpoints cannot be read) tells the ps, and through
 * ps 0 the workers, which would wait for it otherwise.
 *
 * Happy path: connect to every ps -> hello with the exit code and the reason -> the ps closes the connection.
 * Failure modes: a ps does not answer within FAILED_START_MS, or refuses this process: the log says how long it waits. */

enum { FAILED_START_MS = 2000 };

/* Returns within FAILED_START_MS. The caller must hold DIR: a second process of a chief, which cannot get it, must not end
 * the job of the first. 0 < what->exit_code < 128. Thread: main. */
void failed_start_tell(const struct job *job, const struct cluster *cluster,
                       const Gradwire__Done *what);

#endif
