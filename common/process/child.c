/* Starts the program with a pipe as its stderr, whose last line is kept, and waits for its end and for its words together. The child
 * is reaped in every case. */
#include "common/process/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/printable.h"
#include "common/process/files.h"
#include "common/process/signals.h"

/* Looks for FOLDER/gradwire-NAME, and for FOLDER/NAME/NAME. For the running program FOLDER is its own directory, or the one above. */

static bool take(char path[static PATH_MAX], const char *found, int length)
{
    if (length < 0 || length >= PATH_MAX || access(found, X_OK) != 0)
        return false;
    memcpy(path, found, (size_t)length + 1);
    return true;
}

static bool installed(char path[static PATH_MAX], const char *folder, const char *name)
{
    char found[PATH_MAX];
    return take(path, found, snprintf(found, sizeof found, "%s/gradwire-%s", folder, name));
}

static bool built(char path[static PATH_MAX], const char *folder, const char *name)
{
    char found[PATH_MAX];
    return take(path, found, snprintf(found, sizeof found, "%s/%s/%s", folder, name, name));
}

static enum err not_there(const char *folder, const char *name, struct errmsg *e)
{
    return err_set(e, ERR_INPUT,
                   "%.200s contains neither gradwire-%s nor %s/%s: build or install gradwire again",
                   folder, name, name, name);
}

enum err program_in(char path[static PATH_MAX], const char *folder, const char *name,
                    struct errmsg *e)
{
    if (installed(path, folder, name) || built(path, folder, name))
        return ERR_OK;
    return not_there(folder, name, e);
}

enum err program_beside(char path[static PATH_MAX], const char *name, struct errmsg *e)
{
    char own[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", own, sizeof own - 1);
    if (n <= 0)
        return err_set(e, ERR_INPUT,
                       "the directory of this program is unknown: /proc/self/exe cannot be read");
    own[n] = 0;
    *strrchr(own, '/') = 0;
    if (installed(path, own, name))
        return ERR_OK;
    char *up = strrchr(own, '/'); /* we are build/launch/launch: other programs are in build/NAME */
    if (up)
        *up = 0;
    return built(path, own, name) ? ERR_OK : not_there(own, name, e);
}

enum { LINE_BYTES = 400, LOOK_MS = 200, EXIT_INPUT = 2, EXIT_NO_PROGRAM = 127 };

struct child {
    pid_t pid;
    int pidfd, said;       /* said: the reading end of its stderr; -1: it is closed */
    char line[LINE_BYTES]; /* its last line there, or the beginning of a long one */
    size_t bytes;
    bool ended_line; /* the next byte begins a line */
    const char *what;
};

static const char own_words[] = "gradwire: ";

/* ---- the child ---- */

static void become(const struct child_call *call, int null, int said)
{
    signals_reset();
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0 ||
        dup2(said, STDERR_FILENO) < 0)
        _exit(EXIT_NO_PROGRAM);
    /* a launcher handed files down to us, which stay open in programs that we start */
    (void)close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC);
    (void)execv(call->program, (char *const *)(uintptr_t)call->argv);
    (void)dprintf(STDERR_FILENO, "%s: %s\n", PRINTABLE(call->program), strerror(errno));
    _exit(EXIT_NO_PROGRAM);
}

static enum err start(struct child *c, const struct child_call *call, struct errmsg *e)
{
    int said[2] = {-1, -1}, null = open("/dev/null", O_RDWR | O_CLOEXEC);
    *c = (struct child){.pid = -1, .pidfd = -1, .said = -1, .what = call->what};
    if (null >= 0 && pipe2(said, O_CLOEXEC) == 0)
        c->pid = signals_fork();
    if (c->pid == 0)
        become(call, null, said[1]);
    int error = errno;
    files_close(&null);
    files_close(&said[1]);
    c->said = said[0];
    if (c->pid > 0) {
        c->pidfd = pidfd_open(c->pid, 0);
        return ERR_OK;
    }
    files_close(&c->said);
    return err_set(e, err_of_errno(error), "%s: it cannot be started: %s", call->argv[0],
                   strerror(error));
}

