/* Numbers as buckets: a column of numbers becomes ids, like a category. Pure. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/err.h"

/* Buckets 0 to count - 1. All zero but count = 1: one bucket for all numbers. */
struct buckets {
    uint32_t count;
    bool log_squared;
    int32_t first;  /* log_squared: the step of bucket 0 */
    double *border; /* otherwise: (count - 1), rising; bucket i begins with border[i - 1] */
};

/* Set the borders from numbers as a list of texts. Errors: ERR_NOMEM. */
enum err buckets_given(struct buckets *b, const char *borders) MUST_CHECK;
/* Round the borders to float32, for numbers that were rounded so (schema_round). */
void buckets_round(struct buckets *b);
void buckets_close(struct buckets *b);

/* Whether float32 has each border. */
bool buckets_are_floats(const struct buckets *b);
/* Whether the number is in another bucket if it, and the borders, are rounded to float32. */
bool buckets_round_moves(const struct buckets *b, double x);
/* The number's bucket. A number below the first or above the last bucket is in that one. */
uint32_t buckets_find(const struct buckets *b, double x);
/* The lowest number of a bucket, which is not the first one. For log_squared it takes 64 logarithms. */
double buckets_begin(const struct buckets *b, uint32_t bucket);

/* log_squared: set the buckets from the lowest and the highest number of the training part. */
void buckets_learn_range(struct buckets *b, double low, double high);
/* quantiles: set the borders from n values in rising order; equal values make one border. Errors: ERR_NOMEM. */
enum err buckets_learn_borders(struct buckets *b, const double *value, uint32_t n) MUST_CHECK;

/* ---- quantiles: exact, in any order of the numbers ----
 * The numbers are counted QUANTILES_ROUNDS times by a part of their bits, the highest first. Each round finds the
 * part of the earlier round's range in which each quantile is; the last round finds the quantile itself. */
enum { QUANTILES_ROUNDS = 6 };

struct quantile {
    uint64_t bits; /* the highest bits of its number, as far as they are known */
    uint64_t rank; /* from 0, among the numbers that begin with these bits */
};

struct quantiles {
    uint32_t n, ranges; /* n: how many; ranges: number of different ranges in this round */
    int round;
    struct quantile *of;
    uint64_t *range;      /* (ranges), rising */
    atomic_ullong *count; /* (ranges, values of the part) */
};

/* The quantiles i = 1 to n: the smallest of `total` numbers that at least i / (n + 1) of the numbers do not exceed
 * (the inverse of their distribution). total > 0. Errors: ERR_NOMEM. Owns: quantiles_close, also on error. */
enum err quantiles_init(struct quantiles *q, uint32_t n, uint64_t total) MUST_CHECK;
void quantiles_close(struct quantiles *q);
/* Count one number in this round; not NaN. Thread: any. */
void quantiles_count(struct quantiles *q, double x);
/* Every number is counted. Errors: ERR_NOMEM. */
enum err quantiles_end_round(struct quantiles *q) MUST_CHECK;
/* After the last round: value (n), rising. */
void quantiles_values(const struct quantiles *q, double *value);
