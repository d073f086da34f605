/* Asks for rows: of which step, when they are answered, and which of them a push may name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "common/rows/key.h"
#include "tests/lib/row_model.h"

/* ---- which rows are read ---- */

static void rows_of_the_present_step_are_read_while_the_next_is_made(void **state)
{
    (void)state;
    static struct row_model before, after;
    struct rig *c = rig_begin(2);
    struct rig_grads first = rig_touch(0, RIG_KEYS / 2, 1),
                     second = rig_touch(RIG_KEYS / 4, RIG_KEYS, 2);
    rig_make_step(c, 0, &first);
    memset(&before, 0, sizeof before);
    row_model_step(c, &before, &first, 1);
    after = before;
    row_model_step(c, &after, &second, 1);
    for (uint32_t parts = 1; parts < ROW_PARTS; parts++) {
        rig_push_parts(c, 1, 0, 1, rig_root, 1, &second, parts - 1, 1);
        rig_ask(c, 1, 1, 1, 1);
        row_model_check(c, 1, rig_last(c, 1), &before);
        assert_int_equal(rig_last(c, 1)->step, 1);
    }
    rig_push_parts(c, 1, 0, 1, rig_root, 1, &second, ROW_PARTS - 1, 1);
    rig_ask(c, 1, 1, 1, 2);
    row_model_check(c, 1, rig_last(c, 1), &after);
    rig_end(c);
}

static void rows_of_the_step_before_are_there_until_a_part_of_the_next_is_made(void **state)
{
    (void)state;
    static struct row_model before;
    struct rig *c = rig_begin(1);
    struct rig_grads first = rig_touch(0, RIG_KEYS / 2, 1),
                     second = rig_touch(RIG_KEYS / 4, RIG_KEYS, 2);
    rig_make_step(c, 0, &first);
    rig_make_step(c, 1, &second);
    memset(&before, 0, sizeof before);
    row_model_step(c, &before, &first, 1);
    rig_ask(c, 0, 0, 7, 1);
    row_model_check(c, 0, rig_last(c, 0), &before);
    assert_int_equal(rig_last(c, 0)->step, 1);
    rig_push_parts(c, 0, 0, 2, rig_root, 1, &rig_nothing, 0, 1);
    rig_ask(c, 0, 0, 8, 1);
    assert_true(rig_last(c, 0)->gone && !rig_last(c, 0)->has_body);
    assert_int_equal(rig_last(c, 0)->number, 8);
    assert_int_equal(rig_last(c, 0)->step, 2);
    rig_end(c);
}

static void rows_of_the_step_before_an_empty_one_are_those_of_now(void **state)
{
    (void)state;
    static struct row_model model;
    struct rig *c = rig_begin(1);
    struct rig_grads g = rig_touch(0, RIG_KEYS, 1);
    rig_make_step(c, 0, &g);
    memset(&model, 0, sizeof model);
    row_model_step(c, &model, &g, 1);
    rig_push_rows(c, 0, 1, rig_root, 0, &g);
    rig_push_block(c, 0, 1, rig_root, 0);
    rig_ask(c, 0, 0, 1, 1);
    row_model_check(c, 0, rig_last(c, 0), &model);
    rig_ask(c, 0, 0, 2, 0);
    assert_true(rig_last(c, 0)->gone);
    rig_end(c);
}

static void an_ask_for_any_rows_gets_those_of_the_present_step(void **state)
{
    (void)state;
    static const struct row_model none;
    struct errmsg e = {""};
    struct rig *c = rig_begin(2);
    struct rig_grads g = rig_touch(0, RIG_KEYS, 1);
    rig_push_parts(c, 1, 0, 0, rig_root, 1, &g, 0, ROW_PARTS - 1);
    assert_int_equal(rig_ask_with(c, 1, 1, 1, true, 77, &e), ERR_OK);
    row_model_check(c, 1, rig_last(c, 1), &none);
    rig_end(c);
}

