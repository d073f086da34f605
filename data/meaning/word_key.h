/* The key of a word. It is the same for every program that serves the model, so docs/reference/data.md defines it,
 * with examples. Pure. */
#ifndef GRADWIRE_DATA_MEANING_WORD_KEY_H
#define GRADWIRE_DATA_MEANING_WORD_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "job/job.h"

/* A column's seed: XXH3_64bits of its space. */
uint64_t word_key_seed(const char *space);

/* *key: XXH3_64bits_withSeed(word, seed), or without `hash` the decimal integer in the word; modulo the buckets.
 * False: the word is not an integer below 2^64. */
bool word_key(const struct job_key_column *c, uint64_t seed, const char *word, size_t bytes,
              uint64_t *key);
/* The key of a missing value. False: a missing value has no key. */
bool word_key_missing(const struct job_key_column *c, uint64_t seed, uint64_t *key);

/* The key modulo the buckets, if the column has buckets. */
static inline uint64_t word_key_fold(const struct job_key_column *c, uint64_t key)
{
    return c->buckets ? key % c->buckets : key;
}

#endif
