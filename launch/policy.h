/* The supervisor's rules, those of a TFJob's ExitCode policy. Pure: exits and steps come in,
 * verdicts go out.
 *
 *   exit 0                     that process is done; once the chief is, nobody is started again
 *   exit 1..127                the job ends with this code (the first one counts)
 *   a signal, or exit >= 128   started again after 0.1 s, doubling to 5 s for each process, and from 0.1 s
 * again for one that ran for a minute before; the job
 * ends with 1 when all restarts are used, or at the third death without a new step between; of a spare process
 * (the evaluator) these deaths end nothing: it is not started again */
#ifndef GRADWIRE_LAUNCH_POLICY_H
#define GRADWIRE_LAUNCH_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/err.h"

#define POLICY_NONE UINT32_MAX
enum {
    POLICY_DELAY_FIRST_MS = 100,
    POLICY_DELAY_MAX_MS = 5000,
    POLICY_HEALTHY_MS = 60000, /* of a run after which the delays begin anew */
    POLICY_DEATHS_WITHOUT_STEP = 3
};

enum policy_action {
    POLICY_GONE,    /* leave it at that */
    POLICY_RESTART, /* start it again after delay_ms */
    POLICY_END      /* end the job with exit_code */
};

struct policy_verdict {
    enum policy_action action;
    uint32_t delay_ms;
    int exit_code;
    char why[96]; /* for people: "killed by signal 9 (Killed)", what follows, why the job ends */
};

struct policy_process {
    uint32_t restarts;            /* of this process */
    uint32_t delays;              /* of them since its last healthy run: the next one is longer */
    uint32_t deaths_without_step; /* since the job last made a step */
};

struct policy {
    uint32_t restarts, restarts_max;
    uint64_t step;   /* as last reported */
    bool ending;     /* the launcher is ending the job: nothing is started again */
    bool chief_done; /* the chief exited 0 */
    uint32_t chief;  /* which process */
    uint32_t spare;  /* which process the job can do without; POLICY_NONE after init */
    uint32_t n;
    struct policy_process *process;
};

enum err policy_init(struct policy *p, uint32_t n, uint32_t chief,
                     uint32_t restarts_max) MUST_CHECK;
void policy_close(struct policy *p);

/* The chief reports that the job stands at this step. More than last time is a new step; less is a
 * job rolled back, whose steps count again. */
void policy_at_step(struct policy *p, uint64_t step);
/* A step was made, whatever its number. */
void policy_made_step(struct policy *p);

/* Process i has run for this long and is no more; policy_exit or policy_lost tells next how. */
void policy_ran(struct policy *p, uint32_t i, int64_t ran_ms);
/* Process i ended with this wait status. */
struct policy_verdict policy_exit(struct policy *p, uint32_t i, int wait_status);
/* Process i is gone with its host: a death as by a signal. */
struct policy_verdict policy_lost(struct policy *p, uint32_t i);

#endif
