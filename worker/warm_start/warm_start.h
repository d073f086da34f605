/* A job that begins with the weights of the earlier job in DIR (checkpoint.run); for example, a run every night.
 *
 * Happy path: the newest cut is final, and has another run name -> a cut numbered above all others, with the same
 * weights and tables, first values for the features of new words, fresh optimizer slots, step 0, another UUID, and
 * the present data -> the chief resumes from it, as from any other. The earlier job is over as soon as this cut's
 * manifest exists: a chief that dies before that repeats all of this, one that dies after it resumes.
 * Failure modes: another model or optimizer, which is refused naming the key; a full disk. */
#ifndef GRADWIRE_WORKER_WARM_START_WARM_START_H
#define GRADWIRE_WORKER_WARM_START_WARM_START_H

#include "common/checkpoint/checkpoint.h"
#include "job/job.h"
#include "common/parameters/layout.h"

struct warm_start {
    const struct job *job;
    const uint8_t *data_fingerprint; /* (32) */
    const char *output;              /* DIR */
    const struct place *checkpoints; /* DIR/checkpoints */
    const struct layout *layout;     /* of the model */
    /* (tensors) flags of the new rows (model_growth); NULL: none */
    uint8_t *const *fresh;
    const char *encoding; /* encoding.json of the rows; NULL: they need none */
};

/* A warning, with the run and what differs (job_identity_compare_fields). */
#define WARM_START_FIELDS                                                                          \
    "run \"%s\": %s: a field that is read in another way makes another key, which finds no row "   \
    "of "                                                                                          \
    "the earlier run; if the files are written as before, restore the earlier value"

/* True if the job of this cut, the newest one, is done, and has another run name than this job. */
bool warm_start_is_due(const struct job *job, const struct manifest *newest);

/* Remove the earlier job's cuts that a chief left next to `newest`, the first cut of this run, because it died
 * between writing the one and removing the others: nothing may roll back to them. Cuts that cannot be removed stay. */
void warm_start_settle(const struct job *job, const struct place *checkpoints,
                       const struct manifest *newest);

/* Remove the files of `output` (DIR) that belong to an earlier job alone, except its cuts: a job that does not resume must not
 * compare with its best epoch, or leave out the batches of its journal. The caller holds DIR's lock. Errors: ERR_IO. */
enum err warm_start_forget(const char *output, struct errmsg *e) MUST_CHECK;
/* The same for the best epoch alone. best: DIR/best. */
enum err warm_start_forget_best(const char *best, struct errmsg *e) MUST_CHECK;

/* Write that cut. The journal, DIR/best and the earlier job's cuts are removed; DIR/model stays until the new job is
 * done. The caller holds DIR's lock. Errors: ERR_INPUT: another model or optimizer; ERR_IO, ERR_CORRUPT, ERR_NOMEM. */
enum err warm_start_begin(const struct warm_start *s, const struct manifest *newest,
                          struct errmsg *e) MUST_CHECK;

#endif
