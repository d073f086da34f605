/* The best epoch: DIR/best/weights.safetensors has its weights, and notes with its evaluation and a checksum. With tables it
 * names a cut, which is held. A damaged file counts as none; one that cannot be read now is an error, because to begin without
 * it would train another model. */
#include "worker/evaluator/best.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/digits.h"
#include "common/base/mem.h"
#include "common/base/sha256.h"
#include "common/checkpoint/checkpoint.h"
#include "common/process/output.h"
#include "common/base/log.h"
#include "export/export.h"
#include "worker/warm_start/warm_start.h"

enum { NOTES_MAX = 11 + METRICS_MAX };

/* ---- the monitored quantity ---- */

static bool monitors(const struct best *b)
{
    return b->job->training.monitor != MONITOR_NONE;
}

const char *best_monitor_name(const struct job *job)
{
    uint32_t monitor = job->training.monitor;
    return monitor == MONITOR_LOSS
               ? "loss"
               : job_metric_of((enum metric_kind)(monitor - MONITOR_METRIC)).name;
}

double best_monitored(const struct job *job, const struct evaluation *eval)
{
    if (job->training.monitor == MONITOR_LOSS)
        return eval->loss;
    for (uint32_t i = 0; i < job->model.metrics; i++)
        if (MONITOR_METRIC + (uint32_t)job->model.metric[i].kind == job->training.monitor)
            return eval->metric[i];
    return NAN;
}

/* As Keras's mode "auto". */
static bool larger_is_better(const struct job *job)
{
    return job->training.monitor >= MONITOR_METRIC &&
           job_metric_larger_is_better((enum metric_kind)(job->training.monitor - MONITOR_METRIC));
}

static bool has_tables(const struct best *b)
{
    return b->layout->rows != NULL;
}

static bool better(const struct best *b, double value)
{
    double delta = (double)b->job->early_stopping.min_delta;
    if (!b->has)
        return !isnan(value);
    return larger_is_better(b->job) ? value - delta > b->value : value + delta < b->value;
}

uint64_t best_waited(const struct best *b, uint64_t epoch)
{
    uint64_t since = b->has ? b->epoch : b->job->early_stopping.start_from_epoch;
    return epoch > since ? epoch - since : 0;
}

bool best_stops(const struct best *b, uint64_t epoch)
{
    uint64_t patience = b->job->early_stopping.patience;
    return monitors(b) && patience > 0 && best_waited(b, epoch) >= patience;
}

/* ---- the file ---- */

static double note_number(const json_t *notes, const char *key)
{
    const char *text = json_string_value(json_object_get(notes, key));
    return text ? strtod(text, NULL) : NAN;
}

/* The best epoch may be there, and another time it can be read: to begin without it would be to train another model. */
static bool may_be_there(enum err err)
{
    return err == ERR_IO || err == ERR_NOMEM || err == ERR_FILES;
}

static void best_release(struct best *b)
{
    if (b->hold >= 0)
        place_release(b->hold);
    b->hold = -1;
}

static void best_note_cut(struct best *b, const struct manifest *m)
{
    b->cut = m->cut;
    b->cut_step = m->step;
    b->cut_manifest = m->crc;
}

/* A job that went back may have given the number to another cut. A file of an earlier release notes no checksum. */
static bool is_noted(const json_t *notes, const struct manifest *m)
{
    double step = note_number(notes, "cut_step"), crc = note_number(notes, "cut_manifest");
    return (isnan(step) || step == (double)m->step) && (isnan(crc) || crc == m->crc);
}

/* With tables: hold the cut that the file names. */
static enum err restore_cut(struct best *b, const json_t *notes, struct errmsg *e)
{
    struct manifest m = {0};
    double cut = note_number(notes, "cut");
    enum err err =
        cut >= 0 && cut <= 1e15 ? ERR_OK : err_set(e, ERR_CORRUPT, "it names no checkpoint");
    if (!err)
        err = checkpoint_hold((struct cut){b->checkpoints, (uint64_t)cut}, &b->hold, e);
    if (!err)
        err = checkpoint_load((struct cut){b->checkpoints, (uint64_t)cut}, &m, e);
    if (!err && !is_noted(notes, &m))
        err = err_set(e, ERR_CORRUPT, "checkpoint %" PRIu64 " is another one by now", m.cut);
    if (err) {
        best_release(b);
        err = err_wrap(e, err, "%s: its rows cannot be read: ", b->path);
    } else {
        best_note_cut(b, &m);
    }
    manifest_close(&m);
    return err;
}

