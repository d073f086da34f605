/* Parsing and formatting of addresses. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "common/base/err.h"

enum {
    ADDRESS_HOST_MAX = 256, /* with the NUL */
    ADDRESS_TEXT_MAX = 320, /* "host:port" or "[address]:port", with the NUL */
};

struct address {
    struct sockaddr_storage addr;
    socklen_t bytes;
};

/* Parses a port >= `least`: at most 5 decimal digits, no sign, no blank, no hex. Returns false, with *port
 * unchanged, for any other text. */
bool address_port(const char *text, uint16_t least, uint16_t *port);
/* Parses "host:port", "[v6]:port" or ":port" (then host is ""). The port is 1 to 65535; 0 only if `zero_ok`.
 * Outputs are unchanged on error. Errors: ERR_INPUT. */
enum err address_split(const char *host_port, bool zero_ok, char host[ADDRESS_HOST_MAX],
                       uint16_t *port, struct errmsg *e) MUST_CHECK;
/* Returns whether `host` is a numeric address; then *a has it. Never uses a resolver. */
bool address_numeric(const char *host, uint16_t port, struct address *a);
/* Of 127.0.0.0/8 or ::1, also as an IPv4 address within IPv6: only this host's processes reach it. */
bool address_is_loopback(const struct sockaddr_storage *addr);
/* Returns whether a connected socket goes from a loopback address to the same one: what is sent stays in this kernel. A
 * tunnel or proxy that forwards to 127.0.0.1 looks the same. Thread: any. */
bool address_stays_in_host(int fd);
/* Writes "1.2.3.4:80" or "[::1]:80", truncated to fit. */
void address_text(const struct sockaddr *addr, socklen_t bytes, char *out, size_t size);
