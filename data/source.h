/* A source of rows: what training, evaluation and scores read, whatever keeps the rows. A type of sources (source_type) has
 * few functions, which fill a caller's buffer; a data set in memory or in a file is one (dataset_source, data/dataset.h).
 * And the loader, which prefetches the microbatches of any source on a thread of its own.
 *
 * Happy path of the loader: loader_want predicts the next microbatches; the thread makes them, slot by slot, until the ring is
 * full or the predicted range ends, and sleeps. loader_get lends out the slot with the requested microbatch; loader_release
 * takes it back, and wakes the thread once half of the ring is empty.
 *
 * Failure modes: the wanted microbatch is being filled: the caller waits for it. It is not in the ring: the caller
 * makes it in a spare slot, and the thread skips it. A wrong guess: slots that are no longer wanted, or of batches
 * that were passed, are emptied. All spares are lent: ERR_STATE (a bug: a compute thread holds one microbatch or
 * two). Rows cannot be read: the caller that requests them gets the error. */
#pragma once

#include <stdint.h>

#include "common/base/err.h"
#include "common/process/contents.h"
#include "data/core/order.h"
#include "job/job.h"
#include "data/leaf_buffer.h"
#include "data/spill.h"

struct source;

/* The functions are called by any number of threads at the same time, each with its own buffer, which was made with the
 * source's form. They put rows into the cleared buffer, and finish it; rows that are absent are left out. Errors: ERR_NOMEM;
 * ERR_DISK: the rows cannot be read any more. */
struct source_type {
    /* Leaf `leaf` of batch `id`, for training: the rows that the source's order names. The buffer holds
     * order_leaf_rows_max. */
    enum err (*leaf)(struct source *s, uint64_t id, uint32_t leaf, struct leaf_buffer *buffer,
                     struct leaf *out, struct errmsg *e);
    /* Rows [first, first + n), which exist, as they are evaluated. The buffer holds n. Blocks are mostly asked for in
     * ascending order, some of them twice. */
    enum err (*block)(struct source *s, uint64_t first, uint32_t n, struct leaf_buffer *buffer,
                      struct leaf *out, struct errmsg *e);
    /* The leaves that come next, as loader_want. NULL: the source need not know. */
    void (*want)(struct source *s, uint64_t id, uint64_t end_id, uint32_t first_leaf,
                 uint32_t leaves);
    /* Batch `id` is likely to come after those; 0: unknown. NULL: the source need not know. */
    void (*soon)(struct source *s, uint64_t id);
};

/* Part of each type's own struct. The opener of a source closes it, and others borrow it. Its fields do not change. */
struct source {
    const struct source_type *type;
    uint64_t rows, absent; /* absent: those of `rows` that are left out */
    struct leaf_form form;
    struct order order; /* of training; batch_size 0: the source is only read in blocks */
    const struct contents *contents; /* fingerprint of the rows */
    struct spill *spill; /* the memory budget of the job, and its file; NULL: all is in memory */
};

/* Read rows [first, first + n), as many as there are. Errors: those of the type. Thread: any. */
enum err source_block(struct source *s, uint64_t first, uint32_t n, struct leaf_buffer *buffer,
                      struct leaf *out, struct errmsg *e) MUST_CHECK;

/* ---- metrics.by: slices of rows by the key of a column ---- */

struct row_slices {
    uint32_t n; /* the last one has all other rows; 0: none */
    uint32_t lookup, list;
    uint64_t mixed[SLICES_MAX]; /* (n - 1) */
};
/* Errors: ERR_INPUT: a value is no key of the column, or is one twice. */
enum err row_slices_init(struct row_slices *s, const struct job *job, struct errmsg *e) MUST_CHECK;
/* out (of->n): the slice of each row. */
void row_slices_of(const struct row_slices *s, const struct leaf *of, uint8_t *out);

/* ---- the loader ---- */

struct loader;
/* Prefetches in the order of loader_want: a bounded ring of `depth` microbatches, filled by one thread (which wakes
 * only when half of the ring is empty). The source must have an order, and outlive the loader. */
enum err loader_new(struct loader **l, struct source *s, uint32_t depth,
                    struct errmsg *e) MUST_CHECK;
/* Get the microbatch (id, leaf), valid until the caller releases it (loader_release). If it was not prefetched, the caller's
 * thread makes it, so a wrong guess costs time and has no other effect. Errors: those of the source; ERR_STATE: callers
 * hold JOB_MICROBATCHES_MAX microbatches that were not prefetched. Thread: compute threads, concurrently; waits at most
 * while this very microbatch is being filled. */
enum err loader_get(struct loader *l, uint64_t id, uint32_t leaf, struct leaf *out,
                    struct errmsg *e) MUST_CHECK;
void loader_release(struct loader *l, struct leaf *m);
/* Predict the next requests: leaves [first, first + count) of ids id, id + 1, ... up to end_id. Replaces the earlier
 * prediction. Never blocks for long. */
void loader_want(struct loader *l, uint64_t id, uint64_t end_id, uint32_t first_leaf,
                 uint32_t leaves);
/* Counts of microbatches so far: filled: prefetched by the thread; prefetched: returned from the ring; gathered: by
 * callers. Thread: any. */
struct loader_stats {
    uint64_t filled, prefetched, gathered;
};
struct loader_stats loader_stats(struct loader *l);
/* Every microbatch must be released, and no other thread may be in a call. */
void loader_free(struct loader *l);
