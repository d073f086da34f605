/* Rows of tables in memory, in a checkpoint's order. Pure. */
#ifndef GRADWIRE_COMMON_CHECKPOINT_ROW_COPY_H
#define GRADWIRE_COMMON_CHECKPOINT_ROW_COPY_H

#include "common/checkpoint/checkpoint_rows.h"

struct row_piece;

struct row_copy {
    struct checkpoint_rows head; /* its `next` returns the rows; its `ctx` is this copy */
    struct checkpoint_table table[ROW_TABLES_MAX];
    uint64_t rows;
    uint32_t pieces;
    struct row_piece *piece; /* (pieces) */
    uint32_t next_piece;
    size_t next_at;
};

/* Makes an empty copy. head.ctx points to *c, which must not move afterwards. Allocates nothing. */
void row_copy_init(struct row_copy *c, const struct checkpoint_table *table, uint32_t tables,
                   struct bucket_range buckets, uint64_t clock);
void row_copy_close(struct row_copy *c);
/* Appends a copy of the group, which must come in order (struct checkpoint_rows). Errors: ERR_NOMEM; then nothing
 * is added. */
enum err row_copy_add(struct row_copy *c, const struct row_group *g) MUST_CHECK;
/* Makes `next` start again with the first row. */
void row_copy_rewind(struct row_copy *c);

#endif
