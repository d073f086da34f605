/* The HTTP of a process: /healthz, /readyz, /metrics, /status, and / for people. Read-only; on the loop that the process
 * steers by, or on one of its own (worker/control/http_thread.h), never on one that computes.
 *
 * Happy path: http_bind -> http_open -> a connection is accepted, sends one GET or HEAD, is answered and closed.
 * Failure modes: another method (405), another path (404), headers beyond HTTP_HEAD_BYTES or a body beyond
 * HTTP_BODY_BYTES (400, 413), what is no HTTP (400), a method that is none (501): answered and closed. A connection that
 * is not over after HTTP_CONNECTION_MS, whatever it does in the meantime, is closed; so is the oldest where HTTP_OPEN_MAX
 * are open and another one comes. No more than HTTP_ACCEPTS are accepted in HTTP_TICK_MS; others wait in the kernel. An
 * answer is made whole in memory at once, so nobody waits for a slow reader. A stream of events (http_events.h) lasts as
 * long as it likes; HTTP_STREAMS_MAX of them may be open, and whoever asks for one more is told so (503). */
#ifndef GRADWIRE_COMMON_SERVE_HTTP_H
#define GRADWIRE_COMMON_SERVE_HTTP_H

#include <jansson.h>

#include "common/serve/http_place.h"
#include "common/net/loop.h"
#include "common/process/metrics.h"

enum {
    HTTP_OPEN_MAX = 32,
    HTTP_CONNECTION_MS = 5000,
    HTTP_HEAD_BYTES = 8192,
    HTTP_BODY_BYTES = 4096, /* of a POST that is to hear its 405; nobody wants it */
    HTTP_TICK_MS = 100,
    HTTP_ACCEPTS = 16,
};

/* A part of a page, as it stands in the program. */
struct http_file {
    const char *path, *type; /* path NULL: the list ends */
    const void *data;
    size_t bytes;
};

/* What a process has to say. Called on the loop's thread; quick. */
struct http_ops {
    const char *(*not_ready)(
        void *ctx); /* NULL: ready. Else why not, until the next call; no function: always ready */
    void (*metrics)(void *ctx, struct metrics *m);
    json_t *(*status)(void *ctx); /* an object, the caller's; NULL: no memory */
    const struct http_file
        *files; /* its page, "/" among them, which may ask for /events; NULL: http_page */
};

/* *fd is the caller's, -1: nowhere. Errors: as listen_bind and listen_adopt, naming the flag. Thread: start-up. */
enum err http_bind(int *fd, const struct http_place *place, struct errmsg *e) MUST_CHECK;

struct http;

/* Errors: ERR_NOMEM. `take_fd` is taken, even on error. */
enum err http_open(struct http **h, struct loop *loop, int take_fd, const struct http_ops *ops,
                   void *ctx) MUST_CHECK;
/* The same on another descriptor of `fd`, which stays the caller's: whoever answers next finds there who comes in
 * between. -1 is none, and *h NULL. */
enum err http_open_again(struct http **h, struct loop *loop, int fd, const struct http_ops *ops,
                         void *ctx) MUST_CHECK;
void http_close(struct http *h); /* NULL is none */
/* Send the present /status to all streams now. Takes NULL. */
void http_tell(struct http *h);
/* Tests: another bound than HTTP_BEAT_MS. */
void http_beat_ms(struct http *h, int64_t ms);
/* Tests: another bound than HTTP_CONNECTION_MS, for all connections. */
void http_connection_ms(struct http *h, int64_t ms);

/* http_page.c: `status` as a page: objects as tables, lists of objects as tables with a line for each. False: no
 * memory. */
bool http_page(struct evbuffer *out, const json_t *status, const char *not_ready);

#endif
