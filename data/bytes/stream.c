#include "data/bytes/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <zip.h>
#include <sys/stat.h>

#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "common/base/texts.h"
#include "common/process/process_state.h"
#include "common/base/mem.h"
#include "common/base/printable.h"
#include "common/process/files.h"

struct zip_member {
    zip_t *zip;
    zip_file_t *file;
    bool packed;
    uint64_t size_bytes, bound_bytes, read_bytes;
};

static const char SUFFIX[] = ".npy";

/* ---- the whole file is one archive ---- */

/* The end of an archive (APPNOTE 4.3.14 to 4.3.16). */
enum { END_BYTES = 22, END64_BYTES = 56, LOCATOR_BYTES = 20, COMMENT_MAX = UINT16_MAX };

static uint64_t little(const uint8_t *at, size_t bytes)
{
    uint64_t n = 0;
    while (bytes-- > 0)
        n = n << 8 | at[bytes];
    return n;
}

static bool has_record(int fd, uint8_t *record, size_t bytes, uint64_t at, const char *magic)
{
    return at <= INT64_MAX && files_get_at(fd, record, bytes, at) == (ssize_t)bytes &&
           memcmp(record, magic, 4) == 0;
}

/* The place of the last end record, and the one after its comment. False: there is none. */
static bool find_end(int fd, uint64_t file_bytes, uint64_t *at, uint64_t *after)
{
    uint8_t r[END_BYTES];
    uint64_t least =
        file_bytes > END_BYTES + COMMENT_MAX ? file_bytes - END_BYTES - COMMENT_MAX : 0;
    for (uint64_t place = file_bytes; place >= least + END_BYTES; place--) {
        if (!has_record(fd, r, sizeof r, place - END_BYTES, "PK\5\6"))
            continue;
        *at = place - END_BYTES;
        *after = place + little(r + 20, 2);
        return *after <= file_bytes;
    }
    return false;
}

static bool begins_as_archive(int fd)
{
    uint8_t head[4] = {0};
    return files_get_at(fd, head, sizeof head, 0) == (ssize_t)sizeof head && head[0] == 'P' &&
           head[1] == 'K' && ((head[2] == 3 && head[3] == 4) || (head[2] == 5 && head[3] == 6));
}

bool zip_is_archive(const char *path)
{
    struct stat st;
    uint64_t at, after;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return false;
    bool is = begins_as_archive(fd);
    if (!is && (text_ends(path, ".npz") || text_ends(path, ".keras")))
        is = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
             find_end(fd, (uint64_t)st.st_size, &at, &after);
    (void)close(fd);
    return is;
}

/* The place at which the list of members ends, as the end record at `at` counts: from the archive's beginning. *ends: that place
 * in the file. */
static uint64_t end_of_list(int fd, uint64_t at, uint64_t *ends)
{
    uint8_t r[END_BYTES], locator[LOCATOR_BYTES], r64[END64_BYTES];
    *ends = at;
    if (at >= LOCATOR_BYTES &&
        has_record(fd, locator, sizeof locator, at - LOCATOR_BYTES, "PK\6\7") &&
        has_record(fd, r64, sizeof r64, little(locator + 8, 8), "PK\6\6")) {
        *ends = little(locator + 8, 8);
        return little(r64 + 40, 8) + little(r64 + 48, 8);
    }
    return has_record(fd, r, sizeof r, at, "PK\5\6") ? little(r + 12, 4) + little(r + 16, 4) : 0;
}

/* Other programs read the last of several archives, and libzip the first. */
static enum err check_whole(const char *path, uint64_t file_bytes, struct errmsg *e)
{
    uint64_t at = 0, after = 0, ends = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_set(e, ERR_INPUT, "%s: %s", path, strerror(errno));
    bool found = find_end(fd, file_bytes, &at, &after);
    uint64_t list = found ? end_of_list(fd, at, &ends) : 0;
    (void)close(fd);
    if (!found)
        return err_set(e, ERR_INPUT, "%s: not a zip archive, or its end is missing", path);
    if (after < file_bytes)
        return err_set(e, ERR_INPUT,
                       "%s: the zip archive ends at offset %llu, and %llu bytes follow: write each "
                       "archive to a file of its own",
                       path, (unsigned long long)after, (unsigned long long)(file_bytes - after));
    if (list > ends)
        return err_set(e, ERR_INPUT,
                       "%s: the zip archive is damaged: its list of members is not in it", path);
    if (list < ends)
        return err_set(e, ERR_INPUT,
                       "%s: the zip archive does not begin at the file's beginning, but at offset "
                       "%llu: write it to a file of its own",
                       path, (unsigned long long)(ends - list));
    return ERR_OK;
}

