/* One connection against a bare socket, over 127.0.0.1. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/net/conn_state.h"
#include "common/base/mem.h"
#include "common/net/socket.h"
#include "tests/lib/peer.h"

static struct loop loop;
static struct peer p; /* the connection under test */
static int fd;        /* the other end */

static int setup(void **state)
{
    (void)state;
    assert_int_equal(loop_init(&loop), ERR_OK);
    fd = peer_init(&p, &loop);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    peer_close(&p);
    if (fd >= 0)
        close(fd);
    loop_close(&loop);
    return 0;
}

static void write_frame(enum frame_type type, const void *head, size_t head_bytes, const void *body,
                        size_t body_bytes)
{
    size_t bytes;
    uint8_t *wire = peer_encode(type, head, head_bytes, body, body_bytes, &bytes);
    peer_write(fd, wire, bytes);
    mem_free(wire);
}

static void assert_got(size_t i, enum frame_type type, const void *head, size_t head_bytes,
                       const void *body, size_t body_bytes)
{
    const struct peer_frame *g = &p.got[i];
    assert_true(i < p.n_got && g->over);
    assert_int_equal(g->frame.type, type);
    assert_int_equal(g->frame.head_bytes, head_bytes);
    assert_int_equal(g->frame.body_bytes, body_bytes);
    if (head_bytes)
        assert_memory_equal(g->head, head, head_bytes);
    if (body_bytes)
        assert_memory_equal(g->body, body, body_bytes);
}

static uint8_t *filled(size_t bytes, uint64_t from)
{
    uint8_t *b = mem_zalloc(1, bytes);
    assert_non_null(b);
    peer_fill(b, bytes, from);
    return b;
}

/* ---- Reading ---- */

static void frames_torn_into_single_bytes_arrive_whole(void **state)
{
    (void)state;
    size_t a_bytes, b_bytes;
    uint8_t *a = peer_encode(FRAME_PUSH, "head", 4, "a body", 6, &a_bytes);
    uint8_t *b = peer_encode(FRAME_PULL, NULL, 0, NULL, 0, &b_bytes);
    for (size_t i = 0; i < a_bytes; i++) {
        peer_write(fd, a + i, 1);
        while (conn_stats(p.conn)->in_bytes < i + 1)
            assert_int_equal(loop_tick(&loop, NULL), ERR_OK);
        assert_int_equal(p.n_over, i + 1 == a_bytes);
    }
    for (size_t i = 0; i < b_bytes; i++) {
        peer_write(fd, b + i, 1);
        while (conn_stats(p.conn)->in_bytes < a_bytes + i + 1)
            assert_int_equal(loop_tick(&loop, NULL), ERR_OK);
    }
    assert_got(0, FRAME_PUSH, "head", 4, "a body", 6);
    assert_got(1, FRAME_PULL, "", 0, "", 0);
    assert_int_equal(p.n_got, 2);
    mem_free(a);
    mem_free(b);
}

static void many_frames_in_one_write_cost_few_system_calls(void **state)
{
    (void)state;
    enum { FRAMES = 2000, BODY = 64, HEAD = 20 };
    size_t each = FRAME_HEADER_BYTES + HEAD + BODY;
    uint8_t *wire = mem_zalloc(FRAMES, each), *bytes = filled(FRAMES + HEAD + BODY, 3);
    for (size_t i = 0; i < FRAMES; i++) {
        size_t n;
        uint8_t *one = peer_encode(FRAME_PUSH, bytes + i, HEAD, bytes + i + HEAD, BODY, &n);
        memcpy(wire + i * each, one, n);
        mem_free(one);
    }
    peer_write(fd, wire, FRAMES * each);
    peer_wait_size(&loop, &p.n_over, FRAMES);
    for (size_t i = 0; i < FRAMES; i++)
        assert_got(i, FRAME_PUSH, bytes + i, HEAD, bytes + i + HEAD, BODY);
    /* 13 full stages, and a short one for each event */
    uint64_t least = FRAMES * each / CONN_STAGE_BYTES;
    assert_in_range(conn_stats(p.conn)->recv_calls, least, 2 * least + 8);
    mem_free(wire);
    mem_free(bytes);
}

/* A thread at the bare end: writes or reads `bytes`, as fast as the socket lets it. */
struct mover {
    int fd;
    uint8_t *at;
    size_t bytes;
    bool hang_up; /* when all is read */
    bool failed;
};

static void *writer_main(void *arg)
{
    struct mover *m = arg;
    for (size_t at = 0; at < m->bytes && !m->failed;) {
        ssize_t n = send(m->fd, m->at + at, m->bytes - at, MSG_NOSIGNAL);
        m->failed = n <= 0;
        at += (size_t)(n > 0 ? n : 0);
    }
    return NULL;
}

static void *reader_main(void *arg)
{
    struct mover *m = arg;
    for (size_t at = 0; at < m->bytes && !m->failed;) {
        ssize_t n = recv(m->fd, m->at + at, m->bytes - at, 0);
        m->failed = n <= 0;
        at += (size_t)(n > 0 ? n : 0);
    }
    if (m->hang_up)
        shutdown(m->fd, SHUT_WR);
    return NULL;
}

enum { LARGE = 9 << 20 };

static void receive_large(size_t piece_bytes)
{
    size_t bytes;
    pthread_t thread;
    uint8_t *body = filled(LARGE, piece_bytes);
    uint8_t *wire = peer_encode(FRAME_REPLY, "12345", 5, body, LARGE, &bytes);
    uint8_t *twice = mem_zalloc(2, bytes);
    memcpy(twice, wire, bytes);
    memcpy(twice + bytes, wire, bytes);
    struct mover m = {.fd = fd, .at = twice, .bytes = 2 * bytes};
    size_t first = p.n_got;
    p.piece_bytes = piece_bytes;
    assert_int_equal(pthread_create(&thread, NULL, writer_main, &m), 0);
    peer_wait_size(&loop, &p.n_over, first + 2);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_false(m.failed);
    assert_got(first, FRAME_REPLY, "12345", 5, body, LARGE);
    assert_got(first + 1, FRAME_REPLY, "12345", 5, body, LARGE);
    mem_free(body);
    mem_free(wire);
    mem_free(twice);
}

static void a_body_larger_than_the_buffers_is_read_to_its_place(void **state)
{
    (void)state;
    receive_large(0);
    /* only the first read of a frame can have taken body bytes with it */
    assert_in_range(conn_stats(p.conn)->staged_body_bytes, 0, 2 * CONN_STAGE_BYTES);
}

