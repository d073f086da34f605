#include "common/net/reach.h"

#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/net/lookup.h"
#include "common/base/mem.h"
#include "common/cluster/address.h"

enum { AT_ONCE = 64 }; /* each needs a thread, then a socket */

/* One check in progress: first its name, then its addresses, one after the other. */
struct attempt {
    char host[ADDRESS_HOST_MAX];
    uint16_t port;
    struct lookup *lookup; /* NULL: not a name, or the check has failed */
    size_t n, next;
    struct address address[LOOKUP_ADDRESSES_MAX];
    int fd;
    int each_ms;      /* per address: a silent one must leave time for the others */
    int64_t until_ms; /* deadline of the address being tried */
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
    *a = (struct attempt){.fd = -1};
    settle(r, REACH_OPEN, "");
    if (address_split(r->address, false, a->host, &a->port, &e))
        settle(r, REACH_FAILED, e.text);
    else if (address_numeric(a->host, a->port, &a->address[0]))
        a->n = 1;
    else if (!(a->lookup = lookup_start(a->host, a->port)))
        settle(r, REACH_NAMELESS, "no memory, descriptor or thread for the name lookup");
}

static void await_name(struct reach *r, struct attempt *a, int64_t until_ms)
{
    const struct address *address;
    struct pollfd p = {.fd = lookup_fd(a->lookup), .events = POLLIN};
    while (!lookup_done(a->lookup) && left_ms(until_ms))
        (void)poll(&p, 1, left_ms(until_ms));
    if (!lookup_done(a->lookup)) {
        settle(r, REACH_NAMELESS, "the name server does not respond");
    } else {
        a->n = lookup_addresses(a->lookup, &address);
        memcpy(a->address, address, a->n * sizeof *address);
        if (!a->n)
            settle(r, REACH_NAMELESS, lookup_why(a->lookup));
    }
    lookup_drop(a->lookup);
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

/* Starts connecting to the next address for which that is possible. */
static void dial(struct reach *r, struct attempt *a)
{
    while (a->fd < 0 && a->next < a->n) {
        const struct address *to = &a->address[a->next++];
        const struct sockaddr *addr = (const struct sockaddr *)&to->addr;
        a->until_ms = clock_now_ms() + a->each_ms;
        a->fd = socket(addr->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (a->fd >= 0 && (connect(a->fd, addr, to->bytes) == 0 || errno == EINPROGRESS))
            return;
        settle_error(r, errno);
        if (a->fd >= 0)
            (void)close(a->fd);
        a->fd = -1;
    }
}

/* The connection is established, refused or out of time. */
static void conclude(struct reach *r, struct attempt *a, bool answered)
{
    int error = ETIMEDOUT;
    socklen_t bytes = sizeof error;
    if (answered && getsockopt(a->fd, SOL_SOCKET, SO_ERROR, &error, &bytes) != 0)
        error = errno;
    settle_error(r, error);
    (void)close(a->fd);
    a->fd = -1;
    if (error)
        dial(r, a);
}

static void connect_all(struct reach *r, struct attempt *a, size_t n, int ms)
{
    struct pollfd p[AT_ONCE];
    for (size_t i = 0; i < n; i++) {
        a[i].each_ms = a[i].n ? ms / (int)a[i].n : 0;
        dial(&r[i], &a[i]);
    }
    for (;;) {
        int64_t first_ms = INT64_MAX;
        for (size_t i = 0; i < n; i++) {
            p[i] = (struct pollfd){.fd = a[i].fd, .events = POLLOUT}; /* poll skips -1 */
            if (a[i].fd >= 0 && a[i].until_ms < first_ms)
                first_ms = a[i].until_ms;
        }
        if (first_ms == INT64_MAX)
            return;
        (void)poll(p, n, left_ms(first_ms));
        for (size_t i = 0; i < n; i++)
            if (p[i].fd >= 0 && (p[i].revents || left_ms(a[i].until_ms) == 0))
                conclude(&r[i], &a[i], p[i].revents != 0);
    }
}

/* ---- all ---- */

static enum err look(struct reach *r, size_t n, int ms, bool connections)
{
    struct attempt *a = mem_zalloc(AT_ONCE, sizeof *a);
    if (!a)
        return ERR_NOMEM;
    for (; n; n -= n < AT_ONCE ? n : AT_ONCE, r += AT_ONCE) {
        size_t now = n < AT_ONCE ? n : AT_ONCE;
        int64_t until_ms = clock_now_ms() + REACH_NAMES_MS;
        for (size_t i = 0; i < now; i++)
            ask(&r[i], &a[i]);
        for (size_t i = 0; i < now; i++)
            if (a[i].lookup)
                await_name(&r[i], &a[i], until_ms);
        if (connections)
            connect_all(r, a, now, ms);
    }
    mem_free(a);
    return ERR_OK;
}

enum err reach_all(struct reach *r, size_t n, int ms)
{
    return look(r, n, ms, true);
}

enum err reach_names(struct reach *r, size_t n)
{
    return look(r, n, 0, false);
}
