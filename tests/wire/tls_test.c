/* Two connections of the product to each other under TLS, and unauthenticated peers to one of them. It makes the certificates. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/clock.h"
#include "common/net/conn_state.h"
#include "common/peers/dial.h"
#include "common/peers/greeting.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/net/openssl.h"
#include "common/net/socket.h"
#include "common/net/tls_state.h"
#include "tests/lib/certs.h"
#include "tests/lib/peer.h"

enum { HOUR_S = 3600, PATH_BYTES = 200 };

static char folder[] = "/tmp/gradwire-tls-XXXXXX";
static struct certs_ca ca, other_ca;
static struct loop loop;
static struct peer host, guest; /* the accepting and the connecting side */
static struct tls *host_tls, *guest_tls;
static struct errmsg e;

/* ---- files ---- */

static const char *path(const char *name)
{
    static char text[8][PATH_BYTES];
    static int at;
    at = (at + 1) % 8;
    snprintf(text[at], sizeof text[at], "%s/%s", folder, name);
    return text[at];
}

static struct tls_files files(const char *who)
{
    static char text[2][PATH_BYTES];
    char name[64];
    snprintf(name, sizeof name, "%s.crt", who);
    memcpy(text[0], path(name), PATH_BYTES);
    snprintf(name, sizeof name, "%s.key", who);
    memcpy(text[1], path(name), PATH_BYTES);
    return (struct tls_files){text[0], text[1], path("ca.crt"), ""};
}

static void sign(const struct certs_ca *by, const char *who, const char *names, long from_s,
                 long until_s)
{
    struct tls_files f = files(who);
    certs_write(by, names, from_s, until_s, f.cert, f.key);
}

static struct tls *identity(const char *who)
{
    struct tls *t = NULL;
    struct tls_files f = files(who);
    if (tls_new(&t, &f, &e))
        fail_msg("%s: %s", who, e.text);
    return t;
}

/* A certificate that was valid when the process began. */
static struct tls *short_lived(void)
{
    struct tls *t = NULL;
    struct tls_files f = files("short");
    enum err err = ERR_IO;
    for (long life_s = 1; err && life_s <= 64; life_s *= 2) { /* a loaded machine may be late */
        sign(&ca, "short", "DNS:late.example", -HOUR_S, life_s);
        err = tls_new(&t, &f, &e);
    }
    if (err)
        fail_msg("short: %s", e.text);
    struct timespec wait = {.tv_nsec = 100 * 1000 * 1000};
    struct errmsg why = {""};
    struct tls *again = NULL;
    while (tls_new(&again, &f, &why) == ERR_OK) { /* until it has expired */
        tls_free(again);
        nanosleep(&wait, NULL);
    }
    return t;
}

static int group_setup(void **state)
{
    (void)state;
    signal(SIGPIPE, SIG_IGN);
    if (!mkdtemp(folder))
        return -1;
    certs_ca_init(&ca, "our CA");
    certs_ca_init(&other_ca, "another CA");
    certs_ca_write(&ca, path("ca.crt"));
    sign(&ca, "host", "DNS:host.example,IP:127.0.0.1", -HOUR_S, HOUR_S);
    sign(&ca, "guest", "DNS:guest.example", -HOUR_S, HOUR_S);
    sign(&other_ca, "stranger", "DNS:host.example,IP:127.0.0.1", -HOUR_S, HOUR_S);
    return 0;
}

