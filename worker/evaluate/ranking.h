/* The scores of an evaluation in their order, for an exact auc: in memory, or where data.memory_mb has no room for them,
 * sorted in the file of the rows (worker/data/spill.h). The auc is the same bits either way.
 *
 * Happy path: threads add rows to buffers of their own -> a full one is sorted and written as a run -> runs are merged,
 * some at a time, until one merge can read them all. Failure modes: the disk is full or fails, which ranking_add and
 * ranking_auc say; a score that is NaN has no place in an order, and the auc is NaN. */
#ifndef GRADWIRE_WORKER_EVALUATE_RANKING_H
#define GRADWIRE_WORKER_EVALUATE_RANKING_H

#include <stdint.h>

#include "common/base/err.h"
#include "worker/data/spill.h"
#include "worker/model/auc.h"

struct ranking;

/* Rows in memory, for the sort of a file: all threads together, beside data.memory_mb. */
enum { RANKING_ROOM_BYTES = 4 << 20 };

/* For up to `rows` rows, added by `threads` threads. spill: whose budget and file it uses, which outlives it; NULL: all
 * rows are in memory. room_bytes: RANKING_ROOM_BYTES; tests give less, at least 12 KiB.
 * Errors: ERR_NOMEM; those of spill_reserve. Owns: *r is the caller's, ranking_free. */
enum err ranking_new(struct ranking **r, uint64_t rows, uint32_t threads, struct spill *spill,
                     uint64_t room_bytes, struct errmsg *e) MUST_CHECK;
void ranking_free(struct ranking *r);
bool ranking_is_in_file(const struct ranking *r);

/* Forget all rows. */
void ranking_begin(struct ranking *r);
/* n rows, in any order; those of weight 0 count nothing. Errors: those of spill_write. Thread: any, each with a number of
 * its own below `threads`. */
enum err ranking_add(struct ranking *r, uint32_t thread, const struct scored *rows, uint32_t n,
                     struct errmsg *e) MUST_CHECK;
/* Of all rows since ranking_begin (auc_value); NAN where a score is. No other thread is in ranking_add.
 * Errors: those of spill_write and spill_read; ERR_NOMEM. */
enum err ranking_auc(struct ranking *r, double *auc, struct errmsg *e) MUST_CHECK;

#endif
