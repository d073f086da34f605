#include "launch/local/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

/* ---- in the child, between fork and exec: only what is safe there ---- */

static void child_reset_signals(void)
{
    for (int sig = 1; sig < NSIG; sig++)
        (void)signal(sig, SIG_DFL); /* the parent's handlers would wake the parent */
    sigset_t none;
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

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
    if (!guardian_register_self(g)) { /* a kernel before 5.3: die with the parent, at once */
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(CHILD_EXIT_NO_EXEC);
    }
    child_keep_fd(c->listen_fd);
    child_keep_fd(c->progress_fd);
    child_keep_fd(c->http_fd);
    child_reset_signals();
    execv(c->argv[0], c->argv);
    (void)dprintf(STDERR_FILENO, "cannot execute %s: %s\n", c->argv[0], strerror(errno));
    _exit(CHILD_EXIT_NO_EXEC);
}

/* ---- in the parent ---- */

/* What the child reads from: the token and then its end, or nothing. -1 and errno on error. */
static int child_open_input(const char *token)
{
    int pair[2];
    if (!token)
        return open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (pipe2(pair, O_CLOEXEC) != 0)
        return -1;
    size_t n = strlen(token);
    bool wrote = write(pair[1], token, n) == (ssize_t)n; /* a pipe holds far more */
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
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, &before);
    pid_t child = fork();
    if (child == 0)
        child_become(c, in_fd, g, parent);
    int why = errno;
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    (void)close(in_fd);
    if (child < 0)
        return err_set(e, ERR_IO, "fork: %s", strerror(why));
    (void)setpgid(child, child); /* whoever is first, so that a signal to the group never misses */
    *pid = child;
    return ERR_OK;
}

void child_signal(pid_t pid, int sig)
{
    if (pid > 0)
        (void)kill(-pid, sig);
}
