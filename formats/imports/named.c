/* For each tensor of the job's model: the file's tensor of its name, or of PyTorch's name for it; then its elements in the job's order.
 * Whether a tensor fits is decided by its shape in that order. */
#include "common/base/digits.h"
#include "common/base/real.h"
#include "formats/imports/imports.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "common/base/mem.h"
#include "common/formats/safetensors.h"
#include "common/process/files.h"

enum { NAME_BYTES = 512 };
#define MIXED UINT32_MAX

struct reader {
    struct safetensors file;
    const char *const *rename; /* (renames) */
    size_t renames;
    const struct job *job;
    struct model *m;
};

/* ---- names ---- */

/* The name in the file as renamed. */
static void renamed(const struct reader *r, const char *name, char out[NAME_BYTES])
{
    (void)snprintf(out, NAME_BYTES, "%s", name);
    for (size_t i = 0; i < r->renames; i++) {
        const char *equals = strchr(r->rename[i], '=');
        size_t old = (size_t)(equals - r->rename[i]);
        if (strncmp(name, r->rename[i], old) != 0)
            continue;
        (void)snprintf(out, NAME_BYTES, "%s%s", equals + 1, name + old);
        return;
    }
}

/* The file's tensor of this name; NULL: it has none. *file_name: its name there. */
static const json_t *find(const struct reader *r, const char *wanted, const char **file_name)
{
    const char *key;
    json_t *value;
    char name[NAME_BYTES];
    json_object_foreach(r->file.header, key, value)
    {
        renamed(r, key, name);
        if (strcmp(name, wanted) == 0) {
            *file_name = key;
            return value;
        }
    }
    return NULL;
}

/* PyTorch's name for the last part of a tensor's name. */
static const char *torch_part(const char *what)
{
    static const char *const parts[][2] = {
        {"kernel", "weight"},
        {"gamma", "weight"},
        {"embeddings", "weight"},
        {"bias", "bias"},
        {"beta", "bias"},
        {"moving_mean", "running_mean"},
        {"moving_variance", "running_var"},
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strcmp(parts[i][0], what) == 0)
            return parts[i][1];
    return what;
}

/* ---- elements ---- */

static size_t type_bytes(const char *type)
{
    static const struct {
        const char *name;
        size_t bytes;
    } types[] = {{"F64", 8}, {"F32", 4}, {"F16", 2}, {"BF16", 2}};
    for (size_t i = 0; type && i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].name, type) == 0)
            return types[i].bytes;
    return 0;
}

static float element(const uint8_t *at, const char *type)
{
    double d;
    float f;
    uint16_t h;
    uint32_t bits;
    switch (type_bytes(type)) {
    case 8:
        memcpy(&d, at, sizeof d);
        return (float)d;
    case 4:
        memcpy(&f, at, sizeof f);
        return f;
    default:
        memcpy(&h, at, sizeof h);
        bits = (uint32_t)h << 16;
        memcpy(&f, &bits, sizeof f);
        return strcmp(type, "F16") == 0 ? real_of_half(h) : f;
    }
}

/* ---- orders ---- */

/* Where the elements of one of our tensors are in the file. */
struct order {
    bool torch;        /* the last axes are in the order of PyTorch */
    uint32_t channels; /* of flattened images whose channels are first in the file; 0: none */
};

/* The channels of the image of which value `at` is a flattened one; 0: no image, or the order is the same. MIXED: it is
 * made of several. Value 0 is the model's input, i + 1 the output of layer i. */
static uint32_t channels_of(const struct reader *r, uint32_t at)
{
    while (at > 0 && at < JOB_INPUT_SELECTION) {
        const struct job_layer *l = &r->job->model.layer[at - 1];
        uint32_t dim[TENSOR_RANK_MAX];
        if (model_layer_shape(r->m, at - 1, dim) == 3)
            return dim[0] * dim[1] > 1 && dim[2] > 1 ? dim[2] : 0;
        bool in_order = layer_has(l->kind, LAYER_IN_ORDER);
        for (uint32_t i = 0; i < l->inputs && layer_has(l->kind, LAYER_MERGES) && !in_order; i++)
            if (channels_of(r, l->input[i]) != 0)
                return MIXED;
        if (!in_order || l->inputs == 0)
            return 0;
        at = l->input[0];
    }
    bool image = at == 0 && r->job->model.rank == 3 && r->job->model.shape[2] > 1;
    return image ? r->job->model.shape[2] : 0;
}

