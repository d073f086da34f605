/* Texts about the limits, for errors that they cause; and a check that opens descriptors and closes them again, because other limits
 * than ulimit's count, too. */
#include "common/process/ulimits.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

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
