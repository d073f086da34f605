/* A list of texts in one string. They are joined by a byte that UTF-8 does not have: a text of a job file can have all others. */
#ifndef GRADWIRE_COMMON_BASE_TEXTS_H
#define GRADWIRE_COMMON_BASE_TEXTS_H

#include <stddef.h>
#include <string.h>

#define TEXTS_JOINT "\xff"

/* The bytes of the first text of the list. Returns the rest of the list; NULL: it was the last one. */
static inline const char *texts_next(const char *texts, size_t *bytes)
{
    *bytes = strcspn(texts, TEXTS_JOINT);
    return texts[*bytes] ? texts + *bytes + 1 : NULL;
}

#endif
