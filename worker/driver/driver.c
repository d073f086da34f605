#include "worker/driver/driver.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/peers/dial.h"
#include "common/peers/hello.h"
#include "worker/driver/guard.h"
#include "worker/driver/links.h"
#include "worker/driver/local.h"
#include "worker/core/unreached.h"

/* The push that is not answered yet. */
enum exchange { EXCHANGE_NONE, EXCHANGE_TASK, EXCHANGE_ROUND };

struct driver {
    struct driver_config config;
    const struct driver_chief *chief; /* NULL: not the chief */
    void *chief_ctx;
    struct control *control;
    struct driver_result *result;
    struct loop loop;
    struct mailbox in;
    struct loop_timer tick; /* wakes the loop, so that a wait can be logged */
    struct session *session;
    const struct session_terms *terms; /* the session's */
    struct links *links;
    struct unreached unreached;
    bool turned_away;    /* by a shard; the chief has not welcomed us since */
    struct local *local; /* geo; else NULL */
    struct meter meter;

    uint64_t task_name;
    bool held; /* no part of the running task is sent before all of it is computed */
    struct gradient_node *node; /* of the last task */
    uint32_t nodes;
    struct sums sums; /* of the last task */
    enum exchange exchange;

    bool stopped, accounted;
    double first_s; /* when the first task began; 0: none yet */
    double paused_s;
    /* of the running exchange: when its task began, when the gradient was computed, when it was handed over */
    double began_s, computed_s, pushed_s;
    struct patience patience; /* since the end of the last exchange */
};

/* ---- session_io ---- */

static void io_to_shard(void *ctx, uint32_t shard, enum frame_type type, const ProtobufCMessage *m)
{
    struct driver *d = ctx;
    links_send(d->links, shard, type, m);
}

static void io_push_again(void *ctx, uint32_t shard)
{
    struct driver *d = ctx;
    if (session_pushes_round(d->session))
        links_push_round(d->links, shard);
    else
        links_push_again(d->links, shard, d->node, d->nodes);
}

static void io_ask_again(void *ctx, uint32_t shard, enum session_ask which)
{
    struct driver *d = ctx;
    links_ask_again(d->links, shard, which);
}

static void io_to_chief(void *ctx, enum frame_type type, const ProtobufCMessage *m)
{
    struct driver *d = ctx;
    control_send(d->control, type, m);
}

static void io_merge(void *ctx, bool fresh)
{
    struct driver *d = ctx;
    local_merge(d->local, d->config.w, fresh);
}

static bool io_withholds(void *ctx)
{
    struct driver *d = ctx;
    return links_withhold(d->links);
}

static const struct session_io session_io = {
    .withholds = io_withholds,
    .to_shard = io_to_shard,
    .merge = io_merge,
    .push_again = io_push_again,
    .ask_again = io_ask_again,
    .to_chief = io_to_chief,
};

/* ---- the end ---- */

void driver_stop(struct driver *d, int exit_code, const char *text)
{
    if (d->stopped)
        return;
    d->stopped = true;
    d->result->exit_code = exit_code;
    (void)snprintf(d->result->error, sizeof d->result->error, "%s", text);
}

static void on_refused(void *ctx, int exit_code, const char *text)
{
    driver_stop(ctx, exit_code, text);
}

/* Other processes have our work: either the chief did not hear of us for a moment, or another process has our
 * number. The chief decides which. */
static void on_turned_away(void *ctx, uint32_t shard, const char *text)
{
    struct driver *d = ctx;
    if (d->turned_away || d->unreached.park != UNPARKED)
        return;
    d->turned_away = true;
    log_warn("shard %u turned this worker away: %.200s: asking the chief again", shard, text);
    control_post(d->control, CONTROL_TURNED_AWAY, 0, NULL, NULL);
}

static void on_later(void *ctx, uint64_t generation)
{
    struct driver *d = ctx;
    control_post(d->control, CONTROL_GENERATION, generation, NULL, NULL);
}

double driver_trained_s(const struct driver *d, double now_s)
{
    return now_s - d->first_s - d->paused_s;
}

void driver_paused(struct driver *d, double seconds)
{
    d->paused_s += seconds;
}

