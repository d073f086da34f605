#include "common/serve/http_events.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include <event2/buffer.h>
#include <event2/bufferevent.h>

#include "common/base/clock.h"
#include "common/base/log.h"

enum { SHARE = 100 /* 1/SHARE of the thread's time */ };

static struct bufferevent *bev_of(const struct http_stream *s)
{
    return evhttp_connection_get_bufferevent(evhttp_request_get_connection(s->req));
}

/* ---- end of a stream ---- */

/* Connection callback: the connection is about to be freed. If the request was detached from it, free the request
 * here. */
static void on_over(struct evhttp_connection *connection, void *arg)
{
    (void)connection;
    struct http_stream *s = arg;
    struct evhttp_request *req = s->req;
    s->req = NULL;
    if (req && !evhttp_request_get_connection(req))
        evhttp_request_free(req);
}

/* ---- sending ---- */

static void say(struct http_stream *s, const char *event, const char *data, int64_t now_ms)
{
    struct evbuffer *chunk = evbuffer_new();
    if (chunk && evbuffer_add_printf(chunk, "%s%s\n\n", event, data) > 0) {
        evhttp_send_reply_chunk(s->req, chunk);
        s->said_ms = now_ms;
    }
    if (chunk)
        evbuffer_free(chunk);
}

/* Returns whether the client has read everything, so that more can be sent. Closes the connection if that takes
 * too long. */
static bool reads(struct http_stream *s, int64_t now_ms)
{
    if (evbuffer_get_length(bufferevent_get_output(bev_of(s))) == 0)
        s->read_ms = now_ms;
    else if (now_ms - s->read_ms >= HTTP_UNREAD_MS)
        evhttp_connection_free(evhttp_request_get_connection(s->req)); /* calls on_over */
    return s->req && s->read_ms == now_ms;
}

/* Memory and time change constantly; they alone are no news. NULL: out of memory. */
static char *without_vitals(json_t *status)
{
    json_t *system = json_incref(json_object_get(status, "system"));
    (void)json_object_del(status, "system");
    char *text = json_dumps(status, JSON_COMPACT | JSON_REAL_PRECISION(6));
    if (system)
        (void)json_object_set_new(status, "system", system);
    return text;
}

static void tell_status(struct http_events *e, json_t *status, int64_t now_ms)
{
    char *text = json_dumps(status, JSON_COMPACT | JSON_REAL_PRECISION(12));
    char *news = without_vitals(status);
    bool changed = news && (!e->last || strcmp(news, e->last) != 0);
    for (int i = 0; text && i < HTTP_STREAMS_MAX; i++) {
        struct http_stream *s = &e->stream[i];
        if (!s->req || !reads(s, now_ms)) {
            s->fresh |= changed; /* send it later */
            continue;
        }
        if (changed || s->fresh)
            say(s, "data: ", text, now_ms);
        else if (now_ms - s->said_ms >= e->beat_ms)
            say(s, ": beat", "", now_ms);
        s->fresh = false;
    }
    free(text);
    if (news) {
        free(e->last);
        e->last = news;
    }
}

static bool any(const struct http_events *e)
{
    for (int i = 0; i < HTTP_STREAMS_MAX; i++)
        if (e->stream[i].req)
            return true;
    return false;
}

void http_events_now(struct http_events *e)
{
    if (!any(e))
        return;
    int64_t began_ms = clock_now_ms();
    json_t *status = e->status(e->ctx);
    if (status)
        tell_status(e, status, began_ms);
    json_decref(status);
    int64_t wait_ms = SHARE * (clock_now_ms() - began_ms);
    if (any(e) && loop_timer_once(&e->tick, wait_ms > HTTP_EVENTS_MS ? wait_ms : HTTP_EVENTS_MS))
        log_error("http: no memory for a timer");
}

static void on_tick(void *arg)
{
    http_events_now(arg);
}

/* ---- start of a stream ---- */

/* NULL: none is free. */
static struct http_stream *free_place(struct http_events *e)
{
    for (int i = 0; i < HTTP_STREAMS_MAX; i++)
        if (!e->stream[i].req)
            return &e->stream[i];
    return NULL;
}

bool http_events_full(struct http_events *e)
{
    return !free_place(e);
}

void http_events_take(struct http_events *e, struct evhttp_request *req)
{
    struct http_stream *s = free_place(e);
    assert(s);
    int64_t now_ms = clock_now_ms();
    *s = (struct http_stream){.req = req, .read_ms = now_ms, .fresh = true};
    evhttp_connection_set_closecb(evhttp_request_get_connection(req), on_over, s);
    bufferevent_set_timeouts(bev_of(s), NULL, NULL);
    evhttp_send_reply_start(req, 200, NULL);
    say(s, "retry: 2000", "", now_ms);
    if (!loop_timer_running(&e->tick) && loop_timer_once(&e->tick, 0))
        log_error("http: no memory for a timer");
}

/* ---- life ---- */

void http_events_init(struct http_events *e, struct loop *loop, json_t *(*status)(void *ctx),
                      void *ctx)
{
    *e = (struct http_events){.status = status, .ctx = ctx, .beat_ms = HTTP_BEAT_MS};
    loop_timer_init(&e->tick, loop, on_tick, e);
}

void http_events_end(struct http_events *e)
{
    loop_timer_stop(&e->tick);
}

void http_events_close(struct http_events *e)
{
    free(e->last);
    e->last = NULL;
}
