/* The hosts and addresses for which HTTP answers. */
#include "common/serve/http_hosts.h"

#include <resolv.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

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

static struct http_hosts given; /* names only */

static void add(char (*list)[ADDRESS_HOST_MAX], size_t *n, size_t most, const char *name)
{
    size_t bytes = strlen(name);
    if (*n == most || bytes == 0 || bytes >= ADDRESS_HOST_MAX)
        return;
    memcpy(list[(*n)++], name, bytes + 1);
}

/* Addresses and further names than HTTP_HOSTS_NAMES - 1 are ignored. */
static void http_hosts_add(const char *name)
{
    struct address ignored;
    if (!address_numeric(name, 0, &ignored))
        add(given.names, &given.n_names, HTTP_HOSTS_NAMES - 1, name);
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

/* The domains of /etc/resolv.conf, or that of the host's name. */
static void add_domains(struct http_hosts *h)
{
    struct __res_state resolver;
    memset(&resolver, 0, sizeof resolver);
    if (res_ninit(&resolver))
        return;
    for (size_t i = 0; i < MAXDNSRCH && resolver.dnsrch[i]; i++)
        add(h->domains, &h->n_domains, HTTP_HOSTS_DOMAINS, resolver.dnsrch[i]);
    res_nclose(&resolver);
}

void http_hosts_init(struct http_hosts *h, int fd)
{
    struct address at = {.bytes = sizeof at.addr};
    char name[ADDRESS_HOST_MAX] = "";
    *h = given;
    h->loopback = getsockname(fd, (struct sockaddr *)&at.addr, &at.bytes) == 0 &&
                  address_is_loopback(&at.addr);
    if (h->loopback)
        return;
    if (gethostname(name, sizeof name - 1) == 0)
        add(h->names, &h->n_names, HTTP_HOSTS_NAMES, name);
    add_domains(h);
}

/* Copies the host without its port, brackets and last dot. Returns false if there is no host. */
static bool split(const char *text, char host[ADDRESS_HOST_MAX])
{
    bool v6 = text[0] == '[';
    const char *end = v6 ? strchr(text, ']') : text + strcspn(text, ":");
    if (!end)
        return false;
    const char *port = end + v6;
    size_t bytes = (size_t)(end - text) - v6;
    if (bytes >= ADDRESS_HOST_MAX || (*port && *port != ':') ||
        (*port && port[1 + strspn(port + 1, "0123456789")]))
        return false;
    memcpy(host, text + v6, bytes);
    if (bytes > 0 && host[bytes - 1] == '.')
        bytes--;
    host[bytes] = 0;
    return bytes > 0;
}

static bool ends_with(const char *host, const char *domain)
{
    size_t all = strlen(host), bytes = strlen(domain);
    if (bytes > 0 && domain[bytes - 1] == '.')
        bytes--;
    return bytes > 0 && all > bytes + 1 && host[all - bytes - 1] == '.' &&
           strncasecmp(host + all - bytes, domain, bytes) == 0;
}

static bool is_of_this_network(const struct http_hosts *h, const char *host)
{
    static const char *const own[] = {"local", "internal", "svc"};
    bool is = !strchr(host, '.');
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        is = is || ends_with(host, own[i]);
    for (size_t i = 0; i < h->n_domains; i++)
        is = is || ends_with(host, h->domains[i]);
    return is;
}

bool http_hosts_accept(const struct http_hosts *h, const char *text)
{
    char host[ADDRESS_HOST_MAX];
    struct address at;
    if (!split(text, host))
        return false;
    if (address_numeric(host, 0, &at))
        return !h->loopback || address_is_loopback(&at.addr);
    for (size_t i = 0; i < h->n_names; i++)
        if (strcasecmp(host, h->names[i]) == 0)
            return true;
    return strcasecmp(host, "localhost") == 0 || ends_with(host, "localhost") ||
           (!h->loopback && is_of_this_network(h, host));
}
