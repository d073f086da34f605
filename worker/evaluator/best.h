/* The best evaluation of a job, kept in DIR/best. If it stays the best for too long, training ends (Keras 3's
 * EarlyStopping and ModelCheckpoint(save_best_only)). A restarted chief has the state from the file and from the history, whose
 * lines say which epochs were the best: so a file that is lost is missed.
 *
 * Rows of tables are not copied: the file names a cut, which is held for as long as its epoch is the best. */
#pragma once

#include "common/base/rng.h"
#include "job/job.h"
#include "common/parameters/layout.h"
#include "common/place/place.h"
#include "common/process/contents.h"
#include "model/evaluation.h"

struct best {
    const struct job *job;
    const struct layout *layout;
    const struct place *checkpoints; /* the directory of the cuts */
    struct place place;              /* DIR/best */
    char path[FILES_PATH_MAX];       /* DIR/best/weights.safetensors, for messages */
    char run[UUID_BYTES]; /* of the file, the job's; "": an earlier release did not note it */
    bool has;
    bool gone; /* the history knows the best epoch, but its weights are gone */
    /* an undone epoch that was the best: trained again with the same bits it is so again, if the job has as many epochs;
     * 0: none */
    uint64_t ahead;
    uint64_t unsure; /* the history lacks this epoch, which may have been the best; 0: none */
    bool lost;       /* there was a file of the best epoch, but it is damaged */
    bool other;      /* the file is of another monitor */
    double value;    /* of the monitored quantity */
    uint64_t epoch;  /* the best epoch, from 1 */
    struct evaluation eval;
    const struct contents *contents; /* the evaluation data, and */
    char data[CONTENTS_HEX_BYTES]; /* the fingerprint of the evaluation data; "": it is not known */
    uint64_t cut, cut_step;        /* with tables: the cut that has its rows, and the cut's step */
    uint32_t cut_manifest;         /* the crc of that cut's manifest */
    int hold;                      /* the hold of that cut; -1: none */
};

/* Read from DIR/best the best evaluation so far by training.monitor; a damaged file is logged
 * and counts as none. Without training.monitor it only sets *b. `output` and `data` (the evaluation data; NULL: none) are
 * copied; the other arguments must outlive *b. Errors: ERR_NOMEM, ERR_FILES, ERR_IO: also if the file may be whole, and
 * cannot be read now; ERR_INPUT: the best was found on other data. */
enum err best_init(struct best *b, const struct job *job, const struct layout *layout,
                   const char *output, const struct place *checkpoints, const struct contents *data,
                   struct errmsg *e) MUST_CHECK;
void best_close(struct best *b); /* releases the cut; an all-zero struct needs nothing */

/* The job has this UUID: the best of another job is removed from best/. Errors: ERR_IO. */
enum err best_begin(struct best *b, const char *run, struct errmsg *e) MUST_CHECK;
/* The job goes back to this step, with the parameters that it had: a best epoch that ended later is undone. Its file stays until
 * another epoch is kept, so that a later process knows that it was the best. per_epoch: batches of an epoch. */
void best_undo(struct best *b, uint64_t step, uint64_t per_epoch);
/* The history says that this was the best. If best/ has an earlier one or none, the weights are gone. */
void best_expect(struct best *b, uint64_t epoch, const struct evaluation *eval);
/* True if the best's weights are gone, this evaluation has not beaten it, and no epoch that is trained again will: the job has lost
 * its best. Then best_give_up: that best counts no more. */
bool best_is_given_up(const struct best *b, uint64_t epoch, const struct evaluation *eval);
void best_give_up(struct best *b);

/* True if the evaluation is better than the best by more than min_delta, or is that of the best whose weights are gone; NaN
 * never is. */
bool best_is_beaten(const struct best *b, uint64_t epoch, const struct evaluation *eval);

/* True if the evaluation does not have what is monitored, though its loss is finite: an auc or a normalized entropy of rows
 * of one class. It depends on the rows alone, so no later epoch has it. */
bool best_is_undefined(const struct best *b, const struct evaluation *eval);

/* True if this evaluation of the last epoch that was reported has beaten the best, but is not kept: the process that made
 * it ended in between, or could not keep it. */
bool best_lacks(const struct best *b, uint64_t epoch, const struct evaluation *eval);

/* Keep the evaluation and the weights w of the end of `epoch` if best_is_beaten. Errors: ERR_IO, ERR_NOMEM: they could
 * not be kept, and the earlier best stays. */
enum err best_see(struct best *b, uint64_t epoch, const struct evaluation *eval, const float *w,
                  struct errmsg *e) MUST_CHECK;

/* With tables: keep this evaluation, which has beaten the best, and a published cut of the evaluated state.
 * `take_hold`: of checkpoint_hold. The dense weights in the file are the cut's. Errors: as best_see; ERR_CORRUPT. */
enum err best_keep_cut(struct best *b, uint64_t epoch, const struct evaluation *eval, uint64_t cut,
                       int take_hold, struct errmsg *e) MUST_CHECK;

/* With tables, at the start: the same, if a published cut of this job is of the evaluated step (eval->step); otherwise
 * nothing changes. Errors: as best_keep_cut. */
enum err best_adopt(struct best *b, uint64_t epoch, const struct evaluation *eval, const char *uuid,
                    struct errmsg *e) MUST_CHECK;

/* The monitored quantity: its name ("loss" or a metric), and its value in an evaluation. Only with training.monitor. */
const char *best_monitor_name(const struct job *job);
double best_monitored(const struct job *job, const struct evaluation *eval);

/* best_waited: epochs since the best one, with `epoch` as the last. best_stops: true if they have reached
 * early_stopping.patience. */
uint64_t best_waited(const struct best *b, uint64_t epoch);
bool best_stops(const struct best *b, uint64_t epoch);

/* Read the kept weights into w (layout->elems; gaps zero). Errors: ERR_NOTFOUND: none are kept; ERR_CORRUPT: the file is not as
 * it was written; ERR_IO, ERR_NOMEM. */
enum err best_read(const struct best *b, float *w, struct errmsg *e) MUST_CHECK;
