/* Rows in async: batches in parts, what became of them, and the rate and staleness of each part. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/parameters/ids.h"
#include "common/rows/key.h"
#include "tests/lib/row_model.h"

/* Batches come in parts, some of them twice, and the newest rows are behind each. */
static void async_rows_are_those_of_a_plain_loop_for_any_number_of_shards(void **state)
{
    (void)state;
    static struct row_model model;
    for (uint32_t shards = 1; shards <= RIG_SHARDS_MAX; shards *= 2) {
        srand(6);
        struct rig *c = rig_begin_async(shards);
        memset(&model, 0, sizeof model);
        for (uint64_t id = 0; id < 20; id++) {
            struct rig_grads g = rig_random_grads();
            uint32_t examples = (uint32_t)rand() % 4;
            uint32_t first = (uint32_t)rand() % ROW_PARTS, parts = ROW_PARTS - first;
            rig_push_block(c, 0, id, rig_batch, examples);
            for (uint32_t i = 0; i < shards; i++) {
                c->node[i].logged = 0;
                rig_push_parts(c, i, 0, id, rig_batch, examples, &g, first, parts);
                rig_push_parts(c, i, 1, id, rig_batch, examples, &g, 0, ROW_PARTS); /* redone */
            }
            row_model_step(c, &model, &g, examples);
            row_model_check_now(c, &model);
            for (uint32_t i = 0; i < shards; i++)
                assert_int_equal(rig_step(c, i), id + 1);
        }
        rig_end(c);
    }
}

static void an_async_push_of_rows_is_answered_with_its_parts_and_what_became_of_them(void **state)
{
    (void)state;
    struct rig *c = rig_begin_async(2);
    struct rig_grads g = rig_touch(0, RIG_KEYS, 1);
    rig_push_parts(c, 1, 0, 5, rig_batch, 1, &g, 3, 4);
    rig_push_parts(c, 1, 0, 5, rig_batch, 1, &g, 3, 4);
    rig_push_parts(c, 1, 0, 5, rig_batch, 1, &g, 0, ROW_PARTS);
    rig_push_parts(c, 1, 0, 5, rig_batch, 1, &g, 0,
                   ROW_PARTS); /* it is resolved: the body is not wanted */
    static const uint32_t first[] = {3, 3, 0, 0}, parts[] = {4, 4, ROW_PARTS, ROW_PARTS};
    for (uint32_t i = 0; i < 4; i++) {
        const struct rig_sent *s = &c->node[1].log[i];
        assert_int_equal(s->type, FRAME_REPLY);
        assert_int_equal(s->name, 5);
        assert_int_equal(s->first_part, first[i]);
        assert_int_equal(s->parts, parts[i]);
        assert_int_equal(s->outcome,
                         i % 2 ? GRADWIRE__OUTCOME__DUPLICATE : GRADWIRE__OUTCOME__APPLIED);
        assert_true(s->chunks == 0 && !s->has_body);
    }
    assert_int_equal(c->node[1].logged, 4);
    assert_int_equal(shard_status(c->node[1].shard)->duplicates, 2);
    rig_end(c);
}

static void an_async_batch_is_resolved_when_all_chunks_and_parts_are_applied(void **state)
{
    (void)state;
    struct rig *c = rig_begin_async(2);
    rig_push_parts(c, 0, 0, 0, rig_batch, 1, &rig_nothing, 0, ROW_PARTS);
    assert_int_equal(rig_step(c, 0), 0);
    rig_push_block(c, 0, 0, rig_batch, 1);
    assert_int_equal(rig_step(c, 0), 1);
    rig_push_block(c, 0, 1, rig_batch, 0);
    rig_push_parts(c, 0, 0, 1, rig_batch, 0, &rig_nothing, 1, ROW_PARTS - 1);
    assert_int_equal(rig_step(c, 0), 1);
    rig_push_parts(c, 0, 0, 1, rig_batch, 0, &rig_nothing, 0, 1);
    assert_int_equal(rig_step(c, 0), 2);
    rig_push_parts(c, 1, 0, 1, rig_batch, 1, &rig_nothing, 0,
                   ROW_PARTS); /* no chunk is awaited there */
    assert_int_equal(rig_step(c, 1), 1);
    assert_int_equal(shard_status(c->node[0].shard)->t, 1); /* the empty one is none */
    rig_end(c);
}

