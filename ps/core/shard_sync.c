/* A shard in sync: gate -> tree sum -> optimizer -> the next step's block -> one run to all who wait. Where a round is
 * on, the sum waits in that block for the decision (shard_round.c). */
#include <string.h>

#include "ps/core/shard_state.h"

uint64_t shard_chunk_at(const struct shard *s, uint32_t chunk)
{
    return plan_chunk_elem(&s->plan, s->me.first_chunk + chunk) - s->me.first_elem;
}

/* The step's loss and metric sums come with the lead's first chunk, and count when the step is made. */
static void sum_step(struct shard *s, uint32_t chunk)
{
    const struct gate_chunk *c = &s->gate.chunk[chunk];
    struct tree_node node[TREE_LEAVES_MAX];
    double sums[TREE_LEAVES_MAX * GATE_SUMS_MAX];
    uint32_t k = 1 + s->metrics;
    for (uint32_t i = 0; i < c->nodes; i++) {
        node[i] = c->node[i].node;
        memcpy(sums + (size_t)i * k, c->node[i].sums, k * sizeof *sums);
    }
    struct tree_node root = {(uint32_t)__builtin_ctz(s->leaves), 0};
    (void)tree_sum_doubles(node, c->nodes, sums, k, root, s->step_sums);
}

void shard_sum_begin(const struct shard *s, uint32_t chunk, struct shard_sum *sum)
{
    const struct gate_chunk *c = &s->gate.chunk[chunk];
    for (uint32_t i = 0; i < c->nodes; i++) {
        sum->node[i] = c->node[i].node;
        sum->value[i] = c->node[i].value;
    }
    sum->values = (struct tree_values){c->nodes, sum->node, sum->value};
    sum->root = (struct tree_node){(uint32_t)__builtin_ctz(s->leaves), 0};
}

const float *shard_sum(struct shard *s, const struct shard_sum *sum, uint64_t at, size_t n)
{
    return tree_sum(&sum->values, sum->root, at, n, s->scratch);
}

static void update(struct shard *s, uint32_t chunk, float *to, const float *from, uint64_t at,
                   uint64_t elems, uint64_t examples)
{
    struct shard_sum sum;
    shard_sum_begin(s, chunk, &sum);
    float inv = 1.0f / (float)examples;
    for (uint64_t i = 0; i < elems; i += SHARD_SUM_ELEMS) {
        size_t n = elems - i < SHARD_SUM_ELEMS ? (size_t)(elems - i) : SHARD_SUM_ELEMS;
        const float *g = shard_sum(s, &sum, i, n);
        shard_apply(s, s->t + 1, at + i, n, to + i, from + i, g, inv, 1.0f);
    }
}

static void note_taken(struct shard *s, uint32_t chunk)
{
    const struct gate_chunk *c = &s->gate.chunk[chunk];
    for (uint32_t i = 0; i < c->nodes; i++)
        shard_taken_note(s, c->node[i].worker, c->node[i].incarnation, s->step, c->node[i].number,
                         chunk);
}

void shard_sync_taken(struct shard *s, uint32_t chunk)
{
    if (s->feedback)
        note_taken(s, chunk);
    s->step_examples = (double)gate_examples(&s->gate, chunk);
    if (s->me.first_chunk + chunk == 0)
        sum_step(s, chunk);
    gate_clear(&s->gate, chunk);
    s->made[chunk] = 1;
}

static void make_chunk(struct shard *s, uint32_t chunk)
{
    uint64_t at = shard_chunk_at(s, chunk);
    uint64_t elems = shard_chunk_at(s, chunk + 1) - at;
    const float *from = s->block[s->now] + at;
    float *to = s->block[!s->now] + at;
    uint64_t examples = gate_examples(&s->gate, chunk);
    s->before_there = false;
    s->io->before_write(s->ctx, to, elems);
    if (examples) {
        update(s, chunk, to, from, at, elems, examples);
    } else { /* no update, but the step counts */
        memcpy(to, from, elems * sizeof *to);
        shard_average_keep(s, at, elems);
    }
    shard_sync_taken(s, chunk);
    s->chunks_made++;
}

