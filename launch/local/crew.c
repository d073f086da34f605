/* The processes of a job: their command lines, and their start on this host. */
#include "launch/local/crew.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/process/cgroup.h"
#include "common/process/child.h"
#include "common/base/printable.h"
#include "common/process/files.h"
#include "common/process/process_state.h"
#include "common/process/signals.h"

/* ---- a command line ---- */

void args_add(struct args *a, const char *fmt, ...)
{
    va_list args;
    char *text, **more = mem_resize(a->argv, a->n + 2, sizeof *more);
    a->argv = more ? more : a->argv;
    va_start(args, fmt);
    if (!more || vasprintf(&text, fmt, args) < 0)
        a->failed = true;
    else
        a->argv[a->n++] = text;
    va_end(args);
    if (a->argv)
        a->argv[a->n] = NULL;
}

void args_add_handed(struct args *a, const struct handed *fds)
{
    if (fds->listen >= 0)
        args_add(a, "--listen_fd=%d", fds->listen);
    if (fds->http >= 0)
        args_add(a, "--http_fd=%d", fds->http);
    if (fds->http >= 0 && fds->http_name) {
        args_add(a, "--http_port=%u", fds->http_port);
        args_add(a, "--http_address=%s", fds->http_name);
    }
    if (fds->progress >= 0)
        args_add(a, "--progress_fd=%d", fds->progress);
    if (fds->lock >= 0)
        args_add(a, "--lock_fd=%d", fds->lock);
    if (fds->rows_processes)
        args_add(a, "--rows=%d,%d,%" PRIu32, fds->rows[0], fds->rows[1], fds->rows_processes);
}

void rows_open(struct handed *h, const char *folder, uint32_t processes)
{
    enum { HEAD_BYTES = 4096 }; /* as in data/host_copy.h */
    const char *tmp = getenv("TMPDIR");
    char path[PATH_MAX];
    folder = folder ? folder : tmp && *tmp ? tmp : "/tmp";
    h->rows_processes = 0;
    h->rows[0] = processes > 1 ? memfd_create("gradwire-rows", MFD_CLOEXEC) : -1;
    h->rows[1] = -1;
    if (h->rows[0] < 0)
        return;
    if (ftruncate(h->rows[0], HEAD_BYTES) != 0) {
        files_close(&h->rows[0]);
        return;
    }
    h->rows_processes = processes;
    if ((size_t)snprintf(path, sizeof path, "%s/gradwire-rows-XXXXXX", folder) >= sizeof path)
        return;
    h->rows[1] = mkostemp(path, O_CLOEXEC);
    if (h->rows[1] >= 0)
        (void)unlink(path);
}

void rows_close(struct handed *h)
{
    files_close(&h->rows[0]);
    files_close(&h->rows[1]);
    h->rows_processes = 0;
}

void argv_free(char **argv)
{
    for (char **one = argv; one && *one; one++)
        free(*one);
    mem_free(argv);
}

/* ---- in the child, between fork and exec: only async-signal-safe functions ---- */

static void child_keep_fd(int fd)
{
    if (fd >= 0)
        (void)fcntl(fd, F_SETFD, 0);
}

static _Noreturn void child_become(const struct child *c, int in_fd, const struct guardian *g,
                                   pid_t parent)
{
    (void)setpgid(0, 0);
    (void)dup2(in_fd, STDIN_FILENO);
    (void)dup2(c->out_fd, STDOUT_FILENO);
    (void)dup2(c->out_fd, STDERR_FILENO);
    /* A kernel before 5.3 has no pidfd: the child dies with its parent instead. */
    if (guardian_register(g, getpid(), WARD_PROCESS, NULL)) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(CHILD_EXIT_NO_EXEC);
    }
    child_keep_fd(c->handed.listen);
    child_keep_fd(c->handed.progress);
    child_keep_fd(c->handed.http);
    child_keep_fd(c->handed.lock);
    for (int i = 0; i < 2 && c->handed.rows_processes; i++)
        child_keep_fd(c->handed.rows[i]);
    signals_reset();
    if (c->again)
        (void)setenv(PROCESS_AGAIN, "1", 1);
    else
        (void)unsetenv(PROCESS_AGAIN);
    execv(c->argv[0], c->argv);
    (void)dprintf(STDERR_FILENO, "cannot execute %s: %s\n", PRINTABLE(c->argv[0]), strerror(errno));
    _exit(CHILD_EXIT_NO_EXEC);
}

