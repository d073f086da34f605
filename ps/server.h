/* The ps process: accepts connections, reads the hello, hands workers to their shard threads, and serves the chief's
 * control connection.
 *
 * Happy path: listen -> the chief's hello (answered with what the shards are) -> ENTER ... -> DONE -> exit 0.
 * Failure modes: a hello of another job, version or ps list (refused by name), garbage (closed, logged), SIGTERM (the
 * chief is asked for a cut; exit 143 when it is published, or the grace has passed), no chief for too long (exit 1; never,
 * before training, with `waits`: then it is idle). Where the job is done already it says so: with `waits` it is idle
 * until a chief comes, otherwise it leaves by itself. If a worker has not heard of the end, ps 0 stays and tells
 * workers that the job is done, for as long as the chief said (linger_s). */
#ifndef GRADWIRE_PS_SERVER_H
#define GRADWIRE_PS_SERVER_H

#include "common/cluster/cluster.h"
#include "common/checkpoint/ending.h"
#include "common/process/fault.h"
#include "common/job/job.h"

struct server_config {
    const struct job *job;
    const struct cluster *cluster;
    const char *output; /* DIR; cuts are in DIR/checkpoints */
    int listen_fd;      /* bound and listening; taken */
    int http_fd;        /* the same, for HTTP, the caller's; -1: none */
    bool waits;         /* --when_done=wait */
    uint32_t grace_s;   /* that who started it gives; 0: not told */
    struct fault fault; /* a slow disk, for tests */
    /* What was found when it began; ENDING_DONE, too, in the lives behind a job's end. */
    enum ending ending;
    struct over *over;  /* what is known of a job that is done; written when one is */
    uint32_t *linger_s; /* the same: for how long workers may ask for it; 0: it leaves */
};

/* The job is done, and `waits`, or workers may ask: to be run again, with nothing of the job left. */
enum { SERVER_RESTS = -1 };

/* Run until the end; returns the exit code, or SERVER_RESTS. Thread: main. */
int server_run(const struct server_config *config);

#endif
