/* Happy path: reserve (the first call makes the file and removes its name) -> write -> want, read... Failure modes:
 * the directory cannot be written, or is full: the job's keys are wrong for this machine (ERR_INPUT). A write fails
 * with EIO, a read fails or ends early, or gives other bytes: the disk fails (ERR_DISK). The kernel writes dirty pages back only when
 * it needs memory, so the file is never synced. */
#include "data/spill.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common/base/mem.h"
#include "common/process/cgroup.h"
#include "common/process/files.h"

/* by default, this part of the memory that the process can use */
enum { MIB = 1 << 20, MEMORY_PART = 4 };

struct spill {
    uint32_t refs;
    int fd; /* -1: nothing is spilled */
    char *folder;
    /* the limit of bytes in memory, and their present number */
    uint64_t budget_bytes, memory_bytes;
    uint32_t processes; /* that have one copy, and the limits of all of them; 0 or 1: this one */
    uint64_t file_bytes;
    int common_fd; /* -1: none; else it has the bytes before `common_bytes`, and the process's own file the others */
    uint64_t common_bytes; /* UINT64_MAX until spill_shared */
};

/* ---- faults ---- */

static struct fail_point fail = FAIL_POINT_NEVER;

void spill_fail_at(long n, int error)
{
    fail_point_set(&fail, n, error);
}

int spill_fail_fired(void)
{
    return fail_point_fired(&fail);
}

/* ---- life ---- */

enum err spill_new(struct spill **out, const struct job *job, struct errmsg *e)
{
    const char *tmp = getenv("TMPDIR");
    const char *folder = job->data.spill ? job->data.spill : tmp && *tmp ? tmp : "/tmp";
    struct spill *s = mem_zalloc(1, sizeof *s);
    if (!s)
        return err_memory(e);
    *s = (struct spill){.refs = 1, .fd = -1, .common_fd = -1, .folder = mem_strdup(folder)};
    s->budget_bytes = job->data.memory_mb ? (uint64_t)job->data.memory_mb * MIB
                                          : cgroup_memory_bytes() / MEMORY_PART;
    if (!s->folder) {
        spill_unref(s);
        return err_memory(e);
    }
    *out = s;
    return ERR_OK;
}

struct spill *spill_ref(struct spill *s)
{
    s->refs++;
    return s;
}

void spill_unref(struct spill *s)
{
    if (!s || --s->refs)
        return;
    assert(s->memory_bytes == 0); /* all that was taken is given back */
    if (s->fd >= 0)
        close(s->fd);
    mem_free(s->folder);
    mem_free(s);
}

/* ---- a common file ---- */

void spill_share(struct spill *s, uint32_t processes, int fd)
{
    assert(s->file_bytes == 0);
    s->processes = processes;
    if (__builtin_mul_overflow(s->budget_bytes, processes, &s->budget_bytes))
        s->budget_bytes = UINT64_MAX;
    s->common_fd = fd;
    s->common_bytes = fd < 0 ? 0 : UINT64_MAX;
}

void spill_shared(struct spill *s, uint64_t bytes)
{
    s->common_bytes = s->file_bytes = bytes;
}

uint64_t spill_bytes(const struct spill *s)
{
    return s->file_bytes;
}

/* The file that has the place *at, which becomes the place there. */
static int file_of(const struct spill *s, uint64_t *at)
{
    if (*at < s->common_bytes)
        return s->common_fd;
    *at -= s->common_bytes;
    return s->fd;
}

/* ---- room ---- */

bool spill_take_memory(struct spill *s, uint64_t bytes)
{
    if (bytes > s->budget_bytes - s->memory_bytes)
        return false;
    s->memory_bytes += bytes;
    assert(s->memory_bytes <= s->budget_bytes);
    return true;
}

uint64_t spill_left(const struct spill *s)
{
    return s->budget_bytes - s->memory_bytes;
}

void spill_give_memory(struct spill *s, uint64_t bytes)
{
    assert(bytes <= s->memory_bytes); /* not more than was taken */
    s->memory_bytes -= bytes;
}

static enum err write_code(int error)
{
    enum err err = err_of_errno(error);
    return err != ERR_IO ? err : error == EIO ? ERR_DISK : ERR_INPUT;
}

static enum err cannot_write(const struct spill *s, struct errmsg *e)
{
    enum err code = write_code(errno);
    if (code != ERR_INPUT)
        return err_set(e, code, "%s: rows cannot be written there (data.spill): %s", s->folder,
                       strerror(errno));
    return err_set(
        e, code,
        "%s: %s: rows beyond the %" PRIu64 " MiB of data.memory_mb%s go to a file there, %" PRIu64
        " MiB of them so far: set data.spill to a directory with more room, or raise "
        "data.memory_mb",
        s->folder, strerror(errno), s->budget_bytes / MIB,
        s->processes > 1 ? " of this host's processes" : "", (s->file_bytes + MIB - 1) / MIB);
}

static int make_file(const struct spill *s)
{
    char path[FILENAME_MAX];
    int n = snprintf(path, sizeof path, "%s/gradwire-rows-XXXXXX", s->folder);
    if (n < 0 || (size_t)n >= sizeof path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    int fd = fail_point_hit(&fail) ? -1 : mkostemp(path, O_CLOEXEC);
    if (fd >= 0)
        unlink(path);
    return fd;
}

enum err spill_reserve(struct spill *s, uint64_t bytes, uint64_t *at, struct errmsg *e)
{
    const bool own = s->file_bytes >= s->common_bytes;
    if (own && s->fd < 0)
        s->fd = make_file(s);
    if (own && s->fd < 0)
        return cannot_write(s, e);
    *at = s->file_bytes;
    s->file_bytes += bytes;
    return ERR_OK;
}

const char *spill_folder(const struct spill *s)
{
    return s->folder;
}

/* ---- reading and writing ---- */

enum err spill_write(struct spill *s, uint64_t at, const void *data, size_t bytes, struct errmsg *e)
{
    bool fails = bytes && fail_point_hit(&fail);
    const int fd = file_of(s, &at);
    return fails || files_put_at(fd, data, bytes, at) < bytes ? cannot_write(s, e) : ERR_OK;
}

static enum err cannot_read(const struct spill *s, const char *why, struct errmsg *e)
{
    return err_set(e, ERR_DISK,
                   "%s: rows that were written there (data.spill) cannot be read back: %s",
                   s->folder, why);
}

enum err spill_changed(const struct spill *s, struct errmsg *e)
{
    return cannot_read(s, "their checksum does not match, so the disk has changed them", e);
}

enum err spill_read(const struct spill *s, uint64_t at, void *data, size_t bytes, struct errmsg *e)
{
    const int fd = file_of(s, &at);
    ssize_t n = bytes && fail_point_hit(&fail) ? -1 : files_get_at(fd, data, bytes, at);
    if (n < 0)
        return cannot_read(s, strerror(errno), e);
    return (size_t)n == bytes ? ERR_OK : cannot_read(s, "the file ends before them", e);
}

/* False for a file system that cannot answer: prefetching would cost more than it could save. */
bool spill_waits(const struct spill *s, uint64_t at)
{
    char byte;
    struct iovec one = {&byte, 1};
    const int fd = file_of(s, &at);
    return preadv2(fd, &one, 1, (off_t)at, RWF_NOWAIT) < 0 && errno == EAGAIN;
}

void spill_want(const struct spill *s, uint64_t at, size_t bytes)
{
    const int fd = file_of(s, &at);
    (void)posix_fadvise(fd, (off_t)at, (off_t)bytes, POSIX_FADV_WILLNEED);
}
