/* Browsers' connections over a link: what the side of the launcher and the side of the runner do with them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <event2/bufferevent.h>
#include <event2/event.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/net/listen.h"
#include "common/net/socket.h"
#include "launch/remote/talk.h"

enum { DEADLINE_MS = 60000, UNREAD_BYTES = 900 << 10 };

static struct event_base *base;
static struct talk talk;
static struct web web;
static int link_fd[2];

static bool on_message(void *arg, enum talk_type type, uint32_t process, const char *data,
                       size_t bytes)
{
    (void)arg, (void)type, (void)process, (void)data, (void)bytes;
    return true;
}

static void on_end(void *arg, const char *why)
{
    (void)arg, (void)why;
}

static int setup(void **state)
{
    (void)state;
    static const struct talk_ops ops = {.on_message = on_message, .on_end = on_end};
    base = event_base_new();
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, link_fd), 0);
    assert_int_equal(talk_init(&talk, base, link_fd[0], dup(link_fd[0]), false, &ops, NULL),
                     ERR_OK);
    web_init(&web, base);
    web_talk(&web, &talk);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    web_talk(&web, NULL);
    talk_close(&talk);
    (void)close(link_fd[1]);
    event_base_free(base);
    return 0;
}

static void the_runners_connection_to_the_page_is_not_inherited_by_children(void **state)
{
    (void)state;
    struct errmsg e;
    int fd;
    assert_int_equal(listen_bind(&fd, "127.0.0.1:0", 0, &e), ERR_OK);
    web_on_message(&web, TALK_WEB_OPEN, 7, "", 0, socket_port(fd));
    assert_non_null(web.conn[0].bev);
    int flags = fcntl(bufferevent_getfd(web.conn[0].bev), F_GETFD);
    assert_true(flags >= 0 && (flags & FD_CLOEXEC));
    (void)close(fd);
}

/* A browser that does not read, while more waits for it than its socket takes. */
static int browser_with_much_to_read(void)
{
    int pair[2], small = 4096;
    char *bytes = mem_zalloc(UNREAD_BYTES, 1);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
    socket_set(pair[0], SOL_SOCKET, SO_SNDBUF, small);
    web_accept(&web, pair[0]);
    web_on_message(&web, TALK_WEB_DATA, 1, bytes, UNREAD_BYTES, 0);
    mem_free(bytes);
    assert_non_null(web.conn[0].bev);
    return pair[1];
}

static void who_does_not_read_the_end_is_dropped_in_time(void **state)
{
    (void)state;
    int browser = browser_with_much_to_read();
    int64_t began_ms = clock_now_ms();
    const struct timeval bound = {.tv_sec = DEADLINE_MS / 1000};
    web_on_message(&web, TALK_WEB_CLOSE, 1, "", 0, 0);
    assert_non_null(web.conn[0].bev);
    assert_int_equal(event_base_loopexit(base, &bound), 0);
    while (web.conn[0].bev && clock_now_ms() - began_ms < DEADLINE_MS)
        assert_int_equal(event_base_loop(base, EVLOOP_ONCE), 0);
    assert_null(web.conn[0].bev);
    assert_true(clock_now_ms() - began_ms >= WEB_FINISH_MS - 1);
    (void)close(browser);
}

static void who_reads_gets_all_before_the_end(void **state)
{
    (void)state;
    int browser = browser_with_much_to_read();
    char bytes[16 << 10];
    size_t got = 0;
    ssize_t n = -1;
    int64_t began_ms = clock_now_ms();
    web_on_message(&web, TALK_WEB_CLOSE, 1, "", 0, 0);
    while (n != 0 && clock_now_ms() - began_ms < DEADLINE_MS) {
        assert_int_equal(event_base_loop(base, EVLOOP_NONBLOCK) < 0, 0);
        while ((n = read(browser, bytes, sizeof bytes)) > 0)
            got += (size_t)n;
    }
    assert_int_equal(got, UNREAD_BYTES);
    assert_null(web.conn[0].bev);
    (void)close(browser);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(the_runners_connection_to_the_page_is_not_inherited_by_children),
        T(who_does_not_read_the_end_is_dropped_in_time),
        T(who_reads_gets_all_before_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
