/* One cut of the whole cluster. Sync: stop at a boundary -> the largest step -> copy -> save -> publish; with error
 * feedback the workers are held first, until nothing is withheld, and resumed when all is copied. Async: hold the
 * workers -> compare what is resolved -> redo what only some shards have -> copy -> resume -> save -> publish.
 * Failure modes: a worker that does not hold (fenced), a shard that cannot save (the cut is dropped and tried again),
 * a new generation (the cut is dropped). */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "worker/chief/core/chief_state.h"

static void send_cut(struct chief *c, uint32_t ps)
{
    Gradwire__Cut m = GRADWIRE__CUT__INIT;
    Gradwire__Generation g = msg_generation(c->generation);
    m.generation = &g;
    m.cut = c->cut.number;
    if (c->ps[ps].up)
        c->io->to_ps(c->ctx, ps, FRAME_CUT, &m.base);
}

static void send_cut_at(struct chief *c, uint32_t ps)
{
    Gradwire__CutAt m = GRADWIRE__CUT_AT__INIT;
    Gradwire__Generation g = msg_generation(c->generation);
    m.generation = &g;
    m.cut = c->cut.number;
    m.step = c->cut.step;
    uint8_t window[IDS_WINDOW_BYTES];
    if (c->geo) {
        m.mark = c->cut.settled.mark;
        m.window.data = window;
        m.window.len = ids_pack(&c->cut.settled, window);
    }
    if (c->ps[ps].up)
        c->io->to_ps(c->ctx, ps, FRAME_CUT_AT, &m.base);
}

static void send_hold(struct chief *c, uint32_t worker)
{
    Gradwire__Hold m = GRADWIRE__HOLD__INIT;
    Gradwire__Generation g = msg_generation(c->generation);
    m.generation = &g;
    m.cut = c->cut.number;
    c->io->to_worker(c->ctx, worker, FRAME_HOLD, &m.base);
}

static void send_resume(struct chief *c, uint32_t worker)
{
    Gradwire__Resume m = GRADWIRE__RESUME__INIT;
    Gradwire__Generation g = msg_generation(c->generation);
    m.generation = &g;
    m.cut = c->cut.number;
    c->io->to_worker(c->ctx, worker, FRAME_RESUME, &m.base);
}

static void resume_all(struct chief *c)
{
    c->cut.resumed = true;
    for (uint32_t i = 0; i < c->workers && c->holds; i++)
        if (c->worker[i].welcomed)
            send_resume(c, i);
    leases_serve(c);
}

static bool holding(const struct chief *c)
{
    return c->holds && c->cut.stage != STAGE_NONE && !c->cut.resumed;
}

static void send_ended(struct chief *c, uint32_t ps, bool published)
{
    Gradwire__CutEnded m = GRADWIRE__CUT_ENDED__INIT;
    Gradwire__Generation g = msg_generation(c->generation);
    m.generation = &g;
    m.cut = c->cut.number;
    m.published = published;
    if (c->ps[ps].up)
        c->io->to_ps(c->ctx, ps, FRAME_CUT_ENDED, &m.base);
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
    if (!c->entered || c->phase == CHIEF_GATHER || c->phase >= CHIEF_DONE)
        return;
    if (c->cut.stage != STAGE_NONE) { /* before it is copied it will do */
        c->cut.again = c->cut.again || final || c->cut.stage >= STAGE_SAVE;
        return;
    }
    uint32_t tries = final ? c->cut.tries : 0;
    c->cut = (struct chief_cut){.stage = STAGE_HOLD,
                                .number = c->next_cut++,
                                .began_ms = c->now_ms,
                                .final = final,
                                .tries = tries};
    clear_shards(c);
    for (uint32_t i = 0; i < c->workers; i++) {
        struct chief_worker *w = &c->worker[i];
        w->held = !w->given; /* nobody who could push */
        w->fencing = false;
        if (c->holds && w->welcomed)
            send_hold(c, i);
    }
    cut_progress(c);
}

