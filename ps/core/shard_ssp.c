/* Bounded staleness (ssp) on a shard: pushes are applied on arrival, as in async mode. A pull at a clock, or a request for
 * rows, waits while a live worker is behind by more than the bound (ps/core/clocks.h). */
#include <inttypes.h>
#include <stdio.h>

#include "common/wire/msg.h"
#include "ps/core/shard_state.h"

/* ---- a generation ---- */

static void begin(struct shard *s)
{
    clocks_close(&s->ssp.clocks);
}

/* ---- clocks ---- */

static bool may_read(const struct shard *s, uint64_t clock)
{
    return clocks_may_read(&s->ssp.clocks, clock, s->settings.staleness);
}

/* Send the present parameters to all workers that the bound allows to read. */
static void serve(struct shard *s)
{
    for (struct shard_peer *p = s->peers; p; p = p->next) {
        /* Answer the requests for rows that the bound allows now. */
        for (uint32_t i = 0; i < SHARD_ASKS_MAX; i++) {
            if (!p->ask[i].waits || !may_read(s, p->ask[i].clock))
                continue;
            shard_stale_rows_sent(s, p->worker);
            shard_rows_answer_ask(s, p, &p->ask[i]);
        }
        if (!p->ssp.gated || !may_read(s, p->ssp.clock))
            continue;
        Gradwire__Reply reply = GRADWIRE__REPLY__INIT;
        reply.step = s->step;
        reply.pulled = true;
        reply.bounded = true;
        reply.made = s->rows.on;
        reply.clock = p->ssp.clock;
        reply.number = p->ssp.number;
        p->ssp.gated = false;
        shard_send(s, p, &reply, s->block[0], 0, s->me.chunks);
        shard_reply_sent(s, p);
    }
}

static void on_hello(struct shard *s, const Gradwire__Hello *m)
{
    if (m->entry)
        clocks_tick(&s->ssp.clocks, m->worker, m->incarnation, m->entry, m->clock, m->idle);
    serve(s);
}

static enum err on_pull(struct shard *s, struct shard_peer *peer, const Gradwire__Pull *m,
                        struct errmsg *e)
{
    peer->ssp.gated = m->bounded;
    if (!m->bounded)
        return shard_send_present(s, peer, m, e);
    clocks_tick(&s->ssp.clocks, peer->worker, peer->incarnation, m->entry, m->clock, false);
    peer->ssp.clock = m->clock;
    peer->ssp.number = m->number;
    serve(s);
    return ERR_OK;
}

/* The request comes with a push, before the pull that has the clock. */
static enum err on_rows_ask(struct shard *s, struct shard_peer *peer, const Gradwire__RowsAsk *m,
                            struct buffer *body, struct errmsg *e)
{
    if (!m->bounded || may_read(s, m->clock))
        return shard_async_rows_answer(s, peer, m, body, e);
    return shard_rows_wait(s, peer, m, body, e);
}

static enum err enter(struct shard *s, struct shard_peer *peer, const Gradwire__Tick *m,
                      struct errmsg *e)
{
    Gradwire__Reply reply = GRADWIRE__REPLY__INIT;
    reply.generation = &s->wire_generation;
    reply.entry = m->entry;
    if (clocks_enter(&s->ssp.clocks, peer->worker, peer->incarnation, m->entry, &reply.clock))
        return err_memory_for(e, "the clock of a worker");
    s->io->send(s->ctx, peer, FRAME_REPLY, &reply.base, NULL, 0);
    return ERR_OK;
}

static enum err on_tick(struct shard *s, struct shard_peer *peer, const Gradwire__Tick *m,
                        struct errmsg *e)
{
    enum err err = ERR_OK;
    if (m->enter)
        err = enter(s, peer, m, e);
    else
        clocks_tick(&s->ssp.clocks, peer->worker, peer->incarnation, m->entry, m->clock, m->idle);
    serve(s);
    return err;
}

static void on_gone(struct shard *s, const Gradwire__Gone *m)
{
    clocks_drop(&s->ssp.clocks, m->worker, m->incarnation);
    serve(s);
}

static void wait_of(const struct shard *s, Gradwire__Wait *m, uint8_t bits[TREE_LEAVES_MAX / 8])
{
    const struct clock_of *last = clocks_last(&s->ssp.clocks);
    (void)bits;
    for (const struct shard_peer *p = s->peers; p && last; p = p->next)
        m->behind = m->behind || p->ssp.gated;
    m->worker = last ? last->worker : 0;
}

static bool waits_for(const struct shard *s, char *out, size_t bytes)
{
    const struct clock_of *last = clocks_last(&s->ssp.clocks);
    char name[WORKER_NAME_BYTES];
    if (last)
        (void)snprintf(out, bytes, "%" PRIu64 " batches applied; the last clock is %s's, %" PRIu64,
                       s->step, worker_name(name, last->worker, s->separate_chief), last->clock);
    return last != NULL;
}

const struct shard_mode shard_mode_ssp = {
    SHARD_ASYNC_OPS,
    .begin = begin,
    .join = shard_stale_join,
    .on_hello = on_hello,
    .push_fits = shard_async_push_fits,
    .on_push = shard_async_push,
    .on_pull = on_pull,
    .rows_push_fits = shard_async_rows_push_fits,
    .on_rows_push = shard_async_rows_push,
    .on_rows_ask = on_rows_ask,
    .on_tick = on_tick,
    .on_gone = on_gone,
    .wait = wait_of,
    .waits_for = waits_for,
};
