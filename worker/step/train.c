#include "worker/step/train.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/base/clock.h"
#include "common/process/cores.h"
#include "common/process/files.h"
#include "common/math/kernels.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/peers/hello.h"
#include "worker/evaluate/evaluate.h"
#include "worker/export/encoding.h"
#include "worker/export/export.h"
#include "worker/step/gradient.h"
#include "worker/step/guard.h"
#include "worker/step/links.h"
#include "worker/step/local.h"
#include "worker/control/meter.h"
#include "common/math/pool.h"
#include "worker/control/progress.h"
#include "worker/core/session.h"

enum {
    LOADER_DEPTH_MIN = 4,
    STEP_LETTER_MS = 50, /* the control thread hears of steps so often, and at each epoch's end */
    SAY_WAIT_MS = 10000,
};

struct train {
    struct train_config config;
    struct control *control;
    struct loop loop;
    struct mailbox in;
    struct loop_timer tick; /* wakes the wait, so that it can say what it waits for */
    struct session session;
    struct links *links;
    struct pool *pool;
    struct loader *loader;
    struct gradient *gradient;
    struct local *local; /* geo; else NULL */
    struct evaluator *evaluator;
    float *w;        /* the flat block */
    float *averages; /* use_ema, the chief: of the parameters that were evaluated last; else NULL */
    uint64_t task_name;
    bool held; /* nothing of the running task leaves before it is computed */

    struct progress progress;
    struct train_result *result;
    bool stopped, accounted;
    bool finish_asked, evaluate_asked;
    uint64_t epoch_asked;
    uint64_t enough_epoch, enough_step; /* where early stopping ended it; epoch 0: it has not */
    uint64_t evaluated_step;            /* UINT64_MAX: none */
    uint64_t seen_step;                 /* sync: the last step that was counted */
    uint64_t want_id, want_end;         /* what the loader was told to expect */
    uint32_t want_first, want_leaves;
    double began_s; /* of the first task */
    double evaluation_s;
    double computed_s,
        pushed_s; /* the running exchange: when its gradient was there, and was handed over */
    struct meter meter;
    int64_t told_ms, moved_ms;
};

/* ---- session_io ---- */

static void io_pull(void *ctx, uint32_t shard, const Gradwire__Pull *m)
{
    struct train *t = ctx;
    links_pull(t->links, shard, m);
}

static void io_tick(void *ctx, uint32_t shard, const Gradwire__Tick *m)
{
    struct train *t = ctx;
    links_tick(t->links, shard, m);
}

static void io_push_again(void *ctx, uint32_t shard)
{
    struct train *t = ctx;
    if (t->session.pushing)
        links_push_round(t->links, shard);
    else
        links_push_again(t->links, shard, t->gradient);
}

static void io_to_chief(void *ctx, enum frame_type type, const ProtobufCMessage *m)
{
    struct train *t = ctx;
    control_send(t->control, type, m);
}

static void io_merge(void *ctx, bool fresh)
{
    struct train *t = ctx;
    local_merge(t->local, t->w, fresh);
    local_round_done(t->local);
}

static bool io_withholds(void *ctx)
{
    struct train *t = ctx;
    return links_withhold(t->links);
}

static const struct session_io session_io = {
    .withholds = io_withholds,
    .pull = io_pull,
    .tick = io_tick,
    .merge = io_merge,
    .push_again = io_push_again,
    .to_chief = io_to_chief,
};

/* ---- the end ---- */

static void stop(struct train *t, int exit_code, const char *text)
{
    if (t->stopped)
        return;
    t->stopped = true;
    t->result->exit_code = exit_code;
    (void)snprintf(t->result->error, sizeof t->result->error, "%s", text);
}

static void on_refused(void *ctx, int exit_code, const char *text)
{
    stop(ctx, exit_code, text);
}

