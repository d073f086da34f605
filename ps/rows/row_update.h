/* Lazy optimizers: the update of the rows that a step has touched. Rates and schedules go by the step's number, Adam's
 * bias correction by the row's own count of updates; weight decay acts once a touch (common/math/optimizer.h). Pure. */
#ifndef GRADWIRE_PS_ROWS_ROW_UPDATE_H
#define GRADWIRE_PS_ROWS_ROW_UPDATE_H

#include <stddef.h>
#include <stdint.h>

#include "common/math/optimizer.h"
#include "ps/rows/row_table.h"

/* What is the same for all rows of a step. */
struct row_update {
    uint64_t t;         /* the step's number, from 1: the rate goes by it */
    float inv_n;        /* g * inv_n is the mean gradient */
    float scale;        /* of the mean gradient: clipping's; 1: none */
    uint64_t staleness; /* what the rate is divided by; 0, 1: by nothing */
    uint64_t stamp;     /* the table clock behind the update */
};

/* slot_floats of a table of rows of `dim` weights that this optimizer updates. */
uint32_t row_update_slot_floats(const struct optimizer *o, uint32_t dim);

/* A row that was added gets its slots' initial values. */
void row_update_begin(struct row_table *t, const struct optimizer *o, uint32_t row);

/* Update each row by its gradient, g (n, dim); count it and stamp it. ROW_NONE is passed over. No row is there twice. The
 * same bits at every SIMD level. */
void row_update_apply(struct row_table *t, const struct optimizer *o, const struct row_update *u,
                      const uint32_t *row, size_t n, const float *g);

#endif
