/* What TensorBoard's event files show of training: which curves there are, where on the axis their points stand, and what
 * is told anew after a rollback. The axis is the step, for all of them. Names are those of Keras's callback. */
#ifndef GRADWIRE_WORKER_TENSORBOARD_CURVES_H
#define GRADWIRE_WORKER_TENSORBOARD_CURVES_H

#include "common/parameters/layout.h"
#include "worker/model/evaluation.h"
#include "worker/tensorboard/events.h"
#include "worker/model/model.h"

struct curves {
    const struct job *job;
    const struct layout *layout;
    uint64_t batches_per_epoch, rows; /* of the training data */
    struct events *events;            /* NULL: nothing is shown, and the rest is not used */
    bool begun;                       /* a step was made in this run */
    uint64_t seen;                    /* the last step */
    uint64_t evaluated;               /* the last step that was evaluated; 0: none in this run */
    uint64_t epoch_step;              /* where the last epoch ended, or this run began */
    double examples;                  /* since then */
    struct sums window;               /* since the last point within it */
    double epoch_s, window_s;         /* clock_now_s */
    double paused_s;                  /* of it, not training */
};

/* `logs`: DIR/logs, or what --logs says; `disk` is borrowed. */
void curves_init(struct curves *c, const struct job *job, const struct layout *layout,
                 uint64_t batches_per_epoch, uint64_t rows, const char *logs,
                 struct disk_thread *disk);
void curves_close(struct curves *c, bool success);

/* Parameters of `step` are there, by these sums of what went into it. */
void curves_step(struct curves *c, uint64_t step, const struct sums *sums, double now_s);
/* An epoch is over at this step, by these sums over all of it, w being its weights and `gradient` what was computed last
 * (no blocks: nothing was): before its evaluation; then the evaluation, if there was one. */
void curves_epoch(struct curves *c, uint64_t step, const struct sums *trained, const float *w,
                  const struct events_values *gradient, struct pool *pool, double now_s);
void curves_evaluated(struct curves *c, uint64_t step, const struct evaluation *eval);
/* For so long nothing was trained. */
void curves_paused(struct curves *c, double seconds);

/* The points of an evaluation at `step`: by the step alone, and those of an epoch where it ends one. */
void curves_put_evaluation(struct events *ev, const struct job *job, uint64_t step, bool ends_epoch,
                           const struct evaluation *eval);

#endif
