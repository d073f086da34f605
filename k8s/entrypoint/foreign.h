/* The variables that the operators of MPIJobs, PyTorchJobs and TrainJobs set. They name a rank and the number of ranks, but
 * not the addresses of ps and workers. */
#ifndef GRADWIRE_K8S_ENTRYPOINT_FOREIGN_H
#define GRADWIRE_K8S_ENTRYPOINT_FOREIGN_H

#include "common/base/err.h"

/* Refuse to train alone in a container that is one of several processes of such a job: each of them would train the whole
 * job. A world of one process trains alone. `lookup` is getenv. Errors: ERR_INPUT names the variable and what to do. */
enum err foreign_check(char *(*lookup)(const char *name), struct errmsg *e) MUST_CHECK;

#endif
