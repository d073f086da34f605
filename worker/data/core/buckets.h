/* Numbers as buckets: a column of numbers becomes ids, as a category does. Pure. */
#ifndef GRADWIRE_WORKER_DATA_CORE_BUCKETS_H
#define GRADWIRE_WORKER_DATA_CORE_BUCKETS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/err.h"

/* Buckets 0 to count - 1. All zeros but the count: one for all numbers. */
struct buckets {
    uint32_t count;
    bool log_squared;
    int32_t first; /* log_squared: the step that bucket 0 is */
    float *border; /* else (count - 1), rising; bucket i begins with border[i - 1] */
};

/* From the borders, as texts joined by '\n', each of which is a number. Errors: ERR_NOMEM. */
enum err buckets_given(struct buckets *b, const char *borders) MUST_CHECK;
void buckets_close(struct buckets *b);

/* The number's bucket. What is below the first or above the last one is in it. */
uint32_t buckets_find(const struct buckets *b, float x);

/* log_squared: from the lowest and the highest number of the training part. */
void buckets_learn_range(struct buckets *b, float low, float high);
/* quantiles: n values in rising order; equal ones are one border. Errors: ERR_NOMEM. */
enum err buckets_learn_borders(struct buckets *b, const float *value, uint32_t n) MUST_CHECK;

/* ---- quantiles: exact, in any order of the numbers ----
 * The numbers are counted QUANTILES_ROUNDS times by a part of their bits, the highest first: each round says in which
 * part of the range of the one before it each quantile is, and the last one which number it is. */
enum { QUANTILES_ROUNDS = 3 };

struct quantile {
    uint32_t bits; /* the highest ones of its number, as far as they are known */
    uint64_t rank; /* from 0, among the numbers that begin so */
};

struct quantiles {
    uint32_t n, ranges; /* of them; different ranges of this round */
    int round;
    struct quantile *of;
    uint32_t *range;      /* (ranges), rising */
    atomic_ullong *count; /* (ranges, a part's values) */
};

/* Of `total` numbers the n smallest ones below or at which stand i in n + 1 of them, i = 1 to n: the inverse of their
 * distribution. total > 0. Errors: ERR_NOMEM. Owns: quantiles_close, on error too. */
enum err quantiles_init(struct quantiles *q, uint32_t n, uint64_t total) MUST_CHECK;
void quantiles_close(struct quantiles *q);
/* One number of this round, which is not NaN. Thread: any. */
void quantiles_count(struct quantiles *q, float x);
/* Each number was counted. Errors: ERR_NOMEM. */
enum err quantiles_end_round(struct quantiles *q) MUST_CHECK;
/* After the last round: value (n), rising. */
void quantiles_values(const struct quantiles *q, float *value);

#endif
