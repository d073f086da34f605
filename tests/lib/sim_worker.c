/* A worker process of the simulated cluster: what worker/step/train.c and its links do around the session. */
#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/math/kernels.h"
#include "common/base/mem.h"
#include "common/base/rng.h"
#include "common/peers/dial.h"
#include "tests/lib/sim.h"
#include "worker/driver/push_codec.h"

static struct sim *sim_of(const struct sim_worker *k)
{
    return k->proc.sim;
}

/* ---- session_io ---- */

static void io_to_shard(void *ctx, uint32_t shard, enum frame_type type, const ProtobufCMessage *m)
{
    struct sim_worker *k = ctx;
    const Gradwire__Pull *pull = type == FRAME_PULL ? (const Gradwire__Pull *)m : NULL;
    if (pull && !pull->averages) {
        k->bounded = pull->bounded;
        k->clock = pull->clock;
    }
    sim_send(sim_of(k), k->link[shard], ACCEPTOR, type, m);
}

static void most(const struct residual *r, uint32_t chunk, const float *x, double weight,
                 double *sum)
{
    uint64_t end = plan_chunk_elem(r->plan, chunk + 1);
    for (uint64_t i = plan_chunk_elem(r->plan, chunk); weight > 0 && i < end; i++)
        sum[i] += fabs((double)x[i]) / weight;
}

/* Add to sum[i] the most that the end of this worker may lose of element i, as part of a mean gradient. */
static void residual_most(const struct residual *r, double *sum)
{
    for (uint32_t c = 0; c < r->plan->chunks; c++) {
        most(r, c, r->e, r->weight[c], sum);
        for (const struct residual_push *p = r->pushes; p; p = p->next) {
            most(r, c, p->left, p->weight[c], sum);
            most(r, c, p->carried, p->carries[c], sum);
        }
    }
}

/* The gradients that this worker withholds are lost, or are not in a cut that has all the others'. */
void sim_worker_lose_withheld(struct sim_worker *k)
{
    const struct residual *r = k->codec ? push_codec_residual(k->codec) : NULL;
    if (r)
        residual_most(r, sim_of(k)->withheld);
}

static void send_push(struct sim_worker *k, uint32_t shard, Gradwire__Push *m,
                      const struct sim_node *n)
{
    const struct gradient_node node = {.node = n->node,
                                       .number = (uint32_t)(n - k->node),
                                       .examples = n->examples,
                                       .value = n->value};
    struct errmsg e = {""};
    struct push_body body;
    if (push_codec_run(k->codec, shard, &node, m->first_chunk, m->chunks, &body, &e)) {
        sim_fail(sim_of(k), "worker %u: %s", k->proc.index, e.text);
        return;
    }
    m->codec = (Gradwire__Codec)body.codec;
    m->number = body.number;
    if (body.codec == CODEC_RAW)
        sim_send_body(sim_of(k), k->link[shard], ACCEPTOR, FRAME_PUSH, &m->base, body.data,
                      body.bytes / sizeof(float), NULL);
    else
        sim_send_bytes(sim_of(k), k->link[shard], ACCEPTOR, FRAME_PUSH, &m->base, body.data,
                       body.bytes, NULL);
}

/* ---- rows ---- */

static struct bucket_range buckets_of(const struct sim_worker *k, uint32_t shard)
{
    return bucket_shard(shard, k->terms->plan.shards);
}

/* All parts of the shard, in one frame or two. */
static void push_node_rows(struct sim_worker *k, uint32_t shard, const struct sim_node *n,
                           uint32_t first, uint32_t parts)
{
    Gradwire__RowsPush m = GRADWIRE__ROWS_PUSH__INIT;
    Gradwire__Generation g = msg_generation(k->task_generation);
    size_t bytes = 0;
    m.ask = session_push_ask(k->session, shard);
    const struct row_way way = {
        .asked = m.ask ? n->asked : NULL,
        .codec = k->terms->codecs.push,
        .key = row_codec_key(k->terms->settings.seed, k->task_name, n->node.level, n->node.index)};
    for (uint32_t p = first; p < first + parts; p++)
        bytes += row_frames_part_most(&n->rows, &way, bucket_part(buckets_of(k, shard), p));
    uint8_t *body = mem_zalloc(bytes, 1), *out = body;
    for (uint32_t p = first; p < first + parts; p++)
        out += row_frames_part(&n->rows, &way, bucket_part(buckets_of(k, shard), p), out);
    if (m.ask)
        sim_rows_seen.by_ask++;
    else
        sim_rows_seen.by_keys++;
    m.generation = &g;
    m.name = k->task_name;
    m.level = n->node.level;
    m.index = n->node.index;
    m.examples = n->examples;
    m.first_part = first;
    m.parts = parts;
    sim_send_bytes(sim_of(k), k->link[shard], ACCEPTOR, FRAME_ROWS_PUSH, &m.base, body,
                   (uint64_t)(out - body), NULL);
    mem_free(body);
}

static void push_rows(struct sim_worker *k, uint32_t shard)
{
    uint32_t first = 1 + (uint32_t)(sim_of(k)->config.seed % (ROW_PARTS - 1));
    for (uint32_t i = 0; i < k->nodes && k->terms->tables && k->link[shard]; i++) {
        push_node_rows(k, shard, &k->node[i], 0, first);
        push_node_rows(k, shard, &k->node[i], first, ROW_PARTS - first);
    }
}

