/* Backup workers, sync: decides whose leaves a step consists of, once for all shards.
 *
 * Happy path: every shard reports which nodes of the running step are whole on it -> the leaves that are whole on
 * every shard -> when these contain all that was dealt to the wanted number of workers, the set is closed -> the
 * decision goes to every ps.
 * Failure modes: fewer workers are left (then all that have leaves count), a worker is lost (its leaves are dealt
 * again after worker_rejoin_s, and the new deal counts), a leaf came in a node of an earlier deal (all leaves of that
 * node are added), a ps's connection is lost, or another chief takes over (both as in commit.c).
 *
 * Extra steps (sync.dropped: redo) wait for all leaves, so that nothing is dropped twice.
 *
 * The first step of an epoch is closed when the chief's own session has reached it and has evaluated: this session
 * may be the slow one, and the decisions at an epoch's end (the best epoch, early stopping) must come before the
 * next step. */
#include <assert.h>

#include "worker/chief/core/chief_state.h"

/* ---- messages ---- */

static uint32_t leaves_of(const struct chief *c)
{
    return c->config.settings.microbatches;
}

void accept_send(struct chief *c, uint32_t ps)
{
    const struct chief_accept *a = &c->sync.accept;
    Gradwire__StepDecision m = GRADWIRE__STEP_DECISION__INIT;
    uint8_t accepted[TREE_LEAVES_MAX / 8];
    m.generation = &c->named;
    m.step = a->last.step;
    m.round = GRADWIRE__ROUND__ACCEPT;
    m.accepted.data = accepted;
    m.accepted.len = tree_pack(a->last.leaves.bits, leaves_of(c), accepted);
    if (a->last.there)
        chief_to_ps(c, ps, FRAME_STEP_DECISION, &m.base);
}

static void tell_all(struct chief *c, uint64_t step, const struct tree_leaves *leaves)
{
    struct chief_accepted *last = &c->sync.accept.last;
    assert(!last->there || step > last->step);
    *last = (struct chief_accepted){.there = true, .step = step, .leaves = *leaves};
    accept_send(c, EVERY_PS);
}

/* ---- the decision ---- */

/* The smallest node that has this leaf, among the nodes that are whole on every shard; 0: none. */
static uint32_t smallest(const struct chief *c, const struct tree_nodes *whole, uint32_t leaf)
{
    uint32_t bit = leaves_of(c) + leaf;
    while (bit && !tree_has_node(whole, bit))
        bit /= 2;
    return bit;
}

static struct tree_nodes whole_everywhere(const struct chief *c)
{
    struct tree_nodes all = c->shard[0].sync.whole;
    for (uint32_t i = 1; i < c->plan.shards; i++)
        for (size_t k = 0; k < sizeof all.bits / sizeof *all.bits; k++)
            all.bits[k] &= c->shard[i].sync.whole.bits[k];
    return all;
}

static bool has_part(const struct chief *c, const struct tree_nodes *whole,
                     const struct chief_part *p)
{
    for (uint32_t leaf = p->first; leaf < p->end; leaf++)
        if (!smallest(c, whole, leaf))
            return false;
    return true;
}

/* Add a part's leaves. If a leaf came in a node of an earlier deal, all leaves of that node are added, because it
 * cannot be taken apart. */
static void add_part(const struct chief *c, const struct tree_nodes *whole,
                     const struct chief_part *p, struct tree_leaves *leaves)
{
    for (uint32_t leaf = p->first; leaf < p->end; leaf++) {
        uint32_t bit = smallest(c, whole, leaf), level = 0;
        while (bit << level < leaves_of(c))
            level++;
        uint32_t first = (bit << level) - leaves_of(c);
        tree_add_leaves(leaves, first, first + (1u << level));
    }
}

/* Choose the leaves to accept. False: not enough workers' parts are whole. */
static bool choose(const struct chief *c, const struct chief_part *part, uint32_t parts,
                   struct tree_leaves *leaves)
{
    const struct tree_nodes whole = whole_everywhere(c);
    uint32_t wanted = c->config.settings.replicas_to_aggregate, have = 0;
    *leaves = (struct tree_leaves){{0}};
    for (uint32_t i = 0; i < parts; i++) {
        if (!has_part(c, &whole, &part[i]))
            continue;
        add_part(c, &whole, &part[i], leaves);
        have++;
    }
    return have > 0 && have >= (wanted < parts ? wanted : parts) &&
           (!c->sync.accept.extra || tree_count_leaves(leaves) == leaves_of(c));
}

/* True if every shard has reported this step, it has no decision yet, and it may be made. */
static bool due(const struct chief *c)
{
    const struct chief_accept *a = &c->sync.accept;
    return accept_is_on(c) && c->entered && !c->rollback_due &&
           (!a->last.there || a->last.step < a->step) && a->step < c->total &&
           shards_all(c, offsetof(struct chief_shard, sync.accepts)) &&
           (!a->begins || (a->seen && a->seen_step == a->step));
}

void accept_progress(struct chief *c)
{
    struct chief_part part[CHIEF_WORKERS_MAX];
    struct tree_leaves leaves;
    if (!due(c))
        return;
    uint32_t parts = workers_parts(c, part);
    if (!choose(c, part, parts, &leaves))
        return;
    assert(c->sync.accept.step < c->total);
    /* Each leaf, or a node above it, is whole on every shard. */
    for (uint32_t i = 0; i < c->plan.shards; i++)
        for (uint32_t leaf = 0; leaf < leaves_of(c); leaf++)
            assert(!tree_has_leaf(&leaves, leaf) || smallest(c, &c->shard[i].sync.whole, leaf));
    for (uint32_t i = 0; i < parts; i++)
        for (uint32_t leaf = part[i].first; leaf < part[i].end; leaf++)
            c->worker[part[i].worker].sync.dropped += !tree_has_leaf(&leaves, leaf);
    tell_all(c, c->sync.accept.step, &leaves);
}

/* ---- reports ---- */

/* A decision that an earlier chief sent to a shard holds for all shards. */
static void adopt(struct chief *c, const Gradwire__StepDecision *m)
{
    struct tree_leaves leaves = {{0}};
    if ((c->sync.accept.last.there && m->step <= c->sync.accept.last.step) ||
        tree_unpack(leaves.bits, leaves_of(c), m->accepted.data, m->accepted.len))
        return;
    tell_all(c, m->step, &leaves);
}

void accept_on_report(struct chief *c, uint32_t ps, const Gradwire__StepReport *m)
{
    struct chief_accept *a = &c->sync.accept;
    if (!accept_is_on(c))
        return;
    if (m->last)
        adopt(c, m->last);
    if (m->whole.len == 0 || m->step < a->step)
        return;
    if (a->last.there && m->step <= a->last.step) {
        accept_send(c, ps);
        return;
    }
    struct tree_nodes whole = {{0}};
    if (tree_unpack(whole.bits, 2 * leaves_of(c), m->whole.data, m->whole.len))
        return;
    if (m->step > a->step) {
        for (uint32_t i = 0; i < c->plan.shards; i++)
            c->shard[i].sync.accepts = false;
        a->step = m->step;
    }
    const Gradwire__Settings *s = &c->config.settings;
    a->extra = s->redo && m->extra;
    a->begins = s->redo ? m->begins : m->step && m->step % s->batches_per_epoch == 0;
    c->shard[m->shard].sync.whole = whole;
    c->shard[m->shard].sync.accepts = true;
    accept_progress(c);
}

void accept_on_step(struct chief *c, uint64_t step)
{
    c->sync.accept.seen = true;
    c->sync.accept.seen_step = step;
    accept_progress(c);
}
