/* Happy path: layers -> config.json; weights -> a safetensors file -> gradwire-hdf5 -> model.weights.h5; both -> the
 * archive. Failure modes: no room for the files; gradwire-hdf5 fails. */
#include "formats/keras/keras.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/process/files.h"
#include "formats/keras/archive.h"
#include "formats/keras/hdf5.h"
#include "formats/keras/network.h"
#include "formats/keras/layers.h"
#include "formats/tensors/tensors.h"

enum { GROUP_BYTES = 200 };

/* ---- weights ---- */

/* Called for each of the model's weights, in the order of the file: its name there, and our tensor. */
typedef enum err use_weight(void *arg, const char *name, const struct tensor *t, struct errmsg *e);

static enum err each_weight(const struct network *n, const struct layout *l, use_weight *use,
                            void *arg, struct errmsg *e)
{
    char group[GROUP_BYTES], name[GROUP_BYTES + 16];
    for (uint32_t i = 0; i < n->layers; i++) {
        const struct job_layer *of = n->layer[n->order[i]].of;
        uint32_t k = 0;
        network_group(n, i, group, sizeof group);
        for (uint32_t j = 0; of && j < KERAS_WEIGHTS; j++) {
            const struct tensor *t = layout_weight(l, of->name, keras_weights[j]);
            if (!t)
                continue;
            (void)snprintf(name, sizeof name, "%s/%u", group, k++);
            enum err err = use(arg, name, t, e);
            if (err)
                return err;
        }
    }
    return ERR_OK;
}

static enum err list_weight(void *arg, const char *name, const struct tensor *t, struct errmsg *e)
{
    uint64_t shape[TENSOR_RANK_MAX];
    for (uint32_t i = 0; i < t->rank; i++)
        shape[i] = t->shape[i];
    return tensors_add(arg, name, t->rank, shape, e);
}

struct weight_writer {
    const struct folder *folder;
    int fd;
    uint64_t at;
};

static enum err write_weight(void *arg, const char *name, const struct tensor *t, struct errmsg *e)
{
    struct weight_writer *w = arg;
    uint64_t bytes = t->elems * sizeof(float), at = w->at;
    w->at += bytes;
    return files_write_at(w->fd, name, at, w->folder->w + t->offset_elems, bytes, e);
}

/* Write the safetensors file for gradwire-hdf5. */
static enum err write_weights(const struct network *n, const struct folder *f, int fd,
                              struct errmsg *e)
{
    const struct layout *l = model_layout(f->model);
    struct weight_writer w = {.folder = f, .fd = fd};
    struct tensors list = {0};
    enum err err = each_weight(n, l, list_weight, &list, e);
    if (!err)
        err = tensors_write_header(&list, fd, "a temporary file", &w.at, e);
    if (!err)
        err = each_weight(n, l, write_weight, &w, e);
    tensors_close(&list);
    return err;
}

/* *hdf5: an open file, the caller's. */
static enum err weights_file(const char *path, const struct network *n, const struct folder *f,
                             int *hdf5, struct errmsg *e)
{
    struct hdf5_call call = {.command = "write", .name = path, .from = -1, .to = -1};
    enum err err = hdf5_scratch(&call.from, e);
    if (!err)
        err = hdf5_scratch(&call.to, e);
    if (!err)
        err = write_weights(n, f, call.from, e);
    if (!err)
        err = hdf5_run(&call, e);
    if (call.from >= 0)
        (void)close(call.from);
    if (!err)
        *hdf5 = call.to;
    else if (call.to >= 0)
        (void)close(call.to);
    return err;
}

/* ---- the archive ---- */

static enum err export_network(const char *path, const struct network *n, const struct folder *f,
                               struct errmsg *e)
{
    int weights = -1;
    char *config = NULL;
    enum err err = network_config(n, &f->job, &config, e);
    if (err)
        return err;
    err = weights_file(path, n, f, &weights, e);
    if (!err) {
        err = archive_write(path, config, weights, e);
        (void)close(weights);
    }
    free(config);
    return err;
}

enum err keras_export(const char *path, const struct folder *f, struct errmsg *e)
{
    struct network n;
    enum err err = network_init(&n, &f->job, e);
    if (!err)
        err = export_network(path, &n, f, e);
    network_close(&n);
    return err;
}

/* ---- its inputs and output ---- */

static void shape_text(const json_t *batch_shape, char *out, size_t bytes)
{
    size_t n = (size_t)snprintf(out, bytes, "(n");
    for (size_t i = 1; i < json_array_size(batch_shape) && n < bytes; i++)
        n += (size_t)snprintf(out + n, bytes - n, ", %lld",
                              (long long)json_integer_value(json_array_get(batch_shape, i)));
    if (n < bytes)
        (void)snprintf(out + n, bytes - n, ")");
}

enum err keras_values(const struct folder *f, keras_value *value, void *arg, struct errmsg *e)
{
    struct network n;
    char shape[128];
    enum err err = network_init(&n, &f->job, e);
    for (uint32_t i = 0; !err && i < 2 * n.layers; i++) {
        const struct network_layer *l = network_input(&n, i);
        if (!l)
            continue;
        shape_text(json_object_get(l->config, "batch_shape"), shape, sizeof shape);
        value(arg, l->name, shape);
    }
    if (!err) {
        (void)snprintf(shape, sizeof shape, "(n, %u)", model_outputs(f->model));
        value(arg, n.layer[n.output].name, shape);
    }
    network_close(&n);
    return err;
}
