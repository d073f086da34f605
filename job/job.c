/* Reads a job: the file becomes a tree, --set changes it, read.c reads it key by key, then each check of keys against each other
 * runs, in the order of read_tree. The first error ends it and names the line, or the --set. */
#include "job/job.h"

#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/texts.h"
#include "common/process/files.h"
#include "job/keys.h"
#include "job/read.h"

/* ---- checks across keys ---- */

static struct job_updates updates_of(struct job *job)
{
    return (struct job_updates){&job->optimizer, "optimizer", "training"};
}

/* The optimizer's learning_rate is another name of training.learning_rate. */
static enum err settle_rate(struct job_reader *r)
{
    const struct job_updates of = updates_of(r->job);
    char path[JOB_PATH_MAX];
    bool given;
    enum err err = job_settle_rate(r, &of, &given);
    if (!err && !given)
        err = job_read_default(r, job_key_find(job_option_path(&of, "learning_rate", path)));
    return err ? err : job_check_schedule(r, &of);
}

static enum err check_trainable(struct job_reader *r)
{
    for (r->layer = 0; r->layer < r->job->model.layers; r->layer++) {
        const struct job_layer *l = &r->job->model.layer[r->layer];
        if (l->kind != LAYER_EMBEDDING || !job_layer_looks_up(l) || l->trainable)
            continue;
        return REFUSE_LAYER(
            r, r->at[r->layer].layer,
            "%s has trainable: false, but the rows of a table are always trained; remove it",
            l->name);
    }
    return ERR_OK;
}

static const char *optimizer_word(const struct job *job)
{
    return job_word_of(job_key_find("optimizer")->words, (int)job->optimizer.kind);
}

static enum err check_optimizer(struct job_reader *r)
{
    const struct job *job = r->job;
    const struct optimizer *o = &job->optimizer;
    const struct job_updates of = updates_of(r->job);
    const bool sync = job->training.update == UPDATE_SYNC;
    char exclude[JOB_PATH_MAX], use_ema[JOB_PATH_MAX];
    const struct job_rule rules[] = {
        /* Trust ratios need norms over all shards, which are known only in a step of sync. */
        {optimizer_is_trusted(o) && !sync, "optimizer", optimizer_word(job),
         "%s needs training.update: sync"},
        /* If each worker clips its own batch, no process knows the norm of accumulated gradients. */
        {o->accumulation_steps > 1 && !sync && job->training.clip_norm > 0,
         "training.gradient_accumulation_steps", NULL,
         "training.clip_norm needs the norm of the mean of accumulated gradients, which only "
         "training.update: sync knows; remove one of the two"},
        {job->decay_exclude[0] && !(o->weight_decay > 0),
         job_option_path(&of, "exclude_from_weight_decay", exclude), NULL,
         "weight_decay is 0, so no tensor is decayed; set weight_decay, or remove it"},
        /* In geo the optimizer runs at workers, which come and go. */
        {o->use_ema && job->training.update == UPDATE_GEO, job_option_path(&of, "use_ema", use_ema),
         NULL,
         "with training.update: geo, each worker has its own optimizer, and no common average "
         "exists; allowed: false, or another training.update"},
        {0},
    };
    return job_check_rules(r, NULL, rules);
}

/* A stream whose microbatches are lanes (data/core/order.h). */
static bool has_lanes(const struct job *job)
{
    return job_streams(job) && job->training.update == UPDATE_SYNC;
}

static uint32_t power_of_two_within(uint32_t n, uint32_t most)
{
    uint32_t p = 1;
    while (p * 2 <= n && p * 2 <= most)
        p *= 2;
    return p;
}

