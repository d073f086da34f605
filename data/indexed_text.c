/* The text of a file that has an index: of a plain file any part, and of a compressed one from the last place before it. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "common/process/files.h"
#include "data/bytes/stream.h"
#include "data/core/text_index.h"
#include "data/readers.h"

int64_t indexed_text_modified_ns(const struct stat *s)
{
    return s->st_mtim.tv_sec * INT64_C(1000000000) + s->st_mtim.tv_nsec;
}

enum err indexed_text_same(int fd, uint64_t stored_bytes, int64_t modified_ns, struct errmsg *e)
{
    struct stat now;
    if (fstat(fd, &now) != 0)
        return err_set(e, err_of_errno(errno), "%s", strerror(errno));
    if ((uint64_t)now.st_size == stored_bytes && indexed_text_modified_ns(&now) == modified_ns)
        return ERR_OK;
    return err_set(e, ERR_INPUT,
                   "it changed while it was read: run again when nothing writes to it, or write to "
                   "another file and rename it");
}

enum err indexed_text_open(struct indexed_text *t, const struct text_index_file *of,
                           const char *path, struct errmsg *e)
{
    *t = (struct indexed_text){.of = of, .path = path};
    t->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (t->fd >= 0)
        return ERR_OK;
    return err_set(e, errno == ENOENT || errno == EACCES ? ERR_INPUT : err_of_errno(errno), "%s",
                   strerror(errno));
}

void indexed_text_close(struct indexed_text *t)
{
    stream_close(t->unpacked);
    files_close(&t->fd);
    t->unpacked = NULL;
}

static enum err refuse_short(struct errmsg *e)
{
    return err_set(e, ERR_INPUT, "it became shorter while it was read");
}

static enum err read_plain(const struct indexed_text *t, char *out, size_t bytes, uint64_t at,
                           struct errmsg *e)
{
    const ssize_t n = files_get_at(t->fd, out, bytes, at);
    if (n < 0)
        return err_set(e, err_of_errno(errno), "%s", strerror(errno));
    return (size_t)n == bytes ? ERR_OK : refuse_short(e);
}

enum err indexed_text_read(struct indexed_text *t, char *out, size_t bytes, uint64_t at,
                           struct errmsg *e)
{
    enum err err = ERR_OK;
    size_t got = 0;
    if (!t->of->compressed)
        return read_plain(t, out, bytes, at, e);
    if (t->unpacked && t->at != at) {
        stream_close(t->unpacked);
        t->unpacked = NULL;
    }
    if (!t->unpacked)
        err = stream_open_at(&t->unpacked, t->path, t->of->points, t->of->points_bytes, at, e);
    if (!err)
        err = stream_read(t->unpacked, out, bytes, &got, e);
    if (!err && got < bytes)
        err = refuse_short(e);
    t->at = at + bytes;
    return err;
}
