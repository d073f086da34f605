#include "common/conn.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common/log.h"
#include "common/mem.h"
#include "common/socket.h"

enum {
    IOVECS = 64,         /* for one sendmsg */
    SHARED_BYTES = 4096, /* a segment that several corked frames share */
    WHY_BYTES = 256,
};

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

enum state { CONNECTING, OPEN, FINISHING, CLOSED };
enum reading { READ_HEADER, READ_HEAD, READ_BODY };

struct conn {
    struct loop *loop;
    struct loop_later ending;
    const struct conn_ops *ops;
    void *owner;
    int fd;
    enum state state;
    struct event read_event, write_event;
    struct loop_timer finish_timer;
    bool writable_wanted, corked, paused, in_on_frame;
    int broken; /* errno of a write that failed; the read side goes on to the end */
    enum err code;
    char why[WHY_BYTES];
    char peer[SOCKET_NAME_MAX];
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
    size_t copied_bytes, copied_max, frames;

    size_t lo, hi; /* bytes in the stage */
    uint8_t stage[CONN_STAGE_BYTES];
};

static size_t least(size_t a, uint64_t b)
{
    return b < a ? (size_t)b : a;
}

/* ---- The end ---- */

static void segment_free(struct segment *s)
{
    mem_free(s->heap);
    mem_free(s);
}

static void queue_drop(struct conn *c)
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
}

/* The one place where a connection is freed. */
static void conn_free(struct conn *c)
{
    queue_drop(c);
    mem_free(c->head);
    mem_free(c);
}

static void on_end(struct loop_later *later)
{
    struct conn *c = (struct conn *)((char *)later - offsetof(struct conn, ending));
    if (c->ops && c->ops->on_close)
        c->ops->on_close(c, c->owner, c->code, c->why);
    conn_free(c);
}

/* No event comes any more; the socket is the caller's. */
static int conn_quit(struct conn *c)
{
    int fd = c->fd;
    event_del(&c->read_event);
    event_del(&c->write_event);
    loop_timer_stop(&c->finish_timer);
    queue_drop(c);
    c->state = CLOSED;
    c->fd = -1;
    loop_put_off(c->loop, &c->ending);
    return fd;
}

static void set_reason(struct conn *c, enum err code, const char *why)
{
    c->code = code;
    snprintf(c->why, sizeof(c->why), "%s", why);
}

void conn_close(struct conn *c, enum err code, const char *why)
{
    if (c->state == CLOSED)
        return;
    if (c->state != FINISHING)
        set_reason(c, code, why);
    int fd = conn_quit(c);
    if (fd >= 0)
        close(fd);
}

/* Close for a reason that this side found in the peer's bytes, or in its own lack of memory. */
static void conn_fault(struct conn *c, enum err code, const char *why)
{
    if (c->state == OPEN)
        log_warn("%s: %s; closing the connection", c->peer, why);
    conn_close(c, code, why);
}

static enum err errno_code(int error)
{
    switch (error) {
    case ETIMEDOUT:
        return ERR_TIMEOUT;
    case ENOMEM:
    case ENOBUFS:
        return ERR_NOMEM;
    case ECONNRESET:
    case EPIPE:
    case ECONNREFUSED:
        return ERR_CLOSED;
    default:
        return ERR_IO;
    }
}

static void close_errno(struct conn *c, int error)
{
    conn_close(c, errno_code(error), strerror(error));
}

static void on_finish_late(void *arg)
{
    conn_close(arg, ERR_TIMEOUT, "the peer did not hang up");
}

/* ---- Out ---- */

static void want_writable(struct conn *c, bool wanted)
{
    if (wanted == c->writable_wanted)
        return;
    c->writable_wanted = wanted;
    if (!wanted)
        event_del(&c->write_event);
    else if (event_add(&c->write_event, NULL) != 0)
        conn_fault(c, ERR_NOMEM, "no memory to wait for the socket");
}

