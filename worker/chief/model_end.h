/* The chief's last work on a finished job's model: the manifest of model/, and that of best/. */
#ifndef GRADWIRE_WORKER_CHIEF_MODEL_END_H
#define GRADWIRE_WORKER_CHIEF_MODEL_END_H

#include "worker/chief/epoch_end.h"
#include "worker/evaluator/eval_log.h"

struct model_end {
    const struct epoch_end_config *config;
    const struct epoch_end_result *learned;
    const struct eval_log *evaluator; /* the evaluator's results; NULL: the chief evaluates */
    const struct manifest *final;     /* the final cut; unused without `evaluator` */
};

/* Write manifest.json, when all other files of model/ and best/ are complete. Errors: as model_manifest_write;
 * ERR_CORRUPT: weights.safetensors was changed. */
enum err model_end_write(const struct model_end *end, struct errmsg *e) MUST_CHECK;

#endif
