/* Keys of rows, and the shards that own them. A key is any 64-bit value. Inside gradwire a row is identified by
 * its mixed key, which is splitmix64's finalizer applied to the key: a bijection whose results are evenly spread,
 * so that ranges of mixed keys share the work evenly. The top 12 bits of the mixed key are the row's bucket. Each
 * shard owns consecutive buckets, the same for all tables, and divides them into 16 parts by the same rule. Pure. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { ROW_BUCKETS = 4096, ROW_BUCKET_BITS = 12, ROW_PARTS = 16 };

static inline uint64_t key_mix(uint64_t key)
{
    uint64_t z = (key ^ (key >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

/* Returns the key that has this mixed key. */
uint64_t key_unmix(uint64_t mixed);

static inline uint32_t key_bucket(uint64_t mixed)
{
    return (uint32_t)(mixed >> (64 - ROW_BUCKET_BITS));
}

/* Buckets [first, end). */
struct bucket_range {
    uint32_t first, end;
};

/* Returns range i of the n ranges that `of` is divided into. Some are empty if n exceeds the number of buckets. */
static inline struct bucket_range bucket_share(struct bucket_range of, uint32_t i, uint32_t n)
{
    uint64_t buckets = of.end - of.first;
    return (struct bucket_range){of.first + (uint32_t)(buckets * i / n),
                                 of.first + (uint32_t)(buckets * (i + 1) / n)};
}

/* Returns the buckets of shard i of n. */
static inline struct bucket_range bucket_shard(uint32_t i, uint32_t n)
{
    return bucket_share((struct bucket_range){0, ROW_BUCKETS}, i, n);
}

/* Returns the buckets of part `part` of a shard. */
static inline struct bucket_range bucket_part(struct bucket_range shard, uint32_t part)
{
    return bucket_share(shard, part, ROW_PARTS);
}

/* Returns how many of these ascending keys are below bucket `bucket`, which can be ROW_BUCKETS. */
size_t key_below(const uint64_t *mixed, size_t n, uint32_t bucket);
