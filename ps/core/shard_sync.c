/* A shard in sync mode: gate -> tree sum -> optimizer -> the next step's block -> one range to all workers that wait. With a
 * commit round the sum waits in that block for the decision (shard_round.c). */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "ps/core/shard_state.h"

/* ---- a generation ---- */

static const char *laid_out_otherwise(const struct shard *s, const Gradwire__Settings *m)
{
    if (s->settings.redo != m->redo)
        return "sync.dropped";
    if ((s->settings.replicas_to_aggregate > 0) != (m->replicas_to_aggregate > 0))
        return "sync.replicas_to_aggregate";
    return NULL;
}

static enum err open_mode(struct shard *s, const Gradwire__Settings *m, struct errmsg *e)
{
    uint32_t chunks = s->me.chunks, entries = chunks + shard_rows_parts(s);
    s->sync.accept.on = m->replicas_to_aggregate > 0;
    enum err err = shard_redo_open(s, m, e);
    if (err)
        return err;
    s->sync.made = mem_zalloc(entries, 1);
    s->sync.run = mem_zalloc(chunks, sizeof *s->sync.run);
    s->sync.scratch = mem_floats((size_t)SHARD_SUM_ELEMS * TREE_LEVELS_MAX);
    if (!s->sync.made || !s->sync.run || !s->sync.scratch ||
        gate_init(&s->sync.gate, m->microbatches, entries, s->sync.accept.on))
        return ERR_NOMEM;
    return shard_round_init(s, m);
}

static void close_mode(struct shard *s)
{
    gate_close(&s->sync.gate);
    shard_round_close(s);
    shard_redo_close(s);
    mem_free(s->sync.made);
    mem_free(s->sync.run);
    mem_free(s->sync.scratch);
    shard_step_unmark(s, false);
    s->sync = (struct shard_sync){.made = NULL};
}

/* Nodes that are still in the gate belong to workers of an earlier generation, which start again. */
static void begin(struct shard *s)
{
    gate_disown(&s->sync.gate);
}

/* ---- the step ---- */

static void finish_if_whole(struct shard *s)
{
    if (!shard_step_whole(s))
        return;
    shard_step_finish(s);
    shard_round_turn(s);
}

/* Make the complete chunks of [first, first + count), and publish them in as few ranges as possible. */
static void make_complete(struct shard *s, uint32_t first, uint32_t count)
{
    if (s->sync.round.on) {
        for (uint32_t c = first; c < first + count; c++)
            if (!s->sync.made[c] && gate_complete(&s->sync.gate, c))
                shard_round_sum(s, c);
        return;
    }
    for (uint32_t c = first; c < first + count; c++) {
        uint32_t from = c;
        while (c < first + count && !s->sync.made[c] && gate_complete(&s->sync.gate, c)) {
            struct shard_sum sum;
            shard_sum_begin(s, c, &sum);
            shard_step_update(s, c, &sum, gate_examples(&s->sync.gate, c), 1.0f, NULL);
            shard_step_taken(s, c++);
            s->sync.chunks_made++;
        }
        if (c > from)
            shard_step_publish(s, from, c - from);
    }
    finish_if_whole(s);
}

static enum err take_parts(struct shard *s)
{
    return s->sync.round.on ? shard_round_sum_parts(s) : shard_parts_make(s);
}

/* If there is no memory for rows, the workers' connections are closed: workers must push again, because only a push makes the
 * shard try again, and all pushes may have arrived already. */
static void release(struct shard *s)
{
    enum err err = ERR_OK;
    if (!shard_cut_holds(s)) {
        shard_accept_pick(s);
        err = take_parts(s);
        make_complete(s, 0, s->me.chunks);
    }
    if (!err)
        err = shard_round_go_on(s);
    if (err)
        s->io->drop_peers(s->ctx, err);
}

/* ---- a push ---- */

static enum err node_fits(const struct shard *s, uint64_t name, uint32_t level, uint32_t index,
                          bool *wanted, struct errmsg *e)
{
    if (!tree_valid(s->sync.gate.leaves, level, index))
        return err_set(e, ERR_PROTO, "node (%u, %u) is not in a tree of %u leaves", level, index,
                       s->sync.gate.leaves);
    *wanted = name == s->step;
    return ERR_OK;
}

