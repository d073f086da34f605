/* All tables of one shard, in the runs of buckets that are its parts. A part's rows are updated at once; what they were
 * before can be set aside, so that a reader still has it. Pure.
 *
 * A read never creates a row: one that is not there is answered by a mark. A row is created when it is touched, with its
 * first value, and then updated once. A touch that admission does not let in (row_admit.h) is counted, and its gradient is
 * dropped. A row that was not touched for long is not there, too (row_evict.h). */
#ifndef GRADWIRE_PS_ROWS_ROW_TABLES_H
#define GRADWIRE_PS_ROWS_ROW_TABLES_H

#include <stdbool.h>

#include "common/math/optimizer.h"
#include "common/rows/row_counts.h"
#include "ps/rows/row_admit.h"
#include "ps/rows/row_aside.h"
#include "ps/rows/row_budget.h"
#include "ps/rows/row_cut.h"
#include "ps/rows/row_evict.h"
#include "ps/rows/row_grads.h"
#include "ps/rows/row_table.h"
#include "ps/rows/row_traffic.h"

struct row_tables {
    const struct row_layout *layout; /* the caller's, for as long */
    struct bucket_range buckets;
    uint64_t seed;
    struct optimizer optimizer[ROW_TABLES_MAX]; /* of each table: its own, or the job's */
    struct row_table *table[ROW_TABLES_MAX];
    struct row_admit admit[ROW_TABLES_MAX];
    struct row_evict evict[ROW_TABLES_MAX];
    struct row_counts counts[ROW_TABLES_MAX]; /* of each table; but for `rows` */
    struct row_budget budget;
    struct row_traffic traffic;
    struct row_aside aside[ROW_PARTS];
    struct row_cut cut;       /* that is being copied */
    struct buffer_pool *pool; /* the caller's */
};

/* No row is there. `o`: the job's optimizer. Errors: ERR_NOMEM: *t is zeros. */
enum err row_tables_init(struct row_tables *t, const struct row_layout *l,
                         struct bucket_range buckets, const struct optimizer *o, uint64_t seed,
                         struct buffer_pool *pool) MUST_CHECK;
void row_tables_close(struct row_tables *t); /* zeros, too */
/* From now on rates are those of these tables, which are the same but for that, and of this optimizer of the job. */
void row_tables_take_rates(struct row_tables *t, const struct row_layout *l,
                           const struct optimizer *o);

/* ---- reading ---- */

/* Keys of each list that a reader asks for: in ascending order, of this shard's buckets. */
struct row_keys {
    uint32_t keys[ROW_TABLES_MAX];
    const uint64_t *mixed[ROW_TABLES_MAX];
};

/* Bytes that the answer for so many keys of each list has at most (Rows). `plain`: in no codec. */
uint64_t row_tables_answer_most(const struct row_layout *l, const uint32_t *keys, bool plain);
/* What is read. */
struct row_reading {
    bool aside;                  /* rows that were set aside, as they stand there */
    bool plain;                  /* in no codec */
    const struct row_clocks *at; /* the moment: which rows are there */
};
/* Write the answer, at most row_tables_answer_most; aligned to 4 bytes. Returns its bytes. */
uint64_t row_tables_read(struct row_tables *t, const struct row_keys *of, struct row_reading how,
                         void *out);

/* ---- updating ---- */

struct row_step {
    uint64_t t;         /* the number of the update, from 1: rates go by it */
    float inv_n;        /* gradient * inv_n is the mean gradient */
    float scale;        /* of the mean gradient: clipping's; 1: none */
    uint64_t staleness; /* what the rate is divided by; 0, 1: by nothing */
    uint64_t clock;     /* of the part, after this update: the stamp of the rows that it touches */
    bool aside;         /* set aside what the rows are before it */
};

/* Each row of `g`, which is of this part's buckets, is touched: updated once, if it is there or admitted. Errors:
 * ERR_NOMEM, and ERR_TOOBIG, the budget is full, and the job is to end (ROW_FULL_STOP): no row has changed, and no touch is
 * counted. */
enum err row_tables_update(struct row_tables *t, uint32_t part, const struct row_grads *g,
                           const struct row_step *u) MUST_CHECK;
/* A cut of all rows as they are now; row_cut_end ends it. Errors: ERR_NOMEM. */
enum err row_tables_begin_cut(struct row_tables *t, struct row_moment moment,
                              uint64_t most_bytes) MUST_CHECK;
/* What is set aside is of no more use. */
void row_tables_forget_aside(struct row_tables *t);

/* ---- eviction ---- */

/* A step is made, or a batch resolved, and no part's clock is below this one: what is gone by it is counted, and what is to
 * go for want of room goes. */
void row_tables_advance(struct row_tables *t, uint64_t clock);
/* Nobody reads as of a clock below this one, but a cut: give some memory back of rows that are absent at it. */
void row_tables_sweep(struct row_tables *t, uint64_t clock);
/* All parts are at this clock, and rows were loaded (row_table_loaded): count them. */
void row_tables_count(struct row_tables *t, uint64_t clock);

/* Of one table. */
struct row_counts row_tables_counts(const struct row_tables *t, uint32_t table);
/* Of all tables. */
uint64_t row_tables_rows(const struct row_tables *t);
uint64_t row_tables_bytes(const struct row_tables *t); /* memory */

#endif
