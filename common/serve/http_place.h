/* The address on which a process serves HTTP, from its flags. */
#ifndef GRADWIRE_COMMON_SERVE_HTTP_PLACE_H
#define GRADWIRE_COMMON_SERVE_HTTP_PLACE_H

#include <stdbool.h>

#include "common/cluster/address.h"

struct http_place {
    int port; /* 0: off */
    /* --http_address: an address or name of this host; "*": all; "": that of the role */
    const char *address;
    int fd; /* a listening socket from the launcher; -1: none */
};

/* Writes the address to listen on, as for listen_bind. `own` is the address of the process's role, "host:port" or ":port"
 * (cluster.bind): without --http_address, HTTP uses its host. NULL: the role has none, and HTTP uses loopback. */
void http_place_at(const struct http_place *place, const char *own, char out[ADDRESS_TEXT_MAX]);
/* Tells http_hosts the names that the flags give to this server. */
void http_place_names(const struct http_place *place, const char *own);
/* Checks that HTTP does not use the address on which this process serves its job. `serves`: it serves on `own`. Errors:
 * ERR_INPUT if it does. */
enum err http_place_check(const struct http_place *place, const char *own, bool serves,
                          struct errmsg *e) MUST_CHECK;

#endif
