/* Gradients of rows, of one part of a shard's buckets: as a push carries them, and sums of them. Keys of a list ascend,
 * so a sum is a merge. Pure. */
#ifndef GRADWIRE_PS_ROWS_ROW_GRADS_H
#define GRADWIRE_PS_ROWS_ROW_GRADS_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/buffer.h"
#include "common/base/err.h"
#include "common/parameters/tree.h"
#include "common/rows/key.h"
#include "common/rows/row_layout.h"

struct row_grads {
    uint32_t keys[ROW_TABLES_MAX];         /* of each list */
    const uint64_t *mixed[ROW_TABLES_MAX]; /* of each list: (keys), ascending */
    const float *g[ROW_TABLES_MAX];        /* of each table: (keys of its list, dim) */
};

/* Read a part's section, which begins `left` bytes before the end of a push's body (RowsPush); `at` is aligned to 8 bytes.
 * The gradients stay where they are. *used: its bytes, a multiple of 8.
 * Errors: ERR_PROTO it is cut off, or its keys do not ascend or are not of these buckets. *g and *used are then of no use. */
enum err row_grads_read(struct row_grads *g, const struct row_layout *l, struct bucket_range part,
                        const void *at, uint64_t left, uint64_t *used, struct errmsg *e) MUST_CHECK;
/* Bytes of a section of so many keys of each list, a multiple of 8. */
uint64_t row_grads_bytes(const struct row_layout *l, const uint32_t *keys);
/* A section that row_grads_read has accepted. */
void row_grads_view(struct row_grads *g, const struct row_layout *l, const void *at);

/* Keys that a peer sent: they ascend, and are of these buckets. `list` names them in the error. Errors: ERR_PROTO. */
enum err row_keys_check(const uint64_t *mixed, uint32_t n, uint32_t list, struct bucket_range of,
                        struct errmsg *e) MUST_CHECK;

/* Values of `memory` (NULL: of the nodes' own sections) until row_sum_close. */
struct row_sum {
    struct row_grads grads;
    struct buffer *memory;
};

/* The sum over root's leaves in the tree's order, v's values being sections that were accepted. An absent leaf, or a key
 * that a node does not have, is skipped, not added as 0. Nothing is there: no keys.
 * Errors: ERR_NOMEM: *out owns nothing. */
enum err row_sum_tree(struct row_sum *out, const struct row_layout *l, const struct tree_values *v,
                      struct tree_node root, struct buffer_pool *pool) MUST_CHECK;
void row_sum_close(struct row_sum *s);

#endif