void cut_abort(struct chief *c)
{
    if (c->cut.stage == STAGE_NONE)
        return;
    if (c->cut.stage !=
        STAGE_PUBLISH) /* else its manifest may still come: it is whole, and older than what follows */
        c->io->discard(c->ctx, c->cut.number);
    c->cut.stage = STAGE_NONE;
}

static void tell_ended(struct chief *c, bool published)
{
    for (uint32_t i = 0; i < c->config.ps; i++)
        send_ended(c, i, published);
}

static void cut_failed(struct chief *c, const char *why)
{
    bool final = c->cut.final, again = c->cut.again;
    chief_say(c, 1, "cut %" PRIu64 " at step %" PRIu64 " failed: %s", c->cut.number, c->cut.step,
              why);
    tell_ended(c, false);
    if (holding(c))
        resume_all(c);
    c->cut.stage = STAGE_NONE;
    c->io->discard(c->ctx, c->cut.number);
    c->retry_ms = c->now_ms + CHIEF_CUT_RETRY_MS;
    if (c->going)
        chief_end(c, 143, "told to go; the cut failed, the last published one stands");
    else if (final && ++c->cut.tries >= CHIEF_FINAL_CUT_TRIES)
        chief_fail(c, "the final checkpoint failed: %s", why);
    else if (final)
        cut_start(c, true);
    else if (again)
        cut_start(c, c->phase == CHIEF_FINISH && c->evaluated);
}

/* ---- async: hold, fence, redo ---- */

static void fence(struct chief *c, uint32_t worker)
{
    struct chief_worker *w = &c->worker[worker];
    w->fencing = true;
    c->residuals_lost += c->feedback && w->given;
    w->given = false;
    w->fence_ms = c->now_ms;
    w->fenced_by = 0;
    w->incarnation = c->generation.number << 24 | ++c->incarnations;
    clocks_expect(c, worker);
    if (c->geo)
        leases_die(c, worker);
    chief_say(c, 1, "worker %u did not hold for cut %" PRIu64 ": fenced", worker, c->cut.number);
    Gradwire__Fence m = GRADWIRE__FENCE__INIT;
    Gradwire__Generation g = msg_generation(c->generation);
    m.generation = &g;
    m.worker = worker;
    m.incarnation = w->incarnation;
    chief_all_ps(c, FRAME_FENCE, &m.base);
}

void cut_resend(struct chief *c, uint32_t ps)
{
    if (c->cut.stage == STAGE_STOP)
        send_cut(c, ps);
    else if (c->cut.stage == STAGE_SAVE)
        send_cut_at(c, ps);
    else if (c->cut.stage == STAGE_NONE &&
             c->entered) /* its shards may still be held for the last one */
        send_ended(c, ps, c->published_cut == c->cut.number);
}

static bool all_held(struct chief *c)
{
    for (uint32_t i = 0; i < c->workers; i++)
        if (!c->worker[i].held)
            return false;
    return true;
}

static void check_hold_bounds(struct chief *c)
{
    for (uint32_t i = 1; i < c->workers; i++) {
        struct chief_worker *w = &c->worker[i];
        int64_t since = c->cut.began_ms > w->lost_ms || w->up ? c->cut.began_ms : w->lost_ms;
        int64_t bound = w->up ? CHIEF_HOLD_MS : CHIEF_HOLD_DOWN_MS;
        if (w->fencing)
            since = w->fence_ms; /* an answer was lost with a ps's connection: said again */
        if (!w->held && c->now_ms - since > bound)
            fence(c, i);
    }
}

/* Steps wait for its leaves anyway, and with them comes what it withholds. */
static bool may_push(const struct chief *c, uint32_t worker)
{
    struct chief_part part[CHIEF_WORKERS_MAX];
    uint32_t n = members_parts(c, part), i = 0;
    while (i < n && part[i].worker != worker)
        i++;
    return i < n && c->step < c->total;
}

