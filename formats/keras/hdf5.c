/* Runs gradwire-hdf5: it gets the two files as descriptors 3 and 4, and its stderr is a pipe, whose first line becomes the error. */
#include "formats/keras/hdf5.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/printable.h"
#include "common/base/mem.h"
#include "common/process/child.h"

/* The child's descriptors, and the paths by which it opens them. */
enum { CHILD_FROM = 3, CHILD_TO = 4, ABOVE_CHILD = 16 };
static const char from_path[] = "/proc/self/fd/3", to_path[] = "/proc/self/fd/4";

enum { DEADLINE_MS = 60000, BYTES_PER_MS = 8 << 10, EXIT_WRONG_INPUT = 2, EXIT_NO_MEMORY = 138 };

extern char **environ;

enum err hdf5_scratch(int *fd, struct errmsg *e)
{
    char path[4096];
    const char *folder = getenv("TMPDIR");
    int n = snprintf(path, sizeof path, "%s/gradwire-XXXXXX", folder && *folder ? folder : "/tmp");
    int made = n > 0 && (size_t)n < sizeof path ? mkostemp(path, O_CLOEXEC) : -1;
    if (made < 0)
        return err_set(e, ERR_IO, "%.200s: no temporary file can be made: %s", path,
                       strerror(errno));
    (void)unlink(path);
    *fd = made;
    return ERR_OK;
}

/* ---- start ---- */

struct child {
    pid_t pid;
    int pidfd, errors; /* errors: the reading end of its stderr */
    char line[400];    /* its first words there */
    size_t bytes;
};

static enum err find_program(char path[static PATH_MAX], struct errmsg *e)
{
    const char *folder = getenv("GRADWIRE_BIN_DIR");
    return folder && *folder ? program_in(path, folder, "hdf5", e)
                             : program_beside(path, "hdf5", e);
}

/* This process's environment without variables that change what the library does. NULL: out of memory. */
static char **child_environment(void)
{
    static char no_locks[] = "HDF5_USE_FILE_LOCKING=FALSE";
    size_t n = 0, kept = 0;
    while (environ[n])
        n++;
    char **env = mem_zalloc(n + 2, sizeof *env);
    for (size_t i = 0; i < n && env; i++)
        if (strncmp(environ[i], "HDF5_", 5) != 0)
            env[kept++] = environ[i];
    if (env)
        env[kept] = no_locks;
    return env;
}

/* Descriptors that no assignment to the child's numbers can hit: of the two files and its stderr. */
enum { LENT = 3 };

static bool lent_make(int lent[LENT], const struct hdf5_call *call, int errors)
{
    const int own[LENT] = {call->from, call->to, errors};
    bool made = true;
    for (int i = 0; i < LENT; i++) {
        lent[i] = fcntl(own[i], F_DUPFD_CLOEXEC, ABOVE_CHILD);
        made &= lent[i] >= 0;
    }
    return made;
}

static void lent_close(const int lent[LENT])
{
    for (int i = 0; i < LENT; i++)
        if (lent[i] >= 0)
            (void)close(lent[i]);
}

static int spawn(pid_t *pid, const char *program, const char *command, const int lent[LENT],
                 char **env)
{
    static const int child[LENT] = {CHILD_FROM, CHILD_TO, STDERR_FILENO};
    const char *const argv[] = {program, command, from_path, to_path, NULL};
    posix_spawn_file_actions_t actions;
    int failed = posix_spawn_file_actions_init(&actions);
    if (failed)
        return failed;
    for (int i = 0; i < LENT && !failed; i++)
        failed = posix_spawn_file_actions_adddup2(&actions, lent[i], child[i]);
    if (!failed)
        failed = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (!failed)
        failed =
            posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    if (!failed)
        failed = posix_spawn(pid, program, &actions, NULL, (char *const *)argv, env);
    (void)posix_spawn_file_actions_destroy(&actions);
    return failed;
}

static enum err start_with(struct child *c, const struct hdf5_call *call, const int pipe[2],
                           struct errmsg *e)
{
    char program[PATH_MAX];
    int lent[LENT];
    enum err err = find_program(program, e);
    if (err)
        return err;
    char **env = child_environment();
    int failed = env && lent_make(lent, call, pipe[1])
                     ? spawn(&c->pid, program, call->command, lent, env)
                     : ENOMEM;
    if (env)
        lent_close(lent);
    mem_free(env);
    if (failed)
        return err_set(e, ERR_IO, "%.200s: %s", program, strerror(failed));
    c->pidfd = pidfd_open(c->pid, 0);
    return ERR_OK;
}

