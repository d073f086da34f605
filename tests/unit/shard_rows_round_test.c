/* Rows in a round of the step commit: their sums are reported and wait, and the decision updates them once, or never. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "ps/core/shard_state.h"
#include "tests/lib/quiet.h"

/* Two tables with one list. Shard 0 has the chunk, shard 1 has rows alone. */
enum { SHARDS = 2, TABLES = 2, KEYS = 3, BUCKETS = ROW_BUCKETS / SHARDS };
static const uint32_t dim_of[TABLES] = {2, 1};
static const struct tree_node leaf_0 = {0, 0}, leaf_1 = {0, 1}, both = {1, 0};

struct node {
    struct shard *shard;
    struct shard_peer peer;
    int reports, stopped, saves, dropped;
    uint32_t saved_rows;
    Gradwire__StepReport report; /* without what it points to */
    double sum[1 + BUCKETS];
    char broken[192];
    bool made;
    Gradwire__Outcome outcome;
    uint64_t rows_step;
    bool gone;
    uint32_t marks; /* of table 0's rows */
    float row[KEYS * 2];
};

struct fixture {
    struct node node[SHARDS];
    struct buffer_pool pool;
    struct layout layout;
    Gradwire__Plan plan;
    Gradwire__Settings settings;
    uint64_t generation;
};

static void io_send(void *ctx, struct shard_peer *to, enum frame_type type,
                    const ProtobufCMessage *m, const void *body, uint64_t bytes)
{
    struct node *n = ctx;
    const Gradwire__Reply *head = quiet_reply(type, m);
    (void)to, (void)body, (void)bytes;
    n->made = head->made;
    n->outcome = head->outcome;
}

/* Marks of table 0, and its rows that are there. */
static void io_send_rows(void *ctx, struct shard_peer *to, const Gradwire__Rows *m,
                         struct buffer *body, uint64_t bytes)
{
    struct node *n = ctx;
    (void)to, (void)bytes;
    n->rows_step = m->step;
    n->gone = m->gone;
    if (!body)
        return;
    memcpy(&n->marks, body->data, sizeof n->marks);
    memcpy(n->row, body->data + 1, sizeof n->row);
}

static void io_tell(void *ctx, enum frame_type type, const ProtobufCMessage *message)
{
    struct node *n = ctx;
    n->stopped += type == FRAME_CUT_STOPPED;
    if (type != FRAME_STEP_REPORT)
        return;
    const Gradwire__StepReport *m = (const Gradwire__StepReport *)message;
    n->reports++;
    n->report = *m;
    (void)snprintf(n->broken, sizeof n->broken, "%s", m->broken);
    for (size_t i = 0; i < m->n_sums; i++)
        n->sum[i] = m->sums[i];
}

static void io_save(void *ctx, struct shard_image *take_image)
{
    struct node *n = ctx;
    n->saves++;
    shard_image_free(take_image);
}

static enum err io_save_rows(void *ctx, const struct row_group *g)
{
    struct node *n = ctx;
    n->saved_rows += g->rows;
    return ERR_OK;
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
                                   .save_room = quiet_save_room,
                                   .save_rows = io_save_rows,
                                   .save_end = quiet_save_end,
                                   .load = quiet_load_no_cut,
                                   .drop_peers = io_drop_peers};

static void enter(struct fixture *f, Gradwire__EnterMode mode)
{
    f->generation++;
    for (uint32_t i = 0; i < SHARDS; i++) {
        struct node *n = &f->node[i];
        Gradwire__Hello m = GRADWIRE__HELLO__INIT;
        Gradwire__Generation g = quiet_generation(f->generation);
        Gradwire__Refuse refuse;
        m.generation = &g;
        m.incarnation = 1;
        shard_peer_gone(n->shard, &n->peer);
        quiet_enter(n->shard, &f->plan, &f->settings, f->generation, mode, 0);
        n->dropped = 0;
        assert_int_equal(shard_on_hello(n->shard, &n->peer, &m, &refuse), ERR_OK);
    }
}

