/* A lone worker without any ps starts one on loopback for itself. */
#ifndef GRADWIRE_WORKER_ALONE_H
#define GRADWIRE_WORKER_ALONE_H

#include <sys/types.h>

#include "common/cluster/cluster.h"
#include "common/flags/flags.h"

struct alone {
    pid_t pid; /* of the ps; 0: none */
};

/* Start the ps program that stands beside this one (../ps/ps, or gradwire-ps where this is gradwire-worker) on a free
 * port of 127.0.0.1, and put it into the cluster. It ends with this process, whatever ends it.
 * Errors: ERR_IO with a line. Thread: main, before others start. */
enum err alone_start(struct alone *a, struct cluster *c, const struct flags *f, const char *output,
                     struct errmsg *e) MUST_CHECK;
/* Wait until it has ended; it is told to go if it does not end by itself. */
void alone_stop(struct alone *a);

#endif