static int group_teardown(void **state)
{
    (void)state;
    char command[PATH_BYTES + 16];
    certs_ca_close(&ca);
    certs_ca_close(&other_ca);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

static int setup(void **state)
{
    (void)state;
    memset(&host, 0, sizeof host);
    memset(&guest, 0, sizeof guest);
    host.loop = guest.loop = &loop;
    host_tls = identity("host");
    guest_tls = identity("guest");
    return loop_init(&loop) == ERR_OK ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    mem_fail_at(-1);
    peer_close(&host);
    peer_close(&guest);
    loop_close(&loop);
    tls_free(host_tls);
    tls_free(guest_tls);
    return 0;
}

/* ---- both sides ---- */

static void accept_one(int listener, struct tls *tls)
{
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(conn_new(&host.conn, &loop, fd, "the guest", &peer_ops, &host), ERR_OK);
    if (tls)
        assert_int_equal(conn_secure(host.conn, tls, NULL), ERR_OK);
}

/* They are connected, and have said nothing yet. `name` is who was dialed. NULL: that side is plain. */
static void meet(struct tls *accepts, struct tls *dials, const char *name)
{
    int listener = peer_listen();
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons(socket_port(listener)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_int_equal(conn_dial(&guest.conn, &loop, (struct sockaddr *)&to, sizeof to, "the host",
                               &peer_ops, &guest),
                     ERR_OK);
    if (dials)
        assert_int_equal(conn_secure(guest.conn, dials, name), ERR_OK);
    accept_one(listener, accepts);
    close(listener);
}

static void meet_and_greet(void)
{
    meet(host_tls, guest_tls, "host.example");
    assert_int_equal(conn_send(host.conn, FRAME_CHALLENGE, NULL, 0, NULL, 0), ERR_OK);
    peer_wait_int(&loop, &guest.opened, 1);
    peer_wait_size(&loop, &guest.n_over, 1);
}

/* Both connections end, with these words. */
static void parted(const char *host_why, const char *guest_why)
{
    peer_wait_int(&loop, &host.closed, 1);
    peer_wait_int(&loop, &guest.closed, 1);
    if (!strstr(host.why, host_why))
        fail_msg("the host says: %s", host.why);
    if (!strstr(guest.why, guest_why))
        fail_msg("the guest says: %s", guest.why);
    assert_int_equal(host.n_got, 0);
    assert_int_equal(guest.n_got, 0);
    assert_int_equal(host.code, ERR_TLS);
    assert_int_equal(guest.code, ERR_TLS);
}

static void frames_go_both_ways_whole(void **state)
{
    (void)state;
    enum { LARGE = 9 << 20 };
    uint8_t *body = mem_zalloc(1, LARGE);
    peer_fill(body, LARGE, 7);
    meet_and_greet();
    assert_string_equal(SSL_get_cipher_name(guest.conn->tls->ssl), "TLS_AES_128_GCM_SHA256");
    guest.piece_bytes = 65537;
    assert_int_equal(conn_send(guest.conn, FRAME_PUSH, "head", 4, body, LARGE), ERR_OK);
    assert_int_equal(conn_send(host.conn, FRAME_REPLY, "back", 4, body, LARGE), ERR_OK);
    assert_int_equal(conn_send(host.conn, FRAME_DONE, NULL, 0, NULL, 0), ERR_OK);
    peer_wait_size(&loop, &host.n_over, 1);
    peer_wait_size(&loop, &guest.n_over, 3);
    assert_memory_equal(host.got[0].head, "head", 4);
    assert_memory_equal(host.got[0].body, body, LARGE);
    assert_memory_equal(guest.got[1].body, body, LARGE);
    assert_int_equal(guest.got[2].frame.type, FRAME_DONE);
    assert_true(conn_idle(guest.conn) && conn_idle(host.conn));
    mem_free(body);
}

static void many_small_frames_share_records(void **state)
{
    (void)state;
    enum { FRAMES = 2000 };
    meet_and_greet();
    uint64_t before = conn_stats(guest.conn)->send_calls;
    conn_cork(guest.conn);
    for (uint32_t i = 0; i < FRAMES; i++)
        assert_int_equal(conn_send(guest.conn, FRAME_PUSH, &i, sizeof i, "0123456789", 10), ERR_OK);
    conn_uncork(guest.conn);
    peer_wait_size(&loop, &host.n_over, FRAMES);
    for (uint32_t i = 0; i < FRAMES; i++) {
        assert_memory_equal(host.got[i].head, &i, sizeof i);
        assert_memory_equal(host.got[i].body, "0123456789", 10);
    }
    uint64_t calls = conn_stats(guest.conn)->send_calls - before;
    assert_in_range(calls, 1, 2 + FRAMES * (FRAME_HEADER_BYTES + 14) / TLS_RECORD_BYTES);
    assert_true(conn_stats(host.conn)->recv_calls < FRAMES / 10);
}

/* A reader that stops in the middle: records that the socket did not take wait, what is behind them is copied. */
static void a_slow_reader_gets_what_was_sent_though_it_was_rewritten(void **state)
{
    (void)state;
    enum { EACH = 3 << 20, FRAMES = 8 };
    uint8_t *body = mem_zalloc(1, EACH), *was = mem_zalloc(1, EACH);
    peer_fill(was, EACH, 3);
    meet_and_greet();
    conn_pause(host.conn, true);
    for (int i = 0; i < FRAMES; i++) {
        char small[CONN_INLINE_BYTES];
        memset(small, i, sizeof small);
        memcpy(body, was, EACH);
        body[0] = (uint8_t)i;
        assert_int_equal(conn_send(guest.conn, FRAME_PUSH, "h", 1, body, EACH), ERR_OK);
        assert_int_equal(conn_send(guest.conn, FRAME_PULL, small, sizeof small, NULL, 0), ERR_OK);
        peer_poll(&loop); /* some more leaves */
        (void)conn_copy_out(guest.conn, body + 100000,
                            1000); /* a piece in the middle, then the rest */
        (void)conn_copy_out(guest.conn, body, EACH);
        memset(body, 0xee, EACH);
    }
    assert_false(conn_idle(guest.conn));
    conn_pause(host.conn, false);
    peer_wait_size(&loop, &host.n_over, 2 * FRAMES);
    for (int i = 0; i < FRAMES; i++) {
        was[0] = (uint8_t)i;
        assert_memory_equal(host.got[2 * i].body, was, EACH);
        assert_int_equal(host.got[2 * i + 1].head[77], i);
    }
    assert_int_equal(guest.closed, 0);
    mem_free(body);
    mem_free(was);
}

/* With the kernel's TLS a record that waits is read a second time, from where it stood at first. */
static void a_record_that_waits_stays_as_it_was_where_it_was(void **state)
{
    (void)state;
    enum { EACH = 4 << 20 };
    const int small = 64 << 10; /* and no growing */
    uint8_t *body = mem_zalloc(1, EACH), *was = mem_zalloc(1, EACH);
    uint8_t *waited = mem_zalloc(1, TLS_RECORD_BYTES);
    peer_fill(body, EACH, 3);
    memcpy(was, body, EACH);
    meet_and_greet();
    struct tls_record *r = tls_link_record(guest.conn->tls);
    r->stays = true;
    conn_pause(host.conn, true);
    assert_int_equal(setsockopt(conn_fd(host.conn), SOL_SOCKET, SO_RCVBUF, &small, sizeof small),
                     0);
    assert_int_equal(setsockopt(conn_fd(guest.conn), SOL_SOCKET, SO_SNDBUF, &small, sizeof small),
                     0);
    assert_int_equal(conn_send(guest.conn, FRAME_PUSH, "h", 1, body, EACH), ERR_OK);
    for (int i = 0; i < 1000; i++) /* until the socket is full */
        peer_poll(&loop);
    uint64_t queued = guest.conn->queued_bytes;
    uint8_t *behind = body + EACH - queued + TLS_RECORD_BYTES;
    assert_true(conn_copy_out(guest.conn, behind, (size_t)(body + EACH - behind)) > 0);
    memset(behind, 0xee, (size_t)(body + EACH - behind));
    do { /* the system may find room in a full socket yet, as it tidies its buffers */
        queued = guest.conn->queued_bytes;
        assert_int_equal(r->bytes, TLS_RECORD_BYTES);
        memcpy(waited, r->at, TLS_RECORD_BYTES);
        assert_memory_equal(waited, was + EACH - queued, TLS_RECORD_BYTES);
        memset(body, 0xee, EACH);     /* where the record came from, too */
        conn_queue_flush(guest.conn); /* tried again, in vain */
    } while (guest.conn->queued_bytes != queued);
    assert_ptr_equal(tls_link_record(guest.conn->tls), r);
    assert_int_equal(r->bytes, TLS_RECORD_BYTES);
    assert_memory_equal(r->at, waited, TLS_RECORD_BYTES);
    conn_pause(host.conn, false);
    peer_wait_size(&loop, &host.n_over, 1);
    assert_memory_equal(host.got[0].body, was, EACH);
    mem_free(body);
    mem_free(was);
    mem_free(waited);
}

static uint64_t calls_at_timer;
static int timer_ran;

/* Once more, behind the next look of libevent's at its timers. */
static void on_short_timer(void *arg)
{
    if (host.conn)
        calls_at_timer = conn_stats(host.conn)->recv_calls;
    if (++timer_ran < 2)
        assert_int_equal(loop_timer_once(arg, 0), ERR_OK);
}

/* The host has a budget's worth many times to read, or to throw away, and a timer that is due. */
static void read_much_beside_a_timer(bool finishing)
{
    enum { EACH = 32 << 20 };
    struct loop_timer timer;
    uint8_t *body = mem_zalloc(1, EACH);
    const int large = 8 << 20;
    const uint64_t each_turn = CONN_READ_BUDGET_BYTES / TLS_RECORD_BYTES;
    meet_and_greet();
    conn_pause(host.conn, true);
    (void)setsockopt(conn_fd(host.conn), SOL_SOCKET, SO_RCVBUFFORCE, &large, sizeof large);
    (void)setsockopt(conn_fd(guest.conn), SOL_SOCKET, SO_SNDBUFFORCE, &large, sizeof large);
    assert_int_equal(conn_send(guest.conn, FRAME_PUSH, "h", 1, body, EACH), ERR_OK);
    for (int i = 0; i < 100; i++)
        peer_poll(&loop);
    loop_timer_init(&timer, &loop, on_short_timer, &timer);
    assert_int_equal(loop_timer_once(&timer, 0), ERR_OK);
    timer_ran = 0;
    if (finishing)
        conn_finish(host.conn, ERR_REFUSED, "enough");
    else
        conn_pause(host.conn, false);
    uint64_t before = conn_stats(host.conn)->recv_calls;
    peer_wait_int(&loop, &timer_ran, 2);
    assert_in_range(calls_at_timer, before + 1, before + 2 + 2 * each_turn);
    if (finishing)
        peer_wait_int(&loop, &host.closed, 1);
    else
        peer_wait_size(&loop, &host.n_over, 1);
    peer_close(&host);
    peer_close(&guest);
    mem_free(body);
}

static void a_connection_with_much_to_read_leaves_others_their_turn(void **state)
{
    (void)state;
    read_much_beside_a_timer(false);
    teardown(NULL);
    setup(NULL);
    read_much_beside_a_timer(true);
}

/* More often than OpenSSL lets a peer that says nothing else. */
static void keys_are_changed_under_way(void **state)
{
    (void)state;
    enum { LARGE = 4 << 20, EACH = 4 };
    uint8_t *body = mem_zalloc(1, LARGE);
    peer_fill(body, LARGE, 5);
    meet_and_greet();
    guest.conn->tls->rekey_records = host.conn->tls->rekey_records = EACH;
    assert_int_equal(conn_send(guest.conn, FRAME_PUSH, NULL, 0, body, LARGE), ERR_OK);
    assert_int_equal(conn_send(host.conn, FRAME_REPLY, NULL, 0, body, LARGE), ERR_OK);
    peer_wait_size(&loop, &host.n_over, 1);
    peer_wait_size(&loop, &guest.n_over, 2);
    assert_memory_equal(host.got[0].body, body, LARGE);
    assert_memory_equal(guest.got[1].body, body, LARGE);
    if (!tls_link_in_kernel(guest.conn->tls))
        assert_in_range(guest.conn->tls->rekeyed, LARGE / TLS_RECORD_BYTES / EACH,
                        LARGE / TLS_RECORD_BYTES / EACH + 1);
    mem_free(body);
}

static struct conn_handover detached;

static enum err detach_it(struct peer *p)
{
    assert_int_equal(conn_detach(p->conn, &detached), ERR_OK);
    p->conn = NULL;
    return ERR_OK;
}

static void a_detached_connection_goes_on_in_other_hands(void **state)
{
    (void)state;
    static struct peer heir;
    memset(&heir, 0, sizeof heir);
    heir.loop = &loop;
    meet_and_greet();
    host.act_in = PEER_ON_FRAME;
    host.act = detach_it;
    assert_int_equal(conn_send(guest.conn, FRAME_HELLO, "hello", 5, NULL, 0), ERR_OK);
    peer_wait_size(&loop, &host.n_over, 1);
    assert_non_null(detached.tls);
    assert_int_equal(conn_resume(&heir.conn, &loop, &detached, "the guest", &peer_ops, &heir),
                     ERR_OK);
    assert_int_equal(conn_send(heir.conn, FRAME_HELLO_REPLY, NULL, 0, NULL, 0), ERR_OK);
    peer_wait_size(&loop, &guest.n_over, 2);
    assert_int_equal(conn_send(guest.conn, FRAME_PULL, "more", 4, NULL, 0), ERR_OK);
    peer_wait_size(&loop, &heir.n_over, 1);
    assert_memory_equal(heir.got[0].head, "more", 4);
    peer_close(&heir);
}

static void a_last_word_arrives(void **state)
{
    (void)state;
    meet_and_greet();
    assert_int_equal(conn_send(host.conn, FRAME_REFUSE, "no", 2, NULL, 0), ERR_OK);
    conn_finish(host.conn, ERR_REFUSED, "no");
    peer_wait_int(&loop, &guest.closed, 1);
    assert_int_equal(guest.n_over, 2);
    assert_int_equal(guest.code, ERR_CLOSED);
    assert_string_equal(guest.why, "the peer closed the connection");
}

/* It encrypts what is sent where OpenSSL was built for it; where it is missing nobody misses it. */
static void the_kernels_tls_is_taken_where_it_is(void **state)
{
    (void)state;
    meet_and_greet();
    int probe = dup(conn_fd(host.conn));
    bool there =
        setsockopt(probe, IPPROTO_TCP, TCP_ULP, "tls", sizeof "tls") == 0 || errno == EEXIST;
    close(probe);
#ifdef OPENSSL_NO_KTLS
    there = false;
#endif
    assert_int_equal(tls_link_in_kernel(conn_tls(guest.conn)), there);
    assert_int_equal(tls_link_record(guest.conn->tls)->stays, there);
    assert_int_equal(conn_send(guest.conn, FRAME_PULL, "more", 4, NULL, 0), ERR_OK);
    peer_wait_size(&loop, &host.n_over, 1);
}

/* ---- who is refused ---- */

static void an_expired_certificate_is_refused_by_name_on_both_sides(void **state)
{
    (void)state;
    struct tls *late = short_lived();
    uint64_t before = tls_refusals(TLS_CERTIFICATE);
    meet(host_tls, late, "host.example");
    parted("its certificate (DNS:late.example) expired on ",
           "it refuses our certificate (DNS:late.example): certificate expired");
    assert_int_equal(tls_refusals(TLS_CERTIFICATE), before + 1);
    teardown(NULL);
    setup(NULL);
    meet(late, guest_tls, "late.example");
    parted("it refuses our certificate (DNS:late.example): certificate expired",
           "its certificate (DNS:late.example) expired on ");
    tls_free(late);
}

static void a_certificate_of_another_host_is_refused_by_name_on_both_sides(void **state)
{
    (void)state;
    meet(host_tls, guest_tls, "elsewhere.example");
    parted("it refuses our certificate (DNS:host.example, IP:127.0.0.1)",
           "its certificate names DNS:host.example, IP:127.0.0.1; expected: elsewhere.example");
    teardown(NULL);
    setup(NULL);
    meet(host_tls, guest_tls, "127.0.0.2");
    parted("it refuses our certificate", "expected: 127.0.0.2");
}

static void a_dot_at_the_end_of_a_host_that_was_dialed_is_not_in_its_certificate(void **state)
{
    (void)state;
    meet(host_tls, guest_tls, "host.example.");
    assert_int_equal(conn_send(host.conn, FRAME_CHALLENGE, NULL, 0, NULL, 0), ERR_OK);
    peer_wait_size(&loop, &guest.n_over, 1);
}

static void a_ca_that_has_expired_is_told_as_such(void **state)
{
    (void)state;
    struct certs_ca old;
    struct tls *with_old = NULL;
    certs_ca_init(&old, "an old CA");
    sign(&old, "of-old", "DNS:guest.example", -HOUR_S, HOUR_S);
    assert_non_null(X509_gmtime_adj(X509_getm_notAfter(old.cert), -60));
    assert_true(X509_sign(old.cert, old.key, EVP_sha256()) > 0);
    certs_ca_write(&old, path("old-ca.crt"));
    struct tls_files f = files("host");
    f.ca = path("old-ca.crt");
    assert_int_equal(tls_new(&with_old, &f, &e), ERR_OK);
    struct tls *of_old = identity("of-old");
    meet(with_old, of_old, "host.example");
    parted("its certificate (DNS:guest.example, issued by CN=an old CA) is not valid: the "
           "certificate of a CA above it has expired",
           "it refuses our certificate (DNS:guest.example): certificate expired");
    tls_free(of_old);
    tls_free(with_old);
    certs_ca_close(&old);
}

static void an_address_that_was_dialed_must_be_in_the_certificate(void **state)
{
    (void)state;
    meet(host_tls, guest_tls, "127.0.0.1");
    assert_int_equal(conn_send(host.conn, FRAME_CHALLENGE, NULL, 0, NULL, 0), ERR_OK);
    peer_wait_size(&loop, &guest.n_over, 1);
}

static void a_certificate_of_another_ca_is_refused_by_name_on_both_sides(void **state)
{
    (void)state;
    struct tls *stranger = identity("stranger");
    meet(host_tls, stranger, "host.example");
    parted("issued by CN=another CA) is not valid: unable to get local issuer certificate",
           "it refuses our certificate (DNS:host.example, IP:127.0.0.1): unknown CA");
    teardown(NULL);
    setup(NULL);
    meet(stranger, guest_tls, "host.example");
    parted("it refuses our certificate (DNS:host.example, IP:127.0.0.1): unknown CA",
           "issued by CN=another CA) is not valid: unable to get local issuer certificate");
    tls_free(stranger);
}

static void who_speaks_no_tls_is_told_so_and_tells(void **state)
{
    (void)state;
    uint64_t before = tls_refusals(TLS_PLAIN);
    meet(host_tls, NULL, NULL);
    assert_int_equal(conn_send(guest.conn, FRAME_HELLO, "hello", 5, "a body", 6), ERR_OK);
    parted("it does not use TLS: was it started without --tls_cert?",
           "it uses TLS, but this process was started without --tls_cert");
    assert_int_equal(tls_refusals(TLS_PLAIN), before + 1);
    teardown(NULL);
    setup(NULL);
    meet(NULL, guest_tls, "host.example");
    peer_wait_int(&loop, &host.closed, 1);
    peer_wait_int(&loop, &guest.closed, 1);
    assert_string_equal(host.why, "it uses TLS, but this process was started without --tls_cert");
    assert_string_equal(
        guest.why,
        "it closed the connection instead of starting TLS: was it started without --tls_cert?");
    teardown(NULL);
    setup(NULL);
    meet(NULL, guest_tls, "host.example"); /* one that speaks first, as with a token */
    assert_int_equal(conn_send(host.conn, FRAME_CHALLENGE, "12345678", 8, NULL, 0), ERR_OK);
    peer_wait_int(&loop, &guest.closed, 1);
    assert_string_equal(guest.why, "it does not use TLS: was it started without --tls_cert?");
}

/* ---- unauthenticated peers ---- */

static int knock(void)
{
    int a[2];
    peer_sockets(a);
    assert_int_equal(conn_new(&host.conn, &loop, a[1], "a stranger", &peer_ops, &host), ERR_OK);
    assert_int_equal(conn_secure(host.conn, host_tls, NULL), ERR_OK);
    assert_int_equal(conn_send(host.conn, FRAME_CHALLENGE, "secret", 6, NULL, 0), ERR_OK);
    return a[0];
}

/* A client of OpenSSL alone. Returns what its handshake and one read end with. */
static int handshake(SSL_CTX *ctx, int fd)
{
    SSL *ssl = SSL_new(ctx);
    char byte[64];
    int rc = -1;
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    assert_int_equal(SSL_set_fd(ssl, fd), 1);
    SSL_set_connect_state(ssl);
    for (int64_t until_ms = clock_now_ms() + PEER_DEADLINE_MS;;) {
        assert_true(clock_now_ms() < until_ms);
        bool up = SSL_is_init_finished(ssl);
        ERR_clear_error();
        rc = up ? SSL_read(ssl, byte, sizeof byte) : SSL_do_handshake(ssl);
        int error = SSL_get_error(ssl, rc);
        if (up && rc > 0) /* something was said to it */
            break;
        if (rc <= 0 && error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE)
            break;
        peer_poll(&loop);
    }
    SSL_free(ssl);
    return rc;
}

static void a_stranger_without_a_certificate_learns_nothing(void **state)
{
    (void)state;
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    int fd = knock();
    assert_true(handshake(ctx, fd) <= 0);
    close(fd);
    peer_wait_int(&loop, &host.closed, 1);
    assert_string_equal(host.why, "it sent no certificate");
    assert_int_equal(host.n_got, 0);
    SSL_CTX_free(ctx);
}

static void an_older_tls_is_refused(void **state)
{
    (void)state;
    struct tls_files f = files("guest");
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    assert_int_equal(SSL_CTX_use_certificate_chain_file(ctx, f.cert), 1);
    assert_int_equal(SSL_CTX_use_PrivateKey_file(ctx, f.key, SSL_FILETYPE_PEM), 1);
    assert_int_equal(SSL_CTX_set_max_proto_version(ctx, TLS1_2_VERSION), 1);
    int fd = knock();
    assert_true(handshake(ctx, fd) <= 0);
    close(fd);
    peer_wait_int(&loop, &host.closed, 1);
    assert_string_equal(host.why, "it does not support TLS 1.3, which is required");
    SSL_CTX_free(ctx);
}

static void a_handshake_that_stalls_is_ended(void **state)
{
    (void)state;
    static const uint8_t begin[] = {22, 3, 1, 2, 0, 1, 0};
    int fd = knock();
    peer_write(fd, begin, sizeof begin);
    peer_poll(&loop);
    assert_int_equal(host.closed, 0);
    assert_true(loop_timer_running(&host.conn->finish_timer));
    assert_int_equal(loop_timer_once(&host.conn->finish_timer, 1), ERR_OK); /* not 10 s */
    while (recv(fd, &(char){0}, 1, MSG_DONTWAIT) != 0)
        peer_poll(&loop);
    close(fd);
    peer_wait_int(&loop, &host.closed, 1);
    assert_string_equal(host.why, "no TLS handshake in time: was it started without --tls_cert?");
}

static void who_only_looks_whether_the_port_is_there_is_no_refusal(void **state)
{
    (void)state;
    uint64_t before = tls_refusals(TLS_HANDSHAKE);
    int fd = knock();
    host.conn->shaking_ms += PEER_DEADLINE_MS; /* as if it were just now, however late we are */
    close(fd);
    peer_wait_int(&loop, &host.closed, 1);
    assert_int_equal(host.code, ERR_CLOSED);
    assert_int_equal(tls_refusals(TLS_HANDSHAKE), before);
}

static void who_says_nothing_for_seconds_and_hangs_up_is_told_of(void **state)
{
    (void)state;
    uint64_t before = tls_refusals(TLS_PLAIN);
    int fd = knock();
    host.conn->shaking_ms -= TLS_SILENT_MS;
    close(fd);
    peer_wait_int(&loop, &host.closed, 1);
    assert_int_equal(host.code, ERR_TLS);
    assert_string_equal(host.why,
                        "it closed the connection without starting TLS: was it started without "
                        "--tls_cert?");
    assert_int_equal(tls_refusals(TLS_PLAIN), before + 1);
}

static void who_hangs_up_in_the_handshake_is_counted(void **state)
{
    (void)state;
    static const uint8_t begin[] = {22, 3, 1, 2, 0, 1, 0};
    uint64_t before = tls_refusals(TLS_HANDSHAKE);
    int fd = knock();
    peer_write(fd, begin, sizeof begin);
    close(fd);
    peer_wait_int(&loop, &host.closed, 1);
    assert_string_equal(host.why, "it closed the connection during the TLS handshake");
    assert_int_equal(tls_refusals(TLS_HANDSHAKE), before + 1);
}

static void who_is_dialed_and_hangs_up_in_the_handshake_has_not_refused(void **state)
{
    (void)state;
    static const uint8_t begin[] = {22, 3, 3, 0, 122, 2, 0};
    int listener = peer_listen();
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons(socket_port(listener)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_int_equal(conn_dial(&guest.conn, &loop, (struct sockaddr *)&to, sizeof to, "the host",
                               &peer_ops, &guest),
                     ERR_OK);
    assert_int_equal(conn_secure(guest.conn, guest_tls, "host.example"), ERR_OK);
    int fd = -1;
    for (int64_t until_ms = clock_now_ms() + PEER_DEADLINE_MS; fd < 0;) {
        assert_true(clock_now_ms() < until_ms);
        assert_int_equal(loop_tick(&loop, NULL), ERR_OK);
        fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    }
    peer_write(fd, begin, sizeof begin);
    (void)shutdown(fd, SHUT_WR);
    peer_wait_int(&loop, &guest.closed, 1);
    assert_int_equal(guest.code, ERR_CLOSED);
    assert_string_equal(guest.why, "it closed the connection during the TLS handshake");
    close(fd);
    close(listener);
}

static void garbage_ends_the_handshake_and_nothing_else(void **state)
{
    (void)state;
    uint8_t junk[4096];
    for (int kind = 0; kind < 64; kind++) {
        int fd = knock();
        peer_fill(junk, sizeof junk, (uint64_t)kind * 977);
        if (kind % 2) /* in a record that could be one */
            memcpy(junk, (uint8_t[]){22, 3, 3, 1, 0, 1, 0, 0, 252, 3, 3}, 11);
        (void)!send(fd, junk, sizeof junk, MSG_NOSIGNAL);
        (void)shutdown(fd, SHUT_WR);
        peer_wait_int(&loop, &host.closed, 1);
        assert_int_equal(host.code, ERR_TLS);
        assert_int_equal(host.n_got, 0);
        close(fd);
        peer_close(&host);
        memset(&host, 0, sizeof host);
        host.loop = &loop;
    }
}

/* The man in the middle, which records the guest's bytes. */
static struct {
    int guest, host; /* sockets; -1: closed */
    uint8_t said[64 << 10];
    size_t bytes;
} between;

static void carry(int from, int to, bool write_down)
{
    uint8_t some[16 << 10];
    ssize_t n = recv(from, some, sizeof some, MSG_DONTWAIT);
    if (n <= 0)
        return;
    peer_write(to, some, (size_t)n);
    if (write_down) {
        assert_true(between.bytes + (size_t)n <= sizeof between.said);
        memcpy(between.said + between.bytes, some, (size_t)n);
        between.bytes += (size_t)n;
    }
}

static void carry_until(const size_t *what, size_t least)
{
    for (int64_t until_ms = clock_now_ms() + PEER_DEADLINE_MS; *what < least;) {
        assert_true(clock_now_ms() < until_ms);
        carry(between.guest, between.host, true);
        carry(between.host, between.guest, false);
        peer_poll(&loop);
    }
}

/* A whole session through `between`: the guest receives something, and sends one frame. */
static void record_a_session(void)
{
    int listener = peer_listen();
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons(socket_port(listener)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    between.bytes = 0;
    between.host = knock();
    assert_int_equal(conn_dial(&guest.conn, &loop, (struct sockaddr *)&to, sizeof to, "the host",
                               &peer_ops, &guest),
                     ERR_OK);
    assert_int_equal(conn_secure(guest.conn, guest_tls, "host.example"), ERR_OK);
    between.guest = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    assert_true(between.guest >= 0);
    close(listener);
    carry_until(&guest.n_over, 1);
    assert_int_equal(conn_send(guest.conn, FRAME_PUSH, "once", 4, NULL, 0), ERR_OK);
    carry_until(&host.n_over, 1);
}

/* A man in the middle cannot change a byte. */
static void a_record_that_was_tampered_with_ends_the_connection(void **state)
{
    (void)state;
    uint8_t record[1024];
    record_a_session();
    assert_int_equal(conn_send(guest.conn, FRAME_PUSH, "more", 4, NULL, 0), ERR_OK);
    peer_poll(&loop);
    ssize_t n = recv(between.guest, record, sizeof record, 0);
    assert_true(n > 16);
    record[n - 20] ^= 1;
    peer_write(between.host, record, (size_t)n);
    peer_wait_int(&loop, &host.closed, 1);
    assert_int_equal(host.code, ERR_TLS);
    assert_non_null(strstr(host.why, "TLS: "));
    assert_int_equal(host.n_got, 1);
    close(between.host);
    close(between.guest);
}

static void a_recorded_session_is_of_no_use_on_another_connection(void **state)
{
    (void)state;
    record_a_session();
    peer_close(&host);
    peer_close(&guest);
    close(between.host);
    close(between.guest);
    memset(&host, 0, sizeof host);
    host.loop = &loop;
    int fd = knock();
    peer_write(fd, between.said, between.bytes);
    peer_wait_int(&loop, &host.closed, 1);
    assert_int_equal(host.code, ERR_TLS);
    assert_int_equal(host.n_got, 0);
    close(fd);
}

static void a_recorded_frame_is_of_no_use_a_second_time(void **state)
{
    (void)state;
    record_a_session();
    size_t frame = FRAME_HEADER_BYTES + 4 + 5 + 1 + 16; /* in a record: its header, kind and tag */
    peer_write(between.host, between.said + between.bytes - frame, frame);
    peer_wait_int(&loop, &host.closed, 1);
    assert_int_equal(host.code, ERR_TLS);
    assert_int_equal(host.n_got, 1);
    close(between.host);
    close(between.guest);
}

static void without_memory_a_connection_is_not_secured_and_none_is_lost(void **state)
{
    (void)state;
    int a[2];
    peer_sockets(a);
    assert_int_equal(conn_new(&host.conn, &loop, a[1], "a stranger", &peer_ops, &host), ERR_OK);
    mem_fail_at(0);
    assert_int_equal(conn_secure(host.conn, host_tls, NULL), ERR_NOMEM);
    assert_true(mem_fail_fired());
    mem_fail_at(-1);
    assert_null(conn_tls(host.conn));
    close(a[0]);
}

/* ---- files that change ---- */

static int64_t looked_ms;

static bool look(struct tls *t)
{
    static int64_t later_ms;
    later_ms += 10 * TLS_LOOK_MS;
    looked_ms = clock_now_ms() + later_ms;
    return tls_look(t, looked_ms);
}

/* As kubelet does it: the three names lead through ..data, which is swapped atomically. */
static void swap_to(const char *version)
{
    (void)unlink(path("..data_tmp"));
    assert_int_equal(symlink(version, path("..data_tmp")), 0);
    assert_int_equal(rename(path("..data_tmp"), path("..data")), 0);
}

static void make_version(const char *version, const char *names)
{
    char cert[64], key[64], with[64];
    assert_int_equal(mkdir(path(version), 0700), 0);
    snprintf(cert, sizeof cert, "%s/tls.crt", version);
    snprintf(key, sizeof key, "%s/tls.key", version);
    snprintf(with, sizeof with, "%s/ca.crt", version);
    certs_write(&ca, names, -HOUR_S, HOUR_S, path(cert), path(key));
    certs_ca_write(&ca, path(with));
}

static void changed_files_are_taken_for_new_connections_and_old_ones_go_on(void **state)
{
    (void)state;
    char file[3][PATH_BYTES];
    static const char *const name[] = {"tls.crt", "tls.key", "ca.crt"};
    char target[64];
    make_version("..v1", "DNS:one.example");
    make_version("..v2", "DNS:two.example");
    swap_to("..v1");
    assert_int_equal(mkdir(path("mounted"), 0700), 0);
    for (int i = 0; i < 3; i++) {
        snprintf(file[i], sizeof file[i], "%s/mounted/%s", folder, name[i]);
        snprintf(target, sizeof target, "../..data/%s", name[i]);
        assert_int_equal(symlink(target, file[i]), 0);
    }
    tls_free(host_tls);
    struct tls_files f = {file[0], file[1], file[2], ""};
    assert_int_equal(tls_new(&host_tls, &f, &e), ERR_OK);
    assert_false(look(host_tls)); /* nothing has changed */
    meet(host_tls, guest_tls, "one.example");
    peer_wait_int(&loop, &guest.opened, 1);
    swap_to("..v2");
    assert_false(tls_look(host_tls, looked_ms + TLS_LOOK_MS - 1)); /* too soon */
    assert_true(look(host_tls));
    assert_int_equal(conn_send(guest.conn, FRAME_PULL, "on", 2, NULL, 0), ERR_OK);
    peer_wait_size(&loop, &host.n_over, 1);
    peer_close(&host);
    peer_close(&guest);
    memset(&host, 0, sizeof host);
    memset(&guest, 0, sizeof guest);
    host.loop = guest.loop = &loop;
    meet(host_tls, guest_tls, "two.example");
    assert_int_equal(conn_send(host.conn, FRAME_CHALLENGE, NULL, 0, NULL, 0), ERR_OK);
    peer_wait_size(&loop, &guest.n_over, 1);
}

static void half_written_files_are_kept_out_and_looked_at_again(void **state)
{
    (void)state;
    sign(&ca, "moving", "DNS:first.example", -HOUR_S, HOUR_S);
    tls_free(host_tls);
    host_tls = identity("moving");
    struct tls_files f = files("moving");
    certs_write(&ca, "DNS:second.example", -HOUR_S, HOUR_S, path("next.crt"), path("next.key"));
    assert_int_equal(rename(path("next.crt"), f.cert), 0); /* the key is still the old one */
    assert_false(look(host_tls));
    meet(host_tls, guest_tls, "first.example");
    assert_int_equal(conn_send(host.conn, FRAME_CHALLENGE, NULL, 0, NULL, 0), ERR_OK);
    peer_wait_size(&loop, &guest.n_over, 1);
    assert_int_equal(unlink(f.key), 0); /* not there for a moment */
    assert_false(look(host_tls));
    assert_int_equal(rename(path("next.key"), f.key), 0);
    assert_true(look(host_tls));
    assert_false(look(host_tls));
}

/* ---- files that are wrong ---- */

static void refused_at_start(struct tls_files f, const char *why)
{
    struct tls *t = NULL;
    struct errmsg got = {""};
    assert_int_equal(tls_new(&t, &f, &got), ERR_INPUT);
    assert_null(t);
    if (!strstr(got.text, why))
        fail_msg("%s", got.text);
}

static void write_text(const char *name, const char *text)
{
    FILE *out = fopen(path(name), "we");
    assert_non_null(out);
    assert_true(fputs(text, out) >= 0);
    assert_int_equal(fclose(out), 0);
}

static void wrong_files_are_named_with_what_would_be_right(void **state)
{
    (void)state;
    struct tls_files good = files("host"), f;
    struct tls_files held = {strdup(good.cert), strdup(good.key), strdup(good.ca), ""};
    write_text("junk", "nothing of use\n");
    sign(&ca, "old", "DNS:old.example", -2 * HOUR_S, -HOUR_S);
    sign(&ca, "young", "DNS:young.example", HOUR_S, 2 * HOUR_S);
    f = held, f.cert = path("none");
    refused_at_start(f, "none: No such file or directory");
    f = held, f.key = path("none");
    refused_at_start(f, "--tls_key=");
    f = held, f.ca = folder;
    refused_at_start(f, "Is a directory");
    f = held, f.cert = path("junk");
    refused_at_start(f, "it contains no certificate");
    f = held, f.key = path("junk");
    refused_at_start(f, "it contains no private key; give a PEM file without a passphrase");
    f = held, f.ca = path("junk");
    refused_at_start(f, "it contains no CA certificate");
    f = held, f.key = path("guest.key");
    refused_at_start(f, "it is not the key of the certificate in ");
    refused_at_start(files("old"), "it expired on ");
    refused_at_start(files("young"), "it is not valid before ");
    f = held, f.names = "worker";
    refused_at_start(f, "--tls_names: 'worker' is not allowed");
    f = held, f.names = "worker=a.*.b";
    refused_at_start(f, "is not allowed");
    f = held, f.names = "chief=a,ps=b";
    refused_at_start(f, "'ps=b' is not allowed");
    f = held, f.names = "chief=a,";
    refused_at_start(f, "is not allowed");
    free((void *)held.cert), free((void *)held.key), free((void *)held.ca);
}

static void all_three_files_are_wanted_or_none(void **state)
{
    (void)state;
    struct tls_files none = {"", "", "", ""}, f = files("host");
    assert_int_equal(tls_load(&none, &e), ERR_OK);
    assert_null(tls_own());
    f.ca = "";
    assert_int_equal(tls_load(&f, &e), ERR_INPUT);
    assert_non_null(strstr(e.text, "--tls_ca is not; TLS needs all three"));
    none.names = "worker=a";
    assert_int_equal(tls_load(&none, &e), ERR_INPUT);
    assert_non_null(strstr(e.text, "--tls_names has no effect without"));
    f = files("host");
    assert_int_equal(tls_load(&f, &e), ERR_OK);
    assert_non_null(tls_own());
    tls_forget();
    assert_null(tls_own());
}

static void who_starts_others_looks_whether_the_certificate_names_them(void **state)
{
    (void)state;
    const struct {
        const char *address, *why; /* NULL: it does */
    } cases[] = {
        {"host.example:2222", NULL},
        {"127.0.0.1:0", NULL},
        {NULL, NULL},
        {"other.example:1", "host.crt: it names DNS:host.example, IP:127.0.0.1; expected: "
                            "other.example, the host that others connect to"},
        {"[::1]:0", "expected: ::1"},
    };
    struct tls_files none = {"", "", "", ""}, f = files("host"), half = f;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        enum err err = tls_try(&f, cases[i].address, &e);
        assert_int_equal(err, cases[i].why ? ERR_INPUT : ERR_OK);
        if (cases[i].why && !strstr(e.text, cases[i].why))
            fail_msg("%s", e.text);
    }
    half.key = "";
    assert_int_equal(tls_try(&half, "host.example:1", &e), ERR_INPUT);
    assert_int_equal(tls_try(&none, "other.example:1", &e), ERR_OK);
    assert_null(tls_own());
}

static void a_key_that_others_may_read_is_told_by_who_uses_it_alone(void **state)
{
    (void)state;
    struct tls_files f = files("host");
    char said[400];
    assert_int_equal(chmod(f.key, 0644), 0);
    log_info("before");
    assert_int_equal(tls_try(&f, NULL, &e), ERR_OK);
    log_last_words(false, said, sizeof said);
    assert_string_equal(said, "before");
    assert_int_equal(tls_load(&f, &e), ERR_OK);
    log_last_words(false, said, sizeof said);
    assert_non_null(strstr(said, "every user of this host can read the key"));
    tls_forget();
    assert_int_equal(chmod(f.key, 0600), 0);
}

static void nothing_of_a_key_is_told(void **state)
{
    (void)state;
    struct tls_files f = files("host");
    assert_int_equal(tls_load(&f, &e), ERR_OK);
    json_t *told = tls_json();
    char *text = json_dumps(told, 0);
    assert_non_null(strstr(text, "DNS:host.example"));
    assert_non_null(strstr(text, "host.crt"));
    assert_null(strstr(text, "host.key"));
    assert_null(strstr(text, "PRIVATE"));
    free(text);
    json_decref(told);
    tls_forget();
}

/* ---- roles ---- */

static void a_role_is_bound_to_its_entry_or_to_a_name_that_is_allowed(void **state)
{
    (void)state;
    char *workers[] = {(char *)"w-0.a.svc:1", (char *)"w-1.a.svc:2", (char *)"127.0.0.1:3"};
    const struct cluster dense = {
        .role = ROLE_PS, .n_workers = 3, .workers = workers, .chief = (char *)"w-0.a.svc:1"};
    struct cluster apart = dense, sparse = {.role = ROLE_PS, .sparse = true};
    char *with_dots[] = {(char *)"w-0.a.svc.:1", (char *)"w-1.a.svc.:2"};
    struct cluster absolute = dense;
    absolute.n_workers = 2;
    absolute.workers = with_dots;
    apart.separate_chief = true;
    apart.chief = (char *)"the-chief.example:9";
    const struct {
        const char *names, *allowed;
        const struct cluster *cluster;
        uint32_t worker;
        const char *why; /* NULL: it may */
    } cases[] = {
        {"DNS:w-1.a.svc", "", &dense, 1, NULL},
        {"DNS:W-1.A.SVC", "", &dense, 1, NULL},
        {"DNS:*.a.svc", "", &dense, 1, NULL},
        {"IP:127.0.0.1", "", &dense, 2, NULL},
        {"DNS:w-0.a.svc", "", &dense, 0, NULL},
        {"DNS:w-1.a.svc", "", &dense, 0,
         "it claims to be the chief, but its certificate names DNS:w-1.a.svc; expected: w-0.a.svc"},
        {"DNS:w-2.a.svc", "", &dense, 1,
         "it claims to be worker 1, but its certificate names DNS:w-2.a.svc; expected: w-1.a.svc"},
        {"DNS:*.w-1.a.svc", "", &dense, 1, "expected: w-1.a.svc"},
        {"", "", &dense, 1, "its certificate names no name"},
        {"DNS:w-0.a.svc", "", &dense, 3, "expected: a name in --tls_names"},
        {"DNS:w-0.a.svc", "", &apart, 1, NULL},
        {"DNS:w-0.a.svc", "", &apart, 0, "expected: the-chief.example"},
        {"DNS:the-chief.example", "", &apart, 0, NULL},
        {"DNS:a.pods.example", "worker=*.pods.example", &sparse, 7, NULL},
        {"DNS:*.pods.example", "worker=*.pods.example", &sparse, 7, NULL},
        {"DNS:a.b.pods.example", "worker=*.pods.example", &sparse, 7, "expected: *.pods.example"},
        {"DNS:pods.example", "worker=*.pods.example", &sparse, 7, "expected: *.pods.example"},
        {"DNS:a.pods.example", "chief=*.pods.example", &sparse, 7, "a name in --tls_names"},
        {"DNS:a.pods.example", "chief=*.pods.example", &sparse, 0, NULL},
        {"DNS:a.pods.example", "worker=*.pods.example", &apart, 0, "expected: the-chief.example"},
        {"DNS:a.pods", "worker=*.pods,chief=boss.x", &sparse, 0, "expected: boss.x"},
        {"DNS:a.pods", "worker=*.pods,chief=boss.x", &sparse, 1, NULL},
        {"DNS:a.pods", "worker=*.pods", &sparse, 0, NULL},
        {"DNS:w-1.a.svc", "", &absolute, 1, NULL},
        {"DNS:w-2.a.svc", "", &absolute, 1, "expected: w-1.a.svc"},
        {"IP:10.0.0.7", "worker=10.0.0.7,worker=10.0.0.8", &sparse, 1, NULL},
        {"IP:10.0.0.9", "worker=10.0.0.7,worker=10.0.0.8", &sparse, 1,
         "expected: 10.0.0.7 or 10.0.0.8"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char why[600] = "";
        struct tls *t = NULL;
        struct tls_files f = files("host");
        f.names = cases[i].allowed;
        assert_int_equal(tls_new(&t, &f, &e), ERR_OK);
        sign(&ca, "who", cases[i].names, -HOUR_S, HOUR_S);
        struct tls *who = identity("who");
        meet(t, who, "host.example");
        peer_wait_int(&loop, &guest.opened, 1);
        while (conn_shaking(host.conn))
            assert_int_equal(loop_tick(&loop, NULL), ERR_OK);
        bool may = tls_link_may_be(conn_tls(host.conn), t, cases[i].cluster, cases[i].worker, why,
                                   sizeof why);
        if (may != !cases[i].why || (cases[i].why && !strstr(why, cases[i].why)))
            fail_msg("case %zu: %s", i, may ? "it may" : why);
        tls_free(who);
        tls_free(t);
        teardown(NULL);
        setup(NULL);
    }
}

static void a_ps_that_cannot_know_its_workers_names_wants_to_be_told(void **state)
{
    (void)state;
    char *workers[] = {(char *)"w-0:1"};
    const struct cluster dense = {.role = ROLE_PS, .n_workers = 1, .workers = workers},
                         sparse = {.role = ROLE_PS, .sparse = true},
                         guest_of = {.role = ROLE_WORKER, .sparse = true, .index = 2},
                         chief = {.role = ROLE_WORKER, .sparse = true, .is_chief = true};
    struct tls *t = NULL;
    struct tls_files f = files("host");
    assert_int_equal(tls_check_cluster(NULL, &sparse, &e), ERR_OK);
    assert_int_equal(tls_check_cluster(host_tls, &dense, &e), ERR_OK);
    assert_int_equal(tls_check_cluster(host_tls, &guest_of, &e), ERR_OK);
    assert_int_equal(tls_check_cluster(host_tls, &chief, &e), ERR_INPUT);
    assert_int_equal(tls_check_cluster(host_tls, &sparse, &e), ERR_INPUT);
    assert_non_null(strstr(e.text, "--tls_names=worker=NAME"));
    f.names = "worker=*.pods";
    assert_int_equal(tls_new(&t, &f, &e), ERR_OK);
    assert_int_equal(tls_check_cluster(t, &sparse, &e), ERR_OK);
    tls_free(t);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(frames_go_both_ways_whole),
        T(many_small_frames_share_records),
        T(a_slow_reader_gets_what_was_sent_though_it_was_rewritten),
        T(a_record_that_waits_stays_as_it_was_where_it_was),
        T(a_connection_with_much_to_read_leaves_others_their_turn),
        T(keys_are_changed_under_way),
        T(a_detached_connection_goes_on_in_other_hands),
        T(a_last_word_arrives),
        T(the_kernels_tls_is_taken_where_it_is),
        T(an_expired_certificate_is_refused_by_name_on_both_sides),
        T(a_certificate_of_another_host_is_refused_by_name_on_both_sides),
        T(a_dot_at_the_end_of_a_host_that_was_dialed_is_not_in_its_certificate),
        T(a_ca_that_has_expired_is_told_as_such),
        T(an_address_that_was_dialed_must_be_in_the_certificate),
        T(a_certificate_of_another_ca_is_refused_by_name_on_both_sides),
        T(who_speaks_no_tls_is_told_so_and_tells),
        T(a_stranger_without_a_certificate_learns_nothing),
        T(an_older_tls_is_refused),
        T(a_handshake_that_stalls_is_ended),
        T(who_only_looks_whether_the_port_is_there_is_no_refusal),
        T(who_says_nothing_for_seconds_and_hangs_up_is_told_of),
        T(who_hangs_up_in_the_handshake_is_counted),
        T(who_is_dialed_and_hangs_up_in_the_handshake_has_not_refused),
        T(garbage_ends_the_handshake_and_nothing_else),
        T(a_record_that_was_tampered_with_ends_the_connection),
        T(a_recorded_session_is_of_no_use_on_another_connection),
        T(a_recorded_frame_is_of_no_use_a_second_time),
        T(without_memory_a_connection_is_not_secured_and_none_is_lost),
        T(changed_files_are_taken_for_new_connections_and_old_ones_go_on),
        T(half_written_files_are_kept_out_and_looked_at_again),
        T(wrong_files_are_named_with_what_would_be_right),
        T(all_three_files_are_wanted_or_none),
        T(who_starts_others_looks_whether_the_certificate_names_them),
        T(a_key_that_others_may_read_is_told_by_who_uses_it_alone),
        T(nothing_of_a_key_is_told),
        T(a_role_is_bound_to_its_entry_or_to_a_name_that_is_allowed),
        T(a_ps_that_cannot_know_its_workers_names_wants_to_be_told),
    };
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