/* All time that is neither computing nor evaluating counts as waiting. */
static void close_account(struct driver *d)
{
    struct worker_account *a = &d->result->account;
    if (d->first_s > 0)
        a->waited_s = driver_trained_s(d, clock_now_s()) - a->computed_s;
    links_count(d->links, a);
    d->accounted = true;
}

void driver_finish(struct driver *d)
{
    /* with backup workers this one may be slow, and see only some of the steps */
    bool all_seen = d->terms->sync && !d->terms->backups;
    close_account(d);
    if (!all_seen && d->first_s > 0) /* other workers may have trained longer than this one */
        d->result->train_s = driver_trained_s(d, clock_now_s());
}

/* ---- letters ---- */

/* The chief's learning rate holds, not that of this worker's job file. */
static enum err adopt_optimizer(struct local *l, const Gradwire__Settings *m, struct errmsg *e)
{
    struct optimizer o = l->optimizer;
    enum err err = msg_optimizer_get(m, &o, e);
    if (!err &&
        (o.kind != l->optimizer.kind || optimizer_slots(&o) != optimizer_slots(&l->optimizer)))
        err = err_set(e, ERR_PROTO, "the chief's optimizer is another one than this worker's");
    if (!err)
        local_reset(l, &o);
    return err;
}

static enum err adopt_welcome(struct driver *d, const Gradwire__Settings *m, struct errmsg *e)
{
    const struct session_terms *s = d->terms;
    const struct driver_config *config = &d->config;
    if (s->plan.elems != config->layout->elems)
        return err_set(e, ERR_INPUT,
                       "the chief's model has %" PRIu64 " parameters, this worker's %" PRIu64,
                       s->plan.elems, config->layout->elems);
    if (s->settings.batches_per_epoch != config->batches_per_epoch)
        return err_set(e, ERR_INPUT,
                       "the chief's data make %" PRIu64 " batches an epoch, this worker's %" PRIu64
                       ": data.train must name the same data everywhere",
                       (uint64_t)s->settings.batches_per_epoch, config->batches_per_epoch);
    log_info("generation %" PRIu64 ": %u shards on %u ps, %u microbatches, %u threads",
             s->generation.number, s->plan.shards, config->cluster->n_ps, s->leaves,
             config->threads);
    meter_welcome(&d->meter, s->generation.number, s->incarnation);
    enum err err = d->local ? adopt_optimizer(d->local, m, e) : ERR_OK;
    if (err)
        return err;
    if (d->chief)
        d->chief->welcomed(d->chief_ctx);
    return links_restart(d->links, e);
}

static void on_welcome(struct driver *d, const Gradwire__Welcome *m)
{
    struct errmsg e = {""};
    bool anew;
    enum err err = session_on_welcome(d->session, m, &anew, &e);
    d->turned_away = false;
    unreached_welcomed(&d->unreached);
    if (!err && anew)
        err = adopt_welcome(d, m->settings, &e);
    if (err)
        driver_stop(d, err_exit_code(err), e.text);
    else
        session_on_chief_up(d->session);
}

static void on_done(struct driver *d, const Gradwire__Done *m)
{
    Gradwire__DoneAck ack = GRADWIRE__DONE_ACK__INIT;
    close_account(d);
    const struct worker_account *a = &d->result->account;
    ack.worker = d->terms->worker;
    ack.tasks = a->tasks;
    ack.examples = a->examples;
    ack.computed_s = a->computed_s;
    ack.waited_s = a->waited_s;
    ack.bytes_out = a->bytes_out;
    ack.bytes_in = a->bytes_in;
    Gradwire__CodecCost push = msg_codec_cost(&a->push), reply = msg_codec_cost(&a->reply);
    ack.push = &push;
    ack.reply = &reply;
    control_send(d->control, FRAME_DONE_ACK, &ack.base);
    driver_stop(d, m->exit_code, m->text);
}

