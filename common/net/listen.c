#include "common/net/listen.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/cluster/address.h"
#include "common/net/socket.h"

enum {
    BACKLOG = 1024,
    TRY_EVERY_MS = 100,
    ACCEPTS_PER_EVENT = 64, /* then other events get their turn */
};

/* Returns -1, with errno, on error. */
static int bind_one(const struct sockaddr *addr, socklen_t bytes)
{
    int fd = socket_open(addr->sa_family);
    if (fd < 0)
        return -1;
    socket_set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    if (addr->sa_family == AF_INET6)
        socket_set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
    if (bind(fd, addr, bytes) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

/* Binds the first possible address of a host. Returns -1, with errno, if none can be bound. */
static int bind_any(const struct addrinfo *found)
{
    int fd = -1, error = 0;
    for (const struct addrinfo *a = found; a && fd < 0; a = a->ai_next) {
        fd = bind_one(a->ai_addr, a->ai_addrlen);
        if (fd < 0 && error != EADDRINUSE)
            error = errno;
    }
    errno = error;
    return fd;
}

static enum err look_up(const char *host_port, struct addrinfo **found, struct errmsg *e)
{
    char host[ADDRESS_HOST_MAX], service[8];
    uint16_t port;
    enum err rc = address_split(host_port, true, host, &port, e);
    if (rc != ERR_OK)
        return rc;
    snprintf(service, sizeof(service), "%u", port);
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_PASSIVE | AI_NUMERICSERV,
                             .ai_family = *host ? AF_UNSPEC : AF_INET6};
    int why = getaddrinfo(*host ? host : NULL, service, &hints, found);
    if (why != 0)
        return err_set(e, ERR_IO, "listen on %.300s: %s", host_port, gai_strerror(why));
    return ERR_OK;
}

/* For a host without IPv6: all its IPv4 addresses. */
static int bind_all_v4(const char *host_port)
{
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY)};
    char host[ADDRESS_HOST_MAX];
    uint16_t port;
    if (address_split(host_port, true, host, &port, NULL) != ERR_OK)
        return -1;
    any.sin_port = htons(port);
    return bind_one((struct sockaddr *)&any, sizeof(any));
}

static int try_bind(const char *host_port, const struct addrinfo *found)
{
    int fd = bind_any(found);
    bool no_v6 = fd < 0 && (errno == EAFNOSUPPORT || errno == EADDRNOTAVAIL);
    return no_v6 && host_port[0] == ':' ? bind_all_v4(host_port) : fd;
}

/* A name can have several addresses, as of IPv6 and of IPv4. */
static void say_which(const char *host_port, const struct addrinfo *found, int fd)
{
    char at[ADDRESS_TEXT_MAX];
    struct sockaddr_storage bound;
    socklen_t bytes = sizeof(bound);
    if (!found->ai_next || getsockname(fd, (struct sockaddr *)&bound, &bytes) != 0)
        return;
    address_text((struct sockaddr *)&bound, bytes, at, sizeof(at));
    log_info("listening on %s, one of several addresses of %s: other processes must reach it", at,
             host_port);
}

enum err listen_bind(int *fd, const char *host_port, int64_t taken_ms, struct errmsg *e)
{
    struct addrinfo *found = NULL;
    enum err rc = look_up(host_port, &found, e);
    if (rc != ERR_OK)
        return rc;
    int64_t until = clock_now_ms() + taken_ms;
    int got = try_bind(host_port, found);
    if (got < 0 && errno == EADDRINUSE && taken_ms > 0)
        log_warn("the port of %s is in use; retrying for %lld s", host_port,
                 (long long)taken_ms / 1000);
    while (got < 0 && errno == EADDRINUSE && clock_now_ms() < until) {
        clock_sleep_ms(TRY_EVERY_MS);
        got = try_bind(host_port, found);
    }
    int error = errno;
    if (got >= 0 && host_port[0] != ':')
        say_which(host_port, found, got);
    freeaddrinfo(found);
    if (got < 0 && error == EADDRINUSE)
        return err_set(e, ERR_IO,
                       "listen on %.300s: the port is still in use after %lld s: end the process "
                       "that uses it, or choose another port",
                       host_port, (long long)taken_ms / 1000);
    if (got < 0)
        return err_set(e, err_of_errno(error), "listen on %.300s: %s", host_port, strerror(error));
    *fd = got;
    return ERR_OK;
}

