/* The chief's part of a worker process: the checkpoint that it resumes from, its run, and summary.json. */
#include "worker/process.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/uuid.h"
#include "common/parameters/epochs.h"
#include "common/math/kernels.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/base/sha256.h"
#include "common/process/dirguard.h"
#include "common/process/files.h"
#include "common/process/signals.h"
#include "worker/chief/ended.h"
#include "worker/chief/host.h"
#include "worker/tensorboard/curves.h"
#include "worker/chief/journal_file.h"
#include "worker/chief/resume.h"
#include "worker/chief/model_end.h"
#include "worker/chief/tables_end.h"
#include "worker/evaluate/eval_log.h"
#include "worker/control/cut_reader.h"
#include "worker/control/failed_start.h"
#include "worker/control/progress.h"
#include "worker/model/growth.h"
#include "worker/warm_start/first_weights.h"
#include "worker/warm_start/warm_start.h"
#include "worker/summarize.h"

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
                                     .checkpoints = p->checkpoints,
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
                                          .checkpoints = p->checkpoints,
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
        return journal_begins(p->checkpoints, job) ? ERR_OK : warm_start_forget(p->output, e);
    }
    if (!begins) {
        warm_start_settle(&p->job, p->checkpoints, &p->base);
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

/* The ways out for a job that changed. */
static const char *ways_out(const struct process *p)
{
    struct errmsg e;
    return resume_ways(
        p->base.final &&
        job_identity_compare_model(p->base.identity_text, p->job.identity_text, &e) == ERR_OK);
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
    if (memcmp(p->base.data_fingerprint, p->data.contents.fingerprint,
               sizeof p->data.contents.fingerprint) != 0)
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

static bool lacks_best(const struct process *p)
{
    return p->best.gone && p->job.early_stopping.restore_best_weights;
}

/* Check the end of a finished job. If its final checkpoint is not finite, as an earlier release could leave it, the
 * job has failed. */
static enum err look_at_end(struct process *p, uint64_t per_epoch, uint64_t epochs,
                            struct errmsg *e)
{
    char words[ENDED_WORDS_BYTES];
    enum err err = ended_look(p->checkpoints, &p->base, model_layout(p->model), words, e);
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
    } else if (lacks_best(p)) {
        p->result.exit_code = 1;
        (void)snprintf(p->result.error, sizeof p->result.error,
                       "%.150s: the job is done, but the weights of its best epoch, %" PRIu64
                       ", which belong into model/, are gone: weights.safetensors is damaged or "
                       "was removed; model/ stays as it is; bring the file back, or move the "
                       "checkpoints from step %" PRIu64 " on away to train the rest again, or set "
                       "early_stopping.restore_best_weights: false",
                       p->best.folder, p->best.epoch, p->best.eval.step);
    } else {
        say_done(p, per_epoch, epochs);
    }
    return ERR_OK;
}

/* The history's last line, if its evaluation was the best and best/ lacks it: the last chief was killed in between. */
static const struct epoch_line *unkept_line(const struct process *p)
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
    log_warn("data.eval has other rows than when epoch %" PRIu64
             " was evaluated: the history has evaluations of both",
             other->epoch);
    if (!p->past[0])
        (void)snprintf(p->past, sizeof p->past,
                       "data.eval had other rows when epoch %" PRIu64 " was evaluated",
                       other->epoch);
}

/* The history knows the epochs that were the best. If best/ lacks the last of them, and this is not the evaluation that the last
 * chief had no time to keep, its weights are gone. */
