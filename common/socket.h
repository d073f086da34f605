/* What listening, dialing and connections share: socket options, and addresses as people write
 * them. */
#ifndef GRADWIRE_COMMON_SOCKET_H
#define GRADWIRE_COMMON_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "common/err.h"

enum {
    SOCKET_BUFFER_BYTES = 1 << 20, /* fixed: the kernel's own tuning makes fast links bimodal */
    SOCKET_KEEP_IDLE_S = 10,       /* a silent peer is probed after 10 s, each 5 s, 3 times */
    SOCKET_KEEP_EVERY_S = 5,
    SOCKET_KEEP_COUNT = 3,
    SOCKET_UNACKED_MS =
        30000,             /* sent bytes that nobody acknowledges for so long end the connection */
    SOCKET_HOST_MAX = 256, /* with the NUL */
    SOCKET_NAME_MAX = 320, /* "host:port" or "[address]:port", with the NUL */
};

struct socket_address {
    struct sockaddr_storage addr;
    socklen_t bytes;
};

/* A nonblocking, close-on-exec stream socket with its buffers fixed (before connect or listen, so
 * that the window is agreed on with them). -1 and errno on error. */
int socket_open(int family);
/* No Nagle, keepalive, unacknowledged timeout, buffers, nonblocking: what every connection has.
 * What a kind of socket does not know is left out. */
void socket_tune(int fd);
/* While corked only full packets leave; uncorking sends what is left. */
void socket_cork(int fd, bool corked);

/* "host:port", "[v6]:port", ":port" (host is "" then). Port 1..65535; 0 only if `zero_ok`.
 * Errors: ERR_INPUT with a line that names what is wrong; outputs unchanged. */
enum err socket_split(const char *host_port, bool zero_ok, char host[SOCKET_HOST_MAX],
                      uint16_t *port, struct errmsg *e) MUST_CHECK;
/* Is `host` an address, not a name? Then *a is it. Never asks a resolver. */
bool socket_numeric(const char *host, uint16_t port, struct socket_address *a);
/* "1.2.3.4:80", "[::1]:80"; cut to fit. */
void socket_name(const struct sockaddr *addr, socklen_t bytes, char *out, size_t size);
/* The port that a socket is bound to, or 0. */
uint16_t socket_port(int fd);

#endif
