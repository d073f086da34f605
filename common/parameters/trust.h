/* The pieces of lamb's norms: where a chunk and a weight meet. Each gives two doubles, summed in a fixed order; added in
 * the order of the block they are the same for any number of shards. Pure. */
#ifndef GRADWIRE_COMMON_PARAMETERS_TRUST_H
#define GRADWIRE_COMMON_PARAMETERS_TRUST_H

#include "common/parameters/layout.h"
#include "common/parameters/plan.h"

enum { TRUST_SUMS = 2 }; /* of a piece: squares of the decayed weights, of the direction */

struct trust_piece {
    uint32_t tensor;
    uint64_t first, elems; /* of the flat block, without the gap behind the tensor: may be none */
    bool last;             /* the tensor ends with it */
};

/* The next piece from *at on, before `end`; *at moves behind it. false: there is none. */
bool trust_next(const struct layout *l, uint64_t *at, uint64_t end, struct trust_piece *p);

/* first[c]: pieces in front of chunk first_chunk + c, from 0; first[chunks]: all. (chunks + 1) */
void trust_index(const struct layout *l, const struct plan *p, uint32_t first_chunk,
                 uint32_t chunks, uint32_t *first);

/* The ratio of each tensor (layout's tensors) from all pieces' sums, in order; statistics have 1. */
void trust_ratios(const struct layout *l, const struct plan *p, const double *sums, float *ratio);

#endif
