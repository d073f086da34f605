#include "worker/data/core/rounding.h"

#include "common/base/rng.h"

static uint64_t mixed(double x)
{
    union {
        double d;
        uint64_t u;
    } w = {.d = x};
    return rng_u64(w.u, 0);
}

void rounding_add(struct rounding *r, double number)
{
    r->noted = true;
    distinct_add(&r->numbers, mixed(number));
    distinct_add(&r->floats, mixed((double)(float)number));
}

void rounding_join(struct rounding *r, const struct rounding *other)
{
    r->noted |= other->noted;
    distinct_join(&r->numbers, &other->numbers);
    distinct_join(&r->floats, &other->floats);
}

bool rounding_loses(const struct rounding *r, double *numbers, double *left)
{
    *numbers = distinct_keys(&r->numbers);
    *left = distinct_keys(&r->floats);
    return *left * 10 < *numbers;
}
