#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/codec/codec_choice.h"
#include "common/net/conn_state.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/net/socket.h"
#include "common/net/socket_progress.h"
#include "common/process/files.h"

/* ---- The end ---- */

/* The only place where a connection is freed. */
static void conn_free(struct conn *c)
{
    conn_queue_drop(c);
    tls_link_free(c->tls);
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

/* Stops all events. The caller owns the returned socket. */
static int conn_quit(struct conn *c)
{
    int fd = c->fd;
    event_del(&c->read_event);
    event_del(&c->write_event);
    loop_timer_stop(&c->finish_timer);
    conn_queue_drop(c);
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
    files_close(&fd);
}

/* Limited, because a peer can send garbage without end. */
static void say_fault(const struct conn *c, const char *why)
{
    static _Thread_local struct log_budget budget;
    uint32_t left_out;
    if (!log_may(&budget, clock_now_ms(), &left_out))
        return;
    if (left_out)
        log_warn("%u more connections were closed for errors", left_out);
    log_warn("%s: %s; closing the connection", c->peer, why);
}

void conn_fault(struct conn *c, enum err code, const char *why)
{
    if (c->state == OPEN)
        say_fault(c, why);
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

void conn_close_errno(struct conn *c, int error)
{
    conn_close(c, errno_code(error), strerror(error));
}

void conn_look_again(struct conn *c)
{
    if (loop_timer_once(&c->finish_timer, CONN_LOOK_MS) != ERR_OK)
        conn_fault(c, ERR_NOMEM, "no memory for a timer");
}

/* A stopped process keeps its connection as long as its host responds; a host that does not respond counts as
 * gone. */
static void look_at_silence(struct conn *c)
{
    char why[80];
    int64_t silent_ms = socket_silent_ms(c->fd);
    if (silent_ms < CONN_SILENT_MS) {
        conn_look_again(c);
        return;
    }
    c->silent_ms = silent_ms;
    (void)snprintf(why, sizeof why, "its host did not respond for %.1f s",
                   (double)silent_ms / 1000);
    conn_close(c, ERR_TIMEOUT, why);
}

int64_t conn_silent_ms(const struct conn *c)
{
    return c->silent_ms;
}

static void on_late(void *arg)
{
    struct conn *c = arg;
    if (c->state == SHAKING)
        conn_shake_late(c);
    else if (c->state == OPEN)
        look_at_silence(c);
    else
        conn_close(c, ERR_TIMEOUT, "the peer did not close the connection");
}

/* The queue is empty after conn_finish: shut down our side and wait for the peer to close. */
static void finish_sent(struct conn *c)
{
    if (c->tls)
        tls_link_bye(c->tls);
    if (shutdown(c->fd, SHUT_WR) != 0)
        conn_close_errno(c, errno);
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
    if (c->state == CONNECTING || c->state == SHAKING || c->broken) {
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
    conn_queue_flush(c);
    if (c->state == FINISHING && !c->broken && !c->first)
        finish_sent(c);
}

bool conn_idle(const struct conn *c)
{
    return c->first == NULL;
}

enum err conn_progress(const struct conn *c, struct link_progress *p)
{
    enum err err = socket_progress(conn_fd(c), p);
    if (!err)
        p->waiting_bytes += c->queued_bytes;
    return err;
}

/* ---- The beginning ---- */

/* Connecting to a local port without a listener can connect the socket to itself (TCP's simultaneous open). */
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
        conn_fault(c, ERR_NOMEM, "no memory for a socket event");
        return;
    }
    conn_look_again(c);
    if (c->state == OPEN && c->ops->on_open)
        c->ops->on_open(c, c->owner);
}

void conn_up(struct conn *c)
{
    open_now(c);
    if (c->state == OPEN && c->first && !c->corked)
        conn_queue_flush(c);
    else if (c->state == OPEN)
        conn_want_writable(c, c->first != NULL && !c->corked);
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
        conn_close_errno(c, error);
        return;
    }
    if (c->tls)
        conn_shake_begin(c);
    else
        conn_up(c);
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
    if (c->state == SHAKING) {
        conn_shake(c);
        return;
    }
    if (c->tls_read_waits)
        event_active(&c->read_event, EV_READ, 1);
    conn_queue_flush(c);
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
    c->again.fn = conn_on_again;
    c->ops = ops;
    c->owner = owner;
    c->fd = fd;
    c->small = true;
    c->limits = (struct frame_limits){FRAME_PLAIN, FRAME_HEAD_MAX, FRAME_BODY_MAX};
    snprintf(c->peer, sizeof(c->peer), "%s", peer);
    event_assign(&c->read_event, l->base, fd, EV_READ | EV_PERSIST, conn_on_readable, c);
    event_assign(&c->write_event, l->base, fd, EV_WRITE | EV_PERSIST, on_writable, c);
    loop_timer_init(&c->finish_timer, l, on_late, c);
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
    if (event_add(&fresh->read_event, NULL) != 0 ||
        loop_timer_once(&fresh->finish_timer, CONN_LOOK_MS) != ERR_OK)
        goto free_fresh;
    *c = fresh;
    return ERR_OK;
free_fresh:
    event_del(&fresh->read_event);
    conn_free(fresh);
close_fd:
    close(take_fd);
    return ERR_NOMEM;
}

