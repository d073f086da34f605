/* Conversions between our types and the protobuf-c messages of proto/gradwire.proto. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/base/err.h"
#include "common/base/version.h"
#include "common/codec/codec.h"
#include "common/math/optimizer.h"
#include "common/parameters/layout.h"
#include "common/parameters/staleness.h"
#include "common/rows/row_layout.h"
#include "common/wire/frame.h"
#include "proto/gradwire.pb-c.h"

/* The random tag distinguishes generations with the same number that different chiefs started. */
struct generation {
    uint64_t number, tag;
};

/* A generation as a message field, and back; NULL becomes {0, 0}. */
Gradwire__Generation msg_generation(struct generation g);
struct generation msg_generation_get(const Gradwire__Generation *g);
bool generation_equal(struct generation a, struct generation b);

/* A codec's costs as a message field, and back; NULL becomes zeros. */
Gradwire__CodecCost msg_codec_cost(const struct codec_cost *c);
struct codec_cost msg_codec_cost_get(const Gradwire__CodecCost *m);
struct staleness msg_staleness_get(const Gradwire__WorkerStaleness *m);

/* Returns the descriptor of a frame type's head; NULL for an unknown type. */
const ProtobufCMessageDescriptor *msg_descriptor(uint32_t type);

/* Unpacks a head. Returns NULL if the type is unknown, the head does not parse, or memory runs out. Free with
 * msg_free. */
ProtobufCMessage *msg_unpack(uint16_t type, const uint8_t *head, size_t bytes);
void msg_free(void *message); /* any protobuf-c message, or NULL */

/* Returns a deep copy, made by packing and unpacking; NULL if memory runs out. Free with msg_free. */
ProtobufCMessage *msg_copy(const ProtobufCMessage *m);

/* The optimizer in the chief's settings, and back. msg_optimizer_set borrows *o's lists. msg_optimizer_get leaves
 * *o unchanged on error. Errors: ERR_PROTO if the optimizer is unknown or one of its values is out of range. */
void msg_optimizer_set(Gradwire__Settings *m, const struct optimizer *o);
enum err msg_optimizer_get(const Gradwire__Settings *m, struct optimizer *o,
                           struct errmsg *e) MUST_CHECK;

/* Returns a copy that can outlive the message: without its lists, which belong to the message. */
Gradwire__Settings msg_settings(const Gradwire__Settings *m);

/* Reads the layout, tensors and tables, from a peer's plan and checks it: offsets must ascend, sizes must fit. The
 * caller owns *l: layout_close. *l is unchanged on error. Errors: ERR_PROTO, ERR_NOMEM. */
enum err msg_layout_get(const Gradwire__Plan *p, struct layout *l, struct errmsg *e) MUST_CHECK;
/* Fills *p with copies: free with msg_plan_close. threads[i] is the number of shards of ps i, of `ps` in all. Errors:
 * ERR_NOMEM; *p is then empty. */
enum err msg_plan_set(Gradwire__Plan *p, const struct layout *l, const uint32_t *threads,
                      uint32_t ps) MUST_CHECK;
void msg_plan_close(Gradwire__Plan *p);
/* Reads the row codecs of each of the plan's tables. *codecs is unchanged on error. Errors: ERR_PROTO if one is
 * unknown, or int8 for replies. */
enum err msg_row_codecs_get(const Gradwire__Plan *p, struct row_codecs *codecs) MUST_CHECK;

/* The number of a worker in messages is worker_id of common/cluster/cluster.h. With a separate chief it is one above the
 * number that users give the worker. */

enum { WORKER_NAME_BYTES = 24 };

/* Writes and returns how texts for users name this worker: "worker 1", "the chief". Any number is allowed. */
const char *worker_name(char out[WORKER_NAME_BYTES], uint32_t worker, bool separate_chief);
