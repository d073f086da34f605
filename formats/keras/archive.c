#include "formats/keras/archive.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <zip.h>

#include "common/process/files.h"

/* Keras writes its own release and the time. The layers are those of its first release 3. */
static const char metadata[] =
    "{\"keras_version\": \"3.0.0\", \"date_saved\": \"1980-01-01@00:00:00\"}";

enum { DOS_DATE_1980_01_01 = 0x21 /* the first day that zip can say */ };

static enum err failed(const char *path, const char *why, struct errmsg *e)
{
    return err_set(e, ERR_IO, "%s: %s", path, why);
}

/* Takes the source. */
static bool add(zip_t *zip, const char *name, zip_source_t *take)
{
    zip_int64_t at = take ? zip_file_add(zip, name, take, ZIP_FL_ENC_UTF_8) : -1;
    if (at < 0) {
        zip_source_free(take);
        return false;
    }
    return zip_set_file_compression(zip, (zip_uint64_t)at, ZIP_CM_STORE, 0) == 0 &&
           zip_file_set_dostime(zip, (zip_uint64_t)at, 0, DOS_DATE_1980_01_01, 0) == 0;
}

static bool add_text(zip_t *zip, const char *name, const char *text)
{
    return add(zip, name, zip_source_buffer(zip, text, strlen(text), 0));
}

static bool add_file(zip_t *zip, const char *name, int fd)
{
    int own = dup(fd);
    FILE *file = own < 0 ? NULL : fdopen(own, "rb");
    if (!file) {
        if (own >= 0)
            (void)close(own);
        return false;
    }
    rewind(file);
    zip_source_t *source = zip_source_filep(zip, file, 0, -1);
    if (!source)
        (void)fclose(file);
    return add(zip, name, source);
}

/* Fill the archive `into`, which is in memory. */
static enum err fill(zip_source_t *into, const char *path, const char *config, int weights,
                     struct errmsg *e)
{
    zip_error_t why;
    zip_error_init(&why);
    zip_source_keep(into); /* zip_close frees it */
    zip_t *zip = zip_open_from_source(into, ZIP_CREATE | ZIP_TRUNCATE, &why);
    if (!zip) {
        zip_source_free(into);
        enum err err = failed(path, zip_error_strerror(&why), e);
        zip_error_fini(&why);
        return err;
    }
    bool filled = add_text(zip, "metadata.json", metadata) &&
                  add_text(zip, "config.json", config) &&
                  add_file(zip, "model.weights.h5", weights);
    if (filled && zip_close(zip) == 0)
        return ERR_OK;
    enum err err = failed(path, zip_strerror(zip), e);
    zip_discard(zip);
    return err;
}

/* Write the archive's bytes to the file. */
static enum err drain(zip_source_t *from, const char *path, struct errmsg *e)
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
        err = failed(path, "the archive cannot be read back from memory", e);
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
        return err_set(e, ERR_NOMEM, "%s: out of memory", path);
    enum err err = fill(whole, path, config, weights, e);
    if (!err)
        err = drain(whole, path, e);
    zip_source_free(whole);
    return err;
}
