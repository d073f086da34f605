#include "launch/remote/web.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <unistd.h>

#include <event2/buffer.h>
#include <event2/bufferevent.h>

#include "common/net/socket.h"

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

static void on_read(struct bufferevent *bev, void *arg)
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

static void on_event(struct bufferevent *bev, short what, void *arg)
{
    (void)bev;
    if (what & (BEV_EVENT_EOF | BEV_EVENT_ERROR))
        end(arg);
}

/* The other side has closed: send its last bytes, then close. */
static void on_written(struct bufferevent *bev, void *arg)
{
    (void)bev;
    drop(arg);
}

static void on_late(evutil_socket_t fd, short what, void *arg)
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
        c->late = evtimer_new(c->web->base, on_late, c);
    if (!c->late || event_add(c->late, &bound) != 0) {
        drop(c);
        return;
    }
    (void)bufferevent_disable(c->bev, EV_READ);
    bufferevent_setcb(c->bev, NULL, on_written, on_event, c);
}

static bool take(struct web_conn *c, int take_fd)
{
    c->bev = bufferevent_socket_new(c->web->base, take_fd, BEV_OPT_CLOSE_ON_FREE);
    if (!c->bev) {
        (void)close(take_fd);
        return false;
    }
    bufferevent_setcb(c->bev, on_read, NULL, on_event, c);
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
