#include "worker/chief/core/chief.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/uuid.h"
#include "worker/chief/core/chief_state.h"

void chief_say(struct chief *c, int warning, const char *fmt, ...)
{
    char text[400];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    c->io->say(c->ctx, warning, text);
}

void chief_all_ps(struct chief *c, enum frame_type type, const ProtobufCMessage *m)
{
    for (uint32_t i = 0; i < c->config.ps; i++)
        if (c->ps[i].up)
            c->io->to_ps(c->ctx, i, type, m);
}

/* Steps, or ids of batches. Where dropped microbatches are trained in extra steps only the last epoch's end shows how
 * many there are (chief_enough): no more than these. */
static uint64_t wanted(const struct chief_config *config)
{
    uint64_t batches = config->settings.epochs * config->settings.batches_per_epoch;
    return config->settings.redo ? 2 * batches : batches;
}

enum err chief_new(struct chief **out, const struct chief_config *config, const struct chief_io *io,
                   void *ctx, int64_t now_ms, struct errmsg *e)
{
    struct optimizer optimizer;
    enum err err = msg_optimizer_get(&config->settings, &optimizer, e);
    if (err)
        return err;
    struct chief *c = mem_zalloc(1, sizeof *c);
    if (c) {
        c->config = *config;
        c->io = io;
        c->ctx = ctx;
        c->now_ms = c->started_ms = c->said_ms = now_ms;
        c->sync = config->settings.update == GRADWIRE__UPDATE__SYNC;
        c->ssp = config->settings.update == GRADWIRE__UPDATE__SSP;
        c->geo = config->settings.update == GRADWIRE__UPDATE__GEO;
        c->retires = c->ssp || c->geo;
        c->feedback = config->settings.push_codec == CODEC_TOP_K;
        c->holds = !c->sync || c->feedback;
        c->slots =
            config->settings.update == GRADWIRE__UPDATE__GEO ? 0 : optimizer_slots(&optimizer);
        c->lamb = optimizer_is_trusted(&optimizer);
        c->total = wanted(config);
        c->usable_below = c->unsettled = UINT64_MAX;
        c->published_cut = UINT64_MAX;
        c->ps = mem_zalloc(config->ps, sizeof *c->ps);
        c->threads = mem_zalloc(config->ps, sizeof *c->threads);
        gradwire__plan__init(&c->plan_message);
    }
    if (!c || !c->ps || !c->threads ||
        (config->journal && journal_copy(&c->journal, config->journal)) ||
        (config->workers && !chief_worker(c, config->workers - 1))) {
        chief_free(c);
        return err_set(e, ERR_NOMEM, "no memory for a cluster of %u ps and %u workers", config->ps,
                       config->workers);
    }
    for (uint32_t i = 0; i < config->ps; i++)
        c->ps[i].lost_ms = now_ms;
    for (uint32_t i = 0; i < config->workers; i++)
        c->worker[i].member = true;
    *out = c;
    return ERR_OK;
}

void chief_free(struct chief *c)
{
    if (!c)
        return;
    for (uint32_t i = 0; c->ps && i < c->config.ps; i++)
        msg_free(c->ps[i].hello ? &c->ps[i].hello->base : NULL);
    members_close(c);
    commit_close(c);
    stale_forget(c);
    journal_close(&c->journal);
    msg_plan_close(&c->plan_message);
    plan_close(&c->plan);
    manifest_close(&c->base);
    mem_free(c->redo_place.dropped);
    mem_free(c->ps);
    mem_free(c->threads);
    mem_free(c->shard);
    mem_free(c);
}

uint64_t chief_steps(const struct chief *c)
{
    return c->sync ? c->step : c->done.count;
}

/* ---- the end ---- */

void chief_end(struct chief *c, int exit_code, const char *text)
{
    if (c->phase == CHIEF_ENDED)
        return;
    c->phase = CHIEF_ENDED;
    c->io->ended(c->ctx, exit_code, text);
}

static void send_done(struct chief *c, int exit_code, const char *text, bool to_ps)
{
    Gradwire__Done m = GRADWIRE__DONE__INIT;
    Gradwire__Over over = GRADWIRE__OVER__INIT;
    m.exit_code = exit_code;
    m.text = (char *)text;
    m.over = exit_code ? NULL : &over;
    over.epochs = c->config.finished ? c->config.learned_epochs : epochs_learned(c->epoch);
    over.run = (char *)(c->config.run ? c->config.run : "");
    for (uint32_t i = 1; i < c->workers && !to_ps; i++)
        if (c->worker[i].up)
            c->io->to_worker(c->ctx, i, FRAME_DONE, &m.base);
    if (to_ps)
        chief_all_ps(c, FRAME_DONE, &m.base);
}

