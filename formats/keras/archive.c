/* A .keras archive. It is made in memory, and then written as one file. To read one, its members are unpacked within limits; the weights
 * go to a file that no one sees, because the program that reads HDF5 needs a file. */
#include "formats/keras/archive.h"

#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/mem.h"
#include "common/base/printable.h"
#include "common/process/files.h"
#include "data/bytes/stream.h"
#include "formats/keras/config.h"
#include "formats/keras/hdf5.h"

/* Keras writes its own release and the time. The layers are those of its first release 3. */
static const char metadata[] =
    "{\"keras_version\": \"3.0.0\", \"date_saved\": \"1980-01-01@00:00:00\"}";

enum { DOS_DATE_1980_01_01 = 0x21 /* the first day that zip can say */ };

static enum err archive_failed(const char *path, const char *why, struct errmsg *e)
{
    return err_set(e, ERR_IO, "%s: %s", path, why);
}

/* Takes the source. */
static bool archive_add(zip_t *zip, const char *name, zip_source_t *take, zip_flags_t encoding)
{
    zip_int64_t at = take ? zip_file_add(zip, name, take, encoding) : -1;
    if (at < 0) {
        zip_source_free(take);
        return false;
    }
    return zip_set_file_compression(zip, (zip_uint64_t)at, ZIP_CM_STORE, 0) == 0 &&
           zip_file_set_dostime(zip, (zip_uint64_t)at, 0, DOS_DATE_1980_01_01, 0) == 0;
}

static bool archive_add_text(zip_t *zip, const char *name, const char *text)
{
    return archive_add(zip, name, zip_source_buffer(zip, text, strlen(text), 0), ZIP_FL_ENC_UTF_8);
}

bool archive_add_file(zip_t *zip, const char *name, int fd, zip_flags_t encoding)
{
    int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    FILE *file = own < 0 ? NULL : fdopen(own, "rb");
    if (!file) {
        if (own >= 0)
            (void)close(own);
        return false;
    }
    rewind(file); /* the position is that of fd */
    zip_source_t *source = zip_source_filep(zip, file, 0, -1);
    if (!source)
        (void)fclose(file);
    return archive_add(zip, name, source, encoding);
}

/* Fill the archive `into`, which is in memory. */
static enum err archive_fill(zip_source_t *into, const char *path, const char *config, int weights,
                             struct errmsg *e)
{
    zip_error_t why;
    zip_error_init(&why);
    zip_source_keep(into); /* zip_close frees it */
    zip_t *zip = zip_open_from_source(into, ZIP_CREATE | ZIP_TRUNCATE, &why);
    if (!zip) {
        zip_source_free(into);
        enum err err = archive_failed(path, zip_error_strerror(&why), e);
        zip_error_fini(&why);
        return err;
    }
    bool filled = archive_add_text(zip, "metadata.json", metadata) &&
                  archive_add_text(zip, "config.json", config) &&
                  archive_add_file(zip, "model.weights.h5", weights, ZIP_FL_ENC_UTF_8);
    if (filled && zip_close(zip) == 0)
        return ERR_OK;
    enum err err = archive_failed(path, zip_strerror(zip), e);
    zip_discard(zip);
    return err;
}

/* Write the archive's bytes to the file. */
static enum err archive_drain(zip_source_t *from, const char *path, struct errmsg *e)
{
    static _Thread_local char part[1 << 16];
    struct files_writer w;
    enum err err = files_begin(&w, path, e);
    if (err)
        return err;
    zip_int64_t n = zip_source_open(from) == 0 ? 1 : -1;
    while (!err && n > 0) {
        n = zip_source_read(from, part, sizeof part);
        if (n > 0)
            err = files_append(&w, part, (size_t)n, e);
    }
    if (!err && n < 0)
        err = archive_failed(path, "the archive cannot be read back from memory", e);
    (void)zip_source_close(from);
    if (!err)
        return files_commit(&w, e);
    files_abort(&w);
    return err;
}

enum err archive_write(const char *path, const char *config, int weights, struct errmsg *e)
{
    zip_source_t *whole = zip_source_buffer_create(NULL, 0, 0, NULL);
    if (!whole)
        return err_memory_of(e, path);
    enum err err = archive_fill(whole, path, config, weights, e);
    if (!err)
        err = archive_drain(whole, path, e);
    zip_source_free(whole);
    return err;
}

/* ---- reading ---- */

static const char config_name[] = "config.json", weights_name[] = "model.weights.h5",
                  metadata_name[] = "metadata.json";

/* Of metadata.json, which holds a release and a time. */
enum { METADATA_BYTES_MAX = 1 << 16, RELEASE_BYTES = 32 };

/* Keras stores the weights without compression. A member that grows more than this is made to fill a disk. */
#define WEIGHTS_BYTES_MAX(archive_bytes) (((uint64_t)64 << 20) + 8 * (archive_bytes))

static enum err archive_has(const char *path, const char *name, bool *is, struct errmsg *e)
{
    char(*names)[ZIP_MEMBER_NAME_MAX];
    size_t n;
    enum err err = zip_members(path, &names, &n, e);
    if (err)
        return err;
    *is = false;
    for (size_t i = 0; i < n; i++)
        *is |= strcmp(names[i], name) == 0;
    mem_free(names);
    return ERR_OK;
}

