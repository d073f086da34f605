#include "launch/remote/link.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/base/printable.h"
#include "common/process/signals.h"

enum { LINK_TICK_MS = 500, LINK_LATE_MS = 3000, LINK_RSH_WORDS = 64, LINK_WAIT_STEP_MS = 10 };

/* ---- the shell's stderr ---- */

/* A prompt has no line end, so an incomplete line counts as the last one. */
static void link_on_error_byte(struct link *l, char c)
{
    if (c == '\n' || c == '\r') {
        l->line_n = 0;
    } else if (l->line_n < sizeof l->words - 1) {
        l->words[l->line_n++] = c;
        l->words[l->line_n] = 0;
    }
}

/* Read everything that is available now; fd -1: does nothing. */
static void on_errors(evutil_socket_t fd, short what, void *arg)
{
    (void)what;
    struct link *l = arg;
    char bytes[1024];
    ssize_t n = 0;
    while (fd >= 0 && (n = read(fd, bytes, sizeof bytes)) > 0)
        for (ssize_t i = 0; i < n; i++)
            link_on_error_byte(l, bytes[i]);
    if (l->errors && n == 0)
        (void)event_del(l->errors);
}

/* ---- the end ---- */

static void link_kill(struct link *l)
{
    if (l->pid <= 0)
        return;
    (void)kill(-l->pid, SIGKILL);
    (void)TEMP_FAILURE_RETRY(waitpid(l->pid, NULL, 0));
    l->pid = 0;
}

void link_hang_up(struct link *l)
{
    talk_close(&l->talk);
    if (l->errors)
        event_free(l->errors);
    l->errors = NULL;
    if (l->errors_fd >= 0)
        (void)close(l->errors_fd);
    l->errors_fd = -1;
    (void)event_del(l->tick);
    l->state = LINK_DOWN;
}

void link_drop(struct link *l)
{
    link_hang_up(l);
    link_kill(l);
}

/* The reason, with the last output of a shell that waits for a password, or says why it ends. */
static void link_lose(struct link *l, const char *why)
{
    char text[LINK_WORDS_BYTES + TALK_GREETING_BYTES + 128];
    if (l->state == LINK_DOWN)
        return;
    on_errors(l->errors_fd, EV_READ, l);
    const char *greeting = l->talk.greeted ? "" : l->talk.greeting;
    bool both = *greeting && l->words[0], any = *greeting || l->words[0];
    (void)printable_format(text, sizeof text, "%s%s%s%s%s%s", why, any ? " (" : "", greeting,
                           both ? "; " : "", l->words, any ? ")" : "");
    link_drop(l);
    l->ops->down(l->arg, text);
}

bool link_reaped(struct link *l, pid_t pid)
{
    if (l->pid != pid)
        return false;
    l->pid = 0; /* the end of its pipes tells the rest */
    return true;
}

/* ---- received messages ---- */

static bool on_message(void *arg, enum talk_type type, uint32_t process, const char *data,
                       size_t bytes)
{
    struct link *l = arg;
    if (type == TALK_PONG)
        return true;
    if (l->state == LINK_READY)
        return l->ops->message(l->arg, type, process, data, bytes);
    if (type != TALK_READY)
        return false;
    json_t *about = json_loadb(data, bytes, 0, NULL);
    if (!about)
        return false;
    l->state = LINK_READY;
    l->ops->ready(l->arg, about);
    json_decref(about);
    return true;
}

static void on_end(void *arg, const char *why)
{
    link_lose(arg, why);
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    struct link *l = arg;
    int64_t now_ms = clock_now_ms();
    char why[64];
    if (now_ms - l->ticked_ms >
        LINK_LATE_MS) /* this side did not read for a while (it waited for a lock) */
        l->talk.heard_ms = now_ms;
    l->ticked_ms = now_ms;
    if (l->state == LINK_OPENING && now_ms - l->opened_ms > LINK_READY_MS) {
        (void)snprintf(why, sizeof why, "no answer for %d s", LINK_READY_MS / 1000);
        link_lose(l, why);
    } else if (l->state == LINK_READY && !l->busy && now_ms - l->talk.heard_ms > TALK_SILENCE_MS) {
        (void)snprintf(why, sizeof why, "nothing received for %d s", TALK_SILENCE_MS / 1000);
        link_lose(l, why);
    } else if (l->state == LINK_READY && now_ms - l->pinged_ms >= TALK_PING_MS) {
        l->pinged_ms = now_ms;
        talk_send_raw(&l->talk, TALK_PING, 0, "", 0);
    }
}

