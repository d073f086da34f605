/* DIR/lock: one job at a time on an output folder. */
#ifndef GRADWIRE_COMMON_PROCESS_DIRLOCK_H
#define GRADWIRE_COMMON_PROCESS_DIRLOCK_H

#include <stdbool.h>
#include <sys/types.h>

#include "common/base/err.h"

enum { DIRLOCK_WAIT_S = 15 };

/* Make `dir` if it is missing, take the flock on dir/lock and write our pid into it. If it is held,
 * `on_wait` (may be NULL) is told the holder's pid once, and it is tried for DIRLOCK_WAIT_S. The
 * lock belongs to the open file: it is held until every process that inherited *fd is gone. *fd
 * survives exec, so that a job whose launcher died keeps its folder until its last process has
 * ended. Errors: ERR_TIMEOUT still held, naming the pid; ERR_IO. Blocks: up to DIRLOCK_WAIT_S. */
enum err dirlock_take(const char *dir, int *fd, void (*on_wait)(const char *dir, pid_t holder),
                      struct errmsg *e) MUST_CHECK;

/* The pid in dir/lock while somebody holds it, or 0. `ours` (may be NULL) tells whether that very
 * process still lives and has the lock open: only then may it be signalled. */
pid_t dirlock_holder(const char *dir, bool *ours);

#endif
