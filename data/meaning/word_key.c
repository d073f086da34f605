#include "data/meaning/word_key.h"

#include <string.h>
#include <xxhash.h>

uint64_t word_key_seed(const char *space)
{
    return XXH3_64bits(space, strlen(space));
}

static bool integer(const char *word, size_t bytes, uint64_t *out)
{
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; i++)
        if (word[i] < '0' || word[i] > '9' || __builtin_mul_overflow(value, 10u, &value) ||
            __builtin_add_overflow(value, (uint64_t)(word[i] - '0'), &value))
            return false;
    *out = value;
    return bytes > 0;
}

bool word_key(const struct job_key_column *c, uint64_t seed, const char *word, size_t bytes,
              uint64_t *key)
{
    uint64_t value;
    if (c->hash)
        value = XXH3_64bits_withSeed(word, bytes, seed);
    else if (!integer(word, bytes, &value))
        return false;
    *key = word_key_fold(c, value);
    return true;
}

bool word_key_missing(const struct job_key_column *c, uint64_t seed, uint64_t *key)
{
    if (c->missing == KEY_MISSING_NONE)
        return false;
    if (c->missing == KEY_MISSING_EMPTY)
        return word_key(c, seed, "", 0, key);
    *key = word_key_fold(c, c->missing_key);
    return true;
}
