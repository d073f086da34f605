/* Shards of a job with tables, in sync: which rows a step changes and how, and when it is made. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "tests/lib/row_model.h"

/* Push the leaves below `of` to a shard, in nodes as they happen to be, the right ones first now and then. */
static void push_below(struct rig *c, uint32_t shard, uint64_t step, struct tree_node of,
                       const struct rig_grads leaf[RIG_LEAVES], const uint32_t examples[RIG_LEAVES])
{
    if (of.level > 0 && rand() % 2) {
        uint32_t first = (uint32_t)rand() % 2;
        for (uint32_t i = 0; i < 2; i++) {
            struct tree_node half = {of.level - 1, of.index * 2 + (first ^ i)};
            push_below(c, shard, step, half, leaf, examples);
        }
        return;
    }
    struct rig_grads sum = row_model_sum(leaf, of);
    uint32_t n = 0, cut = (uint32_t)rand() % (ROW_PARTS - 1) + 1;
    for (uint32_t i = tree_first_leaf(of); i < tree_end_leaf(of); i++)
        n += examples[i];
    rig_push_parts(c, shard, 0, step, of, n, &sum, cut, ROW_PARTS - cut);
    rig_push_parts(c, shard, 0, step, of, n, &sum, 0, cut);
    if (shard == 0)
        rig_push_block(c, 0, step, of, n);
}

static void rows_are_those_of_a_plain_loop_for_any_number_of_shards(void **state)
{
    (void)state;
    static struct rig_grads leaf[RIG_LEAVES];
    static struct row_model model;
    for (uint32_t shards = 1; shards <= RIG_SHARDS_MAX; shards *= 2) {
        srand(5);
        struct rig *c = rig_begin(shards);
        memset(&model, 0, sizeof model);
        for (uint64_t step = 0; step < 20; step++) {
            uint32_t examples[RIG_LEAVES], all = 0;
            for (uint32_t i = 0; i < RIG_LEAVES; i++) {
                examples[i] = step == 7 ? 0 : (uint32_t)rand() % 3;
                leaf[i] = rig_random_grads();
                all += examples[i];
            }
            for (uint32_t i = 0; i < shards; i++) {
                c->node[i].logged = 0;
                push_below(c, i, step, rig_root, leaf, examples);
            }
            struct rig_grads sum = row_model_sum(leaf, rig_root);
            row_model_step(c, &model, &sum, all);
            row_model_check_now(c, &model);
        }
        rig_end(c);
    }
}

static void a_read_creates_no_row(void **state)
{
    (void)state;
    static const struct row_model none;
    struct rig *c = rig_begin(2);
    row_model_check_now(c, &none);
    row_model_check_now(c, &none);
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(shard_status(c->node[i].shard)->rows, 0);
    rig_end(c);
}

static void an_empty_step_touches_no_row_and_is_made(void **state)
{
    (void)state;
    static const struct row_model none;
    struct rig *c = rig_begin(2);
    struct rig_grads g = rig_touch(0, RIG_KEYS, 1);
    for (uint32_t i = 0; i < 2; i++)
        rig_push_rows(c, i, 0, rig_root, 0, &g);
    rig_push_block(c, 0, 0, rig_root, 0);
    assert_int_equal(rig_step(c, 0), 1);
    assert_int_equal(rig_step(c, 1), 1);
    assert_int_equal(shard_status(c->node[1].shard)->t, 0);
    row_model_check_now(c, &none);
    rig_end(c);
}

/* ---- when a step is made ---- */

static void the_run_that_ends_a_step_says_made(void **state)
{
    (void)state;
    struct rig *c = rig_begin(1);
    rig_push_rows(c, 0, 0, rig_root, 1, &rig_nothing);
    assert_int_equal(rig_step(c, 0), 0);
    rig_push_block(c, 0, 0, rig_root, 1);
    assert_int_equal(rig_step(c, 0), 1);
    assert_int_equal(c->node[0].logged, 1);
    assert_int_equal(c->node[0].log[0].chunks, 1);
    assert_true(c->node[0].log[0].made);
    rig_end(c);
}

