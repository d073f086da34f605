/* A shard whose rows may take no more memory (ps.memory): what it says, and to whom. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/rig.h"

enum { FIXED = RIG_TABLES * ROW_BUDGET_TABLE_BYTES };

/* One shard with so many bytes for its rows. */
static struct rig *begin(uint32_t bytes, enum row_full full, bool async)
{
    struct rig *c = rig_new(1);
    c->settings.update = async ? GRADWIRE__UPDATE__ASYNC : GRADWIRE__UPDATE__SYNC;
    c->node[0].shard->rows.memory_unit = 1;
    c->settings.row_memory = bytes;
    c->settings.row_full = full;
    rig_enter(c, GRADWIRE__ENTER_MODE__INIT);
    return c;
}

/* All of its parts in one push; more than there is room for. */
static enum err push(struct rig *c, const struct rig_grads *g, struct tree_node node)
{
    static uint8_t body[1 << 16];
    Gradwire__Generation generation = quiet_generation(c->generation);
    struct errmsg e;
    size_t bytes = 0;
    for (uint32_t p = 0; p < ROW_PARTS; p++)
        bytes += rig_section(c, g, bucket_part(bucket_shard(0, 1), p), body + bytes);
    const Gradwire__RowsPush m = rig_push_head(&generation, 0, node, 1, 0, ROW_PARTS);
    return rig_send_push(c, 0, 0, &m, body, bytes, &e);
}

static void a_full_shard_tells_the_chief_to_end_the_job(void **state)
{
    (void)state;
    for (int async = 0; async < 2; async++) {
        struct rig *c = begin(FIXED + 1, ROW_FULL_STOP, async);
        rig_hellos(c);
        struct rig_grads g = rig_touch(0, RIG_KEYS, 1);
        assert_string_equal(c->node[0].entered_error, "");
        assert_int_not_equal(push(c, &g, async ? rig_batch : rig_root), ERR_OK);
        assert_non_null(strstr(c->node[0].entered_error, "no room for another row: shard 0 has"));
        assert_non_null(strstr(c->node[0].entered_error, "that ps.memory ("));
        rig_end(c);
    }
}

static void without_a_bound_nothing_is_said(void **state)
{
    (void)state;
    struct rig *c = begin(0, ROW_FULL_STOP, false);
    rig_hellos(c);
    struct rig_grads g = rig_touch(0, RIG_KEYS, 1);
    assert_int_equal(push(c, &g, rig_root), ERR_OK);
    assert_string_equal(c->node[0].entered_error, "");
    rig_end(c);
}

static void a_bound_without_room_for_a_row_is_refused_at_the_start(void **state)
{
    (void)state;
    struct rig *c = begin(FIXED, ROW_FULL_EVICT, false);
    assert_non_null(strstr(c->node[0].entered_error, "its tables take 24576 without any row"));
    assert_non_null(strstr(c->node[0].entered_error, "raise ps.memory"));
    rig_end(c);
}

/* The chief that takes over has another job file: its bound and what is done then hold from there on. */
static void a_takeover_brings_its_own_bound(void **state)
{
    (void)state;
    struct rig *c = begin(FIXED + 1, ROW_FULL_STOP, false);
    rig_hellos(c);
    struct rig_grads g = rig_touch(0, RIG_KEYS, 1);
    assert_int_not_equal(push(c, &g, rig_root), ERR_OK);
    c->settings.row_full = ROW_FULL_REFUSE;
    rig_enter(c, GRADWIRE__ENTER_MODE__TAKEOVER);
    rig_hellos(c);
    assert_int_equal(push(c, &g, rig_root), ERR_OK);
    assert_string_equal(c->node[0].entered_error, "");
    const struct row_tables *t = &c->node[0].shard->rows.tables;
    assert_true(row_tables_counts(t, 0).refused + row_tables_counts(t, 1).refused > 0);
    assert_true(row_tables_bytes(t) <= FIXED + 1);
    c->settings.row_memory = 0;
    rig_enter(c, GRADWIRE__ENTER_MODE__TAKEOVER);
    assert_int_equal(t->budget.bytes, 0);
    rig_end(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_shard_tells_the_chief_to_end_the_job),
        cmocka_unit_test(without_a_bound_nothing_is_said),
        cmocka_unit_test(a_bound_without_room_for_a_row_is_refused_at_the_start),
        cmocka_unit_test(a_takeover_brings_its_own_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
