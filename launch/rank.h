/* `gradwire rank JOB --ps P`: one process of a job that srun or mpirun starts on every rank.
 *
 * Happy path: ranks 0 .. P-1 are ps, the others workers (the first of them is the chief). Each binds a port, leaves its
 * address, role, pid and host in DIR/rendezvous/ATTEMPT/RANK (rendezvous.h), waits for the files of all others, and becomes
 * ps or worker. Before that the first rank of each host looks whether the job can run there (launch/local/ahead.h).
 * Failure modes: ranks that do not come are named after timeouts.start_s, and the exit is 1. What a
 * former attempt left is in a folder of its own, which rank 0 removes. Restarts are the scheduler's:
 * an exit of 138 or a signal asks for one. */
#ifndef GRADWIRE_LAUNCH_RANK_H
#define GRADWIRE_LAUNCH_RANK_H

#include <stdint.h>

#include "common/base/err.h"

/* Who this is, by the environment of OMPI_COMM_WORLD_RANK/_SIZE, PMI_RANK/_SIZE or SLURM_PROCID/
 * SLURM_STEP_NUM_TASKS (SLURM_NTASKS), in this order: under mpirun in a Slurm allocation both are
 * set, and mpirun's count. `lookup` is getenv. Errors: ERR_INPUT none of them, or no sane numbers. */
enum err rank_find(uint32_t *rank, uint32_t *size, char *(*lookup)(const char *name),
                   struct errmsg *e) MUST_CHECK;

enum { RANK_ATTEMPT_BYTES = 128 };
/* A name that all ranks of this start share and no other start has; `given` by --attempt, or NULL.
 * Errors: ERR_INPUT the environment has none. */
enum err rank_attempt(char out[RANK_ATTEMPT_BYTES], const char *given,
                      char *(*lookup)(const char *name), struct errmsg *e) MUST_CHECK;

/* argv[0] is the command. Returns the exit code, where the process does not become another. */
int rank_main(int argc, char **argv);

#endif
