/* Rows of tables by key, in memory: the weights that a task or a block of examples needs, wherever they come from.
 * Keys and rows are in ascending order of the mixed key. Memory is kept for reuse.
 * Use by a task: row_values_want with its leaves' keys; then a reader, or the shards' replies, fill `w` for each
 * key; then row_values_copy for each leaf, on the leaf's thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"
#include "common/rows/lookups.h"
#include "common/rows/row_layout.h"

/* The keys of one list. */
struct row_value_keys {
    uint32_t keys, room;
    uint64_t *mixed; /* (keys) distinct, ascending */
};

struct row_values {
    const struct row_layout *layout;
    struct row_value_keys list[ROW_TABLES_MAX]; /* for each list of the layout */
    float *w[ROW_TABLES_MAX];                   /* for each table: (keys of its list, dim) */
    /* for each list: (keys) 1: a reader found a row of this key in none of its tables; row_values_reserve sets ones */
    uint8_t *absent[ROW_TABLES_MAX];
    uint64_t *scratch; /* used while key lists are merged */
    size_t scratch_keys;
};

/* Initializes without allocating. The caller owns *v: row_values_close. The layout must outlive *v. */
void row_values_init(struct row_values *v, const struct row_layout *layout);
void row_values_close(struct row_values *v);

/* Makes room for `keys` keys of one list and for their rows in all of its tables. The list then has that many
 * keys; earlier keys and rows are lost. Errors: ERR_NOMEM; then the list is empty. */
enum err row_values_reserve(struct row_values *v, uint32_t list, uint32_t keys,
                            struct errmsg *e) MUST_CHECK;

/* Sets the keys to the union of the leaves' keys, for each list; a NULL leaf has none. The caller must fill the
 * rows. Errors: ERR_NOMEM, also for 2^32 keys of one list. */
enum err row_values_want(struct row_values *v, const struct leaf_keys *const *leaf, uint32_t leaves,
                         struct errmsg *e) MUST_CHECK;

/* Key i of the table's list has no row: writes row_absent_value. */
void row_values_miss(struct row_values *v, uint32_t table, uint64_t seed, uint32_t i);

/* Copies the rows of these keys of one list, for each of its tables: w[table] is (keys, dim), indexed by table of
 * the layout; entries of other lists are not used. absent: (keys) also their marks; NULL: not wanted. A key that `v` lacks leaves its row unchanged. Returns how many
 * keys were found. Thread: any number in parallel, while *v does not change. */
uint32_t row_values_copy(const struct row_values *v, uint32_t list, const struct key_list *keys,
                         float *const *w, uint8_t *absent);

/* The lookups of one key column. */
enum { ROW_MISSES_KEPT = 20 };
struct row_misses {
    uint64_t lookups, missed; /* missed: those of a key without a row */
    uint64_t rows, zeros;     /* of rows; and of lookups of the key 0 */
    uint32_t kept;
    uint64_t mixed[ROW_MISSES_KEPT]; /* (kept) the first different ones of these keys */
    uint64_t times[ROW_MISSES_KEPT]; /* (kept) how many lookups have the key, since it is kept */
};
/* Count the lookups of n rows in one column. list, absent: the keys and marks of the column's list. */
void row_misses_count(struct row_misses *m, const struct lookup_column *c, uint32_t n,
                      const struct key_list *list, const uint8_t *absent);
void row_misses_join(struct row_misses *m, const struct row_misses *other);

/* A source of rows: shards or a checkpoint. */
struct row_reader {
    /* Fills w for each key of *v; a missing row gets row_values_miss, and a row that is there clears the mark in `absent`.
     * Errors: its own. Thread: one at a time. */
    enum err (*read)(void *ctx, struct row_values *v, struct errmsg *e);
    void *ctx;
    bool in_one_pass; /* it scans all rows, so call it once, for all keys */
    bool untrained;   /* not all rows are trained yet: that some are missing has no meaning */
};
