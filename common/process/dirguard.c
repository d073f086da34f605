/* Compares the open file DIR/lock with the file at its path. A directory that seems to be missing is tried again, because shared
 * storage can hide it for a moment. */
#include "common/process/dirguard.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/process/dirlock.h"
#include "common/process/output.h"

/* Storage that hosts share may show a directory as missing for a moment. */
enum { DIRGUARD_AGAIN_MS = 200 };

struct dirguard {
    pthread_mutex_t lock;
    int fd; /* DIR/lock; -1: nothing is guarded */
    bool lost;
    char dir[PATH_MAX], path[PATH_MAX];
};

static struct dirguard guard = {.lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1};

enum err dirguard_begin(const char *dir, int lock_fd, struct errmsg *e)
{
    char path[PATH_MAX];
    int n = snprintf(path, sizeof path, "%s/" OUTPUT_LOCK, dir);
    if (n < 0 || n >= PATH_MAX)
        return err_set(e, ERR_IO, "%.200s...: the path is too long", dir);
    int fd = lock_fd >= 0 ? fcntl(lock_fd, F_DUPFD_CLOEXEC, 3) : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && lock_fd >= 0)
        return err_set(e, err_of_errno(errno), "%s: its open descriptor %d: %s", path, lock_fd,
                       strerror(errno));
    pthread_mutex_lock(&guard.lock);
    if (guard.fd >= 0)
        (void)close(guard.fd);
    guard.fd = fd;
    guard.lost = false;
    (void)snprintf(guard.dir, sizeof guard.dir, "%s", dir);
    (void)snprintf(guard.path, sizeof guard.path, "%s", path);
    pthread_mutex_unlock(&guard.lock);
    return ERR_OK;
}

/* True: no file, or another one, is at the path. */
static bool is_gone(void)
{
    struct stat held, there;
    if (fstat(guard.fd, &held) != 0)
        return false;
    if (stat(guard.path, &there) != 0)
        return errno == ENOENT || errno == ENOTDIR;
    return held.st_dev != there.st_dev || held.st_ino != there.st_ino;
}

enum err dirguard_check(struct errmsg *e)
{
    pthread_mutex_lock(&guard.lock);
    if (guard.fd >= 0 && !guard.lost && is_gone()) {
        clock_sleep_ms(DIRGUARD_AGAIN_MS);
        guard.lost = is_gone();
    }
    bool lost = guard.lost;
    pthread_mutex_unlock(&guard.lock);
    if (!lost)
        return ERR_OK;
    char by[48] = "";
    pid_t pid = dirlock_holder(guard.dir, NULL);
    if (pid)
        (void)snprintf(by, sizeof by, "; pid %ld has locked it now", (long)pid);
    return err_set(
        e, ERR_STATE,
        "%.300s was removed or replaced: its lock is not the file that this job holds, so "
        "this job ends%s",
        guard.dir, by);
}
