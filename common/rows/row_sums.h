/* Gradients of rows by key, summed over leaves: what a node of the tree has beside its part of the flat block. */
#ifndef GRADWIRE_COMMON_ROWS_ROW_SUMS_H
#define GRADWIRE_COMMON_ROWS_ROW_SUMS_H

#include "common/rows/row_layout.h"

struct row_sums {
    const struct row_layout *layout;
    struct {
        uint32_t keys, room;
        uint64_t *mixed; /* (keys) distinct, ascending */
    } list[ROW_TABLES_MAX];
    float *g[ROW_TABLES_MAX]; /* of each table: (keys of its list, dim) */
};

#endif
