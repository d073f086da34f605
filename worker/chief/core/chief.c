#include "worker/chief/core/chief.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#include "common/base/mem.h"
#include "worker/chief/core/chief_state.h"

static const struct chief_mode *mode_of(Gradwire__Update update)
{
    static const struct chief_mode *const mode[] = {[GRADWIRE__UPDATE__SYNC] = &chief_sync,
                                                    [GRADWIRE__UPDATE__ASYNC] = &chief_async,
                                                    [GRADWIRE__UPDATE__SSP] = &chief_ssp,
                                                    [GRADWIRE__UPDATE__GEO] = &chief_geo};
    assert(update < sizeof mode / sizeof *mode && mode[update]);
    return mode[update];
}

enum err chief_new(struct chief **out, const struct chief_config *config, const struct chief_io *io,
                   void *ctx, int64_t now_ms, struct errmsg *e)
{
    struct optimizer optimizer;
    assert(config->window_batches <= CHIEF_WINDOW_IDS);
    enum err err = msg_optimizer_get(&config->settings, &optimizer, e);
    if (err)
        return err;
    struct chief *c = mem_zalloc(1, sizeof *c);
    if (c) {
        c->config = *config;
        c->io = io;
        c->ctx = ctx;
        c->now_ms = c->said_ms = now_ms;
        c->mode = mode_of(config->settings.update);
        c->feedback = config->settings.push_codec == CODEC_TOP_K;
        c->holds = c->mode->holds || c->feedback;
        c->slots = c->mode->has_slots ? optimizer_slots(&optimizer) : 0;
        c->lamb = optimizer_is_trusted(&optimizer);
        c->total = sync_wanted(config);
        c->unkept = config->unkept_step;
        c->next_cut = config->next_cut;
        c->usable_below = c->published_cut = c->pace.judged = UINT64_MAX;
        c->named = msg_generation(c->generation);
        c->ps = mem_zalloc(config->ps, sizeof *c->ps);
        c->threads = mem_zalloc(config->ps, sizeof *c->threads);
        gradwire__plan__init(&c->plan_message);
    }
    if (!c || !c->ps || !c->threads ||
        (config->journal && journal_join(&c->journal, config->journal)) ||
        (config->workers && !chief_worker(c, config->workers - 1))) {
        chief_free(c);
        return err_memory_for(e, "a cluster of %u ps and %u workers", config->ps, config->workers);
    }
    for (uint32_t i = 0; i < config->ps; i++)
        c->ps[i].lost_ms = now_ms;
    for (uint32_t i = 0; i < config->workers; i++)
        c->worker[i].member = true;
    wait_begin(c);
    *out = c;
    return ERR_OK;
}

void chief_free(struct chief *c)
{
    if (!c)
        return;
    for (uint32_t i = 0; c->ps && i < c->config.ps; i++)
        msg_free(c->ps[i].hello ? &c->ps[i].hello->base : NULL);
    workers_close(c);
    c->mode->close(c);
    journal_close(&c->journal);
    msg_plan_close(&c->plan_message);
    plan_close(&c->plan);
    manifest_close(&c->base);
    mem_free(c->ps);
    mem_free(c->threads);
    mem_free(c->shard);
    mem_free(c);
}

/* ---- events ---- */

/* Asserts the invariants between two events. */
static void check(const struct chief *c)
{
    const struct chief_cut *k = &c->cut;
    assert(c->entered || (c->phase != CHIEF_RUN && c->phase != CHIEF_FINISH));
    assert(!c->entered || (c->shard && c->phase != CHIEF_ENTER));
    assert(c->named.number == c->generation.number && c->named.tag == c->generation.tag);
    if (c->entered && c->mode->check)
        c->mode->check(c);
    if (k->stage == STAGE_NONE)
        return;
    assert(c->entered && k->number + 1 == c->next_cut);
    assert(k->stage != STAGE_HOLD || c->holds);
    assert(!k->keeps || k->stage >= STAGE_STOP);
    assert(k->resumed ? k->stage >= STAGE_SAVE : k->stage <= STAGE_SAVE);
    assert(k->stage != STAGE_PUBLISH || shards_all(c, offsetof(struct chief_shard, saved)));
}

static void check_worker(const struct chief *c, uint32_t worker)
{
    const struct chief_worker *w = &c->worker[worker];
    (void)w;
    assert(!w->welcomed || (w->up && w->member && w->hello));
    assert(!w->given || w->incarnation);
    assert(!w->fencing || !w->given);
    assert(!w->loads || !w->up);
    check(c);
}