static void on_chief(struct driver *d, enum frame_type type, const ProtobufCMessage *m)
{
    if (type == FRAME_WELCOME) {
        on_welcome(d, (const Gradwire__Welcome *)m);
        return;
    }
    if (type == FRAME_PARK) {
        unreached_park(&d->unreached, clock_now_ms());
        if (d->chief)
            d->chief->parked(d->chief_ctx);
        return;
    }
    session_on_chief(d->session, type, m);
    if (type == FRAME_DONE)
        on_done(d, (const Gradwire__Done *)m);
    else if (session_may_leave(d->session))
        driver_stop(d, 143, "asked to stop: the chief has taken back this worker's batches");
}

static void say_hello(struct driver *d)
{
    Gradwire__Hello m;
    Gradwire__Contents contents;
    struct session_hello room;
    hello_make(&m, d->config.job, d->config.cluster, 0);
    hello_add_contents(&m, &contents, d->config.contents);
    m.blas = (char *)d->config.blas;
    session_hello_chief(d->session, &room, &m);
    m.turned_away = d->turned_away;
    control_send(d->control, FRAME_HELLO, &m.base);
}

static void on_letter(void *arg, struct mail *m)
{
    struct driver *d = arg;
    switch ((enum train_letter)m->type) {
    case TRAIN_CHIEF:
        on_chief(d, (enum frame_type)m->number, m->data);
        break;
    case TRAIN_HELLO:
        if (d->unreached.park != PARKED)
            say_hello(d);
        break;
    case TRAIN_RESTORED:
        if (d->chief)
            d->chief->restored(d->chief_ctx, m->number);
        break;
    case TRAIN_EPOCH:
        if (d->chief)
            d->chief->evaluate(d->chief_ctx, m->number);
        break;
    case TRAIN_FINISH:
        if (d->chief)
            d->chief->finish(d->chief_ctx);
        if (!d->terms->sync)
            session_pull_final(d->session);
        break;
    case TRAIN_PUBLISHED:
        if (d->chief)
            d->chief->published(d->chief_ctx, m->number);
        break;
    case TRAIN_KEPT:
        if (d->chief)
            d->chief->kept(d->chief_ctx, m->data);
        break;
    case TRAIN_NOTED:
        if (d->chief)
            d->chief->noted(d->chief_ctx);
        break;
    case TRAIN_GO:
        session_go(d->session);
        if (session_phase(d->session) == SESSION_NEW)
            driver_stop(d, 143, "asked to stop before training began");
        break;
    case TRAIN_STOP:
        driver_stop(d, (int)m->number, m->data ? m->data : "");
        break;
    }
}

/* ---- a task ---- */

/* Async with clipping or the NaN guard: no part of a batch is sent before all of it is known. A straggler sends
 * after its sleep. With tables the block is sent with the rows, in one write. */
static bool holds_back(const struct driver *d)
{
    const Gradwire__Settings *s = &d->terms->settings;
    return d->local || d->terms->tables ||
           (!d->terms->sync && (s->clip_norm > 0 || nan_guard_refuses(s->nan_guard))) ||
           d->config.delays;
}

void driver_begin(struct driver *d, const struct session_task *task, uint64_t rows)
{
    assert(task->kind == TASK_COMPUTE && d->exchange == EXCHANGE_NONE);
    d->began_s = clock_now_s();
    if (d->first_s == 0)
        d->first_s = d->began_s;
    d->held = holds_back(d);
    d->task_name = task->name;
    links_before_write(d->links);
    links_begin(d->links, task, rows);
}

void driver_range(struct driver *d, struct gradient_node *n, uint64_t from, uint64_t to)
{
    if (!d->held)
        links_range(d->links, n, from, to);
}

/* Async: false if this batch must not be sent at all; the chief then ends the job, or starts a new generation. */
static bool guard(struct driver *d, struct gradient_node *n)
{
    const Gradwire__Settings *s = &d->terms->settings;
    const struct guard g = {d->config.layout, &d->terms->plan, s->clip_norm};
    char what[160];
    bool skips = session_skips(d->session);
    if (!skips && nan_guard_refuses(s->nan_guard) && guard_finds(&g, n, what, sizeof what)) {
        log_warn("batch %" PRIu64 ": %s", d->task_name, what);
        session_reject(d->session, what);
        if (s->nan_guard != NAN_GUARD_SKIP)
            return false;
        skips = true;
    }
    if (skips) {
        guard_empty(&g, n);
        /* nothing was learned, so it counts neither in a curve nor in the rate */
        d->sums = (struct sums){0};
    }
    n->clipped = guard_clip(&g, n);
    return true;
}

