/* PID 1 of the container image: it finds out which process of the job this is, and becomes that process.
 *
 * Happy path: TF_CONFIG (from an operator, or made here from the pod's ordinal) -> role -> exec of gradwire-ps or
 * gradwire-worker, which handle signals themselves. Only in the hosts form, with two processes in one container, this
 * process stays as their parent. Failure modes: input that names no process, or two, gives one line on stderr and
 * exit 2. */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/peers/auth.h"
#include "common/cluster/cluster_given.h"
#include "common/flags/flags.h"
#include "common/base/log.h"
#include "common/process/program.h"
#include "common/process/signals.h"
#include "common/process/termination.h"
#include "k8s/entrypoint/pair.h"
#include "k8s/entrypoint/place.h"

#define JOB_FILE "/etc/gradwire/job.yaml"
#define EXAMPLE_FILE "/usr/share/gradwire/examples/mnist/mlp.yaml"
#define TOKEN_FILE "/run/secrets/gradwire/token"
#define TLS_DIR "/run/secrets/gradwire-tls" /* a Secret in cert-manager's form */
/* Kubernetes creates this file, and reads it when the container has ended. */
#define TERMINATION_FILE "/dev/termination-log"
#define OUTPUT_DIR "/output"

enum { GIVEN_MAX = 1024, WORDS_MAX = GIVEN_MAX + 16 };

struct command {
    char program[PATH_MAX];
    const char *words[WORDS_MAX];
    size_t n;
};

/* Add flags for the files of the container. Flags that come later override them. */
static void add_defaults(struct command *c)
{
    bool job = flags_given("job"), job_file = access(JOB_FILE, R_OK) == 0;
    if (!job && !job_file)
        log_info("no --job and no " JOB_FILE ": training the example, " EXAMPLE_FILE);
    if (!job)
        c->words[c->n++] = job_file ? "--job=" JOB_FILE : "--job=" EXAMPLE_FILE;
    c->words[c->n++] = "--output=" OUTPUT_DIR;
    bool proof = strcmp(flags_text("auth"), "none") != 0;
    bool token = flags_given("token_file") || flags_number("token_fd") >= 0;
    if (!token && proof && access(TOKEN_FILE, F_OK) == 0)
        c->words[c->n++] = "--token_file=" TOKEN_FILE;
    if (!flags_given("tls_cert") && proof &&
        access(TLS_DIR, F_OK) == 0) { /* the program reports a file that is missing there */
        c->words[c->n++] = "--tls_cert=" TLS_DIR "/tls.crt";
        c->words[c->n++] = "--tls_key=" TLS_DIR "/tls.key";
        c->words[c->n++] = "--tls_ca=" TLS_DIR "/ca.crt";
    }
    if (access(TERMINATION_FILE, W_OK) == 0)
        c->words[c->n++] = "--termination_message=" TERMINATION_FILE;
}

static bool by_hosts(void)
{
    return flags_given("worker_ips");
}

static enum err command_init(struct command *c, enum role role, struct errmsg *e)
{
    size_t n;
    const char *const *rest = flags_list(FLAGS_REST, &n);
    bool doctor = flags_on("doctor");
    if (n > GIVEN_MAX)
        return err_set(e, ERR_INPUT, "more than %d words", GIVEN_MAX);
    enum err err = program_beside(c->program, !doctor && role == ROLE_PS ? "ps" : "worker", e);
    if (err)
        return err;
    c->words[c->n++] = c->program;
    if (doctor)
        c->words[c->n++] = "--doctor";
    if (doctor && role == ROLE_PS && !by_hosts() && !flags_given("job_name") &&
        !getenv("TF_CONFIG"))
        c->words[c->n++] = "--job_name=ps"; /* the program ps knows this itself */
    add_defaults(c);
    for (size_t i = 0; i < n; i++)
        c->words[c->n++] = rest[i];
    return ERR_OK;
}

static void command_print(const struct command *c)
{
    for (size_t i = 0; i < c->n; i++)
        printf("%s%c", c->words[i], i + 1 < c->n ? ' ' : '\n');
}

static int command_exec(struct command *c)
{
    (void)fflush(stdout);
    execv(c->program, (char *const *)c->words);
    log_error("%s: %s", c->program, strerror(errno));
    return 1;
}

/* Is this a pod NAME-ps-I? If it is the job's only pod, an operator sets no TF_CONFIG. As a ps it then reports what is
 * missing. */
static bool named_ps(const char *pod)
{
    uint32_t ordinal;
    const char *dash = strrchr(pod, '-');
    return dash && dash - pod >= 3 && memcmp(dash - 3, "-ps", 3) == 0 &&
           place_ordinal(pod, &ordinal, NULL) == ERR_OK;
}