void chief_fail(struct chief *c, const char *fmt, ...)
{
    if (c->phase == CHIEF_ENDED)
        return;
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(c->failed, sizeof c->failed, fmt, args);
    va_end(args);
    int told = c->config.finished ? 0 : 1; /* who is there is to know that the job is done */
    send_done(c, told, c->failed, false);
    send_done(c, told, c->failed, true);
    chief_end(c, 1, c->failed);
}

/* Everything is on disk: workers confirm first, ps serve until then. */
static void chief_done(struct chief *c)
{
    c->awaits_evaluator = false;
    c->phase = CHIEF_DONE;
    c->done_ms = c->now_ms;
    send_done(c, 0, "", false);
}

/* The evaluator has the last word, within its bound. */
void chief_final(struct chief *c)
{
    if (c->config.evaluator_s == 0) {
        chief_done(c);
    } else if (c->phase == CHIEF_FINISH) {
        c->awaits_evaluator = true;
        c->final_ms = c->final_ms ? c->final_ms : c->now_ms;
        c->io->await_evaluator(c->ctx, c->published_cut);
    }
}

void chief_on_judged(struct chief *c, uint64_t cut, int64_t now_ms)
{
    c->now_ms = now_ms;
    if (c->awaits_evaluator && c->phase == CHIEF_FINISH && cut == c->published_cut)
        chief_done(c);
}

static void check_evaluator(struct chief *c)
{
    if (!c->awaits_evaluator || c->phase != CHIEF_FINISH)
        return;
    int64_t ms = c->now_ms - c->final_ms;
    if (c->going) {
        chief_end(c, 143,
                  "told to go: the final checkpoint is published, the evaluator has not "
                  "looked at it");
    } else if (ms > (int64_t)c->config.evaluator_s * 1000) {
        chief_say(c, 1,
                  "the evaluator has no result for the final checkpoint, cut %" PRIu64
                  ", after %u s (timeouts.evaluator_s): the job ends without",
                  c->published_cut, c->config.evaluator_s);
        chief_done(c);
    } else if (c->now_ms - c->said_ms >= CHIEF_SAY_WAIT_MS) {
        chief_say(c, 0,
                  "waiting %" PRId64 " s for the evaluator's result of the final checkpoint, cut "
                  "%" PRIu64,
                  ms / 1000, c->published_cut);
        c->said_ms = c->now_ms;
    }
}

static void done_progress(struct chief *c)
{
    if (c->phase == CHIEF_DONE) {
        for (uint32_t i = 1; i < c->workers; i++)
            if (c->worker[i].up && !c->worker[i].acked && c->now_ms - c->done_ms < CHIEF_DONE_MS)
                return;
        c->phase = CHIEF_DONE_PS;
        c->done_ms = c->now_ms;
        send_done(c, 0, "", true);
    }
    if (c->phase == CHIEF_DONE_PS) {
        for (uint32_t i = 0; i < c->config.ps; i++)
            if (c->ps[i].up && !c->ps[i].told && c->now_ms - c->done_ms < CHIEF_DONE_PS_MS)
                return;
        chief_end(c, 0, "");
    }
}

/* ---- starting a generation ---- */

static void make_uuid(struct chief *c)
{
    uint64_t a = c->io->random(c->ctx), b = c->io->random(c->ctx);
    uuid_make(c->uuid, a, b);
}

static bool all_ps_agree(const struct chief *c)
{
    for (uint32_t i = 0; i < c->config.ps; i++)
        if (!c->ps[i].entered || !generation_equal(c->ps[i].generation, c->ps[0].generation) ||
            strcmp(c->ps[i].uuid, c->ps[0].uuid) != 0)
            return false;
    return true;
}

static void next_generation(struct chief *c)
{
    uint64_t largest = c->generation.number;
    for (uint32_t i = 0; i < c->config.ps; i++) {
        if (c->ps[i].generation.number > largest)
            largest = c->ps[i].generation.number;
        if (c->ps[i].next_cut > c->next_cut)
            c->next_cut = c->ps[i].next_cut;
    }
    if (c->has_base && c->base.generation > largest)
        largest = c->base.generation;
    if (c->has_base && c->base.cut + 1 > c->next_cut)
        c->next_cut = c->base.cut + 1;
    c->generation = (struct generation){largest + 1, c->io->random(c->ctx)};
}