static enum err settle_microbatches(struct job_reader *r)
{
    uint32_t *m = &r->job->training.microbatches, batch = r->job->training.batch_size;
    const struct job_node *given = job_given(r, "training.microbatches");
    if (!given) {
        *m = power_of_two_within(batch / 32, 8);
        while (has_lanes(r->job) && batch % *m != 0) /* check_order */
            *m /= 2;
    } else if (*m > batch || (*m & (*m - 1)) != 0)
        return job_refuse(r, given, "training.microbatches",
                          "%u is not allowed; allowed: a power of two from 1 to %u, like %u", *m,
                          power_of_two_within(batch, JOB_MICROBATCHES_MAX),
                          power_of_two_within(*m < batch ? *m : batch, JOB_MICROBATCHES_MAX));
    return ERR_OK;
}

static const char *augment_on(const struct job_augment *a)
{
    return a->flip    ? "data.augment.flip"
           : a->crop  ? "data.augment.crop"
           : a->shift ? "data.augment.shift"
                      : NULL;
}

/* Only images can be augmented: rows of rank 2 (height, width) or 3 (plus channels). */
static enum err check_augment(struct job_reader *r)
{
    const char *key = augment_on(&r->job->data.augment);
    uint32_t rank = r->job->model.rank;
    if (!key)
        return ERR_OK;
    if (rank != 2 && rank != 3)
        return job_refuse(r, NULL, key,
                          "it is for images; model.input.shape must be [height, width] or [height, "
                          "width, channels]");
    if (r->job->model.shape[0] > JOB_AUGMENT_SIDE_MAX ||
        r->job->model.shape[1] > JOB_AUGMENT_SIDE_MAX)
        return job_refuse(r, NULL, key, "it is for images of at most %d pixels a side",
                          JOB_AUGMENT_SIDE_MAX);
    return ERR_OK;
}

static enum err check_source(struct job_reader *r)
{
    const struct job *job = r->job;
    const char *key = job->data.train ? "data.train" : job->data.eval ? "data.eval" : NULL;
    /* The user would train on generated data without noticing. */
    if (job->data.format == DATA_SYNTHETIC && key)
        return job_refuse(r, NULL, key,
                          "data.format: synthetic reads no files; set data.format to the files' "
                          "format, or remove it");
    if (job->data.format != DATA_SYNTHETIC && !job->data.train)
        return job_refuse(r, job_given(r, "data.format"), "data.train",
                          "it is missing; data.format: %s needs a path, a glob, or a list of them",
                          job_word_of(job_key_find("data.format")->words, (int)job->data.format));
    if (job->data.synthetic_keys >= job->data.synthetic_fields)
        return ERR_OK;
    return job_refuse(
        r, NULL, "data.synthetic_keys",
        "%u key columns (data.synthetic_fields) need one key each; allowed: at least %u",
        job->data.synthetic_fields, job->data.synthetic_fields);
}

/* One way of holding out, which also excludes evaluation data of another source. */
static enum err check_validation(struct job_reader *r)
{
    const struct job_validation *v = &r->job->data.validation;
    const bool generates = r->job->data.format == DATA_SYNTHETIC;
    const int ways = (v->last > 0) + (v->share > 0) + (v->files != NULL);
    const char *first = v->last > 0    ? "data.validation.last"
                        : v->share > 0 ? "data.validation.share"
                                       : "data.validation.files";
    const struct job_rule rules[] = {
        {v->column[0] && !(v->share > 0), "data.validation.column", NULL,
         "it has no effect without data.validation.share, the share of its keys; set that, or "
         "remove it"},
        {ways > 1, first, NULL,
         "data.validation holds rows out in one way: last, share, share with column, or files; "
         "remove the others"},
        {ways && r->job->data.eval, first, NULL,
         "data.eval names what to evaluate on; remove one of the two"},
        {ways && generates, first, NULL,
         "data.format: synthetic generates rows to evaluate on (data.synthetic_eval_rows); remove "
         "it"},
        {v->column[0] && r->job->data.format != DATA_CSV && r->job->data.format != DATA_PARQUET,
         "data.validation.column", NULL,
         "only data.format: csv and parquet can hold out by a column; without column, share is of "
         "the rows"},
        {0},
    };
    return job_check_rules(r, NULL, rules);
}

