/* The cluster as a process sees it, and the descriptors that a process of it needs. */
#include "common/cluster/cluster.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <arpa/inet.h>

#include <jansson.h>

#include "common/base/mem.h"
#include "common/base/digits.h"
#include "common/base/words.h"
#include "common/cluster/address.h"

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

/* Reads the cluster from TF_CONFIG and the flags, and finds variables that contradict a process which trains alone. */

enum { SIGNS_MAX = 6 };

#define BY_HAND                                                                                    \
    "give each process --job_name, --task_index, --ps_hosts and --worker_hosts, or TF_CONFIG"
#define BY_MPI                                                                                     \
    "let mpirun start `gradwire rank JOB --ps P` (in an image with MPI and gradwire), or run a "   \
    "TFJob without PS (k8s/tfjob/overlays/no-ps)"
#define BY_SRUN "let srun start `gradwire rank JOB --ps P`, or use `gradwire train`"
#define BY_POD                                                                                     \
    "run a TFJob without PS (k8s/tfjob/overlays/no-ps), or give each pod --role, --ps, "           \
    "--workers, "                                                                                  \
    "--ps_host and --worker_host"

/* The first of `sizes` that is set has the number of processes. If none is set, one of `marks` is enough. */
static const struct {
    const char *sizes[SIGNS_MAX], *marks[SIGNS_MAX];
    const char *of; /* the kind of job */
    const char *instead;
} starters[] = {
    /* mpirun tells its processes how many they are. Without that, this is the main program of a launcher's or a worker's
     * pod. */
    {{"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE"},
     {"K_MPI_JOB_ROLE", "OMPI_MCA_orte_default_hostfile", "PRTE_MCA_prte_default_hostfile",
      "PRTE_MCA_default_hostfile", "I_MPI_HYDRA_HOST_FILE", "HYDRA_HOST_FILE"},
     "an MPI job",
     BY_MPI},
    /* srun sets both for its step, salloc and sbatch set only the second, for the allocation. */
    {{"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS"}, {NULL}, "a Slurm job", BY_SRUN},
    /* PET_NNODES is the number of pods (elastic: "least:most"). Operators before it set only WORLD_SIZE, which newer ones
     * multiply by the processes of a pod. */
    {{"PET_NNODES", "WORLD_SIZE"}, {NULL}, "a PyTorchJob, TrainJob or torchrun", BY_POD},
    {{"PADDLE_TRAINERS_NUM", "PADDLE_TRAINER_NUM", "PADDLE_NNODES"},
     {NULL},
     "a Paddle job",
     BY_POD},
    {{NULL}, {"TRAINING_ROLE"}, "a Paddle job with servers", BY_POD},
    {{NULL},
     {"DMLC_ROLE"},
     "a ps-lite job",
     BY_HAND}, /* the least is a scheduler, a server, a worker */
    {{"JAX_NUM_PROCESSES", "JAX_PROCESS_COUNT"}, {NULL}, "a JAX job", BY_POD},
    {{"HOROVOD_SIZE"}, {NULL}, "a Horovod job", BY_HAND},
    {{NULL}, {"JOB_COMPLETION_INDEX"}, "an Indexed Job (JobSet, TrainJob)", BY_POD},
    {{NULL}, {"VC_TASK_INDEX"}, "a Volcano job", BY_POD},
};

/* The first of `names` that is set and not empty; NULL: none is. */
static const char *first_set(const char *const names[SIGNS_MAX], char *(*lookup)(const char *name))
{
    for (size_t i = 0; i < SIGNS_MAX && names[i]; i++) {
        const char *value = lookup(names[i]);
        if (value && *value)
            return names[i];
    }
    return NULL;
}

/* "1:1" is PET_NNODES of an elastic job with one pod. A text that is no number can mean any. */
static bool is_one(const char *size)
{
    uint32_t n;
    return digits_read(size, 0, 1, &n) || strcmp(size, "1:1") == 0;
}

static enum err find_sign(char *(*lookup)(const char *name), struct errmsg *e)
{
    for (size_t i = 0; i < sizeof starters / sizeof *starters; i++) {
        const char *size = first_set(starters[i].sizes, lookup);
        const char *name = size ? size : first_set(starters[i].marks, lookup);
        if (!name || (size && is_one(lookup(size))))
            continue;
        return err_set(
            e, ERR_INPUT,
            "%s=%.60s: this is one of the processes of %s, and nothing says where its ps "
            "and workers are: %s; or give --alone if it is to train the whole job alone",
            name, lookup(name), starters[i].of, starters[i].instead);
    }
    return ERR_OK;
}