enum err train_export(const struct train_config *config, const float *w, char digest[65],
                      struct errmsg *e)
{
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/model", config->output);
    enum err err = files_mkdirs(path, e);
    if (err)
        return err;
    (void)snprintf(path, sizeof path, "%s/model/weights.safetensors", config->output);
    err = export_safetensors(path, model_layout(config->model), w, NULL, 0, e);
    if (err)
        return err;
    (void)snprintf(path, sizeof path, "%s/model/job.yaml", config->output);
    err = files_write(path, config->job->canonical, strlen(config->job->canonical), e);
    const struct table_schema *schema = config->data->table.schema;
    (void)snprintf(path, sizeof path, "%s/model/encoding.json", config->output);
    if (!err && schema)
        err = export_encoding(path, &config->job->data.csv, schema, e);
    if (!err)
        export_digest(model_layout(config->model), w, digest);
    return err;
}

/* ---- letters ---- */

static enum err adopt_welcome(struct train *t, struct errmsg *e)
{
    const struct session *s = &t->session;
    const struct layout *layout = model_layout(t->config.model);
    uint64_t batches = order_batches(t->config.order);
    if (s->plan.elems != layout->elems)
        return err_set(e, ERR_INPUT, "the chief's model has %" PRIu64 " parameters, ours %" PRIu64,
                       s->plan.elems, layout->elems);
    if (s->settings.batches_per_epoch != batches)
        return err_set(e, ERR_INPUT,
                       "the chief's data make %" PRIu64 " batches an epoch, ours %" PRIu64
                       ": data.train must name the same data everywhere",
                       (uint64_t)s->settings.batches_per_epoch, batches);
    log_info("generation %" PRIu64 ": %u shards on %u ps, %u microbatches, %u threads",
             s->generation.number, s->plan.shards, t->config.cluster->n_ps, s->leaves,
             pool_threads(t->pool));
    meter_welcome(&t->meter, s->generation.number, s->incarnation);
    if (t->local)
        local_reset(t->local);
    t->finish_asked = t->evaluate_asked = false;
    t->evaluated_step = UINT64_MAX;
    t->result->digest[0] = '\0'; /* what was exported may be of a life that is over */
    t->seen_step = UINT64_MAX;
    t->want_leaves = 0;
    if (t->enough_epoch && s->settings.redo)
        session_stop_behind(&t->session, t->enough_epoch);
    else if (t->enough_epoch)
        session_stop_at(&t->session, t->enough_step);
    return links_restart(t->links, e);
}

static void on_welcome(struct train *t, const Gradwire__Welcome *m)
{
    struct errmsg e = {""};
    struct generation before = t->session.generation;
    uint64_t incarnation = t->session.incarnation;
    enum err err = session_on_welcome(&t->session, m, &e);
    bool same =
        generation_equal(before, t->session.generation) && incarnation == t->session.incarnation;
    if (!err && !same)
        err = adopt_welcome(t, &e);
    if (err)
        stop(t, err_exit_code(err), e.text);
    else
        session_on_chief_up(&t->session);
}

/* What is neither computing nor evaluating was waiting. */
static void close_account(struct train *t)
{
    struct chief_account *a = &t->result->account;
    if (t->began_s > 0)
        a->waited_s = clock_now_s() - t->began_s - a->computed_s - t->evaluation_s;
    links_bytes(t->links, &a->bytes_out, &a->bytes_in);
    links_costs(t->links, &a->push, &a->reply);
    t->accounted = true;
}

static void on_done(struct train *t, const Gradwire__Done *m)
{
    Gradwire__DoneAck ack = GRADWIRE__DONE_ACK__INIT;
    close_account(t);
    const struct chief_account *a = &t->result->account;
    ack.worker = t->session.worker;
    ack.tasks = a->tasks;
    ack.examples = a->examples;
    ack.computed_s = a->computed_s;
    ack.waited_s = a->waited_s;
    ack.bytes_out = a->bytes_out;
    ack.bytes_in = a->bytes_in;
    Gradwire__CodecCost push = msg_codec_cost(&a->push), reply = msg_codec_cost(&a->reply);
    ack.push = &push;
    ack.reply = &reply;
    control_send(t->control, FRAME_DONE_ACK, &ack.base);
    stop(t, m->exit_code, m->text);
}