static void async_rates_go_by_the_updates_of_each_part(void **state)
{
    (void)state;
    struct rig *c = rig_new(1);
    struct rig_grads g = rig_touch(0, RIG_KEYS, 1);
    c->settings.update = GRADWIRE__UPDATE__ASYNC;
    c->settings.momentum = 0;
    c->settings.learning_rate = 1;
    c->settings.schedule = SCHEDULE_EXPONENTIAL_DECAY;
    c->settings.decay_steps = 1;
    c->settings.decay_rate = 0.25f;
    for (uint32_t i = 0; i < RIG_TABLES; i++)
        c->layout.rows->table[i].init = INIT_ZEROS;
    rig_plan_anew(c);
    rig_enter(c, GRADWIRE__ENTER_MODE__INIT);
    assert_string_equal(c->node[0].entered_error, "");
    rig_hellos(c);
    rig_push_parts(c, 0, 0, 0, rig_batch, 1, &rig_nothing, 0, 8); /* the first of parts 0 to 7 */
    rig_push_parts(c, 0, 0, 1, rig_batch, 1, &g, 0, ROW_PARTS);
    rig_ask(c, 0, 0, 1, 0);
    const float *w = (const float *)(const void *)(rig_last(c, 0)->body + 2 * sizeof(uint32_t));
    for (uint32_t k = 0; k < RIG_KEYS; k++) {
        bool second =
            key_bucket(c->key[k]) < bucket_part((struct bucket_range){0, ROW_BUCKETS}, 7).end;
        assert_true(w[2 * k] == (second ? -0.25f : -1.0f));
    }
    rig_end(c);
}

static void async_without_chunks_counts_the_staleness_of_its_first_part(void **state)
{
    (void)state;
    struct rig *c = rig_begin_async(2);
    rig_push_rows(c, 1, 0, rig_batch, 1, &rig_nothing);
    rig_push_rows(c, 1, 1, rig_batch, 1, &rig_nothing);
    rig_ask(c, 1, 0, 1, 0);
    rig_push_rows(c, 1, 2, rig_batch, 1, &rig_nothing);
    const Gradwire__ShardStatus *s = shard_status(c->node[1].shard);
    for (size_t i = 0; i < s->n_staleness; i++) {
        if (s->staleness[i]->worker != 0)
            continue;
        assert_int_equal(s->staleness[i]->count, 3);
        assert_int_equal(s->staleness[i]->sum, 1); /* 0, then 1, then 0 behind the answer */
    }
    assert_int_equal(s->n_staleness, 2);
    rig_end(c);
}

/* A part's staleness counts its own updates since the shard last sent any rows to the worker. */
static void async_rates_are_divided_by_the_staleness_of_each_part(void **state)
{
    (void)state;
    struct rig *c = rig_new(1);
    struct rig_grads g = rig_touch(0, RIG_KEYS, 1);
    c->settings.update = GRADWIRE__UPDATE__ASYNC;
    c->settings.staleness_rate = true;
    c->settings.momentum = 0;
    c->settings.learning_rate = 1;
    for (uint32_t i = 0; i < RIG_TABLES; i++)
        c->layout.rows->table[i].init = INIT_ZEROS;
    rig_plan_anew(c);
    rig_enter(c, GRADWIRE__ENTER_MODE__INIT);
    assert_string_equal(c->node[0].entered_error, "");
    rig_hellos(c);
    rig_ask(c, 0, 0, 1, 0);
    for (uint64_t id = 0; id < 4; id++) /* worker 1's: of parts 0 to 7 */
        rig_push_parts(c, 0, 1, id, rig_batch, 1, &rig_nothing, 0, 8);
    rig_push_parts(c, 0, 0, 4, rig_batch, 1, &g, 0, ROW_PARTS);
    rig_ask(c, 0, 0, 2, 0);
    const float *w = (const float *)(const void *)(rig_last(c, 0)->body + 2 * sizeof(uint32_t));
    for (uint32_t k = 0; k < RIG_KEYS; k++) {
        bool stale =
            key_bucket(c->key[k]) < bucket_part((struct bucket_range){0, ROW_BUCKETS}, 7).end;
        assert_true(w[2 * k] == (stale ? -0.25f : -1.0f));
    }
    rig_push_parts(c, 0, 0, 5, rig_batch, 1, &g, 0, ROW_PARTS); /* right behind the answer */
    rig_ask(c, 0, 0, 3, 0);
    w = (const float *)(const void *)(rig_last(c, 0)->body + 2 * sizeof(uint32_t));
    assert_true(w[0] == -1.25f && w[2 * (RIG_KEYS - 1)] == -2.0f);
    rig_end(c);
}