/* Read the evaluation from the file's notes. ERR_STATE: the file is of another monitor. */
static enum err restore_notes(struct best *b, const json_t *notes, struct errmsg *e)
{
    const char *name = json_string_value(json_object_get(notes, "monitor"));
    if (!name)
        return err_set(e, ERR_CORRUPT, "%s names no monitor", b->path);
    if (strcmp(name, best_monitor_name(b->job)) != 0)
        return err_set(e, ERR_STATE, "%s is the best by %s, but training.monitor is %s", b->path,
                       name, best_monitor_name(b->job));
    b->eval = evaluation_read(b->job, notes, note_number);
    double epoch = note_number(notes, "epoch"), step = note_number(notes, "step");
    b->value = best_monitored(b->job, &b->eval);
    if (!(epoch >= 1 && epoch <= 1e15 && step >= 0 && step <= 1e15) || isnan(b->value))
        return err_set(e, ERR_CORRUPT, "%s does not name its epoch, step and %s", b->path, name);
    b->epoch = (uint64_t)epoch;
    b->eval.step = (uint64_t)step;
    const char *run = json_string_value(json_object_get(notes, "run"));
    (void)snprintf(b->run, sizeof b->run, "%s", run ? run : "");
    return ERR_OK;
}

/* ---- the file's checksum ---- */

/* The checksum of the weights and of what the file notes: any change of either gives another one. The digest of a model with
 * tables comes later, when these are exported. `notes` is changed. */
static enum err checksum(const struct best *b, json_t *notes, const float *w,
                         char hex[static SHA256_HEX_BYTES])
{
    (void)json_object_del(notes, "check");
    if (has_tables(b))
        (void)json_object_del(notes, "digest");
    export_digest(b->layout, w, NULL, hex);
    char *text = json_dumps(notes, JSON_SORT_KEYS | JSON_COMPACT);
    struct sha256 *h = text && *hex ? sha256_new() : NULL;
    if (h) {
        sha256_add(h, hex, strlen(hex));
        sha256_add(h, text, strlen(text));
    }
    free(text);
    return sha256_hex(h, hex) ? ERR_NOMEM : ERR_OK;
}

/* Compare the weights w and the notes with the file's checksum. A file of an earlier release has only the digest of a model
 * without tables. */
static enum err check_content(const struct best *b, json_t *notes, const float *w, struct errmsg *e)
{
    char is[SHA256_HEX_BYTES], was[SHA256_HEX_BYTES] = "";
    const char *check = json_string_value(json_object_get(notes, "check"));
    const char *digest = json_string_value(json_object_get(notes, "digest"));
    const char *written = check ? check : has_tables(b) ? NULL : digest;
    if (!written)
        return ERR_OK;
    (void)snprintf(was, sizeof was, "%s", written);
    enum err err = ERR_OK;
    if (check)
        err = checksum(b, notes, w, is);
    else
        export_digest(b->layout, w, NULL, is);
    if (err || !*is)
        return err_set(e, ERR_NOMEM, "no memory to check %s", b->path);
    return strcmp(is, was) == 0 ? ERR_OK
                                : err_set(e, ERR_CORRUPT,
                                          "%s is damaged: its content is not what was written "
                                          "(by its checksum)",
                                          b->path);
}

/* Read the weights into w (layout->elems), and check them. */
static enum err read_checked(const struct best *b, float *w, struct errmsg *e)
{
    json_t *notes = NULL;
    enum err err = export_read_safetensors(&b->place, b->layout, w, e);
    if (!err)
        err = export_notes(&b->place, &notes, e);
    if (!err)
        err = check_content(b, notes, w, e);
    json_decref(notes);
    return err;
}

static enum err best_check_file(const struct best *b, struct errmsg *e)
{
    float *w = mem_floats(b->layout->elems);
    enum err err =
        w ? read_checked(b, w, e) : err_set(e, ERR_NOMEM, "no memory to check %s", b->path);
    mem_free(w);
    return err;
}

