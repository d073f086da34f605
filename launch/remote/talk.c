#include "launch/remote/talk.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/wait.h>

#include <event2/buffer.h>
#include <event2/bufferevent.h>

#include "common/base/clock.h"
#include "common/base/printable.h"
#include "common/net/socket.h"
#include "common/base/mem.h"
#include "common/process/files.h"
#include "common/process/signals.h"

/* ---- receiving ---- */

/* End the talk. Returns false, for callers to return. */
static bool talk_fail(struct talk *t, const char *why)
{
    if (t->in)
        t->ops->on_end(t->arg, why);
    return false;
}

static void talk_keep_greeting(struct talk *t, const char *line, size_t bytes)
{
    if (bytes > 0)
        (void)printable_copy(t->greeting, sizeof t->greeting, line, bytes);
}

/* Skip lines until the hello. False: it has not arrived yet. */
static bool talk_greet(struct talk *t, struct evbuffer *in)
{
    char *line, rest[TALK_GREETING_BYTES];
    size_t bytes;
    while (!t->greeted && (line = evbuffer_readln(in, &bytes, EVBUFFER_EOL_CRLF))) {
        t->greeted = strcmp(line, TALK_HELLO) == 0;
        t->greetings += bytes;
        talk_keep_greeting(t, line, bytes);
        free(line);
    }
    ev_ssize_t n = t->greeted ? 0 : evbuffer_copyout(in, rest, sizeof rest);
    if (n > 0) /* a prompt */
        talk_keep_greeting(t, rest, (size_t)n);
    if (!t->greeted && t->greetings + evbuffer_get_length(in) > TALK_GREETINGS_MAX)
        return talk_fail(t, "it sends much text, and none of it comes from the runner: check what "
                            "a shell prints there");
    return t->greeted;
}

/* Handle the message at the front of the buffer if it is complete. False: it is not, or the talk has ended. */
static bool talk_serve_one(struct talk *t, struct evbuffer *in)
{
    uint32_t header[TALK_HEADER_WORDS];
    if (evbuffer_copyout(in, header, sizeof header) < (ev_ssize_t)sizeof header)
        return false;
    uint32_t bytes = le32toh(header[0]), type = le32toh(header[1]);
    if (bytes > TALK_PAYLOAD_MAX || type >= TALK_TYPES)
        return talk_fail(t, "it sends data that is not a message of the runner");
    if (evbuffer_get_length(in) < sizeof header + bytes)
        return false;
    char *data = malloc((size_t)bytes + 1);
    if (!data)
        return talk_fail(t, "out of memory");
    (void)evbuffer_drain(in, sizeof header);
    (void)evbuffer_remove(in, data, bytes);
    data[bytes] = 0;
    bool gone = false;
    t->gone = &gone;
    bool right = t->ops->on_message(t->arg, (enum talk_type)type, le32toh(header[2]), data, bytes);
    free(data);
    if (gone)
        return false;
    t->gone = NULL;
    return right || talk_fail(t, "it sends an invalid message");
}

static void on_read(struct bufferevent *bev, void *arg)
{
    struct talk *t = arg;
    struct evbuffer *in = bufferevent_get_input(bev);
    t->heard_ms = clock_now_ms();
    if (!talk_greet(t, in))
        return;
    while (talk_serve_one(t, in))
        ;
}

static void on_event(struct bufferevent *bev, short what, void *arg)
{
    (void)bev;
    struct talk *t = arg;
    (void)talk_fail(t, what & BEV_EVENT_ERROR ? strerror(errno) : "the connection is closed");
}

/* ---- life ---- */

