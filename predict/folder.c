/* Opens a trained model: finds the directory that has the weights, then reads job.yaml, encoding.json and the weights, and opens
 * the files of tables. Each is checked against those before it, and before it gets memory. */
#include "predict/folder.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/mem.h"
#include "common/base/sha256.h"
#include "common/process/files.h"
#include "common/process/output.h"
#include "data/dataset.h"
#include "data/meaning/encoding_given.h"
#include "export/export.h"
#include "job/tree.h"

enum { PATH_BYTES = 4400 };
#define ENCODING_BYTES_MAX ((size_t)1 << 30)

/* ---- the directory's files ---- */

static bool folder_has(const char *folder, const char *name)
{
    char path[PATH_BYTES];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    return files_may_be(path);
}

static enum err find_weights(struct folder *f, const char *path, struct errmsg *e)
{
    static const char *const below[] = {"", "/" OUTPUT_MODEL};
    for (size_t i = 0; i < sizeof below / sizeof *below; i++) {
        int n = snprintf(f->path, sizeof f->path, "%s%s", path, below[i]);
        if (n > 0 && (size_t)n < sizeof f->path && folder_has(f->path, EXPORT_WEIGHTS))
            return ERR_OK;
    }
    return err_set(
        e, ERR_INPUT,
        "%s: no model: neither it nor its directory model/ has the file %s; a job writes model/ "
        "when it ends",
        path, EXPORT_WEIGHTS);
}

/* The path of a file that belongs to the weights: next to them; for DIR/best and DIR/checkpoints/cut-N in DIR/checkpoints. A
 * job of an earlier release has the files in DIR/model alone. */
static void side_file(const struct folder *f, const char *name, char path[static PATH_BYTES])
{
    static const char *const near[] = {"", "/../checkpoints", "/../model", "/..", "/../../model"};
    for (size_t i = 0; i < sizeof near / sizeof *near; i++) {
        (void)snprintf(path, PATH_BYTES, "%s%s/%s", f->path, near[i], name);
        if (files_may_be(path))
            return;
    }
    (void)snprintf(path, PATH_BYTES, "%s/%s", f->path, name);
}

/* A missing file is the user's mistake. */
static enum err read_side(const struct folder *f, const char *name, size_t max, char **text,
                          size_t *bytes, char path[static PATH_BYTES], struct errmsg *e)
{
    uint8_t *data;
    side_file(f, name, path);
    enum err err = files_read_regular(path, max, &data, bytes, e);
    if (err)
        return err == ERR_NOTFOUND ? ERR_INPUT : err;
    *text = (char *)data;
    return ERR_OK;
}

/* ---- the job and its rows ---- */

/* Options of data can give classes other spellings, but a class's name no other number, a key no other rows, and a number no other
 * scale. Numbers are no names of classes: another file's can begin at 1. A job that only its options make complete cannot be
 * compared. */
static enum err folder_check_sets(const struct folder *f, const struct job *own, struct errmsg *e)
{
    const char *was = own->identity_text, *is = f->job.identity_text;
    struct errmsg scale;
    enum err err = column_scale_compare(was, is, &scale);
    if (err)
        err = err_set(e, err, "%.300s; keep the scale of the training", scale.text);
    if (!err && job_class_names(&own->data.csv))
        err = class_order_compare(was, is, e);
    if (!err && own->model.rank == f->job.model.rank &&
        memcmp(own->model.shape, f->job.model.shape, sizeof own->model.shape) == 0)
        err = job_identity_compare_model(was, is, e);
    return err ? err_wrap(e, err, "--set: ") : ERR_OK;
}

static enum err read_job(struct folder *f, const struct folder_options *o, struct errmsg *e)
{
    char path[PATH_BYTES], *text;
    size_t bytes;
    enum err err = read_side(f, "job.yaml", JOB_TREE_BYTES_MAX, &text, &bytes, path, e);
    if (err)
        return err;
    err = job_parse(&f->job, text, bytes, path, f->path, o->sets, o->n_sets, e);
    struct job own;
    struct errmsg unused;
    if (!err && o->n_sets && !job_parse(&own, text, bytes, path, f->path, NULL, 0, &unused)) {
        err = folder_check_sets(f, &own, e);
        job_close(&own);
    }
    mem_free(text);
    return err;
}

