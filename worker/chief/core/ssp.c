/* Bounded staleness: async with clocks on the shards.
 *
 * Workers that are permanently gone, here and in geo: in bounded staleness they must leave the least clock; in geo their batches die
 * with them. A worker is gone only when every shard refuses its incarnation: FENCE to all ps -> FENCED from all ->
 * GONE to all. Failure modes: a ps's connection is lost in between (sent again when it is back; a ps that comes back
 * empty means a new generation, which begins without clocks). */
#include "worker/chief/core/chief_state.h"

#include <assert.h>
#include <string.h>

static void send_gone(struct chief *c, uint32_t worker, uint32_t ps)
{
    Gradwire__Gone m = GRADWIRE__GONE__INIT;
    assert(c->worker[worker].async.gone && c->worker[worker].async.gone_below);
    m.generation = &c->named;
    m.worker = worker;
    m.incarnation = c->worker[worker].async.gone_below;
    chief_to_ps(c, ps, FRAME_GONE, &m.base);
}

void clocks_expect(struct chief *c, uint32_t worker)
{
    struct chief_worker *w = &c->worker[worker];
    w->async.gone = false;
    w->async.gone_below = w->incarnation;
    memset(w->async.refused_by, 0, sizeof w->async.refused_by);
}

void clocks_leave(struct chief *c, uint32_t worker)
{
    clocks_expect(c, worker);
    chief_send_fence(c, EVERY_PS, worker, c->worker[worker].incarnation);
}

void clocks_retire(struct chief *c, uint32_t worker)
{
    workers_new_incarnation(c, worker);
    clocks_leave(c, worker);
}

void clocks_gone(struct chief *c, uint32_t worker)
{
    clocks_retire(c, worker);
    leases_return(c, worker);
    leases_note(c, worker);
}

static bool refused_by(const struct chief_worker *w, uint32_t ps)
{
    return w->async.refused_by[ps / 64] >> (ps % 64) & 1;
}

bool clocks_on_fenced(struct chief *c, const Gradwire__Fenced *m)
{
    struct chief_worker *w = &c->worker[m->worker];
    if (m->ps >= c->config.ps || w->async.gone || w->async.gone_below == 0 ||
        m->incarnation < w->async.gone_below)
        return false;
    w->async.refused_by[m->ps / 64] |= UINT64_C(1) << m->ps % 64;
    for (uint32_t i = 0; i < c->config.ps; i++)
        if (!refused_by(w, i))
            return false;
    w->async.gone = true;
    send_gone(c, m->worker, EVERY_PS);
    return true;
}

void clocks_resend(struct chief *c, uint32_t ps)
{
    for (uint32_t i = 0; i < c->workers; i++) {
        if (c->worker[i].async.gone)
            send_gone(c, i, ps);
        else if (c->worker[i].async.gone_below && !refused_by(&c->worker[i], ps))
            chief_send_fence(c, ps, i, c->worker[i].async.gone_below);
    }
}

enum err clocks_begin(struct chief *c)
{
    stale_forget(c);
    for (uint32_t i = 0; i < c->workers; i++) {
        c->worker[i].async.gone = false;
        c->worker[i].async.gone_below = 0;
    }
    return ERR_OK;
}

static void ssp_came(struct chief *c, uint32_t worker, struct chief_came how)
{
    leases_return(c, worker);
    async_own(c, worker, how);
    if (how.replaces)
        clocks_leave(c, worker);
}

static void ssp_on_fenced(struct chief *c, const Gradwire__Fenced *m)
{
    (void)clocks_on_fenced(c, m);
    if (async_fenced_by_all(c, m))
        leases_return(c, m->worker);
}

/* The worker with the least clock that others wait for; at the end as in async. */
static uint32_t ssp_slowest(const struct chief *c)
{
    for (uint32_t i = 0; i < c->plan.shards; i++)
        if (c->shard[i].wait.behind && c->shard[i].wait.worker < c->workers)
            return c->shard[i].wait.worker;
    return leases_slowest(c);
}

const struct chief_mode chief_ssp = {
    ASYNC_OPS,
    .slowest = ssp_slowest,
    .adds_momentum = "ssp",
    .has_slots = true,
    .begin = clocks_begin,
    .entered = async_entered,
    .resend = clocks_resend,
    .facts = async_facts,
    .came = ssp_came,
    .goes = clocks_gone,
    .away = clocks_gone,
    .fence = clocks_expect,
    .on_fenced = ssp_on_fenced,
    .stopped = async_stopped,
    .put_manifest = async_put_manifest,
};