/* A write failed: what is queued is lost, but the peer's last words may be there to read. */
static void out_broken(struct conn *c, int error)
{
    c->broken = error;
    queue_drop(c);
    want_writable(c, false);
    if (c->paused)
        close_errno(c, error);
    else
        event_active(&c->read_event, EV_READ, 1);
}

/* Bytes sent, 0 when the socket is full or broken. */
static size_t out_sendmsg(struct conn *c, struct iovec *iov, size_t n)
{
    struct msghdr m = {.msg_iov = iov, .msg_iovlen = n};
    ssize_t sent;
    do {
        sent = sendmsg(c->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
        c->stats.send_calls++;
    } while (sent < 0 && errno == EINTR);
    if (sent < 0 && errno != EAGAIN && errno != EWOULDBLOCK)
        out_broken(c, errno);
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
        return;
    }
    c->first->at += sent;
    c->first->left -= sent;
    if (c->first->copied)
        c->copied_bytes -= sent;
}

/* One system call; the rest waits for the socket. */
static void queue_flush(struct conn *c)
{
    struct iovec iov[IOVECS];
    if (c->first)
        queue_advance(c, out_sendmsg(c, iov, queue_gather(c, iov)));
    if (c->state != CLOSED && !c->broken)
        want_writable(c, c->first != NULL);
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
    if (bytes > c->copied_max - c->copied_bytes)
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

/* One frame on its way: header, head, body. */
struct out {
    struct iovec part[3];
};

/* Queue what is behind the first `sent` bytes of it. */
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
    }
    return rc;
}

static size_t out_bytes(const struct out *o)
{
    return o->part[0].iov_len + o->part[1].iov_len + o->part[2].iov_len;
}

/* Nothing is queued: the frame goes out from where it stands. */
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
    if (!c->first && !c->corked && c->state == OPEN)
        sent = send_now(c, o);
    if (c->broken)
        return ERR_CLOSED;
    c->stats.out_frames++;
    if (sent == out_bytes(o))
        return ERR_OK;
    enum err rc = queue_rest(c, o, sent);
    if (rc != ERR_OK) {
        conn_fault(c, rc,
                   rc == ERR_TOOBIG ? "the peer reads too slowly: its queue is full"
                                    : "no memory for its queue");
        return rc;
    }
    if (c->state != OPEN)
        return ERR_OK;
    if (!c->corked)
        want_writable(c, true);
    else if (!c->writable_wanted && cork_is_full(c))
        queue_flush(c);
    return c->state == CLOSED || c->broken ? ERR_CLOSED : ERR_OK;
}

