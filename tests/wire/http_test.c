/* The HTTP server on a loop of this thread, with clients that are sockets of the same thread. */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/clock.h"
#include "common/serve/http.h"
#include "common/serve/http_hosts.h"
#include "common/net/listen.h"
#include "common/net/socket.h"

enum { DEADLINE_MS = 120000, LARGE_BYTES = 16 << 20 };

struct site {
    struct loop loop;
    struct http *http;
    struct loop_timer heart; /* so that a tick ends */
    uint16_t port;
    const char *not_ready;
    bool large;     /* an answer too large for one write */
    int64_t number; /* of the status */
};

struct client {
    int fd;
    bool over; /* the server has closed */
    size_t bytes, n;
    char text[4096]; /* the first of what came */
};

static const char *on_not_ready(void *ctx)
{
    return ((struct site *)ctx)->not_ready;
}

static void on_metrics(void *ctx, struct metrics *m)
{
    static char much[LARGE_BYTES];
    metrics_gauge(m, "gradwire_answer", "It.", 42);
    memset(much, '#', sizeof much);
    if (((struct site *)ctx)->large)
        assert_int_equal(evbuffer_add(m->out, much, sizeof much), 0);
}

static json_t *on_status(void *ctx)
{
    const struct site *s = ctx;
    json_t *status = json_pack("{s:s}", "process", "ps 0");
    if (s->number) /* a value that changes by itself is no news */
        (void)json_object_update_new(
            status, json_pack("{s:I, s:{s:I}}", "number", (json_int_t)s->number, "system",
                              "resident_bytes", (json_int_t)clock_now_ms()));
    return status;
}

static const struct http_ops ops = {
    .not_ready = on_not_ready, .metrics = on_metrics, .status = on_status};

static const struct http_file files[] = {
    {"/", "text/html", "<p>", 3}, {"/page.js", "text/javascript", "let x;", 6}, {0}};
static const struct http_ops page_ops = {
    .not_ready = on_not_ready, .metrics = on_metrics, .status = on_status, .files = files};

static void on_heart(void *arg)
{
    (void)arg;
}

static void open_site_of(struct site *s, const struct http_ops *of)
{
    int fd;
    *s = (struct site){.port = 0};
    assert_int_equal(loop_init(&s->loop), ERR_OK);
    assert_int_equal(listen_bind(&fd, "127.0.0.1:0", 0, NULL), ERR_OK);
    s->port = socket_port(fd);
    assert_int_equal(http_open(&s->http, &s->loop, fd, of, s), ERR_OK);
    http_connection_ms(s->http, DEADLINE_MS);
    loop_timer_init(&s->heart, &s->loop, on_heart, s);
    assert_int_equal(loop_timer_every(&s->heart, 5), ERR_OK);
}

static void open_site(struct site *s)
{
    open_site_of(s, &ops);
}

static void close_site(struct site *s)
{
    http_close(s->http);
    loop_timer_stop(&s->heart);
    loop_close(&s->loop);
}

static void dial(const struct site *s, struct client *c)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons(s->port),
                             .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    *c = (struct client){.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    assert_true(c->fd >= 0);
    assert_int_equal(connect(c->fd, (struct sockaddr *)&to, sizeof to), 0);
}

