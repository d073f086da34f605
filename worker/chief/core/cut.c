/* One cut of the whole cluster. Sync: stop at a boundary -> the largest step -> copy -> save -> publish; with error
 * feedback the workers are held first, until nothing is withheld, and resumed when all is copied. Async: hold the
 * workers -> compare what is resolved -> recompute what only some shards have -> copy -> resume -> save -> publish.
 * Failure modes: a worker does not hold (fenced), a shard cannot save (the cut is dropped and tried again), a new
 * generation (the cut is dropped). */
#include "worker/chief/core/chief_state.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/checkpoint/checkpoint.h"
#include "common/rows/key.h"

/* How often cuts are taken without a request. The last cut must be paid off before the next begins: it may cost 1 %
 * of the time since it began. Its cost is the whole time until it was published, although training is held for only
 * a part of that, so the true share is less. With an evaluator, the cost includes its evaluation: it may use the
 * same cores, and it must evaluate each cut. */

static uint32_t or_auto(uint32_t given, uint32_t otherwise)
{
    return given == CHECKPOINT_AUTO ? otherwise : given;
}

/* True if the intervals of the job's keys, or the automatic ones, have passed. */
static bool passed(const struct chief *c, uint64_t since)
{
    uint32_t steps = or_auto(c->config.checkpoint.every_steps, CHIEF_CUT_STEPS),
             seconds = or_auto(c->config.checkpoint.every_seconds, CHIEF_CUT_S);
    return (steps || seconds) && since >= steps &&
           c->now_ms - c->last_cut_ms >= (int64_t)seconds * 1000;
}

static bool paid_off(const struct chief *c)
{
    const struct chief_pace *p = &c->pace;
    bool evaluator = c->config.timeouts.evaluator_s > 0;
    if (evaluator && p->judged != c->published_cut)
        return false;
    int64_t cost_ms = p->took_ms + (evaluator ? p->judging_ms : 0);
    int64_t passed_ms = c->now_ms - p->began_ms;
    return passed_ms >= CHIEF_CUT_LEAST_MS && passed_ms / CHIEF_CUT_SHARE >= cost_ms;
}

bool pace_is_due(const struct chief *c)
{
    uint64_t made = c->mode->steps(c);
    if (made <= c->published_step)
        return false;
    bool measured = c->config.checkpoint.every_steps == CHECKPOINT_AUTO &&
                    c->config.checkpoint.every_seconds == CHECKPOINT_AUTO;
    return passed(c, made - c->published_step) || (measured && paid_off(c));
}

void pace_begin(struct chief *c)
{
    c->pace.began_ms = c->now_ms;
}

void pace_published(struct chief *c)
{
    assert(c->cut.began_ms <= c->now_ms);
    c->pace.began_ms = c->cut.began_ms;
    c->pace.took_ms = c->now_ms - c->cut.began_ms;
}

void pace_judged(struct chief *c, uint64_t cut, int64_t took_ms)
{
    c->pace.judged = cut;
    c->pace.judging_ms = took_ms;
}

static void send_cut(struct chief *c, uint32_t ps)
{
    Gradwire__Cut m = GRADWIRE__CUT__INIT;
    m.generation = &c->named;
    m.cut = c->cut.number;
    chief_to_ps(c, ps, FRAME_CUT, &m.base);
}

static void send_cut_at(struct chief *c, uint32_t ps)
{
    Gradwire__CutAt m = GRADWIRE__CUT_AT__INIT;
    m.generation = &c->named;
    m.cut = c->cut.number;
    m.step = c->cut.step;
    m.t = c->cut.t;
    uint8_t window[IDS_WINDOW_BYTES];
    if (c->mode->put_cut_at)
        c->mode->put_cut_at(c, &m, window);
    chief_to_ps(c, ps, FRAME_CUT_AT, &m.base);
}

static void send_hold(struct chief *c, uint32_t worker)
{
    Gradwire__Hold m = GRADWIRE__HOLD__INIT;
    m.generation = &c->named;
    m.cut = c->cut.number;
    c->io->to_worker(c->ctx, worker, FRAME_HOLD, &m.base);
}

