/* The cluster as a process sees it, and the descriptors that a process of it needs. */
#include "common/cluster/cluster.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/base/mem.h"
#include "common/cluster/cluster_given.h"

/* An event loop has three descriptors, and its mailbox one. A listening socket is duplicated once. HTTP has a loop of its
 * own, except in a ps. The guard (dirlock.h) holds DIR/lock. The files are open for a moment only. limits_test compares the
 * sums with running processes. */
enum { LOOP = 4, LISTENER = 2, HTTP = LOOP + LISTENER, FILES = 3, GUARD = 1 };

uint32_t descriptors_of_ps(uint32_t threads, uint32_t trainers)
{
    enum { WEB = LISTENER, CHIEF = 1, CHIEFS_WORKER = 1, SAVED = 1 };
    uint32_t thread = LOOP + CHIEFS_WORKER + SAVED;
    return LOOP + LISTENER + WEB + CHIEF + GUARD + FILES + threads * thread + trainers;
}

uint32_t descriptors_of_worker(uint32_t ps, uint32_t shards)
{
    enum { CONTROL = LOOP, TRAINING = LOOP, TO_CHIEF = 1 };
    return CONTROL + TRAINING + TO_CHIEF + HTTP + FILES + ps + shards;
}

uint32_t descriptors_of_chief(uint32_t ps, uint32_t shards, uint32_t trainers)
{
    enum { LOCK = 1, LOGS = 3 };
    return descriptors_of_worker(ps, shards) + LOCK + GUARD + LISTENER + LOGS + trainers;
}

const char *role_str(enum role role)
{
    static const char *const names[] = {"chief", "worker", "ps", "evaluator"};
    return names[role];
}

/* ---- checks ---- */

struct place { /* an entry of the cluster, to find duplicate addresses */
    const char *address;
    enum role role;
    uint32_t index;
};

static int place_compare(const void *a, const void *b)
{
    const struct place *pa = a, *pb = b;
    return strcasecmp(pa->address, pb->address);
}

static enum err check_twins(const struct cluster_given *g, struct errmsg *e)
{
    size_t most = 0, n = 0;
    for (int role = 0; role < ROLES; role++)
        most += g->of[role].n;
    struct place *all = mem_zalloc(most, sizeof *all);
    if (!all)
        return err_memory(e);
    for (int role = 0; role < ROLES; role++)
        for (uint32_t i = 0; i < g->of[role].n; i++)
            all[n++] = (struct place){g->of[role].at[i], (enum role)role, i};
    qsort(all, n, sizeof *all, place_compare);
    enum err err = ERR_OK;
    for (size_t i = 1; i < n && !err; i++)
        if (place_compare(&all[i - 1], &all[i]) == 0)
            err = err_set(e, ERR_INPUT, "cluster: %s %u and %s %u have the same address, %.80s",
                          role_str(all[i - 1].role), all[i - 1].index, role_str(all[i].role),
                          all[i].index, all[i].address);
    mem_free(all);
    return err;
}

/* True for a sparse ps whose list has only its own address, whatever its index. */
static bool knows_itself_alone(const struct cluster_given *g)
{
    return g->role == ROLE_PS && g->part_of_ps && g->of[ROLE_PS].n == 1;
}

/* The process's own list can lack its index: a sparse worker, and a ps that knows only itself, have their address
 * at [0]. */
static bool index_is_free(const struct cluster_given *g)
{
    return knows_itself_alone(g) || (g->role == ROLE_WORKER && g->part_of_workers);
}

