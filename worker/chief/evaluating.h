/* An evaluation of what the job has learned, by the chief: at the present step, of a data set, with the rows that the shards
 * have. Its callers say when: at the end of an epoch, or of the job.
 *
 * Happy path: the averages of the weights, if the job keeps any, are requested -> they are here -> evaluating_run ->
 * CONTROL_EVALUATED.
 * Failure modes: another generation, another incarnation of a ps or the end of the run interrupts it: the caller
 * evaluates again, or the next chief does. Thread: the training thread. */
#ifndef GRADWIRE_WORKER_CHIEF_EVALUATING_H
#define GRADWIRE_WORKER_CHIEF_EVALUATING_H

#include "evaluate/evaluate.h"
#include "model/evaluation.h"
#include "worker/step/train.h"

struct evaluating {
    const struct train_parts *parts;
    struct evaluator *evaluator; /* has the data set */
};

/* The weights that are evaluated: the averages, if the job keeps any. */
static inline float *evaluating_weights(const struct evaluating *v)
{
    return v->parts->averages ? v->parts->averages : v->parts->w;
}

/* False: the averages are requested, and arrive while the loop runs. */
bool evaluating_is_ready(const struct evaluating *v);

/* Evaluate, and post the result to the control thread; the time counts as a pause of the training. *out changes only with
 * ERR_OK. Errors: ERR_STATE: it was interrupted; ERR_NOMEM; those of evaluator_run. */
enum err evaluating_run(struct evaluating *v, struct evaluation *out, struct errmsg *e) MUST_CHECK;

#endif
