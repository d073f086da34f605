/* A leaf: the rows of a microbatch as a model takes them, and what they look up in tables. Data make it (data/source.h), the
 * model reads it (model), and the step requests its keys from the shards and pushes their gradients (worker/step,
 * worker/driver). */
#pragma once

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

/* Rows of a microbatch, or of a block of an evaluation: the examples of a pass of a model. The memory is a leaf_buffer's
 * (data/leaf_buffer.h). */
struct leaf {
    uint64_t id;   /* of a microbatch: batch id = epoch * order_batches + batch within the epoch */
    uint32_t leaf; /* and which one of the batch */
    uint32_t n;    /* number of rows, without those that are absent */
    const float *x, *y; /* (n, features) and (n, labels), aligned to 64 bytes */
    /* (n, labels): 0: the label is absent, its value is not read, and it adds nothing to loss, gradient and metrics. Only of
     * heads that are masked. NULL: all 1. */
    const uint8_t *present;
    /* (n): multiplies an example's loss, gradient and metrics; an example of weight 0 has gradient 0. NULL: all 1. */
    const float *weight;
    const struct leaf_keys *keys; /* that the rows look up in tables; NULL: none */
    /* their rows, and the memory for the gradient by them: of the step or the evaluation, not of the source. NULL: the model
     * has none. */
    const struct leaf_rows *rows;
};
