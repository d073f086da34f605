/* Opens what a command's first argument names: a checkpoint is held, and its weights are read; of a directory the folder is opened,
 * and for DIR/best with tables the cut that it names is held, too. */
#include "model_cli/trained.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/mem.h"
#include "common/process/files.h"
#include "common/process/output.h"
#include "data/spill.h"
#include "export/export.h"
#include "export/table_export.h"

enum { NAME_BYTES = 128 };

static const char cut_prefix[] = "cut-", shape_key[] = "model.input.shape=";

/* ---- what the path names ---- */

static bool trained_has(const char *folder, const char *name)
{
    char path[FILES_PATH_MAX + NAME_BYTES];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    return files_may_be(path);
}

/* The number of "cut-N"; false: it is another name. */
static bool cut_number(const char *name, uint64_t *cut)
{
    char *end;
    size_t n = sizeof cut_prefix - 1;
    if (strncmp(name, cut_prefix, n) != 0 || name[n] < '0' || name[n] > '9')
        return false;
    errno = 0;
    *cut = strtoull(name + n, &end, 10);
    return *end == '\0' && errno == 0;
}

/* Split "CHECKPOINTS/cut-N", a whole path. */
static bool split_cut(const char *path, struct place *checkpoints, uint64_t *cut)
{
    const char *slash = strrchr(path, '/');
    if (!slash || !cut_number(slash + 1, cut))
        return false;
    char folder[FILES_PATH_MAX];
    (void)snprintf(folder, sizeof folder, "%.*s", (int)(slash - path), path);
    place_folder(checkpoints, NULL, folder);
    return true;
}

/* A path without a model, of which people expect one. */
static enum err trained_refuse(const char *path, const char *whole, struct errmsg *e)
{
    struct place checkpoints;
    uint64_t *cuts = NULL;
    size_t n = 0;
    place_of_job(&checkpoints, whole, OUTPUT_CHECKPOINTS);
    if (checkpoint_list(&checkpoints, &cuts, &n, NULL))
        n = 0;
    mem_free(cuts);
    if (n)
        return err_set(e, ERR_INPUT,
                       "%s: the job has not written model/ yet, because it has not ended; use %s%s"
                       "%s/checkpoints, its newest checkpoint",
                       path, trained_has(whole, OUTPUT_BEST "/weights.safetensors") ? path : "",
                       trained_has(whole, OUTPUT_BEST "/weights.safetensors") ? "/best, or " : "",
                       path);
    if (trained_has(whole, OUTPUT_CHECKPOINTS) || trained_has(whole, OUTPUT_LOCK))
        return err_set(e, ERR_INPUT, "%s: the job has written neither model/ nor a checkpoint yet",
                       path);
    return err_set(e, ERR_INPUT,
                   "%s: it is not the directory of a trained model: neither it nor its directory "
                   "model/ has weights.safetensors; name a job's output directory, its model/ or "
                   "best/, or a checkpoint",
                   path);
}

/* ---- a checkpoint ---- */

/* Hold and load a cut. */
static enum err hold_cut(struct trained *t, uint64_t cut, struct errmsg *e)
{
    enum err err = checkpoint_hold((struct cut){&t->checkpoints, cut}, &t->hold, e);
    if (err)
        return err;
    err = checkpoint_load((struct cut){&t->checkpoints, cut}, &t->cut, e);
    t->has_cut = err == ERR_OK;
    if (err)
        place_release(t->hold);
    return err;
}

/* The newest one; a job can remove one while this looks for it. */
static enum err hold_newest_cut(struct trained *t, struct errmsg *e)
{
    uint64_t *cuts = NULL;
    size_t n = 0;
    enum err err = checkpoint_list(&t->checkpoints, &cuts, &n, e);
    if (err)
        return err;
    err = err_set(e, ERR_INPUT, "%s: it has no complete checkpoint", t->checkpoints.where);
    for (size_t i = 0; i < n && !t->has_cut && (i == 0 || err == ERR_NOTFOUND); i++)
        err = hold_cut(t, cuts[i], e);
    mem_free(cuts);
    return err;
}

