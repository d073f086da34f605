/* Outgoing frames: sent immediately as far as the socket accepts them; the rest is queued. */
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "common/net/conn_state.h"
#include "common/base/crc32c.h"
#include "common/base/mem.h"
#include "common/net/socket.h"

enum {
    IOVECS = 64,         /* for one sendmsg */
    SHARED_BYTES = 4096, /* one segment for several small corked frames */
};

static void segment_free(struct segment *s)
{
    mem_free(s->heap);
    mem_free(s);
}

/* Checks the queue's invariants: all counters of an empty queue are 0. */
static void check(const struct conn *c)
{
    assert((c->first == NULL) == (c->last == NULL));
    assert((c->first == NULL) == (c->queued_bytes == 0));
    assert(c->copied_bytes <= c->queued_bytes);
    assert(c->first || (c->copied_bytes == 0 && c->frames == 0));
    (void)c;
}

void conn_queue_drop(struct conn *c)
{
    while (c->first) {
        struct segment *s = c->first;
        c->first = s->next;
        segment_free(s);
    }
    c->last = NULL;
    c->queued_bytes = 0;
    c->copied_bytes = 0;
    c->frames = 0;
    check(c);
}

void conn_want_writable(struct conn *c, bool wanted)
{
    if (wanted == c->writable_wanted)
        return;
    c->writable_wanted = wanted;
    if (!wanted)
        event_del(&c->write_event);
    else if (event_add(&c->write_event, NULL) != 0)
        conn_fault(c, ERR_NOMEM, "no memory for a socket event");
}

/* A write failed: the queue is lost, but the peer's last frames may still be readable. */
void conn_broken(struct conn *c, int error)
{
    c->broken = error;
    conn_queue_drop(c);
    conn_want_writable(c, false);
    if (c->paused)
        conn_close_errno(c, error);
    else
        event_active(&c->read_event, EV_READ, 1);
}

