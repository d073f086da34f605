/* Incoming frames: each read puts bytes where they belong, if possible without a copy. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "common/net/conn_state.h"
#include "common/base/crc32c.h"
#include "common/base/mem.h"

static bool reading_stopped(const struct conn *c)
{
    return c->state != OPEN || c->paused;
}

/* Closes the connection if a callback of the owner returned an error. */
static void heed(struct conn *c, enum err rc, const char *where)
{
    char why[WHY_BYTES];
    if (rc == ERR_OK || conn_closed(c))
        return;
    const char *name = frame_type_str(c->frame.type);
    snprintf(why, sizeof(why), "%s of a %s frame: %s", where, name ? name : "?", err_str(rc));
    conn_fault(c, rc, why);
}

/* Nothing that follows can be trusted, not even where the next frame begins. */
static void damaged(struct conn *c, const char *part)
{
    char why[WHY_BYTES];
    snprintf(why, sizeof why,
             "the checksum of a frame's %s does not match: its bytes were changed on the way",
             part);
    conn_fault(c, ERR_PROTO, why);
}

static bool is_checked(const struct conn *c)
{
    return c->frame.flags == FRAME_FLAG_CRC;
}

static void frame_over(struct conn *c)
{
    if (is_checked(c) && c->body_crc != c->sums.body) {
        damaged(c, "body");
        return;
    }
    c->reading = READ_HEADER;
    c->small = c->frame.head_bytes + c->frame.body_bytes < CONN_STAGE_BYTES / 4;
    if (!c->ops->on_frame)
        return;
    c->in_on_frame = true;
    heed(c, c->ops->on_frame(c, c->owner), "end");
    c->in_on_frame = false;
}

/* Asks the owner for the memory of the next piece. */
static void piece_begin(struct conn *c)
{
    void *p = NULL;
    size_t bytes = 0;
    uint64_t left = c->frame.body_bytes - c->body_at;
    enum err rc = c->ops->on_space(c, c->owner, c->body_at, left, &p, &bytes);
    heed(c, rc, "body");
    if (rc != ERR_OK || c->state != OPEN)
        return;
    assert(p && bytes > 0 && bytes <= left);
    c->piece = p;
    c->piece_bytes = bytes;
    c->piece_have = 0;
}

static void piece_over(struct conn *c)
{
    uint8_t *p = c->piece;
    c->body_at += c->piece_bytes;
    c->piece = NULL;
    if (c->ops->on_piece)
        heed(c, c->ops->on_piece(c, c->owner, p, c->piece_bytes), "body");
}

static void head_over(struct conn *c, const uint8_t *head)
{
    if (is_checked(c) && crc32c(0, head, c->frame.head_bytes) != c->sums.head) {
        damaged(c, "head");
        return;
    }
    c->reading = READ_BODY;
    c->body_at = 0;
    c->body_crc = 0;
    heed(c, c->ops->on_head(c, c->owner, &c->frame, head), "head");
    mem_free(c->head);
    c->head = NULL;
}

/* After an offer the peer's answer decides. */
static void note_kind(struct conn *c)
{
    if (c->limits.kinds == (FRAME_PLAIN | FRAME_CHECKED) && c->frame.type != FRAME_CHALLENGE)
        c->limits.kinds = is_checked(c) ? FRAME_CHECKED : FRAME_PLAIN;
}

/* Each step_* consumes bytes of the stage. It returns false if it needs more bytes from the socket. */
static bool step_header(struct conn *c)
{
    const uint8_t *in = c->stage + c->lo;
    size_t bytes = FRAME_HEADER_BYTES;
    if (c->hi - c->lo < bytes)
        return false;
    enum err rc = frame_decode(&c->frame, in, &c->limits);
    if (rc != ERR_OK) {
        char why[WHY_BYTES];
        frame_explain(in, &c->limits, why, sizeof(why));
        conn_fault(c, rc, why);
        return true;
    }
    if (is_checked(c)) {
        bytes += FRAME_CHECKSUMS_BYTES;
        if (c->hi - c->lo < bytes)
            return false;
        if (frame_checksums_decode(&c->sums, in, c->checked_in)) {
            damaged(c, "header");
            return true;
        }
        c->checked_in++;
    }
    note_kind(c);
    c->lo += bytes;
    c->head_have = 0;
    c->reading = READ_HEAD;
    return true;
}

