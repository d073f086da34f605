/* Hints for people: which known word is nearest to a mistyped one. */
#ifndef GRADWIRE_COMMON_BASE_WORDS_H
#define GRADWIRE_COMMON_BASE_WORDS_H

/* A search over candidates: words_init, then words_try on each; `best` is NULL where none was near
 * enough. */
struct words {
    const char *word, *best;
    unsigned distance; /* of the best; at first one more than what counts as near */
};

void words_init(struct words *w, const char *word);
/* One that differs in case alone is nearest. */
void words_try(struct words *w, const char *candidate);

/* Edit distance (optimal string alignment: insert, delete, replace, swap of neighbours); words
 * longer than WORDS_BYTES_MAX are far from all others. */
enum { WORDS_BYTES_MAX = 63, WORDS_FAR = 1000 };
unsigned words_distance(const char *a, const char *b);

#endif
