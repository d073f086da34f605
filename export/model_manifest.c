/* Writes manifest.json part by part: the model with its layers and tensors, the data, and the files with their digests; and checks
 * files by these digests. A failure to make a part is noted in *ok, and the file is then not written. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "common/base/json.h"
#include "common/base/mem.h"
#include "common/base/sha256.h"
#include "common/base/texts.h"
#include "common/base/version.h"
#include "job/keys.h"
#include "job/tree.h"
#include "common/process/files.h"
#include "export/export.h"

enum { MANIFEST_FORMAT = 1, PIECE_BYTES = 1 << 20 };

/* ---- building JSON ---- */

static json_t *json_count(uint64_t value)
{
    return json_integer((json_int_t)value);
}

static json_t *shape(uint32_t rank, const uint32_t *dim, bool *ok)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < rank; i++)
        json_push(list, json_count(dim[i]), ok);
    return list;
}

static json_t *hex(const uint8_t *bytes, size_t n)
{
    static const char digits[] = "0123456789abcdef";
    char text[2 * SHA256_BYTES];
    for (size_t i = 0; i < n && i < SHA256_BYTES; i++) {
        text[2 * i] = digits[bytes[i] >> 4];
        text[2 * i + 1] = digits[bytes[i] & 15];
    }
    return json_stringn(text, 2 * n);
}

/* ---- files ---- */

static enum err hash_object(struct place_reader *r, struct sha256 *hash, struct errmsg *e)
{
    size_t got = PIECE_BYTES;
    enum err err = ERR_OK;
    uint8_t *piece = mem_zalloc(PIECE_BYTES, 1);
    if (!piece)
        return err_memory_of(e, r->path);
    for (uint64_t at = 0; !err && got == PIECE_BYTES; at += got) {
        err = place_read(r, at, piece, PIECE_BYTES, &got, e);
        if (!err)
            sha256_add(hash, piece, got);
    }
    mem_free(piece);
    return err;
}

/* r->path and r->bytes are the object's afterwards, also on error. */
static enum err digest_of(const struct place *p, const char *name, struct place_reader *r,
                          char digest[static SHA256_HEX_BYTES], struct errmsg *e)
{
    enum err err = place_open(p, name, r, e);
    if (err)
        return err;
    struct sha256 *hash = sha256_new();
    err = hash ? hash_object(r, hash, e) : err_memory_of(e, r->path);
    place_close(r);
    if (sha256_hex(hash, digest))
        err = err ? err : err_memory_of(e, r->path);
    return err;
}

/* Add {"bytes": .., "sha256": ..} of the object to *files. */
static enum err manifest_add_file(json_t *files, const struct place *p, const char *name, bool *ok,
                                  struct errmsg *e)
{
    char digest[SHA256_HEX_BYTES];
    struct place_reader r;
    enum err err = digest_of(p, name, &r, digest, e);
    if (!err)
        json_put(files, name,
                 json_pack("{s:o, s:s}", "bytes", json_count(r.bytes), "sha256", digest), ok);
    return err;
}

struct tables {
    char (*name)[PLACE_NAME_MAX];
    size_t n;
};

