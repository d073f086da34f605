/* A job with tables keeps its best epoch as a cut. The chief's training thread requests the cut from the control
 * thread.
 *
 * Happy path: an evaluation beats the best -> best_cut_ask -> the cut is copied (in sync the next step begins only
 * now, so the cut has the evaluated step) -> it is published -> best_keep_cut.
 * Failure modes: the cut fails (the earlier best stays), a new generation (best_cut_drop; the epoch's end is
 * evaluated again). Thread: the training thread. */
#ifndef GRADWIRE_WORKER_CHIEF_BEST_CUT_H
#define GRADWIRE_WORKER_CHIEF_BEST_CUT_H

#include "worker/control/control.h"
#include "worker/evaluator/best.h"

/* All zero: nothing is requested. */
struct best_cut {
    uint64_t asks; /* number of requests so far, which is the number of the last one */
    bool asked, copied;
    uint64_t epoch;
    struct evaluation eval;
};

/* Request a cut. Call only if no request is pending. `step`: in sync the latest step that the cut may have; in other
 * modes UINT64_MAX. False: no memory. */
bool best_cut_ask(struct best_cut *c, struct control *control, uint64_t epoch, uint64_t step,
                  const struct evaluation *eval) MUST_CHECK;
/* Handle TRAIN_KEPT; takes kept->hold. A report about another request is ignored. Errors: the cut of c->epoch failed, or is not
 * the best one's now. */
enum err best_cut_on(struct best_cut *c, struct best *best, struct train_kept *kept,
                     struct errmsg *e) MUST_CHECK;
void best_cut_drop(struct best_cut *c);

/* True until the cut is copied. */
static inline bool best_cut_is_made(const struct best_cut *c)
{
    return c->asked && !c->copied;
}

/* True from the request until TRAIN_KEPT reports that the cut is published or has failed, or best_cut_drop. */
static inline bool best_cut_is_open(const struct best_cut *c)
{
    return c->asked;
}

#endif
