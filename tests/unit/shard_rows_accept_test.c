/* Rows where there are backup workers, one shard by itself: a node is whole when every part has it, rows are made of the
 * leaves that are accepted, and a push that comes late changes none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "ps/core/shard_state.h"
#include "tests/lib/quiet.h"

/* One table with one list. Shard 0 has the chunk, shard 1 has rows alone. Leaf i looks key i of each shard up. */
enum { SHARDS = 2, LEAVES = 4, PEERS = 3, BUCKETS = ROW_BUCKETS / SHARDS };
#define BIT(level, index) (1u << ((LEAVES >> (level)) + (index)))

struct node {
    struct shard *shard;
    struct shard_peer peer[PEERS];
    int accepts, norms; /* reports */
    uint32_t whole;     /* of the last ACCEPT, as bits */
    bool extra;
    double squares; /* of the last NORM */
    int dropped;    /* times that all peers were */
    struct {
        int made; /* answers that end a step */
        uint32_t chunks;
        uint64_t step;
        Gradwire__Outcome outcome;
    } answer[PEERS];
    bool gone;
    uint32_t marks; /* rows that are there, a bit for each leaf's key */
    float row[LEAVES];
};

struct fixture {
    struct node node[SHARDS];
    struct buffer_pool pool;
    struct layout layout;
    Gradwire__Plan plan;
    Gradwire__Settings settings;
    uint64_t generation, asks;
};

static void io_send(void *ctx, struct shard_peer *to, enum frame_type type,
                    const ProtobufCMessage *m, const void *body, uint64_t bytes)
{
    struct node *n = ctx;
    const Gradwire__Reply *head = quiet_reply(type, m);
    (void)body, (void)bytes;
    n->answer[to->worker].made += head->made;
    n->answer[to->worker].chunks += head->chunks;
    n->answer[to->worker].step = head->step;
    n->answer[to->worker].outcome = head->outcome;
}

/* Marks, and the rows that are there one behind the other. */
static void io_send_rows(void *ctx, struct shard_peer *to, const Gradwire__Rows *m,
                         struct buffer *body, uint64_t bytes)
{
    struct node *n = ctx;
    (void)to, (void)bytes;
    n->gone = m->gone;
    n->marks = 0;
    memset(n->row, 0, sizeof n->row);
    if (!body)
        return;
    memcpy(&n->marks, body->data, sizeof n->marks);
    for (uint32_t i = 0, at = 1; i < LEAVES; i++)
        if (n->marks >> i & 1)
            n->row[i] = body->data[at++];
}

static void io_tell(void *ctx, enum frame_type type, const ProtobufCMessage *message)
{
    struct node *n = ctx;
    const Gradwire__StepReport *m = (const Gradwire__StepReport *)message;
    if (type != FRAME_STEP_REPORT)
        return;
    if (m->round == GRADWIRE__ROUND__ACCEPT) {
        n->accepts++;
        n->whole = m->whole.len ? m->whole.data[0] : 0;
        n->extra = m->extra;
        return;
    }
    n->norms++;
    n->squares = 0;
    for (size_t i = 0; i < m->n_sums; i++)
        n->squares += m->sums[i];
}

static void io_save(void *ctx, struct shard_image *take_image)
{
    (void)ctx;
    shard_image_free(take_image);
}

static void io_drop_peers(void *ctx, enum err why)
{
    (void)why;
    struct node *n = ctx;
    n->dropped++;
}

static const struct shard_io io = {.send = io_send,
                                   .send_rows = io_send_rows,
                                   .now_s = quiet_now_s,
                                   .progress = quiet_no_progress,
                                   .before_write = quiet_before_write,
                                   .tell = io_tell,
                                   .save = io_save,
                                   .save_end = quiet_save_end,
                                   .load = quiet_load_no_cut,
                                   .drop_peers = io_drop_peers};

static void let_in(struct fixture *f, uint32_t shard, uint32_t worker)
{
    Gradwire__Hello m = GRADWIRE__HELLO__INIT;
    Gradwire__Generation g = quiet_generation(f->generation);
    Gradwire__Refuse refuse;
    m.generation = &g;
    m.worker = worker;
    m.incarnation = 1;
    assert_int_equal(
        shard_on_hello(f->node[shard].shard, &f->node[shard].peer[worker], &m, &refuse), ERR_OK);
}

