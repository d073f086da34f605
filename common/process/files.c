/* Normal sequence: begin (open a temporary name), append (write), commit (fsync, close, rename, fsync of the
 * directory).
 * Failures:
 * - A step fails: the temporary file is removed, and the error names the final path.
 * - The process is killed between begin and commit: a file with FILES_TEMPORARY in its name stays; no reader opens
 *   it.
 * - The directory's fsync fails: the new name may not survive a power cut, so the new file is removed again. If it has
 *   replaced an older file, it stays, because a complete file is better than none. */
#include "common/process/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/process/dirlock.h"

static struct fail_point fail = FAIL_POINT_NEVER, fail_read = FAIL_POINT_NEVER;
static volatile sig_atomic_t interrupted;

void files_interrupt(void)
{
    interrupted = 1;
}

void files_fail_at(long n, int error)
{
    fail_point_set(&fail, n, error);
}

int files_fail_fired(void)
{
    return fail_point_fired(&fail);
}

void files_fail_read_at(long n, int error)
{
    fail_point_set(&fail_read, n, error);
}

int files_fail_read_fired(void)
{
    return fail_point_fired(&fail_read);
}

/* ---- complete reads and writes ---- */

/* A place of AT_POSITION: the file's position. */
#define AT_POSITION UINT64_MAX

static ssize_t read_fully(int fd, char *out, size_t bytes, uint64_t at)
{
    size_t have = 0;
    ssize_t n = 1;
    while (have < bytes && n != 0) {
        n = at == AT_POSITION ? read(fd, out + have, bytes - have)
                              : pread(fd, out + have, bytes - have, (off_t)(at + have));
        if (n < 0 && errno != EINTR)
            return -1;
        have += n > 0 ? (size_t)n : 0;
    }
    return (ssize_t)have;
}

static size_t write_fully(int fd, const char *data, size_t bytes, uint64_t at)
{
    size_t done = 0;
    while (done < bytes) {
        ssize_t n = at == AT_POSITION ? write(fd, data + done, bytes - done)
                                      : pwrite(fd, data + done, bytes - done, (off_t)(at + done));
        if (n == 0)
            errno = ENOSPC;
        if (n == 0 || (n < 0 && errno != EINTR))
            break;
        done += n > 0 ? (size_t)n : 0;
    }
    return done;
}

ssize_t files_get(int fd, void *out, size_t bytes)
{
    return read_fully(fd, out, bytes, AT_POSITION);
}

ssize_t files_get_at(int fd, void *out, size_t bytes, uint64_t at)
{
    return read_fully(fd, out, bytes, at);
}

size_t files_put(int fd, const void *data, size_t bytes)
{
    return write_fully(fd, data, bytes, AT_POSITION);
}

size_t files_put_at(int fd, const void *data, size_t bytes, uint64_t at)
{
    return write_fully(fd, data, bytes, at);
}

/* ---- errors ---- */

enum err files_read_error(const char *path, struct errmsg *e)
{
    int error = errno;
    return err_set(e, error == ENOENT ? ERR_NOTFOUND : err_of_errno(error), "%s: %s", path,
                   strerror(error));
}

static void folder_of(const char *path, char folder[FILES_PATH_MAX])
{
    const char *slash = strrchr(path, '/');
    size_t n = !slash ? 0 : slash == path ? 1 : (size_t)(slash - path);
    memcpy(folder, path, n);
    if (n == 0)
        folder[n++] = '.';
    folder[n] = 0;
}

enum err files_write_error(const char *path, struct errmsg *e)
{
    char folder[FILES_PATH_MAX];
    int error = errno;
    if ((error != EACCES && error != EROFS) || strlen(path) >= sizeof folder)
        return err_set(e, err_of_errno(error), "%s: %s", path, strerror(error));
    folder_of(path, folder);
    if (error == EROFS)
        return err_set(e, ERR_IO,
                       "%s: Read-only file system: %s must be writable; in a pod, mount a volume "
                       "there without readOnly",
                       path, folder);
    return err_set(e, ERR_IO,
                   "%s: Permission denied: this process (user %u, group %u) cannot write to %s; "
                   "give it that directory, or in a pod set securityContext.fsGroup",
                   path, geteuid(), getegid(), folder);
}

/* Errors name `path`. */
static enum err sync_folder(const char *folder, const char *path, struct errmsg *e)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return files_write_error(path, e);
    enum err err = ERR_OK;
    /* Some file systems have no fsync of directories; nothing more can be done there. */
    if ((fail_point_hit(&fail) || fsync(fd) != 0) && errno != EINVAL && errno != EBADF)
        err = files_write_error(path, e);
    close(fd);
    return err;
}

