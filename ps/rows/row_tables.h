/* All tables of one shard, in the runs of buckets that are its parts. A part's rows are updated at once; what they were
 * before can be set aside, so that a reader still has it. Pure.
 *
 * A read never creates a row: one that is not there is answered by a mark. A row is created when it is touched, with its
 * first value, and then updated once. */
#ifndef GRADWIRE_PS_ROWS_ROW_TABLES_H
#define GRADWIRE_PS_ROWS_ROW_TABLES_H

#include <stdbool.h>

#include "common/math/optimizer.h"
#include "ps/rows/row_grads.h"
#include "ps/rows/row_table.h"

/* The rows that a part's last update touched, as they were before it. */
struct row_aside {
    struct buffer *memory; /* NULL: nothing is set aside */
    uint32_t keys[ROW_TABLES_MAX];
    const uint64_t *mixed[ROW_TABLES_MAX]; /* of each list: (keys), ascending */
    const float *w[ROW_TABLES_MAX];        /* of each table: (keys, dim) */
    const uint8_t *there[ROW_TABLES_MAX];  /* of each table: (keys); 0: the row was not there */
};

struct row_tables {
    const struct row_layout *layout; /* the caller's, for as long */
    struct bucket_range buckets;
    uint64_t seed;
    struct optimizer optimizer;
    struct row_table *table[ROW_TABLES_MAX];
    struct row_aside aside[ROW_PARTS];
    struct buffer_pool *pool; /* the caller's */
};

/* No row is there. Errors: ERR_NOMEM: *t is zeros. */
enum err row_tables_init(struct row_tables *t, const struct row_layout *l,
                         struct bucket_range buckets, const struct optimizer *o, uint64_t seed,
                         struct buffer_pool *pool) MUST_CHECK;
void row_tables_close(struct row_tables *t); /* zeros, too */

/* ---- reading ---- */

/* Keys of each list that a reader asks for: in ascending order, of this shard's buckets. */
struct row_keys {
    uint32_t keys[ROW_TABLES_MAX];
    const uint64_t *mixed[ROW_TABLES_MAX];
};

/* Bytes that the answer for so many keys of each list has at most (Rows). */
uint64_t row_tables_answer_most(const struct row_layout *l, const uint32_t *keys);
/* Write the answer, at most row_tables_answer_most; aligned to 4 bytes. Returns its bytes. `aside`: rows that were set aside
 * are read as they stand there. */
uint64_t row_tables_read(const struct row_tables *t, const struct row_keys *of, bool aside,
                         void *out);

/* ---- updating ---- */

struct row_step {
    uint64_t t;     /* the number of the update, from 1: rates go by it */
    float inv_n;    /* gradient * inv_n is the mean gradient */
    uint64_t clock; /* of the part, after this update: the stamp of the rows that it touches */
    bool aside;     /* set aside what the rows are before it */
};

/* Each row of `g`, which is of this part's buckets, is touched: updated once. Errors: ERR_NOMEM: no row has changed. */
enum err row_tables_update(struct row_tables *t, uint32_t part, const struct row_grads *g,
                           const struct row_step *u) MUST_CHECK;
/* What is set aside is of no more use. */
void row_tables_forget_aside(struct row_tables *t);

/* Of all tables. */
uint64_t row_tables_rows(const struct row_tables *t);
uint64_t row_tables_bytes(const struct row_tables *t); /* memory */

#endif
