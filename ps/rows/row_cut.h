/* Copies the rows of a cut, piece by piece, while training continues. Each row is copied as it was when the cut began, in
 * the order of a checkpoint: (bucket, table, mixed key). Pure.
 *
 * A row's stamp tells if the row has changed since: a row with a stamp up to the cut's clock has not. Before a row changes or
 * is removed, a copy of it is kept if the cut has not copied it yet (struct row_kept). A row with a later stamp is not copied from
 * the table: either a copy was kept, or the row is new. A row that was absent (evicted) at the cut's clock is not part of
 * the cut, though it is still in memory. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"
#include "common/rows/row_layout.h"
#include "ps/rows/row_admit.h"
#include "ps/rows/row_evict.h"
#include "ps/rows/row_table.h"

/* Copies of rows as they were when a cut began. The table's rows have changed since, so the copies are kept until the
 * cut has copied them out. The copies are in one list per bucket and table, allocated from pools of chunks. A list is
 * sorted when the cut reaches its bucket. Memory grows with the number of kept rows; the memory of a dropped row is
 * used again. Pure. */

struct row_kept_key {
    uint64_t mixed;
    uint32_t row;
};

/* The rows of one table. */
struct row_kept_pool {
    uint32_t width; /* floats of a row */
    uint32_t bytes; /* of a row and its head */
    uint32_t shift; /* a chunk has 2^shift rows */
    uint32_t chunks, rows;
    size_t capacity; /* chunks */
    uint32_t free;   /* the first free row: its number + 1; 0: none */
    uint8_t **chunk;
};

/* A kept row; its weights, then its slots, follow. */
struct row_kept_head {
    uint64_t mixed, stamp;
    uint32_t next; /* the list's next row: its number + 1; 0: none */
    uint32_t count;
};

struct row_kept {
    struct bucket_range buckets;
    uint32_t tables;
    uint32_t *list; /* (buckets, tables) number of the first row + 1 */
    struct row_kept_pool pool[ROW_TABLES_MAX];
    uint64_t bytes; /* taken by kept rows now */
    /* The current list, sorted by key; rows before `at` are dropped. */
    struct row_kept_key *key;
    size_t at, keys, key_capacity;
};

/* Bytes of allocated memory, used or free. */
uint64_t row_kept_memory(const struct row_kept *k);

/* Rows of one bucket and table, in the form of a checkpoint's row_group, or the sketch that comes before them. */
struct row_cut_rows {
    uint32_t bucket, table, rows;
    const uint64_t *mixed, *stamp; /* (rows) */
    const uint32_t *count;         /* (rows) */
    const float *values;           /* (rows, weights and slots) */
    const uint8_t *sketch;         /* (sketch_bytes), and rows is 0; NULL: these are rows */
    uint32_t sketch_bytes;
};

enum {
    ROW_CUT_ROWS = 256,          /* the most rows of one row_cut_rows */
    ROW_CUT_FLOATS = 64 << 10,   /* the most values of it, or one row's */
    ROW_CUT_BESIDE_LEAST = 64,   /* MiB that kept rows can take at least */
    ROW_CUT_BESIDE_PERCENT = 15, /* of the tables' memory, which kept rows can take */
};

/* The moment that a cut shows. */
struct row_moment {
    uint64_t clock, floor;         /* of the tables */
    const struct row_evict *evict; /* (tables) has unseen_steps of each; NULL: no row is too old */
};

struct row_cut_room;

struct row_cut {
    bool on;
    struct row_moment moment;
    struct row_table *const *table; /* (tables) */
    const struct row_admit *admit;  /* (tables) */
    uint32_t tables;
    struct bucket_range buckets;
    /* Everything before this position is copied. Everything is copied if bucket is buckets.end. */
    uint32_t bucket, in_table;
    uint64_t mixed;
    struct row_cut_room *room;  /* memory for row_cut_copy's result */
    struct row_kept kept, left; /* left: those of earlier cuts, not freed yet */
    uint8_t **sketch;           /* (buckets, tables) kept copies; NULL: none */
    bool sketch_out;            /* the sketch of the current list is copied */
    uint64_t kept_sketch_bytes;
    uint64_t most_bytes; /* bound for kept rows */
    bool full;   /* kept rows have reached the bound, and have not fallen much below it since */
    bool failed; /* no memory to keep a row: the cut is useless */
    uint64_t kept_rows, kept_most_bytes; /* totals for this cut */
};

/* Begin a cut of all rows as they are now. `table` and `admit` (tables) are for these buckets; they belong to the caller and
 * must live until row_cut_end. most_bytes: memory of kept rows at which the cut becomes `full`.
 * Errors: ERR_NOMEM: no cut is running. */
enum err row_cut_begin(struct row_cut *c, struct row_table *const *table,
                       const struct row_admit *admit, uint32_t tables, struct bucket_range buckets,
                       struct row_moment moment, uint64_t most_bytes) MUST_CHECK;
/* End the cut. Its kept rows move to `left`, because freeing all of their memory in one call takes long. Does nothing
 * if no cut is running. */
void row_cut_end(struct row_cut *c);
bool row_cut_give_back(struct row_cut *c); /* free about 1 MiB of `left`; true: it is empty */
void row_cut_close(struct row_cut *c);     /* free all; *c is zeros afterwards */

/* Call before these n rows of a table change or are removed; ROW_NONE is skipped. Does nothing if no cut is running.
 * Without memory it sets `failed`. */
void row_cut_keep(struct row_cut *c, uint32_t table, const uint64_t *mixed, const uint32_t *row,
                  size_t n);

/* Call before a bucket's sketch changes. Does nothing if no cut is running. Without memory it sets `failed`. */
void row_cut_keep_sketch(struct row_cut *c, uint32_t table, uint32_t bucket);

/* Continue to copy for a bounded time: *out gets some rows, or a sketch, or neither; valid until the next call. Only
 * while the cut is running and row_cut_is_out is false. Without memory it sets `failed`, and *out gets neither. If the
 * bucket still has enough rows of the cut, *out has row_cut_most_rows of them. */
void row_cut_copy(struct row_cut *c, struct row_cut_rows *out);
static inline bool row_cut_is_out(const struct row_cut *c) /* all rows are copied */
{
    return c->bucket == c->buckets.end;
}

/* The most rows in one row_cut_rows of a table whose rows have `width` floats. */
uint32_t row_cut_most_rows(uint32_t width);