static void send_ask(struct sim_worker *k, uint32_t shard)
{
    Gradwire__RowsAsk m = GRADWIRE__ROWS_ASK__INIT;
    uint32_t keys[ROW_TABLES_MAX];
    if (!k->asked || !k->link[shard] || !session_ask_head(k->session, shard, ASK_TASK, &m))
        return;
    size_t bytes = row_frames_ask_bytes(k->asked, buckets_of(k, shard), keys);
    sim_rows_seen.keyless += bytes == 0;
    uint8_t *body = mem_zalloc(bytes + 1, 1);
    row_frames_ask(k->asked, buckets_of(k, shard), body);
    m.keys = keys;
    m.n_keys = sim_row_layout.lists;
    sim_send_bytes(sim_of(k), k->link[shard], ACCEPTOR, FRAME_ROWS_ASK, &m.base, body, bytes, NULL);
    mem_free(body);
}

static void io_ask_again(void *ctx, uint32_t shard, enum session_ask which)
{
    (void)which;
    send_ask(ctx, shard);
}

/* Leaf `leaf` of a task, as worker/step/gradient.c has it. Not `there`: it has no examples. */
static struct sim_leaf leaf_of(const struct epochs_work *w, uint64_t batch, uint32_t leaf)
{
    if (!w || !w->redo)
        return (struct sim_leaf){batch, leaf, true};
    if (leaf >= w->count)
        return (struct sim_leaf){.there = false};
    return (struct sim_leaf){w->leaf[leaf] / w->leaves, (uint32_t)(w->leaf[leaf] % w->leaves),
                             true};
}

static bool task_has(const struct sim_config *c, const struct session_task *t, uint32_t list,
                     uint32_t key)
{
    for (uint32_t r = 0; r < t->runs; r++)
        for (uint32_t i = t->first[r]; i < t->first[r] + t->count[r]; i++) {
            struct sim_leaf l = leaf_of(t->work, t->batch, i);
            if (l.there && sim_leaf_has(c, l.batch, l.leaf, list, key))
                return true;
        }
    return false;
}

/* The keys of the task's leaves. */
static void want_rows(struct sim_worker *k, struct row_values *v, const struct session_task *t)
{
    const struct sim *sim = sim_of(k);
    struct errmsg e;
    for (uint32_t list = 0; list < SIM_LISTS; list++) {
        uint64_t mixed[SIM_KEYS];
        uint32_t n = 0;
        for (uint32_t key = 0; key < SIM_KEYS; key++)
            if (task_has(&sim->config, t, list, key))
                mixed[n++] = sim->rows.mixed[list][key];
        if (row_values_reserve(v, list, n, &e))
            abort();
        if (n)
            memcpy(v->list[list].mixed, mixed, n * sizeof *mixed);
    }
}

/* Rows of the task, in the place of those of a wrong guess. */
static void ask_rows(struct sim_worker *k, const struct session_task *t)
{
    sim_rows_seen.wrong_guesses += k->guessed && k->guessed_name == t->name;
    k->guessed = false;
    k->asked = &k->rows[0];
    want_rows(k, k->asked, t);
    session_ask_task(k->session, t);
    for (uint32_t i = 0; i < k->terms->plan.shards; i++)
        send_ask(k, i);
}

/* With the push, the ask for what is likely to be next. */
static void rows_leave(struct sim_worker *k)
{
    struct session_task next;
    bool guesses = sim_of(k)->config.seed % 4 && session_guess(k->session, &next);
    if (guesses) {
        uint32_t other = !k->rows_now;
        sim_rows_seen.guesses++;
        k->guessed = true;
        k->guessed_name = next.name;
        k->asked = &k->rows[other];
        want_rows(k, k->asked, &next);
        session_ask_task(k->session, &next);
    }
    for (uint32_t i = 0; i < k->terms->plan.shards; i++) {
        if (session_may_stream(k->session, i))
            push_rows(k, i);
        if (guesses)
            send_ask(k, i);
    }
}

static void on_rows(struct sim *sim, struct sim_worker *k, uint32_t shard,
                    const struct sim_message *m, const Gradwire__Rows *head)
{
    enum session_ask which;
    if (session_rows_fit(k->session, shard, head, &which) &&
        row_frames_rows(k->asked, k->terms->codecs.reply, buckets_of(k, shard),
                        k->terms->settings.seed, (const uint8_t *)m->body, m->body_bytes))
        sim_fail(sim, "worker %u: rows do not decode", k->proc.index);
    session_on_rows(k->session, shard, head);
}

/* The gradients of one node, of the keys that its leaves have. */
static void node_rows(struct sim_worker *k, struct sim_node *n)
{
    const struct sim *sim = sim_of(k);
    const struct row_values *v = &k->rows[k->rows_now];
    struct sim_leaf leaf[SIM_LEAVES_MAX];
    for (uint32_t i = 0; i < SIM_LEAVES_MAX; i++)
        leaf[i] = leaf_of(k->task_work, k->task_batch, i);
    n->rows.layout = &sim_row_layout;
    n->asked = v;
    for (uint32_t t = 0; t < SIM_TABLES; t++) {
        uint32_t list = sim_row_layout.table[t].list, dim = sim_row_layout.table[t].dim, keys = 0;
        if (!n->rows.g[t])
            n->rows.g[t] = mem_zalloc((size_t)SIM_KEYS * dim, sizeof(float));
        if (!n->rows.list[list].mixed)
            n->rows.list[list].mixed = mem_zalloc(SIM_KEYS, sizeof(uint64_t));
        for (uint32_t i = 0; i < v->list[list].keys; i++) {
            uint64_t mixed = v->list[list].mixed[i];
            if (!sim_row_gradient(&sim->config, (struct sim_leaves){leaf, NULL}, n->node, t,
                                  sim_rows_place(sim, list, mixed), v->w[t] + (size_t)i * dim,
                                  n->rows.g[t] + (size_t)keys * dim))
                continue;
            n->rows.list[list].mixed[keys++] = mixed;
        }
        n->rows.list[list].keys = keys;
    }
}

