/* The state of a connection, shared by conn.c (its life), conn_out.c, conn_in.c and conn_tls.c. */
#pragma once

#include "common/cluster/address.h"
#include "common/net/conn.h"

enum { WHY_BYTES = 256 };

/* Consecutive bytes that wait to be sent: a copy (headers, heads, small bodies), or a reference to the owner's
 * memory. */
struct segment {
    struct segment *next;
    const uint8_t *at; /* the first unsent byte */
    uint64_t left;
    size_t room;     /* free bytes after `at + left`, in `bytes` */
    bool copied;     /* counts toward CONN_QUEUE_MAX_BYTES */
    uint32_t frames; /* number of frames that end in it */
    void *heap;      /* copy made by conn_copy_out, or NULL */
    uint8_t bytes[];
};

enum state { CONNECTING, SHAKING, OPEN, FINISHING, CLOSED };
enum reading { READ_HEADER, READ_HEAD, READ_BODY };

struct conn {
    struct loop *loop;
    struct loop_later ending, again;
    bool again_put;
    const struct conn_ops *ops;
    void *owner;
    int fd;
    enum state state;
    struct event read_event, write_event;
    /* limits the handshake and the finish; in between, it checks for a silent peer */
    struct loop_timer finish_timer;
    int64_t silent_ms; /* the host's silence, if it ended the connection */
    bool writable_wanted, corked, paused, in_on_frame;
    struct tls_link *tls; /* NULL: no TLS */
    int64_t shaking_ms;   /* start of the handshake */
    /* OpenSSL must write before it can read, or read before it can write */
    bool tls_read_waits, tls_write_waits;
    int broken; /* errno of a failed write; reading continues to the peer's end */
    enum err code;
    char why[WHY_BYTES];
    char peer[ADDRESS_TEXT_MAX];
    struct conn_stats stats;

    enum reading reading;
    struct frame frame;
    struct frame_limits limits; /* both sides have agreed on checksums: FRAME_CHECKED alone */
    uint32_t head_have;
    uint64_t body_at;
    struct frame_checksums sums;      /* of the frame that is being received */
    uint32_t body_crc;                /* of its body so far */
    uint64_t checked_in, checked_out; /* number of frames with checksums */
    uint8_t *head;                    /* a head larger than the stage, or NULL */
    uint8_t *piece;
    size_t piece_bytes, piece_have;
    bool small; /* the last frame was small: read several at a time */

    struct segment *first, *last;
    uint64_t queued_bytes;
    size_t copied_bytes, frames;

    size_t lo, hi; /* the stage's bytes are [lo, hi) */
    uint8_t stage[CONN_STAGE_BYTES];
};

static inline size_t least(size_t a, uint64_t b)
{
    return b < a ? (size_t)b : a;
}

/* ---- conn.c ---- */

void conn_close_errno(struct conn *c, int error); /* closes; the reason is an errno value */
void conn_look_again(struct conn *c);             /* schedules the next check for a silent peer */
void conn_up(struct conn *c); /* the connection is established: frames can pass */

/* ---- conn_out.c ---- */

/* Starts or stops waiting until the socket is writable. */
void conn_want_writable(struct conn *c, bool wanted);
void conn_queue_flush(struct conn *c); /* sends as much of the queue as the socket accepts */
void conn_queue_drop(struct conn *c);
void conn_broken(struct conn *c, int error); /* handles a failed write */

/* ---- conn_in.c ---- */

void conn_on_readable(evutil_socket_t fd, short what, void *arg); /* libevent callback */
void conn_eof(struct conn *c);
void conn_on_again(struct loop_later *later); /* runs the read that `again` scheduled */

/* ---- conn_tls.c ---- */

void conn_shake_begin(struct conn *c); /* call when connected */
void conn_shake(struct conn *c);       /* advances the handshake as far as the socket allows */
void conn_shake_late(struct conn *c);  /* ends a handshake that exceeded TLS_HANDSHAKE_MS */
/* Reads at most one record and returns its bytes. *more: another one may be waiting. */
size_t conn_tls_read(struct conn *c, void *p, size_t bytes, bool *more);
/* Sends bytes of the current record. Returns the bytes sent; 0 if the socket is full or broken. */
size_t conn_tls_write(struct conn *c);