static void a_body_arrives_whole_in_pieces_of_any_size(void **state)
{
    (void)state;
    size_t sizes[] = {1 << 20, 65536, 65537, 16384, 4097, 100};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
        receive_large(sizes[i]);
}

static void heads_around_the_size_of_the_stage_arrive_whole(void **state)
{
    (void)state;
    size_t sizes[] = {CONN_PEEK_BYTES,      CONN_STAGE_BYTES - FRAME_HEADER_BYTES,
                      CONN_STAGE_BYTES - 1, CONN_STAGE_BYTES,
                      CONN_STAGE_BYTES + 1, 300000};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        uint8_t *head = filled(sizes[i], i), *body = filled(5000, i + 9);
        write_frame(FRAME_ENTER, head, sizes[i], body, 5000);
        write_frame(FRAME_DEAL, head, sizes[i], NULL, 0);
        peer_wait_size(&loop, &p.n_over, 2 * i + 2);
        assert_got(2 * i, FRAME_ENTER, head, sizes[i], body, 5000);
        assert_got(2 * i + 1, FRAME_DEAL, head, sizes[i], NULL, 0);
        mem_free(head);
        mem_free(body);
    }
}

static void a_busy_connection_reads_no_more_than_its_budget_at_a_time(void **state)
{
    (void)state;
    enum { BODY = 64 << 20, PIECE = 64 << 10 };
    pthread_t thread;
    size_t bytes;
    uint8_t *body = mem_zalloc(1, BODY);
    uint8_t *wire = peer_encode(FRAME_REPLY, NULL, 0, body, BODY, &bytes);
    struct mover m = {.fd = fd, .at = wire, .bytes = bytes};
    p.piece_bytes = PIECE;
    assert_int_equal(pthread_create(&thread, NULL, writer_main, &m), 0);
    peer_wait_size(&loop, &p.n_over, 1);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_in_range(p.most_drained, 1, CONN_READ_BUDGET_BYTES + PIECE + CONN_STAGE_BYTES);
    mem_free(body);
    mem_free(wire);
}

/* ---- Refusing ---- */

static void expect_refused(const uint8_t header[FRAME_HEADER_BYTES], enum err code, const char *why)
{
    peer_write(fd, header, FRAME_HEADER_BYTES);
    peer_wait_int(&loop, &p.closed, 1);
    assert_int_equal(p.code, code);
    assert_string_equal(p.why, why);
    assert_int_equal(p.n_got, 0);
}

static void refuse_one(struct frame f, enum err code, const char *why)
{
    uint8_t header[FRAME_HEADER_BYTES];
    frame_encode(header, &f);
    expect_refused(header, code, why);
    teardown(NULL);
    setup(NULL);
}

static void a_wrong_header_closes_the_connection_and_says_why(void **state)
{
    (void)state;
    struct frame ok = {.version = FRAME_VERSION, .type = FRAME_PUSH};
    struct frame f = ok;
    f.version = 2;
    refuse_one(f, ERR_PROTO, "frame version 2; this release uses version 1");
    f = ok, f.type = 999;
    refuse_one(f, ERR_PROTO, "frame type 999 is unknown");
    f = ok, f.flags = FRAME_FLAG_CRC;
    refuse_one(f, ERR_PROTO, "flags 0x1 of a PUSH frame were not negotiated");
    expect_refused((const uint8_t *)"GET / HTTP/1.1\r\nHost: x\r\n", ERR_PROTO,
                   "magic 0x20544547, not a gradwire peer");
}

static void an_oversized_head_or_body_is_refused_before_anything_is_allocated(void **state)
{
    (void)state;
    struct frame head = {.version = FRAME_VERSION, .type = FRAME_PUSH, .head_bytes = UINT32_MAX};
    struct frame body = {.version = FRAME_VERSION, .type = FRAME_PUSH, .body_bytes = UINT64_MAX};
    uint8_t header[FRAME_HEADER_BYTES];
    frame_encode(header, &head);
    mem_fail_at(0);
    expect_refused(header, ERR_TOOBIG,
                   "the head of a PUSH frame has 4294967295 bytes; allowed: up to 4194304");
    assert_false(mem_fail_fired());
    mem_fail_at(-1);
    teardown(NULL);
    setup(NULL);
    frame_encode(header, &body);
    mem_fail_at(0);
    expect_refused(
        header, ERR_TOOBIG,
        "the body of a PUSH frame has 18446744073709551615 bytes; allowed: up to 68719476736");
    assert_false(mem_fail_fired());
    mem_fail_at(-1);
}

static void limits_of_the_owner_hold_from_the_next_frame_on(void **state)
{
    (void)state;
    conn_limits(p.conn, 8, 0);
    write_frame(FRAME_HELLO, "12345678", 8, NULL, 0);
    peer_wait_size(&loop, &p.n_over, 1);
    write_frame(FRAME_HELLO, "123456789", 9, NULL, 0);
    peer_wait_int(&loop, &p.closed, 1);
    assert_int_equal(p.code, ERR_TOOBIG);
    assert_int_equal(p.n_got, 1);
}

static void garbage_never_does_more_than_close(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        uint8_t junk[600];
        peer_fill(junk, sizeof(junk), seed * 1000);
        /* half of them begin well and go wrong later */
        if (seed % 2)
            frame_encode(junk, &(struct frame){.version = FRAME_VERSION,
                                               .type = FRAME_PULL,
                                               .head_bytes = (uint32_t)seed,
                                               .body_bytes = seed * 2});
        (void)!send(fd, junk, sizeof(junk), MSG_NOSIGNAL);
        shutdown(fd, SHUT_WR);
        peer_wait_int(&loop, &p.closed, 1);
        assert_true(p.code == ERR_PROTO || p.code == ERR_TOOBIG || p.code == ERR_CLOSED);
        teardown(NULL);
        setup(NULL);
    }
}

static void a_peer_that_dies_inside_a_frame_ends_it_at_every_offset(void **state)
{
    (void)state;
    size_t bytes;
    uint8_t *wire = peer_encode(FRAME_PUSH, "head", 4, "a body", 6, &bytes);
    for (size_t cut = 0; cut < bytes; cut++) {
        if (cut > 0)
            peer_write(fd, wire, cut);
        close(fd);
        fd = -1;
        peer_wait_int(&loop, &p.closed, 1);
        assert_int_equal(p.n_over, 0);
        assert_int_equal(p.code, ERR_CLOSED);
        assert_string_equal(p.why, cut == 0
                                       ? "the peer closed the connection"
                                       : "the peer closed the connection in the middle of a frame");
        teardown(NULL);
        setup(NULL);
    }
    mem_free(wire);
}

