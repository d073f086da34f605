/* The step that is being made: complete chunks are summed and updated, and published in ranges, until all chunks and parts
 * of the step are made. */
#include <assert.h>
#include <string.h>

#include "common/base/mem.h"
#include "ps/core/shard_state.h"

/* The step's sums of loss and metrics arrive with the lead's first chunk, and count when the step is complete. */
static void sum_step(struct shard *s, uint32_t chunk)
{
    const struct gate_chunk *c = &s->sync.gate.chunk[chunk];
    struct tree_node node[TREE_LEAVES_MAX];
    double sums[TREE_LEAVES_MAX * GATE_SUMS_MAX];
    uint32_t k = 1 + s->settings.metrics;
    for (uint32_t i = 0; i < c->nodes; i++) {
        node[i] = c->node[i].node;
        memcpy(sums + (size_t)i * k, c->node[i].sums, k * sizeof *sums);
    }
    struct tree_node root = {(uint32_t)__builtin_ctz(s->sync.gate.leaves), 0};
    (void)tree_sum_doubles(node, c->nodes, sums, k, root, s->sync.sums);
    for (uint32_t i = 0; i < c->nodes; i++) {
        s->sync.mark[s->sync.marked].rows = c->node[i].examples;
        s->sync.mark[s->sync.marked].marks = c->node[i].marks;
        s->sync.marked += c->node[i].marks != NULL;
        c->node[i].marks = NULL;
    }
}

void shard_step_unmark(struct shard *s, bool count)
{
    for (uint32_t i = 0; i < s->sync.marked; i++) {
        if (count)
            shard_add_marks(s, shard_redo_epoch(s), s->sync.mark[i].marks, s->sync.mark[i].rows);
        mem_free(s->sync.mark[i].marks);
    }
    s->sync.marked = 0;
}

bool shard_step_whole(const struct shard *s)
{
    return s->sync.chunks_made == s->me.chunks && s->sync.parts_made == shard_rows_parts(s);
}

void shard_sum_nodes(const struct shard *s, uint32_t entry, struct shard_sum *sum)
{
    const struct gate_chunk *c = &s->sync.gate.chunk[entry];
    uint32_t leaves = 0;
    for (uint32_t i = 0; i < c->nodes; i++) {
        sum->node[i] = c->node[i].node;
        sum->value[i] = c->node[i].value;
        leaves += UINT32_C(1) << c->node[i].node.level;
    }
    assert(s->sync.accept.on ? leaves <= s->sync.gate.leaves : leaves == s->sync.gate.leaves);
    (void)leaves; /* asserted: no leaf is summed twice, and none is missing */
    sum->values = (struct tree_values){c->nodes, sum->node, sum->value};
    sum->root = (struct tree_node){(uint32_t)__builtin_ctz(s->sync.gate.leaves), 0};
}

void shard_sum_begin(struct shard *s, uint32_t chunk, struct shard_sum *sum)
{
    uint64_t at = shard_chunk_at(s, chunk);
    s->before_there = false;
    s->io->before_write(s->ctx, s->block[!s->now] + at, shard_chunk_at(s, chunk + 1) - at);
    shard_sum_nodes(s, chunk, sum);
}

const float *shard_sum(struct shard *s, const struct shard_sum *sum, uint64_t at, size_t n)
{
    return tree_sum(&sum->values, sum->root, at, n, s->sync.scratch);
}

void shard_step_update(struct shard *s, uint32_t chunk, const struct shard_sum *sum,
                       uint64_t examples, float scale, const float *ratio)
{
    uint64_t at = shard_chunk_at(s, chunk), elems = shard_chunk_at(s, chunk + 1) - at;
    const float *from = s->block[s->now] + at;
    float *to = s->block[!s->now] + at;
    const struct shard_update u = {
        .t = s->t + 1, .inv_n = 1.0f / (float)examples, .scale = scale, .ratio = ratio};
    if (examples == 0) { /* no update, but the step's number grows */
        memcpy(to, from, elems * sizeof *to);
        shard_average_keep(s, at, elems);
        return;
    }
    for (uint64_t i = 0; i < elems; i += SHARD_SUM_ELEMS) {
        size_t n = elems - i < SHARD_SUM_ELEMS ? (size_t)(elems - i) : SHARD_SUM_ELEMS;
        shard_apply(s, &u, at + i, n, to + i, from + i, sum ? shard_sum(s, sum, i, n) : to + i);
    }
}

void shard_step_taken(struct shard *s, uint32_t chunk)
{
    const struct gate_chunk *c = &s->sync.gate.chunk[chunk];
    for (uint32_t i = 0; i < c->nodes; i++)
        shard_taken_note(s, c->node[i].worker, c->node[i].incarnation, s->step, c->node[i].number,
                         chunk);
    s->sync.examples = (double)gate_examples(&s->sync.gate, chunk);
    if (s->me.first_chunk + chunk == 0)
        sum_step(s, chunk);
    gate_clear(&s->sync.gate, chunk);
    s->sync.made[chunk] = 1;
}