/* The same of the vector that the layer reads. */
static uint32_t channels_before(const struct reader *r, const struct job_layer *l)
{
    uint32_t at = l->inputs ? l->input[0] : 0, channels = 0, dim[TENSOR_RANK_MAX];
    uint32_t rank = at >= JOB_INPUT_SELECTION ? 0
                    : at                      ? model_layer_shape(r->m, at - 1, dim)
                                              : r->job->model.rank;
    if (rank == 1)
        channels = channels_of(r, at);
    for (uint32_t i = 1; i < l->inputs; i++)
        if (channels || channels_of(r, l->input[i]))
            return MIXED;
    return channels;
}

static enum err order_of(const struct reader *r, const char *tensor, bool torch,
                         struct order *order, struct errmsg *e)
{
    *order = (struct order){.torch = torch};
    for (uint32_t i = 0; torch && i < r->job->model.layers; i++) {
        const struct job_layer *l = &r->job->model.layer[i];
        size_t n = strlen(l->name);
        if (!layer_has(l->kind, LAYER_BY_ELEMENT) || strncmp(tensor, l->name, n) != 0 ||
            tensor[n] != '/' || strcmp(tensor + n, "/bias") == 0)
            continue;
        order->channels = channels_before(r, l);
        if (order->channels == MIXED)
            return err_set(e, ERR_INPUT,
                           "%s: %s reads several flattened images side by side, whose order in "
                           "the file is not known; rename its tensors so that they are not used",
                           r->file.path, l->name);
    }
    return ERR_OK;
}

/* The index in the file of element i of n that were flattened. */
static uint64_t moved(const struct order *order, uint64_t i, uint64_t n)
{
    uint64_t c = order->channels;
    return c ? i % c * (n / c) + i / c : i;
}

/* The index in the file of our element i. */
static uint64_t place_of(const struct order *order, const struct tensor *t, bool kernel, uint64_t i)
{
    if (!order->torch)
        return i;
    if (!kernel)
        return moved(order, i, t->elems);
    uint64_t out = t->shape[t->rank - 1], in = t->shape[t->rank - 2];
    uint64_t o = i % out, row = moved(order, i / out % in, in), tap = i / out / in;
    return (o * in + row) * (t->elems / out / in) + tap;
}

/* True if the file's shape is that of our tensor, in the file's order. */
static bool fits(const struct order *order, const struct tensor *t, bool kernel, const json_t *said)
{
    static const uint32_t matrix[] = {1, 0}, image[] = {3, 2, 0, 1};
    struct safetensors_entry entry;
    if (!safetensors_entry(said, &entry) || entry.rank != t->rank)
        return false;
    for (uint32_t i = 0; i < t->rank; i++) {
        uint32_t from = !order->torch || !kernel ? i : t->rank == 2 ? matrix[i] : image[i];
        if (entry.shape[i] != t->shape[from])
            return false;
    }
    return true;
}

/* ---- one tensor ---- */

static enum err refuse(const struct reader *r, const char *name, const struct tensor *t,
                       const json_t *said, struct errmsg *e)
{
    char shape[SAFETENSORS_SHAPE_BYTES], wants[100];
    const char *type = json_string_value(json_object_get(said, "dtype"));
    return err_set(e, ERR_INPUT,
                   "%s: tensor %.80s is %.8s %s; the job's %s is (%s), of F64, F32, F16 or BF16",
                   r->file.path, name, type ? type : "?", safetensors_shape_text(said, shape),
                   t->name, digits_list(wants, sizeof wants, t->shape, t->rank));
}

/* Its bytes, which the caller frees. */
static enum err read_bytes(const struct reader *r, const char *name, const json_t *said,
                           uint64_t bytes, uint8_t **out, struct errmsg *e)
{
    uint64_t at = 0;
    enum err err = safetensors_place(&r->file, name, said, bytes, &at, e);
    if (err)
        return err;
    uint8_t *data = mem_zalloc(bytes, 1);
    if (!data)
        return err_set(e, ERR_NOMEM, "%s: no memory for tensor %.80s", r->file.path, name);
    if (files_get_at(r->file.fd, data, bytes, at) != (ssize_t)bytes) {
        mem_free(data);
        return err_set(e, ERR_IO, "%s: it cannot be read", r->file.path);
    }
    *out = data;
    return ERR_OK;
}