static enum err open_archive(zip_t **zip, uint64_t *bytes, const char *path, struct errmsg *e)
{
    struct stat st;
    int code = 0;
    if (stat(path, &st) != 0)
        return err_set(e, errno == EIO ? ERR_IO : ERR_INPUT, "%s: %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return err_set(e, ERR_INPUT, "%s: not a regular file", path);
    *bytes = (uint64_t)st.st_size;
    enum err err = check_whole(path, *bytes, e);
    if (err)
        return err;
    *zip = zip_open(path, ZIP_RDONLY, &code);
    if (*zip)
        return ERR_OK;
    zip_error_t why;
    zip_error_init_with_code(&why, code);
    err = err_set(e, code == ZIP_ER_MEMORY ? ERR_NOMEM : ERR_INPUT, "%s: %s", path,
                  code == ZIP_ER_NOZIP ? "not a zip archive, or its end is missing"
                                       : zip_error_strerror(&why));
    zip_error_fini(&why);
    return err;
}

/* ---- names ---- */

/* The name without ".npy", as messages may show it. */
static void plain_name(char out[ZIP_MEMBER_NAME_MAX], const char *name)
{
    size_t suffix = text_ends(name, SUFFIX) ? sizeof SUFFIX - 1 : 0;
    (void)printable_copy(out, ZIP_MEMBER_NAME_MAX, name, strlen(name) - suffix);
}

static enum err read_names(zip_t *zip, const char *path, char (*names)[ZIP_MEMBER_NAME_MAX],
                           size_t n, struct errmsg *e)
{
    for (size_t i = 0; i < n; i++) {
        const char *name = zip_get_name(zip, i, ZIP_FL_ENC_RAW);
        if (!name || strlen(name) >= ZIP_MEMBER_NAME_MAX)
            return err_set(e, ERR_INPUT, "%s: the name of member %zu cannot be read", path, i);
        plain_name(names[i], name);
    }
    return ERR_OK;
}

enum err zip_members(const char *path, char (**names)[ZIP_MEMBER_NAME_MAX], size_t *n,
                     struct errmsg *e)
{
    zip_t *zip;
    uint64_t bytes;
    enum err err = open_archive(&zip, &bytes, path, e);
    if (err)
        return err;
    zip_int64_t entries = zip_get_num_entries(zip, 0);
    if (entries < 0 || entries > ZIP_MEMBERS_MAX) {
        zip_discard(zip);
        return err_set(e, ERR_INPUT, "%s: it has %lld members, %d are allowed", path,
                       (long long)entries, ZIP_MEMBERS_MAX);
    }
    char(*list)[ZIP_MEMBER_NAME_MAX] = mem_zalloc((size_t)entries + 1, sizeof *list);
    err = list ? read_names(zip, path, list, (size_t)entries, e) : err_memory_of(e, path);
    zip_discard(zip);
    if (err) {
        mem_free(list);
        return err;
    }
    *names = list;
    *n = (size_t)entries;
    return ERR_OK;
}

/* ---- one member ---- */

static zip_int64_t locate(zip_t *zip, const char *name)
{
    char full[ZIP_MEMBER_NAME_MAX + sizeof SUFFIX];
    (void)snprintf(full, sizeof full, "%s%s", name, SUFFIX);
    zip_int64_t at = zip_name_locate(zip, full, ZIP_FL_ENC_RAW);
    return at >= 0 ? at : zip_name_locate(zip, name, ZIP_FL_ENC_RAW);
}

/* Other programs take the last one, and libzip the first. */
static bool is_twice(zip_t *zip, zip_int64_t at)
{
    zip_int64_t n = zip_get_num_entries(zip, 0);
    const char *name = zip_get_name(zip, (zip_uint64_t)at, ZIP_FL_ENC_RAW);
    for (zip_int64_t i = 0; name && i < n; i++) {
        const char *other = zip_get_name(zip, (zip_uint64_t)i, ZIP_FL_ENC_RAW);
        if (i != at && other && strcmp(other, name) == 0)
            return true;
    }
    return false;
}

/* "x, y" */
static enum err name_missing(const char *path, const char *name, struct errmsg *e)
{
    char(*names)[ZIP_MEMBER_NAME_MAX], list[200] = "";
    size_t n, at = 0;
    enum err err = zip_members(path, &names, &n, e);
    if (err)
        return err;
    for (size_t i = 0; i < n && at < sizeof list; i++)
        at += (size_t)snprintf(list + at, sizeof list - at, "%s%s", i ? ", " : "", names[i]);
    mem_free(names);
    return err_set(e, ERR_INPUT, "%s: it has no array %.64s; it has %s", path, name,
                   n ? list : "none");
}

static uint64_t bound_of(const zip_stat_t *st, uint64_t archive_bytes)
{
    enum { DEFLATE_RATIO = 1032 /* zlib's manual: the largest ratio */ };
    uint64_t packed = st->comp_size < archive_bytes ? st->comp_size : archive_bytes;
    uint64_t ratio = st->comp_method == ZIP_CM_STORE ? 1 : DEFLATE_RATIO;
    uint64_t bound = packed > UINT64_MAX / ratio ? UINT64_MAX : packed * ratio;
    return bound < st->size ? bound : st->size;
}

static enum err check_stat(const zip_stat_t *st, const char *path, const char *name,
                           struct errmsg *e)
{
    zip_uint64_t wanted = ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD;
    if ((st->valid & wanted) != wanted)
        return err_set(e, ERR_INPUT, "%s: the size of %s cannot be read", path, name);
    if (st->comp_method != ZIP_CM_STORE && st->comp_method != ZIP_CM_DEFLATE)
        return err_set(e, ERR_INPUT,
                       "%s: %s is packed by zip's method %u, which is not read: save it again by "
                       "numpy.savez or savez_compressed",
                       path, name, st->comp_method);
    return ERR_OK;
}

static enum err open_member(struct zip_member *m, const char *path, const char *name,
                            struct errmsg *e)
{
    uint64_t archive_bytes;
    zip_stat_t st;
    enum err err = open_archive(&m->zip, &archive_bytes, path, e);
    if (err)
        return err;
    zip_int64_t at = locate(m->zip, name);
    if (at < 0)
        return name_missing(path, name, e);
    if (is_twice(m->zip, at))
        return err_set(e, ERR_INPUT, "%s: it has two members %s", path, name);
    zip_stat_init(&st);
    if (zip_stat_index(m->zip, (zip_uint64_t)at, 0, &st) != 0)
        return err_set(e, ERR_INPUT, "%s: %s: %s", path, name, zip_strerror(m->zip));
    err = check_stat(&st, path, name, e);
    if (err)
        return err;
    m->packed = st.comp_method != ZIP_CM_STORE;
    m->size_bytes = st.size;
    m->bound_bytes = bound_of(&st, archive_bytes);
    m->file = zip_fopen_index(m->zip, (zip_uint64_t)at, 0);
    return m->file ? ERR_OK : err_set(e, ERR_INPUT, "%s: %s: %s", path, name, zip_strerror(m->zip));
}

enum err zip_member_open(struct zip_member **out, const char *path, const char *name,
                         struct errmsg *e)
{
    struct zip_member *m = mem_zalloc(1, sizeof *m);
    if (!m)
        return err_memory_of(e, path);
    enum err err = open_member(m, path, name, e);
    if (err)
        zip_member_close(m);
    else
        *out = m;
    return err;
}

static enum err inflate_some(struct zip_member *m, void *out, size_t bytes, size_t *got,
                             struct errmsg *e)
{
    zip_int64_t n = zip_fread(m->file, out, bytes);
    if (n < 0)
        return err_set(e, ERR_INPUT, "the zip data is corrupt after %llu bytes: %s",
                       (unsigned long long)m->read_bytes, zip_file_strerror(m->file));
    m->read_bytes += (uint64_t)n;
    *got = (size_t)n;
    return ERR_OK;
}

enum err zip_member_read(struct zip_member *m, void *out, size_t bytes, size_t *got,
                         struct errmsg *e)
{
    size_t done = 0, n = 1;
    enum err err = ERR_OK;
    for (; done < bytes && n && !err; done += n)
        err = inflate_some(m, (uint8_t *)out + done, bytes - done, &n, e);
    /* libzip compares the checksum when it is asked for what follows the last byte */
    uint8_t more;
    if (!err && n && m->read_bytes == m->size_bytes)
        err = inflate_some(m, &more, 1, &n, e);
    if (!err && m->read_bytes > m->size_bytes)
        err =
            err_set(e, ERR_INPUT, "the zip data has more than the %llu bytes that its header says",
                    (unsigned long long)m->size_bytes);
    if (!err)
        *got = done;
    return err;
}

uint64_t zip_member_bound_bytes(const struct zip_member *m)
{
    return m->bound_bytes;
}

static bool zip_member_is_packed(const struct zip_member *m)
{
    return m->packed;
}

void zip_member_close(struct zip_member *m)
{
    if (m->file)
        (void)zip_fclose(m->file);
    if (m->zip)
        zip_discard(m->zip);
    mem_free(m);
}

enum { STREAM_BUFFER_BYTES = 128 << 10 };

enum packing { PACKING_NONE, PACKING_GZIP, PACKING_ZSTD };

static const char *const packing_names[] = {"", "gzip", "zstd"};

struct stream {
    uint64_t file_bytes, read_bytes; /* size on disk; bytes decompressed so far, or before them */
    struct zip_member *zip;          /* NULL: not a zip member */
    int fd;             /* of a zip member: of its archive, which zip reads by itself */
    struct stat opened; /* of fd, when it was opened */
    enum packing packing;
    uint64_t filled_bytes; /* bytes of the file that were read into the buffer */
    uint8_t *buffer;       /* STREAM_BUFFER_BYTES; those from `at` to `held` are not used yet */
    size_t at, held;
    bool ended;            /* the file has no more bytes than the buffer */
    bool within;           /* a member of gzip, or a frame of zstd, has begun and has not ended */
    bool gz_ready, gz_raw; /* gz_raw: it was entered within a member, whose checksum is unknown */
    z_stream gz;
    ZSTD_DStream *zstd;
    /* read_bytes at the end of this frame of zstd, by its header; UINT64_MAX: it does not say */
    uint64_t frame_ends_at;
    uint64_t began_at;            /* read_bytes where the frame, or the member, began */
    struct stream_points *points; /* NULL: none are noted */
    uint64_t point_at;            /* read_bytes at the last one */
    uint64_t every_bytes;         /* of the text, between two of them within members */
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

/* A reader that is halfway has rows of both contents if the file changes. */
static enum err check_unchanged(const struct stream *s, struct errmsg *e)
{
    const struct stat *then = &s->opened;
    struct stat now;
    if (!S_ISREG(then->st_mode))
        return ERR_OK;
    if (fstat(s->fd, &now) != 0)
        return open_error(errno, e);
    if (now.st_size == then->st_size && now.st_mtim.tv_sec == then->st_mtim.tv_sec &&
        now.st_mtim.tv_nsec == then->st_mtim.tv_nsec)
        return ERR_OK;
    return err_set(e, ERR_INPUT,
                   "it changed while it was read: run again when nothing writes to it, or write to "
                   "another file and rename it");
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
        if (error)
            return open_error(error, e);
        return S_ISDIR(st.st_mode)
                   ? err_set(e, ERR_INPUT, "it is a directory: name its files, as in DIR/*.csv")
                   : err_set(e, ERR_INPUT,
                             "not a regular file; gradwire predict, evaluate and encode read "
                             "stdin if the data is named -");
    }
    *fd = f;
    *bytes = (uint64_t)st.st_size;
    return ERR_OK;
}

/* ---- bytes of the file ---- */

/* One read(): *got is 0 at the end of the file alone. */
static enum err read_some(struct stream *s, uint8_t *to, size_t bytes, size_t *got,
                          struct errmsg *e)
{
    ssize_t n;
    do
        n = read(s->fd, to, bytes);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return err_set(e, ERR_IO, "%s", strerror(errno));
    s->ended = n == 0;
    s->filled_bytes += (uint64_t)n;
    loading_read((uint64_t)n);
    *got = (size_t)n;
    return ERR_OK;
}

/* Get `bytes` unused bytes into the buffer, or all that the file still has. */
static enum err fill(struct stream *s, size_t bytes, struct errmsg *e)
{
    enum err err = ERR_OK;
    if (s->at + bytes > STREAM_BUFFER_BYTES || s->at == s->held) {
        memmove(s->buffer, s->buffer + s->at, s->held - s->at);
        s->held -= s->at;
        s->at = 0;
    }
    while (!err && s->held - s->at < bytes && !s->ended) {
        size_t got = 0;
        err = read_some(s, s->buffer + s->held, STREAM_BUFFER_BYTES - s->held, &got, e);
        s->held += got;
    }
    return err;
}

/* Where the first unused byte is in the file. */
static uint64_t used_bytes(const struct stream *s)
{
    return s->filled_bytes - (s->held - s->at);
}

/* ---- formats ---- */

enum {
    MAGIC_BYTES = 10,
    HEAD_BYTES = 18
}; /* a frame of zstd has the longest head (RFC 8878, 3.1.1.1) */

/* The format that begins at the first unused byte; "" for another, or for none. */
static const char *format_here(const struct stream *s)
{
    static const char xz[] = "\xFD"
                             "7zXZ",
                      bzip2[] = "BZh", block[] = "1AY&SY", end[] = "\x17\x72\x45\x38\x50\x90";
    uint8_t head[MAGIC_BYTES] = {0};
    size_t n = s->held - s->at;
    memcpy(head, s->buffer + s->at, n < sizeof head ? n : sizeof head);
    uint32_t magic; /* little-endian, like all supported machines */
    memcpy(&magic, head, sizeof magic);
    if (head[0] == 0x1F && head[1] == 0x8B) /* RFC 1952, 2.3.1 */
        return "gzip";
    /* a frame, or a skippable one (RFC 8878, 3.1) */
    if (magic == ZSTD_MAGICNUMBER || (magic & 0xFFFFFFF0U) == ZSTD_MAGIC_SKIPPABLE_START)
        return "zstd";
    /* the .xz file format 1.1.0, 2.1.1.1; with its NUL */
    if (memcmp(head, xz, sizeof xz) == 0)
        return "xz";
    /* "BZh", the block's size, and the magic of a block, or of the end */
    if (memcmp(head, bzip2, 3) == 0 &&
        (memcmp(head + 4, block, 6) == 0 || memcmp(head + 4, end, 6) == 0))
        return "bzip2";
    return "";
}

/* The file is named as gzip or zstd, and begins as if it were, except for one byte, or it ends within the first ones: it is
 * damaged. Other content is read as it is, whatever the name says. NULL: it is not so. */
static const char *damaged_format(const struct stream *s, const char *path)
{
    static const struct {
        const char *ending, *format, *first;
    } packings[] = {{".gz", "gzip", "\x1F\x8B\b"}, {".zst", "zstd", "\x28\xB5\x2F\xFD"}};
    const size_t there = s->held - s->at, length = strlen(path);
    for (size_t i = 0; i < sizeof packings / sizeof *packings; i++) {
        size_t ending = strlen(packings[i].ending), n = strlen(packings[i].first), same = 0;
        for (size_t k = 0; k < n && k < there; k++)
            same += s->buffer[s->at + k] == (uint8_t)packings[i].first[k];
        if (length > ending && strcmp(path + length - ending, packings[i].ending) == 0 &&
            (there < n ? same == there : same + 1 >= n))
            return packings[i].format;
    }
    return NULL;
}

static enum err recognize(struct stream *s, const char *path, struct errmsg *e)
{
    const char *format = format_here(s), *damaged = *format ? NULL : damaged_format(s, path);
    if (strcmp(format, "gzip") == 0)
        s->packing = PACKING_GZIP;
    else if (strcmp(format, "zstd") == 0)
        s->packing = PACKING_ZSTD;
    else if (*format)
        return err_set(e, ERR_INPUT,
                       "it is compressed by %s, which is not read; decompress it, or compress it "
                       "again by zstd or gzip: %s FILE | zstd > FILE.zst",
                       format, *format == 'x' ? "xzcat" : "bzcat");
    else if (damaged)
        return err_set(e, ERR_INPUT,
                       s->held == s->at
                           ? "it is empty, which no file of %s is: check its download, or what "
                             "wrote it"
                           : "its first bytes are almost those of %s, as its name says: it is "
                             "damaged",
                       damaged);
    return ERR_OK;
}

enum { GZIP_WINDOW_BITS = 15 + 16 }; /* 16: with the header and the end of gzip, no others */

static enum err open_packed(struct stream *s, struct errmsg *e)
{
    if (s->packing == PACKING_GZIP)
        s->gz_ready = inflateInit2(&s->gz, GZIP_WINDOW_BITS) == Z_OK;
    else if (s->packing == PACKING_ZSTD)
        s->zstd = ZSTD_createDStream();
    return s->packing == PACKING_NONE || s->gz_ready || s->zstd ? ERR_OK : err_memory(e);
}

/* ---- places to begin at ---- */

enum {
    POINT_BYTES = 1 << 20, /* of text between two of them, at least */
    WINDOW_BYTES = 32 << 10,
    WINDOW_LEVEL = 3, /* of zstd */
    SHORT_BYTES =
        128 << 10,    /* a shorter member, as bgzip writes them, is entered where it begins */
    TRAILER_BYTES = 8 /* of a member: its checksum and its size */
};

/* A member or a frame begins there, or a block of a member. As bytes, its window follows it: the last 32 KiB of the text before it, which
 * the block refers to, compressed by zstd. */
struct point {
    uint64_t at, in; /* bytes of the text, and of the file, before it */
    uint32_t bits; /* the block begins with so many bits of the byte before it, the highest ones */
    uint32_t window_bytes; /* as compressed; 0: no block begins there */
};

void stream_note_points(struct stream *s, struct stream_points *to, uint64_t every_bytes)
{
    s->points = to;
    s->every_bytes = every_bytes < POINT_BYTES ? POINT_BYTES : every_bytes;
}

static enum err note_point(struct stream *s, uint32_t bits, const uint8_t *window, size_t bytes,
                           struct errmsg *e)
{
    struct point point = {.at = s->read_bytes, .in = used_bytes(s), .bits = bits};
    const size_t most = bytes ? ZSTD_compressBound(bytes) : 0;
    struct stream_points *p = s->points;
    uint8_t *data = mem_grow(p->data, &p->capacity, p->bytes + sizeof point + most, 1);
    if (!data)
        return err_memory_for(e, "the places in a compressed file");
    p->data = data;
    data += p->bytes;
    const size_t packed =
        bytes ? ZSTD_compress(data + sizeof point, most, window, bytes, WINDOW_LEVEL) : 0;
    if (ZSTD_isError(packed))
        return err_memory(e);
    point.window_bytes = (uint32_t)packed;
    memcpy(data, &point, sizeof point);
    p->bytes += sizeof point + packed;
    s->point_at = s->read_bytes;
    return ERR_OK;
}

/* Between blocks of a member. */
static enum err note_block(struct stream *s, struct errmsg *e)
{
    enum { BITS = 7, LAST = 64, BETWEEN = 128 }; /* of data_type (zlib's manual: inflate) */
    uint8_t window[WINDOW_BYTES];
    unsigned bytes = 0;
    if ((s->gz.data_type & (LAST | BETWEEN)) != BETWEEN ||
        s->read_bytes - s->point_at < s->every_bytes || s->read_bytes - s->began_at < SHORT_BYTES)
        return ERR_OK;
    (void)inflateGetDictionary(&s->gz, window, &bytes);
    return bytes ? note_point(s, s->gz.data_type & BITS, window, bytes, e) : ERR_OK;
}

/* The last one before the byte `at` of the text, and where its window is; none: the file's beginning. */
static const uint8_t *find_point(struct point *found, const uint8_t *points, size_t bytes,
                                 uint64_t at)
{
    const uint8_t *window = NULL;
    struct point next;
    *found = (struct point){0};
    while (bytes >= sizeof next) {
        memcpy(&next, points, sizeof next);
        if (next.at > at || next.window_bytes > bytes - sizeof next)
            break;
        *found = next;
        window = points + sizeof next;
        points = window + next.window_bytes;
        bytes -= sizeof next + next.window_bytes;
    }
    return window;
}

/* ---- opening ---- */

static enum err ends_early(const struct stream *s, struct errmsg *e)
{
    return err_set(e, ERR_INPUT, "the %s data ends early, after %llu decompressed bytes",
                   packing_names[s->packing], (unsigned long long)s->read_bytes);
}

/* Decompression begins at a block. */
static enum err enter_member(struct stream *s, const struct point *p, const uint8_t *window,
                             struct errmsg *e)
{
    uint8_t before[WINDOW_BYTES];
    const size_t bytes = ZSTD_decompress(before, sizeof before, window, p->window_bytes);
    if (ZSTD_isError(bytes) || p->bits >= CHAR_BIT)
        return err_set(e, ERR_CORRUPT, "a place in the gzip data is damaged");
    if (s->at == s->held)
        return ends_early(s, e);
    int code = inflateReset2(&s->gz, -MAX_WBITS);
    if (code == Z_OK && p->bits)
        code = inflatePrime(&s->gz, (int)p->bits, s->buffer[s->at++] >> (CHAR_BIT - (int)p->bits));
    if (code == Z_OK)
        code = inflateSetDictionary(&s->gz, before, (unsigned)bytes);
    s->within = s->gz_raw = true;
    return code == Z_OK ? ERR_OK : err_memory(e);
}

static enum err open_stream(struct stream *s, const char *path, const struct point *p,
                            const uint8_t *window, struct errmsg *e)
{
    s->buffer = mem_zalloc(STREAM_BUFFER_BYTES, 1);
    if (!s->buffer)
        return err_memory(e);
    enum err err = open_file(&s->fd, &s->file_bytes, path, e);
    if (!err && fstat(s->fd, &s->opened) != 0)
        err = open_error(errno, e);
    s->read_bytes = p->at;
    s->filled_bytes = p->in - (p->bits > 0);
    if (!err && p->in && lseek(s->fd, (off_t)s->filled_bytes, SEEK_SET) < 0)
        err = open_error(errno, e);
    if (!err)
        err = fill(s, HEAD_BYTES, e);
    if (p->window_bytes)
        s->packing = PACKING_GZIP;
    else if (!err)
        err = recognize(s, path, e);
    if (!err)
        err = open_packed(s, e);
    return err || !p->window_bytes ? err : enter_member(s, p, window, e);
}

static enum err open_at_point(struct stream **out, const char *path, const struct point *p,
                              const uint8_t *window, struct errmsg *e)
{
    struct stream *s = mem_zalloc(1, sizeof *s);
    if (!s)
        return err_memory(e);
    s->fd = -1;
    const enum err err = open_stream(s, path, p, window, e);
    if (err)
        stream_close(s);
    else
        *out = s;
    return err;
}

enum err stream_open(struct stream **out, const char *path, struct errmsg *e)
{
    const struct point beginning = {0};
    const enum err err = open_at_point(out, path, &beginning, NULL, e);
    return err ? err_wrap(e, err, "%s: ", path) : ERR_OK;
}

enum err stream_open_at(struct stream **out, const char *path, const uint8_t *points,
                        size_t points_bytes, uint64_t at, struct errmsg *e)
{
    struct point p;
    const uint8_t *window = find_point(&p, points, points_bytes, at);
    uint8_t before[WINDOW_BYTES];
    struct stream *s;
    size_t got = 1;
    enum err err = open_at_point(&s, path, &p, window, e);
    if (err)
        return err;
    while (!err && got && s->read_bytes < at) {
        const uint64_t left = at - s->read_bytes;
        err = stream_read(s, before, left < sizeof before ? (size_t)left : sizeof before, &got, e);
    }
    if (!err && s->read_bytes < at)
        err = ends_early(s, e);
    if (err)
        stream_close(s);
    else
        *out = s;
    return err;
}

enum err stream_open_member(struct stream **out, const char *path, const char *member,
                            struct errmsg *e)
{
    struct stream *s = mem_zalloc(1, sizeof *s);
    if (!s)
        return err_memory_of(e, path);
    s->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (s->fd >= 0)
        (void)fstat(s->fd, &s->opened); /* if one fails, zip_member_open says why */
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
    if (s->gz_ready)
        (void)inflateEnd(&s->gz);
    if (s->fd >= 0)
        close(s->fd);
    ZSTD_freeDStream(s->zstd);
    mem_free(s->buffer);
    mem_free(s);
}

int stream_is_compressed(const struct stream *s)
{
    return s->zip ? zip_member_is_packed(s->zip) : s->packing != PACKING_NONE;
}

uint64_t stream_bound_bytes(const struct stream *s)
{
    /* zlib's manual: at most 1032:1. zstd: a block of 128 KiB takes at least 4 bytes (RFC
     * 8878, 3.1.1.2). */
    static const uint64_t ratios[] = {1, 1032, (128 << 10) / 4};
    if (s->zip)
        return zip_member_bound_bytes(s->zip);
    uint64_t ratio = ratios[s->packing];
    return s->file_bytes > UINT64_MAX / ratio ? UINT64_MAX : s->file_bytes * ratio;
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

/* ---- reading ---- */

static enum err is_corrupt(const struct stream *s, const char *why, struct errmsg *e)
{
    return err_set(e, ERR_INPUT,
                   "the %s data is corrupt near byte %llu, after %llu decompressed bytes: %s",
                   packing_names[s->packing], (unsigned long long)used_bytes(s),
                   (unsigned long long)s->read_bytes, why);
}

/* libzstd's own limit of a frame's window: 2^27. */
static enum err zstd_failed(const struct stream *s, size_t code, struct errmsg *e)
{
    if (ZSTD_getErrorCode(code) == ZSTD_error_dictionary_wrong)
        return err_set(e, ERR_INPUT,
                       "the zstd data was compressed with a dictionary: decompress it with this "
                       "dictionary (zstd -d -D)");
    if (ZSTD_getErrorCode(code) != ZSTD_error_frameParameter_windowTooLarge)
        return is_corrupt(s, ZSTD_getErrorName(code), e);
    return err_set(
        e, ERR_INPUT,
        "the zstd data needs more than 128 MiB of memory to be decompressed: compress it "
        "again, without --long");
}

/* libzstd does not compare the size of a frame if its last block is empty. */
static void note_frame_size(struct stream *s)
{
    unsigned long long n =
        ZSTD_getFrameContentSize(s->buffer + s->at, s->held - s->at); /* skippable: 0 */
    bool known = n != ZSTD_CONTENTSIZE_UNKNOWN && n != ZSTD_CONTENTSIZE_ERROR;
    s->frame_ends_at = known ? s->read_bytes + n : UINT64_MAX;
}

/* A reader that begins within a frame decompresses it from its beginning. */
static enum err check_frame(const struct stream *s, struct errmsg *e)
{
    const uint64_t end = s->frame_ends_at == UINT64_MAX ? s->read_bytes : s->frame_ends_at;
    if (!s->points || end - s->began_at <= STREAM_FRAME_MOST_BYTES)
        return ERR_OK;
    return err_set(
        e, ERR_INPUT,
        "the zstd data has a frame of more than %d MiB of text, which cannot be read from "
        "the middle: write the file as Parquet (./gradwire convert), or its text in "
        "smaller frames: zstdcat FILE | split --line-bytes=4M --filter=zstd > NEW.zst",
        STREAM_FRAME_MOST_BYTES >> 20);
}

/* Data of another format would be dropped without a word, as gzip itself does. */
static enum err begin_next(struct stream *s, struct errmsg *e)
{
    static const uint8_t firsts[] = {0, 0x1F, ZSTD_MAGICNUMBER & 0xFF};
    const char *format = format_here(s), *own = packing_names[s->packing];
    bool cut = s->held - s->at == 1 && s->buffer[s->at] == firsts[s->packing];
    s->within = cut || strcmp(format, own) == 0;
    if (s->within && s->packing == PACKING_ZSTD)
        note_frame_size(s);
    s->began_at = s->read_bytes;
    if (s->within)
        return s->points && (!s->points->bytes || s->read_bytes - s->point_at >= POINT_BYTES)
                   ? note_point(s, 0, NULL, 0, e)
                   : ERR_OK;
    return err_set(e, ERR_INPUT,
                   "at byte %llu the %s data ends, and %s%s: remove what follows, or decompress "
                   "the parts and compress them again as one",
                   (unsigned long long)used_bytes(s), own,
                   *format ? format : "bytes of another kind",
                   *format ? " data follows" : " follow");
}

/* Zeros can follow the last member of gzip: they fill blocks of a tape. */
static enum err skip_zeros(struct stream *s, struct errmsg *e)
{
    enum err err;
    while (!(err = fill(s, 1, e)) && s->at < s->held && s->buffer[s->at] == 0)
        s->at++;
    return err;
}

/* The checksum of a member that was not read from its beginning says nothing. */
static enum err skip_trailer(struct stream *s, struct errmsg *e)
{
    const enum err err = fill(s, TRAILER_BYTES, e);
    if (err)
        return err;
    if (s->held - s->at < TRAILER_BYTES)
        return ends_early(s, e);
    s->at += TRAILER_BYTES;
    s->gz_raw = false;
    return inflateReset2(&s->gz, GZIP_WINDOW_BITS) == Z_OK ? ERR_OK : err_memory(e);
}

/* Between members, or frames: *more is false at the end of the file. */
static enum err look_for_next(struct stream *s, bool *more, struct errmsg *e)
{
    bool first = used_bytes(s) == 0;
    enum err err = s->gz_raw ? skip_trailer(s, e) : ERR_OK;
    if (!err && s->packing == PACKING_GZIP && !first)
        err = skip_zeros(s, e);
    if (!err)
        err = fill(s, HEAD_BYTES, e);
    if (err)
        return err;
    *more = s->at < s->held;
    return *more ? begin_next(s, e) : ERR_OK;
}

/* Both use bytes of the buffer, if it has any, and add to `out`; they end within a member at its end. */
static enum err gzip_step(struct stream *s, uint8_t *out, size_t bytes, size_t *got,
                          struct errmsg *e)
{
    size_t room = bytes < UINT_MAX ? bytes : UINT_MAX, given = s->held - s->at;
    s->gz.next_in = s->buffer + s->at;
    s->gz.avail_in = (unsigned)given;
    s->gz.next_out = out;
    s->gz.avail_out = (unsigned)room;
    int code = inflate(&s->gz, s->points ? Z_BLOCK : Z_NO_FLUSH);
    s->at += given - s->gz.avail_in;
    *got = room - s->gz.avail_out;
    s->read_bytes += *got;
    if (code == Z_STREAM_END) {
        s->within = false;
        code = inflateReset(&s->gz);
    }
    if (code == Z_MEM_ERROR)
        return err_memory(e);
    if (code != Z_OK && code != Z_BUF_ERROR)
        return is_corrupt(s, s->gz.msg ? s->gz.msg : "it needs a dictionary", e);
    return s->points && s->within ? note_block(s, e) : ERR_OK;
}

static enum err zstd_step(struct stream *s, uint8_t *out, size_t bytes, size_t *got,
                          struct errmsg *e)
{
    ZSTD_outBuffer to = {out, bytes, 0};
    ZSTD_inBuffer from = {s->buffer, s->held, s->at};
    size_t left = ZSTD_decompressStream(s->zstd, &to, &from);
    if (ZSTD_isError(left))
        return zstd_failed(s, left, e);
    s->at = from.pos;
    *got = to.pos;
    s->read_bytes += *got;
    s->within = left != 0;
    if (!s->within && s->frame_ends_at != UINT64_MAX && s->read_bytes != s->frame_ends_at)
        return is_corrupt(s, "a frame does not have the size that its head says", e);
    return check_frame(s, e);
}

static enum err packed_read(struct stream *s, uint8_t *out, size_t bytes, size_t *got,
                            struct errmsg *e)
{
    size_t done = 0;
    while (done < bytes) {
        size_t n = 0;
        bool more = true;
        enum err err = s->within ? fill(s, 1, e) : look_for_next(s, &more, e);
        if (err)
            return err;
        if (!more)
            break;
        bool end = s->at == s->held; /* the decoder can still have bytes */
        err = (s->packing == PACKING_GZIP ? gzip_step : zstd_step)(s, out + done, bytes - done, &n,
                                                                   e);
        if (err)
            return err;
        if (end && n == 0 && s->within)
            return ends_early(s, e);
        done += n;
    }
    *got = done;
    return ERR_OK;
}

static enum err plain_read(struct stream *s, uint8_t *out, size_t bytes, size_t *got,
                           struct errmsg *e)
{
    size_t done = 0, n = s->held - s->at;
    n = n < bytes ? n : bytes;
    memcpy(out, s->buffer + s->at, n);
    s->at += n;
    for (done = n; done < bytes && !s->ended; done += n) {
        enum err err = read_some(s, out + done, bytes - done, &n, e);
        if (err)
            return err;
    }
    s->read_bytes += done;
    *got = done;
    return ERR_OK;
}

enum err stream_read(struct stream *s, void *out, size_t bytes, size_t *got, struct errmsg *e)
{
    size_t n = 0;
    enum err err = s->zip                       ? zip_member_read(s->zip, out, bytes, &n, e)
                   : s->packing == PACKING_NONE ? plain_read(s, out, bytes, &n, e)
                                                : packed_read(s, out, bytes, &n, e);
    if (!err && n < bytes)
        err = check_unchanged(s, e);
    if (!err)
        *got = n;
    return err;
}