/* A rejected step is named as such, to who comes late too. */
static Gradwire__Outcome outcome_of(const struct shard *s, uint64_t step,
                                    Gradwire__Outcome otherwise)
{
    bool rejected = s->round.last.there && s->round.last.step == step && s->round.last.rejected;
    return rejected ? GRADWIRE__OUTCOME__REJECTED : otherwise;
}

static void send_run(struct shard *s, struct shard_peer *to, const struct shard_run *run)
{
    Gradwire__Reply reply = GRADWIRE__REPLY__INIT;
    Gradwire__EpochSums sums = GRADWIRE__EPOCH_SUMS__INIT;
    reply.step = s->step + 1;
    reply.pulled = to->want_pulled;
    reply.outcome = outcome_of(
        s, s->step, shard_accept_outcome(s, s->step, &to->pushed, GRADWIRE__OUTCOME__APPLIED));
    struct shard_work work;
    if (s->me.first_chunk + run->first == 0) {
        shard_redo_say(s, s->step + 1, &reply, &work);
        sums.epoch = shard_redo_epoch(s);
        sums.batches = 1;
        sums.examples = s->step_examples;
        sums.loss = s->step_sums[0];
        sums.metric = s->step_sums + 1;
        sums.n_metric = s->metrics;
        reply.sums = &sums;
    }
    shard_send_run(s, to, &reply, run);
}

void shard_sync_publish(struct shard *s, uint32_t first, uint32_t count)
{
    struct shard_run *made = &s->run[s->runs++];
    *made = (struct shard_run){.first = first, .count = count};
    shard_reply_make(s, made);
    for (struct shard_peer *p = s->peers; p; p = p->next)
        if (p->want_step == s->step + 1)
            send_run(s, p, made);
}

void shard_sync_finish(struct shard *s)
{
    for (struct shard_peer *p = s->peers; p; p = p->next) {
        if (p->want_step == s->step + 1) {
            p->want_step = 0;
            p->answered_step = s->step + 1;
            p->answered_push = s->step + 1;
            shard_reply_whole(p, s->step + 1);
            shard_reply_sent(s, p);
        }
    }
    if (s->index == 0)
        shard_add_epoch_sums(s, shard_redo_epoch(s), 1, s->step_examples, s->step_sums);
    shard_accept_finish(s);
    if (s->step_examples > 0)
        s->t++;
    shard_redo_turn(s);
    s->step++;
    s->now = !s->now;
    shard_average_turn(s);
    shard_round_turn(s);
    s->before_there = true;
    memset(s->made, 0, s->me.chunks);
    s->chunks_made = 0;
    s->runs = 0;
    shard_cut_boundary(s);
}

static void sum_complete(struct shard *s, uint32_t first, uint32_t count)
{
    for (uint32_t c = first; c < first + count; c++)
        if (!s->made[c] && gate_complete(&s->gate, c))
            shard_round_sum(s, c);
}

/* Make what is complete among [first, first + count), and publish it in as few runs as there are. */
static void make_complete(struct shard *s, uint32_t first, uint32_t count)
{
    struct shard_run run = {.count = 0};
    if (s->round.on) {
        sum_complete(s, first, count);
        return;
    }
    for (uint32_t c = first; c < first + count; c++) {
        if (s->made[c] || !gate_complete(&s->gate, c)) {
            if (run.count)
                shard_sync_publish(s, run.first, run.count);
            run.count = 0;
            continue;
        }
        if (run.count == 0)
            run.first = c;
        run.count++;
        make_chunk(s, c);
    }
    if (run.count)
        shard_sync_publish(s, run.first, run.count);
    if (s->chunks_made == s->me.chunks)
        shard_sync_finish(s);
}

void shard_sync_release(struct shard *s)
{
    if (!shard_cut_holds(s)) {
        shard_accept_pick(s);
        make_complete(s, 0, s->me.chunks);
    }
    shard_round_go_on(s);
}

