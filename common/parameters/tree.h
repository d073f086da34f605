/* The fixed binary tree that sums the microbatches (leaves) of a step: leaves 0 to M - 1, M a power of two. Node
 * (level, index) covers the leaves [index << level, (index + 1) << level). The sum's bits are the same no matter
 * which process adds which nodes. */
#pragma once

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

/* Returns whether (level, index) is a node of the tree over `leaves` leaves. For numbers from a peer. */
bool tree_valid(uint32_t leaves, uint32_t level, uint32_t index);

/* Writes the fewest nodes that together cover exactly the leaves [first, first + count); at most 2 *
 * TREE_LEVELS_MAX. Returns their number. */
uint32_t tree_cover(uint32_t first, uint32_t count, struct tree_node out[2 * TREE_LEVELS_MAX]);

/* Assigns leaves to worker `position` of `workers`: [*first, *first + *count). If there are more workers than
 * leaves, position 0 still gets one. */
void tree_share(uint32_t leaves, uint32_t workers, uint32_t position, uint32_t *first,
                uint32_t *count);

/* Sets of leaves and of nodes. In a tree over `leaves` leaves, node (level, index) is bit leaves / 2^level +
 * index, as in a heap: the root is bit 1, leaf i is bit leaves + i. */
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

/* Adds the leaves [first, end). */
void tree_add_leaves(struct tree_leaves *s, uint32_t first, uint32_t end);
/* Returns whether the set has all leaves of [first, end). */
bool tree_has_leaves(const struct tree_leaves *s, uint32_t first, uint32_t end);
uint32_t tree_count_leaves(const struct tree_leaves *s);

/* tree_pack writes the set as bytes, bit i in byte i / 8, and returns their number. tree_unpack reads them. Errors:
 * ERR_PROTO if the number of bytes does not match, or a bit beyond n_bits is set. */
size_t tree_pack(const uint64_t *bits, uint32_t n_bits, uint8_t *out);
enum err tree_unpack(uint64_t *bits, uint32_t n_bits, const uint8_t *in, size_t bytes) MUST_CHECK;

/* The values of some nodes. They cover each leaf of the root at most once; a leaf that none covers is absent. */
struct tree_values {
    uint32_t nodes;
    const struct tree_node *node;
    const float *const *value; /* (n) floats each */
};

/* Returns the sum over root's leaves, in the tree's order, of elements [at, at + n). `scratch` has n *
 * TREE_LEVELS_MAX floats. If root itself is among the nodes, the result is its own memory, without a copy;
 * otherwise it is in `scratch`. An absent leaf is skipped, not added as 0. NULL: all leaves are absent. */
const float *tree_sum(const struct tree_values *v, struct tree_node root, size_t at, size_t n,
                      float *scratch);

/* Same for doubles: node i has k values at sums[i * k]; writes k values to `out`. Returns false, with `out`
 * unchanged, if all leaves are absent. */
bool tree_sum_doubles(const struct tree_node *node, uint32_t nodes, const double *sums, uint32_t k,
                      struct tree_node root, double *out);
