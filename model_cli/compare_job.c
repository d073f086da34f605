#include "model_cli/compare_job.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "common/base/json.h"
#include "common/base/mem.h"
#include "common/base/printable.h"
#include "job/tree.h"
#include "common/process/files.h"

enum {
    FILE_BYTES_MAX = 256 << 20,
    PATH_BYTES = FILES_PATH_MAX + 64,
    KEY_BYTES = 128,
};

/* ---- files ---- */

/* Read DIR/NAME. *data is NULL if the file does not exist. */
static enum err read_file(const char *dir, const char *name, char **data, size_t *bytes,
                          struct errmsg *e)
{
    char path[PATH_BYTES];
    uint8_t *read = NULL;
    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    enum err err = files_read_regular(path, FILE_BYTES_MAX, &read, bytes, e);
    *data = (char *)read;
    return err == ERR_NOTFOUND ? ERR_OK : err == ERR_TOOBIG ? ERR_INPUT : err;
}

/* Read DIR/NAME, an object; *object is NULL if the file does not exist. */
static enum err read_json(const char *dir, const char *name, json_t **object, struct errmsg *e)
{
    char *text;
    size_t bytes;
    json_error_t why;
    *object = NULL;
    enum err err = read_file(dir, name, &text, &bytes, e);
    if (err || !text)
        return err;
    json_t *read = json_loadb(text, bytes, 0, &why);
    mem_free(text);
    if (!json_is_object(read)) {
        json_decref(read);
        return err_set(e, ERR_INPUT, "%.300s/%s: not a JSON object: line %d: %.100s", dir, name,
                       read ? 1 : why.line, read ? "another value" : why.text);
    }
    *object = read;
    return ERR_OK;
}

/* ---- the job file ---- */

static bool is_simple_list(const struct job_node *node)
{
    bool simple = node->kind == NODE_LIST;
    for (const struct job_node *c = node->child; c && simple; c = c->next)
        simple = c->kind == NODE_SCALAR;
    return simple;
}

/* The name of a list's element such as {dense: {name: hidden}}; NULL: it has none. */
static const char *name_of(const struct job_node *element)
{
    const struct job_node *only = element->kind == NODE_MAP ? element->child : NULL;
    const struct job_node *name =
        only && only->kind == NODE_MAP ? job_tree_child(only, "name") : NULL;
    return name && name->kind == NODE_SCALAR && name->text[0] ? name->text : NULL;
}

/* The key of a map's entry, or "[hidden]" or "[2]" of a list's element. */
static void key_of(char key[static KEY_BYTES], const struct job_node *c, unsigned i,
                   const json_t *among)
{
    const char *name = c->key ? c->key : name_of(c);
    (void)printable_format(key, KEY_BYTES, c->key ? "%s" : "[%s]", name ? name : "");
    if (!name || json_object_get(among, key))
        (void)snprintf(key, KEY_BYTES, "[%u]", i);
}

/* Maps become objects, and so do lists of maps: jobs are compared by the names of layers and columns, not by their positions.
 * NULL: no memory. */
static json_t *by_names(const struct job_node *node)
{
    char key[KEY_BYTES];
    unsigned i = 0;
    if (node->kind == NODE_SCALAR || is_simple_list(node))
        return job_tree_json(node);
    json_t *all = json_object();
    bool ok = all != NULL;
    for (const struct job_node *c = node->child; c && ok; c = c->next) {
        key_of(key, c, i++, all);
        ok = json_object_set_new(all, key, by_names(c)) == 0;
    }
    if (ok)
        return all;
    json_decref(all);
    return NULL;
}

static enum err parse_job(const char *dir, const char *text, size_t bytes, json_t **keys,
                          struct errmsg *e)
{
    char name[PATH_BYTES];
    struct job_node *root;
    (void)snprintf(name, sizeof name, "%.300s: job.yaml", dir);
    enum err err = job_tree_parse(&root, text, bytes, name, NULL, e);
    if (err)
        return err;
    json_t *made = by_names(root);
    job_tree_free(root);
    if (!made)
        return err_set(e, ERR_NOMEM, "%s: out of memory", name);
    *keys = made;
    return ERR_OK;
}

/* The job of the latest run; of an earlier release only that of the model. */
static enum err read_job(const char *dir, json_t **keys, struct errmsg *e)
{
    static const char *const places[] = {"checkpoints/job.yaml", "model/job.yaml", "job.yaml",
                                         "../model/job.yaml"};
    char *text = NULL;
    size_t bytes = 0;
    enum err err = ERR_OK;
    for (size_t i = 0; i < sizeof places / sizeof *places && !err && !text; i++)
        err = read_file(dir, places[i], &text, &bytes, e);
    if (!err && !text)
        *keys = NULL;
    else if (!err)
        err = parse_job(dir, text, bytes, keys, e);
    mem_free(text);
    return err;
}

/* ---- history ---- */

/* One line of history.jsonl. Lines of an earlier job in the directory are dropped; a damaged line is skipped. */
static bool add_line(json_t *history, const char *line, size_t bytes, char uuid[static 64])
{
    json_error_t why;
    json_t *point = json_loadb(line, bytes, 0, &why);
    const char *job = json_string_value(json_object_get(point, "job"));
    bool ok = true;
    if (json_is_object(point) && job) {
        if (strncmp(uuid, job, 63) != 0)
            (void)json_array_clear(history);
        (void)snprintf(uuid, 64, "%s", job);
        (void)json_object_del(point, "job");
        (void)json_object_del(point, "crc");
        ok = json_array_append(history, point) == 0;
    }
    json_decref(point);
    return ok;
}