static void an_async_pull_is_answered_with_made(void **state)
{
    (void)state;
    struct errmsg e = {""};
    struct rig *c = rig_begin_async(2);
    Gradwire__Pull m = GRADWIRE__PULL__INIT;
    Gradwire__Generation g = quiet_generation(c->generation);
    m.generation = &g;
    m.any = true;
    for (uint32_t i = 0; i < 2; i++) {
        struct rig_node *n = &c->node[i];
        assert_int_equal(shard_on_worker(n->shard, &n->peer[0], FRAME_PULL, &m.base, &e), ERR_OK);
        assert_true(rig_last(c, i)->made && rig_last(c, i)->chunks == (i == 0));
    }
    rig_end(c);
}

static void an_async_batch_beyond_the_window_is_refused(void **state)
{
    (void)state;
    struct errmsg e = {""};
    const uint32_t empty[2] = {0, 0};
    struct rig *c = rig_begin_async(1);
    Gradwire__Generation g = quiet_generation(c->generation);
    const Gradwire__RowsPush m = rig_push_head(&g, IDS_WINDOW, rig_batch, 1, 0, 1);
    char wanted[96];
    (void)snprintf(wanted, sizeof wanted, "batch %d is beyond the window of %d above 0", IDS_WINDOW,
                   IDS_WINDOW);
    assert_int_equal(rig_send_push(c, 0, 0, &m, empty, sizeof empty, &e), ERR_PROTO);
    assert_string_equal(e.text, wanted);
    rig_end(c);
}

/* A part of a batch without memory is not marked: it comes again, and is applied then. */
static void an_async_part_without_memory_is_applied_when_it_comes_again(void **state)
{
    (void)state;
    static struct row_model model;
    static uint8_t body[1 << 16];
    struct rig_grads g = rig_touch(0, RIG_KEYS, 1);
    bool fired = true;
    for (long n = 0; fired; n++) {
        struct rig *c = rig_begin_async(2);
        struct errmsg e = {""};
        Gradwire__Generation generation = quiet_generation(c->generation);
        size_t bytes = 0;
        for (uint32_t p = 0; p < ROW_PARTS; p++)
            bytes += rig_section(c, &g, bucket_part(bucket_shard(1, 2), p), body + bytes);
        const Gradwire__RowsPush m = rig_push_head(&generation, 0, rig_batch, 1, 0, ROW_PARTS);
        mem_fail_at(n);
        enum err err = rig_send_push(c, 1, 0, &m, body, bytes, &e);
        fired = mem_fail_fired();
        mem_fail_at(-1);
        assert_true(err == ERR_OK || err == ERR_NOMEM);
        assert_int_equal(rig_send_push(c, 1, 0, &m, body, bytes, &e), ERR_OK);
        assert_int_equal(rig_step(c, 1), 1);
        memset(&model, 0, sizeof model);
        row_model_step(c, &model, &g, 1);
        rig_ask(c, 1, 0, 1, 0);
        row_model_check(c, 1, rig_last(c, 1), &model);
        rig_end(c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(async_rows_are_those_of_a_plain_loop_for_any_number_of_shards),
        cmocka_unit_test(an_async_push_of_rows_is_answered_with_its_parts_and_what_became_of_them),
        cmocka_unit_test(an_async_batch_is_resolved_when_all_chunks_and_parts_are_applied),
        cmocka_unit_test(async_rates_go_by_the_updates_of_each_part),
        cmocka_unit_test(async_without_chunks_counts_the_staleness_of_its_first_part),
        cmocka_unit_test(async_rates_are_divided_by_the_staleness_of_each_part),
        cmocka_unit_test(an_async_pull_is_answered_with_made),
        cmocka_unit_test(an_async_batch_beyond_the_window_is_refused),
        cmocka_unit_test(an_async_part_without_memory_is_applied_when_it_comes_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