enum err signs_check(bool named, bool alone, char *(*lookup)(const char *name), struct errmsg *e)
{
    if (named && alone)
        return err_set(e, ERR_INPUT,
                       "--alone: TF_CONFIG or flags say which process of a cluster this is: leave "
                       "out --alone, or these");
    return named || alone ? ERR_OK : find_sign(lookup, e);
}

enum { SHOWN_BYTES = 80, HOST_BYTES_MAX = 253 };

/* ---- addresses ---- */

/* Looks like a numeric address but is invalid: report it now instead of waiting for a resolver. */
static bool is_no_address(const char *text, size_t bytes)
{
    char host[HOST_BYTES_MAX + 1];
    struct address ignored;
    bool v6 = text[0] == '[', v4 = strspn(text, "0123456789.") == bytes;
    (void)snprintf(host, sizeof host, "%.*s", (int)(v6 ? bytes - 2 : bytes), text + v6);
    if (v6)
        host[strcspn(host, "%")] = 0; /* [fe80::1%eth0] */
    return (v6 || v4) && !address_numeric(host, 0, &ignored);
}

const char *cluster_address_problem(const char *address)
{
    const char *colon = strrchr(address, ':');
    uint16_t port;
    if (!colon || colon == address)
        return "write it as host:port";
    size_t host = (size_t)(colon - address);
    if (host > HOST_BYTES_MAX)
        return "its host is too long";
    for (const char *p = address; p < colon; p++)
        if ((unsigned char)*p <= ' ' || strchr("/,\"'@$(){}\\", *p) || *p == 0x7f)
            return "its host is neither a name nor an IP address";
    bool bracketed = address[0] == '[' && colon[-1] == ']';
    if (!bracketed && memchr(address, ':', host))
        return "write an IPv6 address in brackets: [::1]:2222";
    if ((bracketed && host < 3) || (!bracketed && strpbrk(address, "[]")))
        return "write it as host:port";
    if (is_no_address(address, host))
        return "its host is not a valid IP address";
    return address_port(colon + 1, 1, &port) ? NULL : "its port is not a number from 1 to 65535";
}

static void addresses_close(struct addresses *a)
{
    for (uint32_t i = 0; i < a->n; i++)
        mem_free(a->at[i]);
    mem_free(a->at);
    *a = (struct addresses){0};
}

/* Appends a checked copy; `where` says in messages where the address was given. */
static enum err addresses_add(struct addresses *a, const char *address, const char *where,
                              struct errmsg *e)
{
    const char *problem = cluster_address_problem(address);
    if (problem)
        return err_set(e, ERR_INPUT, "%s: '%.*s': %s", where, SHOWN_BYTES, address, problem);
    if (a->n == CLUSTER_ADDRESSES_MAX)
        return err_set(e, ERR_INPUT, "%s: more than %d addresses", where, CLUSTER_ADDRESSES_MAX);
    char **grown = mem_extend(a->at, a->n, 1, sizeof *grown), *copy = NULL;
    if (grown)
        a->at = grown;
    if (!grown || !(copy = mem_strdup(address)))
        return err_memory(e);
    a->at[a->n++] = copy;
    return ERR_OK;
}

void cluster_given_close(struct cluster_given *g)
{
    for (int role = 0; role < ROLES; role++)
        addresses_close(&g->of[role]);
}

/* ---- roles ---- */

static const struct role_name {
    const char *name;
    enum role role;
} role_names[] = {
    {"chief", ROLE_CHIEF}, {"master", ROLE_CHIEF},        {"worker", ROLE_WORKER},
    {"ps", ROLE_PS},       {"evaluator", ROLE_EVALUATOR},
};

static bool role_parse(const char *name, enum role *role)
{
    for (size_t i = 0; i < sizeof role_names / sizeof role_names[0]; i++)
        if (strcmp(role_names[i].name, name) == 0) {
            *role = role_names[i].role;
            return true;
        }
    return false;
}

static enum err refuse_role(const char *where, const char *name, struct errmsg *e)
{
    struct words near;
    char lower[WORDS_BYTES_MAX + 1];
    size_t n = 0;
    for (; name[n] && n < WORDS_BYTES_MAX; n++)
        lower[n] = (char)(name[n] >= 'A' && name[n] <= 'Z' ? name[n] + 32 : name[n]);
    lower[n] = 0;
    words_init(&near, lower);
    for (size_t i = 0; i < sizeof role_names / sizeof role_names[0]; i++)
        words_try(&near, role_names[i].name);
    return err_set(
        e, ERR_INPUT,
        "%s: unknown type '%.*s'%s%s%s allowed: chief (or master), worker, ps, evaluator", where,
        SHOWN_BYTES, name, near.best ? ", did you mean " : "", near.best ? near.best : "",
        near.best ? "?" : ";");
}

