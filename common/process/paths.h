/* The files that a data key names: paths and globs, one to a line. */
#ifndef GRADWIRE_COMMON_PROCESS_PATHS_H
#define GRADWIRE_COMMON_PROCESS_PATHS_H

#include <stddef.h>

#include "common/base/err.h"

enum { PATHS_MAX = 1 << 16, PATHS_FILE_MAX = 4096 };

struct paths {
    char **path;
    size_t count;
};

/* Expand `patterns` ('\n' between them): in their order, the matches of each sorted by byte value.
 * A name that is there as it stands is not taken as a glob. Owns: *p is the caller's; paths_close.
 * Unchanged on error. Errors: ERR_INPUT naming the pattern that matched nothing; ERR_NOMEM. */
enum err paths_expand(struct paths *p, const char *patterns, struct errmsg *e) MUST_CHECK;
/* A copy of `path` behind the others. Errors: ERR_INPUT more than PATHS_MAX; ERR_NOMEM. */
enum err paths_add(struct paths *p, const char *path, struct errmsg *e) MUST_CHECK;
void paths_close(struct paths *p);

/* "set.npz:x", which no file has as its name, is the member x of set.npz; the file's part may be a glob. Copies that to `file`;
 * returns the member's name, a view of `path`, or NULL: all of it is the file's. */
const char *paths_member(const char *path, char *file, size_t bytes);

#endif
