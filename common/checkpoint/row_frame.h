/* What is in a frame of rows: groups, one behind the other. A group is {u32 table, u32 bucket, u32 rows, u32 0}, the mixed
 * keys (u64), the stamps (u64), the counts (u32) and the values (f32) of its rows, and 4 bytes of 0 where it would end
 * between two multiples of 8. A bucket's sketch is a group, too: {u32 table, u32 bucket, u32 bytes, u32 1}, and its bytes, a
 * multiple of 8. All little-endian. Pure. */
#ifndef GRADWIRE_COMMON_CHECKPOINT_ROW_FRAME_H
#define GRADWIRE_COMMON_CHECKPOINT_ROW_FRAME_H

#include <stddef.h>

#include "common/checkpoint/checkpoint_rows.h"

enum {
    ROW_GROUP_HEAD_BYTES = 16,
    ROW_FRAME_BYTES = 1 << 20,     /* as written, at most */
    ROW_FRAME_BYTES_MAX = 4 << 20, /* as read */
};

/* width: floats of a row. */
size_t row_group_bytes(uint64_t rows, uint32_t width);
/* The same of a sketch. */
size_t row_sketch_group_bytes(uint32_t sketch_bytes);
void row_sketch_encode(void *out, const struct row_group *g);
/* How many rows fit into so many bytes. */
uint32_t row_group_fits(size_t bytes, uint32_t width);
/* Rows [first, first + n) of the group; out: row_group_bytes, aligned to 8. */
void row_group_encode(void *out, const struct row_group *g, uint32_t first, uint32_t n,
                      uint32_t width);
/* The group at the beginning of `bytes` bytes, which are aligned to 8; it points into them. Returns its bytes; 0: it is
 * none of these tables, or does not fit. */
size_t row_group_decode(const void *data, size_t bytes, const struct checkpoint_table *table,
                        uint32_t tables, struct row_group *g);

/* Where a reader or writer is in the order of rows. */
struct row_place {
    bool there;  /* there was a group */
    bool sketch; /* it was a sketch */
    uint32_t bucket, table;
    uint64_t mixed;
};
/* Is the group in its buckets and order, behind `at`? Then `at` is its last row, or the sketch. */
bool row_place_advance(struct row_place *at, const struct row_group *g);

#endif
