/* The session in bounded staleness (docs/semantics.md, "Bounded staleness").
 *
 * Happy path: a lease -> ENTER to every shard -> each answers with its least clock -> the largest of them is mine: a
 * pull at that clock from every shard -> compute -> push (answered without parameters) and, behind it on the same
 * connection, a pull at the next clock -> compute ... -> no lease left: instead of the pull a tick that says idle.
 * The pull tells the shard how far I am, and is answered when the bound allows.
 * Failure modes: a connection breaks (the hello says how far this shard has heard of me; what it has not acknowledged
 * is pushed again); ids to be redone while all are held (outside the clocks: all others stand still). */
#include <string.h>

#include "worker/core/session_inner.h"

/* ---- what goes out ---- */

static void send_tick(struct session *s, uint32_t shard, bool enter)
{
    Gradwire__Tick m = GRADWIRE__TICK__INIT;
    Gradwire__Generation g = msg_generation(s->generation);
    m.generation = &g;
    m.entry = s->entry;
    m.enter = enter;
    m.clock = enter ? 0 : s->clock + 1;
    m.idle = !enter;
    s->io->tick(s->ctx, shard, &m);
}

static void send_pull(struct session *s, uint32_t shard)
{
    Gradwire__Pull m = GRADWIRE__PULL__INIT;
    Gradwire__Generation g = msg_generation(s->generation);
    m.generation = &g;
    m.any = true;
    m.number = s->pull_number;
    m.bounded = s->pull_bounded;
    m.entry = s->entry;
    m.clock = s->pull_clock;
    s->link[shard].asked = true;
    s->link[shard].got_chunks = 0;
    s->io->pull(s->ctx, shard, &m);
}

/* Ask every shard for its parameters; answers to what was asked before are of no use any more. */
static void ask(struct session *s, bool bounded, uint64_t clock)
{
    s->pull_number++;
    s->pull_bounded = bounded;
    s->pull_clock = clock;
    for (uint32_t i = 0; i < s->plan.shards; i++) {
        s->link[i].whole = false;
        s->link[i].asked = false;
        if (s->link[i].up)
            send_pull(s, i);
    }
}

void ssp_pull(struct session *s, bool bounded)
{
    s->phase = SESSION_PULLING;
    ask(s, bounded, s->clock);
}

static void enter(struct session *s)
{
    s->phase = SESSION_ENTERING;
    s->entry++;
    for (uint32_t i = 0; i < s->plan.shards; i++) {
        s->link[i].entered = false;
        if (s->link[i].up)
            send_tick(s, i, true);
    }
}

void ssp_wake(struct session *s)
{
    if (s->lease.n > 0 && !s->going)
        enter(s);
}

void ssp_redo(struct session *s)
{
    if (session_running(s))
        return; /* when the batch in the works is done */
    s->outside = true;
    ssp_pull(s, false);
}

/* ---- progress ---- */

static void back_to_the_clocks(struct session *s)
{
    s->outside = false;
    if (s->live) {
        ssp_pull(s, true);
    } else {
        s->phase = SESSION_IDLE;
        ssp_wake(s);
    }
}

static bool all_whole(const struct session *s)
{
    for (uint32_t i = 0; i < s->plan.shards; i++)
        if (!s->link[i].whole)
            return false;
    return true;
}

static void pulled_all(struct session *s)
{
    s->step = UINT64_MAX;
    for (uint32_t i = 0; i < s->plan.shards; i++)
        if (s->link[i].got_step < s->step)
            s->step = s->link[i].got_step;
    s->phase = SESSION_READY;
}

/* Every shard has applied the running batch. */
static void batch_done(struct session *s)
{
    bool was_outside = s->outside;
    session_ranges_add(&s->done, s->running, 1);
    s->clock += !was_outside;
    s->phase = was_outside ? SESSION_READY : s->live ? SESSION_PULLING : SESSION_IDLE;
    if (was_outside && s->redo_left)
        s->redo_left--;
    if (s->redo_left == 0 && s->holding)
        session_say_held(s);
    if (s->redo_left && !was_outside)
        ssp_redo(s);
    else if (s->redo_left == 0 && was_outside)
        back_to_the_clocks(s);
    else if (s->phase == SESSION_IDLE)
        ssp_wake(s);
    else if (s->phase == SESSION_PULLING && all_whole(s))
        pulled_all(s);
}