enum err conn_send(struct conn *c, enum frame_type type, const void *head, size_t head_bytes,
                   const void *body, uint64_t body_bytes)
{
    uint8_t header[FRAME_HEADER_BYTES];
    if (conn_closed(c) || c->broken)
        return ERR_CLOSED;
    if (head_bytes > FRAME_HEAD_MAX || body_bytes > FRAME_BODY_MAX) {
        conn_fault(c, ERR_TOOBIG, "this side made a frame over the limit");
        return ERR_TOOBIG;
    }
    frame_encode(header, &(struct frame){.version = FRAME_VERSION,
                                         .type = (uint16_t)type,
                                         .head_bytes = (uint32_t)head_bytes,
                                         .body_bytes = body_bytes});
    struct out o = {{{header, sizeof(header)},
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
        queue_flush(c);
}

/* Everything has left after a finish: say so to the peer, and wait for it to hang up. */
static void finish_sent(struct conn *c)
{
    if (shutdown(c->fd, SHUT_WR) != 0)
        close_errno(c, errno);
}

static void on_all_sent(struct conn *c)
{
    if (c->state == FINISHING)
        finish_sent(c);
    else if (c->ops->on_idle)
        c->ops->on_idle(c, c->owner);
}

void conn_finish(struct conn *c, enum err code, const char *why)
{
    if (conn_closed(c))
        return;
    if (c->state == CONNECTING || c->broken) {
        conn_close(c, code, why);
        return;
    }
    set_reason(c, code, why);
    c->state = FINISHING;
    conn_pause(c, false);
    if (loop_timer_once(&c->finish_timer, CONN_FINISH_MS) != ERR_OK) {
        conn_close(c, code, why);
        return;
    }
    c->corked = false;
    queue_flush(c);
    if (c->state == FINISHING && !c->broken && !c->first)
        finish_sent(c);
}

bool conn_idle(const struct conn *c)
{
    return c->first == NULL;
}

/* ---- Copy out ---- */

/* `s` keeps its first `keep` bytes, a new segment behind it refers to the others. */
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
    if (s->left > c->copied_max - c->copied_bytes)
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

/* Cut `s` so that it is wholly inside [lo, hi) or wholly outside; *copied counts what became ours.
 */
static enum err segment_copy_out(struct conn *c, struct segment *s, uintptr_t lo, uintptr_t hi,
                                 size_t *copied)
{
    uintptr_t at = (uintptr_t)s->at;
    if (s->copied || at >= hi || at + s->left <= lo)
        return ERR_OK;
    if (at < lo) /* the part inside is the next segment, and seen next */
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
    if (rc != ERR_OK)
        conn_fault(c, rc, "it reads too slowly: what is left for it cannot be kept");
    return copied;
}

/* ---- In ---- */

static bool reading_stopped(const struct conn *c)
{
    return c->state != OPEN || c->paused;
}

/* A callback of the owner has come back. */
static void heed(struct conn *c, enum err rc, const char *where)
{
    char why[WHY_BYTES];
    if (rc == ERR_OK || conn_closed(c))
        return;
    const char *name = frame_type_str(c->frame.type);
    snprintf(why, sizeof(why), "%s of a %s frame: %s", where, name ? name : "?", err_str(rc));
    conn_fault(c, rc, why);
}

static void frame_over(struct conn *c)
{
    c->reading = READ_HEADER;
    c->small = c->frame.head_bytes + c->frame.body_bytes < CONN_STAGE_BYTES / 4;
    c->stats.in_frames++;
    if (!c->ops->on_frame)
        return;
    c->in_on_frame = true;
    heed(c, c->ops->on_frame(c, c->owner), "end");
    c->in_on_frame = false;
}

/* Ask the owner where the next piece goes. */
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
    c->reading = READ_BODY;
    c->body_at = 0;
    heed(c, c->ops->on_head(c, c->owner, &c->frame, head), "head");
    mem_free(c->head);
    c->head = NULL;
}

/* Each step_* takes what it can from the stage; false: it needs more bytes from the socket. */
static bool step_header(struct conn *c)
{
    const uint8_t *in = c->stage + c->lo;
    if (c->hi - c->lo < FRAME_HEADER_BYTES)
        return false;
    enum err rc = frame_decode(&c->frame, in, c->head_max, c->body_max);
    if (rc != ERR_OK) {
        char why[WHY_BYTES];
        frame_explain(in, c->head_max, c->body_max, why, sizeof(why));
        conn_fault(c, rc, why);
        return true;
    }
    c->lo += FRAME_HEADER_BYTES;
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
    c->piece_have += bytes;
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

/* What is left in the stage moves to its front: a header, or a head that is not whole. */
static void stage_compact(struct conn *c)
{
    if (c->lo == 0)
        return;
    memmove(c->stage, c->stage + c->lo, c->hi - c->lo);
    c->hi -= c->lo;
    c->lo = 0;
}

/* How many bytes the stage may take behind what goes to its final place. */
static size_t stage_window(const struct conn *c, size_t direct)
{
    size_t room = CONN_STAGE_BYTES - c->hi;
    size_t window = c->small ? CONN_STAGE_BYTES : CONN_PEEK_BYTES;
    if (c->reading == READ_BODY && c->body_at + c->piece_bytes < c->frame.body_bytes)
        window = direct < CONN_STAGE_BYTES ? CONN_STAGE_BYTES : 0; /* several small pieces */
    if (c->reading == READ_HEAD && direct == 0 && c->frame.head_bytes > c->hi + window)
        window = c->frame.head_bytes - c->hi;
    return least(window, room);
}

/* Where the next bytes go: first to their final place, what follows to the stage. */
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
        c->piece_have += first;
    else
        c->head_have += (uint32_t)first;
    c->hi += got - first;
    c->stats.in_bytes += got;
}

static void close_eof(struct conn *c)
{
    bool inside = c->reading != READ_HEADER || c->lo < c->hi;
    if (c->broken)
        close_errno(c, c->broken);
    else
        conn_close(c, ERR_CLOSED,
                   inside ? "the peer hung up in the middle of a frame" : "the peer hung up");
}

static void in_failed(struct conn *c, int error)
{
    if (error != EAGAIN && error != EWOULDBLOCK)
        close_errno(c, error);
    else if (c->broken)
        close_errno(c, c->broken);
}

/* One system call. *more: it gave all that was asked for, so there may be more. Bytes read. */
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
        close_eof(c);
    else if (got < 0)
        in_failed(c, errno);
    return got > 0 ? (size_t)got : 0;
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
        size_t got = in_recvmsg(c, iov, &more);
        total += got;
        if (got > 0)
            in_arrived(c, iov[0].iov_len, got);
    }
}

