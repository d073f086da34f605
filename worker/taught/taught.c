#include "worker/taught/taught.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/printable.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/base/sha256.h"
#include "job/job.h"
#include "common/process/files.h"
#include "common/process/output.h"
#include "worker/control/cut_reader.h"
#include "worker/control/progress.h"
#include "data/text/csv_hint.h"
#include "export/export.h"
#include "worker/warm_start/warm_start.h"

#define MODEL_ENCODING_MAX ((size_t)1 << 36)

/* ---- which encoding ---- */

bool taught_learns(const struct job_csv *csv)
{
    for (uint32_t i = 0; i < csv->columns; i++) {
        const struct job_column *c = &csv->column[i];
        if (c->kind == COLUMN_CATEGORY && !c->words)
            return true;
        if (c->kind != COLUMN_NUMBER || c->buckets == BUCKETS_BORDERS)
            continue;
        if (c->buckets != BUCKETS_NONE || c->missing == MISSING_MEAN ||
            c->scale == SCALE_STANDARD || c->scale == SCALE_MIN_MAX)
            return true;
    }
    return false;
}

/* An earlier release kept the encoding only next to the model, which belongs to the newest final cut. */
static enum err take_from_model(struct taught *t, const struct job *job, const char *output,
                                const struct manifest *m, struct errmsg *e)
{
    uint8_t *text;
    (void)snprintf(t->from, sizeof t->from, "%s/" OUTPUT_MODEL "/encoding.json", output);
    enum err err = files_read(t->from, MODEL_ENCODING_MAX, &text, &t->given.bytes, e);
    if (err == ERR_NOTFOUND)
        return err_set(e, ERR_INPUT,
                       "run \"%s\" would begin with the weights of checkpoint %" PRIu64
                       ", but neither it nor %s has the words and scales with which they were "
                       "learned: restore that file, or start from scratch with another --output; "
                       "data.encoding: learn is right only if this data teach the same",
                       job->checkpoint.run, m->cut, t->from);
    if (!err)
        t->text = (char *)text;
    return err;
}

/* A cut of another job teaches nothing; the chief refuses to resume from it, and names what differs. */
static bool is_of_another_job(const struct job *job, const struct manifest *m, bool begins,
                              struct errmsg *e)
{
    return begins ? job_identity_compare_model(m->identity_text, job->identity_text, e) != ERR_OK
                  : job_identity_compare(m->identity_text, job->identity_text, e) != ERR_OK;
}

/* A new run. With `learn` no words and scales are taken, but the weights belong to the columns and the classes in their
 * earlier order. Otherwise encoding_given_take compares the columns, except their scales: the file has only numbers. */
static enum err check_meaning(const struct job *job, const struct manifest *m, struct errmsg *e)
{
    const char *was = m->identity_text, *is = job->identity_text;
    bool learn = job->data.csv.encoding == ENCODING_LEARN;
    struct errmsg what;
    const char *advice = learn ? "" : "; restore it, or start from scratch with another --output";
    enum err err =
        learn ? column_order_compare(was, is, &what) : column_scale_compare(was, is, &what);
    if (!err) {
        advice = "";
        err = class_order_compare(was, is, &what);
    }
    if (!err)
        return ERR_OK;
    return err_set(e, ERR_INPUT,
                   "run \"%s\" would begin with the weights of checkpoint %" PRIu64 ": %.300s%s",
                   job->checkpoint.run, m->cut, what.text, advice);
}

static enum err take(struct taught *t, const struct job *job, const char *output,
                     const struct place *checkpoints, const struct manifest *m, struct errmsg *e)
{
    struct errmsg other;
    bool begins = warm_start_is_due(job, m);
    enum data_encoding how = job->data.csv.encoding;
    if (is_of_another_job(job, m, begins, &other))
        return ERR_OK;
    enum err err = begins ? check_meaning(job, m, e) : ERR_OK;
    if (err || (begins && how == ENCODING_LEARN))
        return err;
    /* from an earlier release, with the same data, which teach the same again */
    if (!m->encoding.bytes && (!begins || !taught_learns(&job->data.csv))) {
        (void)snprintf(t->from, sizeof t->from, "checkpoint %" PRIu64, m->cut);
        t->given.from = t->from;
        t->rounds = true;
        return ERR_OK;
    }
    if (m->encoding.bytes) {
        (void)snprintf(t->from, sizeof t->from, "checkpoint %" PRIu64, m->cut);
        err = checkpoint_read_encoding(checkpoints, m, &t->text, &t->given.bytes, e);
    } else {
        err = take_from_model(t, job, output, m, e);
    }
    if (err)
        return err;
    t->given.text = t->text;
    t->given.from = t->from;
    t->given.extends = begins && how == ENCODING_EXTEND;
    t->there = true;
    return ERR_OK;
}

