/* The tables of a job, as all processes know them. Tables that the same columns look up share one list of keys: it is
 * made, sent and sorted once. */
#ifndef GRADWIRE_COMMON_ROWS_ROW_LAYOUT_H
#define GRADWIRE_COMMON_ROWS_ROW_LAYOUT_H

#include <stdint.h>

#include "common/parameters/layout.h"

enum { ROW_TABLES_MAX = 64, ROW_DIM_MAX = 4096, ROW_TABLE_NAME_MAX = 64 };

/* No body of rows is larger, nor is an answer: a peer's word alone makes nobody ask for more memory. */
#define ROWS_BODY_MAX (UINT64_C(1) << 30)

struct row_table_spec {
    char name[ROW_TABLE_NAME_MAX];
    uint32_t dim;
    uint32_t list; /* whose keys look it up */
    enum init_kind init;
    float init_value, init_center; /* as in struct tensor */
};

struct row_layout {
    uint32_t lists, tables;
    struct row_table_spec
        table[ROW_TABLES_MAX]; /* in the job file's order; lists appear in ascending order */
};

/* The first value of a row: w (dim), a function of (seed, table's name, mixed key, column) alone. */
void row_first_value(const struct row_table_spec *t, uint64_t seed, uint64_t mixed, float *w);

/* Floats that a key of this list has in all of its tables together. */
uint32_t row_layout_list_dim(const struct row_layout *l, uint32_t list);

#endif
