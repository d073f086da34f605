/* A job's past in DIR, as its chief finds it: the checkpoint to resume from, the history, the journal and the best epoch, each
 * compared with the others. A part that is lost or damaged is named, and a sync job is then not exact (p->past). */
#include "worker/process.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/parameters/epochs.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/base/sha256.h"
#include "common/process/output.h"
#include "worker/chief/host.h"
#include "worker/chief/journal_file.h"
#include "worker/chief/resume.h"
#include "worker/control/progress.h"
#include "model/model.h"
#include "worker/warm_start/first_weights.h"
#include "worker/warm_start/warm_start.h"

/* Begin a run with another name: make its first cut. */
static enum err begin_run(struct process *p, struct errmsg *e)
{
    uint8_t *fresh = NULL;
    struct model_growth growth = {.tensors = 0};
    enum err err = taught_fresh(&p->taught, p->data.table.schema, &fresh, e);
    if (!err && fresh)
        err = model_growth_init(&growth, p->model, fresh, e);
    const struct warm_start start = {.job = &p->job,
                                     .data_fingerprint = p->data.contents.fingerprint,
                                     .output = p->output,
                                     .checkpoints = &p->checkpoints,
                                     .layout = model_layout(p->model),
                                     .fresh = growth.fresh,
                                     .encoding = p->encoding};
    if (!err)
        err = warm_start_begin(&start, &p->base, e);
    model_growth_close(&growth);
    mem_free(fresh);
    return err;
}

/* Begin a job from scratch with the weights of a file: make its first cut. */
static enum err begin_from_file(struct process *p, struct errmsg *e)
{
    char words[FIRST_WEIGHTS_WORDS_BYTES];
    const struct first_weights weights = {.job = &p->job,
                                          .data_fingerprint = p->data.contents.fingerprint,
                                          .checkpoints = &p->checkpoints,
                                          .layout = model_layout(p->model),
                                          .encoding = p->encoding,
                                          .words = words};
    enum err err = first_weights_begin(&weights, e);
    if (err)
        return err;
    progress_say(p->flags.progress_fd, "%s", words);
    return warm_start_forget(p->output, e);
}

/* Tells this job from others that may begin in the same directory: the digest of its identity, and its data. */
enum { BEGINS_BYTES = SHA256_HEX_BYTES + CONTENTS_HEX_BYTES };

static void begins_text(const struct process *p, char out[static BEGINS_BYTES])
{
    char identity[SHA256_HEX_BYTES], data[CONTENTS_HEX_BYTES];
    struct sha256 *h = sha256_new();
    if (h)
        sha256_add(h, p->job.identity_text, strlen(p->job.identity_text));
    (void)sha256_hex(h, identity);
    contents_hex(&p->data.contents, data);
    (void)snprintf(out, BEGINS_BYTES, "%s %s", identity, data);
}

enum err process_mark_begin(const struct process *p, struct errmsg *e)
{
    char job[BEGINS_BYTES];
    begins_text(p, job);
    return journal_mark(&p->checkpoints, job, e);
}

/* Look at the newest usable cut. If that belongs to a finished job with another run name, make this run's first cut
 * from it; if there is none, the job begins: make the first cut from its first weights, if it has any. */
static enum err find_base(struct process *p, struct errmsg *e)
{
    bool begins = !p->has_base || warm_start_is_due(&p->job, &p->base);
    enum err err = job_settle_merge(&p->job, begins ? NULL : p->base.identity_text, e);
    if (!err && p->job.training.update == UPDATE_GEO)
        log_info("rounds merge by training.geo_merge: %s",
                 job_geo_merge_word(p->job.training.geo_merge));
    bool weights = p->job.model.weights != NULL;
    if (err)
        return err;
    if (!p->has_base && !weights) {
        char job[BEGINS_BYTES];
        begins_text(p, job);
        return journal_begins(&p->checkpoints, job) ? ERR_OK : warm_start_forget(p->output, e);
    }
    if (!begins) {
        warm_start_settle(&p->job, &p->checkpoints, &p->base);
        return first_weights_check(&p->job, model_layout(p->model), &p->base, e);
    }
    if (weights && p->has_base)
        err = first_weights_pass(&p->job, e);
    if (!err)
        err = p->has_base ? begin_run(p, e) : begin_from_file(p, e);
    if (err)
        return err;
    manifest_close(&p->base);
    return process_newest_cut(p, e);
}

/* The ways out for a job that changed. A new run would refuse most changes of columns, too. */
static const char *ways_out(const struct process *p)
{
    const char *was = p->base.identity_text, *is = p->job.identity_text;
    struct errmsg e;
    return resume_ways(p->base.final && job_identity_compare_model(was, is, &e) == ERR_OK &&
                       job_identity_compare_columns(was, is, &e) == ERR_OK);
}