enum err conn_resume(struct conn **c, struct loop *l, const struct conn_handover *take,
                     const char *peer, const struct conn_ops *ops, void *owner)
{
    enum err err = conn_new(c, l, take->fd, peer, ops, owner);
    if (err) {
        tls_link_free(take->tls);
        return err;
    }
    (*c)->tls = take->tls;
    if (take->checksums)
        conn_use_checksums(*c);
    if (take->tls) /* OpenSSL may hold bytes already, for which the socket gives no event */
        event_active(&(*c)->read_event, EV_READ, 1);
    return ERR_OK;
}

enum err conn_dial(struct conn **c, struct loop *l, const struct sockaddr *addr,
                   unsigned addr_bytes, const char *peer, const struct conn_ops *ops, void *owner)
{
    int fd = socket_open(addr->sa_family);
    int error = fd < 0 ? errno : 0;
    struct conn *fresh = conn_alloc(l, fd, peer, ops, owner);
    if (!fresh) {
        files_close(&fd);
        return ERR_NOMEM;
    }
    *c = fresh;
    if (fd >= 0 && connect(fd, addr, addr_bytes) != 0 && errno != EINPROGRESS)
        error = errno;
    if (error != 0)
        conn_close_errno(fresh, error);
    else
        conn_want_writable(fresh, true); /* also if connect has succeeded already */
    return ERR_OK;
}

void conn_set_owner(struct conn *c, const struct conn_ops *ops, void *owner)
{
    c->ops = ops;
    c->owner = owner;
}

void conn_limits(struct conn *c, uint32_t head_max, uint64_t body_max)
{
    c->limits.head_max = head_max;
    c->limits.body_max = body_max;
}

void conn_offer_checksums(struct conn *c)
{
    c->limits.kinds = FRAME_PLAIN | FRAME_CHECKED;
}

void conn_use_checksums(struct conn *c)
{
    c->limits.kinds = FRAME_CHECKED;
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

enum err conn_detach(struct conn *c, struct conn_handover *out)
{
    if (!c->in_on_frame || c->state != OPEN || c->broken || c->first || c->lo < c->hi)
        return ERR_PROTO;
    assert(c->checked_in == 0 && c->checked_out == 0); /* the next frame is the hello's answer */
    c->ops = NULL;
    *out = (struct conn_handover){.tls = c->tls, .checksums = c->limits.kinds == FRAME_CHECKED};
    c->tls = NULL;
    out->fd = conn_quit(c);
    return ERR_OK;
}

void conn_handover_drop(struct conn_handover *h)
{
    files_close(&h->fd);
    tls_link_free(h->tls);
    *h = (struct conn_handover){.fd = -1};
}