/* nan_guard: check. The loss is computed anyway, so checking it costs nothing; its cause is searched only if it is
 * not finite. False: nothing more of the task is sent, and the chief ends the job. */
static bool check_loss(struct driver *d)
{
    const struct guard g = {d->config.layout, &d->terms->plan, 0};
    char what[192];
    if (d->terms->settings.nan_guard != NAN_GUARD_CHECK || isfinite(d->sums.loss))
        return true;
    guard_blame(&g, d->config.w, d->node, d->nodes, what, sizeof what);
    log_warn("%s %" PRIu64 ": %s", d->terms->sync ? "step" : "batch", d->task_name, what);
    session_reject(d->session, what);
    return false;
}

static bool let_out(struct driver *d, const struct driver_ask *next)
{
    for (uint32_t i = 0; i < d->nodes; i++) {
        struct gradient_node *n = &d->node[i];
        if (!d->terms->sync && !guard(d, n))
            return false;
        if (d->local)
            local_step(d->local, d->config.w, n, d->task_name,
                       d->task_name / d->terms->settings.batches_per_epoch);
        else if (!d->terms->tables)
            links_range(d->links, n, 0, d->config.layout->elems);
    }
    if (d->terms->tables)
        links_push_all(d->links, d->node, d->nodes, next ? next->rows : NULL);
    return true;
}

/* All that can be sent now is sent, or queued. */
static void handed_over(struct driver *d, enum exchange exchange)
{
    session_computed(d->session);
    d->pushed_s = clock_now_s();
    d->exchange = exchange;
    assert(!session_exchanges(d->session) ||
           (exchange == EXCHANGE_ROUND) == session_pushes_round(d->session));
}

void driver_push(struct driver *d, struct gradient_node *node, uint32_t nodes,
                 const struct sums *sums, const struct driver_ask *next)
{
    d->computed_s = clock_now_s();
    d->node = node;
    d->nodes = nodes;
    d->sums = *sums;
    if (next)
        session_ask_task(d->session, &next->task);
    if (!check_loss(d) || (d->held && !let_out(d, next)))
        return;
    struct worker_account *a = &d->result->account;
    a->tasks++;
    a->examples += sums->examples;
    a->computed_s += clock_now_s() - d->began_s;
    links_end(d->links);
    handed_over(d, EXCHANGE_TASK);
    metrics_observe(&d->meter.phase[METER_COMPUTE], d->computed_s - d->began_s);
    if (!d->local)
        metrics_observe(&d->meter.phase[METER_PUSH], d->pushed_s - d->computed_s);
    meter_task(&d->meter, sums->examples);
}

void driver_ask(struct driver *d, const struct session_task *task, struct row_values *v)
{
    session_ask_task(d->session, task);
    links_ask(d->links, ASK_TASK, v);
}

enum err driver_look(struct driver *d, struct row_values *v, struct errmsg *e)
{
    struct generation begun = d->terms->generation;
    /* a new incarnation has no memory of the request */
    const uint64_t incarnation = d->terms->incarnation;
    enum err err = ERR_OK;
    session_ask_look(d->session);
    links_ask(d->links, ASK_LOOK, v);
    while (!err && !session_look_is_here(d->session)) {
        if (loop_tick(&d->loop, NULL))
            err = err_set(e, ERR_IO, "the event loop failed");
        else if (d->stopped || !generation_equal(begun, d->terms->generation) ||
                 incarnation != d->terms->incarnation)
            err = err_set(e, ERR_STATE, "training stopped while rows were read");
    }
    links_forget(d->links, ASK_LOOK);
    return err;
}

