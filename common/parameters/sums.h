/* Sums over examples, for training and evaluation. */
#pragma once

#include "common/parameters/limits.h"

struct sums { /* summed in example order */
    /* loss: of examples, weighted by class, plus penalties; metric: see model/metric.h */
    double examples, loss, metric[SUMS_MAX];
};

static inline void sums_add(struct sums *to, const struct sums *from)
{
    to->examples += from->examples;
    to->loss += from->loss;
    for (int i = 0; i < SUMS_MAX; i++)
        to->metric[i] += from->metric[i];
}