/* Use the newest readable cut. *gone: there were cuts, but a chief that begins a run has removed them meanwhile. */
static enum err look(struct taught *t, const struct job *job, const char *output,
                     const struct place *checkpoints, bool *gone, struct errmsg *e)
{
    uint64_t *cuts = NULL;
    size_t n = 0;
    enum err err = checkpoint_list(checkpoints, &cuts, &n, e);
    *gone = !err && n > 0;
    for (size_t i = 0; i < n && !err && *gone; i++) {
        struct manifest m;
        err = checkpoint_load_manifest((struct cut){checkpoints, cuts[i]}, &m, e);
        if (!err) {
            err = take(t, job, output, checkpoints, &m, e);
            manifest_close(&m);
            *gone = checkpoint_unusable(err);
        }
        err = checkpoint_unusable(err) || err == ERR_NEWER ? ERR_OK : err;
    }
    mem_free(cuts);
    return err;
}

enum err taught_find(struct taught *t, const struct job *job, const char *output,
                     const struct place *checkpoints, const struct manifest *base, struct errmsg *e)
{
    enum { LOOKS = 3 };
    *t = (struct taught){.there = false};
    if (!job_reads_columns(job))
        return ERR_OK;
    if (base)
        return take(t, job, output, checkpoints, base, e);
    enum err err = ERR_OK;
    bool gone = true;
    for (int i = 0; i < LOOKS && gone && !err; i++)
        err = look(t, job, output, checkpoints, &gone, e);
    return err;
}

/* Take what the chief has served. take_text moves. */
static void take_from_chief(struct taught *t, const struct job *job, const struct manifest *m,
                            char *take_text)
{
    bool begins = warm_start_is_due(job, m);
    taught_close(t);
    (void)snprintf(t->from, sizeof t->from, "the chief's checkpoint %" PRIu64, m->cut);
    t->text = take_text;
    t->given =
        (struct encoding_given){.text = take_text,
                                .bytes = (size_t)m->encoding.bytes,
                                .from = t->from,
                                .extends = begins && job->data.csv.encoding == ENCODING_EXTEND};
    t->there = true;
}

enum err taught_keep(const struct job *job, const struct table_schema *s,
                     const struct place *checkpoints, struct errmsg *e)
{
    char kept[FILES_PATH_MAX], *text = NULL;
    enum err err = place_path(checkpoints, CHECKPOINT_DATA_ENCODING, kept, e);
    if (!err)
        err = export_encoding_text(job, s, &text, e);
    if (!err)
        err = files_write(kept, text, strlen(text), e);
    free(text);
    return err;
}

void taught_learn_from_chief(struct taught *t, char *take_text, size_t bytes)
{
    taught_close(t);
    (void)snprintf(t->from, sizeof t->from, "the chief's data");
    t->text = take_text;
    t->given = (struct encoding_given){.text = take_text, .bytes = bytes, .from = t->from};
    t->there = true;
}

/* Check that the chief's cut belongs to our job and our data. The chief has compared that of an earlier release. */
static enum err check_chiefs(const struct job *job, const struct manifest *m,
                             const struct contents *contents, struct errmsg *e)
{
    struct errmsg other;
    bool begins = warm_start_is_due(job, m);
    if (is_of_another_job(job, m, begins, &other))
        return err_set(e, ERR_INPUT,
                       "the chief's checkpoint %" PRIu64 " belongs to another job: %.300s", m->cut,
                       other.text);
    if (!begins && contents &&
        !contents_same(contents, m->data_fingerprint, sizeof m->data_fingerprint) &&
        !contents_is_untold(contents, m->data_fingerprint))
        return err_set(e, ERR_INPUT,
                       "the chief trains on other data than this worker has read: data.train must "
                       "name the same data everywhere");
    return ERR_OK;
}

enum err taught_ask(struct taught *t, const struct job *job, const struct cluster *cluster,
                    const char *chief, uint64_t cut, const struct contents *contents,
                    int64_t over_ms, struct errmsg *e)
{
    const struct cut_reader reader = {.job = job,
                                      .cluster = cluster,
                                      .contents = contents,
                                      .chief = chief,
                                      .cut = cut,
                                      .silent_ms = CUT_READER_SILENT_MS,
                                      .start_ms = (int64_t)job->timeouts.start_s * 1000,
                                      .over_ms = over_ms};
    struct manifest m;
    char *text;
    enum err err = cut_reader_fetch(&reader, &m, &text, e);
    if (err)
        return err;
    err = check_chiefs(job, &m, contents, e);
    if (err)
        mem_free(text);
    else
        take_from_chief(t, job, &m, text);
    manifest_close(&m);
    return err;
}

const struct encoding_given *taught_given(const struct taught *t)
{
    return t->there || t->rounds ? &t->given : NULL;
}

void taught_close(struct taught *t)
{
    mem_free(t->text);
    *t = (struct taught){.there = false};
}

/* ---- results ---- */

static bool reads_column(const struct job *job, const struct job_layer *l, uint32_t column)
{
    for (uint32_t i = 0; i < l->inputs; i++) {
        if (l->input[i] == 0)
            return true;
        if (l->input[i] < JOB_INPUT_SELECTION)
            continue;
        const struct job_selection *s = &job->model.selection[l->input[i] - JOB_INPUT_SELECTION];
        for (uint32_t k = 0; k < s->columns; k++)
            if (job->model.selected[s->first + k] == column)
                return true;
    }
    return false;
}