static bool step_big_head(struct conn *c)
{
    if (!c->head) {
        c->head = mem_resize(NULL, 1, c->frame.head_bytes);
        if (!c->head) {
            conn_fault(c, ERR_NOMEM, "no memory for a head");
            return true;
        }
    }
    size_t bytes = least(c->hi - c->lo, c->frame.head_bytes - c->head_have);
    memcpy(c->head + c->head_have, c->stage + c->lo, bytes);
    c->lo += bytes;
    c->head_have += (uint32_t)bytes;
    if (c->head_have < c->frame.head_bytes)
        return false;
    head_over(c, c->head);
    return true;
}

static bool step_head(struct conn *c)
{
    if (c->frame.head_bytes > CONN_STAGE_BYTES)
        return step_big_head(c);
    if (c->hi - c->lo < c->frame.head_bytes)
        return false;
    const uint8_t *head = c->stage + c->lo;
    c->lo += c->frame.head_bytes;
    head_over(c, head);
    return true;
}

/* The next bytes of the piece are in their final memory. */
static void body_came(struct conn *c, size_t bytes)
{
    if (is_checked(c) && bytes > 0)
        c->body_crc = crc32c(c->body_crc, c->piece + c->piece_have, bytes);
    c->piece_have += bytes;
}

static bool step_body(struct conn *c)
{
    if (c->piece && c->piece_have == c->piece_bytes) {
        piece_over(c);
        return true;
    }
    if (!c->piece && c->body_at == c->frame.body_bytes) {
        frame_over(c);
        return true;
    }
    if (!c->piece) {
        piece_begin(c);
        return true;
    }
    size_t bytes = least(c->hi - c->lo, c->piece_bytes - c->piece_have);
    if (bytes == 0)
        return false;
    memcpy(c->piece + c->piece_have, c->stage + c->lo, bytes);
    c->lo += bytes;
    body_came(c, bytes);
    c->stats.staged_body_bytes += bytes;
    return true;
}

static bool step(struct conn *c)
{
    switch (c->reading) {
    case READ_HEADER:
        return step_header(c);
    case READ_HEAD:
        return step_head(c);
    default:
        return step_body(c);
    }
}

/* Moves the rest of the stage to its front: a header or an incomplete head. */
static void stage_compact(struct conn *c)
{
    if (c->lo == 0)
        return;
    memmove(c->stage, c->stage + c->lo, c->hi - c->lo);
    c->hi -= c->lo;
    c->lo = 0;
}

/* Returns how many bytes to read into the stage after those that go directly to their final memory. */
static size_t stage_window(const struct conn *c, size_t direct)
{
    size_t room = CONN_STAGE_BYTES - c->hi;
    size_t window = c->small ? CONN_STAGE_BYTES : CONN_PEEK_BYTES;
    if (c->reading == READ_BODY && c->body_at + c->piece_bytes < c->frame.body_bytes)
        window = direct < CONN_STAGE_BYTES ? CONN_STAGE_BYTES : 0; /* several small pieces follow */
    if (c->reading == READ_HEAD && direct == 0 && c->frame.head_bytes > c->hi + window)
        window = c->frame.head_bytes - c->hi;
    return least(window, room);
}

/* Sets up a read: first the final memory of the current part, then the stage for the bytes after it. */
static void in_gather(struct conn *c, struct iovec iov[2])
{
    stage_compact(c);
    iov[0] = (struct iovec){NULL, 0};
    if (c->reading == READ_BODY && c->piece)
        iov[0] = (struct iovec){c->piece + c->piece_have, c->piece_bytes - c->piece_have};
    else if (c->reading == READ_HEAD && c->head)
        iov[0] = (struct iovec){c->head + c->head_have, c->frame.head_bytes - c->head_have};
    iov[1] = (struct iovec){c->stage + c->hi, stage_window(c, iov[0].iov_len)};
}

static void in_arrived(struct conn *c, size_t direct, size_t got)
{
    size_t first = least(got, direct);
    if (c->reading == READ_BODY)
        body_came(c, first);
    else
        c->head_have += (uint32_t)first;
    c->hi += got - first;
    c->stats.in_bytes += got;
}

/* The peer's last bytes are an unencrypted TLS alert. */
static bool wanted_tls(const struct conn *c)
{
    const uint8_t *in = c->stage + c->lo;
    return !c->tls && c->reading == READ_HEADER && c->hi - c->lo >= 3 && frame_is_tls(in);
}

