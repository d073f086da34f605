/* The HTTP server: connections and requests, and the streams of events. */
#include "common/serve/http.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/listener.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/net/listen.h"
#include "common/peers/token.h"
#include "common/serve/vitals.h"

/* ---- the page of /status ---- */

struct page {
    struct evbuffer *out;
    bool failed;
};

static void add(struct page *p, const char *text)
{
    if (evbuffer_add(p->out, text, strlen(text)) != 0)
        p->failed = true;
}

static void add_escaped(struct page *p, const char *text)
{
    for (; *text; text++) {
        char one[2] = {*text, 0};
        add(p, *text == '<'    ? "&lt;"
               : *text == '>'  ? "&gt;"
               : *text == '&'  ? "&amp;"
               : *text == '"'  ? "&quot;"
               : *text == '\'' ? "&#39;"
                               : one);
    }
}

static void add_value(struct page *p, const json_t *v);

/* The JSON names are readable: first_step_s is shown as "first step s". */
static void add_name(struct page *p, const char *name)
{
    for (; *name; name++) {
        char one[2] = {*name == '_' ? ' ' : *name, 0};
        add_escaped(p, one);
    }
}

static void add_object(struct page *p, const json_t *object)
{
    const char *name;
    json_t *v;
    add(p, "<table>");
    json_object_foreach((json_t *)object, name, v)
    {
        add(p, "<tr><th>");
        add_name(p, name);
        add(p, "<td>");
        add_value(p, v);
    }
    add(p, "</table>");
}

/* A row for each object; the columns are the first object's names. */
static void add_table(struct page *p, const json_t *list)
{
    const char *name;
    json_t *v;
    json_t *first = json_array_get(list, 0);
    add(p, "<table><tr>");
    json_object_foreach(first, name, v)
    {
        add(p, "<th>");
        add_name(p, name);
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        add(p, "<tr>");
        json_object_foreach(first, name, v)
        {
            add(p, "<td>");
            add_value(p, json_object_get(json_array_get(list, i), name));
        }
    }
    add(p, "</table>");
}

static void add_list(struct page *p, const json_t *list)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        add(p, i ? " " : "");
        add_value(p, json_array_get(list, i));
    }
}

static void add_value(struct page *p, const json_t *v)
{
    if (json_is_object(v))
        add_object(p, v);
    else if (json_is_array(v) && json_is_object(json_array_get(v, 0)))
        add_table(p, v);
    else if (json_is_array(v))
        add_list(p, v);
    else if (json_is_string(v))
        add_escaped(p, json_string_value(v));
    else if (json_is_integer(v))
        p->failed |=
            evbuffer_add_printf(p->out, "%" JSON_INTEGER_FORMAT, json_integer_value(v)) < 0;
    else if (json_is_real(v))
        p->failed |= evbuffer_add_printf(p->out, "%.6g", json_real_value(v)) < 0;
    else if (json_is_boolean(v))
        add(p, json_is_true(v) ? "yes" : "no");
    else
        add(p, "&ndash;");
}

bool http_page(struct evbuffer *out, const json_t *status, const char *not_ready)
{
    struct page p = {out, false};
    const char *process = json_string_value(json_object_get(status, "process"));
    add(&p, "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">"
            "<meta http-equiv=\"refresh\" content=\"5\"><title>gradwire ");
    add_escaped(&p, process ? process : "");
    add(&p, "</title><style>body{font:15px sans-serif;margin:2em}table{border-collapse:collapse}"
            "th,td{text-align:left;vertical-align:top;padding:2px 12px 2px 0;"
            "border-bottom:1px solid #ddd}th{font-weight:600;color:#555}</style></head><body><h1>");
    add_escaped(&p, process ? process : "gradwire");
    add(&p, "</h1><p>");
    add_escaped(&p, not_ready ? not_ready : "ready");
    add(&p, " &middot; <a href=\"/status\">/status</a> &middot; <a href=\"/metrics\">/metrics</a>"
            "</p>");
    add_object(&p, status);
    add(&p, "</body></html>\n");
    return !p.failed;
}

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

