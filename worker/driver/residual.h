/* Error feedback: the parts of this worker's pushes that a lossy codec did not send, and that are added to its next
 * pushes (docs/explanation/semantics.md, "Top-k"). Pure, except for its memory.
 *
 * g is the gradient, e is what is withheld so far, C encodes and D decodes. A push sends C(p) of p = g + e. Until the
 * outcome of the push is known, p - D(C(p)) and the e that is in p are kept with the push, and e is 0, so nothing is
 * sent twice. If the push is taken, e grows by p - D(C(p)). If it is not taken (rejected, dropped, a duplicate of
 * another worker's push), e grows by the e that was in p. All this is done chunk by chunk.
 *
 * Pushes are sums over examples, and the update divides by the examples of the whole step. So e has a weight, the
 * number of examples of the step that left it, and in another step it is scaled by the ratio of the two numbers. */
#ifndef GRADWIRE_WORKER_DRIVER_RESIDUAL_H
#define GRADWIRE_WORKER_DRIVER_RESIDUAL_H

#include <stdbool.h>
#include <stdint.h>

#include "common/codec/codec.h"
#include "common/parameters/plan.h"
#include "common/parameters/tree.h"

/* The name of a push. In async a push has no node; `remainder` separates a remainder from a batch. */
struct residual_name {
    uint64_t name;
    struct tree_node node;
    bool remainder;
};

/* A range as it is sent; its body is at the position of its elements. */
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
    uint64_t number; /* a counter of pushes */
    uint32_t open;   /* number of chunks without an outcome */
    bool *waits;     /* (chunks) the chunk has no outcome */
    /* (chunks) the weight of what is left, and of the e in it; 0: nothing */
    double *weight, *carries;
    float *left, *carried;    /* (elems) */
    float *body;              /* (elems) */
    struct residual_run *run; /* (chunks) at the index of its first chunk */
};

struct residual {
    const struct plan *plan;
    float *e;       /* (elems) */
    double *weight; /* (chunks) 0: nothing is withheld there */
    uint64_t numbers;
    struct residual_push *pushes; /* pushes that are kept */
};

/* The plan is borrowed. Errors: ERR_NOMEM. */
enum err residual_new(struct residual **r, const struct plan *plan) MUST_CHECK;
void residual_free(struct residual *r);

/* The push of this name: the one that is kept, or a new one. NULL: no memory. Valid until another name is requested
 * after all its chunks have an outcome. */
struct residual_push *residual_push(struct residual *r, const struct residual_name *name);

/* A range of a push is about to be encoded: sets push->left there to p = g + e. `weight`: the step's examples; 0: e
 * is not added, because a push without examples is not applied. */
void residual_carry(struct residual *r, struct residual_push *push, uint32_t first, uint32_t chunks,
                    const float *g, double weight);
/* The range is sent as `sent`, decoded: what is left is the difference. */
void residual_sent(struct residual *r, struct residual_push *push, uint32_t first, uint32_t chunks,
                   const float *sent, double weight);
/* The range is sent without e (its gradient is not finite): e comes back, and nothing is left. */
void residual_give_back(struct residual *r, struct residual_push *push, uint32_t first,
                        uint32_t chunks);

/* The outcome of a push's chunk. Does nothing for a chunk that has its outcome already, or was never made. */
void residual_settle(struct residual *r, struct residual_push *push, uint32_t chunk, bool taken);

/* True if something is withheld, or may be once outcomes are known. */
bool residual_any(const struct residual *r);

#endif