static void on_chief(struct train *t, enum frame_type type, const ProtobufCMessage *m)
{
    if (type == FRAME_WELCOME) {
        on_welcome(t, (const Gradwire__Welcome *)m);
        return;
    }
    session_on_chief(&t->session, type, m);
    if (type == FRAME_DONE)
        on_done(t, (const Gradwire__Done *)m);
    else if (t->session.may_leave)
        stop(t, 143, "told to go: the chief has taken back what was ours to do");
}

static void say_hello(struct train *t)
{
    Gradwire__Hello m;
    struct session_hello room;
    hello_make(&m, t->config.job, t->config.cluster, 0);
    session_hello_chief(&t->session, &room, &m);
    control_send(t->control, FRAME_HELLO, &m.base);
}

static void on_letter(void *arg, struct mail *m)
{
    struct train *t = arg;
    switch ((enum train_letter)m->type) {
    case TRAIN_CHIEF:
        on_chief(t, (enum frame_type)m->number, m->data);
        break;
    case TRAIN_HELLO:
        say_hello(t);
        break;
    case TRAIN_EPOCH:
        t->evaluate_asked = true;
        t->epoch_asked = m->number;
        break;
    case TRAIN_FINISH:
        t->finish_asked = true;
        if (!t->session.sync)
            session_pull_final(&t->session);
        break;
    case TRAIN_GO:
        session_go(&t->session);
        if (t->session.phase == SESSION_NEW)
            stop(t, 143, "told to go before training began");
        break;
    case TRAIN_STOP:
        stop(t, (int)m->number, m->data ? m->data : "");
        break;
    }
}

/* ---- evaluation ---- */

/* What is evaluated, kept as the best and exported. */
static float *learned(struct train *t)
{
    return t->averages ? t->averages : t->w;
}

/* False: they are asked for, and come while the loop runs. */
static bool averages_are_here(struct train *t)
{
    if (!t->averages || session_take_averages(&t->session))
        return true;
    session_pull_averages(&t->session);
    return false;
}

static struct evaluation *evaluate(struct train *t)
{
    struct train_result *r = t->result;
    double began = clock_now_s();
    if (!t->evaluator)
        return NULL;
    struct errmsg e = {""};
    struct model_sums sums;
    enum err err = evaluator_run(t->evaluator, learned(t), &sums, &e);
    if (err) {
        stop(t, err_exit_code(err), e.text);
        return NULL;
    }
    r->has_eval = true;
    r->eval.step = t->session.step;
    r->eval.loss = sums.loss;
    memcpy(r->eval.metric, sums.metric, sizeof r->eval.metric);
    struct evaluation *copy = mem_zalloc(1, sizeof *copy);
    if (copy) {
        *copy = r->eval;
        control_post(t->control, CONTROL_EVALUATED, 0, copy, mem_free);
    }
    double took_s = clock_now_s() - began;
    t->evaluation_s += took_s;
    metrics_observe(&t->meter.evaluation, took_s);
    return &r->eval;
}

/* The batches that are behind an epoch; in sync steps, of which some may be extra ones. */
static uint64_t end_of(const struct train *t, uint64_t epoch)
{
    const struct session *s = &t->session;
    return s->sync ? s->step : epoch * s->settings.batches_per_epoch;
}

