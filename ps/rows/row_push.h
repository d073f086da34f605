/* Decodes the rows of a push into sections (row_grads.h) with their own keys and plain gradients, so that the gate's
 * contents do not depend on a connection. Pure. */
#pragma once

#include "ps/rows/row_grads.h"
#include "ps/rows/row_tables.h"

/* The body of a push, for the parts [first, first + parts) of the shard's buckets. */
struct row_push {
    const struct row_layout *layout;
    struct bucket_range buckets; /* the shard's */
    uint32_t first, parts;
    const struct row_keys *asked; /* keys of the request it names; NULL: the body has keys */
    const uint8_t *body;          /* aligned to 8 bytes */
    uint64_t bytes;
};

/* Check the body. *sections: bytes that its sections take, a multiple of 8.
 * Errors: ERR_PROTO the body is cut off or too long, has more keys of a list than were requested, has a number of bits that
 * differs from its count, has keys that do not ascend or do not belong to these buckets, has an invalid scale, or its
 * sections would be larger than the largest body. */
enum err row_push_check(const struct row_push *p, uint64_t *sections, struct errmsg *e) MUST_CHECK;
/* Write the sections of a body that row_push_check has accepted to `out`, aligned to 8 bytes. at[i]: the section of part
 * first + i. */
void row_push_expand(const struct row_push *p, uint8_t *out, const float *at[ROW_PARTS]);