/* A stream is read by an index of text, and each process reads the rows of its own microbatches. */
static enum err check_order(struct job_reader *r)
{
    const struct job *job = r->job;
    char divides[200];
    (void)snprintf(
        divides, sizeof divides,
        "with data.order: stream in sync each microbatch has as many rows as the others, and "
        "training.microbatches: %u does not divide training.batch_size: %u",
        job->training.microbatches, job->training.batch_size);
    const struct job_rule rules[] = {
        {job->data.format != DATA_CSV && job->data.format != DATA_PARQUET, "data.order", NULL,
         "stream reads data.format: csv and parquet alone; allowed for other formats: shuffled"},
        {job->training.update == UPDATE_GEO, "data.order", NULL,
         "stream needs training.update: sync, async or ssp; allowed with training.update: geo: "
         "shuffled"},
        {job->sync.dropped == DROPPED_REDO, "sync.dropped", NULL,
         "with data.order: stream only lost is allowed"},
        {has_lanes(job) && job->training.batch_size % job->training.microbatches != 0,
         "training.microbatches", NULL, divides},
        {0},
    };
    return job_streams(job) ? job_check_rules(r, NULL, rules) : ERR_OK;
}

static bool has_metric(const struct job *job, uint32_t kind)
{
    for (uint32_t i = 0; i < job->model.metrics; i++)
        if ((uint32_t)job->model.metric[i].kind == kind)
            return true;
    return false;
}

bool job_evaluates(const struct job *job)
{
    return job_eval_files(job) || job_holds_rows_out(job) || job->data.format == DATA_SYNTHETIC;
}

uint32_t job_slices(const struct job *job)
{
    uint32_t n = 0;
    size_t bytes;
    for (const char *at = job->metrics.values; at; at = texts_next(at, &bytes))
        n++;
    return n ? n + 1 : 0;
}

uint32_t job_slices_lookup(const struct job *job)
{
    for (uint32_t i = 0; i < job->model.lookups; i++) {
        const struct job_column *c = &job->data.csv.column[job->model.lookup[i].column];
        if (c->kind == COLUMN_KEY && strcmp(c->name, job->metrics.by) == 0)
            return i;
    }
    return UINT32_MAX;
}

static enum err check_progressive(struct job_reader *r)
{
    const struct job *job = r->job;
    const bool on = job->metrics.progressive;
    const uint32_t values = job_slices(job) ? job_slices(job) - 1 : 0;
    const struct job_rule rules[] = {
        {on && !has_metric(job, METRIC_PROGRESSIVE), "metrics.progressive", NULL,
         "it computes the auc of training; add auc to model.metrics, or remove it"},
        {on && job->training.update == UPDATE_GEO, "metrics.progressive", NULL,
         "with training.update: geo each worker trains by itself between pushes, and its "
         "predictions are not those of the job; allowed: false, or another training.update"},
        {!on && *job->metrics.by, "metrics.by", NULL,
         "it has no effect without metrics.progressive: true; set that, or remove it"},
        {!*job->metrics.by && values, "metrics.values", NULL,
         "it has no effect without metrics.by, the column that has them; set that, or remove it"},
        {*job->metrics.by && !values, "metrics.by", NULL,
         "metrics.values is missing: the values of this column, a slice of the rows each; rows "
         "with other values are one slice more"},
        {values >= SLICES_MAX, "metrics.values", NULL,
         "at most 63 values are allowed; rows with other values are one slice more"},
        {*job->metrics.by && job_slices_lookup(job) == UINT32_MAX, "metrics.by", NULL,
         "it must be a column of kind key that a layer of the model looks up"},
        {on && job_has_weights(job), "metrics.progressive", NULL,
         "it counts rows, and the rows of this job have weights (data.columns); allowed: false, or "
         "no column of kind weight"},
        {0},
    };
    return job_check_rules(r, NULL, rules);
}

