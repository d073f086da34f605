/* The HTTP server of a worker's process, on the control thread: it serves the training thread's counts (meter.h) and
 * the additions of the process's role (control_ops). */
#ifndef GRADWIRE_WORKER_CONTROL_CONTROL_HTTP_H
#define GRADWIRE_WORKER_CONTROL_CONTROL_HTTP_H

#include "common/process/process_state.h"
#include "worker/control/control.h"

/* Open c->http if config.http_fd is not -1; takes that descriptor, even on error. Errors: ERR_NOMEM. */
enum err control_http_open(struct control *c) MUST_CHECK;
void control_http_close(struct control *c);

/* The beginning of all answers of a worker's process. not_ready: why the process is not ready; NULL: it is ready.
 * waits_for: what it waits for; NULL: nothing. going: it was asked to stop. Returns a new reference; NULL: no memory.
 * Thread: any. */
void control_http_metrics(struct metrics *m, const struct job *job, const struct cluster *cluster);
json_t *control_http_status(const struct job *job, const struct cluster *cluster,
                            const char *not_ready, enum process_state state, const char *waits_for,
                            bool going);

#endif
