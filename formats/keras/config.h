/* config.json of Keras 3, as the part `model:` of a job file: layers with Keras' names, options and inputs, the loss and the
 * metrics. Pure; nothing in the text is trusted. All that a job cannot have is listed, not only the first. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"
#include "formats/imports/imports.h"
#include "job/job.h"

enum { CONFIG_BYTES_MAX = 64 << 20, CONFIG_GROUP_BYTES = 96 };

/* A layer that has weights. */
struct config_weights {
    char name[JOB_NAME_MAX];
    char group[CONFIG_GROUP_BYTES]; /* of its weights: "layers/dense_1/vars" */
};

struct config {
    struct imported
        m; /* its texts, of which the yaml lacks the metrics, and the scale: 1 / the factor of a Rescaling */
    bool loss_is_chosen; /* the model was not compiled */
    uint32_t metrics;
    enum metric_kind metric[METRICS_MAX];
    uint32_t weighted;
    struct config_weights weights[JOB_LAYERS_MAX];
};

/* `name`: of the file, in messages. trained: the file has weights, so initializers do not matter. Owns: c->m is the caller's
 * (imported_close), unchanged on error. *refused: the list of what a job cannot have, for free(), with ERR_INPUT; or NULL.
 * Errors: ERR_INPUT: no such model, or the list is not empty; ERR_NOMEM. */
enum err config_read(struct config *c, const char *text, size_t bytes, const char *name,
                     bool trained, char **refused, struct errmsg *e) MUST_CHECK;