/* ---- Checksums ---- */

/* The frames of the tests below: a large head, a body that is copied, one that is sent from where it is, nothing. */
enum { CHECKED_FRAMES = 4, CHECKED_BODY = 900 };
static const struct {
    enum frame_type type;
    size_t head_bytes, body_bytes;
} shape[CHECKED_FRAMES] = {
    {FRAME_ENTER, 200, 0}, {FRAME_PUSH, 3, 40}, {FRAME_PUSH, 30, CHECKED_BODY}, {FRAME_PULL, 0, 0}};
enum { CHECKED_STREAM = CHECKED_FRAMES * (24 + 12) + 200 + 3 + 40 + 30 + CHECKED_BODY };

struct stream {
    uint8_t content[CHECKED_BODY], wire[CHECKED_STREAM];
    size_t end[CHECKED_FRAMES]; /* of each frame */
};

static void send_checked(struct peer *from, const struct stream *s)
{
    conn_use_checksums(from->conn);
    for (size_t i = 0; i < CHECKED_FRAMES; i++)
        assert_int_equal(conn_send(from->conn, shape[i].type, s->content + i, shape[i].head_bytes,
                                   s->content, shape[i].body_bytes),
                         ERR_OK);
}

/* Keeps the bytes that a connection sends. */
static void record(struct stream *s)
{
    size_t at = 0;
    peer_fill(s->content, sizeof s->content, 77);
    send_checked(&p, s);
    peer_read(fd, s->wire, sizeof s->wire);
    for (size_t i = 0; i < CHECKED_FRAMES; i++)
        s->end[i] = at += 24 + 12 + shape[i].head_bytes + shape[i].body_bytes;
    assert_int_equal(at, sizeof s->wire);
    teardown(NULL);
    setup(NULL);
}

static size_t frames_before(const struct stream *s, size_t at)
{
    size_t n = 0;
    while (n < CHECKED_FRAMES && s->end[n] <= at)
        n++;
    return n;
}

/* Another connection reads these bytes, and then the end. Just `whole` frames arrive, and they are right. */
static void read_checked(const struct stream *s, const uint8_t *wire, size_t bytes, size_t whole)
{
    conn_use_checksums(p.conn);
    peer_write(fd, wire, bytes);
    shutdown(fd, SHUT_WR);
    peer_wait_int(&loop, &p.closed, 1);
    assert_int_equal(p.n_over, whole);
    for (size_t i = 0; i < whole; i++)
        assert_got(i, shape[i].type, s->content + i, shape[i].head_bytes, s->content,
                   shape[i].body_bytes);
    assert_true(p.n_got <= whole + 1); /* one more head, if the body is wrong */
}

static void a_changed_byte_anywhere_closes_the_connection_before_the_frame_counts(void **state)
{
    (void)state;
    static struct stream s;
    record(&s);
    read_checked(&s, s.wire, sizeof s.wire, CHECKED_FRAMES);
    for (size_t at = 0; at < sizeof s.wire; at++) {
        uint8_t wire[CHECKED_STREAM];
        size_t whole = frames_before(&s, at), in = at - (whole ? s.end[whole - 1] : 0);
        memcpy(wire, s.wire, sizeof wire);
        wire[at] ^= (uint8_t)(1 << at % 8);
        teardown(NULL);
        setup(NULL);
        read_checked(&s, wire, sizeof wire, whole);
        assert_true(p.code == ERR_PROTO || p.code == ERR_TOOBIG);
        if (in < 24 + 12 + shape[whole].head_bytes)
            assert_int_equal(p.n_got, whole); /* no owner sees a wrong head */
    }
    assert_string_equal(p.why, "the checksum of a frame's header does not match: its bytes were "
                               "changed on the way");
}

/* A frame that comes twice, or not at all, has right checksums of its own. */
static void a_frame_that_is_doubled_or_missing_closes_the_connection(void **state)
{
    (void)state;
    static struct stream s;
    uint8_t wire[2 * CHECKED_STREAM];
    record(&s);
    for (size_t i = 0; i + 1 < CHECKED_FRAMES; i++) {
        size_t from = i ? s.end[i - 1] : 0, end = s.end[i], rest = sizeof s.wire - end;
        memcpy(wire, s.wire, end);
        memcpy(wire + end, s.wire + from, sizeof s.wire - from);
        read_checked(&s, wire, end + sizeof s.wire - from, i + 1);
        assert_int_equal(p.code, ERR_PROTO);
        teardown(NULL);
        setup(NULL);
        memcpy(wire + from, s.wire + end, rest);
        read_checked(&s, wire, from + rest, i);
        assert_int_equal(p.code, ERR_PROTO);
        teardown(NULL);
        setup(NULL);
    }
}

/* In both directions, sent immediately and from the queue, read through the stage and directly. */
static void large_checked_frames_arrive_whole_and_a_changed_one_does_not(void **state)
{
    (void)state;
    static struct peer x, y;
    int a[2];
    uint8_t *body = filled(LARGE, 21);
    memset(&x, 0, sizeof x);
    memset(&y, 0, sizeof y);
    peer_sockets(a);
    x.loop = y.loop = &loop;
    assert_int_equal(conn_new(&x.conn, &loop, a[0], "x", &peer_ops, &x), ERR_OK);
    assert_int_equal(conn_new(&y.conn, &loop, a[1], "y", &peer_ops, &y), ERR_OK);
    conn_use_checksums(x.conn);
    conn_use_checksums(y.conn);
    y.piece_bytes = 100000;
    assert_int_equal(conn_send(x.conn, FRAME_REPLY, body, 300000, body, LARGE), ERR_OK);
    assert_int_equal(conn_send(x.conn, FRAME_REPLY, "head", 4, body, LARGE), ERR_OK);
    assert_true(conn_copy_out(x.conn, body + LARGE / 2, 1000) > 0);
    memset(body + LARGE / 2, 0, 1000);
    peer_wait_size(&loop, &y.n_over, 2);
    assert_int_equal(y.got[1].body[LARGE / 2], peer_byte(21 + LARGE / 2));
    /* this owner breaks its word, and changes a body that is still being sent */
    assert_int_equal(conn_send(x.conn, FRAME_REPLY, "head", 4, body, LARGE), ERR_OK);
    assert_false(conn_idle(x.conn));
    body[LARGE - 1] ^= 1;
    peer_wait_int(&loop, &y.closed, 1);
    assert_int_equal(y.n_over, 2);
    assert_string_equal(y.why, "the checksum of a frame's body does not match: its bytes were "
                               "changed on the way");
    peer_close(&x);
    peer_close(&y);
    mem_free(body);
}

