/* What one microbatch looks up in tables. The loader makes it (worker/data), the model reads it (worker/model), and the
 * step asks the shards for its keys and pushes gradients by them (worker/step, worker/driver). */
#ifndef GRADWIRE_COMMON_ROWS_LOOKUPS_H
#define GRADWIRE_COMMON_ROWS_LOOKUPS_H

#include <stdint.h>

#include "common/rows/row_layout.h"

#define LOOKUP_NONE UINT32_MAX

/* Distinct mixed keys in ascending order. */
struct key_list {
    uint32_t keys;
    const uint64_t *mixed; /* (keys) */
};

/* One key column that one list covers; n is the microbatch's number of rows. */
struct lookup_column {
    uint32_t width;        /* places of a row: 1, or max_values */
    const uint32_t *count; /* (n) places in use; NULL: all `width` */
    const uint32_t
        *at; /* (n, width): which key of the list; LOOKUP_NONE: reads zeros, touches nothing */
    const float *weight; /* (n, width); NULL: all 1 */
};

struct leaf_keys {
    uint32_t lists;
    const struct key_list *list;        /* (lists) */
    uint32_t columns;                   /* lookups of the job, each of one list and one column */
    const struct lookup_column *column; /* (columns) */
};

/* The rows of one leaf, beside its leaf_keys: of each table of the row layout. */
struct leaf_rows {
    const float *w[ROW_TABLES_MAX]; /* (keys of the table's list, dim) */
    float
        *dw[ROW_TABLES_MAX]; /* the same: backward adds into it; zeros before. NULL in evaluation */
};

#endif