static void say(const struct client *c, const char *text)
{
    (void)send(c->fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void hear(struct client *c)
{
    char more[65536];
    ssize_t n = recv(c->fd, more, sizeof more, MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN))
        c->over = true;
    c->bytes += n > 0 ? (size_t)n : 0;
    for (ssize_t i = 0; i < n && c->n + 1 < sizeof c->text; i++)
        c->text[c->n++] = more[i];
}

/* The server has closed it. */
static void hear_end(struct client *c)
{
    struct pollfd p = {.fd = c->fd, .events = POLLIN};
    while (!c->over) {
        assert_int_equal(poll(&p, 1, DEADLINE_MS), 1);
        hear(c);
    }
}

/* Until the server has closed it. */
static void finish(struct site *s, struct client *c)
{
    int64_t until = clock_now_ms() + DEADLINE_MS;
    while (!c->over) {
        assert_true(clock_now_ms() < until);
        assert_int_equal(loop_tick(&s->loop, NULL), ERR_OK);
        hear(c);
    }
    (void)close(c->fd);
}

/* All that the server answers to one request. Again, where the machine was so late that the server gave it up. */
static const char *ask(struct site *s, struct client *c, const char *request)
{
    int64_t from;
    do {
        from = clock_now_ms();
        dial(s, c);
        say(c, request);
        finish(s, c);
    } while (c->n == 0 && clock_now_ms() - from >= HTTP_CONNECTION_MS);
    return c->text;
}

static void assert_starts(const char *text, const char *with)
{
    if (strncmp(text, with, strlen(with)) != 0)
        fail_msg("'%s' is wanted, not:\n%s", with, text);
}

static void every_path_has_its_answer(void **state)
{
    (void)state;
    struct site s;
    struct client c;
    open_site(&s);
    assert_starts(ask(&s, &c, "GET /healthz HTTP/1.1\r\n\r\n"), "HTTP/1.1 200 ");
    assert_non_null(strstr(c.text, "\r\n\r\nok\n"));
    assert_starts(ask(&s, &c, "GET /readyz HTTP/1.0\r\n\r\n"), "HTTP/1.0 200 ");
    s.not_ready = "waiting for ps 1";
    assert_starts(ask(&s, &c, "GET /readyz HTTP/1.1\r\n\r\n"), "HTTP/1.1 503 ");
    assert_non_null(strstr(c.text, "waiting for ps 1\n"));
    assert_starts(ask(&s, &c, "GET /healthz HTTP/1.1\r\n\r\n"), "HTTP/1.1 200 ");
    assert_starts(ask(&s, &c, "GET /metrics?x=1 HTTP/1.1\r\n\r\n"), "HTTP/1.1 200 ");
    assert_non_null(strstr(c.text, "Content-Type: text/plain; version=0.0.4"));
    assert_non_null(strstr(c.text, "\ngradwire_answer 42\n"));
    assert_non_null(strstr(c.text, "\ngradwire_ready 0\n"));
    assert_starts(ask(&s, &c, "GET /status HTTP/1.1\r\n\r\n"), "HTTP/1.1 200 ");
    assert_non_null(strstr(c.text, "{\n  \"process\": \"ps 0\",\n  \"auth\": \"none\"\n}\n"));
    assert_starts(ask(&s, &c, "GET / HTTP/1.1\r\n\r\n"), "HTTP/1.1 200 ");
    assert_non_null(strstr(c.text, "<h1>ps 0</h1>"));
    assert_starts(ask(&s, &c, "GET /etc/passwd HTTP/1.1\r\n\r\n"), "HTTP/1.1 404 ");
    close_site(&s);
}

static void nothing_but_get_and_head_is_allowed(void **state)
{
    (void)state;
    static const char *const wrong[] = {"POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH"};
    struct site s;
    struct client c;
    char request[128];
    open_site(&s);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        (void)snprintf(request, sizeof request,
                       "%s /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\na=b", wrong[i]);
        assert_starts(ask(&s, &c, request), "HTTP/1.1 405 ");
        assert_non_null(strstr(c.text, "Allow: GET, HEAD\r\n"));
    }
    assert_starts(ask(&s, &c, "HEAD /metrics HTTP/1.1\r\n\r\n"), "HTTP/1.1 200 ");
    assert_string_equal(strstr(c.text, "\r\n\r\n"), "\r\n\r\n"); /* no body */
    assert_starts(ask(&s, &c, "BREW /metrics HTTP/1.1\r\n\r\n"), "HTTP/1.1 501 ");
    assert_starts(ask(&s, &c, "garbage\r\n\r\n"), "HTTP/1.1 400 ");
    close_site(&s);
}

static void a_second_request_on_a_connection_is_not_answered(void **state)
{
    (void)state;
    struct site s;
    struct client c;
    open_site(&s);
    ask(&s, &c, "GET /healthz HTTP/1.1\r\n\r\nGET /healthz HTTP/1.1\r\n\r\n");
    assert_starts(c.text, "HTTP/1.1 200 ");
    assert_null(strstr(c.text + 1, "HTTP/1.1"));
    close_site(&s);
}

