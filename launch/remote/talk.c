#include "launch/remote/talk.h"

#include <endian.h>
#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/printable.h"

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
    if (*fd >= 0)
        (void)close(*fd);
    *bev = NULL;
    *fd = -1;
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
