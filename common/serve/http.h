/* The HTTP server of a process: /healthz, /readyz, /metrics, /status, and / as a page for people. Read-only. It runs
 * on the process's control loop or on a loop of its own (worker/control/control_http.h), never on a loop that
 * computes.
 * Sequence: http_bind, http_open; each connection sends one GET or HEAD, gets its answer and is closed.
 * Failures: a Host that is not this server (http_hosts.h) gets 403, another method 405, another path 404, headers beyond HTTP_HEAD_BYTES 400, a body beyond
 * HTTP_BODY_BYTES 413, invalid HTTP 400, an unknown method 501; then the connection is closed.
 * Limits: a connection is closed after HTTP_CONNECTION_MS, whatever it is doing. If HTTP_OPEN_MAX are open and
 * another one comes, the oldest is closed. At most HTTP_ACCEPTS are accepted in HTTP_TICK_MS; others wait in the
 * kernel. An answer is built completely in memory before it is sent, so a slow reader delays nobody. A stream of
 * events has no time limit; one more than HTTP_STREAMS_MAX gets 503. */
#pragma once

#include <event2/http.h>
#include <jansson.h>

#include "common/net/loop.h"
#include "common/process/metrics.h"
#include "common/serve/http_hosts.h"

/* Server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html) for the server of http.h. A
 * client of /events gets the status immediately, and again after each change, until either side ends the stream.
 * Sequence: http_events_take answers a request. Every HTTP_EVENTS_MS an event is sent if the status has changed; a
 * comment follows after HTTP_BEAT_MS without one. The client closes, or http_close.
 * Failures: if HTTP_STREAMS_MAX are open, the request is refused. A client that does not read gets nothing
 * more until it has read; after HTTP_UNREAD_MS its connection is closed.
 * A status is built once for all streams, in at most 1 % of the thread's time: if building it took x ms, the timer
 * builds the next one at least 100 x ms later. */

struct http_stream {
    struct evhttp_request *req; /* NULL: unused */
    int64_t read_ms;            /* when all sent data had last left */
    int64_t said_ms;
    bool fresh; /* it has not got the latest status */
};

enum {
    HTTP_STREAMS_MAX = 8,
    HTTP_EVENTS_MS = 1000,
    HTTP_BEAT_MS = 15000,
    HTTP_UNREAD_MS = 30000,
};

struct http_events {
    json_t *(*status)(void *ctx); /* returns a new object; NULL: out of memory */
    void *ctx;
    struct loop_timer tick; /* runs while a stream is open */
    struct http_stream stream[HTTP_STREAMS_MAX];
    char *last;      /* the last status sent, without the values that change constantly; malloc's */
    int64_t beat_ms; /* HTTP_BEAT_MS */
};

enum {
    HTTP_OPEN_MAX = 32,
    HTTP_CONNECTION_MS = 5000,
    HTTP_HEAD_BYTES = 8192,
    HTTP_BODY_BYTES = 4096, /* of a POST, which is read only to answer 405 */
    HTTP_TICK_MS = 100,
    HTTP_ACCEPTS = 16,
};

/* A file of the page, compiled into the program. */
struct http_file {
    const char *path, *type; /* path NULL: end of the list */
    const void *data;
    size_t bytes;
};

/* The process's functions. Called on the loop's thread; they must be quick. */
struct http_ops {
    /* returns NULL if ready, otherwise why not, valid until the next call; no function: always ready */
    const char *(*not_ready)(void *ctx);
    void (*metrics)(void *ctx, struct metrics *m);
    json_t *(*status)(void *ctx); /* returns a new object, or NULL if memory runs out */
    /* the process's own page, with "/"; it can use /events. NULL: "/" is http_page, and /events does not exist */
    const struct http_file *files;
};

/* Binds the listening socket. The caller owns *fd; -1: HTTP is off. `own`: as for http_place_at. Errors: as listen_bind and
 * listen_adopt, naming the flag. Thread: start-up's. */
enum err http_bind(int *fd, const struct http_place *place, const char *own,
                   struct errmsg *e) MUST_CHECK;

struct http;

/* Starts the server. Takes `take_fd`, also on error. `ops` and `ctx` must stay valid until http_close. Errors:
 * ERR_NOMEM. */
enum err http_open(struct http **h, struct loop *loop, int take_fd, const struct http_ops *ops,
                   void *ctx) MUST_CHECK;
/* Same with a duplicate of `fd`, which the caller keeps: clients that connect after http_close wait for the next
 * server. With fd -1, *h is NULL. Errors: ERR_NOMEM. */
enum err http_open_again(struct http **h, struct loop *loop, int fd, const struct http_ops *ops,
                         void *ctx) MUST_CHECK;
void http_close(struct http *h); /* NULL is ignored */
/* Sends the present /status to all streams now. NULL is ignored. */
void http_tell(struct http *h);
/* Tests: replaces HTTP_BEAT_MS. */
void http_beat_ms(struct http *h, int64_t ms);
/* Tests: replaces HTTP_CONNECTION_MS, for all connections. */
void http_connection_ms(struct http *h, int64_t ms);

/* Writes `status` as an HTML page: objects as tables, lists of objects as tables with a row for each. Returns
 * false if memory runs out. */
bool http_page(struct evbuffer *out, const json_t *status, const char *not_ready);
