/* Where in its epoch a step stands, where what backup workers dropped is trained at the epoch's end (sync.dropped: redo):
 * an epoch has a step for each of its batches, and behind them as many extra ones as the dropped leaves fill. So the
 * number of a step alone does not say which epoch's it is; every shard keeps this beside its step, the same on all.
 *
 * Happy path: a regular step's accepted leaves are noted -> the step is over (epochs_turn) -> behind the last batch the
 * dropped leaves are dealt out, as many as a step has -> the next epoch begins with an empty list.
 * Pure: no I/O, no clock, no locks. */
#ifndef GRADWIRE_COMMON_PARAMETERS_EPOCHS_H
#define GRADWIRE_COMMON_PARAMETERS_EPOCHS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"
#include "common/parameters/tree.h"

/* Microbatches of an epoch: the list of the dropped, a bit each, travels in one head. */
#define EPOCHS_LEAVES_MAX (UINT64_C(8) << 20)

struct epochs {
    uint64_t per_epoch; /* batches */
    uint32_t leaves;
    uint64_t epoch, begin; /* the running one, and its first step */
    uint64_t redone;       /* leaves that extra steps have had, in all epochs */
    uint8_t *dropped;      /* bit b * leaves + i: leaf i of the epoch's batch b; before the epoch's
                            present step */
};

/* What one step is made of. */
struct epochs_work {
    uint64_t epoch, begin;
    uint64_t steps; /* of the epoch, as far as it is known */
    uint64_t batch; /* a regular step: the batch's id, counted from the job's start */
    bool
        redo; /* an extra step: its leaf i is leaf[i], as batch id * leaves + leaf; leaves from `count` on are empty */
    uint32_t count, leaves;
    uint64_t leaf[TREE_LEAVES_MAX];
};

/* Errors: ERR_TOOBIG: more than EPOCHS_LEAVES_MAX; ERR_NOMEM. */
enum err epochs_init(struct epochs *e, uint64_t per_epoch, uint32_t leaves) MUST_CHECK;
void epochs_close(struct epochs *e);
/* As if `step` steps were made and nothing was ever dropped. */
void epochs_start(struct epochs *e, uint64_t step);
/* As a cut has it. Errors: ERR_CORRUPT: it does not fit. */
enum err epochs_restore(struct epochs *e, uint64_t step, uint64_t epoch, uint64_t begin,
                        uint64_t redone, const uint8_t *dropped, size_t bytes) MUST_CHECK;
/* So many bytes of `dropped` are what a cut at this step keeps; what is noted of the step itself is left out when they
 * are restored. */
size_t epochs_saved_bytes(const struct epochs *e, uint64_t step);

/* `step`, which is the present one, is made of these leaves. Said again it changes nothing. */
void epochs_note(struct epochs *e, uint64_t step, const struct tree_leaves *accepted);
bool epochs_is_extra(const struct epochs *e, uint64_t step);
/* Of a step from the epoch's first one to the one behind its last, which is the next epoch's first; what comes before
 * it is noted. */
void epochs_work(const struct epochs *e, uint64_t step, struct epochs_work *w);
/* Which microbatch leaf `leaf` of a step is: leaf *of of batch *id. `w` NULL, or a regular step: the same leaf of `batch`.
 * False: it is an empty leaf of an extra step, and *id and *of are these two. */
bool epochs_leaf(const struct epochs_work *w, uint64_t batch, uint32_t leaf, uint64_t *id,
                 uint32_t *of);
/* `step` is made: the one behind it is the present one. */
void epochs_turn(struct epochs *e, uint64_t step);

/* Steps with a batch of their own among the first `step` ones, which end in the epoch that began at `begin`. */
uint64_t epochs_regular(uint64_t per_epoch, uint64_t epoch, uint64_t begin, uint64_t step);

#endif