/* *text has room for `most` bytes and a NUL. */
static enum err archive_read_text(const char *path, struct zip_member *m, size_t most, char **text,
                                  size_t *bytes, struct errmsg *e)
{
    char *own = mem_zalloc(most + 1, 1);
    if (!own)
        return err_memory_of(e, path);
    enum err err = zip_member_read(m, own, most, bytes, e);
    if (err) {
        mem_free(own);
        return err_wrap(e, err, "%s: ", path);
    }
    *text = own;
    return ERR_OK;
}

static enum err archive_read_json(const char *path, const char *name, size_t most, char **text,
                                  size_t *bytes, struct errmsg *e)
{
    struct zip_member *m;
    enum err err = zip_member_open(&m, path, name, e);
    if (err)
        return err;
    uint64_t bound = zip_member_bound_bytes(m);
    if (bound > most)
        err = err_set(e, ERR_TOOBIG, "%s: %s is larger than %zu KiB", path, name, most >> 10);
    else
        err = archive_read_text(path, m, (size_t)bound, text, bytes, e);
    zip_member_close(m);
    return err;
}

/* The release that wrote the archive. "": metadata.json does not say it. Keras itself does not need that file. */
static enum err read_release(const char *path, const char *text, size_t bytes,
                             char release[RELEASE_BYTES], struct errmsg *e)
{
    json_error_t why;
    json_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &why);
    if (!root && json_error_code(&why) == json_error_duplicate_key)
        return err_set(e, ERR_INPUT, "%s: %s:%d: %s", path, metadata_name, why.line, why.text);
    const char *said = json_string_value(json_object_get(root, "keras_version"));
    (void)printable_text(release, RELEASE_BYTES, said ? said : "");
    json_decref(root);
    return ERR_OK;
}

/* Keras 2 has such archives, too, in which the weights have other names. */
static enum err check_release(const char *path, struct errmsg *e)
{
    char *text = NULL, release[RELEASE_BYTES];
    size_t bytes = 0;
    enum err err = archive_read_json(path, metadata_name, METADATA_BYTES_MAX, &text, &bytes, e);
    if (err)
        return err;
    err = read_release(path, text, bytes, release, e);
    mem_free(text);
    if (err)
        return err;
    if (release[0] == '2' && release[1] == '.')
        return err_set(e, ERR_INPUT,
                       "%s: it is from Keras %s (%s): load the model with Keras 3, and save it "
                       "again",
                       path, release, metadata_name);
    return ERR_OK;
}

static enum err copy_member(const char *path, struct zip_member *m, uint64_t most, int to,
                            struct errmsg *e)
{
    enum { PART_BYTES = 1 << 16 };
    uint64_t at = 0;
    size_t got = 1;
    char *part = mem_zalloc(PART_BYTES, 1);
    enum err err = part ? ERR_OK : err_memory_of(e, path);
    while (!err && got > 0) {
        err = zip_member_read(m, part, PART_BYTES, &got, e);
        if (err)
            err = err_wrap(e, err, "%s: ", path);
        else if (at + got > most)
            err = err_set(e, ERR_TOOBIG,
                          "%s: %s has more bytes than an archive of this size can be trusted with",
                          path, weights_name);
        else
            err = files_write_at(to, "a temporary file", at, part, got, e);
        at += got;
    }
    mem_free(part);
    return err;
}

static enum err archive_read_weights(const char *path, int *weights, struct errmsg *e)
{
    struct zip_member *m;
    struct stat st;
    int fd = -1;
    uint64_t bytes = stat(path, &st) == 0 ? (uint64_t)st.st_size : 0;
    enum err err = zip_member_open(&m, path, weights_name, e);
    if (err)
        return err;
    err = hdf5_scratch(&fd, e);
    if (!err)
        err = copy_member(path, m, WEIGHTS_BYTES_MAX(bytes), fd, e);
    zip_member_close(m);
    if (!err)
        *weights = fd;
    else if (fd >= 0)
        (void)close(fd);
    return err;
}

enum err archive_read(const char *path, char **config, size_t *bytes, int *weights,
                      struct errmsg *e)
{
    bool model = false, trained = false, dated = false;
    char *text = NULL;
    int fd = -1;
    enum err err = archive_has(path, config_name, &model, e);
    if (!err && !model)
        err = err_set(e, ERR_INPUT, "%s: it has no %s: it is not Keras 3's archive of a model",
                      path, config_name);
    if (!err)
        err = archive_has(path, weights_name, &trained, e);
    if (!err)
        err = archive_has(path, metadata_name, &dated, e);
    if (!err && dated)
        err = check_release(path, e);
    if (!err)
        err = archive_read_json(path, config_name, CONFIG_BYTES_MAX, &text, bytes, e);
    if (!err && trained)
        err = archive_read_weights(path, &fd, e);
    if (err) {
        mem_free(text);
        return err;
    }
    *config = text;
    *weights = fd;
    return ERR_OK;
}