static enum err note_table(void *ctx, const char *file)
{
    struct tables *t = ctx;
    if (!text_ends(file, ".safetensors") || strstr(file, FILES_TEMPORARY))
        return ERR_OK;
    void *more = mem_resize(t->name, t->n + 1, sizeof *t->name);
    if (!more)
        return ERR_NOMEM;
    t->name = more;
    (void)snprintf(t->name[t->n++], sizeof *t->name, "tables/%s", file);
    return ERR_OK;
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* Add those of the place's files that are a model's. */
static enum err add_files(json_t *files, const struct place *p, bool *ok, struct errmsg *e)
{
    static const char *const names[] = {EXPORT_WEIGHTS, "job.yaml", "encoding.json"};
    struct tables t = {.n = 0};
    enum err err = ERR_OK;
    for (size_t i = 0; i < sizeof names / sizeof *names && !err; i++)
        if ((err = manifest_add_file(files, p, names[i], ok, e)) == ERR_NOTFOUND)
            err = ERR_OK;
    if (!err)
        err = place_list(p, "tables", note_table, &t, e);
    if (t.n)
        qsort(t.name, t.n, sizeof *t.name, by_bytes);
    for (size_t i = 0; i < t.n && !err; i++)
        err = manifest_add_file(files, p, t.name[i], ok, e);
    mem_free(t.name);
    return err;
}

/* ---- the model ---- */

/* One input of a layer: {"layer": NAME}, or {"features": [[first, number], ..]} of the model's input. */
static json_t *input(const struct job *job, uint32_t at, bool *ok)
{
    json_t *ranges = json_array();
    if (at > 0 && at < JOB_INPUT_SELECTION) {
        json_decref(ranges);
        return json_pack("{s:s}", "layer", job->model.layer[at - 1].name);
    }
    if (at == 0) {
        json_decref(ranges);
        return json_pack("{s:n}", "features");
    }
    const struct job_selection *s = &job->model.selection[at - JOB_INPUT_SELECTION];
    for (uint32_t i = 0; i < s->columns; i++) {
        const struct job_column *c = &job->data.csv.column[job->model.selected[s->first + i]];
        json_push(ranges, json_pack("[o, o]", json_count(c->feature), json_count(c->width)), ok);
    }
    return json_pack("{s:o}", "features", ranges);
}

static json_t *inputs(const struct job *job, uint32_t i, bool *ok)
{
    const struct job_layer *l = &job->model.layer[i];
    json_t *list = json_array();
    for (uint32_t k = 0; k < l->inputs; k++)
        json_push(list, input(job, l->input[k], ok), ok);
    if (l->inputs == 0 && l->lookups == 0)
        json_push(list, input(job, i, ok), ok);
    return list;
}

/* The options of layer i, from the job as JSON: model.layers[i] is {KIND: {..}}. */
static json_t *options(const json_t *job, uint32_t i, const char **kind)
{
    json_t *layers = json_object_get(json_object_get(job, "model"), "layers");
    json_t *layer = json_array_get(layers, i);
    void *first = json_object_iter(layer);
    json_t *all = first ? json_copy(json_object_iter_value(first)) : NULL;
    *kind = first ? json_object_iter_key(first) : "";
    if (!json_is_object(all)) { /* a layer without options is a word */
        *kind = first ? *kind : json_string_value(layer);
        json_decref(all);
        all = json_object();
    }
    static const char *const elsewhere[] = {"name", "inputs", "table"};
    for (size_t k = 0; k < sizeof elsewhere / sizeof *elsewhere; k++)
        (void)json_object_del(all, elsewhere[k]);
    return all;
}

static json_t *layers(const struct model_manifest *m, const json_t *job, bool *ok)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < m->job->model.layers; i++) {
        const struct job_layer *l = &m->job->model.layer[i];
        const char *kind = NULL;
        uint32_t dim[TENSOR_RANK_MAX], rank = model_layer_shape(m->model, i, dim);
        json_t *with = options(job, i, &kind);
        json_t *one = json_pack("{s:s, s:s, s:o, s:o, s:o}", "name", l->name, "layer",
                                kind ? kind : "", "inputs", inputs(m->job, i, ok), "shape",
                                shape(rank, dim, ok), "options", with);
        if (job_layer_looks_up(l))
            json_put(one, "table", json_string(l->table_name), ok);
        json_push(list, one, ok);
    }
    return list;
}

static json_t *tensors(const struct layout *l, bool *ok)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < l->tensors; i++)
        json_push(list,
                  json_pack("{s:s, s:o}", "name", l->tensor[i].name, "shape",
                            shape(l->tensor[i].rank, l->tensor[i].shape, ok)),
                  ok);
    return list;
}

static json_t *model(const struct model_manifest *m, const json_t *job, bool *ok)
{
    const struct job *j = m->job;
    json_t *all = json_object();
    bool keys_only = model_features(m->model) == 0;
    json_put(all, "input", shape(keys_only ? 0 : j->model.rank, j->model.shape, ok), ok);
    json_put(all, "divisor", json_real((double)m->data->scale), ok);
    json_put(all, "layers", layers(m, job, ok), ok);
    json_put(all, "output", json_string(j->model.layer[j->model.layers - 1].name), ok);
    json_put(
        all, "loss",
        json_string(job_word_of(job_key_find("model.loss")->words, (int)j->model.head[0].loss)),
        ok);
    json_put(all, "from_logits", json_boolean(j->model.head[0].from_logits), ok);
    json_put(all, "tensors", tensors(model_layout(m->model), ok), ok);
    return all;
}

/* ---- what made it ---- */

