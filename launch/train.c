/* `gradwire train`: runs a job on this host or on several, from the job file to the exit code.
 *
 * Happy path: flags, job file, programs and hosts are checked; DIR is locked; ports are bound; processes run; the summary is
 * completed and printed.
 * Failure modes: wrong input, or a DIR that cannot be made, is one line and exit code 2, before anything is changed. A locked
 * DIR, or one that cannot be written, is one line and exit code 1. After that the supervisor's result is the exit code, and
 * there is a summary.
 * --detach: the launcher forks before it locks DIR, so that the lock and the processes belong to the process in the
 * background. The process in the foreground waits until the first step is made and exits with 0, or passes on the exit code
 * if the job ends before. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <event2/event.h>

#include "common/base/clock.h"
#include "common/base/printable.h"
#include "common/cluster/cluster.h"
#include "common/flags/flags.h"
#include "job/job.h"
#include "common/base/mem.h"
#include "common/net/loop.h"
#include "common/net/tls.h"
#include "common/process/dirlock.h"
#include "common/process/output.h"
#include "common/peers/token.h"
#include "launch/base/options.h"
#include "launch/local/ahead.h"
#include "launch/local/crew.h"
#include "launch/remote/fleet.h"
#include "launch/remote/hosts.h"
#include "launch/base/rundir.h"
#include "launch/base/say.h"
#include "launch/job_dir.h"
#include "launch/summary.h"
#include "launch/supervisor.h"

struct train {
    struct options options;
    struct job job;
    struct site here;
    struct crew crew;
    struct hosts hosts; /* --hosts */
    uint32_t *host_of;  /* (processes) index of the host */
    struct fleet *fleet;
    struct problems problems;
    struct event_base *base;
    char shared_text[64], token[TOKEN_HEX_BYTES];
    struct rundir dir;
    char output[PATH_MAX];
    int progress[2]; /* the chief's pipe */
    int front_fd; /* --detach: the process in the foreground waits for a byte on it; -1: no --detach */
    double start_s;
    /* the job was refused before its first step, and the summary of the finished job stays; or DIR was removed */
    bool no_summary;
};

/* ---- checks, before anything is changed ---- */

static enum err train_place(struct train *t, struct errmsg *e)
{
    struct roles roles = {{0}};
    if (!t->options.hosts)
        return ERR_OK;
    roles.n[ROLE_PS] = t->options.ps;
    roles.n[ROLE_CHIEF] = t->options.chief ? 1 : 0;
    roles.n[ROLE_WORKER] = t->options.workers;
    roles.n[ROLE_EVALUATOR] = t->options.evaluator ? 1 : 0;
    t->host_of = mem_zalloc(options_processes(&t->options), sizeof *t->host_of);
    enum err err = t->host_of ? hosts_load(&t->hosts, t->options.hosts, &t->problems) : ERR_NOMEM;
    if (!err)
        err = hosts_place(&t->hosts, &roles, t->host_of, &t->problems);
    return err == ERR_NOMEM ? err_set(e, err, "out of memory") : err;
}

/* The least number of descriptors with which each process of a job on this host begins to train. The launcher has two for each
 * process, and some that were counted in running ones. It hands down two sockets, a pipe, the token and two files of rows. */
static uint32_t train_descriptors(const struct train *t)
{
    enum { LAUNCHER = 20, HANDED = 6 };
    uint32_t share = t->here.cores > t->options.ps ? t->here.cores / t->options.ps : 1;
    uint32_t threads = t->job.ps.threads ? t->job.ps.threads : share;
    uint32_t trainers = options_trainers(&t->options), shards = t->options.ps * threads;
    uint32_t launcher = LAUNCHER + 2 * options_processes(&t->options);
    uint32_t ps = STDERR_FILENO + 1 + HANDED + descriptors_of_ps(threads, trainers);
    uint32_t chief =
        STDERR_FILENO + 1 + HANDED + descriptors_of_chief(t->options.ps, shards, trainers);
    uint32_t most = chief > ps ? chief : ps;
    return launcher > most ? launcher : most;
}

static enum err train_check_limits(const struct train *t, struct errmsg *e)
{
    struct rlimit files = {RLIM_INFINITY, RLIM_INFINITY}, bytes = files;
    (void)getrlimit(RLIMIT_NOFILE, &files);
    (void)getrlimit(RLIMIT_FSIZE, &bytes);
    if (bytes.rlim_cur == 0)
        return err_set(e, ERR_INPUT, "no file can be written: ulimit -f is 0; raise it");
    if (!t->options.hosts && files.rlim_cur < train_descriptors(t))
        return err_set(e, ERR_INPUT,
                       "this job needs at least %u file descriptors in a process, and ulimit -n is "
                       "%llu; raise it",
                       train_descriptors(t), (unsigned long long)files.rlim_cur);
    return ERR_OK;
}