/* Read encoding.json; `path` names it in messages. */
static enum err read_encoding(struct folder *f, const struct folder_options *o,
                              char path[static PATH_BYTES], size_t *bytes, struct errmsg *e)
{
    if (!o->job_alone)
        return read_side(f, "encoding.json", ENCODING_BYTES_MAX, &f->encoding, bytes, path, e);
    (void)snprintf(path, PATH_BYTES, "%s", o->encoding_from ? o->encoding_from : f->path);
    if (!o->encoding)
        return err_set(e, ERR_INPUT, "%s: it has no encoding of the columns", path);
    f->encoding = mem_strdup(o->encoding);
    *bytes = strlen(o->encoding);
    return f->encoding ? ERR_OK : err_memory_of(e, path);
}

static enum err read_schema(struct folder *f, const struct folder_options *o, struct errmsg *e)
{
    char path[PATH_BYTES];
    size_t bytes;
    enum err err = read_encoding(f, o, path, &bytes, e);
    if (!err)
        err = schema_new(&f->schema, &f->job.data.csv, e);
    if (!err)
        err = schema_look_up(f->schema, &f->job, e);
    const struct encoding_given given = {.text = f->encoding, .bytes = bytes, .from = path};
    if (!err)
        err = encoding_given_take(f->schema, &given, e);
    return err ? err : schema_place_features(f->schema, e);
}

/* The job gets what the training part has determined, as in training. */
static enum err tell_job(struct folder *f, struct errmsg *e)
{
    const struct dataset d = {
        .features = f->schema->features,
        .rank = 1,
        .shape = {f->schema->features},
        .table = {.schema = f->schema},
    };
    enum err err = dataset_check_shape(&d, &f->job, e);
    if (err)
        return err_wrap(e, err, "%s: ", f->path);
    dataset_tell(&d, &f->job);
    return ERR_OK;
}

/* ---- the shape of rows without columns ---- */

/* The shape from a list of dimensions. False: it is not one. */
static bool shape_of_list(struct job *job, const json_t *list)
{
    size_t rank = json_array_size(list);
    uint32_t shape[TENSOR_RANK_MAX], elems = 1;
    if (rank < 1 || rank > TENSOR_RANK_MAX)
        return false;
    for (size_t i = 0; i < rank; i++) {
        json_int_t dim = json_integer_value(json_array_get(list, i));
        if (dim < 1 || dim > INT32_MAX || __builtin_mul_overflow(elems, (uint32_t)dim, &elems) ||
            elems > INT32_MAX)
            return false;
        shape[i] = (uint32_t)dim;
    }
    memcpy(job->model.shape, shape, rank * sizeof *shape);
    job->model.rank = (uint32_t)rank;
    return true;
}

/* The job has `shape: auto`: the shape that training found is in manifest.json, if there is one. */
static enum err folder_read_shape(struct folder *f, struct errmsg *e)
{
    char path[PATH_BYTES], *text = NULL;
    size_t bytes = 0;
    struct errmsg unused;
    json_error_t why;
    bool found = false;
    if (!read_side(f, "manifest.json", ENCODING_BYTES_MAX, &text, &bytes, path, &unused)) {
        json_t *all = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &why);
        mem_free(text);
        if (!all)
            return err_set(e, ERR_INPUT, "%s: not a valid manifest: line %d: %s", path, why.line,
                           why.text);
        found = shape_of_list(&f->job, json_object_get(json_object_get(all, "model"), "input"));
        json_decref(all);
    }
    return found ? ERR_OK
                 : err_set(e, ERR_INPUT,
                           "%s: job.yaml has model.input.shape: auto, and no manifest.json has the "
                           "shape of the rows: write it there, as in shape: [28, 28]",
                           f->path);
}

/* ---- the model ---- */

static enum err folder_read_weights(struct folder *f, const struct folder_options *o,
                                    struct errmsg *e)
{
    struct place model;
    const struct layout *l = model_layout(f->model);
    place_folder(&model, NULL, f->path);
    /* before memory is taken: the job file alone can ask for any amount */
    enum err err = o->job_alone ? ERR_OK : export_read_safetensors(&model, l, NULL, e);
    if (err)
        return err;
    f->w = mem_floats(l->elems);
    if (!f->w)
        return err_set(e, ERR_NOMEM, "%s: no memory for the weights", f->path);
    return o->job_alone ? ERR_OK : export_read_safetensors(&model, l, f->w, e);
}

/* ---- the tables ---- */

/* Tables of the same list usually have the same keys. */
static void compare_tables(struct folder *f, const struct row_layout *rows)
{
    for (uint32_t i = 0; i < rows->tables; i++) {
        uint32_t k = 0;
        while (k < i && (f->like[k] || rows->table[k].list != rows->table[i].list ||
                         !table_file_is_like(f->table[k], f->table[i])))
            k++;
        f->like[i] = k < i ? k + 1 : 0;
    }
}

