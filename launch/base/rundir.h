/* The output directory DIR: its lock, moving it aside, and the launcher's files in DIR/processes. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "common/base/err.h"

struct rundir {
    char path[PATH_MAX];
    int lock_fd; /* -1: not locked */
};

/* Lock DIR (waiting like dirlock_take) and guard it (dirlock.h), make DIR/processes with OUTPUT_LAUNCHER, and rename the last run's summary.json
 * to OUTPUT_SUMMARY_BEFORE. With `fresh` the contents of DIR are first moved to DIR.1, DIR.2, ...
 * Close with rundir_close, which unlocks DIR. Errors, on which DIR is not locked: ERR_TIMEOUT another process holds the
 * lock (the text has the pid); ERR_IO. */
enum err rundir_open(struct rundir *r, const char *path, bool fresh, struct errmsg *e) MUST_CHECK;
void rundir_close(struct rundir *r);

/* Make DIR if it is missing. Errors: ERR_INPUT, naming --output, if such a directory is impossible. */
enum err rundir_make(const char *path, struct errmsg *e) MUST_CHECK;

/* out = "DIR/name". Errors: ERR_IO the path is too long. */
enum err rundir_file(const char *dir, const char *name, char out[PATH_MAX],
                     struct errmsg *e) MUST_CHECK;

/* Replace DIR/name atomically (temporary name, rename). There is no fsync, because the file is useless after a crash of the
 * host. Errors: ERR_IO; ERR_STATE this process no longer holds DIR. */
enum err rundir_put(const char *dir, const char *name, const void *data, size_t bytes,
                    struct errmsg *e) MUST_CHECK;