enum err files_sync_folder(const char *folder, struct errmsg *e)
{
    return sync_folder(folder, folder, e);
}

/* Chooses a random name, so that no other writer of the same path has it, on this host or another. */
static enum err name_temporary(char temporary[FILES_PATH_MAX], const char *path, struct errmsg *e)
{
    uint64_t nonce;
    if (getentropy(&nonce, sizeof nonce) != 0)
        return files_write_error(path, e);
    int n = snprintf(temporary, FILES_PATH_MAX, "%s" FILES_TEMPORARY "%016llx", path,
                     (unsigned long long)nonce);
    if (n < 0 || n >= FILES_PATH_MAX)
        return err_set(e, ERR_IO, "%.64s...: the path is too long", path);
    return ERR_OK;
}

enum err files_begin_folder(const char *path, char temporary[FILES_PATH_MAX], struct errmsg *e)
{
    enum err err = dirguard_check(e);
    if (!err)
        err = name_temporary(temporary, path, e);
    if (!err && mkdir(temporary, 0777) != 0)
        err = files_write_error(path, e);
    return err;
}

enum err files_begin(struct files_writer *w, const char *path, struct errmsg *e)
{
    w->fd = -1;
    w->bytes = 0;
    enum err err = dirguard_check(e);
    if (!err)
        err = name_temporary(w->temporary, path, e);
    if (err)
        return err;
    (void)snprintf(w->path, sizeof w->path, "%s", path); /* it is shorter than w->temporary */
    if (fail_point_hit(&fail) ||
        (w->fd = open(w->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666)) < 0)
        return files_write_error(path, e);
    return ERR_OK;
}

enum err files_append(struct files_writer *w, const void *data, size_t bytes, struct errmsg *e)
{
    if (bytes == 0)
        return ERR_OK;
    if (interrupted)
        return err_set(e, ERR_IO, "%s: interrupted", w->path);
    if (fail_point_hit(&fail) || files_put(w->fd, data, bytes) < bytes)
        return files_write_error(w->path, e);
    w->bytes += bytes;
    return ERR_OK;
}

void files_abort(struct files_writer *w)
{
    if (w->fd < 0)
        return;
    close(w->fd);
    unlink(w->temporary);
    w->fd = -1;
}

/* fsync, close, rename. *replaced: a file of that name existed. On error the temporary file is removed. */
static enum err put_in_place(struct files_writer *w, bool *replaced, struct errmsg *e)
{
    bool synced = !fail_point_hit(&fail) && fsync(w->fd) == 0;
    if (!synced) {
        enum err err = files_write_error(w->path, e);
        files_abort(w);
        return err;
    }
    *replaced = access(w->path, F_OK) == 0;
    bool closed = close(w->fd) == 0;
    w->fd = -1;
    if (closed && !fail_point_hit(&fail) && rename(w->temporary, w->path) == 0)
        return ERR_OK;
    enum err err = files_write_error(w->path, e);
    unlink(w->temporary);
    return err;
}

enum err files_commit(struct files_writer *w, struct errmsg *e)
{
    bool replaced = false;
    if (interrupted) {
        files_abort(w);
        return err_set(e, ERR_IO, "%s: interrupted", w->path);
    }
    enum err err = dirguard_check(e);
    if (err) {
        files_abort(w);
        return err;
    }
    err = put_in_place(w, &replaced, e);
    if (err)
        return err;
    char folder[FILES_PATH_MAX];
    folder_of(w->path, folder);
    err = sync_folder(folder, w->path, e);
    if (err && !replaced)
        unlink(w->path);
    return err;
}

enum err files_write(const char *path, const void *data, size_t bytes, struct errmsg *e)
{
    struct files_writer w;
    enum err err = files_begin(&w, path, e);
    if (err)
        return err;
    err = files_append(&w, data, bytes, e);
    if (err) {
        files_abort(&w);
        return err;
    }
    return files_commit(&w, e);
}

enum err files_write_json(const char *path, json_t *take, size_t flags, struct errmsg *e)
{
    char *text = take ? json_dumps(take, flags) : NULL;
    json_decref(take);
    if (!text)
        return err_memory_of(e, path);
    size_t bytes = strlen(text);
    text[bytes] = '\n'; /* overwrites the NUL; the file is written by length */
    enum err err = files_write(path, text, bytes + 1, e);
    free(text);
    return err;
}

/* Reads fd to its end into *data, which has `room` bytes and grows. The size from stat is no help: a pipe or a
 * file in /proc has none. */