static void enter(struct fixture *f, Gradwire__EnterMode mode)
{
    f->generation++;
    for (uint32_t i = 0; i < SHARDS; i++) {
        struct node *n = &f->node[i];
        for (uint32_t k = 0; k < PEERS; k++)
            shard_peer_gone(n->shard, &n->peer[k]);
        quiet_enter(n->shard, &f->plan, &f->settings, f->generation, mode, 0);
        assert_true(shard_facts(n->shard).entered);
        n->dropped = 0;
        for (uint32_t k = 0; k < PEERS; k++)
            let_in(f, i, k);
    }
}

/* Weights of zeros, sgd with a rate of 1, two of three workers are waited for; `clip`: with a round behind. An epoch has so
 * many batches, and what is dropped is trained at its end; 0: it is lost. */
static struct fixture *begin(float clip, uint32_t redo_batches)
{
    struct fixture *f = calloc(1, sizeof *f);
    struct tensor t = {.name = "w", .rank = 1, .shape = {QUIET_CHUNK}, .init = INIT_ZEROS};
    struct errmsg e;
    const uint32_t shards = SHARDS;
    assert_int_equal(layout_add(&f->layout, &t, &e), ERR_OK);
    struct row_layout *rows = f->layout.rows = mem_zalloc(1, sizeof *rows);
    rows->lists = rows->tables = 1;
    rows->table[0] = (struct row_table_spec){.name = "a", .dim = 1, .init = INIT_ZEROS};
    assert_int_equal(msg_plan_set(&f->plan, &f->layout, &shards, 1), ERR_OK);
    gradwire__settings__init(&f->settings);
    f->settings.optimizer = OPT_SGD;
    f->settings.learning_rate = 1;
    f->settings.microbatches = LEAVES;
    f->settings.batches_per_epoch = redo_batches ? redo_batches : 100;
    f->settings.redo = redo_batches > 0;
    f->settings.clip_norm = clip;
    f->settings.replicas_to_aggregate = 2;
    for (uint32_t i = 0; i < SHARDS; i++)
        assert_int_equal(shard_new(&f->node[i].shard, 0, i, &io, &f->node[i]), ERR_OK);
    enter(f, GRADWIRE__ENTER_MODE__INIT);
    return f;
}

static void end(struct fixture *f)
{
    for (uint32_t i = 0; i < SHARDS; i++) {
        for (uint32_t k = 0; k < PEERS; k++)
            shard_peer_gone(f->node[i].shard, &f->node[i].peer[k]);
        shard_free(f->node[i].shard);
    }
    buffer_pool_close(&f->pool);
    msg_plan_close(&f->plan);
    layout_close(&f->layout);
    free(f);
}

/* In its shard's first and last bucket, ascending. */
static uint64_t key_of(uint32_t shard, uint32_t leaf)
{
    struct bucket_range of = bucket_shard(shard, SHARDS);
    uint64_t bucket = leaf < 2 ? of.first : of.end - 1;
    return (bucket << (64 - ROW_BUCKET_BITS)) + leaf;
}

