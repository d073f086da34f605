/* The process that training waits for. Only the shards know whose part of a step is missing, so they are asked when
 * nothing is made.
 *
 * Happy path: nothing was made for CHIEF_STALL_MS -> WAIT_ASK to all shards -> WAIT from all -> the process is
 * found, and reported once -> something is made: the wait is over. Failure modes: a shard does not answer two
 * requests (its ps is waited for), a ps is away (known without asking), steps that take long (a stall lasts at least
 * CHIEF_STALL_STEPS of them). */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#include "worker/chief/core/chief_state.h"

static const struct chief_wait nobody = {.who = WAIT_NOBODY};

static struct chief_wait for_ps(const struct chief *c, uint32_t ps)
{
    return (struct chief_wait){
        .who = WAIT_PS, .index = ps, .why = c->ps[ps].up ? WAIT_SILENT : WAIT_AWAY};
}

static struct chief_wait for_worker(const struct chief *c, uint32_t worker)
{
    if (worker >= c->workers)
        return nobody;
    const struct chief_worker *w = &c->worker[worker];
    struct chief_wait wait = {.who = WAIT_WORKER,
                              .index = worker,
                              .separate_chief = c->config.separate_chief,
                              .why = WAIT_AWAY};
    if (w->unreached && (w->up || worker == 0)) {
        wait.why = WAIT_UNREACHED;
        wait.ps = w->unreached_ps;
    } else if (w->up) {
        wait.why = WAIT_SILENT;
    } else if (w->loads) {
        wait.why = WAIT_LOADS;
    }
    return wait;
}

/* ---- which process ---- */

static struct chief_wait for_hold(const struct chief *c)
{
    for (uint32_t i = 0; i < c->workers; i++)
        if (!c->worker[i].held)
            return for_worker(c, i);
    return nobody;
}

/* The ps of the first shard without `flag`, an offset in struct chief_shard. */
static struct chief_wait for_shard(const struct chief *c, size_t flag)
{
    for (uint32_t i = 0; i < c->plan.shards; i++)
        if (!*((const bool *)((const char *)&c->shard[i] + flag)))
            return for_ps(c, c->plan.shard[i].ps);
    return nobody;
}

/* Before they copy, shards continue to the cut's step. Unless workers are held, that needs the parts of all of them, so a
 * shard that has not reached this step may wait itself. */
static struct chief_wait for_copy(const struct chief *c)
{
    for (uint32_t i = 0; i < c->plan.shards; i++)
        if (!c->shard[i].copied && (c->holds || c->shard[i].wait.step >= c->cut.step))
            return for_ps(c, c->plan.shard[i].ps);
    return nobody;
}

/* The number of this stall's requests after the shard's last answer. */
static uint64_t unanswered(const struct chief *c, uint32_t shard)
{
    const struct chief_stall *s = &c->stall;
    uint64_t before = s->first_ask - 1, answered = c->shard[shard].wait.number;
    return s->asks - (answered > before ? answered : before);
}

static struct chief_wait for_silent_shard(const struct chief *c)
{
    for (uint32_t i = 0; i < c->plan.shards; i++)
        if (unanswered(c, i) >= CHIEF_SILENT_ASKS)
            return for_ps(c, c->plan.shard[i].ps);
    return nobody;
}

/* True if each has answered a request of this stall; a shard that is late may have answered an earlier one. */
static bool all_have_answered(const struct chief *c)
{
    for (uint32_t i = 0; i < c->plan.shards; i++)
        if (c->shard[i].wait.number < c->stall.first_ask)
            return false;
    return true;
}

static struct chief_wait for_lost_member(const struct chief *c)
{
    for (uint32_t i = 0; i < c->workers; i++)
        if (c->worker[i].member && !c->worker[i].up)
            return for_worker(c, i);
    return nobody;
}

