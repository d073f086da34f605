/* The result of an evaluation of the parameters of one step, and the best possible result. */
#ifndef GRADWIRE_MODEL_EVALUATION_H
#define GRADWIRE_MODEL_EVALUATION_H

#include <stdbool.h>
#include <stdint.h>

#include "common/parameters/limits.h"

struct evaluation {
    uint64_t step;
    double loss, metric[METRICS_MAX];
};

/* The result of the model that drew the rows (data.synthetic: clicks): no evaluation can be better, except by
 * chance. */
struct planted {
    bool known;          /* such a model exists */
    double auc, logloss; /* auc: NAN if all rows have one class */
};

#endif
