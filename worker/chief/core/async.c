/* Async: workers are dealt batches, and each batch is applied by itself. Also contains what ssp and geo share with
 * it. */
#include "worker/chief/core/chief_state.h"

#include <inttypes.h>
#include <string.h>

#include "common/base/mem.h"

/* The staleness of the workers' pushes, as the shards report it with their status. */

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
        to->counted = msg_staleness_get(from);
    }
}

void stale_join(const struct chief *c, uint32_t worker, struct staleness *out)
{
    for (size_t i = 0; i < c->async.stales; i++)
        if (c->async.stale[i].worker == worker)
            staleness_join(out, &c->async.stale[i].counted);
}

/* ---- a generation ---- */

static enum err async_begin(struct chief *c)
{
    stale_forget(c);
    return ERR_OK;
}

void async_entered(struct chief *c)
{
    leases_start(c, false);
}

/* ---- progress ---- */

uint64_t async_steps(const struct chief *c)
{
    return c->async.leases.done.count;
}

bool async_learned(const struct chief *c)
{
    return c->async.leases.done.mark >= c->total;
}

uint64_t async_enough(const struct chief *c, uint64_t step, uint64_t generation)
{
    (void)step, (void)generation;
    return c->async.leases.next_id;
}

void async_facts(const struct chief *c, struct chief_facts *f)
{
    f->dealt = c->async.leases.next_id;
}

/* ---- workers ---- */

void async_own(struct chief *c, uint32_t worker, struct chief_came how)
{
    const struct chief_worker *w = &c->worker[worker];
    for (size_t i = 0; how.same_process && !w->hello_used && i < w->hello->n_leases; i++)
        leases_own(c, worker, w->hello->leases[i]);
}

static void async_came(struct chief *c, uint32_t worker, struct chief_came how)
{
    leases_return(c, worker);
    async_own(c, worker, how);
}

void async_welcomed(struct chief *c, uint32_t worker, struct chief_came how)
{
    if (!how.keeps_state)
        leases_repeat(c, worker);
    if (worker == 0) /* a welcome makes the own session forget earlier messages */
        leases_tell_epoch(c);
}

static void async_gone(struct chief *c, uint32_t worker)
{
    leases_return(c, worker);
    leases_note(c, worker);
}

void async_on_worker(struct chief *c, uint32_t worker, enum frame_type type,
                     const ProtobufCMessage *m)
{
    const Gradwire__LeaseAsk *ask = (const Gradwire__LeaseAsk *)m;
    const Gradwire__BatchRejected *rejected = (const Gradwire__BatchRejected *)m;
    if (type == FRAME_LEASE_ASK && chief_is_ours(c, ask->generation)) {
        struct chief_worker *w = &c->worker[worker];
        leases_take_done(c, ask->n_done, ask->done);
        if (ask->want)
            w->async.want = ask->want;
        w->async.told_none = false;
        leases_serve(c);
    } else if (type == FRAME_BATCH_REJECTED && chief_is_ours(c, rejected->generation) &&
               !ids_has(&c->async.leases.done, rejected->batch))
        guard_on_rejected(c, rejected);
}

/* ---- shards ---- */

void async_take_status(struct chief *c, struct chief_shard *s, const Gradwire__ShardStatus *m)
{
    const size_t room = sizeof s->async.partial / sizeof *s->async.partial;
    if (ids_unpack(&s->async.resolved, m->mark, m->window.data, m->window.len))
        s->async.resolved = (struct ids){0};
    s->async.lost = m->lost;
    stale_take(c, m);
    s->async.partials = m->partial.len / sizeof(uint64_t);
    if (s->async.partials > room)
        s->async.partials = room;
    if (s->async.partials)
        memcpy(s->async.partial, m->partial.data, s->async.partials * sizeof *s->async.partial);
}

void async_from_cut(struct chief *c, struct chief_shard *s)
{
    const struct manifest *m = &c->base;
    s->async.lost = m->lost;
    if (ids_unpack(&s->async.resolved, m->mark, m->window_bits, m->window_bits_bytes))
        s->async.resolved = (struct ids){0}; /* the shards have already refused such a cut */
}

/* ---- a cut ---- */

static void fence(struct chief *c, uint32_t worker)
{
    struct chief_worker *w = &c->worker[worker];
    char name[WORKER_NAME_BYTES];
    w->fencing = true;
    feedback_lost(c, w->given);
    w->given = false;
    w->fence_ms = c->now_ms;
    w->fenced_by = 0;
    workers_new_incarnation(c, worker);
    if (c->mode->fence)
        c->mode->fence(c, worker);
    chief_say(c, 1,
              "%s did not pause for checkpoint %" PRIu64
              " in time: its pushes are refused until it joins again",
              worker_name(name, worker, c->config.separate_chief), c->cut.number);
    chief_send_fence(c, EVERY_PS, worker, w->incarnation);
}

void async_hold_tick(struct chief *c)
{
    for (uint32_t i = 0; i < c->workers; i++) {
        const struct chief_worker *w = &c->worker[i];
        bool own = i == 0 && w->up; /* it may be evaluating */
        if (!w->held && !own && workers_hold_is_over(c, w))
            fence(c, i);
    }
}

bool async_fenced_by_all(struct chief *c, const Gradwire__Fenced *m)
{
    struct chief_worker *w = &c->worker[m->worker];
    if (!w->fencing || m->incarnation != w->incarnation || ++w->fenced_by < c->config.ps)
        return false;
    w->held = true;
    return true;
}

static void async_on_fenced(struct chief *c, const Gradwire__Fenced *m)
{
    if (async_fenced_by_all(c, m))
        leases_return(c, m->worker);
}

bool async_stopped(struct chief *c)
{
    return !leases_redo_uneven(c);
}

bool async_equal(const struct chief_shard *a, const struct chief_shard *b)
{
    return ids_equal(&a->async.resolved, &b->async.resolved) && !a->async.partials &&
           !b->async.partials;
}

void async_put_manifest(const struct chief *c, struct manifest *m, uint8_t *window)
{
    const struct ids *resolved = &c->shard[0].async.resolved;
    m->dealt = ids_end(resolved);
    m->mark = resolved->mark;
    m->window_bits_bytes = (uint32_t)ids_pack(resolved, window);
    m->window_bits = window;
}

const struct chief_mode chief_async = {
    ASYNC_OPS,
    .slowest = leases_slowest,
    .adds_momentum = "async",
    .has_slots = true,
    .begin = async_begin,
    .entered = async_entered,
    .facts = async_facts,
    .came = async_came,
    .goes = async_gone,
    .away = async_gone,
    .on_fenced = async_on_fenced,
    .stopped = async_stopped,
    .put_manifest = async_put_manifest,
};
