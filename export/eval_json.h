/* An evaluation in JSON. */
#ifndef GRADWIRE_EXPORT_EVAL_JSON_H
#define GRADWIRE_EXPORT_EVAL_JSON_H

#include <jansson.h>

#include "job/job.h"
#include "model/evaluation.h"

/* Returns a new reference: {"loss": .., "accuracy": ..}. Values that are not finite are null; all are if `found` is NULL.
 * NULL: no memory. */
json_t *eval_json(const struct job *job, const struct evaluation *found);

#endif
