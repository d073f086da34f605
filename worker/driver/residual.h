/* Error feedback: what a lossy codec did not send of this worker's pushes, and adds to its next ones (docs/explanation/semantics.md,
 * "Top-k"). Pure, but for the memory that it keeps.
 *
 * A push sends C(p) of p = g + e. As long as its outcome is not known, p - D(C(p)) and the e that is in p are kept with
 * it, and e is 0: so what is on its way is never sent twice. Taken, p - D(C(p)) is what is left; not taken (rejected,
 * dropped, a duplicate of another worker's), the e that was in it comes back. Chunk by chunk.
 *
 * Pushes are sums over examples, and the update divides by those of the whole step: so e has a weight, the examples of
 * the step that it was left by, and counts in another step by the ratio of the two. */
#ifndef GRADWIRE_WORKER_DRIVER_RESIDUAL_H
#define GRADWIRE_WORKER_DRIVER_RESIDUAL_H

#include <stdbool.h>
#include <stdint.h>

#include "common/codec/codec.h"
#include "common/parameters/plan.h"
#include "common/parameters/tree.h"

/* Whose push it is: async has no nodes, and remainders beside batches. */
struct residual_name {
    uint64_t name;
    struct tree_node node;
    bool remainder;
};

/* How a run travels; its body stands where its elements would. */
struct residual_run {
    bool made;
    uint32_t chunks;
    enum codec codec;
    uint64_t bytes;
};

/* A push whose outcome is not known, or the last one that was made. */
struct residual_push {
    struct residual_push *next;
    struct residual_name name;
    uint64_t number;          /* counts pushes */
    uint32_t open;            /* chunks that wait for their outcome */
    bool *waits;              /* (chunks) */
    double *weight, *carries; /* (chunks) of what is left, and of the e that is in it; 0: nothing */
    float *left, *carried;    /* (elems) */
    float *body;              /* (elems) */
    struct residual_run *run; /* (chunks) by its first chunk */
};

struct residual {
    const struct plan *plan;
    float *e;       /* (elems) */
    double *weight; /* (chunks) 0: nothing is withheld there */
    uint64_t numbers;
    struct residual_push *pushes; /* that are kept */
};

/* The plan is borrowed. Errors: ERR_NOMEM. */
enum err residual_new(struct residual **r, const struct plan *plan) MUST_CHECK;
void residual_free(struct residual *r);

/* The push of this name: the one that is kept, or a new one. NULL: no memory. Valid until another name is asked for after
 * all of it is settled. */
struct residual_push *residual_push(struct residual *r, const struct residual_name *name);

/* A run of a push is about to be made: fills push->left there with p = g + e. The step's examples are `weight`; 0: nothing
 * is carried (a push without examples is not applied). */
void residual_carry(struct residual *r, struct residual_push *push, uint32_t first, uint32_t chunks,
                    const float *g, double weight);
/* It travels as `sent`, decoded: what is left is the rest. */
void residual_sent(struct residual *r, struct residual_push *push, uint32_t first, uint32_t chunks,
                   const float *sent, double weight);
/* It travels without e (it is not finite): e comes back, and nothing is left. */
void residual_give_back(struct residual *r, struct residual_push *push, uint32_t first,
                        uint32_t chunks);

/* The outcome of a push's chunk; one that has its outcome already, or was never made, is left alone. */
void residual_settle(struct residual *r, struct residual_push *push, uint32_t chunk, bool taken);

/* Is anything withheld, or may be once outcomes are known? */
bool residual_any(const struct residual *r);

#endif