static enum err find_role(const char *pod, enum role *role, struct errmsg *e)
{
    struct cluster_given g = {.role = ROLE_WORKER};
    const struct cluster_flags flags = {flags_text("job_name"), "", "", "", -1, 0};
    enum err err = cluster_given_tf_config(&g, getenv("TF_CONFIG"), e);
    if (!err)
        err = cluster_given_flags(&g, &flags, e);
    if (!err)
        *role = !g.any && named_ps(pod) ? ROLE_PS : g.role;
    cluster_given_close(&g);
    return err;
}

static bool by_ordinals(void)
{
    return flags_given("role");
}

static bool by_tf_config(void)
{
    const char *config = getenv("TF_CONFIG");
    return config && config[strspn(config, " \t\r\n")];
}

/* Exactly one source may say which process this is. */
static enum err check_one(struct errmsg *e)
{
    const char *form = by_hosts() ? "--worker_ips" : "--role";
    bool formed = by_ordinals() || by_hosts();
    if (by_ordinals() && by_hosts())
        return err_set(e, ERR_INPUT, "--role and --worker_ips both say which process this is");
    if (by_tf_config() && formed)
        return err_set(e, ERR_INPUT, "TF_CONFIG is set, and %s says which process this is, too",
                       form);
    if (flags_given("job_name") && formed)
        return err_set(e, ERR_INPUT, "--job_name and %s both say which process this is", form);
    return ERR_OK;
}

static enum err make_tf_config(const char *pod, struct errmsg *e)
{
    char *json = NULL;
    enum err err = place_tf_config(getenv("JOB_COMPLETION_INDEX"), pod, &json, e);
    if (!err && setenv("TF_CONFIG", json, 1))
        err = err_set(e, ERR_NOMEM, "out of memory");
    if (!err && flags_on("print"))
        printf("TF_CONFIG=%s\n", json);
    free(json);
    return err;
}

/* A job without a token stays on loopback outside of a pod, and in a pod whose process is not named by TF_CONFIG or
 * flags. */
static enum err say_pod(struct errmsg *e)
{
    int failed = by_hosts() || by_tf_config() ? setenv(AUTH_POD, "1", 1) : unsetenv(AUTH_POD);
    return failed ? err_set(e, ERR_NOMEM, "out of memory") : ERR_OK;
}

static enum err run_one(const char *pod, int *code, struct errmsg *e)
{
    static struct command command;
    enum role role = ROLE_WORKER;
    enum err err = by_ordinals() ? make_tf_config(pod, e) : ERR_OK;
    if (!err)
        err = find_role(pod, &role, e);
    if (!err)
        err = say_pod(e);
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

static enum err run_pair(int *code, struct errmsg *e)
{
    static struct command ps, worker;
    static struct place_hosts hosts;
    static char lists[2][PLACE_LIST_BYTES + 32], index[32], http[32];
    enum err err = place_hosts(&hosts, e);
    if (!err)
        err = say_pod(e);
    if (!err)
        err = command_init(&ps, ROLE_PS, e);
    if (!err)
        err = command_init(&worker, ROLE_WORKER, e);
    if (err)
        return err;
    (void)snprintf(lists[0], sizeof lists[0], "--ps_hosts=%s", hosts.ps_hosts);
    (void)snprintf(lists[1], sizeof lists[1], "--worker_hosts=%s", hosts.worker_hosts);
    (void)snprintf(index, sizeof index, "--task_index=%u", hosts.index);
    const char *of[] = {lists[0], lists[1], index};
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++)
        ps.words[ps.n++] = worker.words[worker.n++] = of[i];
    ps.words[ps.n++] = "--job_name=ps";
    worker.words[worker.n++] = "--job_name=worker";
    (void)snprintf(http, sizeof http, "--http_port=%u", hosts.worker_http);
    if (hosts.worker_http)
        worker.words[worker.n++] = http; /* the last flag overrides earlier ones */
    if (flags_on("print")) {
        command_print(&ps);
        command_print(&worker);
    } else {
        *code = (flags_on("doctor") ? pair_in_turn : pair_run)((char *const *)ps.words,
                                                               (char *const *)worker.words);
    }
    return ERR_OK;
}

int main(int argc, char **argv)
{
    struct errmsg e = {""};
    char pod[HOST_NAME_MAX + 1] = "";
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
        err = check_one(&e);
    if (!err)
        err = by_hosts() ? run_pair(&code, &e) : run_one(pod, &code, &e);
    if (!err)
        return code;
    log_error("%s", e.text);
    if (access(TERMINATION_FILE, W_OK) == 0)
        termination_write(TERMINATION_FILE, e.text);
    return err == ERR_INPUT ? 2 : err == ERR_NOMEM ? 138 : 1;
}
