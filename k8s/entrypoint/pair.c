#include "k8s/entrypoint/pair.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/log.h"

static pid_t start(char *const *argv, const sigset_t *mask)
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

static void tell(const pid_t *pids)
{
    for (int i = 0; i < 2; i++)
        if (pids[i] > 0)
            (void)kill(pids[i], SIGTERM);
}

/* Reap all processes that have ended. PID 1 also gets orphans that it did not start. */
static void reap(pid_t *pids, int *code)
{
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
        int own = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        if (pid != pids[0] && pid != pids[1])
            continue;
        pids[pid == pids[1]] = 0;
        if (own && !*code) {
            *code = own;
            tell(pids);
        }
    }
}

int pair_run(char *const *first, char *const *second)
{
    sigset_t mine, before;
    pid_t pids[2] = {0, 0};
    int code = 0;
    (void)sigemptyset(&mine);
    (void)sigaddset(&mine, SIGTERM);
    (void)sigaddset(&mine, SIGINT);
    (void)sigaddset(&mine, SIGCHLD);
    (void)sigprocmask(SIG_BLOCK, &mine, &before);
    pids[0] = start(first, &before);
    pids[1] = pids[0] > 0 ? start(second, &before) : -1;
    if (pids[1] < 0) {
        code = 138; /* no memory, or too many processes: a restart may help */
        tell(pids);
    }
    while (pids[0] > 0 || pids[1] > 0) {
        if (sigwaitinfo(&mine, NULL) != SIGCHLD)
            tell(pids);
        reap(pids, &code);
    }
    return code;
}

static int code_of(pid_t pid)
{
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int pair_in_turn(char *const *first, char *const *second)
{
    sigset_t none;
    char *const *const of[] = {first, second};
    int worst = 0;
    (void)sigemptyset(&none);
    for (int i = 0; i < 2; i++) {
        pid_t pid = start(of[i], &none);
        int code = pid > 0 ? code_of(pid) : 1;
        worst = code > worst ? code : worst;
    }
    return worst;
}