/* All nodes' chunks [first, first + count) of one shard. */
static void push_run(struct sim_worker *k, uint32_t shard, uint32_t first, uint32_t count)
{
    Gradwire__Generation g = msg_generation(k->task_generation);
    bool round = session_pushes_round(k->session);
    const struct session_ranges *ids = session_round(k->session);
    for (uint32_t i = 0; i < k->nodes; i++) {
        const struct sim_node *n = &k->node[i];
        Gradwire__Push m = GRADWIRE__PUSH__INIT;
        m.generation = &g;
        m.name = k->task_name;
        m.level = n->node.level;
        m.index = n->node.index;
        m.examples = n->examples;
        m.first_chunk = first;
        m.chunks = count;
        m.ack_only = k->terms->acks;
        m.remainder = round && !k->local;
        struct session_ranges_said said;
        Gradwire__EpochSums sums[LOCAL_EPOCHS], *epochs[LOCAL_EPOCHS];
        m.n_ids = ids->n;
        m.ids = session_ranges_say(&said, ids->range, ids->n);
        m.updates = k->local ? k->local->updates : 0;
        for (size_t r = 0; k->local && shard == 0 && r < k->local->epochs; r++) {
            gradwire__epoch_sums__init(&sums[r]);
            sums[r].epoch = k->local->epoch[r].epoch;
            sums[r].batches = k->local->epoch[r].batches;
            sums[r].examples = k->local->epoch[r].examples;
            sums[r].loss = k->local->epoch[r].loss;
            epochs[r] = &sums[r];
            m.n_epochs = r + 1;
        }
        m.epochs = epochs;
        if (shard == 0 && !round) {
            m.n_sums = 1 + k->terms->settings.metrics;
            m.sums = (double *)n->sums;
            if (k->terms->settings.progressive && first == 0)
                m.marks =
                    (ProtobufCBinaryData){bins_marks_bytes(n->examples, 0), (uint8_t *)n->marks};
        }
        send_push(k, shard, &m, n);
    }
}

static uint32_t run_chunks(const struct sim_worker *k)
{
    return 1 + (uint32_t)(sim_of(k)->config.seed % 3);
}

/* The last run of the shard's first `left` chunks. */
static uint32_t push_last(struct sim_worker *k, uint32_t shard, uint32_t left, bool really)
{
    const struct plan_shard *p = &k->terms->plan.shard[shard];
    uint32_t count = left < run_chunks(k) ? left : run_chunks(k);
    if (really)
        push_run(k, shard, p->first_chunk + left - count, count);
    return left - count;
}

static void io_push_again(void *ctx, uint32_t shard)
{
    struct sim_worker *k = ctx;
    sim_trace(sim_of(k), "worker %u: all of %" PRIu64 " again to shard %u", k->proc.index,
              k->task_name, shard);
    for (uint32_t left = k->terms->plan.shard[shard].chunks; left;)
        left = push_last(k, shard, left, true);
    push_rows(k, shard);
}

static void io_to_chief(void *ctx, enum frame_type type, const ProtobufCMessage *m)
{
    struct sim_worker *k = ctx;
    if (type == FRAME_HELD && k->terms->sync &&
        (session_leaves(k->session) == 0 || session_is_at_end(k->session)))
        sim_worker_lose_withheld(k); /* it cannot push what it has */
    if (sim_open(k->member, DIALER))
        sim_send(sim_of(k), k->member, ACCEPTOR, type, m);
}

static void io_merge(void *ctx, bool fresh)
{
    struct sim_worker *k = ctx;
    local_merge(k->local, k->w, fresh);
}

static bool io_withholds(void *ctx)
{
    struct sim_worker *k = ctx;
    return push_codec_withholds(k->codec);
}

static const struct session_io io = {.to_shard = io_to_shard,
                                     .push_again = io_push_again,
                                     .ask_again = io_ask_again,
                                     .to_chief = io_to_chief,
                                     .merge = io_merge,
                                     .withholds = io_withholds};

/* ---- dialing ---- */

static void on_redial_link(struct sim *sim, struct sim_event *e)
{
    struct sim_worker *k = &sim->worker[e->proc->index];
    uint32_t shard = (uint32_t)e->a;
    if (e->b != k->link_token[shard])
        return;
    struct sim_ps *ps = &sim->ps[k->terms->plan.shard[shard].ps];
    sim_dial(sim, CONN_LINK, k->proc.index, shard, &k->proc, &ps->proc, e->b);
}

static void dial_link(struct sim_worker *k, uint32_t shard, int64_t us)
{
    k->link[shard] = NULL;
    struct sim_event *e = sim_after(sim_of(k), us, &k->proc, on_redial_link);
    e->a = shard;
    e->b = ++k->link_token[shard];
}

