/* Norms of the gradients of rows, for clipping and for the NaN guard. Pure. */
#ifndef GRADWIRE_PS_ROWS_ROW_NORM_H
#define GRADWIRE_PS_ROWS_ROW_NORM_H

#include "ps/rows/row_tables.h"

/* squares[i] = the sum of squares of all gradients of bucket part.first + i, added in the job's order of tables, and in each
 * table by the mixed key. All rows of `g` belong to the part's buckets. So a bucket's sum does not depend on the number of
 * ps. */
void row_norm_squares(const struct row_layout *l, struct bucket_range part,
                      const struct row_grads *g, double *squares);

/* A row with a gradient or slot that is not finite or too large. */
struct row_broken {
    uint32_t table;
    uint64_t mixed;
    uint32_t slot;  /* the slot; set by row_norm_broken_slot only */
    double squares; /* not finite, or above the limit */
};

/* True: *out gets the first row of `g`, table by table, whose gradient's sum of squares is not finite or above `most`. */
bool row_norm_broken(const struct row_layout *l, const struct row_grads *g, double most,
                     struct row_broken *out);
/* The same for the present slots of the rows that `g` touches. */
bool row_norm_broken_slot(const struct row_tables *t, const struct row_grads *g, double most,
                          struct row_broken *out);

#endif
