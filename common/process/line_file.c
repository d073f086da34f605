/* Each call asks the guard of the directory first (dirlock.h), so nothing is written into another job's. An append ends a torn line
 * before it adds its own. */
#include "common/process/line_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "common/process/dirlock.h"
#include "common/process/files.h"

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
    const char *slash = strrchr(path, '/');
    size_t n = slash ? (size_t)(slash - path) : 1;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || n >= sizeof folder)
        return io_error(e, path);
    enum err err = fsync(fd) ? io_error(e, path) : ERR_OK;
    (void)close(fd);
    memcpy(folder, slash ? path : ".", n);
    folder[n] = '\0';
    return err ? err : files_sync_folder(folder[0] ? folder : "/", e);
}
