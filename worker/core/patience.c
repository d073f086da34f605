#include "worker/core/patience.h"

void patience_begin(struct patience *p, int64_t now_ms)
{
    p->since_ms = now_ms;
    p->say_ms = PATIENCE_FIRST_MS;
}

bool patience_over(struct patience *p, int64_t now_ms, int64_t *waited_s)
{
    int64_t waited_ms = now_ms - p->since_ms;
    if (waited_ms < p->say_ms)
        return false;
    while (p->say_ms <= waited_ms) /* after a jump of the clock, report only once */
        p->say_ms *= 2;
    *waited_s = waited_ms / 1000;
    return true;
}
