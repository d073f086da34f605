/* Keys of rows, and which shard owns which. A key is any 64-bit value. Inside gradwire a row's name is its mixed key,
 * splitmix64's finalizer of the key: a bijection whose results spread evenly whatever the keys are, so that ranges of
 * mixed keys share the work. The top 12 bits are the row's bucket. Shards own runs of buckets, the same for all tables;
 * a shard cuts its run into 16 parts by the same rule. All of this is a pure function. */
#ifndef GRADWIRE_COMMON_ROWS_KEY_H
#define GRADWIRE_COMMON_ROWS_KEY_H

#include <stddef.h>
#include <stdint.h>

enum { ROW_BUCKETS = 4096, ROW_BUCKET_BITS = 12, ROW_PARTS = 16 };

static inline uint64_t key_mix(uint64_t key)
{
    uint64_t z = (key ^ (key >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

/* The key whose mixed key this is. */
uint64_t key_unmix(uint64_t mixed);

static inline uint32_t key_bucket(uint64_t mixed)
{
    return (uint32_t)(mixed >> (64 - ROW_BUCKET_BITS));
}

/* Buckets [first, end). */
struct bucket_range {
    uint32_t first, end;
};

/* Those of range i of n that `of` is cut into. Some are empty if n is larger than the number of buckets. */
static inline struct bucket_range bucket_share(struct bucket_range of, uint32_t i, uint32_t n)
{
    uint64_t buckets = of.end - of.first;
    return (struct bucket_range){of.first + (uint32_t)(buckets * i / n),
                                 of.first + (uint32_t)(buckets * (i + 1) / n)};
}

/* Of shard i of n. */
static inline struct bucket_range bucket_shard(uint32_t i, uint32_t n)
{
    return bucket_share((struct bucket_range){0, ROW_BUCKETS}, i, n);
}

/* Of part `part` of a shard's buckets. */
static inline struct bucket_range bucket_part(struct bucket_range shard, uint32_t part)
{
    return bucket_share(shard, part, ROW_PARTS);
}

/* How many of these keys, which ascend, lie below bucket `bucket`, which may be ROW_BUCKETS. */
size_t key_below(const uint64_t *mixed, size_t n, uint32_t bucket);

#endif
