/* The header of safetensors files, read and written. Other files' readers and writers of weights, tables and exchanged
 * tensors stand on it. */
#include "common/formats/safetensors.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/mem.h"
#include "common/process/files.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "floats are written as they stand");

enum { HEADER_ALIGN_BYTES = 8, HEADER_MAX_BYTES = 64 << 20 };

/* ---- reading ---- */

enum err safetensors_read(const struct safetensors *s, void *out, uint64_t bytes, uint64_t at,
                          struct errmsg *e)
{
    size_t got;
    enum err err = s->in ? place_read(s->in, at, out, bytes, &got, e)
                         : files_read_at(s->fd, s->path, at, out, bytes, &got, e);
    if (!err && got < bytes)
        return err_set(e, ERR_CORRUPT, "%s: it ends too early", s->path);
    return err;
}

static enum err not_one(const struct safetensors *s, struct errmsg *e)
{
    return err_set(e, ERR_CORRUPT, "%s: not a safetensors file", s->path);
}

static enum err read_header(struct safetensors *s, uint64_t file_bytes, struct errmsg *e)
{
    uint64_t bytes;
    enum err err = safetensors_read(s, &bytes, sizeof bytes, 0, e);
    if (err)
        return err;
    if (bytes > HEADER_MAX_BYTES || bytes > file_bytes - sizeof bytes)
        return not_one(s, e);
    char *text = mem_zalloc(bytes + 1, 1);
    if (!text)
        return err_memory_of(e, s->path);
    err = safetensors_read(s, text, bytes, sizeof bytes, e);
    if (!err)
        s->header = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, NULL);
    mem_free(text);
    s->data_at = sizeof bytes + bytes;
    s->data_bytes = file_bytes - s->data_at;
    return err || json_is_object(s->header) ? err : not_one(s, e);
}

struct span {
    uint64_t begin, end;
    const char *name;
};

