#include "worker/warm_start/first_weights.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/process/files.h"
#include "common/checkpoint/row_frame.h"
#include "export/export.h"
#include "worker/warm_start/first_cut.h"

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
    if (!err)
        log_info("the job %s", s->words);
    return err;
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
