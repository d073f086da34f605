/* Estimates the number of different keys with a sketch of 4 KiB, right to about 2 %. Flajolet et al. 2007,
 * "HyperLogLog"; the estimate is that of Ertl 2017, "New cardinality estimation algorithms for HyperLogLog
 * sketches", section 4: it has no bias for few keys. Pure. */
#ifndef GRADWIRE_DATA_CORE_DISTINCT_H
#define GRADWIRE_DATA_CORE_DISTINCT_H

#include <stdint.h>

enum { DISTINCT_BITS = 12, DISTINCT_REGISTERS = 1 << DISTINCT_BITS };

/* All zero: no keys yet. */
struct distinct {
    uint8_t longest[DISTINCT_REGISTERS];
};

/* Add a mixed key (common/rows/key.h), whose bits are as good as random. */
void distinct_add(struct distinct *d, uint64_t mixed);
/* Add the keys of another one. */
void distinct_join(struct distinct *d, const struct distinct *other);
double distinct_keys(const struct distinct *d);

#endif