/* ---- in the parent ---- */

/* The child's standard input: a pipe with the token, or empty. -1 and errno on error. */
static int child_open_input(const char *token)
{
    int pair[2];
    if (!token)
        return open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (pipe2(pair, O_CLOEXEC) != 0)
        return -1;
    size_t n = strlen(token);
    bool wrote = write(pair[1], token, n) == (ssize_t)n; /* never blocks: a pipe holds far more */
    int why = errno;
    (void)close(pair[1]);
    if (wrote)
        return pair[0];
    (void)close(pair[0]);
    errno = why;
    return -1;
}

enum err child_start(pid_t *pid, const struct child *c, const struct guardian *g, struct errmsg *e)
{
    int in_fd = child_open_input(c->token);
    if (in_fd < 0)
        return err_set(e, ERR_IO, "standard input: %s", strerror(errno));
    pid_t parent = getpid();
    pid_t child = signals_fork();
    if (child == 0)
        child_become(c, in_fd, g, parent);
    int why = errno;
    (void)close(in_fd);
    if (child < 0)
        return err_set(e, ERR_IO, "fork: %s", strerror(why));
    /* Parent and child both call this, so that a signal to the group never misses. */
    (void)setpgid(child, child);
    *pid = child;
    return ERR_OK;
}

void child_set_environment(void)
{
    (void)setenv("OPENBLAS_NUM_THREADS", "1", 1);
    (void)unsetenv("TF_CONFIG");
}

void child_signal(pid_t pid, int sig)
{
    if (pid > 0)
        (void)kill(-pid, sig);
}

static enum err local_start(struct process *p, struct errmsg *e)
{
    struct local_place *place = p->place;
    int log_fd;
    enum err err = process_open_log(p, &log_fd, e);
    if (err)
        return err;
    struct child c = {
        .argv = p->argv, .handed = place->handed, .out_fd = log_fd, .again = place->started};
    err = child_start(&p->pid, &c, place->guardian, e);
    (void)close(log_fd);
    if (err)
        return err_wrap(e, err, "%s: ", p->name);
    p->state = PROCESS_RUNS;
    p->started_ms = clock_now_ms();
    place->started = true;
    return ERR_OK;
}

static void local_signal(struct process *p, int sig)
{
    child_signal(p->pid, sig);
}

static const struct process_ops local_ops = {.start = local_start, .signal = local_signal};

/* Make a listening socket on a free port of 127.0.0.1. Errors: ERR_IO; *fd is unchanged. */
static enum err local_listen(const struct process *p, int *out, char address[PROCESS_ADDRESS_BYTES],
                             struct errmsg *e)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    socklen_t bytes = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return err_set(e, ERR_IO, "%s: socket: %s", p->name, strerror(errno));
    if (bind(fd, (struct sockaddr *)&at, bytes) != 0 || listen(fd, SOMAXCONN) != 0 ||
        getsockname(fd, (struct sockaddr *)&at, &bytes) != 0) {
        enum err err =
            err_set(e, ERR_IO, "%s: cannot bind a port on 127.0.0.1: %s", p->name, strerror(errno));
        (void)close(fd);
        return err;
    }
    (void)snprintf(address, PROCESS_ADDRESS_BYTES, "127.0.0.1:%u", ntohs(at.sin_port));
    *out = fd;
    return ERR_OK;
}

/* Bind and listen on free ports of 127.0.0.1; sets p->address and p->http. `place` outlives p. Close with local_leave,
 * also after an error. Errors: ERR_IO. */
static enum err local_settle(struct process *p, struct local_place *place,
                             const struct guardian *guardian, struct errmsg *e)
{
    *place = (struct local_place){.guardian = guardian,
                                  .handed = {.listen = -1, .http = -1, .progress = -1, .lock = -1}};
    enum err err = local_listen(p, &place->handed.listen, p->address, e);
    if (!err)
        err = local_listen(p, &place->handed.http, p->http, e);
    p->ops = &local_ops;
    p->place = place;
    return err;
}

/* Close its descriptors. The process must have ended, or was never started. */
static void local_leave(struct local_place *place)
{
    files_close(&place->handed.listen);
    files_close(&place->handed.http);
}