static void put_eval(const struct model_manifest *m, json_t *all, bool *ok)
{
    json_t *rows = json_null(), *fingerprint = json_null();
    if (m->eval) {
        rows = json_count(m->eval->rows - m->eval->absent);
        fingerprint = hex(m->eval->contents->fingerprint, sizeof m->eval->contents->fingerprint);
    } else if (m->evaluator) {
        rows = json_count(m->evaluator->rows);
        fingerprint = json_string(m->evaluator->fingerprint);
    }
    json_put(all, "eval_rows", rows, ok);
    json_put(all, "eval_fingerprint", fingerprint, ok);
}

static json_t *data(const struct model_manifest *m, const json_t *job, bool *ok)
{
    json_t *all = json_object(), *options = json_copy(json_object_get(job, "data"));
    static const char *const elsewhere[] = {"columns" /* encoding.json has them */, "memory_mb",
                                            "spill"};
    for (size_t k = 0; k < sizeof elsewhere / sizeof *elsewhere; k++)
        (void)json_object_del(options, elsewhere[k]);
    json_put(all, "rows", json_count(m->data->rows - m->data->bad_rows - m->data->held.rows), ok);
    json_put(all, "fingerprint",
             hex(m->data->contents.fingerprint, sizeof m->data->contents.fingerprint), ok);
    put_eval(m, all, ok);
    json_put(all, "options", options, ok);
    return all;
}

/* The SHA-256 of encoding.json, which is in model/ alone; null: the rows have no columns. NULL: no memory. */
static json_t *encoding(const struct model_manifest *m)
{
    char *text, digest[SHA256_HEX_BYTES];
    if (!m->data->table.schema)
        return json_null();
    if (export_encoding_text(m->job, m->data->table.schema, &text, NULL))
        return NULL;
    struct sha256 *hash = sha256_new();
    if (hash)
        sha256_add(hash, text, strlen(text));
    free(text);
    return sha256_hex(hash, digest) ? NULL : json_string(digest);
}

/* Keys in the order in which people read them. */
static json_t *document(const struct model_manifest *m, const json_t *job, json_t *take_files,
                        bool *ok)
{
    json_t *all = json_object();
    const char *run = m->job->checkpoint.run;
    json_put(all, "format", json_integer(MANIFEST_FORMAT), ok);
    json_put(all, "gradwire", json_string(GRADWIRE_VERSION), ok);
    json_put(all, "job", json_string(m->job->name), ok);
    json_put(all, "run", *run ? json_string(run) : json_null(), ok);
    json_put(all, "identity", hex(m->job->identity, sizeof m->job->identity), ok);
    json_put(all, "data", data(m, job, ok), ok);
    json_put(all, "step", json_count(m->step), ok);
    json_put(all, "epoch", m->epoch ? json_count(m->epoch) : json_null(), ok);
    json_put(all, "train", evaluation_json(m->job, m->trained), ok);
    json_put(all, "eval", evaluation_json(m->job, m->evaluated), ok);
    json_put(all, "averaged", json_boolean(m->job->optimizer.use_ema), ok);
    json_put(all, "digest", json_string(m->digest), ok);
    json_put(all, "encoding", encoding(m), ok);
    json_put(all, "model", model(m, job, ok), ok);
    json_put(all, "files", take_files, ok);
    return all;
}

static enum err out_of_memory(const struct place *at, struct errmsg *e)
{
    return err_set(e, ERR_NOMEM, "%s/" MODEL_MANIFEST ": out of memory", at->where);
}

static enum err job_as_json(const struct job *job, const struct place *at, json_t **json,
                            struct errmsg *e)
{
    struct job_node *root;
    enum err err =
        job_tree_parse(&root, job->canonical, strlen(job->canonical), "job.yaml", NULL, e);
    if (err)
        return err;
    *json = job_tree_json(root);
    job_tree_free(root);
    return *json ? ERR_OK : out_of_memory(at, e);
}

enum err model_manifest_write(const struct model_manifest *m, const struct place *at,
                              struct errmsg *e)
{
    bool ok = true;
    json_t *job, *files, *all;
    enum err err = job_as_json(m->job, at, &job, e);
    if (err)
        return err;
    files = json_object();
    err = add_files(files, at, &ok, e);
    all = document(m, job, files, &ok);
    json_decref(job);
    char *text = err || !ok ? NULL : json_dumps(all, JSON_INDENT(1));
    json_decref(all);
    if (!text)
        return err ? err : out_of_memory(at, e);
    size_t bytes = strlen(text);
    text[bytes] = '\n'; /* in place of the NUL */
    err = place_put(at, MODEL_MANIFEST, text, bytes + 1, e);
    free(text);
    return err;
}

