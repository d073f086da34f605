#include "worker/data/bytes/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zlib.h>
#include <zstd.h>

#include "common/base/mem.h"
#include "worker/data/bytes/zip_member.h"

enum { STREAM_BUFFER_BYTES = 128 << 10 };

struct stream {
    uint64_t file_bytes, read_bytes; /* size on disk; bytes decompressed so far */
    struct zip_member *zip;          /* NULL: not a zip member */
    gzFile gz;                       /* for gzip and plain files, or NULL; it owns the descriptor */
    /* for zstd */
    int fd;
    ZSTD_DStream *zstd;
    uint64_t filled_bytes; /* compressed bytes that were read into the buffer */
    uint8_t *buffer;       /* STREAM_BUFFER_BYTES of compressed bytes */
    ZSTD_inBuffer in;
    size_t open_frame; /* 0 between frames */
};

static enum err open_error(int error, struct errmsg *e)
{
    int named_wrong = error == ENOENT || error == EACCES || error == ENOTDIR || error == ELOOP ||
                      error == ENAMETOOLONG;
    return err_set(e, named_wrong ? ERR_INPUT : err_of_errno(error), "%s", strerror(error));
}

static enum err open_stdin(int *fd, uint64_t *bytes, struct errmsg *e)
{
    int f = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0);
    if (f < 0)
        return open_error(errno, e);
    *fd = f;
    *bytes = 0;
    return ERR_OK;
}

static enum err open_file(int *fd, uint64_t *bytes, const char *path, struct errmsg *e)
{
    struct stat st;
    if (strcmp(path, STREAM_STDIN) == 0)
        return open_stdin(fd, bytes, e);
    int f = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not block here */
    if (f < 0)
        return open_error(errno, e);
    int error = fstat(f, &st) != 0 ? errno : 0;
    if (error || !S_ISREG(st.st_mode)) {
        close(f);
        return error ? open_error(error, e) : err_set(e, ERR_INPUT, "not a regular file");
    }
    *fd = f;
    *bytes = (uint64_t)st.st_size;
    return ERR_OK;
}

enum { MAGIC_BYTES = 10 };

/* A zstd frame, or a skippable one (RFC 8878, 3.1). */
static int is_zstd(const uint8_t head[static MAGIC_BYTES])
{
    uint32_t magic; /* little-endian, like all supported machines */
    memcpy(&magic, head, sizeof magic);
    return magic == ZSTD_MAGICNUMBER || (magic & 0xFFFFFFF0U) == ZSTD_MAGIC_SKIPPABLE_START;
}

/* The .xz file format 1.1.0, 2.1.1.1; bzip2: "BZh", the block's size, and the magic of a block, or of the end. */
static enum err refuse_others(const uint8_t head[static MAGIC_BYTES], struct errmsg *e)
{
    static const char xz[] = "\xFD"
                             "7zXZ",
                      bzip2[] = "BZh", block[] = "1AY&SY", end[] = "\x17\x72\x45\x38\x50\x90";
    const char *name = NULL;
    if (memcmp(head, xz, sizeof xz) == 0) /* includes its NUL */
        name = "xz";
    else if (memcmp(head, bzip2, 3) == 0 &&
             (memcmp(head + 4, block, 6) == 0 || memcmp(head + 4, end, 6) == 0))
        name = "bzip2";
    if (!name)
        return ERR_OK;
    return err_set(e, ERR_INPUT,
                   "it is compressed by %s, which is not read; decompress it, or compress it "
                   "again by zstd or gzip: %s FILE | zstd > FILE.zst",
                   name, *name == 'x' ? "xzcat" : "bzcat");
}

static enum err open_gzip(struct stream *s, int fd)
{
    s->gz = gzdopen(fd, "rb");
    if (!s->gz) {
        close(fd);
        return ERR_NOMEM;
    }
    (void)gzbuffer(s->gz, STREAM_BUFFER_BYTES);
    return ERR_OK;
}

static enum err open_zstd(struct stream *s, int fd)
{
    s->fd = fd;
    s->zstd = ZSTD_createDStream();
    s->buffer = mem_zalloc(STREAM_BUFFER_BYTES, 1);
    s->in = (ZSTD_inBuffer){s->buffer, 0, 0};
    return s->zstd && s->buffer ? ERR_OK : ERR_NOMEM;
}

enum err stream_open(struct stream **out, const char *path, struct errmsg *e)
{
    int fd = -1;
    uint64_t bytes = 0;
    uint8_t head[MAGIC_BYTES] = {0};
    enum err err = open_file(&fd, &bytes, path, e);
    if (err)
        return err_wrap(e, err, "%s: ", path);
    /* an error here will occur again when the file is read */
    (void)!pread(fd, head, sizeof head, 0);
    err = refuse_others(head, e);
    if (err) {
        close(fd);
        return err_wrap(e, err, "%s: ", path);
    }
    struct stream *s = mem_zalloc(1, sizeof *s);
    if (!s) {
        close(fd);
        return err_set(e, ERR_NOMEM, "%s: out of memory", path);
    }
    s->fd = -1;
    s->file_bytes = bytes;
    err = is_zstd(head) ? open_zstd(s, fd) : open_gzip(s, fd);
    if (err) {
        stream_close(s);
        return err_set(e, err, "%s: out of memory", path);
    }
    *out = s;
    return ERR_OK;
}

enum err stream_open_member(struct stream **out, const char *path, const char *member,
                            struct errmsg *e)
{
    struct stream *s = mem_zalloc(1, sizeof *s);
    if (!s)
        return err_set(e, ERR_NOMEM, "%s: out of memory", path);
    s->fd = -1;
    enum err err = zip_member_open(&s->zip, path, member, e);
    if (err)
        stream_close(s);
    else
        *out = s;
    return err;
}

