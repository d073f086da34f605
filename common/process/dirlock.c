/* The lock is a flock, so it ends with its process. The pid in the file only tells others which process holds it. */
#include "common/process/dirlock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/process/files.h"
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

static enum err dirlock_path(char path[PATH_MAX], const char *dir, struct errmsg *e)
{
    int n = snprintf(path, PATH_MAX, "%s/" OUTPUT_LOCK, dir);
    if (n < 0 || n >= PATH_MAX)
        return err_set(e, ERR_IO, "%.200s...: the path is too long", dir);
    return ERR_OK;
}

enum err dirguard_begin(const char *dir, int lock_fd, struct errmsg *e)
{
    char path[PATH_MAX];
    enum err err = dirlock_path(path, dir, e);
    if (err)
        return err;
    int fd = lock_fd >= 0 ? fcntl(lock_fd, F_DUPFD_CLOEXEC, 3) : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && lock_fd >= 0)
        return err_set(e, err_of_errno(errno), "%s: its open descriptor %d: %s", path, lock_fd,
                       strerror(errno));
    pthread_mutex_lock(&guard.lock);
    files_close(&guard.fd);
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

enum { DIRLOCK_TRY_MS = 50 };

static pid_t dirlock_read_pid(int fd)
{
    char text[32] = "";
    ssize_t n = files_get_at(fd, text, sizeof text - 1, 0);
    return n > 0 ? (pid_t)strtol(text, NULL, 10) : 0;
}

static enum err dirlock_write_pid(int fd, const char *path, struct errmsg *e)
{
    char text[32];
    int n = snprintf(text, sizeof text, "%ld\n", (long)getpid());
    if (ftruncate(fd, 0) != 0 || files_put_at(fd, text, (size_t)n, 0) < (size_t)n)
        return files_write_error(path, e);
    /* hosts that share DIR over NFS read the pid, and compare the file's time with other files' times */
    (void)fsync(fd);
    return ERR_OK;
}

/* Is the open file still the one at `path`? `--fresh` can move the directory while we wait. */
static bool dirlock_is_at(int fd, const char *path)
{
    struct stat open_file, there;
    return fstat(fd, &open_file) == 0 && stat(path, &there) == 0 &&
           open_file.st_dev == there.st_dev && open_file.st_ino == there.st_ino;
}

/* Tries once. *fd is -1 if another process holds the lock; *holder is then its pid. */
static enum err dirlock_try(const char *dir, const char *path, int *fd, pid_t *holder,
                            struct errmsg *e)
{
    *fd = -1;
    enum err err = files_mkdirs(dir, e);
    if (err)
        return err;
    int file = open(path, O_RDWR | O_CREAT, 0666); /* no O_CLOEXEC: see the header */
    if (file < 0)
        return files_write_error(path, e);
    if (flock(file, LOCK_EX | LOCK_NB) != 0) {
        int why = errno;
        *holder = dirlock_read_pid(file);
        (void)close(file);
        return why == EWOULDBLOCK ? ERR_OK : err_set(e, ERR_IO, "%s: %s", path, strerror(why));
    }
    if (!dirlock_is_at(file, path)) {
        (void)close(file);
        return ERR_OK;
    }
    *fd = file;
    return dirlock_write_pid(file, path, e);
}

enum err dirlock_take(const char *dir, int *fd, void (*on_wait)(const char *dir, pid_t holder),
                      struct errmsg *e)
{
    char path[PATH_MAX];
    enum err err = dirlock_path(path, dir, e);
    if (err)
        return err;
    int64_t deadline_ms = clock_now_ms() + DIRLOCK_WAIT_S * 1000;
    bool said = false;
    for (;;) {
        pid_t holder = 0;
        int file;
        err = dirlock_try(dir, path, &file, &holder, e);
        if (err) {
            files_close(&file);
            return err;
        }
        if (file >= 0) {
            *fd = file;
            return ERR_OK;
        }
        if (clock_now_ms() >= deadline_ms)
            return err_set(e, ERR_TIMEOUT,
                           "%s is still locked by pid %ld after %d s: wait until that process has "
                           "ended, or use another directory",
                           dir, (long)holder, DIRLOCK_WAIT_S);
        if (!said && on_wait)
            on_wait(dir, holder);
        said = true;
        clock_sleep_ms(DIRLOCK_TRY_MS);
    }
}

/* Does process `pid` have the file `path` open? Checking the pid alone is not enough: another process may have it
 * by now. */
static bool dirlock_is_open_in(pid_t pid, const char *path)
{
    char folder[64], name[PATH_MAX];
    struct stat lock, other;
    (void)snprintf(folder, sizeof folder, "/proc/%ld/fd", (long)pid);
    DIR *d = stat(path, &lock) == 0 ? opendir(folder) : NULL;
    if (!d)
        return false;
    bool found = false;
    for (struct dirent *entry; !found && (entry = readdir(d));) {
        (void)snprintf(name, sizeof name, "%s/%s", folder, entry->d_name);
        found =
            stat(name, &other) == 0 && other.st_dev == lock.st_dev && other.st_ino == lock.st_ino;
    }
    (void)closedir(d);
    return found;
}

pid_t dirlock_holder(const char *dir, bool *ours)
{
    char path[PATH_MAX];
    if (ours)
        *ours = false;
    if (dirlock_path(path, dir, NULL))
        return 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    bool held = flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    pid_t pid = held ? dirlock_read_pid(fd) : 0;
    (void)close(fd);
    if (ours)
        *ours = pid > 0 && dirlock_is_open_in(pid, path);
    return pid;
}