/* A missing or damaged file counts as none. */
static enum err best_restore(struct best *b, struct errmsg *e)
{
    json_t *notes = NULL;
    int64_t written_ms;
    enum err err = place_stat(&b->place, EXPORT_WEIGHTS, &written_ms, e);
    if (err == ERR_NOTFOUND)
        return ERR_OK;
    if (!err)
        err = best_check_file(b, e);
    if (!err)
        err = export_notes(&b->place, &notes, e);
    if (!err)
        err = restore_notes(b, notes, e);
    if (!err && has_tables(b))
        err = restore_cut(b, notes, e);
    json_decref(notes);
    b->has = err == ERR_OK;
    b->other = err == ERR_STATE;
    if (may_be_there(err))
        return err_wrap(e, err, "the best epoch: ");
    if (err == ERR_STATE)
        log_info("%s: it is ignored", e->text);
    else if (err)
        log_warn("%s: it is ignored, and will be overwritten", e->text);
    b->lost = err && err != ERR_STATE;
    return ERR_OK;
}

/* An evaluation on other data is no better or worse than the best, so nothing could be chosen. A release before this note
 * has written none. */
static enum err best_check_data(const struct best *b, struct errmsg *e)
{
    char data[CONTENTS_HEX_BYTES];
    bool there = false;
    enum err err =
        b->data[0] ? export_note(&b->place, "eval_data", data, sizeof data, &there, e) : ERR_OK;
    if (err)
        return err_wrap(e, err, "the best epoch: ");
    if (!there || contents_same_hex(b->contents, data))
        return ERR_OK;
    return err_set(
        e, ERR_INPUT,
        "%s: the best epoch was found on other evaluation data (fingerprint %.12s there, "
        "%.12s here): use the same %s, or remove the directory",
        b->place.where, data, b->data, dataset_eval_name(b->job));
}

/* Remove the temporary files of a chief that was killed while it wrote. */
static void best_clean(const struct best *b)
{
    place_clear(&b->place, "", true);
    place_clear(&b->place, "tables", true);
}

enum err best_init(struct best *b, const struct job *job, const struct layout *layout,
                   const char *output, const struct place *checkpoints, const struct contents *data,
                   struct errmsg *e)
{
    *b = (struct best){.job = job, .layout = layout, .checkpoints = checkpoints, .hold = -1};
    if (!monitors(b))
        return ERR_OK;
    b->contents = data;
    if (data)
        contents_hex(data, b->data);
    place_of_job(&b->place, output, OUTPUT_BEST);
    enum err err = place_path(&b->place, EXPORT_WEIGHTS, b->path, e);
    if (err)
        return err;
    best_clean(b);
    err = best_restore(b, e);
    return b->has && !err ? best_check_data(b, e) : err;
}

void best_close(struct best *b)
{
    if (b->job)
        best_release(b);
}

/* ---- write ---- */

static enum err add_check(const struct best *b, struct export_note *notes, size_t *n,
                          const float *w, struct errmsg *e)
{
    json_t *object = json_object();
    int failed = object == NULL;
    for (size_t i = 0; i < *n && !failed; i++)
        failed = json_object_set_new(object, notes[i].key, json_string(notes[i].value));
    notes[*n] = (struct export_note){.key = "check"};
    enum err err = failed ? ERR_NOMEM : checksum(b, object, w, notes[(*n)++].value);
    json_decref(object);
    return err ? err_set(e, err, "no memory for the checksum of %s", b->path) : ERR_OK;
}

