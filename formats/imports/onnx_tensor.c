/* Tensors of ONNX: their elements, of any type of numbers, as double; the attributes of nodes; and tensors in other files, which are read
 * into the graph before anything else sees it. */
#include "formats/imports/onnx_tensor.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/mem.h"
#include "common/base/real.h"
#include "common/process/files.h"

/* ---- elements ---- */

#define ELEMS_MAX ((uint64_t)1 << 40)

/* Bytes of an element in raw_data; 0: not a number that is read here. */
static size_t elem_bytes(int32_t type)
{
    switch (type) {
    case ONNX__DATA_TYPE__FLOAT:
    case ONNX__DATA_TYPE__INT32:
        return 4;
    case ONNX__DATA_TYPE__INT64:
    case ONNX__DATA_TYPE__DOUBLE:
        return 8;
    case ONNX__DATA_TYPE__FLOAT16:
    case ONNX__DATA_TYPE__BFLOAT16:
        return 2;
    case ONNX__DATA_TYPE__BOOL:
        return 1;
    default:
        return 0;
    }
}

/* The number of elements in the field for this type. */
static size_t listed(const Onnx__Tensor *t)
{
    switch (t->data_type) {
    case ONNX__DATA_TYPE__FLOAT:
        return t->n_float_data;
    case ONNX__DATA_TYPE__DOUBLE:
        return t->n_double_data;
    case ONNX__DATA_TYPE__INT64:
        return t->n_int64_data;
    default:
        return t->n_int32_data;
    }
}

/* The product of its dimensions. False: as onnx_tensor_bytes. */
static bool shape_elems(const Onnx__Tensor *t, uint64_t *elems)
{
    uint64_t n = 1;
    if (t->n_dims > ONNX_RANK_MAX || elem_bytes(t->data_type) == 0)
        return false;
    for (size_t i = 0; i < t->n_dims; i++)
        if (t->dims[i] < 0 || __builtin_mul_overflow(n, (uint64_t)t->dims[i], &n) || n > ELEMS_MAX)
            return false;
    *elems = n;
    return true;
}

bool onnx_tensor_bytes(const Onnx__Tensor *t, uint64_t *bytes)
{
    uint64_t n;
    if (!shape_elems(t, &n))
        return false;
    *bytes = n * elem_bytes(t->data_type);
    return true;
}

bool onnx_tensor_elems(const Onnx__Tensor *t, uint64_t *elems)
{
    uint64_t n;
    if (!shape_elems(t, &n) || t->data_location != 0)
        return false;
    *elems = n;
    return t->raw_data.len ? t->raw_data.len == n * elem_bytes(t->data_type) : listed(t) == n;
}

static double from_bfloat(uint16_t h)
{
    uint32_t bits = (uint32_t)h << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return (double)value;
}

static double raw_at(const Onnx__Tensor *t, uint64_t i)
{
    size_t bytes = elem_bytes(t->data_type);
    const uint8_t *at = t->raw_data.data + i * bytes;
    union {
        float f;
        double d;
        int32_t i;
        int64_t l;
        uint16_t h;
    } as;
    memcpy(&as, at, bytes);
    switch (t->data_type) {
    case ONNX__DATA_TYPE__FLOAT:
        return (double)as.f;
    case ONNX__DATA_TYPE__DOUBLE:
        return as.d;
    case ONNX__DATA_TYPE__INT32:
        return as.i;
    case ONNX__DATA_TYPE__INT64:
        return (double)as.l;
    case ONNX__DATA_TYPE__FLOAT16:
        return (double)real_of_half(as.h);
    case ONNX__DATA_TYPE__BOOL:
        return *at;
    default:
        return from_bfloat(as.h);
    }
}

double onnx_tensor_at(const Onnx__Tensor *t, uint64_t i)
{
    if (t->raw_data.len)
        return raw_at(t, i);
    switch (t->data_type) {
    case ONNX__DATA_TYPE__FLOAT:
        return (double)t->float_data[i];
    case ONNX__DATA_TYPE__DOUBLE:
        return t->double_data[i];
    case ONNX__DATA_TYPE__INT64:
        return (double)t->int64_data[i];
    case ONNX__DATA_TYPE__FLOAT16:
        return (double)real_of_half((uint16_t)t->int32_data[i]);
    case ONNX__DATA_TYPE__BFLOAT16:
        return from_bfloat((uint16_t)t->int32_data[i]);
    default:
        return t->int32_data[i];
    }
}

/* ---- attributes ---- */

