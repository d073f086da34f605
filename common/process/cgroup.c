/* Reads the limits of each group that /proc/self/cgroup names and of the groups above it, and keeps the lowest of each. A file that
 * is missing, or that says "max", sets no limit. */
#include "common/process/cgroup.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>

/* Reads the affinity mask with sets that grow until they fit the host's CPUs, and the quota of the cgroup. */

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

/* Version 1 reports the largest multiple of the page size if no limit is set. */
#define V1_UNLIMITED_BYTES (UINT64_C(1) << 62)

static char cgroup_root[PATH_MAX] = "/sys/fs/cgroup";

static const struct cgroup_limits unlimited = {UINT32_MAX, UINT64_MAX, UINT64_MAX};

static void take_least(struct cgroup_limits *to, struct cgroup_limits l)
{
    to->cores = l.cores < to->cores ? l.cores : to->cores;
    to->memory_bytes = l.memory_bytes < to->memory_bytes ? l.memory_bytes : to->memory_bytes;
    to->swap_bytes = l.swap_bytes < to->swap_bytes ? l.swap_bytes : to->swap_bytes;
}

/* Reads the first line of a file in `folder`; false if that fails. */
static bool read_line(char *line, size_t bytes, const char *folder, const char *name)
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

/* Converts a quota in microseconds per period to cores, rounded up. A quota <= 0 is no limit. */
static uint32_t cores_of(long long quota, long long period)
{
    if (quota <= 0 || period <= 0)
        return UINT32_MAX;
    long long cores = quota / period + (quota % period != 0);
    return cores < UINT32_MAX ? (uint32_t)cores : UINT32_MAX;
}

static uint32_t read_cores(const char *folder)
{
    char line[128];
    long long quota, period;
    if (read_line(line, sizeof line, folder, "cpu.max"))
        return sscanf(line, "%lld %lld", &quota, &period) == 2 ? cores_of(quota, period)
                                                               : UINT32_MAX; /* "max" */
    if (!read_line(line, sizeof line, folder, "cpu.cfs_quota_us"))
        return UINT32_MAX;
    quota = strtoll(line, NULL, 10);
    if (!read_line(line, sizeof line, folder, "cpu.cfs_period_us"))
        return UINT32_MAX;
    return cores_of(quota, strtoll(line, NULL, 10));
}

static uint64_t read_bytes(const char *folder, const char *name, const char *other)
{
    char line[128];
    if (!read_line(line, sizeof line, folder, name) &&
        (!other || !read_line(line, sizeof line, folder, other)))
        return UINT64_MAX;
    char *end;
    unsigned long long bytes = strtoull(line, &end, 10);
    return end == line || bytes >= V1_UNLIMITED_BYTES ? UINT64_MAX : bytes; /* "max" */
}

static struct cgroup_limits of_folder(const char *folder)
{
    return (struct cgroup_limits){read_cores(folder),
                                  read_bytes(folder, "memory.max", "memory.limit_in_bytes"),
                                  read_bytes(folder, "memory.swap.max", NULL)};
}

/* The lowest limits of `group` and all its parents, up to the controller's mount point. */
static struct cgroup_limits up_the_tree(const char *mount, const char *group)
{
    char folder[PATH_MAX];
    struct cgroup_limits least = unlimited;
    int n = snprintf(folder, sizeof folder, "%s%s", mount, group);
    if (n < 0 || (size_t)n >= sizeof folder)
        return least;
    for (;;) {
        take_least(&least, of_folder(folder));
        char *slash = strrchr(folder, '/');
        if (!slash || (size_t)(slash - folder) < strlen(mount))
            return least;
        *slash = 0;
    }
}

static struct cgroup_limits of_controller(const char *root, const char *name, const char *group)
{
    char mount[PATH_MAX];
    int n = snprintf(mount, sizeof mount, "%s/%s", root, name);
    return n > 0 && (size_t)n < sizeof mount ? up_the_tree(mount, group) : unlimited;
}

/* Parses a line of /proc/self/cgroup: "0::/group" (version 2) or "4:cpu,cpuacct:/group" (version 1). Version 1 is
 * mounted under the name of each controller or under all names together. */
