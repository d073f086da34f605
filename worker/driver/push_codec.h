/* How this worker's gradients travel: each run is encoded once per task into memory that stays until the next one, so
 * that it can be sent from where it stands, and again. The bytes are a function of (seed, name of the push, elements),
 * so whoever sends a push again sends the same. With top-k what is not
 * sent is kept, and sent later (worker/driver/residual.h): then the bytes are kept too. */
#ifndef GRADWIRE_WORKER_DRIVER_PUSH_CODEC_H
#define GRADWIRE_WORKER_DRIVER_PUSH_CODEC_H

#include "common/codec/codec.h"
#include "worker/driver/gradient_node.h"
#include "worker/core/session.h"

struct push_codec;

/* The layout is borrowed. Errors: ERR_NOMEM. */
enum err push_codec_new(struct push_codec **p, const struct layout *layout) MUST_CHECK;
void push_codec_free(struct push_codec *p);

/* A new generation, perhaps with another plan and other settings; the terms are borrowed. Errors: ERR_NOMEM. */
enum err push_codec_restart(struct push_codec *p, const struct session_terms *terms) MUST_CHECK;

/* What the runs of the task at hand are part of. */
struct push_task {
    uint64_t name;
    bool remainder; /* top-k: of what was withheld, and of no batch */
    bool whole;     /* top-k: nothing of it is withheld */
    double weight;  /* sync: the rows of the step's batch */
};
void push_codec_task(struct push_codec *p, const struct push_task *task);

/* A task begins: where codecs are chosen, this decides each shard's until the next one, by what its connection has done
 * so far (conn NULL: there is none). */
struct conn;
void push_codec_begin(struct push_codec *p, uint32_t shard, const struct conn *conn);
/* All of the task is written to that connection. */
void push_codec_sent(struct push_codec *p, uint32_t shard, const struct conn *conn);

/* How a run travels. */
struct push_body {
    enum codec codec;
    const void *data;
    uint64_t bytes;
    uint64_t number; /* top-k: of the push */
};

/* The body of a run of `n` for a shard, chunks [first, first + chunks) of the running task; it stays where it is
 * until the next task, with top-k until its outcome is known. RAW where that is smaller, and
 * in sync where the gradient is not finite and a NaN guard looks at it.
 * Errors: ERR_INPUT the gradient is not finite, and this codec carries numbers only: *e names the tensor; ERR_NOMEM. */
enum err push_codec_run(struct push_codec *p, uint32_t shard, const struct gradient_node *n,
                        uint32_t first, uint32_t chunks, struct push_body *body,
                        struct errmsg *e) MUST_CHECK;

/* A reply of this generation: with top-k it says what became of pushes. Before session_on_reply. */
void push_codec_answered(struct push_codec *p, const Gradwire__Reply *m);
/* Top-k: something is withheld; false with other codecs. */
bool push_codec_withholds(const struct push_codec *p);
struct residual;
const struct residual *push_codec_residual(const struct push_codec *p); /* NULL: none is kept */

/* What this shard's pushes travel in; where codecs are chosen, the one that is the best now. */
enum codec push_codec_in_use(const struct push_codec *p, uint32_t shard);
/* What it cost, over all generations. */
const struct codec_cost *push_codec_cost(const struct push_codec *p);

#endif
