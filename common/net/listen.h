/* A listening socket, bound here or inherited from the launcher, and its accept loop.
 * Use: listen_bind or listen_adopt, then listen_start; on_accept(fd, peer) gets each connection.
 * Failures: if the port is taken, listen_bind retries for a limited time and logs the address. If no descriptors
 * are left, the owner's `shed` closes a less important connection. If there is none, or `open_max` connections are
 * open, accepting pauses, and new connections wait in the kernel's backlog. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/net/loop.h"

enum {
    LISTEN_TAKEN_MS = 10000, /* how long to wait for a taken port */
    LISTEN_PAUSE_MS = 100,   /* pause after accept fails for lack of descriptors or memory */
    LISTEN_SAY_MS = 10000,   /* minimum time between two log lines about pauses */
    LISTEN_OPEN_MAX = 4096,  /* open connections of one listener */
};

/* Binds "host:port" and listens. ":port" means every address of this host, IPv6 and IPv4. Of a name with several addresses the
 * first possible one is bound, and logged. Port 0 takes a free one.
 * The caller owns *fd. Errors: ERR_INPUT not an address; ERR_IO no such address, or the port is still taken after
 * `taken_ms`. Thread: start-up's; blocks while looking up names and while the port is taken. */
enum err listen_bind(int *fd, const char *host_port, int64_t taken_ms, struct errmsg *e) MUST_CHECK;
/* Checks that an inherited descriptor is a listening stream socket. Errors: ERR_INPUT. */
enum err listen_adopt(int fd, struct errmsg *e) MUST_CHECK;

struct listener {
    struct loop *loop;
    int fd;
    uint32_t open, open_max;
    int64_t said_ms; /* time of the last log line about a pause */
    struct event event;
    struct loop_timer retry;
    void (*on_accept)(void *owner, int fd, const char *peer);
    /* No descriptor is left: close a less important connection immediately. Returns false if there is none. Can be
     * NULL. Set it after listen_start, which sets NULL. */
    bool (*shed)(void *owner);
    void *owner;
};

/* Accepts connections on `loop`. Takes `take_fd`, also on error. on_accept owns its descriptor, which is
 * close-on-exec and nonblocking; `peer` is "address:port". At most `open_max` connections are open at a time: call
 * listen_release when one has ended. *l must not move until listen_close. Errors: ERR_NOMEM. */
enum err listen_start(struct listener *l, struct loop *loop, int take_fd, uint32_t open_max,
                      void (*on_accept)(void *owner, int fd, const char *peer),
                      void *owner) MUST_CHECK;
/* One of the accepted connections has ended. Thread: the loop's. */
void listen_release(struct listener *l);
/* Closes the listening socket, not the accepted ones. A second call does nothing. Also allowed in on_accept. */
void listen_close(struct listener *l);
