/* The position of a step within its epoch if sync.dropped is redo: leaves that backup workers dropped are trained
 * again at the epoch's end. An epoch has one regular step for each of its batches, followed by as many extra steps as
 * the dropped leaves fill. So the step's number alone does not tell its epoch. Every shard keeps this state with its
 * step, and it is the same on all shards.
 * Sequence: epochs_note records the accepted leaves of a regular step, and epochs_turn ends the step. After the
 * last batch, extra steps take the dropped leaves, one step's number of leaves at a time. The next epoch starts
 * with an empty list. Pure: no I/O, no clock, no locks. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"
#include "common/parameters/tree.h"

/* Limit for the leaves of an epoch: the list of dropped leaves, one bit each, must fit one head. */
#define EPOCHS_LEAVES_MAX (UINT64_C(8) << 20)

struct epochs {
    uint64_t per_epoch; /* batches per epoch */
    uint32_t leaves;
    uint64_t epoch, begin; /* the current epoch and its first step */
    uint64_t redone;       /* leaves trained in extra steps, in all epochs so far */
    /* bit b * leaves + i: leaf i of the epoch's batch b was dropped; bits of later batches are 0 */
    uint8_t *dropped;
};

/* The contents of one step. */
struct epochs_work {
    uint64_t epoch, begin;
    uint64_t steps; /* of the epoch, as far as known: extra steps count only after the last batch */
    uint64_t batch; /* for a regular step: the batch's id, counted from the job's start */
    /* an extra step: its leaf i is leaf[i], encoded as batch id * leaves + leaf; leaves from `count` on are empty */
    bool redo;
    uint32_t count, leaves;
    uint64_t leaf[TREE_LEAVES_MAX];
};

/* Errors: ERR_TOOBIG if an epoch has more than EPOCHS_LEAVES_MAX leaves; ERR_NOMEM. Free with epochs_close. */
enum err epochs_init(struct epochs *e, uint64_t per_epoch, uint32_t leaves) MUST_CHECK;
void epochs_close(struct epochs *e);
/* Sets the state after `step` steps in which no leaf was dropped. */
void epochs_start(struct epochs *e, uint64_t step);
/* Restores the state from a cut; copies `dropped`. Errors: ERR_CORRUPT if the values are inconsistent; *e must then be
 * restored or started again before use. */
enum err epochs_restore(struct epochs *e, uint64_t step, uint64_t epoch, uint64_t begin,
                        uint64_t redone, const uint8_t *dropped, size_t bytes) MUST_CHECK;
/* Returns the bytes of `dropped` that a cut at `step` must save. epochs_restore ignores bits of `step` itself and
 * later ones. */
size_t epochs_saved_bytes(const struct epochs *e, uint64_t step);

/* Records the accepted leaves of `step`, the current step. A second call for the same step replaces the first.
 * Does nothing for an extra step. */
void epochs_note(struct epochs *e, uint64_t step, const struct tree_leaves *accepted);
/* Returns whether `step` is after the regular steps of the current epoch. */
bool epochs_is_extra(const struct epochs *e, uint64_t step);
/* Describes `step`: a step of the current epoch, or the first step of the next one. All earlier steps of the epoch must
 * be noted. */
void epochs_work(const struct epochs *e, uint64_t step, struct epochs_work *w);
/* Finds the batch and leaf that leaf `leaf` of a step trains: leaf *of of batch *id. For a regular step, or `w`
 * NULL, that is leaf `leaf` of `batch`. Returns false for an empty leaf of an extra step; *id and *of are then
 * `batch` and `leaf`. */
bool epochs_leaf(const struct epochs_work *w, uint64_t batch, uint32_t leaf, uint64_t *id,
                 uint32_t *of);
/* Ends `step`: the next one becomes the current step. */
void epochs_turn(struct epochs *e, uint64_t step);

/* Returns the number of regular steps among the first `step` steps of the job. `epoch` is the epoch of the last of
 * them, and `begin` its first step. */
uint64_t epochs_regular(uint64_t per_epoch, uint64_t epoch, uint64_t begin, uint64_t step);
