/* The ps process: accepts connections, reads the hello, passes workers to their shard threads, and serves the chief's
 * control connection.
 *
 * Happy path: listen -> the chief's hello (the answer describes the shards) -> ENTER ... -> DONE -> exit 0.
 * Failure modes:
 * - A hello of another job, version or ps list: refused, with the difference.
 * - Bytes that are no frame: the connection is closed, and the log says why.
 * - SIGTERM: the ps asks the chief for a cut, and exits with 143 when the cut is published or the grace has passed.
 * - No chief for too long: exit 1. With `waits` and before training, the ps stays and is idle.
 * - The job is already done: the ps reports that. With `waits` it is idle until a chief connects, otherwise it exits.
 * - A worker has not learned that the job has ended: ps 0 stays for linger_s, which the chief sets, and answers such
 *   workers. */
#pragma once

#include "common/cluster/cluster.h"
#include "common/checkpoint/ending.h"
#include "common/process/fault.h"
#include "job/job.h"

struct server_config {
    const struct job *job;
    const struct cluster *cluster;
    const char *output; /* DIR; the cuts are in DIR/checkpoints */
    int listen_fd;      /* bound and listening; server_run takes it */
    int http_fd;        /* the same, for HTTP; stays the caller's; -1: none */
    bool waits;         /* --when_done=wait */
    uint32_t grace_s;   /* --grace_s, the starter's time from SIGTERM to SIGKILL; 0: unknown */
    struct fault fault; /* a slow disk, for tests */
    /* The state of the job when the process started; ENDING_DONE also when server_run is called again after the job's
     * end. */
    enum ending ending;
    struct over *over;  /* facts about a finished job; written when the job finishes */
    uint32_t *linger_s; /* written then, too: how long to stay and answer workers; 0: exit */
};

/* server_run's result if the job is done and the process stays (`waits`, or linger_s): call server_run again. */
enum { SERVER_RESTS = -1 };

/* Run until the end. Returns the exit code, or SERVER_RESTS. Thread: main. */
int server_run(const struct server_config *config);
