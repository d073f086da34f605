/* What the chief does on the training thread between two tasks: the end of an epoch (evaluation, curves, the best
 * weights, early stopping) and the end of the job (the final evaluation, model/).
 *
 * Happy path: the last step of an epoch is made -> its averages, if the job keeps any -> evaluation -> the next epoch
 * ... -> TRAIN_FINISH -> model/ is written -> CONTROL_FINISHED. Failure modes: an evaluation or a write that fails ends
 * the run; a rollback behind an epoch's end, which is then looked at again. */
#ifndef GRADWIRE_WORKER_CHIEF_EPOCH_END_H
#define GRADWIRE_WORKER_CHIEF_EPOCH_END_H

#include "worker/chief/epoch_log.h"
#include "worker/evaluate/best.h"
#include "worker/tensorboard/curves.h"
#include "worker/step/train.h"

struct epoch_end_config {
    const struct job *job;
    const struct model *model;
    const struct dataset *data, *eval; /* eval NULL: none */
    struct planted planted;
    struct best *best;
    struct curves *curves;
    struct epoch_log *log;
    bool finished;      /* the job was done before: no epoch is told */
    const char *output; /* DIR */
    int progress_fd;    /* -1: none */
};

/* The findings. */
struct epoch_end_result {
    double first_step_s; /* since the process began; NAN: none */
    bool has_eval;
    struct evaluation eval; /* the last one */
    double seconds_before;  /* of training, in former runs; the caller's */
    char digest[65];        /* "" where model/ was not written */
};

struct epoch_end;

/* The parts and *result outlive it. Errors: ERR_NOMEM. */
enum err epoch_end_new(struct epoch_end **end, const struct epoch_end_config *config,
                       const struct train_parts *parts, struct epoch_end_result *result,
                       struct errmsg *e) MUST_CHECK;
void epoch_end_free(struct epoch_end *end);
extern const struct driver_chief epoch_end_ops; /* with a struct epoch_end */

/* model/ gets the best epoch's weights, and there are such. */
bool epoch_end_restores_best(const struct epoch_end_config *config);

/* model/: weights.safetensors, job.yaml and, of a csv, encoding.json; fills the digest, of tables without them. `step`: of
 * the last parameters, which w is not where the best ones are restored. Errors: ERR_IO. */
enum err epoch_end_export(const struct epoch_end_config *config, const float *w, uint64_t step,
                          char digest[65], struct errmsg *e) MUST_CHECK;

#endif
