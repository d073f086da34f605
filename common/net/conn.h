/* A TCP connection that carries frames (proto/README.md), on an event loop.
 * Receiving: the 24 bytes of the header, then the head (a protobuf-c message of at most FRAME_HEAD_MAX bytes), then
 * the body. The body is read directly into memory that the owner names piece by piece.
 * Checksums: with conn_use_checksums on both sides, each frame has a CRC of its header, its head and its body. Header and
 * head are right when on_head is called, and the body when on_frame is called. Until then its memory may hold anything.
 * Sending: conn_send passes to the socket what it accepts, without copying, and queues the rest.
 * Failures: on a bad header or checksum, an oversized head or body, or an error from an owner's callback, the connection is
 * closed; on_close gets the reason, and a log line names the peer. A queue over its limit also closes the connection.
 * If a write fails, the connection first reads the peer's last frames (such as a refusal), then closes.
 * End: after conn_close, on_close is called at the end of the loop's tick, and then the connection is freed. So
 * conn_close is safe inside every callback. c stays valid until on_close returns, and the owner must stay valid as
 * long.
 * TLS (conn_secure): the handshake comes first, within TLS_HANDSHAKE_MS, and frames wait for it. The byte stream
 * is the same, split into records; small frames that wait share a record. If a peer's certificate or handshake is
 * refused, the connection ends with ERR_TLS: the accepting side logs the reason, and the peer gets an alert. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"
#include "common/wire/frame.h"
#include "common/net/loop.h"
#include "common/net/tls.h"

enum {
    CONN_QUEUE_MAX_FRAMES = 65536,
    CONN_QUEUE_MAX_BYTES = 256 << 20, /* copied bytes: heads, inline bodies, conn_copy_out */
    CONN_STAGE_BYTES = 16 << 10,      /* small frames are read in chunks of this size */
    CONN_PEEK_BYTES = 512,            /* read after a large frame: a header and most heads fit */
    /* a smaller body is queued as a copy, which costs less than an iovec of its own */
    CONN_INLINE_BYTES = 512,
    CONN_READ_BUDGET_BYTES =
        2 << 20, /* per readable event; then other connections get their turn */
    CONN_WRITE_BUDGET_BYTES = 4 << 20, /* per system call */
    CONN_CORK_MAX_BYTES = 256 << 10,   /* a corked queue longer than this is sent anyway */
    CONN_FINISH_MS = 2000,
    CONN_LOOK_MS = 1000, /* interval of the checks for a silent peer */
    /* The peer's host counts as gone if it has not responded for this long, even if timeouts.worker_rejoin_s is
     * shorter. TCP retransmits lost bytes after 0.2 s and doubles the delay each time: within 8 s it has tried
     * five times, so a network that loses packets does not end the connection. */
    CONN_SILENT_MS = 8000,
};

struct conn;
struct sockaddr;

struct conn_ops {
    /* The head is complete: f->head_bytes at `head`, valid during the call. The body follows, if any. An error
     * closes the connection with that reason. */
    enum err (*on_head)(struct conn *c, void *owner, const struct frame *f, const uint8_t *head);
    /* Names the memory for the next piece of the body: set *p and *bytes (1 to `left`). `at` bytes of the body
     * came before. Can be NULL if conn_limits allows no body. */
    enum err (*on_space)(struct conn *c, void *owner, uint64_t at, uint64_t left, void **p,
                         size_t *bytes);
    /* The piece is complete, but not checked yet. Can be NULL. */
    enum err (*on_piece)(struct conn *c, void *owner, void *p, size_t bytes);
    /* The frame is complete; also called for a frame without a body. Can be NULL. */
    enum err (*on_frame)(struct conn *c, void *owner);
    /* The connection is closed, by either side. This is the last callback, called once, at the end of the tick.
     * `why` is a text for the log, valid during the call. Also called if conn_dial could not connect. Can be NULL. */
    void (*on_close)(struct conn *c, void *owner, enum err code, const char *why);
    /* A connection from conn_dial is established. Can be NULL. */
    void (*on_open)(struct conn *c, void *owner);
    /* All bytes that had arrived are processed (the end of one readable event). Send replies here: then many small
     * frames cost one system call. Can be NULL. */
    void (*on_drained)(struct conn *c, void *owner);
    /* The queue is empty: bodies passed by reference are free for reuse. Not called if conn_send or conn_uncork
     * sent everything immediately; check with conn_idle. Can be NULL. */
    void (*on_idle)(struct conn *c, void *owner);
};

/* Counters for metrics and benchmarks. */
struct conn_stats {
    uint64_t in_bytes, out_bytes;
    uint64_t recv_calls, send_calls;
    uint64_t staged_body_bytes; /* body bytes copied once, through the stage */
    uint64_t copied_out_bytes;  /* by conn_copy_out */
};

/* Makes a connection from a connected socket, and sets its options (socket_tune). Takes fd, also on error. `peer` names
 * the peer in messages; it is copied. Errors: ERR_NOMEM. Thread: the loop's. */
enum err conn_new(struct conn **c, struct loop *l, int take_fd, const char *peer,
                  const struct conn_ops *ops, void *owner) MUST_CHECK;

/* Starts connecting to an IP address, without blocking (dial.h resolves names). conn_send can be called
 * immediately; frames leave when the connection is established. Errors: ERR_NOMEM; any other failure is reported
 * by on_close. */