/* The causes are tried in an order in which each can hold up the next ones. */
static struct chief_wait find(const struct chief *c)
{
    struct chief_wait w = for_silent_shard(c);
    if (w.who)
        return w;
    if (!all_have_answered(c))
        return c->stall.now;
    if (c->holds && c->cut.stage == STAGE_HOLD)
        return for_hold(c);
    bool copies = c->cut.stage == STAGE_SAVE && !c->cut.resumed;
    if (copies)
        w = for_copy(c);
    if (!w.who && c->phase == CHIEF_RUN)
        w = for_worker(c, c->mode->slowest(c));
    if (!w.who && copies)
        w = for_shard(c, offsetof(struct chief_shard, copied));
    if (!w.who && c->cut.stage == STAGE_STOP)
        w = for_shard(c, offsetof(struct chief_shard, stopped));
    if (!w.who && c->phase == CHIEF_RUN)
        w = for_lost_member(c);
    /* The chief's own session is parked, and the job cannot end without it. */
    if (!w.who && c->worker && c->worker->unreached && !c->worker->member)
        w = for_worker(c, 0);
    return w;
}

/* ---- text ---- */

const char *chief_wait_words(const struct chief_wait *w, char *out, size_t bytes)
{
    char name[WORKER_NAME_BYTES];
    assert(w->who);
    (void)worker_name(name, w->index, w->separate_chief);
    if (w->who == WAIT_PS && w->why == WAIT_AWAY)
        (void)snprintf(out, bytes, "ps %u, which is not connected", w->index);
    else if (w->why == WAIT_AWAY)
        (void)snprintf(out, bytes, "%s, which is not connected", name);
    else if (w->why == WAIT_UNREACHED)
        (void)snprintf(out, bytes, "%s, which cannot reach ps %u", name, w->ps);
    else if (w->why == WAIT_LOADS)
        (void)snprintf(out, bytes, "%s, which reads its data", name);
    else if (w->who == WAIT_PS)
        (void)snprintf(out, bytes,
                       "ps %u, which is connected but does not answer: it is stopped, or slow",
                       w->index);
    else if (w->index == 0)
        (void)snprintf(out, bytes, "%s%s, which computes or evaluates", name,
                       w->separate_chief ? "" : ", the chief's own");
    else
        (void)snprintf(out, bytes,
                       "%s, which is connected but has not sent its part: it is stopped, or slow",
                       name);
    return out;
}

void wait_text(const struct chief *c, const struct chief_wait *w, char *out, size_t bytes)
{
    char words[160];
    (void)snprintf(out, bytes, "%s %" PRIu64 ": waiting %.0f s for %s", c->mode->unit,
                   c->mode->steps(c), w->seconds, chief_wait_words(w, words, sizeof words));
}

struct chief_wait chief_wait(const struct chief *c, int64_t now_ms)
{
    struct chief_wait w = c->stall.now;
    w.seconds = w.who ? (double)(now_ms - c->stall.since_ms) / 1000 : 0;
    return w;
}

static bool same(const struct chief_wait *a, const struct chief_wait *b)
{
    return a->who == b->who &&
           (!a->who || (a->index == b->index && a->why == b->why && a->ps == b->ps));
}

/* "ps 1", "worker 2". */
static const char *name_of(const struct chief_wait *w, char out[WORKER_NAME_BYTES])
{
    if (w->who == WAIT_WORKER)
        return worker_name(out, w->index, w->separate_chief);
    (void)snprintf(out, WORKER_NAME_BYTES, "ps %u", w->index);
    return out;
}

