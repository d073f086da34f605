/* Listening and dialing, over 127.0.0.1. */
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/clock.h"
#include "common/peers/dial.h"
#include "common/net/listen.h"
#include "common/base/mem.h"
#include "common/cluster/address.h"
#include "common/net/socket.h"
#include "tests/lib/peer.h"

static struct loop loop;
static struct peer p;
static struct errmsg e;

static int setup(void **state)
{
    (void)state;
    memset(&p, 0, sizeof(p));
    memset(&e, 0, sizeof(e));
    p.loop = &loop;
    return loop_init(&loop) == ERR_OK ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    peer_close(&p);
    loop_close(&loop);
    return 0;
}

/* ---- Addresses ---- */

static void addresses_are_split_as_people_write_them(void **state)
{
    (void)state;
    struct {
        const char *text, *host;
        uint16_t port;
    } good[] = {{"ps-0.ns.svc:2222", "ps-0.ns.svc", 2222},
                {"127.0.0.1:1", "127.0.0.1", 1},
                {"[::1]:65535", "::1", 65535},
                {":8080", "", 8080}};
    const char *bad[] = {"host",     "host:",       "host:0",    "host:65536", "host:-1",
                         "host: 80", "host:080000", "host:0x50", "::1:80",     "host:8a"};
    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
        char host[ADDRESS_HOST_MAX];
        uint16_t port;
        assert_int_equal(address_split(good[i].text, false, host, &port, &e), ERR_OK);
        assert_string_equal(host, good[i].host);
        assert_int_equal(port, good[i].port);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        char host[ADDRESS_HOST_MAX] = "unchanged";
        uint16_t port = 7;
        assert_int_equal(address_split(bad[i], false, host, &port, &e), ERR_INPUT);
        assert_string_equal(host, "unchanged");
        assert_int_equal(port, 7);
    }
}

/* ---- Listening ---- */

struct door {
    struct listener l;
    int n, fd[64];
};

static void on_accept(void *owner, int fd, const char *peer)
{
    struct door *d = owner;
    assert_int_equal(strncmp(peer, "127.0.0.1:", 10), 0);
    d->fd[d->n++] = fd;
}

static uint16_t door_open(struct door *d, uint32_t open_max)
{
    int fd = -1;
    memset(d, 0, sizeof(*d));
    assert_int_equal(listen_bind(&fd, "127.0.0.1:0", 0, &e), ERR_OK);
    assert_int_equal(listen_adopt(fd, &e), ERR_OK);
    assert_int_equal(listen_start(&d->l, &loop, fd, open_max, on_accept, d), ERR_OK);
    return socket_port(d->l.fd);
}

static void door_close(struct door *d)
{
    listen_close(&d->l);
    for (int i = 0; i < d->n; i++)
        close(d->fd[i]);
}

static int knock(uint16_t port)
{
    struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    return fd;
}

static void a_taken_port_is_named_when_the_time_is_up(void **state)
{
    (void)state;
    int fd = -1, taken = peer_listen();
    char at[32];
    snprintf(at, sizeof(at), "127.0.0.1:%u", socket_port(taken));
    assert_int_equal(listen_bind(&fd, at, 0, &e), ERR_IO);
    assert_int_equal(fd, -1);
    assert_non_null(strstr(e.text, at));
    assert_non_null(strstr(e.text, "the port is still in use"));
    close(taken);
}

static void *close_main(void *arg)
{
    close(*(int *)arg);
    return NULL;
}

static void a_port_that_becomes_free_in_time_is_bound(void **state)
{
    (void)state;
    int fd = -1, taken = peer_listen();
    char at[32];
    pthread_t thread;
    snprintf(at, sizeof(at), "127.0.0.1:%u", socket_port(taken));
    assert_int_equal(pthread_create(&thread, NULL, close_main, &taken), 0);
    assert_int_equal(listen_bind(&fd, at, PEER_DEADLINE_MS, &e), ERR_OK);
    pthread_join(thread, NULL);
    close(fd);
}

static void every_address_of_the_host_is_bound_without_a_host(void **state)
{
    (void)state;
    int fd = -1;
    assert_int_equal(listen_bind(&fd, ":0", 0, &e), ERR_OK);
    close(knock(socket_port(fd)));
    close(fd);
}

static void only_a_listening_socket_is_adopted(void **state)
{
    (void)state;
    int a[2];
    peer_sockets(a);
    assert_int_equal(listen_adopt(a[0], &e), ERR_INPUT);
    assert_non_null(strstr(e.text, "is not a listening socket"));
    close(a[0]);
    close(a[1]);
    assert_int_equal(listen_adopt(a[0], &e), ERR_INPUT);
}

