#include "ps/rows/row_tables.h"

#include "common/math/kernels.h"
#include "common/rows/row_sums.h"

enum { LOOK_ROWS = 256 }; /* rows looked up at a time */

void row_norm_squares(const struct row_layout *l, struct bucket_range part,
                      const struct row_grads *g, double *squares)
{
    for (uint32_t b = part.first; b < part.end; b++)
        squares[b - part.first] = 0;
    for (uint32_t t = 0; t < l->tables; t++) {
        uint32_t list = l->table[t].list;
        row_squares_add(squares, part, g->mixed[list], g->g[t], g->keys[list], l->table[t].dim);
    }
}

bool row_norm_broken(const struct row_layout *l, const struct row_grads *g, double most,
                     struct row_broken *out)
{
    for (uint32_t t = 0; t < l->tables; t++) {
        uint32_t list = l->table[t].list, n = g->keys[list];
        uint32_t i = row_squares_beyond(g->g[t], most, n, l->table[t].dim);
        if (i == n)
            continue;
        *out = (struct row_broken){.table = t, .mixed = g->mixed[list][i]};
        out->squares =
            kernels()->sum_squares(g->g[t] + (size_t)i * l->table[t].dim, l->table[t].dim);
        return true;
    }
    return false;
}

/* The row's first slot with a broken float. */
static uint32_t which_slot(const struct row_table *t, uint32_t row, double most)
{
    const float *slot = row_slots(t, row);
    uint32_t i = 0;
    while (i + 1 < t->slot_floats && (double)slot[i] * (double)slot[i] <= most)
        i++;
    return i / t->dim;
}

bool row_norm_broken_slot(const struct row_tables *t, const struct row_grads *g, double most,
                          struct row_broken *out)
{
    for (uint32_t i = 0; i < t->layout->tables; i++) {
        const struct row_table *table = t->table[i];
        uint32_t list = t->layout->table[i].list, n = table->slot_floats ? g->keys[list] : 0;
        for (uint32_t first = 0; first < n; first += LOOK_ROWS) {
            uint32_t row[LOOK_ROWS], count = n - first < LOOK_ROWS ? n - first : LOOK_ROWS;
            (void)row_table_find(table, g->mixed[list] + first, count, row);
            for (uint32_t k = 0; k < count; k++) {
                double squares =
                    row[k] == ROW_NONE
                        ? 0
                        : kernels()->sum_squares(row_slots(table, row[k]), table->slot_floats);
                if (squares <= most)
                    continue;
                *out = (struct row_broken){.table = i,
                                           .mixed = g->mixed[list][first + k],
                                           .slot = which_slot(table, row[k], most),
                                           .squares = squares};
                return true;
            }
        }
    }
    return false;
}