/* ---- its words ---- */

static const char *without(const char *line, const char *begin)
{
    size_t bytes = strlen(begin);
    return strncmp(line, begin, bytes) == 0 ? line + bytes : line;
}

static void warn_of_line(const struct child *c)
{
    const char *line = without(c->line, own_words), *warning = without(line, "warning: ");
    if (line != c->line && warning != line)
        log_warn("%s: %s", c->what, warning);
}

static void keep(struct child *c, char byte)
{
    if (c->ended_line)
        c->bytes = 0;
    c->ended_line = byte == '\n';
    if (!c->ended_line && c->bytes < sizeof c->line - 1)
        c->line[c->bytes++] = byte;
    c->line[c->bytes] = '\0';
    if (byte == '\n')
        warn_of_line(c);
}

/* A program that the child left running can keep the pipe open. */
static bool has_words(const struct child *c)
{
    struct pollfd said = {.fd = c->said, .events = POLLIN};
    return c->said >= 0 && poll(&said, 1, 0) > 0;
}

/* False: nothing more will come. */
static bool hear(struct child *c)
{
    char piece[512];
    ssize_t n = read(c->said, piece, sizeof piece);
    for (ssize_t i = 0; i < n; i++)
        keep(c, piece[i]);
    return n > 0 || (n < 0 && errno == EINTR);
}

/* ---- its end ---- */

/* Wait for its end. ERR_TIMEOUT, ERR_CLOSED: it still runs. */
static enum err await(struct child *c, const struct child_call *call, struct errmsg *e)
{
    int64_t until_ms = clock_now_ms() + call->deadline_ms, now_ms;
    while ((now_ms = clock_now_ms()) < until_ms) {
        struct pollfd watched[] = {{.fd = c->pidfd, .events = POLLIN},
                                   {.fd = c->said, .events = POLLIN}};
        int64_t left_ms = until_ms - now_ms;
        if (poll(watched, 2, (int)(left_ms < LOOK_MS ? left_ms : LOOK_MS)) > 0) {
            if (watched[1].revents && !hear(c))
                files_close(&c->said);
            if (watched[0].revents)
                return ERR_OK;
        }
        if (call->ends && call->ends())
            return err_set(e, ERR_CLOSED, "%s: interrupted", call->argv[0]);
    }
    return err_set(e, ERR_TIMEOUT, "%s: it was not done after %u s", call->argv[0],
                   call->deadline_ms / 1000);
}

static enum err verdict(struct child *c, const struct child_call *call, int status,
                        struct errmsg *e)
{
    const char *line = without(c->line, own_words);
    if (WIFSIGNALED(status))
        return err_set(e, ERR_STATE, "%s: signal %d (%s) ended it", call->argv[0], WTERMSIG(status),
                       strsignal(WTERMSIG(status)));
    if (WEXITSTATUS(status) == 0)
        return ERR_OK;
    if (!*line)
        return err_set(e, ERR_STATE, "%s: exit code %d", call->argv[0], WEXITSTATUS(status));
    return err_set(e, WEXITSTATUS(status) == EXIT_INPUT ? ERR_INPUT : ERR_STATE, "%s", line);
}

enum err child_run(const struct child_call *call, struct errmsg *e)
{
    struct child c;
    int status = 0;
    enum err err = start(&c, call, e);
    if (err)
        return err;
    err = c.pidfd >= 0 ? await(&c, call, e)
                       : err_set(e, ERR_IO, "%s: %s", call->argv[0], strerror(errno));
    if (err)
        (void)kill(c.pid, SIGKILL);
    (void)TEMP_FAILURE_RETRY(waitpid(c.pid, &status, 0));
    while (!err && has_words(&c) && hear(&c))
        ;
    files_close(&c.said);
    files_close(&c.pidfd);
    return err ? err : verdict(&c, call, status, e);
}
