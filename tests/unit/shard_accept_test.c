/* Backup workers, one shard by itself: it reports what is whole, sums what is accepted, and answers whoever comes late. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "common/base/mem.h"
#include "tests/lib/quiet.h"
#include "ps/core/shard.h"

enum { CHUNK = QUIET_CHUNK, CHUNKS = 3, ELEMS = CHUNK * CHUNKS, LEAVES = 4, PEERS = 3 };

struct answer {
    int whole; /* answers that had all chunks, in one run or in several */
    uint32_t chunks;
    uint64_t step;
    Gradwire__Outcome outcome;
    float w;
    size_t works; /* sync.dropped: redo: leaves of an extra step */
    uint64_t work[LEAVES];
};

struct fixture {
    struct shard *shard;
    struct buffer_pool pool;
    struct layout layout;
    Gradwire__Plan plan;
    Gradwire__Settings settings;
    struct shard_peer peer[PEERS];
    struct answer answer[PEERS];
    int accepts, norms;   /* reports */
    uint64_t report_step; /* of the last ACCEPT */
    uint32_t whole, last; /* and what it says, as bits; last: 0, none */
    uint64_t last_step;
    double squares; /* of the last NORM */
    int saves;
    bool begins, extra; /* of the last ACCEPT */
    uint64_t begin;     /* of the last reply that said it */
};

static void io_send(void *ctx, struct shard_peer *to, enum frame_type type,
                    const ProtobufCMessage *m, const void *body, uint64_t bytes)
{
    struct fixture *f = ctx;
    struct answer *a = &f->answer[to->worker];
    const Gradwire__Reply *head = quiet_reply(type, m);
    assert_true(bytes > 0);
    if (a->step != head->step)
        a->chunks = 0;
    a->step = head->step;
    a->outcome = head->outcome;
    a->w = *(const float *)body;
    if (head->work) {
        f->begin = head->work->begin;
        a->works = head->work->n_redo;
        if (a->works)
            memcpy(a->work, head->work->redo, a->works * sizeof *a->work);
    }
    a->chunks += head->chunks;
    a->whole += a->chunks == CHUNKS;
    if (a->chunks == CHUNKS)
        a->chunks = 0;
}

static void io_tell(void *ctx, enum frame_type type, const ProtobufCMessage *message)
{
    struct fixture *f = ctx;
    const Gradwire__StepReport *m = (const Gradwire__StepReport *)message;
    if (type != FRAME_STEP_REPORT)
        return;
    if (m->round == GRADWIRE__ROUND__NORM) {
        f->norms++;
        f->squares = 0;
        for (size_t i = 0; i < m->n_sums; i++)
            f->squares += m->sums[i];
        return;
    }
    f->accepts++;
    f->report_step = m->step;
    f->begins = m->begins;
    f->extra = m->extra;
    f->whole = m->whole.len ? m->whole.data[0] : 0;
    f->last = m->last ? m->last->accepted.data[0] : 0;
    f->last_step = m->last ? m->last->step : UINT64_MAX;
}

static void io_save(void *ctx, struct shard_image *take_image)
{
    struct fixture *f = ctx;
    f->saves++;
    shard_image_free(take_image);
}

static const struct shard_io io = {.send = io_send,
                                   .now_s = quiet_now_s,
                                   .progress = quiet_no_progress,
                                   .before_write = quiet_before_write,
                                   .tell = io_tell,
                                   .save = io_save,
                                   .save_end = quiet_save_end,
                                   .load = quiet_load_no_cut,
                                   .drop_peers = quiet_drop_peers};

static void enter(struct fixture *f, uint64_t number, Gradwire__EnterMode mode)
{
    quiet_enter(f->shard, &f->plan, &f->settings, number, mode, 0);
}

static void let_in(struct fixture *f, uint32_t worker)
{
    Gradwire__Hello m = GRADWIRE__HELLO__INIT;
    Gradwire__Generation g = msg_generation(shard_facts(f->shard).generation);
    Gradwire__Refuse refuse;
    m.generation = &g;
    m.worker = worker;
    m.incarnation = 1;
    assert_int_equal(shard_on_hello(f->shard, &f->peer[worker], &m, &refuse), ERR_OK);
}

