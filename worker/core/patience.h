/* Decides when to report that something is being waited for: first after PATIENCE_FIRST_MS, then each time the wait
 * has doubled. Pure: the caller passes the time. */
#ifndef GRADWIRE_WORKER_CORE_PATIENCE_H
#define GRADWIRE_WORKER_CORE_PATIENCE_H

#include <stdbool.h>
#include <stdint.h>

enum { PATIENCE_FIRST_MS = 10000 };

struct patience {
    int64_t since_ms; /* when the wait began */
    int64_t say_ms;   /* the length of the wait at which it is reported next */
};

/* Start measuring from now: the awaited event has come, or nothing was awaited. */
void patience_begin(struct patience *p, int64_t now_ms);
/* True: report the wait now; *waited_s is how long it has lasted, in seconds. */
bool patience_over(struct patience *p, int64_t now_ms, int64_t *waited_s);

#endif
