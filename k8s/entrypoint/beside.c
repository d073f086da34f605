#include "k8s/entrypoint/beside.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cluster/cluster_given.h"
#include "k8s/entrypoint/http.h"

enum { PORT_MAX = 65535 };

static bool is_wanted(const struct cluster_given *g)
{
    uint32_t n = g->of[ROLE_CHIEF].n + g->of[ROLE_WORKER].n;
    return g->role != ROLE_PS && g->of[ROLE_PS].n == 0 && !g->part_of_ps && n > 0 &&
           n + g->of[ROLE_EVALUATOR].n > 1;
}

static uint32_t port_of(const char *address)
{
    return (uint32_t)strtoul(strrchr(address, ':') + 1, NULL, 10); /* cluster_given checked it */
}

/* Append the address of the ps that shares its container with the process at `address`. */
static enum err add_ps(json_t *list, const char *address, struct errmsg *e)
{
    int host = (int)(strrchr(address, ':') - address);
    uint32_t port = port_of(address);
    if (port == PORT_MAX)
        return err_set(e, ERR_INPUT,
                       "TF_CONFIG: %.80s: its ps needs the next port; use a port up to "
                       "65534",
                       address);
    if (json_array_append_new(list, json_sprintf("%.*s:%u", host, address, port + 1)))
        return err_memory(e);
    return ERR_OK;
}

/* Write TF_CONFIG again, with a ps for the chief and for each worker. */
static enum err add_all_ps(char **out, const struct cluster_given *g, const char *tf_config,
                           struct errmsg *e)
{
    static const enum role roles[] = {ROLE_CHIEF, ROLE_WORKER};
    json_t *root = json_loads(tf_config, 0, NULL), *list = json_array();
    enum err err = ERR_OK;
    for (size_t r = 0; r < sizeof roles / sizeof *roles; r++)
        for (uint32_t i = 0; i < g->of[roles[r]].n && !err; i++)
            err = add_ps(list, g->of[roles[r]].at[i], e);
    if (!err && json_object_set(json_object_get(root, "cluster"), "ps", list) == 0)
        *out = json_dumps(root, JSON_COMPACT);
    if (!err && !*out)
        err = err_memory(e);
    json_decref(list);
    json_decref(root);
    return err;
}

/* The worker has --http_port, and its ps the next. */
static enum err find_http(struct beside *b, const char *own, struct errmsg *e)
{
    char said[40];
    (void)snprintf(said, sizeof said, "port %u of TF_CONFIG", port_of(own));
    return http_next(&b->ps_http, port_of(own), said, "ps", e);
}

static enum err find_own(struct beside *b, const struct cluster_given *g, struct errmsg *e)
{
    const struct addresses *own = &g->of[g->role];
    if (g->role != ROLE_CHIEF && g->role != ROLE_WORKER)
        return ERR_OK;
    if (g->index >= own->n)
        return ERR_OK; /* the worker says what is wrong */
    b->has_ps = true;
    b->ps = g->role == ROLE_CHIEF ? 0 : g->index + g->of[ROLE_CHIEF].n;
    return find_http(b, own->at[g->index], e);
}

enum err beside_init(struct beside *b, const char *tf_config, struct errmsg *e)
{
    struct cluster_given g = {.role = ROLE_WORKER};
    struct beside made = {0};
    enum err err = cluster_given_tf_config(&g, tf_config, e);
    made.wanted = !err && is_wanted(&g);
    if (made.wanted)
        err = find_own(&made, &g, e);
    if (made.wanted && !err)
        err = add_all_ps(&made.tf_config, &g, tf_config, e);
    cluster_given_close(&g);
    if (!err)
        *b = made;
    return err;
}

void beside_close(struct beside *b)
{
    free(b->tf_config);
    *b = (struct beside){0};
}
