/* The ps process: accepts connections, reads the hello, hands workers to their shard threads, and serves the chief's
 * control connection.
 *
 * Happy path: listen -> the chief's hello (answered with what the shards are) -> ENTER ... -> DONE -> exit 0.
 * Failure modes: a hello of another job, version or ps list (refused by name), garbage (closed, logged), SIGTERM (the
 * chief is asked for a cut; exit 143 when it is published, or the grace has passed), no chief for too long (exit 1). */
#ifndef GRADWIRE_PS_SERVER_H
#define GRADWIRE_PS_SERVER_H

#include "common/cluster.h"
#include "common/job.h"

struct server_config {
    const struct job *job;
    const struct cluster *cluster;
    const char *output; /* DIR; cuts are in DIR/checkpoints */
    int listen_fd;      /* bound and listening */
    int http_fd;        /* the same, for HTTP; -1: none */
};

/* Run until the end; returns the exit code. Thread: main. */
int server_run(const struct server_config *config);

#endif
