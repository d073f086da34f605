/* How this worker's gradients travel: each run is encoded once per task into memory that stays until the next one, so
 * that it can be sent from where it stands, and again. The bytes are a function of (seed, name of the push, elements),
 * so whoever sends a push again sends the same. */
#ifndef GRADWIRE_WORKER_PUSH_CODEC_H
#define GRADWIRE_WORKER_PUSH_CODEC_H

#include "common/codec.h"
#include "worker/gradient.h"
#include "worker/session.h"

struct push_codec;

/* The layout is borrowed. Errors: ERR_NOMEM. */
enum err push_codec_new(struct push_codec **p, const struct layout *layout) MUST_CHECK;
void push_codec_free(struct push_codec *p);

/* The session has a new generation, perhaps with another plan and other settings. Errors: ERR_NOMEM. */
enum err push_codec_restart(struct push_codec *p, const struct session *s) MUST_CHECK;

/* A task begins: where codecs are chosen, this decides each shard's until the next one, by what its connection has done
 * so far (conn NULL: there is none). */
struct conn;
void push_codec_begin(struct push_codec *p, uint32_t shard, const struct conn *conn);

/* The body of a run of `n` for a shard, chunks [first, first + chunks) of the running push `name`; it stays where it is
 * until the next task. *codec: how it is encoded, RAW where that is smaller.
 * Errors: ERR_INPUT the gradient is not finite, and this codec carries numbers only: *e names the tensor; ERR_NOMEM. */
enum err push_codec_run(struct push_codec *p, uint32_t shard, const struct gradient_node *n,
                        uint64_t name, uint32_t first, uint32_t chunks, enum codec *codec,
                        const void **body, uint64_t *bytes, struct errmsg *e) MUST_CHECK;

/* What it cost, over all generations. */
const struct codec_cost *push_codec_cost(const struct push_codec *p);

#endif
