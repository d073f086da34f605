/* Addresses as people write them. */
#ifndef GRADWIRE_COMMON_CLUSTER_ADDRESS_H
#define GRADWIRE_COMMON_CLUSTER_ADDRESS_H

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

/* A port of `least` or more: at most 5 decimal digits, no sign, no space, no hex. False: it is none; *port is unchanged. */
bool address_port(const char *text, uint16_t least, uint16_t *port);
/* "host:port", "[v6]:port", ":port" (host is "" then). Port 1..65535; 0 only if `zero_ok`.
 * Errors: ERR_INPUT with a line that names what is wrong; outputs unchanged. */
enum err address_split(const char *host_port, bool zero_ok, char host[ADDRESS_HOST_MAX],
                       uint16_t *port, struct errmsg *e) MUST_CHECK;
/* Is `host` an address, not a name? Then *a is it. Never asks a resolver. */
bool address_numeric(const char *host, uint16_t port, struct address *a);
/* "1.2.3.4:80", "[::1]:80"; cut to fit. */
void address_text(const struct sockaddr *addr, socklen_t bytes, char *out, size_t size);

#endif
