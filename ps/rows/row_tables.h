/* All tables of one shard. Its buckets are divided into parts, which are ranges of buckets. One call updates all
 * touched rows of a part; copies of their old values can be set aside for readers of the step before. Pure.
 *
 * A read never creates a row: the answer marks a missing row. The first touch of a row creates it with its initial
 * value and then updates it once. If admission rejects the touch (row_admit.h), the touch is counted and its gradient
 * is dropped. An evicted row counts as missing, too (row_evict.h, row_budget.h). */
#ifndef GRADWIRE_PS_ROWS_ROW_TABLES_H
#define GRADWIRE_PS_ROWS_ROW_TABLES_H

#include <stdbool.h>

#include "common/base/buffer.h"
#include "common/math/optimizer.h"
#include "common/rows/row_counts.h"
#include "ps/rows/row_admit.h"
#include "ps/rows/row_budget.h"
#include "ps/rows/row_cut.h"
#include "ps/rows/row_evict.h"
#include "ps/rows/row_grads.h"
#include "ps/rows/row_table.h"

/* Copies of the rows that a part's last update touched, as they were before the update, for readers of the step before. */

struct row_aside {
    struct buffer *memory; /* NULL: nothing is set aside */
    uint32_t keys[ROW_TABLES_MAX];
    const uint64_t *mixed[ROW_TABLES_MAX]; /* of each list: (keys), ascending */
    const float *w[ROW_TABLES_MAX];        /* of each table: (keys, dim) */
    const uint8_t *there[ROW_TABLES_MAX];  /* of each table: (keys); 0: the row did not exist */
};

/* Counters of the rows that are read and updated, since the tables were created (row_tables_init). read_bytes: the weights of these rows. touched_bytes: their weights,
 * slots and gradients. */
struct row_traffic {
    uint64_t asked; /* rows that readers requested, existing or not */
    uint64_t read;  /* requested rows that existed */
    uint64_t read_bytes;
    uint64_t touched; /* rows that steps updated */
    uint64_t touched_bytes;
};

struct row_tables {
    const struct row_layout *layout; /* the caller's; outlives the tables */
    struct bucket_range buckets;
    uint64_t seed;
    struct optimizer optimizer[ROW_TABLES_MAX]; /* of each table: the table's own, or the job's */
    struct row_table *table[ROW_TABLES_MAX];
    struct row_admit admit[ROW_TABLES_MAX];
    struct row_evict evict[ROW_TABLES_MAX];
    struct row_counts counts[ROW_TABLES_MAX]; /* of each table; `rows` is not kept here */
    struct row_budget budget;
    struct row_traffic traffic;
    struct row_aside aside[ROW_PARTS];
    struct row_cut cut;       /* the cut that is being copied */
    struct buffer_pool *pool; /* the caller's */
};

/* Create empty tables. `o`: the job's optimizer. Errors: ERR_NOMEM: *t is zeros. */
enum err row_tables_init(struct row_tables *t, const struct row_layout *l,
                         struct bucket_range buckets, const struct optimizer *o, uint64_t seed,
                         struct buffer_pool *pool) MUST_CHECK;
void row_tables_close(struct row_tables *t); /* takes zeros, too */
/* Take the learning rates and schedules of this layout, which has the same tables, and of `o`, the job's optimizer. */
void row_tables_take_rates(struct row_tables *t, const struct row_layout *l,
                           const struct optimizer *o);

/* ---- reading ---- */

/* The keys of a read, for each list: ascending, and of this shard's buckets. */
struct row_keys {
    uint32_t keys[ROW_TABLES_MAX];
    const uint64_t *mixed[ROW_TABLES_MAX];
};

/* The most bytes of an answer (Rows) with keys[i] keys of list i. `plain`: without a codec. */
uint64_t row_tables_answer_most(const struct row_layout *l, const uint32_t *keys, bool plain);
/* How to read. */
struct row_reading {
    bool aside;                  /* read the copies of rows that were set aside */
    bool plain;                  /* without a codec */
    const struct row_clocks *at; /* the moment, which determines the present rows */
};
/* Write the answer to `out`, aligned to 4 bytes. Returns its bytes, at most row_tables_answer_most. */
uint64_t row_tables_read(struct row_tables *t, const struct row_keys *of, struct row_reading how,
                         void *out);

/* ---- updating ---- */

struct row_step {
    uint64_t t;         /* the number of the update, from 1; it determines the rates */
    float inv_n;        /* gradient * inv_n is the mean gradient */
    float scale;        /* factor of the mean gradient, from clipping; 1: none */
    uint64_t staleness; /* divisor of the rate; 0, 1: not divided */
    uint64_t clock;     /* the part's clock after this update; the stamp of the touched rows */
    bool aside;         /* set aside copies of the touched rows as they were before */
};

/* Touch each row of `g`, all of this part's buckets: update it once if it exists or is admitted.
 * Errors: ERR_NOMEM; ERR_TOOBIG: the budget is used up, and the job must end (ROW_FULL_STOP); budget.full_table has the
 * table. On error no present row has changed and no touch is counted. */
enum err row_tables_update(struct row_tables *t, uint32_t part, const struct row_grads *g,
                           const struct row_step *u) MUST_CHECK;
/* Begin a cut of all rows as they are now; row_cut_end ends it. Errors: ERR_NOMEM. */
enum err row_tables_begin_cut(struct row_tables *t, struct row_moment moment,
                              uint64_t most_bytes) MUST_CHECK;
/* Drop the copies that were set aside. */
void row_tables_forget_aside(struct row_tables *t);

/* ---- eviction ---- */

/* A step is complete, or a batch is resolved. `clock`: the least clock of all parts. Count the rows that became absent, and
 * evict rows for lack of memory. */
void row_tables_advance(struct row_tables *t, uint64_t clock);
/* Free some memory of rows that are absent at this clock. From now on only a cut reads at a lower clock. */
void row_tables_sweep(struct row_tables *t, uint64_t clock);
/* Count the rows after they were loaded (row_table_loaded). All parts are at this clock. */
void row_tables_count(struct row_tables *t, uint64_t clock);

/* The counters of one table. */
struct row_counts row_tables_counts(const struct row_tables *t, uint32_t table);
/* The number of rows of all tables. */
uint64_t row_tables_rows(const struct row_tables *t);
uint64_t row_tables_bytes(const struct row_tables *t); /* bytes of memory */

#endif
