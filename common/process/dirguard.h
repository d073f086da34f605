/* Notices that the output directory DIR, which this process or its launcher has locked (dirlock.h), was removed or replaced.
 * Then another job can have begun there, and this process must write nothing more under that path. A process has one guard.
 * The guard is the open file DIR/lock: as long as it is open, no other file gets its number. */
#ifndef GRADWIRE_COMMON_PROCESS_DIRGUARD_H
#define GRADWIRE_COMMON_PROCESS_DIRGUARD_H

#include "common/base/err.h"

enum { DIRGUARD_EVERY_MS = 1000 }; /* how often a process that holds DIR checks it */

/* Begin to guard DIR, in place of what was guarded before. lock_fd: an open descriptor of DIR/lock; it is duplicated. -1: the
 * file that is there now; if there is none, nothing is guarded. Errors: ERR_IO, lock_fd is no open file. Thread: any; blocks. */
enum err dirguard_begin(const char *dir, int lock_fd, struct errmsg *e) MUST_CHECK;

/* Check that DIR/lock is the guarded file. A check that fails for another reason than a missing or another file (network
 * storage that does not answer) counts as good. Errors: ERR_STATE, naming DIR and the pid that has locked it now; then also at
 * each later call. Thread: any; blocks on storage, and 200 ms longer before it returns an error for the first time. */
enum err dirguard_check(struct errmsg *e) MUST_CHECK;

#endif
