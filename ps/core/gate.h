/* The sync gate: which nodes of the step's tree are there, chunk by chunk. A chunk is complete when all leaves are;
 * whoever sent them and in whatever order, its sum has the same bits. Pure: no I/O, no clock, no locks. */
#ifndef GRADWIRE_PS_CORE_GATE_H
#define GRADWIRE_PS_CORE_GATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/buffer.h"
#include "common/parameters/tree.h"

enum { GATE_SUMS_MAX = 1 + SUMS_MAX };

struct gate_node {
    struct tree_node node;
    uint32_t examples;
    struct buffer *run;           /* holds value's memory; a reference is the gate's */
    const float *value;           /* the chunk's elements in it */
    double sums[GATE_SUMS_MAX];   /* loss, metrics */
    uint32_t worker;              /* who sent it */
    uint64_t incarnation, number; /* error feedback: which of its pushes */
};

struct gate_chunk {
    uint32_t nodes;
    bool picked;
    struct tree_leaves there;
    struct gate_node *node; /* room for one of each leaf; where it picks, of each node */
};

/* Where backup workers are, a step is made of some leaves, which are picked when it is decided: until then every node is
 * kept as it came, since one that covers more than what is picked is of no use. A chunk has a node that came, or whose
 * two halves it has. */
struct gate_pick {
    struct tree_nodes *has;  /* of each chunk */
    uint32_t *chunks;        /* of each node: so many have it */
    struct tree_nodes whole; /* nodes that all chunks have */
    uint32_t wholes;         /* how many */
};

struct gate {
    uint32_t leaves, chunks;
    struct gate_chunk *chunk;
    struct gate_node *nodes; /* all chunks' */
    bool picks;
    struct gate_pick pick;
};

enum gate_verdict {
    GATE_ADDED,
    /* Nothing changed: all of its leaves were there; where it picks: the node was, or the chunk is picked. */
    GATE_DUPLICATE,
};

/* leaves: a power of two up to TREE_LEAVES_MAX. Errors: ERR_NOMEM: *g is zeros. */
enum err gate_init(struct gate *g, uint32_t leaves, uint32_t chunks, bool picks) MUST_CHECK;
void gate_close(struct gate *g);

/* Take one node for one chunk. n->node is valid for `leaves` (tree_valid). On GATE_ADDED the gate holds a reference
 * to n->run of its own; nodes below the new one are dropped (the bits of their sum are the same), unless it picks. */
enum gate_verdict gate_admit(struct gate *g, uint32_t chunk, const struct gate_node *n);

/* Where it picks: are there nodes that cover exactly these leaves? */
bool gate_covers(const struct gate *g, uint32_t chunk, const struct tree_leaves *leaves);
/* Keep the fewest nodes that cover exactly these leaves, which gate_covers; the chunk is complete. */
void gate_pick(struct gate *g, uint32_t chunk, const struct tree_leaves *leaves);

/* All leaves are there; where it picks: they are picked. */
bool gate_complete(const struct gate *g, uint32_t chunk);

/* Σ examples over the chunk's nodes. */
uint64_t gate_examples(const struct gate *g, uint32_t chunk);

/* Forget the chunk's nodes. */
void gate_clear(struct gate *g, uint32_t chunk);

/* The nodes that are there are no worker's any more: incarnation 0. */
void gate_disown(struct gate *g);

/* Add the leaves that are missing from a chunk. */
void gate_add_missing(const struct gate *g, uint32_t chunk, struct tree_leaves *to);
/* Which leaves are missing from a chunk: the first of them, or `leaves`. For messages to people. */
uint32_t gate_first_missing(const struct gate *g, uint32_t chunk);

#endif
