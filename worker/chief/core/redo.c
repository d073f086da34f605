/* sync.dropped: redo. Microbatches that backup workers made needless are trained in extra steps behind the epoch's
 * last batch; how many there are shows only there. The place in the epoch is as the lead shard said last. */
#include <string.h>

#include "common/base/mem.h"
#include "worker/chief/core/chief_state.h"

uint64_t redo_wanted(const struct chief_config *config)
{
    uint64_t batches = config->settings.epochs * config->settings.batches_per_epoch;
    return config->settings.redo ? 2 * batches : batches;
}

void redo_forget(struct manifest_redo *r)
{
    mem_free(r->dropped);
    *r = (struct manifest_redo){.there = false};
}

void redo_take(struct manifest_redo *to, const struct manifest_redo *from)
{
    redo_forget(to);
    uint8_t *dropped = mem_zalloc((size_t)from->dropped_bytes + 1, 1);
    if (!dropped)
        return;
    if (from->dropped_bytes)
        memcpy(dropped, from->dropped, from->dropped_bytes);
    *to = *from;
    to->dropped = dropped;
}

void redo_take_message(struct manifest_redo *to, const Gradwire__Redo *m)
{
    const struct manifest_redo from = {.there = true,
                                       .epoch = m->epoch,
                                       .begin = m->begin,
                                       .redone = m->redone,
                                       .dropped_bytes = (uint32_t)m->dropped.len,
                                       .dropped = m->dropped.data};
    redo_take(to, &from);
}

uint64_t redo_planned(const struct manifest_redo *r, const Gradwire__Settings *s, uint64_t total)
{
    uint64_t least = (s->epochs - r->epoch) * s->batches_per_epoch + r->begin;
    return r->there && r->epoch <= s->epochs && least < total ? least : total;
}
