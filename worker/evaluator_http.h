/* HTTP of the evaluator's process, on a thread of its own: main evaluates. */
#ifndef GRADWIRE_WORKER_EVALUATOR_HTTP_H
#define GRADWIRE_WORKER_EVALUATOR_HTTP_H

#include "common/cluster.h"
#include "common/job.h"
#include "worker/eval_log.h"

struct evaluator_http;

/* `fd` listens and is taken, even on error; -1: *h is NULL, which the others take for nothing to do.
 * Errors: ERR_NOMEM, ERR_IO. */
enum err evaluator_http_open(struct evaluator_http **h, int take_fd, const struct job *job,
                             const struct cluster *cluster, struct errmsg *e) MUST_CHECK;
void evaluator_http_close(struct evaluator_http *h);
/* A checkpoint is evaluated. Thread: main; never blocks. */
void evaluator_http_note(struct evaluator_http *h, const struct eval_result *r);

#endif