Gradwire__Outcome shard_step_outcome(const struct shard *s, uint64_t step,
                                     Gradwire__Outcome otherwise)
{
    bool rejected =
        s->sync.round.last.there && s->sync.round.last.step == step && s->sync.round.last.rejected;
    return rejected ? GRADWIRE__OUTCOME__REJECTED : otherwise;
}

/* The head of a reply to a worker that waits for the step being made. */
static Gradwire__Reply reply_of_step(const struct shard *s, const struct shard_peer *to)
{
    Gradwire__Reply reply = GRADWIRE__REPLY__INIT;
    reply.step = s->step + 1;
    reply.pulled = to->sync.want_pulled;
    reply.outcome = shard_step_outcome(
        s, s->step, shard_accept_outcome(s, s->step, &to->sync.pushed, GRADWIRE__OUTCOME__APPLIED));
    reply.made = s->rows.on && shard_step_whole(s);
    return reply;
}

void shard_step_send(struct shard *s, struct shard_peer *to, const struct shard_run *run)
{
    Gradwire__Reply reply = reply_of_step(s, to);
    Gradwire__EpochSums sums = GRADWIRE__EPOCH_SUMS__INIT;
    struct shard_work work;
    if (s->me.first_chunk + run->first == 0) {
        shard_redo_say(s, s->step + 1, &reply, &work);
        sums.epoch = shard_redo_epoch(s);
        sums.batches = 1;
        sums.examples = s->sync.examples;
        sums.loss = s->sync.sums[0];
        sums.metric = s->sync.sums + 1;
        sums.n_metric = s->settings.metrics;
        reply.sums = &sums;
    }
    shard_send_run(s, to, &reply, run);
}

void shard_step_publish(struct shard *s, uint32_t first, uint32_t count)
{
    assert(count > 0 && first + count <= s->me.chunks && s->sync.runs < s->me.chunks);
    struct shard_run *made = &s->sync.run[s->sync.runs++];
    if (first == 0)
        shard_step_unmark(s, true);
    *made = (struct shard_run){.first = first, .count = count};
    shard_reply_make(s, made, s->sync.runs == 1);
    for (struct shard_peer *p = s->peers; p; p = p->next)
        if (p->sync.want_step == s->step + 1)
            shard_step_send(s, p, made);
    s->sync.made_said = shard_step_whole(s);
}

void shard_step_finish(struct shard *s)
{
    /* Assert that every chunk is made and in exactly one range, and that every part is made. */
    uint32_t published = 0, made = 0;
    for (uint32_t i = 0; i < s->sync.runs; i++)
        published += s->sync.run[i].count;
    for (uint32_t c = 0; c < s->sync.gate.chunks; c++)
        made += s->sync.made[c];
    assert(published == s->me.chunks && made == s->sync.gate.chunks);
    (void)published, (void)made;
    assert(!s->before_there); /* the other block holds step + 1 */
    /* The last part was made after the last range was sent, or there is no range: a reply without chunks ends the step. */
    const struct shard_run none = {.count = 0};
    for (struct shard_peer *p = s->peers; p && s->rows.on && !s->sync.made_said; p = p->next) {
        Gradwire__Reply reply = reply_of_step(s, p);
        if (p->sync.want_step == s->step + 1)
            shard_send_run(s, p, &reply, &none);
    }
    s->sync.made_said = false;
    for (struct shard_peer *p = s->peers; p; p = p->next) {
        assert(p->sync.want_step == 0 || p->sync.want_step == s->step + 1);
        if (p->sync.want_step == s->step + 1) {
            p->sync.want_step = 0;
            p->sync.answered_step = s->step + 1;
            p->sync.answered_push = s->step + 1;
            p->holds = s->step + 2;
            shard_reply_sent(s, p);
        }
    }
    if (s->index == 0)
        shard_add_epoch_sums(s, shard_redo_epoch(s), 1, s->sync.examples, s->sync.sums,
                             GATE_SUMS_MAX);
    shard_accept_finish(s);
    if (s->sync.examples > 0)
        s->t++;
    shard_redo_turn(s);
    s->step++;
    shard_rows_advance(s);
    s->now = !s->now;
    shard_average_turn(s);
    s->before_there = true;
    s->rows.before_there = s->rows.on;
    memset(s->sync.made, 0, s->sync.gate.chunks);
    s->sync.chunks_made = s->sync.parts_made = 0;
    s->sync.runs = 0;
    shard_rows_answer_waiting(s);
    shard_cut_boundary(s);
}
