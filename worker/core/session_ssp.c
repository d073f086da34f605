/* The session in bounded staleness (docs/explanation/semantics.md, "Bounded staleness").
 *
 * Happy path: a lease -> a TICK with `enter` to every shard -> each answers with its least clock -> the largest of
 * them becomes mine: a pull at that clock from every shard -> compute -> push (answered without parameters),
 * followed on the same connection by a pull at the next clock -> compute ... -> no lease left: a tick that says
 * idle, instead of the pull. The pull tells the shard my clock, and is answered when the bound allows. The rows of
 * the next batch are requested at the same clock before the pull, and wait for the same bound; if the guess was
 * wrong, they are requested when every shard has answered the pull.
 * Failure modes: a connection breaks (the hello has the clock that this shard knows of me; what it has not
 * acknowledged is pushed again); ids to recompute while all are held (outside the clocks: all other workers wait). */
#include <assert.h>

#include "worker/core/session_inner.h"

static void begin(struct session *s)
{
    s->ssp = (struct ssp_state){.entry = 0};
}

/* ---- messages ---- */

static void send_tick(struct session *s, uint32_t shard, bool enter)
{
    Gradwire__Tick m = GRADWIRE__TICK__INIT;
    m.generation = &s->generation;
    m.entry = s->ssp.entry;
    m.enter = enter;
    m.clock = enter ? 0 : s->ssp.clock + 1;
    m.idle = !enter;
    s->io->to_shard(s->ctx, shard, FRAME_TICK, &m.base);
}

static void send_pull(struct session *s, uint32_t shard)
{
    Gradwire__Pull m = GRADWIRE__PULL__INIT;
    m.generation = &s->generation;
    m.any = true;
    m.number = s->ssp.pull.number;
    m.bounded = s->ssp.pull.bounded;
    m.entry = s->ssp.entry;
    m.clock = s->ssp.pull.clock;
    s->link[shard].pull = PULL_ASKED;
    s->link[shard].got_chunks = 0;
    s->io->to_shard(s->ctx, shard, FRAME_PULL, &m.base);
}

/* Ask every shard for its parameters; answers to earlier pulls are ignored from now on. */
static void ask(struct session *s, bool bounded, uint64_t clock)
{
    s->ssp.pull.number++;
    s->ssp.pull.bounded = bounded;
    s->ssp.pull.clock = clock;
    for (uint32_t i = 0; i < s->terms.plan.shards; i++) {
        s->link[i].pull = PULL_NONE;
        if (s->link[i].state != LINK_DOWN)
            send_pull(s, i);
    }
}

static void pull(struct session *s, bool bounded)
{
    s->phase = SESSION_PULLING;
    ask(s, bounded, s->ssp.clock);
}

static void enter(struct session *s)
{
    /* it waits for a clock that this worker may never reach */
    s->rows.ask[ASK_TASK].there = false;
    s->phase = SESSION_ENTERING;
    s->ssp.entry++;
    for (uint32_t i = 0; i < s->terms.plan.shards; i++) {
        s->link[i].entered_clock = UINT64_MAX;
        if (s->link[i].state != LINK_DOWN)
            send_tick(s, i, true);
    }
}

static bool all_acked(const struct session *s)
{
    for (uint32_t i = 0; i < s->terms.plan.shards; i++)
        if (!session_acked(s, i))
            return false;
    return true;
}

static void check(const struct session *s)
{
    const struct ssp_state *p = &s->ssp;
    bool idle = s->phase == SESSION_IDLE || s->phase == SESSION_ENTERING;
    assert(!idle || (!p->live && !p->outside));
    assert(s->phase != SESSION_ENTERING || p->entry > 0);
    assert(!p->live || p->entry > 0);
    assert(!p->outside || !p->pull.bounded);
    assert(s->phase != SESSION_PULLING || p->pull.number > 0);
    if (s->phase == SESSION_PULLING && p->pull.bounded)
        assert(p->live && p->pull.clock == p->clock);
    if (s->phase == SESSION_PUSHED)
        assert(!all_acked(s) && (p->outside || !p->live || p->pull.clock == p->clock + 1));
    assert(s->at_hand != TASK_PUSH);
    for (uint32_t i = 0; i < s->terms.plan.shards; i++)
        assert(s->link[i].state != LINK_DOWN || session_acked(s, i) ||
               (s->link[i].acked_chunks == 0 && s->link[i].acked_parts == 0));
    (void)p, (void)idle;
}

