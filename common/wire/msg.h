/* Small helpers around the protobuf-c messages of proto/gradwire.proto. */
#ifndef GRADWIRE_COMMON_WIRE_MSG_H
#define GRADWIRE_COMMON_WIRE_MSG_H

#include <stdbool.h>
#include <stdint.h>

#include "common/codec/codec.h"
#include "common/base/err.h"
#include "common/wire/frame.h"
#include "common/parameters/layout.h"
#include "common/math/optimizer.h"
#include "common/rows/row_layout.h"
#include "common/base/version.h"
#include "proto/gradwire.pb-c.h"

struct generation {
    uint64_t number, tag;
};

/* A message's field from a generation, and back (NULL is {0, 0}). */
Gradwire__Generation msg_generation(struct generation g);
struct generation msg_generation_get(const Gradwire__Generation *g);
bool generation_equal(struct generation a, struct generation b);

/* The same of a codec's cost; NULL is none. */
Gradwire__CodecCost msg_codec_cost(const struct codec_cost *c);
struct codec_cost msg_codec_cost_get(const Gradwire__CodecCost *m);

/* The descriptor of a frame type's head; NULL for an unknown type. */
const ProtobufCMessageDescriptor *msg_descriptor(uint32_t type);

/* Unpack a head. NULL if it does not parse; free with msg_free. */
ProtobufCMessage *msg_unpack(uint16_t type, const uint8_t *head, size_t bytes);
void msg_free(void *message); /* any message of protobuf-c, or NULL */

/* A deep copy, by packing; NULL without memory. */
ProtobufCMessage *msg_copy(const ProtobufCMessage *m);

/* The settings' optimizer <-> the job's; msg_optimizer_set borrows *o's lists. Errors: ERR_PROTO for one, or a number of it, that is not known here; *o is
 * then unchanged. */
void msg_optimizer_set(Gradwire__Settings *m, const struct optimizer *o);
enum err msg_optimizer_get(const Gradwire__Settings *m, struct optimizer *o,
                           struct errmsg *e) MUST_CHECK;

/* The settings to keep: without the lists, which are the message's. */
Gradwire__Settings msg_settings(const Gradwire__Settings *m);

/* Plan's tensors and tables <-> layout. msg_layout_get checks what a peer sent: offsets ascend, sizes fit.
 * Errors: ERR_PROTO, ERR_NOMEM. */
enum err msg_layout_get(const Gradwire__Plan *p, struct layout *l, struct errmsg *e) MUST_CHECK;
/* Owns: *p is filled with memory of its own, msg_plan_close. */
enum err msg_plan_set(Gradwire__Plan *p, const struct layout *l, const uint32_t *threads,
                      uint32_t ps) MUST_CHECK;
void msg_plan_close(Gradwire__Plan *p);
/* How rows travel, of each of the plan's tables. Errors: ERR_PROTO: there is no such way; *codecs is as it was. */
enum err msg_row_codecs_get(const Gradwire__Plan *p, struct row_codecs *codecs) MUST_CHECK;

#endif