static void begin(struct chief *c, int64_t now_ms)
{
    check(c);
    c->now_ms = now_ms;
}

/* ---- ps ---- */

/* The next numbers begin above those that a ps reports. */
static bool numbers_fit(struct chief *c, uint32_t ps, const Gradwire__HelloReply *m)
{
    uint64_t generation = msg_generation_get(m->generation).number;
    if (generation <= CHECKPOINT_NUMBER_MAX && m->cut <= CHECKPOINT_NUMBER_MAX)
        return true;
    chief_fail(c,
               "ps %" PRIu32 " reports generation %" PRIu64 " and %" PRIu64
               " checkpoints, which is impossible: it is not a ps of this job",
               ps, generation, m->cut);
    return false;
}

void chief_on_ps_up(struct chief *c, uint32_t ps, const Gradwire__HelloReply *m, int64_t now_ms)
{
    begin(c, now_ms);
    if (c->phase < CHIEF_DONE && !numbers_fit(c, ps, m))
        return;
    struct chief_ps *p = &c->ps[ps];
    p->up = p->was_up = true;
    p->entered = m->entered;
    p->generation = msg_generation_get(m->generation);
    (void)snprintf(p->uuid, sizeof p->uuid, "%s", m->uuid);
    p->threads = m->threads;
    p->next_cut = m->cut;
    p->going = m->going;
    msg_free(p->hello ? &p->hello->base : NULL);
    p->hello = (Gradwire__HelloReply *)msg_copy(&m->base);
    if (c->phase == CHIEF_DONE_PS)
        chief_send_done(c, 0, "", true);
    if (c->phase >= CHIEF_DONE)
        return;
    bool ours = p->entered && generation_equal(p->generation, c->generation);
    if (c->phase == CHIEF_ENTER && ours)
        generation_send_enter(c, ps); /* its answer was lost with the connection */
    else if (c->phase <= CHIEF_ENTER || !ours)
        generation_gathered(c);
    else
        generation_resend(c, ps);
    check(c);
}

void chief_on_ps_down(struct chief *c, uint32_t ps, int64_t now_ms)
{
    begin(c, now_ms);
    c->ps[ps].up = false;
    c->ps[ps].lost_ms = now_ms;
    c->stall.asked_ms = 0; /* its answer may be lost */
    if (c->phase == CHIEF_ENTER)
        c->phase = CHIEF_GATHER;
    if (c->phase == CHIEF_DONE_PS) /* it closed after DONE; it may stay, and be connected again */
        c->ps[ps].told = true;
    finish_progress(c);
    check(c);
}

void chief_on_ps(struct chief *c, uint32_t ps, enum frame_type type, const ProtobufCMessage *m,
                 int64_t now_ms)
{
    begin(c, now_ms);
    if (type == FRAME_ENTERED) {
        generation_on_entered(c, ps, (const Gradwire__Entered *)m);
    } else if (type == FRAME_GOING) {
        c->ps[ps].going = true;
        chief_say(c, 0, "ps %u was asked to stop: writing a checkpoint", ps);
        cut_start(c, false);
    } else if (type == FRAME_STEP_REPORT) {
        if (c->mode->on_report)
            c->mode->on_report(c, ps, (const Gradwire__StepReport *)m);
    } else if (type == FRAME_WAIT) {
        wait_on(c, ps, (const Gradwire__Wait *)m);
    } else {
        cut_on(c, ps, type, m);
        if (type == FRAME_FENCED)
            finish_check(c);
    }
    check(c);
}

/* ---- workers ---- */

enum err chief_on_worker_up(struct chief *c, uint32_t worker, const Gradwire__Hello *m,
                            int64_t now_ms, struct errmsg *e)
{
    char name[WORKER_NAME_BYTES];
    begin(c, now_ms);
    (void)worker_name(name, worker, c->config.separate_chief);
    if (worker >= CHIEF_WORKERS_MAX)
        return err_set(e, ERR_REFUSED, "%s: at most %d are allowed", name, CHIEF_WORKERS_MAX);
    struct chief_worker *w = chief_worker(c, worker);
    Gradwire__Hello *hello = w ? (Gradwire__Hello *)msg_copy(&m->base) : NULL;
    if (!hello)
        return err_memory_for(e, "%s", name);
    msg_free(w->hello ? &w->hello->base : NULL);
    w->hello = hello;
    w->hello_used = false;
    w->up = true;
    w->welcomed = w->unreached = w->loads = false;
    if (c->phase == CHIEF_DONE || c->phase == CHIEF_DONE_PS) {
        Gradwire__Done done = GRADWIRE__DONE__INIT;
        w->done_ms = now_ms;
        c->io->to_worker(c->ctx, worker, FRAME_DONE, &done.base);
    } else if (c->entered) {
        members_entered(c);
    }
    check_worker(c, worker);
    return ERR_OK;
}

