/* What a worker does where a gradient, or a loss, is not as it should be. Async: with a batch's gradient before anything of
 * it leaves; in sync the shards see to it, in the step commit (worker/chief/core/commit.c). */
#ifndef GRADWIRE_WORKER_DRIVER_GUARD_H
#define GRADWIRE_WORKER_DRIVER_GUARD_H

#include "common/parameters/plan.h"
#include "worker/driver/gradient_node.h"

struct guard {
    const struct layout *layout;
    const struct plan *plan;
    float clip_norm; /* 0: off */
};

/* Something of the summed gradient, rows of tables too, is not finite, or absurdly large: in words, with the tensor's name,
 * or the row's key and table. */
bool guard_finds(const struct guard *g, const struct gradient_node *n, char *what, size_t bytes);

/* A task's loss is not finite: in words, with the first tensor that is not as it should be, of the weights w (the flat
 * block) or else of the nodes' gradients; without one, if all are finite. */
void guard_blame(const struct guard *g, const float *w, const struct gradient_node *n,
                 uint32_t nodes, char *what, size_t bytes);

/* Scale the sum of a batch's gradients down to the norm `clip_norm` of its mean; true if that was needed. The norm is
 * made of one double for each chunk, then of one for each bucket of rows, added in their order. Statistics stay as they
 * are. */
bool guard_clip(const struct guard *g, struct gradient_node *n);

/* Make it a batch without examples: resolved everywhere, and learned nowhere. */
void guard_empty(const struct guard *g, struct gradient_node *n);

#endif
