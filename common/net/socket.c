#include "common/net/socket.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#ifndef TCP_RTO_MAX_MS
#define TCP_RTO_MAX_MS 44 /* from linux/tcp.h of 6.15 */
#endif

void socket_set(int fd, int level, int option, int value)
{
    /* A socket without the option (AF_UNIX in a test) works, too. */
    (void)!setsockopt(fd, level, option, &value, sizeof(value));
}

static void set_buffers(int fd)
{
    socket_set(fd, SOL_SOCKET, SO_SNDBUF, SOCKET_BUFFER_BYTES);
    socket_set(fd, SOL_SOCKET, SO_RCVBUF, SOCKET_BUFFER_BYTES);
}

int socket_open(int family)
{
    int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd >= 0)
        set_buffers(fd);
    return fd;
}

void socket_tune(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    if (flags >= 0)
        (void)!fcntl(fd, F_SETFL, flags | O_NONBLOCK);
    set_buffers(fd);
    socket_set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    socket_set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    socket_set(fd, IPPROTO_TCP, TCP_KEEPIDLE, SOCKET_KEEP_IDLE_S);
    socket_set(fd, IPPROTO_TCP, TCP_KEEPINTVL, SOCKET_KEEP_EVERY_S);
    socket_set(fd, IPPROTO_TCP, TCP_KEEPCNT, SOCKET_KEEP_COUNT);
    /* TCP_USER_TIMEOUT is not used: it would also end the connection to a stopped process whose host still
     * responds with a window of 0. conn.c can tell the two cases apart. */
    socket_set(fd, IPPROTO_TCP, TCP_RTO_MAX_MS, SOCKET_RTO_MAX_MS);
}

void socket_cork(int fd, bool corked)
{
    socket_set(fd, IPPROTO_TCP, TCP_CORK, corked);
}

uint16_t socket_port(int fd)
{
    struct sockaddr_storage addr;
    socklen_t bytes = sizeof(addr);
    if (getsockname(fd, (struct sockaddr *)&addr, &bytes) != 0)
        return 0;
    if (addr.ss_family == AF_INET)
        return ntohs(((struct sockaddr_in *)&addr)->sin_port);
    if (addr.ss_family == AF_INET6)
        return ntohs(((struct sockaddr_in6 *)&addr)->sin6_port);
    return 0;
}