/* All zeros, sgd with a rate of 1, four leaves; `clip`: with a NORM round behind. */
static void open_fixture(struct fixture *f, float clip)
{
    *f = (struct fixture){.plan = GRADWIRE__PLAN__INIT, .settings = GRADWIRE__SETTINGS__INIT};
    quiet_plan(&f->layout, &f->plan, CHUNKS);
    f->settings.optimizer = OPT_SGD;
    f->settings.learning_rate = 1;
    f->settings.microbatches = LEAVES;
    f->settings.batches_per_epoch = 100;
    f->settings.clip_norm = clip;
    f->settings.replicas_to_aggregate = 2;
    assert_int_equal(shard_new(&f->shard, 0, 0, &io, f), ERR_OK);
    enter(f, 5, GRADWIRE__ENTER_MODE__INIT);
    for (uint32_t i = 0; i < PEERS; i++)
        let_in(f, i);
}

static void close_fixture(struct fixture *f)
{
    shard_free(f->shard);
    buffer_pool_close(&f->pool);
    msg_plan_close(&f->plan);
    layout_close(&f->layout);
}

/* Chunks [first, first + count) of a node: its leaves have an example each, of g + its number. */
static void push_some(struct fixture *f, uint32_t worker, uint64_t step, struct tree_node node,
                      float g, uint32_t first, uint32_t count)
{
    Gradwire__Push m = GRADWIRE__PUSH__INIT;
    Gradwire__Generation of = msg_generation(shard_facts(f->shard).generation);
    struct errmsg e = {""};
    double sums[] = {1};
    uint64_t elems;
    bool wanted;
    m.generation = &of;
    m.name = step;
    m.level = node.level;
    m.index = node.index;
    m.examples = 1u << node.level;
    m.first_chunk = first;
    m.chunks = count;
    m.sums = sums;
    m.n_sums = first == 0;
    sums[0] = (double)m.examples;
    float value = 0;
    for (uint32_t leaf = tree_first_leaf(node); leaf < tree_end_leaf(node); leaf++)
        value += g + (float)leaf;
    struct buffer *body = NULL;
    assert_int_equal(
        shard_push_fits(f->shard, &m, count * CHUNK * sizeof(float), &elems, &wanted, &e), ERR_OK);
    if (wanted)
        body = buffer_acquire(&f->pool, elems);
    for (size_t i = 0; wanted && i < elems; i++)
        body->data[i] = value;
    assert_int_equal(shard_on_push(f->shard, &f->peer[worker], &m, body, &e), ERR_OK);
    buffer_unref(body);
}

static void push(struct fixture *f, uint32_t worker, uint64_t step, uint32_t level, uint32_t index)
{
    push_some(f, worker, step, (struct tree_node){level, index}, 1, 0, CHUNKS);
}

static void accept(struct fixture *f, uint64_t step, uint8_t leaves)
{
    Gradwire__StepDecision m = GRADWIRE__STEP_DECISION__INIT;
    Gradwire__Generation g = msg_generation(shard_facts(f->shard).generation);
    m.generation = &g;
    m.step = step;
    m.round = GRADWIRE__ROUND__ACCEPT;
    m.accepted.data = &leaves;
    m.accepted.len = 1;
    shard_on_chief(f->shard, FRAME_STEP_DECISION, &m.base);
}

static void scale(struct fixture *f, uint64_t step)
{
    Gradwire__StepDecision m = GRADWIRE__STEP_DECISION__INIT;
    Gradwire__Generation g = msg_generation(shard_facts(f->shard).generation);
    m.generation = &g;
    m.step = step;
    m.scale = 1;
    shard_on_chief(f->shard, FRAME_STEP_DECISION, &m.base);
}

static void ask(struct fixture *f)
{
    Gradwire__StepAsk m = GRADWIRE__STEP_ASK__INIT;
    Gradwire__Generation g = msg_generation(shard_facts(f->shard).generation);
    m.generation = &g;
    shard_on_chief(f->shard, FRAME_STEP_ASK, &m.base);
}

static void pull(struct fixture *f, uint32_t worker, uint64_t step)
{
    Gradwire__Pull m = GRADWIRE__PULL__INIT;
    Gradwire__Generation g = msg_generation(shard_facts(f->shard).generation);
    struct errmsg e = {""};
    m.generation = &g;
    m.step = step;
    assert_int_equal(shard_on_worker(f->shard, &f->peer[worker], FRAME_PULL, &m.base, &e), ERR_OK);
}

