#include "common/rows/row_layout.h"

#include <string.h>

#include "common/base/rng.h"

void row_first_value(const struct row_table_spec *t, uint64_t seed, uint64_t mixed, float *w)
{
    uint64_t key = rng_key(seed, RNG_ROW, rng_name(t->name), mixed);
    for (uint32_t i = 0; i < t->dim; i++)
        w[i] = init_draw(t->init, t->init_value, t->init_center, key, i);
}

void row_absent_value(const struct row_table_spec *t, uint64_t seed, uint64_t mixed, float *w)
{
    if (row_admission_on(&t->admission) && !t->admission.initial)
        memset(w, 0, t->dim * sizeof *w);
    else
        row_first_value(t, seed, mixed, w);
}
