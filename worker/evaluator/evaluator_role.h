/* The evaluator's process. It takes each published checkpoint of DIR/checkpoints, which it shares with the chief,
 * evaluates it, writes DIR/eval.json and TensorBoard's files, and ends when the job's final checkpoint is evaluated.
 *
 * Happy path: wait for a cut -> hold it -> read its weights -> evaluate -> events -> eval.json -> again; the final
 * one ends it.
 * Failure modes: no cut yet (it waits, and logs that; timeouts.start_s), a cut that cannot be read (passed over), a
 * full disk (tried again), DIR removed or replaced, ps 0 away for timeouts.ps_rejoin_s (it gives up), ps 0 away after
 * the chief has failed (it ends with the chief's reason), SIGTERM (143; the next process evaluates the same cut from
 * the start). It does not affect training. */
#pragma once

#include <sys/stat.h>

#include "common/cluster/cluster.h"
#include "data/source.h"
#include "job/job.h"
#include "model/evaluation.h"
#include "model/model.h"

/* How the chief's run ended, for an evaluator, which is connected to no process: DIR/summary.json has it. */
struct chief_end {
    struct stat before; /* st_ino 0: there was no summary */
};

/* Call when the evaluator's process starts: a summary that is there is one of an earlier run. */
void chief_end_begin(struct chief_end *c, const char *output);

/* True if a run of this job has ended since then with a failure that a restart does not fix, and no process has taken
 * DIR since. *exit_code: from 1 to 127; *e: its reason. Reads up to three files. Thread: any. */
bool chief_end_failed(const struct chief_end *c, const struct job *job, const char *output,
                      int *exit_code, struct errmsg *e);

struct evaluator_role {
    const struct job *job;
    const struct cluster *cluster;
    const struct model *model;
    const struct contents *data; /* of the training part, whose fingerprint is the job's */
    struct source *eval;
    const char *encoding; /* encoding.json, by which the rows were read; NULL: they need none */
    struct planted planted;
    uint64_t batches_per_epoch;
    const char *output, *logs;
    const struct place *checkpoints;
    int progress_fd;               /* -1: none */
    int http_fd;                   /* the caller's; -1: none */
    const struct chief_end *chief; /* begun when the process started */
};

struct evaluator_end {
    bool signaled; /* SIGTERM has come */
    bool encoding; /* ERR_INPUT, because a checkpoint's rows have another meaning than these */
    int exit_code; /* not 0: ERR_CLOSED, because the chief has failed with this code */
};

/* Run to the end. ERR_OK: done, or SIGTERM. Errors: ERR_INPUT: the checkpoints belong to another job or other data,
 * or their rows have another meaning; ERR_STATE: DIR was removed or replaced; ERR_CLOSED: the chief has failed;
 * ERR_TIMEOUT; ERR_NOMEM; ERR_IO. Thread: main. */
enum err evaluator_role_run(const struct evaluator_role *role, struct evaluator_end *end,
                            struct errmsg *e) MUST_CHECK;
