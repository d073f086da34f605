#include "tests/lib/peer.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/mem.h"
#include "common/net/socket.h"

static enum err act(struct peer *p, enum peer_callback where)
{
    if (p->closed)
        p->after_close++;
    if (p->act_in != where || p->act_at-- != 0)
        return ERR_OK;
    return p->act(p);
}

static enum err on_head(struct conn *c, void *owner, const struct frame *f, const uint8_t *head)
{
    struct peer *p = owner;
    (void)c;
    assert_true(p->n_got < PEER_FRAMES_MAX);
    uint8_t *copy = mem_resize(NULL, 1, f->head_bytes);
    if (!copy)
        return ERR_NOMEM;
    memcpy(copy, head, f->head_bytes);
    p->got[p->n_got++] = (struct peer_frame){.frame = *f, .head = copy};
    return act(p, PEER_ON_HEAD);
}

static enum err on_space(struct conn *c, void *owner, uint64_t at, uint64_t left, void **to,
                         size_t *bytes)
{
    struct peer *p = owner;
    struct peer_frame *now = &p->got[p->n_got - 1];
    (void)c;
    if (!now->body)
        now->body = mem_resize(NULL, 1, (size_t)now->frame.body_bytes);
    if (!now->body)
        return ERR_NOMEM;
    assert_int_equal(at + left, now->frame.body_bytes);
    *to = now->body + at;
    *bytes = p->piece_bytes && p->piece_bytes < left ? p->piece_bytes : (size_t)left;
    return act(p, PEER_ON_SPACE);
}

static enum err on_piece(struct conn *c, void *owner, void *at, size_t bytes)
{
    (void)c;
    (void)at;
    assert_true(bytes > 0);
    return act(owner, PEER_ON_PIECE);
}

static enum err on_frame(struct conn *c, void *owner)
{
    struct peer *p = owner;
    (void)c;
    p->got[p->n_got - 1].over = true;
    p->n_over++;
    return act(p, PEER_ON_FRAME);
}

static void on_close(struct conn *c, void *owner, enum err code, const char *why)
{
    struct peer *p = owner;
    assert_ptr_equal(c, p->conn);
    (void)!act(p, PEER_ON_CLOSE);
    p->closed++;
    p->code = code;
    p->conn = NULL;
    snprintf(p->why, sizeof(p->why), "%s", why);
}

static void on_open(struct conn *c, void *owner)
{
    struct peer *p = owner;
    p->conn = c;
    p->opened++;
    (void)!act(p, PEER_ON_OPEN);
}

static void on_drained(struct conn *c, void *owner)
{
    struct peer *p = owner;
    uint64_t at = conn_stats(c)->in_bytes;
    p->drained++;
    if (at - p->drained_at > p->most_drained)
        p->most_drained = at - p->drained_at;
    p->drained_at = at;
    (void)!act(p, PEER_ON_DRAINED);
}

static void on_idle(struct conn *c, void *owner)
{
    struct peer *p = owner;
    (void)c;
    p->idle++;
    (void)!act(p, PEER_ON_IDLE);
}

const struct conn_ops peer_ops = {
    .on_head = on_head,
    .on_space = on_space,
    .on_piece = on_piece,
    .on_frame = on_frame,
    .on_close = on_close,
    .on_open = on_open,
    .on_drained = on_drained,
    .on_idle = on_idle,
};

/* Fixed before connect and listen, so that large frames do not fit. */
static void fix_buffers(int fd)
{
    int bytes = SOCKET_BUFFER_BYTES;
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes)), 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes)), 0);
}

int peer_bind(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    fix_buffers(fd);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
    return fd;
}

int peer_listen(void)
{
    int fd = peer_bind();
    assert_int_equal(listen(fd, 16), 0);
    return fd;
}

void peer_sockets(int a[2])
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int at = peer_listen();
    to.sin_port = htons(socket_port(at));
    a[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(a[0] >= 0);
    fix_buffers(a[0]);
    assert_int_equal(connect(a[0], (struct sockaddr *)&to, sizeof(to)), 0);
    a[1] = accept(at, NULL, NULL);
    assert_true(a[1] >= 0);
    close(at);
}

