/* The chief's progress as JSON lines for a launcher, and as log lines for people. */
#ifndef GRADWIRE_WORKER_CONTROL_PROGRESS_H
#define GRADWIRE_WORKER_CONTROL_PROGRESS_H

#include <stdbool.h>

#include "common/base/err.h"
#include "common/job/job.h"
#include "worker/control/history.h"
#include "worker/model/evaluation.h"
#include "worker/model/model.h"

struct progress {
    int fd; /* -1: none */
    /* For the job's page: of a step {loss, metric, examples/s}, of an epoch {loss, metric, eval loss, eval metric}. */
    void (*on_point)(void *ctx, const struct history_point *p, bool of_epoch);
    void *ctx;
    const struct job *job;
    struct planted planted;   /* printed beside what an evaluation found */
    double started_s, said_s; /* clock_now_s */
    double epoch_s;
    double window_s, window_examples;
    bool first_told;
};

/* Where the job stands by training.monitor. */
struct progress_best {
    const char *name; /* what is monitored: "loss", or a metric */
    double value;
    uint64_t epoch;            /* the best one; 0: none yet */
    uint64_t waited, patience; /* epochs without a better one; early_stopping.patience, 0: none */
};

void progress_init(struct progress *p, const struct job *job, int fd, double now_s);
/* " (planted: auc 0.7912 logloss 0.4410)" to out, or nothing; returns out. */
const char *progress_planted(const struct planted *planted, char out[64]);
/* A step is made, of so many examples; every now and then a line leaves. `trained`: the epoch so far. `step` counts from
 * 1 in the epoch. */
void progress_step(struct progress *p, double examples, const struct sums *trained, uint64_t epoch,
                   uint64_t step, uint64_t steps, double now_s);
/* An epoch is over; without examples nothing is known of its training; eval may be NULL, and so may best. */
void progress_epoch(struct progress *p, uint64_t epoch, const struct sums *trained,
                    const struct evaluation *eval, const struct progress_best *best, double now_s);

/* An epoch was told before: the next one begins now. */
void progress_go_on(struct progress *p, double now_s);

/* A cut is published. Thread: any; `fd` as in progress_init. */
void progress_checkpoint(int fd, uint64_t cut, uint64_t step);

/* Training waits for this process, for so long; "": for none any more. Thread: any; `fd` as in progress_init. */
void progress_wait(int fd, const char *whom, double seconds);

/* Why this process has nothing to train. Thread: any; `fd` as in progress_init. */
void progress_untrained(int fd, const char *text);

/* A line for people. Thread: any; `fd` as in progress_init. */
void progress_say(int fd, const char *fmt, ...) PRINTF_LIKE(2, 3);

#endif
