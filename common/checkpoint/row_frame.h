/* The contents of a frame of rows: consecutive groups. A group of rows is {u32 table, u32 bucket, u32 rows, u32
 * 0}, then of its rows the mixed keys (u64), the stamps (u64), the counts (u32) and the values (f32), padded with
 * zeros to a multiple of 8. A sketch is {u32 table, u32 bucket, u32 bytes, u32 1} and its bytes, a multiple of 8.
 * Everything is little-endian. Pure. */
#ifndef GRADWIRE_COMMON_CHECKPOINT_ROW_FRAME_H
#define GRADWIRE_COMMON_CHECKPOINT_ROW_FRAME_H

#include <stddef.h>

#include "common/checkpoint/checkpoint_rows.h"

enum {
    ROW_GROUP_HEAD_BYTES = 16,
    ROW_FRAME_BYTES = 1 << 20,     /* largest frame written */
    ROW_FRAME_BYTES_MAX = 4 << 20, /* largest frame accepted */
};

/* Returns the bytes of a group of rows; width: floats of a row. */
size_t row_group_bytes(uint64_t rows, uint32_t width);
/* Returns the bytes of a sketch's group. */
size_t row_sketch_group_bytes(uint32_t sketch_bytes);
/* Encodes the group's sketch. `out` has row_sketch_group_bytes bytes. */
void row_sketch_encode(void *out, const struct row_group *g);
/* Returns how many rows fit into `bytes` bytes. */
uint32_t row_group_fits(size_t bytes, uint32_t width);
/* Encodes rows [first, first + n) of the group. `out` has row_group_bytes bytes, aligned to 8. */
void row_group_encode(void *out, const struct row_group *g, uint32_t first, uint32_t n,
                      uint32_t width);
/* Decodes the group at the start of `data`, which is aligned to 8; *g points into it. Returns the group's bytes,
 * or 0 if it is invalid for these tables or incomplete. */
size_t row_group_decode(const void *data, size_t bytes, const struct checkpoint_table *table,
                        uint32_t tables, struct row_group *g);

/* The position of a reader or writer in the order of rows. */
struct row_place {
    bool there;  /* a group came before */
    bool sketch; /* that group was a sketch */
    uint32_t bucket, table;
    uint64_t mixed;
};
/* Checks that the group is in its bucket and comes after `at`; then moves `at` to its last row, or to the sketch,
 * and returns true. */
bool row_place_advance(struct row_place *at, const struct row_group *g);

/* Rows of tables in memory, in a checkpoint's order. Pure. */

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