/* A finishing connection: what comes is thrown away. */
static void read_away(struct conn *c)
{
    struct iovec iov[2] = {{c->stage, CONN_STAGE_BYTES}, {NULL, 0}};
    bool more = true;
    for (size_t total = 0; more && total < CONN_READ_BUDGET_BYTES;)
        total += in_recvmsg(c, iov, &more);
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    struct conn *c = arg;
    if (c->state == FINISHING) {
        read_away(c);
        return;
    }
    read_frames(c);
    if (c->state == OPEN && c->ops->on_drained)
        c->ops->on_drained(c, c->owner);
}

void conn_pause(struct conn *c, bool paused)
{
    if (paused == c->paused || c->state == CLOSED)
        return;
    c->paused = paused;
    if (c->state == CONNECTING)
        return;
    if (paused)
        event_del(&c->read_event);
    else if (event_add(&c->read_event, NULL) != 0)
        conn_fault(c, ERR_NOMEM, "no memory to wait for the socket");
    else
        event_active(&c->read_event, EV_READ, 1); /* the stage may hold whole frames */
}

/* ---- The beginning ---- */

/* A port of this host that nobody listens on can meet itself (TCP's simultaneous open). */
static bool met_itself(int fd)
{
    struct sockaddr_storage a = {0}, b = {0};
    socklen_t na = sizeof(a), nb = sizeof(b);
    return getsockname(fd, (struct sockaddr *)&a, &na) == 0 &&
           getpeername(fd, (struct sockaddr *)&b, &nb) == 0 && na == nb && memcmp(&a, &b, na) == 0;
}

static void open_now(struct conn *c)
{
    socket_tune(c->fd);
    c->state = OPEN;
    if (!c->paused && event_add(&c->read_event, NULL) != 0) {
        conn_fault(c, ERR_NOMEM, "no memory to wait for the socket");
        return;
    }
    if (c->ops->on_open)
        c->ops->on_open(c, c->owner);
}