/* Check that the cut's weights are those of the job's model. */
static enum err check_held_cut(const struct trained *t, const struct folder_options *o,
                               struct errmsg *e)
{
    const struct layout *l = model_layout(t->folder.model);
    struct errmsg why;
    bool reshaped = false; /* the user knows the shape better than the job */
    for (size_t i = 0; i < o->n_sets; i++)
        reshaped |= strncmp(o->sets[i], shape_key, strlen(shape_key)) == 0;
    if (!reshaped &&
        job_identity_compare_model(t->cut.identity_text, t->folder.job.identity_text, &why))
        return err_set(e, ERR_INPUT, "%s: job.yaml is of another job: %.300s", t->path, why.text);
    if (t->cut.total_elems != l->elems)
        return err_set(e, ERR_INPUT,
                       "%s: it has %" PRIu64 " parameters, but the model of job.yaml has %" PRIu64,
                       t->path, t->cut.total_elems, l->elems);
    return ERR_OK;
}

/* Open the cut that is held. */
static enum err open_cut(struct trained *t, struct folder_options *o, struct errmsg *e)
{
    char *encoding = NULL, from[FILES_PATH_MAX + NAME_BYTES];
    size_t bytes;
    (void)snprintf(t->path, sizeof t->path, "%.4000s/%s%010" PRIu64, t->checkpoints.where,
                   cut_prefix, t->cut.cut);
    (void)snprintf(from, sizeof from, "%s/encoding.json", t->path);
    enum err err = ERR_OK;
    if (t->cut.encoding.bytes)
        err = checkpoint_read_encoding(&t->checkpoints, &t->cut, &encoding, &bytes, e);
    o->job_alone = true;
    o->encoding = encoding;
    o->encoding_from = from;
    if (!err)
        err = folder_open_as(&t->folder, t->path, o, e);
    mem_free(encoding);
    if (!err)
        err = check_held_cut(t, o, e);
    if (!err)
        err = checkpoint_read_learned(&t->checkpoints, &t->cut, &t->folder.job.optimizer,
                                      t->folder.w, e);
    if (!err)
        err = folder_pack(&t->folder, e);
    t->step = t->cut.step;
    return err;
}

/* ---- rows of a checkpoint ---- */

/* Write the tables of the cut to folder/tables, and open them. */
static enum err copy_tables(struct trained *t, const char *folder, struct errmsg *e)
{
    char path[FILES_PATH_MAX + NAME_BYTES];
    const struct layout *l = model_layout(t->folder.model);
    struct place to;
    const struct cut_tables end = {
        .job = &t->folder.job, .layout = l, .to = &to, .checkpoints = &t->checkpoints};
    place_folder(&to, NULL, folder);
    enum err err = cut_tables_export(&end, &t->cut, NULL, e);
    (void)snprintf(path, sizeof path, "%s/tables", folder);
    for (uint32_t i = 0; i < l->rows->tables && !err; i++)
        err = table_file_open(&t->folder.table[i], path, &l->rows->table[i],
                              t->folder.job.training.seed, e);
    struct errmsg ignored;
    (void)!files_remove_folder(path, &ignored);
    (void)rmdir(folder);
    return err;
}

enum err trained_open_tables(struct trained *t, struct errmsg *e)
{
    struct spill *spill;
    if (!t->has_cut || !model_layout(t->folder.model)->rows)
        return ERR_OK;
    enum err err = spill_new(&spill, &t->folder.job, e);
    if (err)
        return err;
    char folder[FILES_PATH_MAX];
    (void)snprintf(folder, sizeof folder, "%s/gradwire-tables-XXXXXX", spill_folder(spill));
    spill_unref(spill);
    if (!mkdtemp(folder))
        return err_set(e, ERR_INPUT, "%s: %s", folder, strerror(errno));
    return copy_tables(t, folder, e);
}

