#include "benchmarks/raw_rows.h"

#include <math.h>
#include <string.h>
#include <sys/mman.h>

#include "benchmarks/bench.h"

enum { BATCH = 32, HUGE_PAGE_BYTES = 2 << 20 };

/* ---- memory ---- */

static void *map(size_t bytes)
{
    size_t all = bytes + HUGE_PAGE_BYTES;
    char *p = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        bench_die("out of memory: %zu bytes", bytes);
    size_t over = (uintptr_t)p % HUGE_PAGE_BYTES;
    char *aligned = p + (over ? HUGE_PAGE_BYTES - over : 0);
    (void)munmap(p, (size_t)(aligned - p));
    (void)munmap(aligned + bytes, all - bytes - (size_t)(aligned - p));
    (void)madvise(aligned, bytes, MADV_HUGEPAGE);
    return aligned;
}

static size_t whole_pages(size_t bytes)
{
    return (bytes + 4095) / 4096 * 4096;
}

static size_t weights_bytes(uint32_t rows)
{
    return whole_pages((size_t)rows * RAW_DIM * sizeof(float));
}

void raw_rows_init(struct raw_rows *t, uint32_t rows)
{
    uint64_t places = 1024;
    while (places * 3 < (uint64_t)rows * 4)
        places *= 2;
    *t = (struct raw_rows){.mask = places - 1, .place = map(places * sizeof *t->place)};
    t->w = map(weights_bytes(rows));
    t->accumulator = map(weights_bytes(rows));
}

void raw_rows_close(struct raw_rows *t)
{
    (void)munmap(t->place, (t->mask + 1) * sizeof *t->place);
    (void)munmap(t->w, weights_bytes(t->rows));
    (void)munmap(t->accumulator, weights_bytes(t->rows));
}

/* ---- rows ---- */

static inline uint64_t first_place(const struct raw_rows *t, uint64_t key)
{
    return key * UINT64_C(0x9E3779B97F4A7C15) >> 24 & t->mask;
}

static inline uint32_t find(const struct raw_rows *t, uint64_t key)
{
    uint64_t i = first_place(t, key);
    while (t->place[i].key != key)
        i = (i + 1) & t->mask;
    return t->place[i].row;
}

float *raw_rows_add(struct raw_rows *t, uint64_t key, float accumulator)
{
    uint64_t i = first_place(t, key);
    while (t->place[i].key)
        i = (i + 1) & t->mask;
    t->place[i] = (struct raw_place){key, t->rows};
    for (size_t d = 0; d < RAW_DIM; d++)
        t->accumulator[(size_t)t->rows * RAW_DIM + d] = accumulator;
    return t->w + (size_t)t->rows++ * RAW_DIM;
}

/* ---- batches: places are asked of memory first, then rows, then both are read ---- */

static inline void find_batch(const struct raw_rows *t, const uint64_t *key, size_t n,
                              uint32_t *row, int writes)
{
    for (size_t i = 0; i < n; i++)
        __builtin_prefetch(t->place + first_place(t, key[i]));
    for (size_t i = 0; i < n; i++) {
        row[i] = find(t, key[i]);
        __builtin_prefetch(t->w + (size_t)row[i] * RAW_DIM, 0);
        if (writes)
            __builtin_prefetch(t->accumulator + (size_t)row[i] * RAW_DIM, 1);
    }
}

void raw_rows_lookup(const struct raw_rows *t, const uint64_t *key, size_t n, float *out)
{
    uint32_t row[BATCH];
    for (size_t i = 0; i < n; i += BATCH) {
        size_t count = n - i < BATCH ? n - i : BATCH;
        find_batch(t, key + i, count, row, 0);
        for (size_t k = 0; k < count; k++)
            memcpy(out + (i + k) * RAW_DIM, t->w + (size_t)row[k] * RAW_DIM, RAW_DIM * sizeof *out);
    }
}

static inline void update(float *restrict w, float *restrict accumulator, const float *restrict g,
                          float rate)
{
    for (size_t d = 0; d < RAW_DIM; d++) {
        accumulator[d] += g[d] * g[d];
        w[d] -= rate * g[d] / (sqrtf(accumulator[d]) + 1e-8F);
    }
}

void raw_rows_update(struct raw_rows *t, const uint64_t *key, size_t n, const float *g, float rate)
{
    uint32_t row[BATCH];
    for (size_t i = 0; i < n; i += BATCH) {
        size_t count = n - i < BATCH ? n - i : BATCH;
        find_batch(t, key + i, count, row, 1);
        for (size_t k = 0; k < count; k++)
            update(t->w + (size_t)row[k] * RAW_DIM, t->accumulator + (size_t)row[k] * RAW_DIM,
                   g + (i + k) * RAW_DIM, rate);
    }
}
