/* Texts in one string: a list of them, words, an ending. The texts of a list are joined by a byte that UTF-8 does not have: a text of a
 * job file can have all others. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define TEXTS_JOINT "\xff"

/* The bytes of the first text of the list. Returns the rest of the list; NULL: it was the last one. */
static inline const char *texts_next(const char *texts, size_t *bytes)
{
    *bytes = strcspn(texts, TEXTS_JOINT);
    return texts[*bytes] ? texts + *bytes + 1 : NULL;
}

/* True if the word is one of `words`, which are separated by blanks. */
static inline bool text_has_word(const char *words, const char *word)
{
    size_t n = strlen(word);
    for (const char *at = words; n && (at = strstr(at, word)); at += n)
        if ((at == words || at[-1] == ' ') && (at[n] == ' ' || at[n] == '\0'))
            return true;
    return false;
}

/* True if the text ends with `end`, and has more before it. */
static inline bool text_ends(const char *text, const char *end)
{
    size_t n = strlen(text), of = strlen(end);
    return n > of && strcmp(text + n - of, end) == 0;
}