/* Remember the epoch for summary.json. Without memory it is not there: training is not what fails. */
static void note_epoch(struct train *t, uint64_t epoch, double now_s)
{
    struct train_result *r = t->result;
    while (r->epochs && r->history[r->epochs - 1].epoch > epoch)
        r->epochs--; /* a rollback went behind it */
    if (r->epochs == 0 || r->history[r->epochs - 1].epoch != epoch) {
        struct train_epoch *grown = mem_resize(r->history, r->epochs + 1, sizeof *grown);
        if (!grown)
            return;
        r->history = grown;
        r->epochs++;
    }
    r->history[r->epochs - 1] =
        (struct train_epoch){.epoch = epoch,
                             .step = end_of(t, epoch),
                             .seconds = now_s - t->began_s - t->evaluation_s,
                             .has_eval = t->evaluator != NULL,
                             .eval = r->eval};
}

/* No step from this one on is wanted. The generation goes with it: where microbatches are trained again, another one may
 * end at another step. */
static void say_enough(struct train *t)
{
    uint64_t *generation = mem_zalloc(1, sizeof *generation);
    if (!generation) {
        stop(t, 138, "no memory to end the training");
        return;
    }
    *generation = t->session.generation.number;
    control_post(t->control, CONTROL_ENOUGH, t->session.step, generation, mem_free);
}

/* Keep it if it is the best; end the job if none was better for too long. */
static void look_at(struct train *t, uint64_t epoch, const struct evaluation *eval)
{
    const struct job *job = t->config.job;
    struct best *best = t->config.best;
    struct errmsg e = {""};
    if (t->enough_epoch)
        return; /* async: the last batches on their way do not count */
    if (best_see(best, epoch, eval, learned(t), &e))
        log_warn("epoch %" PRIu64 " is the best, and could not be kept: %s", epoch, e.text);
    if (epoch >= job->training.epochs || !best_stops(best, epoch))
        return;
    log_info("epoch %" PRIu64
             ": no better evaluation for %u epochs, the best was that of epoch %" PRIu64 ": enough",
             epoch, job->early_stopping.patience, best->epoch);
    t->enough_epoch = epoch;
    t->enough_step = t->session.step;
    session_stop_at(&t->session, t->enough_step);
    say_enough(t);
}

/* What this process computed last: the mean over the examples of its own leaves. */
static struct events_values last_gradient(struct train *t, const float **block)
{
    uint32_t nodes, examples = 0;
    const struct gradient_node *node = gradient_nodes(t->gradient, &nodes);
    for (uint32_t i = 0; i < nodes; i++) {
        block[i] = node[i].value;
        examples += node[i].examples;
    }
    return (struct events_values){block, examples ? nodes : 0, examples ? 1.0 / examples : 0};
}

static void end_epoch(struct train *t, uint64_t epoch)
{
    double began = clock_now_s();
    const float *block[GRADIENT_NODES_MAX];
    const struct events_values gradient = last_gradient(t, block);
    curves_epoch(t->config.curves, end_of(t, epoch), t->w, &gradient, t->pool, began);
    t->evaluation_s += clock_now_s() - began;
    const struct evaluation *eval = evaluate(t);
    double now_s = clock_now_s();
    curves_paused(t->config.curves, now_s - began);
    progress_epoch(&t->progress, epoch, eval, now_s);
    note_epoch(t, epoch, now_s);
    if (eval)
        curves_evaluated(t->config.curves, end_of(t, epoch), eval);
    if (eval)
        look_at(t, epoch, eval);
}

bool train_restores_best(const struct train_config *config)
{
    return config->best && config->best->has && config->job->early_stopping.restore_best_weights;
}

/* The best epoch's weights instead of the last ones. */
static enum err restore_best(struct train *t, struct errmsg *e)
{
    if (!train_restores_best(&t->config))
        return ERR_OK;
    t->result->eval = t->config.best->eval;
    return best_read(t->config.best, learned(t), e);
}

/* Then the chief may be the slow one, and see some steps only. */
static bool has_backups(const struct session *s)
{
    return s->settings.replicas_to_aggregate > 0;
}

