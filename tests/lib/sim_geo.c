/* Geo: the batches that workers have really pushed, as the shards took them. A cut that resolves another one has lost it. */
#include <inttypes.h>

#include "ps/core/shard_state.h"
#include "tests/lib/sim.h"

void sim_geo_entered(struct sim_thread *t, const Gradwire__Enter *m)
{
    struct sim *sim = t->sim;
    if (m->mode == GRADWIRE__ENTER_MODE__TAKEOVER || t->core->me.chunks == 0)
        return; /* nobody waits for a shard without chunks: it may enter late */
    sim->pushed = 0;
    for (const struct sim_manifest *at = sim->manifests; at; at = at->next)
        if (m->mode == GRADWIRE__ENTER_MODE__RESTORE && at->m.cut == m->cut)
            sim->pushed = at->pushed;
}

void sim_geo_pushed(struct sim_thread *t, const Gradwire__Push *m)
{
    for (size_t i = 0; t->core->mode == &shard_mode_geo && i < m->n_ids; i++)
        for (uint64_t id = m->ids[i]->first; id - m->ids[i]->first < m->ids[i]->count; id++)
            if (id < SIM_LEFT_MAX && ids_has(&t->core->geo.resolved, id))
                t->sim->pushed |= UINT64_C(1) << id;
}

void sim_geo_publish(struct sim *sim, struct sim_manifest *m)
{
    struct ids done;
    uint64_t lost = 0;
    if (sim->config.settings.update != GRADWIRE__UPDATE__GEO ||
        ids_unpack(&done, m->m.mark, m->m.window_bits, m->m.window_bits_bytes))
        return;
    for (uint64_t id = 0; id < ids_end(&done) && id < SIM_LEFT_MAX; id++) {
        bool pushed = sim->pushed >> id & 1; /* maybe only after the cut was copied */
        m->pushed |= ids_has(&done, id) && pushed ? UINT64_C(1) << id : 0;
        lost += ids_has(&done, id) && !pushed;
    }
    sim_seen.lost += lost;
    if (m->m.lost != lost)
        sim_fail(sim, "cut %" PRIu64 " says %" PRIu64 " lost, and %" PRIu64 " were not pushed",
                 m->m.cut, m->m.lost, lost);
}
