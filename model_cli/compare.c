/* `gradwire compare DIR DIR...`: jobs side by side: the keys in which they differ, results, data and curves. First the facts of each
 * directory, then the keys that differ, then the table or the JSON of both. */
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/base/err.h"
#include "common/base/json.h"
#include "common/base/mem.h"
#include "common/base/printable.h"
#include "common/flags/flags.h"
#include "common/process/files.h"
#include "common/process/output.h"
#include "job/tree.h"
#include "model_cli/command.h"

enum { COMPARE_JOBS_MAX = 16 };
enum { SHOWN_PATH_BYTES = 512 }; /* of a key; a longer one is cut off */

enum {
    FILE_BYTES_MAX = 256 << 20,
    PATH_BYTES = FILES_PATH_MAX + 64,
    KEY_BYTES = 128,
};

/* ---- a directory's files: nothing in them is trusted ---- */

/* Read DIR/NAME. *data is NULL if the file does not exist. */
static enum err job_read_file(const char *dir, const char *name, char **data, size_t *bytes,
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
static enum err job_read_json(const char *dir, const char *name, json_t **object, struct errmsg *e)
{
    char *text;
    size_t bytes;
    json_error_t why;
    *object = NULL;
    enum err err = job_read_file(dir, name, &text, &bytes, e);
    if (err || !text)
        return err;
    json_t *read = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &why);
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
static const char *element_name(const struct job_node *element)
{
    const struct job_node *only = element->kind == NODE_MAP ? element->child : NULL;
    const struct job_node *name =
        only && only->kind == NODE_MAP ? job_tree_child(only, "name") : NULL;
    return name && name->kind == NODE_SCALAR && name->text[0] ? name->text : NULL;
}

/* The key of a map's entry, or "[hidden]" or "[2]" of a list's element. */
static void element_key(char key[static KEY_BYTES], const struct job_node *c, unsigned i,
                        const json_t *among)
{
    const char *name = c->key ? c->key : element_name(c);
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
    bool ok = true;
    for (const struct job_node *c = node->child; c && ok; c = c->next) {
        element_key(key, c, i++, all);
        json_put(all, key, by_names(c), &ok);
    }
    return json_whole(all, ok);
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
        return err_memory_of(e, name);
    *keys = made;
    return ERR_OK;
}

/* The job of the latest run; of an earlier release only that of the model. */
static enum err read_job(const char *dir, json_t **keys, struct errmsg *e)
{
    static const char *const places[] = {OUTPUT_CHECKPOINTS "/job.yaml", OUTPUT_MODEL "/job.yaml",
                                         "job.yaml", "../model/job.yaml"};
    char *text = NULL;
    size_t bytes = 0;
    enum err err = ERR_OK;
    for (size_t i = 0; i < sizeof places / sizeof *places && !err && !text; i++)
        err = job_read_file(dir, places[i], &text, &bytes, e);
    if (!err && !text)
        *keys = NULL;
    else if (!err)
        err = parse_job(dir, text, bytes, keys, e);
    mem_free(text);
    return err;
}

/* ---- history ---- */

/* One line of history.jsonl. Lines of an earlier job in the directory are dropped; a damaged line is skipped, and so is an
 * evaluation within an epoch. */
static bool history_add(json_t *history, const char *line, size_t bytes, char uuid[static 64])
{
    json_t *point = json_loadb(line, bytes, JSON_REJECT_DUPLICATES, NULL);
    const char *job = json_string_value(json_object_get(point, "job"));
    bool ok = true;
    if (json_is_object(point) && job) {
        if (strncmp(uuid, job, 63) != 0)
            (void)json_array_clear(history);
        (void)snprintf(uuid, 64, "%s", job);
        (void)json_object_del(point, "job");
        (void)json_object_del(point, "crc");
        ok = !json_object_get(point, "epoch") || json_array_append(history, point) == 0;
    }
    json_decref(point);
    return ok;
}

static enum err read_history(const char *dir, json_t **history, struct errmsg *e)
{
    char *text, uuid[64] = "";
    size_t bytes, n;
    enum err err = job_read_file(dir, OUTPUT_HISTORY, &text, &bytes, e);
    if (err)
        return err;
    json_t *all = json_array();
    bool ok = all != NULL;
    for (size_t at = 0; text && at < bytes && ok; at += n + 1) {
        const char *end = memchr(text + at, '\n', bytes - at);
        n = end ? (size_t)(end - text) - at : bytes - at;
        ok = history_add(all, text + at, n, uuid);
    }
    mem_free(text);
    if (ok) {
        *history = all;
        return ERR_OK;
    }
    json_decref(all);
    return err_set(e, ERR_NOMEM, "%s/history.jsonl: out of memory", dir);
}

/* ---- the facts of a directory ---- */

struct files_read {
    json_t *summary, *model, *best, *history, *keys;
};

static void facts_close(struct files_read *r)
{
    json_decref(r->summary);
    json_decref(r->model);
    json_decref(r->best);
    json_decref(r->history);
}

/* A directory such as DIR/model has its own manifest. */
static enum err facts_read(struct files_read *r, const char *dir, struct errmsg *e)
{
    enum err err = job_read_json(dir, OUTPUT_SUMMARY, &r->summary, e);
    if (!err)
        err = job_read_json(dir, "manifest.json", &r->model, e);
    if (!err && !r->model)
        err = job_read_json(dir, OUTPUT_MODEL "/manifest.json", &r->model, e);
    if (!err)
        err = job_read_json(dir, OUTPUT_BEST "/manifest.json", &r->best, e);
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
static const json_t *history_of(const struct files_read *r)
{
    const json_t *whole = json_object_get(r->summary, "history");
    return json_array_size(whole) >= json_array_size(r->history) && json_is_array(whole)
               ? whole
               : r->history;
}

/* A job that was killed, or still runs, has no summary of this run. */
static json_t *status_of(const struct files_read *r)
{
    if (r->summary)
        return either(r->summary, "status", NULL, "");
    return json_string(r->model ? "done" : "not ended");
}

static json_t *facts_of(const char *dir, const struct files_read *r)
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

/* Read the directory. *facts: {"path", "job", "status", "gradwire", "update", "steps", "epochs", "seconds", "data",
 * "digest", "train", "eval", "best", "history"}, unknown values null. *keys: the job file as nested objects, with
 * "[NAME]" for each layer or column; {} without a job file. Both are the caller's, unchanged on error. Errors:
 * ERR_INPUT, naming the directory and what it lacks, or the damaged file; ERR_IO, ERR_NOMEM. */
static enum err compare_job_read(const char *path, json_t **facts, json_t **keys, struct errmsg *e)
{
    struct files_read r = {.keys = NULL};
    json_t *made = NULL;
    enum err err = strlen(path) < FILES_PATH_MAX
                       ? facts_read(&r, path, e)
                       : err_set(e, ERR_INPUT, "%.80s...: the path is too long", path);
    if (!err && !r.keys && !(r.keys = json_object()))
        err = err_memory_of(e, path);
    if (!err && !(made = facts_of(path, &r)))
        err = err_memory_of(e, path);
    facts_close(&r);
    if (err) {
        json_decref(r.keys);
        return err;
    }
    *facts = made;
    *keys = r.keys;
    return ERR_OK;
}

/* ---- keys that differ ---- */

struct differ {
    size_t jobs;
    json_t *list; /* [{"key": .., "values": [..]}, ..] */
    bool ok;      /* false: no memory */
};

/* The only entry of an object; NULL: it has none, or several. */
static const char *only_key(const json_t *object)
{
    json_t *o = json_incref((json_t *)(uintptr_t)object);
    const char *key = json_object_size(o) == 1 ? json_object_iter_key(json_object_iter(o)) : NULL;
    json_decref(o);
    return key;
}

/* A value in few words: of a choice, such as {adam: {..}}, its name; true for a map of several keys. */
static json_t *value_shown(const json_t *value)
{
    if (!value)
        return json_null();
    if (!json_is_object(value))
        return json_deep_copy(value);
    return only_key(value) ? json_string(only_key(value)) : json_true();
}

static void differ_add(struct differ *d, const char *path, const json_t *const *value)
{
    json_t *values = json_array();
    for (size_t i = 0; i < d->jobs; i++)
        json_push(values, value_shown(value[i]), &d->ok);
    json_push(d->list, json_pack("{s:s, s:o}", "key", path, "values", values), &d->ok);
}

static bool all_equal(const struct differ *d, const json_t *const *value)
{
    bool equal = true;
    for (size_t i = 1; i < d->jobs && equal; i++)
        equal = value[0] && value[i] ? json_equal(value[0], value[i]) : !value[0] && !value[i];
    return equal;
}

static bool all_objects(const struct differ *d, const json_t *const *value)
{
    bool objects = true;
    for (size_t i = 0; i < d->jobs && objects; i++)
        objects = json_is_object(value[i]);
    return objects;
}

/* True if each job has chosen one of several words, and not all the same. */
static bool choices_differ(const struct differ *d, const json_t *const *value)
{
    bool choices = true, differ = false;
    for (size_t i = 0; i < d->jobs && choices; i++) {
        const char *only = only_key(value[i]), *first = only_key(value[0]);
        choices = only && first;
        differ |= choices && strcmp(only, first) != 0;
    }
    return choices && differ;
}

static void compare_values(struct differ *d, const char *path, const json_t *const *value);

static void compare_entry(struct differ *d, const char *path, const json_t *const *value,
                          const char *key)
{
    char below[SHOWN_PATH_BYTES];
    const json_t *of[COMPARE_JOBS_MAX];
    for (size_t i = 0; i < d->jobs; i++)
        of[i] = json_object_get(value[i], key);
    (void)snprintf(below, sizeof below, "%s%s%s", path, *path && *key != '[' ? "." : "", key);
    compare_values(d, below, of);
}

/* Of jobs that all have maps here: each key, in the order of the first job that has it. */
static void compare_entries(struct differ *d, const char *path, const json_t *const *value)
{
    for (size_t i = 0; i < d->jobs; i++) {
        json_t *of = (json_t *)(uintptr_t)value[i], *ignored;
        const char *key;
        json_object_foreach(of, key, ignored)
        {
            bool has = false;
            for (size_t k = 0; k < i; k++)
                has |= json_object_get(value[k], key) != NULL;
            if (!has)
                compare_entry(d, path, value, key);
        }
    }
}

/* The depth is bounded: JOB_TREE_DEPTH_MAX. */
static void compare_values(struct differ *d, const char *path, const json_t *const *value)
{
    if (all_equal(d, value))
        return;
    if (all_objects(d, value) && !choices_differ(d, value))
        compare_entries(d, path, value);
    else
        differ_add(d, path, value);
}

/* NULL: no memory. */
static json_t *differences(json_t *const *keys, size_t jobs)
{
    struct differ d = {.jobs = jobs, .list = json_array(), .ok = true};
    const json_t *value[COMPARE_JOBS_MAX];
    for (size_t i = 0; i < jobs; i++)
        value[i] = keys[i];
    compare_values(&d, "", value);
    return json_whole(d.list, d.ok);
}

/* ---- the result as a table for people ---- */

enum {
    WIDTH_DEFAULT = 100,
    WIDTH_LEAST = 40,
    LABEL_BYTES = 512,
    CELL_MOST = 32,    /* characters of a column */
    LABEL_MOST = 44,   /* of the first column */
    DIGEST_SHOWN = 12, /* characters of a digest: enough to tell two apart */
    CURVE_ROWS = 20,
};

/* A part of the table: jobs [first, end), in columns of these widths. */
struct part {
    const json_t *jobs;
    size_t first, end;
    int label, cell[COMPARE_JOBS_MAX];
};

static int terminal_width(void)
{
    struct winsize w;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) != 0 || w.ws_col == 0)
        return WIDTH_DEFAULT;
    return w.ws_col < WIDTH_LEAST ? WIDTH_LEAST : w.ws_col;
}