/* Parts [first, first + parts) of a node: each of its leaves has an example, whose key has the gradient 1 + the leaf. */
static enum err push_parts(struct fixture *f, uint32_t shard, uint32_t worker, uint64_t step,
                           struct tree_node node, uint32_t first, uint32_t parts)
{
    struct node *n = &f->node[shard];
    Gradwire__RowsPush m = GRADWIRE__ROWS_PUSH__INIT;
    Gradwire__Generation of = quiet_generation(f->generation);
    struct errmsg e = {""};
    struct buffer *body = buffer_acquire(&f->pool, 256);
    if (!body)
        return ERR_NOMEM;
    uint8_t *at = (uint8_t *)body->data;
    for (uint32_t p = first; p < first + parts; p++) {
        struct bucket_range part = bucket_part(bucket_shard(shard, SHARDS), p);
        uint64_t mixed[LEAVES];
        float g[LEAVES + 1] = {0};
        uint32_t count[2] = {0, 0};
        for (uint32_t leaf = tree_first_leaf(node); leaf < tree_end_leaf(node); leaf++)
            if (key_bucket(key_of(shard, leaf)) >= part.first &&
                key_bucket(key_of(shard, leaf)) < part.end) {
                g[count[0]] = 1 + (float)leaf;
                mixed[count[0]++] = key_of(shard, leaf);
            }
        memcpy(at, count, sizeof count);
        at += sizeof count;
        memcpy(at, mixed, count[0] * sizeof *mixed);
        at += count[0] * sizeof *mixed;
        memcpy(at, g, (count[0] + count[0] % 2) * sizeof *g);
        at += (count[0] + count[0] % 2) * sizeof *g;
    }
    uint64_t bytes = (uint64_t)(at - (uint8_t *)body->data);
    bool wanted;
    m.generation = &of;
    m.name = step;
    m.level = node.level;
    m.index = node.index;
    m.examples = 1u << node.level;
    m.first_part = first;
    m.parts = parts;
    enum err err = shard_rows_fits(n->shard, FRAME_ROWS_PUSH, &m.base, bytes, &wanted, &e);
    if (!err)
        err = shard_on_rows(n->shard, &n->peer[worker], FRAME_ROWS_PUSH, &m.base,
                            wanted ? body : NULL, bytes, &e);
    buffer_unref(body);
    return err;
}

static void push_rows(struct fixture *f, uint32_t shard, uint32_t worker, uint64_t step,
                      uint32_t level, uint32_t index)
{
    assert_int_equal(
        push_parts(f, shard, worker, step, (struct tree_node){level, index}, 0, ROW_PARTS), ERR_OK);
}

static void push_block(struct fixture *f, uint32_t worker, uint64_t step, uint32_t level,
                       uint32_t index)
{
    struct node *n = &f->node[0];
    Gradwire__Push m = GRADWIRE__PUSH__INIT;
    Gradwire__Generation g = quiet_generation(f->generation);
    struct errmsg e = {""};
    m.generation = &g;
    m.name = step;
    m.level = level;
    m.index = index;
    m.examples = 1u << level;
    m.chunks = 1;
    struct buffer *body = buffer_acquire(&f->pool, QUIET_CHUNK);
    memset(body->data, 0, QUIET_CHUNK * sizeof(float));
    assert_int_equal(shard_on_push(n->shard, &n->peer[worker], &m, body, &e), ERR_OK);
    buffer_unref(body);
}

static void decide(struct fixture *f, uint32_t shard, uint64_t step, Gradwire__Round round,
                   uint8_t leaves)
{
    Gradwire__StepDecision m = GRADWIRE__STEP_DECISION__INIT;
    Gradwire__Generation g = quiet_generation(f->generation);
    m.generation = &g;
    m.step = step;
    m.round = round;
    m.scale = 1;
    m.accepted.data = &leaves;
    m.accepted.len = 1;
    shard_on_chief(f->node[shard].shard, FRAME_STEP_DECISION, &m.base);
}

static void accept(struct fixture *f, uint32_t shard, uint64_t step, uint8_t leaves)
{
    decide(f, shard, step, GRADWIRE__ROUND__ACCEPT, leaves);
}

/* All keys of the shard, as of this step. */
static void read_rows(struct fixture *f, uint32_t shard, uint64_t step)
{
    struct node *n = &f->node[shard];
    Gradwire__RowsAsk m = GRADWIRE__ROWS_ASK__INIT;
    Gradwire__Generation g = quiet_generation(f->generation);
    struct errmsg e = {""};
    uint32_t keys = LEAVES;
    uint64_t bytes = LEAVES * sizeof(uint64_t);
    struct buffer *body = buffer_acquire(&f->pool, 2 * LEAVES);
    for (uint32_t k = 0; k < LEAVES; k++)
        memcpy(body->data + 2 * k, &(uint64_t){key_of(shard, k)}, sizeof(uint64_t));
    m.generation = &g;
    m.number = ++f->asks;
    m.step = step;
    m.keys = &keys;
    m.n_keys = 1;
    assert_int_equal(shard_on_rows(n->shard, &n->peer[0], FRAME_ROWS_ASK, &m.base, body, bytes, &e),
                     ERR_OK);
    buffer_unref(body);
}