static enum err check_monitor(struct job_reader *r)
{
    static const char none[] =
        "training.monitor is missing; set it to loss or to one of model.metrics";
    const struct job *job = r->job;
    const uint32_t monitor = job->training.monitor;
    const bool off = monitor == MONITOR_NONE;
    const struct job_rule rules[] = {
        {off && job->early_stopping.patience, "early_stopping.patience", NULL, none},
        {off && job->early_stopping.min_delta > 0, "early_stopping.min_delta", NULL, none},
        {off && job->early_stopping.start_from_epoch, "early_stopping.start_from_epoch", NULL,
         none},
        {off && job->early_stopping.restore_best_weights, "early_stopping.restore_best_weights",
         NULL, none},
        {!off && monitor != MONITOR_LOSS && !has_metric(job, monitor - MONITOR_METRIC),
         "training.monitor", NULL, "it must be loss or one of model.metrics"},
        {!off && !job_evaluates(job), "training.monitor", NULL,
         "data.eval is missing, so there is nothing to evaluate on; set data.eval or "
         "data.validation"},
        {0},
    };
    return job_check_rules(r, NULL, rules);
}

enum err job_check_evaluator(const struct job *job, struct errmsg *e)
{
    if (!job_evaluates(job))
        return err_set(e, ERR_INPUT,
                       "%s: data.eval: it is missing, so the evaluator has nothing to evaluate on; "
                       "set it or data.validation, or remove the evaluator",
                       job->file);
    if (job->evaluate.every_steps)
        return err_set(
            e, ERR_INPUT,
            "%s: evaluate.every_steps: the chief evaluates, and with an evaluator it does "
            "not; remove one of the two (checkpoint.every_steps makes the evaluator's "
            "evaluations frequent)",
            job->file);
    if (job->training.monitor == MONITOR_NONE)
        return ERR_OK;
    return job_blame(
        job, PLACE_MONITOR,
        err_set(e, ERR_INPUT,
                "training.monitor: it needs the chief's evaluation of each epoch, and with an "
                "evaluator the chief does not evaluate; remove one of the two"),
        e);
}

/* ---- training.update and backup workers ---- */

const char *job_update_word(enum update_mode update)
{
    return job_word_of(job_key_find("training.update")->words, (int)update);
}

const char *job_nan_guard_word(enum nan_guard guard)
{
    return job_word_of(job_key_find("training.nan_guard")->words, (int)guard);
}

static enum err job_check_update(struct job_reader *r)
{
    const struct job *job = r->job;
    if (job->training.update != UPDATE_SYNC || job->sync.dropped != DROPPED_REDO ||
        job->training.nan_guard != NAN_GUARD_ROLLBACK)
        return ERR_OK;
    return job_refuse(
        r, NULL, "sync.dropped",
        "redo excludes training.nan_guard: rollback, because the step to skip can have other "
        "microbatches after it; allowed nan_guard: check, off, skip, stop");
}

uint32_t job_replicas(const struct job *job, uint32_t workers)
{
    uint32_t replicas = job->sync.replicas_to_aggregate;
    return replicas < workers ? replicas : 0;
}

static enum err check_replicas(const struct job *job, uint32_t workers, struct errmsg *e)
{
    uint32_t leaves = 1;
    if (job->sync.replicas_to_aggregate > workers)
        return err_set(e, ERR_INPUT,
                       "sync.replicas_to_aggregate: %u, and there are %u workers; allowed: up to "
                       "%u, which means no backup workers",
                       job->sync.replicas_to_aggregate, workers, workers);
    while (leaves < workers)
        leaves *= 2;
    if (job_replicas(job, workers) == 0 || job->training.microbatches >= workers)
        return ERR_OK;
    if (leaves > JOB_MICROBATCHES_MAX)
        return err_set(e, ERR_INPUT,
                       "sync.replicas_to_aggregate: each worker needs a microbatch, and of %u "
                       "workers only %d can have one",
                       workers, JOB_MICROBATCHES_MAX);
    return err_set(e, ERR_INPUT,
                   "sync.replicas_to_aggregate: each of the %u workers needs a microbatch, and "
                   "training.microbatches is %u; %u is enough",
                   workers, job->training.microbatches, leaves);
}