static void an_ask_without_keys_is_answered(void **state)
{
    (void)state;
    struct errmsg e = {""};
    uint32_t keys[RIG_LISTS] = {0};
    struct rig *c = rig_begin(1);
    Gradwire__RowsAsk m = GRADWIRE__ROWS_ASK__INIT;
    Gradwire__Generation g = quiet_generation(c->generation);
    m.generation = &g;
    m.number = 4;
    m.keys = keys;
    m.n_keys = RIG_LISTS;
    assert_int_equal(rig_ask_of(c, 0, 0, &m, NULL, 0, &e), ERR_OK);
    assert_int_equal(rig_last(c, 0)->number, 4);
    assert_int_equal(rig_last(c, 0)->bytes, 0);
    rig_end(c);
}

/* ---- asks that wait ---- */

static void an_ask_of_the_next_step_is_answered_behind_made(void **state)
{
    (void)state;
    static struct row_model model;
    struct rig *c = rig_begin(2);
    struct rig_grads g = rig_touch(0, RIG_KEYS, 1);
    memset(&model, 0, sizeof model);
    row_model_step(c, &model, &g, 1);
    rig_push_parts(c, 1, 0, 0, rig_root, 1, &g, 0, ROW_PARTS - 1);
    rig_ask(c, 1, 0, 3, 1);
    assert_int_equal(c->node[1].logged, 0);
    rig_push_parts(c, 1, 0, 0, rig_root, 1, &g, ROW_PARTS - 1, 1);
    assert_int_equal(c->node[1].logged, 2);
    assert_true(c->node[1].log[0].made);
    row_model_check(c, 1, &c->node[1].log[1], &model);
    assert_int_equal(c->node[1].log[1].number, 3);
    assert_int_equal(c->node[1].log[1].step, 1);
    rig_end(c);
}

static void the_two_latest_asks_wait_and_a_third_ends_the_oldest(void **state)
{
    (void)state;
    struct rig *c = rig_begin(2);
    for (uint64_t number = 1; number <= 3; number++)
        rig_ask(c, 1, 1, number, 1);
    rig_push_rows(c, 1, 0, rig_root, 1, &rig_nothing);
    const struct rig_node *n = &c->node[1];
    assert_int_equal(n->logged, 3);
    assert_int_equal(n->log[1].number, 2);
    assert_int_equal(n->log[2].number, 3);
    rig_push_rows(c, 1, 1, rig_root, 1, &rig_nothing); /* they are not answered again */
    assert_int_equal(n->logged, 4);
    rig_end(c);
}

static void asks_end_with_their_connection_and_their_generation(void **state)
{
    (void)state;
    struct rig *c = rig_begin(2);
    rig_ask(c, 1, 1, 1, 1);
    shard_peer_gone(c->node[1].shard, &c->node[1].peer[1]);
    rig_push_rows(c, 1, 0, rig_root, 1, &rig_nothing);
    assert_int_equal(c->node[1].logged, 1); /* to worker 0, made */
    rig_ask(c, 1, 0, 2, 2);
    rig_enter(c, GRADWIRE__ENTER_MODE__TAKEOVER);
    rig_hellos(c);
    rig_push_rows(c, 1, 1, rig_root, 1, &rig_nothing);
    assert_int_equal(c->node[1].logged, 1);
    assert_int_equal(c->node[1].log[0].type, FRAME_REPLY);
    rig_end(c);
}

/* A takeover may come while a cut holds a whole step: the step is made immediately, and answers no request from before. */
static void a_takeover_answers_no_ask_of_before(void **state)
{
    (void)state;
    struct rig *c = rig_begin(2);
    struct rig_node *n = &c->node[1];
    Gradwire__Cut cut = GRADWIRE__CUT__INIT;
    Gradwire__Generation generation = quiet_generation(c->generation);
    cut.generation = &generation;
    cut.cut = 1;
    shard_on_chief(n->shard, FRAME_CUT, &cut.base);
    rig_ask(c, 1, 0, 1, 1);
    rig_push_rows(c, 1, 0, rig_root, 1, &rig_nothing);
    quiet_enter(n->shard, &c->plan, &c->settings, ++c->generation, GRADWIRE__ENTER_MODE__TAKEOVER,
                0);
    assert_int_equal(rig_step(c, 1), 1);
    for (uint32_t i = 0; i < n->logged; i++)
        assert_int_equal(n->log[i].type, FRAME_REPLY);
    rig_end(c);
}