/* Also called when something important has changed. */
static void on_events_tick(void *arg)
{
    struct http_events *e = arg;
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

/* ---- start of a stream ---- */

/* NULL: none is free. */
static struct http_stream *free_place(struct http_events *e)
{
    for (int i = 0; i < HTTP_STREAMS_MAX; i++)
        if (!e->stream[i].req)
            return &e->stream[i];
    return NULL;
}

/* Answers `req`, whose headers are set, with a stream. */
static void http_events_take(struct http_events *e, struct http_stream *s,
                             struct evhttp_request *req)
{
    int64_t now_ms = clock_now_ms();
    *s = (struct http_stream){.req = req, .read_ms = now_ms, .fresh = true};
    evhttp_connection_set_closecb(evhttp_request_get_connection(req), on_over, s);
    bufferevent_set_timeouts(bev_of(s), NULL, NULL);
    evhttp_send_reply_start(req, 200, NULL);
    say(s, "retry: 2000", "", now_ms);
    if (!loop_timer_running(&e->tick) && loop_timer_once(&e->tick, 0))
        log_error("http: no memory for a timer");
}

enum { EVERY_METHOD = (EVHTTP_REQ_PATCH << 1) - 1, STATUS_KINDS = 6 };

/* A connection. It belongs to evhttp; we hold a reference to its bufferevent, to notice when it ends. */
struct http_client {
    struct bufferevent *bev; /* NULL: unused */
    int64_t since_ms;
    bool streams; /* a stream of events */
};

struct http {
    const struct http_ops *ops;
    void *ctx;
    struct evhttp *evhttp;
    struct evconnlistener *listener; /* owned by evhttp */
    struct http_hosts hosts;
    struct http_events events;
    struct loop_timer tick; /* runs while a connection is open or accepting is paused */
    struct http_client client[HTTP_OPEN_MAX];
    uint32_t accepted; /* since the last tick */
    bool deaf;         /* accepting is paused until the next tick */
    int64_t said_ms, connection_ms;
    uint64_t answered[STATUS_KINDS]; /* indexed by the status's first digit: [2] counts 2xx */
};

enum err http_bind(int *fd, const struct http_place *place, const char *own, struct errmsg *e)
{
    char at[ADDRESS_TEXT_MAX];
    *fd = -1;
    http_place_names(place, own);
    if (place->fd >= 0) {
        *fd = place->fd;
        return listen_adopt(place->fd, e);
    }
    if (place->port == 0)
        return ERR_OK;
    http_place_at(place, own, at);
    enum err err = listen_bind(fd, at, LISTEN_TAKEN_MS, e);
    if (!err)
        return ERR_OK;
    return err_wrap(e, err,
                    place->address[0]
                        ? "--http_port: "
                        : "--http_port, for which --http_address can give another address: ");
}

/* ---- connections ---- */

/* When evhttp releases a bufferevent, it clears the callbacks and their argument. */
static bool evhttp_has(const struct http_client *c)
{
    void *arg = NULL;
    bufferevent_getcb(c->bev, NULL, NULL, NULL, &arg);
    return arg != NULL;
}

static void let_go(struct http_client *c)
{
    (void)bufferevent_decref(c->bev); /* closes the socket if this is the last reference */
    c->bev = NULL;
    c->streams = false;
}

/* A timeout event makes evhttp free the connection. */
static void drop(struct http_client *c)
{
    if (evhttp_has(c))
        bufferevent_trigger_event(c->bev, BEV_EVENT_TIMEOUT | BEV_EVENT_READING, 0);
    let_go(c);
}

/* Releases connections that have ended, and closes those that exceeded their time. Returns how many remain. */
static uint32_t sweep(struct http *h)
{
    uint32_t left = 0;
    int64_t now = clock_now_ms();
    for (uint32_t i = 0; i < HTTP_OPEN_MAX; i++) {
        struct http_client *c = &h->client[i];
        if (c->bev && !evhttp_has(c))
            let_go(c);
        else if (c->bev && !c->streams && now - c->since_ms >= h->connection_ms)
            drop(c);
        left += c->bev != NULL;
    }
    return left;
}

/* Returns an unused entry, or closes the oldest connection and returns its entry. */
static struct http_client *make_room(struct http *h)
{
    struct http_client *oldest = NULL; /* found, because not all entries can be streams */
    (void)sweep(h);
    for (uint32_t i = 0; i < HTTP_OPEN_MAX; i++) {
        struct http_client *c = &h->client[i];
        if (!c->bev)
            return c;
        if (!c->streams && (!oldest || c->since_ms < oldest->since_ms))
            oldest = c;
    }
    drop(oldest);
    return oldest;
}

static void listen_again(struct http *h)
{
    h->accepted = 0;
    if (h->deaf && evconnlistener_enable(h->listener) == 0)
        h->deaf = false;
}

static void on_tick(void *arg)
{
    struct http *h = arg;
    listen_again(h);
    if (sweep(h) == 0 && !h->deaf)
        loop_timer_stop(&h->tick);
}

static void wake_tick(struct http *h)
{
    if (!loop_timer_running(&h->tick) && loop_timer_every(&h->tick, HTTP_TICK_MS))
        log_error("http: no memory for a timer");
}

static void go_deaf(struct http *h)
{
    h->deaf = evconnlistener_disable(h->listener) == 0;
    wake_tick(h);
}

/* Accepting failed, for example for lack of descriptors: pause, instead of retrying without end. */
static void on_listen_error(struct evconnlistener *listener, void *arg)
{
    (void)listener;
    struct http *h = arg;
    int error = EVUTIL_SOCKET_ERROR();
    if (clock_now_ms() - h->said_ms >= LISTEN_SAY_MS) {
        h->said_ms = clock_now_ms();
        log_warn("http: cannot accept connections: %s", strerror(error));
    }
    go_deaf(h);
}

/* evhttp callback: makes the bufferevent of a connection that was just accepted. */
static struct bufferevent *on_new(struct event_base *base, void *arg)
{
    struct http *h = arg;
    if (++h->accepted >= HTTP_ACCEPTS)
        go_deaf(h);
    wake_tick(h);
    struct http_client *c = make_room(h);
    c->bev = bufferevent_socket_new(base, -1, BEV_OPT_CLOSE_ON_FREE);
    if (!c->bev)
        return NULL; /* evhttp then makes one itself */
    c->since_ms = clock_now_ms();
    bufferevent_setwatermark(c->bev, EV_READ, 0, 2 * HTTP_HEAD_BYTES);
    bufferevent_incref(c->bev);
    return c->bev;
}

/* ---- answers ---- */

static void add_header(struct evhttp_request *req, const char *name, const char *value)
{
    (void)evhttp_add_header(evhttp_request_get_output_headers(req), name, value);
}

/* The Content-Security-Policy: a browser can load resources only from this server. */
static const char *policy(const struct http *h)
{
    return h->ops->files ? "default-src 'none'; script-src 'self'; style-src 'self'; "
                           "connect-src 'self'; img-src data:; base-uri 'none'; "
                           "form-action 'none'; frame-ancestors 'none'"
                         : "default-src 'none'; style-src 'unsafe-inline'";
}

static void add_headers(struct http *h, struct evhttp_request *req, int status, const char *type)
{
    add_header(req, "Content-Type", type);
    add_header(req, "Cache-Control", "no-store");
    add_header(req, "X-Content-Type-Options", "nosniff");
    add_header(req, "Referrer-Policy", "no-referrer");
    add_header(req, "Content-Security-Policy", policy(h));
    add_header(req, "Connection", "close");
    h->answered[status / 100]++;
}

static void answer(struct http *h, struct evhttp_request *req, int status, const char *type,
                   struct evbuffer *body)
{
    add_headers(h, req, status, type);
    bool head = evhttp_request_get_command(req) == EVHTTP_REQ_HEAD;
    evhttp_send_reply(req, status, NULL, head ? NULL : body);
}

static void answer_text(struct http *h, struct evhttp_request *req, int status, const char *text)
{
    struct evbuffer *body = evbuffer_new();
    if (body)
        (void)evbuffer_add_printf(body, "%s\n", text);
    answer(h, req, status, "text/plain; charset=utf-8", body);
    if (body)
        evbuffer_free(body);
}

/* Answers 200 with the body, or 503 if memory ran out while building it; the body can be NULL then. */
static void answer_made(struct http *h, struct evhttp_request *req, bool made, const char *type,
                        struct evbuffer *take_body)
{
    if (made)
        answer(h, req, 200, type, take_body);
    else
        answer_text(h, req, 503, "no memory for an answer");
    if (take_body)
        evbuffer_free(take_body);
}

static const char *why_not_ready(const struct http *h)
{
    return h->ops->not_ready ? h->ops->not_ready(h->ctx) : NULL;
}

static void own_metrics(const struct http *h, struct metrics *m)
{
    static const char *const kind[STATUS_KINDS] = {"", "1xx", "2xx", "3xx", "4xx", "5xx"};
    metrics_gauge(m, "gradwire_ready", "1 if /readyz answers 200, otherwise 0.",
                  why_not_ready(h) ? 0 : 1);
    metrics_family(m, "gradwire_auth_info", METRICS_GAUGE,
                   "Always 1; the proof that connecting processes must give: tls, token or none.");
    metrics_put(m, 1, "auth", auth_word(), NULL);
    metrics_family(m, "gradwire_http_responses_total", METRICS_COUNTER,
                   "Answered requests, by status.");
    for (int i = 2; i < STATUS_KINDS; i++)
        metrics_put_count(m, h->answered[i], "code", kind[i], NULL);
}

static void say_metrics(struct http *h, struct evhttp_request *req)
{
    struct metrics m = {.out = evbuffer_new()};
    if (m.out) {
        vitals_metrics(&m);
        own_metrics(h, &m);
        h->ops->metrics(h->ctx, &m);
    }
    answer_made(h, req, m.out && !m.failed, "text/plain; version=0.0.4; charset=utf-8", m.out);
}

static int add_dump(const char *text, size_t bytes, void *out)
{
    return evbuffer_add(out, text, bytes);
}

/* NULL: out of memory. */
static json_t *make_status(void *arg)
{
    const struct http *h = arg;
    json_t *status = h->ops->status(h->ctx);
    if (!status || json_object_set_new(status, "auth", json_string(auth_word())) == 0)
        return status;
    json_decref(status);
    return NULL;
}

static void say_status(struct http *h, struct evhttp_request *req, bool page)
{
    struct evbuffer *out = evbuffer_new();
    json_t *status = make_status(h);
    bool made = out && status;
    if (made && page)
        made = http_page(out, status, why_not_ready(h));
    else if (made)
        made = json_dump_callback(status, add_dump, out,
                                  JSON_INDENT(2) | JSON_REAL_PRECISION(12)) == 0 &&
               evbuffer_add(out, "\n", 1) == 0;
    answer_made(h, req, made, page ? "text/html; charset=utf-8" : "application/json", out);
    json_decref(status);
}

/* NULL: no such file. */
static const struct http_file *file_of(const struct http *h, const char *path)
{
    for (const struct http_file *f = h->ops->files; f && f->path; f++)
        if (strcmp(f->path, path) == 0)
            return f;
    return NULL;
}

static void say_file(struct http *h, struct evhttp_request *req, const struct http_file *f)
{
    struct evbuffer *out = evbuffer_new();
    bool made = out && evbuffer_add_reference(out, f->data, f->bytes, NULL, NULL) == 0;
    answer_made(h, req, made, f->type, out);
}

static struct http_client *client_of(struct http *h, struct evhttp_request *req)
{
    struct bufferevent *bev = evhttp_connection_get_bufferevent(evhttp_request_get_connection(req));
    for (uint32_t i = 0; i < HTTP_OPEN_MAX; i++)
        if (h->client[i].bev == bev)
            return &h->client[i];
    return NULL; /* evhttp made the bufferevent itself, because we lacked memory */
}

static void say_events(struct http *h, struct evhttp_request *req)
{
    static const char type[] = "text/event-stream";
    struct http_client *c = client_of(h, req);
    struct http_stream *s = free_place(&h->events);
    if (evhttp_request_get_command(req) == EVHTTP_REQ_HEAD) {
        answer(h, req, 200, type, NULL);
    } else if (!c || !s) {
        answer_text(h, req, 503, "too many event streams are open: use /status instead");
    } else {
        c->streams = true;
        add_headers(h, req, 200, type);
        http_events_take(&h->events, s, req);
    }
}

static void say_path(struct http *h, struct evhttp_request *req)
{
    enum evhttp_cmd_type method = evhttp_request_get_command(req);
    const struct evhttp_uri *uri = evhttp_request_get_evhttp_uri(req);
    const char *path = uri ? evhttp_uri_get_path(uri) : NULL;
    const struct http_file *file = file_of(h, path && path[0] ? path : "/");
    const char *not_ready;
    if (method != EVHTTP_REQ_GET && method != EVHTTP_REQ_HEAD) {
        add_header(req, "Allow", "GET, HEAD");
        answer_text(h, req, 405, "only GET and HEAD are allowed");
    } else if (file) {
        say_file(h, req, file);
    } else if (h->ops->files && path && strcmp(path, "/events") == 0) {
        say_events(h, req);
    } else if (!path || strcmp(path, "/") == 0 || path[0] == 0) {
        say_status(h, req, true);
    } else if (strcmp(path, "/healthz") == 0) {
        answer_text(h, req, 200, "ok");
    } else if (strcmp(path, "/readyz") == 0) {
        not_ready = why_not_ready(h);
        answer_text(h, req, not_ready ? 503 : 200, not_ready ? not_ready : "ready");
    } else if (strcmp(path, "/metrics") == 0) {
        say_metrics(h, req);
    } else if (strcmp(path, "/status") == 0) {
        say_status(h, req, false);
    } else {
        answer_text(h, req, 404,
                    "not found; available: /healthz, /readyz, /metrics, /status and /");
    }
}

/* A browser always sends Host; a probe by HTTP/1.0 need not. */
static void on_request(struct evhttp_request *req, void *arg)
{
    struct http *h = arg;
    const char *host = evhttp_find_header(evhttp_request_get_input_headers(req), "Host");
    if (!host || !*host || http_hosts_accept(&h->hosts, host))
        say_path(h, req);
    else
        answer_text(h, req, 403,
                    h->hosts.loopback
                        ? "the Host of this request is not this server: use localhost or 127.0.0.1"
                        : "the Host of this request is not this server: use its IP address, or its "
                          "host's name; --http_address can give another name");
}

/* ---- life ---- */

static bool listen_on(struct http *h, struct loop *loop, int take_fd)
{
    (void)evutil_make_socket_nonblocking(take_fd);
    (void)evutil_make_socket_closeonexec(take_fd);
    http_hosts_init(&h->hosts, take_fd);
    h->listener = evconnlistener_new(loop->base, NULL, NULL,
                                     LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC, 0, take_fd);
    if (!h->listener) {
        (void)close(take_fd);
        return false;
    }
    if (!evhttp_bind_listener(h->evhttp, h->listener)) {
        evconnlistener_free(h->listener);
        return false;
    }
    evconnlistener_set_error_cb(h->listener, on_listen_error);
    return true;
}

enum err http_open(struct http **out, struct loop *loop, int take_fd, const struct http_ops *ops,
                   void *ctx)
{
    struct http *h = mem_zalloc(1, sizeof *h);
    if (h)
        h->evhttp = evhttp_new(loop->base);
    if (!h || !h->evhttp) {
        (void)close(take_fd);
        mem_free(h);
        return ERR_NOMEM;
    }
    vitals_init();
    h->ops = ops;
    h->ctx = ctx;
    h->connection_ms = HTTP_CONNECTION_MS;
    h->said_ms = clock_now_ms() - LISTEN_SAY_MS;
    loop_timer_init(&h->tick, loop, on_tick, h);
    h->events = (struct http_events){.status = make_status, .ctx = h, .beat_ms = HTTP_BEAT_MS};
    loop_timer_init(&h->events.tick, loop, on_events_tick, &h->events);
    evhttp_set_allowed_methods(h->evhttp, EVERY_METHOD); /* so that our own code answers 405 */
    evhttp_set_max_headers_size(h->evhttp, HTTP_HEAD_BYTES);
    evhttp_set_max_body_size(h->evhttp, HTTP_BODY_BYTES);
    evhttp_set_timeout(h->evhttp, HTTP_CONNECTION_MS / 1000);
    evhttp_set_bevcb(h->evhttp, on_new, h);
    evhttp_set_gencb(h->evhttp, on_request, h);
    if (!listen_on(h, loop, take_fd)) {
        evhttp_free(h->evhttp);
        mem_free(h);
        return ERR_NOMEM;
    }
    *out = h;
    return ERR_OK;
}

enum err http_open_again(struct http **out, struct loop *loop, int fd, const struct http_ops *ops,
                         void *ctx)
{
    *out = NULL;
    if (fd < 0)
        return ERR_OK;
    int own = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    return own < 0 ? err_of_errno(errno) : http_open(out, loop, own, ops, ctx);
}

void http_tell(struct http *h)
{
    if (h)
        on_events_tick(&h->events);
}

void http_beat_ms(struct http *h, int64_t ms)
{
    h->events.beat_ms = ms;
}

void http_connection_ms(struct http *h, int64_t ms)
{
    h->connection_ms = ms;
}

void http_close(struct http *h)
{
    if (!h)
        return;
    loop_timer_stop(&h->tick);
    loop_timer_stop(&h->events.tick);
    evhttp_free(h->evhttp); /* also frees the listener and all connections, whose streams end */
    free(h->events.last);
    for (uint32_t i = 0; i < HTTP_OPEN_MAX; i++)
        if (h->client[i].bev)
            let_go(&h->client[i]);
    mem_free(h);
}