static bool take_plan(struct chief *c)
{
    struct errmsg e = {""};
    plan_close(&c->plan);
    msg_plan_close(&c->plan_message);
    mem_free(c->shard);
    c->shard = NULL;
    stale_forget(c);
    for (uint32_t i = 0; i < c->config.ps; i++)
        c->threads[i] = c->ps[i].threads;
    if (plan_init(&c->plan, c->config.layout->elems, c->threads, c->config.ps, &e) == ERR_OK &&
        msg_plan_set(&c->plan_message, c->config.layout, c->threads, c->config.ps) == ERR_OK)
        c->shard = mem_zalloc(c->plan.shards, sizeof *c->shard);
    if (!c->shard || commit_init(c))
        chief_fail(c, "no plan can be made: %s", e.text[0] ? e.text : "out of memory");
    return c->phase != CHIEF_ENDED;
}

/* A step that every shard can still begin with other rules than the one before. Since the ps said how far their shards
 * are each may have made one step more; to begin the next takes leaves of this chief, or its word (backup workers). */
static uint64_t no_shard_has_begun(const struct chief *c)
{
    uint64_t furthest = 0;
    for (uint32_t i = 0; i < c->config.ps; i++)
        for (size_t j = 0; c->ps[i].hello && j < c->ps[i].hello->n_shards; j++)
            if (c->ps[i].hello->shards[j]->step > furthest)
                furthest = c->ps[i].hello->shards[j]->step;
    return furthest + 2;
}

static void send_enter(struct chief *c, uint32_t ps)
{
    Gradwire__Enter m = GRADWIRE__ENTER__INIT;
    Gradwire__Generation g = msg_generation(c->generation);
    m.generation = &g;
    m.uuid = c->uuid;
    m.mode = c->mode == MODE_INIT      ? GRADWIRE__ENTER_MODE__INIT
             : c->mode == MODE_RESTORE ? GRADWIRE__ENTER_MODE__RESTORE
                                       : GRADWIRE__ENTER_MODE__TAKEOVER;
    m.plan = &c->plan_message;
    m.settings = &c->config.settings;
    m.cut = c->has_base ? c->base.cut : 0;
    m.round_from = c->mode == MODE_TAKEOVER ? no_shard_has_begun(c) : 0;
    m.store = (uint32_t)c->config.store;
    m.store_token = (char *)(c->config.store_token ? c->config.store_token : "");
    c->io->to_ps(c->ctx, ps, FRAME_ENTER, &m.base);
}

static enum err find_base(struct chief *c)
{
    struct manifest found = {0};
    manifest_close(&c->base);
    enum err err = c->io->find_cut(c->ctx, c->usable_below, &found);
    c->has_base = err == ERR_OK;
    c->base = found;
    return err;
}

static void choose_mode(struct chief *c)
{
    bool agree = all_ps_agree(c) && !c->rollback_due;
    enum err err = find_base(c);
    if (err == ERR_NOMEM) { /* the others wait for another process of this chief's */
        chief_end(c, 138, "no memory to look at the checkpoints");
        return;
    }
    if ((err == ERR_CORRUPT || err == ERR_NEWER) && !agree) {
        chief_fail(
            c, "there are checkpoints, and none of them can be used: mend them, or start anew with "
               "--fresh");
        return;
    }
    if (agree && (!c->has_base || strcmp(c->base.uuid, c->ps[0].uuid) == 0)) {
        c->mode = MODE_TAKEOVER;
        (void)snprintf(c->uuid, sizeof c->uuid, "%s", c->ps[0].uuid);
        return;
    }
    c->mode = c->has_base ? MODE_RESTORE : MODE_INIT;
    if (c->has_base)
        (void)snprintf(c->uuid, sizeof c->uuid, "%s", c->base.uuid);
    else if (!c->uuid[0])
        make_uuid(c);
}

static void start_generation(struct chief *c)
{
    cut_abort(c);
    c->entered = false;
    choose_mode(c);
    if (c->phase == CHIEF_ENDED)
        return;
    next_generation(c);
    if (!take_plan(c))
        return;
    c->phase = CHIEF_ENTER;
    clocks_forget(c);
    for (uint32_t i = 0; i < c->workers; i++)
        c->worker[i].welcomed = c->worker[i].given = false;
    if (c->mode == MODE_RESTORE)
        chief_say(c, 0, "generation %" PRIu64 ": going on from cut %" PRIu64 " (step %" PRIu64 ")",
                  c->generation.number, c->base.cut, c->base.step);
    else
        chief_say(c, 0, "generation %" PRIu64 ": %s", c->generation.number,
                  c->mode == MODE_INIT ? "initial values" : "taking over from the last chief");
    for (uint32_t i = 0; i < c->config.ps; i++)
        send_enter(c, i);
}