static uint32_t flags_sent(void)
{
    uint8_t header[FRAME_HEADER_BYTES];
    assert_int_equal(conn_send(p.conn, FRAME_PULL, NULL, 0, NULL, 0), ERR_OK);
    peer_read(fd, header, sizeof header);
    return header[12];
}

static void the_answer_decides_whether_an_offer_of_checksums_holds(void **state)
{
    (void)state;
    static struct stream s;
    record(&s);
    conn_offer_checksums(p.conn);
    write_frame(FRAME_CHALLENGE, NULL, 0, NULL, 0); /* it was sent before the offer arrived */
    write_frame(FRAME_HELLO_REPLY, "old", 3, NULL, 0);
    peer_wait_size(&loop, &p.n_over, 2);
    assert_int_equal(flags_sent(), 0); /* a peer of an earlier release */
    peer_write(fd, s.wire, sizeof s.wire);
    peer_wait_int(&loop, &p.closed, 1);
    assert_string_equal(p.why, "flags 0x1 of a ENTER frame were not negotiated");
    teardown(NULL);
    setup(NULL);
    conn_offer_checksums(p.conn);
    write_frame(FRAME_CHALLENGE, NULL, 0, NULL, 0);
    peer_write(fd, s.wire, sizeof s.wire);
    peer_wait_size(&loop, &p.n_over, 1 + CHECKED_FRAMES);
    assert_int_equal(flags_sent(), FRAME_FLAG_CRC);
    write_frame(FRAME_PULL, NULL, 0, NULL, 0);
    peer_wait_int(&loop, &p.closed, 1);
    assert_string_equal(p.why, "a PULL frame has no checksums, on which both sides have agreed");
}

/* ---- Closing inside callbacks ---- */

static enum err close_it(struct peer *who)
{
    conn_close(who->conn, ERR_STATE, "enough");
    assert_int_equal(conn_send(who->conn, FRAME_PULL, NULL, 0, NULL, 0), ERR_CLOSED);
    return ERR_OK;
}

static enum err finish_it(struct peer *who)
{
    conn_finish(who->conn, ERR_STATE, "enough");
    return ERR_OK;
}

static enum err refuse_it(struct peer *who)
{
    (void)who;
    return ERR_INPUT;
}

/* One frame with a body in two pieces comes in, and a large one goes out. */
static void exercise(enum peer_callback where, int at, enum err (*act)(struct peer *who))
{
    size_t bytes = 12 << 20;
    uint8_t *large = filled(bytes, 1), *sink = mem_zalloc(1, bytes + FRAME_HEADER_BYTES);
    pthread_t thread;
    struct mover m = {.fd = fd, .at = sink, .bytes = bytes + FRAME_HEADER_BYTES};
    m.hang_up = act == finish_it && where != PEER_ON_CLOSE;
    p.act_in = where;
    p.act_at = at;
    p.act = act;
    p.piece_bytes = 3;
    assert_int_equal(conn_send(p.conn, FRAME_REPLY, NULL, 0, large, bytes), ERR_OK);
    write_frame(FRAME_PUSH, "head", 4, "a body", 6);
    write_frame(FRAME_PUSH, "head", 4, "a body", 6);
    assert_int_equal(pthread_create(&thread, NULL, reader_main, &m), 0);
    if (where == PEER_ON_CLOSE) {
        peer_wait_int(&loop, &p.idle, 1);
        conn_close(p.conn, ERR_STATE, "enough");
    }
    peer_wait_int(&loop, &p.closed, 1);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(p.closed, 1);
    mem_free(large);
    mem_free(sink);
}

static void closing_is_safe_inside_every_callback(void **state)
{
    (void)state;
    struct {
        enum peer_callback where;
        int at;
    } places[] = {{PEER_ON_HEAD, 0},  {PEER_ON_HEAD, 1},    {PEER_ON_SPACE, 0}, {PEER_ON_SPACE, 1},
                  {PEER_ON_PIECE, 0}, {PEER_ON_PIECE, 1},   {PEER_ON_FRAME, 0}, {PEER_ON_FRAME, 1},
                  {PEER_ON_IDLE, 0},  {PEER_ON_DRAINED, 0}, {PEER_ON_CLOSE, 0}};
    enum err (*acts[])(struct peer *) = {close_it, finish_it};
    for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++)
        for (size_t k = 0; k < 2; k++) {
            exercise(places[i].where, places[i].at, acts[k]);
            assert_int_equal(p.code, ERR_STATE);
            assert_string_equal(p.why, "enough");
            assert_int_equal(p.after_close, 0);
            teardown(NULL);
            setup(NULL);
        }
}

static void an_owner_that_refuses_closes_with_its_reason(void **state)
{
    (void)state;
    struct {
        enum peer_callback where;
        const char *why;
    } places[] = {{PEER_ON_HEAD, "head of a PUSH frame: wrong input"},
                  {PEER_ON_SPACE, "body of a PUSH frame: wrong input"},
                  {PEER_ON_PIECE, "body of a PUSH frame: wrong input"},
                  {PEER_ON_FRAME, "end of a PUSH frame: wrong input"}};
    for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
        exercise(places[i].where, 0, refuse_it);
        assert_int_equal(p.code, ERR_INPUT);
        assert_string_equal(p.why, places[i].why);
        teardown(NULL);
        setup(NULL);
    }
}

static void the_first_reason_to_close_stays(void **state)
{
    (void)state;
    conn_cork(p.conn);
    assert_int_equal(conn_send(p.conn, FRAME_PULL, NULL, 0, NULL, 0), ERR_OK);
    conn_close(p.conn, ERR_STATE, "first");
    assert_true(conn_idle(p.conn)); /* the queue is freed immediately */
    conn_close(p.conn, ERR_IO, "second");
    conn_finish(p.conn, ERR_IO, "third");
    assert_int_equal(p.closed, 0); /* not inside conn_close */
    peer_poll(&loop);
    assert_int_equal(p.closed, 1);
    assert_int_equal(p.code, ERR_STATE);
    assert_string_equal(p.why, "first");
}

/* ---- Sending ---- */

