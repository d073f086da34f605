/* Words and their numbers, in the order in which they were added. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

enum { VOCABULARY_MAX = (1 << 24) - 1 }; /* so that their numbers are exact in a float */
#define VOCABULARY_NONE UINT32_MAX

struct vocabulary_word {
    size_t at; /* in text */
    uint32_t bytes, hash;
};

/* All zero: empty, and nothing to free. */
struct vocabulary {
    uint32_t count, slots; /* slots: a power of two */
    struct vocabulary_word *word;
    uint32_t *slot; /* a word's number + 1; 0: free */
    char *text;
    size_t text_bytes, text_room;
};

/* The word's number, or VOCABULARY_NONE. Thread: any, while no thread adds. */
uint32_t vocabulary_find(const struct vocabulary *v, const char *word, size_t bytes);
/* The word's number; a new word is added. Errors: ERR_TOOBIG: more than VOCABULARY_MAX; ERR_NOMEM. */
enum err vocabulary_add(struct vocabulary *v, const char *word, size_t bytes,
                        uint32_t *number) MUST_CHECK;
const char *vocabulary_text(const struct vocabulary *v, uint32_t number, size_t *bytes);
/* Remove all words, keep the memory. */
void vocabulary_clear(struct vocabulary *v);
void vocabulary_close(struct vocabulary *v);