/* A ps of ours is there again: what it may have missed. */
static void resend(struct chief *c, uint32_t ps)
{
    cut_resend(c, ps);
    clocks_resend(c, ps);
    commit_resend(c, ps);
}

/* Every ps is connected: is this still our generation, or is a new one needed? */
static void gathered(struct chief *c)
{
    c->phase = CHIEF_GATHER;
    for (uint32_t i = 0; i < c->config.ps; i++)
        if (!c->ps[i].up)
            return;
    if (c->entered && all_ps_agree(c) && generation_equal(c->ps[0].generation, c->generation)) {
        c->phase = CHIEF_RUN;
        for (uint32_t i = 0; i < c->config.ps; i++)
            resend(c, i);
        chief_check_finished(c);
        return;
    }
    start_generation(c);
}

/* ---- entered ---- */

static void forget_redo(struct chief *c)
{
    mem_free(c->redo_place.dropped);
    c->redo_place = (struct manifest_redo){.there = false};
}

/* Without memory there is none, and a cut of it fails. */
static void take_redo(struct chief *c, const struct manifest_redo *from)
{
    forget_redo(c);
    uint8_t *dropped = mem_zalloc((size_t)from->dropped_bytes + 1, 1);
    if (!dropped)
        return;
    if (from->dropped_bytes)
        memcpy(dropped, from->dropped, from->dropped_bytes);
    c->redo_place = *from;
    c->redo_place.dropped = dropped;
}

static void take_redo_message(struct chief *c, const Gradwire__Redo *m)
{
    const struct manifest_redo from = {.there = true,
                                       .epoch = m->epoch,
                                       .begin = m->begin,
                                       .redone = m->redone,
                                       .dropped_bytes = (uint32_t)m->dropped.len,
                                       .dropped = m->dropped.data};
    take_redo(c, &from);
}

static void base_from_cut(struct chief *c)
{
    struct manifest *m = &c->base;
    c->step = m->step;
    c->published_cut = m->cut;
    c->published_step = m->step;
    c->published_final = m->final;
    c->lost = m->lost;
    forget_redo(c);
    if (m->redo.there)
        take_redo(c, &m->redo);
    memcpy(c->epoch, m->epoch, sizeof c->epoch);
    for (uint32_t i = 0; i < c->plan.shards; i++) {
        struct chief_shard *s = &c->shard[i];
        s->step = m->step;
        s->t = m->t;
        s->duplicates = m->duplicates;
        s->clipped = m->clipped;
        s->dropped = m->dropped;
        if (!c->sync && ids_unpack(&s->resolved, m->mark, m->window_bits, m->window_bits_bytes))
            s->resolved = (struct ids){0}; /* the shards have refused such a cut already */
    }
}

static void base_from_shards(struct chief *c)
{
    for (uint32_t i = 0; i < c->config.ps; i++)
        for (size_t j = 0; c->ps[i].hello && j < c->ps[i].hello->n_shards; j++)
            chief_take_status(c, c->ps[i].hello->shards[j]);
    c->step = UINT64_MAX; /* made is what every shard has made */
    for (uint32_t i = 0; i < c->plan.shards; i++)
        if (c->shard[i].step < c->step)
            c->step = c->shard[i].step;
    if (c->has_base) {
        c->published_cut = c->base.cut;
        c->published_step = c->base.step;
        c->published_final = c->base.final;
        c->lost = c->base.lost;
    }
}

static void base_from_nothing(struct chief *c)
{
    c->step = 0;
    c->lost = 0;
    forget_redo(c);
    c->published_final = false;
    memset(c->epoch, 0, sizeof c->epoch);
}

/* Mitliagkas et al. 2016, "Asynchrony begets momentum", theorem 3. */
static void tell_momentum(struct chief *c)
{
    double momentum = c->config.settings.momentum;
    uint32_t workers = c->config.workers;
    if (c->sync || c->geo || momentum == 0 || workers < 2 || c->told_momentum)
        return;
    chief_say(c, 0,
              "training.update: %s adds momentum of about %.2g (1 - 1/%u workers) to the "
              "optimizer's %g; where it does not learn well, set less of that",
              c->ssp ? "ssp" : "async", 1 - 1.0 / workers, workers, momentum);
    c->told_momentum = true;
}

