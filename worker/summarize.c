#include "worker/summarize.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/codec/codec.h"
#include "common/parameters/epochs.h"
#include "common/base/mem.h"
#include "common/math/optimizer.h"
#include "worker/export/export.h"
#include "worker/model/metric.h"

/* Of the last update that `t` gradients made; before the first, of that. */
static double last_rate(const struct optimizer *o, uint64_t t)
{
    uint64_t updates = optimizer_updates(o, t);
    return optimizer_rate(o, updates ? updates : 1);
}

static const struct epoch_sums *last_epoch(const struct epoch_sums *epochs)
{
    const struct epoch_sums *last = NULL;
    for (int i = 0; i < CHECKPOINT_EPOCHS; i++)
        if (epochs[i].batches && (!last || epochs[i].epoch > last->epoch))
            last = &epochs[i];
    return last;
}

static void facts_from_base(const struct manifest *m, struct chief_facts *f)
{
    *f = (struct chief_facts){.steps = m->step,
                              .t = m->t,
                              .dealt = m->dealt,
                              .applied_min = m->step,
                              .applied_max = m->step,
                              .duplicates = m->duplicates,
                              .lost = m->lost,
                              .clipped = m->clipped,
                              .dropped = m->dropped,
                              .redo = m->redo};
    memcpy(f->uuid, m->uuid, sizeof f->uuid);
    memcpy(f->epoch, m->epoch, sizeof f->epoch);
}

static bool loses_nothing(const struct job *job)
{
    uint32_t allow = job->compression.allow;
    uint32_t may =
        codec_mask(job->compression.push, allow) | codec_mask(job->compression.reply, allow);
    return !(may & ~codec_kind_mask(CODEC_IS_EXACT));
}

static bool has_backups(const struct summarize *what)
{
    const struct cluster *c = what->cluster;
    uint32_t workers = c->sparse ? UINT32_MAX : c->n_workers + c->separate_chief;
    return job_replicas(what->job, workers) > 0;
}

static uint64_t epochs_made(const struct summarize *what, const struct chief_facts *f)
{
    return f->redo.there ? f->redo.epoch : f->steps / what->batches_per_epoch;
}

/* Steps with a batch of their own, but for the microbatches that they dropped and no other step has made up for. */
static double learned_batches(const struct summarize *what, const struct chief_facts *f)
{
    uint64_t steps = f->steps;
    if (f->redo.there && f->redo.begin <= steps)
        steps = epochs_regular(what->batches_per_epoch, f->redo.epoch, f->redo.begin, steps);
    return (double)steps -
           ((double)f->dropped - (double)f->redo.redone) / (double)what->job->training.microbatches;
}