static enum err push_fits(const struct shard *s, const Gradwire__Push *m, bool *wanted,
                          struct errmsg *e)
{
    return node_fits(s, m->name, m->level, m->index, wanted, e);
}

static enum err rows_push_fits(const struct shard *s, const Gradwire__RowsPush *m, bool *wanted,
                               struct errmsg *e)
{
    return node_fits(s, m->name, m->level, m->index, wanted, e);
}

static void add_leaves(struct tree_leaves *leaves, struct tree_node node)
{
    tree_add_leaves(leaves, tree_first_leaf(node), tree_end_leaf(node));
}

/* Count a push that changed nothing as a duplicate, unless it was dropped (counted elsewhere). Returns its outcome. */
static Gradwire__Outcome count_idle_push(struct shard *s, uint64_t step, struct tree_node node)
{
    struct tree_leaves pushed = {{0}};
    add_leaves(&pushed, node);
    Gradwire__Outcome outcome =
        shard_accept_outcome(s, step, &pushed, GRADWIRE__OUTCOME__DUPLICATE);
    s->duplicates += outcome == GRADWIRE__OUTCOME__DUPLICATE;
    return outcome;
}

/* Answer a push of an earlier step with its outcome and, once, the present step's parameters. With backup workers other
 * workers do not wait for it, so steps pass while its frames arrive; all frames get one answer, since the worker uses only
 * the first. */
static void answer_late(struct shard *s, struct shard_peer *peer, uint64_t step,
                        struct tree_node node)
{
    Gradwire__Outcome outcome = count_idle_push(s, step, node);
    if (peer->sync.answered_push == step + 1 &&
        (s->sync.accept.on || peer->sync.answered_step == s->step))
        return;
    peer->sync.answered_step = s->step;
    peer->sync.answered_push = step + 1;
    Gradwire__Reply reply = GRADWIRE__REPLY__INIT;
    reply.step = s->step;
    reply.outcome = shard_step_outcome(s, step, outcome);
    reply.made = s->rows.on;
    struct shard_work work;
    shard_redo_say(s, s->step, &reply, &work);
    shard_send(s, peer, &reply, shard_seen(s, s->now), 0, s->me.chunks);
    peer->holds = s->step + 1;
}

/* From now on the peer gets each range of the step that is being made; ranges that are already made are sent now. */
static void want_next(struct shard *s, struct shard_peer *peer, bool pulled)
{
    peer->sync.want_step = s->step + 1;
    peer->sync.want_pulled = pulled;
    peer->sync.pushed = (struct tree_leaves){{0}};
    for (uint32_t i = 0; i < s->sync.runs; i++)
        shard_step_send(s, peer, &s->sync.run[i]);
}

static void subscribe(struct shard *s, struct shard_peer *peer)
{
    if (peer->sync.want_step == s->step + 1)
        return;
    want_next(s, peer, false);
}

/* True: the push's step is already over, or was not running yet when the body arrived, so that the body was dropped. */
static bool is_late(const struct shard *s, uint64_t step, const struct buffer *body)
{
    return step < s->step || !body;
}

static enum err check_begun(const struct shard *s, uint64_t step, struct errmsg *e)
{
    return step > s->step
               ? err_set(e, ERR_PROTO, "a push of step %" PRIu64 "; the running step is %" PRIu64,
                         step, s->step)
               : ERR_OK;
}

static enum err on_push(struct shard *s, struct shard_peer *peer, const Gradwire__Push *m,
                        struct buffer *body, struct errmsg *e)
{
    const struct tree_node node = {m->level, m->index};
    enum err err = check_begun(s, m->name, e);
    if (err)
        return err;
    if (is_late(s, m->name, body)) {
        answer_late(s, peer, m->name, node);
        return ERR_OK;
    }
    if (shard_taken_room(s, peer, m->name, m->number))
        return err_set(e, ERR_NOMEM, "no memory to record a push");
    subscribe(s, peer);
    add_leaves(&peer->sync.pushed, node);
    uint32_t first = m->first_chunk - s->me.first_chunk;
    assert(tree_valid(s->sync.gate.leaves, m->level,
                      m->index)); /* push_fits, and the same generation */
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
    if (m->marks.len) { /* it has chunk 0 */
        n.marks = mem_resize(NULL, m->marks.len, 1);
        if (!n.marks)
            return err_memory_for(e, "the marks of a push");
        memcpy(n.marks, m->marks.data, m->marks.len);
    }
    for (uint32_t c = first; c < first + m->chunks; c++) {
        if (!s->sync.made[c] && gate_admit(&s->sync.gate, c, &n) == GATE_ADDED)
            duplicate = false;
        else
            mem_free(n.marks);
        n.marks = NULL;
        n.value += shard_chunk_at(s, c + 1) - shard_chunk_at(s, c);
    }
    if (duplicate)
        (void)count_idle_push(s, m->name, node);
    shard_accept_came(s);
    if (!shard_cut_holds(s))
        make_complete(s, first, m->chunks);
    return ERR_OK;
}