/* Sync: one that is away may stay so, and one without leaves may never answer. */
static void check_away(struct chief *c)
{
    for (uint32_t i = 1; i < c->workers; i++) {
        struct chief_worker *w = &c->worker[i];
        int64_t since = c->cut.began_ms > w->lost_ms || w->up ? c->cut.began_ms : w->lost_ms;
        int64_t bound = w->up ? CHIEF_HOLD_MS : CHIEF_HOLD_DOWN_MS;
        if (w->held || (w->up && may_push(c, i)) || c->now_ms - since <= bound)
            continue;
        w->held = true;
        chief_say(c, 0, "worker %u %s: what it withheld is not in cut %" PRIu64, i,
                  w->up ? "does not answer" : "is away", c->cut.number);
    }
    cut_progress(c);
}

/* Ids that some shard has in part or whole while another has not. */
static size_t uneven(struct chief *c, uint64_t *out, size_t room)
{
    size_t n = 0;
    uint64_t end = 0;
    for (uint32_t i = 0; i < c->plan.shards; i++) {
        struct chief_shard *s = &c->shard[i];
        if (ids_end(&s->resolved) > end)
            end = ids_end(&s->resolved);
        for (size_t k = 0; k < s->partials; k++)
            if (s->partial[k] >= end)
                end = s->partial[k] + 1;
    }
    for (uint64_t id = c->done.mark; id < end && n < room; id++) {
        uint32_t some = 0, all = 0;
        for (uint32_t i = 0; i < c->plan.shards; i++) {
            struct chief_shard *s = &c->shard[i];
            bool part = false;
            for (size_t k = 0; k < s->partials; k++)
                part = part || s->partial[k] == id;
            bool whole = ids_has(&s->resolved, id);
            some += whole || part;
            all += whole;
        }
        if (some && all < c->plan.shards)
            out[n++] = id;
    }
    return n;
}

static void stop_shards(struct chief *c)
{
    c->cut.stage = STAGE_STOP;
    clear_shards(c);
    for (uint32_t i = 0; i < c->config.ps; i++)
        send_cut(c, i);
}

/* A worker that is held does the uneven ids; then everything is compared again. */
static void redo(struct chief *c, const uint64_t *ids, size_t n)
{
    for (uint32_t i = 0; i < c->workers; i++) {
        if (!c->worker[i].welcomed || !c->worker[i].up)
            continue;
        c->worker[i].held = false;
        c->cut.stage = STAGE_HOLD;
        c->cut.began_ms = c->now_ms;
        leases_assign(c, i, ids, n, true);
        return;
    }
}

static void stopped_all(struct chief *c)
{
    c->cut.step = 0;
    for (uint32_t i = 0; i < c->plan.shards; i++)
        if (c->shard[i].step > c->cut.step)
            c->cut.step = c->shard[i].step;
    if (c->geo) {
        leases_settle(c, &c->cut.settled);
        c->cut.step = c->cut.settled.count;
    } else if (!c->sync) {
        uint64_t ids[WORKER_RANGES_MAX /
                     2]; /* with what it holds they fit its list; the others come next round */
        size_t n = uneven(c, ids, sizeof ids / sizeof *ids);
        if (n) {
            redo(c, ids, n);
            return;
        }
    }
    c->cut.stage = STAGE_SAVE;
    for (uint32_t i = 0; i < c->config.ps; i++)
        send_cut_at(c, i);
}

static bool shards_equal(const struct chief *c)
{
    const struct chief_shard *a = &c->shard[0];
    for (uint32_t i = 1; i < c->plan.shards; i++) {
        const struct chief_shard *b = &c->shard[i];
        if (a->step != b->step || a->t != b->t || a->dropped != b->dropped ||
            (!c->sync && (!ids_equal(&a->resolved, &b->resolved) || b->partials || a->partials)))
            return false;
    }
    return true;
}