static enum err train_check(struct train *t, struct errmsg *e)
{
    enum err err = site_init(&t->here, &t->options, e);
    if (!err)
        err = job_load(&t->job, t->options.job, t->options.sets, t->options.n_sets, e);
    if (!err)
        err = job_check_workers(&t->job, options_trainers(&t->options), e);
    if (!err && t->options.evaluator)
        err = job_check_evaluator(&t->job, e);
    if (!err)
        err = train_check_limits(t, e);
    if (!err && !t->options.hosts) /* with --hosts each host checks its own files */
        err = tls_try(&t->options.tls, "127.0.0.1:0", e);
    if (!err)
        err = job_output(&t->job, t->options.output, t->output, sizeof t->output, e);
    if (!err)
        err = train_place(t, e);
    if (!err)
        err = ahead_look(&t->options, &t->here, e);
    return err;
}

/* Print the problems of the hosts, one line each; the last one goes to *e for the caller. */
static void train_tell_problems(const struct problems *p, struct errmsg *e)
{
    for (size_t i = 0; i + 1 < p->kept; i++)
        say_plain("%s", p->line[i]);
    if (p->kept > 0)
        err_set(e, ERR_INPUT, "%s", p->line[p->kept - 1]);
}

/* ---- the run ---- */

/* --detach: the job trains, so leave the terminal and let the process in the foreground exit. */
static void train_on_first_step(void *arg)
{
    struct train *t = arg;
    if (t->front_fd < 0)
        return;
    char log[PATH_MAX];
    int fd = rundir_file(t->dir.path, OUTPUT_LAUNCHER_LOG, log, NULL)
                 ? -1
                 : open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    (void)setsid();
    (void)dup2(null, STDIN_FILENO);
    (void)dup2(fd >= 0 ? fd : null, STDOUT_FILENO);
    (void)dup2(fd >= 0 ? fd : null, STDERR_FILENO);
    (void)close(fd >= 0 ? fd : null);
    say_init();
    char byte = 0;
    ssize_t written = write(t->front_fd, &byte, 1);
    (void)
        written; /* an error means that the process in the foreground is gone, and does not need it */
    (void)close(t->front_fd);
    t->front_fd = -1;
}

/* Write processes/http: "role index address" of each process. Addresses do not change when processes restart. */
static void train_write_http(const struct train *t)
{
    char *text = NULL;
    size_t bytes = 0;
    struct errmsg e;
    FILE *out = open_memstream(&text, &bytes);
    for (uint32_t i = 0; out && i < t->crew.n; i++) {
        const struct process *p = &t->crew.process[i];
        if (p->http[0])
            (void)fprintf(out, "%s %u %s\n", role_str(p->role), p->index, p->http);
    }
    if (!out || fclose(out) != 0)
        say_warn("processes/http: out of memory");
    else if (rundir_put(t->dir.path, OUTPUT_HTTP, text, bytes, &e))
        say_warn("%s", e.text);
    free(text);
}

static void train_open_page(const struct train *t)
{
    char url[PAGE_URL_BYTES];
    struct errmsg e = {""};
    if (t->fleet && fleet_serve_page(t->fleet, &e))
        say_warn("the job has no page: %s", e.text);
    train_write_http(t);
    if (page_url(t->dir.path, url))
        say_info("the job's page: %s", url);
}

/* Remove the files with the addresses and pids of the processes, which have ended. */
static void train_remove_lists(const struct train *t)
{
    static const char *const list[] = {OUTPUT_PIDS, OUTPUT_HTTP};
    char path[PATH_MAX];
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (!rundir_file(t->dir.path, list[i], path, NULL))
            (void)unlink(path);
}

static enum err train_supervise(struct train *t, struct supervisor_result *result, struct errmsg *e)
{
    struct supervisor_plan plan = {.base = t->base,
                                   .crew = &t->crew,
                                   .fleet = t->fleet,
                                   .job = &t->job,
                                   .dir = t->dir.path,
                                   .progress_fd = t->progress[0],
                                   .restarts_max = t->options.restarts,
                                   .start_s = t->start_s,
                                   .on_first_step = train_on_first_step,
                                   .arg = t};
    enum err err = supervisor_run(result, &plan, e);
    if (err)
        return err;
    err = dirguard_check(e);
    if (err) {
        t->no_summary = true;
        return result->exit_code ? ERR_OK : err; /* otherwise the reason was printed */
    }
    train_remove_lists(t);
    t->no_summary = result->exit_code == EXIT_INPUT && isnan(result->first_step_s) &&
                    summary_restore(t->dir.path);
    return t->no_summary ? ERR_OK
                         : summary_complete(t->dir.path, result, &t->options, &t->job, &t->crew, e);
}

