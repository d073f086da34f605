/* A task's microbatches, from the request for their rows until they are computed: with tables the keys of a step
 * must be known before its parameters arrive. Two such batches are enough: the running task, and the likely next
 * one. */
#ifndef GRADWIRE_WORKER_STEP_BATCH_H
#define GRADWIRE_WORKER_STEP_BATCH_H

#include "common/rows/row_values.h"
#include "worker/core/session.h"
#include "data/source.h"

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

#endif
