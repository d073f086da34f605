/* The staleness of one worker's gradients, as a histogram: the number of updates that a shard applied between the
 * worker's pull of parameters and its push of the gradient computed from them. Pure. */
#pragma once

#include <stdint.h>

/* One bucket for each of 0 to 15, then [16, 32), [32, 64), and so on; the last bucket is unbounded. */
enum { STALENESS_BUCKETS = 28 };

struct staleness {
    uint64_t count, sum, max;
    uint64_t bucket[STALENESS_BUCKETS];
};

/* The bucket of `updates`; the smallest value of a bucket. */
uint32_t staleness_bucket(uint64_t updates);
uint64_t staleness_least(uint32_t bucket);

/* Writes the largest value of each bucket; INFINITY for the last. */
void staleness_bounds(double out[STALENESS_BUCKETS]);

void staleness_add(struct staleness *s, uint64_t updates);
/* Adds the counts of `from` to `to`. */
void staleness_join(struct staleness *to, const struct staleness *from);
