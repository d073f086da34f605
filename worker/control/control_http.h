/* The HTTP server of a worker's process, on the control thread: it serves the training thread's counts (meter.h) and
 * the additions of the process's role (control_ops). */
#pragma once

#include "common/cluster/cluster.h"
#include "common/process/process_state.h"
#include "common/serve/http.h"
#include "job/job.h"
#include "worker/control/control.h"

/* HTTP on a thread of its own, for a process whose other threads have no loop that could answer: the evaluator, and
 * a worker that reads its data or is idle. */

struct http_thread;

/* Serve `fd`, a listening socket that stays the caller's, with `ops`, which are called on that thread. fd < 0: *out
 * is NULL. Errors: ERR_NOMEM, ERR_FILES, ERR_IO. */
enum err http_thread_new(struct http_thread **out, int fd, const struct http_ops *ops, void *ctx,
                         struct errmsg *e) MUST_CHECK;
/* Stop the thread and wait for it. NULL: nothing to do. */
void http_thread_free(struct http_thread *t);

/* For /metrics of the chief: of each worker, by loading_heard. Thread: the one that serves HTTP. */
void loading_metrics(struct metrics *m, uint32_t workers);
json_t *loading_json(const struct loading *now); /* for /status */

/* Open c->http if config.http_fd is not -1; takes that descriptor, even on error. Errors: ERR_NOMEM. */
enum err control_http_open(struct control *c) MUST_CHECK;
static inline void control_http_close(struct control *c)
{
    http_close(c->http);
    c->http = NULL;
}

/* HTTP of a worker's process while none of its other threads can answer: it reads its data, or its job is done. So a
 * process is alive and ready from the start, however long that takes.
 *
 * Happy path: interim_begin -> a thread answers -> interim_end. The server that follows has a descriptor of the same
 * socket, so connections made in between wait in it. Failure modes: no memory, no thread. */

/* The caller's memory, which must not move while the thread answers. */
struct interim {
    const struct job *job;
    const struct cluster *cluster;
    enum process_state state;
    struct http_thread *thread; /* NULL: no thread */
};

/* If `fd` is -1, no HTTP is wanted, and no thread starts. `fd` stays the caller's; job and cluster are used until
 * interim_end. Errors: ERR_NOMEM. */
enum err interim_begin(struct interim *i, int fd, const struct job *job,
                       const struct cluster *cluster, enum process_state state,
                       struct errmsg *e) MUST_CHECK;
void interim_end(struct interim *i); /* does nothing if no thread runs */
