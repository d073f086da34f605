/* Backup workers: the leaves that each step is made of, as the chief decided; all shards of a generation must have
 * received the same. A generation continues the steps of the one that it took over, or of the cut that it restores. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ps/core/shard_state.h"
#include "tests/lib/sim.h"

struct sim_backup_seen sim_backup_seen;

static bool is_on(const struct sim *sim)
{
    return sim->config.settings.replicas_to_aggregate > 0;
}

void sim_backup_random(struct sim_config *c, uint64_t r)
{
    c->workers = 2 + (uint32_t)(r % 3);
    c->settings.microbatches = 4u << r / 4 % 2;
    c->settings.batch_size = 4 * c->settings.microbatches;
    c->settings.replicas_to_aggregate = 1 + (uint32_t)(r / 16 % (c->workers - 1));
    c->slow = (uint32_t)(r / 64 % (c->workers + 1)); /* perhaps the chief, perhaps nobody */
    c->settings.redo = r / 4096 % 2;
    if (c->settings.redo && c->settings.nan_guard == NAN_GUARD_ROLLBACK)
        c->settings.nan_guard = NAN_GUARD_SKIP; /* the two are refused together */
}

uint64_t sim_steps_max(const struct sim_config *config)
{
    uint64_t batches = config->settings.epochs * config->settings.batches_per_epoch;
    return config->settings.redo ? 2 * batches : batches;
}

static uint64_t steps_of(const struct sim *sim)
{
    return sim_steps_max(&sim->config);
}

static struct sim_history *find(const struct sim *sim, struct generation g)
{
    struct sim_history *h = sim->history;
    while (h && !generation_equal(h->generation, g))
        h = h->next;
    return h;
}

const struct sim_history *sim_backup_history(const struct sim *sim, uint64_t generation)
{
    const struct sim_history *h = sim->history;
    while (h && h->generation.number != generation)
        h = h->next;
    return h;
}

static struct sim_history *begin(struct sim *sim, struct generation g, uint64_t from,
                                 uint64_t steps)
{
    struct sim_history *h = calloc(1, sizeof *h);
    const struct sim_history *former = sim_backup_history(sim, from);
    h->generation = g;
    h->set = calloc(steps_of(sim) + 1, sizeof *h->set);
    h->rejected = calloc(steps_of(sim) + 1, sizeof *h->rejected);
    if (former) {
        memcpy(h->set, former->set, steps * sizeof *h->set);
        memcpy(h->rejected, former->rejected, steps * sizeof *h->rejected);
    }
    h->next = sim->history;
    sim->history = h;
    return h;
}

static void note(struct sim_thread *t, struct sim_history *h)
{
    struct sim *sim = t->sim;
    const Gradwire__Settings *s = &sim->config.settings;
    const struct shard_accept *a = &t->core->sync.accept;
    if (!a->last.there)
        return;
    const struct tree_leaves leaves = a->last.leaves;
    uint64_t step = a->last.step;
    struct tree_leaves *set = &h->set[step];
    uint32_t n = tree_count_leaves(&leaves), least = s->microbatches;
    for (uint32_t workers = 1; workers <= SIM_WORKERS_MAX; workers++) {
        uint32_t parts = workers < s->microbatches ? workers : s->microbatches;
        uint32_t wanted = s->replicas_to_aggregate < parts ? s->replicas_to_aggregate : parts;
        if (wanted * (s->microbatches / parts) < least)
            least = wanted * (s->microbatches / parts);
    }
    if (n < least)
        sim_fail(sim, "step %" PRIu64 " is made of %u leaves, fewer than %u", step, n, least);
    if (tree_count_leaves(set) == 0) {
        *set = leaves;
        sim_backup_seen.dropped += s->microbatches - n;
        sim_backup_seen.steps += n < s->microbatches;
    } else if (memcmp(set, &leaves, sizeof leaves) != 0) {
        sim_fail(sim, "step %" PRIu64 " is made of two sets of leaves", step);
    }
}

void sim_backup_entered(struct sim_thread *t, struct generation before, const Gradwire__Enter *m)
{
    struct sim *sim = t->sim;
    struct generation g = shard_facts(t->core).generation;
    if (!is_on(sim) || !shard_facts(t->core).entered || generation_equal(before, g))
        return;
    struct sim_history *h = find(sim, g);
    if (m->mode == GRADWIRE__ENTER_MODE__TAKEOVER) {
        if (!h)
            h = begin(sim, g, before.number, steps_of(sim));
        note(t, h); /* a decision of the last chief may have come when others had entered already */
        return;
    }
    const struct sim_manifest *cut = sim->manifests;
    while (cut && cut->m.cut != m->cut)
        cut = cut->next;
    if (h)
        return;
    if (m->mode == GRADWIRE__ENTER_MODE__RESTORE && cut)
        (void)begin(sim, g, cut->m.generation, cut->m.step);
    else
        (void)begin(sim, g, 0, 0);
}

/* After a recovery a step is rejected because the journal rejects it, whatever its leaves are this time, and before it no
 * step is. */
static void note_rejected(struct sim *sim, struct sim_history *h, const Gradwire__StepDecision *m)
{
    if (m->round != GRADWIRE__ROUND__NORM || m->step > steps_of(sim) ||
        !generation_equal(msg_generation_get(m->generation), h->generation))
        return;
    /* The chief does not wait for a shard without a part of the model, which may hear of it when the journal has more. */
    bool rollback = sim->config.settings.nan_guard == NAN_GUARD_ROLLBACK && h == sim->history;
    if (rollback && m->rejected != journal_skips(&sim->journal, m->step))
        sim_fail(sim, "step %" PRIu64 " is %s, and the journal says otherwise", m->step,
                 m->rejected ? "rejected" : "made");
    if (rollback && m->rejected && !h->rejected[m->step])
        sim_seen.skipped++;
    h->rejected[m->step] = m->rejected;
}

void sim_backup_decided(struct sim_thread *t, const Gradwire__StepDecision *m)
{
    struct sim_history *h = find(t->sim, shard_facts(t->core).generation);
    if (!is_on(t->sim) || !h)
        return;
    note(t, h);
    note_rejected(t->sim, h, m);
}

void sim_backup_rows_push(const struct sim_thread *t, const Gradwire__RowsPush *m)
{
    const struct shard *s = t->core;
    const struct shard_accept *a = &s->sync.accept;
    if (!is_on(t->sim) || !shard_same_generation(s, m->generation))
        return;
    bool decided = a->last.there && a->last.step == s->step;
    sim_rows_seen.too_late += m->name < s->step || decided;
}

void sim_backup_deciding(const struct sim_thread *t, const Gradwire__StepDecision *m)
{
    const struct shard *s = t->core;
    const struct gate *g = &s->sync.gate;
    if (!is_on(t->sim) || !shard_same_generation(s, m->generation) || m->step != s->step ||
        m->round != GRADWIRE__ROUND__ACCEPT)
        return;
    for (uint32_t bit = 1; s->rows.on && bit < 2 * g->leaves; bit++)
        sim_rows_seen.torn += g->pick.chunks[bit] > 0 && g->pick.chunks[bit] < g->chunks;
}

void sim_backup_close(struct sim *sim)
{
    while (sim->history) {
        struct sim_history *h = sim->history;
        sim->history = h->next;
        free(h->set);
        free(h->rejected);
        free(h);
    }
}
