/* A job with tables keeps its best epoch as a cut. The chief's training thread asks the control thread for one.
 *
 * Happy path: an evaluation beats the best -> best_cut_ask -> the cut is copied: in sync the next step is begun only now, so
 * the cut is of the evaluated step -> it is published -> best_keep_cut. Failure modes: the cut fails (logged; the best
 * is what it was), a new generation (best_cut_drop: the epoch's end is looked at again). Thread: the training thread. */
#ifndef GRADWIRE_WORKER_CHIEF_BEST_CUT_H
#define GRADWIRE_WORKER_CHIEF_BEST_CUT_H

#include "worker/control/control.h"
#include "worker/evaluate/best.h"

/* All zero: nothing is asked for. */
struct best_cut {
    uint64_t asks; /* so far; the last one's number */
    bool asked, copied;
    uint64_t epoch;
    struct evaluation eval;
};

/* Call only if no cut is waited for. `step`: in sync the latest step that the cut may have; else UINT64_MAX. */
void best_cut_ask(struct best_cut *c, struct control *control, uint64_t epoch, uint64_t step,
                  const struct evaluation *eval);
/* Of TRAIN_KEPT; takes the hold. What is not of the present ask is nothing. */
void best_cut_on(struct best_cut *c, struct best *best, struct train_kept *kept);
void best_cut_drop(struct best_cut *c);

/* It is not copied yet. */
static inline bool best_cut_is_made(const struct best_cut *c)
{
    return c->asked && !c->copied;
}

/* Whether that epoch is the best is not settled. */
static inline bool best_cut_is_open(const struct best_cut *c)
{
    return c->asked;
}

#endif