static void send_resume(struct chief *c, uint32_t worker)
{
    Gradwire__Resume m = GRADWIRE__RESUME__INIT;
    m.generation = &c->named;
    m.cut = c->cut.number;
    c->io->to_worker(c->ctx, worker, FRAME_RESUME, &m.base);
}

static void resume_all(struct chief *c)
{
    assert(!c->cut.resumed);
    c->cut.resumed = true;
    for (uint32_t i = 0; i < c->workers && c->holds; i++)
        if (c->worker[i].welcomed)
            send_resume(c, i);
    if (c->mode->tick)
        c->mode->tick(c);
}

static void tell_kept(struct chief *c, enum chief_kept what)
{
    if (c->cut.keeps)
        c->io->kept(c->ctx, c->cut.keeps, what, c->cut.number, c->cut.step);
    if (what != KEPT_COPIED)
        c->cut.keeps = 0;
}

/* Every shard has stopped, so this cut contains the state at the time of the request. */
static void take_ask(struct chief *c)
{
    c->cut.keeps = c->keep_ask;
    c->keep_ask = 0;
    if (!c->cut.keeps || c->cut.step <= c->keep_step)
        return;
    if (c->begins != BEGINS_TAKEOVER) {
        tell_kept(c, KEPT_FAILED);
        return;
    }
    c->cut.keeps = 0;
    cut_go_back(c, c->keep_step);
}

/* In sync, before a takeover, leaves of this step from the requesting worker may have reached only some shards.
 * Those make the step; the other shards stop, or reach it, only when they get these leaves too. So the request must
 * not wait for the cut. */
static void ask_tick(struct chief *c)
{
    int64_t since_ms = c->keep_ms > c->cut.began_ms ? c->keep_ms : c->cut.began_ms;
    bool of_a_step = c->keep_step != UINT64_MAX && c->begins == BEGINS_TAKEOVER;
    bool stops = of_a_step &&
                 (c->cut.stage == STAGE_STOP || (c->cut.stage == STAGE_SAVE && !c->cut.resumed));
    if (stops && c->keep_ask && c->now_ms - since_ms >= CHIEF_KEEP_MS)
        cut_go_back(c, c->keep_step);
}

static bool holding(const struct chief *c)
{
    return c->holds && c->cut.stage != STAGE_NONE && !c->cut.resumed;
}

static void send_ended(struct chief *c, uint32_t ps, bool published)
{
    Gradwire__CutEnded m = GRADWIRE__CUT_ENDED__INIT;
    m.generation = &c->named;
    m.cut = c->cut.number;
    m.published = published;
    chief_to_ps(c, ps, FRAME_CUT_ENDED, &m.base);
}

void cut_resend_worker(struct chief *c, uint32_t worker)
{
    if (holding(c))
        send_hold(c, worker);
    else
        send_resume(c, worker);
}

static void clear_shards(struct chief *c)
{
    for (uint32_t i = 0; i < c->plan.shards; i++)
        c->shard[i].stopped = c->shard[i].copied = c->shard[i].saved = false;
}

void cut_start(struct chief *c, bool final)
{
    bool ends = c->phase >= CHIEF_DONE || (c->final_there && !c->awaits_evaluator);
    if (!c->entered || c->phase == CHIEF_GATHER || ends || c->rollback_due || c->unkept)
        return;
    /* a cut that is not copied yet serves the new request as well */
    if (c->cut.stage != STAGE_NONE) {
        c->cut.again = c->cut.again || final || c->cut.stage >= STAGE_SAVE;
        return;
    }
    uint32_t tries = c->cut.tries;
    c->cut = (struct chief_cut){.stage = STAGE_HOLD,
                                .number = c->next_cut++,
                                .began_ms = c->now_ms,
                                .final = final,
                                .tries = tries};
    clear_shards(c);
    for (uint32_t i = 0; i < c->workers; i++) {
        struct chief_worker *w = &c->worker[i];
        w->held = !w->given; /* a worker without an incarnation of this generation cannot push */
        w->fencing = false;
        if (c->holds && w->welcomed)
            send_hold(c, i);
    }
    cut_progress(c);
}