static void an_ask_beyond_the_next_step_is_refused(void **state)
{
    (void)state;
    struct errmsg e = {""};
    struct rig *c = rig_begin(1);
    assert_int_equal(rig_ask_with(c, 0, 0, 1, false, 2, &e), ERR_PROTO);
    assert_string_equal(e.text, "rows of step 2 are asked for, 0 is present");
    rig_end(c);
}

/* ---- pushes that name an ask ---- */

/* A push of no examples that touches no row, all parts of shard 0. */
static enum err push_by_ask(struct rig *c, uint64_t name, struct tree_node node, uint64_t ask,
                            struct errmsg *e)
{
    static const uint32_t counts[ROW_PARTS * RIG_LISTS];
    Gradwire__Generation g = quiet_generation(c->generation);
    Gradwire__RowsPush m = rig_push_head(&g, name, node, 0, 0, ROW_PARTS);
    m.ask = ask;
    return rig_send_push(c, 0, 0, &m, counts, sizeof counts, e);
}

static void may_name(struct rig *c, uint64_t ask, bool may)
{
    struct errmsg e = {""};
    char text[120];
    enum err err = push_by_ask(c, rig_step(c, 0), (struct tree_node){0, 0}, ask, &e);
    assert_int_equal(err, may ? ERR_OK : ERR_PROTO);
    (void)snprintf(
        text, sizeof text,
        "a push refers to request %llu, which is not one of the two latest of its connection",
        (unsigned long long)ask);
    assert_string_equal(e.text, may ? "" : text);
}

static void a_push_may_name_the_two_latest_asks_answered_or_not(void **state)
{
    (void)state;
    struct errmsg e;
    struct rig *c = rig_begin(1);
    may_name(c, 1, false);
    rig_ask(c, 0, 0, 1, 0);
    rig_ask(c, 0, 0, 2, 1); /* waits */
    may_name(c, 1, true);
    may_name(c, 2, true);
    assert_int_equal(rig_ask_once(c, 0, 0, 3, true, 0, true, &e), ERR_OK);
    may_name(c, 3, false); /* it is not kept, and ends none */
    may_name(c, 1, true);
    rig_ask(c, 0, 1, 4, 0); /* of another connection */
    may_name(c, 4, false);
    rig_ask(c, 0, 0, 5, 0);
    may_name(c, 1, false);
    may_name(c, 2, true);
    rig_push_rows(c, 0, 0, rig_root, 0, &rig_nothing);
    rig_push_block(c, 0, 0, rig_root, 0); /* ask 2 is answered by that */
    assert_int_equal(rig_step(c, 0), 1);
    may_name(c, 2, true);
    may_name(c, 5, true);
    rig_ask(c, 0, 0, 6, 1);
    may_name(c, 2, false);
    rig_end(c);
}

static void asks_that_pushes_name_end_with_their_connection(void **state)
{
    (void)state;
    struct rig *c = rig_begin(1);
    rig_ask(c, 0, 0, 1, 0);
    shard_peer_gone(c->node[0].shard, &c->node[0].peer[0]);
    rig_hello(c, 0, 0);
    may_name(c, 1, false);
    rig_ask(c, 0, 0, 2, 0);
    rig_enter(c, GRADWIRE__ENTER_MODE__TAKEOVER);
    rig_hellos(c);
    may_name(c, 2, false);
    rig_end(c);
}

/* Bits over all of the shard's keys of one list that lie in the part. Returns the bytes. */
static size_t put_bits(const struct rig *c, const bool *touched, struct bucket_range of,
                       uint8_t *out)
{
    uint64_t bits[RIG_KEYS / 64 + 1] = {0};
    uint32_t asked = 0, set = 0;
    for (uint32_t k = 0; k < RIG_KEYS; k++) {
        uint32_t bucket = key_bucket(c->key[k]);
        if (bucket < of.first || bucket >= of.end)
            continue;
        set += touched[k];
        bits[asked / 64] |= (uint64_t)touched[k] << (asked % 64);
        asked++;
    }
    size_t bytes = set == 0 || set == asked ? 0 : (asked + 63) / 64 * sizeof *bits;
    memcpy(out, bits, bytes);
    return bytes;
}