const Onnx__Attribute *onnx_attribute(const Onnx__Node *n, const char *name)
{
    for (size_t i = 0; i < n->n_attribute; i++)
        if (strcmp(n->attribute[i]->name, name) == 0)
            return n->attribute[i];
    return NULL;
}

int64_t onnx_int(const Onnx__Node *n, const char *name, int64_t otherwise)
{
    const Onnx__Attribute *a = onnx_attribute(n, name);
    return a ? a->i : otherwise;
}

double onnx_float(const Onnx__Node *n, const char *name, double otherwise)
{
    const Onnx__Attribute *a = onnx_attribute(n, name);
    return a ? (double)a->f : otherwise;
}

size_t onnx_ints(const Onnx__Node *n, const char *name, int64_t *out, size_t room)
{
    const Onnx__Attribute *a = onnx_attribute(n, name);
    size_t i = 0;
    for (; a && i < a->n_ints && i < room; i++)
        out[i] = a->ints[i];
    return i;
}

bool onnx_text_is(const Onnx__Node *n, const char *name, const char *text)
{
    const Onnx__Attribute *a = onnx_attribute(n, name);
    return !a || (a->s.len == strlen(text) && memcmp(a->s.data, text, a->s.len) == 0);
}

/* ---- tensors in other files ---- */

enum { ELSEWHERE = 1, TEXT_MAX = 4096 };

/* Tensors may share a part of a file, so their sum can be more than the disk holds. */
#define ALL_BYTES_MAX ((uint64_t)16 << 30)

struct external {
    int folder;     /* of the model */
    const char *at; /* the location of the open file; NULL: none is open */
    int fd;
    uint64_t bytes; /* of the open file */
    uint64_t all;   /* bytes of all tensors so far */
};

/* The part of a file. */
struct part {
    const char *location;
    uint64_t offset, bytes;
};

/* ---- the file ---- */

/* Opens the last of the names in `location`, each in the folder before it. Returns a file, or -1 with errno. */
static int open_below(int folder, const char *location)
{
    char name[TEXT_MAX];
    int at = dup(folder);
    while (at >= 0) {
        size_t n = strcspn(location, "/");
        bool last = location[n] == '\0';
        (void)snprintf(name, sizeof name, "%.*s", (int)n, location);
        int flags = last ? O_RDONLY | O_NONBLOCK : O_PATH | O_DIRECTORY;
        int next = openat(at, name, flags | O_CLOEXEC | O_NOFOLLOW);
        int why = errno;
        (void)close(at);
        errno = why;
        at = next;
        if (last)
            break;
        location += n + 1;
    }
    return at;
}

/* NULL: it names a file below the folder. */
static const char *wrong_location(const char *location)
{
    size_t n;
    if (!location || !*location)
        return "names no file";
    if (strlen(location) >= TEXT_MAX)
        return "has a name that is too long";
    if (*location == '/')
        return "is an absolute path; only the model's own folder is read";
    for (const char *at = location; *at; at += n + (at[n] == '/')) {
        n = strcspn(at, "/");
        if (n == 2 && strncmp(at, "..", 2) == 0)
            return "leaves the model's own folder";
    }
    return location[strlen(location) - 1] == '/' ? "names a folder" : NULL;
}

static enum err external_open(struct external *x, const char *location, struct errmsg *e)
{
    struct stat st;
    const char *wrong = wrong_location(location);
    if (wrong)
        return err_set(e, ERR_INPUT, "\"%.200s\", which %s", location ? location : "", wrong);
    if (x->at && strcmp(x->at, location) == 0)
        return ERR_OK;
    int fd = open_below(x->folder, location);
    if (fd < 0 && (errno == ELOOP || errno == ENOTDIR))
        return err_set(e, ERR_INPUT, "%.200s, and a link to other files is not read", location);
    if (fd < 0)
        return err_set(e, ERR_INPUT, "%.200s: %s; the file belongs next to the model's", location,
                       strerror(errno));
    if (fstat(fd, &st) || !S_ISREG(st.st_mode)) {
        (void)close(fd);
        return err_set(e, ERR_INPUT, "%.200s, which is not a regular file", location);
    }
    if (x->at)
        (void)close(x->fd);
    x->at = location;
    x->fd = fd;
    x->bytes = (uint64_t)st.st_size;
    return ERR_OK;
}

/* ---- a tensor ---- */

static bool parse_number(const char *text, uint64_t *n)
{
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    *n = value;
    return *text >= '0' && *text <= '9' && *end == '\0' && errno == 0;
}