static void expect_best(struct process *p)
{
    const struct epoch_line *unkept = unkept_line(p);
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
    const struct epoch_line *line = unkept_line(p);
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
    enum err err = journal_read(&p->journal, p->checkpoints, &d, e);
    if (!err && d.torn)
        log_warn(
            "%s/journal:%zu: the last line is incomplete: whoever wrote it was killed before it "
            "had an effect; it is skipped, and removed before the next one is written",
            p->checkpoints, d.lines + 1);
    if (err || !d.damaged)
        return err;
    log_warn("%s/journal:%zu: the line is damaged: it is skipped%s (damaged lines: %zu of %zu)",
             p->checkpoints, d.first, not_exact(p), d.damaged, d.lines);
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
             p->checkpoints, lines.n, p->base.cut, not_exact(p));
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
    static const char *const folders[] = {"model", "model/tables"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        char path[sizeof p->output + 16];
        (void)snprintf(path, sizeof path, "%s/%s", p->output, folders[i]);
        files_clean(path, true);
    }
}

/* The chief: find the checkpoint to resume from, and check that it belongs to this job. */
enum err process_look_back(struct process *p, struct errmsg *e)
{
    if (!p->cluster.is_chief)
        return ERR_OK;
    enum err err = exports_end_check(&p->job, e);
    if (!err)
        err = find_base(p, e);
    if (!err)
        clean_model(p);
    if (!err)
        err = best_init(&p->best, &p->job, model_layout(p->model), p->output, p->checkpoints,
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
    uint64_t per_epoch = order_batches(&p->order), epochs = manifest_epochs(&p->base, per_epoch);
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

/* Export the tables to model/, from the final cut (which is loaded) or the best one's, and to best/. */
static enum err export_tables(struct process *p, const struct manifest *final, struct errmsg *e)
{
    const struct tables_end end = {.job = &p->job,
                                   .layout = model_layout(p->model),
                                   .output = p->output,
                                   .checkpoints = p->checkpoints};
    return end.layout->rows ? tables_end_export_all(&end, final, &p->best, p->learned.digest, e)
                            : ERR_OK;
}

/* The same for a job that ends now. */
static enum err export_final_tables(struct process *p, struct errmsg *e)
{
    struct manifest final;
    if (!model_layout(p->model)->rows || p->result.exit_code != 0)
        return ERR_OK;
    enum err err = host_find_final(p->checkpoints, &final, e);
    if (err)
        return err_wrap(e, err, "the final checkpoint, whose rows go to model/: ");
    err = export_tables(p, &final, e);
    manifest_close(&final);
    return err;
}

static void take_base_eval(struct process *p)
{
    p->learned.has_eval = p->base.eval.valid;
    p->learned.eval.loss = p->base.eval.loss;
    memcpy(p->learned.eval.metric, p->base.eval.metric, sizeof p->base.eval.metric);
}

/* The job was done before: complete its files from the checkpoint. */
static enum err complete(struct process *p, const struct epoch_end_config *config, struct errmsg *e)
{
    uint64_t elems = model_layout(p->model)->elems;
    float *w = mem_floats(elems);
    if (!w)
        return err_set(e, ERR_NOMEM, "no memory for the parameters");
    bool best = epoch_end_restores_best(config);
    enum err err = best
                       ? best_read(&p->best, w, e)
                       : checkpoint_read_learned(p->checkpoints, &p->base, &p->job.optimizer, w, e);
    if (!err)
        err = epoch_end_export(config, w, p->base.step, p->learned.digest, e);
    if (!err)
        err = export_tables(p, &p->base, e);
    mem_free(w);
    take_base_eval(p);
    if (best) {
        p->learned.has_eval = true;
        p->learned.eval = p->best.eval;
    }
    return err;
}

/* The job was done, but its evaluator was not: wait for its result again, within its bound. The other processes are
 * gone by now; a signal ends the wait. */
static void await_evaluator(const struct process *p)
{
    int64_t began_ms = clock_now_ms(), bound_ms = (int64_t)p->job.timeouts.evaluator_s * 1000;
    struct timespec pause = {.tv_nsec = 200000000};
    for (bool waited = false;; waited = true) {
        struct errmsg e;
        struct eval_result r;
        bool there = eval_log_judged(&p->job, p->output, &p->base, &r, &e);
        if (e.text[0])
            log_warn("%s", e.text);
        if (there || signals_held() || clock_now_ms() - began_ms > bound_ms)
            return;
        if (!waited)
            log_info("waiting for the evaluator's result of the final checkpoint, %" PRIu64,
                     p->base.cut);
        (void)nanosleep(&pause, NULL);
    }
}

/* The evaluator's results for this job's checkpoints up to the last one. */
struct results {
    struct eval_log log;
    struct manifest last;
};

static void results_close(struct results *r)
{
    eval_log_close(&r->log);
    manifest_close(&r->last);
}

/* The number of the last cut; UINT64_MAX: there is none. host NULL: no cut was made in this run. */
static uint64_t last_cut(const struct process *p, const struct host *host)
{
    if (host && !p->finished && host_facts(host)->running)
        return host_facts(host)->cut;
    return p->has_base ? p->base.cut : UINT64_MAX;
}

/* Results count only if they belong to the past of the last cut. On an error there are none. */
static void read_results(const struct process *p, const struct host *host, struct results *r)
{
    struct errmsg e;
    uint64_t cut = last_cut(p, host);
    *r = (struct results){.log.n = 0};
    if (!p->cluster.has_evaluator || cut == UINT64_MAX)
        return;
    enum err err = eval_log_read(&r->log, &p->job, p->output, &e);
    if (!err)
        err = checkpoint_load_manifest(p->checkpoints, cut, &r->last, &e);
    if (!err) {
        (void)eval_log_undo(&r->log, &r->last, 1);
        return;
    }
    log_warn("the evaluator's results are not used: %s", e.text);
    results_close(r);
}

/* Write the manifest of the trained model, if this run or an earlier one has written the model. */
static enum err end_model(const struct process *p, const struct epoch_end_config *config,
                          const struct host *host, struct errmsg *e)
{
    struct results results;
    if (p->result.exit_code != 0 || !p->learned.digest[0])
        return ERR_OK;
    read_results(p, host, &results);
    const struct model_end end = {.config = config,
                                  .learned = &p->learned,
                                  .evaluator = p->cluster.has_evaluator ? &results.log : NULL,
                                  .final = &results.last};
    enum err err = model_end_write(&end, e);
    results_close(&results);
    return err;
}

/* For write_rest. */
struct rest {
    struct process *p;
    const struct epoch_end_config *config;
};

/* All that can fail is written before ps and workers hear that the job is done. The manifest waits for the evaluator's
 * result, if the job has an evaluator. */
static enum err write_rest(void *arg, struct errmsg *e)
{
    const struct rest *r = arg;
    enum err err = export_final_tables(r->p, e);
    return err || r->p->cluster.has_evaluator ? err : end_model(r->p, r->config, NULL, e);
}

/* True: DIR is no longer this job's, so nothing can be written there. */
static bool lost_output(struct process *p)
{
    struct errmsg e;
    if (!dirguard_check(&e))
        return false;
    if (p->result.exit_code == 0) {
        p->result.exit_code = 1;
        (void)snprintf(p->result.error, sizeof p->result.error, "%s", e.text);
    }
    return true;
}

static enum err summarize_run(struct process *p, const struct host *host, struct errmsg *e)
{
    struct results results;
    read_results(p, host, &results);
    const struct summarize what = {.evaluator = p->cluster.has_evaluator ? &results.log : NULL,
                                   .job = &p->job,
                                   .journal = &p->journal,
                                   .cluster = &p->cluster,
                                   .result = &p->result,
                                   .learned = &p->learned,
                                   .log = &p->log,
                                   .base = p->has_base ? &p->base : NULL,
                                   .finished = p->finished,
                                   .launched = p->flags.progress_fd >= 0,
                                   .batches_per_epoch = order_batches(&p->order),
                                   .rows = p->data.rows,
                                   .planted = p->planted,
                                   .output = p->output,
                                   .exports = &p->exports,
                                   .host = host};
    enum err err = summarize(&what, e);
    if (p->result.exit_code == 0 && p->learned.digest[0])
        summary_words(&what, p->done_words);
    results_close(&results);
    return err;
}

/* The run ends with an error from here on, which the summary has. */
static void fail_run(struct process *p, enum err err, const struct errmsg *why)
{
    p->result.exit_code = err_exit_code(err);
    (void)snprintf(p->result.error, sizeof p->result.error, "%s", why->text);
}

/* The job's training failed before this run. */
enum err process_summarize_failed(struct process *p, struct errmsg *e)
{
    p->learned.first_step_s = NAN;
    take_base_eval(p);
    return summarize_run(p, NULL, e);
}

/* In other modes than sync no job is exact, whatever multiplies. */
static const char *blas_of(const struct process *p)
{
    return p->job.training.update == UPDATE_SYNC ? model_blas(p->model) : "";
}

static void warn_of_kernels(const struct process *p)
{
    const char *blas = blas_of(p), *other = journal_blas_other(&p->journal, blas);
    if (*blas && other)
        log_warn("this job is not exact: the chief multiplies with OpenBLAS's kernels for %s, and "
                 "the job did so earlier with others (%s); set the same OPENBLAS_CORETYPE in the "
                 "environment of every process",
                 blas, other);
}

/* A name that no other journal has. */
static struct journal_entry new_name(const struct process *p)
{
    char name[UUID_BYTES];
    uint64_t random[2];
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random) {
        random[0] = (uint64_t)clock_wall_ms();
        random[1] = (uint64_t)getpid();
    }
    uuid_make(name, random[0], random[1]);
    return journal_name_entry(
        name, p->has_base ? manifest_epochs(&p->base, order_batches(&p->order)) : 0);
}

/* The reason why the job is not exact any more, found before it trains; "": none. */
static struct journal_entry inexact_at_start(const struct process *p)
{
    struct journal_entry entry = {.kind = JOURNAL_INEXACT, .cut = UINT64_MAX};
    if (p->past[0])
        (void)snprintf(entry.what, sizeof entry.what, "%s", p->past);
    else if (p->best.lost && !p->finished)
        (void)snprintf(entry.what, sizeof entry.what,
                       "the best epoch was damaged or missing when the job started again");
    return entry;
}

static bool is_news(const struct process *p, const struct journal_entry *inexact)
{
    return inexact->what[0] && p->job.training.update == UPDATE_SYNC &&
           !journal_inexact(&p->journal);
}

/* A job that is done trains no more: the reason is for its summary alone. */
static void note_done(struct process *p)
{
    const struct journal_entry inexact = inexact_at_start(p);
    if (is_news(p, &inexact) && journal_add(&p->journal, &inexact))
        log_warn("no memory to note why the job is not exact: %s", inexact.what);
}

static enum err mark_begin(const struct process *p, struct errmsg *e)
{
    char job[BEGINS_BYTES];
    begins_text(p, job);
    return journal_mark(p->checkpoints, job, e);
}

/* Before the chief trains, the journal has a name, its kernels, and the reason why the job is not exact any more. */
static void note_start(struct process *p)
{
    const struct journal_entry blas = journal_blas_entry("chief", blas_of(p));
    const struct journal_entry inexact = inexact_at_start(p);
    struct journal_entry entry[3];
    size_t n = 0;
    struct errmsg e = {"no memory"};
    if (!*journal_name(&p->journal))
        entry[n++] = new_name(p);
    if (*blas_of(p) && !journal_has_blas(&p->journal, &blas))
        entry[n++] = blas;
    if (is_news(p, &inexact))
        entry[n++] = inexact;
    enum err err = n ? journal_append(p->checkpoints, entry, n, &e) : ERR_OK;
    if (!err && !p->has_base)
        err = mark_begin(p, &e);
    for (size_t i = 0; i < n; i++)
        if (journal_add(&p->journal, &entry[i]))
            err = ERR_NOMEM;
    if (err)
        log_warn("the journal lacks its name, OpenBLAS's kernels or the reason why the job is not "
                 "exact, so a later chief does not know them: %s",
                 e.text);
}

/* After a signal the job is done, but lacks a file that it is to have: a supervisor must start it again. */
static void export_all(struct process *p)
{
    exports_end_run(&p->job, p->output, p->flags.progress_fd, &p->exports);
    if (!p->exports.interrupted)
        return;
    p->result.exit_code = 143;
    (void)snprintf(p->result.error, sizeof p->result.error,
                   "asked to stop while it exported: the next run exports again");
}

/* Write what DIR has of a run that has ended. */
static enum err write_end(struct process *p, const struct epoch_end_config *config,
                          const struct host *host, struct errmsg *e)
{
    enum err err = p->cluster.has_evaluator ? end_model(p, config, host, e) : ERR_OK;
    if (err)
        fail_run(p, err, e);
    else if (p->result.exit_code == 0 && p->learned.digest[0])
        export_all(p);
    return summarize_run(p, host, e);
}

/* The job was done before: write its model and its summary again. Errors: ERR_INPUT the summary stays as it was. */
static enum err write_again(struct process *p, const struct epoch_end_config *config,
                            struct errmsg *e)
{
    enum err err = complete(p, config, e);
    if (!err)
        err = end_model(p, config, NULL, e);
    if (!err)
        return summarize_run(p, NULL, e);
    if (err == ERR_INPUT)
        return err;
    fail_run(p, err, e);
    return process_summarize_failed(p, e);
}

static enum err run_host(struct process *p, const struct epoch_end_config *config,
                         struct train *train, struct epoch_end *end, struct errmsg *e)
{
    struct host *host = NULL;
    struct driver *driver = train_parts(train)->driver;
    struct control control;
    struct host_config host_config = {.layout = model_layout(p->model),
                                      .batches_per_epoch = order_batches(&p->order),
                                      .output = p->output,
                                      .contents = &p->data.contents,
                                      .base_cut = p->has_base ? p->base.cut : UINT64_MAX,
                                      .encoding = p->encoding,
                                      .listen_fd = p->listen_fd,
                                      .progress_fd = p->flags.progress_fd,
                                      .journal = &p->journal,
                                      .blas = blas_of(p),
                                      .logs_disk = &p->logs_disk,
                                      .seconds_before = p->learned.seconds_before,
                                      .log = &p->log,
                                      .finished = p->finished,
                                      .learned_epochs = epochs_learned(p->base.epoch),
                                      .unkept_step = config->unkept_step};
    struct control_config control_config = {.job = &p->job,
                                            .cluster = &p->cluster,
                                            .train = driver_mailbox(driver),
                                            .http_fd = p->http_fd,
                                            .handed = process_is_first_start(p),
                                            .meter = driver_meter(driver)};
    p->exports.n = 0;
    enum err err = p->finished ? write_again(p, config, e) : ERR_OK;
    if (!err && p->result.exit_code == 0)
        err = host_new(&host, &host_config, e);
    if (err || p->result.exit_code)
        return err;
    interim_end(&p->interim);
    err = control_init(&control, &control_config, &host_ops, host, e);
    p->introduced = err == ERR_OK;
    if (!err) {
        const struct driver_result before = p->result;
        const struct epoch_end_result learned = p->learned;
        train_run(train, &control, &epoch_end_ops, end, &p->result);
        /* a launcher that learned of the end from another process sends SIGTERM now */
        signals_hold();
        control_post(&control, CONTROL_LEAVES, (uint64_t)p->result.exit_code,
                     mem_strdup(p->result.error), mem_free);
        control_close(&control);
        /* the exports, and the wait for the evaluator, can take longer than a probe waits */
        if (p->result.exit_code == 0 && process_begin_interim(p, STATE_DONE, e))
            log_warn("%s", e->text);
        if (p->finished) {
            int exit_code = p->result.exit_code;
            p->learned = learned;
            p->result = before;
            p->result.exit_code = exit_code;
            if (p->cluster.has_evaluator)
                await_evaluator(p);
        }
        if (!lost_output(p))
            err = write_end(p, config, host, e);
    }
    host_free(host);
    return err;
}

/* Write a file of the directory of checkpoints. text NULL: none. */
static enum err put(const struct process *p, const char *name, const char *text, struct errmsg *e)
{
    char path[sizeof p->checkpoints + 32];
    (void)snprintf(path, sizeof path, "%s/%s", p->checkpoints, name);
    return text ? files_write(path, text, strlen(text), e) : ERR_OK;
}

/* Write what best/ and the checkpoints need, apart from weights, to be used while the job runs. The job does not need it. */
static void describe(const struct process *p)
{
    struct errmsg e;
    enum err err = files_mkdirs(p->checkpoints, &e);
    if (!err)
        err = put(p, "job.yaml", p->job.canonical, &e);
    if (!err)
        err = put(p, "encoding.json", p->encoding, &e);
    if (err)
        log_warn("best/ and the checkpoints cannot be evaluated before the job ends: %s", e.text);
}

enum err process_run_chief(struct process *p, struct train *train, struct errmsg *e)
{
    struct curves curves = {.events = NULL};
    const struct epoch_line *unkept = unkept_line(p);
    struct rest rest = {.p = p};
    const struct epoch_end_config config = {.job = &p->job,
                                            .model = p->model,
                                            .data = &p->data,
                                            .eval = p->has_eval ? &p->eval : NULL,
                                            .planted = p->planted,
                                            .best = &p->best,
                                            .curves = &curves,
                                            .log = &p->log,
                                            .finished = p->finished,
                                            .unkept_step = unkept ? unkept->step : 0,
                                            .output = p->output,
                                            .progress_fd = p->flags.progress_fd,
                                            .write_rest = write_rest,
                                            .rest = &rest};
    struct epoch_end *end = NULL;
    rest.config = &config;
    enum err err = epoch_end_new(&end, &config, train_parts(train), &p->learned, e);
    if (err)
        return err;
    disk_thread_init(&p->logs_disk);
    if (p->finished) {
        note_done(p);
    } else {
        describe(p);
        warn_of_kernels(p);
        note_start(p);
        curves_init(&curves, &p->job, model_layout(p->model), order_batches(&p->order),
                    p->data.rows, p->logs, &p->logs_disk);
    }
    err = run_host(p, &config, train, end, e);
    curves_close(&curves, !err && p->result.exit_code == 0);
    disk_thread_close(&p->logs_disk);
    epoch_end_free(end);
    return err;
}

void process_note_failed(const struct process *p, int exit_code, const char *why)
{
    struct errmsg e;
    bool begun = !p->owns_output || p->introduced; /* by another process, or by this one */
    if (begun || p->flags.progress_fd >= 0 || exit_code <= 0 || exit_code >= 128)
        return;
    if (dirguard_check(&e) || summary_write_failed(&p->job, p->output, exit_code, why, &e))
        log_warn("%s", e.text);
}

void process_tell_failed(const struct process *p, int exit_code, const char *why)
{
    Gradwire__Done what = GRADWIRE__DONE__INIT;
    what.exit_code = exit_code;
    what.text = (char *)why;
    what.linger_s = p->job.timeouts.worker_rejoin_s;
    bool waited_for = p->owns_output && !p->introduced && p->cluster.n_ps && !p->cluster.alone;
    if (waited_for && p->flags.progress_fd < 0 && exit_code > 0 && exit_code < 128)
        failed_start_tell(&p->job, &p->cluster, &what);
}