static void finish(struct train *t)
{
    struct errmsg e = {""};
    close_account(t); /* the chief's own: what follows is no training */
    bool all_seen = t->session.sync && !has_backups(&t->session);
    if (!all_seen && t->began_s > 0) /* others may have learned longer than the chief */
        t->result->train_s = clock_now_s() - t->began_s - t->evaluation_s;
    t->finish_asked = false;
    if (restore_best(t, &e) || train_export(&t->config, learned(t), t->result->digest, &e)) {
        stop(t, 1, e.text);
        return;
    }
    control_post(t->control, CONTROL_FINISHED, t->session.step, NULL, NULL);
}

/* The chief's other work, between two tasks: epochs' ends, and the end. */
static void chief_between(struct train *t)
{
    struct session *s = &t->session;
    if (s->phase != SESSION_READY)
        return;
    if (s->sync) {
        struct session_place place = session_place(s);
        if (s->step && place.steps == 0 && t->evaluated_step != s->step) {
            if (!averages_are_here(t))
                return;
            t->evaluated_step = s->step;
            end_epoch(t, place.epochs);
            if (s->settings.redo && s->step >= s->total)
                say_enough(t);
            control_post(t->control, CONTROL_STEP, s->step, NULL, NULL);
        }
        if (t->finish_asked && s->step >= s->total)
            finish(t);
        return;
    }
    if (t->finish_asked && session_is_final(s)) {
        if (!averages_are_here(t))
            return;
        end_epoch(t, t->enough_epoch ? t->enough_epoch : t->config.job->training.epochs);
        finish(t);
    } else if (t->evaluate_asked && !t->finish_asked && !t->enough_epoch &&
               !t->result->digest[0] && /* what is exported was the last to be evaluated */
               averages_are_here(t)) {
        t->evaluate_asked = false;
        end_epoch(t, t->epoch_asked);
    }
}

/* ---- the step ---- */

static void tell_loader(struct train *t, const struct session_task *task)
{
    const struct session *s = &t->session;
    uint32_t first = task->first[0], leaves = 0;
    for (uint32_t i = 0; i < task->runs; i++)
        leaves = task->first[i] + task->count[i] - first;
    if (task->work && task->work->redo)
        return; /* gathered as they are asked for; what is expected is the next epoch */
    uint64_t end = s->settings.epochs * s->settings.batches_per_epoch;
    if (s->sync && s->total < end)
        end = s->total;
    if (!s->sync)
        end = s->lease.n && s->lease.range[0].first == task->batch + 1
                  ? task->batch + 1 + s->lease.range[0].count
                  : task->batch + 1;
    if (task->batch != t->want_id || end != t->want_end || first != t->want_first ||
        leaves != t->want_leaves)
        loader_want(t->loader, task->batch, end, first, leaves);
    t->want_id = task->batch + 1;
    t->want_end = end;
    t->want_first = first;
    t->want_leaves = leaves;
}

/* For people: where in its epoch the step stands that was made. */
static struct session_place place_of(const struct session *s, uint64_t made)
{
    uint64_t per_epoch = s->settings.batches_per_epoch;
    struct session_place here = session_place(s);
    uint64_t begin = s->step - here.steps;
    if (!s->settings.redo)
        return (struct session_place){made / per_epoch, made % per_epoch, per_epoch};
    if (made >= begin)
        return (struct session_place){here.epochs, made - begin, here.of};
    return (struct session_place){here.epochs - 1, per_epoch - 1, per_epoch};
}