static void say_done(const struct process *p, uint64_t per_epoch, uint64_t epochs)
{
    char text[RESUME_WORDS_BYTES];
    bool early = epochs < p->job.training.epochs;
    resume_words_done(text, &p->base, &p->job, per_epoch,
                      early ? best_waited(&p->best, epochs) : 0);
    log_info("%s", text);
    progress_untrained(p->flags.progress_fd, text);
}

/* Check that the chief's cut belongs to this job. */
static enum err check_base(const struct process *p, uint64_t per_epoch, struct errmsg *e)
{
    if (job_identity_compare(p->base.identity_text, p->job.identity_text, e)) {
        const struct errmsg what = *e;
        return err_set(e, ERR_INPUT,
                       "%.150s: the job differs from that of its checkpoint %" PRIu64
                       ": %.150s; restore the old value%s",
                       p->output, p->base.cut, what.text, ways_out(p));
    }
    if (!contents_same(&p->data.contents, p->base.data_fingerprint,
                       sizeof p->base.data_fingerprint))
        return err_set(e, ERR_INPUT,
                       "%.150s: the data differ from those of its checkpoint %" PRIu64
                       ": use the same data%s",
                       p->output, p->base.cut, ways_out(p));
    uint64_t epochs = manifest_epochs(&p->base, per_epoch);
    if (p->base.redo.there && p->job.sync.dropped != DROPPED_REDO &&
        epochs_regular(per_epoch, epochs, p->base.redo.begin, p->base.step) != p->base.step)
        return err_set(
            e, ERR_INPUT,
            "%.150s resumes from checkpoint %" PRIu64
            ", which has extra steps for dropped microbatches: sync.dropped must stay redo%s",
            p->output, p->base.cut, resume_ways(false));
    return ERR_OK;
}

/* Seconds of training in earlier runs. A chief that was killed may have trained longer than its last checkpoint
 * says. */
static double seconds_before(const struct process *p)
{
    double told = p->log.n ? p->log.line[p->log.n - 1].seconds : 0;
    if (!p->has_base)
        return 0;
    return strcmp(p->log.uuid, p->base.uuid) == 0 && told > p->base.seconds ? told
                                                                            : p->base.seconds;
}

/* Check the end of a finished job. If its final checkpoint is not finite, as an earlier release could leave it, the
 * job has failed. */
static enum err look_at_end(struct process *p, uint64_t per_epoch, uint64_t epochs,
                            struct errmsg *e)
{
    char words[ENDED_WORDS_BYTES];
    enum err err = ended_look(&p->checkpoints, &p->base, model_layout(p->model), words, e);
    if (err)
        return err;
    if (words[0]) {
        p->result.exit_code = 1;
        (void)snprintf(p->result.error, sizeof p->result.error, "%s", words);
    } else if (p->best.unsure && p->job.early_stopping.restore_best_weights) {
        p->result.exit_code = 1;
        (void)snprintf(
            p->result.error, sizeof p->result.error,
            "%.150s: the job is done, but history.jsonl has no line of epoch %" PRIu64
            ", so the best epoch, whose weights belong into model/, is not known; model/ "
            "stays as it is; bring the file back, or set "
            "early_stopping.restore_best_weights: false",
            p->output, p->best.unsure);
    } else if (p->best.gone && p->job.early_stopping.restore_best_weights) {
        p->result.exit_code = 1;
        (void)snprintf(p->result.error, sizeof p->result.error,
                       "%.150s: the job is done, but the weights of its best epoch, %" PRIu64
                       ", which belong into model/, are gone: weights.safetensors is damaged or "
                       "was removed; model/ stays as it is; bring the file back, or move the "
                       "checkpoints from step %" PRIu64 " on away to train the rest again, or set "
                       "early_stopping.restore_best_weights: false",
                       p->best.place.where, p->best.epoch, p->best.eval.step);
    } else {
        say_done(p, per_epoch, epochs);
    }
    return ERR_OK;
}

const struct epoch_line *process_unkept_line(const struct process *p)
{
    const struct epoch_line *last = p->log.n ? &p->log.line[p->log.n - 1] : NULL;
    bool ours = p->has_base && strcmp(p->log.uuid, p->base.uuid) == 0;
    bool lacks = last && last->has_eval && ours && p->job.training.update == UPDATE_SYNC &&
                 best_lacks(&p->best, last->epoch, &last->eval);
    return lacks && !p->finished ? last : NULL;
}

/* Sync: the epochs of the checkpoint that must have a line in the history. An end that it is just at is evaluated again, except
 * at the job's end. */
static uint64_t epochs_evaluated(const struct manifest *base, uint64_t per_epoch)
{
    uint64_t epochs = manifest_epochs(base, per_epoch);
    uint64_t end = base->redo.there ? base->redo.begin : epochs * per_epoch;
    return epochs - (epochs && !base->final && base->step <= end);
}

