/* Pieces for lamb's norms: the intersections of chunks and weights. Each piece gives two doubles, summed in a
 * fixed order. Added in the order of the block, their totals are the same for any number of shards. Pure. */
#ifndef GRADWIRE_COMMON_PARAMETERS_TRUST_H
#define GRADWIRE_COMMON_PARAMETERS_TRUST_H

#include "common/parameters/layout.h"
#include "common/parameters/plan.h"

/* sums of squares of a piece: of the decayed weights, and of the direction */
enum { TRUST_SUMS = 2 };

struct trust_piece {
    uint32_t tensor;
    /* elements of the flat block, without the gap after the tensor; `elems` can be 0 */
    uint64_t first, elems;
    bool last; /* the last piece of its tensor */
};

/* Finds the next piece in [*at, end) and moves *at after it. Returns false if none is left. */
bool trust_next(const struct layout *l, uint64_t *at, uint64_t end, struct trust_piece *p);

/* Writes first[c], the number of pieces before chunk first_chunk + c, counted from first_chunk; first[chunks] is
 * their total. `first` has chunks + 1 elements. */
void trust_index(const struct layout *l, const struct plan *p, uint32_t first_chunk,
                 uint32_t chunks, uint32_t *first);

/* Computes the ratio of each tensor of the layout from the sums of all pieces, in order; statistics get 1. */
void trust_ratios(const struct layout *l, const struct plan *p, const double *sums, float *ratio);

#endif
