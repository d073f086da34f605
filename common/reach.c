#include "common/reach.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/mem.h"
#include "common/socket.h"

/* One of them on its way. */
struct attempt {
    char host[SOCKET_HOST_MAX], service[8];
    struct addrinfo hints;
    struct gaicb lookup;
    bool asked; /* the resolver has it */
    int fd;
};

static void settle(struct reach *r, enum reach_is is, const char *why)
{
    r->is = is;
    (void)snprintf(r->why, sizeof r->why, "%s", why);
}

static int left_ms(int64_t until_ms)
{
    int64_t left = until_ms - clock_now_ms();
    return left > 0 ? (int)left : 0;
}

/* ---- names ---- */

static void ask(struct reach *r, struct attempt *a)
{
    struct errmsg e = {""};
    uint16_t port;
    struct gaicb *list[] = {&a->lookup};
    a->fd = -1;
    if (socket_split(r->address, false, a->host, &port, &e)) {
        settle(r, REACH_FAILED, e.text);
        return;
    }
    (void)snprintf(a->service, sizeof a->service, "%u", port);
    a->hints = (struct addrinfo){.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    a->lookup =
        (struct gaicb){.ar_name = a->host, .ar_service = a->service, .ar_request = &a->hints};
    int error = getaddrinfo_a(GAI_NOWAIT, list, 1, NULL);
    a->asked = error == 0;
    settle(r, error ? REACH_NAMELESS : REACH_OPEN, error ? gai_strerror(error) : "");
}

/* Whether the resolver has given the memory back. */
static bool await_name(struct reach *r, struct attempt *a, int64_t until_ms)
{
    const struct gaicb *list[] = {&a->lookup};
    while (gai_error(&a->lookup) == EAI_INPROGRESS && left_ms(until_ms)) {
        int ms = left_ms(until_ms);
        struct timespec wait = {ms / 1000, ms % 1000 * 1000000L};
        (void)gai_suspend(list, 1, &wait);
    }
    int error = gai_error(&a->lookup);
    if (error == EAI_INPROGRESS)
        settle(r, REACH_NAMELESS, "the resolver does not answer");
    else if (error)
        settle(r, REACH_NAMELESS, gai_strerror(error));
    return error != EAI_INPROGRESS || gai_cancel(&a->lookup) == EAI_CANCELED;
}

/* ---- connections ---- */

static void settle_error(struct reach *r, int error)
{
    settle(r,
           !error                  ? REACH_OPEN
           : error == ECONNREFUSED ? REACH_REFUSED
           : error == ETIMEDOUT    ? REACH_SILENT
                                   : REACH_FAILED,
           error ? strerror(error) : "");
}

static void dial(struct reach *r, struct attempt *a)
{
    const struct addrinfo *to = a->lookup.ar_result;
    a->fd = socket(to->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (a->fd >= 0 && (connect(a->fd, to->ai_addr, to->ai_addrlen) == 0 || errno == EINPROGRESS))
        return;
    settle_error(r, errno);
    if (a->fd >= 0)
        (void)close(a->fd);
    a->fd = -1;
}

static void await_connection(struct reach *r, struct attempt *a, int64_t until_ms)
{
    struct pollfd p = {.fd = a->fd, .events = POLLOUT};
    int error = 0;
    socklen_t bytes = sizeof error;
    if (poll(&p, 1, left_ms(until_ms)) != 1)
        error = ETIMEDOUT;
    else if (getsockopt(a->fd, SOL_SOCKET, SO_ERROR, &error, &bytes) != 0)
        error = errno;
    settle_error(r, error);
    (void)close(a->fd);
    a->fd = -1;
}

/* ---- all ---- */

static enum err look(struct reach *r, size_t n, int ms, bool connections)
{
    struct attempt *a = mem_zalloc(n + 1, sizeof *a);
    int64_t until_ms = clock_now_ms() + ms;
    bool ours = true;
    if (!a)
        return ERR_NOMEM;
    for (size_t i = 0; i < n; i++)
        ask(&r[i], &a[i]);
    for (size_t i = 0; i < n; i++)
        ours = (!a[i].asked || await_name(&r[i], &a[i], until_ms)) && ours;
    until_ms = clock_now_ms() + ms; /* one slow name leaves the others their time */
    for (size_t i = 0; i < n && connections; i++)
        if (r[i].is == REACH_OPEN)
            dial(&r[i], &a[i]);
    for (size_t i = 0; i < n; i++) {
        if (a[i].fd >= 0)
            await_connection(&r[i], &a[i], until_ms);
        if (a[i].lookup.ar_result)
            freeaddrinfo(a[i].lookup.ar_result);
    }
    if (ours) /* else the resolver's threads still write to it: it stays until the process ends */
        mem_free(a);
    return ERR_OK;
}

enum err reach_all(struct reach *r, size_t n, int ms)
{
    return look(r, n, ms, true);
}

enum err reach_names(struct reach *r, size_t n, int ms)
{
    return look(r, n, ms, false);
}