enum err listen_adopt(int fd, struct errmsg *e)
{
    int listening = 0;
    socklen_t n = sizeof(listening);
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &n) != 0)
        return err_set(e, ERR_INPUT, "inherited descriptor %d: %s", fd, strerror(errno));
    if (!listening)
        return err_set(e, ERR_INPUT, "inherited descriptor %d is not a listening socket", fd);
    return ERR_OK;
}

/* ---- The accept loop ---- */

static void stop_accepting(struct listener *l, const char *why)
{
    event_del(&l->event);
    if (clock_now_ms() - l->said_ms < LISTEN_SAY_MS)
        return;
    l->said_ms = clock_now_ms();
    log_warn("port %u: %s; new connections wait", socket_port(l->fd), why);
}

static void go_on(void *arg)
{
    struct listener *l = arg;
    if (l->open >= l->open_max)
        return; /* listen_release resumes accepting */
    if (event_add(&l->event, NULL) != 0 && loop_timer_once(&l->retry, LISTEN_PAUSE_MS) != ERR_OK)
        log_error("port %u: no memory to accept connections", socket_port(l->fd));
}

static void pause_accepting(struct listener *l, int error)
{
    stop_accepting(l, strerror(error));
    if (loop_timer_once(&l->retry, LISTEN_PAUSE_MS) != ERR_OK)
        go_on(l); /* a busy loop is better than no longer accepting */
}

/* Errors of the one connection that was being accepted: the next one can succeed. */
static bool only_that_one(int error)
{
    return error == ECONNABORTED || error == EINTR || error == EPROTO || error == ENETDOWN ||
           error == EHOSTDOWN || error == ENONET || error == EHOSTUNREACH || error == ENETUNREACH ||
           error == EPERM;
}

/* Returns true if descriptors ran out and the owner has closed a connection. */
static bool make_room(struct listener *l, int error)
{
    return (error == EMFILE || error == ENFILE) && l->shed && l->shed(l->owner);
}

/* Returns false if no connection waits, or accepting has paused. */
static bool accept_one(struct listener *l)
{
    char peer[ADDRESS_TEXT_MAX];
    struct sockaddr_storage addr;
    socklen_t bytes = sizeof(addr);
    int fd = accept4(l->fd, (struct sockaddr *)&addr, &bytes, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0 && (only_that_one(errno) || make_room(l, errno)))
        return true;
    if (fd < 0) {
        if (errno != EAGAIN && errno != EWOULDBLOCK)
            pause_accepting(l, errno);
        return false;
    }
    address_text((struct sockaddr *)&addr, bytes, peer, sizeof(peer));
    l->open++;
    l->on_accept(l->owner, fd, peer);
    return l->fd >= 0; /* the callback may have closed the listener */
}

static void on_acceptable(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    struct listener *l = arg;
    for (int i = 0; i < ACCEPTS_PER_EVENT; i++) {
        if (l->open >= l->open_max) {
            stop_accepting(l, "the limit of open connections is reached");
            return;
        }
        if (!accept_one(l))
            return;
    }
}

enum err listen_start(struct listener *l, struct loop *loop, int take_fd, uint32_t open_max,
                      void (*on_accept)(void *owner, int fd, const char *peer), void *owner)
{
    *l = (struct listener){
        .loop = loop, .fd = take_fd, .open_max = open_max, .on_accept = on_accept, .owner = owner};
    l->said_ms = clock_now_ms() - LISTEN_SAY_MS;
    socket_tune(take_fd); /* nonblocking; accepted sockets inherit the buffers */
    event_assign(&l->event, loop->base, take_fd, EV_READ | EV_PERSIST, on_acceptable, l);
    loop_timer_init(&l->retry, loop, go_on, l);
    if (event_add(&l->event, NULL) == 0)
        return ERR_OK;
    close(take_fd);
    l->fd = -1;
    return ERR_NOMEM;
}

void listen_release(struct listener *l)
{
    bool was_full = l->open >= l->open_max;
    l->open--;
    if (was_full && l->fd >= 0)
        go_on(l);
}

void listen_close(struct listener *l)
{
    if (l->fd < 0)
        return;
    event_del(&l->event);
    loop_timer_stop(&l->retry);
    close(l->fd);
    l->fd = -1;
}
