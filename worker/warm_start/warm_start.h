/* A job that begins with what the one before it in DIR has learned (checkpoint.run): every night's, for one.
 *
 * Happy path: the newest cut is final, and of a run of another name -> a cut above all others with the same weights, also
 * of tables, first values for the features of new words, fresh optimizer slots, step 0, another UUID, the present data -> the chief goes on from it, as from any other.
 * The moment that its manifest is there the old job is over: a chief that dies before it does all of this again, one that
 * dies behind it goes on. Failure modes: another model or optimizer, which is refused naming the key; a full disk. */
#ifndef GRADWIRE_WORKER_WARM_START_WARM_START_H
#define GRADWIRE_WORKER_WARM_START_WARM_START_H

#include "common/checkpoint/checkpoint.h"
#include "common/job/job.h"
#include "common/parameters/layout.h"

struct warm_start {
    const struct job *job;
    const uint8_t *data_fingerprint; /* (32) */
    const char *output;              /* DIR */
    const char *checkpoints;         /* DIR/checkpoints */
    const struct layout *layout;     /* of the model */
    uint8_t *const *fresh; /* (tensors): which rows are new (worker/model/growth.h); NULL: none */
    const char *encoding;  /* encoding.json of the rows; NULL: they have none */
};

/* Is the job of this cut, the newest one, done, and of another run than this job's? */
bool warm_start_is_due(const struct job *job, const struct manifest *newest);

/* One that died between the two has left the old job's cuts beside its first one, `newest`: they go, so that nothing goes
 * back into that job. What cannot be removed stays. */
void warm_start_settle(const struct job *job, const char *checkpoints,
                       const struct manifest *newest);

/* Write that cut. The journal, DIR/best and the old job's cuts are removed; DIR/model stays until the new job is done.
 * The caller holds DIR's lock. Errors: ERR_INPUT the model or the optimizer is another, ERR_IO, ERR_CORRUPT, ERR_NOMEM. */
enum err warm_start_begin(const struct warm_start *s, const struct manifest *newest,
                          struct errmsg *e) MUST_CHECK;

#endif
