#include "worker/summarize.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "common/base/json.h"
#include "common/base/mem.h"
#include "common/formats/export.h"
#include "common/math/optimizer.h"
#include "common/parameters/epochs.h"
#include "common/process/files.h"
#include "common/process/output.h"

/* ---- values computed from the facts ---- */

/* The rate of the last update that `t` gradients made; before the first one, the rate of that. */
static double last_rate(const struct optimizer *o, uint64_t t)
{
    uint64_t updates = optimizer_updates(o, t);
    return optimizer_rate(o, updates ? updates : 1);
}

static void facts_from_base(const struct manifest *m, struct chief_facts *f)
{
    uint64_t lost = m->lost < m->step ? m->lost : m->step;
    *f = (struct chief_facts){.steps = m->step,
                              .t = m->t,
                              .dealt = m->dealt,
                              .applied_min = m->step - lost,
                              .applied_max = m->step - lost,
                              .duplicates = m->duplicates,
                              .lost = lost,
                              .clipped = m->clipped,
                              .dropped = m->dropped,
                              .squeezed = m->squeezed,
                              .redo = m->redo};
    memcpy(f->uuid, m->uuid, sizeof f->uuid);
    memcpy(f->epoch, m->epoch, sizeof f->epoch);
    memcpy(f->table, m->table, sizeof f->table);
}

/* True if ps.memory had room for all rows. */
static bool had_room(const struct job *job, const struct chief_facts *f)
{
    uint64_t without = f->squeezed;
    for (uint32_t i = 0; i < job->model.tables; i++)
        without += f->table[i].refused;
    return without == 0;
}

/* The i-th kernels of the evaluator, if they can matter and are not the chief's; otherwise *entry is unchanged. */
static bool evaluator_blas(const struct summarize *what, uint32_t i, struct journal_entry *entry)
{
    const struct journal_entry chief = journal_blas_entry("chief", what->evaluator->blas[i]);
    if (!journal_blas(what->journal, 0) || journal_has_blas(what->journal, &chief))
        return false;
    *entry = journal_blas_entry("evaluator", what->evaluator->blas[i]);
    return true;
}

static bool had_one_blas(const struct summarize *what)
{
    bool one = !what->journal || journal_blas_same(what->journal);
    struct journal_entry other;
    for (uint32_t i = 0; one && what->journal && what->evaluator && i < what->evaluator->kernels;
         i++)
        one = !evaluator_blas(what, i, &other);
    return one;
}

static uint64_t epochs_made(const struct summarize *what, const struct chief_facts *f)
{
    return f->redo.there ? f->redo.epoch : f->steps / what->batches_per_epoch;
}

/* A job that is done ends in the middle of an epoch only if training.epochs was lowered. */
static bool ends_within(const struct summarize *what, const struct chief_facts *f)
{
    bool within = f->redo.there ? f->steps > f->redo.begin : f->steps % what->batches_per_epoch;
    return within && what->result->exit_code == 0 && what->job->training.update == UPDATE_SYNC;
}

/* The text of the first event that makes the result another one than the undisturbed job's; "": none does. Where it ends is not an
 * event of its past: with more epochs the job continues. */
static const char *inexact(const struct summarize *what, const struct chief_facts *f,
                           char room[JOURNAL_WHAT_MAX])
{
    const char *known = what->journal ? journal_inexact(what->journal) : NULL;
    room[0] = '\0';
    if (!known && ends_within(what, f))
        (void)snprintf(room, JOURNAL_WHAT_MAX,
                       "step %" PRIu64 ", in the middle of epoch %" PRIu64
                       ": training.epochs was lowered to %" PRIu32,
                       f->steps, epochs_made(what, f) + 1, what->job->training.epochs);
    return known ? known : room;
}

/* The journal knows the keys of earlier runs. An earlier release wrote no such line: dropped microbatches are counted. */
static bool is_exact(const struct summarize *what, const struct chief_facts *f)
{
    char why[JOB_INEXACT_BYTES], room[JOURNAL_WHAT_MAX];
    return job_is_exact(what->job, cluster_workers_most(what->cluster), why) && !f->dropped &&
           had_room(what->job, f) && had_one_blas(what) && !*inexact(what, f, room);
}

/* Steps with a batch of their own, minus the lost batches (geo), and minus the dropped microbatches that no other step has
 * recomputed. */
static double learned_batches(const struct summarize *what, const struct chief_facts *f)
{
    uint64_t steps = f->steps;
    if (f->redo.there && f->redo.begin <= steps)
        steps = epochs_regular(what->batches_per_epoch, f->redo.epoch, f->redo.begin, steps);
    return (double)steps - (double)f->lost -
           ((double)f->dropped - (double)f->redo.redone) / (double)what->job->training.microbatches;
}

