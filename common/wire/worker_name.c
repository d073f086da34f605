#include "common/wire/worker_name.h"

#include <stdio.h>

const char *worker_name(char out[WORKER_NAME_BYTES], uint32_t worker, bool separate_chief)
{
    if (separate_chief && worker == 0)
        (void)snprintf(out, WORKER_NAME_BYTES, "the chief");
    else
        (void)snprintf(out, WORKER_NAME_BYTES, "worker %u", worker - separate_chief);
    return out;
}
