#include "ps/rows/row_update.h"

#include <assert.h>

#include "common/math/kernels.h"

enum { BATCH = 8, DEPTH = 3 }; /* batches of rows are prefetched this far ahead of their update */

uint32_t row_update_slot_floats(const struct optimizer *o, uint32_t dim)
{
    return optimizer_row_slots(o, dim);
}

void row_update_begin(struct row_table *t, const struct optimizer *o, uint32_t row)
{
    assert(t->slot_floats == optimizer_row_slots(o, t->dim));
    optimizer_row_initial(o, row_slots(t, row), t->dim);
}

/* Existing rows that are being prefetched. */
struct batch {
    size_t rows;
    struct kernel_row row[BATCH]; /* without slots and rates */
    char *head[BATCH];
};

/* Prefetch a batch. This is a separate loop, because a processor looks ahead by a fixed number of instructions: with fewer
 * instructions per row it waits for more rows at the same time. Always inlined, like `update`, to keep t in registers. */
__attribute__((always_inline)) static inline void ask(struct batch *b, const struct row_table *t,
                                                      const uint32_t *row, size_t n, const float *g)
{
    size_t rows = 0;
    for (size_t i = 0; i < n; i++) {
        if (row[i] == ROW_NONE)
            continue;
        float *w = row_weights(t, row[i]);
        char *head = row_head(t, row[i]);
        row_ask_line(head, ROW_SECOND_CACHE);
        row_ask_line(head + ROW_HEAD_SLOT - 1, ROW_SECOND_CACHE); /* 1 of 8 heads is in two lines */
        row_ask(w, t->body_floats, ROW_SECOND_CACHE);
        b->row[rows].w = w;
        b->row[rows].g = g + i * t->dim;
        b->head[rows++] = head;
    }
    b->rows = rows;
}

/* Count and stamp the rows, and update them. */
__attribute__((always_inline)) static inline void update(struct batch *b, const struct row_table *t,
                                                         const struct optimizer_rows *rates,
                                                         uint64_t stamp)
{
    for (size_t i = 0; i < b->rows; i++) {
        uint32_t count = row_head_touch(b->head[i], stamp);
        struct kernel_row *row = &b->row[i];
        row->slots = row_slots_at(t, row->w, b->head[i]);
        row->lr = optimizer_row_rate(rates, count, row->slots, row->g, t->dim);
    }
    optimizer_apply_rows(rates, b->row, b->rows, t->dim);
}

void row_update_apply(struct row_table *t, const struct optimizer *o, const struct row_update *u,
                      const uint32_t *row, size_t n, const float *g)
{
    const struct optimizer_factors f = {u->inv_n, u->scale, 1.0f};
    struct optimizer by = *o;
    by.staleness = u->staleness;
    const struct optimizer_rows rates = optimizer_rows_of(&by, u->t, f);
    const struct row_table at =
        *t; /* a copy, so that the compiler knows that no store to a row changes it */
    struct batch ring[DEPTH + 1];
    size_t batches = (n + BATCH - 1) / BATCH;
    assert(t->slot_floats == optimizer_row_slots(o, t->dim));
    for (size_t i = 0; i < batches + DEPTH; i++) {
        size_t first = i * BATCH;
        if (i < batches)
            ask(&ring[i % (DEPTH + 1)], &at, row + first, n - first < BATCH ? n - first : BATCH,
                g + first * t->dim);
        if (i >= DEPTH)
            update(&ring[(i - DEPTH) % (DEPTH + 1)], &at, &rates, u->stamp);
    }
}
