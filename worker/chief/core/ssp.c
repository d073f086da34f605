/* Bounded staleness: async with clocks on the shards. A worker that is permanently gone must leave the least clock
 * (clocks.c). */
#include "worker/chief/core/chief_state.h"

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
