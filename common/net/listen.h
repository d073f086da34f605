/* A listening socket, bound here or inherited from the launcher, and its accept loop.
 *
 * Happy path: listen_bind or listen_adopt -> listen_start -> on_accept(fd, peer) for each
 * connection. Failure modes: a port that is taken is tried for a bounded time, with a line that
 * names it. Without descriptors the owner is asked to shed a connection. At the cap of open
 * connections, or where it has none to shed, accepting pauses; the kernel's backlog holds who
 * comes. */
#ifndef GRADWIRE_COMMON_NET_LISTEN_H
#define GRADWIRE_COMMON_NET_LISTEN_H

#include <stdbool.h>
#include <stdint.h>

#include "common/net/loop.h"

enum {
    LISTEN_TAKEN_MS = 10000, /* how long a taken port is waited for */
    LISTEN_PAUSE_MS = 100,   /* after an accept that failed for want of descriptors or memory */
    LISTEN_SAY_MS = 10000,   /* between two log lines about it */
    LISTEN_OPEN_MAX = 4096,  /* connections of one listener at a time */
};

/* Bind "host:port" (":port" is every address of this host, IPv6 and IPv4) and listen. Port 0 takes
 * a free one. *fd is the caller's. Errors: ERR_INPUT not an address; ERR_IO with a line: no such
 * address, or the port is still taken after `taken_ms`. Thread: start-up; blocks (names are looked
 * up, a taken port is waited for). */
enum err listen_bind(int *fd, const char *host_port, int64_t taken_ms, struct errmsg *e) MUST_CHECK;
/* Check that an inherited descriptor is a listening stream socket. Errors: ERR_INPUT with a line.
 */
enum err listen_adopt(int fd, struct errmsg *e) MUST_CHECK;

struct listener {
    struct loop *loop;
    int fd;
    uint32_t open, open_max;
    int64_t said_ms; /* when the log last said that accepting pauses */
    struct event event;
    struct loop_timer retry;
    void (*on_accept)(void *owner, int fd, const char *peer);
    /* No descriptor is left: close a connection that matters little, at once. False: there is none.
     * May be NULL; set behind listen_start. */
    bool (*shed)(void *owner);
    void *owner;
};

/* Accept on `loop`. on_accept owns the descriptor (close-on-exec, nonblocking); `peer` is
 * "address:port". `open_max` caps what is open at a time: who ends a connection says so with
 * listen_release. `take_fd` is the listener's, even on error. */
enum err listen_start(struct listener *l, struct loop *loop, int take_fd, uint32_t open_max,
                      void (*on_accept)(void *owner, int fd, const char *peer),
                      void *owner) MUST_CHECK;
/* One of the accepted connections is gone. Thread: the loop's. */
void listen_release(struct listener *l);
void listen_close(struct listener *l);

#endif