/* part->bytes: what the tensor needs, unless the file says another number. */
static enum err parse_part(const Onnx__Tensor *t, struct part *part, struct errmsg *e)
{
    for (size_t i = 0; i < t->n_external_data; i++) {
        const Onnx__Entry *entry = t->external_data[i];
        bool good = true;
        if (strcmp(entry->key, "location") == 0)
            part->location = entry->value;
        else if (strcmp(entry->key, "offset") == 0)
            good = parse_number(entry->value, &part->offset);
        else if (strcmp(entry->key, "length") == 0)
            good = parse_number(entry->value, &part->bytes);
        else
            good = strcmp(entry->key, "checksum") == 0; /* SHA1 of the whole file; optional */
        if (!good)
            return err_set(e, ERR_INPUT,
                           "another file by %.60s: \"%.60s\", which is not known here", entry->key,
                           entry->value);
    }
    return ERR_OK;
}

/* The part is in the file, and is as long as the tensor. */
static enum err check_part(const struct external *x, const struct part *part, uint64_t needed,
                           struct errmsg *e)
{
    if (part->bytes != needed)
        return err_set(e, ERR_INPUT, "%.200s with %llu bytes; its shape has %llu", part->location,
                       (unsigned long long)part->bytes, (unsigned long long)needed);
    if (part->offset > x->bytes || part->bytes > x->bytes - part->offset)
        return err_set(e, ERR_INPUT, "%.200s at offset %llu with %llu bytes; the file ends at %llu",
                       part->location, (unsigned long long)part->offset,
                       (unsigned long long)part->bytes, (unsigned long long)x->bytes);
    if (needed > ALL_BYTES_MAX - x->all)
        return err_set(e, ERR_INPUT, "%.200s; all tensors together have more than %llu GiB",
                       part->location, (unsigned long long)(ALL_BYTES_MAX >> 30));
    return ERR_OK;
}

static enum err external_read_part(struct external *x, const struct part *part, Onnx__Tensor *t,
                                   struct errmsg *e)
{
    size_t got = 0, bytes = (size_t)part->bytes;
    uint8_t *data = mem_zalloc(bytes, 1);
    if (!data)
        return err_memory(e);
    enum err err = files_read_at(x->fd, part->location, part->offset, data, bytes, &got, e);
    if (!err && got < bytes)
        err = err_set(e, ERR_INPUT, "%.200s, which becomes shorter as it is read", part->location);
    if (err) {
        mem_free(data);
        return err;
    }
    free(t->raw_data.data); /* of protobuf-c */
    t->raw_data.data = data;
    t->raw_data.len = bytes;
    t->data_location = 0;
    x->all += bytes;
    return ERR_OK;
}

static enum err external_read_tensor(struct external *x, Onnx__Tensor *t, struct errmsg *e)
{
    uint64_t needed;
    if (t->data_location != ELSEWHERE || !onnx_tensor_bytes(t, &needed))
        return ERR_OK; /* the node that reads it refuses another type */
    struct part part = {.bytes = needed};
    enum err err = parse_part(t, &part, e);
    if (!err)
        err = external_open(x, part.location, e);
    if (!err)
        err = check_part(x, &part, needed, e);
    if (!err)
        err = external_read_part(x, &part, t, e);
    return err ? err_wrap(e, err, "tensor %.80s is in ", t->name) : ERR_OK;
}

/* ---- all ---- */

static int open_folder(const char *path)
{
    char folder[TEXT_MAX];
    const char *slash = strrchr(path, '/');
    size_t n = slash ? (size_t)(slash - path) + 1 : 0;
    if (n >= sizeof folder)
        return -1;
    memcpy(folder, slash ? path : ".", slash ? n : 1);
    folder[slash ? n : 1] = '\0';
    return open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

static enum err external_read_all(struct external *x, Onnx__Graph *g, struct errmsg *e)
{
    enum err err = ERR_OK;
    for (size_t i = 0; i < g->n_initializer && !err; i++)
        err = external_read_tensor(x, g->initializer[i], e);
    for (size_t i = 0; i < g->n_node && !err; i++)
        for (size_t k = 0; k < g->node[i]->n_attribute && !err; k++)
            if (g->node[i]->attribute[k]->t)
                err = external_read_tensor(x, g->node[i]->attribute[k]->t, e);
    return err;
}

enum err onnx_external_read(Onnx__Graph *g, const char *path, struct errmsg *e)
{
    struct external x = {.folder = open_folder(path)};
    if (x.folder < 0)
        return err_set(e, ERR_INPUT, "its folder cannot be opened: %s", strerror(errno));
    enum err err = external_read_all(&x, g, e);
    if (x.at)
        (void)close(x.fd);
    (void)close(x.folder);
    return err;
}