static void count_step(struct train *t, double now_s)
{
    struct session *s = &t->session;
    struct model_sums sums = {0};
    uint64_t id;
    if (s->sync) {
        bool seen = s->sums.valid && s->sums.step != t->seen_step;
        if (!seen && (!has_backups(s) || s->phase != SESSION_READY || s->step == 0))
            return;
        id = seen ? s->sums.step : s->step - 1; /* the others made it without me */
        if (seen) {
            t->seen_step = id;
            sums.examples = s->sums.examples;
            sums.loss = s->sums.loss;
            memcpy(sums.metric, s->sums.metric, sizeof sums.metric);
        }
    } else {
        sums = gradient_sums(t->gradient);
        id = s->running;
    }
    t->result->steps++;
    t->result->examples += sums.examples;
    meter_step(&t->meter, id, sums.examples > 0 ? sums.loss / sums.examples : NAN);
    t->result->train_s = now_s - t->began_s - t->evaluation_s;
    if (!t->config.cluster->is_chief)
        return;
    if (isnan(t->result->first_step_s))
        t->result->first_step_s = now_s - t->progress.started_s;
    struct session_place place = place_of(s, id);
    progress_step(&t->progress, &sums, place.epochs + 1, place.steps + 1, place.of, now_s);
    curves_step(t->config.curves, id + 1, &sums, now_s);
    int64_t now_ms = (int64_t)(now_s * 1000);
    if (session_place(s).steps == 0)
        return; /* told behind the evaluation: with backup workers the others wait for that */
    if (s->sync && now_ms - t->told_ms >= STEP_LETTER_MS) {
        t->told_ms = now_ms;
        control_post(t->control, CONTROL_STEP, s->step, NULL, NULL);
    }
}

/* Async with clipping or the NaN guard: nothing of a batch leaves before all of it is known. A straggler sends when it
 * has slept. */
static bool holds_back(const struct train *t)
{
    const Gradwire__Settings *s = &t->session.settings;
    return t->local || (!t->session.sync && (s->clip_norm > 0 || s->nan_guard != NAN_GUARD_OFF)) ||
           fault_delays(&t->config.fault);
}

/* Elements [from, to) of a node are final: ranges come from the end of the block. */
static void on_range(void *ctx, struct gradient_node *n, uint64_t from, uint64_t to)
{
    struct train *t = ctx;
    if (from == 0 && fault_breaks(&t->config.fault, t->task_name))
        n->value[0] = NAN;
    if (!t->held)
        links_range(t->links, n, from, to);
}

/* The straggler's sleep: nothing else happens on this thread, as if it computed. */
static void straggle(struct train *t, double took_s)
{
    double s = fault_sleep_s(&t->config.fault, took_s);
    struct timespec time = {(time_t)s, (long)((s - floor(s)) * 1e9)};
    while (s > 0 && nanosleep(&time, &time) && errno == EINTR)
        ;
}

/* Async: false if this batch must not leave at all; the chief then ends the job, or starts a new generation. */
static bool guard(struct train *t, struct gradient_node *n)
{
    const Gradwire__Settings *s = &t->session.settings;
    const struct guard g = {model_layout(t->config.model), &t->session.plan, s->clip_norm};
    char what[160];
    bool skips = session_skips(&t->session);
    if (!skips && s->nan_guard != NAN_GUARD_OFF && guard_finds(&g, n, what, sizeof what)) {
        log_warn("batch %" PRIu64 ": %s", t->task_name, what);
        session_reject(&t->session, what);
        if (s->nan_guard != NAN_GUARD_SKIP)
            return false;
        skips = true;
    }
    if (skips)
        guard_empty(&g, n);
    n->clipped = guard_clip(&g, n);
    return true;
}

static bool let_out(struct train *t)
{
    uint32_t nodes;
    struct gradient_node *node = gradient_nodes(t->gradient, &nodes);
    for (uint32_t i = 0; i < nodes; i++) {
        if (!t->session.sync && !guard(t, &node[i]))
            return false;
        if (t->local)
            local_step(t->local, t->w, &node[i], t->task_name,
                       t->task_name / t->session.settings.batches_per_epoch);
        else
            links_range(t->links, &node[i], 0, model_layout(t->config.model)->elems);
    }
    return true;
}