static enum err take(const struct reader *r, const char *name, const json_t *said, bool torch,
                     uint32_t i, float *w, struct errmsg *e)
{
    const struct tensor *t = &model_layout(r->m)->tensor[i];
    const char *type = json_string_value(json_object_get(said, "dtype"));
    struct order order;
    bool kernel = strstr(t->name, "/kernel") != NULL;
    size_t bytes = type_bytes(type);
    uint8_t *data = NULL;
    enum err err = order_of(r, t->name, torch, &order, e);
    if (err)
        return err;
    if (!bytes || !fits(&order, t, kernel, said))
        return refuse(r, name, t, said, e);
    err = read_bytes(r, name, said, t->elems * bytes, &data, e);
    for (uint64_t k = 0; k < t->elems && !err; k++) {
        float value = element(data + place_of(&order, t, kernel, k) * bytes, type);
        w[t->offset_elems + k] = value;
        if (!isfinite(value))
            err = err_set(e, ERR_INPUT, "%s: tensor %.80s has a value that is not finite",
                          r->file.path, name);
    }
    mem_free(data);
    return err;
}

/* By our name, or by that of PyTorch. */
static enum err take_one(const struct reader *r, uint32_t i, float *w, bool *found,
                         struct errmsg *e)
{
    const struct tensor *t = &model_layout(r->m)->tensor[i];
    const char *slash = strrchr(t->name, '/'), *name = NULL;
    char torch[NAME_BYTES];
    const json_t *ours = find(r, t->name, &name);
    (void)snprintf(torch, sizeof torch, "%.*s.%s", (int)(slash - t->name), t->name,
                   torch_part(slash + 1));
    const json_t *said = ours ? ours : find(r, torch, &name);
    *found = said != NULL;
    return said ? take(r, name, said, !ours, i, w, e) : ERR_OK;
}

/* ---- the file ---- */

bool named_is_safetensors(const char *path)
{
    uint8_t begin[9];
    uint64_t bytes;
    int fd;
    struct errmsg e;
    if (files_open(path, &fd, &e))
        return false;
    ssize_t n = files_get_at(fd, begin, sizeof begin, 0);
    (void)close(fd);
    memcpy(&bytes, begin, sizeof bytes);
    return n == (ssize_t)sizeof begin && begin[8] == '{' && bytes < (uint64_t)1 << 32;
}

static enum err check_renames(const struct reader *r, struct errmsg *e)
{
    for (size_t i = 0; i < r->renames; i++) {
        const char *equals = strchr(r->rename[i], '=');
        if (!equals || equals == r->rename[i])
            return err_set(e, ERR_INPUT, "--rename=%.100s: it must be OLD=NEW", r->rename[i]);
    }
    return ERR_OK;
}

static enum err read_all(struct reader *r, struct named *m, struct errmsg *e)
{
    const struct layout *l = model_layout(r->m);
    enum err err = ERR_OK;
    m->w = mem_floats(l->elems);
    m->found = mem_zalloc(l->tensors + 1, sizeof *m->found);
    if (!m->w || !m->found)
        return err_memory_of(e, r->file.path);
    for (uint32_t i = 0; i < l->tensors && !err; i++) {
        err = take_one(r, i, m->w, &m->found[i], e);
        m->n += m->found[i];
    }
    size_t all = json_object_size(r->file.header);
    all -= json_object_get(r->file.header, "__metadata__") != NULL;
    m->others = all > m->n ? (uint32_t)(all - m->n) : 0;
    if (!err && m->n == 0)
        return err_set(e, ERR_INPUT,
                       "%s: none of its %zu tensors has the name of a tensor of the job, such as "
                       "%s; use --rename OLD=NEW",
                       r->file.path, all, l->tensor[0].name);
    return err;
}

enum err named_read(struct named *out, const char *path, const struct job *job,
                    const char *const *renames, size_t n_renames, struct errmsg *e)
{
    struct named m = {.n = 0};
    struct reader r = {.rename = renames, .renames = n_renames, .job = job};
    enum err err = check_renames(&r, e);
    if (!err)
        err = model_new(&m.model, job, e);
    if (err)
        return err;
    r.m = m.model;
    err = safetensors_open(&r.file, path, e);
    if (!err) {
        err = read_all(&r, &m, e);
        safetensors_close(&r.file);
    }
    if (err)
        named_close(&m);
    else
        *out = m;
    return err;
}

void named_close(struct named *m)
{
    model_free(m->model);
    mem_free(m->w);
    mem_free(m->found);
    *m = (struct named){.n = 0};
}
