/* Server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html) of the server in http.h: whoever
 * asks for /events hears the status at once, and again after each change of it, until one of the two ends it.
 *
 * Happy path: http_events_take answers a request -> an event each HTTP_EVENTS_MS where something is new, a comment after
 * HTTP_BEAT_MS of silence -> the client closes, or http_events_end. Failure modes: HTTP_STREAMS_MAX are open (the caller
 * refuses the request), a client that does not read (nothing is queued behind what it has not read; after
 * HTTP_UNREAD_MS its connection is closed). A status is made once for all streams, and takes at most 1 % of the
 * thread's time: the next one waits for 100 times as long as the last one took. */
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
    struct evhttp_request *req; /* NULL: the place is free */
    int64_t read_ms;            /* when all that was sent had left */
    int64_t said_ms;
    bool fresh; /* it has not heard the last status */
};

struct http_events {
    json_t *(*status)(void *ctx); /* the caller's; NULL: no memory */
    void *ctx;
    struct loop_timer tick; /* while there is a stream */
    struct http_stream stream[HTTP_STREAMS_MAX];
    char *last;      /* the status that was told, without what changes by itself; malloc's */
    int64_t beat_ms; /* HTTP_BEAT_MS */
};

void http_events_init(struct http_events *e, struct loop *loop, json_t *(*status)(void *ctx),
                      void *ctx);
bool http_events_full(struct http_events *e);
/* The answer to `req`, whose headers are set. Not while it is full. */
void http_events_take(struct http_events *e, struct evhttp_request *req);
/* Something important is new: tell it now. */
void http_events_now(struct http_events *e);
/* The timer alone; evhttp_free closes the connections, and only then is *e of no use any more. */
void http_events_end(struct http_events *e);
void http_events_close(struct http_events *e); /* after evhttp_free */

#endif
