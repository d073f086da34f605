/* One TCP connection that speaks frames (proto/README.md) on a loop.
 *
 * Happy path: bytes -> header (24) -> head (a protobuf-c message, at most FRAME_HEAD_MAX) -> body,
 * read straight into the memory that the owner names piece by piece -> next frame. Out: conn_send
 * writes at once what the socket takes, by reference, and queues the rest. Failure modes: a bad
 * header, an oversized head or body, an owner that refuses: the connection is closed, the owner's
 * on_close gets the reason, the log names the peer. A queue over its limit closes it too. A write
 * that fails leaves the read side to take what the peer said last (a refusal), then closes. A
 * connection ends in one place: at the end of the loop's tick after conn_close its on_close is
 * called, then it is freed. So conn_close is safe inside every callback, and c and its owner are
 * valid until on_close.
 *
 * Under TLS (conn_secure) the handshake comes first, within TLS_HANDSHAKE_MS; frames wait for it. The stream is the
 * same, in records: small frames that wait share one. What does not hold is said in the log of who
 * accepted, sent as an alert, and ends the connection with ERR_TLS. */
#ifndef GRADWIRE_COMMON_NET_CONN_H
#define GRADWIRE_COMMON_NET_CONN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"
#include "common/wire/frame.h"
#include "common/net/loop.h"
#include "common/net/tls.h"

enum {
    CONN_QUEUE_MAX_FRAMES = 65536,
    CONN_QUEUE_MAX_BYTES = 256 << 20, /* copied bytes: heads, and what conn_copy_out took */
    CONN_STAGE_BYTES = 16 << 10,      /* small frames are read this many bytes at a time */
    CONN_PEEK_BYTES = 512,            /* behind a large frame: enough for a header and most heads */
    CONN_INLINE_BYTES = 512, /* a body up to this is queued as a copy: cheaper than its own iovec */
    CONN_READ_BUDGET_BYTES =
        2 << 20, /* for one readable event, then other connections have their turn */
    CONN_WRITE_BUDGET_BYTES = 4 << 20, /* for one system call */
    CONN_CORK_MAX_BYTES = 256 << 10,   /* a corked queue beyond this leaves anyway */
    CONN_FINISH_MS = 2000,
    CONN_LOOK_MS = 1000, /* how often its silence is checked */
    /* A peer's host that answers nothing for this long counts as gone, also if timeouts.worker_rejoin_s is
     * shorter. TCP sends lost bytes again after 0.2 s, then after twice as long each time: within 8 s it has tried five
     * times, so a link that loses packets stays up. */
    CONN_SILENT_MS = 8000,
};

struct conn;
struct sockaddr;

struct conn_ops {
    /* A whole head is here (f->head_bytes at `head`, valid during the call). The body follows, if
     * any. Anything but ERR_OK closes the connection with that reason. */
    enum err (*on_head)(struct conn *c, void *owner, const struct frame *f, const uint8_t *head);
    /* Where the next piece of the body goes: set *p and *bytes (1 .. left). `at` is how much came
     * before. May be NULL where conn_limits allows no body. */
    enum err (*on_space)(struct conn *c, void *owner, uint64_t at, uint64_t left, void **p,
                         size_t *bytes);
    /* That piece is full. May be NULL. */
    enum err (*on_piece)(struct conn *c, void *owner, void *p, size_t bytes);
    /* The frame is over (called for frames without a body too). May be NULL. */
    enum err (*on_frame)(struct conn *c, void *owner);
    /* It is closed, by either side; called once, at the end of the tick, as the last callback.
     * `why` says it in words. A conn from conn_dial that could not connect ends here too. May be
     * NULL. */
    void (*on_close)(struct conn *c, void *owner, enum err code, const char *why);
    /* A dialed connection is up. May be NULL. */
    void (*on_open)(struct conn *c, void *owner);
    /* The read side has taken all that was there for now (end of one readable event): flush replies
     * here, so that many small frames cost one system call. May be NULL. */
    void (*on_drained)(struct conn *c, void *owner);
    /* What was queued has left: referenced bodies are free again. Not called for what conn_send or
     * conn_uncork sent at once (conn_idle tells). May be NULL. */
    void (*on_idle)(struct conn *c, void *owner);
};

/* What it cost, for metrics and benchmarks. */
struct conn_stats {
    uint64_t in_bytes, out_bytes;
    uint64_t recv_calls, send_calls;
    uint64_t staged_body_bytes; /* body bytes that came through the staging buffer: copied once */
    uint64_t copied_out_bytes;  /* by conn_copy_out */
};

