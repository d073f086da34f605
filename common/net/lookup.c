#include "common/net/lookup.h"

#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/base/mem.h"

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
    if (u->fd >= 0)
        (void)close(u->fd);
    mem_free(u);
    return NULL;
}

int lookup_fd(const struct lookup *u)
{
    return u->fd;
}

bool lookup_done(const struct lookup *u)
{
    return atomic_load(&u->done);
}

size_t lookup_addresses(const struct lookup *u, const struct address **address)
{
    assert(lookup_done(u));
    *address = u->address;
    return u->n;
}

const char *lookup_why(const struct lookup *u)
{
    assert(lookup_done(u));
    return u->why;
}

void lookup_drop(struct lookup *u)
{
    if (!u || atomic_fetch_sub(&u->holders, 1) > 1)
        return;
    (void)close(u->fd);
    mem_free(u);
}