bool local_reaped(struct process *p, pid_t pid, uint64_t peak_rss_bytes)
{
    if (p->host || p->pid != pid)
        return false;
    process_peak_rss(p, peak_rss_bytes);
    p->pid = 0;
    p->state = PROCESS_ENDED;
    return true;
}

/* ---- programs ---- */

static enum err crew_find(char path[PATH_MAX], const char *bin_dir, const char *name,
                          struct errmsg *e)
{
    return bin_dir ? program_in(path, bin_dir, name, e) : program_beside(path, name, e);
}

enum err site_init(struct site *s, const struct options *o, struct errmsg *e)
{
    *s = (struct site){
        .tls = o->tls, .cores = cores_usable(), .memory_bytes = cgroup_memory_bytes()};
    (void)snprintf(s->job, sizeof s->job, "%s", o->job); /* a longer path cannot be opened */
    enum err err = crew_find(s->ps_program, o->bin_dir, "ps", e);
    return err ? err : crew_find(s->worker_program, o->bin_dir, "worker", e);
}

/* ---- the list of processes ---- */

enum err crew_init(struct crew *c, const struct options *o, const char *dir, struct errmsg *e)
{
    *c = (struct crew){.guardian = {.fd = -1}, .chief = o->ps, .evaluators = o->evaluator};
    c->process = mem_zalloc(options_processes(o), sizeof *c->process);
    if (!c->process)
        return err_memory(e);
    const struct {
        enum role role;
        uint32_t count;
    } all[] = {{ROLE_PS, o->ps},
               {ROLE_CHIEF, o->chief},
               {ROLE_WORKER, o->workers},
               {ROLE_EVALUATOR, o->evaluator}};
    enum err err = ERR_OK;
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        for (uint32_t i = 0; !err && i < all[k].count; i++) {
            err = process_init(&c->process[c->n], all[k].role, i, dir, e);
            c->n += !err;
        }
    return err;
}

void crew_close(struct crew *c)
{
    for (uint32_t i = 0; i < c->n; i++) {
        argv_free(c->process[i].argv);
        if (c->local_place && c->process[i].place)
            local_leave(&c->local_place[i]);
    }
    if (c->local_place)
        rows_close(&c->rows);
    mem_free(c->local_place);
    mem_free(c->process);
    mem_free(c->ps_hosts);
    mem_free(c->worker_hosts);
    *c = (struct crew){0};
}

/* ---- command lines ---- */

/* out = "address,address": the addresses of all processes of one role. */
static char *crew_hosts(const struct crew *c, enum role role)
{
    char *hosts = mem_zalloc((size_t)c->n + 1, PROCESS_ADDRESS_BYTES + 1);
    size_t at = 0;
    for (uint32_t i = 0; hosts && i < c->n; i++)
        if (c->process[i].role == role)
            at += (size_t)sprintf(hosts + at, "%s%s", at ? "," : "", c->process[i].address);
    return hosts;
}

static enum err crew_list_hosts(struct crew *c, struct errmsg *e)
{
    if (!c->ps_hosts)
        c->ps_hosts = crew_hosts(c, ROLE_PS);
    if (!c->worker_hosts)
        c->worker_hosts = crew_hosts(c, ROLE_WORKER);
    return c->ps_hosts && c->worker_hosts ? ERR_OK : err_memory(e);
}

static bool is_ps(const struct process *p)
{
    return p->role == ROLE_PS;
}

/* The number of ps, or of other processes, on the site of process i. */
static uint32_t crew_beside(const struct crew *c, uint32_t i, bool ps, const uint32_t *site_of)
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < c->n; k++)
        n += is_ps(&c->process[k]) == ps && (!site_of || site_of[k] == site_of[i]);
    return n;
}

/* Divide a host's cores among the processes of one kind, unless the job gives the number of threads. */
static void args_add_threads(struct args *a, const struct crew *c, uint32_t i,
                             const struct job *job, const struct site *site,
                             const uint32_t *site_of)
{
    for (int ps = 0; ps <= 1; ps++) {
        uint32_t beside = crew_beside(c, i, ps, site_of);
        uint32_t share = beside ? site->cores / beside : site->cores;
        if ((ps ? job->ps.threads : job->worker.threads) == 0)
            args_add(a, "--set=%s.threads=%u", ps ? "ps" : "worker", share ? share : 1);
    }
}

