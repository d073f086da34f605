/* Looks up the names of peers, and tries to connect to them. */
#include "common/net/reach.h"

#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/process/files.h"

/* ---- one look-up ---- */

struct lookup {
    atomic_int holders;
    char host[ADDRESS_HOST_MAX], service[8];
    int fd;
    atomic_bool done; /* once true, the owner can read the members below */
    char why[128];
    size_t n;
    struct address address[LOOKUP_ADDRESSES_MAX];
};

static void fill(struct lookup *u, const struct addrinfo *found)
{
    for (const struct addrinfo *a = found; a && u->n < LOOKUP_ADDRESSES_MAX; a = a->ai_next) {
        struct address *to = &u->address[u->n];
        if (a->ai_addrlen > sizeof to->addr)
            continue;
        memcpy(&to->addr, a->ai_addr, a->ai_addrlen);
        to->bytes = a->ai_addrlen;
        u->n++;
    }
}

static void *lookup_main(void *arg)
{
    struct lookup *u = arg;
    uint64_t one = 1;
    struct addrinfo *found = NULL, hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    int code = getaddrinfo(u->host, u->service, &hints, &found);
    if (code == 0) {
        fill(u, found);
        freeaddrinfo(found);
    }
    (void)snprintf(u->why, sizeof u->why, "%s",
                   code == EAI_SYSTEM ? strerror(errno) : gai_strerror(code));
    atomic_store(&u->done, true);
    (void)!write(u->fd, &one, sizeof one);
    lookup_drop(u);
    return NULL;
}

static bool thread_start(struct lookup *u)
{
    pthread_t thread;
    return pthread_create(&thread, NULL, lookup_main, u) == 0 && pthread_detach(thread) == 0;
}

struct lookup *lookup_start(const char *host, uint16_t port)
{
    struct lookup *u = mem_zalloc(1, sizeof *u);
    if (!u)
        return NULL;
    (void)snprintf(u->host, sizeof u->host, "%s", host);
    (void)snprintf(u->service, sizeof u->service, "%u", port);
    atomic_store(&u->holders, 2);
    u->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (u->fd >= 0 && thread_start(u))
        return u;
    files_close(&u->fd);
    mem_free(u);
    return NULL;
}

int lookup_fd(const struct lookup *u)
{
    return u->fd;
}

/* never blocks */
static bool lookup_done(const struct lookup *u)
{
    return atomic_load(&u->done);
}

size_t lookup_addresses(const struct lookup *u, const struct address **address)
{
    bool done = lookup_done(u); /* this load lets this thread read what the other has written */
    assert(done);
    (void)done;
    *address = u->address;
    return u->n;
}

const char *lookup_why(const struct lookup *u)
{
    bool done = lookup_done(u);
    assert(done);
    (void)done;
    return u->why;
}

void lookup_drop(struct lookup *u)
{
    if (!u || atomic_fetch_sub(&u->holders, 1) > 1)
        return;
    (void)close(u->fd);
    mem_free(u);
}

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
        files_close(&a->fd);
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