enum err job_check_workers(const struct job *job, uint32_t workers, struct errmsg *e)
{
    return job_blame(job, PLACE_REPLICAS, check_replicas(job, workers, e), e);
}

/* ---- compression ---- */

/* The words of codecs that a reply can use in every update mode. */
#define WHOLE_EXACT(word) #word ", "
#define WHOLE_ROUNDED WHOLE_EXACT
#define WHOLE_DIFFERENCE(word)
#define WHOLE_PARTIAL(word)
#define X(name, word, number, kind) WHOLE_##kind(word)
#define WHOLE CODEC_MAP(X)

static enum err check_compression(struct job_reader *r)
{
    static const char key[] = "compression.push", reply_key[] = "compression.reply";
    const struct job *job = r->job;
    const enum update_mode update = job->training.update;
    const enum codec push = job->compression.push, reply = job->compression.reply;
    const bool top_k = push == CODEC_TOP_K, async = update == UPDATE_ASYNC;
    const bool difference =
        reply != CODEC_AUTO && codec_kind_mask(CODEC_IS_DIFFERENCE) >> reply & 1;
    const struct job_rule rules[] = {
        /* In geo, a push round moves the worker's copy by its own values and the shards by the received ones: they must be equal. */
        {update == UPDATE_GEO && push != CODEC_RAW, key, codec_str(push),
         "%s is for gradients, and training.update: geo sends changes of parameters; allowed here: "
         "none"},
        /* top_k adds unsent values to a later gradient: the sum stays the same only if the update is linear in the gradient. */
        {top_k && !optimizer_is_linear(&job->optimizer), key, optimizer_word(job),
         "top_k sends each gradient in parts, and %s divides by the size of complete gradients; "
         "allowed with optimizer: sgd, with or without momentum"},
        /* Nor is it allowed where a process must see complete gradients by a given time. */
        {top_k && update == UPDATE_SSP, key, NULL,
         "top_k holds back a part of each gradient, and training.update: ssp promises complete "
         "ones; allowed with training.update: sync, async"},
        {top_k && job->sync.replicas_to_aggregate, key, NULL,
         "a checkpoint waits until a step has the parts that top_k held back, and no step has "
         "those of a worker that is always too late; allowed without sync.replicas_to_aggregate"},
        {top_k && job->sync.dropped == DROPPED_REDO, key, NULL,
         "top_k sends its remaining parts at the end of each epoch, and sync.dropped: redo adds "
         "steps after that; allowed with sync.dropped: lost"},
        {top_k && async && job->optimizer.accumulation_steps > 1, key, NULL,
         "top_k in async pushes remaining parts separately, and "
         "training.gradient_accumulation_steps would count them as a gradient; remove one of the "
         "two"},
        {top_k && async && job->optimizer.use_ema, key, NULL,
         "top_k in async pushes remaining parts separately, and use_ema would average them "
         "wrongly; remove one of the two"},
        /* In geo, the servers must move by exactly the same amount as the worker. */
        {update == UPDATE_GEO && reply != CODEC_RAW, reply_key, codec_str(reply),
         "with training.update: geo, workers and servers must apply the same numbers, and %s can "
         "change them; allowed here: none"},
        /* Each worker gets its replies at different times, so a difference would need a copy of each worker's parameters. */
        {update != UPDATE_SYNC && difference, reply_key, codec_str(reply),
         "%s sends differences from what all workers have, which only training.update: sync knows; "
         "allowed here: " WHOLE "auto"},
        {0},
    };
    return job_check_rules(r, NULL, rules);
}