static bool all_acked(const struct session *s)
{
    for (uint32_t i = 0; i < s->plan.shards; i++)
        if (!s->link[i].acked)
            return false;
    return true;
}

void ssp_begin(struct session *s)
{
    for (uint32_t i = 0; i < s->plan.shards; i++) {
        s->link[i].acked = false;
        s->link[i].acked_chunks = 0;
    }
}

void ssp_computed(struct session *s)
{
    if (s->outside) {
        /* nobody is told of a clock */
    } else if (s->lease.n > 0 && !s->going) {
        ask(s, true, s->clock + 1);
    } else {
        s->live = false;
        for (uint32_t i = 0; i < s->plan.shards; i++)
            if (s->link[i].up)
                send_tick(s, i, false);
    }
    if (all_acked(s))
        batch_done(s);
}

static void entered_all(struct session *s)
{
    uint64_t largest = 0;
    for (uint32_t i = 0; i < s->plan.shards; i++) {
        if (!s->link[i].entered)
            return;
        if (s->link[i].entered_clock > largest)
            largest = s->link[i].entered_clock;
    }
    s->clock = largest;
    s->live = true;
    ssp_pull(s, true);
}

/* ---- links ---- */

void ssp_link_up(struct session *s, uint32_t shard)
{
    struct session_link *l = &s->link[shard];
    if (s->phase == SESSION_ENTERING && !l->entered) {
        send_tick(s, shard, true);
    } else if (s->phase == SESSION_PULLING && !l->whole) {
        send_pull(s, shard);
    } else if (s->phase == SESSION_PUSHED) {
        l->pushed = true;
        if (!l->acked)
            s->io->push_again(s->ctx, shard);
        if (!s->outside && !s->live)
            send_tick(s, shard, false);
        else if (!s->outside && !l->whole)
            send_pull(s, shard);
    }
}

void session_hello_clock(const struct session *s, uint32_t shard, Gradwire__Hello *m)
{
    if (!s->ssp || s->phase == SESSION_ENTERING)
        return;
    bool ahead = session_running(s) && !s->outside; /* of what the shard may have heard */
    m->entry = s->entry;
    m->clock = s->clock + (ahead && s->link[shard].acked);
    m->idle = !s->live && (!ahead || s->link[shard].acked);
}

/* ---- replies ---- */

enum err ssp_reply_fits(const struct session *s, uint32_t shard, const Gradwire__Reply *m,
                        uint64_t body_bytes, uint64_t *first_elem, bool *wanted, struct errmsg *e)
{
    const struct session_link *l = &s->link[shard];
    bool has_body = m->pulled && m->chunks;
    if (m->chunks && !session_run_fits(s, shard, m))
        return err_set(e, ERR_PROTO, "a reply does not fit the plan of shard %u", shard);
    if (m->difference || (m->codec != GRADWIRE__CODEC__RAW && !m->bounded) ||
        (has_body ? !session_codec_fits(s, m, body_bytes) : body_bytes > 0))
        return err_set(e, ERR_PROTO, "a reply of shard %u has a body that does not fit", shard);
    if (m->chunks)
        *first_elem = plan_chunk_elem(&s->plan, m->first_chunk);
    if (m->chunks == 0)
        *wanted = s->phase == SESSION_ENTERING && !l->entered && m->entry == s->entry;
    else if (m->pulled)
        *wanted = (s->phase == SESSION_PULLING || s->phase == SESSION_PUSHED) && l->asked &&
                  !l->whole && m->number == s->pull_number;
    else
        *wanted = session_running(s) && !l->acked && m->name == s->running;
    return ERR_OK;
}

void ssp_on_reply(struct session *s, uint32_t shard, const Gradwire__Reply *m)
{
    struct session_link *l = &s->link[shard];
    if (m->chunks == 0) {
        l->entered = true;
        l->entered_clock = m->clock;
        entered_all(s);
    } else if (m->pulled) {
        l->got_step = m->step;
        l->got_chunks += m->chunks;
        l->whole = l->got_chunks >= s->plan.shard[shard].chunks;
        l->asked = !l->whole;
        if (s->phase == SESSION_PULLING && all_whole(s))
            pulled_all(s);
    } else {
        l->acked_chunks += m->chunks;
        l->acked = l->acked_chunks >= s->plan.shard[shard].chunks;
        if (s->phase == SESSION_PUSHED && all_acked(s))
            batch_done(s);
    }
}
