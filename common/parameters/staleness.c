#include "common/parameters/staleness.h"

#include <assert.h>
#include <math.h>

enum { EXACT = 16, EXACT_BITS = 4 };

uint32_t staleness_bucket(uint64_t updates)
{
    if (updates < EXACT)
        return (uint32_t)updates;
    uint32_t bits = 63 - (uint32_t)__builtin_clzll(updates);
    uint32_t bucket = EXACT + bits - EXACT_BITS;
    return bucket < STALENESS_BUCKETS ? bucket : STALENESS_BUCKETS - 1;
}

/* Checks that every push is in one bucket and that the maximum fits the sum. */
static void check(const struct staleness *s)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < STALENESS_BUCKETS; i++)
        n += s->bucket[i];
    assert(n == s->count && s->max <= s->sum);
    assert(s->count == 0 || s->bucket[staleness_bucket(s->max)] > 0);
    (void)n;
}

uint64_t staleness_least(uint32_t bucket)
{
    return bucket < EXACT ? bucket : UINT64_C(1) << (bucket - EXACT + EXACT_BITS);
}

void staleness_bounds(double out[STALENESS_BUCKETS])
{
    for (uint32_t i = 0; i + 1 < STALENESS_BUCKETS; i++)
        out[i] = (double)(staleness_least(i + 1) - 1);
    out[STALENESS_BUCKETS - 1] = (double)INFINITY;
}

void staleness_add(struct staleness *s, uint64_t updates)
{
    s->count++;
    s->sum += updates;
    if (updates > s->max)
        s->max = updates;
    s->bucket[staleness_bucket(updates)]++;
    assert(staleness_least(staleness_bucket(updates)) <= updates);
    check(s);
}

void staleness_join(struct staleness *to, const struct staleness *from)
{
    to->count += from->count;
    to->sum += from->sum;
    if (from->max > to->max)
        to->max = from->max;
    for (uint32_t i = 0; i < STALENESS_BUCKETS; i++)
        to->bucket[i] += from->bucket[i];
}