static void entered_all(struct chief *c)
{
    tell_momentum(c);
    c->entered = true;
    if (c->config.settings.redo)
        c->total =
            wanted(&c->config); /* what was too many of another history need not be of this one */
    c->phase = CHIEF_RUN;
    c->evaluated = c->rollback_due = c->awaits_evaluator = false;
    c->last_cut_ms = c->now_ms;
    if (c->mode == MODE_TAKEOVER)
        base_from_shards(c);
    else if (c->mode == MODE_RESTORE)
        base_from_cut(c);
    else
        base_from_nothing(c);
    if (!c->sync)
        leases_start(c);
    else
        c->commit.row = journal_row(&c->journal, c->step);
    if (c->mode == MODE_INIT && !c->going)
        cut_start(c, false); /* cut 0: the state after initialization */
    members_entered(c);
    for (uint32_t i = 0; c->mode == MODE_TAKEOVER && i < c->config.ps; i++)
        commit_resend(c, i);
    chief_check_finished(c);
    if (c->going)
        cut_start(c, false);
}

static void on_entered(struct chief *c, const Gradwire__Entered *m)
{
    if (c->phase != CHIEF_ENTER ||
        !generation_equal(msg_generation_get(m->generation), c->generation))
        return;
    if (m->error[0] && m->corrupt && c->mode == MODE_RESTORE) {
        chief_say(c, 1, "cut %" PRIu64 " cannot be used: %s; trying the one before it", c->base.cut,
                  m->error);
        c->usable_below = c->base.cut;
        for (uint32_t i = 0; i < c->config.ps; i++)
            c->ps[i].entered = false;
        start_generation(c);
        return;
    }
    if (m->error[0]) {
        chief_fail(c, "a shard could not start: %s", m->error);
        return;
    }
    if (m->shard >= c->plan.shards)
        return;
    c->shard[m->shard].entered = true;
    for (uint32_t i = 0; i < c->plan.shards; i++)
        if (!c->shard[i].entered)
            return;
    entered_all(c);
}

void chief_take_status(struct chief *c, const Gradwire__ShardStatus *m)
{
    if (!m || m->shard >= c->plan.shards)
        return;
    struct chief_shard *s = &c->shard[m->shard];
    s->step = m->step;
    s->t = m->t;
    s->duplicates = m->duplicates;
    s->clipped = m->clipped;
    s->dropped = m->dropped;
    if (m->redo)
        take_redo_message(c, m->redo);
    s->push = msg_codec_cost_get(m->push);
    s->reply = msg_codec_cost_get(m->reply);
    if (ids_unpack(&s->resolved, m->mark, m->window.data, m->window.len))
        s->resolved = (struct ids){0};
    stale_take(c, m);
    s->partials = m->partial.len / sizeof(uint64_t);
    if (s->partials > sizeof s->partial / sizeof *s->partial)
        s->partials = sizeof s->partial / sizeof *s->partial;
    if (s->partials)
        memcpy(s->partial, m->partial.data, s->partials * sizeof *s->partial);
    if (m->shard != 0)
        return;
    memset(c->epoch, 0, sizeof c->epoch);
    for (size_t i = 0; i < m->n_epochs; i++) {
        const Gradwire__EpochSums *from = m->epochs[i];
        struct epoch_sums *to = &c->epoch[from->epoch % CHECKPOINT_EPOCHS];
        *to = (struct epoch_sums){.epoch = from->epoch,
                                  .batches = from->batches,
                                  .examples = from->examples,
                                  .loss = from->loss};
        for (size_t k = 0; k < from->n_metric && k < SUMS_MAX; k++)
            to->metric[k] = from->metric[k];
    }
}

/* ---- ps ---- */

void chief_on_ps_up(struct chief *c, uint32_t ps, const Gradwire__HelloReply *m, int64_t now_ms)
{
    c->now_ms = now_ms;
    struct chief_ps *p = &c->ps[ps];
    p->up = p->was_up = true;
    p->entered = m->entered;
    p->generation = msg_generation_get(m->generation);
    (void)snprintf(p->uuid, sizeof p->uuid, "%s", m->uuid);
    p->threads = m->threads;
    p->next_cut = m->cut;
    p->incarnation = m->incarnation;
    p->going = m->going;
    msg_free(p->hello ? &p->hello->base : NULL);
    p->hello = (Gradwire__HelloReply *)msg_copy(&m->base);
    if (c->phase == CHIEF_DONE_PS)
        send_done(c, 0, "", true);
    if (c->phase >= CHIEF_DONE)
        return;
    bool ours = p->entered && generation_equal(p->generation, c->generation);
    if (c->phase == CHIEF_GATHER || (c->entered && !ours))
        gathered(c);
    else if (c->phase == CHIEF_ENTER && ours)
        send_enter(c, ps); /* its answer was lost with the connection */
    else if (c->phase == CHIEF_ENTER)
        gathered(c);
    else
        resend(c, ps);
}

