/* How stale the gradients of one worker were: a histogram of the updates that a shard applied between the pull of
 * some parameters and the push of the gradient that was computed from them. Pure. */
#ifndef GRADWIRE_COMMON_PARAMETERS_STALENESS_H
#define GRADWIRE_COMMON_PARAMETERS_STALENESS_H

#include <stdint.h>

/* 0 to 15 have a bucket each; then [16, 32), [32, 64), ...; the last one has no end. */
enum { STALENESS_BUCKETS = 28 };

struct staleness {
    uint64_t count, sum, max;
    uint64_t bucket[STALENESS_BUCKETS];
};

/* The bucket that `updates` falls into, and the least of a bucket. */
uint32_t staleness_bucket(uint64_t updates);
uint64_t staleness_least(uint32_t bucket);

/* The largest that falls into each bucket; INFINITY for the last. */
void staleness_bounds(double out[STALENESS_BUCKETS]);

void staleness_add(struct staleness *s, uint64_t updates);
/* `to` gets what `from` has counted. */
void staleness_join(struct staleness *to, const struct staleness *from);

#endif