static void publish(struct chief *c)
{
    const struct chief_shard *s = &c->shard[0];
    struct checkpoint_file files[PLAN_SHARDS_MAX];
    uint8_t window[IDS_WINDOW_BYTES];
    struct manifest m = {.cut = c->cut.number,
                         .generation = c->generation.number,
                         .final = c->cut.final,
                         .step = s->step,
                         .t = s->t,
                         .clipped = s->clipped,
                         .dropped = s->dropped,
                         .redo = c->redo_place,
                         .dealt = c->sync ? s->step : ids_end(&s->resolved),
                         .total_elems = c->plan.elems,
                         .slots = c->slots,
                         .lost = c->losing,
                         .microbatches = c->config.settings.microbatches,
                         .mark = s->resolved.mark,
                         .files = c->plan.shards,
                         .file = files,
                         .ps = c->config.ps,
                         .ps_threads = c->threads};
    memcpy(m.uuid, c->uuid, sizeof m.uuid);
    memcpy(m.epoch, c->epoch, sizeof m.epoch);
    if (!c->sync) {
        m.window_bits_bytes = (uint32_t)ids_pack(&s->resolved, window);
        m.window_bits = window;
    }
    for (uint32_t i = 0; i < c->plan.shards; i++) {
        files[i] = c->shard[i].file;
        if (c->shard[i].duplicates > m.duplicates)
            m.duplicates = c->shard[i].duplicates;
    }
    c->cut.stage = STAGE_PUBLISH;
    c->io->publish(c->ctx, &m);
}

static bool all_shards(const struct chief *c, size_t flag)
{
    for (uint32_t i = 0; i < c->plan.shards; i++)
        if (!*((const bool *)((const char *)&c->shard[i] + flag)))
            return false;
    return true;
}

void cut_progress(struct chief *c)
{
    if (c->cut.stage == STAGE_HOLD && (!c->holds || all_held(c)))
        stop_shards(c);
    else if (c->cut.stage == STAGE_STOP && all_shards(c, offsetof(struct chief_shard, stopped)))
        stopped_all(c);
    else if (c->cut.stage == STAGE_SAVE) {
        if (!c->cut.resumed && all_shards(c, offsetof(struct chief_shard, copied))) {
            if (!shards_equal(c)) {
                cut_failed(c, "the shards differ: a late push came in between");
                return;
            }
            if (c->config.settings.redo && !c->redo_place.there) {
                cut_failed(c, "no memory for what is to be trained at the epoch's end");
                return;
            }
            resume_all(c);
        }
        if (c->cut.resumed && all_shards(c, offsetof(struct chief_shard, saved)))
            publish(c);
    }
}

static void take_saved(struct chief *c, const Gradwire__CutSaved *m)
{
    struct chief_shard *s = &c->shard[m->shard];
    struct checkpoint_file *f = &s->file;
    *f = (struct checkpoint_file){
        .first_elem = m->first_elem, .elems = m->elems, .bytes = m->bytes, .head_crc = m->head_crc};
    size_t n = strnlen(m->file, sizeof f->name - 1);
    memcpy(f->name, m->file, n);
    s->saved = true;
}

#define OURS(m)                                                                                    \
    (c->cut.stage != STAGE_NONE && (m)->cut == c->cut.number &&                                    \
     generation_equal(msg_generation_get((m)->generation), c->generation))

