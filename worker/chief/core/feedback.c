/* Error feedback (compression.push: top_k): workers withhold parts of gradients. So they are held for a cut in sync
 * too, until nothing is withheld. If a worker is gone, what it withheld is lost, and counted. */
#include <inttypes.h>

#include "worker/chief/core/chief_state.h"

void feedback_lost(struct chief *c, bool had)
{
    c->residuals_lost += c->feedback && had;
}

/* A takeover is a new generation, at which each worker drops what it withheld; the earlier chief's own session lost
 * its part too. */
static bool drops(const struct chief *c, uint32_t worker, struct chief_came how)
{
    bool was_there = c->worker[worker].hello->incarnation != 0 || worker == 0;
    return c->begins == BEGINS_TAKEOVER && was_there && !how.keeps_state;
}

void feedback_came(struct chief *c, uint32_t worker, struct chief_came how)
{
    feedback_lost(c, drops(c, worker, how));
    feedback_lost(c, how.replaces);
}

/* Steps wait for its leaves anyway, and it pushes what it withholds with them. */
static bool may_push(const struct chief *c, uint32_t worker)
{
    struct chief_part part[CHIEF_WORKERS_MAX];
    uint32_t n = workers_parts(c, part), i = 0;
    while (i < n && part[i].worker != worker)
        i++;
    return i < n && c->mode->steps(c) < c->total;
}

/* A worker that is away may stay away, and one without leaves may never answer: do not wait for these. */
void feedback_hold_tick(struct chief *c)
{
    char name[WORKER_NAME_BYTES];
    for (uint32_t i = 0; i < c->workers; i++) {
        struct chief_worker *w = &c->worker[i];
        bool pushes = w->up && (i == 0 || may_push(c, i));
        if (w->held || pushes || !workers_hold_is_over(c, w))
            continue;
        w->held = true;
        chief_say(c, 0,
                  "%s %s: the parts of gradients that it withheld are not in checkpoint %" PRIu64,
                  worker_name(name, i, c->config.separate_chief),
                  w->up ? "does not answer" : "is away", c->cut.number);
    }
}
