#include "worker/tensorboard/events_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/crc32c.h"
#include "common/base/mem.h"

enum { HEAD_BYTES = 12, TAIL_BYTES = 4, HOST_BYTES = 256, NAMES_MAX = 60, LOOK_BYTES = 4096 };

static const char PREFIX[] = "events.out.tfevents.";

uint32_t events_file_masked_crc(const void *data, size_t bytes)
{
    uint32_t crc = crc32c(0, data, bytes);
    return (crc >> 15 | crc << 17) + UINT32_C(0xa282ead8);
}

static void put_le(uint8_t *to, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        to[i] = (uint8_t)(value >> 8 * i);
}

/* Write all bytes, or on error none. */
static enum err write_all(struct events_file *f, const uint8_t *data, size_t bytes,
                          struct errmsg *e)
{
    size_t done = files_put(f->fd, data, bytes);
    if (done == bytes) {
        f->bytes += bytes;
        return ERR_OK;
    }
    enum err err = err_set(e, ERR_IO, "%s: %s", f->path, strerror(errno));
    if (done > 0 &&
        (ftruncate(f->fd, (off_t)f->bytes) != 0 || lseek(f->fd, (off_t)f->bytes, SEEK_SET) < 0))
        events_file_close(f); /* records after a torn one could not be read */
    return err;
}

enum err events_file_append(struct events_file *f, const Tensorboard__Event *event,
                            struct errmsg *e)
{
    size_t bytes = tensorboard__event__get_packed_size(event);
    uint8_t *record = mem_zalloc(HEAD_BYTES + bytes + TAIL_BYTES, 1);
    if (!record)
        return err_memory_of(e, f->path);
    put_le(record, bytes, 8);
    put_le(record + 8, events_file_masked_crc(record, 8), 4);
    tensorboard__event__pack(event, record + HEAD_BYTES);
    put_le(record + HEAD_BYTES + bytes, events_file_masked_crc(record + HEAD_BYTES, bytes), 4);
    enum err err = write_all(f, record, HEAD_BYTES + bytes + TAIL_BYTES, e);
    mem_free(record);
    return err;
}

/* A process that restarts within a second, with the same pid, uses the next second's name. */
static enum err create(struct events_file *f, const char *folder, const char *host, int64_t seconds,
                       struct errmsg *e)
{
    for (int64_t later = 0; f->fd < 0; later++) {
        int n = snprintf(f->path, sizeof f->path, "%s/%s%010" PRId64 ".%s.%ld", folder, PREFIX,
                         seconds + later, host, (long)getpid());
        if (n < 0 || (size_t)n >= sizeof f->path)
            return err_set(e, ERR_IO, "%.100s...: the path is too long", folder);
        f->fd = open(f->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (f->fd < 0 && (errno != EEXIST || later == NAMES_MAX))
            return files_write_error(f->path, e);
    }
    return ERR_OK;
}

enum err events_file_open(struct events_file *f, const char *folder, double wall_time,
                          struct errmsg *e)
{
    char host[HOST_BYTES] = "";
    *f = (struct events_file){.fd = -1};
    if (gethostname(host, sizeof host - 1) != 0 || !host[0])
        (void)snprintf(host, sizeof host, "localhost");
    enum err err = files_mkdirs(folder, e);
    if (err)
        return err;
    err = create(f, folder, host, (int64_t)wall_time, e);
    if (err)
        return err;
    Tensorboard__Event first = TENSORBOARD__EVENT__INIT;
    first.wall_time = wall_time;
    first.what_case = TENSORBOARD__EVENT__WHAT_FILE_VERSION;
    first.file_version = (char *)"brain.Event:2";
    err = events_file_append(f, &first, e);
    if (err)
        events_file_close(f);
    return err;
}

void events_file_close(struct events_file *f)
{
    if (f->fd >= 0)
        (void)close(f->fd);
    f->fd = -1;
}

static bool has_tag(const char *path, const char *tag)
{
    char begin[LOOK_BYTES];
    struct errmsg e;
    int fd;
    if (files_open(path, &fd, &e))
        return false;
    ssize_t bytes = files_get(fd, begin, sizeof begin);
    (void)close(fd);
    return bytes > 0 && memmem(begin, (size_t)bytes, tag, strlen(tag));
}

void events_file_replace(const struct events_file *f, const char *tag)
{
    const char *own = strrchr(f->path, '/') + 1;
    char path[FILES_PATH_MAX];
    int folder = (int)(own - f->path);
    (void)snprintf(path, sizeof path, "%.*s", folder, f->path);
    DIR *d = opendir(path);
    for (struct dirent *entry = d ? readdir(d) : NULL; entry; entry = readdir(d)) {
        int n = snprintf(path, sizeof path, "%.*s%s", folder, f->path, entry->d_name);
        if (strncmp(entry->d_name, PREFIX, sizeof PREFIX - 1) == 0 &&
            strcmp(entry->d_name, own) != 0 && n > 0 && (size_t)n < sizeof path &&
            has_tag(path, tag))
            (void)unlink(path);
    }
    if (d)
        (void)closedir(d);
}
