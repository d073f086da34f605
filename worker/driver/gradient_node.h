/* A node of the tree of sums with its gradient: the unit that a worker pushes. */
#pragma once

#include "common/parameters/sums.h"
#include "common/parameters/tree.h"
#include "common/rows/row_sums.h"
#include "common/rows/row_values.h"

enum { GRADIENT_NODES_MAX = 2 * TREE_LEVELS_MAX * TREE_LEVELS_MAX };

struct gradient_node {
    struct tree_node node;
    uint32_t number; /* its index among the task's nodes */
    uint32_t examples;
    struct sums sums;   /* valid when the task is computed */
    float *value;       /* (elems of the flat block); valid until the next task */
    uint64_t sent_from; /* elements from here on have been handed over */
    bool clipped;       /* async: the caller has scaled it down */
    /* tables: valid when the task is computed, for as long as `value`; NULL: none */
    struct row_sums *rows;
    /* metrics.progressive: valid with the range that begins at element 0, for as long as `value`; NULL: none */
    const uint8_t *marks;
    /* tables: the request for the task's rows; the keys of `rows` are among its keys */
    const struct row_values *asked;
};

/* Elements [from, to) of node `n` are final and can be sent. The ranges of a node come from the end of the block to
 * its beginning, without gaps. n->examples and n->sums are valid: every leaf of the node has finished its forward
 * pass. Thread: the caller's. */
typedef void gradient_range(void *ctx, struct gradient_node *n, uint64_t from, uint64_t to);
