/* The list of workers, and which leaves each computes. */
#include <assert.h>
#include <string.h>

#include "common/base/mem.h"
#include "worker/chief/core/chief_state.h"

struct chief_worker *chief_worker(struct chief *c, uint32_t worker)
{
    if (worker >= CHIEF_WORKERS_MAX)
        return NULL;
    if (worker >= c->workers) {
        struct chief_worker *grown = mem_resize(c->worker, worker + 1, sizeof *grown);
        if (!grown)
            return NULL;
        memset(grown + c->workers, 0, (worker + 1 - c->workers) * sizeof *grown);
        for (uint32_t i = c->workers; i <= worker; i++)
            grown[i].lost_ms = c->now_ms;
        c->worker = grown;
        c->workers = worker + 1;
    }
    return &c->worker[worker];
}

void workers_close(struct chief *c)
{
    for (uint32_t i = 0; i < c->workers; i++)
        msg_free(c->worker[i].hello ? &c->worker[i].hello->base : NULL);
    mem_free(c->worker);
    c->worker = NULL;
    c->workers = 0;
}

uint32_t workers_count(const struct chief *c)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < c->workers; i++)
        n += c->worker[i].member;
    return n;
}

uint32_t workers_parts(const struct chief *c, struct chief_part part[CHIEF_WORKERS_MAX])
{
    uint32_t members = workers_count(c), position = 0, n = 0;
    for (uint32_t i = 0; i < c->workers; i++) {
        uint32_t first, leaves;
        if (!c->worker[i].member)
            continue;
        tree_share(c->config.settings.microbatches, members, position++, &first, &leaves);
        if (leaves)
            part[n++] = (struct chief_part){i, first, first + leaves};
        assert(!leaves || first == (n > 1 ? part[n - 2].end : 0));
    }
    assert(n ? part[n - 1].end == c->config.settings.microbatches : !members);
    return n;
}

void workers_new_incarnation(struct chief *c, uint32_t worker)
{
    uint64_t first = c->generation.number << 24;
    c->last_incarnation = (c->last_incarnation < first ? first : c->last_incarnation) + 1;
    c->worker[worker].incarnation = c->last_incarnation;
}

bool workers_hold_is_over(const struct chief *c, const struct chief_worker *w)
{
    int64_t since = c->cut.began_ms > w->lost_ms || w->up ? c->cut.began_ms : w->lost_ms;
    if (w->fencing)
        since = w->fence_ms; /* an answer was lost with a ps's connection, and is sent again */
    return c->now_ms - since > (w->up ? CHIEF_HOLD_MS : CHIEF_HOLD_DOWN_MS);
}
