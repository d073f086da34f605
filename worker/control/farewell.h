/* A worker that finds at its start that the job is done tells the chief so before it ends or rests. The chief may still be
 * waiting for its predecessor, which was killed while the job ended, to confirm the end.
 *
 * Happy path: connect to ps 0 -> the chief's address -> connect to the chief -> hello (idle) -> an answer.
 * Failure modes: the job is over for all (ps 0 reports that, or does not answer within FAREWELL_MS: there is no one to
 * tell), ps 0 or the chief refuses us (the same). */
#ifndef GRADWIRE_WORKER_CONTROL_FAREWELL_H
#define GRADWIRE_WORKER_CONTROL_FAREWELL_H

#include "common/cluster/cluster.h"
#include "job/job.h"

enum { FAREWELL_MS = 2000 };

/* Returns within FAREWELL_MS. A failure is not reported: the chief then waits for timeouts.worker_rejoin_s.
 * Thread: main. */
void farewell_say(const struct job *job, const struct cluster *cluster);

#endif
