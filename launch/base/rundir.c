#include "launch/base/rundir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/process/dirlock.h"
#include "common/process/files.h"
#include "common/process/output.h"
#include "launch/base/say.h"

enum { RUNDIR_ASIDE_MAX = 100000 };

enum err rundir_file(const char *dir, const char *name, char out[PATH_MAX], struct errmsg *e)
{
    int n = snprintf(out, PATH_MAX, "%s/%s", dir, name);
    if (n < 0 || n >= PATH_MAX)
        return err_set(e, ERR_IO, "%.200s...: the path is too long", dir);
    return ERR_OK;
}

enum err rundir_put(const char *dir, const char *name, const void *data, size_t bytes,
                    struct errmsg *e)
{
    char path[PATH_MAX], partial[PATH_MAX + 1];
    enum err err = dirguard_check(e);
    if (!err)
        err = rundir_file(dir, name, path, e);
    if (err)
        return err;
    (void)snprintf(partial, sizeof partial, "%s~", path);
    int fd = open(partial, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        return err_set(e, ERR_IO, "%s: %s", partial, strerror(errno));
    bool wrote = files_put(fd, data, bytes) == bytes;
    wrote = close(fd) == 0 && wrote;
    if (!wrote || rename(partial, path) != 0)
        return err_set(e, ERR_IO, "%s: %s", path, strerror(errno));
    return ERR_OK;
}

static void rundir_on_wait(const char *dir, pid_t holder)
{
    say_warn("%s is locked by pid %ld; waiting up to %d s", dir, (long)holder, DIRLOCK_WAIT_S);
}

/* Write the mark by which `gradwire old --remove all` recognizes the directory. Without the mark it is kept unless the user
 * names its number. */
static void rundir_mark_aside(const char *path, const char *aside)
{
    char text[PATH_MAX + 1];
    struct errmsg e;
    int n = snprintf(text, sizeof text, "%s\n", path);
    if (rundir_put(aside, OUTPUT_ASIDE, text, (size_t)n, &e))
        say_warn("%s", e.text);
}

/* Rename DIR to the first free DIR.N. */
static enum err rundir_move_aside(const char *path, struct errmsg *e)
{
    char aside[PATH_MAX];
    for (int i = 1; i < RUNDIR_ASIDE_MAX; i++) {
        int n = snprintf(aside, sizeof aside, "%s.%d", path, i);
        if (n < 0 || (size_t)n >= sizeof aside)
            return err_set(e, ERR_IO, "%.200s...: the path is too long", path);
        struct stat there;
        if (lstat(aside, &there) == 0)
            continue;
        if (rename(path, aside) != 0)
            return err_set(e, ERR_IO, "cannot rename %s to %s: %s", path, aside, strerror(errno));
        rundir_mark_aside(path, aside);
        say_info("moved %s to %s", path, aside);
        return ERR_OK;
    }
    return err_set(e, ERR_IO, "--fresh: %s.1 to %s.%d all exist; remove some of them", path, path,
                   RUNDIR_ASIDE_MAX - 1);
}

/* True: the directory has other files than the lock. A directory that cannot be read counts as one with files. */
static bool rundir_has_files(const char *path)
{
    DIR *d = opendir(path);
    bool any = !d;
    for (struct dirent *entry; d && !any && (entry = readdir(d)) != NULL;)
        any = strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
              strcmp(entry->d_name, OUTPUT_LOCK) != 0;
    if (d)
        (void)closedir(d);
    return any;
}

/* Move DIR aside. Its lock moves with it, so the new DIR gets a new lock. */
static enum err rundir_renew(struct rundir *r, struct errmsg *e)
{
    int old = r->lock_fd;
    r->lock_fd = -1;
    enum err err = rundir_move_aside(r->path, e);
    if (!err)
        err = dirlock_take(r->path, &r->lock_fd, rundir_on_wait, e);
    (void)close(old);
    return err;
}

static enum err rundir_set_path(struct rundir *r, const char *path, struct errmsg *e)
{
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    if (n >= sizeof r->path - NAME_MAX)
        return err_set(e, ERR_IO, "%.200s...: the path is too long", path);
    memcpy(r->path, path, n);
    r->path[n] = 0;
    return ERR_OK;
}

static enum err rundir_put_launcher(const struct rundir *r, struct errmsg *e)
{
    char text[32];
    int n = snprintf(text, sizeof text, "%ld\n", (long)getpid());
    return rundir_put(r->path, OUTPUT_LAUNCHER, text, (size_t)n, e);
}

static enum err rundir_prepare(struct rundir *r, struct errmsg *e)
{
    char file[PATH_MAX], before[PATH_MAX];
    enum err err = rundir_file(r->path, OUTPUT_PROCESSES, file, e);
    if (!err)
        err = files_mkdirs(file, e);
    if (!err)
        err = rundir_put_launcher(r, e);
    if (!err)
        err = rundir_file(r->path, OUTPUT_SUMMARY, file, e);
    if (!err)
        err = rundir_file(r->path, OUTPUT_SUMMARY_BEFORE, before, e);
    if (err)
        return err;
    if (unlink(before) != 0 && errno != ENOENT)
        return err_set(e, ERR_IO, "%s: %s", before, strerror(errno));
    if (rename(file, before) != 0 && errno != ENOENT)
        return err_set(e, ERR_IO, "%s: %s", file, strerror(errno));
    return ERR_OK;
}

enum err rundir_make(const char *path, struct errmsg *e)
{
    struct errmsg why = {""};
    if (!files_mkdirs(path, &why))
        return ERR_OK;
    return err_set(e, ERR_INPUT, "--output %.200s: cannot create this directory: %s", path,
                   why.text);
}

enum err rundir_open(struct rundir *r, const char *path, bool fresh, struct errmsg *e)
{
    r->lock_fd = -1;
    enum err err = rundir_set_path(r, path, e);
    if (err)
        return err;
    err = dirlock_take(r->path, &r->lock_fd, rundir_on_wait, e);
    if (!err && fresh && rundir_has_files(r->path))
        err = rundir_renew(r, e);
    if (!err)
        err = dirguard_begin(r->path, r->lock_fd, e);
    if (!err)
        err = rundir_prepare(r, e);
    if (err)
        rundir_close(r);
    return err;
}

void rundir_close(struct rundir *r)
{
    files_close(&r->lock_fd);
}
