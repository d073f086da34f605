/* Encodes this worker's gradients. Each range is encoded once per task, into memory that stays until the next one,
 * so that it can be sent from there, and sent again. The bytes are a function of (seed, name of the push, elements),
 * so another worker that repeats a push sends the same bytes. With top-k the parts that are not sent are kept, and
 * sent later (worker/driver/residual.h); then the encoded bytes are kept too. */
#ifndef GRADWIRE_WORKER_DRIVER_PUSH_CODEC_H
#define GRADWIRE_WORKER_DRIVER_PUSH_CODEC_H

#include "common/codec/codec.h"
#include "worker/driver/gradient_node.h"
#include "worker/core/session.h"

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

#endif
