#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/parameters/layout.h"
#include "common/base/mem.h"
#include "common/base/real.h"

static struct tensor tensor_of(const char *name, uint32_t rows, uint32_t cols, enum init_kind init,
                               float value)
{
    struct tensor t = {.rank = cols ? 2 : 1, .shape = {rows, cols}, .init = init};
    (void)snprintf(t.name, sizeof t.name, "%s", name);
    t.init_value = value;
    return t;
}

static void add(struct layout *l, const char *name, uint32_t rows, uint32_t cols,
                enum init_kind init, float value)
{
    struct tensor t = tensor_of(name, rows, cols, init, value);
    assert_int_equal(layout_add(l, &t, NULL), ERR_OK);
}

/* kernel (7, 5) = 35 elements, bias (5), another kernel (5, 3), ones (3), constant (2) */
static struct layout small(void)
{
    struct layout l = {0};
    add(&l, "dense/kernel", 7, 5, INIT_GLOROT_UNIFORM, 0.5f);
    add(&l, "dense/bias", 5, 0, INIT_ZEROS, 0.0f);
    add(&l, "dense_1/kernel", 5, 3, INIT_GLOROT_UNIFORM, 0.25f);
    add(&l, "dense_1/bias", 3, 0, INIT_ONES, 0.0f);
    add(&l, "dense_2/bias", 2, 0, INIT_CONSTANT, -1.5f);
    return l;
}

static void tensors_start_on_cache_lines_and_tile_the_block(void **state)
{
    (void)state;
    struct layout l = small();
    uint64_t next = 0;
    for (uint32_t i = 0; i < l.tensors; i++) {
        assert_int_equal(l.tensor[i].offset_elems, next);
        assert_int_equal(next % LAYOUT_ALIGN_ELEMS, 0);
        assert_true(next + l.tensor[i].elems <= layout_end(&l, i));
        next = layout_end(&l, i);
    }
    assert_int_equal(next, l.elems);
    assert_int_equal(l.elems, 48 + 16 + 16 + 16 + 16);
    layout_close(&l);
    assert_int_equal(l.tensors, 0);
}

static void tensors_are_excluded_from_decay_by_a_part_of_their_name(void **state)
{
    (void)state;
    struct layout l = small();
    struct tensor statistic = tensor_of("batch/moving_bias", 4, 0, INIT_ZEROS, 0.0f);
    statistic.role = TENSOR_STATISTIC;
    assert_int_equal(layout_add(&l, &statistic, NULL), ERR_OK);
    static const struct {
        const char *parts;
        bool undecayed[6];
    } cases[] = {
        {"", {false}},
        {"bias", {false, true, false, true, true, false}},
        {"none,_1/", {false, false, true, true, false, false}},
        {"_1/,bias", {false, true, true, true, true, false}},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        layout_exclude_from_decay(&l, cases[c].parts);
        for (uint32_t i = 0; i < l.tensors; i++)
            assert_int_equal(l.tensor[i].undecayed, cases[c].undecayed[i]);
    }
    layout_close(&l);
}

static void values_do_not_depend_on_how_the_block_is_cut(void **state)
{
    (void)state;
    struct layout l = small();
    float whole[112], piece[112];
    layout_init_values(&l, 7, 0, 112, whole);
    for (uint64_t first = 0; first < 112; first++)
        for (size_t n = 0; first + n <= 112; n++) {
            layout_init_values(&l, 7, first, n, piece);
            assert_memory_equal(piece, whole + first, n * sizeof(float));
        }
    layout_close(&l);
}

static void a_tensors_values_do_not_depend_on_where_it_stands(void **state)
{
    (void)state;
    struct layout l = small(), alone = {0};
    float values[112], own[16];
    add(&alone, "dense_1/kernel", 5, 3, INIT_GLOROT_UNIFORM, 0.25f);
    layout_init_values(&l, 7, 0, 112, values);
    layout_init_values(&alone, 7, 0, 16, own);
    assert_memory_equal(own, values + l.tensor[2].offset_elems, sizeof own);
    layout_close(&l);
    layout_close(&alone);
}

/* ---- the kinds of first values ---- */