static struct tree_leaves leaves_of(const Gradwire__Push *m)
{
    struct tree_leaves leaves = {{0}};
    struct tree_node node = {m->level, m->index};
    tree_add_leaves(&leaves, tree_first_leaf(node), tree_end_leaf(node));
    return leaves;
}

/* A push that changed nothing. What is dropped is no duplicate, and is counted elsewhere. */
static Gradwire__Outcome count_idle_push(struct shard *s, const Gradwire__Push *m)
{
    const struct tree_leaves pushed = leaves_of(m);
    Gradwire__Outcome outcome =
        shard_accept_outcome(s, m->name, &pushed, GRADWIRE__OUTCOME__DUPLICATE);
    s->duplicates += outcome == GRADWIRE__OUTCOME__DUPLICATE;
    return outcome;
}

/* A push of a step that is over: the outcome, and the present step's parameters, once. Where the others do not wait for
 * it, steps go by while its frames come in: one answer to them all, as the worker takes only the first. */
static void answer_late(struct shard *s, struct shard_peer *peer, const Gradwire__Push *m)
{
    Gradwire__Outcome outcome = count_idle_push(s, m);
    if (peer->answered_step == s->step || (s->accept.on && peer->answered_push == m->name + 1))
        return;
    peer->answered_step = s->step;
    peer->answered_push = m->name + 1;
    Gradwire__Reply reply = GRADWIRE__REPLY__INIT;
    reply.step = s->step;
    reply.outcome = outcome_of(s, m->name, outcome);
    struct shard_work work;
    shard_redo_say(s, s->step, &reply, &work);
    shard_send(s, peer, &reply, shard_seen(s, s->now), 0, s->me.chunks);
    shard_reply_whole(peer, s->step);
}

/* From now on the peer gets each run of the step; those that are made already come at once. */
static void subscribe(struct shard *s, struct shard_peer *peer)
{
    if (peer->want_step == s->step + 1)
        return;
    peer->want_step = s->step + 1;
    peer->want_pulled = false;
    peer->pushed = (struct tree_leaves){{0}};
    for (uint32_t i = 0; i < s->runs; i++)
        send_run(s, peer, &s->run[i]);
}

enum err shard_sync_push(struct shard *s, struct shard_peer *peer, const Gradwire__Push *m,
                         struct buffer *body, struct errmsg *e)
{
    if (m->name > s->step)
        return err_set(e, ERR_PROTO, "a push of step %llu while step %llu is on",
                       (unsigned long long)m->name, (unsigned long long)s->step);
    if (m->name < s->step || !body) {
        answer_late(s, peer, m);
        return ERR_OK;
    }
    if (shard_taken_room(s, peer, m->name, m->number))
        return err_set(e, ERR_NOMEM, "no memory for what becomes of a push");
    subscribe(s, peer);
    struct tree_node node = {m->level, m->index};
    tree_add_leaves(&peer->pushed, tree_first_leaf(node), tree_end_leaf(node));
    uint32_t first = m->first_chunk - s->me.first_chunk;
    struct gate_node n = {.node = node,
                          .examples = m->examples,
                          .run = body,
                          .value = body->data,
                          .worker = peer->worker,
                          .incarnation = peer->incarnation,
                          .number = m->number};
    for (size_t i = 0; i < m->n_sums && i < GATE_SUMS_MAX; i++)
        n.sums[i] = m->sums[i];
    bool duplicate = true;
    for (uint32_t c = first; c < first + m->chunks; c++) {
        if (!s->made[c] && gate_admit(&s->gate, c, &n) == GATE_ADDED)
            duplicate = false;
        n.value += shard_chunk_at(s, c + 1) - shard_chunk_at(s, c);
    }
    if (duplicate)
        (void)count_idle_push(s, m);
    shard_accept_came(s);
    if (!shard_cut_holds(s))
        make_complete(s, first, m->chunks);
    return ERR_OK;
}