static void on_redial_member(struct sim *sim, struct sim_event *e)
{
    struct sim_worker *k = &sim->worker[e->proc->index];
    if (e->b == k->member_token)
        sim_dial(sim, CONN_MEMBER, k->proc.index, 0, &k->proc, &sim->worker[0].proc, e->b);
}

static void dial_member(struct sim_worker *k, int64_t us)
{
    k->member = NULL;
    sim_after(sim_of(k), us, &k->proc, on_redial_member)->b = ++k->member_token;
}

static int64_t backoff(struct sim *sim)
{
    return 20000 + (int64_t)sim_below(sim, 200000);
}

static void say_hello_link(struct sim_worker *k, uint32_t shard)
{
    Gradwire__Hello m = GRADWIRE__HELLO__INIT;
    Gradwire__Generation g = msg_generation(k->terms->generation);
    m.role = GRADWIRE__ROLE__WORKER;
    m.worker = k->proc.index;
    m.uuid = (char *)k->terms->uuid;
    m.incarnation = k->terms->incarnation;
    m.generation = &g;
    m.shard = shard;
    session_hello_clock(k->session, shard, &m);
    sim_send(sim_of(k), k->link[shard], ACCEPTOR, FRAME_HELLO, &m.base);
}

static void say_hello_chief(struct sim_worker *k)
{
    Gradwire__Hello m = GRADWIRE__HELLO__INIT;
    struct session_hello room;
    m.role = GRADWIRE__ROLE__WORKER;
    m.worker = k->proc.index;
    m.shard = -1;
    session_hello_chief(k->session, &room, &m);
    m.turned_away = k->turned_away;
    sim_send(sim_of(k), k->member, ACCEPTOR, FRAME_HELLO, &m.base);
}

/* A hello over a new connection; the chief's own session has one for life. */
static void ask_anew(struct sim *sim, struct sim_worker *k)
{
    if (k->chief) {
        k->chief_up_due = true;
        say_hello_chief(k);
        return;
    }
    if (sim_open(k->member, DIALER))
        sim_close(sim, k->member, DIALER);
    dial_member(k, backoff(sim));
}

static void on_park(struct sim *sim, struct sim_worker *k)
{
    sim_trace(sim, "worker %u is parked", k->proc.index);
    sim_seen.parked++;
    sim_seen.own_parked += k->chief != NULL;
    unreached_park(&k->unreached, sim_ms(sim));
    if (k->chief)
        return;
    sim_close(sim, k->member, DIALER);
    k->member = NULL;
    k->member_token++;
}

static void say_unreached(struct sim_worker *k, const struct unreached_seen *seen)
{
    Gradwire__Unreached m = GRADWIRE__UNREACHED__INIT;
    Gradwire__Generation g = msg_generation(k->terms->generation);
    m.generation = &g;
    m.any = seen->any;
    m.ps = seen->ps;
    m.away_ms = (uint64_t)seen->away_ms;
    if (sim_open(k->member, DIALER))
        sim_send(sim_of(k), k->member, ACCEPTOR, FRAME_UNREACHED, &m.base);
}

static void look_at_links(struct sim *sim, struct sim_worker *k)
{
    struct unreached_seen seen;
    switch (unreached_look(&k->unreached, &k->terms->plan, sim_ms(sim), SIM_PS_REJOIN_S,
                           DIAL_WAIT_MAX_MS, &seen)) {
    case UNREACHED_NOTHING:
        break;
    case UNREACHED_TELL:
        say_unreached(k, &seen);
        break;
    case UNREACHED_BACK:
        sim_trace(sim, "worker %u reaches every ps again", k->proc.index);
        sim_seen.came_back++;
        ask_anew(sim, k);
        break;
    case UNREACHED_GIVE_UP:
        if (!k->chief)
            sim_exit(sim, &k->proc, 138);
        break;
    }
}

/* As worker/driver/driver.c's, once a second; each worker at times of its own. */
static void on_look(struct sim *sim, struct sim_event *e)
{
    struct sim_worker *k = &sim->worker[e->proc->index];
    (void)sim_after(sim, 1000000, &k->proc, on_look);
    if (k->unreached.lost_ms)
        look_at_links(sim, k);
    if (k->proc.up)
        sim_worker_pump(sim, k);
}

static void link_lost(struct sim_worker *k, const struct sim_conn *c, int64_t silent_ms)
{
    unreached_down(&k->unreached, c->to, sim_ms(sim_of(k)), silent_ms, c->sent > 1);
}

void sim_worker_dialed(struct sim *sim, struct sim_worker *k, enum sim_conn_kind kind, uint32_t to,
                       uint64_t token, struct sim_conn *c)
{
    bool link = kind == CONN_LINK;
    if (token != (link ? k->link_token[to] : k->member_token)) {
        sim_close(sim, c, DIALER);
    } else if (!c) {
        if (link)
            dial_link(k, to, backoff(sim));
        else
            dial_member(k, backoff(sim));
    } else if (link) {
        k->link[to] = c;
        say_hello_link(k, to);
    } else {
        k->member = c;
        k->chief_up_due = true;
        say_hello_chief(k);
    }
}

/* ---- compute ---- */

/* False: a leaf of no examples. */
static bool find_leaf(const struct sim_worker *k, uint32_t leaf, uint64_t *batch, uint32_t *of)
{
    struct sim_leaf l = leaf_of(k->task_work, k->task_batch, leaf);
    *batch = l.batch;
    *of = l.leaf;
    return l.there;
}