/* Check that each embedding that reads the column has a row for each word's number. */
static enum err check_rows(const struct job *job, uint32_t column, const struct schema_input *in,
                           struct errmsg *e)
{
    for (uint32_t i = 0; i < job->model.layers; i++) {
        const struct job_layer *l = &job->model.layer[i];
        if (l->kind != LAYER_EMBEDDING || !l->embedding.input_dim ||
            l->embedding.input_dim > in->words.count || !reads_column(job, l, column))
            continue;
        return err_set(e, ERR_INPUT,
                       "column %s has %u words with the new ones, so ids from 0 to %u, but layer "
                       "%s has rows 0 to %u: use input_dim %u in a job that starts from scratch, "
                       "or data.encoding: keep, which reads new words as unknown",
                       SHOWN(in->name), in->words.count, in->words.count, l->name,
                       l->embedding.input_dim - 1, in->words.count + 1);
    }
    return ERR_OK;
}

static void say_growth(const struct schema_input *in, int progress_fd)
{
    char shown[CSV_SHOWN_BYTES], text[2 * CSV_SHOWN_BYTES + 256];
    size_t n;
    const char *word = vocabulary_text(&in->words, in->known, &n);
    (void)snprintf(text, sizeof text,
                   "column %s has %u words, of which %u are new since the last run; the first new "
                   "one is \"%s\"",
                   SHOWN(in->name), in->words.count, in->words.count - in->known,
                   csv_hint_shown(shown, word, n));
    log_info("%s", text);
    progress_say(progress_fd, "%s", text);
}

enum err taught_check(const struct taught *t, const struct job *job, const struct table_schema *s,
                      struct errmsg *e)
{
    const struct schema_input *in = s->input;
    enum err err = ERR_OK;
    for (uint32_t i = 0; t->there && t->given.extends && i < job->data.csv.columns && !err; i++) {
        enum column_kind kind = job->data.csv.column[i].kind;
        if (kind != COLUMN_NUMBER && kind != COLUMN_CATEGORY)
            continue;
        if (in->words.count > in->known && in->encode == ENCODE_ID)
            err = check_rows(job, i, in, e);
        in++;
    }
    return err;
}

enum { WORDS_COLUMNS = 4 /* the most columns that are named */ };

const char *taught_words(const struct taught *t, const struct table_schema *s, bool least,
                         char *out, size_t bytes)
{
    uint32_t columns = 0;
    size_t at = (size_t)snprintf(out, bytes, "%s", t->from);
    for (uint32_t i = 0; s && i < s->inputs; i++) {
        const struct schema_input *in = &s->input[i];
        uint32_t fresh = in->words.count - in->known;
        if (in->kind != COLUMN_CATEGORY || columns++ >= WORDS_COLUMNS || at >= bytes)
            continue;
        at += (size_t)snprintf(out + at, bytes - at, "%s %u words of column %s",
                               columns == 1 ? ":" : ",", in->words.count,
                               in->name[0] ? SHOWN(in->name) : "without a name");
        if (fresh && at < bytes)
            at += (size_t)snprintf(out + at, bytes - at, ", %s%u of them new",
                                   least ? "at least " : "", fresh);
    }
    if (columns > WORDS_COLUMNS && at < bytes)
        (void)snprintf(out + at, bytes - at, ", and %u columns more", columns - WORDS_COLUMNS);
    return out;
}

enum err taught_fresh(const struct taught *t, const struct table_schema *s, uint8_t **fresh,
                      struct errmsg *e)
{
    *fresh = NULL;
    for (uint32_t i = 0; s && t->there && t->given.extends && i < s->inputs; i++) {
        const struct schema_input *in = &s->input[i];
        if (in->words.count == in->known || in->encode == ENCODE_ID)
            continue;
        if (!*fresh)
            *fresh = mem_zalloc(s->features, 1);
        if (!*fresh)
            return err_set(e, ERR_NOMEM, "out of memory for new words");
        memset(*fresh + in->feature + in->known, 1, in->words.count - in->known);
    }
    return ERR_OK;
}

static enum err digest(struct job *job, const char *text, struct errmsg *e)
{
    struct sha256 *hash = sha256_new();
    if (hash)
        sha256_add(hash, text, strlen(text));
    job->encoded = hash && !sha256_final(hash, job->encoding);
    sha256_free(hash);
    return job->encoded ? ERR_OK : err_memory(e);
}

enum err taught_agree(const struct taught *t, struct job *job, const struct dataset *d,
                      int progress_fd, char **encoding, struct errmsg *e)
{
    const struct table_schema *s = d->table.schema;
    if (!s)
        return ERR_OK;
    enum err err = taught_check(t, job, s, e);
    for (uint32_t i = 0; !err && t->there && t->given.extends && i < s->inputs; i++)
        if (s->input[i].words.count > s->input[i].known)
            say_growth(&s->input[i], progress_fd);
    if (!err)
        err = export_encoding_text(job, s, encoding, e);
    return err ? err : digest(job, *encoding, e);
}