static uint64_t step_of(const struct fixture *f, uint32_t shard)
{
    return shard_status(f->node[shard].shard)->step;
}

/* ---- */

static void a_node_is_whole_when_every_chunk_and_every_part_has_it(void **state)
{
    (void)state;
    struct fixture *f = begin(0, 0);
    for (uint32_t i = 0; i < SHARDS; i++) {
        const struct node *n = &f->node[i];
        const struct tree_node leaf_2 = {0, 2};
        if (i == 0)
            push_block(f, 1, 0, 0, 2);
        assert_int_equal(push_parts(f, i, 1, 0, leaf_2, 0, ROW_PARTS - 1), ERR_OK);
        assert_int_equal(n->accepts, 0);
        assert_int_equal(push_parts(f, i, 1, 0, leaf_2, ROW_PARTS - 1, 1), ERR_OK);
        assert_int_equal(n->accepts, 1);
        assert_int_equal(n->whole, BIT(0, 2));
    }
    push_rows(f, 0, 0, 0, 1, 0); /* the rows before the block */
    assert_int_equal(f->node[0].accepts, 1);
    push_block(f, 0, 0, 1, 0);
    assert_int_equal(f->node[0].whole, BIT(0, 2) | BIT(1, 0));
    end(f);
}

static void a_decision_of_leaves_that_a_part_lacks_is_left_alone(void **state)
{
    (void)state;
    struct fixture *f = begin(0, 0);
    for (uint32_t i = 0; i < SHARDS; i++) {
        if (i == 0) {
            push_block(f, 0, 0, 1, 0);
            push_block(f, 1, 0, 0, 2);
        }
        push_rows(f, i, 0, 0, 1, 0);
        assert_int_equal(push_parts(f, i, 1, 0, (struct tree_node){0, 2}, 1, ROW_PARTS - 1),
                         ERR_OK);
        accept(f, i, 0, 0x07);
        assert_int_equal(step_of(f, i), 0);
        accept(f, i, 0, 0x03);
        assert_int_equal(step_of(f, i), 1);
    }
    end(f);
}

static void rows_are_made_of_what_is_accepted_and_a_late_push_changes_none(void **state)
{
    (void)state;
    struct fixture *f = begin(0, 0);
    const struct tree_node leaf_3 = {0, 3};
    for (uint32_t i = 0; i < SHARDS; i++) {
        struct node *n = &f->node[i];
        if (i == 0) {
            push_block(f, 0, 0, 1, 0);
            push_block(f, 1, 0, 0, 2);
            push_block(f, 2, 0, 0, 3);
        }
        push_rows(f, i, 0, 0, 1, 0);
        push_rows(f, i, 1, 0, 0, 2);
        assert_int_equal(push_parts(f, i, 2, 0, leaf_3, 8, 8), ERR_OK); /* before the close */
        accept(f, i, 0, 0x07);
        assert_int_equal(step_of(f, i), 1);
        assert_int_equal(shard_status(n->shard)->dropped, 1);
        for (uint32_t k = 0; k < PEERS; k++) {
            assert_int_equal(n->answer[k].made, 1);
            assert_int_equal(n->answer[k].step, 1);
            assert_int_equal(n->answer[k].outcome,
                             k == 2 ? GRADWIRE__OUTCOME__DROPPED : GRADWIRE__OUTCOME__APPLIED);
        }
        for (int again = 0; again < 2; again++) {
            read_rows(f, i, 1);
            assert_int_equal(n->marks, 7);
            assert_true(n->row[0] == -1.0f / 3 && n->row[1] == -2.0f / 3 && n->row[2] == -1.0f);
            assert_int_equal(push_parts(f, i, 2, 0, leaf_3, 0, 8), ERR_OK); /* and behind it */
        }
        assert_int_equal(n->answer[2].made, 1); /* it was answered */
        shard_peer_gone(n->shard, &n->peer[2]);
        let_in(f, i, 2);
        push_rows(f, i, 2, 0, 0, 3); /* all of it over a new connection: once */
        assert_true(n->answer[2].made == 2 && n->answer[2].step == 1);
        assert_int_equal(n->answer[2].outcome, GRADWIRE__OUTCOME__DROPPED);
        read_rows(f, i, 1);
        assert_int_equal(n->marks, 7);
    }
    end(f);
}

