/* Happy path: the worker program writes nothing. Each line that it writes begins with a verdict and the name of a check
 * (worker/doctor/finding.c). Failure modes: if the program cannot be executed, nothing is reported here; the start of the
 * processes reports it. */
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

/* Workers per core: limits for a warning and for an error. Far beyond the latter a host is unusable: with 1,000 workers on 2
 * cores the load was 400, and a shell waited minutes to run. */
enum { WORKERS_MANY = 4, WORKERS_TOO_MANY = 32 };

extern char **environ;

/* ---- the program ---- */

static char **ahead_argv(const struct ahead *h)
{
    const struct ahead_crew *c = &h->crew;
    struct args a = {.n = 0};
    args_add(&a, "%s", h->worker_program);
    args_add(&a, "--doctor");
    args_add(&a, "--job=%s", h->job);
    args_add(&a, "--crew=%" PRIu32 ",%" PRIu32 ",%" PRIu32 ",%" PRIu32 ",%" PRIu32, c->ps,
             c->workers, c->evaluators, c->all_ps, c->all_workers);
    for (size_t k = 0; k < h->n_sets; k++)
        args_add(&a, "--set=%s", h->sets[k]);
    if (!a.failed)
        return a.argv;
    argv_free(a.argv);
    return NULL;
}

/* Run the program. Returns a stream of its output; NULL: it could not be run. */
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

struct heard {
    void (*warn)(void *arg, const char *text);
    void *arg;
};

/* Handle a line: "FAIL model: TEXT" becomes the error, without the check's name; "warn memory: TEXT" goes to `warn`. */
static enum err ahead_take_line(const struct heard *h, const char *line, struct errmsg *e)
{
    const char *text = strstr(line, ": ");
    if (!text)
        return ERR_OK;
    if (strncmp(line, "FAIL ", 5) == 0)
        return err_set(e, ERR_INPUT, "%s", text + 2);
    h->warn(h->arg, text + 2);
    return ERR_OK;
}

static enum err ahead_hear(const struct heard *h, FILE *out, struct errmsg *e)
{
    enum err err = ERR_OK;
    char line[2048];
    while (!err && fgets(line, sizeof line, out)) {
        line[strcspn(line, "\n")] = '\0';
        err = ahead_take_line(h, line, e);
    }
    return err;
}

static enum err ahead_run(char *const *argv, const struct heard *h, struct errmsg *e)
{
    pid_t pid = 0;
    FILE *out = ahead_start(argv, &pid);
    if (!out)
        return ERR_OK;
    enum err err = ahead_hear(h, out, e);
    (void)fclose(out);
    (void)TEMP_FAILURE_RETRY(waitpid(pid, NULL, 0));
    return err;
}

enum err ahead_ask(const struct ahead *a, void (*warn)(void *arg, const char *text), void *arg,
                   struct errmsg *e)
{
    const struct heard heard = {warn, arg};
    child_set_environment();
    char **argv = ahead_argv(a);
    if (!argv)
        return err_memory(e);
    enum err err = ahead_run(argv, &heard, e);
    argv_free(argv);
    return err;
}

/* ---- the checks ---- */

bool ahead_count(uint32_t workers, uint32_t cores, const char *flag, char text[AHEAD_TEXT_BYTES])
{
    const char *s = cores == 1 ? "" : "s";
    text[0] = 0;
    if (workers <= (uint64_t)WORKERS_MANY * cores)
        return true;
    bool fit = workers <= (uint64_t)WORKERS_TOO_MANY * cores;
    if (fit)
        (void)snprintf(
            text, AHEAD_TEXT_BYTES,
            "%" PRIu32 " workers share %" PRIu32 " core%s: more than one worker a core does "
            "not train faster, and each needs memory; %s%s%" PRIu32 " %s enough",
            workers, cores, s, flag, *flag ? " " : "", cores, *flag || cores == 1 ? "is" : "are");
    else
        (void)snprintf(text, AHEAD_TEXT_BYTES,
                       "%s%s%" PRIu32 " workers are too many for the %" PRIu32
                       " core%s of this host, which takes at most %" PRIu32 "; %s%s%" PRIu32
                       " %s as fast",
                       flag, *flag ? ": " : "", workers, cores, s, WORKERS_TOO_MANY * cores, flag,
                       *flag ? " " : "", cores, *flag || cores == 1 ? "is" : "are");
    return fit;
}

static void say_it(void *arg, const char *text)
{
    (void)arg;
    say_warn("%s", text);
}

enum err ahead_look(const struct options *o, const struct site *site, struct errmsg *e)
{
    char text[AHEAD_TEXT_BYTES];
    uint32_t trainers = options_trainers(o);
    struct ahead a = {.worker_program = site->worker_program,
                      .job = site->job,
                      .sets = o->sets,
                      .n_sets = o->n_sets};
    if (!o->hosts) {
        a.crew = (struct ahead_crew){o->ps, trainers, o->evaluator, o->ps, trainers};
        if (!ahead_count(trainers, site->cores, "--workers", text))
            return err_set(e, ERR_INPUT, "%s, or give more hosts (--hosts)", text);
        if (*text)
            say_it(NULL, text);
    }
    return ahead_ask(&a, say_it, NULL, e);
}