static void a_sent_frame_is_the_bytes_of_the_wire(void **state)
{
    (void)state;
    uint8_t got[FRAME_HEADER_BYTES + 8], *want;
    size_t bytes;
    want = peer_encode(FRAME_PUSH, "head", 4, "body", 4, &bytes);
    assert_int_equal(conn_send(p.conn, FRAME_PUSH, "head", 4, "body", 4), ERR_OK);
    assert_true(conn_idle(p.conn));
    assert_int_equal(conn_stats(p.conn)->send_calls, 1);
    peer_read(fd, got, bytes);
    assert_memory_equal(got, want, bytes);
    mem_free(want);
}

static void a_sent_body_larger_than_the_buffers_leaves_whole(void **state)
{
    (void)state;
    pthread_t thread;
    size_t bytes;
    uint8_t *body = filled(LARGE, 7);
    uint8_t *want = peer_encode(FRAME_REPLY, "head", 4, body, LARGE, &bytes);
    uint8_t *got = mem_zalloc(2, bytes);
    struct mover m = {.fd = fd, .at = got, .bytes = 2 * bytes};
    assert_int_equal(conn_send(p.conn, FRAME_REPLY, "head", 4, body, LARGE), ERR_OK);
    assert_int_equal(conn_send(p.conn, FRAME_REPLY, "head", 4, body, LARGE), ERR_OK);
    assert_false(conn_idle(p.conn));
    assert_int_equal(pthread_create(&thread, NULL, reader_main, &m), 0);
    peer_wait_int(&loop, &p.idle, 1);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(conn_idle(p.conn));
    assert_memory_equal(got, want, bytes);
    assert_memory_equal(got + bytes, want, bytes);
    mem_free(got);
    mem_free(want);
    mem_free(body);
}

static void corked_frames_leave_in_one_system_call(void **state)
{
    (void)state;
    enum { FRAMES = 100, BODY = 600 };
    size_t bytes;
    uint8_t *body = filled(BODY, 5), *got;
    uint8_t *want = peer_encode(FRAME_REPLY, "head", 4, body, BODY, &bytes);
    conn_cork(p.conn);
    for (int i = 0; i < 20; i++) {
        conn_cork(p.conn); /* not counted */
        assert_int_equal(conn_send(p.conn, FRAME_REPLY, "head", 4, body, BODY), ERR_OK);
    }
    assert_int_equal(conn_stats(p.conn)->send_calls, 0);
    conn_uncork(p.conn);
    assert_int_equal(conn_stats(p.conn)->send_calls, 1);
    got = mem_zalloc(20, bytes);
    peer_read(fd, got, 20 * bytes);
    for (size_t i = 0; i < 20; i++)
        assert_memory_equal(got + i * bytes, want, bytes);
    mem_free(got);
    mem_free(want);
    mem_free(body);
}

static void many_small_corked_frames_leave_in_one_system_call(void **state)
{
    (void)state;
    enum { FRAMES = 1000 };
    size_t bytes;
    uint8_t *want = peer_encode(FRAME_REPLY, "head", 4, "body", 4, &bytes), *got;
    conn_cork(p.conn);
    for (int i = 0; i < FRAMES; i++)
        assert_int_equal(conn_send(p.conn, FRAME_REPLY, "head", 4, "body", 4), ERR_OK);
    conn_uncork(p.conn);
    assert_int_equal(conn_stats(p.conn)->send_calls, 1);
    got = mem_zalloc(FRAMES, bytes);
    peer_read(fd, got, FRAMES * bytes);
    for (size_t i = 0; i < FRAMES; i++)
        assert_memory_equal(got + i * bytes, want, bytes);
    mem_free(got);
    mem_free(want);
}

static void a_corked_queue_leaves_when_it_has_grown_large(void **state)
{
    (void)state;
    uint8_t *body = filled(CONN_CORK_MAX_BYTES, 5);
    conn_cork(p.conn);
    assert_int_equal(conn_send(p.conn, FRAME_REPLY, NULL, 0, body, 1000), ERR_OK);
    assert_int_equal(conn_stats(p.conn)->send_calls, 0);
    assert_int_equal(conn_send(p.conn, FRAME_REPLY, NULL, 0, body, CONN_CORK_MAX_BYTES), ERR_OK);
    assert_int_equal(conn_stats(p.conn)->send_calls, 1);
    assert_true(conn_idle(p.conn));
    mem_free(body);
}

/* The other end is gone with a reset, which has arrived. */
static void reset(void)
{
    struct linger now = {.l_onoff = 1, .l_linger = 0};
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now)), 0);
    close(fd);
    fd = -1;
    peer_wait_fd(conn_fd(p.conn), 0);
}

static void sending_to_a_peer_that_is_gone_says_so(void **state)
{
    (void)state;
    for (int paused = 0; paused < 2; paused++) {
        conn_pause(p.conn, paused);
        reset();
        assert_int_equal(conn_send(p.conn, FRAME_PULL, NULL, 0, NULL, 0), ERR_CLOSED);
        assert_int_equal(conn_send(p.conn, FRAME_PULL, NULL, 0, NULL, 0), ERR_CLOSED);
        peer_wait_int(&loop, &p.closed, 1);
        assert_int_equal(p.code, ERR_CLOSED);
        assert_string_equal(p.why, "Connection reset by peer");
        teardown(NULL);
        setup(NULL);
    }
}

/* ---- Slow readers ---- */

static void a_block_rewritten_after_copy_out_reaches_a_slow_reader_unchanged(void **state)
{
    (void)state;
    enum { BLOCK = 12 << 20, FRAMES = 3 };
    size_t bytes, third = BLOCK / FRAMES, copied = 0;
    uint8_t *block = filled(BLOCK, 11), *before = filled(BLOCK, 11);
    uint8_t *got = mem_zalloc(FRAMES, FRAME_HEADER_BYTES + 4 + third);
    pthread_t thread;
    for (size_t i = 0; i < FRAMES; i++)
        assert_int_equal(conn_send(p.conn, FRAME_REPLY, "head", 4, block + i * third, third),
                         ERR_OK);
    /* ranges that cut segments in all ways, in an order of their own, some twice */
    size_t ranges[][2] = {
        {third - 5, 10},    {2 * third + 100, 50}, {third + 1000, 7}, {BLOCK - 1, 1}, {0, 100},
        {2 * third, third}, {third, third + 1},    {0, BLOCK},        {0, BLOCK}};
    for (size_t i = 0; i < sizeof(ranges) / sizeof(*ranges); i++) {
        copied += conn_copy_out(p.conn, block + ranges[i][0], ranges[i][1]);
        memset(block + ranges[i][0], 0xee, ranges[i][1]);
    }
    assert_in_range(copied, 2 * third, BLOCK - 1); /* each unsent byte once */
    assert_int_equal(conn_stats(p.conn)->copied_out_bytes, copied);
    struct mover m = {.fd = fd, .at = got, .bytes = FRAMES * (FRAME_HEADER_BYTES + 4 + third)};
    assert_int_equal(pthread_create(&thread, NULL, reader_main, &m), 0);
    peer_wait_int(&loop, &p.idle, 1);
    assert_int_equal(pthread_join(thread, NULL), 0);
    for (size_t i = 0; i < FRAMES; i++) {
        uint8_t *want = peer_encode(FRAME_REPLY, "head", 4, before + i * third, third, &bytes);
        assert_memory_equal(got + i * bytes, want, bytes);
        mem_free(want);
    }
    mem_free(block);
    mem_free(before);
    mem_free(got);
}