enum err talk_init(struct talk *t, struct event_base *base, int take_in, int take_out,
                   bool wait_hello, const struct talk_ops *ops, void *arg)
{
    static const char hello[] = TALK_HELLO "\n";
    *t = (struct talk){.in_fd = take_in,
                       .out_fd = take_out,
                       .ops = ops,
                       .arg = arg,
                       .greeted = !wait_hello,
                       .heard_ms = clock_now_ms()};
    (void)evutil_make_socket_nonblocking(take_in);
    (void)evutil_make_socket_nonblocking(take_out);
    t->in = bufferevent_socket_new(base, take_in, 0);
    t->out = bufferevent_socket_new(base, take_out, 0);
    if (t->in && t->out) {
        bufferevent_setcb(t->in, on_read, NULL, on_event, t);
        bufferevent_setcb(t->out, NULL, NULL, on_event, t);
        if (bufferevent_enable(t->in, EV_READ) == 0 && bufferevent_enable(t->out, EV_WRITE) == 0 &&
            bufferevent_disable(t->out, EV_READ) == 0 &&
            (wait_hello || bufferevent_write(t->out, hello, sizeof hello - 1) == 0))
            return ERR_OK;
    }
    talk_close(t);
    return ERR_NOMEM;
}

/* Close the descriptor now. A freed bufferevent would close it only in the loop's next iteration. */
static void talk_close_half(struct bufferevent **bev, int *fd)
{
    if (*bev) {
        (void)bufferevent_setfd(*bev, -1);
        bufferevent_free(*bev);
    }
    *bev = NULL;
    files_close(fd);
}

void talk_close(struct talk *t)
{
    if (!t->ops)
        return; /* the talk has never begun */
    if (t->gone)
        *t->gone = true;
    t->gone = NULL;
    talk_close_half(&t->in, &t->in_fd);
    talk_close_half(&t->out, &t->out_fd);
}

/* ---- sending ---- */

void talk_send_raw(struct talk *t, enum talk_type type, uint32_t process, const void *data,
                   size_t bytes)
{
    const uint32_t header[TALK_HEADER_WORDS] = {htole32((uint32_t)bytes), htole32(type),
                                                htole32(process)};
    if (!t->out)
        return;
    if (bytes > TALK_PAYLOAD_MAX || bufferevent_write(t->out, header, sizeof header) != 0 ||
        bufferevent_write(t->out, data, bytes) != 0)
        t->heard_ms =
            -TALK_SILENCE_MS; /* the buffer can have half a message: treat the connection as lost */
}

void talk_send(struct talk *t, enum talk_type type, uint32_t process, json_t *take_object)
{
    char *text = json_dumps(take_object, JSON_COMPACT);
    json_decref(take_object);
    if (text)
        talk_send_raw(t, type, process, text, strlen(text));
    else
        t->heard_ms = -TALK_SILENCE_MS;
    free(text);
}

size_t talk_queued(const struct talk *t)
{
    return t->out ? evbuffer_get_length(bufferevent_get_output(t->out)) : 0;
}

/* Close without a message to the other side. */
static void drop(struct web_conn *c)
{
    if (c->bev)
        bufferevent_free(c->bev);
    if (c->late)
        event_free(c->late);
    c->bev = NULL;
    c->late = NULL;
}

static void end(struct web_conn *c)
{
    drop(c);
    talk_send_raw(c->web->talk, TALK_WEB_CLOSE, c->number, "", 0);
}

static void web_on_read(struct bufferevent *bev, void *arg)
{
    struct web_conn *c = arg;
    char bytes[16 << 10];
    size_t n;
    while ((n = bufferevent_read(bev, bytes, sizeof bytes)) > 0) {
        if (talk_queued(c->web->talk) + n > WEB_QUEUE_BYTES) {
            end(c);
            return;
        }
        talk_send_raw(c->web->talk, TALK_WEB_DATA, c->number, bytes, n);
    }
}

static void web_on_event(struct bufferevent *bev, short what, void *arg)
{
    (void)bev;
    if (what & (BEV_EVENT_EOF | BEV_EVENT_ERROR))
        end(arg);
}

/* The other side has closed: send its last bytes, then close. */
static void web_on_written(struct bufferevent *bev, void *arg)
{
    (void)bev;
    drop(arg);
}

