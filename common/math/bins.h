/* Counts of rows by their predicted score, from which follows the AUC of rows that are predicted before they are trained on.
 * The lead shard adds up integers, so the result is the same for any workers and any order. Pure: no I/O, no clock, no locks.
 *
 * A bin is 1/128 of the logit wide, from -16 to 16: within it the probability (and, above 0.5, that of the other class) changes
 * by 0.8 % at most, whether clicks are frequent or rare. The first and the last bin have all that is beyond. */
#pragma once

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "common/base/err.h"

enum { BINS = 4096, BINS_SLICES_MAX = 64 };

/* A row on its way to the lead shard: its bin and its label. */
static inline uint16_t bins_mark(float logit, float label)
{
    float at = fminf(fmaxf((logit + 16.0f) * 128.0f, 0.0f), (float)(BINS - 1)); /* of NaN: 0 */
    return (uint16_t)((uint32_t)at << 1 | (label > 0.5f));
}

/* The bytes of the marks of `rows` rows: 2 each, little-endian, then, if there are slices, a byte with the number of the slice
 * each. */
static inline size_t bins_marks_bytes(uint32_t rows, uint32_t slices)
{
    return (size_t)rows * (slices ? 3 : 2);
}

/* Of one epoch. Zeros are an empty one. */
struct bins {
    uint64_t epoch; /* valid if rows > 0 */
    uint32_t slices;
    uint64_t rows;
    uint64_t *
        count; /* (1 + slices, BINS, 2): negatives, positives; first of all rows, then of each slice */
};

enum err bins_init(struct bins *b, uint32_t slices) MUST_CHECK;          /* ERR_NOMEM */
enum err bins_copy(struct bins *to, const struct bins *from) MUST_CHECK; /* the same */
void bins_close(struct bins *b);
void bins_clear(struct bins *b);
/* marks: bins_marks_bytes; their bits may be any. */
void bins_add(struct bins *b, const uint8_t *marks, uint32_t rows);

/* The area under the ROC curve of these counts (block 0: all rows; 1 + i: slice i). A pair in one bin counts half, as a tie
 * does; so the exact value differs from `auc` by `error` at most. NAN: the rows have one class. */
struct bins_auc {
    double auc, error;
};
struct bins_auc bins_auc(const struct bins *b, uint32_t block);

/* The mean logloss and the sum of the predicted probabilities, with the middle of its bin as each row's logit: this changes the
 * probability by 0.4 % at most. loss NAN: there are no rows. */
struct bins_sums {
    double rows, positives, loss, predicted;
};
struct bins_sums bins_sums(const struct bins *b, uint32_t block);

/* The counts, as pairs: how many zeros come before it, and the next count. out NULL: none is written. Returns the number of
 * values. */
size_t bins_pack(const struct bins *b, uint64_t *out);
/* False: these are not the counts of such bins; *b is then to be cleared. */
bool bins_unpack(struct bins *b, const uint64_t *from, size_t n);