/* ---- cells ---- */

/* A value as text, printable: a file may have any. digest: of which the beginning is enough. */
static void cell_text(char out[static LABEL_BYTES], const json_t *value, bool digest)
{
    if (!value || json_is_null(value)) {
        (void)snprintf(out, LABEL_BYTES, "-");
    } else if (json_is_string(value) && !*json_string_value(value)) {
        (void)snprintf(out, LABEL_BYTES, "\"\"");
    } else if (json_is_string(value)) {
        (void)snprintf(out, LABEL_BYTES, "%s", json_string_value(value));
    } else if (json_is_real(value)) {
        (void)snprintf(out, LABEL_BYTES, "%.6g", json_real_value(value));
    } else {
        char *text = json_dumps(value, JSON_ENCODE_ANY);
        (void)snprintf(out, LABEL_BYTES, "%s", text ? text : "?");
        free(text);
    }
    (void)printable_text(out, digest ? DIGEST_SHOWN + 1 : LABEL_BYTES, out);
}

/* Print right-aligned in `width` characters. A longer path loses its beginning, because its end tells more; other text loses
 * its end. */
static void print_cell(const char *text, int width)
{
    int n = (int)strlen(text);
    char out[LABEL_BYTES];
    if (n > width && strchr(text, '/'))
        printf("  ..%s", printable_end(text, (size_t)width - 2));
    else if (n > width)
        printf("  %s..", printable_text(out, (size_t)width - 1, text));
    else
        printf("  %*s", width, text);
}