/* In async, and with backup workers, the chief does not see all that was applied, so this counts all of it. */
static double examples_of_run(const struct summarize *what, const struct chief_facts *f)
{
    if (what->job->training.update == UPDATE_SYNC &&
        job_replicas(what->job, cluster_workers_most(what->cluster)) == 0)
        return what->result->examples;
    uint64_t before = what->base ? what->base->step : 0;
    if (f->steps <= before)
        return 0;
    struct chief_facts at_begin = {.running = false};
    if (what->base)
        facts_from_base(what->base, &at_begin);
    double batches = learned_batches(what, f) - learned_batches(what, &at_begin);
    return batches / (double)what->batches_per_epoch * (double)what->rows;
}

static struct chief_facts facts(const struct summarize *what)
{
    struct chief_facts f = {.running = false};
    if (what->host)
        f = *host_facts(what->host);
    if (what->base && (what->finished || !f.running))
        facts_from_base(what->base, &f);
    if (what->result->exit_code == 143 && f.running)
        f.steps = f.cut_step; /* the steps after it will be computed again */
    if (!f.running) {
        f.rejected = journal_rejected(what->journal);
        f.recoveries = journal_all_recoveries(what->journal);
    }
    return f;
}

/* The loss and the metrics of the training in the last epoch, in *room; NULL: no epoch is known. */
static const struct evaluation *trained(const struct summarize *what, const struct chief_facts *f,
                                        struct evaluation *room)
{
    const struct epoch_sums *last =
        epochs_last(f->epoch, ends_within(what, f) ? epochs_made(what, f) : UINT64_MAX);
    if (!last)
        return NULL;
    *room = evaluation_of_sums(what->job, last->examples, last->loss, last->metric);
    return room;
}

/* The evaluator's last result; NULL: none, or no evaluator. */
static const struct eval_result *judged(const struct summarize *what, const struct chief_facts *f)
{
    return what->evaluator ? eval_log_last(what->evaluator, f->uuid) : NULL;
}

/* The last evaluation, of the evaluator if the job has one; NULL: none. */
static const struct evaluation *evaluated(const struct summarize *what, const struct chief_facts *f)
{
    const struct eval_result *last = judged(what, f);
    if (what->evaluator)
        return last ? &last->eval : NULL;
    return what->learned->has_eval ? &what->learned->eval : NULL;
}

/* ---- JSON ---- */

static json_t *count(uint64_t value)
{
    return json_integer((json_int_t)value);
}

static json_t *batches(const struct chief_facts *f)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "dealt", count(f->dealt),
                     "applied_min", count(f->applied_min), "applied_max", count(f->applied_max),
                     "duplicates", count(f->duplicates), "lost", count(f->lost), "clipped",
                     count(f->clipped), "dropped", count(f->dropped), "redone",
                     count(f->redo.redone), "rejected", count(f->rejected), "recoveries",
                     count(f->recoveries));
}

/* The evaluator's results replace the chief's own evaluations. Epochs after f->steps will be trained again. */
static json_t *history(const struct summarize *what, const struct chief_facts *f, bool *ok)
{
    json_t *all = json_array();
    for (size_t i = 0; i < what->log->n && what->log->line[i].step <= f->steps; i++) {
        const struct epoch_line *from = &what->log->line[i];
        const struct evaluation *found = from->has_eval ? &from->eval : NULL;
        if (what->evaluator) {
            const struct eval_result *at = eval_log_at(what->evaluator, f->uuid, from->step);
            found = at ? &at->eval : NULL;
        }
        json_push(all,
                  json_pack("{s:o, s:o, s:o, s:o}", "epoch", count(from->epoch), "seconds",
                            json_number(from->seconds), "train",
                            evaluation_json(what->job, &from->trained), "eval",
                            evaluation_json(what->job, found)),
                  ok);
    }
    return all;
}

/* Those of the chief within epochs. */
static json_t *evaluations(const struct summarize *what, const struct chief_facts *f, bool *ok)
{
    json_t *all = json_array();
    for (size_t i = 0; i < what->log->evaluations; i++) {
        const struct epoch_line *from = &what->log->evaluation[i];
        if (from->step <= f->steps)
            json_push(all,
                      json_pack("{s:o, s:o, s:o}", "step", count(from->step), "seconds",
                                json_number(from->seconds), "eval",
                                evaluation_json(what->job, &from->eval)),
                      ok);
    }
    return all;
}