/* ---- do the keys keep the promise of equal bits? ---- */

static bool loses_nothing(const struct job *job, enum codec c)
{
    return !(codec_mask(c, job->compression.allow) & ~codec_kind_mask(CODEC_IS_EXACT));
}

static const char *row_word(const char *key, enum row_codec c)
{
    return job_word_of(job_key_find(key)->words, (int)c);
}

static bool tables_lose_nothing(const struct job *job, char why[JOB_INEXACT_BYTES])
{
    for (uint32_t i = 0; i < job->model.tables; i++) {
        const struct job_table *t = &job->model.table[i];
        bool push = t->push != ROW_CODEC_NONE;
        if (!push && t->reply == ROW_CODEC_NONE)
            continue;
        (void)snprintf(why, JOB_INEXACT_BYTES, "tables.%s.compression.%s: %s", t->name,
                       push ? "push" : "reply",
                       push ? row_word(JOB_TABLE_PREFIX ".compression.push", t->push)
                            : row_word(JOB_TABLE_PREFIX ".compression.reply", t->reply));
        return false;
    }
    return true;
}

bool job_is_exact(const struct job *job, uint32_t workers, char why[JOB_INEXACT_BYTES])
{
    uint32_t replicas = job_replicas(job, workers);
    bool push = loses_nothing(job, job->compression.push);
    bool reply = loses_nothing(job, job->compression.reply);
    if (job->training.update != UPDATE_SYNC)
        (void)snprintf(why, JOB_INEXACT_BYTES, "training.update: %s",
                       job_update_word(job->training.update));
    else if (!push || !reply)
        (void)snprintf(why, JOB_INEXACT_BYTES, "compression.%s: %s", push ? "reply" : "push",
                       codec_str(push ? job->compression.reply : job->compression.push));
    else if (replicas)
        (void)snprintf(why, JOB_INEXACT_BYTES, "sync.replicas_to_aggregate: %u", replicas);
    else
        return tables_lose_nothing(job, why);
    return false;
}

/* ---- keys without effect ---- */

/* Refuses keys that are well-formed but have no effect with the job's other keys, unless they have their default.
 * Their rows have the condition (`heeded`).
 * Exceptions: keys of `data.synthetic` are allowed with another format, so that an example can be switched to
 * files with --set data.format. Keys that only some modes of training.update use are allowed, so that one job file
 * works for all modes. sync.dropped is allowed without backup workers, because a job with `redo` can resume
 * without them. */
static enum err check_unused(struct job_reader *r)
{
    const struct job_key *most = job_key_find("data.bad_rows_max");
    const char *update = job_update_word(r->job->training.update);
    for (const struct job_key *key = job_key_next(NULL); key; key = job_key_next(key))
        if (key->heeded && !key->heeded(r->job) && job_key_active(key, r->job, NULL) &&
            !job_key_is_default(key, r->job))
            return job_check_rules(
                r, NULL, (const struct job_rule[]){{true, key->path, update, key->unheeded}, {0}});
    if (r->job->data.csv.bad_rows != BAD_ROWS_STOP || job_key_is_default(most, r->job))
        return ERR_OK;
    return job_refuse(r, NULL, most->path,
                      "it has no effect without data.bad_rows: skip; set that, or remove it");
}

/* ---- where a key was given ---- */

static uint32_t node_line(const struct job_node *at)
{
    return !at ? 0 : at->set ? JOB_LINE_SET : at->line;
}

