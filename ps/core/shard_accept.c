/* A shard with backup workers: the chief picks the leaves of each step, the same ones for all shards.
 *
 * Happy path: nodes arrive -> when one more node is complete, which means that all chunks and parts have it, a report
 * to the chief -> the chief's decision names leaves -> every chunk and every part is summed over these leaves, and made
 * as in other steps; the other leaves are dropped.
 * Failure modes: a new chief, or one that was disconnected (it requests the report and the last decision again); a cut
 * stops the shard (the decision waits); a push arrives after the decision, or after its step (answered with the new
 * parameters and "dropped"); a decision does not fit (ignored). */
#include <assert.h>

#include "ps/core/shard_state.h"

static bool decided(const struct shard *s)
{
    return s->sync.accept.last.there && s->sync.accept.last.step == s->step;
}

/* ---- the report ---- */

void shard_accept_report(struct shard *s)
{
    struct shard_accept *a = &s->sync.accept;
    assert(a->on || !a->last.there);
    Gradwire__StepReport m = GRADWIRE__STEP_REPORT__INIT;
    Gradwire__StepDecision last = GRADWIRE__STEP_DECISION__INIT;
    uint8_t whole[TREE_NODES_MAX / 8], accepted[TREE_LEAVES_MAX / 8];
    if (!a->on)
        return;
    m.generation = &s->wire_generation;
    m.shard = s->index;
    m.step = s->step;
    m.round = GRADWIRE__ROUND__ACCEPT;
    if (!decided(s)) {
        m.whole.data = whole;
        m.whole.len = tree_pack(s->sync.gate.pick.whole.bits, 2 * s->sync.gate.leaves, whole);
        m.begins = s->sync.redo.on && s->step && s->step == s->sync.redo.epochs.begin;
        m.extra = s->sync.redo.on && epochs_is_extra(&s->sync.redo.epochs, s->step);
    }
    if (a->last.there) {
        last.step = a->last.step;
        last.round = GRADWIRE__ROUND__ACCEPT;
        last.accepted.data = accepted;
        last.accepted.len = tree_pack(a->last.leaves.bits, s->sync.gate.leaves, accepted);
        m.last = &last;
    }
    a->told = s->sync.gate.pick.wholes;
    s->io->tell(s->ctx, FRAME_STEP_REPORT, &m.base);
}

void shard_accept_came(struct shard *s)
{
    if (s->sync.accept.on && !decided(s) && s->sync.gate.pick.wholes != s->sync.accept.told)
        shard_accept_report(s);
}

/* ---- the decision ---- */

static bool there(const struct shard *s, const struct tree_leaves *leaves)
{
    for (uint32_t entry = 0; entry < s->sync.gate.chunks; entry++)
        if (!gate_covers(&s->sync.gate, entry, leaves))
            return false;
    uint32_t n = tree_count_leaves(leaves);
    bool extra = s->sync.redo.on && epochs_is_extra(&s->sync.redo.epochs, s->step);
    return extra ? n == s->sync.gate.leaves : n > 0;
}

bool shard_accept_decide(struct shard *s, const Gradwire__StepDecision *m)
{
    struct tree_leaves leaves = {{0}};
    if (!s->sync.accept.on || m->step != s->step || decided(s) ||
        tree_unpack(leaves.bits, s->sync.gate.leaves, m->accepted.data, m->accepted.len) ||
        !there(s, &leaves))
        return false;
    s->sync.accept.last.there = true;
    s->sync.accept.last.step = m->step;
    s->sync.accept.last.leaves = leaves;
    if (s->sync.redo.on)
        epochs_note(&s->sync.redo.epochs, m->step, &leaves);
    return true;
}

void shard_accept_pick(struct shard *s)
{
    if (!s->sync.accept.on || !decided(s))
        return;
    for (uint32_t entry = 0; entry < s->sync.gate.chunks; entry++)
        if (!s->sync.made[entry])
            gate_pick(&s->sync.gate, entry, &s->sync.accept.last.leaves);
}

void shard_accept_finish(struct shard *s)
{
    if (!s->sync.accept.on)
        return;
    assert(decided(s)); /* a step contains only leaves that the chief has named */
    s->dropped += s->sync.gate.leaves - tree_count_leaves(&s->sync.accept.last.leaves);
    s->sync.accept.told = 0;
}

/* The outcome of earlier steps than the last one is no longer known. A push of such a step is also too late for the step
 * after it. */
Gradwire__Outcome shard_accept_outcome(const struct shard *s, uint64_t step,
                                       const struct tree_leaves *pushed,
                                       Gradwire__Outcome otherwise)
{
    const struct shard_accept *a = &s->sync.accept;
    if (!a->on || !a->last.there || step > a->last.step)
        return otherwise;
    bool dropped = step < a->last.step;
    for (uint32_t leaf = 0; leaf < s->sync.gate.leaves; leaf++)
        dropped = dropped || (tree_has_leaf(pushed, leaf) && !tree_has_leaf(&a->last.leaves, leaf));
    return dropped ? GRADWIRE__OUTCOME__DROPPED : otherwise;
}