/* The workers that the cluster lists. The process that writes the summary is always one. */
static uint32_t listed(const struct summarize *what)
{
    uint32_t trainers = what->cluster->n_workers + what->cluster->separate_chief;
    return trainers ? trainers : 1;
}

/* Where workers come and go, the cluster does not list them all. */
static uint32_t number_of_workers(const struct summarize *what, const struct summary_worker *worker,
                                  uint32_t workers)
{
    uint32_t joined = 0;
    for (uint32_t i = 0; i < workers; i++)
        joined += worker[i].joined;
    return joined > listed(what) ? joined : listed(what);
}

static json_t *accounts(const struct summary_worker *worker, uint32_t workers, bool *ok)
{
    json_t *all = json_array();
    for (uint32_t i = 0; i < workers; i++) {
        const struct worker_account *a = &worker[i].account;
        if (worker[i].accounted)
            json_push(all,
                      json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "worker", count(i),
                                "tasks", count(a->tasks), "examples", json_number(a->examples),
                                "computed_s", json_number(a->computed_s), "waited_s",
                                json_number(a->waited_s), "bytes_out", count(a->bytes_out),
                                "bytes_in", count(a->bytes_in), "dropped",
                                count(worker[i].dropped)),
                      ok);
    }
    return all;
}

static json_t *mean_staleness(const struct staleness *of)
{
    return of->count ? json_real((double)of->sum / (double)of->count) : json_null();
}

/* The least staleness of each bucket, up to the last used one. */
static json_t *buckets(const struct staleness *of, bool bounds, bool *ok)
{
    json_t *list = json_array();
    uint32_t end = of->count ? staleness_bucket(of->max) + 1 : 0;
    for (uint32_t i = 0; i < end; i++)
        json_push(list, count(bounds ? staleness_least(i) : of->bucket[i]), ok);
    return list;
}

static json_t *staleness(const struct summary_worker *worker, uint32_t workers, bool *ok)
{
    struct staleness all = {0};
    json_t *list = json_array();
    for (uint32_t i = 0; i < workers; i++) {
        const struct staleness *of = &worker[i].stale;
        if (!worker[i].stales)
            continue;
        staleness_join(&all, of);
        json_push(list,
                  json_pack("{s:o, s:o, s:o, s:o}", "worker", count(i), "mean", mean_staleness(of),
                            "max", count(of->max), "histogram", buckets(of, false, ok)),
                  ok);
    }
    if (json_array_size(list) == 0) {
        json_decref(list);
        return json_null();
    }
    return json_pack("{s:o, s:o, s:o, s:o}", "mean", mean_staleness(&all), "max", count(all.max),
                     "from", buckets(&all, true, ok), "workers", list);
}

static json_t *direction(enum codec codec, const struct codec_cost *c)
{
    bool lossless = codec != CODEC_AUTO && codec_is_lossless(codec);
    double error = c->norm > 0 ? sqrt(c->error / c->norm) : lossless ? 0 : NAN;
    return json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "codec", codec_str(codec), "raw_bytes",
                     count(c->raw_bytes), "bytes", count(c->bytes), "ratio",
                     json_number((double)c->raw_bytes / (double)c->bytes), "encode_s",
                     json_number(c->encode_s), "decode_s", json_number(c->decode_s), "error",
                     json_number(error));
}

/* Bytes are the workers' counts; each side counted its own seconds. */
static json_t *compression(const struct summarize *what, const struct chief_facts *f,
                           const struct summary_worker *worker, uint32_t workers, bool *ok)
{
    struct codec_cost push = what->result->account.push, reply = what->result->account.reply;
    for (uint32_t i = 1; i < workers; i++) {
        if (!worker[i].accounted)
            continue;
        codec_cost_add(&push, &worker[i].account.push);
        codec_cost_add(&reply, &worker[i].account.reply);
    }
    push.decode_s += f->push.decode_s;
    reply.encode_s += f->reply.encode_s;
    reply.error += f->reply.error;
    reply.norm += f->reply.norm;
    json_t *pushed = direction(what->job->compression.push, &push);
    if (codec_feeds_back(what->job->compression.push))
        json_put(pushed, "residuals_lost", count(f->residuals_lost + f->residuals_away), ok);
    return json_pack("{s:o, s:o}", "push", pushed, "reply",
                     direction(what->job->compression.reply, &reply));
}

static json_t *evaluator(const struct eval_result *last, uint64_t steps)
{
    return json_pack("{s:o, s:o, s:b}", "cut", last ? count(last->cut) : json_null(), "step",
                     last ? count(last->eval.step) : json_null(), "final",
                     last && last->final && last->eval.step == steps);
}