/* A job removes the manifest, replaces the weights and the tables, and then writes the manifest. Without it the tables may be those
 * of another model. 0.1.0 wrote none, and notes no step in the weights' file. */
static enum err check_complete(const struct folder *f, struct errmsg *e)
{
    char path[PATH_BYTES], unused[SHA256_HEX_BYTES];
    struct place model;
    bool noted = false;
    place_folder(&model, NULL, f->path);
    enum err err = export_note(&model, "step", unused, sizeof unused, &noted, e);
    (void)snprintf(path, sizeof path, "%s/manifest.json", f->path);
    if (err || !noted || files_may_be(path))
        return err;
    return err_set(e, ERR_INPUT,
                   "%s: the model is not complete: it has no manifest.json, so its job was stopped "
                   "while it wrote the weights and the tables; run the job again",
                   f->path);
}

static enum err open_tables(struct folder *f, struct errmsg *e)
{
    const struct row_layout *rows = model_layout(f->model)->rows;
    char path[PATH_BYTES];
    enum err err = rows ? check_complete(f, e) : ERR_OK;
    (void)snprintf(path, sizeof path, "%s/tables", f->path);
    for (uint32_t i = 0; rows && i < rows->tables && !err; i++)
        err = table_file_open(&f->table[i], path, &rows->table[i], f->job.training.seed, e);
    if (!err && rows)
        compare_tables(f, rows);
    return err == ERR_NOTFOUND ? ERR_INPUT : err;
}

static enum err folder_read_rows(void *ctx, struct row_values *v, struct errmsg *e)
{
    const struct folder *f = ctx;
    (void)e;
    for (uint32_t t = 0; t < v->layout->tables; t++) {
        const uint32_t list = v->layout->table[t].list;
        table_file_read(f->table[t], v->list[list].mixed, v->list[list].keys, v->w[t],
                        v->absent[list]);
    }
    return ERR_OK;
}

struct row_reader folder_rows(const struct folder *f)
{
    return (struct row_reader){.read = folder_read_rows, .ctx = (void *)(uintptr_t)f};
}

/* ---- the folder ---- */

static enum err find_folder(struct folder *f, const char *path, const struct folder_options *o,
                            struct errmsg *e)
{
    if (!o->job_alone)
        return find_weights(f, path, e);
    int n = snprintf(f->path, sizeof f->path, "%s", path);
    return n >= 0 && (size_t)n < sizeof f->path
               ? ERR_OK
               : err_set(e, ERR_INPUT, "%.100s...: the path is too long", path);
}

static enum err open_all(struct folder *f, const char *path, const struct folder_options *o,
                         struct errmsg *e)
{
    enum err err = find_folder(f, path, o, e);
    if (!err)
        err = read_job(f, o, e);
    if (!err && job_reads_columns(&f->job))
        err = read_schema(f, o, e);
    if (!err && f->schema)
        err = tell_job(f, e);
    if (err)
        return err;
    if (f->job.model.rank == 0)
        err = folder_read_shape(f, e);
    if (!err)
        err = model_new(&f->model, &f->job, e);
    if (!err)
        err = folder_read_weights(f, o, e);
    if (!err && !o->job_alone)
        err = folder_pack(f, e);
    return err || o->job_alone ? err : open_tables(f, e);
}

enum err folder_pack(struct folder *f, struct errmsg *e)
{
    return packed_new(&f->packed, f->model, f->w, e);
}

enum err folder_open(struct folder *out, const char *path, struct errmsg *e)
{
    return folder_open_as(out, path, &(struct folder_options){0}, e);
}

enum err folder_open_as(struct folder *out, const char *path, const struct folder_options *o,
                        struct errmsg *e)
{
    struct folder f = {0};
    enum err err = open_all(&f, path, o, e);
    if (err) {
        folder_close(&f);
        return err;
    }
    *out = f;
    return ERR_OK;
}

struct leaf_form folder_form(const struct folder *f)
{
    return f->schema ? leaf_form_of_cells(f->schema)
                     : (struct leaf_form){.features = model_features(f->model)};
}

void folder_close(struct folder *f)
{
    for (uint32_t i = 0; i < ROW_TABLES_MAX; i++)
        table_file_close(f->table[i]);
    packed_free(f->packed);
    model_free(f->model);
    job_close(&f->job);
    if (f->schema)
        schema_unref(f->schema);
    mem_free(f->encoding);
    mem_free(f->w);
    *f = (struct folder){0};
}