static const Gradwire__ShardStatus *status(const struct fixture *f)
{
    return shard_status(f->shard);
}

static float weight(const struct fixture *f)
{
    uint64_t first, elems;
    return quiet_weights(f->shard, &first, &elems)[ELEMS - 1];
}

#define BIT(level, index) (1u << ((LEAVES >> (level)) + (index)))

static void a_node_is_reported_when_every_chunk_has_it(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, 0);
    push_some(&f, 0, 0, (struct tree_node){0, 0}, 1, 1, 2);
    push_some(&f, 1, 0, (struct tree_node){0, 1}, 1, 0, CHUNKS);
    assert_int_equal(f.accepts, 1);
    assert_int_equal(f.whole, BIT(0, 1));
    push_some(&f, 0, 0, (struct tree_node){0, 0}, 1, 0, 1);
    assert_int_equal(f.accepts, 2);
    assert_int_equal(f.whole, BIT(0, 0) | BIT(0, 1) | BIT(1, 0)); /* and what the two make */
    push(&f, 0, 0, 0, 0);
    push(&f, 0, 0, 1, 0); /* nothing new */
    assert_int_equal(f.accepts, 2);
    push(&f, 2, 0, 1, 1);
    assert_int_equal(f.whole, BIT(0, 0) | BIT(0, 1) | BIT(1, 0) | BIT(1, 1) | BIT(2, 0));
    assert_int_equal(status(&f)->step, 0); /* all are there, and it waits */
    close_fixture(&f);
}

static void what_is_absent_is_skipped_and_the_mean_is_of_what_is_accepted(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, 0);
    push(&f, 0, 0, 1, 0); /* 1 + 2 */
    push(&f, 1, 0, 0, 2); /* 3 */
    push(&f, 2, 0, 0, 3); /* 4: not accepted */
    accept(&f, 0, 0x07);
    assert_int_equal(status(&f)->step, 1);
    assert_true(weight(&f) == -2.0f); /* (1 + 2 + 3) / 3 */
    assert_int_equal(status(&f)->dropped, 1);
    assert_int_equal(status(&f)->epochs[0]->examples, 3);
    assert_true(status(&f)->epochs[0]->loss == 3.0);
    for (uint32_t i = 0; i < PEERS; i++) {
        assert_int_equal(f.answer[i].whole, 1);
        assert_int_equal(f.answer[i].step, 1);
        assert_true(f.answer[i].w == -2.0f);
        assert_int_equal(f.answer[i].outcome,
                         i == 2 ? GRADWIRE__OUTCOME__DROPPED : GRADWIRE__OUTCOME__APPLIED);
    }
    close_fixture(&f);
}

/* Every mixture of before and after: it is answered once, with what is present. */
static void a_late_push_is_answered_with_the_present_step(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, 0);
    push(&f, 0, 0, 1, 0);
    push_some(&f, 2, 0, (struct tree_node){1, 1}, 1, 2, 1); /* its last chunk, before the close */
    accept(&f, 0, 0x03);
    assert_int_equal(f.answer[2].whole, 1);
    assert_int_equal(f.answer[2].outcome, GRADWIRE__OUTCOME__DROPPED);
    push_some(&f, 2, 0, (struct tree_node){1, 1}, 1, 1, 1); /* the others when it is over, */
    push(&f, 0, 1, 1, 0);
    accept(&f, 1, 0x03);
    push_some(&f, 2, 0, (struct tree_node){1, 1}, 1, 0, 1); /* and when the next one is */
    assert_int_equal(f.answer[2].whole, 1);
    assert_int_equal(status(&f)->dropped, 4);
    assert_int_equal(status(&f)->duplicates, 0);

    push(&f, 1, 0, 1, 1); /* all of it two steps late */
    assert_int_equal(f.answer[1].whole, 1);
    assert_int_equal(f.answer[1].step, 2);
    assert_int_equal(f.answer[1].outcome, GRADWIRE__OUTCOME__DROPPED);
    push(&f, 1, 1, 1, 0); /* a push that was accepted, of the step before: a duplicate */
    assert_int_equal(f.answer[1].step, 2);
    assert_int_equal(status(&f)->duplicates, 1);

    shard_peer_gone(f.shard, &f.peer[2]); /* pushed again over a new connection */
    let_in(&f, 2);
    push(&f, 2, 0, 1, 1);
    assert_int_equal(f.answer[2].whole, 2);
    assert_int_equal(f.answer[2].step, 2);
    pull(&f, 2,
         1); /* and pulled again: the step before is still there, the one before that is not */
    assert_int_equal(f.answer[2].step, 1);
    pull(&f, 2, 0);
    assert_int_equal(f.answer[2].step, 2);
    pull(&f, 2, 3); /* one that the others make */
    assert_int_equal(f.answer[2].whole, 4);
    push(&f, 0, 2, 1, 0);
    accept(&f, 2, 0x03);
    assert_int_equal(f.answer[2].whole, 5);
    assert_int_equal(f.answer[2].step, 3);
    close_fixture(&f);
}