/* Take a connected socket (socket_tune is applied).
 * Thread: the loop's. Owns: fd is the connection's, even on error. `peer` names it in messages,
 * copied. */
enum err conn_new(struct conn **c, struct loop *l, int take_fd, const char *peer,
                  const struct conn_ops *ops, void *owner) MUST_CHECK;

/* Dial an IP address without blocking (names are resolved elsewhere, see dial.h). Frames may be
 * sent at once; they leave when it is up. Errors: ERR_NOMEM. All else comes as on_close. */
enum err conn_dial(struct conn **c, struct loop *l, const struct sockaddr *addr,
                   unsigned addr_bytes, const char *peer, const struct conn_ops *ops,
                   void *owner) MUST_CHECK;

/* It speaks TLS as `t`: at once behind conn_new or conn_dial, before anything is read or sent. `host`: who was dialed,
 * whom its certificate must name; NULL behind conn_new. Errors: ERR_NOMEM, the connection is as it was.
 */
enum err conn_secure(struct conn *c, struct tls *t, const char *host) MUST_CHECK;
/* conn_new of a socket whose handshake is over. `take_tls` is the connection's, even on error; NULL: plain. */
enum err conn_resume(struct conn **c, struct loop *l, int take_fd, struct tls_link *take_tls,
                     const char *peer, const struct conn_ops *ops, void *owner) MUST_CHECK;
/* NULL: plain. */
const struct tls_link *conn_tls(const struct conn *c);
bool conn_shaking(const struct conn *c); /* the handshake is under way */

/* Other callbacks from now on (after the hello, say). */
void conn_set_owner(struct conn *c, const struct conn_ops *ops, void *owner);
/* Larger heads and bodies are refused from the next frame on. At first FRAME_HEAD_MAX and
 * FRAME_BODY_MAX. */
void conn_limits(struct conn *c, uint32_t head_max, uint64_t body_max);

/* Send one frame. The head is copied; the body is sent from where it stands and must stay until it
 * is out, the connection is closed, or conn_copy_out has copied it. Never blocks. Errors: each
 * closes the connection (on_close follows): ERR_CLOSED it is closed or broken; ERR_TOOBIG over
 * CONN_QUEUE_MAX_BYTES or CONN_QUEUE_MAX_FRAMES, or a head over FRAME_HEAD_MAX;
 * ERR_NOMEM. */
enum err conn_send(struct conn *c, enum frame_type type, const void *head, size_t head_bytes,
                   const void *body, uint64_t body_bytes) MUST_CHECK;
/* conn_send holds frames back between cork and uncork, so that they leave in one system call. Not
 * counted: corking twice is corking, so every handler of a frame may cork, and on_drained uncorks
 * once. */
void conn_cork(struct conn *c);
void conn_uncork(struct conn *c);

/* The bytes [lo, lo + bytes) are about to be rewritten: copy what is still unsent of them. Returns
 * bytes copied. Without memory, or over CONN_QUEUE_MAX_BYTES, the connection is closed. */
size_t conn_copy_out(struct conn *c, const void *lo, size_t bytes);

bool conn_idle(const struct conn *c); /* nothing is left to send */
/* socket_progress, with what is queued here among what waits. */
struct link_progress;
enum err conn_progress(const struct conn *c, struct link_progress *p) MUST_CHECK;
void conn_pause(struct conn *c,
                bool paused); /* stop or go on reading; no on_head .. on_frame while paused */
/* At once; what is queued is dropped. The first reason stays. `why` is copied. */
void conn_close(struct conn *c, enum err code, const char *why);
/* Close when what is queued has left and the peer has hung up, or after CONN_FINISH_MS: for a last
 * word (a refusal). What still comes in is thrown away. */
void conn_finish(struct conn *c, enum err code, const char *why);
bool conn_closed(const struct conn *c); /* closed or finishing */
/* In on_close: for how long nothing had been heard of the peer's host, if that is why; else 0. */
int64_t conn_silent_ms(const struct conn *c);
const char *conn_peer(const struct conn *c);
int conn_fd(const struct conn *c);
const struct conn_stats *conn_stats(const struct conn *c);

/* Detach the socket so that another thread's loop can take it (ps main -> shard). Valid inside
 * on_frame when no byte behind the frame was read (a peer sends nothing after its hello before the
 * answer) and nothing is queued: otherwise ERR_PROTO. *tls goes with it (NULL: plain). c is gone afterwards (no
 * on_close; freed at the end of the tick). */
enum err conn_detach(struct conn *c, int *fd, struct tls_link **tls) MUST_CHECK;

#endif