static void who_comes_above_the_cap_waits_until_one_leaves(void **state)
{
    (void)state;
    struct door d;
    uint16_t port = door_open(&d, 2);
    int fd[3];
    for (int i = 0; i < 3; i++)
        fd[i] = knock(port);
    peer_wait_int(&loop, &d.n, 2);
    peer_poll(&loop);
    assert_int_equal(d.n, 2);
    listen_release(&d.l);
    peer_wait_int(&loop, &d.n, 3);
    for (int i = 0; i < 3; i++)
        close(fd[i]);
    door_close(&d);
}

static void count_tick(void *arg)
{
    ++*(int *)arg;
}

static void without_descriptors_accepting_pauses_instead_of_spinning(void **state)
{
    (void)state;
    struct door d;
    struct rlimit was, none;
    struct loop_timer timer;
    uint16_t port = door_open(&d, 16);
    int due = 0, ticks = 0, fd = knock(port);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
    none = was;
    none.rlim_cur = 3; /* those that are open stay */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    loop_timer_init(&timer, &loop, count_tick, &due);
    assert_int_equal(loop_timer_once(&timer, 2 * LISTEN_PAUSE_MS), ERR_OK);
    while (!due) {
        assert_int_equal(loop_tick(&loop, NULL), ERR_OK);
        ticks++;
    }
    assert_int_equal(d.n, 0);
    assert_in_range(ticks, 1, 8);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
    peer_wait_int(&loop, &d.n, 1);
    close(fd);
    door_close(&d);
}

/* ---- Dialing ---- */

static struct dialer *dial(const char *host_port)
{
    struct dialer *d = NULL;
    assert_int_equal(dial_new(&d, &loop, "ps 0", host_port, &peer_ops, &p, &e), ERR_OK);
    return d;
}

static void wait_for_a_reason(struct dialer *d)
{
    while (!*dial_why(d))
        assert_int_equal(loop_tick(&loop, NULL), ERR_OK);
}

static void a_dialer_tries_until_somebody_listens(void **state)
{
    (void)state;
    char at[32];
    int fd = peer_bind(); /* no port that is only free: another process may listen there */
    snprintf(at, sizeof(at), "127.0.0.1:%u", socket_port(fd));
    struct dialer *d = dial(at);
    dial_start(d);
    wait_for_a_reason(d);
    assert_string_equal(dial_why(d), "Connection refused");
    assert_true(dial_trying(d));
    assert_int_equal(p.opened, 0);
    assert_int_equal(listen(fd, 1), 0);
    peer_wait_int(&loop, &p.opened, 1);
    assert_false(dial_trying(d));
    assert_int_equal(p.closed, 0);
    dial_free(d); /* the connection is the owner's */
    assert_int_equal(conn_send(p.conn, FRAME_PULL, NULL, 0, NULL, 0), ERR_OK);
    close(fd);
}

static void a_name_is_looked_up_off_the_loop_and_all_its_addresses_are_tried(void **state)
{
    (void)state;
    char at[32];
    int fd = peer_listen(); /* on 127.0.0.1 alone, though localhost may be ::1 first */
    snprintf(at, sizeof(at), "localhost:%u", socket_port(fd));
    struct dialer *d = dial(at);
    dial_start(d);
    peer_wait_int(&loop, &p.opened, 1);
    assert_non_null(strstr(conn_peer(p.conn), "ps 0 at localhost:"));
    dial_free(d);
    close(fd);
}

static void an_unknown_name_is_not_yet(void **state)
{
    (void)state;
    struct dialer *d = dial("not..a.name:1"); /* refused without asking a server */
    dial_start(d);
    wait_for_a_reason(d);
    assert_true(dial_trying(d));
    dial_stop(d);
    assert_false(dial_trying(d));
    dial_free(d);
}

static void a_dialer_freed_at_any_moment_leaves_nothing(void **state)
{
    (void)state;
    char at[2][32];
    int fd = peer_listen();
    snprintf(at[0], sizeof(at[0]), "127.0.0.1:%u", socket_port(fd));
    snprintf(at[1], sizeof(at[1]), "localhost:%u", socket_port(fd));
    for (int name = 0; name < 2; name++)
        for (int ticks = 0; ticks < 3; ticks++) {
            struct dialer *d = dial(at[name]);
            dial_start(d);
            for (int i = 0; i < ticks && dial_trying(d); i++)
                assert_int_equal(loop_tick(&loop, NULL), ERR_OK);
            dial_free(d);
            peer_close(&p);
            memset(&p, 0, sizeof(p));
            p.loop = &loop;
        }
    close(fd);
}

static void a_peer_that_always_hangs_up_is_dialed_ever_more_slowly(void **state)
{
    (void)state;
    char at[32];
    int fd = peer_listen();
    snprintf(at, sizeof(at), "127.0.0.1:%u", socket_port(fd));
    struct dialer *d = dial(at);
    int64_t from = clock_now_ms();
    for (int i = 1; i <= 4; i++) {
        dial_start(d);
        peer_wait_int(&loop, &p.opened, i);
        close(accept(fd, NULL, NULL));
        peer_wait_int(&loop, &p.closed, 1);
        p.closed = 0;
    }
    /* libevent's clock ticks every 10 ms, at worst: each wait may be that much shorter */
    assert_true(clock_now_ms() - from >= 50 + 100 + 200 - 3 * 10 - 1);
    dial_free(d);
    close(fd);
}