/* Admit one part of a push. */
static bool admit_part(struct shard *s, const struct shard_peer *peer, const Gradwire__RowsPush *m,
                       uint32_t part, struct buffer *body, const float *section)
{
    uint32_t entry = s->me.chunks + part;
    const struct gate_node n = {.node = {m->level, m->index},
                                .examples = m->examples,
                                .run = body,
                                .value = section,
                                .worker = peer->worker,
                                .incarnation = peer->incarnation};
    return !s->sync.made[entry] && gate_admit(&s->sync.gate, entry, &n) == GATE_ADDED;
}

static enum err on_rows_push(struct shard *s, struct shard_peer *peer, const Gradwire__RowsPush *m,
                             struct buffer *body, uint64_t bytes, struct errmsg *e)
{
    const struct tree_node node = {m->level, m->index};
    struct shard_sections sections;
    bool duplicate = true;
    enum err err = check_begun(s, m->name, e);
    if (err)
        return err;
    if (is_late(s, m->name, body)) {
        answer_late(s, peer, m->name, node);
        return ERR_OK;
    }
    err = shard_rows_sections(s, peer, m, body, bytes, &sections, e);
    if (err)
        return err;
    subscribe(s, peer);
    add_leaves(&peer->sync.pushed, node);
    for (uint32_t i = 0; i < m->parts; i++)
        if (admit_part(s, peer, m, m->first_part + i, sections.held, sections.at[i]))
            duplicate = false;
    buffer_unref(sections.held);
    if (duplicate)
        (void)count_idle_push(s, m->name, node);
    shard_accept_came(s);
    if (shard_cut_holds(s))
        return ERR_OK;
    err = take_parts(s);
    if (!err)
        err = shard_round_go_on(s);
    if (err)
        return err_set(e, err, "no memory for the rows of step %" PRIu64, s->step);
    finish_if_whole(s);
    return ERR_OK;
}

/* ---- a pull ---- */

static enum err on_pull(struct shard *s, struct shard_peer *peer, const Gradwire__Pull *m,
                        struct errmsg *e)
{
    /* The worker drops ranges that were sent before its pull, so the next push gets every range again. */
    peer->sync.answered_step = 0;
    peer->sync.answered_push = 0;
    peer->sync.pushed = (struct tree_leaves){{0}};
    peer->sync.want_step = 0;
    peer->holds = 0;
    if (!m->any && m->step > s->step + 1)
        return err_set(e, ERR_PROTO, "step %" PRIu64 " is pulled; the present step is %" PRIu64 "",
                       m->step, s->step);
    if (!m->any && m->step == s->step + 1) { /* its chunks can be made while parts still wait */
        want_next(s, peer, true);
        return ERR_OK;
    }
    bool before = !m->any && m->step + 1 == s->step && s->before_there;
    Gradwire__Reply reply = GRADWIRE__REPLY__INIT;
    reply.step = before ? s->step - 1 : s->step;
    reply.pulled = true;
    reply.number = m->number;
    reply.made = s->rows.on;
    struct shard_work work;
    shard_redo_say(s, reply.step, &reply, &work);
    shard_send(s, peer, &reply, shard_seen(s, before ? !s->now : s->now), 0, s->me.chunks);
    peer->holds = reply.step + 1;
    return ERR_OK;
}

/* ---- the chief ---- */

static void on_decision(struct shard *s, const Gradwire__StepDecision *m)
{
    if (m->round != GRADWIRE__ROUND__ACCEPT) {
        if (shard_round_decide(s, m))
            release(s);
    } else if (shard_accept_decide(s, m)) {
        release(s);
    }
}

