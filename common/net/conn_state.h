/* What a connection is made of, for its own files: conn.c (its life), conn_out.c, conn_in.c, conn_tls.c. */
#ifndef GRADWIRE_COMMON_NET_CONN_STATE_H
#define GRADWIRE_COMMON_NET_CONN_STATE_H

#include "common/cluster/address.h"
#include "common/net/conn.h"

enum { WHY_BYTES = 256 };

/* A run of bytes that wait to be sent: copied (headers, heads, small bodies), or where the owner
 * has them. */
struct segment {
    struct segment *next;
    const uint8_t *at; /* the unsent rest */
    uint64_t left;
    size_t room;     /* free bytes behind `at + left`, in `bytes` */
    bool copied;     /* counts for CONN_QUEUE_MAX_BYTES */
    uint32_t frames; /* how many frames end in it */
    void *heap;      /* what conn_copy_out copied, or NULL */
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
    struct loop_timer
        finish_timer;  /* for the handshake, and for the end; between them to look at the silence */
    int64_t silent_ms; /* of the peer's host, where that ended it */
    bool writable_wanted, corked, paused, in_on_frame;
    struct tls_link *tls;                 /* NULL: plain */
    int64_t shaking_ms;                   /* since when */
    bool tls_read_waits, tls_write_waits; /* reading waits until writable, writing until readable */
    int broken; /* errno of a write that failed; the read side goes on to the end */
    enum err code;
    char why[WHY_BYTES];
    char peer[ADDRESS_TEXT_MAX];
    struct conn_stats stats;

    enum reading reading;
    struct frame frame;
    uint32_t head_max, head_have;
    uint64_t body_max, body_at;
    uint8_t *head; /* a head that does not fit the stage, or NULL */
    uint8_t *piece;
    size_t piece_bytes, piece_have;
    bool small; /* the last frame was: read many at a time */

    struct segment *first, *last;
    uint64_t queued_bytes;
    size_t copied_bytes, frames;

    size_t lo, hi; /* bytes in the stage */
    uint8_t stage[CONN_STAGE_BYTES];
};

static inline size_t least(size_t a, uint64_t b)
{
    return b < a ? (size_t)b : a;
}

/* ---- conn.c ---- */

/* Close for a reason that this side found in the peer's bytes, or in its own lack of memory. */
void conn_fault(struct conn *c, enum err code, const char *why);
void conn_close_errno(struct conn *c, int error);
void conn_look_again(struct conn *c); /* at the silence, in a while */
void conn_up(struct conn *c);         /* from here on frames go both ways */

/* ---- conn_out.c ---- */

void conn_want_writable(struct conn *c, bool wanted);
void conn_queue_flush(struct conn *c); /* sends what is queued, as far as the socket takes it */
void conn_queue_drop(struct conn *c);
void conn_broken(struct conn *c, int error); /* a write failed */

/* ---- conn_in.c ---- */

void conn_on_readable(evutil_socket_t fd, short what, void *arg); /* an event's callback */
void conn_eof(struct conn *c);
void conn_on_again(struct loop_later *later); /* of `again` */

/* ---- conn_tls.c ---- */

void conn_shake_begin(struct conn *c); /* it is connected */
void conn_shake(struct conn *c);       /* as far as the socket goes */
void conn_shake_late(struct conn *c);
/* One record at most; *more: there may be another one. Bytes read. */
size_t conn_tls_read(struct conn *c, void *p, size_t bytes, bool *more);
/* Bytes sent of the link's record, 0 when the socket is full or broken. */
size_t conn_tls_write(struct conn *c);

#endif
