#include "common/serve/http_place.h"

#include <stdio.h>
#include <string.h>

#include "common/serve/http_hosts.h"

/* The host of "host:port"; "": all addresses, or not an address. */
static void host_of(const char *address, char host[ADDRESS_HOST_MAX])
{
    struct errmsg unsaid = {""};
    uint16_t port;
    host[0] = 0;
    if (address_split(address, true, host, &port, &unsaid))
        host[0] = 0;
}

/* Without brackets; "": all. */
static void http_place_host(const struct http_place *place, const char *own,
                            char host[ADDRESS_HOST_MAX])
{
    const char *given = place->address;
    size_t n = strlen(given);
    bool bracketed = n > 2 && given[0] == '[' && given[n - 1] == ']';
    if (strcmp(given, "*") == 0)
        host[0] = 0;
    else if (*given)
        (void)snprintf(host, ADDRESS_HOST_MAX, "%.*s", (int)(bracketed ? n - 2 : n),
                       given + bracketed);
    else if (own)
        host_of(own, host);
    else
        (void)snprintf(host, ADDRESS_HOST_MAX, "127.0.0.1");
}

void http_place_at(const struct http_place *place, const char *own, char out[ADDRESS_TEXT_MAX])
{
    char host[ADDRESS_HOST_MAX];
    http_place_host(place, own, host);
    bool v6 = strchr(host, ':') != NULL;
    (void)snprintf(out, ADDRESS_TEXT_MAX, "%s%s%s:%d", v6 ? "[" : "", host, v6 ? "]" : "",
                   place->port);
}

void http_place_names(const struct http_place *place, const char *own)
{
    char host[ADDRESS_HOST_MAX];
    if (strcmp(place->address, "*") != 0)
        http_hosts_add(place->address);
    host_of(own ? own : "", host);
    http_hosts_add(host);
}

enum err http_place_check(const struct http_place *place, const char *own, bool serves,
                          struct errmsg *e)
{
    char host[ADDRESS_HOST_MAX], http[ADDRESS_HOST_MAX];
    struct errmsg unsaid = {""};
    uint16_t port;
    if (!serves || !own || !place->port || place->fd >= 0 ||
        address_split(own, true, host, &port, &unsaid) || port != place->port)
        return ERR_OK;
    http_place_host(place, own, http);
    if (*host && *http && strcmp(host, http) != 0)
        return ERR_OK;
    return err_set(e, ERR_INPUT,
                   "--http_port=%d is also the port on which this process serves its job (%.100s): "
                   "give HTTP another port",
                   place->port, own);
}