int peer_init(struct peer *p, struct loop *loop)
{
    int a[2];
    peer_sockets(a);
    memset(p, 0, sizeof(*p));
    p->loop = loop;
    assert_int_equal(conn_new(&p->conn, loop, a[0], "peer", &peer_ops, p), ERR_OK);
    return a[1];
}

void peer_close(struct peer *p)
{
    if (p->conn) {
        conn_close(p->conn, ERR_STATE, "the test is over");
        peer_poll(p->loop);
        assert_null(p->conn);
    }
    assert_int_equal(p->after_close, 0);
    for (size_t i = 0; i < p->n_got; i++) {
        mem_free(p->got[i].head);
        mem_free(p->got[i].body);
    }
    p->n_got = 0;
}

static void on_deadline(void *arg)
{
    *(bool *)arg = true;
}

/* Ticks while `*a < least` or `*b < least_b`. */
static void wait_for(struct loop *loop, const int *a, int least, const size_t *b, size_t least_b)
{
    bool late = false;
    struct loop_timer deadline;
    loop_timer_init(&deadline, loop, on_deadline, &late);
    assert_int_equal(loop_timer_once(&deadline, PEER_DEADLINE_MS), ERR_OK);
    while ((a && *a < least) || (b && *b < least_b)) {
        if (late)
            fail_msg("waited %d ms in vain", PEER_DEADLINE_MS);
        assert_int_equal(loop_tick(loop, NULL), ERR_OK);
    }
    loop_timer_stop(&deadline);
}

void peer_wait_int(struct loop *loop, const int *what, int least)
{
    wait_for(loop, what, least, NULL, 0);
}

void peer_wait_size(struct loop *loop, const size_t *what, size_t least)
{
    wait_for(loop, NULL, 0, what, least);
}

void peer_wait_fd(int fd, short events)
{
    struct pollfd p = {.fd = fd, .events = events};
    int n;
    while ((n = poll(&p, 1, PEER_DEADLINE_MS)) < 0 && errno == EINTR)
        ;
    assert_int_equal(n, 1);
}

void peer_poll(struct loop *loop)
{
    bool due = false;
    struct loop_timer now;
    loop_timer_init(&now, loop, on_deadline, &due);
    assert_int_equal(loop_timer_once(&now, 0), ERR_OK);
    while (!due)
        assert_int_equal(loop_tick(loop, NULL), ERR_OK);
    loop_timer_stop(&now);
}

uint8_t *peer_encode(enum frame_type type, const void *head, size_t head_bytes, const void *body,
                     size_t body_bytes, size_t *bytes)
{
    struct frame f = {.version = FRAME_VERSION,
                      .type = (uint16_t)type,
                      .head_bytes = (uint32_t)head_bytes,
                      .body_bytes = body_bytes};
    *bytes = FRAME_HEADER_BYTES + head_bytes + body_bytes;
    uint8_t *out = mem_zalloc(1, *bytes);
    assert_non_null(out);
    frame_encode(out, &f);
    if (head_bytes)
        memcpy(out + FRAME_HEADER_BYTES, head, head_bytes);
    if (body_bytes)
        memcpy(out + FRAME_HEADER_BYTES + head_bytes, body, body_bytes);
    return out;
}

void peer_write(int fd, const void *p, size_t bytes)
{
    for (size_t at = 0; at < bytes;) {
        ssize_t n = send(fd, (const uint8_t *)p + at, bytes - at, MSG_NOSIGNAL);
        assert_true(n > 0);
        at += (size_t)n;
    }
}

void peer_read(int fd, void *p, size_t bytes)
{
    for (size_t at = 0; at < bytes;) {
        ssize_t n = recv(fd, (uint8_t *)p + at, bytes - at, 0);
        assert_true(n > 0);
        at += (size_t)n;
    }
}

uint8_t peer_byte(uint64_t n)
{
    return (uint8_t)((n * UINT64_C(0x9E3779B97F4A7C15)) >> 56);
}

void peer_fill(uint8_t *p, size_t bytes, uint64_t from)
{
    for (size_t i = 0; i < bytes; i++)
        p[i] = peer_byte(from + i);
}
