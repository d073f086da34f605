/* `launch runner KEY`: the launcher executes this on another host through a remote shell. It starts the job's processes
 * there, and ends them when the connection to the launcher is lost.
 *
 * Happy path: it takes the lock of KEY on its host, sends READY, binds ports, starts processes on request, and sends
 * their output and exit statuses. In the end the launcher closes its input, no process runs any more, and it exits with
 * 0.
 * Failure modes:
 * - Its input closes, or is silent for TALK_SILENCE_MS: SIGTERM to all processes, and after the grace, at most
 *   RUNNER_GRACE_MAX_MS, SIGKILL to their process groups.
 * - The runner is killed: a guardian (guardian.h) does the same.
 * - An earlier runner's processes still run: they hold the lock, so the new runner waits, and no process runs twice.
 * - The processes write more than the connection can take: output beyond RUNNER_QUEUE_MAX_BYTES is dropped, and a line
 *   in the process's log gives the number of dropped bytes. A process never waits for its log. */
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/process/cgroup.h"
#include "common/process/dirlock.h"
#include "common/process/files.h"
#include "common/process/output.h"
#include "common/net/listen.h"
#include "common/net/socket.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "launch/base/options.h"
#include "common/base/version.h"
#include "launch/remote/check.h"
#include "launch/local/crew.h"
#include "launch/local/guardian.h"
#include "launch/remote/talk.h"

enum {
    RUNNER_GRACE_MAX_MS = 5000,
    RUNNER_IDLE_SILENCE_MS =
        60000, /* while no process runs: the launcher can be waiting for a lock */
    RUNNER_QUEUE_MAX_BYTES = 4 << 20,
    RUNNER_PROCESSES_MAX = 4096
};

enum { RUNNER_CHECK_EVERY_MS = 500, RUNNER_READ_BYTES = 32 << 10 };

struct runner;

/* The read end of a pipe for a process's output, which is sent to the launcher. */
struct outlet {
    struct runner *runner;
    uint32_t process;
    enum talk_type type;
    int fd; /* -1: none */
    struct event *event;
    uint64_t left_out; /* dropped bytes since the connection was last fast enough */
};

struct ward {
    pid_t pid;     /* 0: not running */
    int listen_fd; /* -1: no port bound */
    bool started;  /* was started before in this job */
    struct outlet out, progress;
};

struct runner {
    struct event_base *base;
    struct talk talk;
    bool talking;
    struct web web;
    int page_fd; /* socket of the chief's HTTP; -1: the chief is on another host */
    struct guardian guardian;
    struct ward *ward; /* RUNNER_PROCESSES_MAX of them */
    uint32_t n;        /* 1 + the highest process number so far */
    struct event *child, *term, *check;
    int64_t grace_ms, ending_ms; /* ending_ms 0: SIGTERM was not sent yet */
    bool killed;
    char lock[PATH_MAX];
};

/* ---- the end ---- */

static bool runner_is_idle(const struct runner *r)
{
    for (uint32_t i = 0; i < r->n; i++)
        if (r->ward[i].pid)
            return false;
    return true;
}

static void runner_signal_all(const struct runner *r, int sig)
{
    for (uint32_t i = 0; i < r->n; i++)
        child_signal(r->ward[i].pid, sig);
}

/* The connection is lost: end all processes. */
static void runner_end(struct runner *r)
{
    web_talk(&r->web, NULL);
    if (r->talking)
        talk_close(&r->talk);
    r->talking = false;
    if (r->ending_ms)
        return;
    r->ending_ms = clock_now_ms();
    runner_signal_all(r, SIGTERM);
    if (runner_is_idle(r))
        (void)event_base_loopbreak(r->base);
}

static void on_check(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    struct runner *r = arg;
    int64_t now_ms = clock_now_ms();
    int64_t grace_ms = r->grace_ms < RUNNER_GRACE_MAX_MS ? r->grace_ms : RUNNER_GRACE_MAX_MS;
    int64_t silence_ms = runner_is_idle(r) ? RUNNER_IDLE_SILENCE_MS : TALK_SILENCE_MS;
    if (r->talking && now_ms - r->talk.heard_ms > silence_ms)
        runner_end(r);
    if (!r->ending_ms || r->killed || now_ms - r->ending_ms < grace_ms)
        return;
    r->killed = true;
    runner_signal_all(r, SIGKILL);
}

