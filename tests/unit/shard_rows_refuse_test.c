/* The pushes of rows and requests for rows that a shard refuses, and the words of each refusal. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "tests/lib/rig.h"

static void refuse_push(struct rig *c, const Gradwire__RowsPush *m, const void *body,
                        uint64_t bytes, const char *text)
{
    struct errmsg e = {""};
    assert_int_equal(rig_send_push(c, 0, 0, m, body, bytes, &e), ERR_PROTO);
    assert_string_equal(e.text, text);
    assert_int_equal(c->node[0].logged, 0);
}

static void a_push_of_rows_that_does_not_fit_is_refused_by_name(void **state)
{
    (void)state;
    struct rig *c = rig_begin(1);
    Gradwire__Generation g = quiet_generation(c->generation);
    Gradwire__RowsPush m = rig_push_head(&g, 0, rig_root, 1, 10, 7);
    const uint32_t empty[2] = {0, 0};
    refuse_push(c, &m, empty, sizeof empty, "parts 10 + 7 are not within the 16 of a shard");
    m = rig_push_head(&g, 0, rig_root, 1, 3, 0);
    refuse_push(c, &m, empty, sizeof empty, "parts 3 + 0 are not within the 16 of a shard");
    m = rig_push_head(&g, 0, (struct tree_node){0, 4}, 1, 0, 1);
    refuse_push(c, &m, empty, sizeof empty, "node (0, 4) is not in a tree of 4 leaves");
    m = rig_push_head(&g, 0, rig_root, 1, 0, 1);
    refuse_push(c, &m, empty, 0, "0 bytes of rows in one push; the limits are 1 to 1073741824");
    refuse_push(c, &m, empty, (UINT64_C(1) << 30) + 8,
                "1073741832 bytes of rows in one push; the limits are 1 to 1073741824");
    m = rig_push_head(&g, 1, rig_root, 1, 0, 1);
    struct errmsg e = {""};
    assert_int_equal(rig_send_push(c, 0, 0, &m, empty, sizeof empty, &e), ERR_PROTO);
    assert_string_equal(e.text, "a push of step 1; the running step is 0");
    rig_end(c);
}

static void a_body_of_rows_that_does_not_parse_is_refused_by_name(void **state)
{
    (void)state;
    struct rig *c = rig_begin(1);
    Gradwire__Generation g = quiet_generation(c->generation);
    const Gradwire__RowsPush m = rig_push_head(&g, 0, rig_root, 1, 0, 1);
    uint64_t body[16] = {0}; /* counts; keys; table a, table b: 5 floats a key of list 0 */
    refuse_push(c, &m, body, 4, "4 bytes are left for the counts of 2 lists");
    refuse_push(c, &m, body, 16, "8 bytes are left over after part 0");
    uint32_t counts[2] = {2, 0};
    memcpy(body, counts, sizeof counts);
    body[1] = 1;
    body[2] = 2;
    refuse_push(c, &m, body, 56, "56 bytes are left for a part of 64");
    body[2] = 1;
    refuse_push(c, &m, body, 64, "keys 0 and 1 of list 0 do not ascend");
    body[2] = UINT64_C(256) << 52; /* the first bucket of part 1 */
    refuse_push(c, &m, body, 64,
                "key 1 of list 0 is of bucket 256: from 0 on, below 256 are expected");
    counts[0] = UINT32_MAX;
    memcpy(body, counts, sizeof counts);
    refuse_push(c, &m, body, 64, "64 bytes are left for a part of 120259084272");
    const Gradwire__RowsPush second = rig_push_head(&g, 0, rig_root, 1, 1, 1);
    counts[0] = 1;
    memcpy(body, counts, sizeof counts);
    refuse_push(c, &second, body, 40,
                "key 0 of list 0 is of bucket 0: from 256 on, below 512 are expected");
    rig_end(c);
}

/* Bytes of a good push are changed: it is taken or refused, and a good one is still taken behind it. */
static void bodies_of_noise_break_nothing(void **state)
{
    (void)state;
    static uint8_t body[1 << 13], changed[1 << 13];
    struct rig_grads g = rig_touch(0, RIG_KEYS, 1);
    uint32_t refused = 0;
    srand(8);
    for (int round = 0; round < 400; round++) {
        struct rig *c = round % 2 ? rig_begin_async(1) : rig_begin(1);
        struct errmsg e = {""};
        Gradwire__Generation generation = quiet_generation(c->generation);
        Gradwire__RowsPush m = rig_push_head(&generation, 0, rig_batch, 1, 0, ROW_PARTS);
        size_t bytes = 0;
        for (uint32_t p = 0; p < ROW_PARTS; p++)
            bytes += rig_section(c, &g, bucket_part(bucket_shard(0, 1), p), body + bytes);
        assert_true(bytes <= sizeof body);
        memcpy(changed, body, bytes);
        for (int i = rand() % 4; i >= 0; i--)
            changed[(size_t)rand() % bytes] = (uint8_t)rand();
        size_t left = rand() % 3 ? bytes : (size_t)rand() % bytes;
        enum err err = rig_send_push(c, 0, 0, &m, changed, left, &e);
        assert_true(err == ERR_OK || err == ERR_PROTO);
        refused += err == ERR_PROTO;
        assert_int_equal(rig_send_push(c, 0, 0, &m, body, bytes, &e), ERR_OK);
        rig_end(c);
    }
    assert_true(refused > 100 && refused < 400);
}

