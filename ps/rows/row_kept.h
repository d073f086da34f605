/* Copies of rows as they were when a cut began. The table's rows have changed since, so the copies are kept until the
 * cut has copied them out. The copies are in one list per bucket and table, allocated from pools of chunks. A list is
 * sorted when the cut reaches its bucket. Memory grows with the number of kept rows; the memory of a dropped row is
 * used again. Pure. */
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
    uint32_t next; /* the list's next row: its number + 1; 0: none */
    uint32_t count;
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

struct row_kept_key {
    uint64_t mixed;
    uint32_t row;
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

/* Errors: ERR_NOMEM: *k is zeros. Free with row_kept_close, which takes zeros. */
enum err row_kept_init(struct row_kept *k, struct row_table *const *table, uint32_t tables,
                       struct bucket_range buckets) MUST_CHECK;
void row_kept_close(struct row_kept *k);
/* Free about 1 MiB. True: all is freed, and *k is zeros. After the first call only this function can be called. */
bool row_kept_close_some(struct row_kept *k);

/* Keep a copy of the row. Errors: ERR_NOMEM: it is not kept. */
enum err row_kept_add(struct row_kept *k, const struct row_table *t, uint32_t table, uint64_t mixed,
                      uint32_t row) MUST_CHECK;
/* Make the list of this bucket and table the current one. The current list before must be empty, or this one.
 * Errors: ERR_NOMEM: no row is lost. */
enum err row_kept_turn(struct row_kept *k, uint32_t bucket, uint32_t table) MUST_CHECK;
/* The first row of the current list, which belongs to `table`; valid until it is dropped. NULL: the list is empty. */
const struct row_kept_head *row_kept_first(const struct row_kept *k, uint32_t table);
/* Drop it; the list is not empty. */
void row_kept_drop_first(struct row_kept *k, uint32_t table);

static inline const float *row_kept_values(const struct row_kept_head *h)
{
    return (const float *)(const void *)(h + 1);
}

/* Bytes of allocated memory, used or free. */
uint64_t row_kept_memory(const struct row_kept *k);

#endif
