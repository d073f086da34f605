/* What listening, dialing and connections share: a socket and its options. */
#ifndef GRADWIRE_COMMON_NET_SOCKET_H
#define GRADWIRE_COMMON_NET_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SOCKET_BUFFER_BYTES = 1 << 20, /* fixed: the kernel's own tuning makes fast links bimodal */
    SOCKET_KEEP_IDLE_S = 2,        /* an idle peer's kernel is asked after 2 s, each 1 s */
    SOCKET_KEEP_EVERY_S = 1,
    SOCKET_KEEP_COUNT = 10,   /* conn.c is there first */
    SOCKET_RTO_MAX_MS = 2000, /* between two tries to send the same, where the kernel can (6.15) */
};

/* A nonblocking, close-on-exec stream socket with its buffers fixed (before connect or listen, so
 * that the window is agreed on with them). -1 and errno on error. */
int socket_open(int family);
/* No Nagle, keepalive, unacknowledged timeout, buffers, nonblocking: what every connection has.
 * What a kind of socket does not know is left out. */
void socket_tune(int fd);
/* Set an option; a socket that does not know it goes without. */
void socket_set(int fd, int level, int option, int value);
/* While corked only full packets leave; uncorking sends what is left. */
void socket_cork(int fd, bool corked);

/* The port that a socket is bound to, or 0. */
uint16_t socket_port(int fd);

#endif