static enum err read_all(int fd, const char *path, size_t max, uint8_t **data, size_t room,
                         size_t *bytes, struct errmsg *e)
{
    size_t have = 0;
    for (;;) {
        ssize_t n = fail_point_hit(&fail_read) ? -1 : files_get(fd, *data + have, room - have);
        if (n < 0)
            return files_read_error(path, e);
        have += (size_t)n;
        if (have > max)
            return err_set(e, ERR_TOOBIG, "%s: longer than %zu bytes", path, max);
        if (have < room)
            break;
        size_t more = room < max / 2 ? room * 2 : max + 1;
        uint8_t *p = mem_resize(*data, more + 1, 1);
        if (!p)
            return err_memory_of(e, path);
        *data = p;
        room = more;
    }
    (*data)[have] = 0;
    *bytes = have;
    return ERR_OK;
}

enum err files_read_at(int fd, const char *path, uint64_t at, void *out, size_t bytes, size_t *got,
                       struct errmsg *e)
{
    ssize_t n = bytes && fail_point_hit(&fail_read) ? -1 : files_get_at(fd, out, bytes, at);
    if (n < 0)
        return files_read_error(path, e);
    *got = (size_t)n;
    return ERR_OK;
}

enum err files_write_at(int fd, const char *path, uint64_t at, const void *data, size_t bytes,
                        struct errmsg *e)
{
    return files_put_at(fd, data, bytes, at) < bytes ? files_write_error(path, e) : ERR_OK;
}

void files_close(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
    *fd = -1;
}

enum err files_open(const char *path, int *out, struct errmsg *e)
{
    struct stat st;
    int fd = fail_point_hit(&fail_read) ? -1 : open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return files_read_error(path, e);
    enum err err = ERR_OK;
    if (fstat(fd, &st) != 0)
        err = files_read_error(path, e);
    else if (!S_ISREG(st.st_mode))
        err = err_set(e, ERR_IO, "%s: it is not a regular file", path);
    if (err)
        close(fd);
    else
        *out = fd;
    return err;
}

bool files_may_be(const char *path)
{
    return access(path, F_OK) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

static enum err read_whole(int fd, const char *path, size_t max, uint8_t **data, size_t *bytes,
                           struct errmsg *e)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return files_read_error(path, e);
    if (S_ISREG(st.st_mode) && (uint64_t)st.st_size > max)
        return err_set(e, ERR_TOOBIG, "%s: longer than %zu bytes", path, max);
    size_t room = S_ISREG(st.st_mode) ? (size_t)st.st_size + 1 : max < 4096 ? max + 1 : 4096;
    uint8_t *buffer = mem_resize(NULL, room + 1, 1);
    if (!buffer)
        return err_memory_of(e, path);
    enum err err = read_all(fd, path, max, &buffer, room, bytes, e);
    if (err)
        mem_free(buffer);
    else
        *data = buffer;
    return err;
}

enum err files_read(const char *path, size_t max, uint8_t **data, size_t *bytes, struct errmsg *e)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return files_read_error(path, e);
    enum err err = read_whole(fd, path, max, data, bytes, e);
    close(fd);
    return err;
}

enum err files_read_regular(const char *path, size_t max, uint8_t **data, size_t *bytes,
                            struct errmsg *e)
{
    int fd = -1;
    enum err err = files_open(path, &fd, e);
    if (err)
        return err;
    err = read_whole(fd, path, max, data, bytes, e);
    close(fd);
    return err;
}

static int remove_found(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st;
    (void)type;
    (void)at;
    return remove(path);
}

/* `path`: of a file, or with `folders` of a directory with all that is in it. */
static void remove_entry(const char *path, bool folders)
{
    enum { OPEN_FOLDERS = 8 };
    int failed = unlink(path);
    if (failed && folders && (errno == EISDIR || errno == EPERM))
        failed = nftw(path, remove_found, OPEN_FOLDERS, FTW_DEPTH | FTW_PHYS);
    if (failed && errno != ENOENT)
        log_warn("%s: cannot be removed: %s", path, strerror(errno));
}

void files_clean(const char *folder, bool temporary_only)
{
    DIR *d = opendir(folder);
    if (!d) {
        if (errno != ENOENT)
            log_warn("%s: the directory cannot be read to remove old files: %s", folder,
                     strerror(errno));
        return;
    }
    struct dirent *entry;
    while ((entry = readdir(d)) != NULL) {
        bool self = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
        if (self || (temporary_only && !strstr(entry->d_name, FILES_TEMPORARY)))
            continue;
        char path[FILES_PATH_MAX];
        int n = snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (n > 0 && (size_t)n < sizeof path)
            remove_entry(path, temporary_only);
    }
    closedir(d);
}