/* Geo: push the parameters' moves to all shards; async: push what was withheld. */
static void push_round(struct driver *d, const struct session_task *task)
{
    links_before_write(d->links);
    links_begin(d->links, task, 0);
    d->computed_s = clock_now_s();
    if (d->local)
        local_round(d->local, d->config.w, task->part);
    for (uint32_t i = 0; i < d->terms->plan.shards; i++)
        if (session_may_stream(d->session, i))
            links_push_round(d->links, i);
    handed_over(d, EXCHANGE_ROUND);
    metrics_observe(&d->meter.phase[METER_PUSH], d->pushed_s - d->computed_s);
}

/* ---- the replies ---- */

static void count_step(struct driver *d, double now_s)
{
    struct session_made made;
    if (!session_take_made(d->session, &made))
        return;
    const struct sums *sums = made.own ? &d->sums : &made.sums;
    uint64_t id = made.own ? d->task_name : made.id;
    d->result->steps++;
    d->result->examples += sums->examples;
    meter_step(&d->meter, id, sums->examples > 0 ? sums->loss / sums->examples : NAN);
    d->result->train_s = driver_trained_s(d, now_s);
    if (d->chief)
        d->chief->step(d->chief_ctx, id, sums, now_s);
}

static void count_exchange(struct driver *d, double now_s)
{
    struct worker_account a;
    metrics_observe(&d->meter.phase[METER_WAIT], now_s - d->pushed_s);
    metrics_observe(&d->meter.push_pull, now_s - d->computed_s);
    links_count(d->links, &a);
    meter_bytes(&d->meter, a.bytes_out, a.bytes_in);
    meter_codecs(&d->meter, &a.push, &a.reply);
    for (uint32_t i = 0; i < d->terms->plan.shards; i++)
        meter_push_codec(&d->meter, i, links_codec(d->links, i));
}

/* The replies have arrived, or a new generation has made them unnecessary. */
static void end_exchange(struct driver *d)
{
    enum exchange over = d->exchange;
    if (over == EXCHANGE_NONE || session_exchanges(d->session))
        return;
    d->exchange = EXCHANGE_NONE;
    if (over == EXCHANGE_ROUND || !d->local) /* geo: most tasks have no exchange */
        count_exchange(d, clock_now_s());
    if (over == EXCHANGE_ROUND)
        return;
    count_step(d, clock_now_s());
    patience_begin(&d->patience, clock_now_ms());
}

static void say_unreached(struct driver *d, const struct unreached_seen *seen)
{
    Gradwire__Unreached m = GRADWIRE__UNREACHED__INIT;
    Gradwire__Generation g = msg_generation(d->terms->generation);
    m.generation = &g;
    m.any = seen->any;
    m.ps = seen->ps;
    m.away_ms = (uint64_t)seen->away_ms;
    if (seen->any)
        log_info("ps %u has not been reachable for %.0f s", seen->ps, (double)seen->away_ms / 1000);
    control_send(d->control, FRAME_UNREACHED, &m.base);
}

/* If the chief's own worker cannot reach a ps, the chief itself ends the job. */
static void give_up(struct driver *d, const struct unreached_seen *seen)
{
    char text[400];
    const char *why = links_why_away(d->links, seen->ps);
    if (d->chief)
        return;
    (void)snprintf(text, sizeof text,
                   "ps %u could not be reached for %u s (timeouts.ps_rejoin_s)%s%.300s", seen->ps,
                   d->config.job->timeouts.ps_rejoin_s, why[0] ? ": " : "", why);
    driver_stop(d, 138, text);
}

/* Report a ps that cannot be reached to the chief, which may give the work to others. A parked worker returns when
 * it reaches all. */
static void look_at_links(struct driver *d, int64_t now)
{
    struct unreached_seen seen;
    switch (unreached_look(&d->unreached, &d->terms->plan, now, d->config.job->timeouts.ps_rejoin_s,
                           DIAL_WAIT_MAX_MS, &seen)) {
    case UNREACHED_NOTHING:
        break;
    case UNREACHED_TELL:
        say_unreached(d, &seen);
        break;
    case UNREACHED_BACK:
        control_post(d->control, CONTROL_REACHED, 0, NULL, NULL);
        break;
    case UNREACHED_GIVE_UP:
        give_up(d, &seen);
        break;
    }
}

