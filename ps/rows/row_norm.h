/* What clipping and the NaN guard must know of the gradients of rows. Pure. */
#ifndef GRADWIRE_PS_ROWS_ROW_NORM_H
#define GRADWIRE_PS_ROWS_ROW_NORM_H

#include "ps/rows/row_tables.h"

/* squares[i] = the sum of squares of all rows of bucket part.first + i: table by table as the job has them, in each by the
 * mixed key. The rows of `g` are of these buckets. So a bucket's double does not depend on the number of ps. */
void row_norm_squares(const struct row_layout *l, struct bucket_range part,
                      const struct row_grads *g, double *squares);

/* A row that is not as it should be. */
struct row_broken {
    uint32_t table;
    uint64_t mixed;
    uint32_t slot;  /* of row_norm_broken_slot: which one */
    double squares; /* not finite, or above what is allowed */
};

/* The first row of `g`, table by table, whose gradient's sum of squares is not finite or above `most`. */
bool row_norm_broken(const struct row_layout *l, const struct row_grads *g, double most,
                     struct row_broken *out);
/* The same of the slots of the rows that `g` touches, as they stand. */
bool row_norm_broken_slot(const struct row_tables *t, const struct row_grads *g, double most,
                          struct row_broken *out);

#endif
