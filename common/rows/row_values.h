/* Rows of tables by key, in one process's memory: the weights that a task or a block of examples needs, whatever
 * answered for them. Keys and rows stand in ascending order of the mixed key. Memory is kept from one use to the next.
 *
 * A task's way: row_values_want with its leaves' keys -> a reader, or the shards' answers, fill `w` of each key ->
 * row_values_copy for each leaf, on its own thread. */
#ifndef GRADWIRE_COMMON_ROWS_ROW_VALUES_H
#define GRADWIRE_COMMON_ROWS_ROW_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"
#include "common/rows/lookups.h"
#include "common/rows/row_layout.h"

/* One list's keys. */
struct row_value_keys {
    uint32_t keys, room;
    uint64_t *mixed; /* (keys) distinct, ascending */
};

struct row_values {
    const struct row_layout *layout;
    struct row_value_keys list[ROW_TABLES_MAX]; /* of each list of the layout */
    float *w[ROW_TABLES_MAX];                   /* of each table: (keys of its list, dim) */
    uint64_t *scratch;                          /* while key lists are joined */
    size_t scratch_keys;
};

/* Owns: *v is the caller's, row_values_close; the layout outlives it. Nothing is allocated. */
void row_values_init(struct row_values *v, const struct row_layout *layout);
void row_values_close(struct row_values *v);

/* Room for `keys` keys of one list and their rows in all of its tables. The list has these many keys then; the keys and
 * rows that it had are lost. Errors: ERR_NOMEM; the list is empty then. */
enum err row_values_reserve(struct row_values *v, uint32_t list, uint32_t keys,
                            struct errmsg *e) MUST_CHECK;

/* The keys become the union of those of `leaves` leaves, list by list; a leaf that is NULL has none. The rows are the
 * caller's to fill. Errors: ERR_NOMEM, also for 2^32 keys of one list. */
enum err row_values_want(struct row_values *v, const struct leaf_keys *const *leaf, uint32_t leaves,
                         struct errmsg *e) MUST_CHECK;

/* The rows of one list's keys, for each of its tables: w[table] (keys, dim), by table of the layout; tables of other
 * lists are left alone. A key that `v` lacks leaves its row alone. Returns how many keys it has.
 * Thread: any number at a time, as long as nobody changes *v. */
uint32_t row_values_copy(const struct row_values *v, uint32_t list, const struct key_list *keys,
                         float *const *w);

/* Who has rows: shards, or a checkpoint. */
struct row_reader {
    /* Fill w for each key of *v. A row that is not there gets row_absent_value, by who implements this. Errors: its own. Thread: one at a time. */
    enum err (*read)(void *ctx, struct row_values *v, struct errmsg *e);
    void *ctx;
    bool in_one_pass; /* it passes over all rows, so it is asked once, for all keys */
};

#endif
