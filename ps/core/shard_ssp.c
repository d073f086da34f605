/* Bounded staleness on a shard: pushes are applied on arrival as in async; a pull at a clock waits until no live worker
 * is more than the bound behind (ps/core/clocks.h). */
#include "ps/core/shard_state.h"

/* The parameters as they are now, to all who may read them. */
void shard_ssp_serve(struct shard *s)
{
    for (struct shard_peer *p = s->peers; p; p = p->next) {
        if (!p->gated || !clocks_may_read(&s->clocks, p->gated_clock, s->staleness))
            continue;
        Gradwire__Reply reply = GRADWIRE__REPLY__INIT;
        reply.step = s->step;
        reply.pulled = true;
        reply.bounded = true;
        reply.clock = p->gated_clock;
        reply.number = p->gated_number;
        p->gated = false;
        shard_send(s, p, &reply, s->block[0], 0, s->me.chunks);
        shard_reply_sent(s, p);
    }
}

void shard_ssp_hello(struct shard *s, const Gradwire__Hello *m)
{
    if (m->entry)
        clocks_tick(&s->clocks, m->worker, m->incarnation, m->entry, m->clock, m->idle);
    shard_ssp_serve(s);
}

void shard_ssp_pull(struct shard *s, struct shard_peer *peer, const Gradwire__Pull *m)
{
    clocks_tick(&s->clocks, peer->worker, peer->incarnation, m->entry, m->clock, false);
    peer->gated = true;
    peer->gated_clock = m->clock;
    peer->gated_number = m->number;
    shard_ssp_serve(s);
}

static enum err enter(struct shard *s, struct shard_peer *peer, const Gradwire__Tick *m,
                      struct errmsg *e)
{
    Gradwire__Reply reply = GRADWIRE__REPLY__INIT;
    Gradwire__Generation g = msg_generation(s->generation);
    reply.generation = &g;
    reply.entry = m->entry;
    if (clocks_enter(&s->clocks, peer->worker, peer->incarnation, m->entry, &reply.clock))
        return err_set(e, ERR_NOMEM, "no memory for the clock of worker %u", peer->worker);
    s->io->reply(s->ctx, peer, &reply, NULL, 0);
    return ERR_OK;
}

enum err shard_on_tick(struct shard *s, struct shard_peer *peer, const Gradwire__Tick *m,
                       struct errmsg *e)
{
    if (!shard_same_generation(s, m->generation)) {
        shard_refuse_generation(s, peer);
        return ERR_OK;
    }
    if (s->update != UPDATE_SSP)
        return err_set(e, ERR_PROTO, "a clock where training.update is not ssp");
    enum err err = ERR_OK;
    if (m->enter)
        err = enter(s, peer, m, e);
    else
        clocks_tick(&s->clocks, peer->worker, peer->incarnation, m->entry, m->clock, m->idle);
    shard_ssp_serve(s);
    return err;
}

void shard_on_gone(struct shard *s, const Gradwire__Gone *m)
{
    if (!shard_same_generation(s, m->generation) || s->me.chunks == 0)
        return;
    clocks_drop(&s->clocks, m->worker, m->incarnation);
    shard_ssp_serve(s);
}
