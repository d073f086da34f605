/* Suggestions for a mistyped word: the known word that is nearest to it. */
#pragma once

#include <stdbool.h>

/* A search over candidates: call words_init, then words_try for each. `best` is the nearest one, or NULL if none
 * is near enough. The struct points to the caller's strings. */
struct words {
    const char *word, *best;
    bool names;
    unsigned distance; /* of `best`; initially 1 more than the limit for "near enough" */
};

void words_init(struct words *w, const char *word);
/* The same for names that users make, such as those of columns: a candidate differs in case, or by a quarter of the word's length,
 * and not in digits alone, as C2 and C26 do. */
void words_init_name(struct words *w, const char *name);
/* A candidate that differs only in case has distance 0. */
void words_try(struct words *w, const char *candidate);

/* Returns the edit distance (optimal string alignment: insert, delete, replace, swap neighbours). A word longer
 * than WORDS_BYTES_MAX is WORDS_FAR from every other. */
enum { WORDS_BYTES_MAX = 63, WORDS_FAR = 1000 };
unsigned words_distance(const char *a, const char *b);
