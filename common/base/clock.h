/* Clocks. Only the outer code reads them; the pure core gets the time as an argument. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/time.h>

/* Milliseconds and seconds of CLOCK_MONOTONIC: for measuring spans. */
int64_t clock_now_ms(void);
double clock_now_s(void);
double clock_thread_s(void); /* CPU seconds that the calling thread has used */
/* Milliseconds since the Unix epoch. Use it to show a time or to compare hosts, never to measure a span: it can
 * jump. */
int64_t clock_wall_ms(void);

void clock_sleep_ms(int64_t ms); /* a signal can end it earlier */
/* Converts a span to libevent's type. A negative span becomes 0. */
struct timeval clock_timeval(int64_t ms);

/* The difference between the clocks of two hosts, measured with one request and its reply. Pure. */

enum { SKEW_MAX_MS = 5000 };

struct skew {
    int64_t off_ms;    /* above 0: the other clock is ahead */
    int64_t unsure_ms; /* uncertainty: half of the round-trip time */
};

/* Computes the difference from our times of the request and the reply, and the other host's time in the reply, all
 * in ms since the Unix epoch. */
struct skew skew_of(int64_t asked_ms, int64_t answered_ms, int64_t there_ms);

/* Returns whether the clocks surely differ by more than SKEW_MAX_MS. */
bool skew_is_large(const struct skew *s);

/* Writes "1.5 s ahead of this host's" or "1.5 s behind this host's". */
void skew_text(const struct skew *s, char *out, size_t bytes);
