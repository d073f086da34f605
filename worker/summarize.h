/* summary.json from what the chief's process knows at the end. */
#ifndef GRADWIRE_WORKER_SUMMARIZE_H
#define GRADWIRE_WORKER_SUMMARIZE_H

#include "common/cluster/cluster.h"
#include "common/checkpoint/checkpoint.h"
#include "worker/chief/epoch_end.h"
#include "worker/chief/host.h"
#include "worker/evaluate/eval_log.h"

struct summarize {
    const struct job *job;
    const struct cluster *cluster;
    const struct driver_result *result;
    const struct epoch_end_result *learned;
    const struct epoch_log *log;
    const struct manifest *base;   /* the cut that this run began from; NULL: none */
    const struct journal *journal; /* of the runs before */
    bool finished;                 /* the job was done before this run began */
    uint64_t batches_per_epoch, rows;
    const struct eval_log *evaluator; /* what it found; NULL: there is none, the chief evaluates */
    struct planted planted;
    const char *output;      /* DIR */
    const struct host *host; /* after control_close; NULL: the chief never was */
};

/* One worker's process. */
struct summary_worker {
    bool accounted; /* what it did is known. Its idle share: waited_s / (computed_s + waited_s) */
    struct worker_account account;
    uint64_t dropped; /* microbatches */
    bool stales;      /* it is known how stale its pushes were */
    struct staleness stale;
};

/* Write DIR/summary.json as docs/reference/files.md lists it, atomic; doubles read back to the same bits, and what is not finite
 * is null. peak_rss_bytes is {} here: a launcher completes it. Text that is no UTF-8 is written with '?'.
 * Errors: ERR_IO, ERR_NOMEM. */
enum err summarize(const struct summarize *what, struct errmsg *e) MUST_CHECK;

/* The same of values that are worked out already, with (workers) of them; what->host is not looked at. */
enum err summary_write(const struct summarize *what, const struct chief_facts *f,
                       const struct summary_worker *worker, uint32_t workers,
                       struct errmsg *e) MUST_CHECK;

#endif
