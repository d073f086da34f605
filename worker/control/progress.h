/* The chief's progress, as JSON lines for a launcher and as log lines for people. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/err.h"
#include "common/process/process_state.h"
#include "job/job.h"
#include "model/evaluation.h"
#include "model/model.h"
#include "common/parameters/limits.h"

/* The progress of a job as the points of a curve: at most HISTORY_MAX, however long the job is. When they are full,
 * every second one is dropped, and from then on half as many are kept. The newest is always kept. Pure. */

/* Values of a point after a step: loss, examples/s, each metric, the time left. Values of an epoch's point: loss and each metric,
 * then loss and each metric of the evaluation. */
enum {
    HISTORY_MAX = 240,
    HISTORY_VALUES = 2 * (1 + METRICS_MAX),
    HISTORY_RATE = 1,
    HISTORY_STEP_METRICS = 2,
    /* not on the curve: the time left in seconds, and whether that is early (progress.h) */
    HISTORY_LEFT = HISTORY_STEP_METRICS + METRICS_MAX,
    HISTORY_EARLY
};

struct history_point {
    uint64_t step;                /* of the job: the last step that the point covers */
    double value[HISTORY_VALUES]; /* NAN: not known */
};

struct history {
    uint32_t n;
    uint64_t every,
        seen; /* of `every` points one is kept permanently; seen: points added and not undone */
    struct history_point point[HISTORY_MAX];
};

/* The point of an epoch (from 1) in a job with so many metrics. `eval` NULL: not evaluated. */
struct history_point history_epoch(uint64_t epoch, uint32_t metrics, const struct evaluation *found,
                                   const struct evaluation *eval);
/* Add a point; an all-zero history has no points. If the step is not after the last point's, a rollback happened:
 * points from this step on are dropped first. */
void history_add(struct history *h, const struct history_point *p);
/* Drop the points from this step on, because a rollback has undone them. */
void history_drop(struct history *h, uint64_t step);
/* [[step, value, ...], ...] with the first `values` values of each; null: not finite. NULL: no memory. */
json_t *history_json(const struct history *h, uint32_t values);

/* The time that a job has left, from the steps that this process has seen since training began. Pure.
 *
 * The time of a step is a mean over the run, in which a later step weighs more (by the square of its time): so the slow
 * first steps count little. Steps are measured in windows of a twentieth of the time so far. A window in which training
 * waited (more than ETA_CLIP times the mean) counts as one of that length. ETA_TURN windows in a row that are slower, or
 * faster, than the mean show that the rate has changed: the mean then begins with them.
 *
 * In sync all workers wait at the end of an epoch, for its evaluation and best checkpoint. This time is measured apart
 * and counts once for each epoch that remains, as soon as one such wait was seen. Its mean is clipped in the same way, and
 * begins again after two waits in a row that are longer than that. In the other modes nobody waits.
 * Reading the data, earlier runs and earlier chiefs do not count. Early stopping can end the job sooner. */

struct eta_span {
    double steps, seconds;
};

enum { ETA_CLIP = 2, ETA_TURN = 3 };

/* All zeros: nothing was seen yet. */
struct eta {
    bool all_wait; /* sync: at the end of an epoch */
    bool began;
    uint64_t first, position; /* steps of the job before the first step that was seen, and now */
    uint64_t epoch;           /* of the last step, from 1 */
    double now_s;             /* of the last step */
    double trained_s;         /* time in windows */
    struct eta_span window;   /* the open one */
    struct eta_span turned[ETA_TURN]; /* the last windows that differ, all in the same direction */
    uint32_t turns;
    bool slower;          /* their direction */
    struct eta_span mean; /* weighted */
    uint32_t pauses;      /* ends of epochs */
    double pause_s;       /* one of them, with the next step */
    double long_s; /* the last one, if it was more than ETA_CLIP times longer; 0: it was not */
};

/* The position of a step: in its epoch of `epochs`, both from 1, which has `steps`. */
struct eta_place {
    uint64_t epoch, epochs, step, steps;
};

/* A step of the job was made. */
void eta_step(struct eta *t, const struct eta_place *at, double now_s);
/* Seconds from the step at `at` to the end of the last epoch and of its evaluation; NAN: not known yet. */
double eta_left_s(const struct eta *t, const struct eta_place *at);
/* Less than a twentieth of this run's steps are made: the time left is a first guess. */
bool eta_is_early(const struct eta *t, const struct eta_place *at);

enum { PROGRESS_WORDS_BYTES = 48 * (METRICS_MAX + 1) };

struct progress {
    int fd; /* -1: none */
    /* For the job's page, after a step or (of_epoch) an epoch; HISTORY_* are the values of a point. NULL: not
     * needed. */
    void (*on_point)(void *ctx, const struct history_point *p, bool of_epoch);
    void *ctx;
    const struct job *job;
    struct planted planted;   /* printed with the results of an evaluation */
    double started_s, said_s; /* clock_now_s */
    double epoch_s;
    double examples, changed_s;       /* of all workers, and when this number grew last */
    double window_s, window_examples; /* where the measurement of the rate began */
    double examples_per_s;            /* of the last measurement; NAN: none yet */
    struct eta eta;
    bool first_told;
};

/* The best epoch so far, by training.monitor. */
struct progress_best {
    const char *name; /* the monitored value: "loss", or a metric */
    double value;
    uint64_t epoch; /* the best epoch; 0: none yet */
    /* waited: epochs since the best one; patience: early_stopping.patience, 0: none */
    uint64_t waited, patience;
};

/* `job` and `fd` are borrowed; fd -1: only log lines. now_s: clock_now_s. */
void progress_init(struct progress *p, const struct job *job, int fd, double now_s);
/* Write " (planted: auc 0.7912 logloss 0.4410)", or nothing, to `out`. Returns out. */
const char *progress_planted(const struct planted *planted, char out[64]);
/* Write " loss L METRIC M", with all metrics of the job; "-" stands for a metric that is not finite. */
void progress_words(char out[PROGRESS_WORDS_BYTES], const struct job *job,
                    const struct evaluation *found);
/* A step is made; from time to time this writes a line. examples: of all workers so far, as far as this process knows;
 * never falls. `trained`: sums over the epoch so far. `step` counts from 1 in the epoch. */
void progress_step(struct progress *p, double examples, const struct sums *trained, uint64_t epoch,
                   uint64_t step, uint64_t steps, double now_s);
/* An epoch is over. Without examples the loss of its training is not known; eval and best may be NULL. */
void progress_epoch(struct progress *p, uint64_t epoch, const struct sums *trained,
                    const struct evaluation *eval, const struct progress_best *best, double now_s);

/* The end of an epoch was reported earlier: the next epoch begins now. */
void progress_go_on(struct progress *p, double now_s);

/* The data are being read, and those of the workers that loading_heard knows. NULL: this process has read its own. Thread: any;
 * `fd` as in progress_init. */
void progress_loading(int fd, const struct loading *now, bool separate_chief);

/* A cut is published. Thread: any; `fd` as in progress_init. */
void progress_checkpoint(int fd, uint64_t cut, uint64_t step);

/* Training has waited for this process for so long; "": it no longer waits. Thread: any; `fd` as in progress_init. */
void progress_wait(int fd, const char *whom, double seconds);

/* The reason why this process has nothing to train. Thread: any; `fd` as in progress_init. */
void progress_untrained(int fd, const char *text);

/* A line for people. Thread: any; `fd` as in progress_init. */
void progress_say(int fd, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* fd: as in progress_init; -1 does nothing. Later calls do nothing. Without memory for a thread the launcher never hears of
 * it, and does not expect it. */
void alive_begin(int fd);