/* False: nothing was pushed. */
static bool step(struct train *t, const struct session_task *task)
{
    double began_s = clock_now_s();
    if (t->began_s == 0)
        t->began_s = began_s;
    t->held = holds_back(t);
    t->task_name = task->name;
    tell_loader(t, task);
    links_before_write(t->links);
    links_begin(t->links, task, order_batch_rows(t->config.order, task->batch));
    struct errmsg e = {""};
    enum err err = gradient_compute(t->gradient, task, t->w, on_range, t, &e);
    if (err) {
        stop(t, err_exit_code(err), e.text);
        return false;
    }
    straggle(t, clock_now_s() - began_s);
    t->computed_s = clock_now_s();
    if (t->held && !let_out(t))
        return false;
    struct chief_account *a = &t->result->account;
    a->tasks++;
    a->examples += gradient_sums(t->gradient).examples;
    a->computed_s += clock_now_s() - began_s;
    links_end(t->links);
    session_computed(&t->session);
    t->pushed_s = clock_now_s();
    metrics_observe(&t->meter.phase[METER_COMPUTE], t->computed_s - began_s);
    if (!t->local)
        metrics_observe(&t->meter.phase[METER_PUSH], t->pushed_s - t->computed_s);
    meter_task(&t->meter, gradient_sums(t->gradient).examples);
    return true;
}

/* Geo: what the parameters have moved goes to all shards; async: what was withheld. */
static void push_round(struct train *t, const struct session_task *task)
{
    links_before_write(t->links);
    links_begin(t->links, task, 0);
    t->computed_s = clock_now_s();
    if (t->local)
        local_round(t->local, t->w, task->divisor);
    for (uint32_t i = 0; i < t->session.plan.shards; i++)
        if (session_may_stream(&t->session, i))
            links_push_round(t->links, i);
    session_computed(&t->session);
    t->pushed_s = clock_now_s();
    metrics_observe(&t->meter.phase[METER_PUSH], t->pushed_s - t->computed_s);
}

static void say_waiting(struct train *t)
{
    char text[200];
    int64_t now = clock_now_ms();
    if (now - t->moved_ms < SAY_WAIT_MS || t->session.phase < SESSION_PULLING)
        return;
    session_waits_for(&t->session, text, sizeof text);
    log_info("%s for %" PRId64 " s", text, (now - t->moved_ms) / 1000);
    t->moved_ms = now;
}

static void on_tick(void *arg)
{
    say_waiting(arg);
}

/* The replies are here, or a new generation has made them needless. */
static void end_exchange(struct train *t, double now_s)
{
    uint64_t out, in;
    struct codec_cost push, reply;
    metrics_observe(&t->meter.phase[METER_WAIT], now_s - t->pushed_s);
    metrics_observe(&t->meter.push_pull, now_s - t->computed_s);
    links_bytes(t->links, &out, &in);
    meter_bytes(&t->meter, out, in);
    links_costs(t->links, &push, &reply);
    meter_codecs(&t->meter, &push, &reply);
    for (uint32_t i = 0; i < links_shards(t->links); i++)
        meter_push_codec(&t->meter, i, links_codec(t->links, i));
}

void train_run(struct train *t, struct control *control, struct train_result *result)
{
    t->control = control;
    t->result = result;
    bool pushed = false, round = false;
    t->moved_ms = clock_now_ms();
    while (!t->stopped) {
        if (pushed && t->session.phase != SESSION_PUSHED &&
            !(has_backups(&t->session) && t->session.phase == SESSION_PULLING)) {
            pushed = false;
            if (!t->local) /* geo: most tasks are followed by none */
                end_exchange(t, clock_now_s());
            count_step(t, clock_now_s());
            t->moved_ms = clock_now_ms();
        }
        if (round && t->session.phase != SESSION_PUSHED) {
            round = false;
            end_exchange(t, clock_now_s());
        }
        if (t->config.cluster->is_chief)
            chief_between(t);
        struct session_task task = session_task(&t->session);
        if (task.kind == TASK_COMPUTE) {
            pushed = step(t, &task);
        } else if (task.kind == TASK_PUSH) {
            push_round(t, &task);
            round = true;
        } else if (!t->stopped && loop_tick(&t->loop, NULL)) {
            stop(t, 138, "the event loop failed");
        }
    }
    if (!t->accounted) /* told to go in the middle of it */
        close_account(t);
}