void conn_eof(struct conn *c)
{
    bool inside = c->reading != READ_HEADER || c->lo < c->hi;
    if (wanted_tls(c))
        conn_close(c, ERR_TLS, "it uses TLS, but this process was started without --tls_cert");
    else if (c->broken)
        conn_close_errno(c, c->broken);
    else
        conn_close(c, ERR_CLOSED,
                   inside ? "the peer closed the connection in the middle of a frame"
                          : "the peer closed the connection");
}

static void in_failed(struct conn *c, int error)
{
    if (error != EAGAIN && error != EWOULDBLOCK)
        conn_close_errno(c, error);
    else if (c->broken)
        conn_close_errno(c, c->broken);
}

/* Reads with one system call and returns the bytes. *more: all requested bytes came, so more may be waiting. */
static size_t in_recvmsg(struct conn *c, struct iovec *iov, bool *more)
{
    struct msghdr m = {.msg_iov = iov, .msg_iovlen = 2};
    ssize_t got;
    do {
        got = recvmsg(c->fd, &m, MSG_DONTWAIT);
        c->stats.recv_calls++;
    } while (got < 0 && errno == EINTR);
    *more = got > 0 && ((size_t)got == iov[0].iov_len + iov[1].iov_len || c->broken);
    if (got == 0)
        conn_eof(c);
    else if (got < 0)
        in_failed(c, errno);
    return got > 0 ? (size_t)got : 0;
}

/* Same for TLS: reads into the first of the two buffers that has room. */
static size_t in_tls(struct conn *c, const struct iovec *iov, bool *more)
{
    const struct iovec *to = iov[0].iov_len > 0 ? &iov[0] : &iov[1];
    return conn_tls_read(c, to->iov_base, to->iov_len, more);
}

/* Schedules another read after other connections had their turn. An event that activates itself would run again in
 * the same pass of libevent, which checks no timers and sockets in between. Only a live connection schedules
 * `again`, so it runs before `ending`. */
static void read_again(struct conn *c)
{
    if (c->again_put)
        return;
    c->again_put = true;
    loop_put_off(c->loop, &c->again);
}

void conn_on_again(struct loop_later *later)
{
    struct conn *c = (struct conn *)((char *)later - offsetof(struct conn, again));
    c->again_put = false;
    if (c->state == FINISHING || !reading_stopped(c))
        event_active(&c->read_event, EV_READ, 1);
}

static void read_frames(struct conn *c)
{
    size_t total = 0;
    bool more = true;
    while (!reading_stopped(c)) {
        if (step(c))
            continue;
        if (!more || total >= CONN_READ_BUDGET_BYTES)
            break;
        struct iovec iov[2];
        in_gather(c, iov);
        size_t got = c->tls ? in_tls(c, iov, &more) : in_recvmsg(c, iov, &more);
        total += got;
        if (got > 0)
            in_arrived(c, iov[0].iov_len, got);
    }
    /* OpenSSL may hold bytes for which the socket gives no event */
    if (c->tls && more && !reading_stopped(c))
        read_again(c);
}

/* Reads and discards the bytes of a connection that is finishing. */
static void read_away(struct conn *c)
{
    struct iovec iov[2] = {{c->stage, CONN_STAGE_BYTES}, {NULL, 0}};
    bool more = true;
    for (size_t total = 0; more && total < CONN_READ_BUDGET_BYTES;)
        total += c->tls ? in_tls(c, iov, &more) : in_recvmsg(c, iov, &more);
    if (c->tls && more && c->state == FINISHING)
        read_again(c);
}

void conn_on_readable(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    struct conn *c = arg;
    if (c->state == FINISHING) {
        read_away(c);
        return;
    }
    if (c->state == SHAKING) {
        conn_shake(c);
        return;
    }
    read_frames(c);
    if (c->tls_write_waits && c->state == OPEN)
        conn_queue_flush(c);
    if (c->state == OPEN && c->ops->on_drained)
        c->ops->on_drained(c, c->owner);
}

void conn_pause(struct conn *c, bool paused)
{
    if (paused == c->paused || c->state == CLOSED)
        return;
    c->paused = paused;
    if (c->state == CONNECTING || c->state == SHAKING)
        return;
    if (paused)
        event_del(&c->read_event);
    else if (event_add(&c->read_event, NULL) != 0)
        conn_fault(c, ERR_NOMEM, "no memory for a socket event");
    else
        event_active(&c->read_event, EV_READ, 1); /* the stage may hold complete frames */
}