/* Write the file. Numbers read back to the same bits. cut: the cut with the rows, or NULL. */
static enum err best_write(const struct best *b, uint64_t epoch, const struct evaluation *eval,
                           const struct manifest *cut, const float *w, struct errmsg *e)
{
    struct export_note notes[NOTES_MAX];
    const struct results r = results_of(b->job, eval);
    size_t n = 0;
    char digest[65];
    notes[n] = (struct export_note){.key = "job"};
    (void)snprintf(notes[n++].value, sizeof notes->value, "%s", b->job->name);
    notes[n] = (struct export_note){.key = "monitor"};
    (void)snprintf(notes[n++].value, sizeof notes->value, "%s", best_monitor_name(b->job));
    notes[n] = (struct export_note){.key = "epoch"};
    (void)snprintf(notes[n++].value, sizeof notes->value, "%" PRIu64, epoch);
    notes[n] = (struct export_note){.key = "step"};
    (void)snprintf(notes[n++].value, sizeof notes->value, "%" PRIu64, eval->step);
    for (uint32_t i = 0; i < r.n; i++) {
        notes[n] = (struct export_note){.key = r.of[i].name};
        (void)snprintf(notes[n++].value, sizeof notes->value, "%.17g",
                       digits_printed(r.of[i].value));
    }
    if (b->run[0]) {
        notes[n] = (struct export_note){.key = "run"};
        (void)snprintf(notes[n++].value, sizeof notes->value, "%s", b->run);
    }
    if (b->data[0]) {
        notes[n] = (struct export_note){.key = "eval_data"};
        (void)snprintf(notes[n++].value, sizeof notes->value, "%s", b->data);
    }
    if (!has_tables(b)) { /* otherwise the digest is added when the tables are exported */
        export_digest(b->layout, w, NULL, digest);
        notes[n] = (struct export_note){.key = "digest"};
        (void)snprintf(notes[n++].value, sizeof notes->value, "%s", digest);
    }
    if (cut) {
        notes[n] = (struct export_note){.key = "cut"};
        (void)snprintf(notes[n++].value, sizeof notes->value, "%" PRIu64, cut->cut);
        notes[n] = (struct export_note){.key = "cut_step"};
        (void)snprintf(notes[n++].value, sizeof notes->value, "%" PRIu64, cut->step);
        notes[n] = (struct export_note){.key = "cut_manifest"};
        (void)snprintf(notes[n++].value, sizeof notes->value, "%" PRIu32, cut->crc);
    }
    enum err err = add_check(b, notes, &n, w, e);
    if (!err)
        err = model_manifest_remove(&b->place, e);
    return err ? err : export_safetensors(&b->place, b->layout, w, notes, n, e);
}

static void best_note(struct best *b, uint64_t epoch, const struct evaluation *eval)
{
    b->has = true;
    b->gone = false;
    b->ahead = 0;
    b->value = best_monitored(b->job, eval);
    b->epoch = epoch;
    b->eval = *eval;
}

/* ---- a best that counts no more ---- */

void best_give_up(struct best *b)
{
    b->has = b->gone = false;
    b->ahead = 0;
}

bool best_is_given_up(const struct best *b, uint64_t epoch, const struct evaluation *eval)
{
    bool comes = b->ahead <= b->job->training.epochs;
    bool again = epoch < b->ahead && comes && !best_stops(b, epoch);
    return b->gone && !best_is_beaten(b, epoch, eval) && !again;
}

/* The best in best/ counts no more, for later processes too. */
static enum err best_drop(struct best *b, struct errmsg *e)
{
    best_release(b);
    best_give_up(b);
    b->run[0] = '\0';
    enum err err = model_manifest_remove(&b->place, e);
    return err ? err : warm_start_forget_best(&b->place, e);
}

enum err best_begin(struct best *b, const char *run, struct errmsg *e)
{
    bool other = (b->has || b->lost) && b->run[0] && strcmp(b->run, run) != 0;
    if (!monitors(b))
        return ERR_OK;
    if (other)
        log_info("%s is the best of another job (%s): it is removed", b->path, b->run);
    enum err err = other ? best_drop(b, e) : ERR_OK;
    b->lost = b->lost && !other;
    (void)snprintf(b->run, sizeof b->run, "%s", run);
    return err;
}

/* In sync an epoch can have extra steps. In the other modes its evaluation has batches of the next one, too. */
static uint64_t ended_at(const struct best *b, uint64_t per_epoch)
{
    return b->job->training.update == UPDATE_SYNC ? b->eval.step : b->epoch * per_epoch;
}

void best_undo(struct best *b, uint64_t step, uint64_t per_epoch)
{
    if (!b->has || ended_at(b, per_epoch) <= step)
        return;
    log_info("epoch %" PRIu64 ", which was the best, is undone: the job is at step %" PRIu64
             " again",
             b->epoch, step);
    if (b->epoch > b->ahead)
        b->ahead = b->epoch;
    b->has = b->gone = false;
}

void best_expect(struct best *b, uint64_t epoch, const struct evaluation *eval)
{
    if (!monitors(b) || b->other || (b->has && b->epoch >= epoch))
        return;
    const uint64_t ahead = b->ahead;
    best_note(b, epoch, eval);
    b->ahead = ahead;
    b->gone = true;
    b->lost = false;
}