void cut_abort(struct chief *c)
{
    c->keep_ask = 0;
    if (c->cut.stage == STAGE_NONE)
        return;
    c->cut.keeps = 0;
    /* A manifest that is being published may still appear: it is complete, and older than all that follow. */
    if (c->cut.stage != STAGE_PUBLISH)
        c->io->discard(c->ctx, c->cut.number);
    c->cut.stage = STAGE_NONE;
}

void cut_go_back(struct chief *c, uint64_t step)
{
    chief_say(c, 1,
              "the evaluation after step %" PRIu64
              " was the best, and the chief died before a checkpoint had that state: going back to "
              "the last checkpoint, to evaluate it again",
              step);
    cut_abort(c);           /* it may be of a later step: the generation must not begin with it */
    c->rollback_due = true; /* with the next tick */
}

static void cut_failed(struct chief *c, const char *why)
{
    bool final = c->cut.final, again = c->cut.again;
    assert(c->cut.stage >= STAGE_SAVE);
    chief_say(c, 1, "checkpoint %" PRIu64 " at step %" PRIu64 " failed: %s", c->cut.number,
              c->cut.step, why);
    send_ended(c, EVERY_PS, false);
    if (holding(c))
        resume_all(c);
    c->cut.stage = STAGE_NONE;
    tell_kept(c, KEPT_FAILED);
    c->io->discard(c->ctx, c->cut.number);
    c->retry_ms = c->now_ms + CHIEF_CUT_RETRY_MS;
    if (c->going)
        chief_end(c, 143, "asked to stop; the checkpoint failed, the last published one remains");
    else if (final && ++c->cut.tries >= CHIEF_FINAL_CUT_TRIES)
        chief_fail(c, "the final checkpoint failed: %s", why);
    else if (final) /* finish_tick begins the next attempt */
        chief_say(c, 1, "the final checkpoint is tried again in %d s (attempt %u of %d failed)",
                  CHIEF_CUT_RETRY_MS / 1000, c->cut.tries, CHIEF_FINAL_CUT_TRIES);
    else if (again)
        cut_start(c, c->phase == CHIEF_FINISH && c->evaluated);
}

void cut_resend(struct chief *c, uint32_t ps)
{
    if (c->cut.stage == STAGE_STOP)
        send_cut(c, ps);
    else if (c->cut.stage == STAGE_SAVE)
        send_cut_at(c, ps);
    /* its shards may still be stopped for the last cut */
    else if (c->cut.stage == STAGE_NONE && c->entered)
        send_ended(c, ps, c->published_cut == c->cut.number);
}

static bool all_held(struct chief *c)
{
    for (uint32_t i = 0; i < c->workers; i++)
        if (!c->worker[i].held)
            return false;
    return true;
}

static void stopped_all(struct chief *c)
{
    assert(c->cut.stage == STAGE_STOP && !c->cut.resumed);
    c->cut.step = c->cut.t = 0;
    for (uint32_t i = 0; i < c->plan.shards; i++) {
        if (c->shard[i].step > c->cut.step)
            c->cut.step = c->shard[i].step;
        if (c->shard[i].t > c->cut.t)
            c->cut.t = c->shard[i].t;
    }
    if (c->mode->stopped && !c->mode->stopped(c))
        return;
    c->cut.stage = STAGE_SAVE;
    take_ask(c);
    if (c->cut.stage == STAGE_SAVE)
        send_cut_at(c, EVERY_PS);
}