void chief_on_ps_down(struct chief *c, uint32_t ps, int64_t now_ms)
{
    c->now_ms = now_ms;
    c->ps[ps].up = false;
    c->ps[ps].lost_ms = now_ms;
    if (c->phase == CHIEF_ENTER)
        c->phase = CHIEF_GATHER;
    c->ps[ps].told |=
        c->phase == CHIEF_DONE_PS; /* it closed behind the word; it may stay, and be dialed again */
    done_progress(c);
}

void chief_on_ps(struct chief *c, uint32_t ps, enum frame_type type, const ProtobufCMessage *m,
                 int64_t now_ms)
{
    c->now_ms = now_ms;
    if (type == FRAME_ENTERED) {
        on_entered(c, (const Gradwire__Entered *)m);
    } else if (type == FRAME_GOING) {
        c->ps[ps].going = true;
        chief_say(c, 0, "ps %u was told to go: taking a cut", ps);
        cut_start(c, false);
    } else if (type == FRAME_STEP_REPORT) {
        commit_on_report(c, ps, (const Gradwire__StepReport *)m);
    } else {
        cut_on(c, ps, type, m);
    }
}

/* ---- workers ---- */

enum err chief_on_worker_up(struct chief *c, uint32_t worker, const Gradwire__Hello *m,
                            int64_t now_ms, struct errmsg *e)
{
    c->now_ms = now_ms;
    if (worker >= CHIEF_WORKERS_MAX)
        return err_set(e, ERR_REFUSED, "worker %u: at most %d are allowed", worker,
                       CHIEF_WORKERS_MAX);
    struct chief_worker *w = chief_worker(c, worker);
    Gradwire__Hello *hello = w ? (Gradwire__Hello *)msg_copy(&m->base) : NULL;
    if (!hello)
        return err_set(e, ERR_REFUSED, "no memory for worker %u", worker);
    msg_free(w->hello ? &w->hello->base : NULL);
    w->hello = hello;
    w->hello_used = false;
    w->up = true;
    w->welcomed = false;
    if (c->phase == CHIEF_DONE || c->phase == CHIEF_DONE_PS) {
        Gradwire__Done done = GRADWIRE__DONE__INIT;
        done.text = (char *)"";
        c->io->to_worker(c->ctx, worker, FRAME_DONE, &done.base);
    } else if (c->entered) {
        members_entered(c);
    }
    return ERR_OK;
}

void chief_on_worker_down(struct chief *c, uint32_t worker, int64_t now_ms)
{
    c->now_ms = now_ms;
    if (worker >= c->workers)
        return;
    c->worker[worker].up = false;
    c->worker[worker].welcomed = false;
    c->worker[worker].lost_ms = now_ms;
    done_progress(c);
}

static void take_account(struct chief_worker *w, const Gradwire__DoneAck *m)
{
    w->acked = true;
    w->account = (struct worker_account){.tasks = m->tasks,
                                         .bytes_out = m->bytes_out,
                                         .bytes_in = m->bytes_in,
                                         .examples = m->examples,
                                         .computed_s = m->computed_s,
                                         .waited_s = m->waited_s,
                                         .push = msg_codec_cost_get(m->push),
                                         .reply = msg_codec_cost_get(m->reply)};
}

uint64_t chief_dropped(const struct chief *c, uint32_t worker)
{
    return worker < c->workers ? c->worker[worker].dropped : 0;
}

bool chief_account(const struct chief *c, uint32_t worker, struct worker_account *out)
{
    if (worker >= c->workers || !c->worker[worker].acked)
        return false;
    *out = c->worker[worker].account;
    return true;
}

void chief_on_worker(struct chief *c, uint32_t worker, enum frame_type type,
                     const ProtobufCMessage *m, int64_t now_ms)
{
    c->now_ms = now_ms;
    if (worker >= c->workers)
        return;
    if (type == FRAME_DONE_ACK) {
        take_account(&c->worker[worker], (const Gradwire__DoneAck *)m);
        done_progress(c);
        return;
    }
    if (c->entered && c->phase <= CHIEF_FINISH)
        members_on(c, worker, type, m);
}

/* ---- progress ---- */

