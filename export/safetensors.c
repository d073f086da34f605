/* weights.safetensors: the tensors of a layout, in its order. Files from any program are read, in any order: nothing in
 * them is trusted. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include <jansson.h>

#include "common/base/mem.h"
#include "common/base/digits.h"
#include "common/formats/safetensors.h"
#include "export/export.h"

/* ---- writing ---- */

/* {key: value, ...}, added to *to. */
static enum err add_notes(const char *path, json_t *to, const struct export_note *notes, size_t n,
                          struct errmsg *e)
{
    for (size_t i = 0; i < n; i++)
        if (json_object_set_new(to, notes[i].key, json_string(notes[i].value)) != 0)
            return err_memory_of(e, path);
    return ERR_OK;
}

/* Writes the header. Empty metadata is left out. */
static enum err write_header(struct place_writer *file, const struct layout *l, json_t *metadata,
                             struct errmsg *e)
{
    json_t *header = json_object();
    uint64_t at = 0, shape[TENSOR_RANK_MAX];
    size_t bytes = 0;
    bool says = json_object_size(metadata) > 0;
    enum err err = says && json_object_set(header, "__metadata__", metadata) ? ERR_NOMEM : ERR_OK;
    for (uint32_t i = 0; i < l->tensors && !err; i++) {
        const struct tensor *t = &l->tensor[i];
        for (uint32_t k = 0; k < t->rank; k++)
            shape[k] = t->shape[k];
        err =
            safetensors_add(header, t->name, "F32", t->rank, shape, t->elems * sizeof(float), &at);
        if (err == ERR_STATE)
            (void)err_set(e, err, "%s: two tensors are named %s", file->path, t->name);
    }
    char *begin = err ? NULL : safetensors_begin(header, &bytes);
    json_decref(header);
    if (begin)
        err = place_append(file, begin, bytes, e);
    else if (err != ERR_STATE)
        err = err_memory_of(e, file->path);
    mem_free(begin);
    return err;
}

/* take_metadata NULL: building it ran out of memory. */
static enum err write_file(const struct place *model, const struct layout *l, const float *w,
                           json_t *take_metadata, const struct export_note *notes, size_t n,
                           struct errmsg *e)
{
    struct place_writer file;
    enum err err = place_begin(model, EXPORT_WEIGHTS, &file, e);
    if (!err) {
        err = take_metadata ? add_notes(file.path, take_metadata, notes, n, e)
                            : err_memory_of(e, file.path);
        if (!err)
            err = write_header(&file, l, take_metadata, e);
        for (uint32_t i = 0; i < l->tensors && !err; i++)
            err = place_append(&file, w + l->tensor[i].offset_elems, l->tensor[i].elems * sizeof *w,
                               e);
        if (!err)
            err = place_commit(&file, e);
        else
            place_abort(&file);
    }
    json_decref(take_metadata);
    return err;
}

enum err export_safetensors(const struct place *model, const struct layout *l, const float *w,
                            const struct export_note *notes, size_t n_notes, struct errmsg *e)
{
    return write_file(model, l, w, json_object(), notes, n_notes, e);
}

/* ---- notes ---- */

enum err export_notes(const struct place *model, json_t **metadata, struct errmsg *e)
{
    struct place_reader file;
    struct safetensors r;
    enum err err = safetensors_open_in(&r, model, EXPORT_WEIGHTS, &file, e);
    if (err)
        return err;
    json_t *said = json_object_get(r.header, "__metadata__");
    *metadata = said ? json_incref(said) : json_object();
    safetensors_close(&r);
    return *metadata ? ERR_OK : err_memory_of(e, file.path);
}

enum err export_note(const struct place *model, const char *key, char *out, size_t bytes,
                     bool *there, struct errmsg *e)
{
    json_t *notes;
    enum err err = export_notes(model, &notes, e);
    if (err)
        return err;
    const char *text = json_string_value(json_object_get(notes, key));
    *there = text && strlen(text) < bytes;
    if (*there)
        memcpy(out, text, strlen(text) + 1);
    json_decref(notes);
    return ERR_OK;
}

enum err export_add_note(const struct place *model, const struct layout *l, const float *w,
                         const struct export_note *note, struct errmsg *e)
{
    json_t *metadata;
    enum err err = export_notes(model, &metadata, e);
    return err ? err : write_file(model, l, w, metadata, note, 1, e);
}

