/* What listening, dialing and connections share: a socket and its options. */
#ifndef GRADWIRE_COMMON_NET_SOCKET_H
#define GRADWIRE_COMMON_NET_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SOCKET_BUFFER_BYTES = 1 << 20, /* fixed: the kernel's own tuning makes fast links bimodal */
    SOCKET_KEEP_IDLE_S = 10,       /* a silent peer is probed after 10 s, each 5 s, 3 times */
    SOCKET_KEEP_EVERY_S = 5,
    SOCKET_KEEP_COUNT = 3,
    SOCKET_UNACKED_MS =
        30000, /* sent bytes that nobody acknowledges for so long end the connection */
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