/* Picked parts wait: there was no memory for their rows. A push that comes now is too late, and makes them continue. */
static void what_comes_when_parts_are_picked_is_not_taken(void **state)
{
    (void)state;
    bool fired = true;
    uint32_t failures = 0;
    for (long n = 0; fired; n++) {
        struct fixture *f = begin(0, 0);
        struct node *of = &f->node[1];
        push_rows(f, 1, 0, 0, 1, 0);
        push_rows(f, 1, 1, 0, 0, 2);
        mem_fail_at(n);
        accept(f, 1, 0, 0x07);
        fired = mem_fail_fired();
        mem_fail_at(-1);
        bool failed = step_of(f, 1) == 0;
        failures += failed;
        assert_int_equal(of->dropped, failed);
        if (failed) {
            push_rows(f, 1, 2, 0, 0, 3);
            assert_int_equal(of->answer[2].outcome, GRADWIRE__OUTCOME__DROPPED);
            assert_int_equal(shard_status(of->shard)->duplicates, 0);
        }
        assert_int_equal(step_of(f, 1), 1);
        read_rows(f, 1, 1);
        assert_int_equal(of->marks, 7);
        assert_true(of->row[0] == -1.0f / 3 && of->row[2] == -1.0f);
        end(f);
    }
    assert_true(failures > 0);
}

/* The chunk is made, and parts wait. A late worker that knows from another shard that the step is made pulls it. */
static void a_pull_of_a_step_whose_parts_wait_gets_what_is_made(void **state)
{
    (void)state;
    bool fired = true;
    uint32_t waited = 0;
    for (long n = 0; fired; n++) {
        struct fixture *f = begin(0, 0);
        struct node *of = &f->node[0];
        push_block(f, 0, 0, 1, 0);
        push_rows(f, 0, 0, 0, 1, 0);
        mem_fail_at(n);
        accept(f, 0, 0, 0x03);
        fired = mem_fail_fired();
        mem_fail_at(-1);
        waited += step_of(f, 0) == 0;
        for (uint32_t again = 1; step_of(f, 0) == 0 && again <= 2; again++) {
            Gradwire__Pull m = GRADWIRE__PULL__INIT;
            Gradwire__Generation g = quiet_generation(f->generation);
            struct errmsg e = {""};
            m.generation = &g;
            m.step = 1;
            assert_int_equal(shard_on_worker(of->shard, &of->peer[2], FRAME_PULL, &m.base, &e),
                             ERR_OK);
            assert_true(of->answer[2].chunks == again && of->answer[2].made == 0);
            if (again == 2)
                push_rows(f, 0, 0, 0, 1, 0);
        }
        assert_int_equal(step_of(f, 0), 1);
        assert_int_equal(of->answer[2].made, of->answer[2].chunks > 0);
        end(f);
    }
    assert_true(waited > 0);
}

static void the_norm_is_of_the_rows_that_are_accepted(void **state)
{
    (void)state;
    struct fixture *f = begin(100, 0);
    struct node *n = &f->node[1];
    push_rows(f, 1, 0, 0, 1, 0);
    push_rows(f, 1, 2, 0, 0, 3);
    assert_int_equal(n->norms, 0);
    accept(f, 1, 0, 0x03);
    assert_int_equal(n->norms, 1);
    assert_true(n->squares == 1.0 + 4.0);
    int accepts = n->accepts;
    push_rows(f, 1, 1, 0, 0, 2); /* the set is closed */
    assert_true(n->accepts == accepts && n->norms == 1);
    assert_int_equal(n->answer[1].made, 0);
    decide(f, 1, 0, GRADWIRE__ROUND__NORM, 0);
    assert_int_equal(step_of(f, 1), 1);
    assert_int_equal(n->answer[1].outcome, GRADWIRE__OUTCOME__DROPPED);
    read_rows(f, 1, 1);
    assert_true(n->marks == 3 && n->row[0] == -0.5f && n->row[1] == -1.0f);
    push_rows(f, 1, 1, 1, 0, 2);
    assert_int_equal(n->whole, BIT(0, 2)); /* nothing of the step before is left */
    end(f);
}

