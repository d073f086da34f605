/* PID 1 of the container image: it finds out which process of the job this is, and becomes that process.
 *
 * Happy path: TF_CONFIG (from an operator, or made here from the pod's ordinal) -> role -> exec of gradwire-ps or
 * gradwire-worker, which handle signals themselves. Where a ps and a worker share the container, in the hosts form and in a
 * job without ps replicas, this process stays as their parent. Failure modes: input that names no process, or two, gives
 * one line on stderr and exit 2. */
#include <assert.h>
#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/base/digits.h"
#include "common/base/err.h"
#include "common/base/log.h"
#include "common/cluster/address.h"
#include "common/cluster/cluster.h"
#include "common/flags/flags.h"
#include "common/peers/token.h"
#include "common/process/child.h"
#include "common/process/signals.h"
#include "common/process/cgroup.h"

/* ---- two programs, as children of this process ---- */

static pid_t pair_start(char *const *argv, const sigset_t *mask)
{
    pid_t pid = fork();
    if (pid == 0) {
        (void)sigprocmask(SIG_SETMASK, mask, NULL);
        execv(argv[0], argv);
        log_error("%s: %s", argv[0], strerror(errno));
        _exit(1);
    }
    if (pid < 0)
        log_error("%s: cannot be started: %s", argv[0], strerror(errno));
    return pid;
}

enum { PAIR_PS, PAIR_WORKER, PAIR_LATE_S = 10 };

struct pair {
    const char *programs[2];
    pid_t pids[2]; /* 0: it has ended */
    bool is_chief;
    bool too_late; /* the worker got SIGTERM, because the job is done */
    int code;      /* the first exit code that is not 0 */
    const char *path;
    char words[TERMINATION_BYTES]; /* the reason of the one that failed first; "": it gave none */
};

static void pair_tell(const struct pair *p)
{
    for (int i = 0; i < 2; i++)
        if (p->pids[i] > 0)
            (void)kill(p->pids[i], SIGTERM);
}

/* Keep the reason that the program wrote, because the other one writes its own over it after SIGTERM. */
static void pair_keep_words(struct pair *p)
{
    FILE *file = p->path[0] ? fopen(p->path, "re") : NULL;
    if (!file)
        return;
    p->words[fread(p->words, 1, sizeof p->words - 1, file)] = 0;
    (void)fclose(file);
}

static void pair_fail(struct pair *p, int i, int status)
{
    if (WIFSIGNALED(status))
        (void)snprintf(p->words, sizeof p->words, "%s was killed by signal %d (%s)", p->programs[i],
                       WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        pair_keep_words(p);
    p->code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    if (WIFSIGNALED(status))
        log_error("%s", p->words);
    pair_tell(p);
}

/* Reap all processes that have ended. PID 1 also gets orphans that it did not start. */
static void pair_reap(struct pair *p)
{
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
        if (pid != p->pids[PAIR_PS] && pid != p->pids[PAIR_WORKER])
            continue;
        int i = pid == p->pids[PAIR_WORKER] ? PAIR_WORKER : PAIR_PS;
        p->pids[i] = 0;
        if (status && !p->code && !p->too_late)
            pair_fail(p, i, status);
    }
}

/* A worker that first connects when the job is done finds no process that could report the end to it. */
static void pair_end_late_worker(struct pair *p)
{
    log_info("the job is done: ending the worker, which connected too late to learn this");
    p->too_late = true;
    pair_tell(p);
}

/* Wait for a signal. Returns 0 if none came for PAIR_LATE_S and the ps has ended with 0. */
static int pair_next_signal(const struct pair *p, const sigset_t *mine)
{
    static const struct timespec late = {.tv_sec = PAIR_LATE_S};
    bool is_done = !p->is_chief && !p->pids[PAIR_PS] && !p->code && !p->too_late;
    int sig = (int)TEMP_FAILURE_RETRY(sigtimedwait(mine, NULL, is_done ? &late : NULL));
    return sig < 0 ? 0 : sig;
}

static const char *pair_name(char *const *argv)
{
    const char *slash = strrchr(argv[0], '/');
    return slash ? slash + 1 : argv[0];
}

