/* How stale the workers' pushes were, as the shards tell it with their status. */
#include <string.h>

#include "common/base/mem.h"
#include "worker/chief/core/chief_state.h"

void stale_forget(struct chief *c)
{
    mem_free(c->stale);
    c->stale = NULL;
    c->stales = 0;
}

static struct chief_stale *entry(struct chief *c, uint32_t shard, uint32_t worker)
{
    for (size_t i = 0; i < c->stales; i++)
        if (c->stale[i].shard == shard && c->stale[i].worker == worker)
            return &c->stale[i];
    struct chief_stale *grown = mem_resize(c->stale, c->stales + 1, sizeof *grown);
    if (!grown)
        return NULL; /* a number for people is not told */
    c->stale = grown;
    c->stale[c->stales] = (struct chief_stale){.shard = shard, .worker = worker};
    return &c->stale[c->stales++];
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

bool chief_staleness(const struct chief *c, uint32_t worker, struct staleness *out)
{
    *out = (struct staleness){0};
    for (size_t i = 0; i < c->stales; i++)
        if (c->stale[i].worker == worker)
            staleness_join(out, &c->stale[i].counted);
    return out->count > 0;
}
