/* The best evaluation of a job: it is kept in DIR/best, and where it stays the best for too long, training ends (Keras
 * 3's EarlyStopping and ModelCheckpoint(save_best_only)). What was best is known from the file alone, so a chief that
 * is started again knows it too.
 *
 * Rows of tables are not copied: the file names a cut, which is held for as long as it is the best one's. */
#ifndef GRADWIRE_WORKER_EVALUATE_BEST_H
#define GRADWIRE_WORKER_EVALUATE_BEST_H

#include "common/job/job.h"
#include "common/parameters/layout.h"
#include "worker/model/evaluation.h"

struct best {
    const struct job *job;
    const struct layout *layout;
    const char *checkpoints; /* where the cuts are */
    char folder[4096];       /* DIR/best */
    char path[4200];         /* DIR/best/weights.safetensors */
    bool has;
    double value;   /* of what is monitored */
    uint64_t epoch; /* where it was, from 1 */
    struct evaluation eval;
    uint64_t cut, cut_step; /* with tables: the cut that has its rows, and that cut's step */
    int hold;               /* of it; -1: none */
};

/* Takes up what DIR/best has of this job's monitor; a file that cannot be used is logged and counts as none.
 * Errors: ERR_NOMEM, ERR_IO. The rest is the caller's and outlives it. */
enum err best_init(struct best *b, const struct job *job, const struct layout *layout,
                   const char *output, const char *checkpoints, struct errmsg *e) MUST_CHECK;
void best_close(struct best *b); /* lets go of the cut; all zero: nothing */

/* Better than the best by more than min_delta; what is not a number never is. */
bool best_is_beaten(const struct best *b, uint64_t epoch, const struct evaluation *eval);

/* The evaluation of weights w at the end of `epoch`: if it is better by more than min_delta, it is kept. What is not a
 * number is never better. Errors: ERR_IO, ERR_NOMEM: it could not be kept, and counts as not seen. */
enum err best_see(struct best *b, uint64_t epoch, const struct evaluation *eval, const float *w,
                  struct errmsg *e) MUST_CHECK;

/* With tables: this evaluation, which has beaten the best, and a published cut of what was evaluated. `take_hold`: of
 * checkpoint_hold. The dense weights in the file are the cut's. Errors: as best_see; ERR_CORRUPT. */
enum err best_keep_cut(struct best *b, uint64_t epoch, const struct evaluation *eval, uint64_t cut,
                       int take_hold, struct errmsg *e) MUST_CHECK;

/* The monitored quantity: its name ("loss" or a metric), and its value in an evaluation. Only with training.monitor. */
const char *best_monitor_name(const struct job *job);
double best_monitored(const struct job *job, const struct evaluation *eval);

/* Epochs since the best one, `epoch` being the last one; and were they early_stopping.patience? */
uint64_t best_waited(const struct best *b, uint64_t epoch);
bool best_stops(const struct best *b, uint64_t epoch);

/* The weights that are kept, into w (layout->elems; gaps zero). Errors: ERR_NOTFOUND there are none; ERR_CORRUPT,
 * ERR_IO, ERR_NOMEM. */
enum err best_read(const struct best *b, float *w, struct errmsg *e) MUST_CHECK;

#endif