static enum err check_task(struct cluster_given *g, struct errmsg *e)
{
    const struct addresses *own = &g->of[g->role];
    if (!g->has_role)
        return err_set(e, ERR_INPUT,
                       "--job_name is missing; allowed: chief, worker, ps, evaluator");
    if (!g->has_index && own->n > 1)
        return err_set(e, ERR_INPUT,
                       "--task_index is missing: give the number, from 0, that says which of the "
                       "%u %s processes this is",
                       own->n, role_str(g->role));
    if (!g->has_index)
        g->index = 0;
    if (g->role == ROLE_CHIEF && g->index > 0)
        return err_set(e, ERR_INPUT, "the chief's task index is %u; allowed: 0", g->index);
    if (g->role == ROLE_EVALUATOR && g->index > 0)
        return err_set(
            e, ERR_INPUT,
            "the evaluator's task index is %u; allowed: 0, because a cluster has one evaluator",
            g->index);
    /* without a chief in the list, worker 0 becomes chief, and no process connects to this one */
    if (g->role == ROLE_CHIEF && g->of[ROLE_CHIEF].n == 0 && g->of[ROLE_WORKER].n > 0 &&
        !g->part_of_workers)
        return err_set(e, ERR_INPUT,
                       "this process is the chief, but the cluster lists no chief, so worker 0 is "
                       "the chief: list the address of this process as chief (TF_CONFIG: "
                       "cluster.chief; --chief_host) for all processes, or leave this process out");
    bool lone = g->role == ROLE_WORKER && g->index == 0 && g->of[ROLE_PS].n == 0;
    bool may_lack = g->role == ROLE_CHIEF || g->role == ROLE_EVALUATOR || lone;
    if (own->n == 0 && !may_lack && !index_is_free(g))
        return err_set(e, ERR_INPUT, "this is %s %u, but the cluster lists no %s",
                       role_str(g->role), g->index, role_str(g->role));
    if (own->n > 0 && g->index >= own->n && !index_is_free(g))
        return err_set(e, ERR_INPUT,
                       "this is %s %u, but the cluster lists %u of them; allowed: 0 to %u",
                       role_str(g->role), g->index, own->n, own->n - 1);
    return ERR_OK;
}

static uint64_t processes(const struct cluster_given *g)
{
    uint64_t listed =
        (uint64_t)g->of[ROLE_WORKER].n + g->of[ROLE_CHIEF].n + g->of[ROLE_EVALUATOR].n;
    bool unlisted = g->of[g->role].n == 0;
    return listed + unlisted;
}

/* With dynamic workers, TF_CONFIG does not list the ps for the chief or the evaluator, nor the chief for any
 * process. */
static enum err check_sparse(const struct cluster_given *g, struct errmsg *e)
{
    bool chief_lost = g->role == ROLE_CHIEF && (g->of[ROLE_PS].n == 0 || g->of[ROLE_CHIEF].n == 0);
    bool evaluator_lost = g->role == ROLE_EVALUATOR && g->of[ROLE_PS].n == 0;
    if (!g->part_of_workers || (!chief_lost && !evaluator_lost))
        return ERR_OK;
    return err_set(
        e, ERR_INPUT,
        "with dynamic workers TF_CONFIG does not list %s for this %s: remove the Chief replica "
        "(worker 0 is then the chief), or give --ps_hosts and --chief_host to all processes",
        g->of[ROLE_PS].n == 0 ? "the ps" : "the chief", role_str(g->role));
}

static enum err check_ps(const struct cluster_given *g, struct errmsg *e)
{
    if (g->of[ROLE_PS].n > 0 ||
        (!g->part_of_workers && g->role != ROLE_EVALUATOR && processes(g) == 1))
        return ERR_OK;
    if (g->part_of_workers && g->role == ROLE_WORKER)
        return err_set(e, ERR_INPUT,
                       "with dynamic workers TF_CONFIG gives this worker no address but its own, "
                       "so the workers cannot run the ps: add PS replicas, or remove "
                       "enableDynamicWorker");
    return err_set(e, ERR_INPUT,
                   "the cluster has no ps: add one, give --ps_hosts, or start each process with "
                   "gradwire-entrypoint, which also runs a ps (a lone worker needs none)");
}

/* ---- result ---- */

static void take_list(char ***out, uint32_t *n, struct addresses *take)
{
    *out = take->at;
    *n = take->n;
    *take = (struct addresses){0};
}

static const char *own_address(const struct cluster_given *g)
{
    const struct addresses *own = &g->of[g->role];
    if (own->n == 0)
        return NULL;
    bool first = knows_itself_alone(g) || (g->role == ROLE_WORKER && g->part_of_workers);
    return own->at[first ? 0 : g->index];
}

