/* Batches of distinct rows of a table that a program fills by itself, and what a worker sends of them: rows 0 .. rows - 1 of
 * one table in 16 floats, on the only shard of a job. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "benchmarks/raw_rows.h"
#include "common/rows/key.h"

enum {
    BATCH_ROWS = 8192,
    BATCH_PART_HEAD_BYTES = 8,
    BATCH_BODY_MAX = ROW_PARTS * BATCH_PART_HEAD_BYTES +
                     BATCH_ROWS * (sizeof(uint64_t) + RAW_DIM * sizeof(float)),
};

/* A row's mixed key. It is not 0, which is no key of the yardstick. */
static inline uint64_t row_batch_key(uint64_t row)
{
    return key_mix(row + 1);
}

/* Ascending. */
void row_batch_sort(uint64_t *key, size_t n);
/* key (batches, BATCH_ROWS) = distinct rows of each batch, drawn uniformly from all, ascending. `rows` is at least
 * 2 BATCH_ROWS. */
void row_batches_draw(uint64_t *key, size_t batches, uint32_t rows, uint64_t seed);

/* The body of a push of rows: keys (n), ascending, and g (n, RAW_DIM), NULL: zeros. Returns its bytes, BATCH_BODY_MAX at
 * most. */
size_t row_batch_body(uint8_t *to, const uint64_t *key, size_t n, const float *g);
