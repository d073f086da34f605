/* Random numbers as pure functions of the seed and of where a number is used: epoch, microbatch and position
 * (docs/explanation/semantics.md). They are counter-based and integer-only: the bits are the same on every machine
 * and in any order of evaluation. */
#pragma once

#include <stdint.h>

/* rng_key mixes its arguments into a key for the functions below. Different streams give independent numbers. */
enum rng_stream {
    RNG_SHUFFLE = 1,
    RNG_DROPOUT,
    RNG_INIT,
    RNG_SYNTHETIC,
    RNG_TEST,
    RNG_AUGMENT,
    RNG_ROW,
    RNG_VALIDATION,
    RNG_ADMISSION = 30,
    RNG_PUSH_CODEC = 40,
    RNG_REPLY_CODEC,
    RNG_ROW_CODEC
};
uint64_t rng_key(uint64_t seed, enum rng_stream stream, uint64_t a, uint64_t b);

/* Hashes a name with FNV-1a, for keys that depend on a name. */
uint64_t rng_name(const char *name);

/* Returns 64 random bits for a position (splitmix64's finalizer over key + position * golden gamma). */
static inline uint64_t rng_u64(uint64_t key, uint64_t position)
{
    uint64_t z = key + (position + 1) * UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

/* Returns a uniform number in [0, 1) of 24 bits, which a float holds exactly. */
static inline float rng_unit(uint64_t key, uint64_t position)
{
    return (float)(rng_u64(key, position) >> 40) * 0x1p-24f;
}

/* Returns the position of row `i` of `n` in the permutation chosen by `key`: a bijection of [0, n), by a Feistel
 * network with cycle walking. i < n, n >= 1. O(1) memory, any order of evaluation. */
uint64_t rng_permute(uint64_t key, uint64_t i, uint64_t n);

/* Random job ids. Pure. */

enum { UUID_BYTES = 37 };

/* Writes a UUID of version 4 (RFC 9562, section 5.4), with its NUL, from 122 bits of `a` and `b`. */
void uuid_make(char out[UUID_BYTES], uint64_t a, uint64_t b);
