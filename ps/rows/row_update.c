#include "ps/rows/row_update.h"

#include <assert.h>

enum {
    LINE_BYTES = 64,
    AHEAD = 16 /* rows that are asked of memory before they are updated */
};

uint32_t row_update_slot_floats(const struct optimizer *o, uint32_t dim)
{
    return optimizer_row_slots(o, dim);
}

void row_update_begin(struct row_table *t, const struct optimizer *o, uint32_t row)
{
    assert(t->slot_floats == optimizer_row_slots(o, t->dim));
    optimizer_row_initial(o, row_slots(t, row), t->dim);
}

/* Both pieces of the row. Inlined always: gcc drops calls of a function that only prefetches, as without effect. */
__attribute__((always_inline)) static inline void prefetch(const struct row_table *t, uint32_t row)
{
    const char *body = (const char *)row_weights(t, row);
    __builtin_prefetch(row_head(t, row), 1);
    for (size_t i = 0; i < t->body_floats * sizeof(float); i += LINE_BYTES)
        __builtin_prefetch(body + i, 1);
}

static void update(struct row_table *t, const struct optimizer_rows *rates, uint64_t stamp,
                   uint32_t row, const float *g)
{
    uint32_t before = row_count(t, row);
    row_set_count(t, row, before + (before != UINT32_MAX));
    row_set_stamp(t, row, stamp);
    optimizer_apply_row(rates, (uint64_t)before + 1, row_weights(t, row), row_slots(t, row), g,
                        t->dim);
}

void row_update_apply(struct row_table *t, const struct optimizer *o, const struct row_update *u,
                      const uint32_t *row, size_t n, const float *g)
{
    const struct optimizer_factors f = {u->inv_n, u->scale != 0.0f ? u->scale : 1.0f, 1.0f};
    const struct optimizer_rows rates = optimizer_rows_of(o, u->t, f);
    assert(t->slot_floats == optimizer_row_slots(o, t->dim));
    for (size_t i = 0; i < n; i++) {
        if (i + AHEAD < n && row[i + AHEAD] != ROW_NONE)
            prefetch(t, row[i + AHEAD]);
        if (row[i] != ROW_NONE)
            update(t, &rates, u->stamp, row[i], g + i * t->dim);
    }
}