static void on_end(void *arg, const char *why)
{
    (void)why;
    runner_end(arg);
}

static void on_term(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    runner_end(arg);
}

/* ---- output of processes ---- */

static void outlet_send(struct outlet *o, const char *bytes, size_t n)
{
    struct runner *r = o->runner;
    char said[96];
    if (!r->talking)
        return;
    if (talk_queued(&r->talk) + n > RUNNER_QUEUE_MAX_BYTES) {
        o->left_out += n;
        return;
    }
    if (o->left_out > 0 && o->type == TALK_OUT) {
        int m = snprintf(said, sizeof said,
                         "\n(%llu bytes are missing here: the connection is too slow)\n",
                         (unsigned long long)o->left_out);
        talk_send_raw(&r->talk, o->type, o->process, said, (size_t)m);
    }
    o->left_out = 0;
    talk_send_raw(&r->talk, o->type, o->process, bytes, n);
}

/* Read everything that is available now; fd -1: does nothing. */
static void on_outlet(evutil_socket_t fd, short what, void *arg)
{
    (void)what;
    struct outlet *o = arg;
    char bytes[RUNNER_READ_BYTES];
    ssize_t n = 0;
    while (fd >= 0 && (n = read(fd, bytes, sizeof bytes)) > 0)
        outlet_send(o, bytes, (size_t)n);
    if (fd >= 0 && n == 0)
        (void)event_del(o->event); /* all writers have closed it */
}

static void outlet_close(struct outlet *o)
{
    if (o->event)
        event_free(o->event);
    o->event = NULL;
    files_close(&o->fd);
}

/* Open a pipe; *fd is the process's end. */
static enum err outlet_open(struct outlet *o, struct runner *r, uint32_t process,
                            enum talk_type type, int *fd)
{
    int pair[2];
    if (pipe2(pair, O_CLOEXEC) != 0)
        return ERR_IO;
    (void)fcntl(pair[0], F_SETFL, O_NONBLOCK);
    if (type == TALK_PROGRESS) /* the chief never waits: it drops lines that do not fit */
        (void)fcntl(pair[1], F_SETFL, O_NONBLOCK);
    *o = (struct outlet){.runner = r, .process = process, .type = type, .fd = pair[0]};
    o->event = event_new(r->base, pair[0], EV_READ | EV_PERSIST, on_outlet, o);
    *fd = pair[1];
    if (o->event && event_add(o->event, NULL) == 0)
        return ERR_OK;
    outlet_close(o);
    (void)close(pair[1]);
    return ERR_NOMEM;
}

/* ---- processes ---- */

static void ward_ended(struct runner *r, uint32_t i, int status, uint64_t rss_bytes)
{
    struct ward *w = &r->ward[i];
    w->pid = 0;
    on_outlet(w->out.fd, EV_READ, &w->out);
    on_outlet(w->progress.fd, EV_READ, &w->progress);
    outlet_close(&w->out);
    outlet_close(&w->progress);
    if (r->talking)
        talk_send(&r->talk, TALK_ENDED, i,
                  json_pack("{s:i, s:I}", "status", status, "rss", (json_int_t)rss_bytes));
}

static void runner_renew_guardian(struct runner *r)
{
    (void)close(r->guardian.fd);
    enum err err = guardian_start(&r->guardian, NULL);
    for (uint32_t i = 0; !err && i < r->n; i++)
        if (r->ward[i].pid)
            err = guardian_register(&r->guardian, r->ward[i].pid, WARD_PROCESS, NULL);
    if (err)
        log_warn(
            "cannot start a guardian: if this runner is killed, its processes may keep running");
}

static void on_child(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    struct runner *r = arg;
    int status;
    struct rusage use;
    pid_t pid;
    while ((pid = wait4(-1, &status, WNOHANG, &use)) > 0) {
        if (pid == r->guardian.pid)
            runner_renew_guardian(r);
        for (uint32_t i = 0; i < r->n; i++)
            if (r->ward[i].pid == pid)
                ward_ended(r, i, status, (uint64_t)use.ru_maxrss * 1024);
    }
    if (r->ending_ms && runner_is_idle(r))
        (void)event_base_loopbreak(r->base);
}