void chief_check_finished(struct chief *c)
{
    if (c->phase != CHIEF_RUN || !c->entered)
        return;
    if (c->sync ? c->step < c->total : c->done.mark < c->total)
        return;
    c->phase = CHIEF_FINISH;
    if (c->evaluated)
        chief_on_evaluated(c, c->now_ms);
    else
        c->io->finish(c->ctx);
}

void chief_on_step(struct chief *c, uint64_t step, int64_t now_ms)
{
    c->now_ms = now_ms;
    if (!c->sync || !c->entered)
        return;
    c->step = step;
    accept_on_step(c, step);
    chief_check_finished(c);
}

void chief_enough(struct chief *c, uint64_t step, uint64_t generation, int64_t now_ms)
{
    c->now_ms = now_ms;
    uint64_t total = c->sync ? step : c->next_id;
    if (!c->entered || total >= c->total)
        return;
    if (c->config.settings.redo && generation != c->generation.number)
        return; /* the session says it again when this one has come so far */
    c->total = total;
    chief_check_finished(c);
}

void chief_on_evaluated(struct chief *c, int64_t now_ms)
{
    c->now_ms = now_ms;
    if (c->phase != CHIEF_FINISH)
        return; /* a rollback came in between: evaluated again when all is learned again */
    c->evaluated = true;
    if (c->published_final && c->published_step == chief_steps(c))
        chief_final(c);
    else
        cut_start(c, true);
}

void chief_go(struct chief *c, int64_t now_ms)
{
    c->now_ms = now_ms;
    if (c->going)
        return;
    c->going = true;
    if (c->phase == CHIEF_GATHER || c->phase == CHIEF_ENTER) {
        if (!c->entered)
            chief_end(c, 143, "told to go before training began");
    } else if (c->phase == CHIEF_RUN) {
        cut_start(c, false);
    }
}

static void check_lost_ps(struct chief *c)
{
    for (uint32_t i = 0; i < c->config.ps; i++) {
        uint32_t bound = c->ps[i].was_up ? c->config.ps_rejoin_s : c->config.start_s;
        if (!c->ps[i].up && c->now_ms - c->ps[i].lost_ms > (int64_t)bound * 1000) {
            chief_fail(c, "ps %u was not there for %u s (timeouts.%s)", i, bound,
                       c->ps[i].was_up ? "ps_rejoin_s" : "start_s");
            return;
        }
    }
}

/* What was learned since the last cut is lost with a ps that has left: nothing is gained by waiting for it. */
static void check_going_alone(struct chief *c)
{
    for (uint32_t i = 0; c->going && i < c->config.ps; i++) {
        if (!c->ps[i].up && c->now_ms - c->ps[i].lost_ms > CHIEF_GOING_ALONE_MS) {
            chief_say(c, 1,
                      "told to go, and ps %u is not there: what stands is the last published cut",
                      i);
            chief_end(c, 143, "told to go: the last published cut stands");
            return;
        }
    }
}

/* The journal has it: a new generation from the last cut, with all ps. */
static void roll_back(struct chief *c)
{
    if (c->unwritten || (c->phase != CHIEF_RUN && c->phase != CHIEF_FINISH))
        return;
    for (uint32_t i = 0; i < c->config.ps; i++)
        if (!c->ps[i].up)
            return;
    start_generation(c);
}

void chief_on_journaled(struct chief *c, const char *error, int64_t now_ms)
{
    c->now_ms = now_ms;
    if (error)
        chief_say(c, 1, "the journal could not be written: %s", error);
    c->unwritten--;
    if (c->rollback_due)
        roll_back(c);
    else
        commit_on_journaled(c);
}

void chief_tick(struct chief *c, int64_t now_ms)
{
    c->now_ms = now_ms;
    if (c->phase == CHIEF_ENDED)
        return;
    if (c->phase >= CHIEF_DONE) {
        done_progress(c);
        return;
    }
    check_lost_ps(c);
    check_going_alone(c);
    if (c->rollback_due)
        roll_back(c);
    if (c->phase == CHIEF_RUN || c->phase == CHIEF_FINISH) {
        members_tick(c);
        cut_tick(c);
    }
    check_evaluator(c);
    if (c->phase < CHIEF_RUN && now_ms - c->said_ms >= CHIEF_SAY_WAIT_MS) {
        char text[256];
        chief_waits_for(c, now_ms, text, sizeof text);
        chief_say(c, 0, "%s", text);
        c->said_ms = now_ms;
    }
}

/* ---- facts ---- */

/* Where dropped microbatches are trained again: with the extra steps of the epochs that are over, as the lead shard said
 * last; how many will follow is not known. */