static int capped(size_t n, int most)
{
    return n < (size_t)most ? (int)n : most;
}

static void part_grow(int *width, const char *text, int most)
{
    int n = capped(strlen(text), most);
    *width = n > *width ? n : *width;
}

/* A longer label has a line of its own: any part of it can be what tells two keys apart. */
static void print_label(const struct part *p, const char *text)
{
    bool fits = strlen(text) <= (size_t)p->label;
    if (!fits)
        printf("%s\n", text);
    printf("%-*s", p->label, fits ? text : "");
}

/* ---- rows of results ---- */

/* The value at a path such as "data.fingerprint". */
static const json_t *at(const json_t *job, const char *path)
{
    char name[LABEL_BYTES];
    while (job && *path) {
        size_t n = strcspn(path, ".");
        (void)snprintf(name, sizeof name, "%.*s", (int)n, path);
        job = json_object_get(job, name);
        path += n + (path[n] == '.');
    }
    return job;
}

static const struct row {
    const char *label, *path;
    bool digest;
} rows[] = {
    {"job", "job", false},
    {"status", "status", false},
    {"gradwire", "gradwire", false},
    {"update", "update", false},
    {"steps", "steps", false},
    {"epochs", "epochs", false},
    {"seconds", "seconds", false},
    {"rows of the training data", "data.rows", false},
    {"fingerprint of the training data", "data.fingerprint", true},
    {"fingerprint of the evaluation data", "data.eval_fingerprint", true},
    {"digest", "digest", true},
    {"best epoch", "best.epoch", false},
};

