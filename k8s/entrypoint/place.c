#include "k8s/entrypoint/place.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cluster/cluster_given.h"
#include "common/base/digits.h"
#include "common/flags/flags.h"
#include "common/cluster/address.h"

enum err place_ordinal(const char *pod, uint32_t *ordinal, struct errmsg *e)
{
    const char *dash = strrchr(pod, '-');
    if (dash && digits_read(dash + 1, 0, INT32_MAX, ordinal))
        return ERR_OK;
    return err_set(e, ERR_INPUT,
                   "--index=I is missing: JOB_COMPLETION_INDEX is not set, and the host's name, "
                   "%.80s, does not end in "
                   "-NUMBER",
                   pod);
}

/* ---- from ordinals ---- */

/* Write the pattern with the ordinal instead of its '%'. */
static enum err fill(const char *flag, const char *pattern, uint32_t i, char *out, size_t bytes,
                     struct errmsg *e)
{
    const char *mark = strchr(pattern, '%');
    if (!mark || strchr(mark + 1, '%'))
        return err_set(e, ERR_INPUT,
                       "--%s: '%.80s' is not allowed; allowed: host:port with one %%, the place of "
                       "the ordinal",
                       flag, pattern);
    int n = snprintf(out, bytes, "%.*s%u%s", (int)(mark - pattern), pattern, i, mark + 1);
    const char *problem =
        n < (int)bytes ? cluster_address_problem(out) : "write a shorter host:port";
    return problem ? err_set(e, ERR_INPUT, "--%s: '%.80s': %s", flag, pattern, problem) : ERR_OK;
}

static enum err list(const char *count, const char *flag, json_t **out, struct errmsg *e)
{
    char address[300];
    enum err err = ERR_OK;
    *out = json_array();
    for (uint32_t i = 0; i < flags_number(count) && !err; i++) {
        err = fill(flag, flags_text(flag), i, address, sizeof address, e);
        if (!err && json_array_append_new(*out, json_string(address)))
            err = err_set(e, ERR_NOMEM, "out of memory");
    }
    return err;
}

static enum err own_index(const char *completion, const char *pod, uint32_t *index,
                          struct errmsg *e)
{
    const char *flag = flags_given("index"), *given = flag ? flag : completion;
    if (!given || !*given)
        return place_ordinal(pod, index, e);
    if (digits_read(given, 0, INT32_MAX, index))
        return ERR_OK;
    return err_set(e, ERR_INPUT, "%s: '%.40s' is not allowed; allowed: a number from 0",
                   flag ? "--index" : "JOB_COMPLETION_INDEX", given);
}

/* Add the separate chief, if there is one. */
static enum err add_chief(json_t *cluster, struct errmsg *e)
{
    const char *chief = flags_given("chief_address");
    if (!chief && strcmp(flags_text("role"), "chief") == 0)
        return err_set(
            e, ERR_INPUT,
            "--role=chief needs --chief_address=HOST:PORT too, as all other pods of the job");
    if (!chief)
        return ERR_OK;
    const char *problem = cluster_address_problem(chief);
    if (problem)
        return err_set(e, ERR_INPUT, "--chief_address: '%.80s': %s", chief, problem);
    return json_object_set_new(cluster, "chief", json_pack("[s]", chief))
               ? err_set(e, ERR_NOMEM, "out of memory")
               : ERR_OK;
}

/* The TF_CONFIG's cluster. The caller owns *cluster, also after an error. */
static enum err make_cluster(json_t **cluster, struct errmsg *e)
{
    json_t *ps = NULL, *workers = NULL;
    enum err err = list("ps", "ps_host", &ps, e);
    if (!err)
        err = list("workers", "worker_host", &workers, e);
    *cluster = json_pack("{s:o*,s:o*}", "ps", ps, "worker", workers);
    if (!err && !*cluster)
        err = err_set(e, ERR_NOMEM, "out of memory");
    return err ? err : add_chief(*cluster, e);
}

enum err place_tf_config(const char *completion, const char *pod, char **json, struct errmsg *e)
{
    uint32_t index;
    json_t *cluster = NULL;
    enum err err = own_index(completion, pod, &index, e);
    if (!err)
        err = make_cluster(&cluster, e);
    if (!err) {
        json_t *root = json_pack("{s:O,s:{s:s,s:i}}", "cluster", cluster, "task", "type",
                                 flags_text("role"), "index", (int)index);
        char *made = json_dumps(root, JSON_COMPACT);
        json_decref(root);
        if (made)
            *json = made;
        else
            err = err_set(e, ERR_NOMEM, "out of memory");
    }
    json_decref(cluster);
    return err;
}

/* ---- the hosts form ---- */

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
    if (at + (size_t)bytes + 2 > PLACE_LIST_BYTES)
        return err_set(e, ERR_INPUT, "--worker_ips: the list is too long");
    (void)snprintf(out + at, PLACE_LIST_BYTES - at, "%s%s", at ? "," : "", address);
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

enum err place_hosts(struct place_hosts *h, struct errmsg *e)
{
    enum { PORT_MAX = 65535 };
    const char *ips = flags_text("worker_ips"), *ip = flags_text("current_ip");
    uint32_t port = (uint32_t)flags_number("port"), http = (uint32_t)flags_number("http_port"),
             index;
    enum err err = ERR_OK;
    if (http == PORT_MAX)
        return err_set(e, ERR_INPUT,
                       "--http_port: '%u' is not allowed; allowed: 1 to 65534 (the worker has the "
                       "next)",
                       http);
    h->worker_http = http ? http + 1 : 0;
    if (http && http + 1 >= port && http <= port + 1)
        return err_set(
            e, ERR_INPUT,
            "--http_port=%u and the next meet --port=%u and the next; give HTTP two others", http,
            port);
    if (!occurrences(ips, ip, strlen(ip), &h->index))
        return err_set(e, ERR_INPUT, "--current_ip=%.80s is not in --worker_ips=%.160s", ip, ips);
    h->ps_hosts[0] = h->worker_hosts[0] = 0;
    uint32_t n_hosts = 0;
    for (const char *at = ips;;) {
        size_t n = strcspn(at, ",");
        if (occurrences(ips, at, n, &index) > 1)
            return err_set(e, ERR_INPUT, "--worker_ips: '%.*s' occurs twice", n < 80 ? (int)n : 80,
                           at);
        if (++n_hosts > PLACE_HOSTS_MAX)
            return err_set(e, ERR_INPUT, "--worker_ips: more than %d", PLACE_HOSTS_MAX);
        err = append(h->ps_hosts, at, n, port, e);
        if (!err)
            err = append(h->worker_hosts, at, n, port + 1, e);
        if (err || !at[n])
            return err;
        at += n + 1;
    }
}
