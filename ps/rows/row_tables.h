/* All tables of one shard. Its buckets are divided into parts, which are ranges of buckets. One call updates all
 * touched rows of a part; copies of their old values can be set aside for readers of the step before. Pure.
 *
 * A read never creates a row: the answer marks a missing row. The first touch of a row creates it with its initial
 * value and then updates it once. If admission rejects the touch (row_admit.h), the touch is counted and its gradient
 * is dropped. An evicted row counts as missing, too (row_evict.h, row_budget.c). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/base/buffer.h"
#include "common/math/optimizer.h"
#include "ps/rows/row_admit.h"
#include "ps/rows/row_cut.h"
#include "ps/rows/row_evict.h"
#include "ps/rows/row_grads.h"
#include "ps/rows/row_table.h"
#include "common/rows/row_layout.h"

/* The memory budget of the rows of one shard, and the actions when it is full. Pure.
 *
 * At each step's boundary (in async: when a batch is resolved) the existing rows are counted. If they take more than 95
 * % of the budget, the key ps.when_full decides. `evict` (ROW_FULL_EVICT): a floor is raised so far that the rows below
 * it free 5 % of the budget, also if rows of the step had no room. From then on the rows below do not exist for anything
 * that reads, counts or writes rows, and new rows use their memory. `refuse` (ROW_FULL_REFUSE): no row is created until
 * the rows take less. `stop` (ROW_FULL_STOP): nothing happens until the budget is used up.
 *
 * The budget itself is a hard bound. The room that is left at a step's boundary is divided among the parts, since parts
 * are updated in any order: each can create rows for its share. If a step touches more missing rows, the remaining ones
 * are refused, or, with `stop`, which does not divide the room, the job ends.
 *
 * All decisions depend on the existing rows and the step's gradients alone, not on memory that is still allocated for
 * removed rows or for the index: a row of a table has a fixed number of bytes. So a restored shard decides the same as
 * one that ran on. */

struct row_tables;
struct row_grads;

struct row_budget {
    enum row_full full;
    uint64_t bytes; /* the budget; 0: no bound, and the other fields are unused */
    /* Rows with a stamp up to this are evicted for lack of memory: at the present step, and at the step before. */
    uint64_t floor, floor_before;
    bool closed;         /* ROW_FULL_REFUSE: no row is created */
    uint64_t squeezed;   /* rows evicted for lack of memory since the job began */
    uint32_t full_table; /* the table of the last row without room */
    bool lacked;         /* ROW_FULL_EVICT: since the last step's boundary some row had no room */
    uint64_t room;       /* bytes for new rows at the last step's boundary, which had this clock */
    uint64_t clock;
    uint64_t taken[ROW_PARTS]; /* of `room`, by each part since then */
    uint64_t left;             /* for the part whose rows are created now */
};

enum {
    ROW_BUDGET_PERCENT = 95,       /* of the budget: from here on evict or refuse */
    ROW_BUDGET_FREE_PERCENT = 5,   /* of the budget: freed by raising the floor */
    ROW_BUDGET_TABLE_BYTES = 8192, /* reserved for a table without rows */
};

/* Bytes that the tables take without rows. A budget must be larger to have room for a row. */
uint64_t row_budget_fixed_bytes(const struct row_tables *t);
/* Bytes of the existing rows, each with its share of the index. Decisions use this number. */
uint64_t row_budget_bytes(const struct row_tables *t);

/* Set the budget and the action. If they are others than before, the room is counted again. */
void row_budget_set(struct row_tables *t, uint64_t bytes, enum row_full full);
/* A step is complete, a batch is resolved, or a checkpoint is read. `clock`: the least clock of all parts. */
void row_budget_step(struct row_tables *t, uint64_t clock);
/* Rows of this part for these gradients are about to be created: free the memory of evicted rows as far as it is needed,
 * and compute `left`. `allocated`: bytes that the tables take. Call before row_budget_takes, if there is a budget. */
void row_budget_begin(struct row_tables *t, uint32_t part, const struct row_grads *g,
                      uint64_t allocated);
/* Account for one more row of this part. False: there is no room for it. */
bool row_budget_takes(struct row_tables *t, uint32_t part, uint32_t table);

/* ---- a checkpoint that is read ---- */

/* A histogram of bytes by stamp: each bin has `width` stamps. */
enum { ROW_LOAD_PLACES = 4096 };
struct row_load {
    uint64_t width, bytes[ROW_LOAD_PLACES];
    bool full;          /* some rows did not fit */
    uint64_t all, most; /* bytes of the rows taken so far; the bound for them */
};

/* Begin to read rows of a checkpoint, in any order of their stamps; the caller calls row_budget_step at the end. `l`
 * belongs to the caller; nothing must be freed. */
void row_load_begin(struct row_load *l, const struct row_tables *t);
/* ERR_OK: the caller loads this row (row_table_load). If all rows fitted when the cut was taken, they fit now.
 * Errors: ERR_NOTFOUND: leave this row out; ERR_TOOBIG: it does not fit, and no row may be left out. */
enum err row_load_takes(struct row_load *l, struct row_tables *t, uint32_t table,
                        uint64_t stamp) MUST_CHECK;
/* After all rows were read, if l->full: set the floor so that the newest rows fit, and begin again. The caller has
 * emptied the tables `t`, and reads all rows once more. */
void row_load_again(struct row_load *l, struct row_tables *t);

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

/* Norms of the gradients of rows, for clipping and for the NaN guard. Pure. */

/* squares[i] = the sum of squares of all gradients of bucket part.first + i, added in the job's order of tables, and in each
 * table by the mixed key. All rows of `g` belong to the part's buckets. So a bucket's sum does not depend on the number of
 * ps. */
void row_norm_squares(const struct row_layout *l, struct bucket_range part,
                      const struct row_grads *g, double *squares);

/* A row with a gradient or slot that is not finite or too large. */
struct row_broken {
    uint32_t table;
    uint64_t mixed;
    uint32_t slot;  /* the slot; set by row_norm_broken_slot only */
    double squares; /* not finite, or above the limit */
};

/* True: *out gets the first row of `g`, table by table, whose gradient's sum of squares is not finite or above `most`. */
bool row_norm_broken(const struct row_layout *l, const struct row_grads *g, double most,
                     struct row_broken *out);
/* The same for the present slots of the rows that `g` touches. */
bool row_norm_broken_slot(const struct row_tables *t, const struct row_grads *g, double most,
                          struct row_broken *out);