/* In sync the history has each epoch of the checkpoint. If one is missing, so may be the best. */
static void look_at_history(struct process *p, uint64_t per_epoch)
{
    bool ours = strcmp(p->log.uuid, p->base.uuid) == 0;
    bool named = *journal_name(&p->journal) != '\0'; /* else an earlier release wrote DIR */
    uint64_t from = journal_named_epochs(&p->journal), to = epochs_evaluated(&p->base, per_epoch);
    uint64_t whole = ours ? epoch_log_whole(&p->log, from) : from;
    if (p->job.training.update != UPDATE_SYNC || !named || whole >= to ||
        journal_inexact(&p->journal))
        return;
    bool matters =
        p->job.training.monitor != MONITOR_NONE && to > p->job.early_stopping.start_from_epoch;
    log_warn("%s/history.jsonl has no line of epoch %" PRIu64 ", though checkpoint %" PRIu64
             " has %" PRIu64 " epochs%s; bring the file back if you removed it",
             p->output, whole + 1, p->base.cut, to,
             matters ? ": the best epoch may be another one" : "");
    if (matters && !p->past[0])
        (void)snprintf(p->past, sizeof p->past,
                       "history.jsonl had no line of epoch %" PRIu64
                       " when the job started again, so the best epoch may be another one",
                       whole + 1);
    p->best.unsure = matters ? whole + 1 : 0;
}

/* data.eval is a run-time key: it may change, but then the history has evaluations of both. */
static void look_at_eval_data(struct process *p)
{
    const struct epoch_line *other =
        p->has_eval ? epoch_log_other_data(&p->log, &p->eval.contents) : NULL;
    if (!other || strcmp(p->log.uuid, p->base.uuid) != 0)
        return;
    const char *what = other->epoch ? "epoch" : "step", *rows = dataset_eval_name(&p->job);
    const uint64_t n = other->epoch ? other->epoch : other->step;
    log_warn("%s has other rows than when %s %" PRIu64
             " was evaluated: the history has evaluations of both",
             rows, what, n);
    if (!p->past[0])
        (void)snprintf(p->past, sizeof p->past,
                       "%s had other rows when %s %" PRIu64 " was evaluated", rows, what, n);
}

/* The history knows the epochs that were the best. If best/ lacks the last of them, and this is not the evaluation that the last
 * chief had no time to keep, its weights are gone. */
static void expect_best(struct process *p)
{
    const struct epoch_line *unkept = process_unkept_line(p);
    const struct epoch_line *line =
        epoch_log_best(&p->log, unkept ? unkept->epoch - 1 : UINT64_MAX);
    bool ours = strcmp(p->log.uuid, p->base.uuid) == 0;
    if (!line || !ours)
        return;
    struct evaluation eval = line->eval;
    eval.step = line->step;
    best_expect(&p->best, line->epoch, &eval);
}

/* With tables, the cut of that evaluation may be published. */
static void adopt_best(struct process *p)
{
    const struct epoch_line *line = process_unkept_line(p);
    struct errmsg e;
    if (!line || !model_layout(p->model)->rows)
        return;
    struct evaluation eval = line->eval;
    eval.step = line->step;
    if (best_adopt(&p->best, line->epoch, &eval, p->log.uuid, &e))
        log_warn("epoch %" PRIu64 " is the best; it is evaluated again, because its checkpoint "
                 "cannot be used: %s",
                 line->epoch, e.text);
    else if (!best_lacks(&p->best, line->epoch, &line->eval))
        log_info("epoch %" PRIu64 " is the best: its rows are in checkpoint %" PRIu64
                 ", step %" PRIu64,
                 line->epoch, p->best.cut, p->best.cut_step);
}

/* The end of a warning about the journal. */
static const char *not_exact(const struct process *p)
{
    return p->job.training.update == UPDATE_SYNC ? ", and this job is not exact any more" : "";
}

static enum err read_journal(struct process *p, struct errmsg *e)
{
    struct journal_damage d;
    enum err err = journal_read(&p->journal, &p->checkpoints, &d, e);
    if (!err && d.torn)
        log_warn(
            "%s/journal:%zu: the last line is incomplete: whoever wrote it was killed before it "
            "had an effect; it is skipped, and removed before the next one is written",
            p->checkpoints.where, d.lines + 1);
    if (err || !d.damaged)
        return err;
    log_warn("%s/journal:%zu: the line is damaged: it is skipped%s (damaged lines: %zu of %zu)",
             p->checkpoints.where, d.first, not_exact(p), d.damaged, d.lines);
    (void)snprintf(p->past, sizeof p->past,
                   "line %zu of checkpoints/journal was damaged when the job started again",
                   d.first);
    return ERR_OK;
}

