/* A frame: a header of 24 bytes (little-endian), perhaps checksums, a head, a body. proto/README.md defines it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

enum {
    FRAME_HEADER_BYTES = 24,
    FRAME_CHECKSUMS_BYTES = 12, /* behind the header of a frame with FRAME_FLAG_CRC */
    FRAME_VERSION = 1,
    FRAME_HEAD_MAX = 4 << 20, /* fits plans with many tensors, and sets of resolved ids */
    FRAME_FLAG_CRC = 1,       /* the frame has checksums */
};
#define FRAME_MAGIC UINT32_C(0x31575247) /* "GRW1" */
#define FRAME_BODY_MAX (UINT64_C(1) << 36)

/* The receivers of a frame. */
enum frame_to {
    FRAME_TO_ACCEPTOR = 1, /* start of a connection */
    FRAME_TO_DIALER = 2,   /* answer to it */
    FRAME_TO_PS = 4,
    FRAME_TO_SHARDS = 8, /* from the chief to all shards of a ps */
    FRAME_TO_SHARD = 16, /* from a worker to one shard */
    FRAME_TO_LINK = 32,  /* from a shard to a worker */
    FRAME_TO_WORKER = 64,
    FRAME_TO_CHIEF = 128,
};

/* The messages of proto/gradwire.proto, in its order: the frame's name, the message's name, its number, its
 * receivers. */
#define FRAME_TYPE_MAP(X)                                                                          \
    X(HELLO, hello, 1, FRAME_TO_ACCEPTOR)                                                          \
    X(HELLO_REPLY, hello_reply, 2, FRAME_TO_DIALER)                                                \
    X(REFUSE, refuse, 3, FRAME_TO_DIALER)                                                          \
    X(CHALLENGE, challenge, 4, FRAME_TO_DIALER)                                                    \
    X(ENTER, enter, 10, FRAME_TO_PS | FRAME_TO_SHARDS)                                             \
    X(ENTERED, entered, 11, FRAME_TO_CHIEF)                                                        \
    X(JOURNALED, journaled, 12, FRAME_TO_PS)                                                       \
    X(PUSH, push, 20, FRAME_TO_SHARD)                                                              \
    X(REPLY, reply, 21, FRAME_TO_LINK)                                                             \
    X(PULL, pull, 22, FRAME_TO_SHARD)                                                              \
    X(ROWS_ASK, rows_ask, 23, FRAME_TO_SHARD)                                                      \
    X(ROWS, rows, 24, FRAME_TO_LINK)                                                               \
    X(ROWS_PUSH, rows_push, 25, FRAME_TO_SHARD)                                                    \
    X(TICK, tick, 14, FRAME_TO_SHARD)                                                              \
    X(GONE, gone, 15, FRAME_TO_SHARDS)                                                             \
    X(WAIT_ASK, wait_ask, 16, FRAME_TO_SHARDS)                                                     \
    X(WAIT, wait, 17, FRAME_TO_CHIEF)                                                              \
    X(CUT, cut, 30, FRAME_TO_SHARDS)                                                               \
    X(CUT_STOPPED, cut_stopped, 31, FRAME_TO_CHIEF)                                                \
    X(CUT_AT, cut_at, 32, FRAME_TO_SHARDS)                                                         \
    X(CUT_COPIED, cut_copied, 33, FRAME_TO_CHIEF)                                                  \
    X(CUT_SAVED, cut_saved, 34, FRAME_TO_CHIEF)                                                    \
    X(CUT_ENDED, cut_ended, 35, FRAME_TO_SHARDS)                                                   \
    X(FENCE, fence, 36, FRAME_TO_PS)                                                               \
    X(FENCED, fenced, 37, FRAME_TO_CHIEF)                                                          \
    X(LEASE_NOTE, lease_note, 38, FRAME_TO_PS)                                                     \
    X(STEP_REPORT, step_report, 40, FRAME_TO_CHIEF)                                                \
    X(STEP_DECISION, step_decision, 41, FRAME_TO_SHARDS)                                           \
    X(STEP_ASK, step_ask, 42, FRAME_TO_SHARDS)                                                     \
    X(BATCH_REJECTED, batch_rejected, 43, FRAME_TO_CHIEF)                                          \
    X(WELCOME, welcome, 50, FRAME_TO_WORKER)                                                       \
    X(DEAL, deal, 51, FRAME_TO_WORKER)                                                             \
    X(LEASE_ASK, lease_ask, 52, FRAME_TO_CHIEF)                                                    \
    X(LEASE, lease, 53, FRAME_TO_WORKER)                                                           \
    X(HOLD, hold, 54, FRAME_TO_WORKER)                                                             \
    X(HELD, held, 55, FRAME_TO_CHIEF)                                                              \
    X(RESUME, resume, 56, FRAME_TO_WORKER)                                                         \
    X(GOING, going, 57, FRAME_TO_CHIEF)                                                            \
    X(LEAVE, leave, 58, FRAME_TO_PS | FRAME_TO_WORKER)                                             \
    X(DONE, done, 59, FRAME_TO_PS | FRAME_TO_WORKER)                                               \
    X(DONE_ACK, done_ack, 60, FRAME_TO_CHIEF)                                                      \
    X(VITALS, vitals, 61, FRAME_TO_CHIEF)                                                          \
    X(UNREACHED, unreached, 62, FRAME_TO_CHIEF)                                                    \
    X(PARK, park, 63, FRAME_TO_WORKER)                                                             \
    X(INDEX_DEAL, index_deal, 64, FRAME_TO_WORKER)                                                 \
    X(INDEX_PART, index_part, 65, FRAME_TO_CHIEF)                                                  \
    X(STORE_PUT, store_put, 70, FRAME_TO_CHIEF)                                                    \
    X(STORE_GET, store_get, 71, FRAME_TO_CHIEF)                                                    \
    X(STORE_ANSWER, store_answer, 72, FRAME_TO_PS)