static void note_places(struct job_reader *r)
{
    static const char *const path[JOB_PLACES] = {
        [PLACE_INPUT_SHAPE] = "model.input.shape",
        [PLACE_LAYERS] = "model.layers",
        [PLACE_LOSS] = "model.loss",
        [PLACE_METRICS] = "model.metrics",
        [PLACE_CLASS_WEIGHT] = "training.class_weight",
        [PLACE_MONITOR] = "training.monitor",
        [PLACE_REPLICAS] = "sync.replicas_to_aggregate",
        [PLACE_DROPPED] = "sync.dropped",
        [PLACE_EXPORT] = "export",
        [PLACE_OPTIMIZER] = "optimizer",
    };
    (void)snprintf(r->job->file, sizeof r->job->file, "%s", r->name);
    for (int i = 0; i < JOB_PLACES; i++)
        r->job->line[i] = node_line(job_given(r, path[i]));
}

static enum err blame(const struct job *job, uint32_t line, enum err err, struct errmsg *e)
{
    if (err == ERR_OK || err == ERR_NOMEM || !job->file[0])
        return err;
    if (line == 0)
        return err_wrap(e, err, "%s: ", job->file);
    return line == JOB_LINE_SET ? err_wrap(e, err, "--set ")
                                : err_wrap(e, err, "%s:%u: ", job->file, line);
}

enum err job_blame(const struct job *job, enum job_place place, enum err err, struct errmsg *e)
{
    return blame(job, job->line[place], err, e);
}

enum err job_blame_layer(const struct job *job, uint32_t layer, enum err err, struct errmsg *e)
{
    return blame(job, job->layer_line[layer], err, e);
}

