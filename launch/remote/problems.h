/* The problems of a job's hosts, one line each. All are reported before any process starts. */
#ifndef GRADWIRE_LAUNCH_REMOTE_PROBLEMS_H
#define GRADWIRE_LAUNCH_REMOTE_PROBLEMS_H

#include <stddef.h>

#include "common/base/err.h"

struct problems {
    size_t n;
    char **line; /* lines lost for lack of memory are counted, and missing here */
    size_t kept;
};

void problems_add(struct problems *p, const char *fmt, ...) PRINTF_LIKE(2, 3);
void problems_close(struct problems *p);

#endif
