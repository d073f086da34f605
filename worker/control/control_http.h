/* What a worker's process shows to the outside by HTTP, on the control thread: what the training thread has counted
 * (meter.h), and what its role adds (control_ops). */
#ifndef GRADWIRE_WORKER_CONTROL_CONTROL_HTTP_H
#define GRADWIRE_WORKER_CONTROL_CONTROL_HTTP_H

#include "worker/control/control.h"

/* c->http, where config.http_fd is one; that is taken, even on error. Errors: ERR_NOMEM. */
enum err control_http_open(struct control *c) MUST_CHECK;
void control_http_close(struct control *c);

#endif
