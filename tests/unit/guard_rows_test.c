/* Async: what a worker does with the gradients of rows of a batch before they leave. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/rows/key.h"
#include "worker/driver/guard.h"

enum { ELEMS = 4, KEYS = 3 };

/* One tensor of 4, and two tables that share a list: 3 keys, of two buckets. */
struct fixture {
    struct layout layout;
    struct plan plan;
    struct row_layout rows_layout;
    struct row_sums rows;
    uint64_t mixed[KEYS];
    float a[KEYS * 2], b[KEYS], value[ELEMS];
    struct gradient_node node;
    struct guard guard;
};

static void begin(struct fixture *f, float clip)
{
    struct tensor t = {.name = "w", .rank = 1, .shape = {ELEMS}, .init = INIT_ZEROS};
    struct errmsg e;
    const uint32_t one = 1;
    *f = (struct fixture){.mixed = {5, 6, UINT64_MAX - 9}};
    assert_int_equal(layout_add(&f->layout, &t, &e), ERR_OK);
    assert_int_equal(plan_init(&f->plan, ELEMS, &one, 1, &e), ERR_OK);
    f->rows_layout =
        (struct row_layout){.lists = 1, .tables = 2, .table = {{"a", .dim = 2}, {"b", .dim = 1}}};
    f->rows = (struct row_sums){.layout = &f->rows_layout,
                                .list = {{.keys = KEYS, .room = KEYS, .mixed = f->mixed}},
                                .g = {f->a, f->b}};
    for (int i = 0; i < KEYS; i++)
        f->a[2 * i] = f->a[2 * i + 1] = f->b[i] = 2;
    for (int i = 0; i < ELEMS; i++)
        f->value[i] = 2;
    f->node = (struct gradient_node){.examples = 2, .value = f->value, .rows = &f->rows};
    f->guard = (struct guard){&f->layout, &f->plan, clip};
}

static void end(struct fixture *f)
{
    plan_close(&f->plan);
    layout_close(&f->layout);
}

/* 13 times 2 over 2 examples: the norm of the mean is the root of 13. */
static void the_norm_of_a_batch_is_of_its_rows_too(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f, 3.7f);
    assert_false(guard_clip(&f.guard, &f.node));
    f.guard.clip_norm = (float)(sqrt(13) / 2);
    assert_true(guard_clip(&f.guard, &f.node));
    assert_float_equal(f.value[3], 1, 1e-6);
    assert_float_equal(f.a[5], 1, 1e-6);
    assert_float_equal(f.b[2], 1, 1e-6);
    assert_false(guard_clip(&f.guard, &f.node) && f.b[2] < 0.999f);
    end(&f);
}

static void a_row_that_is_not_finite_is_found_and_named(void **state)
{
    (void)state;
    static const float value[] = {NAN, -INFINITY, 1e20f};
    for (int i = 0; i < 3; i++) {
        struct fixture f;
        char what[160], wanted[160];
        begin(&f, 0);
        assert_false(guard_finds(&f.guard, &f.node, what, sizeof what));
        f.b[1] = value[i];
        assert_true(guard_finds(&f.guard, &f.node, what, sizeof what));
        (void)snprintf(wanted, sizeof wanted, "the gradient of key %llu of table b is %s",
                       (unsigned long long)key_unmix(6), i < 2 ? "not finite" : "absurdly large");
        assert_string_equal(what, wanted);
        end(&f);
    }
}

/* Nothing of it reaches a row. */
static void a_batch_that_is_emptied_has_no_rows(void **state)
{
    (void)state;
    struct fixture f;
    char what[160];
    begin(&f, 1);
    f.a[0] = NAN;
    guard_empty(&f.guard, &f.node);
    assert_int_equal(f.rows.list[0].keys, 0);
    assert_int_equal(f.node.examples, 0);
    assert_false(guard_finds(&f.guard, &f.node, what, sizeof what));
    assert_false(guard_clip(&f.guard, &f.node));
    end(&f);
}

static void assert_blamed(const struct fixture *f, const float *w, const char *wanted)
{
    char what[192];
    guard_blame(&f->guard, w, &f->node, 1, what, sizeof what);
    assert_string_equal(what, wanted);
}

/* The weights first: where one of them is not finite, no gradient is. */
static void a_loss_is_blamed_on_a_weight_or_on_a_gradient(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f, 0);
    float *w = calloc(f.layout.elems, sizeof *w); /* the tensor, and the gap behind it */
    assert_non_null(w);
    assert_blamed(&f, w, "the loss is not finite");
    f.b[0] = INFINITY;
    char of_row[128];
    (void)snprintf(of_row, sizeof of_row,
                   "the loss is not finite; the gradient of key %llu of table b is not finite",
                   (unsigned long long)key_unmix(5));
    assert_blamed(&f, w, of_row);
    f.value[1] = NAN;
    assert_blamed(&f, w, "the loss is not finite; the gradient of w is not finite");
    w[ELEMS - 1] = NAN;
    assert_blamed(&f, w, "the loss is not finite, nor is the tensor w");
    free(w);
    end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_norm_of_a_batch_is_of_its_rows_too),
        cmocka_unit_test(a_row_that_is_not_finite_is_found_and_named),
        cmocka_unit_test(a_batch_that_is_emptied_has_no_rows),
        cmocka_unit_test(a_loss_is_blamed_on_a_weight_or_on_a_gradient),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
