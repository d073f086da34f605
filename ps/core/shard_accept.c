/* A shard where there are backup workers: which leaves a step is made of is decided once for all shards, by the chief.
 *
 * Happy path: nodes come in -> whenever one is whole (every chunk has it) a report to the chief -> its decision names
 * leaves -> of these every chunk is summed, and made as ever; what else came is dropped.
 * Failure modes: the chief is another one, or was away (it asks, and gets the report and the last decision again), a
 * cut holds the shard (the decision waits), a push that comes when the set is closed, or when its step is over
 * (answered with the new parameters, "dropped"), a decision that does not fit (left alone). */
#include "ps/core/shard_state.h"

void shard_accept_init(struct shard *s, const Gradwire__Settings *m)
{
    s->accept = (struct shard_accept){.on = m->replicas_to_aggregate > 0};
}

static bool decided(const struct shard *s)
{
    return s->accept.last.there && s->accept.last.step == s->step;
}

bool shard_accepted(const struct shard *s, uint64_t *step, struct tree_leaves *leaves)
{
    *step = s->accept.last.step;
    *leaves = s->accept.last.leaves;
    return s->accept.last.there;
}

/* ---- the report ---- */

void shard_accept_report(struct shard *s)
{
    struct shard_accept *a = &s->accept;
    Gradwire__StepReport m = GRADWIRE__STEP_REPORT__INIT;
    Gradwire__StepDecision last = GRADWIRE__STEP_DECISION__INIT;
    Gradwire__Generation g = msg_generation(s->generation);
    uint8_t whole[TREE_NODES_MAX / 8], accepted[TREE_LEAVES_MAX / 8];
    if (!a->on)
        return;
    m.generation = &g;
    m.shard = s->index;
    m.step = s->step;
    m.round = GRADWIRE__ROUND__ACCEPT;
    if (!decided(s)) {
        m.whole.data = whole;
        m.whole.len = tree_pack(s->gate.pick.whole.bits, 2 * s->leaves, whole);
        m.begins = s->redo.on && s->step && s->step == s->redo.epochs.begin;
        m.extra = s->redo.on && epochs_is_extra(&s->redo.epochs, s->step);
    }
    if (a->last.there) {
        last.step = a->last.step;
        last.round = GRADWIRE__ROUND__ACCEPT;
        last.accepted.data = accepted;
        last.accepted.len = tree_pack(a->last.leaves.bits, s->leaves, accepted);
        m.last = &last;
    }
    a->told = s->gate.pick.wholes;
    s->io->tell(s->ctx, FRAME_STEP_REPORT, &m.base);
}

void shard_accept_came(struct shard *s)
{
    if (s->accept.on && !decided(s) && s->gate.pick.wholes != s->accept.told)
        shard_accept_report(s);
}

/* ---- the decision ---- */

static bool there(const struct shard *s, const struct tree_leaves *leaves)
{
    for (uint32_t c = 0; c < s->me.chunks; c++)
        if (!gate_covers(&s->gate, c, leaves))
            return false;
    uint32_t n = tree_count_leaves(leaves);
    bool extra = s->redo.on && epochs_is_extra(&s->redo.epochs, s->step);
    return extra ? n == s->leaves : n > 0;
}

void shard_accept_decide(struct shard *s, const Gradwire__StepDecision *m)
{
    struct tree_leaves leaves = {{0}};
    if (!s->accept.on || m->step != s->step || decided(s) ||
        tree_unpack(leaves.bits, s->leaves, m->accepted.data, m->accepted.len) ||
        !there(s, &leaves))
        return;
    s->accept.last.there = true;
    s->accept.last.step = m->step;
    s->accept.last.leaves = leaves;
    if (s->redo.on)
        epochs_note(&s->redo.epochs, m->step, &leaves);
    shard_sync_release(s);
}

void shard_accept_pick(struct shard *s)
{
    if (!s->accept.on || !decided(s))
        return;
    for (uint32_t c = 0; c < s->me.chunks; c++)
        if (!s->made[c])
            gate_pick(&s->gate, c, &s->accept.last.leaves);
}

void shard_accept_finish(struct shard *s)
{
    if (!s->accept.on)
        return;
    s->dropped += s->leaves - tree_count_leaves(&s->accept.last.leaves);
    s->accept.told = 0;
}

/* Of a step that is over for longer nothing is known any more: whoever pushes it now came too late for the next one. */
Gradwire__Outcome shard_accept_outcome(const struct shard *s, uint64_t step,
                                       const struct tree_leaves *pushed,
                                       Gradwire__Outcome otherwise)
{
    const struct shard_accept *a = &s->accept;
    if (!a->on || !a->last.there || step > a->last.step)
        return otherwise;
    bool dropped = step < a->last.step;
    for (uint32_t leaf = 0; leaf < s->leaves; leaf++)
        dropped = dropped || (tree_has_leaf(pushed, leaf) && !tree_has_leaf(&a->last.leaves, leaf));
    return dropped ? GRADWIRE__OUTCOME__DROPPED : otherwise;
}