void stream_close(struct stream *s)
{
    if (!s)
        return;
    if (s->zip)
        zip_member_close(s->zip);
    if (s->gz)
        (void)gzclose_r(s->gz);
    if (s->fd >= 0)
        close(s->fd);
    ZSTD_freeDStream(s->zstd);
    mem_free(s->buffer);
    mem_free(s);
}

int stream_is_compressed(const struct stream *s)
{
    return s->zip ? zip_member_is_packed(s->zip) : s->zstd || !gzdirect(s->gz);
}

uint64_t stream_bound_bytes(const struct stream *s)
{
    /* zlib's manual: at most 1032:1. zstd: a block of 128 KiB takes at least 4 bytes (RFC
     * 8878, 3.1.1.2). */
    enum { GZIP_RATIO = 1032, ZSTD_RATIO = (128 << 10) / 4 };
    if (s->zip)
        return zip_member_bound_bytes(s->zip);
    uint64_t ratio = s->zstd ? ZSTD_RATIO : stream_is_compressed(s) ? GZIP_RATIO : 1;
    return s->file_bytes > UINT64_MAX / ratio ? UINT64_MAX : s->file_bytes * ratio;
}

/* Compressed bytes used so far. */
static uint64_t used_bytes(const struct stream *s)
{
    return s->zstd ? s->filled_bytes - (s->in.size - s->in.pos) : (uint64_t)gzoffset(s->gz);
}

uint64_t stream_likely_bytes(const struct stream *s)
{
    if (s->zip)
        return zip_member_bound_bytes(s->zip);
    uint64_t used = used_bytes(s);
    if (!stream_is_compressed(s) || used == 0)
        return s->file_bytes;
    return (uint64_t)((double)s->read_bytes * ((double)s->file_bytes / (double)used));
}

static enum err ends_early(const struct stream *s, const char *format, struct errmsg *e)
{
    return err_set(e, ERR_INPUT, "the %s data ends early, after %llu decompressed bytes", format,
                   (unsigned long long)s->read_bytes);
}

static enum err gzip_error(struct stream *s, struct errmsg *e)
{
    int code;
    const char *text = gzerror(s->gz, &code);
    switch (code) {
    case Z_OK:
    case Z_STREAM_END:
        return ERR_OK;
    case Z_BUF_ERROR:
        return ends_early(s, "gzip", e);
    case Z_ERRNO:
        return err_set(e, ERR_IO, "%s", strerror(errno));
    case Z_MEM_ERROR:
        return err_set(e, ERR_NOMEM, "out of memory");
    default: {
        /* zlib's name of the file, "<fd:5>", comes before it */
        const char *colon = strstr(text, ": ");
        return err_set(e, ERR_INPUT, "the gzip data is corrupt after %llu decompressed bytes: %s",
                       (unsigned long long)s->read_bytes, colon ? colon + 2 : text);
    }
    }
}

static enum err gzip_read(struct stream *s, uint8_t *out, size_t bytes, size_t *got,
                          struct errmsg *e)
{
    size_t done = 0;
    while (done < bytes) {
        size_t left = bytes - done;
        int n = gzread(s->gz, out + done, left > INT_MAX ? INT_MAX : (unsigned)left);
        if (n <= 0)
            break;
        done += (size_t)n;
        s->read_bytes += (uint64_t)n;
    }
    enum err err = done < bytes ? gzip_error(s, e) : ERR_OK;
    if (!err)
        *got = done;
    return err;
}

/* Refill the buffer of compressed bytes; s->in.size stays 0 at the end of the file. */
static enum err zstd_fill(struct stream *s, struct errmsg *e)
{
    ssize_t n;
    do
        n = read(s->fd, s->buffer, STREAM_BUFFER_BYTES);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return err_set(e, ERR_IO, "%s", strerror(errno));
    s->in.size = (size_t)n;
    s->in.pos = 0;
    s->filled_bytes += (uint64_t)n;
    return ERR_OK;
}

static enum err zstd_step(struct stream *s, ZSTD_outBuffer *out, struct errmsg *e)
{
    size_t before = out->pos;
    size_t left = ZSTD_decompressStream(s->zstd, out, &s->in);
    if (ZSTD_isError(left))
        return err_set(e, ERR_INPUT, "the zstd data is corrupt after %llu decompressed bytes: %s",
                       (unsigned long long)s->read_bytes, ZSTD_getErrorName(left));
    s->open_frame = left;
    s->read_bytes += out->pos - before;
    return ERR_OK;
}

static enum err zstd_read(struct stream *s, uint8_t *to, size_t bytes, size_t *got,
                          struct errmsg *e)
{
    ZSTD_outBuffer out = {to, bytes, 0};
    while (out.pos < out.size) {
        size_t before = out.pos;
        enum err err = s->in.pos == s->in.size ? zstd_fill(s, e) : ERR_OK;
        if (err)
            return err;
        int end = s->in.size == 0;
        if (end && s->open_frame == 0)
            break;
        err = zstd_step(s, &out, e); /* at the end of the file: flush the decoder */
        if (err)
            return err;
        if (end && out.pos == before && s->open_frame != 0)
            return ends_early(s, "zstd", e);
    }
    *got = out.pos;
    return ERR_OK;
}

enum err stream_read(struct stream *s, void *out, size_t bytes, size_t *got, struct errmsg *e)
{
    if (s->zip)
        return zip_member_read(s->zip, out, bytes, got, e);
    return s->zstd ? zstd_read(s, out, bytes, got, e) : gzip_read(s, out, bytes, got, e);
}