void chief_on_worker_silent(struct chief *c, uint32_t worker, int64_t silent_ms)
{
    if (worker < c->workers)
        c->worker[worker].silent_ms = silent_ms;
}

void chief_on_worker_down(struct chief *c, uint32_t worker, int64_t now_ms)
{
    begin(c, now_ms);
    if (worker >= c->workers)
        return;
    c->worker[worker].up = false;
    c->worker[worker].welcomed = false;
    c->worker[worker].lost_ms = now_ms - c->worker[worker].silent_ms;
    c->worker[worker].silent_ms = 0;
    finish_progress(c);
    check_worker(c, worker);
}

void chief_on_worker_idle(struct chief *c, uint32_t worker, int64_t now_ms)
{
    begin(c, now_ms);
    if (worker >= c->workers || c->worker[worker].up)
        return;
    members_idle(c, worker);
    finish_progress(c);
    check_worker(c, worker);
}

void chief_on_worker_loads(struct chief *c, uint32_t worker, bool loads, int64_t now_ms)
{
    begin(c, now_ms);
    if (worker >= c->workers)
        return;
    c->worker[worker].loads = loads && !c->worker[worker].up;
    check_worker(c, worker);
}

void chief_on_worker(struct chief *c, uint32_t worker, enum frame_type type,
                     const ProtobufCMessage *m, int64_t now_ms)
{
    begin(c, now_ms);
    if (worker >= c->workers)
        return;
    if (type == FRAME_DONE_ACK) {
        const Gradwire__DoneAck *done_ack = (const Gradwire__DoneAck *)m;
        c->worker[worker].acked = true;
        c->worker[worker].account =
            (struct worker_account){.tasks = done_ack->tasks,
                                    .bytes_out = done_ack->bytes_out,
                                    .bytes_in = done_ack->bytes_in,
                                    .examples = done_ack->examples,
                                    .computed_s = done_ack->computed_s,
                                    .waited_s = done_ack->waited_s,
                                    .push = msg_codec_cost_get(done_ack->push),
                                    .reply = msg_codec_cost_get(done_ack->reply)};
        finish_progress(c);
        return;
    }
    if (c->entered && c->phase <= CHIEF_FINISH) {
        members_on(c, worker, type, m);
        finish_check(c);
    }
    check_worker(c, worker);
}

/* ---- progress ---- */

void chief_on_step(struct chief *c, uint64_t step, int64_t now_ms)
{
    begin(c, now_ms);
    if (!c->mode->on_step || !c->entered)
        return;
    if (step > c->unkept)
        c->unkept = 0;
    c->mode->on_step(c, step);
    finish_check(c);
    check(c);
}

void chief_enough(struct chief *c, uint64_t step, uint64_t generation, int64_t now_ms)
{
    begin(c, now_ms);
    uint64_t total = c->mode->enough(c, step, generation);
    if (!c->entered || total >= c->total)
        return;
    c->total = total;
    finish_check(c);
    check(c);
}

void chief_keep(struct chief *c, uint64_t ask, uint64_t step, int64_t now_ms)
{
    begin(c, now_ms);
    if (!c->entered || (c->phase != CHIEF_RUN && c->phase != CHIEF_FINISH))
        return; /* the new generation that is beginning drops the request */
    c->unkept = 0;
    c->keep_ask = ask;
    c->keep_step = step;
    c->keep_ms = now_ms;
    cut_start(c, false);
    check(c);
}

void chief_go_back(struct chief *c, uint64_t step, int64_t now_ms)
{
    begin(c, now_ms);
    if (c->entered && c->phase < CHIEF_DONE)
        cut_go_back(c, step);
    check(c);
}

void chief_on_evaluated(struct chief *c, int64_t now_ms)
{
    begin(c, now_ms);
    c->unkept = 0;
    finish_evaluated(c);
    check(c);
}

void chief_on_diverged(struct chief *c, uint64_t step, const char *what, int64_t now_ms)
{
    begin(c, now_ms);
    if (c->phase == CHIEF_RUN || c->phase == CHIEF_FINISH)
        guard_fail(c, c->mode->on_step ? step : c->mode->steps(c), what);
    check(c);
}

void chief_on_written(struct chief *c, const char *error, int64_t now_ms)
{
    begin(c, now_ms);
    finish_written(c, error);
    check(c);
}