static void node_value(struct sim_worker *k, struct tree_node n, float *out)
{
    const struct sim_config *config = &sim_of(k)->config;
    if (n.level == 0) {
        uint64_t batch;
        uint32_t of;
        if (find_leaf(k, n.index, &batch, &of))
            sim_leaf_gradient(config, batch, of, k->w, config->elems, out);
        else
            memset(out, 0, config->elems * sizeof *out);
        return;
    }
    float *right = mem_floats(config->elems);
    node_value(k, (struct tree_node){n.level - 1, n.index * 2}, out);
    node_value(k, (struct tree_node){n.level - 1, n.index * 2 + 1}, right);
    kernels()->add(out, out, right, config->elems);
    mem_free(right);
}

static double node_sum(const struct sim_worker *k, struct tree_node n, uint32_t which)
{
    if (n.level == 0) {
        uint64_t batch;
        uint32_t of;
        return find_leaf(k, n.index, &batch, &of) ? sim_sum(&sim_of(k)->config, batch, of, which)
                                                  : 0;
    }
    return node_sum(k, (struct tree_node){n.level - 1, n.index * 2}, which) +
           node_sum(k, (struct tree_node){n.level - 1, n.index * 2 + 1}, which);
}

static void compute_node(struct sim_worker *k, struct tree_node node)
{
    struct sim_node *n = &k->node[k->nodes++];
    n->node = node;
    n->examples = 0;
    for (uint32_t leaf = tree_first_leaf(node); leaf < tree_end_leaf(node); leaf++) {
        uint64_t batch;
        uint32_t of;
        if (!find_leaf(k, leaf, &batch, &of))
            continue;
        for (uint32_t i = 0; i < sim_examples(&sim_of(k)->config, batch, of); i++)
            n->marks[n->examples++] = sim_mark(&sim_of(k)->config, batch, of, i);
    }
    for (uint32_t i = 0; i <= k->terms->settings.metrics; i++)
        n->sums[i] = node_sum(k, node, i);
    if (!n->value)
        n->value = mem_floats(sim_of(k)->config.elems);
    node_value(k, node, n->value);
    if (k->terms->tables)
        node_rows(k, n);
}

static int64_t piece_us(const struct sim_worker *k)
{
    struct sim *sim = sim_of(k);
    int64_t us = 10 + (int64_t)sim_below(sim, (uint64_t)sim->config.compute_us);
    return sim->config.slow == k->proc.index + 1 ? 10 * us : us;
}

static void on_piece(struct sim *sim, struct sim_event *e);

static void schedule_piece(struct sim_worker *k)
{
    sim_after(sim_of(k), piece_us(k), &k->proc, on_piece)->a = k->task;
}

static void computed(struct sim *sim, struct sim_worker *k)
{
    if (k->terms->tables && session_phase(k->session) == SESSION_COMPUTING)
        rows_leave(k);
    session_computed(k->session);
    for (uint32_t i = 0; i < k->terms->plan.shards; i++)
        if (k->link[i])
            sim_resume_reading(sim, k->link[i], DIALER);
}

/* One run leaves as backward produces it, last layer first. */
static void on_piece(struct sim *sim, struct sim_event *e)
{
    struct sim_worker *k = &sim->worker[e->proc->index];
    if (e->a != k->task)
        return;
    if (sim_flaw_shows(sim, k)) {
        sim_worker_pump(sim, k);
        return;
    }
    if (k->piece_chunks)
        k->piece_chunks = push_last(k, k->piece_shard, k->piece_chunks,
                                    session_may_stream(k->session, k->piece_shard));
    while (k->piece_chunks == 0 && k->piece_shard > 0)
        k->piece_chunks = k->terms->plan.shard[--k->piece_shard].chunks;
    if (k->piece_chunks)
        schedule_piece(k);
    else
        computed(sim, k);
    sim_worker_pump(sim, k);
}

static void on_batch(struct sim *sim, struct sim_event *e)
{
    struct sim_worker *k = &sim->worker[e->proc->index];
    if (e->a != k->task)
        return;
    const struct sim_node *n = &k->node[0];
    struct gradient_node node = {.examples = n->examples, .value = n->value};
    node.sums.examples = n->examples;
    node.sums.loss = n->sums[0];
    local_step(k->local, k->w, &node, k->task_name,
               k->task_name / k->terms->settings.batches_per_epoch);
    computed(sim, k);
    sim_worker_pump(sim, k);
}

/* Of the batches of a round no more is ever pushed, but by Paddle's rule. */
static void note_round(const struct sim_worker *k, float part)
{
    const struct session_ranges *r = session_round(k->session);
    for (size_t i = 0; i < r->n && k->terms->settings.geo_merge != GRADWIRE__GEO_MERGE__PADDLE; i++)
        for (uint64_t id = 0; id < r->range[i].count; id++) {
            uint64_t batch = r->range[i].first + id;
            assert(batch < SIM_LEFT_MAX);
            sim_of(k)->left[batch] = 1 - part;
        }
}

