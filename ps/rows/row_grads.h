/* Gradients of the rows of one part of a shard's buckets: views of a push's sections, and sums of them. The keys of a list
 * ascend, so a sum is a merge. Pure. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/base/buffer.h"
#include "common/base/err.h"
#include "common/parameters/tree.h"
#include "common/rows/key.h"
#include "common/rows/row_layout.h"

struct row_grads {
    uint32_t keys[ROW_TABLES_MAX];         /* number of keys of each list */
    const uint64_t *mixed[ROW_TABLES_MAX]; /* of each list: (keys), ascending */
    const float *g[ROW_TABLES_MAX];        /* of each table: (keys of its list, dim) */
};

/* Read a part's section of a push's body (RowsPush): it begins at `at`, aligned to 8 bytes, and `left` bytes of the body
 * follow. *g points into the body. *used: bytes of the section, a multiple of 8.
 * Errors: ERR_PROTO the section is cut off, or its keys do not ascend or do not belong to these buckets. *g and *used are
 * then undefined. */
enum err row_grads_read(struct row_grads *g, const struct row_layout *l, struct bucket_range part,
                        const void *at, uint64_t left, uint64_t *used, struct errmsg *e) MUST_CHECK;
/* Bytes of a section with keys[i] keys of list i; a multiple of 8. */
uint64_t row_grads_bytes(const struct row_layout *l, const uint32_t *keys);
/* View a section that row_grads_read has accepted. */
void row_grads_view(struct row_grads *g, const struct row_layout *l, const void *at);

/* Check that keys from a peer ascend and belong to these buckets. The error names `list`. Errors: ERR_PROTO. */
enum err row_keys_check(const uint64_t *mixed, uint32_t n, uint32_t list, struct bucket_range of,
                        struct errmsg *e) MUST_CHECK;

/* A sum of sections, to close with row_sum_close. Its values are in `memory`. `memory` NULL: they are in the section of
 * the only node, and valid as long as that section. */
struct row_sum {
    struct row_grads grads;
    struct buffer *memory;
};

/* Sum over root's leaves in the tree's order. The values of `v` are accepted sections. An absent leaf, or a key that a node
 * lacks, is skipped, not added as 0. If all leaves are absent the sum has no keys.
 * Errors: ERR_NOMEM: *out owns nothing. */
enum err row_sum_tree(struct row_sum *out, const struct row_layout *l, const struct tree_values *v,
                      struct tree_node root, struct buffer_pool *pool) MUST_CHECK;
void row_sum_close(struct row_sum *s);
