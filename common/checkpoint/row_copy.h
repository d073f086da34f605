/* Rows of tables in memory, in the order in which a checkpoint has them. Pure. */
#ifndef GRADWIRE_COMMON_CHECKPOINT_ROW_COPY_H
#define GRADWIRE_COMMON_CHECKPOINT_ROW_COPY_H

#include "common/checkpoint/checkpoint_rows.h"

struct row_piece;

struct row_copy {
    struct checkpoint_rows head; /* its `next` hands out the rows, `ctx` is this copy */
    struct checkpoint_table table[ROW_TABLES_MAX];
    uint64_t rows;
    uint32_t pieces, room;
    struct row_piece *piece; /* (room) */
    uint32_t next_piece;
    size_t next_at;
};

/* No row is there. head.ctx points to *c, which does not move from here on. Owns: nothing before the first row. */
void row_copy_init(struct row_copy *c, const struct checkpoint_table *table, uint32_t tables,
                   struct bucket_range buckets, uint64_t clock);
void row_copy_close(struct row_copy *c);
/* The group behind all others, which is in order (struct checkpoint_rows). Errors: ERR_NOMEM: nothing is added. */
enum err row_copy_add(struct row_copy *c, const struct row_group *g) MUST_CHECK;
/* `next` begins with the first row again. */
void row_copy_rewind(struct row_copy *c);

#endif
