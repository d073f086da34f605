/* Clocks. Only the outer code reads them; the pure core gets the time as an argument. */
#ifndef GRADWIRE_COMMON_BASE_CLOCK_H
#define GRADWIRE_COMMON_BASE_CLOCK_H

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

#endif
