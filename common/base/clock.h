/* The monotonic clock, read by shells and handed to the pure core as an argument. */
#ifndef GRADWIRE_COMMON_BASE_CLOCK_H
#define GRADWIRE_COMMON_BASE_CLOCK_H

#include <stdint.h>
#include <sys/time.h>

/* Milliseconds and seconds of CLOCK_MONOTONIC. */
int64_t clock_now_ms(void);
double clock_now_s(void);
double clock_thread_s(void); /* of CPU time that this thread has had */
/* Milliseconds since the epoch: for people and for other hosts, never for a span. */
int64_t clock_wall_ms(void);

void clock_sleep_ms(int64_t ms);
/* As libevent wants a span; one below 0 is 0. */
struct timeval clock_timeval(int64_t ms);

#endif
