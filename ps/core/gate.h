/* The sync gate: keeps, for each chunk, the nodes of the step's tree that have arrived. A chunk is complete when all of its
 * leaves have arrived. Its sum has the same bits for any senders and any order of arrival. Pure: no I/O, no clock, no
 * locks. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/buffer.h"
#include "common/parameters/tree.h"

enum { GATE_SUMS_MAX = 1 + SUMS_MAX };

struct gate_node {
    struct tree_node node;
    uint32_t examples;
    struct buffer *run;         /* owns the memory of `value`; NULL: the caller does */
    const float *value;         /* the chunk's elements */
    double sums[GATE_SUMS_MAX]; /* loss, metrics */
    uint8_t *marks;  /* bins.h; NULL: none. On GATE_ADDED they are the gate's, which frees them */
    uint32_t worker; /* the sender */
    uint64_t incarnation, number; /* error feedback: the sender's push */
};

struct gate_chunk {
    uint32_t nodes;
    bool picked;
    struct tree_leaves there;
    struct gate_node *node; /* room for one per leaf; if the gate picks, one per node */
};

/* With backup workers the chief picks some leaves for each step. Until the chief has decided, the gate keeps a node
 * even if a larger node above it arrives: a node with a leaf that is not picked cannot be used, but its halves perhaps
 * can. A chunk "has" a node if the node arrived, or if the chunk has both halves of it. */
struct gate_pick {
    struct tree_nodes *has;  /* the nodes that each chunk has */
    uint32_t *chunks;        /* for each node, the number of chunks that have it */
    struct tree_nodes whole; /* nodes that all chunks have */
    uint32_t wholes;         /* how many */
};

struct gate {
    uint32_t leaves, chunks;
    struct gate_chunk *chunk;
    struct gate_node *nodes; /* of all chunks */
    bool picks;
    struct gate_pick pick;
};

enum gate_verdict {
    GATE_ADDED,
    /* Nothing changed: all leaves of the node had already arrived. If the gate picks: the node itself had arrived or
     * both halves of it, or the chunk is already picked. */
    GATE_DUPLICATE,
};

/* leaves: a power of two up to TREE_LEAVES_MAX. picks: with backup workers. Errors: ERR_NOMEM: *g is zeros. */
enum err gate_init(struct gate *g, uint32_t leaves, uint32_t chunks, bool picks) MUST_CHECK;
void gate_close(struct gate *g);

/* Add one node of one chunk. n->node is valid for `leaves` (tree_valid). On GATE_ADDED the gate holds its own reference to
 * n->run. Unless the gate picks, it then drops the nodes below the new one, whose sum has the same bits. */
enum gate_verdict gate_admit(struct gate *g, uint32_t chunk, const struct gate_node *n);

/* Only if the gate picks: true if the chunk has nodes that cover exactly these leaves. */
bool gate_covers(const struct gate *g, uint32_t chunk, const struct tree_leaves *leaves);
/* Keep the fewest nodes that cover exactly these leaves; the chunk is then complete. Only if gate_covers is true. */
void gate_pick(struct gate *g, uint32_t chunk, const struct tree_leaves *leaves);

/* True: all leaves of the chunk have arrived; if the gate picks: gate_pick was called for the chunk. */
bool gate_complete(const struct gate *g, uint32_t chunk);

/* Σ examples over the chunk's nodes. */
uint64_t gate_examples(const struct gate *g, uint32_t chunk);

/* Forget the chunk's nodes. */
void gate_clear(struct gate *g, uint32_t chunk);

/* Set the incarnation of all nodes to 0, so that they belong to no worker. */
void gate_disown(struct gate *g);

/* Add the leaves that a chunk lacks to *to. */
void gate_add_missing(const struct gate *g, uint32_t chunk, struct tree_leaves *to);
/* The first leaf that a chunk lacks, or `leaves` if it lacks none. For messages to people. */
uint32_t gate_first_missing(const struct gate *g, uint32_t chunk);
