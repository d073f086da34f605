/* Rows and cuts: steps that a cut holds, and what waits while too much is kept for one that is being copied. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "tests/lib/row_model.h"

static void complete_parts_wait_while_a_cut_holds_the_step(void **state)
{
    (void)state;
    static struct row_model model;
    struct rig *c = rig_begin(2);
    struct rig_grads g = rig_touch(0, RIG_KEYS, 1);
    Gradwire__Cut cut = GRADWIRE__CUT__INIT;
    Gradwire__CutEnded ended = GRADWIRE__CUT_ENDED__INIT;
    Gradwire__Generation generation = quiet_generation(c->generation);
    cut.generation = ended.generation = &generation;
    cut.cut = ended.cut = 1;
    shard_on_chief(c->node[1].shard, FRAME_CUT, &cut.base);
    rig_push_rows(c, 1, 0, rig_root, 1, &g);
    assert_int_equal(rig_step(c, 1), 0);
    shard_on_chief(c->node[1].shard, FRAME_CUT_ENDED, &ended.base);
    assert_int_equal(rig_step(c, 1), 1);
    memset(&model, 0, sizeof model);
    row_model_step(c, &model, &g, 1);
    rig_ask(c, 1, 0, 1, 1);
    row_model_check(c, 1, rig_last(c, 1), &model);
    rig_end(c);
}

/* A part in the middle of the step that no boundary is: the cut waits for the step's end. */
static void a_cut_does_not_stop_a_step_of_which_parts_are_made(void **state)
{
    (void)state;
    struct rig *c = rig_begin(2);
    Gradwire__Cut cut = GRADWIRE__CUT__INIT;
    Gradwire__Generation generation = quiet_generation(c->generation);
    cut.generation = &generation;
    cut.cut = 1;
    rig_push_parts(c, 1, 0, 0, rig_root, 1, &rig_nothing, 0, 1);
    shard_on_chief(c->node[1].shard, FRAME_CUT, &cut.base);
    rig_push_parts(c, 1, 0, 0, rig_root, 1, &rig_nothing, 1, ROW_PARTS - 1);
    assert_int_equal(rig_step(c, 1), 1);
    rig_push_rows(c, 1, 1, rig_root, 1, &rig_nothing);
    assert_int_equal(rig_step(c, 1), 1); /* held */
    rig_end(c);
}

/* ---- a cut that is being copied ---- */

/* Shard 1's part of a cut of step `step`; no row of it is out yet. Any row that is kept for it is too much. */
static void copy_cut(struct rig *c, uint64_t number, uint64_t step)
{
    struct shard *s = c->node[1].shard;
    Gradwire__Generation g = quiet_generation(c->generation);
    Gradwire__Cut cut = GRADWIRE__CUT__INIT;
    Gradwire__CutAt at = GRADWIRE__CUT_AT__INIT;
    cut.generation = at.generation = &g;
    cut.cut = at.cut = number;
    at.step = step;
    s->rows.beside = (struct shard_beside){.least_bytes = 1};
    shard_on_chief(s, FRAME_CUT, &cut.base);
    shard_on_chief(s, FRAME_CUT_AT, &at.base);
    assert_true(s->rows.tables.cut.on);
}

/* Parts of step 1 wait for the copy of a cut of it. */
static struct rig *held_by_a_cut(const struct rig_grads *g)
{
    struct rig *c = rig_begin(2);
    struct shard *s = c->node[1].shard;
    rig_make_step(c, 0, g);
    copy_cut(c, 1, 1);
    assert_false(shard_held(s));
    rig_push_rows(c, 1, 1, rig_root, 1, g);
    assert_int_equal(rig_step(c, 1), 1);
    assert_true(s->sync.parts_made > 0 && s->sync.parts_made < ROW_PARTS);
    assert_true(shard_held(s) && shard_reads(s));
    assert_int_equal(shard_facts(s).holds, 1);
    return c;
}

static void parts_wait_where_too_much_is_kept_for_a_cut_and_go_on_when_it_is_copied(void **state)
{
    (void)state;
    static struct row_model model;
    struct rig_grads g = rig_touch(0, RIG_KEYS, 1);
    struct rig *c = held_by_a_cut(&g);
    struct shard *s = c->node[1].shard;
    char why[160];
    shard_waits_for(s, why, sizeof why);
    assert_non_null(strstr(why, "step 1: waiting until checkpoint 1 is copied"));
    while (rig_step(c, 1) == 1)
        assert_true(shard_copy(s));
    assert_false(shard_held(s));
    while (shard_copy(s))
        ;
    assert_true(shard_facts(s).kept_rows > 0 && shard_facts(s).kept_most_bytes > 0);
    memset(&model, 0, sizeof model);
    row_model_step(c, &model, &g, 1);
    row_model_step(c, &model, &g, 1);
    rig_ask(c, 1, 0, 1, 2);
    row_model_check(c, 1, rig_last(c, 1), &model);
    rig_end(c);
}

/* Given up; the next one, which has to wait for the step's end; a disk that failed; another chief. */
static void parts_that_wait_for_a_cut_go_on_when_it_is_over(void **state)
{
    (void)state;
    struct rig_grads g = rig_touch(0, RIG_KEYS, 1);
    for (int how = 0; how < 4; how++) {
        struct rig *c = held_by_a_cut(&g);
        struct shard *s = c->node[1].shard;
        Gradwire__Generation generation = quiet_generation(c->generation);
        Gradwire__CutEnded ended = GRADWIRE__CUT_ENDED__INIT;
        Gradwire__Cut cut = GRADWIRE__CUT__INIT;
        ended.generation = cut.generation = &generation;
        ended.cut = 1;
        cut.cut = 2;
        if (how == 0)
            shard_on_chief(s, FRAME_CUT_ENDED, &ended.base);
        else if (how == 1)
            shard_on_chief(s, FRAME_CUT, &cut.base);
        else if (how == 2)
            shard_on_saved(s, 1, NULL, NULL, "No space left on device");
        else
            rig_enter(c, GRADWIRE__ENTER_MODE__TAKEOVER);
        assert_int_equal(rig_step(c, 1), 2);
        assert_false(shard_held(s));
        assert_int_equal(shard_cut_holds(s), how == 1);
        rig_end(c);
    }
}

static void async_reads_nothing_where_too_much_is_kept_for_a_cut(void **state)
{
    (void)state;
    struct rig *c = rig_begin_async(2);
    struct shard *s = c->node[1].shard;
    struct rig_grads g = rig_touch(0, RIG_KEYS, 1);
    rig_push_rows(c, 1, 0, rig_batch, 1, &g);
    copy_cut(c, 1, 1);
    assert_true(shard_reads(s));
    rig_push_rows(c, 1, 1, rig_batch, 1, &g);
    assert_int_equal(rig_step(c, 1), 2);
    assert_false(shard_reads(s));
    while (!shard_reads(s))
        assert_true(shard_copy(s));
    assert_int_equal(shard_facts(s).holds, 1);
    assert_false(shard_held(s));
    rig_end(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(complete_parts_wait_while_a_cut_holds_the_step),
        cmocka_unit_test(a_cut_does_not_stop_a_step_of_which_parts_are_made),
        cmocka_unit_test(parts_wait_where_too_much_is_kept_for_a_cut_and_go_on_when_it_is_copied),
        cmocka_unit_test(parts_that_wait_for_a_cut_go_on_when_it_is_over),
        cmocka_unit_test(async_reads_nothing_where_too_much_is_kept_for_a_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