/* Weights of zeros, a rate of 1, two leaves. */
static struct fixture *begin(enum optimizer_kind optimizer, enum nan_guard guard)
{
    struct fixture *f = calloc(1, sizeof *f);
    struct row_table_spec table[TABLES];
    for (uint32_t i = 0; i < TABLES; i++)
        table[i] = (struct row_table_spec){
            .name = {(char)('a' + i)}, .dim = dim_of[i], .init = INIT_ZEROS};
    quiet_tables(&f->layout, &f->plan, SHARDS, table, TABLES);
    gradwire__settings__init(&f->settings);
    f->settings.optimizer = optimizer;
    f->settings.learning_rate = 1;
    f->settings.epsilon = 1e-7f;
    f->settings.microbatches = 2;
    f->settings.batches_per_epoch = 100;
    f->settings.clip_norm = guard ? 0.0f : 1.0f;
    f->settings.nan_guard = guard;
    for (uint32_t i = 0; i < SHARDS; i++)
        assert_int_equal(shard_new(&f->node[i].shard, 0, i, &io, &f->node[i]), ERR_OK);
    enter(f, GRADWIRE__ENTER_MODE__INIT);
    return f;
}

static void end(struct fixture *f)
{
    for (uint32_t i = 0; i < SHARDS; i++) {
        shard_peer_gone(f->node[i].shard, &f->node[i].peer);
        shard_free(f->node[i].shard);
    }
    buffer_pool_close(&f->pool);
    msg_plan_close(&f->plan);
    layout_close(&f->layout);
    free(f);
}

/* Three keys of each shard: two of its first bucket, one of its last. */
static uint64_t key_of(uint32_t shard, uint32_t k)
{
    struct bucket_range of = bucket_shard(shard, SHARDS);
    uint64_t bucket = k < 2 ? of.first : of.end - 1;
    return (bucket << (64 - ROW_BUCKET_BITS)) + k;
}

/* One example; the gradient of keys `keys` (a bit each) is g in all places. */
static enum err push_rows(struct fixture *f, uint32_t shard, uint64_t step, struct tree_node node,
                          uint32_t keys, float g)
{
    struct node *n = &f->node[shard];
    Gradwire__RowsPush m = GRADWIRE__ROWS_PUSH__INIT;
    Gradwire__Generation of = quiet_generation(f->generation);
    struct errmsg e = {""};
    struct buffer *body = buffer_acquire(&f->pool, 256);
    if (!body)
        return ERR_NOMEM;
    uint8_t *at = (uint8_t *)body->data;
    for (uint32_t p = 0; p < ROW_PARTS; p++) {
        struct bucket_range part = bucket_part(bucket_shard(shard, SHARDS), p);
        uint64_t mixed[KEYS];
        float zeros[8] = {0}, value[KEYS * 3] = {g, g, g, g, g, g, g, g, g};
        uint32_t count[2] = {0, 0};
        for (uint32_t k = 0; k < KEYS; k++)
            if (keys >> k & 1 && key_bucket(key_of(shard, k)) >= part.first &&
                key_bucket(key_of(shard, k)) < part.end)
                mixed[count[0]++] = key_of(shard, k);
        memcpy(at, count, sizeof count);
        at += sizeof count;
        memcpy(at, mixed, count[0] * sizeof *mixed);
        at += count[0] * sizeof *mixed;
        memcpy(at, value, 3 * count[0] * sizeof *value);
        at += 3 * count[0] * sizeof *value;
        memcpy(at, zeros, count[0] % 2 * sizeof *zeros);
        at += count[0] % 2 * sizeof *zeros;
    }
    uint64_t bytes = (uint64_t)(at - (uint8_t *)body->data);
    bool wanted;
    m.generation = &of;
    m.name = step;
    m.level = node.level;
    m.index = node.index;
    m.examples = 1u << node.level;
    m.parts = ROW_PARTS;
    enum err err = shard_rows_fits(n->shard, FRAME_ROWS_PUSH, &m.base, bytes, &wanted, &e);
    if (!err)
        err = shard_on_rows(n->shard, &n->peer, FRAME_ROWS_PUSH, &m.base, wanted ? body : NULL,
                            bytes, &e);
    buffer_unref(body);
    return err;
}

