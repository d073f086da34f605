/* Whether float32 is enough for the numbers of a column: estimates how many different numbers it has, and how many of them are
 * left as floats. Pure. */
#ifndef GRADWIRE_DATA_CORE_ROUNDING_H
#define GRADWIRE_DATA_CORE_ROUNDING_H

#include <stdbool.h>

#include "common/base/err.h"
#include "data/core/distinct.h"

struct rounding_counts {
    struct distinct numbers, floats;
};

/* Two samples. That of rows shows what is left of numbers in few floats, or of rows that are sorted. That of floats has all
 * numbers of one float in 32, so it shows what is left in many floats, in any order of the rows. */
struct rounding {
    bool noted;
    struct rounding_counts rows, floats;
};

/* Whether a number that becomes this float is in the sample of floats. */
bool rounding_picks(float number);
/* Note a number. row: it is of a row in the sample of rows. */
void rounding_add(struct rounding *r, double number, bool row);
/* Add what another one has noted; the order does not matter. */
void rounding_join(struct rounding *r, const struct rounding *other);
/* Returns true if less than a tenth of the different numbers are left in one of the samples. They are about so many in all of
 * what the sample is for. */
bool rounding_loses(const struct rounding *r, double *numbers, double *left);

#endif
