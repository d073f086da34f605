#include "worker/warm_start/first_weights.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/base/printable.h"
#include "common/process/files.h"
#include "common/checkpoint/checkpoint_rows.h"
#include "export/export.h"
#include "worker/warm_start/warm_start.h"

enum { DIGEST_BYTES = 65 };

/* In the identity text of a run that began with an earlier run's weights. */
static const char earlier_run[] = "those of an earlier run";

/* ---- the file ---- */

/* The digest of the tensors that the file has. */
static enum err digest_found(const struct layout *l, const float *w, const bool *found,
                             char digest[DIGEST_BYTES], struct errmsg *e)
{
    struct layout some = {.tensor = mem_zalloc(l->tensors, sizeof *some.tensor)};
    if (!some.tensor)
        return err_memory(e);
    for (uint32_t i = 0; i < l->tensors; i++)
        if (found[i])
            some.tensor[some.tensors++] = l->tensor[i];
    export_digest(&some, w, NULL, digest);
    mem_free(some.tensor);
    return digest[0] ? ERR_OK : err_memory(e);
}

/* "model.weights: FILE has 4 of the 6 tensors; dense_1/kernel, dense_1/bias begin as their initializers say" */
static void say_found(const char *path, const struct layout *l, const struct export_found *found,
                      char words[FIRST_WEIGHTS_WORDS_BYTES])
{
    size_t room = FIRST_WEIGHTS_WORDS_BYTES, named = 0;
    size_t at = (size_t)snprintf(words, room, "begins with the weights in %.200s", path);
    if (found->n < l->tensors)
        at += (size_t)snprintf(words + at, room - at,
                               ", which has %u of the model's %u tensors; it lacks", found->n,
                               l->tensors);
    for (uint32_t i = 0; i < l->tensors && at < room; i++)
        if (!found->tensor[i] && ++named <= 3)
            at += (size_t)snprintf(words + at, room - at, "%s %.40s", named > 1 ? "," : "",
                                   l->tensor[i].name);
    if (named > 3 && at < room)
        at += (size_t)snprintf(words + at, room - at, ", and %zu more", named - 3);
    if (found->others && at < room)
        (void)snprintf(words + at, room - at, "; %u tensors of the file are not used",
                       found->others);
}

enum err first_weights_read(const struct job *job, const struct layout *l, float *w,
                            char words[FIRST_WEIGHTS_WORDS_BYTES], char *digest, struct errmsg *e)
{
    struct export_found found = {.tensor = NULL};
    layout_init_values(l, job->training.seed, 0, l->elems, w);
    enum err err = model_manifest_check_file(job->model.weights, e);
    if (!err)
        err = export_find_safetensors(job->model.weights, l, w, &found, e);
    if (!err && digest)
        err = digest_found(l, w, found.tensor, digest, e);
    if (!err)
        say_found(job->model.weights, l, &found, words);
    mem_free(found.tensor);
    if (!err || err == ERR_NOMEM || err == ERR_FILES)
        return err;
    return err_wrap(e, err == ERR_IO ? ERR_IO : ERR_INPUT, "model.weights: ");
}

/* ---- the columns with which the file was learned ---- */

enum { NAMED_MAX = 3 };

/* Differences of columns. The text has the first NAMED_MAX of them. */
struct differences {
    size_t n, at;
    char text[600];
};

static void differ(struct differences *d, const char *name, const char *fmt, ...) PRINTF_LIKE(3, 4);
static void differ(struct differences *d, const char *name, const char *fmt, ...)
{
    char what[128];
    va_list args;
    if (d->n++ >= NAMED_MAX || d->at >= sizeof d->text)
        return;
    va_start(args, fmt);
    (void)vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    d->at += (size_t)snprintf(d->text + d->at, sizeof d->text - d->at, "%scolumn \"%.60s\": %s",
                              d->n > 1 ? "; " : "", SHOWN(name), what);
}

/* A word that only one of the lists has follows the others, and has features of its own. */
static void compare_words(struct differences *d, const char *name, const json_t *was,
                          const json_t *is)
{
    for (size_t i = 0; i < json_array_size(was) && i < json_array_size(is); i++) {
        const char *a = json_string_value(json_array_get(was, i));
        const char *b = json_string_value(json_array_get(is, i));
        if (json_equal(json_array_get(was, i), json_array_get(is, i)))
            continue;
        differ(d, name, "word %zu is \"%.30s\", and was \"%.30s\"", i + 1, b ? SHOWN(b) : "..",
               a ? SHOWN(a) : "..");
        return;
    }
}

static double json_number_in(const json_t *o, const char *key)
{
    return json_number_value(json_object_get(o, key));
}

