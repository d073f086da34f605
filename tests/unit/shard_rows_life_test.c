/* The life of a row: its stamp by the table clock, admission by touches, eviction when it is touched no more. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "common/base/mem.h"
#include "tests/lib/row_model.h"

static uint64_t stamp_of(const struct rig *c, uint32_t shard, uint32_t k)
{
    const struct row_table *t = c->node[shard].shard->rows.tables.table[0];
    uint32_t row;
    assert_int_equal(row_table_find(t, &c->key[k], 1, &row), 1);
    return row_stamp(t, row);
}

/* Key RIG_KEYS - 1 is the last shard's. The clock is ahead of the steps by those of earlier runs. */
static void rows_are_stamped_with_the_table_clock(void **state)
{
    (void)state;
    for (int async = 0; async < 2; async++) {
        struct rig *c = async ? rig_begin_async(2) : rig_begin(2);
        struct rig_grads g = rig_touch(0, RIG_KEYS, 1);
        struct tree_node node = async ? rig_batch : rig_root;
        for (uint32_t i = 0; i < 2; i++)
            c->node[i].shard->rows.clock_before = 40;
        rig_push_rows(c, 1, 0, node, 0, &g); /* counts, and touches nothing */
        rig_push_rows(c, 1, 1, node, 1, &g);
        assert_int_equal(stamp_of(c, 1, RIG_KEYS - 1), 42);
        rig_end(c);
    }
}

/* ---- admission ---- */

static struct rig *begin_admitting(uint32_t shards, struct row_admission rule, bool async)
{
    struct rig *c = rig_new(shards);
    for (uint32_t i = 0; i < RIG_TABLES; i++)
        c->layout.rows->table[i].admission = rule;
    rig_plan_anew(c);
    if (async)
        c->settings.update = GRADWIRE__UPDATE__ASYNC;
    rig_enter(c, GRADWIRE__ENTER_MODE__INIT);
    rig_hellos(c);
    return c;
}

/* Touches of a row that is not there are counted once a step, whatever its leaves. */
static void the_step_that_brings_a_row_its_count_makes_and_updates_it(void **state)
{
    (void)state;
    const struct row_admission twice = {.min_count = 2, .sketch_mb = 1};
    for (uint32_t shards = 1; shards <= 3; shards++) {
        static struct row_model model, none;
        struct rig *c = begin_admitting(shards, twice, false);
        struct rig_grads g = rig_touch(0, 10, 1);
        memset(&model, 0, sizeof model);
        for (uint32_t i = 0; i < shards; i++)
            for (uint32_t half = 0; half < 2; half++)
                rig_push_rows(c, i, 0, (struct tree_node){1, half}, 1, &g);
        rig_push_block(c, 0, 0, rig_root, 2);
        row_model_check_now(c, &none);
        rig_make_step(c, 1, &rig_nothing);
        row_model_check_now(c, &none);
        row_model_step(c, &model, &g, 1);
        rig_make_step(c, 2, &g);
        row_model_check_now(c, &model);
        const struct row_counts *counts = &c->node[0].shard->rows.tables.counts[0];
        assert_true(shards > 1 || (counts->admitted == 10 && counts->dropped == 10));
        rig_end(c);
    }
}

/* As of the step before, rows that the step has admitted are not there. */
static void a_row_that_a_step_admits_is_not_there_as_of_the_step_before(void **state)
{
    (void)state;
    static const struct row_model none;
    struct rig *c =
        begin_admitting(1, (struct row_admission){.min_count = 2, .sketch_mb = 1}, false);
    struct rig_grads g = rig_touch(0, 10, 1);
    rig_make_step(c, 0, &g);
    rig_make_step(c, 1, &g);
    rig_ask(c, 0, 0, 1, 1);
    row_model_check(c, 0, rig_last(c, 0), &none);
    rig_end(c);
}

/* A part of async that finds no memory is applied when it comes again: nothing was counted the first time. */
static void touches_of_a_part_without_memory_are_not_counted(void **state)
{
    (void)state;
    static uint8_t body[1 << 16];
    struct rig_grads early = rig_touch(0, RIG_KEYS, 1), g = rig_touch(0, RIG_KEYS, 1);
    bool fired = true, refused = false;
    for (uint32_t k = 0; k < RIG_KEYS;
         k += 2) /* those come the first time, together with ones that come again */
        early.touched[0][k] = early.touched[1][k] = false;
    for (long n = 0; fired; n++) {
        struct rig *c =
            begin_admitting(1, (struct row_admission){.min_count = 2, .sketch_mb = 1}, true);
        struct errmsg e = {""};
        Gradwire__Generation generation = quiet_generation(c->generation);
        static struct row_model model;
        size_t bytes = 0;
        rig_push_rows(c, 0, 0, rig_batch, 1, &early);
        for (uint32_t p = 0; p < ROW_PARTS; p++)
            bytes += rig_section(c, &g, bucket_part(bucket_shard(0, 1), p), body + bytes);
        const Gradwire__RowsPush m = rig_push_head(&generation, 1, rig_batch, 1, 0, ROW_PARTS);
        mem_fail_at(n);
        refused |= rig_send_push(c, 0, 0, &m, body, bytes, &e) == ERR_NOMEM;
        fired = mem_fail_fired();
        mem_fail_at(-1);
        assert_int_equal(rig_send_push(c, 0, 0, &m, body, bytes, &e), ERR_OK);
        memset(&model, 0, sizeof model);
        row_model_step(c, &model, &early, 1);
        rig_ask(c, 0, 0, 1, 0);
        row_model_check(c, 0, rig_last(c, 0), &model);
        rig_end(c);
    }
    assert_true(refused);
}