static int compare_spans(const void *a, const void *b)
{
    const struct span *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

static enum err check_order(const struct safetensors *s, const struct span *p, size_t n,
                            struct errmsg *e)
{
    uint64_t at = 0;
    for (size_t i = 0; i < n; at = p[i++].end)
        if (p[i].begin != at)
            return err_set(e, ERR_CORRUPT,
                           "%s: the data_offsets of tensor %.95s are wrong: it begins at %llu, and "
                           "the tensor before it ends at %llu",
                           s->path, p[i].name, (unsigned long long)p[i].begin,
                           (unsigned long long)at);
    return ERR_OK;
}

/* The format has no gaps, and no bytes belong to two tensors. An entry that is no place in the file is refused by its reader. */
static enum err check_places(const struct safetensors *s, struct errmsg *e)
{
    struct span *p = mem_zalloc(json_object_size(s->header) + 1, sizeof *p);
    bool places = true;
    const char *name;
    json_t *said;
    size_t n = 0;
    if (!p)
        return err_memory_of(e, s->path);
    json_object_foreach(s->header, name, said) if (strcmp(name, "__metadata__") != 0)
    {
        p[n].name = name;
        places &= safetensors_offsets(said, &p[n].begin, &p[n].end) && p[n].end <= s->data_bytes;
        n++;
    }
    qsort(p, n, sizeof *p, compare_spans);
    enum err err = places ? check_order(s, p, n, e) : ERR_OK;
    mem_free(p);
    return err;
}

/* s: without a header yet. */
static enum err open_sized(struct safetensors *out, struct safetensors s, uint64_t bytes,
                           struct errmsg *e)
{
    enum err err = bytes < sizeof(uint64_t) ? not_one(&s, e) : read_header(&s, bytes, e);
    if (!err)
        err = check_places(&s, e);
    if (err)
        json_decref(s.header);
    else
        *out = s;
    return err;
}

enum err safetensors_open_fd(struct safetensors *out, int fd, const char *path, struct errmsg *e)
{
    struct stat st;
    if (fstat(fd, &st))
        return err_set(e, ERR_IO, "%s: %s", path, strerror(errno));
    return open_sized(out, (struct safetensors){.path = path, .fd = fd, .borrowed = true},
                      (uint64_t)st.st_size, e);
}

enum err safetensors_open_in(struct safetensors *out, const struct place *p, const char *name,
                             struct place_reader *file, struct errmsg *e)
{
    enum err err = place_open(p, name, file, e);
    if (err)
        return err;
    err = open_sized(out, (struct safetensors){.path = file->path, .in = file}, file->bytes, e);
    if (err)
        place_close(file);
    return err;
}

enum err safetensors_open(struct safetensors *out, const char *path, struct errmsg *e)
{
    int fd;
    enum err err = files_open(path, &fd, e);
    if (err)
        return err;
    err = safetensors_open_fd(out, fd, path, e);
    if (err)
        (void)close(fd);
    else
        out->borrowed = false;
    return err;
}

void safetensors_close(struct safetensors *s)
{
    json_decref(s->header);
    if (s->in)
        place_close(s->in);
    else if (!s->borrowed)
        (void)close(s->fd);
}

/* ---- a tensor ---- */

bool safetensors_entry(const json_t *said, struct safetensors_entry *entry)
{
    const json_t *shape = json_object_get(said, "shape");
    struct safetensors_entry made = {.type = json_string_value(json_object_get(said, "dtype"))};
    size_t rank = json_array_size(shape);
    bool right = made.type && rank <= SAFETENSORS_RANK_MAX;
    for (size_t i = 0; i < rank && right; i++) {
        const json_t *n = json_array_get(shape, i);
        right = json_is_integer(n) && json_integer_value(n) >= 0;
        made.shape[i] = (uint64_t)json_integer_value(n);
    }
    made.rank = (uint32_t)rank;
    if (right)
        *entry = made;
    return right;
}

bool safetensors_offsets(const json_t *said, uint64_t *begin, uint64_t *end)
{
    const json_t *offsets = json_object_get(said, "data_offsets");
    const json_t *first = json_array_get(offsets, 0), *last = json_array_get(offsets, 1);
    *begin = (uint64_t)json_integer_value(first);
    *end = (uint64_t)json_integer_value(last);
    return json_is_integer(first) && json_is_integer(last) && json_integer_value(first) >= 0 &&
           json_integer_value(last) >= json_integer_value(first);
}

enum err safetensors_place(const struct safetensors *s, const char *name, const json_t *said,
                           uint64_t bytes, uint64_t *at, struct errmsg *e)
{
    uint64_t begin, end;
    if (!safetensors_offsets(said, &begin, &end) || end > s->data_bytes || end - begin != bytes)
        return err_set(e, ERR_CORRUPT, "%s: the data_offsets of tensor %.95s do not fit the file",
                       s->path, name);
    *at = s->data_at + begin;
    return ERR_OK;
}

const char *safetensors_shape_text(const json_t *said, char out[SAFETENSORS_SHAPE_BYTES])
{
    const json_t *shape = json_object_get(said, "shape");
    const size_t n = json_array_size(shape), most = SAFETENSORS_SHAPE_BYTES;
    size_t at = (size_t)snprintf(out, most, "(");
    for (size_t i = 0; i < n && at < most; i++)
        at += (size_t)snprintf(out + at, most - at, "%s%lld", i ? ", " : "",
                               (long long)json_integer_value(json_array_get(shape, i)));
    if (at < most)
        (void)snprintf(out + at, most - at, ")");
    return out;
}

enum err safetensors_array(const struct safetensors *s, const char *name, const char *type,
                           uint32_t rank, size_t elem_bytes, struct safetensors_array *a,
                           struct errmsg *e)
{
    const json_t *said = json_object_get(s->header, name);
    struct safetensors_entry entry;
    uint64_t bytes = elem_bytes, at = 0;
    assert(rank == 1 || rank == 2);
    bool fits =
        safetensors_entry(said, &entry) && entry.rank == rank && strcmp(entry.type, type) == 0;
    for (uint32_t i = 0; i < rank && fits; i++)
        fits = !__builtin_mul_overflow(bytes, entry.shape[i], &bytes);
    if (!fits)
        return err_set(e, ERR_CORRUPT, "%s: it has no tensor %s of type %s and rank %u", s->path,
                       name, type, rank);
    enum err err = safetensors_place(s, name, said, bytes, &at, e);
    if (!err)
        *a = (struct safetensors_array){at, entry.shape[0], rank == 2 ? entry.shape[1] : 1};
    return err;
}

/* ---- writing ---- */

enum err safetensors_add(json_t *header, const char *name, const char *type, uint32_t rank,
                         const uint64_t *shape, uint64_t bytes, uint64_t *at)
{
    json_t *dims = json_array();
    bool made = dims != NULL;
    for (uint32_t i = 0; i < rank && made; i++)
        made = json_array_append_new(dims, json_integer((json_int_t)shape[i])) == 0;
    if (!made || json_object_get(header, name)) {
        json_decref(dims);
        return made ? ERR_STATE : ERR_NOMEM;
    }
    json_t *said = json_pack("{s:s, s:o, s:[I, I]}", "dtype", type, "shape", dims, "data_offsets",
                             (json_int_t)*at, (json_int_t)(*at + bytes));
    *at += bytes;
    return json_object_set_new(header, name, said) == 0 ? ERR_OK : ERR_NOMEM;
}

char *safetensors_begin(const json_t *header, size_t *bytes)
{
    char *text = json_dumps(header, JSON_COMPACT), *all = NULL;
    uint64_t n = text ? strlen(text) : 0, whole = n + -n % HEADER_ALIGN_BYTES;
    if (text)
        all = mem_zalloc(sizeof whole + whole, 1);
    if (all) {
        memcpy(all, &whole, sizeof whole);
        memset(all + sizeof whole, ' ', whole); /* the format requires the alignment */
        memcpy(all + sizeof whole, text, n);
        *bytes = sizeof whole + whole;
    }
    free(text);
    return all;
}
