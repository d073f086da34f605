#include "k8s/entrypoint/pair.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/process/signals.h"

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

enum { PS, WORKER, LATE_S = 10 };

struct pair {
    const char *programs[2];
    pid_t pids[2]; /* 0: it has ended */
    bool is_chief;
    bool too_late; /* the worker got SIGTERM, because the job is done */
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
        if (pid != p->pids[PS] && pid != p->pids[WORKER])
            continue;
        int i = pid == p->pids[WORKER] ? WORKER : PS;
        p->pids[i] = 0;
        if (status && !p->code && !p->too_late)
            fail(p, i, status);
    }
}

/* A worker that first connects when the job is done finds no process that could report the end to it. */
static void end_late_worker(struct pair *p)
{
    log_info("the job is done: ending the worker, which connected too late to learn this");
    p->too_late = true;
    tell(p);
}

/* Wait for a signal. Returns 0 if none came for LATE_S and the ps has ended with 0. */
static int next_signal(const struct pair *p, const sigset_t *mine)
{
    static const struct timespec late = {.tv_sec = LATE_S};
    bool is_done = !p->is_chief && !p->pids[PS] && !p->code && !p->too_late;
    int sig = (int)TEMP_FAILURE_RETRY(sigtimedwait(mine, NULL, is_done ? &late : NULL));
    return sig < 0 ? 0 : sig;
}

static const char *name_of(char *const *argv)
{
    const char *slash = strrchr(argv[0], '/');
    return slash ? slash + 1 : argv[0];
}

int pair_run(char *const *ps, char *const *worker, bool is_chief, const char *last_words)
{
    sigset_t mine, before;
    struct pair p = {
        .programs = {name_of(ps), name_of(worker)}, .is_chief = is_chief, .path = last_words};
    (void)sigemptyset(&mine);
    (void)sigaddset(&mine, SIGTERM);
    (void)sigaddset(&mine, SIGINT);
    (void)sigaddset(&mine, SIGCHLD);
    (void)sigprocmask(SIG_BLOCK, &mine, &before);
    p.pids[PS] = start(ps, &before);
    p.pids[WORKER] = p.pids[PS] > 0 ? start(worker, &before) : -1;
    if (p.pids[WORKER] < 0) {
        p.code = 138; /* no memory, or too many processes: a restart may help */
        tell(&p);
    }
    while (p.pids[PS] > 0 || p.pids[WORKER] > 0) {
        int sig = next_signal(&p, &mine);
        if (!sig)
            end_late_worker(&p);
        else if (sig != SIGCHLD)
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
    (void)TEMP_FAILURE_RETRY(waitpid(pid, &status, 0));
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
