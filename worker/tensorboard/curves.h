/* The contents of TensorBoard's event files about training: the curves, the position of their points on the axis,
 * and the points that are written again after a rollback. The axis is the step for all of them. Names are those of
 * Keras's callback. */
#ifndef GRADWIRE_WORKER_TENSORBOARD_CURVES_H
#define GRADWIRE_WORKER_TENSORBOARD_CURVES_H

#include "common/parameters/layout.h"
#include "model/evaluation.h"
#include "worker/tensorboard/events.h"
#include "model/model.h"

struct curves {
    const struct job *job;
    const struct layout *layout;
    uint64_t batches_per_epoch, rows; /* of the training data */
    struct events *events;    /* NULL: no files are written, and the other fields are not used */
    bool begun;               /* a step was made in this run */
    uint64_t seen;            /* the last step */
    uint64_t evaluated;       /* the last step that was evaluated; 0: none in this run */
    uint64_t epoch_step;      /* where the last epoch ended, or this run began */
    double examples;          /* examples since epoch_step */
    struct sums window;       /* sums since the last point within the epoch */
    double epoch_s, window_s; /* clock_now_s */
    double paused_s;          /* time since then that was not training, in seconds */
};

/* `logs`: DIR/logs, or the value of --logs; `disk` is borrowed. */
void curves_init(struct curves *c, const struct job *job, const struct layout *layout,
                 uint64_t batches_per_epoch, uint64_t rows, const char *logs,
                 struct disk_thread *disk);
void curves_close(struct curves *c, bool success);

/* The parameters of `step` have arrived; `sums`: over the step that made them. examples_per_s: of all workers; NAN: not known
 * yet. */
void curves_step(struct curves *c, uint64_t step, const struct sums *sums, double examples_per_s,
                 double now_s);
/* An epoch is over at this step, with `trained` as its sums, w as its weights, and `gradient` as the last computed
 * gradient (no blocks: none was computed). Call it before the epoch's evaluation, and curves_evaluated after that,
 * if there was one. */
void curves_epoch(struct curves *c, uint64_t step, const struct sums *trained, const float *w,
                  const struct events_values *gradient, struct pool *pool, double now_s);
void curves_evaluated(struct curves *c, uint64_t step, const struct evaluation *eval);
/* So many seconds were not training. */
void curves_paused(struct curves *c, double seconds);

/* Write the points of an evaluation at `step`: by step, and if it ends an epoch, those of the epoch. */
void curves_put_evaluation(struct events *ev, const struct job *job, uint64_t step, bool ends_epoch,
                           const struct evaluation *eval);

#endif