/* Against Python's statistics.NormalDist().inv_cdf. */
static void quantiles_are_those_of_the_normal_distribution(void **state)
{
    (void)state;
    static const double pairs[][2] = {{0.5, 0.0},
                                      {0.6, 0.2533471031357998},
                                      {0.05, -1.6448536269514726},
                                      {0.975, 1.9599639845400536},
                                      {0.022750131948179207, -2.0},
                                      {0.999, 3.090232306167813},
                                      {1e-14, -7.650628092935268},
                                      {0x1p-53, -8.209536151601386}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        assert_true(fabs(normal_quantile(pairs[i][0]) - pairs[i][1]) <= 4e-15 * 8.3);
}

/* Mean, standard deviation, largest |x - center| (0: there is no bound) of 300 x 500 values. */
static void assert_spread(enum init_kind kind, float value, float center, double stddev,
                          double bound)
{
    enum { N = 300 * 500 };
    static float v[N + 16];
    struct layout l = {0};
    struct tensor t = tensor_of("dense/kernel", 300, 500, kind, value);
    t.init_center = center;
    if (layout_init_scale(kind, &t) > 0)
        t.init_value = layout_init_scale(kind, &t);
    assert_int_equal(layout_add(&l, &t, NULL), ERR_OK);
    layout_init_values(&l, 3, 0, l.elems, v);
    double mean = 0, variance = 0, most = 0;
    for (size_t i = 0; i < N; i++)
        mean += (double)v[i] / N;
    for (size_t i = 0; i < N; i++) {
        variance += ((double)v[i] - mean) * ((double)v[i] - mean) / N;
        most = fmax(most, fabs((double)(v[i] - center)));
    }
    assert_true(fabs(mean - (double)center) < 4 * stddev / sqrt(N));
    assert_true(fabs(sqrt(variance) / stddev - 1) < 0.01);
    assert_true(bound == 0 || (most <= bound * 1.000001 && most > bound * 0.98));
    layout_close(&l);
}

static void first_values_are_spread_as_keras_spreads_them(void **state)
{
    (void)state;
    const double cut = 2 / 0.87962566103423978; /* a normal cut at 2 of its standard deviations */
    double he = sqrt(2.0 / 300), glorot = sqrt(2.0 / 800), lecun = sqrt(1.0 / 300);
    assert_spread(INIT_HE_NORMAL, 0, 0, he, he * cut);
    assert_spread(INIT_GLOROT_NORMAL, 0, 0, glorot, glorot * cut);
    assert_spread(INIT_LECUN_NORMAL, 0, 0, lecun, lecun * cut);
    assert_spread(INIT_HE_UNIFORM, 0, 0, he, he * sqrt(3));
    assert_spread(INIT_GLOROT_UNIFORM, 0, 0, glorot, glorot * sqrt(3));
    assert_spread(INIT_LECUN_UNIFORM, 0, 0, lecun, lecun * sqrt(3));
    assert_spread(INIT_RANDOM_UNIFORM, 0.05f, 0.5f, 0.05 / sqrt(3), 0.05);
    assert_spread(INIT_TRUNCATED_NORMAL, 0.1f, -1, 0.087962566103423978, 0.2);
    assert_spread(INIT_RANDOM_NORMAL, 0.1f, 1, 0.1, 0);
}

/* The bits are a promise: every machine makes the same model. */
static void first_values_are_pinned(void **state)
{
    (void)state;
    struct layout l = {0};
    float v[16];
    add(&l, "a/kernel", 4, 4, INIT_RANDOM_NORMAL, 1.0f);
    layout_init_values(&l, 1, 0, 16, v);
    assert_true(v[0] == -0x1.b4610ep-2f && v[1] == -0x1.6437e8p+0f);
    assert_true(v[2] == 0x1.c8051cp-3f && v[3] == 0x1.0e68fep+1f);
    layout_close(&l);
}

static void values_change_with_the_seed_and_the_name(void **state)
{
    (void)state;
    struct layout a = {0}, b = {0};
    float one[16], two[16];
    add(&a, "a/kernel", 4, 4, INIT_GLOROT_UNIFORM, 1.0f);
    add(&b, "b/kernel", 4, 4, INIT_GLOROT_UNIFORM, 1.0f);
    layout_init_values(&a, 1, 0, 16, one);
    layout_init_values(&a, 2, 0, 16, two);
    assert_memory_not_equal(one, two, sizeof one);
    layout_init_values(&b, 1, 0, 16, two);
    assert_memory_not_equal(one, two, sizeof one);
    layout_close(&a);
    layout_close(&b);
}

static void gaps_are_zero_and_constants_are_what_was_asked_for(void **state)
{
    (void)state;
    struct layout l = small();
    float values[112];
    memset(values, 0xff, sizeof values);
    layout_init_values(&l, 7, 0, 112, values);
    for (uint64_t i = 35; i < 64; i++) /* the gap, dense/bias and its gap */
        assert_true(values[i] == 0.0f);
    for (uint64_t i = 0; i < 16; i++) {
        assert_true(values[80 + i] == (i < 3 ? 1.0f : 0.0f));
        assert_true(values[96 + i] == (i < 2 ? -1.5f : 0.0f));
    }
    layout_close(&l);
}

/* n = 1e5: the mean's deviation is limit / sqrt(3 n), the variance is limit^2 / 3 */
static void glorot_is_uniform_within_its_limit(void **state)
{
    (void)state;
    enum { N = 100000 };
    struct layout l = {0};
    float *v = mem_floats(N);
    assert_non_null(v);
    add(&l, "dense/kernel", N / 10, 10, INIT_GLOROT_UNIFORM, 0.08f);
    layout_init_values(&l, 3, 0, N, v);
    double sum = 0, squares = 0;
    for (int i = 0; i < N; i++) {
        assert_true(fabsf(v[i]) <= 0.08f);
        sum += (double)v[i];
        squares += (double)v[i] * (double)v[i];
    }
    assert_true(fabs(sum / N) < 5 * 0.08 / sqrt(3.0 * N));
    assert_true(fabs(squares / N / (0.08 * 0.08 / 3) - 1) < 0.02);
    mem_free(v);
    layout_close(&l);
}

static void a_shape_too_large_or_empty_is_refused_and_changes_nothing(void **state)
{
    (void)state;
    struct layout l = small();
    struct layout before = l;
    struct errmsg e;
    struct tensor large = tensor_of("huge/kernel", UINT32_MAX, UINT32_MAX, INIT_ZEROS, 0.0f);
    assert_int_equal(layout_add(&l, &large, &e), ERR_INPUT);
    assert_non_null(strstr(e.text, "huge/kernel"));
    struct tensor empty = tensor_of("none/kernel", 0, 4, INIT_ZEROS, 0.0f);
    assert_int_equal(layout_add(&l, &empty, &e), ERR_INPUT);
    assert_memory_equal(&l, &before, sizeof l);
    struct tensor fits = tensor_of("x/bias", 4, 0, INIT_ZEROS, 0.0f);
    mem_fail_at(0);
    assert_int_equal(layout_add(&l, &fits, &e), ERR_NOMEM);
    assert_true(mem_fail_fired());
    mem_fail_at(-1);
    assert_memory_equal(&l, &before, sizeof l);
    layout_close(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_start_on_cache_lines_and_tile_the_block),
        cmocka_unit_test(tensors_are_excluded_from_decay_by_a_part_of_their_name),
        cmocka_unit_test(values_do_not_depend_on_how_the_block_is_cut),
        cmocka_unit_test(a_tensors_values_do_not_depend_on_where_it_stands),
        cmocka_unit_test(quantiles_are_those_of_the_normal_distribution),
        cmocka_unit_test(first_values_are_spread_as_keras_spreads_them),
        cmocka_unit_test(first_values_are_pinned),
        cmocka_unit_test(values_change_with_the_seed_and_the_name),
        cmocka_unit_test(gaps_are_zero_and_constants_are_what_was_asked_for),
        cmocka_unit_test(glorot_is_uniform_within_its_limit),
        cmocka_unit_test(a_shape_too_large_or_empty_is_refused_and_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
