/* The table lookups of one microbatch. The loader makes them (data), the model reads them (model),
 * and the step requests their keys from the shards and pushes their gradients (worker/step, worker/driver). */
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

/* One key column, which uses one list; n is the microbatch's number of rows. */
struct lookup_column {
    uint32_t width;        /* positions per row: 1, or max_values */
    const uint32_t *count; /* (n) positions in use; NULL: all `width` */
    /* (n, width): index of the key in the list; LOOKUP_NONE: reads zeros and touches no row */
    const uint32_t *at;
    const float *weight; /* (n, width); NULL: all are 1 */
};

struct leaf_keys {
    uint32_t lists;
    const struct key_list *list;        /* (lists) */
    uint32_t columns;                   /* lookups of the job, each with one list and one column */
    const struct lookup_column *column; /* (columns) */
};

/* The rows of one leaf, with its leaf_keys: for each table of the row layout. */
struct leaf_rows {
    const float *w[ROW_TABLES_MAX]; /* (keys of the table's list, dim) */
    /* same shape, zero at first: backward adds to it; NULL in evaluation */
    float *dw[ROW_TABLES_MAX];
};

#endif