static void headers_and_bodies_have_a_limit(void **state)
{
    (void)state;
    static char large[3 * HTTP_HEAD_BYTES];
    struct site s;
    struct client c;
    open_site(&s);
    size_t n = (size_t)sprintf(large, "GET /healthz HTTP/1.1\r\nX: ");
    memset(large + n, 'a', HTTP_HEAD_BYTES);
    (void)sprintf(large + n + HTTP_HEAD_BYTES, "\r\n\r\n");
    assert_starts(ask(&s, &c, large), "HTTP/1.1 4");
    memset(large, 'a', sizeof large - 1); /* a line without an end */
    ask(&s, &c, large);
    assert_null(strstr(c.text, "200 OK"));
    assert_starts(ask(&s, &c, "POST / HTTP/1.1\r\nContent-Length: 1000000000\r\n\r\n"),
                  "HTTP/1.1 413 ");
    assert_starts(ask(&s, &c, "GET /healthz HTTP/1.1\r\n\r\n"), "HTTP/1.1 200 ");
    close_site(&s);
}

/* However busy it looks: a byte now and then does not keep it. */
static void a_slow_request_is_cut_off(void **state)
{
    (void)state;
    struct site s;
    struct client c;
    open_site(&s);
    http_connection_ms(s.http, 400);
    dial(&s, &c);
    say(&c, "GET /healthz HTTP/1.1\r\n");
    int64_t began = clock_now_ms(), said = began;
    for (int times = 0; !c.over;) {
        int64_t now = clock_now_ms();
        if (now - said >= 50) { /* 4 s, and more where the machine is slow, for the server, too */
            said = now;
            say(&c, "X");
            assert_true(++times < 80);
        }
        assert_int_equal(loop_tick(&s.loop, NULL), ERR_OK);
        hear(&c);
    }
    assert_true(clock_now_ms() - began >= 400);
    assert_null(strstr(c.text, "200"));
    (void)close(c.fd);
    close_site(&s);
}

/* False: the machine was so late that connections may have ended for want of time. */
static bool fill_the_site(void)
{
    enum { MANY = HTTP_OPEN_MAX + 8 };
    struct site s;
    struct client idle[MANY], c;
    open_site(&s);
    int64_t from = clock_now_ms();
    for (int i = 0; i < MANY; i++)
        dial(&s, &idle[i]);
    (void)ask(&s, &c, "GET /healthz HTTP/1.1\r\n\r\n");
    for (int i = 9; i < MANY; i++)
        hear(&idle[i]);
    bool in_time = clock_now_ms() - from < HTTP_CONNECTION_MS;
    if (in_time) {
        assert_starts(c.text, "HTTP/1.1 200 ");
        hear_end(&idle[0]);
        hear_end(&idle[8]);
        assert_false(idle[9].over); /* MANY and one, less HTTP_OPEN_MAX */
        assert_false(idle[MANY - 1].over);
    }
    for (int i = 0; i < MANY; i++)
        (void)close(idle[i].fd);
    close_site(&s);
    return in_time;
}

static void of_too_many_connections_the_oldest_goes(void **state)
{
    (void)state;
    int times = 0;
    while (!fill_the_site())
        assert_true(++times < 10);
}

static void on_time(void *arg)
{
    *(bool *)arg = true;
}

static void who_does_not_read_holds_nobody_up(void **state)
{
    (void)state;
    struct site s;
    struct client lazy, c;
    open_site(&s);
    s.large = true;
    dial(&s, &lazy);
    say(&lazy, "GET /metrics HTTP/1.1\r\n\r\n");
    assert_starts(ask(&s, &c, "GET /healthz HTTP/1.1\r\n\r\n"), "HTTP/1.1 200 ");
    http_connection_ms(s.http, 1); /* its time is over: what it did not read is dropped */
    bool over = false;
    struct loop_timer timer; /* behind a tick of the server's */
    loop_timer_init(&timer, &s.loop, on_time, &over);
    assert_int_equal(loop_timer_once(&timer, 3 * HTTP_TICK_MS), ERR_OK);
    while (!over)
        assert_int_equal(loop_tick(&s.loop, NULL), ERR_OK);
    http_connection_ms(s.http, DEADLINE_MS);
    finish(&s, &lazy); /* all that it may read yet */
    assert_in_range(lazy.bytes, 1, LARGE_BYTES - 1);
    close_site(&s);
}

