/* The chief's work on the training thread between two tasks: at the end of an epoch (evaluation, curves, the best
 * weights, early stopping) and at the end of the job (the final evaluation, model/).
 *
 * Happy path: the last step of an epoch is made -> its averages, if the job keeps any -> evaluation -> the next epoch
 * ... -> TRAIN_FINISH -> CONTROL_FINISHED -> TRAIN_PUBLISHED -> model/ is written -> CONTROL_WRITTEN.
 * Failure modes: an evaluation or a write that fails ends the run; after a rollback to before an epoch's end, that
 * end is evaluated again. In sync the next step begins when the epoch's line is in the history's file. So the next
 * process of a chief that is killed knows from the line that an evaluation was the best; if best/ does not have it, no
 * cut of its step is there, and the shards are beyond it, that process goes back to the last cut. */
#pragma once

#include "worker/chief/epoch_log.h"
#include "worker/evaluator/best.h"
#include "worker/tensorboard/events.h"
#include "worker/step/train.h"
#include "worker/control/control.h"

struct epoch_end_config {
    const struct job *job;
    const struct model *model;
    const struct dataset *data;
    struct source *eval; /* NULL: the job has no eval data */
    struct planted planted;
    struct best *best;
    struct curves *curves;
    struct epoch_log *log;
    bool finished; /* the job was done before: no epoch is reported */
    /* sync: the step at the end of the last epoch, if its evaluation was the best and `best` lacks it; otherwise 0. The
     * same as in struct chief_config. */
    uint64_t unkept_step;
    const char *output; /* DIR */
    int progress_fd;    /* -1: none */
    /* Writes what model/ and best/ have apart from these weights, at the end of the job. */
    enum err (*write_rest)(void *rest, struct errmsg *e);
    void *rest;
};

/* The results. */
struct epoch_end_result {
    double first_step_s; /* since the process began, in seconds; NAN: no step yet */
    bool has_eval;
    struct evaluation eval; /* the last one */
    double seconds_before;  /* seconds of training in earlier runs; set by the caller */
    char digest[65];        /* "" if model/ was not written */
};

struct epoch_end;

/* All parts and *result must outlive it. Errors: ERR_NOMEM. */
enum err epoch_end_new(struct epoch_end **end, const struct epoch_end_config *config,
                       const struct train_parts *parts, struct epoch_end_result *result,
                       struct errmsg *e) MUST_CHECK;
void epoch_end_free(struct epoch_end *end);
extern const struct driver_chief epoch_end_ops; /* ctx: a struct epoch_end */

/* True if model/ gets the best epoch's weights, and such weights exist. */
bool epoch_end_restores_best(const struct epoch_end_config *config);

/* Write model/: weights.safetensors, job.yaml and, for a csv, encoding.json. Fills in the digest, in a job with
 * tables without them. `step`: the step of the last parameters; if the best ones are restored, w has an earlier
 * step. Errors: ERR_IO. */
enum err epoch_end_export(const struct epoch_end_config *config, const float *w, uint64_t step,
                          char digest[65], struct errmsg *e) MUST_CHECK;

/* A job with tables keeps its best epoch as a cut. The chief's training thread requests the cut from the control
 * thread.
 *
 * Happy path: an evaluation beats the best -> best_cut_ask -> the cut is copied (in sync the next step begins only
 * now, so the cut has the evaluated step) -> it is published -> best_keep_cut.
 * Failure modes: the cut fails (the earlier best stays), a new generation (best_cut_drop; the epoch's end is
 * evaluated again). Thread: the training thread. */

/* All zero: nothing is requested. */
struct best_cut {
    uint64_t asks; /* number of requests so far, which is the number of the last one */
    bool asked, copied;
    uint64_t epoch;
    struct evaluation eval;
};

/* Request a cut. Call only if no request is pending. `step`: in sync the latest step that the cut may have; in other
 * modes UINT64_MAX. False: no memory. */
bool best_cut_ask(struct best_cut *c, struct control *control, uint64_t epoch, uint64_t step,
                  const struct evaluation *eval) MUST_CHECK;

/* True until the cut is copied. */
static inline bool best_cut_is_made(const struct best_cut *c)
{
    return c->asked && !c->copied;
}

/* True from the request until TRAIN_KEPT reports that the cut is published or has failed, or best_cut_drop. */
static inline bool best_cut_is_open(const struct best_cut *c)
{
    return c->asked;
}
