#include "k8s/entrypoint/hosts.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "common/cluster/address.h"
#include "common/cluster/cluster_given.h"
#include "common/flags/flags.h"
#include "k8s/entrypoint/http.h"

static enum err append(char *out, const char *ip, size_t n, uint32_t port, struct errmsg *e)
{
    size_t at = strlen(out);
    bool v6 = memchr(ip, ':', n) && ip[0] != '[';
    char address[300];
    int bytes = snprintf(address, sizeof address, "%s%.*s%s:%u", v6 ? "[" : "", (int)n, ip,
                         v6 ? "]" : "", port);
    const char *problem =
        bytes < (int)sizeof address ? cluster_address_problem(address) : "it is too long";
    if (problem)
        return err_set(e, ERR_INPUT, "--worker_ips: '%.*s': %s", n < 80 ? (int)n : 80, ip, problem);
    if (at + (size_t)bytes + 2 > HOSTS_LIST_BYTES)
        return err_set(e, ERR_INPUT, "--worker_ips: the list is too long");
    (void)snprintf(out + at, HOSTS_LIST_BYTES - at, "%s%s", at ? "," : "", address);
    return ERR_OK;
}

/* Compare addresses, because ::1 has several spellings. */
static bool same_host(const char *a, size_t a_bytes, const char *b, size_t b_bytes)
{
    char host[2][ADDRESS_HOST_MAX];
    struct address at[2];
    if (a_bytes == b_bytes && memcmp(a, b, a_bytes) == 0)
        return true;
    (void)snprintf(host[0], sizeof host[0], "%.*s", (int)a_bytes, a);
    (void)snprintf(host[1], sizeof host[1], "%.*s", (int)b_bytes, b);
    return address_numeric(host[0], 0, &at[0]) && address_numeric(host[1], 0, &at[1]) &&
           at[0].bytes == at[1].bytes && memcmp(&at[0].addr, &at[1].addr, at[0].bytes) == 0;
}

/* How many times `ip` is in the list; *index: its first position. */
static uint32_t occurrences(const char *ips, const char *ip, size_t bytes, uint32_t *index)
{
    uint32_t times = 0, i = 0;
    for (const char *at = ips;; i++) {
        size_t n = strcspn(at, ",");
        if (same_host(at, n, ip, bytes) && times++ == 0)
            *index = i;
        if (!at[n])
            return times;
        at += n + 1;
    }
}

static enum err fill_lists(struct hosts *h, const char *ips, uint32_t port, struct errmsg *e)
{
    uint32_t first, n_hosts = 0;
    for (const char *at = ips;;) {
        size_t n = strcspn(at, ",");
        if (occurrences(ips, at, n, &first) > 1)
            return err_set(e, ERR_INPUT, "--worker_ips: '%.*s' occurs twice", n < 80 ? (int)n : 80,
                           at);
        if (++n_hosts > HOSTS_MAX)
            return err_set(e, ERR_INPUT, "--worker_ips: more than %d", HOSTS_MAX);
        enum err err = append(h->ps_hosts, at, n, port, e);
        if (!err)
            err = append(h->worker_hosts, at, n, port + 1, e);
        if (err || !at[n])
            return err;
        at += n + 1;
    }
}

enum err hosts_init(struct hosts *h, struct errmsg *e)
{
    const char *ips = flags_text("worker_ips"), *ip = flags_text("current_ip");
    uint32_t port = (uint32_t)flags_number("port");
    char said[32];
    (void)snprintf(said, sizeof said, "--port=%u", port);
    enum err err = http_next(&h->worker_http, port, said, "worker", e);
    if (err)
        return err;
    if (!occurrences(ips, ip, strlen(ip), &h->index))
        return err_set(e, ERR_INPUT, "--current_ip=%.80s is not in --worker_ips=%.160s", ip, ips);
    h->ps_hosts[0] = h->worker_hosts[0] = 0;
    return fill_lists(h, ips, port, e);
}
