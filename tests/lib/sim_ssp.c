/* The promise of bounded staleness: a read at clock c contains every update with a clock of c - s - 1 or less, and the
 * worker's own. So at every read the worker's own batches must be there; and whatever a shard applies later must have a
 * clock above c - s - 1 for the largest c that it was read at. */
#include <inttypes.h>
#include <stdlib.h>

#include "ps/core/shard_state.h"
#include "tests/lib/sim.h"

void sim_note_update(struct sim_worker *k, uint64_t id)
{
    struct sim *sim = k->proc.sim;
    if (sim->config.settings.update != GRADWIRE__UPDATE__SSP)
        return;
    if (sim->updates == sim->updates_room) {
        sim->updates_room = sim->updates_room ? 2 * sim->updates_room : 256;
        sim->update = realloc(sim->update, sim->updates_room * sizeof *sim->update);
    }
    sim->update[sim->updates++] = (struct sim_update){.generation = k->terms->generation,
                                                      .worker = k->proc.index,
                                                      .incarnation = k->terms->incarnation,
                                                      .id = id,
                                                      .clock = k->clock,
                                                      .outside = !k->bounded};
}

static bool of(const struct sim_update *u, const struct sim_thread *t, const struct shard_peer *p)
{
    return generation_equal(u->generation, shard_facts(t->core).generation) &&
           u->worker == p->worker && u->incarnation == p->incarnation;
}

static void check_read(struct sim_thread *t, const struct shard_peer *to, uint64_t clock)
{
    struct sim *sim = t->sim;
    sim_seen.behind += clocks_least(&t->core->ssp.clocks) < clock;
    if (clock > t->read_clock)
        t->read_clock = clock;
    for (size_t i = 0; i < sim->updates; i++) {
        const struct sim_update *u = &sim->update[i];
        if (of(u, t, to) && !u->outside && u->clock < clock &&
            !ids_has(&t->core->async.once.resolved, u->id))
            sim_fail(sim,
                     "worker %u reads at clock %" PRIu64 " without its own batch %" PRIu64
                     " of clock %" PRIu64,
                     to->worker, clock, u->id, u->clock);
    }
}

void sim_check_read(struct sim_thread *t, const struct shard_peer *to, const Gradwire__Reply *m)
{
    if (!m->bounded)
        return;
    sim_seen.reads++;
    sim_seen.encoded += m->codec != GRADWIRE__CODEC__RAW;
    check_read(t, to, m->clock);
}

void sim_check_rows_read(struct sim_thread *t, const struct shard_peer *to, const Gradwire__Rows *m)
{
    if (!m->bounded)
        return;
    sim_rows_seen.bounded++;
    check_read(t, to, m->clock);
}

void sim_check_update(struct sim_thread *t, const struct shard_peer *from,
                      const Gradwire__Generation *g, uint64_t name)
{
    struct sim *sim = t->sim;
    uint64_t s = sim->config.settings.staleness;
    const struct sim_update *u = NULL;
    if (t->core->mode != &shard_mode_ssp ||
        !generation_equal(msg_generation_get(g), shard_facts(t->core).generation) ||
        ids_has(&t->core->async.once.resolved, name))
        return;
    for (size_t i = sim->updates; i > 0 && !u; i--)
        if (of(&sim->update[i - 1], t, from) && sim->update[i - 1].id == name)
            u = &sim->update[i - 1];
    if (!u)
        sim_fail(sim, "worker %u pushes batch %" PRIu64 " that it has not computed", from->worker,
                 name);
    else if (!u->outside && t->read_clock > s && u->clock < t->read_clock - s)
        sim_fail(sim,
                 "worker %u pushes batch %" PRIu64 " of clock %" PRIu64
                 " after a read at clock %" PRIu64 " with s = %" PRIu64,
                 from->worker, u->id, u->clock, t->read_clock, s);
    else if (!u->outside && t->read_clock >= s && u->clock == t->read_clock - s)
        sim_seen.missed++;
}

void sim_note_entry(struct sim_thread *t, const struct shard_peer *from, const Gradwire__Tick *m)
{
    uint64_t least = clocks_least(&t->core->ssp.clocks);
    if (!m->enter || m->entry != 1 || least == UINT64_MAX || least == 0 ||
        !generation_equal(msg_generation_get(m->generation), shard_facts(t->core).generation))
        return;
    for (size_t i = 0; i < t->core->ssp.clocks.n; i++)
        if (t->core->ssp.clocks.of[i].worker == from->worker &&
            t->core->ssp.clocks.of[i].incarnation == from->incarnation)
            return; /* sent again */
    sim_seen.joins++;
}

static uint64_t gated(const struct shard *s)
{
    uint64_t n = 0;
    for (const struct shard_peer *p = s->peers; p; p = p->next)
        n += p->ssp.gated;
    return n;
}

static uint64_t live(const struct clocks *c)
{
    uint64_t n = 0;
    for (size_t i = 0; i < c->n; i++)
        n += !c->of[i].idle;
    return n;
}

void sim_shard_gone(struct sim_thread *t, const Gradwire__Gone *m)
{
    if (t->core->mode != &shard_mode_ssp) {
        shard_on_chief(t->core, FRAME_GONE, &m->base);
        return;
    }
    uint64_t waited = gated(t->core), before = live(&t->core->ssp.clocks);
    shard_on_chief(t->core, FRAME_GONE, &m->base);
    sim_seen.gone += before - live(&t->core->ssp.clocks);
    sim_seen.freed += waited - gated(t->core);
}
