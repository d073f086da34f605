/* A worker that holds nothing of a job: the job is done, or no chief came. It asks ps 0 now and then, and goes on when
 * there is a run, or a generation, that it does not know.
 *
 * Happy path: dial ps 0 -> hello -> an answer, once a generation is entered -> it is a new one -> called. Failure modes:
 * what ps 0 knows is the job that is over (asked again after IDLE_ASK_MS), ps 0 is away or refuses us (dialed again,
 * the log says why), a signal (not called). */
#ifndef GRADWIRE_WORKER_IDLE_H
#define GRADWIRE_WORKER_IDLE_H

#include "common/cluster.h"
#include "common/job.h"

enum { IDLE_ASK_MS = 3000 };

/* What is over. */
struct idle_run {
    char uuid[37]; /* "": any run is news */
    uint64_t generation;
};

/* Wait until a chief calls, and *over is its run, or until SIGTERM or SIGINT; *called says which. Errors: ERR_IO,
 * ERR_NOMEM. Thread: main. */
enum err idle_wait(const struct job *job, const struct cluster *cluster, struct idle_run *over,
                   bool *called, struct errmsg *e) MUST_CHECK;

/* Pure: is what ps 0 says of a job that goes on news for who knows `over`? */
bool idle_is_news(const struct idle_run *over, const char *uuid, uint64_t generation);

#endif
