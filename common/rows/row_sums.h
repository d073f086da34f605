/* Gradients of rows by key, for one leaf or summed over several: a node of the tree has them in addition to its
 * part of the flat block. Keys ascend, so a sum is a merge. Memory is kept for reuse. */
#pragma once

#include "common/base/err.h"
#include "common/rows/key.h"
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

/* ---- sums of squares, for clipping by norm and for the NaN guard ---- */

/* Adds to squares[b - of.first], for each bucket b, the squares of the rows of g (n, dim) in that bucket. All rows
 * must be in `of`. A sum is infinite or NaN exactly if an element is. The bits are the same for the same rows at
 * every SIMD level. */
void row_squares_add(double *squares, struct bucket_range of, const uint64_t *mixed, const float *g,
                     uint32_t n, uint32_t dim);

/* Returns the index of the first row of g (n, dim) whose sum of squares is not finite or exceeds `most`; n if
 * there is none. */
uint32_t row_squares_beyond(const float *g, double most, uint32_t n, uint32_t dim);
