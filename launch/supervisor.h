/* Runs the processes of a job until they have ended, on this host or on others (process.h); policy.h has the rules. One
 * libevent loop, one thread.
 *
 * Happy path: all processes are started and processes/pids is written; the chief's progress is shown; all exit with 0.
 * Failure modes:
 * - A process dies: the policy restarts it or ends the job.
 * - Ctrl-C, SIGTERM, SIGHUP or the policy ends the job: SIGTERM to all processes, and SIGKILL after grace_s. After a
 *   second Ctrl-C SIGKILL follows immediately.
 * - Processes still run SUPERVISOR_LINGER_S after the chief is done: they are ended in the same way.
 * - The guardian dies: another one is started.
 * - DIR is removed, or another directory is moved to its place: the job ends with 1, and writes nothing more there.
 * The loop ends when no process runs and none waits for its start. */
#pragma once

#include <stdint.h>

#include "common/base/err.h"
#include "job/job.h"
#include "launch/local/crew.h"

enum { SUPERVISOR_LINGER_S = 3, SUPERVISOR_EXIT_INT = 130, SUPERVISOR_EXIT_TERM = 143 };

struct fleet;
struct event_base;

struct supervisor_plan {
    struct event_base *base; /* shared with the fleet */
    struct crew *crew;
    struct fleet *fleet; /* the other hosts on which the crew runs; NULL: it runs on this host */
    const struct job *job;
    const char *dir;
    int progress_fd; /* the end for reading */
    uint32_t restarts_max;
    double start_s; /* clock_now_s of the launcher's start */
    void (*on_first_step)(
        void *arg); /* called when the job has made a step, once or more often; can be NULL */
    void *arg;
};

/* Results for the summary. */
struct supervisor_result {
    int exit_code;
    char error[640]; /* "": none */
    uint32_t restarts;
    double first_step_s;  /* NAN: no step was made */
    uint64_t step, epoch; /* as last reported */
};

/* Run until all processes have ended; then close plan->fleet and the crew's guardian. Errors: ERR_IO or ERR_NOMEM the
 * processes could not be started; none runs. */
enum err supervisor_run(struct supervisor_result *result, const struct supervisor_plan *plan,
                        struct errmsg *e) MUST_CHECK;