void chief_on_inexact(struct chief *c, const char *why, int64_t now_ms)
{
    begin(c, now_ms);
    inexact_note(c, why);
    check(c);
}

void chief_leaves(struct chief *c, int exit_code, const char *text, int64_t now_ms)
{
    begin(c, now_ms);
    if (exit_code > 0 && exit_code < CHIEF_EXIT_RESTART)
        chief_fail_with(c, exit_code, text);
}

void chief_on_dir_lost(struct chief *c, const char *why, int64_t now_ms)
{
    begin(c, now_ms);
    chief_fail(c, "%s", why);
    check(c);
}

void chief_on_judged(struct chief *c, uint64_t cut, int64_t took_ms, int64_t now_ms)
{
    begin(c, now_ms);
    pace_judged(c, cut, took_ms);
    finish_judged(c, cut);
    check(c);
}

void chief_on_published(struct chief *c, uint64_t cut, const char *error, int64_t now_ms)
{
    begin(c, now_ms);
    if (cut_published(c, cut, error))
        finish_published(c);
    check(c);
}

void chief_go(struct chief *c, int64_t now_ms)
{
    begin(c, now_ms);
    if (c->going)
        return;
    c->going = true;
    if (c->phase < CHIEF_RUN && !c->entered)
        chief_end(c, 143, "asked to stop before training began");
    else if (c->phase == CHIEF_RUN)
        cut_start(c, false);
    check(c);
}

static void check_lost_ps(struct chief *c)
{
    for (uint32_t i = 0; i < c->config.ps; i++) {
        uint32_t bound =
            c->ps[i].was_up ? c->config.timeouts.ps_rejoin_s : c->config.timeouts.start_s;
        if (!c->ps[i].up && c->now_ms - c->ps[i].lost_ms > (int64_t)bound * 1000) {
            chief_fail(c, "ps %u was not available for %u s (timeouts.%s)", i, bound,
                       c->ps[i].was_up ? "ps_rejoin_s" : "start_s");
            return;
        }
    }
}

/* If a ps has left, what was learned since the last cut is lost: waiting for the ps gains nothing. */
static void check_going_alone(struct chief *c)
{
    for (uint32_t i = 0; c->going && i < c->config.ps; i++) {
        if (!c->ps[i].up && c->now_ms - c->ps[i].lost_ms > CHIEF_GOING_ALONE_MS) {
            chief_say(
                c, 1,
                "asked to stop, but ps %u is not connected: the last published checkpoint remains",
                i);
            chief_end(c, 143, "asked to stop: the last published checkpoint remains");
            return;
        }
    }
}

/* The journal is written: begin a new generation from the last cut, with all ps. */
static void roll_back(struct chief *c)
{
    if (c->unwritten || (c->phase != CHIEF_RUN && c->phase != CHIEF_FINISH))
        return;
    if (chief_ps_away(c) == c->config.ps)
        generation_start(c);
}

void chief_on_journaled(struct chief *c, const char *error, int64_t now_ms)
{
    begin(c, now_ms);
    assert(c->unwritten > 0);
    if (error) { /* events that wait for their line would wait for ever */
        chief_fail(c, "the journal could not be written: %s", error);
        return;
    }
    c->unwritten--;
    chief_tell_journal(c); /* before anything that waits for the line */
    generation_on_journaled(c);
    if (c->rollback_due)
        roll_back(c);
    else if (c->mode->journaled)
        c->mode->journaled(c);
    if (c->entered && !c->unwritten && (c->phase == CHIEF_RUN || c->phase == CHIEF_FINISH))
        members_entered(c); /* those that waited for their line */
    check(c);
}

void chief_tick(struct chief *c, int64_t now_ms)
{
    begin(c, now_ms);
    if (c->phase == CHIEF_ENDED)
        return;
    wait_tick(c);
    if (c->phase >= CHIEF_DONE) {
        finish_progress(c);
        return;
    }
    check_lost_ps(c);
    members_check_own(c);
    check_going_alone(c);
    if (c->rollback_due)
        roll_back(c);
    if (c->phase == CHIEF_RUN || c->phase == CHIEF_FINISH) {
        members_tick(c);
        cut_tick(c);
    }
    finish_tick(c);
    if (c->phase < CHIEF_RUN && now_ms - c->said_ms >= CHIEF_SAY_WAIT_MS) {
        char text[256];
        chief_waits_for(c, now_ms, text, sizeof text);
        chief_say(c, 1, "%s", text);
        c->said_ms = now_ms;
    }
    check(c);
}