/* Until it has heard `text`. */
static void hear_until(struct site *s, struct client *c, const char *text)
{
    int64_t until = clock_now_ms() + DEADLINE_MS;
    while (!strstr(c->text, text)) {
        assert_true(clock_now_ms() < until);
        assert_false(c->over);
        assert_int_equal(loop_tick(&s->loop, NULL), ERR_OK);
        hear(c);
    }
}

static void listen_to(struct site *s, struct client *c)
{
    dial(s, c);
    say(c, "GET /events HTTP/1.1\r\n\r\n");
    hear_until(s, c, "retry: ");
}

static void a_page_of_its_own_may_load_from_here_alone(void **state)
{
    (void)state;
    struct site s;
    struct client c;
    open_site_of(&s, &page_ops);
    assert_starts(ask(&s, &c, "GET / HTTP/1.1\r\n\r\n"), "HTTP/1.1 200 ");
    assert_non_null(strstr(c.text, "\r\n\r\n<p>"));
    assert_non_null(strstr(c.text,
                           "Content-Security-Policy: default-src 'none'; script-src 'self'; "
                           "style-src 'self'; connect-src 'self'; img-src data:; "
                           "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"));
    assert_starts(ask(&s, &c, "GET /page.js HTTP/1.1\r\n\r\n"), "HTTP/1.1 200 ");
    assert_non_null(strstr(c.text, "Content-Type: text/javascript\r\n"));
    assert_starts(ask(&s, &c, "HEAD /events HTTP/1.1\r\n\r\n"), "HTTP/1.1 200 ");
    assert_string_equal(strstr(c.text, "\r\n\r\n"), "\r\n\r\n");
    close_site(&s);
    open_site(&s);
    assert_starts(ask(&s, &c, "GET /events HTTP/1.1\r\n\r\n"), "HTTP/1.1 404 ");
    close_site(&s);
}

static void a_stream_tells_what_is_new_and_else_beats(void **state)
{
    (void)state;
    struct site s;
    struct client c;
    open_site_of(&s, &page_ops);
    s.number = 7;
    http_beat_ms(s.http, 1);
    http_connection_ms(s.http, 1); /* the bound of the others */
    listen_to(&s, &c);
    assert_non_null(strstr(c.text, "Content-Type: text/event-stream\r\n"));
    hear_until(&s, &c, "\"number\":7");
    hear_until(&s, &c, ": beat\n\n");
    assert_null(
        strstr(strstr(c.text, "\"number\":7") + 1, "data: ")); /* memory alone has changed */
    s.number = 8;
    http_tell(s.http);
    hear_until(&s, &c, "\"number\":8");
    (void)close(c.fd);
    close_site(&s);
}

static void streams_have_a_bound_and_a_free_place_is_taken_again(void **state)
{
    (void)state;
    struct site s;
    struct client stream[HTTP_STREAMS_MAX], c, again;
    open_site_of(&s, &page_ops);
    for (int i = 0; i < HTTP_STREAMS_MAX; i++)
        listen_to(&s, &stream[i]);
    assert_starts(ask(&s, &c, "GET /events HTTP/1.1\r\n\r\n"), "HTTP/1.1 503 ");
    assert_non_null(strstr(c.text, "use /status instead"));
    struct client idle[HTTP_OPEN_MAX];
    for (int i = 0; i < HTTP_OPEN_MAX; i++) /* of these the oldest go, and no stream */
        dial(&s, &idle[i]);
    assert_starts(ask(&s, &c, "GET /healthz HTTP/1.1\r\n\r\n"), "HTTP/1.1 200 ");
    (void)close(stream[3].fd);
    do {
        assert_int_equal(loop_tick(&s.loop, NULL), ERR_OK);
        dial(&s, &again);
        say(&again, "GET /events HTTP/1.1\r\n\r\n");
        while (!again.over && !strstr(again.text, "HTTP/1.1 ")) {
            assert_int_equal(loop_tick(&s.loop, NULL), ERR_OK);
            hear(&again);
        }
    } while (again.over || strstr(again.text, "HTTP/1.1 503 "));
    hear_until(&s, &again, "data: ");
    close_site(&s); /* with streams open */
    hear_end(&stream[0]);
    for (int i = 0; i < HTTP_STREAMS_MAX; i++)
        if (i != 3)
            (void)close(stream[i].fd);
    for (int i = 0; i < HTTP_OPEN_MAX; i++)
        (void)close(idle[i].fd);
    (void)close(again.fd);
}

