/* Copies of the rows that a part's last update touched, as they were before the update, for readers of the step before. */
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
    const uint8_t *there[ROW_TABLES_MAX];  /* of each table: (keys); 0: the row did not exist */
};

/* Set aside the rows of all keys of `g`; *a must be empty. row[i]: for table i the row of each key of its list, ROW_NONE if
 * it does not exist. Errors: ERR_NOMEM. */
enum err row_aside_set(struct row_aside *a, const struct row_layout *l,
                       struct row_table *const *table, const struct row_grads *g,
                       uint32_t *const *row, struct buffer_pool *pool) MUST_CHECK;
/* Drop the copies, if there are any. */
void row_aside_forget(struct row_aside *a);

/* True: the key is set aside, and *w has the weights of its row in this table, valid until row_aside_forget; *w NULL:
 * it had no row. *at: the reader's position, 0 before the reader's first key; the reader's keys ascend. */
bool row_aside_find(const struct row_aside *a, const struct row_layout *l, uint32_t table,
                    uint64_t mixed, uint32_t *at, const float **w);

#endif
