/* The files that a data key names: paths and globs, one to a line. */
#ifndef GRADWIRE_COMMON_PROCESS_PATHS_H
#define GRADWIRE_COMMON_PROCESS_PATHS_H

#include <stddef.h>

#include "common/base/err.h"

enum { PATHS_MAX = 1 << 16 };

struct paths {
    char **path;
    size_t count;
};

/* Expand `patterns` ('\n' between them): in their order, the matches of each sorted by byte value.
 * A name that is there as it stands is not taken as a glob. Owns: *p is the caller's; paths_close.
 * Unchanged on error. Errors: ERR_INPUT naming the pattern that matched nothing; ERR_NOMEM. */
enum err paths_expand(struct paths *p, const char *patterns, struct errmsg *e) MUST_CHECK;
void paths_close(struct paths *p);

#endif
