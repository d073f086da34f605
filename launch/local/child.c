#include "launch/local/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "common/base/mem.h"
#include "common/base/printable.h"
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
