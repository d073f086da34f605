/* Reads the affinity mask with sets that grow until they fit the host's CPUs, and the quota of the cgroup. */
#include "common/process/cores.h"

#include <sched.h>

#include "common/process/cgroup.h"

enum { CORES_MASK_CPUS_MAX = 1 << 16 };

static uint32_t cores_in_mask(void)
{
    for (int cpus = CPU_SETSIZE; cpus <= CORES_MASK_CPUS_MAX; cpus *= 4) {
        cpu_set_t *set = CPU_ALLOC((size_t)cpus);
        if (!set)
            return 1;
        size_t bytes = CPU_ALLOC_SIZE((size_t)cpus);
        int n = sched_getaffinity(0, bytes, set) == 0 ? CPU_COUNT_S(bytes, set) : 0;
        CPU_FREE(set);
        if (n > 0)
            return (uint32_t)n;
    }
    return 1;
}

uint32_t cores_usable(void)
{
    uint32_t mask = cores_in_mask(), quota = cgroup_limits().cores;
    uint32_t least = mask < quota ? mask : quota;
    return least < 1 ? 1 : least;
}