static void refuse_ask(struct rig *c, const uint32_t *keys, size_t lists, const void *mixed,
                       uint64_t bytes, const char *text)
{
    struct errmsg e = {""};
    Gradwire__RowsAsk m = GRADWIRE__ROWS_ASK__INIT;
    Gradwire__Generation g = quiet_generation(c->generation);
    m.generation = &g;
    m.keys = (uint32_t *)keys;
    m.n_keys = lists;
    assert_int_equal(rig_ask_of(c, 1, 0, &m, mixed, bytes, &e), ERR_PROTO);
    assert_string_equal(e.text, text);
    assert_int_equal(c->node[1].logged, 0);
}

static void an_ask_that_does_not_fit_is_refused_by_name(void **state)
{
    (void)state;
    struct rig *c = rig_begin(2); /* shard 1 has the upper half of the keys */
    const uint64_t high = UINT64_C(1) << 63, wrong[2] = {high + 1, high}, low = 1;
    const uint32_t none[RIG_LISTS] = {0, 0}, two[RIG_LISTS] = {2, 0}, one[RIG_LISTS] = {0, 1};
    const uint32_t many[RIG_LISTS] = {UINT32_C(1) << 26, UINT32_C(1) << 26};
    refuse_ask(c, none, 1, NULL, 0, "keys of 1 lists; the plan has 2");
    refuse_ask(c, none, 2, wrong, 8, "8 body bytes do not fit 0 keys");
    refuse_ask(c, two, 2, wrong, 8, "8 body bytes do not fit 2 keys");
    refuse_ask(c, two, 2, wrong, 16, "keys 0 and 1 of list 0 do not ascend");
    refuse_ask(c, one, 2, &low, 8,
               "key 0 of list 1 is of bucket 0: from 2048 on, below 4096 are expected");
    refuse_ask(c, many, 2, NULL, UINT64_C(1) << 30,
               "the rows of 134217728 keys in one answer: it may have 1073741824 bytes");
    rig_end(c);
}

static void rows_in_a_job_without_tables_are_refused(void **state)
{
    (void)state;
    struct errmsg e = {""};
    bool wanted;
    struct rig *c = rig_new(1);
    mem_free(c->layout.rows);
    c->layout.rows = NULL;
    rig_plan_anew(c);
    rig_enter(c, GRADWIRE__ENTER_MODE__INIT);
    rig_hellos(c);
    Gradwire__Generation g = quiet_generation(c->generation);
    const Gradwire__RowsPush m = rig_push_head(&g, 0, rig_root, 1, 0, 1);
    assert_int_equal(shard_rows_fits(c->node[0].shard, FRAME_ROWS_PUSH, &m.base, 8, &wanted, &e),
                     ERR_PROTO);
    assert_string_equal(e.text, "a ROWS_PUSH in a job without tables");
    rig_end(c);
}

static void rows_of_another_generation_are_refused_and_the_connection_stays(void **state)
{
    (void)state;
    struct errmsg e = {""};
    const uint32_t empty[2] = {0, 0};
    struct rig *c = rig_begin(1);
    Gradwire__Generation g = quiet_generation(c->generation + 1);
    const Gradwire__RowsPush m = rig_push_head(&g, 0, rig_root, 1, 99, 99);
    assert_int_equal(rig_send_push(c, 0, 0, &m, empty, sizeof empty, &e), ERR_OK);
    assert_int_equal(rig_last(c, 0)->type, FRAME_REFUSE);
    rig_end(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_push_of_rows_that_does_not_fit_is_refused_by_name),
        cmocka_unit_test(a_body_of_rows_that_does_not_parse_is_refused_by_name),
        cmocka_unit_test(bodies_of_noise_break_nothing),
        cmocka_unit_test(an_ask_that_does_not_fit_is_refused_by_name),
        cmocka_unit_test(rows_in_a_job_without_tables_are_refused),
        cmocka_unit_test(rows_of_another_generation_are_refused_and_the_connection_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
