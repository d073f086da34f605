/* Whether float32 is enough for the numbers of a column: estimates how many different numbers it has, and how many of them are
 * left as floats. Pure. */
#ifndef GRADWIRE_WORKER_DATA_CORE_ROUNDING_H
#define GRADWIRE_WORKER_DATA_CORE_ROUNDING_H

#include <stdbool.h>

#include "common/base/err.h"
#include "worker/data/core/distinct.h"

struct rounding {
    bool noted;
    struct distinct numbers, floats;
};

/* Note a number. */
void rounding_add(struct rounding *r, double number);
/* Add what another one has noted; the order does not matter. */
void rounding_join(struct rounding *r, const struct rounding *other);
/* Returns true if less than a tenth of the different numbers are left. */
bool rounding_loses(const struct rounding *r, double *numbers, double *left);

#endif
