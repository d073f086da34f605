#include "formats/tensors/tensors.h"

#include <string.h>

#include "common/base/mem.h"
#include "common/base/printable.h"
#include "common/process/files.h"

/* ---- the list ---- */

/* Errors: ERR_TOOBIG. */
static enum err size_of(const struct tensors *t, const char *name, uint32_t rank,
                        const uint64_t *shape, uint64_t *bytes, struct errmsg *e)
{
    uint64_t most = TENSORS_BYTES_MAX - t->bytes;
    if (rank > TENSORS_RANK_MAX)
        return err_set(e, ERR_TOOBIG, "tensor %.200s has %u dimensions; the most is %d", name, rank,
                       TENSORS_RANK_MAX);
    *bytes = sizeof(float);
    for (uint32_t i = 0; i < rank; i++)
        if (__builtin_mul_overflow(*bytes, shape[i], bytes))
            *bytes = UINT64_MAX;
    if (*bytes > most)
        return err_set(e, ERR_TOOBIG, "tensor %.200s is larger than 1 TiB with those before it",
                       name);
    return ERR_OK;
}

enum err tensors_add(struct tensors *t, const char *name, uint32_t rank, const uint64_t *shape,
                     struct errmsg *e)
{
    struct tensor_entry new = {.rank = rank, .at = t->bytes};
    if (t->n == TENSORS_MAX)
        return err_set(e, ERR_TOOBIG, "it has more than %d tensors", TENSORS_MAX);
    if (strlen(name) >= TENSORS_NAME_MAX)
        return err_set(e, ERR_TOOBIG, "the name of tensor %.60s.. is longer than %d bytes", name,
                       TENSORS_NAME_MAX - 1);
    if (!printable_is_utf8(name)) /* JSON has only such names */
        return err_set(e, ERR_INPUT, "the name of a tensor is not UTF-8");
    enum err err = size_of(t, name, rank, shape, &new.bytes, e);
    if (err)
        return err;
    struct tensor_entry *grown = mem_extend(t->entry, t->n, 1, sizeof *grown);
    if (grown)
        t->entry = grown;
    if (!grown || !(new.name = mem_strdup(name)))
        return err_memory(e);
    memcpy(new.shape, shape, rank * sizeof *shape);
    t->entry[t->n++] = new;
    t->bytes += new.bytes;
    return ERR_OK;
}

const struct tensor_entry *tensors_find(const struct tensors *t, const char *name)
{
    for (size_t i = 0; i < t->n; i++)
        if (strcmp(t->entry[i].name, name) == 0)
            return &t->entry[i];
    return NULL;
}

void tensors_close(struct tensors *t)
{
    for (size_t i = 0; i < t->n; i++)
        mem_free(t->entry[i].name);
    mem_free(t->entry);
    *t = (struct tensors){0};
}

/* ---- the header ---- */

/* Add what the header says of one tensor. */
static enum err add_said(struct tensors *t, const char *path, const char *name, const json_t *said,
                         struct errmsg *e)
{
    struct safetensors_entry entry;
    const char *type = json_string_value(json_object_get(said, "dtype"));
    uint64_t begin, end;
    if (!type || strcmp(type, "F32") != 0 ||
        json_array_size(json_object_get(said, "shape")) > TENSORS_RANK_MAX)
        return err_set(e, ERR_CORRUPT, "%s: tensor %.200s is not float32 of at most %d dimensions",
                       path, name, TENSORS_RANK_MAX);
    if (!safetensors_entry(said, &entry))
        return err_set(e, ERR_CORRUPT, "%s: not a safetensors file", path);
    enum err err = tensors_add(t, name, entry.rank, entry.shape, e);
    if (!err && (!safetensors_offsets(said, &begin, &end) || begin != t->entry[t->n - 1].at ||
                 end != t->bytes))
        err =
            err_set(e, ERR_CORRUPT, "%s: the data_offsets of tensor %.200s are wrong", path, name);
    return err;
}

static enum err add_all(struct tensors *t, const struct safetensors *s, struct errmsg *e)
{
    const char *name;
    json_t *said;
    json_object_foreach(s->header, name, said)
    {
        enum err err =
            strcmp(name, "__metadata__") == 0 ? ERR_OK : add_said(t, s->path, name, said, e);
        if (err)
            return err;
    }
    if (t->bytes != s->data_bytes)
        return err_set(e, ERR_CORRUPT, "%s: its size does not fit its header", s->path);
    return ERR_OK;
}

enum err tensors_read_header(struct tensors *t, int fd, const char *path, uint64_t *data_at,
                             struct errmsg *e)
{
    struct tensors read = {0};
    struct safetensors s;
    enum err err = safetensors_open_fd(&s, fd, path, e);
    if (err)
        return err;
    err = add_all(&read, &s, e);
    safetensors_close(&s);
    if (err) {
        tensors_close(&read);
        return err;
    }
    *t = read;
    *data_at = s.data_at;
    return ERR_OK;
}

enum err tensors_read_values(int fd, const char *path, void *out, uint64_t bytes, uint64_t at,
                             struct errmsg *e)
{
    return safetensors_read(&(struct safetensors){.fd = fd, .path = path}, out, bytes, at, e);
}

enum err tensors_write_header(const struct tensors *t, int fd, const char *path, uint64_t *data_at,
                              struct errmsg *e)
{
    json_t *header = json_object();
    enum err err = ERR_OK;
    uint64_t at = 0;
    size_t bytes = 0;
    for (size_t i = 0; i < t->n && !err; i++)
        err = safetensors_add(header, t->entry[i].name, "F32", t->entry[i].rank, t->entry[i].shape,
                              t->entry[i].bytes, &at);
    char *begin = err ? NULL : safetensors_begin(header, &bytes);
    json_decref(header);
    if (begin)
        err = files_write_at(fd, path, 0, begin, bytes, e);
    else
        err = err_memory_of(e, path);
    mem_free(begin);
    *data_at = bytes;
    return err;
}
