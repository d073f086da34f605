/* An independent forward pass in double over a whole batch: plain loops, libm, no fusing, dropout
 * left out. Tests compare gradients with it by finite differences. */
#pragma once

#include "job/job.h"
#include "common/parameters/layout.h"
#include "common/rows/lookups.h"

enum { REFERENCE_ROWS_MAX = 8, REFERENCE_WIDTH_MAX = 128 };

/* Rows of tables, and what looks them up. */
struct reference_rows {
    const struct leaf_keys *keys;
    const double *w[ROW_TABLES_MAX]; /* (keys of the table's list, dim) */
};

/* The sum of the rows' losses, in training. w: the flat block. rows: NULL without tables. x: (n, features), y and present: (n,
 * labels). */
double reference_loss(const struct job *job, const struct layout *lay, const double *w,
                      const struct reference_rows *rows, const float *x, const float *y,
                      const uint8_t *present, uint32_t n);

/* In `w`, a copy of the flat block: tensor LAYER/WHAT; NULL: there is none. */
const double *reference_tensor(const struct layout *lay, const double *w, const char *layer,
                               const char *what);