/* ---- reading ---- */

static bool same_shape(const json_t *said, const struct tensor *t)
{
    struct safetensors_entry entry;
    bool same = safetensors_entry(said, &entry) && entry.rank == t->rank;
    for (uint32_t i = 0; i < t->rank && same; i++)
        same = entry.shape[i] == t->shape[i];
    return same;
}

static bool is_f32(const json_t *said)
{
    const char *type = json_string_value(json_object_get(said, "dtype"));
    return type && strcmp(type, "F32") == 0;
}

/* Position of tensor t in the file. */
static enum err find(const struct safetensors *r, const struct tensor *t, uint64_t *at,
                     struct errmsg *e)
{
    const json_t *said = json_object_get(r->header, t->name);
    if (!said)
        return err_set(e, ERR_CORRUPT, "%s: it has no tensor %s", r->path, t->name);
    if (!is_f32(said) || !same_shape(said, t))
        return err_set(e, ERR_CORRUPT, "%s: tensor %s is not float32 of the model's shape", r->path,
                       t->name);
    return safetensors_place(r, t->name, said, t->elems * sizeof(float), at, e);
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

enum err export_read_safetensors(const struct place *model, const struct layout *l, float *w,
                                 struct errmsg *e)
{
    struct place_reader file;
    struct safetensors r;
    enum err err = safetensors_open_in(&r, model, EXPORT_WEIGHTS, &file, e);
    if (err)
        return err;
    if (w)
        memset(w, 0, l->elems * sizeof *w);
    for (uint32_t i = 0; i < l->tensors && !err; i++) {
        const struct tensor *t = &l->tensor[i];
        uint64_t at = 0;
        err = find(&r, t, &at, e);
        if (!err && w)
            err = safetensors_read(&r, w + t->offset_elems, t->elems * sizeof *w, at, e);
    }
    if (!err)
        err = check_no_more(&r, l, e);
    safetensors_close(&r);
    return err;
}

/* ---- some of the tensors ---- */

static enum err refuse_shape(const struct safetensors *r, const struct tensor *t,
                             const json_t *said, struct errmsg *e)
{
    char has[SAFETENSORS_SHAPE_BYTES], wants[SAFETENSORS_SHAPE_BYTES];
    json_t *own = json_array();
    for (uint32_t i = 0; i < t->rank; i++)
        (void)json_array_append_new(own, json_integer(t->shape[i]));
    json_t *wanted = json_pack("{s:o}", "shape", own);
    (void)safetensors_shape_text(wanted, wants);
    json_decref(wanted);
    return err_set(e, ERR_INPUT,
                   "%s: tensor %s has the shape %s, but the model's has %s; give the layer another "
                   "name if it should begin with its initializer",
                   r->path, t->name, safetensors_shape_text(said, has), wants);
}

static enum err check_finite(const struct safetensors *r, const struct tensor *t, const float *w,
                             struct errmsg *e)
{
    for (uint64_t i = 0; i < t->elems; i++)
        if (!isfinite(w[i]))
            return err_set(e, ERR_INPUT,
                           "%s: tensor %s has a value that is not finite (%g, element %llu)",
                           r->path, t->name, digits_printed((double)w[i]), (unsigned long long)i);
    return ERR_OK;
}

static enum err find_one(const struct safetensors *r, const struct tensor *t, float *w, bool *there,
                         struct errmsg *e)
{
    const json_t *said = json_object_get(r->header, t->name);
    uint64_t at = 0;
    *there = said != NULL;
    if (!said)
        return ERR_OK;
    if (!is_f32(said))
        return err_set(e, ERR_INPUT,
                       "%s: tensor %s is not of the type F32; gradwire import converts other types",
                       r->path, t->name);
    if (!same_shape(said, t))
        return refuse_shape(r, t, said, e);
    enum err err = find(r, t, &at, e);
    if (!err)
        err = safetensors_read(r, w + t->offset_elems, t->elems * sizeof *w, at, e);
    return err ? err : check_finite(r, t, w + t->offset_elems, e);
}

static enum err refuse_strange(const struct safetensors *r, const struct layout *l, uint32_t others,
                               struct errmsg *e)
{
    char name[160] = "";
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
        err = err_memory_of(e, path);
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