/* The best possible result; null: no model drew the rows. */
static json_t *planted(const struct planted *p)
{
    if (!p->known)
        return json_null();
    return json_pack("{s:o, s:o}", "auc", json_number(p->auc), "logloss", json_number(p->logloss));
}

/* The counts of each table's rows; null: the job has no tables. */
static json_t *tables(const struct job *job, const struct chief_facts *f, bool *ok)
{
    json_t *all = job->model.tables ? json_object() : json_null();
    for (uint32_t i = 0; i < job->model.tables; i++) {
        const struct row_counts *of = &f->table[i];
        json_t *one = json_object();
#define X(name) json_put(one, #name, count(of->name), ok);
        ROW_COUNTS(X)
#undef X
        json_put(all, job->model.table[i].name, one, ok);
    }
    return all;
}

/* null: nothing was exported. */
static json_t *exports(const struct exports_end *x, bool *ok)
{
    json_t *all = x && x->n ? json_array() : json_null();
    for (uint32_t i = 0; x && i < x->n; i++) {
        char path[64];
        const char *error = x->of[i].error;
        (void)snprintf(path, sizeof path, OUTPUT_EXPORT "/%s", export_format_file(x->of[i].format));
        json_push(all,
                  json_pack("{s:s, s:o, s:o}", "format", export_format_word(x->of[i].format),
                            "path", *error ? json_null() : json_string(path), "error",
                            json_text(*error ? error : NULL)),
                  ok);
    }
    return all;
}

/* The kernels of OpenBLAS, by process, as far as they can matter; null: nothing is known, or they cannot. */
static json_t *blas(const struct summarize *what, bool *ok)
{
    const struct journal *j = what->journal;
    struct journal_entry other;
    json_t *all = j && journal_blas(j, 0) ? json_array() : json_null();
    for (size_t i = 0; j && journal_blas(j, i); i++)
        json_push(all, json_string(journal_blas(j, i)), ok);
    for (uint32_t i = 0; j && what->evaluator && i < what->evaluator->kernels; i++)
        if (evaluator_blas(what, i, &other))
            json_push(all, json_string(other.what), ok);
    return all;
}

/* As the launcher noted them in DIR last. It writes its own count when it completes the summary, unless it is killed. */
static json_t *restarts(const struct summarize *what)
{
    char path[FILES_PATH_MAX];
    int n = snprintf(path, sizeof path, "%s/" OUTPUT_PROGRESS, what->output);
    bool there = what->launched && n > 0 && (size_t)n < sizeof path;
    json_t *told = there ? json_load_file(path, 0, NULL) : NULL;
    json_int_t found = json_integer_value(json_object_get(told, "restarts"));
    json_decref(told);
    return json_integer(found > 0 ? found : 0);
}

/* The keys that the summary of a job that failed before it trained has, too. */
static json_t *beginning(const struct job *job, const char *status, int exit_code,
                         const char *error, bool *ok)
{
    json_t *all = json_object();
    json_put(all, "status", json_string(status), ok);
    json_put(all, "exit_code", json_integer(exit_code), ok);
    json_put(all, "error", json_text(error), ok);
    json_put(all, "job", json_text(job->name), ok);
    json_put(all, "update", json_string(job_update_word(job->training.update)), ok);
    return all;
}

/* Keys in the order in which people read them. */
static json_t *document(const struct summarize *what, const struct chief_facts *f,
                        const struct summary_worker *worker, uint32_t workers, bool *ok)
{
    const struct job *job = what->job;
    const struct driver_result *r = what->result;
    const struct epoch_end_result *l = what->learned;
    struct evaluation room;
    char why[JOURNAL_WHAT_MAX];
    const char *status = r->exit_code == 0     ? "done"
                         : r->exit_code == 143 ? "interrupted"
                                               : "failed";
    json_t *all = beginning(job, status, r->exit_code, r->exit_code ? r->error : NULL, ok);
    json_put(all, "ps", count(what->cluster->n_ps), ok);
    json_put(all, "workers", count(number_of_workers(what, worker, workers)), ok);
    json_put(all, "microbatches", count(job->training.microbatches), ok);
    json_put(all, "steps", count(f->steps), ok);
    json_put(all, "epochs", count(epochs_made(what, f)), ok);
    json_put(all, "train", evaluation_json(job, trained(what, f, &room)), ok);
    json_put(all, "eval", evaluation_json(job, evaluated(what, f)), ok);
    json_put(all, "examples_per_s",
             json_number(r->train_s > 0 ? examples_of_run(what, f) / r->train_s : NAN), ok);
    json_put(all, "seconds", json_number(l->seconds_before + r->train_s), ok);
    json_put(all, "first_step_s", json_number(l->first_step_s), ok);
    json_put(all, "peak_rss_bytes", json_object(), ok);
    json_put(all, "restarts", restarts(what), ok);
    json_put(all, "batches", batches(f), ok);
    json_put(all, "exact", json_boolean(is_exact(what, f)), ok);
    json_put(all, "blas", blas(what, ok), ok);
    const char *reason = inexact(what, f, why);
    json_put(all, "inexact", json_text(*reason ? reason : NULL), ok);
    json_put(all, "digest", json_text(l->digest[0] ? l->digest : NULL), ok);
    json_put(all, "staleness", staleness(worker, workers, ok), ok);
    json_put(all, "history", history(what, f, ok), ok);
    json_put(all, "per_worker", accounts(worker, workers, ok), ok);
    json_put(all, "compression", compression(what, f, worker, workers, ok), ok);
    json_put(all, "evaluator", what->evaluator ? evaluator(judged(what, f), f->steps) : json_null(),
             ok);
    json_put(all, "learning_rate", json_number(last_rate(&job->optimizer, f->t)), ok);
    json_put(all, "averaged", json_boolean(job->optimizer.use_ema), ok);
    json_put(all, "planted", planted(&what->planted), ok);
    json_put(all, "tables", tables(job, f, ok), ok);
    json_put(all, "export", exports(what->exports, ok), ok);
    json_put(all, "evaluations", evaluations(what, f, ok), ok);
    return all;
}

