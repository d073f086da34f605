/* How many cores this process may use. */
#ifndef GRADWIRE_COMMON_PROCESS_CORES_H
#define GRADWIRE_COMMON_PROCESS_CORES_H

#include <stdint.h>

/* The least of the CPU affinity mask and the CPU quotas of all cgroups above us (cgroup.h); a part of
 * a core counts as one. At least 1. Thread: any; reads files, so not for a loop's thread. */
uint32_t cores_usable(void);

#endif