static void on_step_ask(struct shard *s)
{
    shard_accept_report(s);
    if (s->sync.round.on || s->sync.round.last.there)
        shard_round_report(s);
}

static bool at_boundary(const struct shard *s)
{
    return s->sync.chunks_made == 0 && s->sync.parts_made == 0;
}

static void check(const struct shard *s)
{
    const struct shard_sync *y = &s->sync;
    const struct shard_round *r = &y->round;
    const struct shard_accept *a = &y->accept;
    assert(y->gate.chunks == s->me.chunks + shard_rows_parts(s) && y->gate.picks == a->on);
    assert(y->runs <= y->chunks_made && y->chunks_made <= s->me.chunks && !shard_step_whole(s));
    assert(y->parts_made <= shard_rows_parts(s) && !y->made_said);
    assert(!s->rows.before_there || (s->rows.on && s->step > 0 && y->parts_made == 0));
    assert(r->chunks_summed <= s->me.chunks && r->parts_summed <= shard_rows_parts(s));
    assert(!r->scaled || (r->trust && r->chunks_summed == s->me.chunks));
    assert(!r->broken[0] || (r->chunks_summed + r->parts_summed && y->made[r->broken_entry]));
    assert(!r->last.there || r->last.step <= s->step);
    assert(!a->last.there || (a->on && a->last.step <= s->step));
    assert(a->told <= y->gate.pick.wholes || (a->last.there && a->last.step == s->step));
    assert(!y->redo.on || y->redo.epochs.begin <= s->step);
    (void)y, (void)r, (void)a;
}

/* With backup workers the step can be decided without some of these workers. */
static void wait_of(const struct shard *s, Gradwire__Wait *m, uint8_t bits[TREE_LEAVES_MAX / 8])
{
    const struct shard_sync *y = &s->sync;
    struct tree_leaves missing = {{0}};
    for (uint32_t c = 0; c < y->gate.chunks && !shard_cut_holds(s); c++)
        if (!y->made[c])
            gate_add_missing(&y->gate, c, &missing);
    if (tree_count_leaves(&missing) == 0)
        return;
    m->missing.data = bits;
    m->missing.len = tree_pack(missing.bits, y->gate.leaves, bits);
}

static bool waits_for(const struct shard *s, char *out, size_t bytes)
{
    const struct shard_sync *y = &s->sync;
    if (shard_cut_holds(s))
        (void)snprintf(out, bytes, "step %" PRIu64 ": stopped for checkpoint %" PRIu64, s->step,
                       s->cut.number);
    else if (y->round.on && y->round.chunks_summed == s->me.chunks &&
             y->round.parts_summed == shard_rows_parts(s))
        (void)snprintf(out, bytes, "step %" PRIu64 ": waiting for the chief's decision", s->step);
    else if (y->accept.on)
        (void)snprintf(out, bytes,
                       "step %" PRIu64
                       ": waiting for the chief to choose among %u microbatches; %u nodes of their "
                       "sum are complete",
                       s->step, y->gate.leaves, y->gate.pick.wholes);
    else
        (void)snprintf(out, bytes, "step %" PRIu64 ": waiting for microbatch %u (of 0 to %u)",
                       s->step, gate_first_missing(&y->gate, y->gate.chunks - 1),
                       y->gate.leaves - 1);
    return true;
}

const struct shard_mode shard_mode_sync = {.steps = true,
                                           .optimizes = true,
                                           .laid_out_otherwise = laid_out_otherwise,
                                           .open = open_mode,
                                           .close = close_mode,
                                           .restore = shard_redo_restore,
                                           .take_over = shard_round_adopt,
                                           .begin = begin,
                                           .push_fits = push_fits,
                                           .on_push = on_push,
                                           .on_pull = on_pull,
                                           .rows_push_fits = rows_push_fits,
                                           .on_rows_push = on_rows_push,
                                           .on_rows_ask = shard_parts_ask,
                                           .on_decision = on_decision,
                                           .on_step_ask = on_step_ask,
                                           .at_boundary = at_boundary,
                                           .release = release,
                                           .check = check,
                                           .status = shard_redo_status,
                                           .wait = wait_of,
                                           .waits_for = waits_for};
