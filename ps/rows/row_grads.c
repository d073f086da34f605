#include "ps/rows/row_grads.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

/* ---- a section ---- */

/* Bytes of the counts of keys: one u32 each, padded to u64. */
static uint64_t counts_bytes(const struct row_layout *l)
{
    return (l->lists + (uint64_t)l->lists % 2) * sizeof(uint32_t);
}

/* Set the pointers to the data after the counts; g->keys is set. Returns the section's bytes. No overflow: the number of keys
 * is below 2^32, and so is the number of floats of a key in all tables. */
static uint64_t lay_out(struct row_grads *g, const struct row_layout *l, const uint8_t *at)
{
    uint64_t bytes = counts_bytes(l);
    for (uint32_t i = 0; i < l->lists; i++) {
        g->mixed[i] = (const uint64_t *)(const void *)(at + bytes);
        bytes += g->keys[i] * sizeof(uint64_t);
    }
    for (uint32_t i = 0; i < l->tables; i++) {
        g->g[i] = (const float *)(const void *)(at + bytes);
        bytes += (uint64_t)g->keys[l->table[i].list] * l->table[i].dim * sizeof(float);
    }
    return (bytes + 7) & ~UINT64_C(7);
}

uint64_t row_grads_bytes(const struct row_layout *l, const uint32_t *keys)
{
    uint64_t bytes = counts_bytes(l), floats = 0;
    for (uint32_t i = 0; i < l->lists; i++)
        bytes += keys[i] * sizeof(uint64_t);
    for (uint32_t i = 0; i < l->tables; i++)
        floats += (uint64_t)keys[l->table[i].list] * l->table[i].dim;
    return (bytes + floats * sizeof(float) + 7) & ~UINT64_C(7);
}

void row_grads_view(struct row_grads *g, const struct row_layout *l, const void *at)
{
    memcpy(g->keys, at, l->lists * sizeof *g->keys);
    (void)lay_out(g, l, at);
}

enum err row_keys_check(const uint64_t *mixed, uint32_t n, uint32_t list, struct bucket_range of,
                        struct errmsg *e)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t bucket = key_bucket(mixed[i]);
        if (bucket < of.first || bucket >= of.end)
            return err_set(e, ERR_PROTO,
                           "key %u of list %u is of bucket %u: from %u on, below %u are expected",
                           i, list, bucket, of.first, of.end);
        if (i > 0 && mixed[i] <= mixed[i - 1])
            return err_set(e, ERR_PROTO, "keys %u and %u of list %u do not ascend", i - 1, i, list);
    }
    return ERR_OK;
}

enum err row_grads_read(struct row_grads *g, const struct row_layout *l, struct bucket_range part,
                        const void *at, uint64_t left, uint64_t *used, struct errmsg *e)
{
    if (left < counts_bytes(l))
        return err_set(e, ERR_PROTO, "%" PRIu64 " bytes are left for the counts of %u lists", left,
                       l->lists);
    memcpy(g->keys, at, l->lists * sizeof *g->keys);
    uint64_t bytes = lay_out(g, l, at);
    if (bytes > left)
        return err_set(e, ERR_PROTO, "%" PRIu64 " bytes are left for a part of %" PRIu64, left,
                       bytes);
    for (uint32_t i = 0; i < l->lists; i++) {
        enum err err = row_keys_check(g->mixed[i], g->keys[i], i, part, e);
        if (err)
            return err;
    }
    *used = bytes;
    return ERR_OK;
}

/* ---- a sum ---- */

/* out = the keys of a and b, each key once. Returns their number. */
static uint32_t merge_keys(uint64_t *out, const uint64_t *a, uint32_t na, const uint64_t *b,
                           uint32_t nb)
{
    uint32_t n = 0;
    for (uint32_t i = 0, k = 0; i < na || k < nb; n++) {
        bool of_a = k == nb || (i < na && a[i] <= b[k]);
        bool of_b = i == na || (k < nb && b[k] <= a[i]);
        out[n] = of_a ? a[i] : b[k];
        i += of_a;
        k += of_b;
    }
    return n;
}

