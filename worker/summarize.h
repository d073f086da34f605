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
    const struct manifest *base;   /* the cut that this run began from; NULL: none */
    const struct journal *journal; /* of the runs before */
    bool finished;                 /* the job was done before this run began */
    uint64_t batches_per_epoch, rows;
    const struct eval_log *evaluator; /* what it found; NULL: there is none, the chief evaluates */
    const char *output;               /* DIR */
    const struct host *host;          /* after control_close; NULL: the chief never was */
};

/* Write DIR/summary.json. Errors: ERR_IO, ERR_NOMEM. */
enum err summarize(const struct summarize *what, struct errmsg *e) MUST_CHECK;

#endif