enum err summary_write(const struct summarize *what, const struct chief_facts *f,
                       const struct summary_worker *worker, uint32_t workers, struct errmsg *e)
{
    char path[4200];
    bool ok = true;
    (void)snprintf(path, sizeof path, "%s/" OUTPUT_SUMMARY, what->output);
    json_t *all = document(what, f, worker, workers, &ok);
    return files_write_json(path, json_whole(all, ok), JSON_INDENT(2), e);
}

/* The result of a job that is done, as one line. Without an evaluation it has the values of the training. */
static void write_words(const struct summarize *what, const struct chief_facts *f)
{
    char found[PROGRESS_WORDS_BYTES] = "";
    struct evaluation room;
    const struct evaluation *eval = evaluated(what, f);
    const struct evaluation *shown = eval ? eval : trained(what, f, &room);
    uint64_t epochs = epochs_made(what, f);
    if (shown)
        progress_words(found, what->job, shown);
    (void)snprintf(what->words, SUMMARY_WORDS_BYTES,
                   "done: %" PRIu64 " epoch%s,%s%s%s digest %s, model in %s/model", epochs,
                   epochs == 1 ? "" : "s", eval ? " eval" : "", found, shown ? "," : "",
                   what->learned->digest, what->output);
}

enum err summarize(const struct summarize *what, struct errmsg *e)
{
    const struct chief *chief = what->host ? host_chief(what->host) : NULL;
    const struct chief_facts f = facts(what);
    struct summarize of = *what;
    if (chief)
        of.journal = chief_journal(chief);
    uint32_t workers = listed(what);
    if (chief && chief_workers(chief) > workers)
        workers = chief_workers(chief);
    struct summary_worker *worker = mem_zalloc(workers, sizeof *worker);
    if (!worker)
        return err_set(e, ERR_NOMEM, "%s/summary.json: out of memory", what->output);
    for (uint32_t i = 0; chief && i < workers; i++) {
        struct summary_worker *w = &worker[i];
        w->joined = chief_joined(chief, i);
        /* the chief's own; chief_account replaces it for the others */
        w->account = what->result->account;
        w->accounted = i == 0 || chief_account(chief, i, &w->account);
        w->dropped = chief_dropped(chief, i);
        w->stales = chief_staleness(chief, i, &w->stale);
    }
    enum err err = summary_write(&of, &f, worker, workers, e);
    mem_free(worker);
    if (what->result->exit_code == 0 && what->learned->digest[0])
        write_words(what, &f);
    return err;
}

static bool is_done(const char *path)
{
    json_t *all = json_load_file(path, 0, NULL);
    const char *status = json_string_value(json_object_get(all, "status"));
    bool done = status && strcmp(status, "done") == 0;
    json_decref(all);
    return done;
}

enum err summary_write_failed(const struct job *job, const char *output, int exit_code,
                              const char *why, struct errmsg *e)
{
    char path[4200];
    bool ok = true;
    (void)snprintf(path, sizeof path, "%s/" OUTPUT_SUMMARY, output);
    if (is_done(path))
        return ERR_OK;
    json_t *all = beginning(job, "failed", exit_code, why, &ok);
    return files_write_json(path, json_whole(all, ok), JSON_INDENT(2), e);
}