static enum err child_start(struct child *c, const struct hdf5_call *call, struct errmsg *e)
{
    int pipe[2];
    *c = (struct child){.pidfd = -1};
    if (pipe2(pipe, O_CLOEXEC) != 0)
        return err_set(e, ERR_IO, "%s: %s", call->name, strerror(errno));
    enum err err = start_with(c, call, pipe, e);
    (void)close(pipe[1]);
    c->errors = pipe[0];
    if (err)
        (void)close(pipe[0]);
    return err;
}

/* ---- wait ---- */

static uint32_t deadline_of(const struct hdf5_call *call)
{
    struct stat st;
    if (call->deadline_ms)
        return call->deadline_ms;
    uint64_t more = fstat(call->from, &st) == 0 ? (uint64_t)st.st_size / BYTES_PER_MS : 0;
    return more > INT32_MAX - DEADLINE_MS ? INT32_MAX : DEADLINE_MS + (uint32_t)more;
}

/* Keep its first words. Returns false at the end. */
static bool child_hear(struct child *c)
{
    char more[512];
    ssize_t n = read(c->errors, more, sizeof more);
    if (n < 0 && errno == EINTR)
        return true;
    if (n <= 0)
        return false;
    size_t room = sizeof c->line - 1 - c->bytes, kept = (size_t)n < room ? (size_t)n : room;
    memcpy(c->line + c->bytes, more, kept);
    c->bytes += kept;
    return true;
}

/* Returns false if it still runs at the deadline. */
static bool child_wait(struct child *c, int64_t until_ms)
{
    struct pollfd watched[] = {{.fd = c->pidfd, .events = POLLIN},
                               {.fd = c->errors, .events = POLLIN}};
    for (;;) {
        int64_t now = clock_now_ms();
        int ready = now < until_ms ? poll(watched, 2, (int)(until_ms - now)) : 0;
        if (ready == 0)
            return false;
        if (ready > 0 && watched[1].revents && !child_hear(c))
            watched[1].fd = -1;
        if (ready > 0 && watched[0].revents) {
            while (watched[1].fd >= 0 && child_hear(c))
                ;
            return true;
        }
    }
}

/* ---- what became of it ---- */

/* Its line, without the name by which it knows the file. */
static const char *child_said(struct child *c)
{
    c->line[c->bytes] = '\0';
    c->line[strcspn(c->line, "\n")] = '\0';
    (void)printable_text(c->line, sizeof c->line, c->line);
    size_t n = sizeof from_path - 1;
    bool named = strncmp(c->line, from_path, n) == 0 && strncmp(c->line + n, ": ", 2) == 0;
    return named ? c->line + n + 2 : c->line;
}

static enum err verdict(struct child *c, const struct hdf5_call *call, int status, struct errmsg *e)
{
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    if (code == 0)
        return ERR_OK;
    if (WIFSIGNALED(status))
        return err_set(e, ERR_CORRUPT,
                       "%s: gradwire-hdf5 ended by signal %d (%s): the file is damaged, or made to "
                       "do harm",
                       call->name, WTERMSIG(status), strsignal(WTERMSIG(status)));
    enum err err = code == EXIT_WRONG_INPUT ? ERR_INPUT
                   : code == EXIT_NO_MEMORY ? ERR_NOMEM
                                            : ERR_CORRUPT;
    const char *said = child_said(c);
    return err_set(e, err, "%s: %s", call->name, *said ? said : "gradwire-hdf5 failed");
}

enum err hdf5_run(const struct hdf5_call *call, struct errmsg *e)
{
    struct child c;
    int status = 0;
    uint32_t deadline_ms = deadline_of(call);
    enum err err = child_start(&c, call, e);
    if (err)
        return err;
    bool ended = c.pidfd >= 0 && child_wait(&c, clock_now_ms() + deadline_ms);
    if (!ended)
        (void)kill(c.pid, SIGKILL);
    while (waitpid(c.pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (c.pidfd >= 0)
        (void)close(c.pidfd);
    (void)close(c.errors);
    if (!ended)
        return err_set(e, ERR_TIMEOUT, "%s: gradwire-hdf5 was not done after %u s", call->name,
                       deadline_ms / 1000);
    return verdict(&c, call, status, e);
}