static void wake(struct session *s)
{
    if (s->lease.list.n > 0 && !session_is_going(s))
        enter(s);
}

static void redo(struct session *s)
{
    if (session_running(s))
        return; /* done when the running batch is over */
    s->ssp.outside = true;
    pull(s, false);
}

/* ---- progress ---- */

static void back_to_the_clocks(struct session *s)
{
    s->ssp.outside = false;
    if (s->ssp.live) {
        pull(s, true);
    } else {
        s->phase = SESSION_IDLE;
        session_wake(s);
    }
}

static void pulled_all(struct session *s)
{
    s->step = exchange_steps(s).least;
    s->phase = SESSION_READY;
}

/* Every shard has applied the running batch. */
static void batch_done(struct session *s)
{
    bool was_outside = s->ssp.outside;
    session_ranges_add(&s->lease.done, s->lease.running, 1);
    s->ssp.clock += !was_outside;
    s->phase = was_outside ? SESSION_READY : s->ssp.live ? SESSION_PULLING : SESSION_IDLE;
    if (was_outside && s->lease.redo_left)
        s->lease.redo_left--;
    if (s->lease.redo_left == 0 && s->hold != HOLD_NONE)
        session_say_held(s);
    if (s->lease.redo_left && !was_outside)
        redo(s);
    else if (s->lease.redo_left == 0 && was_outside)
        back_to_the_clocks(s);
    else if (s->phase == SESSION_IDLE)
        session_wake(s);
    else if (s->phase == SESSION_PULLING && session_all_whole(s))
        pulled_all(s);
}

static void pushed(struct session *s)
{
    if (s->ssp.outside) {
        /* outside the clocks: no tick */
    } else if (s->lease.list.n > 0 && !session_is_going(s)) {
        ask(s, true, s->ssp.clock + 1);
    } else {
        s->ssp.live = false;
        for (uint32_t i = 0; i < s->terms.plan.shards; i++)
            if (s->link[i].state != LINK_DOWN)
                send_tick(s, i, false);
    }
    if (all_acked(s))
        batch_done(s);
}

static void entered_all(struct session *s)
{
    uint64_t largest = 0;
    for (uint32_t i = 0; i < s->terms.plan.shards; i++) {
        if (s->link[i].entered_clock == UINT64_MAX)
            return;
        if (s->link[i].entered_clock > largest)
            largest = s->link[i].entered_clock;
    }
    s->ssp.clock = largest;
    s->ssp.live = true;
    pull(s, true);
}

/* ---- connections ---- */

static void link_up(struct session *s, uint32_t shard)
{
    struct session_link *l = &s->link[shard];
    l->state = LINK_UP;
    if (s->phase == SESSION_ENTERING && l->entered_clock == UINT64_MAX) {
        send_tick(s, shard, true);
    } else if (s->phase == SESSION_PULLING && l->pull != PULL_WHOLE) {
        send_pull(s, shard);
    } else if (s->phase == SESSION_PUSHED) {
        l->state = LINK_STREAMS;
        if (!session_acked(s, shard))
            s->io->push_again(s->ctx, shard);
        if (!s->ssp.outside && !s->ssp.live)
            send_tick(s, shard, false);
        else if (!s->ssp.outside && l->pull != PULL_WHOLE)
            send_pull(s, shard);
    }
}