/* Returns the bytes sent; 0 if the socket is full or broken. */
static size_t out_sendmsg(struct conn *c, struct iovec *iov, size_t n)
{
    struct msghdr m = {.msg_iov = iov, .msg_iovlen = n};
    ssize_t sent;
    do {
        sent = sendmsg(c->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
        c->stats.send_calls++;
    } while (sent < 0 && errno == EINTR);
    if (sent < 0 && errno != EAGAIN && errno != EWOULDBLOCK)
        conn_broken(c, errno);
    if (sent <= 0)
        return 0;
    c->stats.out_bytes += (uint64_t)sent;
    return (size_t)sent;
}

static size_t queue_gather(const struct conn *c, struct iovec *iov)
{
    size_t n = 0, bytes = 0;
    for (const struct segment *s = c->first; s && n < IOVECS && bytes < CONN_WRITE_BUDGET_BYTES;
         s = s->next) {
        iov[n].iov_base = (void *)(uintptr_t)s->at;
        iov[n].iov_len = least(CONN_WRITE_BUDGET_BYTES - bytes, s->left);
        bytes += iov[n++].iov_len;
    }
    return n;
}

static void queue_advance(struct conn *c, size_t sent)
{
    c->queued_bytes -= sent;
    while (c->first && sent >= c->first->left) {
        struct segment *s = c->first;
        sent -= (size_t)s->left;
        if (s->copied)
            c->copied_bytes -= (size_t)s->left;
        c->frames -= s->frames;
        c->first = s->next;
        segment_free(s);
    }
    if (!c->first) {
        c->last = NULL;
        check(c);
        return;
    }
    c->first->at += sent;
    c->first->left -= sent;
    if (c->first->copied)
        c->copied_bytes -= sent;
    check(c);
}

static void record_gather(const struct conn *c, struct tls_record *r, size_t bytes)
{
    r->bytes = 0;
    for (const struct segment *s = c->first; s && r->bytes < bytes; s = s->next) {
        size_t n = least(bytes - r->bytes, s->left);
        memcpy(r->at + r->bytes, s->at, n);
        r->bytes += n;
    }
    r->from = r->at;
}

/* Prepares the next record; its bytes stay in the queue until they are sent. A record that is waiting keeps its
 * size: it still holds the first bytes of the queue, which may be at another address by now. */
static void record_next(const struct conn *c, struct tls_record *r)
{
    size_t bytes = r->bytes > 0 ? r->bytes : TLS_RECORD_BYTES;
    if (!r->stays && c->first->left >= bytes) {
        r->from = c->first->at;
        r->bytes = bytes;
    } else if (!r->stays || r->bytes == 0) {
        record_gather(c, r, bytes);
    }
}

/* One system call per record. The socket is corked, so that packets are full regardless of the records' borders. */
static void flush_tls(struct conn *c)
{
    struct tls_record *r = tls_link_record(c->tls);
    bool many = c->queued_bytes > TLS_RECORD_BYTES;
    size_t sent = 1;
    if (many)
        socket_cork(c->fd, true);
    for (uint64_t total = 0; c->first && sent > 0 && total < CONN_WRITE_BUDGET_BYTES;) {
        record_next(c, r);
        sent = conn_tls_write(c);
        queue_advance(c, sent);
        total += sent;
    }
    if (many)
        socket_cork(c->fd, false);
}

/* Without TLS: one system call. The rest waits until the socket is writable. */
void conn_queue_flush(struct conn *c)
{
    struct iovec iov[IOVECS];
    if (c->first && c->tls)
        flush_tls(c);
    else if (c->first)
        queue_advance(c, out_sendmsg(c, iov, queue_gather(c, iov)));
    if (c->state != CLOSED && !c->broken)
        conn_want_writable(c, (c->first != NULL && !c->tls_write_waits) || c->tls_read_waits);
}

static struct segment *queue_append(struct conn *c, size_t room)
{
    struct segment *s = mem_zalloc(1, sizeof(*s) + room);
    if (!s)
        return NULL;
    s->room = room;
    if (c->last)
        c->last->next = s;
    else
        c->first = s;
    c->last = s;
    return s;
}

static enum err queue_copy(struct conn *c, const void *p, size_t bytes)
{
    struct segment *s = c->last;
    if (bytes > CONN_QUEUE_MAX_BYTES - c->copied_bytes)
        return ERR_TOOBIG;
    if (!s || s->room < bytes) {
        size_t room = c->corked && bytes < SHARED_BYTES ? SHARED_BYTES : bytes;
        s = queue_append(c, room);
        if (!s)
            return ERR_NOMEM;
        s->at = s->bytes;
        s->copied = true;
    }
    memcpy((uint8_t *)(uintptr_t)s->at + s->left, p, bytes);
    s->left += bytes;
    s->room -= bytes;
    c->copied_bytes += bytes;
    c->queued_bytes += bytes;
    return ERR_OK;
}

static enum err queue_refer(struct conn *c, const void *p, uint64_t bytes)
{
    if (bytes <= CONN_INLINE_BYTES)
        return queue_copy(c, p, (size_t)bytes);
    struct segment *s = queue_append(c, 0);
    if (!s)
        return ERR_NOMEM;
    s->at = p;
    s->left = bytes;
    c->queued_bytes += bytes;
    return ERR_OK;
}

/* One outgoing frame: header with checksums, head, body. */
struct out {
    struct iovec part[3];
};

/* Queues the frame without its first `sent` bytes. */
static enum err queue_rest(struct conn *c, const struct out *o, size_t sent)
{
    enum err rc = c->frames < CONN_QUEUE_MAX_FRAMES ? ERR_OK : ERR_TOOBIG;
    for (int i = 0; i < 3 && rc == ERR_OK; i++) {
        size_t skip = least(sent, o->part[i].iov_len);
        size_t bytes = o->part[i].iov_len - skip;
        const uint8_t *p = (const uint8_t *)o->part[i].iov_base + skip;
        sent -= skip;
        if (bytes > 0)
            rc = i < 2 ? queue_copy(c, p, bytes) : queue_refer(c, p, bytes);
    }
    if (rc == ERR_OK) {
        c->last->frames++;
        c->frames++;
        check(c);
    }
    return rc;
}

static size_t out_bytes(const struct out *o)
{
    return o->part[0].iov_len + o->part[1].iov_len + o->part[2].iov_len;
}

/* The queue is empty: send the frame directly from the caller's memory. */
static size_t send_now(struct conn *c, const struct out *o)
{
    struct out now = *o;
    now.part[2].iov_len = least(CONN_WRITE_BUDGET_BYTES, now.part[2].iov_len);
    return out_sendmsg(c, now.part, now.part[2].iov_len > 0 ? 3 : 2);
}

static bool cork_is_full(const struct conn *c)
{
    return c->queued_bytes >= CONN_CORK_MAX_BYTES;
}

static enum err send_or_queue(struct conn *c, const struct out *o)
{
    size_t sent = 0;
    if (!c->first && !c->corked && c->state == OPEN && !c->tls)
        sent = send_now(c, o);
    if (c->broken)
        return ERR_CLOSED;
    if (sent == out_bytes(o))
        return ERR_OK;
    enum err rc = queue_rest(c, o, sent);
    if (rc != ERR_OK) {
        conn_fault(c, rc,
                   rc == ERR_TOOBIG ? "the peer reads too slowly: the queue for it is full"
                                    : "no memory for the queue to the peer");
        return rc;
    }
    if (c->state != OPEN)
        return ERR_OK;
    if (!c->corked && c->tls && !c->writable_wanted)
        conn_queue_flush(c);
    else if (!c->corked)
        conn_want_writable(c, true);
    else if (!c->writable_wanted && cork_is_full(c))
        conn_queue_flush(c);
    return c->state == CLOSED || c->broken ? ERR_CLOSED : ERR_OK;
}

enum { HEADER_MAX = FRAME_HEADER_BYTES + FRAME_CHECKSUMS_BYTES };

/* Writes the header, and the checksums if both sides have agreed on them. Returns the bytes. The body is summed up here and
 * not while it is sent: the owner does not change it until then (conn_copy_out). */
static size_t header_make(struct conn *c, uint8_t out[HEADER_MAX], struct frame f, const void *head,
                          const void *body)
{
    bool checked = c->limits.kinds == FRAME_CHECKED;
    f.flags = checked ? FRAME_FLAG_CRC : 0;
    frame_encode(out, &f);
    if (!checked)
        return FRAME_HEADER_BYTES;
    const struct frame_checksums sums = {.head = crc32c(0, head, f.head_bytes),
                                         .body = crc32c(0, body, (size_t)f.body_bytes)};
    frame_checksums_encode(out, &sums, c->checked_out++);
    return HEADER_MAX;
}

enum err conn_send(struct conn *c, enum frame_type type, const void *head, size_t head_bytes,
                   const void *body, uint64_t body_bytes)
{
    uint8_t header[HEADER_MAX];
    if (conn_closed(c) || c->broken)
        return ERR_CLOSED;
    if (head_bytes > FRAME_HEAD_MAX || body_bytes > FRAME_BODY_MAX) {
        conn_fault(c, ERR_TOOBIG, "this process made a frame over the size limit");
        return ERR_TOOBIG;
    }
    const struct frame f = {.version = FRAME_VERSION,
                            .type = (uint16_t)type,
                            .head_bytes = (uint32_t)head_bytes,
                            .body_bytes = body_bytes};
    struct out o = {{{header, header_make(c, header, f, head, body)},
                     {(void *)(uintptr_t)head, head_bytes},
                     {(void *)(uintptr_t)body, (size_t)body_bytes}}};
    return send_or_queue(c, &o);
}

void conn_cork(struct conn *c)
{
    c->corked = true;
}

void conn_uncork(struct conn *c)
{
    if (!c->corked)
        return;
    c->corked = false;
    if (c->first && c->state == OPEN && !c->writable_wanted)
        conn_queue_flush(c);
}

/* ---- Copy out ---- */

/* Splits `s` after its first `keep` bytes: a new segment for the other bytes follows it. */
static enum err segment_split(struct conn *c, struct segment *s, uint64_t keep)
{
    struct segment *rest = mem_zalloc(1, sizeof(*rest));
    if (!rest)
        return ERR_NOMEM;
    rest->next = s->next;
    rest->at = s->at + keep;
    rest->left = s->left - keep;
    rest->frames = s->frames;
    s->next = rest;
    s->left = keep;
    s->frames = 0;
    if (c->last == s)
        c->last = rest;
    return ERR_OK;
}

static enum err segment_own(struct conn *c, struct segment *s)
{
    if (s->left > CONN_QUEUE_MAX_BYTES - c->copied_bytes)
        return ERR_TOOBIG;
    s->heap = mem_resize(NULL, 1, (size_t)s->left);
    if (!s->heap)
        return ERR_NOMEM;
    memcpy(s->heap, s->at, (size_t)s->left);
    s->at = s->heap;
    s->copied = true;
    c->copied_bytes += (size_t)s->left;
    c->stats.copied_out_bytes += s->left;
    return ERR_OK;
}

/* Copies the part of `s` inside [lo, hi), splitting `s` at the borders. *copied grows by the bytes copied. */
static enum err segment_copy_out(struct conn *c, struct segment *s, uintptr_t lo, uintptr_t hi,
                                 size_t *copied)
{
    uintptr_t at = (uintptr_t)s->at;
    if (s->copied || at >= hi || at + s->left <= lo)
        return ERR_OK;
    if (at < lo) /* the part inside becomes the next segment, which is handled next */
        return segment_split(c, s, lo - at);
    enum err rc = ERR_OK;
    if (at + s->left > hi)
        rc = segment_split(c, s, hi - at);
    if (rc == ERR_OK)
        rc = segment_own(c, s);
    if (rc == ERR_OK)
        *copied += (size_t)s->left;
    return rc;
}

size_t conn_copy_out(struct conn *c, const void *lo, size_t bytes)
{
    size_t copied = 0;
    enum err rc = ERR_OK;
    for (struct segment *s = c->first; s && rc == ERR_OK; s = s->next)
        rc = segment_copy_out(c, s, (uintptr_t)lo, (uintptr_t)lo + bytes, &copied);
    check(c);
    if (rc != ERR_OK)
        conn_fault(c, rc, "the peer reads too slowly: its unsent data cannot be copied");
    return copied;
}
