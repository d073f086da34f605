/* The clocks of this host, and the difference to the clock of another one. */
#include "common/base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* ---- the clock of another host ---- */

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

/* ---- the clocks of this host ---- */

int64_t clock_now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

double clock_now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

double clock_thread_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int64_t clock_wall_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

void clock_sleep_ms(int64_t ms)
{
    (void)nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

struct timeval clock_timeval(int64_t ms)
{
    ms = ms > 0 ? ms : 0;
    return (struct timeval){.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};
}
