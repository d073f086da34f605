/* Reads safetensors files: the header has each tensor's position. */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "common/base/mem.h"
#include "worker/export/export.h"
#include "worker/export/safetensors.h"

enum { HEADER_MAX_BYTES = 64 << 20 };

struct reader {
    const char *path;
    int fd;
    uint64_t data_at, data_bytes; /* after the header */
    json_t *header;
};

static enum err read_at(const struct reader *r, void *out, uint64_t bytes, uint64_t at,
                        struct errmsg *e)
{
    for (uint64_t done = 0; done < bytes;) {
        ssize_t n = pread(r->fd, (uint8_t *)out + done, bytes - done, (off_t)(at + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_set(e, ERR_IO, "%s: %s", r->path, strerror(errno));
        if (n == 0)
            return err_set(e, ERR_CORRUPT, "%s: it ends too early", r->path);
        done += (uint64_t)n;
    }
    return ERR_OK;
}

static void reader_close(struct reader *r)
{
    json_decref(r->header);
    if (r->fd >= 0)
        (void)close(r->fd);
}

static enum err read_header(struct reader *r, uint64_t file_bytes, struct errmsg *e)
{
    uint64_t bytes;
    enum err err = read_at(r, &bytes, sizeof bytes, 0, e);
    if (err)
        return err;
    if (bytes > HEADER_MAX_BYTES || bytes > file_bytes - sizeof bytes)
        return err_set(e, ERR_CORRUPT, "%s: not a safetensors file", r->path);
    char *text = mem_zalloc(bytes + 1, 1);
    if (!text)
        return err_set(e, ERR_NOMEM, "%s: out of memory", r->path);
    err = read_at(r, text, bytes, sizeof bytes, e);
    if (!err)
        r->header = json_loadb(text, bytes, 0, NULL);
    mem_free(text);
    if (!err && !json_is_object(r->header))
        return err_set(e, ERR_CORRUPT, "%s: not a safetensors file", r->path);
    r->data_at = sizeof bytes + bytes;
    r->data_bytes = file_bytes - r->data_at;
    return err;
}

static enum err reader_open(struct reader *r, const char *path, struct errmsg *e)
{
    *r = (struct reader){.path = path, .fd = open(path, O_RDONLY | O_CLOEXEC)};
    if (r->fd < 0)
        return err_set(e, errno == ENOENT ? ERR_NOTFOUND : ERR_IO, "%s: %s", path, strerror(errno));
    struct stat st;
    enum err err = ERR_OK;
    if (fstat(r->fd, &st))
        err = err_set(e, ERR_IO, "%s: %s", path, strerror(errno));
    else if (!S_ISREG(st.st_mode) || st.st_size < (off_t)sizeof(uint64_t))
        err = err_set(e, ERR_CORRUPT, "%s: not a safetensors file", path);
    else
        err = read_header(r, (uint64_t)st.st_size, e);
    if (err)
        reader_close(r);
    return err;
}

static bool same_shape(const json_t *shape, const struct tensor *t)
{
    if (json_array_size(shape) != t->rank)
        return false;
    for (uint32_t i = 0; i < t->rank; i++)
        if (json_integer_value(json_array_get(shape, i)) != (json_int_t)t->shape[i])
            return false;
    return true;
}

/* Position of tensor t, after the header. */
static enum err find(const struct reader *r, const struct tensor *t, uint64_t *at, struct errmsg *e)
{
    const json_t *said = json_object_get(r->header, t->name);
    const json_t *offsets = json_object_get(said, "data_offsets");
    const char *type = json_string_value(json_object_get(said, "dtype"));
    json_int_t begin = json_integer_value(json_array_get(offsets, 0));
    json_int_t end = json_integer_value(json_array_get(offsets, 1));
    if (!said)
        return err_set(e, ERR_CORRUPT, "%s: it has no tensor %s", r->path, t->name);
    if (!type || strcmp(type, "F32") != 0 || !same_shape(json_object_get(said, "shape"), t))
        return err_set(e, ERR_CORRUPT, "%s: tensor %s is not float32 of the model's shape", r->path,
                       t->name);
    if (begin < 0 || end < begin || (uint64_t)end > r->data_bytes ||
        (uint64_t)(end - begin) != t->elems * sizeof(float))
        return err_set(e, ERR_CORRUPT, "%s: the data_offsets of tensor %s do not fit the file",
                       r->path, t->name);
    *at = r->data_at + (uint64_t)begin;
    return ERR_OK;
}

/* w NULL: only check. */
static enum err read_all(const char *path, const struct layout *l, float *w, struct errmsg *e)
{
    struct reader r;
    enum err err = reader_open(&r, path, e);
    if (err)
        return err;
    if (w)
        memset(w, 0, l->elems * sizeof *w);
    for (uint32_t i = 0; i < l->tensors && !err; i++) {
        const struct tensor *t = &l->tensor[i];
        uint64_t at = 0;
        err = find(&r, t, &at, e);
        if (!err && w)
            err = read_at(&r, w + t->offset_elems, t->elems * sizeof *w, at, e);
    }
    reader_close(&r);
    return err;
}

enum err export_check_safetensors(const char *path, const struct layout *l, struct errmsg *e)
{
    return read_all(path, l, NULL, e);
}

enum err export_read_safetensors(const char *path, const struct layout *l, float *w,
                                 struct errmsg *e)
{
    return read_all(path, l, w, e);
}

enum err safetensors_metadata(const char *path, json_t **metadata, struct errmsg *e)
{
    struct reader r;
    enum err err = reader_open(&r, path, e);
    if (err)
        return err;
    json_t *said = json_object_get(r.header, "__metadata__");
    *metadata = said ? json_incref(said) : json_object();
    reader_close(&r);
    return *metadata ? ERR_OK : err_set(e, ERR_NOMEM, "%s: out of memory", path);
}

enum err export_note(const char *path, const char *key, char *out, size_t bytes)
{
    struct reader r;
    enum err err = reader_open(&r, path, NULL);
    if (err)
        return err;
    const char *text =
        json_string_value(json_object_get(json_object_get(r.header, "__metadata__"), key));
    err = !text ? ERR_NOTFOUND : strlen(text) >= bytes ? ERR_TOOBIG : ERR_OK;
    if (!err)
        memcpy(out, text, strlen(text) + 1);
    reader_close(&r);
    return err;
}
