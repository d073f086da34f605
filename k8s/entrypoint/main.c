/* PID 1 of the container image: it finds out which process of the job this is, and becomes that process.
 *
 * Happy path: TF_CONFIG (from an operator, or made here from the pod's ordinal) -> role -> exec of gradwire-ps or
 * gradwire-worker, which handle signals themselves. Where a ps and a worker share the container, in the hosts form and in a
 * job without ps replicas, this process stays as their parent. Failure modes: input that names no process, or two, gives
 * one line on stderr and exit 2. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/cluster/cluster_given.h"
#include "common/flags/flags.h"
#include "common/peers/auth.h"
#include "common/process/signals.h"
#include "common/process/termination.h"
#include "common/process/ulimits.h"
#include "k8s/entrypoint/beside.h"
#include "k8s/entrypoint/command.h"
#include "k8s/entrypoint/form.h"
#include "k8s/entrypoint/hosts.h"
#include "k8s/entrypoint/ordinals.h"
#include "k8s/entrypoint/pair.h"

/* Is this a pod NAME-ps-I? If it is the job's only pod, an operator sets no TF_CONFIG. As a ps it then reports what is
 * missing. */
static bool named_ps(const char *pod)
{
    uint32_t ordinal;
    const char *dash = strrchr(pod, '-');
    return dash && dash - pod >= 3 && memcmp(dash - 3, "-ps", 3) == 0 &&
           ordinals_read(pod, &ordinal, NULL) == ERR_OK;
}

static enum err find_role(const char *pod, enum role *role, struct errmsg *e)
{
    struct cluster_given g = {.role = ROLE_WORKER};
    const struct cluster_flags flags = {flags_text("job_name"), "", "", "", -1, 0};
    enum err err = cluster_given_tf_config(&g, getenv("TF_CONFIG"), e);
    if (!err)
        err = cluster_given_flags(&g, &flags, e);
    if (!err)
        *role = !g.any && !flags_on("alone") && named_ps(pod) ? ROLE_PS : g.role;
    cluster_given_close(&g);
    return err;
}

/* Both programs read it. */
static enum err set_tf_config(const char *json, struct errmsg *e)
{
    if (setenv("TF_CONFIG", json, 1))
        return err_memory(e);
    if (flags_on("print"))
        printf("TF_CONFIG=%s\n", json);
    return ERR_OK;
}

static enum err make_tf_config(const char *pod, struct errmsg *e)
{
    char *json = NULL;
    enum err err = ordinals_tf_config(getenv("JOB_COMPLETION_INDEX"), pod, &json, e);
    if (!err)
        err = set_tf_config(json, e);
    free(json);
    return err;
}

/* A job without a token stays on loopback outside of a pod, and in a pod whose process is not named by TF_CONFIG or
 * flags. */
static enum err say_pod(struct errmsg *e)
{
    int failed = form_hosts() || form_tf_config() ? setenv(AUTH_POD, "1", 1) : unsetenv(AUTH_POD);
    return failed ? err_memory(e) : ERR_OK;
}

static enum err run_one(const char *pod, int *code, struct errmsg *e)
{
    static struct command command;
    enum role role = ROLE_WORKER;
    enum err err = find_role(pod, &role, e);
    if (!err)
        err = command_init(&command, role, e);
    if (err)
        return err;
    if (flags_on("print"))
        command_print(&command);
    else
        *code = command_exec(&command);
    return ERR_OK;
}

/* `index`: of the ps, and so of its host or pod. The chief is in the first. */
static int run_both(const struct command *ps, const struct command *worker, uint32_t index)
{
    char *const *first = (char *const *)ps->words, *const *second = (char *const *)worker->words;
    if (flags_on("doctor"))
        return pair_in_turn(first, second);
    if (!flags_on("print"))
        return pair_run(first, second, index == 0, command_last_words());
    command_print(ps);
    command_print(worker);
    return 0;
}

/* Both get all flags. A worker accepts no --grace_s but 0, which is the default. */
static enum err init_both(struct command *ps, struct command *worker, struct errmsg *e)
{
    enum err err = command_init(ps, ROLE_PS, e);
    if (!err)
        err = command_init(worker, ROLE_WORKER, e);
    return err || !flags_given("grace_s") ? err : command_add(worker, e, "--grace_s=0");
}

static enum err add_place(struct command *c, const struct hosts *h, const char *role, uint32_t http,
                          struct errmsg *e)
{
    enum err err = command_add(c, e, "--ps_hosts=%s", h->ps_hosts);
    if (!err)
        err = command_add(c, e, "--worker_hosts=%s", h->worker_hosts);
    if (!err)
        err = command_add(c, e, "--task_index=%u", h->index);
    if (!err)
        err = command_add(c, e, "--job_name=%s", role);
    return err || !http ? err : command_add(c, e, "--http_port=%u", http);
}

static enum err run_host(int *code, struct errmsg *e)
{
    static struct command ps, worker;
    static struct hosts hosts;
    enum err err = hosts_init(&hosts, e);
    if (!err)
        err = init_both(&ps, &worker, e);
    if (!err)
        err = add_place(&ps, &hosts, "ps", 0, e);
    if (!err)
        err = add_place(&worker, &hosts, "worker", hosts.worker_http, e);
    if (!err)
        *code = run_both(&ps, &worker, hosts.index);
    return err;
}

static enum err run_beside(const struct beside *b, int *code, struct errmsg *e)
{
    static struct command ps, worker;
    enum err err = init_both(&ps, &worker, e);
    if (!err)
        err = command_add(&ps, e, "--job_name=ps");
    if (!err)
        err = command_add(&ps, e, "--task_index=%u", b->ps);
    if (!err && b->ps_http)
        err = command_add(&ps, e, "--http_port=%u", b->ps_http);
    if (!err)
        *code = run_both(&ps, &worker, b->ps);
    return err;
}

static enum err run_by_tf_config(const char *pod, int *code, struct errmsg *e)
{
    struct beside beside = {0};
    enum err err = form_flags() ? ERR_OK : beside_init(&beside, getenv("TF_CONFIG"), e);
    if (!err && beside.wanted)
        err = set_tf_config(beside.tf_config, e);
    if (!err)
        err = beside.has_ps ? run_beside(&beside, code, e) : run_one(pod, code, e);
    beside_close(&beside);
    return err;
}

static enum err run(const char *pod, int *code, struct errmsg *e)
{
    enum err err = form_check(e);
    if (!err && form_ordinals())
        err = make_tf_config(pod, e);
    if (!err)
        err = say_pod(e);
    if (err)
        return err;
    return form_hosts()       ? run_host(code, e)
           : form_tf_config() ? run_by_tf_config(pod, code, e)
                              : run_one(pod, code, e);
}

int main(int argc, char **argv)
{
    struct errmsg e = {""};
    char pod[HOST_NAME_MAX + 1] = "";
    ulimits_init();
    signals_block(); /* until the program that replaces this one handles them */
    log_init("entrypoint", log_level_of("info"));
    (void)gethostname(pod, sizeof pod - 1);
    int code = 0;
    static char doctor[] = "--doctor";
    if (argc > 1 && strcmp(argv[1], "doctor") == 0)
        argv[1] = doctor;
    enum err err = flags_read("entrypoint", argc, argv, &e);
    if (!err)
        flags_answer("entrypoint");
    if (!err)
        err = run(pod, &code, &e);
    if (!err)
        return code;
    log_error("%s", e.text);
    termination_write(command_last_words(), e.text);
    return err_exit_code(err);
}
