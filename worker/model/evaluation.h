/* What an evaluation of the parameters of one step found, and what it could find at best. */
#ifndef GRADWIRE_WORKER_MODEL_EVALUATION_H
#define GRADWIRE_WORKER_MODEL_EVALUATION_H

#include <stdbool.h>
#include <stdint.h>

#include "common/parameters/limits.h"

struct evaluation {
    uint64_t step;
    double loss, metric[METRICS_MAX];
};

/* What the model that the rows were drawn by finds (data.synthetic: clicks): an evaluation comes no further. */
struct planted {
    bool known;          /* there is such a model */
    double auc, logloss; /* auc: NAN where all rows are of one class */
};

#endif
