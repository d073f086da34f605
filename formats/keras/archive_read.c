#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "common/base/printable.h"
#include "common/base/mem.h"
#include "common/process/files.h"
#include "formats/keras/archive.h"
#include "formats/keras/config.h"
#include "formats/keras/hdf5.h"
#include "data/bytes/zip_member.h"

static const char config_name[] = "config.json", weights_name[] = "model.weights.h5",
                  metadata_name[] = "metadata.json";

/* Of metadata.json, which holds a release and a time. */
enum { METADATA_BYTES_MAX = 1 << 16, RELEASE_BYTES = 32 };

/* Keras stores the weights without compression. A member that grows more than this is made to fill a disk. */
#define WEIGHTS_BYTES_MAX(archive_bytes) (((uint64_t)64 << 20) + 8 * (archive_bytes))

static enum err has(const char *path, const char *name, bool *is, struct errmsg *e)
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
static enum err read_text(const char *path, struct zip_member *m, size_t most, char **text,
                          size_t *bytes, struct errmsg *e)
{
    char *own = mem_zalloc(most + 1, 1);
    if (!own)
        return err_set(e, ERR_NOMEM, "%s: out of memory", path);
    enum err err = zip_member_read(m, own, most, bytes, e);
    if (err) {
        mem_free(own);
        return err_wrap(e, err, "%s: ", path);
    }
    *text = own;
    return ERR_OK;
}

static enum err read_json(const char *path, const char *name, size_t most, char **text,
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
        err = read_text(path, m, (size_t)bound, text, bytes, e);
    zip_member_close(m);
    return err;
}

/* The release that wrote the archive. "": metadata.json does not say it. Keras itself does not need that file. */
static void read_release(const char *text, size_t bytes, char release[RELEASE_BYTES])
{
    json_t *root = json_loadb(text, bytes, 0, NULL);
    const char *said = json_string_value(json_object_get(root, "keras_version"));
    (void)printable_text(release, RELEASE_BYTES, said ? said : "");
    json_decref(root);
}

/* Keras 2 has such archives, too, in which the weights have other names. */
static enum err check_release(const char *path, struct errmsg *e)
{
    char *text, release[RELEASE_BYTES];
    size_t bytes;
    enum err err = read_json(path, metadata_name, METADATA_BYTES_MAX, &text, &bytes, e);
    if (err)
        return err;
    read_release(text, bytes, release);
    mem_free(text);
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
    enum err err = part ? ERR_OK : err_set(e, ERR_NOMEM, "%s: out of memory", path);
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

static enum err read_weights(const char *path, int *weights, struct errmsg *e)
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
    enum err err = has(path, config_name, &model, e);
    if (!err && !model)
        err = err_set(e, ERR_INPUT, "%s: it has no %s: it is not Keras 3's archive of a model",
                      path, config_name);
    if (!err)
        err = has(path, weights_name, &trained, e);
    if (!err)
        err = has(path, metadata_name, &dated, e);
    if (!err && dated)
        err = check_release(path, e);
    if (!err)
        err = read_json(path, config_name, CONFIG_BYTES_MAX, &text, bytes, e);
    if (!err && trained)
        err = read_weights(path, &fd, e);
    if (err) {
        mem_free(text);
        return err;
    }
    *config = text;
    *weights = fd;
    return ERR_OK;
}
