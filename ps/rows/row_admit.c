#include "ps/rows/row_admit.h"

#include <assert.h>

#include "common/base/mem.h"
#include "common/base/rng.h"

static size_t all_bytes(const struct row_admit *a)
{
    return (size_t)(a->buckets.end - a->buckets.first) * a->bucket_bytes;
}

enum err row_admit_init(struct row_admit *a, const struct row_table_spec *t,
                        struct bucket_range buckets, uint64_t seed)
{
    *a = (struct row_admit){.on = row_admission_on(&t->admission),
                            .min_count = t->admission.min_count,
                            .probability = t->admission.probability,
                            .coin = rng_key(seed, RNG_ADMISSION, rng_name(t->name), 0),
                            .buckets = buckets,
                            .bucket_bytes = row_sketch_bytes(&t->admission)};
    size_t bytes = all_bytes(a);
    a->counters = bytes ? mem_map(bytes) : NULL;
    if (!bytes || a->counters)
        return ERR_OK;
    *a = (struct row_admit){.on = false};
    return ERR_NOMEM;
}

void row_admit_close(struct row_admit *a)
{
    mem_unmap(a->counters, all_bytes(a));
    *a = (struct row_admit){.on = false};
}

uint8_t *row_admit_sketch(const struct row_admit *a, uint32_t bucket)
{
    assert(bucket >= a->buckets.first && bucket < a->buckets.end);
    return a->counters ? a->counters + (size_t)(bucket - a->buckets.first) * a->bucket_bytes : NULL;
}

uint64_t row_admit_bytes(const struct row_admit *a)
{
    return all_bytes(a);
}

/* Find the key's counter in each row of its bucket. All bits of the mixed key are hashed, because the keys of a bucket have
 * the same top bits. */
static void find_counters(const struct row_admit *a, uint64_t mixed, uint8_t *at[ROW_SKETCH_ROWS])
{
    uint32_t width = a->bucket_bytes / ROW_SKETCH_ROWS;
    uint8_t *row = row_admit_sketch(a, key_bucket(mixed));
    uint64_t hash = key_mix(mixed);
    static_assert((ROW_SKETCH_MB_MAX << 20) / ROW_BUCKETS / ROW_SKETCH_ROWS <= 1 << 16,
                  "16 bits of hash find each counter");
    for (int i = 0; i < ROW_SKETCH_ROWS; i++, row += width, hash >>= 16)
        at[i] = row + ((uint32_t)(hash & 0xFFFF) * width >> 16);
}

/* Count one more touch of the key. Returns the key's new estimate. */
static uint32_t count(struct row_admit *a, uint64_t mixed, uint32_t *undo)
{
    uint8_t *at[ROW_SKETCH_ROWS];
    find_counters(a, mixed, at);
    uint32_t least = UINT8_MAX;
    *undo = 0;
    for (int i = 0; i < ROW_SKETCH_ROWS; i++) {
        *undo |= (uint32_t)*at[i] << (8 * i);
        least = *at[i] < least ? *at[i] : least;
    }
    for (int i = 0; i < ROW_SKETCH_ROWS; i++)
        if (*at[i] == least && least < UINT8_MAX)
            *at[i] = (uint8_t)(least + 1);
    return least + 1;
}

bool row_admit_touch(struct row_admit *a, uint64_t mixed, uint64_t clock, uint32_t *undo)
{
    *undo = 0;
    if (a->counters)
        return count(a, mixed, undo) >= a->min_count;
    return !a->on || rng_unit(a->coin ^ key_mix(mixed), clock) < a->probability;
}

void row_admit_undo(struct row_admit *a, uint64_t mixed, uint32_t undo)
{
    uint8_t *at[ROW_SKETCH_ROWS];
    if (!a->counters)
        return;
    find_counters(a, mixed, at);
    for (int i = 0; i < ROW_SKETCH_ROWS; i++)
        *at[i] = (uint8_t)(undo >> (8 * i));
}