/* The job file's base name, without characters that a name cannot have. */
static void default_name(struct job *job, const char *file)
{
    const char *slash = strrchr(file, '/'), *base = slash ? slash + 1 : file;
    const char *dot = strrchr(base, '.');
    size_t n = dot && dot > base ? (size_t)(dot - base) : strlen(base), at = 0;
    for (size_t i = 0; i < n && at < JOB_NAME_MAX - 1; i++) {
        char c = base[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (letter || at > 0)
            job->name[at++] = letter || strchr("._-", c) ? c : '-';
    }
    if (at == 0)
        (void)snprintf(job->name, sizeof job->name, "job");
}

/* ---- reading a job ---- */

/* learning_rate in `rates` and in the optimizer are the same key. So a --set of one replaces the other if the file
 * gives it, but not if another --set gives it. */
static void set_replaces_rate(struct job_node *rates, struct job_node *optimizer, const char *set)
{
    struct job_node *kind = optimizer && optimizer->kind == NODE_MAP ? optimizer->child : NULL;
    struct job_node *rate = rates ? job_tree_child(rates, "learning_rate") : NULL;
    struct job_node *own = kind ? job_tree_child(kind, "learning_rate") : NULL;
    if (rate && own && rate->set == set && !own->set)
        job_tree_remove(kind, own);
    else if (rate && own && own->set == set && !rate->set)
        job_tree_remove(rates, rate);
}

static void set_replaces_rates(struct job_node *root, const char *set)
{
    const struct job_node *tables = job_tree_child(root, "tables");
    set_replaces_rate(job_tree_child(root, "training"), job_tree_child(root, "optimizer"), set);
    for (struct job_node *t = tables ? tables->child : NULL; t; t = t->next)
        set_replaces_rate(t, job_tree_child(t, "optimizer"), set);
}

static enum err apply_sets(struct job_node *root, const char *const *sets, size_t n,
                           struct errmsg *e)
{
    enum err err = ERR_OK;
    for (size_t i = 0; i < n && !err; i++) {
        err = job_tree_set(root, sets[i], e);
        if (!err)
            set_replaces_rates(root, sets[i]);
    }
    return err;
}

static enum err read_tree(struct job_reader *r, const struct job_node *root)
{
    static enum err (*const checks[])(struct job_reader *) = {
        job_settle_inputs, check_trainable,      settle_rate,       job_settle_tables,
        check_optimizer,   settle_microbatches,  job_check_update,  check_source,
        check_validation,  check_order,          check_augment,     job_check_csv,
        check_compression, check_monitor,        check_progressive, check_unused,
        job_check_tables,  job_check_embeddings,
    };
    enum err err = job_read(r, root);
    for (size_t i = 0; i < sizeof checks / sizeof checks[0] && !err; i++)
        err = checks[i](r);
    if (!err && !r->job->name[0])
        default_name(r->job, r->name);
    note_places(r);
    return err ? err : job_identify(r->job, r->e);
}

static enum err job_from_tree(struct job *job, const struct job_node *root, const char *name,
                              const char *dir, struct errmsg *e)
{
    struct job *made = mem_zalloc(1, sizeof *made);
    struct job_reader *r = mem_zalloc(1, sizeof *r);
    enum err err = made && r ? ERR_OK : err_memory(e);
    if (!err) {
        *r = (struct job_reader){.job = made, .name = name, .dir = dir, .e = e};
        made->model.heads = 1;
        made->model.head[0] = job_head_of_one_label();
        err = read_tree(r, root);
        if (err)
            job_close(made);
        else
            *job = *made;
    }
    mem_free(r);
    mem_free(made);
    return err;
}

enum err job_parse(struct job *job, const char *text, size_t bytes, const char *name,
                   const char *dir, const char *const *sets, size_t n_sets, struct errmsg *e)
{
    struct job_node *root = NULL;
    enum err err = job_tree_parse(&root, text, bytes, name, NULL, e);
    if (err)
        return err;
    if (root->kind != NODE_MAP)
        err = err_set(e, ERR_INPUT, "%s:%u: a job file must be a map of keys, like name: mnist",
                      name, root->line);
    if (!err)
        err = apply_sets(root, sets, n_sets, e);
    if (!err)
        err = job_from_tree(job, root, name, dir, e);
    job_tree_free(root);
    return err;
}

enum err job_output(const struct job *job, const char *given, char *out, size_t bytes,
                    struct errmsg *e)
{
    bool named = given && *given;
    const char *name = named ? given : job->name;
    if (strlen(name) + sizeof "runs/" > bytes)
        return err_set(e, ERR_INPUT, "--output: the path is too long");
    (void)snprintf(out, bytes, "%s%s", named ? "" : "runs/", name);
    return ERR_OK;
}

enum err job_load(struct job *job, const char *path, const char *const *sets, size_t n_sets,
                  struct errmsg *e)
{
    uint8_t *text;
    size_t bytes;
    enum err err = files_read(path, JOB_TREE_BYTES_MAX, &text, &bytes, e);
    if (err == ERR_NOMEM)
        return err_set(e, err, "out of memory");
    if (err == ERR_TOOBIG)
        return err_set(e, ERR_INPUT, "%s:1: longer than 128 MiB", path);
    if (err)
        return err_wrap(e, err == ERR_FILES ? err : ERR_INPUT, "job file ");
    char *dir = mem_strdup(path);
    if (dir) {
        char *slash = strrchr(dir, '/');
        dir[slash ? (slash == dir ? 1 : slash - dir) : 0] = 0;
        err = job_parse(job, (const char *)text, bytes, path, dir, sets, n_sets, e);
    } else {
        err = err_memory(e);
    }
    mem_free(dir);
    mem_free(text);
    return err;
}

void job_close(struct job *job)
{
    job_columns_free(&job->data.csv);
    for (struct job_text *t = job->texts, *before; t; t = before) {
        before = t->before;
        mem_free(t);
    }
    mem_free(job->model.selected);
    mem_free(job->model.lookup);
    mem_free(job->model.weights);
    mem_free(job->data.csv.missing);
    mem_free(job->metrics.values);
    mem_free(job->data.train);
    mem_free(job->data.eval);
    mem_free(job->data.validation.files);
    mem_free(job->data.spill);
    mem_free(job->canonical);
    mem_free(job->identity_text);
    *job = (struct job){0};
}
