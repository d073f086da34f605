/* What a process does, as /status and the metric gradwire_state tell it. */
#ifndef GRADWIRE_COMMON_PROCESS_PROCESS_STATE_H
#define GRADWIRE_COMMON_PROCESS_PROCESS_STATE_H

#include "common/process/metrics.h"

enum process_state {
    STATE_LOADING,    /* reads its data */
    STATE_WAITING,    /* for others, so that training can begin or go on */
    STATE_TRAINING,   /* its part of the job runs */
    STATE_EVALUATING, /* the evaluator, from the first checkpoint on */
    STATE_IDLE,       /* --when_done=wait: nobody came, and it waits on without a bound */
    STATE_DONE,       /* the job is done, and this process holds nothing of it any more */
};

/* In the environment of a process that its launcher has started before, in this job. */
#define PROCESS_AGAIN "GRADWIRE_STARTED_AGAIN"

const char *process_state_word(enum process_state s);
/* A gauge for each state, of which one is 1. */
void process_state_metrics(struct metrics *m, enum process_state s);

#endif
