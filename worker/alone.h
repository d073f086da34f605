/* A worker without any ps starts one on loopback for itself. */
#ifndef GRADWIRE_WORKER_ALONE_H
#define GRADWIRE_WORKER_ALONE_H

#include <sys/types.h>

#include "common/cluster/cluster.h"
#include "common/flags/flags.h"

struct alone {
    pid_t pid; /* of the ps; 0: none */
};

/* Start the ps program from the directory of this one (../ps/ps, or gradwire-ps if this is gradwire-worker) on a
 * free port of 127.0.0.1, and add it to the cluster. It ends when this process ends, for whatever reason. Errors:
 * ERR_IO with a text. Thread: main, before other threads start. */
enum err alone_start(struct alone *a, struct cluster *c, const struct flags *f, const char *output,
                     struct errmsg *e) MUST_CHECK;
/* Wait until the ps has ended. It gets SIGTERM after 5 s, and SIGKILL after 10 s. */
void alone_stop(struct alone *a);

#endif
