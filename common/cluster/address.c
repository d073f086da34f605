#include "common/cluster/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "common/base/digits.h"

bool address_port(const char *text, uint16_t least, uint16_t *port)
{
    uint32_t number;
    if (strlen(text) > 5 || !digits_read(text, least, UINT16_MAX, &number))
        return false;
    *port = (uint16_t)number;
    return true;
}

enum err address_split(const char *host_port, bool zero_ok, char host[ADDRESS_HOST_MAX],
                       uint16_t *port, struct errmsg *e)
{
    const char *colon = strrchr(host_port, ':');
    if (!colon)
        return err_set(e, ERR_INPUT, "\"%.300s\" has no port; write host:port", host_port);
    uint16_t number;
    if (!address_port(colon + 1, !zero_ok, &number))
        return err_set(e, ERR_INPUT, "\"%.300s\": the port must be %d to 65535", host_port,
                       zero_ok ? 0 : 1);
    const char *from = host_port;
    size_t n = (size_t)(colon - host_port);
    if (n >= 2 && from[0] == '[' && from[n - 1] == ']') {
        from++;
        n -= 2;
    } else if (memchr(from, ':', n)) {
        return err_set(e, ERR_INPUT, "\"%.300s\": write an IPv6 address as [address]:port",
                       host_port);
    }
    if (n >= ADDRESS_HOST_MAX)
        return err_set(e, ERR_INPUT, "\"%.300s\": a host name has at most %d bytes", host_port,
                       ADDRESS_HOST_MAX - 1);
    memcpy(host, from, n);
    host[n] = '\0';
    *port = number;
    return ERR_OK;
}

bool address_numeric(const char *host, uint16_t port, struct address *a)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    if (inet_pton(AF_INET, host, &v4.sin_addr) == 1) {
        *a = (struct address){.bytes = sizeof(v4)};
        memcpy(&a->addr, &v4, sizeof(v4));
        return true;
    }
    if (inet_pton(AF_INET6, host, &v6.sin6_addr) == 1) {
        *a = (struct address){.bytes = sizeof(v6)};
        memcpy(&a->addr, &v6, sizeof(v6));
        return true;
    }
    return false;
}

bool address_is_loopback(const struct sockaddr_storage *addr)
{
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)addr;
    const struct in6_addr *v6 = &((const struct sockaddr_in6 *)addr)->sin6_addr;
    if (addr->ss_family == AF_INET)
        return ntohl(v4->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    return addr->ss_family == AF_INET6 &&
           (IN6_IS_ADDR_LOOPBACK(v6) ||
            (IN6_IS_ADDR_V4MAPPED(v6) && v6->s6_addr[12] == IN_LOOPBACKNET));
}

static bool same_host(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
    if (a->ss_family == AF_INET)
        return ((const struct sockaddr_in *)a)->sin_addr.s_addr ==
               ((const struct sockaddr_in *)b)->sin_addr.s_addr;
    return memcmp(&((const struct sockaddr_in6 *)a)->sin6_addr,
                  &((const struct sockaddr_in6 *)b)->sin6_addr, sizeof(struct in6_addr)) == 0;
}

bool address_stays_in_host(int fd)
{
    struct sockaddr_storage own, peer;
    socklen_t own_bytes = sizeof own, peer_bytes = sizeof peer;
    return getsockname(fd, (struct sockaddr *)&own, &own_bytes) == 0 &&
           getpeername(fd, (struct sockaddr *)&peer, &peer_bytes) == 0 &&
           address_is_loopback(&own) && own.ss_family == peer.ss_family && same_host(&own, &peer);
}

void address_text(const struct sockaddr *addr, socklen_t bytes, char *out, size_t size)
{
    char text[INET6_ADDRSTRLEN] = "?";
    if (addr->sa_family == AF_INET && bytes >= sizeof(struct sockaddr_in)) {
        const struct sockaddr_in *v4 = (const void *)addr;
        inet_ntop(AF_INET, &v4->sin_addr, text, sizeof(text));
        snprintf(out, size, "%s:%u", text, ntohs(v4->sin_port));
    } else if (addr->sa_family == AF_INET6 && bytes >= sizeof(struct sockaddr_in6)) {
        const struct sockaddr_in6 *v6 = (const void *)addr;
        inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof(text));
        snprintf(out, size, "[%s]:%u", text, ntohs(v6->sin6_port));
    } else {
        snprintf(out, size, "a local socket");
    }
}