static void a_reply_without_chunks_says_made_where_the_last_part_comes_last(void **state)
{
    (void)state;
    struct rig *c = rig_begin(1);
    rig_push_block(c, 0, 0, rig_root, 1);
    rig_push_parts(c, 0, 0, 0, rig_root, 1, &rig_nothing, 0, ROW_PARTS - 1);
    assert_int_equal(rig_step(c, 0), 0);
    assert_int_equal(c->node[0].logged, 1);
    assert_false(c->node[0].log[0].made);
    rig_push_parts(c, 0, 0, 0, rig_root, 1, &rig_nothing, ROW_PARTS - 1, 1);
    assert_int_equal(rig_step(c, 0), 1);
    assert_int_equal(c->node[0].logged, 2);
    const struct rig_sent *s = rig_last(c, 0);
    assert_int_equal(s->type, FRAME_REPLY);
    assert_int_equal(s->chunks, 0);
    assert_int_equal(s->step, 1);
    assert_true(s->made && !s->has_body);
    rig_end(c);
}

static void a_shard_without_chunks_makes_steps_and_says_so(void **state)
{
    (void)state;
    struct rig *c = rig_begin(2);
    rig_push_parts(c, 1, 0, 0, (struct tree_node){1, 0}, 1, &rig_nothing, 0, ROW_PARTS);
    assert_int_equal(c->node[1].logged, 0);
    rig_push_parts(c, 1, 1, 0, (struct tree_node){1, 1}, 1, &rig_nothing, 0, ROW_PARTS);
    assert_int_equal(rig_step(c, 1), 1);
    assert_int_equal(shard_status(c->node[1].shard)->t, 1);
    assert_int_equal(c->node[1].logged, 2); /* one to each worker */
    for (int i = 0; i < 2; i++)
        assert_true(c->node[1].log[i].made && c->node[1].log[i].chunks == 0);
    rig_end(c);
}

static void a_late_push_and_a_pull_are_answered_with_made(void **state)
{
    (void)state;
    struct errmsg e = {""};
    struct rig *c = rig_begin(2);
    rig_make_step(c, 0, &rig_nothing);
    for (uint32_t i = 0; i < 2; i++) {
        Gradwire__Pull pull = GRADWIRE__PULL__INIT;
        Gradwire__Generation g = quiet_generation(c->generation);
        pull.generation = &g;
        pull.any = true;
        c->node[i].logged = 0;
        rig_push_parts(c, i, 1, 0, rig_root, 1, &rig_nothing, 0, 1);
        rig_push_parts(c, i, 1, 0, rig_root, 1, &rig_nothing, 1, 1); /* one answer to all frames */
        assert_int_equal(c->node[i].logged, 1);
        assert_int_equal(c->node[i].log[0].outcome, GRADWIRE__OUTCOME__DUPLICATE);
        assert_int_equal(
            shard_on_worker(c->node[i].shard, &c->node[i].peer[1], FRAME_PULL, &pull.base, &e),
            ERR_OK);
        for (int k = 0; k < 2; k++) {
            const struct rig_sent *s = &c->node[i].log[k];
            assert_true(s->made && s->step == 1 && s->chunks == (i == 0));
        }
    }
    rig_end(c);
}

static void a_takeover_keeps_nodes_of_parts_and_what_was_set_aside(void **state)
{
    (void)state;
    static struct row_model before, after;
    struct rig *c = rig_begin(1);
    struct rig_grads first = rig_touch(0, RIG_KEYS / 2, 1),
                     second = rig_touch(RIG_KEYS / 4, RIG_KEYS, 2);
    rig_make_step(c, 0, &first);
    memset(&before, 0, sizeof before);
    row_model_step(c, &before, &first, 1);
    after = before;
    row_model_step(c, &after, &second, 2);
    rig_push_rows(c, 0, 1, (struct tree_node){1, 0}, 1, &second);
    rig_push_parts(c, 0, 0, 1, (struct tree_node){1, 1}, 1, &rig_nothing, 0,
                   5); /* parts 0 to 4 are made */
    rig_enter(c, GRADWIRE__ENTER_MODE__TAKEOVER);
    rig_hellos(c);
    rig_ask(c, 0, 0, 1, 1);
    row_model_check(c, 0, rig_last(c, 0), &before);
    rig_push_rows(c, 0, 1, (struct tree_node){1, 1}, 1, &rig_nothing);
    rig_push_block(c, 0, 1, rig_root, 2);
    assert_int_equal(rig_step(c, 0), 2);
    rig_ask(c, 0, 0, 2, 1);
    row_model_check(c, 0, rig_last(c, 0), &before);
    row_model_check_now(c, &after);
    rig_end(c);
}

