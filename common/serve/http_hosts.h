/* The names by which clients may ask this process for something. A web site can give its own name the address of this process
 * (DNS rebinding): a browser then sends requests of the site's scripts here, and lets them read the answers. The header Host of
 * such a request has the site's name. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/cluster/address.h"

enum { HTTP_HOSTS_NAMES = 4, HTTP_HOSTS_DOMAINS = 8 };

struct http_hosts {
    bool loopback; /* the socket listens on loopback */
    /* names of this process or host; domains in which this host looks up short names */
    char names[HTTP_HOSTS_NAMES][ADDRESS_HOST_MAX], domains[HTTP_HOSTS_DOMAINS][ADDRESS_HOST_MAX];
    size_t n_names, n_domains;
};

/* Fills *h for a listening socket, from the given names, the host's name and /etc/resolv.conf. Does not ask a resolver. */
void http_hosts_init(struct http_hosts *h, int fd);
/* Does the value of a header Host name this server, with any port? On loopback: localhost, a name that ends with .localhost, or a
 * loopback address. Elsewhere also: any address; a name without a dot; a name that ends with .local, .internal, .svc or one of
 * `domains`. Nobody can have these names outside of this network. */
bool http_hosts_accept(const struct http_hosts *h, const char *host);

/* The address on which a process serves HTTP, from its flags. */

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
