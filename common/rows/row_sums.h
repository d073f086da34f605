/* Gradients of rows by key, for one leaf or summed over several: a node of the tree has them in addition to its
 * part of the flat block. Keys ascend, so a sum is a merge. Memory is kept for reuse. */
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
    struct row_sums_list list[ROW_TABLES_MAX]; /* for each list of the layout */
    float *g[ROW_TABLES_MAX];                  /* for each table: (keys of its list, dim) */
};

/* Makes an empty set without allocating. The caller owns *s: row_sums_close. The layout must outlive *s. */
void row_sums_init(struct row_sums *s, const struct row_layout *layout);
void row_sums_close(struct row_sums *s);

/* Sets the keys of a leaf, with gradients of zero; NULL: no keys. Errors: ERR_NOMEM; then *s has no keys. */
enum err row_sums_begin(struct row_sums *s, const struct leaf_keys *keys) MUST_CHECK;

/* out = left + right; a row that only one of them has is copied. `out` must differ from both. Errors: ERR_NOMEM;
 * then *out has no keys. */
enum err row_sums_add(struct row_sums *out, const struct row_sums *left,
                      const struct row_sums *right) MUST_CHECK;

#endif