/* A failure changes nothing: the next push makes the part. */
static void a_part_without_memory_is_made_by_the_next_push(void **state)
{
    (void)state;
    static struct row_model model;
    static const struct row_model none;
    static uint8_t body[1 << 16];
    struct rig_grads g = rig_touch(0, RIG_KEYS, 1);
    bool fired = true;
    for (long n = 0; fired; n++) {
        struct rig *c = rig_begin(2);
        struct errmsg e = {""};
        Gradwire__Generation generation = quiet_generation(c->generation);
        size_t bytes = 0;
        for (uint32_t p = 0; p < ROW_PARTS; p++)
            bytes += rig_section(c, &g, bucket_part(bucket_shard(1, 2), p), body + bytes);
        const Gradwire__RowsPush m = rig_push_head(&generation, 0, rig_root, 1, 0, ROW_PARTS);
        mem_fail_at(n);
        enum err err = rig_send_push(c, 1, 0, &m, body, bytes, &e);
        fired = mem_fail_fired();
        mem_fail_at(-1);
        if (err)
            assert_int_equal(err, ERR_NOMEM);
        if (rig_step(c, 1) == 0) {
            rig_ask(c, 1, 1, 1, 0);
            row_model_check(c, 1, rig_last(c, 1), &none);
        }
        if (rig_step(c, 1) == 0)
            assert_int_equal(rig_send_push(c, 1, 0, &m, body, bytes, &e), ERR_OK);
        memset(&model, 0, sizeof model);
        row_model_step(c, &model, &g, 1);
        rig_ask(c, 1, 0, 1, 1);
        row_model_check(c, 1, rig_last(c, 1), &model);
        rig_end(c);
    }
}

/* ---- what is said of them ---- */

static void status_counts_rows_and_their_memory(void **state)
{
    (void)state;
    struct rig *c = rig_begin(1);
    struct rig_grads g = rig_touch(0, 10, 1);
    rig_make_step(c, 0, &g);
    const Gradwire__ShardStatus *s = shard_status(c->node[0].shard);
    assert_int_equal(s->rows, 10 * RIG_TABLES);
    assert_true(s->row_bytes >= 10 * 6 * sizeof(float));
    const struct shard_facts facts = shard_facts(c->node[0].shard);
    assert_true(facts.state_bytes >= s->row_bytes); /* a snapshot has them */
    rig_end(c);
}

static void status_counts_the_rows_that_are_read_and_touched(void **state)
{
    (void)state;
    struct rig *c = rig_begin(1);
    struct rig_grads g = rig_touch(0, 10, 1), more = rig_touch(5, 15, 1);
    rig_make_step(c, 0, &g);
    rig_make_step(c, 1, &more);
    rig_ask(c, 0, 0, 1, 2); /* RIG_KEYS of each list; 15 of them are there */
    const struct shard *s = c->node[0].shard;
    const struct row_traffic t = shard_facts(s).rows;
    uint64_t bytes = 0, read_bytes = 0;
    for (uint32_t i = 0; i < RIG_TABLES; i++) {
        const struct row_table *table = s->rows.tables.table[i];
        read_bytes += 15 * sizeof(float) * table->dim;
        bytes += 20 * sizeof(float) * (2 * (uint64_t)table->dim + table->slot_floats);
    }
    assert_int_equal(t.asked, RIG_KEYS * RIG_TABLES);
    assert_int_equal(t.read, 15 * RIG_TABLES);
    assert_int_equal(t.read_bytes, read_bytes);
    assert_int_equal(t.touched, 20 * RIG_TABLES);
    assert_int_equal(t.touched_bytes, bytes);
    rig_end(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_those_of_a_plain_loop_for_any_number_of_shards),
        cmocka_unit_test(a_read_creates_no_row),
        cmocka_unit_test(an_empty_step_touches_no_row_and_is_made),
        cmocka_unit_test(the_run_that_ends_a_step_says_made),
        cmocka_unit_test(a_reply_without_chunks_says_made_where_the_last_part_comes_last),
        cmocka_unit_test(a_shard_without_chunks_makes_steps_and_says_so),
        cmocka_unit_test(a_late_push_and_a_pull_are_answered_with_made),
        cmocka_unit_test(a_takeover_keeps_nodes_of_parts_and_what_was_set_aside),
        cmocka_unit_test(a_part_without_memory_is_made_by_the_next_push),
        cmocka_unit_test(status_counts_rows_and_their_memory),
        cmocka_unit_test(status_counts_the_rows_that_are_read_and_touched),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
