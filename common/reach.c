#include "common/reach.h"

#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/lookup.h"
#include "common/mem.h"
#include "common/socket.h"

/* One of them on its way: first its name, then its addresses, one after the other. */
struct attempt {
    char host[SOCKET_HOST_MAX];
    uint16_t port;
    struct lookup *lookup;         /* NULL: an address, or no attempt is made */
    struct socket_address numeric; /* the one address, where `host` is one */
    const struct socket_address *address;
    size_t n, next;
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
    a->fd = -1;
    settle(r, REACH_OPEN, "");
    if (socket_split(r->address, false, a->host, &a->port, &e)) {
        settle(r, REACH_FAILED, e.text);
    } else if (socket_numeric(a->host, a->port, &a->numeric)) {
        a->address = &a->numeric;
        a->n = 1;
    } else if (!(a->lookup = lookup_start(a->host, a->port))) {
        settle(r, REACH_NAMELESS, "no memory, descriptor or thread to look the name up");
    }
}

static void await_name(struct reach *r, struct attempt *a, int64_t until_ms)
{
    struct pollfd p = {.fd = lookup_fd(a->lookup), .events = POLLIN};
    while (!lookup_done(a->lookup) && left_ms(until_ms))
        (void)poll(&p, 1, left_ms(until_ms));
    if (!lookup_done(a->lookup)) {
        settle(r, REACH_NAMELESS, "the resolver does not answer");
        return;
    }
    a->n = lookup_addresses(a->lookup, &a->address);
    if (!a->n)
        settle(r, REACH_NAMELESS, lookup_why(a->lookup));
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

/* The first of the addresses that are left for which a connection is on its way. */
static void dial(struct reach *r, struct attempt *a)
{
    while (a->fd < 0 && a->next < a->n) {
        const struct socket_address *to = &a->address[a->next++];
        const struct sockaddr *addr = (const struct sockaddr *)&to->addr;
        a->fd = socket(addr->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (a->fd >= 0 && (connect(a->fd, addr, to->bytes) == 0 || errno == EINPROGRESS))
            return;
        settle_error(r, errno);
        if (a->fd >= 0)
            (void)close(a->fd);
        a->fd = -1;
    }
}

/* What is left of the time is shared with the addresses behind this one: the first may be silent. */
static void await_connection(struct reach *r, struct attempt *a, int64_t until_ms)
{
    struct pollfd p = {.fd = a->fd, .events = POLLOUT};
    int error = 0, ms = left_ms(until_ms) / (int)(a->n - a->next + 1);
    socklen_t bytes = sizeof error;
    if (poll(&p, 1, ms) != 1)
        error = ETIMEDOUT;
    else if (getsockopt(a->fd, SOL_SOCKET, SO_ERROR, &error, &bytes) != 0)
        error = errno;
    settle_error(r, error);
    (void)close(a->fd);
    a->fd = -1;
    if (error)
        dial(r, a);
}

/* ---- all ---- */

static enum err look(struct reach *r, size_t n, int ms, bool connections)
{
    struct attempt *a = mem_zalloc(n + 1, sizeof *a);
    int64_t until_ms = clock_now_ms() + ms;
    if (!a)
        return ERR_NOMEM;
    for (size_t i = 0; i < n; i++)
        ask(&r[i], &a[i]);
    for (size_t i = 0; i < n; i++)
        if (a[i].lookup)
            await_name(&r[i], &a[i], until_ms);
    until_ms = clock_now_ms() + ms; /* one slow name leaves the others their time */
    for (size_t i = 0; i < n && connections; i++)
        dial(&r[i], &a[i]);
    for (size_t i = 0; i < n; i++) {
        while (a[i].fd >= 0)
            await_connection(&r[i], &a[i], until_ms);
        lookup_drop(a[i].lookup);
    }
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
