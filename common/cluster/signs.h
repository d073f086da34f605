/* The variables by which a launcher or an operator tells a process that it is one of several: MPI, Slurm, Kubernetes' Indexed
 * Jobs, PyTorch, Paddle, ps-lite, JAX and Horovod. They name a rank or the number of processes, but not the addresses of ps and
 * workers. */
#ifndef GRADWIRE_COMMON_CLUSTER_SIGNS_H
#define GRADWIRE_COMMON_CLUSTER_SIGNS_H

#include <stdbool.h>

#include "common/base/err.h"

/* Refuse to train alone in a process that is one of several, because each of them would train the whole job. `named`: TF_CONFIG
 * or flags name the process, so no sign counts. `alone`: --alone, for a process that nothing names. A number of processes of 1
 * is no sign. `lookup` is getenv. Errors: ERR_INPUT names the variable and what to do. */
enum err signs_check(bool named, bool alone, char *(*lookup)(const char *name),
                     struct errmsg *e) MUST_CHECK;

#endif
