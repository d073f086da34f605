/* The scores of an evaluation in sorted order, for metrics that need it (METRIC_SCORES): in memory or, if data.memory_mb has no room for
 * them, sorted in the file of the rows (data/spill.h). The order is the same to the bit either way.
 *
 * Happy path: threads add rows to buffers of their own -> a full one is sorted and written as a run -> runs are
 * merged, some at a time, until one merge can read them all.
 * Failure modes: the disk is full or fails (ranking_add and ranking_walk return that); a score is NaN, which has no
 * order (no row is visited). */
#pragma once

#include <stdint.h>

#include "common/base/err.h"
#include "data/spill.h"
#include "model/metric.h"

struct ranking;

/* Memory for sorting in the file: for all threads together, in addition to data.memory_mb. */
enum { RANKING_ROOM_BYTES = 4 << 20 };

/* For up to `rows` rows, added by `threads` threads. spill: its budget and file are used, and it must outlive the
 * ranking; NULL: all rows are in memory. room_bytes: RANKING_ROOM_BYTES; tests give less, at least 12 KiB. Errors:
 * ERR_NOMEM; those of spill_reserve. Owns: *r is the caller's, ranking_free. */
enum err ranking_new(struct ranking **r, uint64_t rows, uint32_t threads, struct spill *spill,
                     uint64_t room_bytes, struct errmsg *e) MUST_CHECK;
void ranking_free(struct ranking *r);
bool ranking_is_in_file(const struct ranking *r);

/* Remove all rows. */
void ranking_begin(struct ranking *r);
/* Add n rows, in any order; rows of weight 0 are ignored. Errors: those of spill_write. Thread: any, each with its
 * own number below `threads`. */
enum err ranking_add(struct ranking *r, uint32_t thread, const struct scored *rows, uint32_t n,
                     struct errmsg *e) MUST_CHECK;
typedef void ranking_row(void *ctx, const struct scored *row);
/* Visit all rows since ranking_begin in ascending order of scores; none if a score is NaN. No other thread may be in
 * ranking_add. Errors: those of spill_write and spill_read; ERR_NOMEM. */
enum err ranking_walk(struct ranking *r, ranking_row *visit, void *ctx,
                      struct errmsg *e) MUST_CHECK;
