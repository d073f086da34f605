/* Runs the processes of a job to its end (policy.h has the rules), wherever they run (process.h):
 * one libevent loop, one thread.
 *
 * Happy path: all are started, processes/pids is written; the chief's progress is shown; all exit
 * 0. Failure modes: a process dies -> the policy restarts it or ends the job. Ctrl-C or SIGTERM, or
 * the policy, ends the job: SIGTERM to all, after grace_s SIGKILL. A second Ctrl-C is SIGKILL at
 * once. Processes that stay although the chief is done get the same after SUPERVISOR_LINGER_S. The
 * guardian dies: another one is started. The loop ends when nothing runs and nothing waits to be
 * started. */
#ifndef GRADWIRE_LAUNCH_SUPERVISOR_H
#define GRADWIRE_LAUNCH_SUPERVISOR_H

#include <stdint.h>

#include "common/base/err.h"
#include "common/job/job.h"
#include "launch/local/crew.h"

enum { SUPERVISOR_LINGER_S = 3, SUPERVISOR_EXIT_INT = 130, SUPERVISOR_EXIT_TERM = 143 };

struct fleet;
struct event_base;

struct supervisor_plan {
    struct event_base *base; /* the fleet's too */
    struct crew *crew;
    struct fleet *fleet; /* the hosts that the crew runs on; NULL: this one */
    const struct job *job;
    const char *dir;
    int progress_fd; /* the reading end */
    uint32_t restarts_max;
    double start_s;                   /* clock_now_s of the launcher's start */
    void (*on_first_step)(void *arg); /* the job has made a step, once or more; may be NULL */
    void *arg;
};

/* What the launcher keeps for the summary. */
struct supervisor_result {
    int exit_code;
    char error[640]; /* "": none */
    uint32_t restarts;
    double first_step_s;  /* NAN: none was made */
    uint64_t step, epoch; /* as last reported */
};

/* Run until all processes have ended. Errors: ERR_IO could not start; nothing runs then. */
enum err supervisor_run(struct supervisor_result *result, const struct supervisor_plan *plan,
                        struct errmsg *e) MUST_CHECK;

#endif
