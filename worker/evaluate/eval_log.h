/* DIR/eval.json: the evaluator's result for each checkpoint, in the order in which they were taken. The evaluator
 * writes the file atomically; the chief reads the last result from it. This file also decides which cut is evaluated
 * next, by values alone.
 *
 *   {"job": "mnist", "uuid": "...", "eval_fingerprint": "...", "results": [{"cut": 3, "generation": 1, "step": 500, "final": false,
 *    "examples": 10000, "seconds": 0.21, "loss": 0.11, "accuracy": 0.97}, ...]} */
#ifndef GRADWIRE_WORKER_EVALUATE_EVAL_LOG_H
#define GRADWIRE_WORKER_EVALUATE_EVAL_LOG_H

#include "common/checkpoint/checkpoint.h"
#include "common/job/job.h"
#include "common/process/contents.h"
#include "worker/model/evaluation.h"

struct eval_result {
    uint64_t cut, generation;
    bool final; /* from the manifest: this was the last cut of the training */
    double examples, seconds;
    struct evaluation eval; /* its step is the cut's */
};

enum { EVAL_LOG_MAX = 100000 }; /* number of results; the oldest are dropped */

struct eval_log {
    char uuid[37]; /* of the job; "": none yet */
    char data
        [CONTENTS_HEX_BYTES]; /* the fingerprint of the evaluation data; "": an earlier release wrote the file */
    size_t n;
    struct eval_result *result; /* (n) by generation and cut; steps ascend too */
};

/* An absent file, or one of a job with another name, is an empty log. *l is the caller's (eval_log_close), empty on
 * error. Errors: ERR_CORRUPT, naming the file; ERR_IO, ERR_NOMEM. */
enum err eval_log_read(struct eval_log *l, const struct job *job, const char *output,
                       struct errmsg *e) MUST_CHECK;
/* Errors: ERR_IO, ERR_NOMEM; the earlier file then stays. */
enum err eval_log_write(const struct eval_log *l, const struct job *job, const char *output,
                        struct errmsg *e) MUST_CHECK;
void eval_log_close(struct eval_log *l);

/* The index in m (n) of the cut to evaluate next: the oldest one that was taken after the cut of the log's last result,
 * and after *passed, the last cut that was passed over (NULL: none). The log's results of another job do not count.
 * -1: none. */
struct eval_passed {
    uint64_t generation, cut;
};
long eval_log_choose(const struct eval_log *l, const struct manifest *m, size_t n,
                     const struct eval_passed *passed);

/* Add the result of a cut of job `uuid`. Results at its step or later belong to a history that was rolled back, and
 * are removed; *again is true if there were any. Errors: ERR_NOMEM. */
enum err eval_log_add(struct eval_log *l, const char *uuid, const struct eval_result *r,
                      bool *again) MUST_CHECK;

/* The last result of job `uuid`, or NULL. */
const struct eval_result *eval_log_last(const struct eval_log *l, const char *uuid);
/* True if the last result of job `uuid` in DIR/eval.json is that of this cut; *r is then the result. False also if
 * the file cannot be read: *e then says why; otherwise *e is empty. */
bool eval_log_judged(const struct job *job, const char *output, const char *uuid, uint64_t cut,
                     struct eval_result *r, struct errmsg *e);
/* The result at this step of job `uuid`, or NULL. */
const struct eval_result *eval_log_at(const struct eval_log *l, const char *uuid, uint64_t step);

#endif
