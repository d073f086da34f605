/* The staleness of the workers' pushes, as the shards report it with their status. */
#include "common/base/mem.h"
#include "worker/chief/core/chief_state.h"

void stale_forget(struct chief *c)
{
    mem_free(c->async.stale);
    c->async.stale = NULL;
    c->async.stales = 0;
}

static struct chief_stale *entry(struct chief *c, uint32_t shard, uint32_t worker)
{
    struct async_state *a = &c->async;
    for (size_t i = 0; i < a->stales; i++)
        if (a->stale[i].shard == shard && a->stale[i].worker == worker)
            return &a->stale[i];
    struct chief_stale *grown = mem_resize(a->stale, a->stales + 1, sizeof *grown);
    if (!grown)
        return NULL; /* without memory this count is not reported */
    a->stale = grown;
    a->stale[a->stales] = (struct chief_stale){.shard = shard, .worker = worker};
    return &a->stale[a->stales++];
}

void stale_take(struct chief *c, const Gradwire__ShardStatus *m)
{
    for (size_t i = 0; i < m->n_staleness; i++) {
        const Gradwire__WorkerStaleness *from = m->staleness[i];
        struct chief_stale *to =
            from->worker < CHIEF_WORKERS_MAX ? entry(c, m->shard, from->worker) : NULL;
        if (!to)
            continue;
        to->counted = (struct staleness){from->count, from->sum, from->max, {0}};
        for (size_t k = 0; k < from->n_histogram && k < STALENESS_BUCKETS; k++)
            to->counted.bucket[k] = from->histogram[k];
    }
}

void stale_join(const struct chief *c, uint32_t worker, struct staleness *out)
{
    for (size_t i = 0; i < c->async.stales; i++)
        if (c->async.stale[i].worker == worker)
            staleness_join(out, &c->async.stale[i].counted);
}
