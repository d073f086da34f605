/* The gradient of one task: this worker's leaves of a step (or a whole batch in async), computed on all threads,
 * summed by the fixed tree while it is warm, and handed over range by range, last layer first.
 *
 * Each thread takes a contiguous share of the leaves, and covers it with as few nodes (pieces) as there are; leaves of
 * a piece are folded into it as backward produces them. The caller's thread then joins the pieces of all threads into
 * the nodes that travel. Whatever the split, the order of sums is the tree's, so the bits are the same. */
#ifndef GRADWIRE_WORKER_STEP_GRADIENT_H
#define GRADWIRE_WORKER_STEP_GRADIENT_H

#include <stdint.h>

#include "common/parameters/tree.h"
#include "worker/data/dataset.h"
#include "worker/model/model.h"
#include "common/math/pool.h"
#include "worker/core/session.h"

enum { GRADIENT_NODES_MAX = 2 * TREE_LEVELS_MAX * TREE_LEVELS_MAX };

struct gradient_node {
    struct tree_node node;
    uint32_t number; /* among the task's nodes */
    uint32_t examples;
    struct model_sums sums; /* valid when the task is computed */
    float *value;           /* (elems of the flat block); valid until the next task */
    uint64_t sent_from;     /* elements from here on were handed over */
    bool clipped;           /* async: its caller has scaled it down */
};

struct gradient;

/* Buffers for batches of up to `rows` rows a leaf, on the pool's threads. The rest is the caller's and outlives it. */
enum err gradient_new(struct gradient **g, const struct model *model, struct pool *pool,
                      struct loader *loader, uint32_t rows, uint64_t seed,
                      struct errmsg *e) MUST_CHECK;
void gradient_free(struct gradient *g);

/* Elements [from, to) of node `n` are final: they may be sent. Ranges of a node come from the end of the block to its
 * beginning, without gaps. Thread: the caller's. n->examples and n->sums are valid: every leaf of the
 * node is through its forward pass by then. */
typedef void gradient_range(void *ctx, struct gradient_node *n, uint64_t from, uint64_t to);

/* Compute the task with parameters w (the whole flat block). Errors: ERR_NOMEM; ERR_DISK the data cannot be read any more;
 * ERR_INPUT they cannot be (model_run_fault). The microbatch's gradient was not handed over. */
enum err gradient_compute(struct gradient *g, const struct session_task *task, const float *w,
                          gradient_range *ready, void *ctx, struct errmsg *e) MUST_CHECK;

/* The nodes of the last task. */
struct gradient_node *gradient_nodes(struct gradient *g, uint32_t *n);
/* Loss and metric sums over all of the task's leaves. */
struct model_sums gradient_sums(const struct gradient *g);

#endif
