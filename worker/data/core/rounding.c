#include "worker/data/core/rounding.h"

#include "common/base/mem.h"

enum err rounding_add(struct rounding **r, uint64_t number, uint64_t rounded)
{
    if (!*r)
        *r = mem_zalloc(1, sizeof **r);
    if (!*r)
        return ERR_NOMEM;
    (*r)->noted = true;
    distinct_add(&(*r)->numbers, number);
    distinct_add(&(*r)->floats, rounded);
    return ERR_OK;
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
