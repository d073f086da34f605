/* Reads safetensors files: the header has each tensor's position. */
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "common/base/mem.h"
#include "export/export.h"
#include "export/safetensors.h"

enum { HEADER_MAX_BYTES = 64 << 20 };

static enum err read_at(const struct safetensors *r, void *out, uint64_t bytes, uint64_t at,
                        struct errmsg *e)
{
    size_t got;
    enum err err = files_read_at(r->fd, r->path, at, out, bytes, &got, e);
    if (!err && got < bytes)
        return err_set(e, ERR_CORRUPT, "%s: it ends too early", r->path);
    return err;
}

void safetensors_close(struct safetensors *r)
{
    json_decref(r->header);
    (void)close(r->fd);
}

static enum err read_header(struct safetensors *r, uint64_t file_bytes, struct errmsg *e)
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
        r->header = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, NULL);
    mem_free(text);
    if (!err && !json_is_object(r->header))
        return err_set(e, ERR_CORRUPT, "%s: not a safetensors file", r->path);
    r->data_at = sizeof bytes + bytes;
    r->data_bytes = file_bytes - r->data_at;
    return err;
}

enum err safetensors_open(struct safetensors *out, const char *path, struct errmsg *e)
{
    struct safetensors s = {.path = path};
    struct stat st;
    enum err err = files_open(path, &s.fd, e);
    if (err)
        return err;
    if (fstat(s.fd, &st))
        err = err_set(e, ERR_IO, "%s: %s", path, strerror(errno));
    else if (st.st_size < (off_t)sizeof(uint64_t))
        err = err_set(e, ERR_CORRUPT, "%s: not a safetensors file", path);
    else
        err = read_header(&s, (uint64_t)st.st_size, e);
    if (err)
        safetensors_close(&s);
    else
        *out = s;
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

/* The position in the file of a tensor that must have so many bytes; `said`: its entry in the header. */
static enum err offsets_of(const struct safetensors *r, const char *name, const json_t *said,
                           uint64_t bytes, uint64_t *at, struct errmsg *e)
{
    const json_t *offsets = json_object_get(said, "data_offsets");
    json_int_t begin = json_integer_value(json_array_get(offsets, 0));
    json_int_t end = json_integer_value(json_array_get(offsets, 1));
    if (begin < 0 || end < begin || (uint64_t)end > r->data_bytes ||
        (uint64_t)(end - begin) != bytes)
        return err_set(e, ERR_CORRUPT, "%s: the data_offsets of tensor %s do not fit the file",
                       r->path, name);
    *at = r->data_at + (uint64_t)begin;
    return ERR_OK;
}

/* Position of tensor t in the file. */
static enum err find(const struct safetensors *r, const struct tensor *t, uint64_t *at,
                     struct errmsg *e)
{
    const json_t *said = json_object_get(r->header, t->name);
    const char *type = json_string_value(json_object_get(said, "dtype"));
    if (!said)
        return err_set(e, ERR_CORRUPT, "%s: it has no tensor %s", r->path, t->name);
    if (!type || strcmp(type, "F32") != 0 || !same_shape(json_object_get(said, "shape"), t))
        return err_set(e, ERR_CORRUPT, "%s: tensor %s is not float32 of the model's shape", r->path,
                       t->name);
    return offsets_of(r, t->name, said, t->elems * sizeof(float), at, e);
}

/* The dimensions of the tensor at `said`, and its bytes. False: it has another type or rank, or is too large. */
static bool measure(const json_t *said, const char *type, uint32_t rank, uint64_t dim[2],
                    uint64_t *bytes)
{
    const json_t *shape = json_object_get(said, "shape");
    const char *is = json_string_value(json_object_get(said, "dtype"));
    bool fits = json_array_size(shape) == rank && is && strcmp(is, type) == 0;
    for (uint32_t i = 0; i < rank && fits; i++) {
        const json_t *n = json_array_get(shape, i);
        json_int_t value = json_integer_value(n);
        dim[i] = (uint64_t)value;
        fits = json_is_integer(n) && value >= 0 && !__builtin_mul_overflow(*bytes, dim[i], bytes);
    }
    return fits;
}

enum err safetensors_array(const struct safetensors *r, const char *name, const char *type,
                           uint32_t rank, size_t elem_bytes, struct safetensors_array *a,
                           struct errmsg *e)
{
    const json_t *said = json_object_get(r->header, name);
    uint64_t dim[2] = {1, 1}, bytes = elem_bytes, at = 0;
    assert(rank == 1 || rank == 2);
    if (!measure(said, type, rank, dim, &bytes))
        return err_set(e, ERR_CORRUPT, "%s: it has no tensor %s of type %s and rank %u", r->path,
                       name, type, rank);
    enum err err = offsets_of(r, name, said, bytes, &at, e);
    if (!err)
        *a = (struct safetensors_array){at, dim[0], dim[1]};
    return err;
}

/* A tensor that is left over means that the file is another model's, or that job.yaml was changed. */
static enum err check_no_more(const struct safetensors *r, const struct layout *l, struct errmsg *e)
{
    const char *name;
    json_t *said;
    json_object_foreach(r->header, name, said)
    {
        bool known = strcmp(name, "__metadata__") == 0;
        for (uint32_t i = 0; i < l->tensors && !known; i++)
            known = strcmp(name, l->tensor[i].name) == 0;
        if (!known)
            return err_set(e, ERR_CORRUPT, "%s: it has a tensor %s, which the model does not have",
                           r->path, name);
    }
    return ERR_OK;
}

/* w NULL: only check. */
static enum err read_all(const char *path, const struct layout *l, float *w, struct errmsg *e)
{
    struct safetensors r;
    enum err err = safetensors_open(&r, path, e);
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
    if (!err)
        err = check_no_more(&r, l, e);
    safetensors_close(&r);
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

/* ---- some of the tensors ---- */

enum { TEXT_BYTES = 160 };

/* "(3, 4)" */
static void shape_words(char out[TEXT_BYTES], const json_t *shape)
{
    size_t n = json_array_size(shape), at = (size_t)snprintf(out, TEXT_BYTES, "(");
    for (size_t i = 0; i < n && at < TEXT_BYTES; i++)
        at += (size_t)snprintf(out + at, TEXT_BYTES - at, "%s%lld", i ? ", " : "",
                               (long long)json_integer_value(json_array_get(shape, i)));
    if (at < TEXT_BYTES)
        (void)snprintf(out + at, TEXT_BYTES - at, ")");
}

static enum err refuse_shape(const struct safetensors *r, const struct tensor *t,
                             const json_t *shape, struct errmsg *e)
{
    char has[TEXT_BYTES], wants[TEXT_BYTES];
    json_t *own = json_array();
    for (uint32_t i = 0; i < t->rank; i++)
        (void)json_array_append_new(own, json_integer(t->shape[i]));
    shape_words(has, shape);
    shape_words(wants, own);
    json_decref(own);
    return err_set(e, ERR_INPUT,
                   "%s: tensor %s has the shape %s, but the model's has %s; give the layer another "
                   "name if it should begin with its initializer",
                   r->path, t->name, has, wants);
}

static enum err check_finite(const struct safetensors *r, const struct tensor *t, const float *w,
                             struct errmsg *e)
{
    for (uint64_t i = 0; i < t->elems; i++)
        if (!isfinite(w[i]))
            return err_set(e, ERR_INPUT,
                           "%s: tensor %s has a value that is not finite (%g, element %llu)",
                           r->path, t->name, (double)w[i], (unsigned long long)i);
    return ERR_OK;
}

static enum err find_one(const struct safetensors *r, const struct tensor *t, float *w, bool *there,
                         struct errmsg *e)
{
    const json_t *said = json_object_get(r->header, t->name);
    const json_t *shape = json_object_get(said, "shape");
    const char *type = json_string_value(json_object_get(said, "dtype"));
    uint64_t at = 0;
    *there = said != NULL;
    if (!said)
        return ERR_OK;
    if (!type || strcmp(type, "F32") != 0)
        return err_set(e, ERR_INPUT,
                       "%s: tensor %s is not of the type F32; gradwire import converts other types",
                       r->path, t->name);
    if (!same_shape(shape, t))
        return refuse_shape(r, t, shape, e);
    enum err err = find(r, t, &at, e);
    if (!err)
        err = read_at(r, w + t->offset_elems, t->elems * sizeof *w, at, e);
    return err ? err : check_finite(r, t, w + t->offset_elems, e);
}

static enum err refuse_strange(const struct safetensors *r, const struct layout *l, uint32_t others,
                               struct errmsg *e)
{
    char name[TEXT_BYTES] = "";
    const char *key;
    json_t *value;
    json_object_foreach(r->header, key, value) if (strcmp(key, "__metadata__") != 0)
    {
        (void)snprintf(name, sizeof name, "%s", key);
        break;
    }
    for (char *c = name; *c; c++) /* the file's bytes go to a terminal */
        *c = *c < ' ' || *c > '~' ? '?' : *c;
    return err_set(e, ERR_INPUT,
                   "%s: none of its %u tensors has the name of a tensor of the model: the first "
                   "one is %s, the model's are %s, ..; gradwire import can rename them",
                   r->path, others, name[0] ? name : "missing",
                   l->tensors ? l->tensor[0].name : "");
}

enum err export_find_safetensors(const char *path, const struct layout *l, float *w,
                                 struct export_found *found, struct errmsg *e)
{
    struct safetensors r;
    enum err err = safetensors_open(&r, path, e);
    if (err)
        return err;
    struct export_found f = {.tensor = mem_zalloc(l->tensors + 1, sizeof *f.tensor)};
    if (!f.tensor)
        err = err_set(e, ERR_NOMEM, "%s: out of memory", path);
    for (uint32_t i = 0; i < l->tensors && !err; i++) {
        err = find_one(&r, &l->tensor[i], w, &f.tensor[i], e);
        f.n += f.tensor[i];
    }
    size_t all = json_object_size(r.header);
    all -= json_object_get(r.header, "__metadata__") != NULL;
    f.others = (uint32_t)(all - f.n);
    if (!err && f.n == 0)
        err = refuse_strange(&r, l, f.others, e);
    safetensors_close(&r);
    if (err) {
        mem_free(f.tensor);
        return err;
    }
    *found = f;
    return ERR_OK;
}

enum err safetensors_metadata(const char *path, json_t **metadata, struct errmsg *e)
{
    struct safetensors r;
    enum err err = safetensors_open(&r, path, e);
    if (err)
        return err;
    json_t *said = json_object_get(r.header, "__metadata__");
    *metadata = said ? json_incref(said) : json_object();
    safetensors_close(&r);
    return *metadata ? ERR_OK : err_set(e, ERR_NOMEM, "%s: out of memory", path);
}

enum err export_note(const char *path, const char *key, char *out, size_t bytes, bool *there,
                     struct errmsg *e)
{
    struct safetensors r;
    enum err err = safetensors_open(&r, path, e);
    if (err)
        return err;
    const char *text =
        json_string_value(json_object_get(json_object_get(r.header, "__metadata__"), key));
    *there = text && strlen(text) < bytes;
    if (*there)
        memcpy(out, text, strlen(text) + 1);
    safetensors_close(&r);
    return ERR_OK;
}