/* ---- an evaluation ---- */

/* The evaluation of the best epoch again, whose weights are gone. */
static bool best_is_gone(const struct best *b, uint64_t epoch, const struct evaluation *eval)
{
    return b->has && b->gone && epoch == b->epoch && !isnan(best_monitored(b->job, eval));
}

bool best_is_beaten(const struct best *b, uint64_t epoch, const struct evaluation *eval)
{
    return monitors(b) && epoch > b->job->early_stopping.start_from_epoch &&
           (better(b, best_monitored(b->job, eval)) || best_is_gone(b, epoch, eval));
}

bool best_is_undefined(const struct best *b, const struct evaluation *eval)
{
    return monitors(b) && isfinite(eval->loss) && isnan(best_monitored(b->job, eval));
}

bool best_lacks(const struct best *b, uint64_t epoch, const struct evaluation *eval)
{
    return (!b->has || epoch > b->epoch) && best_is_beaten(b, epoch, eval);
}

enum err best_see(struct best *b, uint64_t epoch, const struct evaluation *eval, const float *w,
                  struct errmsg *e)
{
    if (!best_is_beaten(b, epoch, eval))
        return ERR_OK;
    enum err err = best_write(b, epoch, eval, NULL, w, e);
    if (!err)
        best_note(b, epoch, eval);
    return err;
}

/* Write the file with the dense weights of a cut; the exported tables of the earlier best epoch are removed first. */
static enum err best_write_cut(const struct best *b, uint64_t epoch, const struct evaluation *eval,
                               const struct manifest *m, struct errmsg *e)
{
    float *const no_slots[OPTIMIZER_SLOTS_MAX] = {NULL};
    float *w = mem_floats(b->layout->elems);
    if (!w)
        return err_memory_for(e, "the parameters");
    enum err err = checkpoint_read(b->checkpoints, m, 0, b->layout->elems, w, no_slots, e);
    if (!err)
        place_clear(&b->place, "tables", false);
    if (!err)
        err = best_write(b, epoch, eval, m, w, e);
    mem_free(w);
    return err;
}

enum err best_keep_cut(struct best *b, uint64_t epoch, const struct evaluation *eval, uint64_t cut,
                       int take_hold, struct errmsg *e)
{
    struct manifest m;
    enum err err = checkpoint_load((struct cut){b->checkpoints, cut}, &m, e);
    if (err) {
        place_release(take_hold);
        return err;
    }
    err = best_write_cut(b, epoch, eval, &m, e);
    if (err) {
        place_release(take_hold);
    } else {
        best_release(b);
        best_note(b, epoch, eval);
        best_note_cut(b, &m);
        b->hold = take_hold;
    }
    manifest_close(&m);
    return err;
}

static bool cut_is_of(const struct best *b, uint64_t cut, uint64_t step, const char *uuid)
{
    struct manifest m;
    struct errmsg e;
    if (checkpoint_load((struct cut){b->checkpoints, cut}, &m, &e))
        return false; /* the chief reports a damaged cut when it looks for the one to begin with */
    bool is = m.step == step && strcmp(m.uuid, uuid) == 0;
    manifest_close(&m);
    return is;
}

enum err best_adopt(struct best *b, uint64_t epoch, const struct evaluation *eval, const char *uuid,
                    struct errmsg *e)
{
    uint64_t *cuts = NULL;
    size_t n = 0, i = 0;
    int hold;
    assert(has_tables(b));
    (void)snprintf(b->run, sizeof b->run, "%s", uuid);
    enum err err = checkpoint_list(b->checkpoints, &cuts, &n, e);
    while (!err && i < n && !cut_is_of(b, cuts[i], eval->step, uuid))
        i++;
    if (!err && i < n)
        err = checkpoint_hold((struct cut){b->checkpoints, cuts[i]}, &hold, e);
    if (!err && i < n)
        err = best_keep_cut(b, epoch, eval, cuts[i], hold, e);
    mem_free(cuts);
    return err;
}

enum err best_read(const struct best *b, float *w, struct errmsg *e)
{
    if (!b->has || b->gone)
        return err_set(e, ERR_NOTFOUND, "no evaluation has been the best yet");
    return read_checked(b, w, e);
}