static void cut(struct fixture *f, uint32_t shard, bool at)
{
    Gradwire__Generation g = quiet_generation(f->generation);
    Gradwire__Cut m = GRADWIRE__CUT__INIT;
    Gradwire__CutAt on = GRADWIRE__CUT_AT__INIT;
    m.generation = on.generation = &g;
    m.cut = on.cut = 1;
    shard_on_chief(f->node[shard].shard, at ? FRAME_CUT_AT : FRAME_CUT, at ? &on.base : &m.base);
}

/* Reports go on while a cut holds the shard, and the decision waits; then another chief finds the rows in the gate. */
static void a_cut_holds_the_decision_and_a_takeover_keeps_the_rows(void **state)
{
    (void)state;
    struct fixture *f = begin(0, 0);
    struct node *n = &f->node[1];
    cut(f, 1, false);
    push_rows(f, 1, 0, 0, 1, 0);
    assert_int_equal(n->whole, BIT(1, 0));
    accept(f, 1, 0, 0x03);
    push_rows(f, 1, 2, 0, 1, 1); /* too late, though nothing is made */
    assert_int_equal(step_of(f, 1), 0);
    enter(f, GRADWIRE__ENTER_MODE__TAKEOVER); /* ends the cut */
    assert_int_equal(step_of(f, 1), 1);
    read_rows(f, 1, 1);
    assert_true(n->marks == 3 && n->row[1] == -1.0f);
    push_rows(f, 1, 1, 1, 1, 1);
    enter(f, GRADWIRE__ENTER_MODE__TAKEOVER);
    push_rows(f, 1, 0, 1, 1, 0);
    assert_int_equal(n->whole, BIT(1, 0) | BIT(1, 1) | BIT(2, 0));
    accept(f, 1, 1, 0x0c);
    read_rows(f, 1, 2);
    assert_true(step_of(f, 1) == 2 && n->marks == 15 && n->row[1] == -1.0f && n->row[3] == -2.0f);
    end(f);
}

/* A shard without chunks keeps the list, too, and says which step is an extra one. */
static void an_extra_step_waits_for_the_parts_of_all_leaves(void **state)
{
    (void)state;
    struct fixture *f = begin(0, 1);
    struct node *n = &f->node[1];
    push_rows(f, 1, 0, 0, 1, 0);
    push_rows(f, 1, 1, 0, 0, 2);
    assert_false(n->extra);
    accept(f, 1, 0, 0x07);
    push_rows(f, 1, 0, 1, 1, 0);
    assert_true(n->extra);
    accept(f, 1, 1, 0x03);
    assert_int_equal(step_of(f, 1), 1);
    push_rows(f, 1, 2, 1, 1, 1);
    accept(f, 1, 1, 0x0f);
    assert_int_equal(step_of(f, 1), 2);
    assert_int_equal(shard_status(n->shard)->dropped, 1);
    push_rows(f, 1, 0, 2, 1, 0);
    assert_false(n->extra);
    end(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_is_whole_when_every_chunk_and_every_part_has_it),
        cmocka_unit_test(a_decision_of_leaves_that_a_part_lacks_is_left_alone),
        cmocka_unit_test(rows_are_made_of_what_is_accepted_and_a_late_push_changes_none),
        cmocka_unit_test(what_comes_when_parts_are_picked_is_not_taken),
        cmocka_unit_test(a_pull_of_a_step_whose_parts_wait_gets_what_is_made),
        cmocka_unit_test(the_norm_is_of_the_rows_that_are_accepted),
        cmocka_unit_test(a_cut_holds_the_decision_and_a_takeover_keeps_the_rows),
        cmocka_unit_test(an_extra_step_waits_for_the_parts_of_all_leaves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