/* Set the value of each job of the part. False: no job has one. */
static bool values_at(const struct part *p, const char *path, const json_t **value)
{
    bool known = false;
    for (size_t i = p->first; i < p->end; i++) {
        value[i] = at(json_array_get(p->jobs, i), path);
        known |= value[i] && !json_is_null(value[i]);
    }
    return known;
}

/* value: of each job, by its number. */
static void print_row(const struct part *p, const char *label, const json_t *const *value,
                      bool digest)
{
    char text[LABEL_BYTES];
    print_label(p, label);
    for (size_t i = p->first; i < p->end; i++) {
        cell_text(text, value[i], digest);
        print_cell(text, p->cell[i]);
    }
    (void)putchar('\n');
}

static void print_rows(const struct part *p)
{
    const json_t *value[COMPARE_JOBS_MAX];
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        if (values_at(p, rows[r].path, value))
            print_row(p, rows[r].label, value, rows[r].digest);
}

/* ---- metrics ---- */

/* True if the object at `path` has this name in an earlier job. */
static bool is_shown_before(const struct part *p, size_t job, const char *path, const char *name)
{
    for (size_t i = p->first; i < job; i++)
        if (json_object_get(at(json_array_get(p->jobs, i), path), name))
            return true;
    return false;
}

static void print_metric(const struct part *p, const char *title, const char *path,
                         const char *name)
{
    char text[LABEL_BYTES];
    const json_t *value[COMPARE_JOBS_MAX];
    (void)snprintf(text, sizeof text, "%s.%s", path, name);
    bool known = values_at(p, text, value);
    (void)snprintf(text, sizeof text, "%s %s", title, name);
    if (known)
        print_row(p, text, value, false);
}