static void push_block(struct fixture *f, uint64_t step)
{
    struct node *n = &f->node[0];
    Gradwire__Push m = GRADWIRE__PUSH__INIT;
    Gradwire__Generation g = quiet_generation(f->generation);
    struct errmsg e = {""};
    m.generation = &g;
    m.name = step;
    m.level = both.level;
    m.examples = 2;
    m.chunks = 1;
    struct buffer *body = buffer_acquire(&f->pool, QUIET_CHUNK);
    memset(body->data, 0, QUIET_CHUNK * sizeof(float));
    assert_int_equal(shard_on_push(n->shard, &n->peer, &m, body, &e), ERR_OK);
    buffer_unref(body);
}

static void decide(struct fixture *f, uint32_t shard, uint64_t step, bool rejected, float scale)
{
    Gradwire__StepDecision m = GRADWIRE__STEP_DECISION__INIT;
    Gradwire__Generation g = quiet_generation(f->generation);
    m.generation = &g;
    m.step = step;
    m.rejected = rejected;
    m.scale = scale;
    shard_on_chief(f->node[shard].shard, FRAME_STEP_DECISION, &m.base);
}

/* All keys of the shard, as of this step. */
static void read_rows(struct fixture *f, uint32_t shard, uint64_t step)
{
    struct node *n = &f->node[shard];
    Gradwire__RowsAsk m = GRADWIRE__ROWS_ASK__INIT;
    Gradwire__Generation g = quiet_generation(f->generation);
    struct errmsg e = {""};
    uint32_t keys = KEYS;
    struct buffer *body = buffer_acquire(&f->pool, 2 * KEYS);
    bool wanted;
    for (uint32_t k = 0; k < KEYS; k++)
        memcpy(body->data + 2 * k, &(uint64_t){key_of(shard, k)}, sizeof(uint64_t));
    m.generation = &g;
    m.step = step;
    m.keys = &keys;
    m.n_keys = 1;
    n->rows_step = UINT64_MAX;
    uint64_t bytes = KEYS * sizeof(uint64_t);
    assert_int_equal(shard_rows_fits(n->shard, FRAME_ROWS_ASK, &m.base, bytes, &wanted, &e),
                     ERR_OK);
    assert_int_equal(shard_on_rows(n->shard, &n->peer, FRAME_ROWS_ASK, &m.base, body, bytes, &e),
                     ERR_OK);
    buffer_unref(body);
}

static uint64_t step_of(const struct fixture *f, uint32_t shard)
{
    return shard_status(f->node[shard].shard)->step;
}

/* ---- */

static void a_report_has_a_double_for_each_bucket_behind_the_chunks(void **state)
{
    (void)state;
    struct fixture *f = begin(OPT_SGD, NAN_GUARD_OFF);
    for (uint32_t i = 0; i < SHARDS; i++) {
        const struct node *n = &f->node[i];
        uint32_t chunks = i == 0;
        assert_int_equal(push_rows(f, i, 0, leaf_1, 7, 3), ERR_OK);
        assert_int_equal(push_rows(f, i, 0, leaf_0, 1, 2), ERR_OK);
        if (chunks) {
            assert_int_equal(n->reports, 0);
            push_block(f, 0);
        }
        assert_int_equal(n->reports, 1);
        assert_int_equal(n->report.n_sums, chunks + BUCKETS);
        assert_int_equal(n->report.examples, 2);
        for (uint32_t b = 0; b < BUCKETS; b++)
            assert_true(n->sum[chunks + b] == (b == 0             ? 3 * (25.0 + 9)
                                               : b == BUCKETS - 1 ? 3 * 9.0
                                                                  : 0));
        assert_int_equal(push_rows(f, i, 0, leaf_0, 7, 5), ERR_OK); /* a duplicate */
        assert_int_equal(n->reports, 1);
    }
    end(f);
}

