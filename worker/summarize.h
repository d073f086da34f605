/* Writes summary.json from the state of the chief's process at the end. */
#pragma once

#include "common/cluster/cluster.h"
#include "common/checkpoint/checkpoint.h"
#include "worker/chief/epoch_end.h"
#include "worker/chief/model_end.h"
#include "worker/chief/host.h"
#include "worker/control/progress.h"
#include "worker/evaluator/eval_log.h"

enum { SUMMARY_WORDS_BYTES = 4096 + PROGRESS_WORDS_BYTES + 160 }; /* a path, values, and the rest */

struct summarize {
    const struct job *job;
    const struct cluster *cluster;
    const struct driver_result *result;
    const struct epoch_end_result *learned;
    const struct epoch_log *log;
    const struct manifest *base;   /* the cut that this run began with; NULL: none */
    const struct journal *journal; /* of the earlier runs; summarize replaces it by the host's */
    bool finished;                 /* the job was done before this run began */
    bool launched;                 /* by the launcher of DIR, which counts restarts */
    uint64_t batches_per_epoch, rows;
    /* the evaluator's results; NULL: no evaluator, the chief evaluates */
    const struct eval_log *evaluator;
    struct planted planted;
    const struct exports_end *exports; /* NULL: none */
    const char *output;                /* DIR */
    const struct host *host;           /* after control_close; NULL: the chief was never started */
    /* SUMMARY_WORDS_BYTES: gets the result of a job that is done as one line, such as "done: 10 epochs, eval loss 0.0712
     * accuracy 0.9789, digest .., model in DIR/model" */
    char *words;
};

/* One worker's process. */
struct summary_worker {
    bool joined;    /* it has taken part */
    bool accounted; /* its account is known. Its idle share: waited_s / (computed_s + waited_s) */
    struct worker_account account;
    uint64_t dropped; /* microbatches */
    bool stales;      /* the staleness of its pushes is known */
    struct staleness stale;
};

/* Write DIR/summary.json, as docs/reference/files.md lists it, atomically. Doubles read back to the same bits;
 * values that are not finite become null. peak_rss_bytes is {} here: a launcher completes it. Texts are printable
 * (printable.h). Errors: ERR_IO, ERR_NOMEM. */
enum err summarize(const struct summarize *what, struct errmsg *e) MUST_CHECK;

/* The same from values that are already known, of the workers 0 to (workers) - 1; what->host is ignored. */
enum err summary_write(const struct summarize *what, const struct chief_facts *f,
                       const struct summary_worker *worker, uint32_t workers,
                       struct errmsg *e) MUST_CHECK;

/* Write a summary with the few fields that are known of a run that failed before the chief began it. That of a job which
 * is done stays as it is. Errors: ERR_IO, ERR_NOMEM. */
enum err summary_write_failed(const struct job *job, const char *output, int exit_code,
                              const char *why, struct errmsg *e) MUST_CHECK;
