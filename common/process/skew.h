/* How far apart two hosts' clocks are, from one question and its answer. Pure. */
#ifndef GRADWIRE_COMMON_PROCESS_SKEW_H
#define GRADWIRE_COMMON_PROCESS_SKEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SKEW_MAX_MS = 5000 };

struct skew {
    int64_t off_ms;    /* above 0: the other clock is ahead */
    int64_t unsure_ms; /* half of the time that the answer took */
};

/* Asked and answered at these times of the clock here, when the clock there said there_ms. */
struct skew skew_of(int64_t asked_ms, int64_t answered_ms, int64_t there_ms);
/* Surely more than SKEW_MAX_MS. */
bool skew_is_large(const struct skew *s);
/* "1.5 s ahead of this host's" */
void skew_text(const struct skew *s, char *out, size_t bytes);

#endif
