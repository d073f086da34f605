/* The microbatches of a task whose rows are asked for: of its batch, or, in an extra step, those that were dropped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "worker/step/gradient.h"
#include "tests/lib/gathered.h"

enum { ROWS = 200, FEATURES = 2, BATCH = 20, LEAVES = 4, DEPTH = 8 };

struct fixture {
    struct dataset data;
    struct order order;
    struct row_layout layout;
    struct loader *loader;
    struct batch batch;
    struct dataset_source source;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    struct errmsg e;
    f->data = (struct dataset){.rows = ROWS, .features = FEATURES, .scale = 1};
    f->data.x = calloc(ROWS * FEATURES, 1);
    f->data.labels = calloc(ROWS, 1);
    f->order = (struct order){.rows = ROWS, .batch_size = BATCH, .microbatches = LEAVES};
    f->layout = (struct row_layout){
        .lists = 1, .tables = 1, .table = {{.name = "a", .dim = 1, .init = INIT_ZEROS}}};
    assert_int_equal(
        loader_new(&f->loader, source_over(&f->source, &f->data, &f->order), DEPTH, &e), ERR_OK);
    batch_init(&f->batch, &f->layout);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    batch_release(&f->batch, f->loader);
    batch_close(&f->batch);
    loader_free(f->loader);
    free(f->data.x);
    free(f->data.labels);
    free(f);
    return 0;
}

static struct session_task task_of(uint64_t step, uint64_t batch, const struct epochs_work *work)
{
    return (struct session_task){.kind = TASK_COMPUTE,
                                 .name = step,
                                 .batch = batch,
                                 .work = work,
                                 .first = {0},
                                 .count = {LEAVES},
                                 .runs = 1};
}

static void assert_leaf(const struct fixture *f, uint32_t leaf, uint64_t id, uint32_t of)
{
    const struct leaf *m = batch_leaf(&f->batch, leaf);
    assert_true(m->id == id && m->leaf == of && m->n == BATCH / LEAVES);
}

static void an_extra_step_has_the_microbatches_that_were_dropped(void **state)
{
    struct fixture *f = *state;
    struct errmsg e;
    const struct epochs_work work = {.redo = true,
                                     .count = 3,
                                     .leaves = LEAVES,
                                     .leaf = {1 * LEAVES + 2, 1 * LEAVES + 3, 7 * LEAVES}};
    const struct session_task extra = task_of(12, 10, &work), regular = task_of(13, 10, NULL);
    for (int again = 0; again < 3; again++) { /* all of it is given back */
        assert_int_equal(batch_take(&f->batch, f->loader, &extra, &e), ERR_OK);
        assert_leaf(f, 0, 1, 2);
        assert_leaf(f, 1, 1, 3);
        assert_leaf(f, 2, 7, 0);
        assert_int_equal(batch_leaf(&f->batch, 3)->n, 0); /* behind the list's end */
    }
    assert_true(batch_is(&f->batch, &extra));
    assert_false(batch_is(&f->batch, &regular)); /* the next epoch's first has the same number */
    assert_int_equal(batch_take(&f->batch, f->loader, &regular, &e), ERR_OK);
    for (uint32_t leaf = 0; leaf < LEAVES; leaf++)
        assert_leaf(f, leaf, 10, leaf);
    batch_release(&f->batch, f->loader);
    assert_false(batch_is(&f->batch, &regular));
}

static void a_regular_step_where_dropped_ones_are_trained_again_has_its_own(void **state)
{
    struct fixture *f = *state;
    struct errmsg e;
    const struct epochs_work work = {.leaves = LEAVES, .leaf = {2, 3}};
    const struct session_task t = task_of(9, 8, &work);
    assert_int_equal(batch_take(&f->batch, f->loader, &t, &e), ERR_OK);
    for (uint32_t leaf = 0; leaf < LEAVES; leaf++)
        assert_leaf(f, leaf, 8, leaf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_extra_step_has_the_microbatches_that_were_dropped, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(
            a_regular_step_where_dropped_ones_are_trained_again_has_its_own, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
