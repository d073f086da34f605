/* A worker that holds nothing of a job: the job is done, or no chief came. It asks ps 0 now and then, and goes on when
 * there is a run, or a generation, that it does not know.
 *
 * Happy path: dial ps 0 -> hello -> an answer, once a generation is entered -> it is a new one -> called. Failure modes:
 * what ps 0 knows is the job that is over (asked again after IDLE_ASK_MS), ps 0 is away or refuses us (dialed again,
 * the log says why), a signal (not called). */
#ifndef GRADWIRE_WORKER_CONTROL_IDLE_H
#define GRADWIRE_WORKER_CONTROL_IDLE_H

#include "common/cluster/cluster.h"
#include "common/job/job.h"
#include "common/process/process_state.h"

enum { IDLE_ASK_MS = 3000 };

/* What is over. */
struct idle_run {
    char uuid[37]; /* "": any run is news */
    uint64_t generation;
};

/* How its training ended, of a worker that may wait for the next. */
struct idle_end {
    int exit_code;
    bool nobody_came; /* no chief did */
    bool known_over;  /* the job was done before */
    bool waits;       /* --when_done=wait */
    bool going;       /* told to go */
};
/* What it is then: STATE_DONE, STATE_IDLE: it may wait, with exit code 0; STATE_LOADING: it ends, with *exit_code. Pure. */
enum process_state idle_state(const struct idle_end *end, int *exit_code);

/* Wait until a chief calls, and *over is its run, or until SIGTERM or SIGINT; *called says which. Errors: ERR_IO,
 * ERR_NOMEM. Thread: main. */
enum err idle_wait(const struct job *job, const struct cluster *cluster, struct idle_run *over,
                   bool *called, struct errmsg *e) MUST_CHECK;

/* Pure: is what ps 0 says of a job that goes on news for who knows `over`? */
bool idle_is_news(const struct idle_run *over, const char *uuid, uint64_t generation);

#endif