static void publish(struct chief *c)
{
    const struct chief_shard *s = &c->shard[0];
    struct checkpoint_file files[PLAN_SHARDS_MAX];
    uint8_t window[IDS_WINDOW_BYTES];
    const struct journal_lines lines = chief_journal_lines(c);
    struct manifest m = {.cut = c->cut.number,
                         .generation = c->generation.number,
                         .final = c->cut.final,
                         .step = s->step,
                         .t = s->t,
                         .clipped = s->clipped,
                         .total_elems = c->plan.elems,
                         .tables = c->plan.tables,
                         .counted = s->tables,
                         .slots = c->slots,
                         .microbatches = c->config.settings.microbatches,
                         .files = c->plan.shards,
                         .file = files,
                         .ps = c->config.ps,
                         .ps_threads = c->threads};
    m.journal_lines = lines.n;
    m.journal_crc = lines.crc;
    memcpy(m.uuid, c->uuid, sizeof m.uuid);
    memcpy(m.epoch, c->epoch, sizeof m.epoch);
    if (c->has_base)
        m.begun = c->base.begun; /* borrowed: the publisher copies it */
    c->mode->put_manifest(c, &m, window);
    for (uint32_t i = 0; i < c->plan.shards; i++) {
        files[i] = c->shard[i].file;
        if (c->shard[i].duplicates > m.duplicates)
            m.duplicates = c->shard[i].duplicates;
        m.squeezed += c->shard[i].squeezed;
        for (uint32_t k = 0; k < m.counted; k++)
            row_counts_add(&m.table[k], &c->shard[i].table[k]);
    }
    assert(c->cut.stage == STAGE_SAVE && c->cut.resumed && shards_equal(c));
    c->cut.stage = STAGE_PUBLISH;
    c->io->publish(c->ctx, &m);
}

void cut_progress(struct chief *c)
{
    if (c->cut.stage == STAGE_HOLD && (!c->holds || all_held(c))) {
        c->cut.stage = STAGE_STOP;
        clear_shards(c);
        send_cut(c, EVERY_PS);
    } else if (c->cut.stage == STAGE_STOP && shards_all(c, offsetof(struct chief_shard, stopped)))
        stopped_all(c);
    else if (c->cut.stage == STAGE_SAVE) {
        if (!c->cut.resumed && shards_all(c, offsetof(struct chief_shard, copied))) {
            if (!shards_equal(c)) {
                cut_failed(c, "the shards differ: a late push came in between");
                return;
            }
            const char *lacks = c->mode->lacks ? c->mode->lacks(c) : NULL;
            if (lacks) {
                cut_failed(c, lacks);
                return;
            }
            resume_all(c);
            tell_kept(c, KEPT_COPIED);
        }
        if (c->cut.resumed && shards_all(c, offsetof(struct chief_shard, saved)) &&
            guard_takes_cut(c))
            publish(c);
    }
}

bool chief_expects_file(const struct chief *c, uint32_t ps, uint64_t cut, const char *file)
{
    uint32_t shard;
    return c->cut.stage == STAGE_SAVE && cut == c->cut.number && cut_file_shard(file, &shard) &&
           shards_are_of(c, shard, ps);
}

/* True if this is the shard's part of the plan, in its file. */
static bool is_its_part(const struct chief *c, const Gradwire__CutSaved *m)
{
    const struct plan_shard *p = &c->plan.shard[m->shard];
    const struct bucket_range of =
        c->plan.tables ? bucket_shard(m->shard, c->plan.shards) : (struct bucket_range){0, 0};
    uint32_t shard;
    return cut_file_shard(m->file, &shard) && shard == m->shard && m->elems == p->elems &&
           (!m->elems || m->first_elem == p->first_elem) && m->first_bucket == of.first &&
           m->end_bucket == of.end && (!m->rows || c->plan.tables);
}

static void take_saved(struct chief *c, uint32_t ps, const Gradwire__CutSaved *m)
{
    if (!shards_are_of(c, m->shard, ps) || !is_its_part(c, m)) {
        char why[160];
        (void)snprintf(why, sizeof why,
                       "ps %" PRIu32 " says that shard %" PRIu32
                       " is saved in \"%.31s\", and that is not its part of the model",
                       ps, m->shard, m->file);
        cut_failed(c, why);
        return;
    }
    struct chief_shard *s = &c->shard[m->shard];
    struct checkpoint_file *f = &s->file;
    *f = (struct checkpoint_file){
        .first_elem = m->first_elem, .elems = m->elems, .bytes = m->bytes, .head_crc = m->head_crc};
    f->rows = m->rows;
    f->first_bucket = m->first_bucket;
    f->end_bucket = m->end_bucket;
    f->clock = m->clock;
    size_t n = strnlen(m->file, sizeof f->name - 1);
    memcpy(f->name, m->file, n);
    (void)snprintf(s->broken, sizeof s->broken, "%s", m->broken);
    s->saved = true;
}