/* Geo: what the parameters have moved; async: what was withheld. */
static void start_round(struct sim_worker *k, const struct session_task *t)
{
    struct sim *sim = sim_of(k);
    k->task++;
    k->task_generation = k->terms->generation;
    k->task_name = t->name;
    k->nodes = 1;
    struct sim_node *n = &k->node[0];
    if (!n->value)
        n->value = mem_floats(sim->config.elems);
    n->node = (struct tree_node){0, 0};
    n->examples = 1;
    push_codec_task(k->codec, &(struct push_task){.name = t->name, .remainder = true});
    if (k->local) {
        local_round(k->local, k->w, t->part);
        note_round(k, t->part);
        memcpy(n->value, k->local->round.value, sim->config.elems * sizeof(float));
    } else {
        memset(n->value, 0, sim->config.elems * sizeof(float));
    }
    sim_trace(sim, "worker %u pushes round %" PRIu64 ", %g", k->proc.index, t->name,
              (double)t->part);
    k->piece_shard = k->terms->plan.shards - 1;
    k->piece_chunks = k->terms->plan.shard[k->piece_shard].chunks;
    schedule_piece(k);
}

/* Async: what worker/driver/guard.c does. False: the batch does not leave. */
static bool guard(struct sim_worker *k)
{
    const struct sim_config *config = &sim_of(k)->config;
    bool skips = session_skips(k->session);
    if (k->terms->sync || (!skips && !sim_broken_for(config, k->task_name, k->proc.index)))
        return true;
    if (!skips) {
        session_reject(k->session, "the gradient of a is not finite");
        if (config->settings.nan_guard != NAN_GUARD_SKIP)
            return false;
    }
    for (uint32_t i = 0; i < k->nodes; i++) {
        memset(k->node[i].value, 0, config->elems * sizeof(float));
        memset(k->node[i].sums, 0, sizeof k->node[i].sums);
        for (uint32_t list = 0; list < SIM_LISTS; list++)
            k->node[i].rows.list[list].keys = 0;
        k->node[i].examples = 0;
    }
    return true;
}

static uint32_t batch_rows(const struct sim_worker *k, uint64_t batch)
{
    uint32_t n = 0;
    for (uint32_t leaf = 0; leaf < k->terms->leaves; leaf++)
        n += sim_examples(&sim_of(k)->config, batch, leaf);
    return n;
}

static void start_task(struct sim_worker *k, const struct session_task *t)
{
    const struct session_terms *terms = k->terms;
    const struct sim_config *c = &sim_of(k)->config;
    sim_seen.late_tasks += k->proc.index >= c->workers - c->late;
    k->task++;
    k->task_generation = terms->generation;
    k->task_name = t->name;
    k->task_batch = t->batch;
    k->task_work = t->work;
    sim_note_update(k, t->name);
    sim_stale_computed(k, t->name);
    push_codec_task(
        k->codec,
        &(struct push_task){.name = t->name, .whole = t->whole, .weight = batch_rows(k, t->name)});
    k->nodes = 0;
    k->rows_now = k->asked == &k->rows[1];
    for (uint32_t i = 0; i < terms->plan.shards; i++)
        sim_rows_seen.chunkless += terms->plan.shard[i].chunks == 0;
    if (terms->sync) /* the plain loop has the step then */
        sim_check_parameters(sim_of(k), terms->generation, t->name, k->w);
    if (terms->tables && !sim_of(k)->failed)
        sim_check_rows(sim_of(k), t->name, &k->rows[k->rows_now]);
    for (uint32_t r = 0; r < t->runs; r++) {
        struct tree_node node[2 * TREE_LEVELS_MAX];
        uint32_t n = tree_cover(t->first[r], t->count[r], node);
        for (uint32_t i = 0; i < n && k->nodes < SIM_NODES_MAX; i++)
            compute_node(k, node[i]);
    }
    sim_trace(sim_of(k), "worker %u computes %" PRIu64 ", leaves %u + %u (%u runs)", k->proc.index,
              t->name, t->first[0], t->count[0], t->runs);
    sim_stream_take(k, t);
    sim_flaw_take(sim_of(k), k, t);
    if (!guard(k))
        return;
    if (k->local) {
        sim_after(sim_of(k), piece_us(k), &k->proc, on_batch)->a = k->task;
        return;
    }
    k->piece_shard = terms->plan.shards - 1;
    k->piece_chunks = terms->plan.shard[k->piece_shard].chunks;
    schedule_piece(k);
}

/* ---- after every event ---- */

static void finish(struct sim *sim, struct sim_worker *k)
{
    if (k->over) {
        Gradwire__DoneAck m = GRADWIRE__DONE_ACK__INIT;
        m.worker = k->proc.index;
        io_to_chief(k, FRAME_DONE_ACK, &m.base);
        sim_exit(sim, &k->proc, k->exit_code);
    } else if (session_may_leave(k->session)) {
        sim_exit(sim, &k->proc, 143);
    }
}

void sim_worker_pump(struct sim *sim, struct sim_worker *k)
{
    if (!k->proc.up || sim->failed)
        return;
    if (k->chief && !sim_chief_between(sim, k))
        return;
    struct session_task t = session_task(k->session);
    if (t.kind == TASK_ROWS)
        ask_rows(k, &t);
    else if (t.kind == TASK_COMPUTE)
        start_task(k, &t);
    else if (t.kind == TASK_PUSH)
        start_round(k, &t);
    if (k->chief)
        sim_chief_pump(sim, k);
    else
        finish(sim, k);
}

/* ---- messages ---- */

bool sim_worker_reads(const struct sim *sim, const struct sim_conn *c)
{
    return c->kind != CONN_LINK || sim->config.seed % 2 ||
           session_phase(sim->worker[c->proc[DIALER]->index].session) != SESSION_COMPUTING;
}