static void on_tick(void *arg)
{
    struct driver *d = arg;
    char text[200];
    int64_t now = clock_now_ms(), waited_s;
    if (d->control && !d->stopped)
        look_at_links(d, now);
    if (session_phase(d->session) < SESSION_PULLING || !patience_over(&d->patience, now, &waited_s))
        return;
    session_waits_for(d->session, text, sizeof text);
    log_info("%s for %" PRId64 " s", text, waited_s);
}

void driver_start(struct driver *d, struct control *control, const struct driver_chief *chief,
                  void *ctx, struct driver_result *result)
{
    d->control = control;
    d->chief = chief;
    d->chief_ctx = ctx;
    d->result = result;
    patience_begin(&d->patience, clock_now_ms());
}

static void wait_for_news(struct driver *d)
{
    if (!d->stopped && loop_tick(&d->loop, NULL))
        driver_stop(d, 138, "the event loop failed");
}

bool driver_next(struct driver *d, struct session_task *task)
{
    while (!d->stopped) {
        end_exchange(d);
        bool waits = d->chief && !d->chief->between(d->chief_ctx);
        if (waits || d->stopped) { /* an evaluation can fail */
            wait_for_news(d);
            continue;
        }
        *task = session_task(d->session);
        if (task->kind == TASK_COMPUTE || task->kind == TASK_ROWS)
            return true;
        if (task->kind == TASK_PUSH)
            push_round(d, task);
        else
            wait_for_news(d);
    }
    if (!d->accounted) /* stopped by a signal during the run */
        close_account(d);
    return false;
}

/* ---- life ---- */

struct mailbox *driver_mailbox(struct driver *d)
{
    return &d->in;
}

struct meter *driver_meter(struct driver *d)
{
    return &d->meter;
}

struct session *driver_session(struct driver *d)
{
    return d->session;
}

struct control *driver_control(struct driver *d)
{
    return d->control;
}

static enum err new_parts(struct driver *d, struct errmsg *e)
{
    const struct driver_config *c = &d->config;
    const struct job *job = c->job;
    enum err err = ERR_OK;
    if (job->training.update == UPDATE_GEO)
        err = local_new(&d->local, c->layout, &job->optimizer, e);
    if (err)
        return err;
    struct links_config links = {.loop = &d->loop,
                                 .session = d->session,
                                 .job = job,
                                 .cluster = c->cluster,
                                 .layout = c->layout,
                                 .w = d->local ? d->local->server : c->w,
                                 .averages = c->averages,
                                 .unreached = &d->unreached,
                                 .local = d->local,
                                 .on_refused = on_refused,
                                 .on_turned_away = on_turned_away,
                                 .on_later = on_later,
                                 .ctx = d};
    return links_new(&d->links, &links, e);
}

enum err driver_new(struct driver **out, const struct driver_config *config, struct errmsg *e)
{
    struct driver *d = mem_zalloc(1, sizeof *d);
    if (!d)
        return err_set(e, ERR_NOMEM, "no memory to train");
    d->config = *config;
    d->meter.loss = NAN;
    if (session_new(&d->session, &session_io, d, config->layout)) {
        mem_free(d);
        return err_set(e, ERR_NOMEM, "no memory to train");
    }
    d->terms = session_terms(d->session);
    enum err err = loop_init(&d->loop);
    if (err)
        goto no_loop;
    err = mailbox_init(&d->in, &d->loop, on_letter, d);
    if (err)
        goto no_mailbox;
    loop_timer_init(&d->tick, &d->loop, on_tick, d);
    err = loop_timer_every(&d->tick, 1000);
    if (!err)
        err = new_parts(d, e);
    if (err) {
        driver_free(d);
        return err;
    }
    *out = d;
    return ERR_OK;
no_mailbox:
    loop_close(&d->loop);
no_loop:
    session_free(d->session);
    mem_free(d);
    return err_set(e, err, "no event loop: %s", err_str(err));
}

void driver_free(struct driver *d)
{
    if (!d)
        return;
    links_free(d->links);
    unreached_close(&d->unreached);
    local_free(d->local);
    session_free(d->session);
    loop_timer_stop(&d->tick);
    mailbox_close(&d->in);
    loop_close(&d->loop);
    mem_free(d);
}
