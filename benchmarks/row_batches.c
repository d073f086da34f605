#include "benchmarks/row_batches.h"

#include <stdlib.h>
#include <string.h>

#include "benchmarks/bench.h"
#include "common/base/rng.h"

static int ascending(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

void row_batch_sort(uint64_t *key, size_t n)
{
    qsort(key, n, sizeof *key, ascending);
}

void row_batches_draw(uint64_t *key, size_t batches, uint32_t rows, uint64_t seed)
{
    uint8_t *taken = bench_pages(rows);
    uint64_t at = 0;
    for (size_t batch = 0; batch < batches; batch++, key += BATCH_ROWS) {
        memset(taken, 0, rows);
        for (size_t n = 0; n < BATCH_ROWS;) {
            uint64_t row = rng_u64(rng_key(seed, RNG_TEST, 0, 0), at++) % rows;
            if (!taken[row])
                key[n++] = row_batch_key(row);
            taken[row] = 1;
        }
        row_batch_sort(key, BATCH_ROWS);
    }
    free(taken);
}

/* One section for each part. */
size_t row_batch_body(uint8_t *to, const uint64_t *key, size_t n, const float *g)
{
    const struct bucket_range all = {0, ROW_BUCKETS};
    uint8_t *begin = to;
    size_t first = 0;
    for (uint32_t part = 0; part < ROW_PARTS; part++) {
        size_t end = key_below(key, n, bucket_part(all, part).end);
        uint32_t head[2] = {(uint32_t)(end - first), 0};
        size_t keys = head[0] * sizeof *key, values = head[0] * RAW_DIM * sizeof *g;
        _Static_assert(sizeof head == BATCH_PART_HEAD_BYTES, "a section's head");
        memcpy(to, head, sizeof head);
        memcpy(to + sizeof head, key + first, keys);
        if (g)
            memcpy(to + sizeof head + keys, g + first * RAW_DIM, values);
        else
            memset(to + sizeof head + keys, 0, values);
        to += sizeof head + keys + values;
        first = end;
    }
    return (size_t)(to - begin);
}