/* ---- the shell ---- */

static _Noreturn void link_become(char **argv, const int in[2], const int out[2], const int err[2])
{
    (void)setpgid(0, 0);
    (void)dup2(in[0], STDIN_FILENO);
    (void)dup2(out[1], STDOUT_FILENO);
    (void)dup2(err[1], STDERR_FILENO);
    signals_reset();
    execvp(argv[0], argv);
    (void)dprintf(STDERR_FILENO, "%s: %s\n", PRINTABLE(argv[0]), strerror(errno));
    _exit(127);
}

static void close_pair(const int pair[2])
{
    for (int i = 0; i < 2; i++)
        if (pair[i] >= 0)
            (void)close(pair[i]);
}

static enum err link_fork(struct link *l, char **argv, int *in_fd, int *out_fd, struct errmsg *e)
{
    int in[2] = {-1, -1}, out[2] = {-1, -1}, err[2] = {-1, -1};
    if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0)
        goto failed;
    pid_t pid = signals_fork();
    if (pid == 0)
        link_become(argv, in, out, err);
    if (pid < 0)
        goto failed;
    (void)setpgid(pid, pid);
    (void)close(in[0]);
    (void)close(out[1]);
    (void)close(err[1]);
    (void)fcntl(err[0], F_SETFL, O_NONBLOCK);
    *in_fd = out[0];
    *out_fd = in[1];
    l->errors_fd = err[0];
    l->pid = pid;
    return ERR_OK;
failed:
    (void)err_set(e, ERR_IO, "%s: %s", argv[0], strerror(errno));
    close_pair(in);
    close_pair(out);
    close_pair(err);
    return ERR_IO;
}

static enum err link_start(struct link *l, char **argv, struct errmsg *e)
{
    static const struct talk_ops talk_ops = {.on_message = on_message, .on_end = on_end};
    const struct timeval every = {.tv_usec = LINK_TICK_MS * 1000};
    int in_fd, out_fd;
    enum err err = link_fork(l, argv, &in_fd, &out_fd, e);
    if (err)
        return err;
    err = talk_init(&l->talk, l->base, in_fd, out_fd, true, &talk_ops, l);
    l->errors = event_new(l->base, l->errors_fd, EV_READ | EV_PERSIST, on_errors, l);
    if (!err && l->errors && event_add(l->errors, NULL) == 0 && event_add(l->tick, &every) == 0)
        return ERR_OK;
    link_drop(l);
    return err_memory(e);
}

enum err link_open(struct link *l, const char *rsh, const char *name, const char *command,
                   struct errmsg *e)
{
    char *words = mem_strdup(rsh), *rest = words, *argv[LINK_RSH_WORDS + 3], *word;
    size_t n = 0;
    while (rest && n < LINK_RSH_WORDS && (word = strsep(&rest, " \t")))
        if (*word)
            argv[n++] = word;
    argv[n++] = (char *)name;
    argv[n++] = (char *)command;
    argv[n] = NULL;
    l->words[0] = 0;
    l->line_n = 0;
    l->opened_ms = l->pinged_ms = l->ticked_ms = clock_now_ms();
    enum err err = words ? link_start(l, argv, e) : err_memory(e);
    mem_free(words);
    if (!err)
        l->state = LINK_OPENING;
    return err;
}

/* ---- life ---- */

enum err link_init(struct link *l, struct event_base *base, const struct link_ops *ops, void *arg)
{
    *l = (struct link){.base = base, .ops = ops, .arg = arg, .errors_fd = -1};
    l->tick = event_new(base, -1, EV_PERSIST, on_tick, l);
    return l->tick ? ERR_OK : ERR_NOMEM;
}

void link_wait(struct link *l, int64_t began_ms)
{
    while (l->pid > 0 && clock_now_ms() - began_ms < LINK_CLOSE_MS) {
        pid_t got = waitpid(l->pid, NULL, WNOHANG);
        if (got == l->pid || (got < 0 && errno != EINTR))
            l->pid = 0;
        else
            clock_sleep_ms(LINK_WAIT_STEP_MS);
    }
    link_kill(l);
}

void link_free(struct link *l)
{
    if (!l->tick)
        return;
    link_drop(l);
    event_free(l->tick);
    l->tick = NULL;
}