/* A section with bits in the place of keys. */
static size_t section_by_ask(const struct rig *c, const struct rig_grads *g, struct bucket_range of,
                             uint8_t *out)
{
    static uint8_t with_keys[1 << 14];
    uint32_t keys[RIG_LISTS];
    size_t bytes = rig_section(c, g, of, with_keys), at = sizeof keys;
    memcpy(keys, with_keys, sizeof keys);
    memcpy(out, keys, sizeof keys);
    for (uint32_t list = 0; list < RIG_LISTS; list++)
        at += put_bits(c, g->touched[list], of, out + at);
    size_t skip = sizeof keys + (keys[0] + keys[1]) * sizeof(uint64_t);
    return rig_put(out, at, with_keys + skip, bytes - skip);
}

/* Half of the nodes by an ask that ends before they are summed, some after a takeover. */
static void rows_pushed_by_an_ask_are_those_of_a_plain_loop(void **state)
{
    (void)state;
    static struct row_model model;
    static uint8_t body[1 << 15];
    struct rig *c = rig_begin(1);
    memset(&model, 0, sizeof model);
    for (uint64_t step = 0; step < 6; step++) {
        struct rig_grads leaf[RIG_LEAVES];
        struct errmsg e = {""};
        for (uint32_t i = 0; i < RIG_LEAVES; i++)
            leaf[i] = i % 2 ? rig_random_grads() : rig_touch(0, RIG_KEYS, (float)i);
        for (uint32_t i = 0; i < RIG_LEAVES; i++) {
            struct tree_node node = {0, i};
            Gradwire__Generation g = quiet_generation(c->generation);
            Gradwire__RowsPush m = rig_push_head(&g, step, node, 1, 0, ROW_PARTS);
            size_t bytes = 0;
            rig_ask(c, 0, 0, 10 * step + i + 1, step);
            m.ask = 10 * step + i + 1;
            for (uint32_t p = 0; p < ROW_PARTS; p++)
                bytes +=
                    section_by_ask(c, &leaf[i], bucket_part(bucket_shard(0, 1), p), body + bytes);
            assert_int_equal(rig_send_push(c, 0, 0, &m, body, bytes, &e), ERR_OK);
            memset(body, 0xff, bytes);
            if (i == 2 && step % 2) {
                rig_enter(c, GRADWIRE__ENTER_MODE__TAKEOVER);
                rig_hellos(c);
            }
        }
        rig_push_block(c, 0, step, rig_root, RIG_LEAVES);
        assert_int_equal(rig_step(c, 0), step + 1);
        struct rig_grads sum = row_model_sum(leaf, rig_root);
        row_model_step(c, &model, &sum, RIG_LEAVES);
        row_model_check_now(c, &model);
    }
    rig_end(c);
}

/* ---- ssp ---- */

static void at_clock(struct rig *c, uint32_t worker, uint64_t clock, bool enter)
{
    struct errmsg e = {""};
    Gradwire__Generation g = quiet_generation(c->generation);
    Gradwire__Tick tick = GRADWIRE__TICK__INIT;
    Gradwire__Pull pull = GRADWIRE__PULL__INIT;
    struct rig_node *n = &c->node[0];
    tick.generation = pull.generation = &g;
    tick.entry = pull.entry = 1;
    tick.enter = true;
    pull.any = pull.bounded = true;
    pull.clock = clock;
    assert_int_equal(shard_on_worker(n->shard, &n->peer[worker], enter ? FRAME_TICK : FRAME_PULL,
                                     enter ? &tick.base : &pull.base, &e),
                     ERR_OK);
}

