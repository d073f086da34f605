#include "formats/tensors/tensors.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "common/base/mem.h"
#include "common/base/printable.h"
#include "common/process/files.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "floats are written as they stand");

enum { HEADER_ALIGN_BYTES = 8 /* required by the format; spaces fill the gap */ };
#define HEADER_BYTES_MAX ((uint64_t)64 << 20)

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

/* JSON has only such names. */
static enum err check_utf8(const char *name, struct errmsg *e)
{
    return printable_is_utf8(name) ? ERR_OK
                                   : err_set(e, ERR_INPUT, "the name of a tensor is not UTF-8");
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
    enum err err = check_utf8(name, e);
    if (!err)
        err = size_of(t, name, rank, shape, &new.bytes, e);
    if (err)
        return err;
    struct tensor_entry *grown = mem_extend(t->entry, t->n, 1, sizeof *grown);
    if (grown)
        t->entry = grown;
    if (!grown || !(new.name = mem_strdup(name)))
        return err_set(e, ERR_NOMEM, "out of memory");
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

/* ---- bytes ---- */

enum err tensors_pread(int fd, const char *path, void *out, uint64_t bytes, uint64_t at,
                       struct errmsg *e)
{
    ssize_t n = files_get_at(fd, out, bytes, at);
    if (n < 0)
        return err_set(e, ERR_IO, "%s: %s", path, strerror(errno));
    return (uint64_t)n == bytes ? ERR_OK : err_set(e, ERR_CORRUPT, "%s: it ends too early", path);
}

enum err tensors_pwrite(int fd, const char *path, const void *data, uint64_t bytes, uint64_t at,
                        struct errmsg *e)
{
    if (files_put_at(fd, data, bytes, at) < bytes)
        return err_set(e, ERR_IO, "%s: %s", path, strerror(errno));
    return ERR_OK;
}

/* ---- reading the header ---- */

static enum err not_one(const char *path, struct errmsg *e)
{
    return err_set(e, ERR_CORRUPT, "%s: not a safetensors file", path);
}

/* Add what the header says of one tensor. */
static enum err take(struct tensors *t, const char *path, const char *name, const json_t *said,
                     struct errmsg *e)
{
    const json_t *dims = json_object_get(said, "shape");
    const json_t *offsets = json_object_get(said, "data_offsets");
    const char *type = json_string_value(json_object_get(said, "dtype"));
    size_t rank = json_array_size(dims);
    uint64_t shape[TENSORS_RANK_MAX];
    if (!type || strcmp(type, "F32") != 0 || rank > TENSORS_RANK_MAX)
        return err_set(e, ERR_CORRUPT, "%s: tensor %.200s is not float32 of at most %d dimensions",
                       path, name, TENSORS_RANK_MAX);
    for (size_t i = 0; i < rank; i++) {
        json_int_t n = json_integer_value(json_array_get(dims, i));
        if (!json_is_integer(json_array_get(dims, i)) || n < 0)
            return not_one(path, e);
        shape[i] = (uint64_t)n;
    }
    json_int_t begin = json_integer_value(json_array_get(offsets, 0));
    json_int_t end = json_integer_value(json_array_get(offsets, 1));
    enum err err = tensors_add(t, name, (uint32_t)rank, shape, e);
    if (!err && (begin < 0 || (uint64_t)begin != t->entry[t->n - 1].at || end < 0 ||
                 (uint64_t)end != t->bytes))
        err =
            err_set(e, ERR_CORRUPT, "%s: the data_offsets of tensor %.200s are wrong", path, name);
    return err;
}

/* `bytes`: of the file after the header. */
static enum err take_all(struct tensors *t, const char *path, json_t *header, uint64_t bytes,
                         struct errmsg *e)
{
    const char *name;
    json_t *said;
    if (!json_is_object(header))
        return not_one(path, e);
    json_object_foreach(header, name, said)
    {
        enum err err = strcmp(name, "__metadata__") == 0 ? ERR_OK : take(t, path, name, said, e);
        if (err)
            return err;
    }
    if (t->bytes != bytes)
        return err_set(e, ERR_CORRUPT, "%s: its size does not fit its header", path);
    return ERR_OK;
}

static enum err read_text(int fd, const char *path, char **text, uint64_t *bytes, uint64_t *file,
                          struct errmsg *e)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return err_set(e, ERR_IO, "%s: %s", path, strerror(errno));
    *file = (uint64_t)st.st_size;
    if (*file < sizeof *bytes)
        return not_one(path, e);
    enum err err = tensors_pread(fd, path, bytes, sizeof *bytes, 0, e);
    if (!err && (*bytes > HEADER_BYTES_MAX || *bytes > *file - sizeof *bytes))
        err = not_one(path, e);
    if (err)
        return err;
    *text = mem_zalloc(*bytes + 1, 1);
    if (!*text)
        return err_set(e, ERR_NOMEM, "%s: out of memory", path);
    err = tensors_pread(fd, path, *text, *bytes, sizeof *bytes, e);
    if (err)
        mem_free(*text);
    return err;
}

enum err tensors_read_header(struct tensors *t, int fd, const char *path, uint64_t *data_at,
                             struct errmsg *e)
{
    struct tensors read = {0};
    uint64_t bytes = 0, file = 0;
    char *text = NULL;
    enum err err = read_text(fd, path, &text, &bytes, &file, e);
    if (err)
        return err;
    json_t *header = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, NULL);
    mem_free(text);
    err = take_all(&read, path, header, file - sizeof bytes - bytes, e);
    json_decref(header);
    if (err) {
        tensors_close(&read);
        return err;
    }
    *t = read;
    *data_at = sizeof bytes + bytes;
    return ERR_OK;
}

/* ---- writing it ---- */

static json_t *describe(const struct tensor_entry *t)
{
    json_t *shape = json_array();
    for (uint32_t i = 0; i < t->rank; i++)
        if (json_array_append_new(shape, json_integer((json_int_t)t->shape[i])) != 0) {
            json_decref(shape);
            return NULL;
        }
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", "F32", "shape", shape, "data_offsets",
                     (json_int_t)t->at, (json_int_t)(t->at + t->bytes));
}

/* For free(); NULL: out of memory. */
static char *header_text(const struct tensors *t)
{
    json_t *header = json_object();
    bool made = header != NULL;
    for (size_t i = 0; i < t->n && made; i++)
        made = json_object_set_new(header, t->entry[i].name, describe(&t->entry[i])) == 0;
    char *text = made ? json_dumps(header, JSON_COMPACT) : NULL;
    json_decref(header);
    return text;
}

enum err tensors_write_header(const struct tensors *t, int fd, const char *path, uint64_t *data_at,
                              struct errmsg *e)
{
    static const char spaces[HEADER_ALIGN_BYTES + 1] = "        ";
    char *text = header_text(t);
    if (!text)
        return err_set(e, ERR_NOMEM, "%s: out of memory", path);
    uint64_t bytes = strlen(text), fill = -bytes % HEADER_ALIGN_BYTES, whole = bytes + fill;
    enum err err = tensors_pwrite(fd, path, &whole, sizeof whole, 0, e);
    if (!err)
        err = tensors_pwrite(fd, path, text, bytes, sizeof whole, e);
    if (!err)
        err = tensors_pwrite(fd, path, spaces, fill, sizeof whole + bytes, e);
    free(text);
    *data_at = sizeof whole + whole;
    return err;
}
