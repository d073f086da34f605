/* HTTP on a thread of its own, for a process whose other threads have no loop that could answer: the evaluator, and
 * a worker that reads its data or is idle. */
#ifndef GRADWIRE_WORKER_CONTROL_HTTP_THREAD_H
#define GRADWIRE_WORKER_CONTROL_HTTP_THREAD_H

#include "common/serve/http.h"

struct http_thread;

/* Serve `fd`, a listening socket that stays the caller's, with `ops`, which are called on that thread. fd < 0: *out
 * is NULL. Errors: ERR_NOMEM, ERR_FILES, ERR_IO. */
enum err http_thread_new(struct http_thread **out, int fd, const struct http_ops *ops, void *ctx,
                         struct errmsg *e) MUST_CHECK;
/* Stop the thread and wait for it. NULL: nothing to do. */
void http_thread_free(struct http_thread *t);

#endif
