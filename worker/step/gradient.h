/* The gradient of one task: this worker's leaves of a step (in async a whole batch), computed on all threads, summed
 * by the fixed tree while it is in the cache, and handed over range by range, last layer first.
 *
 * Each thread takes a contiguous share of the leaves and covers it with as few nodes (pieces) as possible; the
 * leaves of a piece are added into it as backward produces them. The caller's thread then joins the pieces of all
 * threads into the nodes that are sent. The order of sums is always the tree's, so the bits do not depend on the
 * split. */
#pragma once

#include <stdint.h>

#include "data/source.h"
#include "model/model.h"
#include "common/math/pool.h"
#include "worker/core/session.h"
#include "worker/driver/gradient_node.h"
#include "common/rows/row_values.h"

/* A task's microbatches, from the request for their rows until they are computed: with tables the keys of a step
 * must be known before its parameters arrive. Two such batches are enough: the running task, and the likely next
 * one. */

struct batch {
    bool there;
    struct session_task task;
    uint32_t leaves;
    uint32_t leaf[TREE_LEAVES_MAX];
    struct leaf microbatch[TREE_LEAVES_MAX]; /* of each leaf, borrowed from the loader */
    struct row_values rows;
};

/* An empty batch. The layout is borrowed; NULL: the model has no tables. */
void batch_init(struct batch *b, const struct row_layout *layout);
/* Return the microbatches to the loader. */
void batch_release(struct batch *b, struct loader *l);
void batch_close(struct batch *b);

/* Take the task's microbatches, in place of the earlier ones, and gather their keys. Errors: as loader_get,
 * ERR_NOMEM; the batch is then empty. */
enum err batch_take(struct batch *b, struct loader *l, const struct session_task *task,
                    struct errmsg *e) MUST_CHECK;
/* True if the batch has exactly the leaves of this task. */
bool batch_is(const struct batch *b, const struct session_task *task);
/* Leaf `leaf` of the step; the batch must have it. */
const struct leaf *batch_leaf(const struct batch *b, uint32_t leaf);

struct gradient;

/* Make buffers for leaves of up to `rows` rows, on the pool's threads. The other arguments are the caller's and
 * outlive it. `by`: metrics.by; NULL: none. */
enum err gradient_new(struct gradient **g, const struct model *model, struct pool *pool,
                      struct loader *loader, const struct row_slices *by, uint32_t rows,
                      uint64_t seed, struct errmsg *e) MUST_CHECK;
void gradient_free(struct gradient *g);

/* Compute the task with parameters w (the whole flat block). `batch`: with tables its microbatches and their rows;
 * NULL without tables: they are taken from the loader. Errors: ERR_NOMEM; ERR_DISK: the data cannot be read any
 * more; ERR_INPUT: the data are invalid (model_run_fault). The gradient of that microbatch is not handed over. */
enum err gradient_compute(struct gradient *g, const struct session_task *task, const float *w,
                          const struct batch *batch, gradient_range *ready, void *ctx,
                          struct errmsg *e) MUST_CHECK;

/* The nodes of the last task. */
struct gradient_node *gradient_nodes(struct gradient *g, uint32_t *n);
/* Loss and metric sums over all of the task's leaves. */
struct sums gradient_sums(const struct gradient *g);
