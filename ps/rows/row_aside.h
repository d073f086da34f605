/* The rows that a part's last update touched, as they were before it: who reads as of the step before still has them. */
#ifndef GRADWIRE_PS_ROWS_ROW_ASIDE_H
#define GRADWIRE_PS_ROWS_ROW_ASIDE_H

#include <stdbool.h>

#include "common/base/buffer.h"
#include "ps/rows/row_grads.h"
#include "ps/rows/row_table.h"

struct row_aside {
    struct buffer *memory; /* NULL: nothing is set aside */
    uint32_t keys[ROW_TABLES_MAX];
    const uint64_t *mixed[ROW_TABLES_MAX]; /* of each list: (keys), ascending */
    const float *w[ROW_TABLES_MAX];        /* of each table: (keys, dim) */
    const uint8_t *there[ROW_TABLES_MAX];  /* of each table: (keys); 0: the row was not there */
};

/* Set the rows of all keys of `g` aside, where nothing is. row[i]: of each table, the rows of its list's keys, ROW_NONE:
 * not there. Errors: ERR_NOMEM. */
enum err row_aside_set(struct row_aside *a, const struct row_layout *l,
                       struct row_table *const *table, const struct row_grads *g,
                       uint32_t *const *row, struct buffer_pool *pool) MUST_CHECK;
/* What is set aside, if anything, is of no more use. */
void row_aside_forget(struct row_aside *a);

/* Is the key set aside? Then *w is the row that it had in this table, NULL: none. *at: where a reader with ascending keys
 * stands, at first 0. */
bool row_aside_find(const struct row_aside *a, const struct row_layout *l, uint32_t table,
                    uint64_t mixed, uint32_t *at, const float **w);

#endif
