/* The files that a data key names: paths and globs, one per line. */
#pragma once

#include <stddef.h>

#include "common/base/err.h"

#define PATHS_STDIN "-" /* no path in a job is this one: they are absolute */
/* Of a directory that `gradwire convert` has not finished: its files *.parquet are not all. */
#define PATHS_UNFINISHED "_UNFINISHED"
enum { PATHS_MAX = 1 << 16, PATHS_FILE_MAX = 4096 };

struct paths {
    char **path;
    size_t count;
};

/* Makes *p the files that match `patterns`, which are separated by '\n': in the order of the patterns, and for each
 * pattern sorted by byte value. Empty patterns are skipped. The name of an existing file is used unchanged, even if it
 * contains glob characters; so is PATHS_STDIN. A directory stands for the files *.parquet below it, without names that begin with _ or
 * `.`, in the order of their names, if there are such files. The caller owns *p: paths_close. *p is unchanged on error. Errors: ERR_INPUT, naming the
 * pattern without a match, if all are empty, or a directory with PATHS_UNFINISHED; ERR_NOMEM; ERR_IO. */
enum err paths_expand(struct paths *p, const char *patterns, struct errmsg *e) MUST_CHECK;
/* Appends a copy of `path`; a *p of zeros is empty. Errors: ERR_INPUT if there are PATHS_MAX paths already;
 * ERR_NOMEM. */
enum err paths_add(struct paths *p, const char *path, struct errmsg *e) MUST_CHECK;
void paths_close(struct paths *p);

/* The kind of table to which the directory or the file *.parquet belongs, by the log of its versions: a file in its directory can
 * be one of an earlier version. NULL: it belongs to none. */
const char *paths_lake(const char *path);

/* Splits "set.npz:x" into the archive and its member x, unless a file has that whole name. Copies the archive's
 * path, which can be a glob, to `file`. Returns the member's name, a view of `path`; or NULL if `path` names no
 * member: then `file` is a copy of `path`. `file` is truncated to `bytes`. */
const char *paths_member(const char *path, char *file, size_t bytes);