void cut_on(struct chief *c, uint32_t ps, enum frame_type type, const ProtobufCMessage *m)
{
    (void)ps;
    if (type == FRAME_CUT_STOPPED) {
        const Gradwire__CutStopped *stopped = (const Gradwire__CutStopped *)m;
        if (!OURS(stopped) || !stopped->status || stopped->status->shard >= c->plan.shards ||
            c->cut.stage != STAGE_STOP)
            return;
        chief_take_status(c, stopped->status);
        c->shard[stopped->status->shard].stopped = true;
    } else if (type == FRAME_CUT_COPIED) {
        const Gradwire__CutCopied *copied = (const Gradwire__CutCopied *)m;
        if (!OURS(copied) || !copied->status || copied->status->shard >= c->plan.shards ||
            c->cut.stage != STAGE_SAVE || c->shard[copied->status->shard].copied)
            return;
        chief_take_status(c, copied->status);
        c->shard[copied->status->shard].copied = true;
    } else if (type == FRAME_CUT_SAVED) {
        const Gradwire__CutSaved *saved = (const Gradwire__CutSaved *)m;
        if (!OURS(saved) || saved->shard >= c->plan.shards || c->cut.stage != STAGE_SAVE)
            return;
        if (saved->error[0]) {
            cut_failed(c, saved->error);
            return;
        }
        take_saved(c, saved);
    } else if (type == FRAME_FENCED) {
        const Gradwire__Fenced *fenced = (const Gradwire__Fenced *)m;
        if (fenced->worker >= c->workers)
            return;
        clocks_on_fenced(c, fenced);
        struct chief_worker *w = &c->worker[fenced->worker];
        if (w->fencing && fenced->incarnation == w->incarnation && ++w->fenced_by >= c->config.ps) {
            w->held = true;
            if (!c->geo) /* there it has died with it */
                leases_return(c, fenced->worker);
        }
    }
    cut_progress(c);
}

/* A cut is published that has all that was learned when they were told to go. */
static void let_go(struct chief *c)
{
    Gradwire__Leave m = GRADWIRE__LEAVE__INIT;
    Gradwire__Generation g = msg_generation(c->generation);
    m.generation = &g;
    for (uint32_t i = 0; i < c->config.ps; i++) {
        if (c->ps[i].going && c->ps[i].up)
            c->io->to_ps(c->ctx, i, FRAME_LEAVE, &m.base);
        c->ps[i].going = false;
    }
    if (!c->going)
        return;
    char text[128];
    (void)snprintf(text, sizeof text,
                   "ended by SIGTERM: cut %" PRIu64 ", step %" PRIu64
                   ", is published, and the job goes on from it",
                   c->published_cut, c->published_step);
    chief_end(c, 143, text);
}

void chief_on_published(struct chief *c, uint64_t cut, const char *error, int64_t now_ms)
{
    c->now_ms = now_ms;
    if (c->cut.stage != STAGE_PUBLISH || cut != c->cut.number)
        return; /* of a generation that is over; the manifest is found when it is looked for */
    if (error) {
        cut_failed(c, error);
        return;
    }
    bool final = c->cut.final, again = c->cut.again;
    c->cut.stage = STAGE_NONE;
    c->published_cut = cut;
    c->published_step = c->cut.step;
    c->published_final = final;
    c->lost = c->losing;
    c->last_cut_ms = now_ms;
    tell_ended(c, true);
    if (final)
        chief_final(c);
    else if (again)
        cut_start(c, c->phase == CHIEF_FINISH && c->evaluated);
    else
        let_go(c);
}

static bool someone_goes(const struct chief *c)
{
    bool goes = c->going;
    for (uint32_t i = 0; i < c->config.ps; i++)
        goes = goes || c->ps[i].going;
    return goes;
}

void cut_tick(struct chief *c)
{
    if (c->cut.stage == STAGE_HOLD && !c->sync)
        check_hold_bounds(c);
    else if (c->cut.stage == STAGE_HOLD)
        check_away(c);
    if (c->cut.stage == STAGE_STOP)
        cut_progress(c); /* what is uneven waits for a worker that can redo it */
    if (c->cut.stage != STAGE_NONE || c->phase != CHIEF_RUN)
        return;
    if (c->now_ms < c->retry_ms)
        return;
    if (c->unsettled != UINT64_MAX) { /* the shards wait for batches that died */
        cut_start(c, false);
        return;
    }
    if (someone_goes(c)) { /* told to go while no cut could begin */
        cut_start(c, false);
        return;
    }
    uint32_t steps = c->config.every_steps, seconds = c->config.every_seconds;
    if (steps == 0 && seconds == 0)
        return;
    uint64_t made = chief_steps(c) - c->published_step;
    if (chief_steps(c) > c->published_step && (steps == 0 || made >= steps) &&
        (seconds == 0 || c->now_ms - c->last_cut_ms >= (int64_t)seconds * 1000))
        cut_start(c, false);
}