enum err conn_dial(struct conn **c, struct loop *l, const struct sockaddr *addr,
                   unsigned addr_bytes, const char *peer, const struct conn_ops *ops,
                   void *owner) MUST_CHECK;

/* Makes the connection use TLS with the identity `t`. Call it directly after conn_new or conn_dial, before any
 * byte is read or sent. `host`: the name that we connect to, which the peer's certificate must contain; NULL after
 * conn_new. Errors: ERR_NOMEM; the connection is then unchanged. */
enum err conn_secure(struct conn *c, struct tls *t, const char *host) MUST_CHECK;
/* A connection on its way from one thread's loop to another's. */
struct conn_handover {
    int fd;
    struct tls_link *tls; /* its handshake is complete; NULL: no TLS */
    bool checksums;
};
/* As conn_new, for a connection from conn_detach. Takes what *take has, also on error. Errors: ERR_NOMEM. */
enum err conn_resume(struct conn **c, struct loop *l, const struct conn_handover *take,
                     const char *peer, const struct conn_ops *ops, void *owner) MUST_CHECK;
/* Closes what *h has, and sets it to nothing. */
void conn_handover_drop(struct conn_handover *h);
/* NULL: no TLS. */
const struct tls_link *conn_tls(const struct conn *c);
bool conn_shaking(const struct conn *c); /* the handshake is in progress */

/* Replaces the callbacks and their owner, for example after the hello. */
void conn_set_owner(struct conn *c, const struct conn_ops *ops, void *owner);
/* From the next frame on, refuse larger heads and bodies. Initially FRAME_HEAD_MAX and FRAME_BODY_MAX. */
void conn_limits(struct conn *c, uint32_t head_max, uint64_t body_max);
/* For the dialer, after a hello that offers checksums: the peer's answer decides. If it has them, each later frame in both
 * directions has them. A CHALLENGE is no answer. */
void conn_offer_checksums(struct conn *c);
/* For the acceptor of such a hello: from now on each frame in both directions has them. */
void conn_use_checksums(struct conn *c);

/* Sends one frame; body_bytes 0: without a body. The head is copied. The body is not: it must stay unchanged until it
 * is sent (conn_idle, on_idle), the connection is closed, or conn_copy_out has copied it. Never blocks. An error closes
 * the connection (on_close follows). Errors: ERR_CLOSED closed or broken; ERR_TOOBIG over CONN_QUEUE_MAX_BYTES,
 * CONN_QUEUE_MAX_FRAMES, FRAME_HEAD_MAX or FRAME_BODY_MAX; ERR_NOMEM. */
enum err conn_send(struct conn *c, enum frame_type type, const void *head, size_t head_bytes,
                   const void *body, uint64_t body_bytes) MUST_CHECK;
/* Between cork and uncork, conn_send holds frames back so that they leave in one system call. Calls do not nest:
 * each handler of a frame can cork, and on_drained uncorks once. */
void conn_cork(struct conn *c);
void conn_uncork(struct conn *c);

/* Call before rewriting the bytes [lo, lo + bytes): copies those of them that are still unsent. Returns the bytes
 * copied. If memory runs out or CONN_QUEUE_MAX_BYTES is exceeded, the connection is closed. */
size_t conn_copy_out(struct conn *c, const void *lo, size_t bytes);

bool conn_idle(const struct conn *c); /* nothing is queued */
/* As socket_progress, but bytes queued here count as waiting, too. Errors: ERR_STATE. */
struct link_progress;
enum err conn_progress(const struct conn *c, struct link_progress *p) MUST_CHECK;
/* Stops or resumes reading. While paused, on_head to on_frame are not called, and the peer's close is not noticed. */
void conn_pause(struct conn *c, bool paused);
/* Closes immediately; queued frames are dropped. `why` is copied. If the connection is already closing, the first
 * reason stays. */
void conn_close(struct conn *c, enum err code, const char *why);
/* Closes for a fault that this side found: invalid bytes from the peer, or its own lack of memory. Logs the reason. */
void conn_fault(struct conn *c, enum err code, const char *why);
/* Sends the queue, then closes when the peer has closed its side, or after CONN_FINISH_MS. Use it to send a last
 * frame, such as a refusal. Bytes that still arrive are discarded. Closes immediately, without sending, if the
 * connection is not yet established or a write has failed. */
void conn_finish(struct conn *c, enum err code, const char *why);
bool conn_closed(const struct conn *c); /* closed or finishing */
/* In on_close: the ms without any sign of the peer's host, if that is the reason; otherwise 0. */
int64_t conn_silent_ms(const struct conn *c);
const char *conn_peer(const struct conn *c);
int conn_fd(const struct conn *c); /* -1: closed */
const struct conn_stats *conn_stats(const struct conn *c);

/* Hands the socket over, so that another thread's loop can use it (ps main to shard). Call it inside on_frame. It
 * requires an empty queue and no unprocessed bytes after the frame: a peer sends nothing between its hello and the
 * answer. *out belongs to the caller. c must not be used afterwards: no on_close follows, and it is freed at the end of
 * the tick. Errors: ERR_PROTO if a requirement is not met. */
enum err conn_detach(struct conn *c, struct conn_handover *out) MUST_CHECK;
