/* The supervisor's rules, the same as in a TFJob's ExitCode policy. Pure: exits and steps come in, verdicts go out.
 *
 *   exit 0                     the process is done. After the chief is done, no process is restarted.
 *   exit 1 to 127              the job ends with this code (the first one counts), also for a spare process.
 *   a signal, or exit >= 128   the process is restarted after 0.1 s. The delay doubles with each restart, up to 5 s, and is
 *                              0.1 s again after the process has run for one minute. The job ends with 1 when all
 *                              restarts are used, or at the third death of a process without a new step or checkpoint
 *                              in between.
 *                              Such deaths of a spare process (the evaluator) do not end the job: then it is just not
 *                              restarted. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/base/err.h"
#include "common/base/mem.h"

#define POLICY_NONE UINT32_MAX
enum {
    POLICY_DELAY_FIRST_MS = 100,
    POLICY_DELAY_MAX_MS = 5000,
    POLICY_HEALTHY_MS = 60000, /* a run of this length resets the delays */
    POLICY_DEATHS_WITHOUT_STEP = 3
};

enum policy_action {
    POLICY_GONE,    /* do nothing */
    POLICY_RESTART, /* restart the process after delay_ms */
    POLICY_END      /* end the job with exit_code */
};

struct policy_verdict {
    enum policy_action action;
    uint32_t delay_ms;
    int exit_code;
    char why[128]; /* for people: "killed by signal 9 (Killed)" and the consequence */
};

struct policy_process {
    uint32_t restarts;            /* of this process so far */
    uint32_t delays;              /* restarts since its last healthy run */
    uint32_t deaths_without_step; /* since the job's last new step or checkpoint */
};

struct policy {
    uint32_t restarts, restarts_max; /* of all processes together */
    uint64_t step;                   /* as last reported */
    uint64_t next_cut;               /* above all published checkpoints; 0: none was reported */
    bool ending;                     /* the launcher is ending the job: no process is restarted */
    bool chief_done;                 /* the chief exited 0 */
    uint32_t chief;                  /* index of the chief's process */
    uint32_t spare; /* index of the process that the job does not need; POLICY_NONE after init */
    uint32_t n;
    struct policy_process *process;
};

/* Errors: ERR_NOMEM. policy_close frees the list of processes. */
enum err policy_init(struct policy *p, uint32_t n, uint32_t chief,
                     uint32_t restarts_max) MUST_CHECK;
static inline void policy_close(struct policy *p)
{
    mem_free(p->process);
    p->process = NULL;
}

/* The chief reports the job's step. A larger one than before is a new step; a smaller one means a rollback, after which
 * steps count again. */
void policy_at_step(struct policy *p, uint64_t step);
/* A step was made; its number does not matter. */
static inline void policy_made_step(struct policy *p)
{
    for (uint32_t i = 0; i < p->n; i++)
        p->process[i].deaths_without_step = 0;
}

/* A checkpoint was published. A newer one than before counts as a step: the next process of the chief begins behind it, also at
 * the end of a job, where no step is left. */
void policy_published(struct policy *p, uint64_t cut);

/* Process i has ended; it ran for ran_ms. The caller then calls policy_exit or policy_lost. */
static inline void policy_ran(struct policy *p, uint32_t i, int64_t ran_ms)
{
    if (ran_ms >= POLICY_HEALTHY_MS)
        p->process[i].delays = 0;
}
/* Process i ended with this wait status. */
struct policy_verdict policy_exit(struct policy *p, uint32_t i, int wait_status);
/* Process i was lost together with its host: this counts as a death by a signal. */
struct policy_verdict policy_lost(struct policy *p, uint32_t i);
