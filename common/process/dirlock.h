/* DIR/lock: it allows one job at a time to use an output directory. */
#ifndef GRADWIRE_COMMON_PROCESS_DIRLOCK_H
#define GRADWIRE_COMMON_PROCESS_DIRLOCK_H

#include <stdbool.h>
#include <sys/types.h>

#include "common/base/err.h"

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

#endif