static void on_welcome(struct sim *sim, struct sim_worker *k, const Gradwire__Welcome *m)
{
    const struct session_terms *terms = k->terms;
    struct errmsg e = {""};
    uint32_t shards = terms->plan.shards;
    bool anew;
    enum err err = session_on_welcome(k->session, m, &anew, &e);
    if (err) {
        sim_fail(sim, "worker %u, welcome: %s", k->proc.index, e.text);
        return;
    }
    if (anew) {
        k->guessed = false;
        sim_trace(sim, "worker %u is welcome to generation %" PRIu64 " as %" PRIx64, k->proc.index,
                  terms->generation.number, terms->incarnation);
        k->task++; /* its present result is of no use */
        if (sim->took_over || k->turned_away)
            sim_worker_lose_withheld(k);
        if (push_codec_restart(k->codec, terms) ||
            unreached_begin(&k->unreached, terms->plan.shards, sim_ms(sim)))
            sim_fail(sim, "worker %u: no memory", k->proc.index);
        if (k->local)
            local_reset(k->local, &k->local->optimizer);
        k->finishing = false;
        memset(k->link_up, 0, sizeof k->link_up);
        for (uint32_t i = 0; i < shards; i++)
            if (k->link[i])
                sim_close(sim, k->link[i], DIALER);
        for (uint32_t i = 0; i < terms->plan.shards; i++)
            dial_link(k, i, (int64_t)sim_below(sim, 1000));
    }
    sim_seen.turned_away += k->turned_away;
    k->turned_away = false;
    unreached_welcomed(&k->unreached);
    if (k->chief_up_due)
        session_on_chief_up(k->session);
    k->chief_up_due = false;
}

static void on_link_refused(struct sim *sim, struct sim_worker *k, uint32_t shard,
                            const Gradwire__Refuse *m)
{
    if (m->reason == GRADWIRE__REASON__OLD_INCARNATION && !k->turned_away &&
        k->unreached.park == UNPARKED) {
        sim_trace(sim, "worker %u is turned away by shard %u", k->proc.index, shard);
        k->turned_away = true;
        ask_anew(sim, k);
    }
    if (k->link_up[shard]) {
        session_on_refuse(k->session, shard);
        return;
    }
    link_lost(k, k->link[shard], 0);
    sim_close(sim, k->link[shard], DIALER);
    dial_link(k, shard, backoff(sim));
}

static float *place_of(const struct sim_worker *k, const Gradwire__Reply *m)
{
    return m->averages ? k->averages : k->local ? k->local->server : k->w;
}

static void on_reply(struct sim *sim, struct sim_worker *k, uint32_t shard,
                     const struct sim_message *m, const Gradwire__Reply *head)
{
    struct errmsg e = {""};
    uint64_t first = 0;
    bool wanted = false;
    if (session_reply_fits(k->session, shard, head, m->body_bytes, &first, &wanted, &e)) {
        sim_fail(sim, "worker %u: %s", k->proc.index, e.text);
        return;
    }
    if (wanted && head->codec != GRADWIRE__CODEC__RAW) {
        const struct codec_shape shape = session_shape(k->session);
        struct coder *r = NULL;
        if (coder_new(&r) || reply_codec_store(r, &shape, head, m->body, m->body_bytes, k->w))
            sim_fail(sim, "worker %u: a reply does not decode", k->proc.index);
        coder_free(r);
    } else if (wanted && m->body_bytes) {
        memcpy(place_of(k, head) + first, m->body, m->body_bytes);
    }
    if (generation_equal(msg_generation_get(head->generation), k->terms->generation))
        push_codec_answered(k->codec, head);
    bool pushed = session_phase(k->session) == SESSION_PUSHED;
    session_on_reply(k->session, shard, head, wanted);
    sim_backup_seen.mixed += pushed && session_phase(k->session) == SESSION_PULLING;
}

void sim_worker_torn(struct sim *sim, struct sim_conn *c, const struct sim_message *m,
                     ProtobufCMessage *head)
{
    struct sim_worker *k = &sim->worker[c->from];
    struct errmsg e = {""};
    uint64_t first = 0;
    bool wanted = false;
    if (m->type == FRAME_REPLY && k->link[c->to] == c && k->link_up[c->to] &&
        !session_reply_fits(k->session, c->to, (const Gradwire__Reply *)head, m->body_bytes, &first,
                            &wanted, &e) &&
        wanted && m->body_bytes && ((Gradwire__Reply *)head)->codec == GRADWIRE__CODEC__RAW)
        memcpy(place_of(k, (Gradwire__Reply *)head) + first, m->body,
               sim_below(sim, m->elems) * sizeof(float));
}

static void on_link(struct sim *sim, struct sim_worker *k, const struct sim_conn *c,
                    const struct sim_message *m, ProtobufCMessage *head)
{
    if (k->link[c->to] != c)
        return;
    if (m->type == FRAME_HELLO_REPLY)
        unreached_greeted(&k->unreached, c->to);
    else
        unreached_up(&k->unreached, c->to);
    if (m->type == FRAME_HELLO_REPLY) {
        k->link_up[c->to] = true;
        session_on_link_up(k->session, c->to);
    } else if (m->type == FRAME_REFUSE)
        on_link_refused(sim, k, c->to, (const Gradwire__Refuse *)head);
    else if (m->type == FRAME_ROWS)
        on_rows(sim, k, c->to, m, (const Gradwire__Rows *)head);
    else if (m->type == FRAME_REPLY)
        on_reply(sim, k, c->to, m, (const Gradwire__Reply *)head);
    else
        sim_fail(sim, "a worker gets %s", frame_type_str(m->type));
}

