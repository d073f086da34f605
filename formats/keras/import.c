/* Reads the archive or the JSON file, makes a model of its layers (config.h), and fills the model's tensors from the weights, layer by
 * layer, in Keras's order. */
#include "formats/keras/keras.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/mem.h"
#include "common/process/files.h"
#include "formats/keras/archive.h"
#include "formats/keras/config.h"
#include "formats/keras/hdf5.h"
#include "formats/keras/layers.h"
#include "formats/tensors/tensors.h"
#include "data/bytes/stream.h"

enum { HEAD_BYTES = 64 };

/* The file's first bytes as text, without leading blanks. */
static void read_head(const char *path, char head[HEAD_BYTES])
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n = fd < 0 ? 0 : files_get_at(fd, head, HEAD_BYTES - 1, 0);
    if (fd >= 0)
        (void)close(fd);
    head[n > 0 ? n : 0] = '\0';
    size_t blanks = strspn(head, " \t\r\n");
    memmove(head, head + blanks, strlen(head + blanks) + 1);
}

static bool is_hdf5(const char *head)
{
    return strncmp(head, "\x89HDF", 4) == 0;
}

bool keras_is_model(const char *path)
{
    char head[HEAD_BYTES];
    read_head(path, head);
    return *head == '{' || is_hdf5(head) || zip_is_archive(path);
}

/* ---- weights ---- */

struct weights {
    const char *path;
    int fd;
    uint64_t at;
    struct tensors list;
};

static bool has_shape_of(const struct tensor_entry *w, const struct tensor *t)
{
    bool same = w->rank == t->rank;
    for (uint32_t i = 0; same && i < t->rank; i++)
        same = w->shape[i] == t->shape[i];
    return same;
}

static enum err copy_tensor(const struct weights *from, const char *name, const struct tensor *t,
                            float *w, struct errmsg *e)
{
    const struct tensor_entry *entry = tensors_find(&from->list, name);
    if (!entry)
        return err_set(e, ERR_INPUT, "%s: its weights lack %s, which is %s", from->path, name,
                       t->name);
    if (!has_shape_of(entry, t))
        return err_set(e, ERR_INPUT, "%s: the weights %s have another shape than %s", from->path,
                       name, t->name);
    return tensors_read_values(from->fd, from->path, w + t->offset_elems, entry->bytes,
                               from->at + entry->at, e);
}

static enum err copy_layer(const struct weights *from, const struct config_weights *of,
                           const struct layout *l, float *w, struct errmsg *e)
{
    char name[CONFIG_GROUP_BYTES + 16];
    uint32_t k = 0;
    for (uint32_t i = 0; i < KERAS_WEIGHTS; i++) {
        const struct tensor *t = layout_weight(l, of->name, keras_weights[i]);
        (void)snprintf(name, sizeof name, "%s/%u", of->group, k);
        enum err err = t ? copy_tensor(from, name, t, w, e) : ERR_OK;
        if (err)
            return err;
        k += t != NULL;
    }
    (void)snprintf(name, sizeof name, "%s/%u", of->group, k);
    if (tensors_find(&from->list, name))
        return err_set(e, ERR_INPUT, "%s: %s has more weights than a layer of a job: %s",
                       from->path, of->name, name);
    return ERR_OK;
}

static enum err copy_all(const struct weights *from, const struct config *c, struct model *m,
                         float **out, struct errmsg *e)
{
    const struct layout *l = model_layout(m);
    float *w = mem_floats(l->elems);
    enum err err = w ? ERR_OK : err_memory_of(e, from->path);
    for (uint32_t i = 0; i < c->weighted && !err; i++)
        err = copy_layer(from, &c->weights[i], l, w, e);
    if (err)
        mem_free(w);
    else
        *out = w;
    return err;
}

/* hdf5: an open file. */
static enum err import_weights(const char *path, int hdf5, const struct config *c, struct model *m,
                               float **w, struct errmsg *e)
{
    struct weights from = {.path = path, .fd = -1};
    enum err err = hdf5_scratch(&from.fd, e);
    if (err)
        return err;
    struct hdf5_call call = {.command = "read", .name = path, .from = hdf5, .to = from.fd};
    err = hdf5_run(&call, e);
    if (!err)
        err = tensors_read_header(&from.list, from.fd, path, &from.at, e);
    if (!err)
        err = copy_all(&from, c, m, w, e);
    tensors_close(&from.list);
    (void)close(from.fd);
    return err;
}

/* ---- the file ---- */

static enum err import_read_file(const char *path, char **config, size_t *bytes, int *weights,
                                 struct errmsg *e)
{
    uint8_t *text;
    char head[HEAD_BYTES];
    if (zip_is_archive(path))
        return archive_read(path, config, bytes, weights, e);
    read_head(path, head);
    if (is_hdf5(head))
        return err_set(e, ERR_INPUT,
                       "%s: an HDF5 file alone is not read: load the model in Keras 3, and save it "
                       "as a .keras file",
                       path);
    enum err err = files_read_regular(path, CONFIG_BYTES_MAX, &text, bytes, e);
    if (err)
        return err == ERR_NOTFOUND ? ERR_INPUT : err;
    *config = (char *)text;
    *weights = -1;
    return ERR_OK;
}

/* Add the model, its weights and the metrics that fit it to c->m. */
static enum err import_model(struct config *c, const char *path, int weights, struct errmsg *e)
{
    char name[JOB_FILE_SHOWN];
    struct imported *m = &c->m;
    (void)snprintf(name, sizeof name, "%.120s (as a job)", path);
    const char *chose =
        c->loss_is_chosen ? "compile the model with a loss, and save it again" : NULL;
    enum err err = imported_model(&m->model, name, m->yaml, chose, e);
    if (!err && weights >= 0)
        err = import_weights(path, weights, c, m->model, &m->w, e);
    if (!err && imported_add_metrics(m, c->metric, c->metrics))
        err = err_memory_of(e, path);
    return err;
}

enum err keras_import(struct imported *m, const char *path, char **refused, struct errmsg *e)
{
    struct config c = {.m.scale = 1};
    char *text = NULL;
    size_t bytes = 0;
    int weights = -1;
    *refused = NULL;
    enum err err = import_read_file(path, &text, &bytes, &weights, e);
    if (err)
        return err;
    err = config_read(&c, text, bytes, path, weights >= 0, refused, e);
    if (!err)
        err = import_model(&c, path, weights, e);
    mem_free(text);
    if (weights >= 0)
        (void)close(weights);
    if (err)
        imported_close(&c.m);
    else
        *m = c.m;
    return err;
}