static void a_dialer_is_hopeless_by_its_tries_and_not_by_the_time_since(void **state)
{
    (void)state;
    struct dialer *d = dial("127.0.0.1:1"); /* hears of tries, and makes none */
    struct loop_timer timer;
    int due = 0;
    for (int i = 0; i < DIAL_HOPELESS_TRIES; i++)
        dial_lost(d, ERR_TLS, "the certificate is refused");
    assert_false(dial_hopeless(d));
    loop_timer_init(&timer, &loop, count_tick, &due);
    assert_int_equal(loop_timer_once(&timer, DIAL_HOPELESS_MS + 20), ERR_OK);
    while (!due)
        assert_int_equal(loop_tick(&loop, NULL), ERR_OK);
    assert_false(dial_hopeless(d)); /* no try has seen the files of now */
    dial_lost(d, ERR_TLS, "the certificate is refused");
    assert_true(dial_hopeless(d));
    dial_lost(d, ERR_CLOSED, "the peer closed the connection");
    assert_false(dial_hopeless(d));
    dial_free(d);
}

/* The peer refuses, in its answer to a hello. */
static void refuse(struct dialer *d, Gradwire__Reason reason)
{
    Gradwire__Refuse m = GRADWIRE__REFUSE__INIT;
    m.reason = reason;
    dial_locked_out(d, &m);
}

static void a_dialer_is_hopeless_when_it_is_refused_for_what_stays_as_it_is(void **state)
{
    (void)state;
    struct dialer *d = dial("127.0.0.1:1");
    struct loop_timer timer;
    int due = 0;
    refuse(d, GRADWIRE__REASON__NO_TOKEN);
    refuse(d, GRADWIRE__REASON__OTHER_NAME);
    refuse(d, GRADWIRE__REASON__OTHER_VERSION);
    loop_timer_init(&timer, &loop, count_tick, &due);
    assert_int_equal(loop_timer_once(&timer, DIAL_HOPELESS_MS + 20), ERR_OK);
    while (!due)
        assert_int_equal(loop_tick(&loop, NULL), ERR_OK);
    refuse(d, GRADWIRE__REASON__OTHER_JOB);
    assert_true(dial_hopeless(d));
    refuse(d, GRADWIRE__REASON__NOT_READY);
    assert_false(dial_hopeless(d));
    dial_free(d);
}

static void a_dialer_refuses_what_is_no_address(void **state)
{
    (void)state;
    struct dialer *d = NULL;
    assert_int_equal(dial_new(&d, &loop, "ps 0", "nowhere", &peer_ops, &p, &e), ERR_INPUT);
    assert_string_equal(e.text, "ps 0: \"nowhere\" has no port; write host:port");
    assert_int_equal(dial_new(&d, &loop, "ps 0", ":80", &peer_ops, &p, &e), ERR_INPUT);
    assert_null(d);
}

static void a_dialer_without_memory_tries_on(void **state)
{
    (void)state;
    char at[32];
    int fd = peer_listen();
    snprintf(at, sizeof(at), "127.0.0.1:%u", socket_port(fd));
    struct dialer *d = dial(at);
    dial_start(d);
    mem_fail_at(0);
    wait_for_a_reason(d);
    assert_true(mem_fail_fired());
    mem_fail_at(-1);
    assert_string_equal(dial_why(d), "out of memory");
    peer_wait_int(&loop, &p.opened, 1);
    dial_free(d);
    close(fd);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(addresses_are_split_as_people_write_them),
        T(a_taken_port_is_named_when_the_time_is_up),
        T(a_port_that_becomes_free_in_time_is_bound),
        T(every_address_of_the_host_is_bound_without_a_host),
        T(only_a_listening_socket_is_adopted),
        T(who_comes_above_the_cap_waits_until_one_leaves),
        T(without_descriptors_accepting_pauses_instead_of_spinning),
        T(a_dialer_tries_until_somebody_listens),
        T(a_name_is_looked_up_off_the_loop_and_all_its_addresses_are_tried),
        T(an_unknown_name_is_not_yet),
        T(a_dialer_freed_at_any_moment_leaves_nothing),
        T(a_peer_that_always_hangs_up_is_dialed_ever_more_slowly),
        T(a_dialer_is_hopeless_by_its_tries_and_not_by_the_time_since),
        T(a_dialer_is_hopeless_when_it_is_refused_for_what_stays_as_it_is),
        T(a_dialer_refuses_what_is_no_address),
        T(a_dialer_without_memory_tries_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