static enum err ask_at(struct rig *c, uint32_t worker, uint64_t number, uint64_t clock,
                       struct errmsg *e)
{
    uint32_t keys[RIG_LISTS] = {1, 0};
    Gradwire__RowsAsk m = GRADWIRE__ROWS_ASK__INIT;
    Gradwire__Generation g = quiet_generation(c->generation);
    m.generation = &g;
    m.number = number;
    m.any = m.bounded = true;
    m.clock = clock;
    m.keys = keys;
    m.n_keys = RIG_LISTS;
    return rig_ask_of(c, 0, worker, &m, c->key, sizeof *c->key, e);
}

static uint32_t answers(const struct rig *c)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < c->node[0].logged; i++)
        n += c->node[0].log[i].type == FRAME_ROWS;
    return n;
}

/* Staleness 1: a read at clock c waits while somebody is below c - 1. */
static void an_ask_at_a_clock_waits_as_a_pull_does(void **state)
{
    (void)state;
    struct errmsg e = {""};
    struct rig *c = rig_new(1);
    c->settings.update = GRADWIRE__UPDATE__SSP;
    c->settings.staleness = 1;
    rig_enter(c, GRADWIRE__ENTER_MODE__INIT);
    rig_hellos(c);
    at_clock(c, 0, 0, true);
    at_clock(c, 1, 0, true);
    assert_int_equal(ask_at(c, 0, 1, 1, &e), ERR_OK);
    assert_int_equal(answers(c), 1);
    at_clock(c, 0, 1, false);
    assert_int_equal(ask_at(c, 0, 2, 2, &e), ERR_OK); /* ahead of its pull */
    at_clock(c, 0, 2, false);
    assert_int_equal(answers(c), 1); /* worker 1 is at 0 */
    at_clock(c, 1, 1, false);
    assert_int_equal(answers(c), 2);
    assert_int_equal(ask_at(c, 0, 3, 3, &e), ERR_OK);
    assert_int_equal(answers(c), 2);
    Gradwire__Gone gone = GRADWIRE__GONE__INIT;
    Gradwire__Generation g = quiet_generation(c->generation);
    gone.generation = &g;
    gone.worker = 1;
    gone.incarnation = 3;
    at_clock(c, 0, 3, false);
    assert_int_equal(answers(c), 2);
    shard_on_chief(c->node[0].shard, FRAME_GONE, &gone.base); /* it is waited for no longer */
    assert_int_equal(answers(c), 3);
    rig_end(c);
}

static void an_ask_at_a_clock_is_ssps_alone(void **state)
{
    (void)state;
    for (int sync = 0; sync < 2; sync++) {
        struct errmsg e = {""};
        struct rig *c = sync ? rig_begin(1) : rig_begin_async(1);
        assert_int_equal(ask_at(c, 0, 1, 0, &e), ERR_PROTO);
        assert_string_equal(e.text,
                            "a request for rows with a clock, but training.update is not ssp");
        rig_end(c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_the_present_step_are_read_while_the_next_is_made),
        cmocka_unit_test(rows_of_the_step_before_are_there_until_a_part_of_the_next_is_made),
        cmocka_unit_test(rows_of_the_step_before_an_empty_one_are_those_of_now),
        cmocka_unit_test(an_ask_for_any_rows_gets_those_of_the_present_step),
        cmocka_unit_test(an_ask_without_keys_is_answered),
        cmocka_unit_test(an_ask_of_the_next_step_is_answered_behind_made),
        cmocka_unit_test(the_two_latest_asks_wait_and_a_third_ends_the_oldest),
        cmocka_unit_test(asks_end_with_their_connection_and_their_generation),
        cmocka_unit_test(a_takeover_answers_no_ask_of_before),
        cmocka_unit_test(an_ask_beyond_the_next_step_is_refused),
        cmocka_unit_test(a_push_may_name_the_two_latest_asks_answered_or_not),
        cmocka_unit_test(asks_that_pushes_name_end_with_their_connection),
        cmocka_unit_test(rows_pushed_by_an_ask_are_those_of_a_plain_loop),
        cmocka_unit_test(an_ask_at_a_clock_waits_as_a_pull_does),
        cmocka_unit_test(an_ask_at_a_clock_is_ssps_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
