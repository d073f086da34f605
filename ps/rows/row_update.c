#include "ps/rows/row_update.h"

#include <assert.h>

enum {
    LINE_BYTES = 64,
    AHEAD = 8 /* rows that are asked of memory before they are updated */
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

/* For writing: both pieces of the row. */
static void prefetch(const struct row_table *t, uint32_t row)
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
    uint64_t count = (uint64_t)before + 1;
    optimizer_apply_row(rates, count, row_weights(t, row), row_slots(t, row), g, t->dim);
    row_set_count(t, row, before == UINT32_MAX ? before : (uint32_t)count);
    row_set_stamp(t, row, stamp);
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
