/* What training and evaluation add up over examples. */
#ifndef GRADWIRE_COMMON_PARAMETERS_SUMS_H
#define GRADWIRE_COMMON_PARAMETERS_SUMS_H

#include "common/parameters/limits.h"

struct sums { /* over examples, in example order, double */
    double examples, loss,
        metric[SUMS_MAX]; /* loss: of examples, by class weights, and of penalties;
                                                metric: worker/model/metric.h */
};

static inline void sums_add(struct sums *to, const struct sums *from)
{
    to->examples += from->examples;
    to->loss += from->loss;
    for (int i = 0; i < SUMS_MAX; i++)
        to->metric[i] += from->metric[i];
}

#endif