#define OURS(m)                                                                                    \
    (c->cut.stage != STAGE_NONE && (m)->cut == c->cut.number && chief_is_ours(c, (m)->generation))

void cut_on(struct chief *c, uint32_t ps, enum frame_type type, const ProtobufCMessage *m)
{
    if (type == FRAME_CUT_STOPPED) {
        const Gradwire__CutStopped *stopped = (const Gradwire__CutStopped *)m;
        if (!OURS(stopped) || !stopped->status || !shards_are_of(c, stopped->status->shard, ps) ||
            c->cut.stage != STAGE_STOP)
            return;
        shards_take_status(c, stopped->status);
        c->shard[stopped->status->shard].stopped = true;
    } else if (type == FRAME_CUT_COPIED) {
        const Gradwire__CutCopied *copied = (const Gradwire__CutCopied *)m;
        if (!OURS(copied) || !copied->status || !shards_are_of(c, copied->status->shard, ps) ||
            c->cut.stage != STAGE_SAVE || c->shard[copied->status->shard].copied)
            return;
        shards_take_status(c, copied->status);
        c->shard[copied->status->shard].copied = true;
    } else if (type == FRAME_CUT_SAVED) {
        const Gradwire__CutSaved *saved = (const Gradwire__CutSaved *)m;
        if (!OURS(saved) || saved->shard >= c->plan.shards || c->cut.stage != STAGE_SAVE)
            return;
        if (saved->error[0]) {
            cut_failed(c, saved->error);
            return;
        }
        take_saved(c, ps, saved);
    } else if (type == FRAME_FENCED) {
        const Gradwire__Fenced *fenced = (const Gradwire__Fenced *)m;
        if (fenced->worker < c->workers && c->mode->on_fenced)
            c->mode->on_fenced(c, fenced);
    }
    cut_progress(c);
}

bool cut_published(struct chief *c, uint64_t cut, const char *error)
{
    /* of an earlier generation; its manifest is found on disk when it is needed */
    if (c->cut.stage != STAGE_PUBLISH || cut != c->cut.number)
        return false;
    if (error) {
        cut_failed(c, error);
        return false;
    }
    assert(c->cut.resumed && shards_equal(c));
    c->cut.stage = STAGE_NONE;
    c->cut.tries = 0;
    c->published_cut = cut;
    c->published_step = c->cut.step;
    c->published_final = c->cut.final;
    c->usable_below = UINT64_MAX; /* this cut is newer than all that shards could not read */
    c->unusable[0] = '\0';
    c->last_cut_ms = c->now_ms;
    pace_published(c);
    send_ended(c, EVERY_PS, true);
    tell_kept(c, KEPT_PUBLISHED);
    return true;
}

/* True if the chief or a ps got SIGTERM while no cut could begin. */
static bool someone_goes(const struct chief *c)
{
    bool goes = c->going;
    for (uint32_t i = 0; i < c->config.ps; i++)
        goes = goes || c->ps[i].going;
    return goes;
}

void cut_tick(struct chief *c)
{
    if (c->cut.stage == STAGE_HOLD && c->mode->hold_tick) {
        c->mode->hold_tick(c);
    } else if (c->cut.stage == STAGE_HOLD) {
        feedback_hold_tick(c);
        cut_progress(c);
    }
    ask_tick(c);
    if (c->cut.stage == STAGE_STOP)
        cut_progress(c); /* uneven ids wait for a worker that can recompute them */
    if (c->cut.stage != STAGE_NONE || c->phase != CHIEF_RUN || c->now_ms < c->retry_ms)
        return;
    bool wanted = c->mode->wants_cut && c->mode->wants_cut(c);
    if (wanted || someone_goes(c) || pace_is_due(c))
        cut_start(c, false);
}