static void rows_wait_for_the_decision_and_are_scaled_by_it(void **state)
{
    (void)state;
    struct fixture *f = begin(OPT_SGD, NAN_GUARD_OFF);
    assert_int_equal(push_rows(f, 1, 0, leaf_0, 1, 1), ERR_OK);
    assert_int_equal(push_rows(f, 1, 0, leaf_1, 5, 3), ERR_OK);
    read_rows(f, 1, 0);
    assert_int_equal(f->node[1].marks, 0);
    assert_int_equal(step_of(f, 1), 0);
    decide(f, 1, 0, false, 0.25f);
    assert_true(step_of(f, 1) == 1 && f->node[1].made);
    read_rows(f, 1, 1);
    assert_int_equal(f->node[1].marks, 5);
    assert_true(f->node[1].row[0] == -0.5f && f->node[1].row[2] == -0.375f);
    read_rows(f, 1, 0); /* the step before */
    assert_true(f->node[1].marks == 0 && !f->node[1].gone);
    end(f);
}

/* A rejected step makes, stamps and counts no row; as of the step before and as of it rows are the same. */
static void a_rejected_step_touches_no_row(void **state)
{
    (void)state;
    struct fixture *f = begin(OPT_SGD, NAN_GUARD_OFF);
    struct node *n = &f->node[1];
    assert_int_equal(push_rows(f, 1, 0, both, 1, 2), ERR_OK);
    decide(f, 1, 0, false, 1);
    assert_int_equal(push_rows(f, 1, 1, both, 7, 2), ERR_OK);
    read_rows(f, 1, 0); /* nothing of step 2 is made */
    assert_true(n->marks == 0 && !n->gone);
    decide(f, 1, 1, true, 0);
    assert_int_equal(step_of(f, 1), 2);
    assert_int_equal(shard_status(n->shard)->t, 1);
    assert_int_equal(n->outcome, GRADWIRE__OUTCOME__REJECTED);
    for (uint64_t step = 1; step <= 2; step++) {
        read_rows(f, 1, step);
        assert_true(n->marks == 1 && n->row[0] == -1.0f && n->rows_step == step && !n->gone);
    }
    const struct row_table *t = n->shard->rows.tables.table[0];
    uint64_t mixed = key_of(1, 0);
    uint32_t row;
    assert_int_equal(row_table_find(t, &mixed, 1, &row), 1);
    assert_true(row_table_rows(t) == 1 && row_count(t, row) == 1 && row_stamp(t, row) == 1);
    assert_int_equal(push_rows(f, 1, 2, both, 1, 2), ERR_OK); /* goes on */
    decide(f, 1, 2, false, 1);
    read_rows(f, 1, 3);
    assert_true(n->row[0] == -2.0f && row_stamp(t, row) == 3);
    end(f);
}

static void the_guard_names_the_row_that_is_broken(void **state)
{
    (void)state;
    static const float value[] = {NAN, INFINITY, 1e15f};
    char wanted[128];
    for (int i = 0; i < 3; i++) {
        struct fixture *f = begin(OPT_SGD, NAN_GUARD_SKIP);
        assert_int_equal(push_rows(f, 1, 0, leaf_0, 6, 1), ERR_OK);
        assert_int_equal(push_rows(f, 1, 0, leaf_1, 4, value[i]), ERR_OK);
        (void)snprintf(wanted, sizeof wanted, "the gradient of key %llu of table a is %s",
                       (unsigned long long)key_unmix(key_of(1, 2)),
                       i < 2 ? "not finite" : "absurdly large");
        assert_string_equal(f->node[1].broken, i < 2 ? wanted : "");
        if (i == 2) { /* below the bound of the mean */
            decide(f, 1, 0, false, 1);
            assert_int_equal(push_rows(f, 1, 1, both, 4, 1e16f), ERR_OK);
            assert_string_equal(f->node[1].broken, wanted);
        }
        end(f);
    }
}