/* ---- a folder ---- */

/* *number: in a note of the weights' file; UINT64_MAX: none. */
static enum err noted_number(const char *folder, const char *key, uint64_t *number,
                             struct errmsg *e)
{
    char text[NAME_BYTES], *end;
    struct place model;
    bool there;
    place_folder(&model, NULL, folder);
    enum err err = export_note(&model, key, text, sizeof text, &there, e);
    *number = UINT64_MAX;
    if (err || !there || text[0] < '0' || text[0] > '9')
        return err;
    uint64_t value = strtoull(text, &end, 10);
    *number = *end == '\0' ? value : UINT64_MAX;
    return ERR_OK;
}

/* DIR/best of a model with tables, before the job has ended: the rows are in a checkpoint alone, and the weights are those of
 * this checkpoint. */
static enum err open_best_cut(struct trained *t, const char *best, uint64_t cut,
                              struct folder_options *o, struct errmsg *e)
{
    const char *slash = strrchr(best, '/');
    char output[FILES_PATH_MAX];
    (void)snprintf(output, sizeof output, "%.*s", (int)(slash - best), best);
    place_of_job(&t->checkpoints, output, OUTPUT_CHECKPOINTS);
    enum err err = hold_cut(t, cut, e);
    if (!err)
        err = open_cut(t, o, e);
    (void)snprintf(t->path, sizeof t->path, "%s", best);
    return err ? err_wrap(e, err, "%s: the rows of its tables: ", best) : ERR_OK;
}

static enum err open_folder(struct trained *t, const char *whole, struct folder_options *o,
                            struct errmsg *e)
{
    uint64_t cut = UINT64_MAX;
    enum err err = ERR_OK;
    if (trained_has(whole, EXPORT_WEIGHTS) && !trained_has(whole, "tables"))
        err = noted_number(whole, "cut", &cut, e);
    if (err)
        return err;
    if (cut != UINT64_MAX)
        return open_best_cut(t, whole, cut, o, e);
    err = folder_open_as(&t->folder, whole, o, e);
    if (!err)
        err = written_check(&t->folder, e);
    if (err)
        return err;
    (void)snprintf(t->path, sizeof t->path, "%s", t->folder.path);
    return noted_number(t->path, "step", &t->step, e);
}

/* ---- opening ---- */

/* The rows that are held out were chosen when the model was trained; other files can be named. */
static bool chooses_rows(const char *set)
{
    static const char any[] = "data.validation", files[] = "data.validation.files=";
    return strncmp(set, any, strlen(any)) == 0 && strncmp(set, files, strlen(files)) != 0;
}

/* Only keys about data can be set: others would give another model. */
static enum err check_sets(const char *const *sets, size_t *n, struct errmsg *e)
{
    static const char *const may[] = {"data.", shape_key};
    for (*n = 0; sets && sets[*n]; (*n)++) {
        bool allowed = false;
        if (chooses_rows(sets[*n]))
            return err_set(e, ERR_INPUT,
                           "--set %s: the model is trained already, and which rows it has not "
                           "learned cannot be set; name files to evaluate on",
                           sets[*n]);
        for (size_t i = 0; i < sizeof may / sizeof *may; i++)
            allowed |= strncmp(sets[*n], may[i], strlen(may[i])) == 0;
        if (!allowed)
            return err_set(e, ERR_INPUT,
                           "--set %s: the model is trained already; only keys of data can be set, "
                           "such as data.bad_rows=skip",
                           sets[*n]);
    }
    return ERR_OK;
}