static void copy_out_leaves_alone_what_was_sent_and_what_is_elsewhere(void **state)
{
    (void)state;
    uint8_t *block = filled(1 << 20, 2);
    assert_int_equal(conn_send(p.conn, FRAME_REPLY, NULL, 0, block, 1000), ERR_OK);
    assert_int_equal(conn_copy_out(p.conn, block, 1000), 0); /* it is out already */
    conn_cork(p.conn);
    assert_int_equal(conn_send(p.conn, FRAME_REPLY, NULL, 0, block + 1000, 1000), ERR_OK);
    assert_int_equal(conn_copy_out(p.conn, block, 1000), 0);
    assert_int_equal(conn_copy_out(p.conn, block + 2000, 1000), 0);
    assert_int_equal(conn_copy_out(p.conn, block + 500, 600), 100);
    assert_int_equal(conn_copy_out(p.conn, block, 1 << 20), 900);
    mem_free(block);
}

static void fill_the_socket(const uint8_t *block, size_t bytes)
{
    assert_int_equal(conn_send(p.conn, FRAME_REPLY, NULL, 0, block, bytes), ERR_OK);
    assert_false(conn_idle(p.conn));
}

static void a_queue_of_too_many_frames_closes_the_connection(void **state)
{
    (void)state;
    enum err rc = ERR_OK;
    int queued = 1;
    uint8_t *block = filled(16 << 20, 2);
    fill_the_socket(block, 16 << 20);
    while ((rc = conn_send(p.conn, FRAME_PULL, NULL, 0, NULL, 0)) == ERR_OK)
        queued++;
    assert_int_equal(rc, ERR_TOOBIG);
    assert_int_equal(queued, CONN_QUEUE_MAX_FRAMES);
    peer_poll(&loop);
    assert_int_equal(p.code, ERR_TOOBIG);
    mem_free(block);
}

static void a_queue_of_too_many_copied_bytes_closes_the_connection(void **state)
{
    (void)state;
    enum { HEAD = 60000, FRAME = FRAME_HEADER_BYTES + HEAD };
    enum err rc = ERR_OK;
    size_t copied = 0;
    uint8_t *block = filled(16 << 20, 2);
    fill_the_socket(block, 16 << 20);
    while ((rc = conn_send(p.conn, FRAME_PULL, block, HEAD, NULL, 0)) == ERR_OK)
        copied += FRAME;
    assert_int_equal(rc, ERR_TOOBIG);
    assert_in_range(copied, CONN_QUEUE_MAX_BYTES - FRAME, CONN_QUEUE_MAX_BYTES);
    peer_poll(&loop);
    assert_int_equal(p.code, ERR_TOOBIG);
    mem_free(block);
}

static void copying_out_more_than_the_queue_may_hold_closes_the_connection(void **state)
{
    (void)state;
    size_t bytes = CONN_QUEUE_MAX_BYTES + (16 << 20);
    uint8_t *block = mem_zalloc(1, bytes);
    assert_non_null(block);
    fill_the_socket(block, bytes);
    assert_int_equal(conn_copy_out(p.conn, block, bytes), 0);
    peer_poll(&loop);
    assert_int_equal(p.code, ERR_TOOBIG);
    mem_free(block);
}

static void what_was_copied_out_counts_until_it_is_sent(void **state)
{
    (void)state;
    size_t sent = 16 << 20, part = CONN_QUEUE_MAX_BYTES / 2 + 1;
    uint8_t *block = mem_zalloc(1, sent + 2 * part);
    assert_non_null(block);
    fill_the_socket(block, sent + 2 * part);
    assert_int_equal(conn_copy_out(p.conn, block + sent, part), part);
    assert_int_equal(conn_copy_out(p.conn, block + sent + part, part), 0);
    peer_poll(&loop);
    assert_int_equal(p.code, ERR_TOOBIG);
    mem_free(block);
}

static void a_frame_cut_by_copy_out_counts_once(void **state)
{
    (void)state;
    pthread_t thread;
    size_t bytes = 12 << 20;
    int queued = 1;
    uint8_t *block = filled(bytes, 2), *sink = mem_zalloc(1, bytes + FRAME_HEADER_BYTES);
    struct mover m = {.fd = fd, .at = sink, .bytes = bytes + FRAME_HEADER_BYTES};
    fill_the_socket(block, bytes);
    assert_int_equal(conn_copy_out(p.conn, block + (8 << 20), 1000), 1000);
    assert_int_equal(pthread_create(&thread, NULL, reader_main, &m), 0);
    peer_wait_int(&loop, &p.idle, 1);
    assert_int_equal(pthread_join(thread, NULL), 0);
    fill_the_socket(block, bytes);
    while (conn_send(p.conn, FRAME_PULL, NULL, 0, NULL, 0) == ERR_OK)
        queued++;
    assert_int_equal(queued, CONN_QUEUE_MAX_FRAMES);
    mem_free(block);
    mem_free(sink);
}

/* ---- Last words ---- */

static void the_last_word_of_a_peer_is_heard_though_writing_to_it_fails(void **state)
{
    (void)state;
    size_t bytes = 16 << 20;
    uint8_t *block = filled(bytes, 2);
    fill_the_socket(block, bytes); /* unread bytes at a close make a reset */
    write_frame(FRAME_REFUSE, "another job", 11, NULL, 0);
    close(fd);
    fd = -1;
    /* a write that sees the reset comes before the read */
    (void)!conn_send(p.conn, FRAME_PULL, NULL, 0, NULL, 0);
    conn_cork(p.conn);
    conn_uncork(p.conn);
    peer_wait_int(&loop, &p.closed, 1);
    assert_int_equal(p.n_over, 1);
    assert_got(0, FRAME_REFUSE, "another job", 11, NULL, 0);
    assert_int_equal(p.code, ERR_CLOSED);
    mem_free(block);
}