/* The message's argv, followed by flags that only this host knows. NULL: no memory, or the message has no argv. */
static struct args ward_argv(const json_t *argv, const struct handed *fds, bool token)
{
    struct args a = {.failed = json_array_size(argv) == 0};
    for (size_t i = 0; i < json_array_size(argv); i++) {
        const char *word = json_string_value(json_array_get(argv, i));
        a.failed |= !word;
        args_add(&a, "%s", word ? word : "");
    }
    args_add_handed(&a, fds);
    if (token)
        args_add(&a, "--token_fd=0");
    return a;
}

/* Bind the chief's HTTP port, which stays the same when the chief restarts. Without a port the chief has no page. */
static int page_bind(struct runner *r)
{
    struct errmsg e = {""};
    if (r->page_fd < 0 && listen_bind(&r->page_fd, "127.0.0.1:0", 0, &e))
        log_warn("the job has no page: %s", e.text);
    if (r->page_fd >= 0)
        (void)fcntl(r->page_fd, F_SETFD, FD_CLOEXEC);
    return r->page_fd;
}

static enum err ward_start(struct runner *r, uint32_t i, const json_t *m, struct errmsg *e)
{
    struct ward *w = &r->ward[i];
    const char *token = json_string_value(json_object_get(m, "token"));
    struct child c = {.handed = {.listen = w->listen_fd, .http = -1, .progress = -1, .lock = -1},
                      .out_fd = -1,
                      .token = token,
                      .again = w->started};
    enum err err = outlet_open(&w->out, r, i, TALK_OUT, &c.out_fd);
    bool chief = json_is_true(json_object_get(m, "progress"));
    if (chief)
        c.handed.http = page_bind(r);
    if (!err && chief)
        err = outlet_open(&w->progress, r, i, TALK_PROGRESS, &c.handed.progress);
    struct args args = ward_argv(json_object_get(m, "argv"), &c.handed, token);
    c.argv = args.argv;
    if (!err && args.failed)
        err = ERR_NOMEM;
    if (err)
        err_set(e, err, "pipes: %s", err_str(err));
    if (!err)
        err = child_start(&w->pid, &c, &r->guardian, e);
    w->started = w->started || !err;
    argv_free(args.argv);
    files_close(&c.out_fd);
    files_close(&c.handed.progress);
    if (err) {
        outlet_close(&w->out);
        outlet_close(&w->progress);
    }
    return err;
}

static void runner_start(struct runner *r, uint32_t i, const json_t *m)
{
    struct errmsg e = {""};
    r->grace_ms = json_integer_value(json_object_get(m, "grace_ms"));
    enum err err =
        r->ward[i].pid ? err_set(&e, ERR_STATE, "it is already running") : ward_start(r, i, m, &e);
    if (err)
        talk_send(&r->talk, TALK_FAILED, i, json_pack("{s:s}", "why", e.text));
    else
        talk_send(&r->talk, TALK_STARTED, i, json_pack("{s:i}", "pid", (int)r->ward[i].pid));
}

/* ---- ports ---- */

/* Bind a free port of [low, high], starting with `first` and wrapping around; 0: none is free. */
static uint16_t ward_bind(struct ward *w, uint16_t low, uint16_t high, uint16_t first)
{
    uint32_t count = (uint32_t)high - low + 1;
    char at[16];
    for (uint32_t k = 0; k < count; k++) {
        uint16_t port = (uint16_t)(low + (first - low + k) % count);
        (void)snprintf(at, sizeof at, ":%u", port);
        if (!listen_bind(&w->listen_fd, at, 0, NULL)) {
            (void)fcntl(w->listen_fd, F_SETFD, FD_CLOEXEC);
            return port;
        }
        w->listen_fd = -1;
    }
    return 0;
}

/* {"what": "bind", "low": n, "high": n, "processes": [i, ..], "ports": [port or 0, ..]} ->
 * {"ports": [..]} */
