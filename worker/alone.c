#include "worker/process.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/net/listen.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/net/socket.h"
#include "common/net/tls.h"
#include "common/peers/token.h"

enum { ARGS_MAX = 512, WAIT_MS = 5000 };

static enum err find_program(char *out, size_t bytes, struct errmsg *e)
{
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n <= 0)
        return err_set(e, ERR_IO, "/proc/self/exe: %s", strerror(errno));
    self[n] = 0;
    char *slash = strrchr(self, '/');
    *slash = 0;
    (void)snprintf(out, bytes, "%s/gradwire-ps", self);
    if (access(out, X_OK) == 0)
        return ERR_OK;
    (void)snprintf(out, bytes, "%s/../ps/ps", self);
    if (access(out, X_OK) == 0)
        return ERR_OK;
    return err_set(e, ERR_IO, "no ps is given, and no ps program is found next to this one (%s)",
                   out);
}

static void run_ps(const char *program, int fd, const char *address, const struct flags *f,
                   const char *output, pid_t parent)
{
    char *argv[ARGS_MAX], hosts[128], listen[64];
    int n = 0;
    (void)snprintf(hosts, sizeof hosts, "--ps_hosts=%s", address);
    (void)snprintf(listen, sizeof listen, "--listen_fd=%d", fd);
    argv[n++] = (char *)program;
    argv[n++] = (char *)"--job_name=ps";
    argv[n++] = (char *)"--task_index=0";
    argv[n++] = hosts;
    argv[n++] = listen;
    argv[n++] = (char *)"--job";
    argv[n++] = (char *)f->job;
    argv[n++] = (char *)"--output";
    argv[n++] = (char *)output;
    for (size_t i = 0; i < f->n_sets && n < ARGS_MAX - 2; i++) {
        argv[n++] = (char *)"--set";
        argv[n++] = (char *)f->sets[i];
    }
    argv[n] = NULL;
    unsetenv("TF_CONFIG");
    (void)setpgid(0, 0); /* Ctrl-C is only for the worker, which stops the ps through the chief */
    if (prctl(PR_SET_PDEATHSIG, SIGTERM) || getppid() != parent)
        _exit(138);
    execv(program, argv);
    log_error("%s: %s", program, strerror(errno));
    _exit(1);
}

static enum err join_cluster(struct cluster *c, const char *address)
{
    c->ps = mem_zalloc(1, sizeof *c->ps);
    if (!c->ps)
        return ERR_NOMEM;
    c->ps[0] = mem_strdup(address);
    c->n_ps = c->ps[0] != NULL;
    return c->n_ps ? ERR_OK : ERR_NOMEM;
}

enum err alone_start(struct alone *a, struct cluster *c, const struct flags *f, const char *output,
                     struct errmsg *e)
{
    char program[PATH_MAX + 32], address[64];
    int fd = -1;
    tls_forget();
    token_forget(); /* both are on loopback, and this process starts the ps */
    enum err err = find_program(program, sizeof program, e);
    if (!err)
        err = listen_bind(&fd, "127.0.0.1:0", 0, e);
    if (err)
        return err;
    (void)snprintf(address, sizeof address, "127.0.0.1:%u", socket_port(fd));
    err = join_cluster(c, address);
    if (err) {
        (void)close(fd);
        return err_set(e, err, "no memory for the cluster");
    }
    pid_t parent = getpid();
    a->pid = fork();
    if (a->pid == 0) {
        int own = dup(fd); /* without close-on-exec */
        run_ps(program, own, address, f, output, parent);
    }
    (void)close(fd);
    if (a->pid < 0) {
        a->pid = 0;
        return err_set(e, ERR_IO, "a ps cannot be started: %s", strerror(errno));
    }
    log_info("no ps is given: one runs on %s, pid %d", address, (int)a->pid);
    return ERR_OK;
}

void alone_stop(struct alone *a)
{
    if (a->pid <= 0)
        return;
    const struct timespec tick = {.tv_nsec = 10 * 1000 * 1000};
    for (int ms = 0; waitpid(a->pid, NULL, WNOHANG) == 0; ms += 10) {
        if (ms == WAIT_MS)
            (void)kill(a->pid, SIGTERM);
        if (ms == 2 * WAIT_MS)
            (void)kill(a->pid, SIGKILL);
        nanosleep(&tick, NULL);
    }
    a->pid = 0;
}
