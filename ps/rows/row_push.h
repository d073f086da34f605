/* A push's rows as they travel, made into sections (row_grads.h) that have their own keys and plain gradients: what a gate
 * holds refers to no connection. Pure. */
#ifndef GRADWIRE_PS_ROWS_ROW_PUSH_H
#define GRADWIRE_PS_ROWS_ROW_PUSH_H

#include "ps/rows/row_grads.h"
#include "ps/rows/row_tables.h"

/* A body that came: the parts [first, first + parts) of the shard's buckets. */
struct row_push {
    const struct row_layout *layout;
    struct bucket_range buckets; /* the shard's */
    uint32_t first, parts;
    const struct row_keys
        *asked;          /* of the ask that it names, of these buckets; NULL: its own keys */
    const uint8_t *body; /* aligned to 8 bytes */
    uint64_t bytes;
};

/* Check the body, and say how many bytes its sections take, a multiple of 8.
 * Errors: ERR_PROTO it is cut off or too long, it has more keys of a list than were asked for, its bits are another number
 * than its count, its keys do not ascend or are not of these buckets, a scale is none, or its sections would be larger than a
 * body may be. */
enum err row_push_check(const struct row_push *p, uint64_t *sections, struct errmsg *e) MUST_CHECK;
/* The sections of a body that row_push_check has accepted; out is aligned to 8 bytes. at[i] is that of part first + i. */
void row_push_expand(const struct row_push *p, uint8_t *out, const float *at[ROW_PARTS]);

#endif
