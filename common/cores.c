#include "common/cores.h"

#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CORES_UNLIMITED = INT_MAX, CORES_MASK_CPUS_MAX = 1 << 16 };

static int cores_in_mask(void)
{
    for (int cpus = CPU_SETSIZE; cpus <= CORES_MASK_CPUS_MAX; cpus *= 4) {
        cpu_set_t *set = CPU_ALLOC((size_t)cpus);
        if (!set)
            return 1;
        size_t bytes = CPU_ALLOC_SIZE((size_t)cpus);
        int n = sched_getaffinity(0, bytes, set) == 0 ? CPU_COUNT_S(bytes, set) : 0;
        CPU_FREE(set);
        if (n > 0)
            return n;
    }
    return 1;
}

/* A quota in microseconds per period as whole cores, a part counting as one; <= 0 is no limit. */
static int cores_of_quota(long long quota, long long period)
{
    if (quota <= 0 || period <= 0)
        return CORES_UNLIMITED;
    long long cores = (quota + period - 1) / period;
    return cores < CORES_UNLIMITED ? (int)cores : CORES_UNLIMITED;
}

/* The first line of a small file, or false. */
static bool cores_line(char *line, size_t bytes, const char *folder, const char *name)
{
    char path[PATH_MAX];
    int n = snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = n > 0 && (size_t)n < sizeof path ? fopen(path, "re") : NULL;
    if (!f)
        return false;
    bool got = fgets(line, (int)bytes, f) != NULL;
    (void)fclose(f);
    return got;
}

static int cores_of_folder(const char *folder)
{
    char line[128];
    long long quota, period;
    if (cores_line(line, sizeof line, folder, "cpu.max"))
        return sscanf(line, "%lld %lld", &quota, &period) == 2 ? cores_of_quota(quota, period)
                                                               : CORES_UNLIMITED; /* "max" */
    if (!cores_line(line, sizeof line, folder, "cpu.cfs_quota_us"))
        return CORES_UNLIMITED;
    quota = strtoll(line, NULL, 10);
    if (!cores_line(line, sizeof line, folder, "cpu.cfs_period_us"))
        return CORES_UNLIMITED;
    return cores_of_quota(quota, strtoll(line, NULL, 10));
}

/* The least over `group` and everything above it, under the controller's mount point. */
static int cores_up_the_tree(const char *mount, const char *group)
{
    char folder[PATH_MAX];
    int n = snprintf(folder, sizeof folder, "%s%s", mount, group);
    if (n < 0 || (size_t)n >= sizeof folder)
        return CORES_UNLIMITED;
    int least = CORES_UNLIMITED;
    for (;;) {
        int here = cores_of_folder(folder);
        least = here < least ? here : least;
        char *slash = strrchr(folder, '/');
        if (!slash || (size_t)(slash - folder) < strlen(mount))
            return least;
        *slash = 0;
    }
}

/* One line of /proc/self/cgroup: "0::/group" (v2) or "4:cpu,cpuacct:/group" (v1). */
static int cores_of_group_line(char *line)
{
    line[strcspn(line, "\n")] = 0;
    char *controllers = strchr(line, ':');
    char *group = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!group)
        return CORES_UNLIMITED;
    *controllers++ = 0;
    *group++ = 0;
    if (strcmp(line, "0") == 0 && *controllers == 0)
        return cores_up_the_tree("/sys/fs/cgroup", group);
    for (char *save = NULL, *one = strtok_r(controllers, ",", &save); one;
         one = strtok_r(NULL, ",", &save))
        if (strcmp(one, "cpu") == 0)
            return cores_up_the_tree("/sys/fs/cgroup/cpu", group);
    return CORES_UNLIMITED;
}

static int cores_of_cgroups(void)
{
    FILE *f = fopen("/proc/self/cgroup", "re");
    if (!f)
        return CORES_UNLIMITED;
    int least = CORES_UNLIMITED;
    char line[PATH_MAX];
    while (fgets(line, sizeof line, f)) {
        int here = cores_of_group_line(line);
        least = here < least ? here : least;
    }
    (void)fclose(f);
    return least;
}

uint32_t cores_usable(void)
{
    int mask = cores_in_mask(), quota = cores_of_cgroups();
    int least = mask < quota ? mask : quota;
    return least < 1 ? 1 : (uint32_t)least;
}