/* In async, and with backup workers, the chief does not see all that was applied; all of it counts. */
static double examples_of_run(const struct summarize *what, const struct chief_facts *f)
{
    if (what->job->training.update == UPDATE_SYNC && !has_backups(what))
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

/* The metrics of an evaluation; NAN where there is none. */
static void put_eval(const struct evaluation *eval, double *loss, double metric[METRICS_MAX])
{
    *loss = eval ? eval->loss : NAN;
    for (uint32_t i = 0; i < METRICS_MAX; i++)
        metric[i] = eval ? eval->metric[i] : NAN;
}

static enum err put_history(const struct epoch_end_result *r, struct summary *s,
                            struct summary_epoch **out)
{
    struct summary_epoch *all = mem_zalloc(r->epochs + 1, sizeof *all);
    if (!all)
        return ERR_NOMEM;
    for (size_t i = 0; i < r->epochs; i++) {
        const struct epoch_end_epoch *from = &r->history[i];
        all[i].epoch = from->epoch;
        all[i].seconds = from->seconds;
        put_eval(from->has_eval ? &from->eval : NULL, &all[i].eval_loss, all[i].eval_metric);
    }
    s->history_epochs = r->epochs;
    s->history = *out = all;
    return ERR_OK;
}

/* What the evaluator found stands where the chief's own evaluations would. */
static void put_evaluator(const struct summarize *what, const struct chief_facts *f,
                          struct summary *s, struct summary_epoch *history)
{
    const struct eval_result *last = eval_log_last(what->evaluator, f->uuid);
    put_eval(last ? &last->eval : NULL, &s->eval_loss, s->eval_metric);
    s->has_evaluator = true;
    s->evaluated = last != NULL;
    s->evaluated_cut = last ? last->cut : 0;
    s->evaluated_step = last ? last->eval.step : 0;
    s->evaluated_final = last && last->final && last->eval.step == f->steps;
    for (size_t i = 0; i < s->history_epochs; i++) {
        const struct eval_result *at =
            eval_log_at(what->evaluator, f->uuid, what->learned->history[i].step);
        put_eval(at ? &at->eval : NULL, &history[i].eval_loss, history[i].eval_metric);
    }
}

/* The chief's own account is its result's; the others sent theirs. */
static enum err put_accounts(const struct driver_result *own, const struct chief *chief,
                             uint32_t workers, struct summary *s, struct summary_worker **out)
{
    struct summary_worker *all = mem_zalloc(workers + 1, sizeof *all);
    if (!all)
        return ERR_NOMEM;
    for (uint32_t i = 0; chief && i < workers; i++) {
        struct worker_account a = own->account;
        if (i > 0 && !chief_account(chief, i, &a))
            continue;
        all[s->accounts++] = (struct summary_worker){.worker = i,
                                                     .tasks = a.tasks,
                                                     .dropped = chief_dropped(chief, i),
                                                     .bytes_out = a.bytes_out,
                                                     .bytes_in = a.bytes_in,
                                                     .examples = a.examples,
                                                     .computed_s = a.computed_s,
                                                     .waited_s = a.waited_s};
    }
    s->account = *out = all;
    return ERR_OK;
}

static enum err put_staleness(const struct chief *chief, uint32_t workers, struct summary *s,
                              struct summary_staleness **out)
{
    struct summary_staleness *all = mem_zalloc(workers + 1, sizeof *all);
    if (!all)
        return ERR_NOMEM;
    for (uint32_t i = 0; chief && i < workers; i++) {
        all[s->stales].worker = i;
        s->stales += chief_staleness(chief, i, &all[s->stales].counted);
    }
    s->stale = *out = all;
    return ERR_OK;
}

static struct summary_codec codec_summary(enum codec codec, const struct codec_cost *c)
{
    bool lossless = codec != CODEC_AUTO && codec_is_lossless(codec);
    return (struct summary_codec){.codec = codec_str(codec),
                                  .raw_bytes = c->raw_bytes,
                                  .bytes = c->bytes,
                                  .encode_s = c->encode_s,
                                  .decode_s = c->decode_s,
                                  .error = c->norm > 0 ? sqrt(c->error / c->norm)
                                           : lossless  ? 0
                                                       : NAN};
}

/* Bytes are the workers' count; each side counted its own seconds. */
static void put_compression(const struct summarize *what, const struct chief *chief,
                            const struct chief_facts *f, struct summary *s)
{
    struct codec_cost push = what->result->account.push, reply = what->result->account.reply;
    for (uint32_t i = 1; chief && i < s->workers; i++) {
        struct worker_account a;
        if (!chief_account(chief, i, &a))
            continue;
        codec_cost_add(&push, &a.push);
        codec_cost_add(&reply, &a.reply);
    }
    push.decode_s += f->push.decode_s;
    reply.encode_s += f->reply.encode_s;
    reply.error += f->reply.error;
    reply.norm += f->reply.norm;
    s->push = codec_summary(what->job->compression.push, &push);
    s->push.feedback = what->job->compression.push == CODEC_TOP_K;
    s->push.residuals_lost = f->residuals_lost + f->residuals_away;
    s->reply = codec_summary(what->job->compression.reply, &reply);
}

static struct chief_facts facts(const struct summarize *what)
{
    struct chief_facts f = {.running = false};
    if (what->host)
        f = *host_facts(what->host);
    if (what->base && (what->finished || !f.running))
        facts_from_base(what->base, &f);
    if (what->result->exit_code == 143 && f.running)
        f.steps = f.cut_step; /* what was learned behind it is learned again */
    if (!f.running) {
        f.rejected = journal_rejected(what->journal);
        f.recoveries = journal_all_recoveries(what->journal);
    }
    return f;
}

enum err summarize(const struct summarize *what, struct errmsg *e)
{
    const struct job *job = what->job;
    const struct driver_result *r = what->result;
    const struct epoch_end_result *l = what->learned;
    const struct chief *chief = what->host ? host_chief(what->host) : NULL;
    const struct chief_facts f = facts(what);
    const struct epoch_sums *last = last_epoch(f.epoch);
    uint32_t trainers = what->cluster->n_workers + what->cluster->separate_chief;
    struct summary s = {
        .status = r->exit_code == 0     ? "done"
                  : r->exit_code == 143 ? "interrupted"
                                        : "failed",
        .error = r->exit_code ? r->error : NULL,
        .job = job->name,
        .update = job_update_word(job->training.update),
        .exit_code = r->exit_code,
        .ps = what->cluster->n_ps,
        .workers = trainers ? trainers : 1,
        .microbatches = job->training.microbatches,
        .steps = f.steps,
        .epochs = epochs_made(what, &f),
        .train_loss = last ? last->loss / last->examples : NAN,
        .metrics = job->model.metrics,
        .learning_rate = last_rate(&job->optimizer, f.t),
        .examples_per_s = r->train_s > 0 ? examples_of_run(what, &f) / r->train_s : NAN,
        .seconds = (what->base ? what->base->seconds : 0) + r->train_s,
        .first_step_s = l->first_step_s,
        .dealt = f.dealt,
        .applied_min = f.applied_min,
        .applied_max = f.applied_max,
        .duplicates = f.duplicates,
        .lost = f.lost,
        .clipped = f.clipped,
        .dropped = f.dropped,
        .redone = f.redo.redone,
        .rejected = f.rejected,
        .recoveries = f.recoveries,
        .exact = job->training.update == UPDATE_SYNC && loses_nothing(job) && !has_backups(what),
        .averaged = job->optimizer.use_ema,
        .digest = l->digest,
    };
    put_eval(l->has_eval ? &l->eval : NULL, &s.eval_loss, s.eval_metric);
    for (uint32_t i = 0; i < job->model.metrics; i++) {
        s.metric_name[i] = metric_name(job->model.metric[i]);
        s.train_metric[i] = last ? metric_value(job, i, last->metric, last->examples) : NAN;
    }
    put_compression(what, chief, &f, &s);
    struct summary_epoch *history = NULL;
    struct summary_worker *accounts = NULL;
    struct summary_staleness *stale = NULL;
    enum err err = put_history(l, &s, &history);
    if (!err && what->evaluator)
        put_evaluator(what, &f, &s, history);
    if (!err)
        err = put_accounts(r, chief, s.workers, &s, &accounts);
    if (!err)
        err = put_staleness(chief, s.workers, &s, &stale);
    char path[4200];
    (void)snprintf(path, sizeof path, "%s/summary.json", what->output);
    if (err)
        err_set(e, err, "%s: out of memory", path);
    else
        err = export_summary(path, &s, e);
    mem_free(history);
    mem_free(accounts);
    mem_free(stale);
    return err;
}