/* It ends, and there is more time for that than a test waits: so it does not end for want of time. */
static void finish_without_haste(enum err code, const char *why)
{
    conn_finish(p.conn, code, why);
    assert_true(loop_timer_running(&p.conn->finish_timer));
    assert_int_equal(loop_timer_once(&p.conn->finish_timer, 10 * PEER_DEADLINE_MS), ERR_OK);
}

static void a_finished_connection_sends_what_is_queued_and_waits_for_the_peer(void **state)
{
    (void)state;
    uint8_t got[FRAME_HEADER_BYTES + 11], *want, end;
    size_t bytes;
    want = peer_encode(FRAME_REFUSE, "another job", 11, NULL, 0, &bytes);
    write_frame(FRAME_HELLO, "unread", 6, NULL, 0);
    conn_cork(p.conn);
    assert_int_equal(conn_send(p.conn, FRAME_REFUSE, "another job", 11, NULL, 0), ERR_OK);
    finish_without_haste(ERR_REFUSED, "another job");
    assert_true(conn_closed(p.conn));
    assert_int_equal(conn_send(p.conn, FRAME_PULL, NULL, 0, NULL, 0), ERR_CLOSED);
    peer_poll(&loop);
    assert_int_equal(p.closed, 0);
    peer_read(fd, got, bytes);
    assert_memory_equal(got, want, bytes);
    assert_int_equal(recv(fd, &end, 1, 0), 0);
    close(fd);
    fd = -1;
    peer_wait_int(&loop, &p.closed, 1);
    assert_int_equal(p.code, ERR_REFUSED);
    assert_int_equal(p.n_got, 0); /* frames that came in meanwhile are discarded */
    mem_free(want);
}

static void a_finished_connection_first_sends_a_long_queue_though_it_was_paused(void **state)
{
    (void)state;
    pthread_t thread;
    size_t bytes = 12 << 20;
    uint8_t *block = filled(bytes, 2), *got = mem_zalloc(1, bytes + FRAME_HEADER_BYTES), end;
    struct mover m = {.fd = fd, .at = got, .bytes = bytes + FRAME_HEADER_BYTES};
    conn_pause(p.conn, true);
    fill_the_socket(block, bytes);
    finish_without_haste(ERR_STATE, "enough");
    assert_int_equal(pthread_create(&thread, NULL, reader_main, &m), 0);
    while (!conn_idle(p.conn))
        assert_int_equal(loop_tick(&loop, NULL), ERR_OK);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_memory_equal(got + FRAME_HEADER_BYTES, block, bytes);
    assert_int_equal(recv(fd, &end, 1, 0), 0);
    shutdown(fd, SHUT_WR);
    peer_wait_int(&loop, &p.closed, 1);
    mem_free(block);
    mem_free(got);
}

/* ---- Pausing, detaching ---- */

static enum err pause_it(struct peer *who)
{
    conn_pause(who->conn, true);
    return ERR_OK;
}

static void a_paused_connection_keeps_whole_frames_for_later(void **state)
{
    (void)state;
    p.act_in = PEER_ON_FRAME;
    p.act = pause_it;
    conn_cork(p.conn);
    size_t bytes;
    uint8_t *wire = peer_encode(FRAME_PUSH, "head", 4, "body", 4, &bytes);
    uint8_t *three = mem_zalloc(3, bytes);
    for (size_t i = 0; i < 3; i++)
        memcpy(three + i * bytes, wire, bytes);
    peer_write(fd, three, 3 * bytes);
    peer_wait_size(&loop, &p.n_over, 1);
    peer_poll(&loop);
    assert_int_equal(p.n_over, 1);
    conn_pause(p.conn, false); /* nothing more comes from the socket */
    peer_wait_size(&loop, &p.n_over, 3);
    mem_free(wire);
    mem_free(three);
}

static struct conn_handover detached;
static enum err detach_rc;

static enum err detach_it(struct peer *who)
{
    detach_rc = conn_detach(who->conn, &detached);
    if (detach_rc == ERR_OK)
        who->conn = NULL;
    return ERR_OK;
}

static void a_detached_socket_goes_on_in_other_hands(void **state)
{
    (void)state;
    struct peer heir = {.loop = &loop};
    p.act_in = PEER_ON_FRAME;
    p.act = detach_it;
    write_frame(FRAME_HELLO, "hello", 5, NULL, 0);
    peer_wait_size(&loop, &p.n_over, 1);
    assert_int_equal(detach_rc, ERR_OK);
    assert_false(detached.checksums);
    assert_int_equal(conn_resume(&heir.conn, &loop, &detached, "heir", &peer_ops, &heir), ERR_OK);
    write_frame(FRAME_PULL, "next", 4, NULL, 0);
    peer_wait_size(&loop, &heir.n_over, 1);
    assert_int_equal(heir.got[0].frame.type, FRAME_PULL);
    assert_int_equal(p.closed, 0);
    peer_close(&heir);
}

static void a_socket_is_detached_only_at_the_end_of_a_frame(void **state)
{
    (void)state;
    enum peer_callback places[] = {PEER_ON_HEAD, PEER_ON_DRAINED};
    for (int i = 0; i < 2; i++) {
        detach_rc = ERR_OK;
        p.act_in = places[i];
        p.act = detach_it;
        write_frame(FRAME_HELLO, "hello", 5, NULL, 0);
        peer_wait_size(&loop, &p.n_over, 1);
        assert_int_equal(detach_rc, ERR_PROTO);
        teardown(NULL);
        setup(NULL);
    }
}

static void a_socket_with_bytes_behind_the_frame_is_not_detached(void **state)
{
    (void)state;
    size_t bytes;
    uint8_t *wire = peer_encode(FRAME_HELLO, "hello", 5, NULL, 0, &bytes);
    uint8_t *more = mem_zalloc(1, bytes + 1);
    memcpy(more, wire, bytes);
    p.act_in = PEER_ON_FRAME;
    p.act = detach_it;
    peer_write(fd, more, bytes + 1);
    peer_wait_size(&loop, &p.n_over, 1);
    assert_int_equal(detach_rc, ERR_PROTO);
    assert_non_null(p.conn);
    mem_free(wire);
    mem_free(more);
}

/* ---- Dialing an address ---- */

