/* The number of cores that this process can use. */
#ifndef GRADWIRE_COMMON_PROCESS_CORES_H
#define GRADWIRE_COMMON_PROCESS_CORES_H

#include <stdint.h>

/* Returns the lowest of the CPU affinity mask and the CPU quotas of all parent cgroups (cgroup.h), rounded up, at
 * least 1. Thread: any, but not an event loop's: it reads files. */
uint32_t cores_usable(void);

#endif