static uint64_t planned(const struct chief *c)
{
    const struct manifest_redo *r = &c->redo_place;
    const Gradwire__Settings *s = &c->config.settings;
    uint64_t least = (s->epochs - r->epoch) * s->batches_per_epoch + r->begin;
    return r->there && r->epoch <= s->epochs && least < c->total ? least : c->total;
}

void chief_facts(const struct chief *c, struct chief_facts *f)
{
    *f = (struct chief_facts){.running = c->entered,
                              .generation = c->generation.number,
                              .cut = c->published_cut,
                              .cut_step = c->published_step,
                              .steps = chief_steps(c),
                              .total = planned(c),
                              .dealt = c->sync ? c->step : c->next_id};
    f->t = c->shard ? c->shard[0].t : 0;
    f->lost = c->lost;
    f->residuals_lost = c->residuals_lost;
    f->applied_min = UINT64_MAX;
    for (uint32_t i = 0; c->shard && i < c->plan.shards; i++) {
        const struct chief_shard *s = &c->shard[i];
        if (s->step < f->applied_min)
            f->applied_min = s->step;
        if (s->step > f->applied_max)
            f->applied_max = s->step;
        f->duplicates += s->duplicates;
        codec_cost_add(&f->push, &s->push);
        codec_cost_add(&f->reply, &s->reply);
    }
    if (f->applied_min == UINT64_MAX)
        f->applied_min = 0;
    if (c->shard) {
        f->clipped = c->shard[0].clipped;
        f->dropped = c->shard[0].dropped;
        f->redo = c->redo_place;
        f->redo.dropped = NULL;
    }
    f->rejected = journal_rejected(&c->journal);
    f->recoveries = journal_all_recoveries(&c->journal);
    memcpy(f->epoch, c->epoch, sizeof f->epoch);
    for (uint32_t i = 0; i < c->workers; i++) {
        const struct chief_worker *w = &c->worker[i];
        f->workers_up += w->up;
        f->residuals_away += c->feedback && w->given && !w->up && !w->acked;
    }
    memcpy(f->uuid, c->uuid, sizeof f->uuid);
}

uint32_t chief_workers(const struct chief *c)
{
    return c->workers;
}

static double away_s(bool up, int64_t lost_ms, int64_t now_ms)
{
    return up ? 0 : (double)(now_ms - lost_ms) / 1000;
}

struct chief_peer chief_peer_worker(const struct chief *c, uint32_t worker, int64_t now_ms)
{
    const struct chief_worker *w = &c->worker[worker];
    return (struct chief_peer){.up = w->up,
                               .member = w->member,
                               .incarnation = w->incarnation,
                               .away_s = away_s(w->up, w->lost_ms, now_ms)};
}

struct chief_peer chief_peer_ps(const struct chief *c, uint32_t ps, int64_t now_ms)
{
    const struct chief_ps *p = &c->ps[ps];
    return (struct chief_peer){.up = p->up, .away_s = away_s(p->up, p->lost_ms, now_ms)};
}

void chief_waits_for(const struct chief *c, int64_t now_ms, char *out, size_t bytes)
{
    for (uint32_t i = 0; i < c->config.ps; i++) {
        if (!c->ps[i].up) {
            (void)snprintf(out, bytes, "waiting %" PRId64 " s for ps %u",
                           (now_ms - c->ps[i].lost_ms) / 1000, i);
            return;
        }
    }
    for (uint32_t i = 0; c->phase == CHIEF_ENTER && i < c->plan.shards; i++) {
        if (!c->shard[i].entered) {
            (void)snprintf(out, bytes, "waiting for shard %u on ps %u to enter generation %" PRIu64,
                           i, c->plan.shard[i].ps, c->generation.number);
            return;
        }
    }
    for (uint32_t i = 0; i < c->workers; i++) {
        if (c->worker[i].member && !c->worker[i].up) {
            (void)snprintf(out, bytes,
                           "step %" PRIu64 ": worker %u is away, last seen %" PRId64 " s ago",
                           chief_steps(c), i, (now_ms - c->worker[i].lost_ms) / 1000);
            return;
        }
    }
    static const char *const stage[] = {"running", "holding workers", "stopping shards", "saving",
                                        "publishing"};
    (void)snprintf(out, bytes, "phase %d, step %" PRIu64 " of %" PRIu64 ", cut %" PRIu64 ": %s",
                   (int)c->phase, chief_steps(c), c->total, c->cut.number, stage[c->cut.stage]);
}