static bool is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static enum err make_folder(const char *path, struct errmsg *e)
{
    if (is_folder(path))
        return ERR_OK;
    if (mkdir(path, 0777) != 0) {
        int error = errno;
        if (error == EEXIST && is_folder(path)) /* another process created it first */
            return ERR_OK;
        errno = error == EEXIST ? ENOTDIR : error;
        return files_write_error(path, e);
    }
    char parent[FILES_PATH_MAX];
    folder_of(path, parent);
    return files_sync_folder(parent, e);
}

enum err files_mkdirs(const char *path, struct errmsg *e)
{
    char part[FILES_PATH_MAX];
    size_t n = strlen(path);
    enum err guarded = dirguard_check(e);
    if (guarded)
        return guarded;
    if (n == 0 || n >= sizeof part)
        return err_set(e, ERR_IO, "%.64s: the path is %s", path, n ? "too long" : "empty");
    memcpy(part, path, n + 1);
    while (n > 1 && part[n - 1] == '/')
        part[--n] = 0;
    for (size_t i = 1; i < n; i++) {
        if (part[i] != '/')
            continue;
        part[i] = 0;
        enum err err = make_folder(part, e);
        if (err)
            return err;
        part[i] = '/';
    }
    return make_folder(part, e);
}

enum err files_remove_folder(const char *folder, struct errmsg *e)
{
    char path[FILES_PATH_MAX];
    enum err err = dirguard_check(e);
    DIR *dir = err ? NULL : opendir(folder);
    if (!dir)
        return err || errno == ENOENT ? err : files_read_error(folder, e);
    for (struct dirent *one = readdir(dir); one && !err; one = readdir(dir)) {
        if (strcmp(one->d_name, ".") == 0 || strcmp(one->d_name, "..") == 0)
            continue;
        int n = snprintf(path, sizeof path, "%s/%s", folder, one->d_name);
        if (n < 0 || (size_t)n >= sizeof path || (unlink(path) && errno != ENOENT))
            err = err_set(e, ERR_IO, "%s/%s: %s", folder, one->d_name, strerror(errno));
    }
    (void)closedir(dir);
    if (!err && rmdir(folder) && errno != ENOENT)
        err = err_set(e, ERR_IO, "%s: %s", folder, strerror(errno));
    return err;
}

/* Each call asks the guard of the directory first (dirlock.h), so nothing is written into another job's. An append ends a torn line
 * before it adds its own. */

static enum err io_error(struct errmsg *e, const char *path)
{
    return err_set(e, err_of_errno(errno), "%s: %s", path, strerror(errno));
}

static bool is_torn(int fd)
{
    char last = '\n';
    off_t bytes = lseek(fd, 0, SEEK_END);
    return bytes != 0 &&
           (bytes < 0 || files_get_at(fd, &last, 1, (uint64_t)bytes - 1) != 1 || last != '\n');
}

/* Returns the bytes of the complete lines among these; -1: see errno. */
static off_t complete(int fd, off_t bytes)
{
    for (char last; bytes > 0; bytes--) {
        if (files_get_at(fd, &last, 1, (uint64_t)bytes - 1) != 1)
            return -1;
        if (last == '\n')
            break;
    }
    return bytes;
}

enum err line_file_cut_torn(const char *path, struct errmsg *e)
{
    enum err err = dirguard_check(e);
    if (err)
        return err;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? ERR_OK : io_error(e, path);
    off_t bytes = lseek(fd, 0, SEEK_END), whole = complete(fd, bytes);
    if (whole < 0 || (whole < bytes && ftruncate(fd, whole)))
        err = io_error(e, path);
    (void)close(fd);
    return err;
}

enum err line_file_append(const char *path, const char *lines, size_t bytes, struct errmsg *e)
{
    enum err err = dirguard_check(e);
    if (err)
        return err;
    int fd = open(path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0)
        return io_error(e, path);
    if ((is_torn(fd) && files_put(fd, "\n", 1) < 1) || files_put(fd, lines, bytes) < bytes)
        err = io_error(e, path);
    if (close(fd) && !err)
        err = io_error(e, path);
    return err;
}

enum err line_file_sync(const char *path, struct errmsg *e)
{
    char folder[FILES_PATH_MAX];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return io_error(e, path);
    enum err err = fsync(fd) ? io_error(e, path) : ERR_OK;
    (void)close(fd);
    folder_of(path, folder);
    return err ? err : files_sync_folder(folder, e);
}
