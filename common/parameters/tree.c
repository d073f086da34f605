#include "common/parameters/tree.h"

#include <assert.h>
#include <string.h>

#include "common/math/kernels.h"

bool tree_valid(uint32_t leaves, uint32_t level, uint32_t index)
{
    return level < TREE_LEVELS_MAX && (leaves >> level) > 0 && index < (leaves >> level);
}

uint32_t tree_cover(uint32_t first, uint32_t count, struct tree_node out[2 * TREE_LEVELS_MAX])
{
    uint32_t nodes = 0, end = first + count;
    while (count) {
        uint32_t level = 0;
        while ((first & ((2u << level) - 1)) == 0 && (2u << level) <= count)
            level++;
        out[nodes++] = (struct tree_node){level, first >> level};
        assert(nodes <= 2 * TREE_LEVELS_MAX && tree_first_leaf(out[nodes - 1]) == first);
        assert(nodes < 2 || out[nodes - 2].level != level ||
               out[nodes - 1].index % 2 == 0); /* two halves of one node would be that node */
        first += 1u << level;
        count -= 1u << level;
    }
    assert(nodes == 0 || tree_end_leaf(out[nodes - 1]) == end);
    (void)end;
    return nodes;
}

void tree_share(uint32_t leaves, uint32_t workers, uint32_t position, uint32_t *first,
                uint32_t *count)
{
    uint64_t begin = ((uint64_t)leaves * position + workers - 1) / workers;
    uint64_t end = ((uint64_t)leaves * (position + 1) + workers - 1) / workers;
    assert(begin <= end && end <= leaves);
    assert(end - begin <=
           leaves / workers + (leaves % workers != 0)); /* shares differ by at most one leaf */
    assert(position > 0 || end > begin);
    *first = (uint32_t)begin;
    *count = (uint32_t)(end - begin);
}

static int find(const struct tree_node *node, uint32_t nodes, struct tree_node wanted)
{
    for (uint32_t i = 0; i < nodes; i++)
        if (node[i].level == wanted.level && node[i].index == wanted.index)
            return (int)i;
    return -1;
}

const float *tree_sum(const struct tree_values *v, struct tree_node root, size_t at, size_t n,
                      float *scratch)
{
    int i = find(v->node, v->nodes, root);
    if (i >= 0)
        return v->value[i] + at;
    if (root.level == 0)
        return NULL;
    struct tree_node left = {root.level - 1, root.index * 2};
    struct tree_node right = {root.level - 1, root.index * 2 + 1};
    const float *a = tree_sum(v, left, at, n, scratch);
    const float *b = tree_sum(v, right, at, n, a ? scratch + n : scratch);
    if (!a || !b)
        return a ? a : b;
    kernels()->add(scratch, a, b, n);
    return scratch;
}

bool tree_sum_doubles(const struct tree_node *node, uint32_t nodes, const double *sums, uint32_t k,
                      struct tree_node root, double *out)
{
    int i = find(node, nodes, root);
    if (i >= 0) {
        for (uint32_t j = 0; j < k; j++)
            out[j] = sums[(uint32_t)i * k + j];
        return true;
    }
    if (root.level == 0)
        return false;
    double right[1 + 1 + SUMS_MAX];
    bool has_left = tree_sum_doubles(node, nodes, sums, k,
                                     (struct tree_node){root.level - 1, root.index * 2}, out);
    bool has_right = tree_sum_doubles(
        node, nodes, sums, k, (struct tree_node){root.level - 1, root.index * 2 + 1}, right);
    for (uint32_t j = 0; j < k && has_right; j++)
        out[j] = has_left ? out[j] + right[j] : right[j];
    return has_left || has_right;
}

/* ---- sets ---- */

void tree_add_leaves(struct tree_leaves *s, uint32_t first, uint32_t end)
{
    for (uint32_t i = first; i < end; i++)
        s->bits[i / 64] |= UINT64_C(1) << (i % 64);
}

bool tree_has_leaves(const struct tree_leaves *s, uint32_t first, uint32_t end)
{
    for (uint32_t i = first; i < end; i++)
        if (!tree_has_leaf(s, i))
            return false;
    return true;
}

uint32_t tree_count_leaves(const struct tree_leaves *s)
{
    uint32_t n = 0;
    for (size_t i = 0; i < sizeof s->bits / sizeof *s->bits; i++)
        n += (uint32_t)__builtin_popcountll(s->bits[i]);
    return n;
}

size_t tree_pack(const uint64_t *bits, uint32_t n_bits, uint8_t *out)
{
    size_t bytes = (n_bits + 7) / 8;
    for (size_t i = 0; i < bytes; i++)
        out[i] = (uint8_t)(bits[i / 8] >> (i % 8 * 8));
    return bytes;
}

enum err tree_unpack(uint64_t *bits, uint32_t n_bits, const uint8_t *in, size_t bytes)
{
    if (bytes != (n_bits + 7) / 8 || (n_bits % 8 && in[bytes - 1] >> n_bits % 8))
        return ERR_PROTO;
    memset(bits, 0, (n_bits + 63) / 64 * sizeof *bits);
    for (size_t i = 0; i < bytes; i++)
        bits[i / 8] |= (uint64_t)in[i] << (i % 8 * 8);
    return ERR_OK;
}
