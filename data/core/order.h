/* Decides which rows make which batch, where all rows are shuffled or where they are a stream, and which rows are held out of
 * training (data.validation). Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

struct order {
    uint64_t rows, batch_size, seed;
    uint32_t microbatches;
    uint32_t window_batches; /* of a stream whose batches are leased; else 0 */
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

/* ---- lanes.c: a stream ---- */

/* Each microbatch of a batch is a lane, which reads windows of neighboring rows. Where batches are leased there is one lane, and a
 * window has whole batches (docs/explanation/semantics.md, "The order of a stream"). */

enum {
    LANES_ALIGN_ROWS = 4096,  /* a larger window is a multiple of it */
    LANES_WINDOW_BATCHES = 64 /* the most in a window of one lane */
};

/* Set by lanes_init, and not changed. */
struct lanes {
    uint64_t rows, seed;
    uint32_t lanes;      /* the microbatches of a batch, or 1 */
    uint32_t leaves;     /* microbatches of a batch in each lane */
    bool leased;         /* a window has whole batches */
    uint32_t mix;        /* windows of a lane whose rows are permuted as one: a group */
    uint64_t window;     /* rows of a window */
    uint64_t turns;      /* windows of each lane before its piece */
    uint64_t piece;      /* rows of a lane's piece, which is its last window; can be 0 */
    uint64_t longer;     /* the first lanes, whose pieces have one row more */
    uint64_t batch_rows; /* of each lane, in a batch that is not the last one */
};

/* rows >= 1; microbatches divides batch_size; window (the most rows of one) >= 1; mix >= 1. */
void lanes_init(struct lanes *l, uint64_t rows, uint64_t batch_size, uint32_t microbatches,
                uint32_t window, uint32_t mix, uint64_t seed);
/* The same for batches that are leased; microbatches need not divide batch_size. */
void lanes_init_leased(struct lanes *l, uint64_t rows, uint64_t batch_size, uint32_t microbatches,
                       uint32_t window, uint32_t mix, uint64_t seed);
/* Batches in an epoch, as many as in order_batches, and each of them has as many rows as there. */
uint64_t lanes_batches(const struct lanes *l);
/* Batches of a window, where they are leased; else 0. */
uint32_t lanes_window_batches(const struct lanes *l);
/* Rows of a lane in an epoch. */
uint64_t lanes_length(const struct lanes *l, uint32_t lane);
/* The rows of microbatch `leaf` of batch `id`, which is in lane leaf / l->leaves: writes row numbers, and returns how many (0 is
 * possible in a short batch). `out` has room for order_leaf_rows_max. */
uint32_t lanes_leaf(const struct lanes *l, uint64_t id, uint32_t leaf, uint64_t *out);

/* [first, end) */
struct lanes_span {
    uint64_t first, end;
};
/* The windows of the lane whose rows that microbatch needs, all of whole groups; none: first == end. */
struct lanes_span lanes_windows(const struct lanes *l, uint64_t id, uint32_t leaf);
/* The rows of a window. */
struct lanes_span lanes_window_rows(const struct lanes *l, uint32_t lane, uint64_t window);