static void web_on_late(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    drop(arg);
}

static void finish(struct web_conn *c)
{
    const struct timeval bound = {.tv_sec = WEB_FINISH_MS / 1000};
    if (!c->bev || c->late)
        return;
    if (evbuffer_get_length(bufferevent_get_output(c->bev)) > 0)
        c->late = evtimer_new(c->web->base, web_on_late, c);
    if (!c->late || event_add(c->late, &bound) != 0) {
        drop(c);
        return;
    }
    (void)bufferevent_disable(c->bev, EV_READ);
    bufferevent_setcb(c->bev, NULL, web_on_written, web_on_event, c);
}

static bool take(struct web_conn *c, int take_fd)
{
    c->bev = bufferevent_socket_new(c->web->base, take_fd, BEV_OPT_CLOSE_ON_FREE);
    if (!c->bev) {
        (void)close(take_fd);
        return false;
    }
    bufferevent_setcb(c->bev, web_on_read, NULL, web_on_event, c);
    if (bufferevent_enable(c->bev, EV_READ | EV_WRITE) == 0)
        return true;
    drop(c);
    return false;
}

void web_init(struct web *w, struct event_base *base)
{
    *w = (struct web){.base = base};
    for (uint32_t i = 0; i < WEB_MAX; i++)
        w->conn[i].web = w;
}

void web_talk(struct web *w, struct talk *talk)
{
    for (uint32_t i = 0; i < WEB_MAX; i++)
        drop(&w->conn[i]);
    w->talk = talk;
}

static struct web_conn *free_place(struct web *w)
{
    for (uint32_t i = 0; i < WEB_MAX; i++)
        if (!w->conn[i].bev)
            return &w->conn[i];
    return NULL;
}

/* The connection with this number; NULL: none. */
static struct web_conn *find(struct web *w, uint32_t number)
{
    for (uint32_t i = 0; i < WEB_MAX; i++)
        if (w->conn[i].bev && w->conn[i].number == number)
            return &w->conn[i];
    return NULL;
}

void web_accept(struct web *w, int take_fd)
{
    struct web_conn *c = w->talk ? free_place(w) : NULL;
    if (!c) {
        (void)close(take_fd);
    } else if (take(c, take_fd)) {
        c->number = ++w->last;
        talk_send_raw(w->talk, TALK_WEB_OPEN, c->number, "", 0);
    }
}

static void dial(struct web *w, uint32_t number, uint16_t port)
{
    const struct sockaddr_in to = {.sin_family = AF_INET,
                                   .sin_port = htons(port),
                                   .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    struct web_conn *c = port ? free_place(w) : NULL;
    int fd =
        c ? socket_open(AF_INET) : -1; /* close-on-exec, so that new processes do not inherit it */
    if (fd < 0 || !take(c, fd)) {
        talk_send_raw(w->talk, TALK_WEB_CLOSE, number, "", 0);
        return;
    }
    c->number = number;
    if (bufferevent_socket_connect(c->bev, (const struct sockaddr *)&to, sizeof to) != 0 && c->bev)
        end(c);
}

/* Messages for a connection that is already closed here are ignored. */
void web_on_message(struct web *w, enum talk_type type, uint32_t number, const char *data,
                    size_t bytes, uint16_t port)
{
    struct web_conn *c = find(w, number);
    if (!w->talk)
        return;
    if (type == TALK_WEB_OPEN && !c)
        dial(w, number, port);
    else if (type == TALK_WEB_CLOSE && c)
        finish(c);
    else if (type == TALK_WEB_DATA && c &&
             (bufferevent_write(c->bev, data, bytes) != 0 ||
              evbuffer_get_length(bufferevent_get_output(c->bev)) > WEB_QUEUE_BYTES))
        end(c);
}

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
    files_close(&l->errors_fd);
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

static void close_pair(int pair[2])
{
    files_close(&pair[0]);
    files_close(&pair[1]);
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