static enum err open_all(struct trained *t, const char *path, struct folder_options *o,
                         struct errmsg *e)
{
    char whole[PATH_MAX], below[PATH_MAX + 8];
    uint64_t cut;
    if (!realpath(path, whole))
        return err_set(e, ERR_INPUT, "%s: %s", path, strerror(errno));
    (void)snprintf(below, sizeof below, "%s/" OUTPUT_MODEL, whole);
    if (trained_has(whole, EXPORT_WEIGHTS) || trained_has(below, EXPORT_WEIGHTS))
        return open_folder(t, whole, o, e);
    enum err err;
    if (split_cut(whole, &t->checkpoints, &cut)) {
        err = hold_cut(t, cut, e);
    } else {
        const char *slash = strrchr(whole, '/');
        if (!slash || strcmp(slash, "/" OUTPUT_CHECKPOINTS) != 0)
            return trained_refuse(path, whole, e);
        place_folder(&t->checkpoints, NULL, whole);
        err = hold_newest_cut(t, e);
    }
    return err ? err : open_cut(t, o, e);
}

enum err trained_open(struct trained *out, const char *path, const char *const *sets,
                      uint32_t threads, struct errmsg *e)
{
    struct trained t = {.step = UINT64_MAX};
    struct folder_options o = {.sets = sets};
    enum err err = check_sets(sets, &o.n_sets, e);
    if (!err)
        err = open_all(&t, path, &o, e);
    if (err) {
        trained_close(&t);
        return err;
    }
    t.folder.job.worker.threads = threads;
    *out = t;
    return ERR_OK;
}

void trained_close(struct trained *t)
{
    folder_close(&t->folder);
    if (t->has_cut) {
        manifest_close(&t->cut);
        place_release(t->hold);
    }
    *t = (struct trained){.step = UINT64_MAX};
}

/* ---- are the files those that were written? ---- */

/* "": the file has no digest. */
static enum err noted_digest(const struct place *model, char digest[static SHA256_HEX_BYTES],
                             struct errmsg *e)
{
    bool there;
    enum err err = export_note(model, "digest", digest, SHA256_HEX_BYTES, &there, e);
    if (err || !there)
        *digest = '\0';
    return err;
}

/* *same: w has the digest. */
static enum err written_compare(const struct layout *l, const float *w, const char *digest,
                                bool *same, struct errmsg *e)
{
    char is[SHA256_HEX_BYTES];
    export_digest(l, w, NULL, is);
    *same = strcmp(is, digest) == 0;
    return *is ? ERR_OK : err_set(e, ERR_NOMEM, "no memory to check the weights");
}

/* Read the file again, between two readings of its digest: a job that runs replaces it. */
static enum err read_again(const struct layout *l, const struct place *model, const char *before,
                           float *w, struct errmsg *e)
{
    char after[SHA256_HEX_BYTES];
    bool same = false;
    enum err err = export_read_safetensors(model, l, w, e);
    if (!err)
        err = written_compare(l, w, before, &same, e);
    if (!err)
        err = noted_digest(model, after, e);
    if (err || same || strcmp(before, after) != 0)
        return err;
    return err_set(e, ERR_CORRUPT,
                   "%s/" EXPORT_WEIGHTS
                   " is damaged: its content is not what was written (by its digest)",
                   model->where);
}

static enum err check_digest(const struct folder *f, const struct place *model, struct errmsg *e)
{
    const struct layout *l = model_layout(f->model);
    char digest[SHA256_HEX_BYTES];
    bool same = false;
    enum err err = noted_digest(model, digest, e);
    if (!err && *digest)
        err = written_compare(l, f->w, digest, &same, e);
    if (err || !*digest || same)
        return err;
    float *w = mem_floats(l->elems);
    err =
        w ? read_again(l, model, digest, w, e)
          : err_set(e, ERR_NOMEM, "%s/" EXPORT_WEIGHTS ": no memory for the weights", model->where);
    mem_free(w);
    return err;
}

enum err written_check(const struct folder *f, struct errmsg *e)
{
    struct place model;
    bool there;
    place_folder(&model, NULL, f->path);
    enum err err = model_manifest_check(&model, &there, e);
    if (err || there || model_layout(f->model)->rows)
        return err;
    return check_digest(f, &model, e);
}
