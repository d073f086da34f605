/* weights.safetensors: u64 header bytes, header (JSON: name -> dtype, shape, data_offsets), tensors
 * back to back. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "common/process/files.h"
#include "worker/export/export.h"
#include "worker/export/safetensors.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "floats are written as they stand");

enum { HEADER_ALIGN_BYTES = 8 }; /* the format asks for it, filled up with spaces */

static enum err out_of_memory(const char *path, struct errmsg *e)
{
    return err_set(e, ERR_NOMEM, "%s: out of memory", path);
}

/* {"dtype":"F32","shape":[..],"data_offsets":[begin,end]}, or NULL. */
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

static enum err add_notes(const char *path, json_t *header, const struct export_note *notes,
                          size_t n, struct errmsg *e)
{
    if (n == 0)
        return ERR_OK;
    json_t *all = json_object();
    for (size_t i = 0; i < n; i++)
        if (json_object_set_new(all, notes[i].key, json_string(notes[i].value)) != 0) {
            json_decref(all);
            return out_of_memory(path, e);
        }
    return json_object_set_new(header, "__metadata__", all) ? out_of_memory(path, e) : ERR_OK;
}

/* The header's text, for free(); NULL on error. */
static enum err make_header(const char *path, const struct layout *l,
                            const struct export_note *notes, size_t n_notes, char **text,
                            struct errmsg *e)
{
    json_t *header = json_object();
    uint64_t at_bytes = 0;
    enum err err = header ? add_notes(path, header, notes, n_notes, e) : out_of_memory(path, e);
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

enum err export_safetensors(const char *path, const struct layout *l, const float *w,
                            const struct export_note *notes, size_t n_notes, struct errmsg *e)
{
    char *text = NULL;
    enum err err = make_header(path, l, notes, n_notes, &text, e);
    if (err)
        return err;
    struct files_writer file;
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
