/* The state of a process, as shown in /status and by the metric gradwire_state. */
#ifndef GRADWIRE_COMMON_PROCESS_PROCESS_STATE_H
#define GRADWIRE_COMMON_PROCESS_PROCESS_STATE_H

#include "common/process/metrics.h"

enum process_state {
    STATE_LOADING,    /* it reads its data */
    STATE_WAITING,    /* it waits for other processes before training starts or resumes */
    STATE_TRAINING,   /* it takes part in training */
    STATE_EVALUATING, /* the evaluator, after the first checkpoint appeared */
    /* --when_done=wait: no other process connected; it waits without a time limit */
    STATE_IDLE,
    STATE_DONE, /* the job is done, and this process has released everything of it */
};

/* The launcher sets this environment variable for a process that it restarts within a job. */
#define PROCESS_AGAIN "GRADWIRE_STARTED_AGAIN"

const char *process_state_word(enum process_state s);
/* Writes one gauge per state: 1 for the present state, 0 for the others. */
void process_state_metrics(struct metrics *m, enum process_state s);

#endif