/* Run both programs until both have ended; each is a NULL-terminated argv. `is_chief`: the worker is the job's chief.
 * SIGTERM and SIGINT are passed on to both as SIGTERM. If one ends with another code than 0, the other gets SIGTERM. If the
 * ps ends with 0, the job is done: a worker that is not the chief and still runs 10 s later connected too late to learn
 * this. It gets SIGTERM, and its code does not count. `last_words` ("": none) is the file to which both write a reason at
 * their end: at the end of this call it has the reason of the one that failed first. Returns the exit code of the container:
 * the first code that is not 0 (128 + the signal for a signal), or 0; 138, which requests a restart, if a process cannot be
 * forked. */
static int pair_run(char *const *ps, char *const *worker, bool is_chief, const char *last_words)
{
    sigset_t mine, before;
    struct pair p = {
        .programs = {pair_name(ps), pair_name(worker)}, .is_chief = is_chief, .path = last_words};
    (void)sigemptyset(&mine);
    (void)sigaddset(&mine, SIGTERM);
    (void)sigaddset(&mine, SIGINT);
    (void)sigaddset(&mine, SIGCHLD);
    (void)sigprocmask(SIG_BLOCK, &mine, &before);
    p.pids[PAIR_PS] = pair_start(ps, &before);
    p.pids[PAIR_WORKER] = p.pids[PAIR_PS] > 0 ? pair_start(worker, &before) : -1;
    if (p.pids[PAIR_WORKER] < 0) {
        p.code = 138; /* no memory, or too many processes: a restart may help */
        pair_tell(&p);
    }
    while (p.pids[PAIR_PS] > 0 || p.pids[PAIR_WORKER] > 0) {
        int sig = pair_next_signal(&p, &mine);
        if (!sig)
            pair_end_late_worker(&p);
        else if (sig != SIGCHLD)
            pair_tell(&p);
        pair_reap(&p);
    }
    if (p.words[0])
        termination_write(p.path, p.words);
    return p.code;
}

