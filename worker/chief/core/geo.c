/* Local SGD: workers push how far their own parameters have moved. The batches of a dead worker are not dealt again.
 * They count as done once every shard refuses the worker; the next cut shows which of them were added, and which are
 * lost. */
#include "worker/chief/core/chief_state.h"

/* ---- a generation ---- */

static void geo_entered(struct chief *c)
{
    leases_start(c, true);
}

/* ---- workers ---- */

static void geo_came(struct chief *c, uint32_t worker, struct chief_came how)
{
    const Gradwire__Hello *hello = c->worker[worker].hello;
    /* its report may have been lost: the batches must not be trained twice */
    if (how.keeps_state)
        leases_take_done(c, hello->n_done, hello->done);
    if (how.replaces)
        leases_die(c, worker);
    else
        leases_return(c, worker);
    async_own(c, worker, how);
    if (how.replaces)
        clocks_leave(c, worker);
}

static void geo_away(struct chief *c, uint32_t worker)
{
    clocks_retire(c, worker);
    leases_die(c, worker);
    leases_note(c, worker);
}

/* A shard takes this number with the batches that a cut resolves everywhere, also if the cut is never published. So it
 * is kept by the shards, and not by a chief, which may be gone. */
static uint64_t lost_before(const struct chief *c)
{
    uint64_t lost = 0;
    for (uint32_t i = 0; i < c->plan.shards; i++)
        lost = c->shard[i].async.lost > lost ? c->shard[i].async.lost : lost;
    return lost;
}

/* A shard's resolved batches without those that are lost. */
static uint64_t applied(uint64_t resolved, uint64_t lost)
{
    return resolved > lost ? resolved - lost : 0;
}

static void geo_facts(const struct chief *c, struct chief_facts *f)
{
    async_facts(c, f);
    f->lost = lost_before(c);
    f->applied_min = applied(f->applied_min, f->lost);
    f->applied_max = applied(f->applied_max, f->lost);
}

/* ---- a cut ---- */

static void geo_fence(struct chief *c, uint32_t worker)
{
    clocks_expect(c, worker);
    leases_die(c, worker);
}

static void geo_on_fenced(struct chief *c, const Gradwire__Fenced *m)
{
    if (clocks_on_fenced(c, m))
        leases_lose(c, m->worker);
    (void)async_fenced_by_all(c, m); /* its batches have died with it */
}

/* A batch that some shard has resolved, or that a dead worker had, becomes resolved; if no shard has it, it is lost. */
static bool geo_stopped(struct chief *c)
{
    struct chief_leases *l = &c->async.leases;
    struct ids *all = &c->geo.settled;
    uint64_t low = leases_low(c);
    *all = (struct ids){.mark = low, .count = low};
    c->geo.losing = lost_before(c);
    l->unsettled = UINT64_MAX;
    for (uint64_t id = low; id < l->next_id; id++) {
        bool somewhere = leases_resolved(c, id) > 0;
        if (somewhere)
            leases_done(c, id);
        if (!ids_has(&l->done, id))
            continue;
        c->geo.losing += !somewhere;
        if (ids_add(all, id))
            break; /* cannot happen: nothing is dealt beyond the window */
    }
    c->cut.step = all->count;
    return true;
}

static void geo_put_cut_at(const struct chief *c, Gradwire__CutAt *m, uint8_t *window)
{
    m->mark = c->geo.settled.mark;
    m->window.data = window;
    m->window.len = ids_pack(&c->geo.settled, window);
    m->lost = c->geo.losing;
}

static void geo_put_manifest(const struct chief *c, struct manifest *m, uint8_t *window)
{
    async_put_manifest(c, m, window);
    m->lost = c->geo.losing;
}

/* The shards wait for the batches that died. */
static bool geo_wants_cut(const struct chief *c)
{
    return c->async.leases.unsettled != UINT64_MAX;
}

const struct chief_mode chief_geo = {
    ASYNC_OPS,
    .slowest = leases_slowest,
    .begin = clocks_begin,
    .entered = geo_entered,
    .resend = clocks_resend,
    .facts = geo_facts,
    .came = geo_came,
    .goes = clocks_gone,
    .away = geo_away,
    .fence = geo_fence,
    .on_fenced = geo_on_fenced,
    .stopped = geo_stopped,
    .put_cut_at = geo_put_cut_at,
    .put_manifest = geo_put_manifest,
    .wants_cut = geo_wants_cut,
};
