/* Decides which rows make which batch, and which rows are held out of training (data.validation). Pure. */
#ifndef GRADWIRE_DATA_CORE_ORDER_H
#define GRADWIRE_DATA_CORE_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

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

/* ---- rows that are held out ---- */

/* How many rows, the last of `rows`, are the share `last`: rounded down. */
uint64_t order_last(uint64_t rows, double last);
/* The key of order_holds_out. of_keys: of a column's keys, by which each seed holds the same ones out. */
uint64_t order_hold_key(uint64_t seed, bool of_keys);
/* True for the share `share` of all numbers: the row's, or the hash of its key. */
bool order_holds_out(uint64_t key, uint64_t number, double share);

/* The rows that are held out, as bits. All zero: no row is noted. */
struct order_held {
    uint8_t *bits;        /* of rows, the lowest bit of a byte first; the owner's (mem_free) */
    size_t bytes;         /* allocated */
    uint64_t noted, rows; /* noted: rows with a bit; rows: of these, those that are held out */
};
/* Note the next row. Errors: ERR_NOMEM. */
enum err order_note(struct order_held *h, bool held) MUST_CHECK;

static inline bool order_is_held(const struct order_held *h, uint64_t row)
{
    return h->bits && h->bits[row / 8] >> row % 8 & 1;
}

#endif
