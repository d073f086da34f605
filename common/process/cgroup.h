/* The limits of a process: the CPU and memory limits of the cgroups that contain it, and those of `ulimit`. Of cgroups it
 * reads version 2 (cpu.max, memory.max, memory.swap.max) or version 1 (cpu.cfs_quota_us, memory.limit_in_bytes), depending
 * on which is mounted. */
#pragma once

#include <stdint.h>

#include "common/base/err.h"

struct cgroup_limits {
    uint32_t cores;        /* rounded up; UINT32_MAX: no limit */
    uint64_t memory_bytes; /* UINT64_MAX: no limit */
    uint64_t swap_bytes;   /* in addition to memory_bytes; UINT64_MAX: no limit */
};

/* Returns the lowest limits of the groups listed in `self` (/proc/self/cgroup) and of all their parents under
 * `root` (/sys/fs/cgroup). A container may see only its own group, mounted as the root: a group that does not
 * exist under `root` is skipped, and the limits of the root itself count. A file that cannot be read sets no
 * limit. Thread: any, but not an event loop's: it reads files. */
struct cgroup_limits cgroup_read(const char *root, const char *self);

/* Returns the limits of this process, under the root given to cgroup_set_root. */
struct cgroup_limits cgroup_limits(void);
/* Returns the bytes of memory that this process can use: the host's memory or the lowest limit, whichever is less.
 * Thread: any; reads files. */
uint64_t cgroup_memory_bytes(void);
/* Returns the same plus the swap that this process can use: an upper bound of what it can allocate. Thread: any;
 * reads files. */
uint64_t cgroup_memory_and_swap_bytes(void);
/* Sets the root (--cgroup_root); `root` is copied. Call before threads start. */
void cgroup_set_root(const char *root);

/* The number of cores that this process can use. */

/* Returns the lowest of the CPU affinity mask and the CPU quotas of all parent cgroups (cgroup.h), rounded up, at
 * least 1. Thread: any, but not an event loop's: it reads files. */
uint32_t cores_usable(void);

/* The limits that `ulimit` sets for this process. */
/* Reads the limits, for the texts and the exit codes of errors (err_limits_set). Call it first in main. */
void ulimits_init(void);

/* Checks that the process can open so many descriptors more. Errors: ERR_FILES: the text says how many it needs in all;
 * ERR_NOMEM. Thread: any; never blocks. */
enum err ulimits_check_descriptors(uint32_t more, struct errmsg *e) MUST_CHECK;
