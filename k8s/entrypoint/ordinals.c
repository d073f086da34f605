#include "k8s/entrypoint/ordinals.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "common/base/digits.h"
#include "common/cluster/cluster_given.h"
#include "common/flags/flags.h"

enum err ordinals_read(const char *pod, uint32_t *ordinal, struct errmsg *e)
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
            err = err_memory(e);
    }
    return err;
}

static enum err own_index(const char *completion, const char *pod, uint32_t *index,
                          struct errmsg *e)
{
    const char *flag = flags_given("index"), *given = flag ? flag : completion;
    if (!given || !*given)
        return ordinals_read(pod, index, e);
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
    return json_object_set_new(cluster, "chief", json_pack("[s]", chief)) ? err_memory(e) : ERR_OK;
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
        err = err_memory(e);
    return err ? err : add_chief(*cluster, e);
}

enum err ordinals_tf_config(const char *completion, const char *pod, char **json, struct errmsg *e)
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
            err = err_memory(e);
    }
    json_decref(cluster);
    return err;
}
