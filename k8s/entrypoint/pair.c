#include "k8s/entrypoint/pair.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/process/termination.h"

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

struct pair {
    const char *programs[2];
    pid_t pids[2]; /* 0: it has ended */
    int code;      /* the first exit code that is not 0 */
    const char *path;
    char words[TERMINATION_BYTES]; /* the reason of the one that failed first; "": it gave none */
};

static void tell(const struct pair *p)
{
    for (int i = 0; i < 2; i++)
        if (p->pids[i] > 0)
            (void)kill(p->pids[i], SIGTERM);
}

/* Keep the reason that the program wrote, because the other one writes its own over it after SIGTERM. */
static void keep_words(struct pair *p)
{
    FILE *file = p->path[0] ? fopen(p->path, "re") : NULL;
    if (!file)
        return;
    p->words[fread(p->words, 1, sizeof p->words - 1, file)] = 0;
    (void)fclose(file);
}

static void fail(struct pair *p, int i, int status)
{
    if (WIFSIGNALED(status))
        (void)snprintf(p->words, sizeof p->words, "%s was killed by signal %d (%s)", p->programs[i],
                       WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        keep_words(p);
    p->code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    if (WIFSIGNALED(status))
        log_error("%s", p->words);
    tell(p);
}

/* Reap all processes that have ended. PID 1 also gets orphans that it did not start. */
static void reap(struct pair *p)
{
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
        if (pid != p->pids[0] && pid != p->pids[1])
            continue;
        int i = pid == p->pids[1];
        p->pids[i] = 0;
        if (status && !p->code)
            fail(p, i, status);
    }
}

static const char *name_of(char *const *argv)
{
    const char *slash = strrchr(argv[0], '/');
    return slash ? slash + 1 : argv[0];
}

int pair_run(char *const *first, char *const *second, const char *last_words)
{
    sigset_t mine, before;
    struct pair p = {.programs = {name_of(first), name_of(second)}, .path = last_words};
    (void)sigemptyset(&mine);
    (void)sigaddset(&mine, SIGTERM);
    (void)sigaddset(&mine, SIGINT);
    (void)sigaddset(&mine, SIGCHLD);
    (void)sigprocmask(SIG_BLOCK, &mine, &before);
    p.pids[0] = start(first, &before);
    p.pids[1] = p.pids[0] > 0 ? start(second, &before) : -1;
    if (p.pids[1] < 0) {
        p.code = 138; /* no memory, or too many processes: a restart may help */
        tell(&p);
    }
    while (p.pids[0] > 0 || p.pids[1] > 0) {
        if (sigwaitinfo(&mine, NULL) != SIGCHLD)
            tell(&p);
        reap(&p);
    }
    if (p.words[0])
        termination_write(p.path, p.words);
    return p.code;
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