/* Memory for rows of text data. By default all processes on a host that read data share the amount that one would have. */
static void args_add_memory(struct args *a, const struct crew *c, uint32_t i, const struct job *job,
                            const struct site *site, const uint32_t *site_of)
{
    enum { PART = 4, MIB = 1 << 20 };
    uint32_t beside = crew_beside(c, i, false, site_of);
    if (is_ps(&c->process[i]) || beside < 2 || job->data.memory_mb || !job_reads_columns(job))
        return;
    uint64_t share_mb = site->memory_bytes / PART / beside / MIB;
    args_add(a, "--set=data.memory_mb=%" PRIu64, share_mb ? share_mb : 1);
}

static void args_add_faults(struct args *a, const struct process *p, const struct options *o)
{
    char name[64];
    (void)snprintf(name, sizeof name, "%s-%u=", role_str(p->role), p->index);
    for (size_t i = 0; i < o->n_faults; i++)
        if (strncmp(o->faults[i], name, strlen(name)) == 0)
            args_add(a, "--fault=%s", o->faults[i] + strlen(name));
}

static void args_add_tls(struct args *a, const struct tls_files *f)
{
    const struct {
        const char *flag, *value;
    } all[] = {{"cert", f->cert}, {"key", f->key}, {"ca", f->ca}, {"names", f->names}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].value && *all[i].value)
            args_add(a, "--tls_%s=%s", all[i].flag, all[i].value);
}

enum err crew_make_argv(struct crew *c, uint32_t i, const struct options *o, const struct job *job,
                        const struct site *site, const uint32_t *site_of, const struct handed *fds,
                        struct errmsg *e)
{
    struct process *p = &c->process[i];
    struct args a = {.n = 0};
    enum err err = crew_list_hosts(c, e);
    if (err)
        return err;
    args_add(&a, "%s", is_ps(p) ? site->ps_program : site->worker_program);
    args_add(&a, "--job_name=%s", role_str(p->role));
    args_add(&a, "--task_index=%u", p->index);
    args_add(&a, "--ps_hosts=%s", c->ps_hosts);
    args_add(&a, "--worker_hosts=%s", c->worker_hosts);
    if (o->chief)
        args_add(&a, "--chief_host=%s", c->process[c->chief].address);
    if (o->evaluator && !is_ps(p))
        args_add(&a, "--evaluators=1");
    args_add(&a, "--job=%s", site->job);
    args_add(&a, "--output=%s", site->output);
    args_add_handed(&a, fds);
    if (c->token_flag)
        args_add(&a, "%s", c->token_flag);
    args_add_tls(&a, &site->tls);
    args_add_threads(&a, c, i, job, site, site_of);
    args_add_memory(&a, c, i, job, site, site_of);
    for (size_t k = 0; k < o->n_sets; k++)
        args_add(&a, "--set=%s", o->sets[k]);
    args_add_faults(&a, p, o);
    p->argv = a.argv;
    return a.failed ? err_memory(e) : ERR_OK;
}

enum err crew_settle_here(struct crew *c, const struct options *o, const struct job *job,
                          const struct site *site, int progress_fd, int lock_fd, struct errmsg *e)
{
    enum err err = ERR_OK;
    c->local_place = mem_zalloc(c->n, sizeof *c->local_place);
    if (!c->local_place)
        return err_memory(e);
    rows_open(&c->rows, job->data.spill, c->n - o->ps);
    for (uint32_t i = 0; !err && i < c->n; i++)
        err = local_settle(&c->process[i], &c->local_place[i], &c->guardian, e);
    if (err)
        return err;
    for (uint32_t i = 0; !err && i < c->n; i++) {
        struct handed *fds = &c->local_place[i].handed;
        if (i == c->chief || c->process[i].role == ROLE_EVALUATOR)
            fds->progress = progress_fd;
        if (i == c->chief)
            fds->lock = lock_fd;
        if (!is_ps(&c->process[i])) {
            memcpy(fds->rows, c->rows.rows, sizeof fds->rows);
            fds->rows_processes = c->rows.rows_processes;
        }
        err = crew_make_argv(c, i, o, job, site, NULL, fds, e);
    }
    return err;
}