static enum err read_history(const char *dir, json_t **history, struct errmsg *e)
{
    char *text, uuid[64] = "";
    size_t bytes, n;
    enum err err = read_file(dir, "history.jsonl", &text, &bytes, e);
    if (err)
        return err;
    json_t *all = json_array();
    bool ok = all != NULL;
    for (size_t at = 0; text && at < bytes && ok; at += n + 1) {
        const char *end = memchr(text + at, '\n', bytes - at);
        n = end ? (size_t)(end - text) - at : bytes - at;
        ok = add_line(all, text + at, n, uuid);
    }
    mem_free(text);
    if (ok) {
        *history = all;
        return ERR_OK;
    }
    json_decref(all);
    return err_set(e, ERR_NOMEM, "%s/history.jsonl: out of memory", dir);
}

/* ---- one directory ---- */

struct read {
    json_t *summary, *model, *best, *history, *keys;
};

static void read_close(struct read *r)
{
    json_decref(r->summary);
    json_decref(r->model);
    json_decref(r->best);
    json_decref(r->history);
}

/* A directory such as DIR/model has its own manifest. */
static enum err read_all(struct read *r, const char *dir, struct errmsg *e)
{
    enum err err = read_json(dir, "summary.json", &r->summary, e);
    if (!err)
        err = read_json(dir, "manifest.json", &r->model, e);
    if (!err && !r->model)
        err = read_json(dir, "model/manifest.json", &r->model, e);
    if (!err)
        err = read_json(dir, "best/manifest.json", &r->best, e);
    if (!err)
        err = read_history(dir, &r->history, e);
    if (!err)
        err = read_job(dir, &r->keys, e);
    if (!err && !r->summary && !r->model && !r->keys)
        return err_set(e, ERR_INPUT,
                       "%s: it is not the output directory of a job: it has no summary.json, no "
                       "job.yaml in checkpoints/ or model/, and no manifest.json",
                       dir);
    return err;
}

/* The value of the first object that has one; a new reference. */
static json_t *either(const json_t *a, const char *of_a, const json_t *b, const char *of_b)
{
    json_t *value = json_object_get(a, of_a);
    if (!value || json_is_null(value))
        value = json_object_get(b, of_b);
    return value ? json_incref(value) : json_null();
}

static json_t *data_of(const json_t *manifest)
{
    json_t *data = json_object_get(manifest, "data");
    if (!json_is_object(data))
        return json_null();
    return json_pack("{s:o, s:o, s:o}", "rows", either(data, "rows", NULL, ""), "fingerprint",
                     either(data, "fingerprint", NULL, ""), "eval_fingerprint",
                     either(data, "eval_fingerprint", NULL, ""));
}

static json_t *best_of(const json_t *manifest)
{
    if (!manifest)
        return json_null();
    return json_pack("{s:o, s:o, s:o}", "epoch", either(manifest, "epoch", NULL, ""), "train",
                     either(manifest, "train", NULL, ""), "eval",
                     either(manifest, "eval", NULL, ""));
}

/* The evaluator's results are in the summary alone; the epochs of a run that has not ended are in history.jsonl alone. */
static const json_t *history_of(const struct read *r)
{
    const json_t *told = json_object_get(r->summary, "history");
    return json_array_size(told) >= json_array_size(r->history) && json_is_array(told) ? told
                                                                                       : r->history;
}

/* A job that was killed, or still runs, has no summary of this run. */
static json_t *status_of(const struct read *r)
{
    if (r->summary)
        return either(r->summary, "status", NULL, "");
    return json_string(r->model ? "done" : "not ended");
}

static json_t *facts_of(const char *dir, const struct read *r)
{
    const json_t *s = r->summary, *m = r->model;
    return json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:O}", "path",
        json_text(dir), "job", either(s, "job", r->keys ? r->keys : m, r->keys ? "name" : "job"),
        "status", status_of(r), "gradwire", either(m, "gradwire", NULL, ""), "update",
        either(s, "update", json_object_get(r->keys, "training"), "update"), "steps",
        either(s, "steps", m, "step"), "epochs", either(s, "epochs", m, "epoch"), "seconds",
        either(s, "seconds", NULL, ""), "data", data_of(m), "digest",
        either(s, "digest", m, "digest"), "train", either(s, "train", m, "train"), "eval",
        either(s, "eval", m, "eval"), "best", best_of(r->best), "history", history_of(r));
}

enum err compare_job_read(const char *path, json_t **facts, json_t **keys, struct errmsg *e)
{
    struct read r = {.keys = NULL};
    json_t *made = NULL;
    enum err err = strlen(path) < FILES_PATH_MAX
                       ? read_all(&r, path, e)
                       : err_set(e, ERR_INPUT, "%.80s...: the path is too long", path);
    if (!err && !r.keys && !(r.keys = json_object()))
        err = err_set(e, ERR_NOMEM, "%s: out of memory", path);
    if (!err && !(made = facts_of(path, &r)))
        err = err_set(e, ERR_NOMEM, "%s: out of memory", path);
    read_close(&r);
    if (err) {
        json_decref(r.keys);
        return err;
    }
    *facts = made;
    *keys = r.keys;
    return ERR_OK;
}
