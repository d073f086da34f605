/* Checks of a gradient or a loss that may not be finite. In async they run before any part of a batch's gradient is
 * sent; in sync the shards check, in the step commit (worker/chief/core/commit.c). */
#pragma once

#include "common/parameters/plan.h"
#include "worker/driver/gradient_node.h"

struct guard {
    const struct layout *layout;
    const struct plan *plan;
    float clip_norm; /* 0: off */
};

/* True if a value of the summed gradient, rows of tables included, is not finite or is absurdly large. `what` then
 * names the tensor, or the row's key and table. */
bool guard_finds(const struct guard *g, const struct gradient_node *n, char *what, size_t bytes);

/* A task's loss is not finite: describe that in `what`, and name the first broken tensor of the weights w (the flat
 * block), or else of the nodes' gradients, if there is one. */
void guard_blame(const struct guard *g, const float *w, const struct gradient_node *n,
                 uint32_t nodes, char *what, size_t bytes);

/* If the mean of a batch's gradients has a norm above `clip_norm`, scale the sum down to that norm; true if it was
 * scaled. The norm is summed from one double for each chunk, then one for each bucket of rows, in their order.
 * Statistics are not scaled. */
bool guard_clip(const struct guard *g, struct gradient_node *n);

/* Make it a batch without examples: every shard resolves it, and none learns from it. */
void guard_empty(const struct guard *g, struct gradient_node *n);