static enum err read_history(struct process *p, struct errmsg *e)
{
    struct epoch_damage d;
    enum err err = epoch_log_read(&p->log, &p->job, p->output, &d, e);
    if (!err && d.damaged)
        log_warn("%s/history.jsonl:%zu: the line is damaged: it is skipped, and the history has a "
                 "gap there (damaged lines: %zu)",
                 p->output, d.first, d.damaged);
    return err;
}

/* Lines of the journal are never removed, so it begins with those that it had when the checkpoint was taken. */
static void look_at_journal(struct process *p)
{
    const struct journal_lines lines = {p->base.journal_lines, p->base.journal_crc};
    if (p->past[0] || journal_begins_with(&p->journal, lines))
        return;
    (void)snprintf(p->past, sizeof p->past,
                   "checkpoints/journal lacked lines that it had at checkpoint %" PRIu64
                   ", when the job started again",
                   p->base.cut);
    log_warn("%s/journal lacks some of the %" PRIu64 " lines that it had at checkpoint %" PRIu64
             "%s; bring the file back if you removed it",
             p->checkpoints.where, lines.n, p->base.cut, not_exact(p));
}

/* The job ends at this checkpoint, even if it was continued from there: the history up to it says whether it stops early. */
static bool was_done(const struct process *p, uint64_t epochs)
{
    const struct epoch_line *best = epoch_log_best(&p->log, epochs);
    uint32_t patience = p->job.early_stopping.patience;
    bool ours = strcmp(p->log.uuid, p->base.uuid) == 0;
    bool stops = ours && best && patience > 0 && epochs - best->epoch >= patience;
    return p->base.final && (epochs >= p->job.training.epochs || stops);
}

/* Remove the temporary files of a chief that was killed while it wrote. */
static void clean_model(const struct process *p)
{
    struct place model;
    place_of_job(&model, p->output, OUTPUT_MODEL);
    place_clear(&model, "", true);
    place_clear(&model, "tables", true);
}

/* A cut of an earlier release has another fingerprint of the same text. */
static enum err know_before(struct process *p, const struct manifest *cut, struct errmsg *e)
{
    if (warm_start_is_due(&p->job, cut) ||
        !contents_is_untold(&p->data.contents, cut->data_fingerprint))
        return ERR_OK;
    log_info("reading the text once more: checkpoint %" PRIu64
             " has the SHA-256 of an earlier release as the fingerprint of its data",
             cut->cut);
    enum err err = dataset_know_before(&p->data, &p->job, 0, e);
    return err || !p->has_eval ? err : dataset_know_before(&p->eval, &p->job, 1, e);
}

/* For an evaluator: the newest one, if there is one yet. */
static enum err know_newest(struct process *p, struct errmsg *e)
{
    struct manifest cut;
    struct errmsg none;
    if (host_find_cut(&p->checkpoints, UINT64_MAX, &cut, &none))
        return ERR_OK;
    enum err err = know_before(p, &cut, e);
    manifest_close(&cut);
    return err;
}

enum err process_look_back(struct process *p, struct errmsg *e)
{
    if (p->cluster.role == ROLE_EVALUATOR)
        return know_newest(p, e);
    if (!p->cluster.is_chief)
        return ERR_OK;
    enum err err = exports_end_check(&p->job, e);
    if (!err && p->has_base)
        err = know_before(p, &p->base, e);
    if (!err)
        err = find_base(p, e);
    if (!err)
        clean_model(p);
    if (!err)
        err = best_init(&p->best, &p->job, model_layout(p->model), p->output, &p->checkpoints,
                        p->has_eval ? &p->eval.contents : NULL, e);
    if (!err && p->has_base)
        err = best_begin(&p->best, p->base.uuid, e);
    if (!err)
        err = read_journal(p, e);
    if (!err)
        err = read_history(p, e);
    p->learned.seconds_before = seconds_before(p);
    if (err || !p->has_base)
        return err;
    uint64_t per_epoch = order_batches(&p->rows->order),
             epochs = manifest_epochs(&p->base, per_epoch);
    err = check_base(p, per_epoch, e);
    if (err)
        return err;
    look_at_journal(p);
    if (was_done(p, epochs)) { /* no epoch after it is this job's any more */
        best_undo(&p->best, p->base.step, per_epoch);
        (void)epoch_log_restore(&p->log, p->base.step);
    }
    look_at_history(p, per_epoch);
    expect_best(p);
    /* without a best there was nothing that could stop the job early: monitoring begins now */
    bool stopped = p->best.has && best_stops(&p->best, epochs);
    p->finished = p->base.final && (epochs >= p->job.training.epochs || stopped);
    if (!p->finished)
        look_at_eval_data(p);
    adopt_best(p);
    return p->finished ? look_at_end(p, per_epoch, epochs, e) : ERR_OK;
}