static void the_guard_looks_at_the_slots_of_touched_rows(void **state)
{
    (void)state;
    struct fixture *f = begin(OPT_ADAGRAD, NAN_GUARD_SKIP);
    struct node *n = &f->node[1];
    uint64_t mixed = key_of(1, 1);
    uint32_t row;
    char wanted[128];
    assert_int_equal(push_rows(f, 1, 0, both, 7, 1), ERR_OK);
    decide(f, 1, 0, false, 1);
    struct row_table *t = n->shard->rows.tables.table[1];
    assert_int_equal(row_table_find(t, &mixed, 1, &row), 1);
    row_slots(t, row)[0] = 1e31f;
    assert_int_equal(push_rows(f, 1, 1, both, 5, 1), ERR_OK); /* does not touch it */
    assert_string_equal(n->broken, "");
    decide(f, 1, 1, false, 1);
    assert_int_equal(push_rows(f, 1, 2, both, 2, 1), ERR_OK);
    (void)snprintf(wanted, sizeof wanted, "slot %s of key %llu of table b is absurdly large",
                   optimizer_slot_name(&n->shard->optimizer, 0),
                   (unsigned long long)key_unmix(mixed));
    assert_string_equal(n->broken, wanted);
    end(f);
}

static void cut(struct fixture *f, uint32_t shard, bool at, uint64_t step)
{
    Gradwire__Generation g = quiet_generation(f->generation);
    Gradwire__Cut m = GRADWIRE__CUT__INIT;
    Gradwire__CutAt on = GRADWIRE__CUT_AT__INIT;
    m.generation = on.generation = &g;
    m.cut = on.cut = 1;
    on.step = step;
    shard_on_chief(f->node[shard].shard, at ? FRAME_CUT_AT : FRAME_CUT, at ? &on.base : &m.base);
}

/* The rows that the first part changes are already too many to keep: the others are decided, and wait until the cut is copied. */
static void decided_parts_wait_where_too_much_is_kept_for_a_cut(void **state)
{
    (void)state;
    struct fixture *f = begin(OPT_SGD, NAN_GUARD_OFF);
    struct node *n = &f->node[1];
    struct shard *s = n->shard;
    assert_int_equal(push_rows(f, 1, 0, both, 7, 2), ERR_OK);
    decide(f, 1, 0, false, 1);
    s->rows.beside = (struct shard_beside){.least_bytes = 1};
    cut(f, 1, false, 0);
    cut(f, 1, true, 1);
    assert_true(s->rows.tables.cut.on && !shard_held(s));
    assert_int_equal(push_rows(f, 1, 1, both, 7, 2), ERR_OK);
    decide(f, 1, 1, false, 1);
    assert_true(shard_held(s) && s->sync.parts_made > 0 && s->sync.parts_made < ROW_PARTS);
    assert_int_equal(step_of(f, 1), 1);
    assert_int_equal(n->reports, 2);
    read_rows(f, 1, 1); /* the step in the making changes nothing that is read */
    assert_true(n->marks == 7 && n->row[0] == -1.0f && n->row[4] == -1.0f);
    while (step_of(f, 1) == 1)
        assert_true(shard_copy(s));
    assert_true(!shard_held(s) && n->saved_rows > 0);
    read_rows(f, 1, 2);
    assert_true(n->marks == 7 && n->row[0] == -2.0f && n->row[4] == -2.0f);
    assert_int_equal(shard_facts(s).holds, 1);
    while (shard_copy(s))
        ;
    end(f);
}