enum frame_type {
#define X(name, message, number, to) FRAME_##name = number,
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

/* Whether a frame has checksums. Bits, of which a receiver takes one or both. */
enum frame_kind { FRAME_PLAIN = 1, FRAME_CHECKED = 2 };

/* The frames that a receiver takes. */
struct frame_limits {
    unsigned kinds; /* bits of enum frame_kind */
    uint32_t head_max;
    uint64_t body_max;
};

void frame_encode(uint8_t out[FRAME_HEADER_BYTES], const struct frame *f);

/* Decodes a header of FRAME_HEADER_BYTES bytes. *f is unchanged on error. Errors: ERR_PROTO wrong magic, version,
 * type or flags; ERR_TOOBIG a larger head or body. */
enum err frame_decode(struct frame *f, const uint8_t in[FRAME_HEADER_BYTES],
                      const struct frame_limits *limits) MUST_CHECK;

/* The CRC-32C of a frame's head and of its body. */
struct frame_checksums {
    uint32_t head, body;
};

/* Writes the checksums behind the header in `out`. `number`: how many such frames came before it in this direction. */
void frame_checksums_encode(uint8_t out[FRAME_HEADER_BYTES + FRAME_CHECKSUMS_BYTES],
                            const struct frame_checksums *sums, uint64_t number);
/* Errors: ERR_PROTO the header or the checksums are not what was sent, or another frame than this number; *sums is then
 * unchanged. */
enum err frame_checksums_decode(struct frame_checksums *sums,
                                const uint8_t in[FRAME_HEADER_BYTES + FRAME_CHECKSUMS_BYTES],
                                uint64_t number) MUST_CHECK;

/* Returns whether these bytes start a TLS record: a handshake or an alert. */
bool frame_is_tls(const uint8_t in[3]);

/* Writes why frame_decode refuses this header with the same limits ("magic 0x20544547, not a gradwire peer"). */
void frame_explain(const uint8_t in[FRAME_HEADER_BYTES], const struct frame_limits *limits,
                   char *out, size_t size);

/* Returns the name, such as "PUSH"; NULL for an unknown number. */
const char *frame_type_str(uint16_t type);
/* Returns bits of enum frame_to; 0 for an unknown number. */
unsigned frame_to(uint32_t type);