/* A numeric address, or localhost: it can be bound as given. */
static bool is_literal(const char *address)
{
    char host[64];
    struct in_addr v4;
    size_t n = (size_t)(strrchr(address, ':') - address);
    if (address[0] == '[')
        return true;
    if (n >= sizeof host)
        return false;
    memcpy(host, address, n);
    host[n] = 0;
    return strcasecmp(host, "localhost") == 0 || inet_pton(AF_INET, host, &v4) == 1;
}

/* Returns a part of own_address. */
static const char *bind_address(const struct cluster_given *g)
{
    const char *own = own_address(g);
    return !own || g->of[g->role].by_flag || is_literal(own) ? own : strrchr(own, ':');
}

static enum err copy_text(char **out, const char *text, struct errmsg *e)
{
    if (!text)
        return ERR_OK;
    *out = mem_strdup(text);
    return *out ? ERR_OK : err_memory(e);
}

static const char *chief_address(const struct cluster_given *g)
{
    if (g->of[ROLE_CHIEF].n > 0)
        return g->of[ROLE_CHIEF].at[0];
    if (g->role == ROLE_CHIEF || g->of[ROLE_WORKER].n == 0)
        return NULL;
    return !g->part_of_workers || g->index == 0 ? g->of[ROLE_WORKER].at[0] : NULL;
}

static void settle_role(struct cluster *c, const struct cluster_given *g)
{
    c->role = g->role;
    c->index = g->index;
    c->separate_chief = g->of[ROLE_CHIEF].n > 0 || g->role == ROLE_CHIEF;
    c->is_chief =
        g->role == ROLE_CHIEF || (g->role == ROLE_WORKER && g->index == 0 && !c->separate_chief);
    c->sparse = g->role == ROLE_PS ? g->part_of_ps : g->part_of_workers;
    c->alone = g->of[ROLE_PS].n == 0;
    if (g->role == ROLE_WORKER)
        c->worker_id = g->index + (c->separate_chief ? 1 : 0);
}

static enum err cluster_fill(struct cluster *c, struct cluster_given *g, struct errmsg *e)
{
    settle_role(c, g);
    enum err err = copy_text(&c->self, own_address(g), e);
    if (!err)
        err = copy_text(&c->bind, bind_address(g), e);
    if (!err)
        err = copy_text(&c->chief, chief_address(g), e);
    take_list(&c->ps, &c->n_ps, &g->of[ROLE_PS]);
    take_list(&c->workers, &c->n_workers, &g->of[ROLE_WORKER]);
    return err;
}

static enum err cluster_judge(struct cluster *c, struct cluster_given *g, struct errmsg *e)
{
    enum err err = check_task(g, e);
    if (!err)
        err = check_sparse(g, e);
    if (!err)
        err = check_ps(g, e);
    if (!err)
        err = check_twins(g, e);
    return err ? err : cluster_fill(c, g, e);
}

enum err cluster_init(struct cluster *c, const struct cluster_flags *flags, const char *tf_config,
                      struct errmsg *e)
{
    struct cluster_given g = {.role = ROLE_WORKER};
    struct cluster made = {0};
    enum err err = cluster_given_tf_config(&g, tf_config, e);
    if (!err)
        err = cluster_given_flags(&g, flags, e);
    if (!err && g.any)
        err = cluster_judge(&made, &g, e);
    else if (!err)
        made = (struct cluster){.role = ROLE_WORKER, .is_chief = true, .alone = true};
    made.given = g.any;
    made.has_evaluator =
        g.of[ROLE_EVALUATOR].n > 0 || flags->evaluators || made.role == ROLE_EVALUATOR;
    if (!err && flags->evaluators > 1)
        err = err_set(e, ERR_INPUT, "--evaluators: %lld is not allowed; allowed: 0, 1",
                      (long long)flags->evaluators);
    cluster_given_close(&g);
    if (err)
        cluster_close(&made);
    else
        *c = made;
    return err;
}

static void list_close(char **list, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        mem_free(list[i]);
    mem_free(list);
}

void cluster_close(struct cluster *c)
{
    list_close(c->ps, c->n_ps);
    list_close(c->workers, c->n_workers);
    mem_free(c->chief);
    mem_free(c->self);
    mem_free(c->bind);
    *c = (struct cluster){0};
}
