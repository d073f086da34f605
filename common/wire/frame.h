/* The frame: 24 bytes of header (little-endian), a head, a body. proto/README.md is the authority.
 */
#ifndef GRADWIRE_COMMON_WIRE_FRAME_H
#define GRADWIRE_COMMON_WIRE_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

enum {
    FRAME_HEADER_BYTES = 24,
    FRAME_VERSION = 1,
    FRAME_HEAD_MAX = 4 << 20, /* plans with many tensors and resolved sets */
    FRAME_FLAG_CRC = 1, /* the body is followed by its CRC-32C, 4 bytes; refused until negotiated */
};
#define FRAME_MAGIC UINT32_C(0x31575247) /* "GRW1" */
#define FRAME_BODY_MAX (UINT64_C(1) << 36)

/* One per message of proto/gradwire.proto, in its order there. */
#define FRAME_TYPE_MAP(X)                                                                          \
    X(HELLO, 1)                                                                                    \
    X(HELLO_REPLY, 2)                                                                              \
    X(REFUSE, 3)                                                                                   \
    X(CHALLENGE, 4)                                                                                \
    X(ENTER, 10)                                                                                   \
    X(ENTERED, 11)                                                                                 \
    X(PUSH, 20)                                                                                    \
    X(REPLY, 21)                                                                                   \
    X(PULL, 22)                                                                                    \
    X(TICK, 14)                                                                                    \
    X(GONE, 15)                                                                                    \
    X(CUT, 30)                                                                                     \
    X(CUT_STOPPED, 31)                                                                             \
    X(CUT_AT, 32)                                                                                  \
    X(CUT_COPIED, 33)                                                                              \
    X(CUT_SAVED, 34)                                                                               \
    X(CUT_ENDED, 35)                                                                               \
    X(FENCE, 36)                                                                                   \
    X(FENCED, 37)                                                                                  \
    X(LEASE_NOTE, 38)                                                                              \
    X(STEP_REPORT, 40)                                                                             \
    X(STEP_DECISION, 41)                                                                           \
    X(STEP_ASK, 42)                                                                                \
    X(BATCH_REJECTED, 43)                                                                          \
    X(WELCOME, 50)                                                                                 \
    X(DEAL, 51)                                                                                    \
    X(LEASE_ASK, 52)                                                                               \
    X(LEASE, 53)                                                                                   \
    X(HOLD, 54)                                                                                    \
    X(HELD, 55)                                                                                    \
    X(RESUME, 56)                                                                                  \
    X(GOING, 57)                                                                                   \
    X(LEAVE, 58)                                                                                   \
    X(DONE, 59)                                                                                    \
    X(DONE_ACK, 60)                                                                                \
    X(STORE_PUT, 70)                                                                               \
    X(STORE_GET, 71)                                                                               \
    X(STORE_ANSWER, 72)

enum frame_type {
#define X(name, number) FRAME_##name = number,
    FRAME_TYPE_MAP(X)
#undef X
};

struct frame {
    uint16_t version;
    uint16_t type;
    uint32_t head_bytes;
    uint32_t flags;
    uint64_t body_bytes;
};

void frame_encode(uint8_t out[FRAME_HEADER_BYTES], const struct frame *f);

/* Decode one header from exactly FRAME_HEADER_BYTES bytes. *f is unchanged on error.
 * Errors: ERR_PROTO bad magic, version, type or flags; ERR_TOOBIG above `head_max` or `body_max`.
 */
enum err frame_decode(struct frame *f, const uint8_t in[FRAME_HEADER_BYTES], uint32_t head_max,
                      uint64_t body_max) MUST_CHECK;

/* Whether these bytes begin a record of TLS: a handshake, or an alert. */
bool frame_is_tls(const uint8_t in[3]);

/* The words for a header that frame_decode refuses with the same limits ("magic 0x20544547, not a
 * gradwire peer"). */
void frame_explain(const uint8_t in[FRAME_HEADER_BYTES], uint32_t head_max, uint64_t body_max,
                   char *out, size_t size);

/* "PUSH"; NULL for a number that has no message. */
const char *frame_type_str(uint16_t type);

#endif
