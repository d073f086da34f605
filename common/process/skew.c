#include "common/process/skew.h"

#include <stdio.h>
#include <stdlib.h>

struct skew skew_of(int64_t asked_ms, int64_t answered_ms, int64_t there_ms)
{
    int64_t half_ms = (answered_ms - asked_ms) / 2;
    return (struct skew){.off_ms = there_ms - (asked_ms + half_ms), .unsure_ms = half_ms};
}

bool skew_is_large(const struct skew *s)
{
    return llabs(s->off_ms) - s->unsure_ms > SKEW_MAX_MS;
}

void skew_text(const struct skew *s, char *out, size_t bytes)
{
    (void)snprintf(out, bytes, "%.1f s %s this host's", (double)llabs(s->off_ms) / 1000.0,
                   s->off_ms > 0 ? "ahead of" : "behind");
}
