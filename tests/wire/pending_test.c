/* Connections without a hello are bounded in number and in time, and never keep others out (common/peers/greeting.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/net/listen.h"
#include "common/net/socket.h"
#include "common/peers/greeting.h"
#include "tests/lib/peer.h"

enum { MANY = 40 };

/* A port whose connections are all pending. */
static struct {
    struct loop loop;
    struct listener l;
    struct pending pending;
    struct pending_conn one[MANY];
    int accepted, closed, dialed;
    int fd[MANY]; /* the other ends */
} h;

static void on_close(struct conn *c, void *owner, enum err code, const char *why)
{
    (void)c, (void)code, (void)why;
    pending_conn_leave(owner);
    listen_release(&h.l);
    h.closed++;
}

static void on_accept(void *owner, int fd, const char *peer)
{
    static const struct conn_ops ops = {.on_close = on_close};
    (void)owner;
    struct conn *c;
    struct pending_conn *one = &h.one[h.accepted++];
    assert_int_equal(conn_new(&c, &h.loop, fd, peer, &ops, one), ERR_OK);
    pending_add(&h.pending, one, c);
}

static bool shed(void *owner)
{
    (void)owner;
    return pending_shed(&h.pending);
}

static int setup(void **state)
{
    (void)state;
    int fd = -1;
    memset(&h, 0, sizeof h);
    pending_init(&h.pending);
    if (loop_init(&h.loop) || listen_bind(&fd, "127.0.0.1:0", 0, NULL) ||
        listen_start(&h.l, &h.loop, fd, 4096, on_accept, NULL))
        return -1;
    h.l.shed = shed;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    listen_close(&h.l);
    while (pending_shed(&h.pending))
        ;
    peer_poll(&h.loop);
    for (int i = 0; i < h.dialed; i++)
        close(h.fd[i]);
    loop_close(&h.loop);
    return 0;
}

static int dial(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                             .sin_port = htons(socket_port(h.l.fd))};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    h.fd[h.dialed++] = fd;
    return fd;
}

static bool hung_up(int fd)
{
    char byte;
    return recv(fd, &byte, 1, MSG_DONTWAIT) == 0;
}

/* Of the connections from first to end exactly these first ones see their end, soon. */
static void assert_hung_up(int first, int gone, int end)
{
    for (int i = first; i < end; i++) {
        if (i < gone)
            peer_wait_fd(h.fd[i], POLLIN);
        assert_int_equal(hung_up(h.fd[i]), i < gone);
    }
}

static void the_bound_is_a_share_of_the_descriptors(void **state)
{
    (void)state;
    assert_int_equal(pending_bound(0), PENDING_LEAST);
    assert_int_equal(pending_bound(256), 64);
    assert_int_equal(pending_bound(4096), 1024);
    assert_int_equal(pending_bound(UINT64_MAX), PENDING_MOST);
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(h.pending.open_max, pending_bound(limit.rlim_cur));
}

static void beyond_the_bound_the_oldest_goes_and_who_has_proven_stays(void **state)
{
    (void)state;
    h.pending.open_max = 4;
    int known = dial();
    peer_wait_int(&h.loop, &h.accepted, 1);
    pending_conn_leave(&h.one[0]);
    pending_conn_leave(&h.one[0]); /* again is nothing */
    for (int i = 0; i < 10; i++) {
        (void)dial();
        peer_wait_int(&h.loop, &h.accepted, 2 + i); /* in this order */
    }
    peer_wait_int(&h.loop, &h.closed, 6);
    assert_int_equal(h.accepted, 11);
    assert_int_equal(h.pending.open, 4);
    assert_int_equal(h.pending.shed, 6);
    assert_false(hung_up(known));
    assert_hung_up(1, 7, 11);
    conn_close(h.one[0].conn, ERR_CLOSED, "the test is over");
    conn_close(h.one[8].conn, ERR_CLOSED, "from the middle");
    peer_poll(&h.loop);
    assert_int_equal(h.pending.open, 3);
}

static void without_descriptors_a_stranger_makes_room_for_who_comes(void **state)
{
    (void)state;
    struct rlimit was, few;
    for (int i = 0; i < 4; i++)
        (void)dial();
    peer_wait_int(&h.loop, &h.accepted, 4);
    int late[3] = {dial(), dial(), dial()}; /* in the backlog */
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
    few = was;
    few.rlim_cur = (rlim_t)late[2] + 1; /* none is free */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    peer_wait_int(&h.loop, &h.accepted, 7);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
    /* one for each, and one more: accept needs a descriptor before it knows whether a connection waits */
    assert_hung_up(0, 4, 7);
    assert_int_equal(h.pending.open, 3);
}

static void who_says_nothing_in_time_is_closed(void **state)
{
    (void)state;
    (void)dial();
    peer_wait_int(&h.loop, &h.accepted, 1);
    int64_t until_ms = h.one[0].since_ms + PENDING_MS;
    pending_tick(&h.pending, until_ms);
    peer_poll(&h.loop);
    assert_int_equal(h.closed, 0);
    pending_tick(&h.pending, until_ms + 1);
    peer_wait_int(&h.loop, &h.closed, 1);
    assert_int_equal(h.pending.open, 0);
    assert_int_equal(h.pending.shed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_bound_is_a_share_of_the_descriptors, setup, teardown),
        cmocka_unit_test_setup_teardown(beyond_the_bound_the_oldest_goes_and_who_has_proven_stays,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(without_descriptors_a_stranger_makes_room_for_who_comes,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(who_says_nothing_in_time_is_closed, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
