/* Random numbers from a seed, and random names (uuid). */
#include "common/base/rng.h"

#include <inttypes.h>
#include <stdio.h>

void uuid_make(char out[UUID_BYTES], uint64_t a, uint64_t b)
{
    (void)snprintf(out, UUID_BYTES,
                   "%08" PRIx64 "-%04" PRIx64 "-4%03" PRIx64 "-%04" PRIx64 "-%012" PRIx64, a >> 32,
                   a >> 16 & 0xffff, a & 0xfff, (b >> 48 & 0x3fff) | 0x8000,
                   b & UINT64_C(0xffffffffffff));
}

uint64_t rng_key(uint64_t seed, enum rng_stream stream, uint64_t a, uint64_t b)
{
    uint64_t k = rng_u64(seed, (uint64_t)stream);
    k = rng_u64(k, a);
    return rng_u64(k, b);
}

uint64_t rng_name(const char *name)
{
    uint64_t h = UINT64_C(0xCBF29CE484222325);
    for (; *name; name++)
        h = (h ^ (uint8_t)*name) * UINT64_C(0x100000001B3);
    return h;
}

uint64_t rng_permute(uint64_t key, uint64_t i, uint64_t n)
{
    enum { ROUNDS = 6 };
    unsigned half = 1; /* bits in each half; the domain is the smallest 4^half that holds n */
    while (half < 32 && (UINT64_C(1) << (2 * half)) < n)
        half++;
    uint64_t mask = (UINT64_C(1) << half) - 1;
    do {
        uint64_t left = i >> half, right = i & mask;
        for (uint64_t round = 0; round < ROUNDS; round++) {
            uint64_t next = left ^ (rng_u64(key, right * ROUNDS + round) & mask);
            left = right;
            right = next;
        }
        i = left << half | right;
    } while (i >= n); /* cycle walking keeps it a bijection of [0, n) */
    return i;
}