static void it_ends_with_connections_open(void **state)
{
    (void)state;
    struct site s;
    struct client half, silent, c;
    open_site(&s);
    dial(&s, &silent);
    dial(&s, &half);
    say(&half, "GET /heal");
    ask(&s, &c, "GET /healthz HTTP/1.1\r\n\r\n");
    close_site(&s);
    hear_end(&half);
    hear_end(&silent);
    (void)close(half.fd);
    (void)close(silent.fd);
}

static void a_place_is_not_where_the_job_is_served(void **state)
{
    (void)state;
    struct errmsg e = {""};
    const struct http_place all = {2222, "*", -1}, one = {2222, "127.0.0.1", -1},
                            given = {2222, "", 5}, none = {0, "", -1};
    assert_int_equal(http_place_check(&all, "10.0.0.1:2222", true, &e), ERR_INPUT);
    assert_string_equal(e.text, "--http_port=2222 is also the port on which this process serves "
                                "its job (10.0.0.1:2222): give HTTP another port");
    assert_int_equal(http_place_check(&one, ":2222", true, &e), ERR_INPUT);
    assert_int_equal(http_place_check(&one, "127.0.0.1:2222", true, &e), ERR_INPUT);
    assert_int_equal(http_place_check(&one, "10.0.0.1:2222", true, &e), ERR_OK);
    assert_int_equal(http_place_check(&all, "10.0.0.1:2223", true, &e), ERR_OK);
    assert_int_equal(http_place_check(&given, ":2222", true, &e), ERR_OK);
    assert_int_equal(http_place_check(&none, ":2222", true, &e), ERR_OK);
    assert_int_equal(http_place_check(&all, NULL, true, &e), ERR_OK);
    assert_int_equal(http_place_check(&all, "10.0.0.1:2222", false, &e), ERR_OK); /* another ps */
}

static void expect_place(const char *given, const char *own, const char *at)
{
    char out[ADDRESS_TEXT_MAX];
    http_place_at(&(struct http_place){80, given, -1}, own, out);
    assert_string_equal(out, at);
}

static void http_is_where_the_role_is_and_wider_only_if_told(void **state)
{
    (void)state;
    expect_place("", "10.0.0.1:2222", "10.0.0.1:80");
    expect_place("", "[fd00::1]:2222", "[fd00::1]:80");
    expect_place("", "node7:2222", "node7:80");
    expect_place("", ":2222", ":80"); /* a pod, which TF_CONFIG gives a name */
    expect_place("", NULL, "127.0.0.1:80");
    expect_place("*", NULL, ":80");
    expect_place("*", "127.0.0.1:2222", ":80");
    expect_place("::1", "10.0.0.1:2222", "[::1]:80");
    expect_place("[::1]", NULL, "[::1]:80");
    expect_place("10.0.0.2", "10.0.0.1:2222", "10.0.0.2:80");
}

static void expect_hosts(const struct http_hosts *h, bool known, const char *const *hosts)
{
    for (; *hosts; hosts++)
        if (http_hosts_accept(h, *hosts) != known)
            fail_msg("Host: %s: %s", *hosts, known ? "refused" : "accepted");
}