static json_t *runner_bind(struct runner *r, const json_t *ask)
{
    json_t *answer = check_answer_new(), *ports = json_array(), *one;
    uint16_t low = (uint16_t)json_integer_value(json_object_get(ask, "low"));
    uint16_t high = (uint16_t)json_integer_value(json_object_get(ask, "high"));
    json_t *wanted = json_object_get(ask, "ports");
    size_t k;
    uint16_t first = (uint16_t)(low + (uint32_t)getpid() % ((uint32_t)high - low + 1u));
    json_array_foreach(json_object_get(ask, "processes"), k, one)
    {
        json_int_t i = json_integer_value(one);
        uint16_t port = (uint16_t)json_integer_value(json_array_get(wanted, k));
        if (i < 0 || i >= RUNNER_PROCESSES_MAX)
            continue;
        r->n = r->n > (uint32_t)i ? r->n : (uint32_t)i + 1;
        struct ward *w = &r->ward[i];
        uint16_t got = port ? ward_bind(w, port, port, port) : ward_bind(w, low, high, first);
        (void)json_array_append_new(ports, json_integer(got));
        first = got && got < high ? (uint16_t)(got + 1) : low;
        if (got == 0 && port)
            check_problem(answer, "port %u is in use", port);
        else if (got == 0)
            check_problem(answer, "no port from %u to %u is free for one of its processes", low,
                          high);
    }
    (void)json_object_set_new(answer, "ports", ports);
    return answer;
}

/* ---- messages ---- */

static void runner_answer(struct runner *r, const json_t *ask)
{
    const char *what = json_string_value(json_object_get(ask, "what"));
    json_t *answer = NULL;
    if (what && strcmp(what, "clock") == 0)
        answer = check_clock();
    else if (what && strcmp(what, "check") == 0)
        answer = check_job(ask);
    else if (what && strcmp(what, "bind") == 0)
        answer = runner_bind(r, ask);
    else if (what && strcmp(what, "reach") == 0)
        answer = check_reach(ask);
    else if (what && strcmp(what, "shared") == 0)
        answer = check_shared(ask);
    talk_send(&r->talk, TALK_ANSWER, 0, answer ? answer : json_object());
}

static bool on_message(void *arg, enum talk_type type, uint32_t process, const char *data,
                       size_t bytes)
{
    struct runner *r = arg;
    if (type == TALK_PING) {
        talk_send_raw(&r->talk, TALK_PONG, 0, "", 0);
        return true;
    }
    if (type == TALK_WEB_OPEN || type == TALK_WEB_DATA || type == TALK_WEB_CLOSE) {
        web_on_message(&r->web, type, process, data, bytes,
                       r->page_fd >= 0 ? socket_port(r->page_fd) : 0);
        return true;
    }
    json_t *m = json_loadb(data, bytes, 0, NULL);
    bool right =
        m && (type == TALK_ASK || (process < r->n && (type == TALK_START || type == TALK_SIGNAL)));
    if (right && type == TALK_ASK)
        runner_answer(r, m);
    else if (right && type == TALK_START)
        runner_start(r, process, m);
    else if (right)
        child_signal(r->ward[process].pid, (int)json_integer_value(json_object_get(m, "signal")));
    json_decref(m);
    return right;
}

/* ---- life ---- */

/* The directory of this job's lock on this host; only this user can access it. */
static enum err runner_lock(struct runner *r, const char *key, struct errmsg *e)
{
    const char *tmp = getenv("TMPDIR");
    char folder[PATH_MAX - 128];
    struct stat s;
    int fd; /* the lock is held until the last process that inherits it has ended */
    if (strspn(key, "0123456789abcdef-") != strlen(key) || !*key || strlen(key) > 100)
        return err_set(e, ERR_INPUT, "runner: the key is missing or invalid");
    (void)snprintf(folder, sizeof folder, "%s/gradwire-%u", tmp && *tmp ? tmp : "/tmp", getuid());
    if (mkdir(folder, 0700) != 0 && errno != EEXIST)
        return err_set(e, ERR_IO, "%s: %s", folder, strerror(errno));
    if (lstat(folder, &s) != 0 || !S_ISDIR(s.st_mode) || s.st_uid != getuid())
        return err_set(e, ERR_IO, "%s is not a directory that this user owns", folder);
    (void)snprintf(r->lock, sizeof r->lock, "%s/%s", folder, key);
    return dirlock_take(r->lock, &fd, NULL, e);
}

