/* Decides which rows make which batch. Pure. */
#ifndef GRADWIRE_DATA_CORE_ORDER_H
#define GRADWIRE_DATA_CORE_ORDER_H

#include <stdint.h>

struct order {
    uint64_t rows, batch_size, seed;
    uint32_t microbatches;
};
/* Batches in an epoch: rows / batch_size rounded up; the last one can be short. */
uint64_t order_batches(const struct order *o);
/* Number of rows of a batch, by its id: epoch * order_batches + batch within the epoch. */
uint64_t order_batch_rows(const struct order *o, uint64_t id);
/* The largest number of rows in a microbatch. */
uint32_t order_leaf_rows_max(const struct order *o);
/* The rows of microbatch `leaf` of batch `id`: writes row numbers, returns how many (0 is possible in a short batch). `out` has
 * room for order_leaf_rows_max. Position p of a batch of R rows is in leaf j where R*j/M <= p < R*(j+1)/M, both rounded
 * down. */
uint32_t order_leaf(const struct order *o, uint64_t id, uint32_t leaf, uint64_t *out);

#endif
