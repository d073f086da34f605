#include "data/core/rounding.h"

#include <string.h>

#include "common/base/rng.h"

enum {
    PICKED = 32,
    /* different floats in a sample of them that can be judged: fewer can be a few that have many numbers each */
    PICKED_MIN = 8
};

uint64_t rounding_key_of_integer(uint64_t bits)
{
    return rng_u64(bits, 0);
}

uint64_t rounding_key(double number)
{
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    return rng_u64(bits, 0);
}

bool rounding_picks(float number)
{
    const uint64_t odd = UINT64_C(0x9E3779B97F4A7C15);
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    return (bits * odd) >> 59 == 0; /* one in PICKED */
}

void rounding_count(struct rounding_counts *c, uint64_t number, double left)
{
    distinct_add(&c->numbers, number);
    distinct_add(&c->floats, rounding_key(left));
}

void rounding_add(struct rounding *r, uint64_t number, double left, bool row)
{
    r->noted = true;
    if (row)
        rounding_count(&r->rows, number, left);
    if (rounding_picks((float)left))
        rounding_count(&r->floats, number, left);
}

static void join(struct rounding_counts *c, const struct rounding_counts *other)
{
    distinct_join(&c->numbers, &other->numbers);
    distinct_join(&c->floats, &other->floats);
}

void rounding_join(struct rounding *r, const struct rounding *other)
{
    r->noted |= other->noted;
    join(&r->rows, &other->rows);
    join(&r->floats, &other->floats);
}

bool rounding_counts_lose(const struct rounding_counts *c, double *numbers, double *left)
{
    *numbers = distinct_keys(&c->numbers);
    *left = distinct_keys(&c->floats);
    return *left * 10 < *numbers;
}

bool rounding_loses(const struct rounding *r, double *numbers, double *left)
{
    if (rounding_counts_lose(&r->rows, numbers, left))
        return true;
    bool lost = rounding_counts_lose(&r->floats, numbers, left) && *left >= PICKED_MIN;
    *numbers *= PICKED;
    *left *= PICKED;
    return lost;
}