void sim_worker_message(struct sim *sim, struct sim_conn *c, const struct sim_message *m,
                        ProtobufCMessage *head)
{
    struct sim_worker *k = &sim->worker[c->from];
    if (c->kind == CONN_LINK)
        on_link(sim, k, c, m, head);
    else if (k->member != c)
        return;
    else if (m->type == FRAME_WELCOME)
        on_welcome(sim, k, (const Gradwire__Welcome *)head);
    else if (m->type == FRAME_DONE) {
        k->over = true;
        k->exit_code = ((const Gradwire__Done *)head)->exit_code;
    } else if (m->type == FRAME_PARK)
        on_park(sim, k);
    else
        session_on_chief(k->session, (enum frame_type)m->type, head);
    sim_worker_pump(sim, k);
}

void sim_worker_lost(struct sim *sim, struct sim_conn *c)
{
    struct sim_worker *k = &sim->worker[c->from];
    if (c->kind == CONN_LINK && k->link[c->to] == c) {
        if (k->link_up[c->to])
            session_on_link_down(k->session, c->to);
        k->link_up[c->to] = false;
        link_lost(k, c, c->cut_us < sim->now_us ? (sim->now_us - c->cut_us) / 1000 : 0);
        dial_link(k, c->to, backoff(sim));
    } else if (c->kind == CONN_MEMBER && k->member == c) {
        dial_member(k, backoff(sim));
    }
    sim_worker_pump(sim, k);
}

/* ---- life ---- */

static void start_local(struct sim *sim, struct sim_worker *k)
{
    struct errmsg e;
    const struct optimizer o = {.kind = OPT_SGD,
                                .learning_rate = sim->config.settings.learning_rate};
    k->local = NULL;
    if (sim->config.settings.update == GRADWIRE__UPDATE__GEO &&
        local_new(&k->local, &sim->layout, &o, &e))
        sim_fail(sim, "worker %u: %s", k->proc.index, e.text);
}

void sim_worker_start(struct sim *sim, struct sim_worker *k)
{
    if (session_new(&k->session, &io, k, &sim->layout))
        sim_fail(sim, "worker %u: no memory", k->proc.index);
    k->terms = session_terms(k->session);
    k->over = k->turned_away = false;
    unreached_close(&k->unreached);
    memset(k->link_up, 0, sizeof k->link_up);
    k->w = mem_floats(sim->config.elems);
    k->averages = k->proc.index == 0 ? mem_floats(sim->config.elems) : NULL;
    start_local(sim, k);
    sim_stream_start(k);
    k->asked = NULL;
    for (int i = 0; i < 2; i++)
        row_values_init(&k->rows[i],
                        sim_of(k)->config.tables ? sim_of(k)->layout.rows : &sim_row_layout);
    if (push_codec_new(&k->codec, &sim->layout))
        sim_fail(sim, "worker %u: no memory", k->proc.index);
    k->nodes = 0;
    k->task++;
    k->proc.up = true;
    if (sim->config.looks)
        (void)sim_after(sim, 1000000 + 7000 * (int64_t)k->proc.index, &k->proc, on_look);
    if (k->proc.index == 0)
        sim_chief_start(sim, k);
    else
        dial_member(k, (int64_t)sim_below(sim, 1000));
}

void sim_worker_stop(struct sim *sim, struct sim_worker *k)
{
    for (uint32_t i = 0; i < SIM_SHARDS_MAX; i++) {
        if (sim_open(k->link[i], DIALER))
            sim_close(sim, k->link[i], DIALER);
        k->link[i] = NULL;
    }
    if (sim_open(k->member, DIALER))
        sim_close(sim, k->member, DIALER);
    k->member = NULL;
    if (k->chief)
        sim_chief_stop(sim, k);
    sim_worker_lose_withheld(k);
    push_codec_free(k->codec);
    k->codec = NULL;
    session_free(k->session);
    k->session = NULL;
    unreached_close(&k->unreached);
    local_free(k->local);
    k->local = NULL;
    sim_stream_stop(k);
    mem_free(k->w);
    mem_free(k->averages);
    k->w = k->averages = NULL;
    for (uint32_t i = 0; i < SIM_NODES_MAX; i++) {
        mem_free(k->node[i].value);
        for (uint32_t t = 0; t < SIM_TABLES; t++)
            mem_free(k->node[i].rows.g[t]);
        for (uint32_t list = 0; list < SIM_LISTS; list++)
            mem_free(k->node[i].rows.list[list].mixed);
        memset(&k->node[i].rows, 0, sizeof k->node[i].rows);
        k->node[i].value = NULL;
    }
    for (int i = 0; i < 2; i++)
        row_values_close(&k->rows[i]);
    k->proc.up = false;
}

static void on_grace_over(struct sim *sim, struct sim_event *e)
{
    sim_trace(sim, "worker %u: the grace is over", e->proc->index);
    sim_exit(sim, e->proc, 143);
}

void sim_worker_go(struct sim *sim, struct sim_worker *k)
{
    (void)sim_after(sim, 30000000, &k->proc, on_grace_over);
    if (session_phase(k->session) == SESSION_NEW && !k->chief) {
        sim_exit(sim, &k->proc, 143);
        return;
    }
    if (k->chief) /* its session goes on until the cut is published */
        chief_go(k->chief, sim_ms(sim));
    else
        session_go(k->session);
    sim_worker_pump(sim, k);
}
