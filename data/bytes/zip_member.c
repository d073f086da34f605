#include "data/bytes/zip_member.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zip.h>

#include "common/base/printable.h"
#include "common/base/mem.h"
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

static bool has_suffix(const char *path, const char *suffix)
{
    size_t n = strlen(path), m = strlen(suffix);
    return n > m && strcmp(path + n - m, suffix) == 0;
}

bool zip_is_archive(const char *path)
{
    struct stat st;
    uint64_t at, after;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return false;
    bool is = begins_as_archive(fd);
    if (!is && (has_suffix(path, ".npz") || has_suffix(path, ".keras")))
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
    size_t n = strlen(name), suffix = sizeof SUFFIX - 1;
    if (n > suffix && strcmp(name + n - suffix, SUFFIX) == 0)
        n -= suffix;
    (void)printable_copy(out, ZIP_MEMBER_NAME_MAX, name, n);
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

static enum err read_some(struct zip_member *m, void *out, size_t bytes, size_t *got,
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
        err = read_some(m, (uint8_t *)out + done, bytes - done, &n, e);
    /* libzip compares the checksum when it is asked for what follows the last byte */
    uint8_t more;
    if (!err && n && m->read_bytes == m->size_bytes)
        err = read_some(m, &more, 1, &n, e);
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

bool zip_member_is_packed(const struct zip_member *m)
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