/* ---- TF_CONFIG ---- */

static enum err task_index(struct cluster_given *g, const json_t *index, struct errmsg *e)
{
    if (!index)
        return err_set(e, ERR_INPUT, "TF_CONFIG: task.index is missing: give a number from 0");
    g->has_index = true;
    if (json_is_integer(index)) {
        json_int_t i = json_integer_value(index);
        if (i < 0 || i > INT32_MAX)
            return err_set(e, ERR_INPUT, "TF_CONFIG: task.index is %lld; allowed: a number from 0",
                           (long long)i);
        g->index = (uint32_t)i;
        return ERR_OK;
    }
    if (json_is_string(index) && digits_read(json_string_value(index), 0, UINT32_MAX, &g->index))
        return ERR_OK;
    return err_set(e, ERR_INPUT,
                   "TF_CONFIG: task.index is %s%.*s%s, but it must be a number from 0: the pod's "
                   "ordinal, such as $(JOB_COMPLETION_INDEX) of an Indexed Job or the label "
                   "apps.kubernetes.io/pod-index of a StatefulSet, not a name",
                   json_is_string(index) ? "\"" : "", SHOWN_BYTES,
                   json_is_string(index) ? json_string_value(index) : "not a whole number",
                   json_is_string(index) ? "\"" : "");
}

static enum err task(struct cluster_given *g, const json_t *root, struct errmsg *e)
{
    const json_t *task_object = json_object_get(root, "task");
    if (!json_is_object(task_object))
        return err_set(
            e, ERR_INPUT,
            "TF_CONFIG: \"task\" is missing; example: {\"type\": \"worker\", \"index\": 0}");
    const json_t *type = json_object_get(task_object, "type");
    if (!json_is_string(type))
        return err_set(e, ERR_INPUT,
                       "TF_CONFIG: task.type is missing; allowed: chief (or master), "
                       "worker, ps, evaluator");
    if (!role_parse(json_string_value(type), &g->role))
        return refuse_role("TF_CONFIG: task.type", json_string_value(type), e);
    g->has_role = true;
    return task_index(g, json_object_get(task_object, "index"), e);
}

static enum err address_list(struct addresses *a, const char *type, const json_t *list,
                             struct errmsg *e)
{
    char where[96];
    if (json_is_null(list))
        return ERR_OK;
    if (!json_is_array(list))
        return err_set(e, ERR_INPUT, "TF_CONFIG: cluster.%s is not a list of \"host:port\"", type);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *one = json_array_get(list, i);
        (void)snprintf(where, sizeof where, "TF_CONFIG: cluster.%s[%zu]", type, i);
        if (!json_is_string(one))
            return err_set(e, ERR_INPUT, "%s is not a \"host:port\"", where);
        enum err err = addresses_add(a, json_string_value(one), where, e);
        if (err)
            return err;
    }
    return ERR_OK;
}

/* {"1": "host:port"}: the form of a sparse cluster; only this process's own entry is used. */
static enum err worker_object(struct cluster_given *g, json_t *workers, struct errmsg *e)
{
    const char *key;
    json_t *value;
    char where[96];
    uint32_t index;
    json_object_foreach(workers, key, value)
    {
        (void)snprintf(where, sizeof where, "TF_CONFIG: cluster.worker.%.32s", key);
        if (!digits_read(key, 0, UINT32_MAX, &index) || !json_is_string(value))
            return err_set(e, ERR_INPUT, "%s is not a {\"index\": \"host:port\"}", where);
        const char *problem = cluster_address_problem(json_string_value(value));
        if (problem)
            return err_set(e, ERR_INPUT, "%s: '%.*s': %s", where, SHOWN_BYTES,
                           json_string_value(value), problem);
        if (g->role != ROLE_WORKER || index != g->index)
            continue;
        enum err err = addresses_add(&g->of[ROLE_WORKER], json_string_value(value), where, e);
        if (err)
            return err;
    }
    return ERR_OK;
}

static enum err cluster_object(struct cluster_given *g, json_t *cluster, bool sparse,
                               struct errmsg *e)
{
    const char *type;
    json_t *value;
    enum role role;
    json_t *workers = json_object_get(cluster, "worker");
    g->part_of_ps = sparse || json_is_object(workers);
    g->part_of_workers = g->part_of_ps && !json_is_array(workers);
    json_object_foreach(cluster, type, value)
    {
        if (!role_parse(type, &role))
            return refuse_role("TF_CONFIG: cluster", type, e);
        enum err err = value == workers && json_is_object(workers)
                           ? worker_object(g, workers, e)
                           : address_list(&g->of[role], type, value, e);
        if (err)
            return err;
    }
    if (g->of[ROLE_CHIEF].n > 1)
        return err_set(e, ERR_INPUT,
                       "TF_CONFIG: the cluster has %u chiefs (or masters); allowed: one",
                       g->of[ROLE_CHIEF].n);
    return ERR_OK;
}