static struct sockaddr_in loopback(uint16_t port)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static void frames_sent_before_a_dialed_connection_is_up_leave_then(void **state)
{
    (void)state;
    int at = peer_listen();
    struct sockaddr_in to = loopback(socket_port(at));
    struct peer d = {.loop = &loop};
    uint8_t got[FRAME_HEADER_BYTES + 5], *want;
    size_t bytes;
    assert_int_equal(
        conn_dial(&d.conn, &loop, (struct sockaddr *)&to, sizeof(to), "d", &peer_ops, &d), ERR_OK);
    assert_int_equal(conn_send(d.conn, FRAME_HELLO, "hello", 5, NULL, 0), ERR_OK);
    assert_int_equal(d.opened, 0);
    peer_wait_int(&loop, &d.opened, 1);
    int end = accept(at, NULL, NULL);
    want = peer_encode(FRAME_HELLO, "hello", 5, NULL, 0, &bytes);
    peer_read(end, got, bytes);
    assert_memory_equal(got, want, bytes);
    mem_free(want);
    peer_close(&d);
    close(end);
    close(at);
}

static void a_closed_port_ends_in_on_close_with_its_reason(void **state)
{
    (void)state;
    int at = peer_bind();
    struct sockaddr_in to = loopback(socket_port(at));
    struct peer d = {.loop = &loop};
    assert_int_equal(
        conn_dial(&d.conn, &loop, (struct sockaddr *)&to, sizeof(to), "d", &peer_ops, &d), ERR_OK);
    assert_int_equal(d.closed, 0); /* never inside conn_dial */
    peer_wait_int(&loop, &d.closed, 1);
    assert_int_equal(d.opened, 0);
    assert_int_equal(d.code, ERR_CLOSED);
    assert_string_equal(d.why, "Connection refused");
    peer_close(&d);
    close(at);
}

/* ---- Memory ---- */

/* Two connections of one loop talk; false when memory was refused on the way. */
static bool talk(const uint8_t *block, size_t bytes)
{
    int a[2];
    static struct peer x, y;
    memset(&x, 0, sizeof(x));
    memset(&y, 0, sizeof(y));
    x.loop = y.loop = &loop;
    peer_sockets(a);
    bool ok = conn_new(&x.conn, &loop, a[0], "x", &peer_ops, &x) == ERR_OK;
    if (!ok)
        x.conn = NULL;
    bool ok_y = conn_new(&y.conn, &loop, a[1], "y", &peer_ops, &y) == ERR_OK;
    if (!ok_y)
        y.conn = NULL;
    ok = ok && ok_y;
    if (ok) {
        ok = conn_send(x.conn, FRAME_ENTER, block, 100000, NULL, 0) == ERR_OK;
        ok = ok && conn_send(x.conn, FRAME_REPLY, "head", 4, block, bytes) == ERR_OK;
        conn_copy_out(x.conn, block + bytes - 70000, 60000);
        conn_cork(x.conn);
        for (int i = 0; i < 50 && ok; i++)
            ok = conn_send(x.conn, FRAME_PULL, "head", 4, block, 700) == ERR_OK;
        conn_uncork(x.conn);
    }
    while (ok && y.n_over < 52 && !x.closed && !y.closed)
        assert_int_equal(loop_tick(&loop, NULL), ERR_OK);
    ok = ok && y.n_over == 52;
    if (ok)
        assert_memory_equal(y.got[1].body, block, bytes);
    peer_close(&x);
    peer_close(&y);
    return ok;
}

static void each_refused_allocation_closes_and_nothing_else(void **state)
{
    (void)state;
    size_t bytes = 12 << 20;
    uint8_t *block = filled(bytes, 4);
    bool fired = true;
    int n = 0;
    for (; fired; n++) {
        mem_fail_at(n);
        bool ok = talk(block, bytes);
        fired = mem_fail_fired();
        mem_fail_at(-1);
        assert_int_equal(ok, !fired);
    }
    assert_true(n > 10); /* it did fire */
    mem_free(block);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(frames_torn_into_single_bytes_arrive_whole),
        T(many_frames_in_one_write_cost_few_system_calls),
        T(a_body_larger_than_the_buffers_is_read_to_its_place),
        T(a_body_arrives_whole_in_pieces_of_any_size),
        T(heads_around_the_size_of_the_stage_arrive_whole),
        T(a_busy_connection_reads_no_more_than_its_budget_at_a_time),
        T(a_wrong_header_closes_the_connection_and_says_why),
        T(an_oversized_head_or_body_is_refused_before_anything_is_allocated),
        T(limits_of_the_owner_hold_from_the_next_frame_on),
        T(garbage_never_does_more_than_close),
        T(a_peer_that_dies_inside_a_frame_ends_it_at_every_offset),
        T(a_changed_byte_anywhere_closes_the_connection_before_the_frame_counts),
        T(a_frame_that_is_doubled_or_missing_closes_the_connection),
        T(large_checked_frames_arrive_whole_and_a_changed_one_does_not),
        T(the_answer_decides_whether_an_offer_of_checksums_holds),
        T(closing_is_safe_inside_every_callback),
        T(an_owner_that_refuses_closes_with_its_reason),
        T(the_first_reason_to_close_stays),
        T(a_sent_frame_is_the_bytes_of_the_wire),
        T(a_sent_body_larger_than_the_buffers_leaves_whole),
        T(corked_frames_leave_in_one_system_call),
        T(many_small_corked_frames_leave_in_one_system_call),
        T(a_corked_queue_leaves_when_it_has_grown_large),
        T(sending_to_a_peer_that_is_gone_says_so),
        T(a_block_rewritten_after_copy_out_reaches_a_slow_reader_unchanged),
        T(copy_out_leaves_alone_what_was_sent_and_what_is_elsewhere),
        T(a_queue_of_too_many_frames_closes_the_connection),
        T(a_queue_of_too_many_copied_bytes_closes_the_connection),
        T(copying_out_more_than_the_queue_may_hold_closes_the_connection),
        T(what_was_copied_out_counts_until_it_is_sent),
        T(a_frame_cut_by_copy_out_counts_once),
        T(the_last_word_of_a_peer_is_heard_though_writing_to_it_fails),
        T(a_finished_connection_sends_what_is_queued_and_waits_for_the_peer),
        T(a_finished_connection_first_sends_a_long_queue_though_it_was_paused),
        T(a_paused_connection_keeps_whole_frames_for_later),
        T(a_detached_socket_goes_on_in_other_hands),
        T(a_socket_is_detached_only_at_the_end_of_a_frame),
        T(a_socket_with_bytes_behind_the_frame_is_not_detached),
        T(frames_sent_before_a_dialed_connection_is_up_leave_then),
        T(a_closed_port_ends_in_on_close_with_its_reason),
        T(each_refused_allocation_closes_and_nothing_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