static void a_host_names_the_server_or_is_refused(void **state)
{
    static const char *const of_loopback[] = {"localhost",
                                              "LocalHost:80",
                                              "localhost.:80",
                                              "page.localhost",
                                              "127.0.0.1",
                                              "127.0.0.1:1",
                                              "127.8.9.10:8080",
                                              "[::1]",
                                              "[::1]:80",
                                              "[::ffff:127.0.0.1]:80",
                                              "box",
                                              NULL},
                             *const of_network[] = {"10.1.2.3:80",
                                                    "[fd00::1]:8080",
                                                    "mnist-chief",
                                                    "mnist-chief:8080",
                                                    "mnist-chief.ads.svc:8080",
                                                    "mnist-chief.ads.svc.cluster.local:8080",
                                                    "node7.example.org",
                                                    "a.b.example.org.:80",
                                                    NULL},
                             *const of_others[] = {"evil.com",
                                                   "evil.com:80",
                                                   "localhost.evil.com",
                                                   "127.0.0.1.evil.com",
                                                   "svc.evil.com",
                                                   "notexample.org",
                                                   "xlocalhost.com",
                                                   "::1",
                                                   "",
                                                   ":80",
                                                   ".",
                                                   "[::1",
                                                   "[::1]x",
                                                   "localhost:80x",
                                                   "evil.com.",
                                                   NULL};
    struct http_hosts loopback = {.loopback = true, .names = {"box"}, .n_names = 1},
                      network = {.domains = {"example.org", "", "."}, .n_domains = 3};
    (void)state;
    expect_hosts(&loopback, true, of_loopback);
    expect_hosts(&loopback, false, of_network);
    expect_hosts(&loopback, false, of_others);
    expect_hosts(&network, true, of_loopback);
    expect_hosts(&network, true, of_network);
    expect_hosts(&network, false, of_others);
}

static void a_request_that_names_another_host_gets_403_and_nothing_else(void **state)
{
    struct site s;
    (void)state;
    open_site(&s);
    for (int i = 0; i < 2; i++) {
        struct client c;
        ask(&s, &c,
            i ? "GET /status HTTP/1.1\r\nHost: evil.com\r\n\r\n"
              : "GET /events HTTP/1.1\r\nHost: evil.com:80\r\n\r\n");
        assert_non_null(strstr(c.text, "HTTP/1.1 403 "));
        assert_non_null(strstr(c.text, "use localhost or 127.0.0.1"));
        assert_null(strstr(c.text, "ps 0"));
    }
    close_site(&s);
}

static void a_place_is_bound_adopted_or_none(void **state)
{
    (void)state;
    struct errmsg e = {""};
    int fd = 7, again;
    assert_int_equal(http_bind(&fd, &(struct http_place){0, "", -1}, NULL, &e), ERR_OK);
    assert_int_equal(fd, -1);
    assert_int_equal(listen_bind(&fd, "127.0.0.1:0", 0, NULL), ERR_OK);
    assert_int_equal(http_bind(&again, &(struct http_place){0, "", fd}, NULL, &e), ERR_OK);
    assert_int_equal(again, fd);
    uint16_t port = socket_port(fd);
    (void)close(fd);
    assert_int_equal(http_bind(&fd, &(struct http_place){port, "127.0.0.1", -1}, NULL, &e), ERR_OK);
    assert_int_equal(socket_port(fd), port);
    (void)close(fd);
    assert_int_equal(http_bind(&fd, &(struct http_place){port, "192.0.2.1", -1}, NULL, &e), ERR_IO);
    assert_non_null(strstr(e.text, "--http_port"));
    int plain = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(http_bind(&fd, &(struct http_place){0, "", plain}, NULL, &e), ERR_INPUT);
    (void)close(plain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(http_is_where_the_role_is_and_wider_only_if_told),
        cmocka_unit_test(a_host_names_the_server_or_is_refused),
        cmocka_unit_test(a_request_that_names_another_host_gets_403_and_nothing_else),
        cmocka_unit_test(every_path_has_its_answer),
        cmocka_unit_test(nothing_but_get_and_head_is_allowed),
        cmocka_unit_test(a_second_request_on_a_connection_is_not_answered),
        cmocka_unit_test(headers_and_bodies_have_a_limit),
        cmocka_unit_test(a_slow_request_is_cut_off),
        cmocka_unit_test(of_too_many_connections_the_oldest_goes),
        cmocka_unit_test(who_does_not_read_holds_nobody_up),
        cmocka_unit_test(a_page_of_its_own_may_load_from_here_alone),
        cmocka_unit_test(a_stream_tells_what_is_new_and_else_beats),
        cmocka_unit_test(streams_have_a_bound_and_a_free_place_is_taken_again),
        cmocka_unit_test(it_ends_with_connections_open),
        cmocka_unit_test(a_place_is_not_where_the_job_is_served),
        cmocka_unit_test(a_place_is_bound_adopted_or_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
