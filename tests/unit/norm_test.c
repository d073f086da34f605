/* The norm: which elements count, in which order, and what is found broken. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include "common/parameters/norm.h"
#include "common/base/rng.h"

enum { ELEMS = 96 };

/* a: [0, 32) weight, mean: [32, 64) statistic, b: [64, 96) weight, its last 16 a gap */
static void open_layout(struct layout *l)
{
    struct errmsg e;
    struct tensor a = {.name = "a", .rank = 1, .shape = {32}}, mean = a, b = a;
    memcpy(mean.name, "mean", 5);
    mean.role = TENSOR_STATISTIC;
    memcpy(b.name, "b", 2);
    b.shape[0] = 16 + 1;
    *l = (struct layout){0};
    assert_int_equal(layout_add(l, &a, &e), ERR_OK);
    assert_int_equal(layout_add(l, &mean, &e), ERR_OK);
    assert_int_equal(layout_add(l, &b, &e), ERR_OK);
    assert_int_equal(l->elems, ELEMS);
}

static void fill(float *g)
{
    for (uint32_t i = 0; i < ELEMS; i++)
        g[i] = rng_unit(3, i) - 0.5f;
}

static double squares(const float *g, uint32_t from, uint32_t to)
{
    double sum = 0;
    for (uint32_t i = from; i < to; i++)
        sum += (double)g[i] * (double)g[i];
    return sum;
}

static void weights_count_and_statistics_do_not(void **state)
{
    (void)state;
    struct layout l;
    float g[ELEMS];
    open_layout(&l);
    fill(g);
    struct norm_sums all = norm_squares(&l, 0, g, ELEMS);
    assert_true(fabs(all.weights - squares(g, 0, 32) - squares(g, 64, 96)) < 1e-12);
    assert_true(fabs(all.statistics - squares(g, 32, 64)) < 1e-12);
    struct norm_sums part = norm_squares(&l, 20, g + 20, 50);
    assert_true(fabs(part.weights - squares(g, 20, 32) - squares(g, 64, 70)) < 1e-12);
    assert_true(fabs(part.statistics - squares(g, 32, 64)) < 1e-12);
    layout_close(&l);
}

static void the_first_broken_tensor_is_named(void **state)
{
    (void)state;
    struct layout l;
    float g[ELEMS];
    open_layout(&l);
    fill(g);
    assert_null(norm_broken_tensor(&l, 0, g, ELEMS, DBL_MAX));
    g[65] = 1e16f;
    assert_null(norm_broken_tensor(&l, 0, g, ELEMS, 1e34));
    assert_string_equal(norm_broken_tensor(&l, 0, g, ELEMS, 1e30), "b");
    g[65] = 0;
    g[70] = INFINITY;
    assert_string_equal(norm_broken_tensor(&l, 0, g, ELEMS, DBL_MAX), "b");
    assert_null(norm_broken_tensor(&l, 0, g, 70, DBL_MAX));
    g[40] = NAN;
    assert_string_equal(norm_broken_tensor(&l, 0, g, ELEMS, DBL_MAX), "mean");
    assert_string_equal(norm_broken_tensor(&l, 41, g + 41, ELEMS - 41, DBL_MAX), "b");
    assert_true(isfinite(norm_squares(&l, 0, g, 64).weights));
    assert_true(!isfinite(norm_squares(&l, 0, g, 64).statistics));
    layout_close(&l);
}

static void only_a_norm_above_the_bound_is_scaled(void **state)
{
    (void)state;
    assert_true(norm_scale(3600, 10, 2) == (float)(2.0 / 6.0)); /* N = sqrt(3600) / 10 */
    assert_true(norm_scale(3600, 10, 6) == 1.0f);
    assert_true(norm_scale(3600, 10, 7) == 1.0f);
    assert_true(norm_scale(3600, 10, 0) == 1.0f);
    assert_true(norm_scale(0, 10, 2) == 1.0f);
    assert_true(norm_scale(0, 0, 2) == 1.0f);
    assert_true(norm_scale(NAN, 10, 2) == 1.0f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_count_and_statistics_do_not),
        cmocka_unit_test(the_first_broken_tensor_is_named),
        cmocka_unit_test(only_a_norm_above_the_bound_is_scaled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