static void hello(const struct session *s, uint32_t shard, Gradwire__Hello *m)
{
    if (s->phase == SESSION_ENTERING)
        return;
    bool leaves = s->phase == SESSION_COMPUTING || s->phase == SESSION_PUSHED;
    bool ahead = leaves && !s->ssp.outside; /* may be ahead of what the shard knows */
    bool acked = session_acked(s, shard);
    m->entry = s->ssp.entry;
    m->clock = s->ssp.clock + (ahead && acked);
    m->idle = !s->ssp.live && (!ahead || acked);
}

/* ---- replies ---- */

/* True for a shard's answer to `enter`, which has its least clock. */
static bool says_clock(const Gradwire__Reply *m)
{
    return m->chunks == 0 && m->parts == 0 && !m->pulled;
}

static enum err reply_fits(const struct session *s, uint32_t shard, const Gradwire__Reply *m,
                           uint64_t body_bytes, bool *wanted, struct errmsg *e)
{
    const struct session_link *l = &s->link[shard];
    bool has_body = m->pulled && m->chunks;
    if (!says_clock(m) && !session_run_fits(s, shard, m))
        return err_set(e, ERR_PROTO, "a reply does not fit the plan of shard %u", shard);
    if (m->difference || (m->codec != GRADWIRE__CODEC__RAW && !m->bounded) ||
        (has_body ? !session_codec_fits(s, m, body_bytes) : body_bytes > 0))
        return err_set(e, ERR_PROTO, "a reply of shard %u has a body that does not fit", shard);
    if (says_clock(m))
        *wanted = s->phase == SESSION_ENTERING && l->entered_clock == UINT64_MAX &&
                  m->entry == s->ssp.entry;
    else if (m->pulled)
        *wanted = (s->phase == SESSION_PULLING || s->phase == SESSION_PUSHED) &&
                  l->pull == PULL_ASKED && m->number == s->ssp.pull.number;
    else
        *wanted = l->state != LINK_DOWN && session_running(s) && !session_acked(s, shard) &&
                  m->name == s->lease.running;
    return ERR_OK;
}

static void on_reply(struct session *s, uint32_t shard, const Gradwire__Reply *m, bool stored)
{
    struct session_link *l = &s->link[shard];
    if (!stored)
        return;
    if (says_clock(m)) {
        l->entered_clock = m->clock;
        entered_all(s);
    } else if (m->pulled) {
        l->got_step = m->step;
        l->got_chunks += m->chunks;
        if (l->got_chunks >= s->terms.plan.shard[shard].chunks)
            l->pull = PULL_WHOLE;
        if (s->phase == SESSION_PULLING && session_all_whole(s))
            pulled_all(s);
    } else {
        l->acked_chunks += m->chunks;
        l->acked_parts += m->parts;
        if (s->phase == SESSION_PUSHED && all_acked(s))
            batch_done(s);
    }
}

static void on_lease(struct session *s, const Gradwire__Lease *m)
{
    (void)m;
    if (s->lease.redo_left)
        redo(s);
    else
        session_wake(s);
}

/* Only if a pull will follow. */
static bool guess(const struct session *s, struct session_task *next)
{
    return !s->ssp.outside && s->ssp.live && s->lease.redo_left == 0 && !session_is_going(s) &&
           lease_guess(s, next);
}

static bool reads_at(const struct session *s, uint64_t *clock)
{
    *clock = s->ssp.clock + 1;
    return s->phase == SESSION_COMPUTING;
}

static void pull_newest(struct session *s)
{
    pull(s, false);
}

const struct session_mode session_ssp = {
    .leases = true,
    .acks = true,
    .check = check,
    .begin = begin,
    .wake = wake,
    .pull_newest = pull_newest,
    .on_lease = on_lease,
    .task = lease_task,
    .guess = guess,
    .reads_at = reads_at,
    .pushed = pushed,
    .link_up = link_up,
    .hello_clock = hello,
    .reply_fits = reply_fits,
    .on_reply = on_reply,
};
