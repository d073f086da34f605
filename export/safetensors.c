/* weights.safetensors: u64 header bytes, header (JSON: name -> dtype, shape, data_offsets), then the tensors without
 * gaps. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "common/process/files.h"
#include "export/export.h"
#include "export/safetensors.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "floats are written as they stand");

enum { HEADER_ALIGN_BYTES = 8 }; /* required by the format; spaces fill the gap */

static enum err out_of_memory(const char *path, struct errmsg *e)
{
    return err_set(e, ERR_NOMEM, "%s: out of memory", path);
}

/* {"dtype":"F32","shape":[...],"data_offsets":[begin,end]}, or NULL. */
static json_t *describe(const struct tensor *t, uint64_t begin_bytes)
{
    json_t *shape = json_array();
    for (uint32_t i = 0; i < t->rank; i++) {
        if (json_array_append_new(shape, json_integer(t->shape[i])) != 0) {
            json_decref(shape);
            return NULL;
        }
    }
    uint64_t end_bytes = begin_bytes + t->elems * sizeof(float);
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", "F32", "shape", shape, "data_offsets",
                     (json_int_t)begin_bytes, (json_int_t)end_bytes);
}

/* {key: value, ...}, added to *to. */
static enum err add_notes(const char *path, json_t *to, const struct export_note *notes, size_t n,
                          struct errmsg *e)
{
    for (size_t i = 0; i < n; i++)
        if (json_object_set_new(to, notes[i].key, json_string(notes[i].value)) != 0)
            return out_of_memory(path, e);
    return ERR_OK;
}

/* The header's text, for free(); NULL on error. Empty metadata is left out. */
static enum err make_header(const char *path, const struct layout *l, json_t *metadata, char **text,
                            struct errmsg *e)
{
    json_t *header = json_object();
    uint64_t at_bytes = 0;
    bool says = json_object_size(metadata) > 0;
    enum err err = ERR_OK;
    if (!header || (says && json_object_set(header, "__metadata__", metadata)))
        err = out_of_memory(path, e);
    for (uint32_t i = 0; i < l->tensors && !err; i++) {
        const struct tensor *t = &l->tensor[i];
        if (json_object_get(header, t->name))
            err = err_set(e, ERR_STATE, "%s: two tensors are named %s", path, t->name);
        else if (json_object_set_new(header, t->name, describe(t, at_bytes)) != 0)
            err = out_of_memory(path, e);
        at_bytes += t->elems * sizeof(float);
    }
    if (!err && !(*text = json_dumps(header, JSON_COMPACT)))
        err = out_of_memory(path, e);
    json_decref(header);
    return err;
}

enum err safetensors_write_header(struct files_writer *w, const char *text, struct errmsg *e)
{
    static const char spaces[HEADER_ALIGN_BYTES + 1] = "        ";
    uint64_t bytes = strlen(text), fill = -bytes % HEADER_ALIGN_BYTES, whole = bytes + fill;
    enum err err = files_append(w, &whole, sizeof whole, e);
    if (!err)
        err = files_append(w, text, bytes, e);
    if (!err)
        err = files_append(w, spaces, fill, e);
    return err;
}

static enum err write_file(const char *path, const struct layout *l, const float *w,
                           json_t *metadata, struct errmsg *e)
{
    char *text = NULL;
    struct files_writer file;
    enum err err = make_header(path, l, metadata, &text, e);
    if (err)
        return err;
    err = files_begin(&file, path, e);
    if (err)
        goto free_text;
    err = safetensors_write_header(&file, text, e);
    for (uint32_t i = 0; i < l->tensors && !err; i++)
        err = files_append(&file, w + l->tensor[i].offset_elems, l->tensor[i].elems * sizeof *w, e);
    if (err)
        files_abort(&file);
    else
        err = files_commit(&file, e);
free_text:
    free(text);
    return err;
}

enum err export_safetensors(const char *path, const struct layout *l, const float *w,
                            const struct export_note *notes, size_t n_notes, struct errmsg *e)
{
    json_t *metadata = json_object();
    enum err err = metadata ? add_notes(path, metadata, notes, n_notes, e) : out_of_memory(path, e);
    if (!err)
        err = write_file(path, l, w, metadata, e);
    json_decref(metadata);
    return err;
}

enum err export_add_note(const char *path, const struct layout *l, const float *w,
                         const struct export_note *note, struct errmsg *e)
{
    json_t *metadata;
    enum err err = safetensors_metadata(path, &metadata, e);
    if (err)
        return err;
    err = add_notes(path, metadata, note, 1, e);
    if (!err)
        err = write_file(path, l, w, metadata, e);
    json_decref(metadata);
    return err;
}
