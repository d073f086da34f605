/* Rows as they were at a cut, kept until they are copied out: the table's own have changed since. Lists by bucket and
 * table in pools of chunks; a bucket's list is sorted when its turn comes. Memory grows with the rows that are kept, and
 * what a row leaves is the next one's. Pure. */
#ifndef GRADWIRE_PS_ROWS_ROW_KEPT_H
#define GRADWIRE_PS_ROWS_ROW_KEPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"
#include "common/rows/row_layout.h"
#include "ps/rows/row_table.h"

/* A kept row; its weights, then its slots, follow. */
struct row_kept_head {
    uint64_t mixed, stamp;
    uint32_t next; /* of the same list: its number + 1; 0: the last */
    uint32_t count;
};

/* The rows of one table. */
struct row_kept_pool {
    uint32_t width; /* floats of a row */
    uint32_t bytes; /* of a row with its head */
    uint32_t shift; /* a chunk has 2^shift rows */
    uint32_t chunks, room, rows;
    uint32_t free; /* the first one that is free: its number + 1; 0: none */
    uint8_t **chunk;
};

struct row_kept_key {
    uint64_t mixed;
    uint32_t row;
};

struct row_kept {
    struct bucket_range buckets;
    uint32_t tables;
    uint32_t *list; /* (buckets, tables) the first row's number + 1 */
    struct row_kept_pool pool[ROW_TABLES_MAX];
    uint64_t bytes; /* that rows take now */
    /* The list in turn, ascending: those from `at` on are still there. */
    struct row_kept_key *key;
    size_t at, keys, key_room;
};

/* Errors: ERR_NOMEM: *k is zeros. Free with row_kept_close, which takes zeros. */
enum err row_kept_init(struct row_kept *k, struct row_table *const *table, uint32_t tables,
                       struct bucket_range buckets) MUST_CHECK;
void row_kept_close(struct row_kept *k);
/* Give back about 1 MiB; true: that was the last, and *k is zeros. A row must not be asked for any more. */
bool row_kept_close_some(struct row_kept *k);

/* Keep the row as it is. Errors: ERR_NOMEM: it is not kept. */
enum err row_kept_add(struct row_kept *k, const struct row_table *t, uint32_t table, uint64_t mixed,
                      uint32_t row) MUST_CHECK;
/* The list in turn has all rows of this bucket and table; the list that was in turn is empty, or is this one.
 * Errors: ERR_NOMEM: nothing is lost. */
enum err row_kept_turn(struct row_kept *k, uint32_t bucket, uint32_t table) MUST_CHECK;
/* The first row of the list in turn; NULL: there is none. */
const struct row_kept_head *row_kept_first(const struct row_kept *k, uint32_t table);
void row_kept_drop_first(struct row_kept *k, uint32_t table);

static inline const float *row_kept_values(const struct row_kept_head *h)
{
    return (const float *)(const void *)(h + 1);
}

/* Memory, whether rows are in it or not. */
uint64_t row_kept_memory(const struct row_kept *k);

#endif