static enum err tf_config_object(struct cluster_given *g, const json_t *root, struct errmsg *e)
{
    if (!json_is_object(root))
        return err_set(e, ERR_INPUT,
                       "TF_CONFIG: it must be an object with \"cluster\" and \"task\"");
    json_t *dense = json_object_get(root, "cluster"),
           *sparse = json_object_get(root, "sparseCluster");
    json_t *cluster = dense ? dense : sparse;
    enum err err = task(g, root, e);
    if (err)
        return err;
    if (!json_is_object(cluster))
        return err_set(e, ERR_INPUT,
                       "TF_CONFIG: \"cluster\" is missing; example: {\"ps\": [\"host:port\"], "
                       "\"worker\": [...]}");
    return cluster_object(g, cluster, !dense, e);
}

enum err cluster_given_tf_config(struct cluster_given *g, const char *text, struct errmsg *e)
{
    if (!text || text[strspn(text, " \t\r\n")] == 0)
        return ERR_OK;
    json_error_t problem;
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &problem);
    if (!root)
        return json_error_code(&problem) == json_error_out_of_memory
                   ? err_memory(e)
                   : err_set(e, ERR_INPUT, "TF_CONFIG: not JSON: line %d, column %d: %s",
                             problem.line, problem.column, problem.text);
    g->any = true;
    enum err err = tf_config_object(g, root, e);
    json_decref(root);
    return err;
}

/* ---- flags ---- */

static bool said(const char *flag)
{
    return flag && *flag;
}

/* Replaces *a with the hosts of a flag, "a:1,b:2". */
static enum err flag_hosts(struct addresses *a, const char *flag, const char *hosts,
                           struct errmsg *e)
{
    char *copy = mem_strdup(hosts), *rest = copy;
    enum err err = copy ? ERR_OK : err_memory(e);
    addresses_close(a);
    a->by_flag = true;
    while (rest && !err)
        err = addresses_add(a, strsep(&rest, ","), flag, e);
    mem_free(copy);
    return err;
}

static enum err flag_task(struct cluster_given *g, const struct cluster_flags *flags,
                          struct errmsg *e)
{
    enum role role;
    if (said(flags->job_name)) {
        if (!role_parse(flags->job_name, &role))
            return refuse_role("--job_name", flags->job_name, e);
        if (!g->has_role || g->role != role)
            g->has_index = false; /* TF_CONFIG's index is valid only for its own role */
        g->role = role;
        g->has_role = true;
    }
    if (flags->task_index < -1 || flags->task_index > INT32_MAX)
        return err_set(e, ERR_INPUT, "--task_index: %lld is not allowed; allowed: a number from 0",
                       (long long)flags->task_index);
    if (flags->task_index >= 0) {
        g->index = (uint32_t)flags->task_index;
        g->has_index = true;
    }
    return ERR_OK;
}

enum err cluster_given_flags(struct cluster_given *g, const struct cluster_flags *flags,
                             struct errmsg *e)
{
    bool any = said(flags->job_name) || said(flags->ps_hosts) || said(flags->worker_hosts) ||
               said(flags->chief_host) || flags->task_index != -1;
    bool alone = any && !g->any;
    if (!any)
        return ERR_OK;
    enum err err = flag_task(g, flags, e);
    if (!err && said(flags->ps_hosts)) {
        err = flag_hosts(&g->of[ROLE_PS], "--ps_hosts", flags->ps_hosts, e);
        g->part_of_ps = false;
    }
    if (!err && said(flags->worker_hosts)) {
        err = flag_hosts(&g->of[ROLE_WORKER], "--worker_hosts", flags->worker_hosts, e);
        g->part_of_workers = false;
    } else if (alone && g->role != ROLE_CHIEF && said(flags->ps_hosts)) {
        g->part_of_workers = true;
    }
    if (!err && said(flags->chief_host))
        err = flag_hosts(&g->of[ROLE_CHIEF], "--chief_host", flags->chief_host, e);
    if (!err && g->of[ROLE_CHIEF].n > 1)
        err = err_set(e, ERR_INPUT, "--chief_host: %u addresses are given; allowed: one",
                      g->of[ROLE_CHIEF].n);
    g->any = true;
    return err;
}