static void compare_scales(struct differences *d, const char *name, const json_t *was,
                           const json_t *is)
{
    const json_t *a = json_object_get(was, "function"), *b = json_object_get(is, "function");
    const double shift[2] = {json_number_in(was, "shift"), json_number_in(is, "shift")};
    const double divisor[2] = {json_number_in(was, "divisor"), json_number_in(is, "divisor")};
    if (!was || !is)
        return;
    if (a != b && !json_equal(a, b))
        differ(d, name, "its scale has another function");
    else if (memcmp(&shift[0], &shift[1], sizeof *shift) != 0 ||
             memcmp(&divisor[0], &divisor[1], sizeof *divisor) != 0)
        differ(d, name, "its scale is (x - %g) / %g, and was (x - %g) / %g", shift[1], divisor[1],
               shift[0], divisor[0]);
}

static void compare_buckets(struct differences *d, const char *name, const json_t *was,
                            const json_t *is)
{
    static const char *const keys[] = {"borders", "log_squared"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const json_t *a = json_object_get(was, keys[i]), *b = json_object_get(is, keys[i]);
        if (a && b && !json_equal(a, b))
            differ(d, name, "its buckets have other borders");
    }
}

static const json_t *column_of(const json_t *columns, const char *name)
{
    for (size_t i = 0; i < json_array_size(columns); i++) {
        const json_t *column = json_array_get(columns, i);
        const char *of = json_string_value(json_object_get(column, "name"));
        if (of && strcmp(of, name) == 0 && json_object_get(column, "feature"))
            return column;
    }
    return NULL;
}

static void compare_columns(struct differences *d, const json_t *was, const json_t *is)
{
    for (size_t i = 0; i < json_array_size(is); i++) {
        const json_t *b = json_array_get(is, i);
        const char *name = json_string_value(json_object_get(b, "name"));
        const json_t *a =
            name && *name && json_object_get(b, "feature") ? column_of(was, name) : NULL;
        if (!a)
            continue;
        const json_int_t from = json_integer_value(json_object_get(a, "feature"));
        const json_int_t to = json_integer_value(json_object_get(b, "feature"));
        if (from != to)
            differ(d, name, "its first feature is %lld, and was %lld", (long long)to,
                   (long long)from);
        compare_words(d, name, json_object_get(json_object_get(a, "category"), "words"),
                      json_object_get(json_object_get(b, "category"), "words"));
        compare_scales(d, name, json_object_get(a, "number"), json_object_get(b, "number"));
        compare_buckets(d, name, json_object_get(a, "buckets"), json_object_get(b, "buckets"));
    }
}

/* A weight belongs to a feature by its place, and knows neither words nor scales. gradwire writes them next to the file. */
static void warn_of_columns(const char *weights, const char *encoding)
{
    char path[FILES_PATH_MAX], others[48] = "";
    const char *slash = strrchr(weights, '/');
    struct differences d = {.n = 0};
    (void)snprintf(path, sizeof path, "%.*sencoding.json", slash ? (int)(slash + 1 - weights) : 0,
                   weights);
    json_t *was = json_load_file(path, JSON_ALLOW_NUL, NULL);
    json_t *is = was && encoding ? json_loads(encoding, JSON_ALLOW_NUL, NULL) : NULL;
    compare_columns(&d, json_object_get(was, "columns"), json_object_get(is, "columns"));
    if (d.n > NAMED_MAX)
        (void)snprintf(others, sizeof others, " (and %zu more)", d.n - NAMED_MAX);
    if (d.n)
        log_warn(
            "model.weights: the weights were learned with %.200s, and these rows mean something "
            "else: %s%s; give a layer that reads these columns another name, or train in the "
            "earlier job's DIR with a new checkpoint.run, which keeps words and scales",
            path, d.text, others);
    json_decref(was);
    json_decref(is);
}

/* ---- a job that begins ---- */

/* The contents of the cut. */
struct weights_of {
    const float *w;
    uint32_t tables;
    struct checkpoint_table table[ROW_TABLES_MAX];
    struct row_copy none; /* the tables begin without rows */
};

static enum err fill(void *ctx, float *w, uint64_t first, uint64_t n, struct errmsg *e)
{
    const struct weights_of *of = ctx;
    (void)e;
    memcpy(w, of->w + first, n * sizeof *w);
    return ERR_OK;
}

static const struct checkpoint_rows *rows_of(void *ctx, struct bucket_range range)
{
    struct weights_of *of = ctx;
    row_copy_init(&of->none, of->table, of->tables, range, 0);
    return &of->none.head;
}