/* ---- life ---- */

struct mailbox *train_mailbox(struct train *t)
{
    return &t->in;
}

const struct meter *train_meter(const struct train *t)
{
    return &t->meter;
}

const char *train_welcomed(const struct train *t, uint64_t *generation)
{
    *generation = t->session.generation.number;
    return t->session.uuid;
}

static enum err new_parts(struct train *t, struct errmsg *e)
{
    const struct train_config *c = &t->config;
    const struct job *job = c->job;
    uint32_t threads = job->worker.threads ? job->worker.threads : cores_usable();
    uint32_t rows = job->training.batch_size / job->training.microbatches + 1;
    uint32_t depth = 3 * job->training.microbatches;
    t->w = mem_floats(model_layout(c->model)->elems);
    if (job->optimizer.use_ema && c->cluster->is_chief)
        t->averages = mem_floats(model_layout(c->model)->elems);
    if (!t->w || (job->optimizer.use_ema && c->cluster->is_chief && !t->averages))
        return err_set(e, ERR_NOMEM, "no memory for the parameters");
    enum err err = pool_new(&t->pool, threads, e);
    if (!err)
        err = loader_new(&t->loader, c->data, c->order,
                         depth < LOADER_DEPTH_MIN ? LOADER_DEPTH_MIN : depth, e);
    if (!err)
        err = gradient_new(&t->gradient, c->model, t->pool, t->loader, rows, job->training.seed, e);
    if (!err && c->eval && c->cluster->is_chief)
        err = evaluator_new(&t->evaluator, c->job, c->model, c->eval, t->pool, e);
    if (err)
        return err;
    if (job->training.update == UPDATE_GEO)
        err = local_new(&t->local, model_layout(c->model), &job->optimizer, e);
    if (err)
        return err;
    struct links_config links = {.loop = &t->loop,
                                 .session = &t->session,
                                 .job = job,
                                 .cluster = c->cluster,
                                 .layout = model_layout(c->model),
                                 .w = t->local ? t->local->server : t->w,
                                 .averages = t->averages,
                                 .local = t->local,
                                 .on_refused = on_refused,
                                 .ctx = t};
    return links_new(&t->links, &links, e);
}

enum err train_new(struct train **out, const struct train_config *config, struct errmsg *e)
{
    struct train *t = mem_zalloc(1, sizeof *t);
    if (!t)
        return err_set(e, ERR_NOMEM, "no memory to train");
    t->config = *config;
    t->evaluated_step = t->seen_step = UINT64_MAX;
    session_init(&t->session, &session_io, t);
    t->session.layout = model_layout(config->model);
    meter_init(&t->meter);
    progress_init(&t->progress, config->job, config->progress_fd, clock_now_s());
    enum err err = loop_init(&t->loop);
    if (!err) {
        err = mailbox_init(&t->in, &t->loop, on_letter, t);
        if (err)
            loop_close(&t->loop);
    }
    if (err) {
        mem_free(t);
        return err_set(e, err, "no event loop: %s", err_str(err));
    }
    loop_timer_init(&t->tick, &t->loop, on_tick, t);
    err = loop_timer_every(&t->tick, 1000);
    if (!err)
        err = new_parts(t, e);
    if (err) {
        train_free(t);
        return err;
    }
    *out = t;
    return ERR_OK;
}

void train_free(struct train *t)
{
    if (!t)
        return;
    links_free(t->links);
    evaluator_free(t->evaluator);
    gradient_free(t->gradient);
    local_free(t->local);
    loader_free(t->loader);
    pool_free(t->pool);
    mem_free(t->w);
    mem_free(t->averages);
    session_close(&t->session);
    loop_timer_stop(&t->tick);
    mailbox_close(&t->in);
    loop_close(&t->loop);
    mem_free(t);
}