static void a_cut_between_sum_and_decision_has_the_rows_of_before(void **state)
{
    (void)state;
    struct fixture *f = begin(OPT_SGD, NAN_GUARD_OFF);
    struct node *n = &f->node[1];
    assert_int_equal(push_rows(f, 1, 0, both, 3, 2), ERR_OK);
    cut(f, 1, false, 0);
    assert_int_equal(n->stopped, 1);
    decide(f, 1, 0, false, 1);
    read_rows(f, 1, 0);
    assert_true(step_of(f, 1) == 0 && n->marks == 0);
    cut(f, 1, true, 0);
    assert_true(n->saves == 1 && step_of(f, 1) == 1);
    read_rows(f, 1, 1);
    assert_true(n->marks == 3 && n->row[0] == -1.0f);
    while (shard_copy(n->shard))
        ;
    assert_int_equal(n->saved_rows, 0);
    end(f);
}

static void another_chief_finds_the_sums_and_their_report(void **state)
{
    (void)state;
    struct fixture *f = begin(OPT_SGD, NAN_GUARD_OFF);
    struct node *n = &f->node[1];
    Gradwire__StepAsk m = GRADWIRE__STEP_ASK__INIT;
    assert_int_equal(push_rows(f, 1, 0, both, 4, 2), ERR_OK);
    enter(f, GRADWIRE__ENTER_MODE__TAKEOVER);
    Gradwire__Generation g = quiet_generation(f->generation);
    m.generation = &g;
    shard_on_chief(n->shard, FRAME_STEP_ASK, &m.base);
    assert_int_equal(n->reports, 2);
    assert_true(n->report.summed && n->sum[BUCKETS - 1] == 12.0);
    decide(f, 1, 0, false, 1);
    read_rows(f, 1, 1);
    assert_true(n->marks == 4 && n->row[0] == -1.0f);
    end(f);
}

/* Of a decision, and of the push that is summed. A worker that lost its connection pushes all of it again. */
static void without_memory_the_next_push_goes_on(void **state)
{
    (void)state;
    bool fired = true;
    uint32_t failures = 0;
    for (long n = 0; fired; n++) {
        struct fixture *f = begin(OPT_SGD, NAN_GUARD_OFF);
        struct node *of = &f->node[1];
        assert_int_equal(push_rows(f, 1, 0, leaf_0, 7, 1), ERR_OK);
        mem_fail_at(n);
        enum err err = push_rows(f, 1, 0, leaf_1, 7, 3);
        bool summed = err == ERR_OK;
        if (summed)
            decide(f, 1, 0, false, 0.5f);
        fired = mem_fail_fired();
        mem_fail_at(-1);
        assert_true(err == ERR_OK || err == ERR_NOMEM);
        assert_int_equal(of->dropped, summed && step_of(f, 1) == 0);
        if (!summed)
            assert_int_equal(push_rows(f, 1, 0, leaf_1, 7, 3), ERR_OK);
        decide(f, 1, 0, false, 0.5f);
        failures += step_of(f, 1) == 0;
        if (step_of(f, 1) == 0)
            assert_int_equal(push_rows(f, 1, 0, leaf_1, 7, 3), ERR_OK);
        assert_int_equal(step_of(f, 1), 1);
        read_rows(f, 1, 1);
        assert_int_equal(of->marks, 7);
        for (uint32_t i = 0; i < 2 * KEYS; i++)
            assert_true(of->row[i] == -1.0f);
        end(f);
    }
    assert_true(failures > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_report_has_a_double_for_each_bucket_behind_the_chunks),
        cmocka_unit_test(rows_wait_for_the_decision_and_are_scaled_by_it),
        cmocka_unit_test(a_rejected_step_touches_no_row),
        cmocka_unit_test(the_guard_names_the_row_that_is_broken),
        cmocka_unit_test(the_guard_looks_at_the_slots_of_touched_rows),
        cmocka_unit_test(decided_parts_wait_where_too_much_is_kept_for_a_cut),
        cmocka_unit_test(a_cut_between_sum_and_decision_has_the_rows_of_before),
        cmocka_unit_test(another_chief_finds_the_sums_and_their_report),
        cmocka_unit_test(without_memory_the_next_push_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
