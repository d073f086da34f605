/* The fixed pairwise tree over the microbatches of a step: leaves 0..M-1, M a power of two. Node (level, index)
 * covers the leaves [index << level, (index + 1) << level). Whoever sums what, the bits are the same. */
#ifndef GRADWIRE_COMMON_PARAMETERS_TREE_H
#define GRADWIRE_COMMON_PARAMETERS_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"
#include "common/parameters/limits.h"

enum { TREE_LEAVES_MAX = 256, TREE_LEVELS_MAX = 9 };

struct tree_node {
    uint32_t level, index;
};

static inline uint32_t tree_first_leaf(struct tree_node n)
{
    return n.index << n.level;
}

static inline uint32_t tree_end_leaf(struct tree_node n)
{
    return (n.index + 1) << n.level;
}

static inline bool tree_covers(struct tree_node outer, struct tree_node inner)
{
    return outer.level >= inner.level && inner.index >> (outer.level - inner.level) == outer.index;
}

/* Is it a node of the tree over `leaves` leaves? (Numbers from a peer.) */
bool tree_valid(uint32_t leaves, uint32_t level, uint32_t index);

/* The fewest nodes that cover exactly the leaves [first, first + count): writes at most 2 * TREE_LEVELS_MAX. */
uint32_t tree_cover(uint32_t first, uint32_t count, struct tree_node out[2 * TREE_LEVELS_MAX]);

/* Which leaves worker `position` of `workers` computes: the lowest positions never go without. */
void tree_share(uint32_t leaves, uint32_t workers, uint32_t position, uint32_t *first,
                uint32_t *count);

/* A set of leaves, or of nodes. Node (level, index) of a tree over `leaves` leaves has bit leaves / 2^level + index, as in
 * a heap: the root has bit 1, leaf i bit leaves + i. */
enum { TREE_NODES_MAX = 2 * TREE_LEAVES_MAX };
struct tree_leaves {
    uint64_t bits[TREE_LEAVES_MAX / 64];
};
struct tree_nodes {
    uint64_t bits[TREE_NODES_MAX / 64];
};

static inline uint32_t tree_node_bit(uint32_t leaves, struct tree_node n)
{
    return (leaves >> n.level) + n.index;
}

static inline bool tree_has_leaf(const struct tree_leaves *s, uint32_t leaf)
{
    return s->bits[leaf / 64] >> (leaf % 64) & 1;
}

static inline bool tree_has_node(const struct tree_nodes *s, uint32_t bit)
{
    return s->bits[bit / 64] >> (bit % 64) & 1;
}

/* Add the leaves [first, end). */
void tree_add_leaves(struct tree_leaves *s, uint32_t first, uint32_t end);
bool tree_has_leaves(const struct tree_leaves *s, uint32_t first, uint32_t end); /* all of them */
uint32_t tree_count_leaves(const struct tree_leaves *s);

/* As bytes, bit i of byte i / 8; returns how many. Unpacking: ERR_PROTO where there are not as many. */
size_t tree_pack(const uint64_t *bits, uint32_t n_bits, uint8_t *out);
enum err tree_unpack(uint64_t *bits, uint32_t n_bits, const uint8_t *in, size_t bytes) MUST_CHECK;

/* The values of a set of nodes that cover leaves of `root` once each; leaves that none covers are absent. */
struct tree_values {
    uint32_t nodes;
    const struct tree_node *node;
    const float *const *value; /* (n) each */
};

/* out = the sum over root's leaves, in the tree's order, of elements [at, at + n). `scratch` holds
 * n * TREE_LEVELS_MAX floats. Where root itself is among the nodes, its own memory is returned and nothing is
 * copied. An absent leaf is skipped, not added as 0. NULL: all are absent. */
const float *tree_sum(const struct tree_values *v, struct tree_node root, size_t at, size_t n,
                      float *scratch);

/* The same for doubles: sums[i] belongs to node i, k values each; writes k. False: all are absent, nothing is written. */
bool tree_sum_doubles(const struct tree_node *node, uint32_t nodes, const double *sums, uint32_t k,
                      struct tree_node root, double *out);

#endif