static struct cgroup_limits of_line(const char *root, char *line)
{
    struct cgroup_limits least = unlimited;
    line[strcspn(line, "\n")] = 0;
    char *controllers = strchr(line, ':');
    char *group = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!group)
        return least;
    *controllers++ = 0;
    *group++ = 0;
    if (strcmp(line, "0") == 0 && *controllers == 0)
        return up_the_tree(root, group);
    take_least(&least, of_controller(root, controllers, group));
    for (char *save = NULL, *one = strtok_r(controllers, ",", &save); one;
         one = strtok_r(NULL, ",", &save))
        if (strcmp(one, "cpu") == 0 || strcmp(one, "memory") == 0)
            take_least(&least, of_controller(root, one, group));
    return least;
}

struct cgroup_limits cgroup_read(const char *root, const char *self)
{
    struct cgroup_limits least = unlimited;
    char line[PATH_MAX];
    FILE *f = fopen(self, "re");
    if (!f)
        return least;
    while (fgets(line, sizeof line, f))
        take_least(&least, of_line(root, line));
    (void)fclose(f);
    return least;
}

struct cgroup_limits cgroup_limits(void)
{
    return cgroup_read(cgroup_root, "/proc/self/cgroup");
}

uint64_t cgroup_memory_bytes(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    uint64_t machine = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : UINT64_MAX;
    uint64_t limit = cgroup_limits().memory_bytes;
    return limit < machine ? limit : machine;
}

uint64_t cgroup_memory_and_swap_bytes(void)
{
    struct sysinfo info;
    uint64_t limit = cgroup_limits().swap_bytes, memory = cgroup_memory_bytes();
    uint64_t swap = sysinfo(&info) == 0 ? (uint64_t)info.totalswap * info.mem_unit : 0;
    swap = swap < limit ? swap : limit;
    return memory > UINT64_MAX - swap ? UINT64_MAX : memory + swap;
}

void cgroup_set_root(const char *root)
{
    (void)snprintf(cgroup_root, sizeof cgroup_root, "%s", root);
}

/* Texts about the limits, for errors that they cause; and a check that opens descriptors and closes them again, because other limits
 * than ulimit's count, too. */

/* RLIM_INFINITY: there is no limit. */
static rlim_t limit_of(__rlimit_resource_t resource)
{
    struct rlimit limit = {.rlim_cur = RLIM_INFINITY};
    (void)getrlimit(resource, &limit);
    return limit.rlim_cur;
}

void ulimits_init(void)
{
    struct err_limits l = {.memory = ""};
    rlim_t space = limit_of(RLIMIT_AS), data = limit_of(RLIMIT_DATA);
    rlim_t files = limit_of(RLIMIT_NOFILE);
    int n = 0;
    if (space != RLIM_INFINITY)
        n = snprintf(l.memory, sizeof l.memory, "ulimit -v is %llu KiB",
                     (unsigned long long)space >> 10);
    if (data != RLIM_INFINITY)
        (void)snprintf(l.memory + n, sizeof l.memory - (size_t)n, "%sulimit -d is %llu KiB",
                       n ? ", " : "", (unsigned long long)data >> 10);
    if (files != RLIM_INFINITY)
        (void)snprintf(l.files, sizeof l.files, "ulimit -n is %llu", (unsigned long long)files);
    err_limits_set(&l);
}

/* How many descriptors can be opened now, at most `most`. errno: why it is not `most`. */
static uint32_t openable(uint32_t most)
{
    int fd = most ? eventfd(0, EFD_CLOEXEC) : -1;
    if (fd < 0)
        return 0;
    uint32_t n = 1 + openable(most - 1);
    (void)close(fd);
    return n;
}

enum err ulimits_check_descriptors(uint32_t more, struct errmsg *e)
{
    uint32_t n = openable(more);
    int error = errno;
    if (n == more)
        return ERR_OK;
    if (error == EMFILE)
        return err_set(e, ERR_FILES, "too few file descriptors: raise ulimit -n to %llu or more",
                       (unsigned long long)limit_of(RLIMIT_NOFILE) + more - n);
    return err_set(e, err_of_errno(error), "%u file descriptors cannot be opened: %s", more,
                   strerror(error));
}
