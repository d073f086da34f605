/* A task's microbatches while its rows are asked for, and until it is computed: with tables the keys of a step must be
 * known before its parameters are there. Two are enough: the task at hand, and the one that is likely to be next. */
#ifndef GRADWIRE_WORKER_STEP_BATCH_H
#define GRADWIRE_WORKER_STEP_BATCH_H

#include "common/rows/row_values.h"
#include "worker/core/session.h"
#include "worker/data/dataset.h"

struct batch {
    bool there;
    struct session_task task;
    uint32_t leaves;
    uint32_t leaf[TREE_LEAVES_MAX];
    struct microbatch microbatch[TREE_LEAVES_MAX]; /* of each of them, borrowed from the loader */
    struct row_values rows;
};

void batch_init(struct batch *b, const struct row_layout *layout);
/* Give the microbatches back. */
void batch_release(struct batch *b, struct loader *l);
void batch_close(struct batch *b);

/* Take the task's microbatches, in the place of those it had, and gather their keys. Errors: as loader_get, ERR_NOMEM;
 * it is empty then. */
enum err batch_take(struct batch *b, struct loader *l, const struct session_task *task,
                    struct errmsg *e) MUST_CHECK;
/* It is of these leaves of this step or batch. */
bool batch_is(const struct batch *b, const struct session_task *task);
/* Leaf `leaf` of the step, which it has. */
const struct microbatch *batch_leaf(const struct batch *b, uint32_t leaf);

#endif
