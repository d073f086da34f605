/* DIR: its lock, moving it aside, and the files that the launcher keeps in DIR/processes. */
#ifndef GRADWIRE_LAUNCH_BASE_RUNDIR_H
#define GRADWIRE_LAUNCH_BASE_RUNDIR_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "common/base/err.h"

#define RUNDIR_SUMMARY_BEFORE "processes/summary-before.json"
#define RUNDIR_LAUNCHER "processes/launcher" /* the pid of the last launcher that held DIR */
#define RUNDIR_ASIDE                                                                               \
    "aside" /* in DIR.1, DIR.2 ..: it was moved there from the folder that is named in it */

struct rundir {
    char path[PATH_MAX];
    int lock_fd; /* -1: not locked */
};

/* Lock DIR (waiting as dirlock_take does), with `fresh` move what is there to DIR.1, .2, ... first,
 * make DIR/processes with RUNDIR_LAUNCHER, and put the last run's summary.json aside, as RUNDIR_SUMMARY_BEFORE. Errors:
 * ERR_TIMEOUT locked, naming the pid; ERR_IO. */
enum err rundir_open(struct rundir *r, const char *path, bool fresh, struct errmsg *e) MUST_CHECK;
void rundir_close(struct rundir *r);

/* Make DIR if it is missing. Errors: ERR_INPUT, naming --output: there cannot be such a folder. */
enum err rundir_make(const char *path, struct errmsg *e) MUST_CHECK;

/* "DIR/name" into `out`. Errors: ERR_IO too long. */
enum err rundir_file(const char *dir, const char *name, char out[PATH_MAX],
                     struct errmsg *e) MUST_CHECK;

/* Replace DIR/name at once (temporary name, rename). Not synced: what it tells does not outlive the
 * machine. */
enum err rundir_put(const char *dir, const char *name, const void *data, size_t bytes,
                    struct errmsg *e) MUST_CHECK;

#endif
