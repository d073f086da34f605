#include "data/core/rounding.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "common/base/rng.h"

enum { REST_BITS = 64 - DISTINCT_BITS };

void distinct_add(struct distinct *d, uint64_t mixed)
{
    uint32_t at = (uint32_t)(mixed & (DISTINCT_REGISTERS - 1));
    uint64_t rest = mixed >> DISTINCT_BITS;
    uint8_t zeros = rest ? (uint8_t)(__builtin_clzll(rest) - DISTINCT_BITS) : REST_BITS;
    if (d->longest[at] < zeros + 1)
        d->longest[at] = (uint8_t)(zeros + 1);
}

/* Add the keys of another one. */
static void distinct_join(struct distinct *d, const struct distinct *other)
{
    for (uint32_t i = 0; i < DISTINCT_REGISTERS; i++)
        if (d->longest[i] < other->longest[i])
            d->longest[i] = other->longest[i];
}

/* x + x^2 + 2 x^4 + 4 x^8 + ... */
static double sigma(double x)
{
    double sum = x, before, weight = 1;
    if (x >= 1)
        return INFINITY;
    do {
        before = sum;
        x *= x;
        sum += x * weight;
        weight *= 2;
    } while (sum > before);
    return sum;
}

/* (1 - x - (1 - x^1/2)^2 / 2 - (1 - x^1/4)^2 / 4 - ...) / 3 */
static double tau(double x)
{
    double rest = 1 - x, before, weight = 1;
    if (x <= 0 || x >= 1)
        return 0;
    do {
        before = rest;
        x = sqrt(x);
        weight /= 2;
        rest -= (1 - x) * (1 - x) * weight;
    } while (rest < before);
    return rest / 3;
}

double distinct_keys(const struct distinct *d)
{
    double m = DISTINCT_REGISTERS;
    uint32_t count[REST_BITS + 2] = {0};
    for (uint32_t i = 0; i < DISTINCT_REGISTERS; i++)
        count[d->longest[i]]++;
    double z = m * tau(1 - count[REST_BITS + 1] / m);
    for (uint32_t k = REST_BITS; k > 0; k--)
        z = (z + count[k]) / 2;
    z += m * sigma(count[0] / m);
    return m * m / (2 * M_LN2 * z);
}

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

float rounding_flushed(float number)
{
    return fabsf(number) < FLT_MIN ? 0 : number;
}

bool rounding_picks(float number)
{
    const uint64_t odd = UINT64_C(0x9E3779B97F4A7C15);
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    return number != 0 && (bits * odd) >> 59 == 0; /* one in PICKED */
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

bool rounding_counts_lose(const struct rounding_counts *c, double share, double *numbers,
                          double *left)
{
    *numbers = distinct_keys(&c->numbers);
    *left = distinct_keys(&c->floats);
    return *left < share * *numbers;
}

bool rounding_loses(const struct rounding *r, double share, double *numbers, double *left)
{
    if (rounding_counts_lose(&r->rows, share, numbers, left))
        return true;
    bool lost = rounding_counts_lose(&r->floats, share, numbers, left) && *left >= PICKED_MIN;
    *numbers *= PICKED;
    *left *= PICKED;
    return lost;
}