/* The metrics of all jobs at `path`, in the order of the first job that has each. */
static void print_metrics(const struct part *p, const char *title, const char *path)
{
    const char *name;
    json_t *value;
    for (size_t i = p->first; i < p->end; i++) {
        json_t *of = (json_t *)(uintptr_t)at(json_array_get(p->jobs, i), path);
        json_object_foreach(of, name, value) if (!is_shown_before(p, i, path, name))
            print_metric(p, title, path, name);
    }
}

/* ---- curves ---- */

static json_int_t epoch_of(const json_t *point)
{
    return json_integer_value(json_object_get(point, "epoch"));
}

static json_int_t last_epoch(const struct part *p)
{
    json_int_t last = 0;
    for (size_t i = p->first; i < p->end; i++) {
        const json_t *history = json_object_get(json_array_get(p->jobs, i), "history");
        for (size_t k = 0; k < json_array_size(history); k++) {
            json_int_t epoch = epoch_of(json_array_get(history, k));
            last = epoch > last ? epoch : last;
        }
    }
    return last;
}

static const json_t *point_at(const json_t *job, json_int_t epoch)
{
    const json_t *history = json_object_get(job, "history");
    for (size_t k = 0; k < json_array_size(history); k++)
        if (epoch_of(json_array_get(history, k)) == epoch)
            return json_array_get(history, k);
    return NULL;
}

/* The loss of the evaluation, or without one that of the training. */
static bool has_eval(const struct part *p)
{
    for (size_t i = p->first; i < p->end; i++) {
        const json_t *history = json_object_get(json_array_get(p->jobs, i), "history");
        if (json_is_number(at(json_array_get(history, 0), "eval.loss")))
            return true;
    }
    return false;
}

static void print_epoch(const struct part *p, const char *path, json_int_t epoch)
{
    char text[LABEL_BYTES];
    const json_t *value[COMPARE_JOBS_MAX];
    (void)snprintf(text, sizeof text, "%" JSON_INTEGER_FORMAT, epoch);
    for (size_t i = p->first; i < p->end; i++)
        value[i] = at(point_at(json_array_get(p->jobs, i), epoch), path);
    print_row(p, text, value, false);
}

/* At most CURVE_ROWS epochs, evenly spread; the last one is among them. */
static void print_curves(const struct part *p)
{
    json_int_t last = last_epoch(p), every = last / CURVE_ROWS + (last % CURVE_ROWS != 0);
    const char *path = has_eval(p) ? "eval.loss" : "train.loss";
    if (last <= 0)
        return;
    printf("\nepoch: loss of the %s\n", has_eval(p) ? "evaluation" : "training");
    json_int_t epoch = last % every ? last % every : every;
    for (; epoch < last; epoch += every)
        print_epoch(p, path, epoch);
    print_epoch(p, path, last);
}

/* ---- keys ---- */

static void print_differ(const struct part *p, const json_t *differ)
{
    char text[LABEL_BYTES];
    const json_t *value[COMPARE_JOBS_MAX];
    printf("\n%s\n", json_array_size(differ) ? "keys of the job file that differ"
                                             : "no key of the job file differs");
    for (size_t k = 0; k < json_array_size(differ); k++) {
        const json_t *one = json_array_get(differ, k);
        (void)printable_text(text, sizeof text, json_string_value(json_object_get(one, "key")));
        for (size_t i = p->first; i < p->end; i++)
            value[i] = json_array_get(json_object_get(one, "values"), i);
        print_row(p, text, value, false);
    }
}

/* ---- the table ---- */

