/* How a generation begins. The state of every ps and the cuts on disk decide whether it takes over, restores a cut
 * or starts with initial values; then every shard enters it. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/rng.h"
#include "worker/chief/core/chief_state.h"

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
    c->before = c->generation;
    c->generation = (struct generation){largest + 1, c->io->random(c->ctx)};
    c->named = msg_generation(c->generation);
    c->store_token = c->io->store_token ? c->io->store_token(c->ctx) : "";
}

static bool take_plan(struct chief *c)
{
    struct errmsg e = {""};
    plan_close(&c->plan);
    msg_plan_close(&c->plan_message);
    mem_free(c->shard);
    c->shard = NULL;
    c->row = 0;
    for (uint32_t i = 0; i < c->config.ps; i++)
        c->threads[i] = c->ps[i].threads;
    enum err (*init)(struct plan *, uint64_t, const uint32_t *, uint32_t, struct errmsg *) =
        c->config.layout->rows ? plan_init_tables : plan_init;
    if (init(&c->plan, c->config.layout->elems, c->threads, c->config.ps, &e) == ERR_OK &&
        msg_plan_set(&c->plan_message, c->config.layout, c->threads, c->config.ps) == ERR_OK)
        c->shard = mem_zalloc(c->plan.shards, sizeof *c->shard);
    if (!c->shard || c->mode->begin(c))
        chief_fail(c, "no plan can be made: %s", e.text[0] ? e.text : "out of memory");
    return c->phase != CHIEF_ENDED;
}

void generation_send_enter(struct chief *c, uint32_t ps)
{
    Gradwire__Enter m = GRADWIRE__ENTER__INIT;
    const struct journal_lines lines = chief_journal_lines(c);
    m.generation = &c->named;
    m.uuid = c->uuid;
    m.mode = c->begins == BEGINS_NEW       ? GRADWIRE__ENTER_MODE__INIT
             : c->begins == BEGINS_RESTORE ? GRADWIRE__ENTER_MODE__RESTORE
                                           : GRADWIRE__ENTER_MODE__TAKEOVER;
    m.plan = &c->plan_message;
    m.settings = &c->config.settings;
    m.cut = c->has_base ? c->base.cut : 0;
    /* The first step that no shard can have begun yet, so new rules can apply to it. Each shard may have made one more
     * step since the ps reported; to begin the next, it needs leaves or a decision (backup workers) of this chief. */
    m.round_from = c->begins == BEGINS_TAKEOVER ? shards_furthest(c) + 2 : 0;
    m.store = (uint32_t)c->config.checkpoint.store;
    m.store_token = (char *)c->store_token;
    m.journal = (char *)(c->config.past.journal ? c->config.past.journal : "");
    m.journal_lines = lines.n;
    m.journal_crc = lines.crc;
    chief_to_ps(c, ps, FRAME_ENTER, &m.base);
}

/* A shard could not read its part of the base. `why` usually begins with the path of a file in the cut's directory. */
static void note_unusable(struct chief *c, const char *why)
{
    size_t at = strlen(c->unusable);
    const char *in_folder = strstr(why, "/cut-");
    char cut[48] = "";
    if (in_folder)
        why = in_folder + 1;
    else
        (void)snprintf(cut, sizeof cut, "checkpoint %" PRIu64 ": ", c->base.cut);
    (void)snprintf(c->unusable + at, sizeof c->unusable - at, "%s%s%.90s", at ? "; " : "", cut,
                   why);
    c->usable_below = c->base.cut;
}

static void choose_mode(struct chief *c)
{
    bool agree = all_ps_agree(c) && !c->rollback_due;
    struct errmsg e = {""};
    manifest_close(&c->base);
    enum err err = c->io->find_cut(c->ctx, c->usable_below, &c->base, &e);
    c->has_base = err == ERR_OK;
    if (err == ERR_NOMEM || err == ERR_FILES) {
        /* Nothing is wrong with the checkpoints. The ps wait for another process of this chief, unless it would fail, too.
         */
        int code = err_exit_code(err);
        if (code == 1)
            chief_fail(c, "%s", e.text);
        else
            chief_end(c, code, e.text);
        return;
    }
    if (err == ERR_STATE) {
        chief_fail(c, "%s", e.text);
        return;
    }
    if (c->has_base && c->uuid[0] && strcmp(c->base.uuid, c->uuid) != 0) {
        chief_fail(c,
                   "checkpoint %" PRIu64 " belongs to run %.36s, which has begun in this job's "
                   "directory; this is run %.36s",
                   c->base.cut, c->base.uuid, c->uuid);
        return;
    }
    if ((err == ERR_CORRUPT || err == ERR_NEWER) && !agree) {
        chief_fail(c,
                   "none of the job's checkpoints can be used: repair them, or start from scratch "
                   "with --fresh: %s%s%.330s",
                   c->unusable, c->unusable[0] && e.text[0] ? "; " : "", e.text);
        return;
    }
    if (agree && (!c->has_base || strcmp(c->base.uuid, c->ps[0].uuid) == 0)) {
        c->begins = BEGINS_TAKEOVER;
        (void)snprintf(c->uuid, sizeof c->uuid, "%s", c->ps[0].uuid);
        return;
    }
    c->begins = c->has_base ? BEGINS_RESTORE : BEGINS_NEW;
    if (c->has_base) {
        (void)snprintf(c->uuid, sizeof c->uuid, "%s", c->base.uuid);
    } else if (!c->uuid[0]) {
        uint64_t a = c->io->random(c->ctx), b = c->io->random(c->ctx);
        uuid_make(c->uuid, a, b);
    }
}