/* ---- eviction ---- */

static struct rig *begin_evicting(uint32_t shards, uint32_t unseen_steps, bool async)
{
    struct rig *c = rig_new(shards);
    for (uint32_t i = 0; i < RIG_TABLES; i++)
        c->layout.rows->table[i].unseen_steps = unseen_steps;
    rig_plan_anew(c);
    if (async)
        c->settings.update = GRADWIRE__UPDATE__ASYNC;
    rig_enter(c, GRADWIRE__ENTER_MODE__INIT);
    rig_hellos(c);
    return c;
}

/* Each moment that can be read has its own clock. A row that is touched again is new: its momentum, too. */
static void a_row_that_no_step_touches_is_gone_at_its_clock_and_new_when_touched(void **state)
{
    (void)state;
    static const struct row_model none;
    static struct row_model model, again;
    struct rig *c = begin_evicting(1, 2, false);
    struct shard *s = c->node[0].shard;
    struct rig_grads g = rig_touch(0, 10, 1);
    rig_make_step(c, 0, &g);
    rig_make_step(c, 1, &rig_nothing);
    memset(&model, 0, sizeof model);
    memset(&again, 0, sizeof again);
    row_model_step(c, &model, &g, 1);
    row_model_check_now(c, &model);
    assert_int_equal(shard_status(s)->rows, 10 * RIG_TABLES);
    rig_make_step(c, 2, &rig_nothing);
    row_model_check_now(c, &none);
    assert_int_equal(shard_status(s)->rows, 0);
    assert_int_equal(s->rows.tables.counts[0].evicted, 10);
    rig_ask(c, 0, 0, 1, 2); /* the step before */
    row_model_check(c, 0, rig_last(c, 0), &model);
    g = rig_touch(0, 5, 2);
    rig_make_step(c, 3, &g);
    row_model_step(c, &again, &g, 1);
    row_model_check_now(c, &again);
    assert_int_equal(shard_status(s)->rows, 5 * RIG_TABLES);
    rig_ask(c, 0, 0, 1, 3); /* the rows that the step has just made did not exist before */
    row_model_check(c, 0, rig_last(c, 0), &none);
    rig_end(c);
}

/* The sweeper has come by when the step begins, or has not: the row is absent to the step. */
static void a_touch_of_a_row_that_is_gone_and_still_in_memory_makes_a_new_one(void **state)
{
    (void)state;
    static struct row_model model;
    struct rig *c = begin_evicting(1, 1, true);
    struct rig_grads g = rig_touch(0, 10, 1);
    rig_push_rows(c, 0, 0, rig_batch, 1, &g);
    for (uint64_t id = 1; id < 3;
         id++) /* parts have had them, the chunk has not: none is resolved */
        rig_push_rows(c, 0, id, rig_batch, 1, &rig_nothing);
    assert_int_equal(row_table_rows(c->node[0].shard->rows.tables.table[0]), 10);
    rig_push_rows(c, 0, 3, rig_batch, 1, &g);
    memset(&model, 0, sizeof model);
    row_model_step(c, &model, &g, 1);
    rig_ask(c, 0, 0, 1, 0);
    row_model_check(c, 0, rig_last(c, 0), &model);
    assert_int_equal(c->node[0].shard->rows.tables.counts[0].evicted, 10);
    rig_end(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_stamped_with_the_table_clock),
        cmocka_unit_test(the_step_that_brings_a_row_its_count_makes_and_updates_it),
        cmocka_unit_test(a_row_that_a_step_admits_is_not_there_as_of_the_step_before),
        cmocka_unit_test(touches_of_a_part_without_memory_are_not_counted),
        cmocka_unit_test(a_row_that_no_step_touches_is_gone_at_its_clock_and_new_when_touched),
        cmocka_unit_test(a_touch_of_a_row_that_is_gone_and_still_in_memory_makes_a_new_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
