#include "worker/data/core/key_growth.h"

#include <assert.h>
#include <math.h>

void key_count_add(struct key_count *c, const uint64_t *mixed, size_t n, bool half)
{
    for (size_t i = 0; i < n; i++) {
        distinct_add(&c->all, mixed[i]);
        if (half)
            distinct_add(&c->half, mixed[i]);
    }
}

void key_growth_finish(struct key_growth *g, const struct key_count *count, uint32_t lists)
{
    assert(lists <= KEY_GROWTH_LISTS_MAX);
    g->lists = lists;
    for (uint32_t i = 0; i < lists; i++) {
        g->seen[i] = distinct_keys(&count[i].all);
        g->half[i] = distinct_keys(&count[i].half);
    }
}

double key_growth_keys(const struct key_growth *g, uint32_t list)
{
    assert(list < g->lists);
    double seen = g->seen[list], half = g->half[list];
    if (g->counted >= g->rows || g->counted == 0 || half < 1)
        return seen;
    double power = fmin(fmax(log2(seen / half), 0), 1);
    return seen * pow((double)g->rows / (double)g->counted, power);
}
