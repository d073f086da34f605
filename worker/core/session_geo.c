/* The session in local SGD (docs/semantics.md, "Geo").
 *
 * Happy path: a lease -> pull -> compute a batch, the optimizer runs here -> after training.geo_every batches a round:
 * a part of what the parameters have moved goes to every shard, their newest come back -> compute ...
 * Before a hold, when told to go, and when no lease is left the round takes all that is left to push ("whole").
 * Failure modes: a connection breaks (the round is pushed again, it is added once), a new generation (what was not
 * pushed is lost; its batches are dealt again). */
#include <string.h>

#include "worker/core/session_inner.h"

enum { EPOCHS_MAX = 4 }; /* that a round may touch: a shard keeps the sums of the last few */

static uint64_t count(const struct session_ranges *r)
{
    uint64_t n = 0;
    for (size_t i = 0; i < r->n; i++)
        n += r->range[i].count;
    return n;
}

bool geo_is_clean(const struct session *s)
{
    return !s->geo || (s->pending.n == 0 && !s->moved);
}

/* Of an epoch that is not in the round yet? */
static bool full(const struct session *s)
{
    uint64_t per_epoch = s->settings.batches_per_epoch, epochs = 0;
    for (size_t i = 0; i < s->pending.n; i++)
        epochs += (s->pending.range[i].first + s->pending.range[i].count - 1) / per_epoch -
                  s->pending.range[i].first / per_epoch + 1;
    return count(&s->pending) >= s->settings.geo_every || epochs >= EPOCHS_MAX ||
           s->pending.n == WORKER_RANGES_MAX;
}

/* What is to be pushed now, if anything. */
bool geo_pushes(struct session *s, struct session_task *t)
{
    bool whole = s->holding || s->going || s->lease.n == 0;
    if (geo_is_clean(s) || (!whole && !full(s)))
        return false;
    s->whole = whole;
    s->running = ++s->round;
    t->kind = TASK_PUSH;
    t->name = s->round;
    t->divisor = whole ? 1 : s->members;
    return true;
}

/* A batch is computed and its update made. */
void geo_computed(struct session *s)
{
    session_ranges_add(&s->pending, s->running, 1);
    s->moved = true;
    s->phase = SESSION_READY;
}

static void remember(struct session *s, struct session_range r)
{
    struct session_ranges *to = &s->recent;
    if (to->n == WORKER_RANGES_MAX)
        memmove(to->range, to->range + 1, --to->n * sizeof *to->range);
    session_ranges_add(to, r.first, r.count);
}

/* The round is added on every shard, and the newest parameters are here. */
void geo_pushed(struct session *s)
{
    s->io->merge(s->ctx, s->whole);
    for (size_t i = 0; i < s->pending.n; i++) {
        session_ranges_add(&s->done, s->pending.range[i].first, s->pending.range[i].count);
        remember(s, s->pending.range[i]);
    }
    s->pending.n = 0;
    s->moved = !s->whole;
    s->phase = s->lease.n == 0 && s->whole ? SESSION_IDLE : SESSION_READY;
}