void generation_start(struct chief *c)
{
    cut_abort(c);
    c->entered = false;
    choose_mode(c);
    if (c->phase == CHIEF_ENDED)
        return;
    next_generation(c);
    if (!take_plan(c))
        return;
    if (c->begins == BEGINS_TAKEOVER)
        shards_take_over(c);
    c->phase = CHIEF_ENTER;
    for (uint32_t i = 0; i < c->workers; i++)
        c->worker[i].welcomed = c->worker[i].given = false;
    if (c->begins == BEGINS_RESTORE)
        chief_say(c, 0,
                  "generation %" PRIu64 ": resuming from checkpoint %" PRIu64 " (step %" PRIu64 ")",
                  c->generation.number, c->base.cut, c->base.step);
    else
        chief_say(c, 0, "generation %" PRIu64 ": %s", c->generation.number,
                  c->begins == BEGINS_NEW ? "initial values" : "taking over from the last chief");
    past_note(c);
    inexact_note_keys(c);
    c->enter_due = c->unwritten > 0;
    if (!c->enter_due)
        generation_send_enter(c, EVERY_PS);
}

void generation_on_journaled(struct chief *c)
{
    if (!c->enter_due || c->unwritten || c->phase != CHIEF_ENTER)
        return;
    c->enter_due = false;
    generation_send_enter(c, EVERY_PS);
}

void generation_resend(struct chief *c, uint32_t ps)
{
    cut_resend(c, ps);
    if (ps == 0)
        chief_tell_journal(c);
    if (c->mode->resend)
        c->mode->resend(c, ps);
}

/* Every ps is connected: continue the present generation, or begin a new one. */
void generation_gathered(struct chief *c)
{
    c->phase = CHIEF_GATHER;
    if (chief_ps_away(c) < c->config.ps)
        return;
    if (c->entered && all_ps_agree(c) && generation_equal(c->ps[0].generation, c->generation)) {
        c->phase = CHIEF_RUN;
        for (uint32_t i = 0; i < c->config.ps; i++)
            generation_resend(c, i);
        finish_check(c);
        return;
    }
    generation_start(c);
}

/* ---- entered ---- */

/* Mitliagkas et al. 2016, "Asynchrony begets momentum", theorem 3. */
static void tell_momentum(struct chief *c)
{
    double momentum = c->config.settings.momentum;
    uint32_t workers = c->config.workers;
    if (!c->mode->adds_momentum || momentum == 0 || workers < 2 || c->told_momentum)
        return;
    chief_say(c, 0,
              "training.update: %s adds momentum of about %.2g (1 - 1/%u workers) to the "
              "optimizer's %g; if the job does not learn well, lower the optimizer's momentum",
              c->mode->adds_momentum, 1 - 1.0 / workers, workers, momentum);
    c->told_momentum = true;
}

static void entered_all(struct chief *c)
{
    assert(c->phase == CHIEF_ENTER && shards_all(c, offsetof(struct chief_shard, entered)));
    assert(c->cut.stage == STAGE_NONE && !c->entered);
    tell_momentum(c);
    c->entered = c->led = true;
    c->phase = CHIEF_RUN;
    c->evaluated = c->rollback_due = c->awaits_evaluator = c->final_there = false;
    c->last_cut_ms = c->now_ms;
    pace_begin(c);
    shards_begin(c);
    c->mode->entered(c);
    wait_begin(c);
    if (c->begins != BEGINS_TAKEOVER)
        c->unkept = 0;
    if (c->begins == BEGINS_NEW && !c->going)
        cut_start(c, false); /* cut 0: the state after initialization */
    if (c->begins != BEGINS_TAKEOVER)
        c->io->restored(c->ctx, c->has_base ? &c->base : NULL);
    members_entered(c);
    for (uint32_t i = 0; c->begins == BEGINS_TAKEOVER && i < c->config.ps; i++)
        if (c->mode->resend)
            c->mode->resend(c, i);
    finish_check(c);
    if (c->going)
        cut_start(c, false);
}

void generation_on_entered(struct chief *c, uint32_t ps, const Gradwire__Entered *m)
{
    if (m->ends && c->entered && chief_is_ours(c, m->generation)) {
        chief_fail(c, "%s", m->error);
        return;
    }
    if (c->phase != CHIEF_ENTER || !chief_is_ours(c, m->generation))
        return;
    if (m->error[0] && m->corrupt && c->begins == BEGINS_RESTORE) {
        chief_say(c, 1, "checkpoint %" PRIu64 " cannot be used: %s; trying the one before it",
                  c->base.cut, m->error);
        note_unusable(c, m->error);
        for (uint32_t i = 0; i < c->config.ps; i++)
            c->ps[i].entered = false;
        generation_start(c);
        return;
    }
    if (m->error[0]) {
        chief_fail(c, "a shard could not start: %s", m->error);
        return;
    }
    if (!shards_are_of(c, m->shard, ps))
        return;
    if (c->begins == BEGINS_TAKEOVER && m->status && m->status->shard == m->shard)
        shards_take_status(c, m->status);
    c->shard[m->shard].entered = true;
    if (shards_all(c, offsetof(struct chief_shard, entered)))
        entered_all(c);
}