static void nodes_of_two_deals_stand_beside_each_other(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, 0);
    push(&f, 0, 0, 0, 0);
    push(&f, 1, 0, 1, 0); /* covers it, and does not take its place */
    push(&f, 2, 0, 1, 1);
    accept(&f, 0, 0x0d);
    assert_int_equal(status(&f)->step, 1);
    assert_true(weight(&f) == -(1.0f + 3.0f + 4.0f) / 3.0f);
    close_fixture(&f);
}

static void a_decision_that_does_not_fit_is_left_alone(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, 0);
    push(&f, 0, 0, 1, 0);
    accept(&f, 0, 0x07); /* leaf 2 is not there */
    accept(&f, 0, 0x01); /* leaf 0 only with leaf 1 */
    accept(&f, 0, 0x00);
    accept(&f, 0, 0x13); /* there are four */
    accept(&f, 1, 0x03);
    assert_int_equal(status(&f)->step, 0);
    accept(&f, 0, 0x03);
    accept(&f, 0, 0x03);
    assert_int_equal(status(&f)->step, 1);
    close_fixture(&f);
}

/* Pushed between the close and the making: no part of the norm, and answered when the step is made. */
static void the_norm_is_of_what_is_accepted(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, 100);
    push(&f, 0, 0, 1, 0);
    assert_int_equal(f.norms, 0);
    accept(&f, 0, 0x03);
    assert_int_equal(f.norms, 1);
    assert_true(f.squares == 9.0 * ELEMS);
    int accepts = f.accepts;
    push(&f, 2, 0, 1, 1);
    assert_int_equal(f.accepts, accepts); /* the set is closed */
    assert_int_equal(status(&f)->duplicates, 0);
    push(&f, 0, 0, 1, 0); /* this one is */
    assert_int_equal(status(&f)->duplicates, 1);
    assert_int_equal(f.answer[2].whole, 0);
    ask(&f);
    assert_int_equal(f.norms, 2);
    assert_int_equal(f.whole, 0);
    assert_int_equal(f.last, 0x03);
    scale(&f, 0);
    assert_int_equal(status(&f)->step, 1);
    assert_true(weight(&f) == -1.5f);
    assert_int_equal(f.answer[2].whole, 1);
    assert_int_equal(f.answer[2].outcome, GRADWIRE__OUTCOME__DROPPED);
    push(&f, 2, 1, 1, 1);
    assert_int_equal(f.whole, BIT(1, 1)); /* nothing of the step before is left */
    close_fixture(&f);
}

