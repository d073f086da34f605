/* A cut's rows, copied out piece by piece while training goes on. All rows leave as they were when the cut began, in the
 * order of a checkpoint: (bucket, table, mixed key). Pure.
 *
 * A row's stamp tells whether it has changed since: one up to the cut's clock has not. A row that is about to change, or
 * to go, is kept first if it is not out yet (row_kept.h). A row whose stamp is later is not in the cut as it stands: it
 * was kept before, or it is new. One that was absent at the cut's clock is in the memory alone. */
#ifndef GRADWIRE_PS_ROWS_ROW_CUT_H
#define GRADWIRE_PS_ROWS_ROW_CUT_H

#include <stdbool.h>

#include "ps/rows/row_admit.h"
#include "ps/rows/row_evict.h"
#include "ps/rows/row_kept.h"

/* Rows of one bucket and table, as row_group of a checkpoint has them; or the sketch that is before them. */
struct row_cut_rows {
    uint32_t bucket, table, rows;
    const uint64_t *mixed, *stamp; /* (rows) */
    const uint32_t *count;         /* (rows) */
    const float *values;           /* (rows, weights and slots) */
    const uint8_t *sketch;         /* (sketch_bytes) rows is 0; NULL: they are rows */
    uint32_t sketch_bytes;
};

enum {
    ROW_CUT_ROWS = 256,          /* at most, of one row_cut_rows */
    ROW_CUT_FLOATS = 64 << 10,   /* of its values; or one row */
    ROW_CUT_BESIDE_LEAST = 64,   /* MiB beside the tables that may be taken at least */
    ROW_CUT_BESIDE_PERCENT = 15, /* of the tables' memory that may be taken */
};

/* Which rows the cut has. */
struct row_moment {
    uint64_t clock, floor;         /* of the tables */
    const struct row_evict *evict; /* (tables) which rows are too old then; NULL: none */
};

struct row_cut_room;

struct row_cut {
    bool on;
    struct row_moment moment;
    struct row_table *const *table; /* (tables) */
    const struct row_admit *admit;  /* (tables) */
    uint32_t tables;
    struct bucket_range buckets;
    /* What is before this place is out. All is: bucket is buckets.end. */
    uint32_t bucket, in_table;
    uint64_t mixed;
    struct row_cut_room *room;  /* rows on their way out */
    struct row_kept kept, left; /* left: of cuts that are over */
    uint8_t **sketch;           /* (buckets, tables) those that were kept; NULL: not yet */
    bool sketch_out;            /* the one of the list in turn is */
    uint64_t kept_sketch_bytes;
    uint64_t most_bytes; /* of what is kept */
    bool full;           /* they have reached it, and have not fallen much below it since */
    bool failed;         /* there was no memory to keep a row: the cut is of no use */
    uint64_t kept_rows, kept_most_bytes; /* so far */
};

/* Begin a cut of all rows as they are now. `table` and `admit` (tables), for these buckets, are the caller's until
 * row_cut_end.
 * most_bytes: that rows which are kept may take before row_cut is full.
 * Errors: ERR_NOMEM: no cut is on. */
enum err row_cut_begin(struct row_cut *c, struct row_table *const *table,
                       const struct row_admit *admit, uint32_t tables, struct bucket_range buckets,
                       struct row_moment moment, uint64_t most_bytes) MUST_CHECK;
/* No cut is on any more. What was kept for it is left: to give back all of that memory would take long. */
void row_cut_end(struct row_cut *c);
bool row_cut_give_back(struct row_cut *c); /* some of it; true: nothing is left */
void row_cut_close(struct row_cut *c);     /* all at once; zeros afterwards */

/* These rows of a table are about to change, or to go; ROW_NONE is passed over. Nothing is done where no cut is on. */
void row_cut_keep(struct row_cut *c, uint32_t table, const uint64_t *mixed, const uint32_t *row,
                  size_t n);

/* A bucket's sketch is about to change. Nothing is done where no cut is on. */
void row_cut_keep_sketch(struct row_cut *c, uint32_t table, uint32_t bucket);

/* Copy on, a bounded time: some rows, or a sketch, or neither. *out is valid until the next call, and has as many rows as one can
 * have, if the bucket has them, whatever has changed in the meantime. */
void row_cut_copy(struct row_cut *c, struct row_cut_rows *out);
static inline bool row_cut_is_out(const struct row_cut *c) /* all rows are */
{
    return c->bucket == c->buckets.end;
}

/* Rows in one row_cut_rows of a table whose rows have so many floats. */
uint32_t row_cut_most_rows(uint32_t width);

#endif