/* out (n, dim) = the rows of keys `mixed`, the union of those of a and b. A row of both is the sum a + b. */
static void merge_rows(float *out, const uint64_t *mixed, uint32_t n, uint32_t dim,
                       const struct row_grads *a, const struct row_grads *b, uint32_t list,
                       uint32_t table)
{
    const float *ga = a->g[table], *gb = b->g[table];
    uint32_t i = 0, k = 0;
    for (uint32_t at = 0; at < n; at++, out += dim) {
        bool of_a = i < a->keys[list] && a->mixed[list][i] == mixed[at];
        bool of_b = k < b->keys[list] && b->mixed[list][k] == mixed[at];
        const float *row_a = ga + (size_t)i * dim, *row_b = gb + (size_t)k * dim;
        assert(of_a || of_b);
        if (of_a && of_b)
            for (uint32_t j = 0; j < dim; j++)
                out[j] = row_a[j] + row_b[j];
        else
            memcpy(out, of_a ? row_a : row_b, dim * sizeof *out);
        i += of_a;
        k += of_b;
    }
}

/* The most bytes that the sum of a and b can take. */
static uint64_t merged_bytes(const struct row_layout *l, const struct row_grads *a,
                             const struct row_grads *b)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < l->lists; i++)
        bytes += ((uint64_t)a->keys[i] + b->keys[i]) * sizeof(uint64_t);
    for (uint32_t i = 0; i < l->tables; i++) {
        uint64_t keys = (uint64_t)a->keys[l->table[i].list] + b->keys[l->table[i].list];
        bytes += keys * l->table[i].dim * sizeof(float);
    }
    return bytes;
}

static enum err merge(struct row_sum *out, const struct row_layout *l, const struct row_grads *a,
                      const struct row_grads *b, struct buffer_pool *pool)
{
    uint64_t bytes = merged_bytes(l, a, b);
    out->memory = buffer_acquire(pool, bytes / sizeof(float));
    if (!out->memory)
        return ERR_NOMEM;
    uint64_t *mixed = (uint64_t *)(void *)out->memory->data;
    struct row_grads *g = &out->grads;
    for (uint32_t i = 0; i < l->lists; i++) {
        g->mixed[i] = mixed;
        g->keys[i] = merge_keys(mixed, a->mixed[i], a->keys[i], b->mixed[i], b->keys[i]);
        mixed += g->keys[i];
    }
    float *w = (float *)(void *)mixed;
    for (uint32_t i = 0; i < l->tables; i++) {
        uint32_t list = l->table[i].list, dim = l->table[i].dim;
        g->g[i] = w;
        merge_rows(w, g->mixed[list], g->keys[list], dim, a, b, list, i);
        w += (size_t)g->keys[list] * dim;
    }
    assert((uint64_t)((uint8_t *)w - (uint8_t *)out->memory->data) <= bytes);
    return ERR_OK;
}

static const void *find(const struct tree_values *v, struct tree_node wanted)
{
    for (uint32_t i = 0; i < v->nodes; i++)
        if (v->node[i].level == wanted.level && v->node[i].index == wanted.index)
            return v->value[i];
    return NULL;
}

/* Sum the subtree. *there false: all leaves are absent, and *out owns nothing. */
static enum err sum(struct row_sum *out, const struct row_layout *l, const struct tree_values *v,
                    struct tree_node root, struct buffer_pool *pool, bool *there)
{
    const void *own = find(v, root);
    out->memory = NULL;
    *there = own != NULL;
    if (own)
        row_grads_view(&out->grads, l, own);
    if (own || root.level == 0)
        return ERR_OK;
    struct row_sum right = {.memory = NULL}, left = {.memory = NULL};
    bool has_left, has_right;
    enum err err =
        sum(&left, l, v, (struct tree_node){root.level - 1, root.index * 2}, pool, &has_left);
    if (!err)
        err = sum(&right, l, v, (struct tree_node){root.level - 1, root.index * 2 + 1}, pool,
                  &has_right);
    if (err) {
        row_sum_close(&left);
        return err;
    }
    *there = has_left || has_right;
    if (!has_left || !has_right) {
        *out = has_left ? left : right;
        return ERR_OK;
    }
    err = merge(out, l, &left.grads, &right.grads, pool);
    row_sum_close(&left);
    row_sum_close(&right);
    return err;
}

enum err row_sum_tree(struct row_sum *out, const struct row_layout *l, const struct tree_values *v,
                      struct tree_node root, struct buffer_pool *pool)
{
    bool there;
    *out = (struct row_sum){.memory = NULL};
    enum err err = sum(out, l, v, root, pool, &there);
    if (!err && !there)
        *out = (struct row_sum){.memory = NULL};
    return err;
}

void row_sum_close(struct row_sum *s)
{
    buffer_unref(s->memory);
    s->memory = NULL;
}
