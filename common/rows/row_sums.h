/* Gradients of rows by key, of one leaf or summed over several: what a node of the tree has beside its part of the flat
 * block. Keys ascend, so a sum is a merge. Memory is kept from one use to the next. */
#ifndef GRADWIRE_COMMON_ROWS_ROW_SUMS_H
#define GRADWIRE_COMMON_ROWS_ROW_SUMS_H

#include "common/base/err.h"
#include "common/rows/lookups.h"
#include "common/rows/row_layout.h"

struct row_sums_list {
    uint32_t keys, room;
    uint64_t *mixed; /* (keys) distinct, ascending */
};

struct row_sums {
    const struct row_layout *layout;
    struct row_sums_list list[ROW_TABLES_MAX]; /* of each list of the layout */
    float *g[ROW_TABLES_MAX];                  /* of each table: (keys of its list, dim) */
};

/* No keys; nothing is allocated. Owns: *s is the caller's, row_sums_close; the layout outlives it. */
void row_sums_init(struct row_sums *s, const struct row_layout *layout);
void row_sums_close(struct row_sums *s);

/* The leaf's keys, and zeros. NULL: no keys. Errors: ERR_NOMEM: it has no keys then. */
enum err row_sums_begin(struct row_sums *s, const struct leaf_keys *keys) MUST_CHECK;

/* out = left + right; a row that one of them has is copied. `out` is another one than both.
 * Errors: ERR_NOMEM: *out has no keys. */
enum err row_sums_add(struct row_sums *out, const struct row_sums *left,
                      const struct row_sums *right) MUST_CHECK;

#endif
