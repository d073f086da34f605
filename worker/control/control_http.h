/* What a worker's process shows to the outside by HTTP, on the control thread: what the training thread has counted
 * (meter.h), and what its role adds (control_ops). */
#ifndef GRADWIRE_WORKER_CONTROL_CONTROL_HTTP_H
#define GRADWIRE_WORKER_CONTROL_CONTROL_HTTP_H

#include "common/process/process_state.h"
#include "worker/control/control.h"

/* c->http, where config.http_fd is one; that is taken, even on error. Errors: ERR_NOMEM. */
enum err control_http_open(struct control *c) MUST_CHECK;
void control_http_close(struct control *c);

/* The part that every answer of a worker's process begins with, whichever thread gives it; NULL: no memory. */
void control_http_metrics(struct metrics *m, const struct job *job, const struct cluster *cluster);
json_t *control_http_status(const struct job *job, const struct cluster *cluster,
                            const char *not_ready, enum process_state state, const char *waits_for,
                            bool going);

#endif
