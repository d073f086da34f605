/* Server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html) for the server of http.h. A
 * client of /events gets the status immediately, and again after each change, until either side ends the stream.
 * Sequence: http_events_take answers a request. Every HTTP_EVENTS_MS an event is sent if the status has changed; a
 * comment follows after HTTP_BEAT_MS without one. The client closes, or http_events_end.
 * Failures: if HTTP_STREAMS_MAX are open, the caller refuses the request. A client that does not read gets nothing
 * more until it has read; after HTTP_UNREAD_MS its connection is closed.
 * A status is built once for all streams, in at most 1 % of the thread's time: if building it took x ms, the timer
 * builds the next one at least 100 x ms later. */
#ifndef GRADWIRE_COMMON_SERVE_HTTP_EVENTS_H
#define GRADWIRE_COMMON_SERVE_HTTP_EVENTS_H

#include <jansson.h>

#include <event2/http.h>

#include "common/net/loop.h"

enum {
    HTTP_STREAMS_MAX = 8,
    HTTP_EVENTS_MS = 1000,
    HTTP_BEAT_MS = 15000,
    HTTP_UNREAD_MS = 30000,
};

struct http_stream {
    struct evhttp_request *req; /* NULL: unused */
    int64_t read_ms;            /* when all sent data had last left */
    int64_t said_ms;
    bool fresh; /* it has not got the latest status */
};

struct http_events {
    json_t *(*status)(void *ctx); /* returns a new object; NULL: out of memory */
    void *ctx;
    struct loop_timer tick; /* runs while a stream is open */
    struct http_stream stream[HTTP_STREAMS_MAX];
    char *last;      /* the last status sent, without the values that change constantly; malloc's */
    int64_t beat_ms; /* HTTP_BEAT_MS */
};

/* *e must not move until http_events_close. */
void http_events_init(struct http_events *e, struct loop *loop, json_t *(*status)(void *ctx),
                      void *ctx);
bool http_events_full(struct http_events *e);
/* Answers `req`, whose headers are set, with a stream. Call only if http_events_full returns false. */
void http_events_take(struct http_events *e, struct evhttp_request *req);
/* Sends the status now, because something important has changed. */
void http_events_now(struct http_events *e);
/* Stops the timer. *e must stay valid until evhttp_free has closed the connections. */
void http_events_end(struct http_events *e);
void http_events_close(struct http_events *e); /* after evhttp_free */

#endif