static void connected(struct conn *c)
{
    int error = 0;
    socklen_t n = sizeof(error);
    if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &n) != 0)
        error = errno;
    if (error == 0 && met_itself(c->fd))
        error = ECONNREFUSED;
    if (error != 0) {
        close_errno(c, error);
        return;
    }
    open_now(c);
    if (c->state == OPEN && c->first && !c->corked)
        queue_flush(c);
    else if (c->state == OPEN)
        want_writable(c, c->first != NULL && !c->corked);
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    struct conn *c = arg;
    if (c->state == CONNECTING) {
        connected(c);
        return;
    }
    queue_flush(c);
    if (c->state != CLOSED && !c->broken && !c->first)
        on_all_sent(c);
}

static struct conn *conn_alloc(struct loop *l, int fd, const char *peer, const struct conn_ops *ops,
                               void *owner)
{
    struct conn *c = mem_zalloc(1, sizeof(*c));
    if (!c)
        return NULL;
    c->loop = l;
    c->ending.fn = on_end;
    c->ops = ops;
    c->owner = owner;
    c->fd = fd;
    c->small = true;
    c->head_max = FRAME_HEAD_MAX;
    c->body_max = FRAME_BODY_MAX;
    c->copied_max = CONN_QUEUE_MAX_BYTES;
    snprintf(c->peer, sizeof(c->peer), "%s", peer);
    event_assign(&c->read_event, l->base, fd, EV_READ | EV_PERSIST, on_readable, c);
    event_assign(&c->write_event, l->base, fd, EV_WRITE | EV_PERSIST, on_writable, c);
    loop_timer_init(&c->finish_timer, l, on_finish_late, c);
    return c;
}

enum err conn_new(struct conn **c, struct loop *l, int take_fd, const char *peer,
                  const struct conn_ops *ops, void *owner)
{
    struct conn *fresh = conn_alloc(l, take_fd, peer, ops, owner);
    if (!fresh)
        goto close_fd;
    socket_tune(take_fd);
    fresh->state = OPEN;
    if (event_add(&fresh->read_event, NULL) != 0)
        goto free_fresh;
    *c = fresh;
    return ERR_OK;
free_fresh:
    conn_free(fresh);
close_fd:
    close(take_fd);
    return ERR_NOMEM;
}

enum err conn_dial(struct conn **c, struct loop *l, const struct sockaddr *addr,
                   unsigned addr_bytes, const char *peer, const struct conn_ops *ops, void *owner)
{
    int fd = socket_open(addr->sa_family);
    int error = fd < 0 ? errno : 0;
    struct conn *fresh = conn_alloc(l, fd, peer, ops, owner);
    if (!fresh) {
        if (fd >= 0)
            close(fd);
        return ERR_NOMEM;
    }
    *c = fresh;
    if (fd >= 0 && connect(fd, addr, addr_bytes) != 0 && errno != EINPROGRESS)
        error = errno;
    if (error != 0)
        close_errno(fresh, error);
    else
        want_writable(fresh, true); /* connected at once is seen there, too */
    return ERR_OK;
}

void conn_set_owner(struct conn *c, const struct conn_ops *ops, void *owner)
{
    c->ops = ops;
    c->owner = owner;
}

void conn_limits(struct conn *c, uint32_t head_max, uint64_t body_max)
{
    c->head_max = head_max;
    c->body_max = body_max;
}

void conn_queue_max(struct conn *c, size_t copied_bytes)
{
    c->copied_max = copied_bytes > c->copied_bytes ? copied_bytes : c->copied_bytes;
}

bool conn_closed(const struct conn *c)
{
    return c->state == CLOSED || c->state == FINISHING;
}

const char *conn_peer(const struct conn *c)
{
    return c->peer;
}

int conn_fd(const struct conn *c)
{
    return c->fd;
}

const struct conn_stats *conn_stats(const struct conn *c)
{
    return &c->stats;
}

enum err conn_detach(struct conn *c, int *fd)
{
    if (!c->in_on_frame || c->state != OPEN || c->broken || c->first || c->lo < c->hi)
        return ERR_PROTO;
    c->ops = NULL;
    *fd = conn_quit(c);
    return ERR_OK;
}
