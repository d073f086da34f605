/* When a wait is told: first when it has lasted for PATIENCE_FIRST_MS, then each time that it has become twice as long. Pure. */
#ifndef GRADWIRE_WORKER_CORE_PATIENCE_H
#define GRADWIRE_WORKER_CORE_PATIENCE_H

#include <stdbool.h>
#include <stdint.h>

enum { PATIENCE_FIRST_MS = 10000 };

struct patience {
    int64_t since_ms; /* when the wait began */
    int64_t say_ms;   /* how long it has to last until it is told */
};

/* A wait may begin now: what was waited for has come, or nothing was. */
void patience_begin(struct patience *p, int64_t now_ms);
/* True: tell it now. *waited_s: how long it has lasted. */
bool patience_over(struct patience *p, int64_t now_ms, int64_t *waited_s);

#endif
