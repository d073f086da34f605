/* The limits of the cgroups above a process: CPU time and memory, by version 2 (cpu.max, memory.max, memory.swap.max) and version 1
 * (cpu.cfs_quota_us, memory.limit_in_bytes), whichever is mounted. */
#ifndef GRADWIRE_COMMON_PROCESS_CGROUP_H
#define GRADWIRE_COMMON_PROCESS_CGROUP_H

#include <stdint.h>

struct cgroup_limits {
    uint32_t cores;        /* a part of one counts as one; UINT32_MAX: no limit */
    uint64_t memory_bytes; /* UINT64_MAX: no limit */
    uint64_t swap_bytes;   /* beside memory_bytes; the same */
};

/* The least over all groups above: of `self` (/proc/self/cgroup) under `root` (/sys/fs/cgroup). A group that is not
 * there, as in a container that sees only its own, is taken for the mount itself. What cannot be read limits nothing.
 * Thread: any; reads files, so not for a loop's thread. */
struct cgroup_limits cgroup_read(const char *root, const char *self);

/* The same of this process, under the root that was set last (--cgroup_root). */
struct cgroup_limits cgroup_limits(void);
/* The memory that this process may use, in bytes: the least of the machine's and these limits.
 * Thread: any; reads files. */
uint64_t cgroup_memory_bytes(void);
/* The same and the swap that this process may use: more than that it cannot have. Thread: any; reads files. */
uint64_t cgroup_memory_and_swap_bytes(void);
/* Before threads start; `root` is copied. */
void cgroup_set_root(const char *root);

#endif