static void a_cut_holds_the_decision_and_a_new_chief_hears_of_it(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, 0);
    Gradwire__Cut cut = GRADWIRE__CUT__INIT;
    Gradwire__CutAt at = GRADWIRE__CUT_AT__INIT;
    Gradwire__Generation g = quiet_generation(5);
    cut.generation = at.generation = &g;
    cut.cut = at.cut = 1;
    push(&f, 0, 0, 1, 0);
    shard_on_chief(f.shard, FRAME_CUT, &cut.base);
    accept(&f, 0, 0x03);
    assert_int_equal(status(&f)->step, 0);
    push(&f, 2, 0, 1, 1); /* it comes too late, though the step is not made */
    ask(&f);
    assert_int_equal(f.whole, 0);
    assert_int_equal(f.last, 0x03);
    assert_int_equal(f.last_step, 0);
    at.step = 0;
    shard_on_chief(f.shard, FRAME_CUT_AT, &at.base);
    assert_int_equal(f.saves, 1);
    assert_int_equal(status(&f)->step, 1);
    assert_true(weight(&f) == -1.5f);
    assert_int_equal(f.answer[2].outcome, GRADWIRE__OUTCOME__DROPPED);
    push(&f, 0, 1, 1, 0);
    enter(&f, 6, GRADWIRE__ENTER_MODE__TAKEOVER);
    assert_true(shard_facts(f.shard).entered);
    ask(&f);
    assert_int_equal(f.report_step, 1);
    assert_int_equal(f.whole, BIT(1, 0));
    assert_int_equal(f.last_step, 0);
    f.settings.replicas_to_aggregate = 0;
    enter(&f, 7, GRADWIRE__ENTER_MODE__TAKEOVER);
    assert_false(shard_facts(f.shard).entered); /* the gate is of another kind */
    close_fixture(&f);
}

/* Epochs of two batches: leaves 2 and 3 of the first and 3 of the second are dropped. */
static void what_is_dropped_is_a_step_at_the_epochs_end_that_drops_nothing(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, 0);
    f.settings.batches_per_epoch = 2;
    f.settings.redo = true;
    for (uint32_t i = 0; i < PEERS; i++)
        shard_peer_gone(f.shard, &f.peer[i]);
    enter(&f, 6, GRADWIRE__ENTER_MODE__INIT);
    for (uint32_t i = 0; i < PEERS; i++)
        let_in(&f, i);
    push(&f, 0, 0, 1, 0);
    accept(&f, 0, 0x03);
    assert_int_equal(f.answer[0].works, 0);
    assert_int_equal(f.begin, 0);
    push(&f, 0, 1, 1, 0);
    push(&f, 0, 1, 0, 2);
    assert_false(f.extra);
    accept(&f, 1, 0x07);
    const uint64_t redo[] = {2, 3, 7};
    assert_int_equal(f.answer[0].works, 3);
    assert_memory_equal(f.answer[0].work, redo, sizeof redo);
    assert_int_equal(status(&f)->redo->dropped.len, 1);
    assert_int_equal(status(&f)->redo->dropped.data[0], 0x8c);
    push(&f, 0, 2, 1, 0);
    push(&f, 1, 2, 0, 2);
    assert_true(f.extra);
    accept(&f, 2, 0x07);
    assert_int_equal(status(&f)->step, 2); /* an extra step drops nothing */
    push(&f, 2, 2, 0, 3);
    accept(&f, 2, 0x0f);
    assert_int_equal(status(&f)->step, 3);
    assert_int_equal(status(&f)->redo->epoch, 1);
    assert_int_equal(status(&f)->redo->begin, 3);
    assert_int_equal(status(&f)->redo->redone, 3);
    assert_int_equal(status(&f)->dropped, 3);
    assert_int_equal(status(&f)->redo->dropped.len, 0);
    assert_int_equal(status(&f)->epochs[0]->batches, 3);
    assert_int_equal(f.answer[0].works, 0);
    assert_int_equal(f.begin, 3);
    push(&f, 0, 3, 1, 0);
    assert_true(f.begins);
    assert_false(f.extra);
    pull(&f, 1, 2); /* the step before: what it was made of is known, too */
    assert_int_equal(f.answer[1].works, 3);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_is_reported_when_every_chunk_has_it),
        cmocka_unit_test(what_is_absent_is_skipped_and_the_mean_is_of_what_is_accepted),
        cmocka_unit_test(a_late_push_is_answered_with_the_present_step),
        cmocka_unit_test(nodes_of_two_deals_stand_beside_each_other),
        cmocka_unit_test(a_decision_that_does_not_fit_is_left_alone),
        cmocka_unit_test(the_norm_is_of_what_is_accepted),
        cmocka_unit_test(a_cut_holds_the_decision_and_a_new_chief_hears_of_it),
        cmocka_unit_test(what_is_dropped_is_a_step_at_the_epochs_end_that_drops_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
