/* Encodes this worker's gradients. Each range is encoded once per task, into memory that stays until the next one,
 * so that it can be sent from there, and sent again. The bytes are a function of (seed, name of the push, elements),
 * so another worker that repeats a push sends the same bytes. With top-k the parts that are not sent are kept, and
 * sent later (struct residual); then the encoded bytes are kept too. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/codec/codec.h"
#include "worker/driver/gradient_node.h"
#include "worker/core/session.h"
#include "common/parameters/plan.h"
#include "common/parameters/tree.h"
#include "common/wire/msg.h"

struct push_codec;

/* The layout is borrowed. Errors: ERR_NOMEM. */
enum err push_codec_new(struct push_codec **p, const struct layout *layout) MUST_CHECK;
void push_codec_free(struct push_codec *p);

/* A new generation, perhaps with another plan and other settings. The terms are borrowed. Errors: ERR_NOMEM. */
enum err push_codec_restart(struct push_codec *p, const struct session_terms *terms) MUST_CHECK;

/* The push that the running task's ranges are part of. */
struct push_task {
    uint64_t name;
    bool remainder; /* top-k: it has only what was withheld, and no batch */
    bool whole;     /* top-k: it withholds nothing */
    double weight;  /* sync: the number of rows of the step's batch */
};
void push_codec_task(struct push_codec *p, const struct push_task *task);

/* A task begins. If codecs are chosen automatically, this decides the shard's codec until the next task, by the
 * speed of its connection so far (conn NULL: no connection). */
struct conn;
void push_codec_begin(struct push_codec *p, uint32_t shard, const struct conn *conn);
/* The whole task is written to that connection. */
void push_codec_sent(struct push_codec *p, uint32_t shard, const struct conn *conn);

/* The encoded form of a range. */
struct push_body {
    enum codec codec;
    const void *data;
    uint64_t bytes;
    uint64_t number; /* top-k: number of the push */
};

/* The encoded range of node `n` for a shard: chunks [first, first + chunks) of the running task. The data stay valid
 * until the next task; with top-k until the push's outcome is known. The codec is RAW if that is smaller, and in
 * sync if the gradient is not finite and a NaN guard will check it. Errors: ERR_INPUT: the gradient is not finite,
 * and this codec carries only finite numbers: *e names the tensor; ERR_NOMEM. */
enum err push_codec_run(struct push_codec *p, uint32_t shard, const struct gradient_node *n,
                        uint32_t first, uint32_t chunks, struct push_body *body,
                        struct errmsg *e) MUST_CHECK;

/* A reply of this generation; with top-k it reports the outcome of pushes. Call before session_on_reply. */
void push_codec_answered(struct push_codec *p, const Gradwire__Reply *m);
/* Top-k: true if something is withheld; false with other codecs. */
bool push_codec_withholds(const struct push_codec *p);
struct residual;
/* NULL: this codec keeps none */
const struct residual *push_codec_residual(const struct push_codec *p);

/* The codec of this shard's pushes; if codecs are chosen automatically, the best one now. */
enum codec push_codec_in_use(const struct push_codec *p, uint32_t shard);
/* The cost of encoding, over all generations. */
const struct codec_cost *push_codec_cost(const struct push_codec *p);

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

/* The push of this name: the one that is kept, or a new one. NULL: no memory. Valid until another name is requested
 * after all its chunks have an outcome. */
struct residual_push *residual_push(struct residual *r, const struct residual_name *name);

/* Decodes parameters of replies into the flat block. Pure, except for the coder's memory. */

/* Decode the body of a reply that session_reply_fits has accepted and wants, and whose codec is not RAW, into the
 * flat block w; a difference is added to it. Errors: ERR_PROTO: the body cannot be decoded: close the connection;
 * the next one begins with the whole parameters; ERR_NOMEM. */
enum err reply_codec_store(struct coder *coder, const struct codec_shape *shape,
                           const Gradwire__Reply *m, const void *in, uint64_t bytes,
                           float *w) MUST_CHECK;
