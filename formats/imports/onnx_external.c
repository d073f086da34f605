#include "formats/imports/onnx_external.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/mem.h"
#include "common/process/files.h"
#include "formats/imports/onnx_tensor.h"

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

static enum err open_file(struct external *x, const char *location, struct errmsg *e)
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

static bool take_number(const char *text, uint64_t *n)
{
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    *n = value;
    return *text >= '0' && *text <= '9' && *end == '\0' && errno == 0;
}

/* part->bytes: what the tensor needs, unless the file says another number. */
static enum err take_part(const Onnx__Tensor *t, struct part *part, struct errmsg *e)
{
    for (size_t i = 0; i < t->n_external_data; i++) {
        const Onnx__Entry *entry = t->external_data[i];
        bool good = true;
        if (strcmp(entry->key, "location") == 0)
            part->location = entry->value;
        else if (strcmp(entry->key, "offset") == 0)
            good = take_number(entry->value, &part->offset);
        else if (strcmp(entry->key, "length") == 0)
            good = take_number(entry->value, &part->bytes);
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

static enum err read_part(struct external *x, const struct part *part, Onnx__Tensor *t,
                          struct errmsg *e)
{
    size_t got = 0, bytes = (size_t)part->bytes;
    uint8_t *data = mem_zalloc(bytes, 1);
    if (!data)
        return err_set(e, ERR_NOMEM, "out of memory");
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

static enum err read_tensor(struct external *x, Onnx__Tensor *t, struct errmsg *e)
{
    uint64_t needed;
    if (t->data_location != ELSEWHERE || !onnx_tensor_bytes(t, &needed))
        return ERR_OK; /* the node that reads it refuses another type */
    struct part part = {.bytes = needed};
    enum err err = take_part(t, &part, e);
    if (!err)
        err = open_file(x, part.location, e);
    if (!err)
        err = check_part(x, &part, needed, e);
    if (!err)
        err = read_part(x, &part, t, e);
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

static enum err read_all(struct external *x, Onnx__Graph *g, struct errmsg *e)
{
    enum err err = ERR_OK;
    for (size_t i = 0; i < g->n_initializer && !err; i++)
        err = read_tensor(x, g->initializer[i], e);
    for (size_t i = 0; i < g->n_node && !err; i++)
        for (size_t k = 0; k < g->node[i]->n_attribute && !err; k++)
            if (g->node[i]->attribute[k]->t)
                err = read_tensor(x, g->node[i]->attribute[k]->t, e);
    return err;
}

enum err onnx_external_read(Onnx__Graph *g, const char *path, struct errmsg *e)
{
    struct external x = {.folder = open_folder(path)};
    if (x.folder < 0)
        return err_set(e, ERR_INPUT, "its folder cannot be opened: %s", strerror(errno));
    enum err err = read_all(&x, g, e);
    if (x.at)
        (void)close(x.fd);
    (void)close(x.folder);
    return err;
}
