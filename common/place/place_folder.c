/* A place that is a folder. An object is a file, written under a temporary name (files.h); a name that appears is synced, with the
 * folders above it. To hold an object is a flock on its file, which ends with its holder: if the storage has no locks, nothing is
 * locked. */
#include "common/place/place.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/process/dirlock.h"

/* ---- writing ---- */

static enum err folder_begin(struct place_writer *w, struct errmsg *e)
{
    char folder[FILES_PATH_MAX];
    struct files_writer *file = mem_zalloc(1, sizeof *file);
    if (!file)
        return err_memory_of(e, w->path);
    (void)snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(w->path, '/') - w->path), w->path);
    enum err err = files_mkdirs(folder, e);
    if (!err)
        err = files_begin(file, w->path, e);
    if (err)
        mem_free(file);
    else
        w->object = file;
    return err;
}

static enum err folder_append(struct place_writer *w, const void *data, size_t bytes,
                              struct errmsg *e)
{
    return files_append(w->object, data, bytes, e);
}

/* The process that created the object's folder can have died before it synced the folder above. */
static enum err folder_commit(struct place_writer *w, struct errmsg *e)
{
    enum err err = strchr(w->name, '/') ? files_sync_folder(w->of->where, e) : ERR_OK;
    return err ? err : files_commit(w->object, e);
}

static void folder_abort(struct place_writer *w)
{
    files_abort(w->object);
    mem_free(w->object);
}

/* ---- reading ---- */

static enum err folder_open(struct place_reader *r, struct errmsg *e)
{
    struct stat is;
    enum err err = files_open(r->path, &r->fd, e);
    if (err)
        return err;
    if (fstat(r->fd, &is) != 0) {
        err = files_read_error(r->path, e);
        (void)close(r->fd);
    }
    r->bytes = (uint64_t)is.st_size;
    return err;
}

static enum err folder_read(struct place_reader *r, uint64_t at, void *out, size_t bytes,
                            size_t *got, struct errmsg *e)
{
    return files_read_at(r->fd, r->path, at, out, bytes, got, e);
}

static void folder_close(struct place_reader *r)
{
    (void)close(r->fd);
}

/* ---- what is there ---- */

static enum err folder_stat(const struct place *p, const char *name, int64_t *written_ms,
                            struct errmsg *e)
{
    char path[FILES_PATH_MAX];
    struct stat is;
    enum err err = place_path(p, name, path, e);
    if (err)
        return err;
    if (stat(path, &is) == 0) {
        *written_ms = (int64_t)is.st_mtim.tv_sec * 1000 + is.st_mtim.tv_nsec / 1000000;
        return ERR_OK;
    }
    if (errno == ENOENT || errno == ENOTDIR)
        return err_set(e, ERR_NOTFOUND, "%s: there is none", path);
    return files_read_error(path, e);
}

static enum err folder_list(const struct place *p, const char *folder, place_each *each, void *ctx,
                            struct errmsg *e)
{
    char path[FILES_PATH_MAX];
    enum err err = place_path(p, folder, path, e);
    DIR *dir = err ? NULL : opendir(path);
    if (!dir)
        return err || errno == ENOENT ? err : files_read_error(path, e);
    const struct dirent *one;
    while (!err && (errno = 0, one = readdir(dir)) != NULL) {
        const char *name = one->d_name;
        if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0 && each(ctx, name))
            err = err_memory_of(e, path);
    }
    if (!err && errno)
        err = files_read_error(path, e);
    (void)closedir(dir);
    return err;
}

/* Locks a file for removal. Returns the descriptor; -1: a reader holds it, or this process has no free descriptor to find out;
 * -2: it cannot be opened, so there is nothing to lock. */
static int lock_for_removal(const char *path)
{
    /* over NFS, an exclusive lock requires a file open for writing */
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return err_of_errno(errno) == ERR_IO ? -2 : -1;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)
        return fd;
    (void)close(fd);
    return -1;
}

static enum err folder_remove(const struct place *p, const char *name, struct errmsg *e)
{
    char path[FILES_PATH_MAX];
    enum err err = place_path(p, name, path, e);
    if (!err)
        err = dirguard_check(e);
    if (err)
        return err;
    int lock = lock_for_removal(path);
    if (lock == -1)
        return err_set(e, ERR_STATE, "%s: it is being read", path);
    bool removed = unlink(path) == 0;
    int why = errno;
    if (lock >= 0)
        (void)close(lock);
    if (!removed && why != ENOTDIR)
        return err_set(e, why == ENOENT ? ERR_NOTFOUND : ERR_IO, "%s: cannot be removed: %s", path,
                       strerror(why));
    *strrchr(path, '/') = '\0';
    return removed ? files_sync_folder(path, e) : err_set(e, ERR_IO, "%s: %s", path, strerror(why));
}

static void folder_clear(const struct place *p, const char *folder, bool leftovers)
{
    char path[FILES_PATH_MAX];
    if (place_path(p, folder, path, NULL) || dirguard_check(NULL))
        return;
    files_clean(path, leftovers);
    if (!leftovers && rmdir(path) != 0 && errno != ENOENT)
        log_warn("%s: cannot be removed: %s", path, strerror(errno));
}

static enum err folder_hold(const struct place *p, const char *name, int *hold, struct errmsg *e)
{
    char path[FILES_PATH_MAX];
    struct stat now;
    int fd = -1;
    enum err err = place_path(p, name, path, e);
    if (!err)
        err = files_open(path, &fd, e);
    if (err)
        return err;
    /* Waits while another process removes it. That process unlinks it before it releases its lock. */
    while (flock(fd, LOCK_SH) != 0 && errno == EINTR)
        ;
    if (fstat(fd, &now) != 0 || now.st_nlink == 0) {
        (void)close(fd);
        return err_set(e, ERR_NOTFOUND, "%s: it is being removed", path);
    }
    *hold = fd;
    return ERR_OK;
}

static const struct place_type folder_type = {
    .begin = folder_begin,
    .append = folder_append,
    .commit = folder_commit,
    .abort = folder_abort,
    .open = folder_open,
    .read = folder_read,
    .close = folder_close,
    .stat = folder_stat,
    .list = folder_list,
    .remove = folder_remove,
    .clear = folder_clear,
    .hold = folder_hold,
};

void place_folder(struct place *p, const char *in, const char *path)
{
    p->type = &folder_type;
    (void)snprintf(p->where, sizeof p->where, "%s%s%s", in ? in : "", in ? "/" : "", path);
}

void place_of_job(struct place *p, const char *output, const char *name)
{
    place_folder(p, output, name);
}
