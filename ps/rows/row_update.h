/* Lazy optimizers: they update only the rows that a step has touched. Learning rates and schedules use the step's number,
 * Adam's bias correction uses the row's own count of updates, and weight decay acts once per touch
 * (common/math/optimizer.h). Pure. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/math/optimizer.h"
#include "ps/rows/row_table.h"

/* Parameters of an update, the same for all rows of a step. */
struct row_update {
    uint64_t t;         /* the step's number, from 1: it determines the rate */
    float inv_n;        /* g * inv_n is the mean gradient */
    float scale;        /* factor of the mean gradient, from clipping; 1: none */
    uint64_t staleness; /* divisor of the rate; 0, 1: not divided */
    uint64_t stamp;     /* the table clock after the update */
};

/* slot_floats of a table whose rows have `dim` weights and are updated by this optimizer. */
uint32_t row_update_slot_floats(const struct optimizer *o, uint32_t dim);

/* Set the initial values of an added row's slots. */
void row_update_begin(struct row_table *t, const struct optimizer *o, uint32_t row);

/* Update each row by its gradient, g (n, dim); increment its count and set its stamp. ROW_NONE is skipped. The rows must be
 * distinct. The result has the same bits at every SIMD level. */
void row_update_apply(struct row_table *t, const struct optimizer *o, const struct row_update *u,
                      const uint32_t *row, size_t n, const float *g);