static void part_measure(struct part *p, const json_t *differ, size_t jobs)
{
    char text[LABEL_BYTES];
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        part_grow(&p->label, rows[r].label, LABEL_MOST);
    for (size_t k = 0; k < json_array_size(differ); k++)
        part_grow(&p->label, json_string_value(json_object_get(json_array_get(differ, k), "key")),
                  LABEL_MOST);
    for (size_t i = 0; i < jobs; i++) {
        const json_t *job = json_array_get(p->jobs, i);
        p->cell[i] = 8; /* a number */
        cell_text(text, json_object_get(job, "path"), false);
        part_grow(&p->cell[i], text, CELL_MOST);
        for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
            cell_text(text, at(job, rows[r].path), rows[r].digest);
            part_grow(&p->cell[i], text, CELL_MOST);
        }
        for (size_t k = 0; k < json_array_size(differ); k++) {
            cell_text(text, json_array_get(json_object_get(json_array_get(differ, k), "values"), i),
                      false);
            part_grow(&p->cell[i], text, CELL_MOST);
        }
    }
}

static void print_part(const struct part *p, const json_t *differ)
{
    const json_t *path[COMPARE_JOBS_MAX];
    (void)values_at(p, "path", path);
    print_row(p, "", path, false);
    print_rows(p);
    print_metrics(p, "train", "train");
    print_metrics(p, "eval", "eval");
    print_metrics(p, "best epoch's eval", "best.eval");
    print_curves(p);
    print_differ(p, differ);
}

/* Print {"jobs": [..], "differ": [..]} on stdout, as wide as the terminal, or as 100 columns. If the jobs, at most
 * COMPARE_JOBS_MAX, do not fit side by side, they are printed a few at a time. */
static void compare_text(const json_t *all)
{
    struct part p = {.jobs = json_object_get(all, "jobs")};
    const json_t *differ = json_object_get(all, "differ");
    size_t jobs = json_array_size(p.jobs);
    int width = terminal_width();
    part_measure(&p, differ, jobs < COMPARE_JOBS_MAX ? jobs : COMPARE_JOBS_MAX);
    while (p.end < jobs && p.end < COMPARE_JOBS_MAX) {
        int used = p.label;
        p.first = p.end;
        do
            used += 2 + p.cell[p.end++];
        while (p.end < jobs && used + 2 + p.cell[p.end] <= width);
        if (p.first > 0)
            (void)putchar('\n');
        print_part(&p, differ);
    }
}

/* ---- the command ---- */

static enum err read_jobs(const char *const *dirs, size_t jobs, json_t *facts, json_t **keys,
                          struct errmsg *e)
{
    for (size_t i = 0; i < jobs; i++) {
        json_t *of;
        enum err err = compare_job_read(dirs[i], &of, &keys[i], e);
        if (err)
            return err;
        if (json_array_append_new(facts, of) != 0)
            return err_memory(e);
    }
    return ERR_OK;
}

static enum err compare_jobs(const char *const *dirs, size_t jobs, json_t **all, struct errmsg *e)
{
    json_t *facts = json_array(), *keys[COMPARE_JOBS_MAX] = {NULL};
    enum err err = read_jobs(dirs, jobs, facts, keys, e);
    if (!err && !(*all = json_pack("{s:O, s:o}", "jobs", facts, "differ", differences(keys, jobs))))
        err = err_memory(e);
    for (size_t i = 0; i < jobs; i++)
        json_decref(keys[i]);
    json_decref(facts);
    return err;
}

static enum err compare_print(const json_t *all, struct errmsg *e)
{
    if (!flags_on("json"))
        compare_text(all);
    else if (json_dumpf(all, stdout, JSON_INDENT(2)) != 0 || fputc('\n', stdout) == EOF)
        return err_set(e, ERR_IO, "the output cannot be written");
    return ERR_OK;
}

int compare_main(int argc, char **argv)
{
    struct errmsg e;
    json_t *all = NULL;
    size_t jobs;
    flags_parse("compare", argc, argv);
    const char *const *dirs = flags_list(FLAGS_WORDS, &jobs);
    enum err err = ERR_OK;
    if (jobs < 2 || jobs > COMPARE_JOBS_MAX)
        err = err_set(&e, ERR_INPUT, "compare: name 2 to %d output directories of jobs",
                      COMPARE_JOBS_MAX);
    if (!err)
        err = compare_jobs(dirs, jobs, &all, &e);
    if (!err)
        err = compare_print(all, &e);
    if (!err)
        err = command_flush(&e);
    json_decref(all);
    return err ? command_failed(err, &e) : 0;
}