/* Connect to the other hosts, check them and bind their ports, before anything is changed. */
static enum err train_open_fleet(struct train *t, struct errmsg *e)
{
    struct fleet_config config = {.base = t->base,
                                  .hosts = &t->hosts,
                                  .host_of = t->host_of,
                                  .crew = &t->crew,
                                  .options = &t->options,
                                  .job = &t->job,
                                  .here = &t->here,
                                  .output = t->output,
                                  .token = t->token,
                                  .shared_text = t->shared_text};
    if (!t->options.hosts)
        return ERR_OK;
    (void)snprintf(t->shared_text, sizeof t->shared_text, "%ld %lld\n", (long)getpid(),
                   (long long)time(NULL));
    if (!token_make(t->token))
        return err_set(e, ERR_IO, "cannot create a token: the kernel returned no random bytes");
    enum err err = fleet_new(&t->fleet, &config, e);
    if (!err)
        err = fleet_check(t->fleet, &t->problems, e);
    return err;
}

static enum err train_locked(struct train *t, struct supervisor_result *result, struct errmsg *e)
{
    child_set_environment();
    (void)snprintf(t->here.output, sizeof t->here.output, "%s", t->dir.path);
    /* Non-blocking on both ends: if the launcher is stopped (Ctrl-Z) it misses lines, and the job continues. */
    if (pipe2(t->progress, O_CLOEXEC | O_NONBLOCK) != 0)
        return err_set(e, ERR_IO, "pipe: %s", strerror(errno));
    enum err err = t->fleet ? fleet_check_shared(t->fleet, &t->problems, e)
                            : crew_settle_here(&t->crew, &t->options, &t->job, &t->here,
                                               t->progress[1], t->dir.lock_fd, e);
    if (!err) {
        train_open_page(t);
        err = train_supervise(t, result, e);
    }
    (void)close(t->progress[0]);
    (void)close(t->progress[1]);
    return err;
}

static enum err train_run_in_dir(struct train *t, struct supervisor_result *result,
                                 struct errmsg *e)
{
    enum err err = rundir_make(t->output, e);
    if (!err)
        err = rundir_open(&t->dir, t->output, t->options.fresh, e);
    if (err)
        return err;
    err = train_locked(t, result, e);
    if (err && !dirguard_check(NULL))
        (void)summary_restore(t->dir.path);
    else if (!err && !t->no_summary) {
        summary_print(stdout, t->dir.path);
        (void)fflush(stdout);
    }
    return err;
}

static int train_run(struct train *t)
{
    struct errmsg e = {""};
    struct supervisor_result result = {0};
    enum err err = loop_base_new(&t->base, &e);
    if (!err)
        err = crew_init(&t->crew, &t->options, t->output, &e);
    if (!err)
        err = train_open_fleet(t, &e);
    if (!err)
        err = train_run_in_dir(t, &result, &e);
    train_tell_problems(&t->problems, &e);
    fleet_free(t->fleet);
    crew_close(&t->crew);
    rundir_close(&t->dir);
    if (t->base)
        event_base_free(t->base);
    if (!err)
        return result.exit_code;
    if (t->problems.kept > 0)
        say_plain("%s", e.text);
    else
        say_error("%s", e.text);
    return result.exit_code ? result.exit_code : options_exit_code(err);
}

/* ---- --detach ---- */

/* The process in the foreground: wait until the job trains in the background, or has ended. */
static int train_wait_in_front(const struct train *t, pid_t launcher, int fd)
{
    char byte;
    ssize_t n = TEMP_FAILURE_RETRY(read(fd, &byte, 1));
    (void)close(fd);
    if (n == 1) {
        (void)printf("%s runs in the background, launcher pid %ld\n", PRINTABLE(t->output),
                     (long)launcher);
        return 0;
    }
    int status;
    if (TEMP_FAILURE_RETRY(waitpid(launcher, &status, 0)) < 0)
        return EXIT_FAILED;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int train_detached(struct train *t)
{
    int started[2];
    if (pipe2(started, O_CLOEXEC) != 0) {
        say_error("pipe: %s", strerror(errno));
        return EXIT_FAILED;
    }
    pid_t launcher = fork();
    if (launcher < 0) {
        say_error("fork: %s", strerror(errno));
        return EXIT_FAILED;
    }
    if (launcher > 0) {
        (void)close(started[1]);
        return train_wait_in_front(t, launcher, started[0]);
    }
    (void)close(started[0]);
    t->front_fd = started[1];
    return train_run(t);
}

int train_main(int argc, char **argv)
{
    struct train t = {.front_fd = -1, .start_s = clock_now_s(), .dir = {.lock_fd = -1}};
    struct errmsg e = {""};
    int exit_code = 0;
    (void)signal(SIGPIPE, SIG_IGN);
    flags_parse("train", argc, argv);
    options_init(&t.options);
    enum err err = options_check(&t.options, &e);
    if (!err)
        err = train_check(&t, &e);
    if (!err)
        exit_code = t.options.detach ? train_detached(&t) : train_run(&t);
    else
        train_tell_problems(&t.problems, &e);
    job_close(&t.job);
    hosts_close(&t.hosts);
    problems_close(&t.problems);
    mem_free(t.host_of);
    if (err) {
        say_plain("%s", e.text);
        return options_exit_code(err);
    }
    return exit_code;
}