static void set(struct chief *c, struct chief_wait w)
{
    struct chief_stall *s = &c->stall;
    if (same(&w, &s->now))
        return;
    s->since_ms = s->moved_ms;
    w.seconds = (double)(c->now_ms - s->since_ms) / 1000;
    /* At the start, finish.c and chief.c report waits themselves. The chief's own session is not another process. */
    char text[256], name[WORKER_NAME_BYTES];
    if (w.who && c->phase >= CHIEF_RUN) {
        wait_text(c, &w, text, sizeof text);
        chief_say(c, w.who == WAIT_PS || w.index > 0 || w.why == WAIT_UNREACHED, "%s", text);
    } else if (c->stall.now.who) {
        chief_say(c, 0, "no longer waiting for %s", name_of(&c->stall.now, name));
    }
    if (c->io->waits)
        c->io->waits(c->ctx, &w);
    s->now = w;
}

/* ---- events ---- */

void wait_on(struct chief *c, uint32_t ps, const Gradwire__Wait *m)
{
    struct tree_leaves missing = {{0}};
    if (!c->entered || !chief_is_ours(c, m->generation) || !shards_are_of(c, m->shard, ps) ||
        m->number > c->stall.asks)
        return;
    if (m->missing.len &&
        tree_unpack(missing.bits, c->config.settings.microbatches, m->missing.data, m->missing.len))
        return;
    struct chief_shard *s = &c->shard[m->shard];
    s->wait.number = m->number;
    s->wait.step = m->step;
    s->wait.missing = missing;
    s->wait.behind = m->behind;
    s->wait.worker = m->worker;
}

static void moved(struct chief *c)
{
    struct chief_stall *s = &c->stall;
    set(c, nobody);
    s->made = c->mode->steps(c);
    s->moved_ms = c->now_ms;
    s->asked_ms = 0;
}

void wait_begin(struct chief *c)
{
    /* The duration of a step is not known yet: report nothing before CHIEF_SAY_WAIT_MS. */
    c->stall.took_ms[0] = c->stall.took_ms[1] = CHIEF_SAY_WAIT_MS / CHIEF_STALL_STEPS;
    moved(c);
}

/* The shorter of the last two steps: one of them may have been long because it was waited for. */
static int64_t patience_ms(const struct chief_stall *s)
{
    int64_t took = s->took_ms[0] < s->took_ms[1] ? s->took_ms[0] : s->took_ms[1];
    return took > CHIEF_STALL_MS / CHIEF_STALL_STEPS ? took * CHIEF_STALL_STEPS : CHIEF_STALL_MS;
}

/* The chief's own work at the end is not a stall, but a cut at that time may be. */
static bool is_due(const struct chief *c)
{
    int64_t since_ms = c->stall.moved_ms;
    if (c->phase == CHIEF_FINISH && c->cut.began_ms > since_ms)
        since_ms = c->cut.began_ms;
    bool works = c->phase == CHIEF_RUN ||
                 (c->phase == CHIEF_FINISH && c->cut.stage != STAGE_NONE) ||
                 (c->phase < CHIEF_RUN && chief_ps_away(c) < c->config.ps);
    return works && c->now_ms - since_ms >= patience_ms(&c->stall);
}

void wait_tick(struct chief *c)
{
    struct chief_stall *s = &c->stall;
    uint32_t ps = chief_ps_away(c);
    if (c->mode->steps(c) != s->made) {
        s->took_ms[1] = s->took_ms[0];
        s->took_ms[0] = c->now_ms - s->moved_ms;
        moved(c);
    }
    if (!is_due(c)) {
        set(c, nobody);
    } else if (ps < c->config.ps) {
        set(c, for_ps(c, ps));
        s->asked_ms = 0; /* its shards do not answer */
    } else if (!s->asked_ms || c->now_ms - s->asked_ms >= CHIEF_ANSWER_MS) {
        if (s->asked_ms)
            set(c, find(c));
        Gradwire__WaitAsk m = GRADWIRE__WAIT_ASK__INIT;
        if (!c->stall.asked_ms)
            c->stall.first_ask = c->stall.asks + 1;
        m.generation = &c->named;
        m.number = ++c->stall.asks;
        c->stall.asked_ms = c->now_ms;
        chief_to_ps(c, EVERY_PS, FRAME_WAIT_ASK, &m.base);
    }
}
