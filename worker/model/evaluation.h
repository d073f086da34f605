/* What an evaluation of the parameters of one step found. */
#ifndef GRADWIRE_WORKER_MODEL_EVALUATION_H
#define GRADWIRE_WORKER_MODEL_EVALUATION_H

#include <stdint.h>

#include "common/parameters/limits.h"

struct evaluation {
    uint64_t step;
    double loss, metric[METRICS_MAX];
};

#endif
