#include "data/core/distinct.h"

#include <math.h>

enum { REST_BITS = 64 - DISTINCT_BITS };

void distinct_add(struct distinct *d, uint64_t mixed)
{
    uint32_t at = (uint32_t)(mixed & (DISTINCT_REGISTERS - 1));
    uint64_t rest = mixed >> DISTINCT_BITS;
    uint8_t zeros = rest ? (uint8_t)(__builtin_clzll(rest) - DISTINCT_BITS) : REST_BITS;
    if (d->longest[at] < zeros + 1)
        d->longest[at] = (uint8_t)(zeros + 1);
}

void distinct_join(struct distinct *d, const struct distinct *other)
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
