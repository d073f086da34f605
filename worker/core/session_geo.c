/* The session in local SGD (docs/explanation/semantics.md, "Geo").
 *
 * Happy path: a lease -> pull -> compute a batch, and the optimizer runs here -> after training.geo_every batches a
 * round: a part of the parameters' moves goes to every shard, and their newest parameters replace the local ones ->
 * compute ... A round is also due before a hold, after SIGTERM, and when no lease is left.
 * Paddle's rule keeps the moves that a round leaves. It pushes a part of them with the next round, and all of them
 * before a hold ("whole").
 * Failure modes: a connection breaks (the round is pushed again, and is added only once), a new generation (moves
 * that were not pushed are lost; their batches are dealt again). */
#include <assert.h>
#include <string.h>

#include "worker/core/session_inner.h"

/* the most epochs that a round may cover: a shard keeps the sums of the last few */
enum { EPOCHS_MAX = 4 };

static void begin(struct session *s)
{
    s->geo = (struct geo_state){.members = 1};
}

static void check(const struct session *s)
{
    const struct geo_state *g = &s->geo;
    const struct lease_state *l = &s->lease;
    exchange_check(s);
    assert(l->pending.n == 0 || g->left != GEO_CLEAN);
    assert(l->pending.n <= WORKER_RANGES_MAX && l->recent.n <= WORKER_RANGES_MAX);
    assert(g->members > 0);
    assert(s->at_hand != TASK_PUSH || g->round > 0);
    assert(s->phase != SESSION_PUSHED || (s->at_hand == TASK_PUSH && g->left != GEO_CLEAN));
    assert(l->recent.n == 0 || g->round > 0);
    (void)g, (void)l;
}

static void on_lease(struct session *s, const Gradwire__Lease *m)
{
    if (m->workers)
        s->geo.members = m->workers;
    session_wake(s);
}

static bool is_clean(const struct session *s)
{
    return s->geo.left == GEO_CLEAN;
}

/* True if the next batch must not join the round. */
static bool full(const struct session *s)
{
    const struct session_ranges *of = &s->lease.pending;
    uint64_t per_epoch = s->terms.settings.batches_per_epoch, epochs = 0;
    for (size_t i = 0; i < of->n; i++)
        epochs += (of->range[i].first + of->range[i].count - 1) / per_epoch -
                  of->range[i].first / per_epoch + 1;
    return session_ranges_count(of) >= s->terms.settings.geo_every || epochs >= EPOCHS_MAX ||
           of->n == WORKER_RANGES_MAX;
}

static bool keeps_rest(const struct session *s)
{
    return s->terms.settings.geo_merge == GRADWIRE__GEO_MERGE__PADDLE;
}

/* 1.5 times the mean of the workers' moves. A worker's share of it is smaller than a step of sync, whose gradient
 * over all workers has less noise for Adam to divide by. Measured in docs/explanation/semantics.md, "Geo". */
static float part_of(uint32_t members)
{
    float part = 1.5f / (float)members;
    return part < 1 ? part : 1;
}

static struct session_task task(struct session *s)
{
    bool whole = s->hold != HOLD_NONE || session_is_going(s) || s->lease.list.n == 0;
    if (is_clean(s) || (!whole && !full(s)))
        return lease_task(s);
    bool leaves = whole || !keeps_rest(s);
    s->geo.left = leaves ? GEO_LEAVES : GEO_MOVED;
    s->geo.round++;
    float part = !keeps_rest(s) ? part_of(s->geo.members)
                 : whole        ? 1.0f
                                : 1.0f / (float)s->geo.members;
    return (struct session_task){.kind = TASK_PUSH, .name = s->geo.round, .part = part};
}

/* A batch is computed, and its update is made. */
static void learned(struct session *s)
{
    session_ranges_add(&s->lease.pending, s->lease.running, 1);
    s->geo.left = GEO_MOVED;
    s->phase = SESSION_READY;
}

static bool answers(const struct session *s, const Gradwire__Reply *m)
{
    return m->name == s->geo.round && !m->pulled && s->at_hand == TASK_PUSH;
}

static void pulled(struct session *s)
{
    s->io->merge(s->ctx, true);
    s->step = exchange_steps(s).least;
    s->phase = SESSION_READY;
}

/* The round is added on every shard, and the newest parameters have arrived. */
static void answered(struct session *s)
{
    struct geo_state *g = &s->geo;
    struct lease_state *l = &s->lease;
    bool whole = g->left == GEO_LEAVES;
    s->io->merge(s->ctx, whole);
    for (size_t i = 0; i < l->pending.n; i++) {
        session_ranges_add(&l->done, l->pending.range[i].first, l->pending.range[i].count);
        struct session_ranges *to = &s->lease.recent;
        if (to->n == WORKER_RANGES_MAX)
            memmove(to->range, to->range + 1, --to->n * sizeof *to->range);
        session_ranges_add(to, l->pending.range[i].first, l->pending.range[i].count);
    }
    l->pending.n = 0;
    g->left = whole ? GEO_CLEAN : GEO_MOVED;
    s->phase = l->list.n == 0 && whole ? SESSION_IDLE : SESSION_READY;
    lease_pushed(s, true);
}

const struct session_mode session_geo = {
    .leases = true,
    .check = check,
    .begin = begin,
    .wake = lease_wake,
    .pull_newest = exchange_pull_newest,
    .on_lease = on_lease,
    .task = task,
    .learned = learned,
    .pushed = exchange_pushed,
    .is_clean = is_clean,
    .link_up = exchange_link_up,
    .reply_fits = exchange_reply_fits,
    .on_reply = exchange_on_reply,
    .answers = answers,
    .pulled = pulled,
    .answered = answered,
};