static void runner_unlock(const struct runner *r)
{
    char file[PATH_MAX + 8];
    (void)snprintf(file, sizeof file, "%s/" OUTPUT_LOCK, r->lock);
    (void)unlink(file);
    (void)rmdir(r->lock);
}

static enum err runner_make_events(struct runner *r)
{
    struct timeval every = {.tv_usec = RUNNER_CHECK_EVERY_MS * 1000};
    enum err err = loop_base_new(&r->base, NULL);
    if (err)
        return err;
    r->child = evsignal_new(r->base, SIGCHLD, on_child, r);
    r->term = evsignal_new(r->base, SIGTERM, on_term, r);
    r->check = event_new(r->base, -1, EV_PERSIST, on_check, r);
    bool ok = r->child && r->term && r->check && event_add(r->child, NULL) == 0 &&
              event_add(r->term, NULL) == 0 && event_add(r->check, &every) == 0;
    return ok ? ERR_OK : ERR_NOMEM;
}

/* Messages use duplicated descriptors, so that text printed by mistake does not get between them. */
static enum err runner_talk(struct runner *r)
{
    static const struct talk_ops ops = {.on_message = on_message, .on_end = on_end};
    int in = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3),
        out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (in < 0 || out < 0 || null < 0)
        return err_of_errno(errno);
    (void)dup2(null, STDIN_FILENO);
    (void)dup2(STDERR_FILENO, STDOUT_FILENO);
    (void)close(null);
    enum err err = talk_init(&r->talk, r->base, in, out, false, &ops, r);
    if (err)
        return err;
    r->talking = true;
    web_init(&r->web, r->base);
    web_talk(&r->web, &r->talk);
    char host[256] = "?";
    (void)gethostname(host, sizeof host - 1);
    talk_send(&r->talk, TALK_READY, 0,
              json_pack("{s:s, s:s, s:i, s:I}", "version", GRADWIRE_VERSION, "host", host, "cores",
                        (int)cores_usable(), "memory_bytes", (json_int_t)cgroup_memory_bytes()));
    return ERR_OK;
}

static void runner_close(struct runner *r)
{
    web_talk(&r->web, NULL);
    files_close(&r->page_fd);
    if (r->talking)
        talk_close(&r->talk);
    if (r->child)
        event_free(r->child);
    if (r->term)
        event_free(r->term);
    if (r->check)
        event_free(r->check);
    for (uint32_t i = 0; i < r->n; i++) {
        outlet_close(&r->ward[i].out);
        outlet_close(&r->ward[i].progress);
    }
    if (r->base)
        event_base_free(r->base);
    mem_free(r->ward);
}

static enum err runner_run(struct runner *r, const char *key, struct errmsg *e)
{
    r->ward = mem_zalloc(RUNNER_PROCESSES_MAX, sizeof *r->ward);
    if (!r->ward)
        return err_memory_of(e, "runner");
    for (uint32_t i = 0; i < RUNNER_PROCESSES_MAX; i++)
        r->ward[i] = (struct ward){.listen_fd = -1, .out = {.fd = -1}, .progress = {.fd = -1}};
    enum err err = runner_lock(r, key, e);
    if (!err)
        err = guardian_start(&r->guardian, e);
    if (err)
        return err;
    err = runner_make_events(r);
    if (!err)
        err = runner_talk(r);
    if (err)
        return err_set(e, err, "runner: %s", err_str(err));
    (void)event_base_dispatch(r->base);
    guardian_close(&r->guardian);
    runner_unlock(r);
    return ERR_OK;
}

int runner_main(int argc, char **argv)
{
    struct runner r = {.guardian = {.fd = -1}, .page_fd = -1, .grace_ms = RUNNER_GRACE_MAX_MS};
    struct errmsg e = {""};
    log_init("runner", LOG_INFO);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGHUP, SIG_IGN);
    (void)signal(SIGINT, SIG_IGN);
    (void)
        setsid(); /* leave the process group that gets signals when the launcher ends, if possible */
    child_set_environment();
    enum err err = runner_run(&r, argc == 2 ? argv[1] : "", &e);
    runner_close(&r);
    if (!err)
        return 0;
    (void)fprintf(stderr, "%s\n", e.text);
    return options_exit_code(err);
}
