/* DIR/lock: it allows one job at a time to use an output directory. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "common/base/err.h"

/* Notices that the output directory DIR, which this process or its launcher has locked (dirlock.h), was removed or replaced.
 * Then another job can have begun there, and this process must write nothing more under that path. A process has one guard.
 * The guard is the open file DIR/lock: as long as it is open, no other file gets its number. */

enum { DIRGUARD_EVERY_MS = 1000 }; /* how often a process that holds DIR checks it */

/* Begin to guard DIR, in place of what was guarded before. lock_fd: an open descriptor of DIR/lock; it is duplicated. -1: the
 * file that is there now; if there is none, nothing is guarded. Errors: ERR_IO, lock_fd is no open file. Thread: any; blocks. */
enum err dirguard_begin(const char *dir, int lock_fd, struct errmsg *e) MUST_CHECK;

/* Check that DIR/lock is the guarded file. A check that fails for another reason than a missing or another file (network
 * storage that does not answer) counts as good. Errors: ERR_STATE, naming DIR and the pid that has locked it now; then also at
 * each later call. Thread: any; blocks on storage, and 200 ms longer before it returns an error for the first time. */
enum err dirguard_check(struct errmsg *e) MUST_CHECK;

enum { DIRLOCK_WAIT_S = 15 };

/* Creates `dir` if it is missing, takes the flock on dir/lock and writes our pid into the file. If another process
 * holds the lock, the call passes that pid to `on_wait` (can be NULL) once, and retries for DIRLOCK_WAIT_S.
 * The lock belongs to the open file description: it is held until every process that inherited *fd has ended. *fd
 * survives exec: if the launcher of a job dies, the directory stays locked until the job's last process has ended.
 * The caller closes *fd. Blocks up to DIRLOCK_WAIT_S. Errors: ERR_TIMEOUT, naming the pid, if the lock is still
 * held; ERR_IO. */
enum err dirlock_take(const char *dir, int *fd, void (*on_wait)(const char *dir, pid_t holder),
                      struct errmsg *e) MUST_CHECK;

/* Returns the pid in dir/lock if the lock is held, otherwise 0. *ours (`ours` can be NULL) becomes true if that
 * process still lives and has the lock file open: only then is it safe to signal the pid. */
pid_t dirlock_holder(const char *dir, bool *ours);