enum err model_manifest_remove(const struct place *at, struct errmsg *e)
{
    enum err err = place_remove(at, MODEL_MANIFEST, e);
    return err == ERR_NOTFOUND ? ERR_OK : err;
}

/* ---- checking ---- */

#define MANIFEST_BYTES_MAX ((size_t)1 << 30)

/* An entry of the manifest; NULL: there is none. The caller owns it. Errors: ERR_CORRUPT. */
static enum err read_entry(const struct place *at, const char *key, json_t **entry,
                           struct errmsg *e)
{
    uint8_t *text;
    size_t bytes;
    struct errmsg unused;
    json_error_t why;
    *entry = NULL;
    if (place_get(at, MODEL_MANIFEST, MANIFEST_BYTES_MAX, &text, &bytes, &unused))
        return ERR_OK;
    json_t *all = json_loadb((const char *)text, bytes, JSON_REJECT_DUPLICATES, &why);
    mem_free(text);
    if (!all)
        return err_set(e, ERR_CORRUPT, "%s/" MODEL_MANIFEST ": not a valid manifest: line %d: %s",
                       at->where, why.line, why.text);
    *entry = json_incref(json_object_get(all, key));
    json_decref(all);
    return ERR_OK;
}

enum err model_manifest_data(const struct place *at, char hex[static CONTENTS_HEX_BYTES],
                             struct errmsg *e)
{
    json_t *entry;
    enum err err = read_entry(at, "data", &entry, e);
    if (err)
        return err;
    const char *text = json_string_value(json_object_get(entry, "fingerprint"));
    (void)snprintf(hex, CONTENTS_HEX_BYTES, "%s", text ? text : "");
    json_decref(entry);
    return ERR_OK;
}

/* A person may change job.yaml, and its text is checked as such. No name leads out of the directory. */
static bool manifest_has_digest_of(const char *name)
{
    static const char tables[] = "tables/";
    const char *rest =
        strncmp(name, tables, sizeof tables - 1) == 0 ? name + sizeof tables - 1 : name;
    return strcmp(name, "job.yaml") != 0 && !strchr(rest, '/') && strcmp(rest, "..") != 0;
}

/* A missing file is not checked: who needs it finds it elsewhere, or fails. */
static enum err manifest_check_file(const struct place *at, const char *name, const json_t *of,
                                    struct errmsg *e)
{
    char digest[SHA256_HEX_BYTES];
    struct place_reader r;
    const char *was = json_string_value(json_object_get(of, "sha256"));
    if (!was || !manifest_has_digest_of(name) || strlen(name) >= sizeof r.name)
        return ERR_OK;
    enum err err = digest_of(at, name, &r, digest, e);
    if (err || strcmp(digest, was) == 0)
        return err == ERR_NOTFOUND ? ERR_OK : err;
    return err_set(
        e, ERR_CORRUPT,
        "%s is damaged, or of another model: its content is not what was written (by the "
        "SHA-256 in " MODEL_MANIFEST ")",
        r.path);
}

enum err model_manifest_check_file(const char *path, struct errmsg *e)
{
    char folder[FILES_PATH_MAX] = ".";
    const char *slash = strrchr(path, '/');
    if (slash && (size_t)(slash - path) >= sizeof folder)
        return ERR_OK; /* no file has such a path */
    if (slash)
        (void)snprintf(folder, sizeof folder, "%.*s", slash > path ? (int)(slash - path) : 1, path);
    const char *name = slash ? slash + 1 : path;
    struct place at;
    json_t *files;
    place_folder(&at, NULL, folder);
    enum err err = read_entry(&at, "files", &files, e);
    const json_t *of = json_object_get(files, name);
    if (of)
        err = manifest_check_file(&at, name, of, e);
    json_decref(files);
    return err;
}

enum err model_manifest_check(const struct place *at, bool *there, struct errmsg *e)
{
    json_t *files, *of;
    const char *name;
    enum err err = read_entry(at, "files", &files, e);
    if (err)
        return err;
    *there = json_is_object(files) && json_object_get(files, EXPORT_WEIGHTS);
    json_object_foreach(files, name, of) err = err ? err : manifest_check_file(at, name, of, e);
    if (err == ERR_CORRUPT) {
        /* a job that runs has removed the manifest before it changed a file */
        struct errmsg unused;
        json_t *now;
        if (read_entry(at, "files", &now, &unused) || !json_equal(files, now))
            err = ERR_OK;
        json_decref(now);
    }
    json_decref(files);
    return err;
}