static void list_tables(struct weights_of *of, const struct layout *l, const struct job *job)
{
    of->tables = l->rows ? l->rows->tables : 0;
    for (uint32_t i = 0; i < of->tables; i++) {
        const struct row_table_spec *spec = &l->rows->table[i];
        of->table[i] = (struct checkpoint_table){
            .dim = spec->dim,
            .slots = optimizer_row_slots(&job->model.table[i].optimizer, spec->dim),
            .sketch_bytes = row_sketch_bytes(&spec->admission)};
        memcpy(of->table[i].name, spec->name, sizeof of->table[i].name);
    }
}

static enum err write_cut(const struct first_weights *s, const float *w, struct errmsg *e)
{
    struct checkpoint_file files[FIRST_CUT_FILES_MAX];
    struct weights_of of = {.w = w};
    uint32_t threads = 1; /* any plan can read the cut */
    struct manifest to = {.ps = 1, .ps_threads = &threads, .counted = s->job->model.tables};
    const struct first_cut cut = {.job = s->job,
                                  .checkpoints = s->checkpoints,
                                  .layout = s->layout,
                                  .data_fingerprint = s->data_fingerprint,
                                  .encoding = s->encoding,
                                  .fill = fill,
                                  .rows = s->layout->rows ? rows_of : NULL,
                                  .ctx = &of};
    list_tables(&of, s->layout, s->job);
    enum err err = first_cut_name(&cut, &to, files, e);
    if (!err)
        err = first_cut_write(&cut, &to, e);
    return err ? err : checkpoint_publish(s->checkpoints, &to, e);
}

enum err first_weights_begin(const struct first_weights *s, struct errmsg *e)
{
    char digest[DIGEST_BYTES];
    float *w = mem_floats(s->layout->elems);
    if (!w)
        return err_memory_for(e, "the parameters");
    enum err err = first_weights_read(s->job, s->layout, w, s->words, digest, e);
    if (!err)
        err = job_settle_weights(s->job, digest, e);
    if (!err)
        err = write_cut(s, w, e);
    mem_free(w);
    if (err)
        return err;
    log_info("the job %s", s->words);
    warn_of_columns(s->job->model.weights, s->encoding);
    return ERR_OK;
}

/* ---- a job that has begun ---- */

enum err first_weights_pass(struct job *job, struct errmsg *e)
{
    log_info("model.weights is not read: the run begins with the weights of an earlier run");
    return job_settle_weights(job, earlier_run, e);
}

static enum err digest_file(const struct job *job, const struct layout *l,
                            char digest[DIGEST_BYTES], struct errmsg *e)
{
    char words[FIRST_WEIGHTS_WORDS_BYTES];
    float *w = mem_floats(l->elems);
    if (!w)
        return err_memory_for(e, "the parameters");
    enum err err = first_weights_read(job, l, w, words, digest, e);
    mem_free(w);
    return err;
}

/* The file must have the digest `was`. */
static enum err check_file(const struct job *job, const struct layout *l,
                           const struct manifest *base, const char *was, struct errmsg *e)
{
    char is[DIGEST_BYTES];
    if (!files_may_be(job->model.weights)) {
        log_info("model.weights: %s is not there; the job resumes from checkpoint %" PRIu64
                 ", and does not need it",
                 job->model.weights, base->cut);
        return ERR_OK;
    }
    enum err err = digest_file(job, l, is, e);
    if (!err && strcmp(was, is) != 0)
        err = err_set(e, ERR_INPUT,
                      "model.weights: %.200s has other values than when the job began (checkpoint "
                      "%" PRIu64 "): restore the file or remove model.weights to resume, or start "
                      "from scratch with --fresh or another --output",
                      job->model.weights, base->cut);
    return err;
}

enum err first_weights_check(struct job *job, const struct layout *l, const struct manifest *base,
                             struct errmsg *e)
{
    char was[DIGEST_BYTES];
    struct errmsg other;
    if (job_identity_compare(base->identity_text, job->identity_text, &other) != ERR_OK)
        return ERR_OK; /* the caller refuses it, and names the key */
    bool has = job_weights_of(base->identity_text, was, sizeof was);
    if (!job->model.weights)
        return has ? job_settle_weights(job, was, e) : ERR_OK;
    if (!has)
        return err_set(e, ERR_INPUT,
                       "model.weights: the job began without it (checkpoint %" PRIu64
                       "): remove it to resume, or start from scratch with --fresh or another "
                       "--output",
                       base->cut);
    enum err err = strcmp(was, earlier_run) == 0 ? ERR_OK : check_file(job, l, base, was, e);
    return err ? err : job_settle_weights(job, was, e);
}
