/* Sockets and their options, shared by listeners and connections. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    /* fixed: with the kernel's auto-tuning, fast connections have two very different speeds */
    SOCKET_BUFFER_BYTES = 1 << 20,
    SOCKET_KEEP_IDLE_S = 2, /* the kernel probes an idle peer after 2 s, then every 1 s */
    SOCKET_KEEP_EVERY_S = 1,
    SOCKET_KEEP_COUNT = 10, /* conn.c gives up earlier */
    /* longest time between retransmissions, if the kernel has the option (6.15) */
    SOCKET_RTO_MAX_MS = 2000,
};

/* Returns a nonblocking, close-on-exec stream socket, or -1 with errno. The buffer sizes are set here, before
 * connect or listen, because the TCP window is negotiated from them. */
int socket_open(int family);
/* Sets the options of every connection: nonblocking, no Nagle delay, keepalive, buffer sizes, retransmission
 * limit. Options that the socket does not support are skipped. */
void socket_tune(int fd);
/* Sets an option; ignored if the socket does not support it. */
void socket_set(int fd, int level, int option, int value);
/* While corked, only full packets leave. Uncorking sends the rest. */
void socket_cork(int fd, bool corked);

/* Returns the port that the socket is bound to, or 0. */
uint16_t socket_port(int fd);