static int pair_code(pid_t pid)
{
    int status = 0;
    (void)TEMP_FAILURE_RETRY(waitpid(pid, &status, 0));
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Run one program after the other, the second one also if the first one fails. Returns the larger exit code (128 + the
 * signal for a signal; 1 if a process cannot be forked). */
static int pair_in_turn(char *const *first, char *const *second)
{
    sigset_t none;
    char *const *const of[] = {first, second};
    int worst = 0;
    (void)sigemptyset(&none);
    for (int i = 0; i < 2; i++) {
        pid_t pid = pair_start(of[i], &none);
        int code = pid > 0 ? pair_code(pid) : 1;
        worst = code > worst ? code : worst;
    }
    return worst;
}

/* ---- which process ----
 * The source that says which process of the job this container runs: TF_CONFIG, the ordinal of the pod, the hosts form's addresses, or
 * the programs' own flags. Without any of them the container trains alone. */

/* --worker_ips */
static bool form_hosts(void)
{
    return flags_given("worker_ips");
}

/* --role */
static bool form_ordinals(void)
{
    return flags_given("role");
}

/* TF_CONFIG is set and not blank */
static bool form_tf_config(void)
{
    const char *config = getenv("TF_CONFIG");
    return config && config[strspn(config, " \t\r\n")];
}

/* --ps_hosts, --job_name, ..: as for a ps or worker, over TF_CONFIG */
static bool form_flags(void)
{
    static const char *const names[] = {"job_name", "task_index", "ps_hosts", "worker_hosts",
                                        "chief_host"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (flags_given(names[i]))
            return true;
    return false;
}

/* none of them */
static bool form_alone(void)
{
    return !form_hosts() && !form_ordinals() && !form_tf_config() && !form_flags();
}

/* Check that at most one of --worker_ips, --role and TF_CONFIG (with or without flags) says which process this is, and if
 * none does, that no variable makes this container one of several (signs_check), or that --alone is given. Errors: ERR_INPUT. */
static enum err form_check(struct errmsg *e)
{
    const char *form = form_hosts() ? "--worker_ips" : "--role";
    bool formed = form_ordinals() || form_hosts();
    if (form_ordinals() && form_hosts())
        return err_set(e, ERR_INPUT, "--role and --worker_ips both say which process this is");
    if (form_tf_config() && formed)
        return err_set(e, ERR_INPUT, "TF_CONFIG is set, and %s says which process this is, too",
                       form);
    if (flags_given("job_name") && formed)
        return err_set(e, ERR_INPUT, "--job_name and %s both say which process this is", form);
    return signs_check(!form_alone(), flags_on("alone"), getenv, e);
}

/* ---- HTTP ----
 * The ports of a container that runs a ps and a worker. */

enum { PORT_MAX = 65535 };

/* Set *next to the second process's HTTP port, the one after --http_port; 0: none is given. `port` and the next are the
 * container's other two ports, `said` names `port` in messages, and `other` is "ps" or "worker". Errors: ERR_INPUT: there
 * is no next port, or HTTP meets the other ports. */
static enum err http_next(uint32_t *next, uint32_t port, const char *said, const char *other,
                          struct errmsg *e)
{
    uint32_t http = (uint32_t)flags_number("http_port");
    if (http == PORT_MAX)
        return err_set(
            e, ERR_INPUT,
            "--http_port: '%u' is not allowed; allowed: 1 to 65534 (the %s has the next)", http,
            other);
    if (http && http + 1 >= port && http <= port + 1)
        return err_set(e, ERR_INPUT,
                       "--http_port=%u and the next meet %s and the next; give HTTP two others",
                       http, said);
    *next = http ? http + 1 : 0;
    return ERR_OK;
}

/* ---- the command line ----
 * That of a ps or worker in the container: the program, flags for the files that the container has, and the
 * flags that this process got. */

enum { COMMAND_GIVEN_MAX = 1024, COMMAND_WORDS_MAX = COMMAND_GIVEN_MAX + 24 };

struct command {
    char program[PATH_MAX];
    const char *words[COMMAND_WORDS_MAX]; /* NULL after the last, as for execv */
    size_t n;
};

#define JOB_FILE "/etc/gradwire/job.yaml"
#define EXAMPLE_FILE "/usr/share/gradwire/examples/mnist/mlp.yaml"
#define TOKEN_FILE "/run/secrets/gradwire/token"
#define TLS_DIR "/run/secrets/gradwire-tls" /* a Secret in cert-manager's form */
/* Kubernetes creates this file, and reads it when the container has ended. */
#define TERMINATION_FILE "/dev/termination-log"
#define OUTPUT_DIR "/output"

/* The file for the container's last words, or "": --termination_message, otherwise Kubernetes' file, if it is there. */
static const char *command_last_words(void)
{
    const char *given = flags_given("termination_message");
    return given ? given : access(TERMINATION_FILE, W_OK) == 0 ? TERMINATION_FILE : "";
}

/* Add flags for the files of the container. Flags that come later override them. */
static void add_defaults(struct command *c)
{
    if (!flags_given("job"))
        c->words[c->n++] = "--job=" JOB_FILE;
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
    if (form_alone() && flags_given("http_port") && !flags_given("http_address"))
        c->words[c->n++] =
            "--http_address=*"; /* it has no address, and probes come from outside of the pod */
    if (access(TERMINATION_FILE, W_OK) == 0)
        c->words[c->n++] = "--termination_message=" TERMINATION_FILE;
}

/* A ConfigMap that is not mounted, or whose key has another name, must not lead to another job. */
static enum err check_job_file(struct errmsg *e)
{
    bool runs = !flags_on("print") && !flags_on("doctor");
    if (!runs || flags_given("job") || access(JOB_FILE, F_OK) == 0 || errno == EACCES)
        return ERR_OK;
    return err_set(e, ERR_INPUT,
                   JOB_FILE
                   ": %s: mount a ConfigMap with the key job.yaml in /etc/gradwire, or give "
                   "--job=FILE (an example that needs no data: --job=" EXAMPLE_FILE ")",
                   strerror(errno));
}

/* Fill *c, which is zero, for a process of this role: the program, the container's files, then the flags that were read.
 * With --doctor the program is the worker, which checks for all roles. The words live as long as the process. Errors:
 * ERR_INPUT. */
static enum err command_init(struct command *c, enum role role, struct errmsg *e)
{
    size_t n;
    const char *const *rest = flags_list(FLAGS_REST, &n);
    bool doctor = flags_on("doctor");
    if (n > COMMAND_GIVEN_MAX)
        return err_set(e, ERR_INPUT, "more than %d words", COMMAND_GIVEN_MAX);
    enum err err = check_job_file(e);
    if (!err)
        err = program_beside(c->program, !doctor && role == ROLE_PS ? "ps" : "worker", e);
    if (err)
        return err;
    c->words[c->n++] = c->program;
    if (doctor)
        c->words[c->n++] = "--doctor";
    if (doctor && role == ROLE_PS && !form_hosts() && !form_tf_config() && !flags_given("job_name"))
        c->words[c->n++] = "--job_name=ps"; /* the program ps knows this itself */
    add_defaults(c);
    for (size_t i = 0; i < n; i++)
        c->words[c->n++] = rest[i];
    return ERR_OK;
}

/* Add a word, which is copied and never freed; of flags that are given twice the last one counts. Errors: ERR_NOMEM. */
static enum err command_add(struct command *c, struct errmsg *e, const char *format, ...)
    PRINTF_LIKE(3, 4);
static enum err command_add(struct command *c, struct errmsg *e, const char *format, ...)
{
    char *word = NULL;
    va_list args;
    assert(c->n + 1 < COMMAND_WORDS_MAX);
    va_start(args, format);
    int bytes = vasprintf(&word, format, args);
    va_end(args);
    if (bytes < 0)
        return err_memory(e);
    c->words[c->n++] = word;
    return ERR_OK;
}

/* Print the words as one line. */
static void command_print(const struct command *c)
{
    for (size_t i = 0; i < c->n; i++)
        printf("%s%c", c->words[i], i + 1 < c->n ? ' ' : '\n');
}

/* Become the program. Returns, with the exit code 1, only if that fails; the log has the reason. */
static int command_exec(struct command *c)
{
    (void)fflush(stdout);
    execv(c->program, (char *const *)c->words);
    log_error("%s: %s", c->program, strerror(errno));
    return 1;
}

/* ---- a ps next to each worker ----
 * A job without ps replicas: TF_CONFIG lists a chief and workers, or workers alone, and each of them has a ps
 * of its own, in the same container, on the next port. The chief's is ps 0, then come those of the workers in order. */

struct beside {
    bool wanted;      /* the job is such a job; otherwise the rest is zero */
    bool has_ps;      /* this process has a ps; an evaluator has none */
    uint32_t ps;      /* the index of that ps */
    uint32_t ps_http; /* the --http_port of that ps; 0: none */
    char *tf_config;  /* TF_CONFIG with the ps added, for both programs; freed by beside_close */
};

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

/* Read TF_CONFIG and --http_port. A process that is the only one of its job, or that knows only its own address (dynamic
 * workers), has no ps of its own. *b is unchanged on error. Errors: ERR_INPUT with one line: TF_CONFIG is wrong, or a port
 * has no next one or is taken; ERR_NOMEM. */
static enum err beside_init(struct beside *b, const char *tf_config, struct errmsg *e)
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

static void beside_close(struct beside *b)
{
    free(b->tf_config);
    *b = (struct beside){0};
}

/* ---- the hosts form ----
 * A ps and a worker on each of the hosts that the flags list. */

enum { HOSTS_MAX = 256, HOSTS_LIST_BYTES = 32 * 1024 };

struct hosts { /* the two processes of this host */
    char ps_hosts[HOSTS_LIST_BYTES], worker_hosts[HOSTS_LIST_BYTES]; /* as the flags of this name */
    uint32_t index, worker_http; /* the worker's --http_port; 0: neither process has one */
};

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

/* Fill *h from --worker_ips, --current_ip, --port and --http_port. Errors: ERR_INPUT with one line: --current_ip is not
 * in the list, an address is in it twice, the list is too long, or a port is wrong. */
static enum err hosts_init(struct hosts *h, struct errmsg *e)
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

/* ---- ordinals ----
 * Which process of the job this pod runs is found by the pod's ordinal, if no operator sets TF_CONFIG. */

/* The number after the last '-' of a pod's name. Errors: ERR_INPUT if the name has none. */
static enum err ordinals_read(const char *pod, uint32_t *ordinal, struct errmsg *e)
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

/* Make a dense TF_CONFIG from --role, --ps, --workers and the patterns, which must all be given, and --chief_address. The
 * caller frees *json with free. `completion` is JOB_COMPLETION_INDEX or NULL, `pod` the host's name. Errors: ERR_INPUT
 * with one line; ERR_NOMEM. */
static enum err ordinals_tf_config(const char *completion, const char *pod, char **json,
                                   struct errmsg *e)
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

/* ---- the program ---- */

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
