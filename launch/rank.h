/* `gradwire rank JOB --ps P`: one process of a job; srun or mpirun starts it once per rank.
 *
 * Happy path: ranks 0 to P-1 are ps, the others are workers, the first of them the chief. Each rank binds a port, writes its
 * address, role, pid and host to DIR/rendezvous/ATTEMPT/RANK (rendezvous.h), waits for the files of all other ranks, and
 * becomes ps or worker by exec. Before that the first rank of each host checks if the job can run there
 * (launch/local/ahead.h).
 * Failure modes: if ranks are missing after timeouts.start_s, the error names them and the exit code is 1. The files of an
 * earlier attempt are in another directory, which rank 0 removes. The scheduler is responsible for restarts: exit code 138
 * or a signal requests one. */
#pragma once

#include <stdint.h>

#include "common/base/err.h"

/* Find this process's rank and the number of ranks in the environment: OMPI_COMM_WORLD_RANK/_SIZE, PMI_RANK/_SIZE or
 * SLURM_PROCID/SLURM_STEP_NUM_TASKS (SLURM_NTASKS). The first pair found counts: under mpirun in a Slurm allocation both
 * kinds are set, and mpirun's are right. `lookup` is getenv. Errors: ERR_INPUT none is set, or the numbers make no sense. */
enum err rank_find(uint32_t *rank, uint32_t *size, char *(*lookup)(const char *name),
                   struct errmsg *e) MUST_CHECK;

enum { RANK_ATTEMPT_BYTES = 128 };
/* A name that all ranks of this start share and no other start has. `given`: --attempt, or NULL.
 * Errors: ERR_INPUT the environment has no such name. */
enum err rank_attempt(char out[RANK_ATTEMPT_BYTES], const char *given,
                      char *(*lookup)(const char *name), struct errmsg *e) MUST_CHECK;

/* argv[0] is the command. Returns an exit code, or does not return if the process becomes ps or worker. */
int rank_main(int argc, char **argv);
