/* Happy path: the program writes nothing. Each line that it does write begins with a verdict and a check's name
 * (worker/doctor/finding.h). Failure modes: a program that cannot be run says nothing here; the start will. */
#include "launch/local/ahead.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launch/base/say.h"

/* Workers that a core is shared by: from where it is unwise, and from where a host answers nobody any more (1,000 on 2
 * cores: a load of 400, and a shell that waited minutes for its turn). */
enum { WORKERS_MANY = 4, WORKERS_TOO_MANY = 32 };

extern char **environ;

/* ---- the program ---- */

static char **ahead_argv(const struct options *o, const struct site *site)
{
    struct args a = {.n = 0};
    uint32_t trainers = options_trainers(o);
    args_add(&a, "%s", site->worker_program);
    args_add(&a, "--doctor");
    args_add(&a, "--job=%s", site->job);
    args_add(&a, "--crew=%" PRIu32 ",%" PRIu32 ",%d", o->hosts ? 0 : o->ps, trainers, o->evaluator);
    for (size_t k = 0; k < o->n_sets; k++)
        args_add(&a, "--set=%s", o->sets[k]);
    if (!a.failed)
        return a.argv;
    argv_free(a.argv);
    return NULL;
}

/* Its output; NULL: it does not run. */
static FILE *ahead_start(char *const *argv, pid_t *pid)
{
    posix_spawn_file_actions_t actions;
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) != 0)
        return NULL;
    bool runs = posix_spawn_file_actions_init(&actions) == 0;
    if (runs) {
        runs = posix_spawn_file_actions_adddup2(&actions, fds[1], STDOUT_FILENO) == 0 &&
               posix_spawn(pid, argv[0], &actions, NULL, argv, environ) == 0;
        (void)posix_spawn_file_actions_destroy(&actions);
    }
    (void)close(fds[1]);
    FILE *out = runs ? fdopen(fds[0], "r") : NULL;
    if (!out)
        (void)close(fds[0]);
    return out;
}

/* "FAIL model: TEXT" is the error, without the check's name; "warn memory: TEXT" is told. */
static enum err ahead_take_line(const char *line, struct errmsg *e)
{
    const char *text = strstr(line, ": ");
    if (!text)
        return ERR_OK;
    if (strncmp(line, "FAIL ", 5) == 0)
        return err_set(e, ERR_INPUT, "%s", text + 2);
    say_warn("%s", text + 2);
    return ERR_OK;
}

static enum err ahead_hear(FILE *out, struct errmsg *e)
{
    enum err err = ERR_OK;
    char line[2048];
    while (!err && fgets(line, sizeof line, out)) {
        line[strcspn(line, "\n")] = '\0';
        err = ahead_take_line(line, e);
    }
    return err;
}

static enum err ahead_run(char *const *argv, struct errmsg *e)
{
    pid_t pid = 0;
    FILE *out = ahead_start(argv, &pid);
    if (!out)
        return ERR_OK;
    enum err err = ahead_hear(out, e);
    (void)fclose(out);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    return err;
}

/* ---- what is looked at ---- */

static enum err ahead_count(const struct options *o, const struct site *site, struct errmsg *e)
{
    uint32_t trainers = options_trainers(o), cores = site->cores;
    const char *s = cores == 1 ? "" : "s";
    if (o->hosts || trainers <= (uint64_t)WORKERS_MANY * cores)
        return ERR_OK;
    if (trainers > (uint64_t)WORKERS_TOO_MANY * cores)
        return err_set(e, ERR_INPUT,
                       "--workers: %" PRIu32 " workers are too many for the %" PRIu32
                       " core%s of this host, which takes at most %" PRIu32 "; --workers %" PRIu32
                       " is as fast, or give more hosts (--hosts)",
                       trainers, cores, s, WORKERS_TOO_MANY * cores, cores);
    say_warn("%" PRIu32 " workers share %" PRIu32 " core%s: more than one a core train no faster, "
             "and each takes memory; --workers %" PRIu32 " is enough",
             trainers, cores, s, cores);
    return ERR_OK;
}

enum err ahead_look(const struct options *o, const struct site *site, struct errmsg *e)
{
    enum err err = ahead_count(o, site, e);
    if (err)
        return err;
    child_set_environment();
    char **argv = ahead_argv(o, site);
    if (!argv)
        return err_set(e, ERR_NOMEM, "out of memory");
    err = ahead_run(argv, e);
    argv_free(argv);
    return err;
}
