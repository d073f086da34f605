/* One handler for SIGTERM and SIGINT: it ends the process with 143 or, if signals are held, notes that one came. It makes only system
 * calls that a handler may make. */
#include "common/process/signals.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "common/base/log.h"

/* Writes the message, and as a process ends the last line of its log. A failure is logged, and changes nothing else. */

void termination_write(const char *path, const char *text)
{
    if (!path[0])
        return;
    size_t bytes = strnlen(text, TERMINATION_BYTES);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    bool wrote = fd >= 0 && write(fd, text, bytes) == (ssize_t)bytes;
    int error = errno;
    if (fd >= 0)
        wrote = close(fd) == 0 && wrote;
    if (!wrote)
        log_warn("--termination_message=%s: %s", path, strerror(error));
}

void termination_end(const char *path, int exit_code)
{
    char text[TERMINATION_BYTES] = "done";
    if (exit_code != 0)
        log_last_words(exit_code != 143, text, sizeof text);
    termination_write(path, text);
}

static volatile sig_atomic_t held, came;
static const char *volatile words_path = "", *volatile words = "";

/* Runs in a signal handler: use async-signal-safe system calls only. */
static void leave_words(void)
{
    const char *path = words_path, *text = words;
    int fd = path[0] ? open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666) : -1;
    ssize_t written = fd >= 0 ? write(fd, text, strlen(text)) : 0;
    (void)written; /* on failure, only the exit code remains */
}

static void leave(int number)
{
    (void)number;
    if (!held) {
        leave_words();
        _exit(143);
    }
    came = 1;
}

void signals_last_words(const char *path, const char *text)
{
    words = text;
    words_path = path;
}

bool signals_held(void)
{
    return came != 0;
}

void signals_hold(void)
{
    held = 1;
}

static void mask(int how)
{
    sigset_t ends;
    (void)sigemptyset(&ends);
    (void)sigaddset(&ends, SIGTERM);
    (void)sigaddset(&ends, SIGINT);
    (void)sigprocmask(how, &ends, NULL);
}

void signals_block(void)
{
    mask(SIG_BLOCK);
}

pid_t signals_fork(void)
{
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, &before);
    pid_t pid = fork();
    if (pid != 0) {
        int why = errno;
        (void)sigprocmask(SIG_SETMASK, &before, NULL);
        errno = why;
    }
    return pid;
}

void signals_reset(void)
{
    for (int number = 1; number < NSIG; number++)
        (void)signal(number, SIG_DFL);
    sigset_t none;
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

void signals_init(void)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    sigemptyset(&action.sa_mask);
    action.sa_handler = SIG_IGN;
    (void)sigaction(SIGPIPE, &action, NULL);
    (void)sigaction(SIGXFSZ, &action, NULL);
    action.sa_handler = leave;
    (void)sigaction(SIGTERM, &action, NULL);
    (void)sigaction(SIGINT, &action, NULL);
    mask(SIG_UNBLOCK);
}
