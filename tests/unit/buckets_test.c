/* Numbers as buckets: given borders, learned quantiles and steps of the squared logarithm. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/texts.h"
#include "common/base/mem.h"
#include "common/base/rng.h"
#include "data/core/buckets.h"

enum { QUANTILES_MAX = 1024 };

static void a_border_begins_its_bucket(void **state)
{
    (void)state;
    struct buckets b = {.count = 1};
    assert_int_equal(buckets_given(&b, "-1" TEXTS_JOINT "0" TEXTS_JOINT "2.5"), ERR_OK);
    assert_int_equal(b.count, 4);
    const double x[] = {-DBL_MAX, -1.5, -1, -0.5, -0.0, 0, 2.4, 2.5, DBL_MAX};
    const uint32_t wanted[] = {0, 0, 1, 1, 2, 2, 2, 3, 3};
    for (size_t i = 0; i < sizeof x / sizeof x[0]; i++)
        assert_int_equal(buckets_find(&b, x[i]), wanted[i]);
    buckets_close(&b);
}

static void log_squared_has_integers_up_to_two_and_squares_of_logarithms_above(void **state)
{
    (void)state;
    struct buckets b = {.count = 1};
    buckets_learn_range(&b, -3, 10000);
    assert_int_equal(b.first, -3);
    assert_int_equal(b.count, 3 + 3 + 84 + 1); /* -3 to 2; ln(10000)^2 is 84.8 */
    const double x[] = {-7, -3, -2.5, -0.5, 0, 0.9, 1, 2, 2.1, 3, 8, 8103, 1e9};
    const uint32_t wanted[] = {0, 0, 1, 3, 3, 3, 4, 5, 6, 7, 6 + 4, 6 + 80, 6 + 84};
    for (size_t i = 0; i < sizeof x / sizeof x[0]; i++)
        assert_int_equal(buckets_find(&b, x[i]), wanted[i]);
    buckets_learn_range(&b, -FLT_MAX, FLT_MAX);
    assert_int_equal(b.first, -64);
    assert_int_equal(buckets_find(&b, -FLT_MAX), 0);
    assert_int_equal(buckets_find(&b, FLT_MAX), b.count - 1);
    for (double v = -70; v < 1000; v += 0.25)
        assert_true(buckets_find(&b, v) <= buckets_find(&b, v + 0.25));
}

static void a_bucket_begins_above_the_last_number_of_the_one_before(void **state)
{
    (void)state;
    struct buckets b = {.count = 1};
    buckets_learn_range(&b, -DBL_MAX, FLT_MAX);
    assert_int_equal(b.count, 67 + 7872); /* -64 to 2; ln(FLT_MAX)^2 is 7871.8 */
    for (uint32_t i = 1; i < b.count; i++) {
        double begin = buckets_begin(&b, i);
        assert_int_equal(buckets_find(&b, begin), i);
        assert_int_equal(buckets_find(&b, nextafter(begin, -INFINITY)), i - 1);
    }
    b = (struct buckets){.count = 1};
    assert_int_equal(buckets_given(&b, "-1" TEXTS_JOINT "2.5"), ERR_OK);
    assert_true(buckets_begin(&b, 1) == -1 && buckets_begin(&b, 2) == 2.5);
    buckets_close(&b);
}

/* ---- quantiles ---- */

static int rising(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void learn(const double *x, uint64_t total, uint32_t n, double *value)
{
    struct quantiles q;
    assert_int_equal(quantiles_init(&q, n, total), ERR_OK);
    for (int round = 0; round < QUANTILES_ROUNDS; round++) {
        for (uint64_t i = 0; i < total; i++) /* in another order each time */
            quantiles_count(&q, x[(i * 7 + (uint64_t)round) % total]);
        assert_int_equal(quantiles_end_round(&q), ERR_OK);
    }
    quantiles_values(&q, value);
    quantiles_close(&q);
}

/* Sizes that 7 does not divide. Few and many different numbers, of all magnitudes and both signs. */
static void quantiles_are_those_of_sorted_numbers(void **state)
{
    (void)state;
    static const uint32_t counts[] = {1, 3, 9, 100, QUANTILES_MAX - 1};
    static double x[5000], sorted[5000], value[QUANTILES_MAX];
    for (uint64_t seed = 0; seed < 40; seed++) {
        uint64_t total = seed < 10 ? seed + 1 : 1000 + seed * 97;
        total += total % 7 == 0;
        for (uint64_t i = 0; i < total; i++) {
            uint64_t key = rng_key(seed, RNG_TEST, i, 0);
            int power = (int)(rng_u64(key, 0) % 60) - 30;
            double of = (double)(rng_u64(key, 1) % (seed % 2 ? 7 : 100000)) - 3;
            x[i] = seed % 3 ? of : ldexp(of, power);
        }
        memcpy(sorted, x, total * sizeof *x);
        qsort(sorted, total, sizeof *x, rising);
        for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
            uint32_t n = counts[c];
            learn(x, total, n, value);
            for (uint32_t i = 0; i < n; i++) {
                double rank = ceil((double)(i + 1) * (double)total / (double)(n + 1));
                assert_true(value[i] == sorted[(uint64_t)rank - 1]);
            }
        }
    }
}

static void equal_quantiles_are_one_border(void **state)
{
    (void)state;
    const double x[] = {0, 0, 0, 0, 0, 0, 0, 5, 6, 9}, zeros[] = {0.0, -0.0, 0.0};
    double value[9];
    struct buckets b = {.count = 1};
    assert_int_equal(buckets_find(&b, 3), 0); /* nothing is learned: one bucket */
    learn(x, 10, 4, value);
    assert_int_equal(buckets_learn_borders(&b, value, 4), ERR_OK);
    assert_int_equal(b.count, 3); /* below 0, from 0, from 5 */
    assert_int_equal(buckets_find(&b, -1), 0);
    assert_int_equal(buckets_find(&b, 0), 1);
    assert_int_equal(buckets_find(&b, 5), 2);
    learn(zeros, 3, 2, value);
    assert_int_equal(buckets_learn_borders(&b, value, 2), ERR_OK);
    assert_int_equal(b.count, 2);
    buckets_close(&b);
}

/* 2^53 is beyond 32 bits of a number's 64, so all rounds take part. */
static void numbers_that_are_one_float_are_in_their_own_buckets(void **state)
{
    (void)state;
    enum { N = 1000 };
    static double x[N], value[3];
    struct buckets b = {.count = 1};
    const double first = 0x1p53 - N;
    for (int i = 0; i < N; i++)
        x[i] = first + i;
    learn(x, N, 3, value);
    assert_true(value[0] == first + 249 && value[1] == first + 499 && value[2] == first + 749);
    assert_int_equal(buckets_given(&b, "16777216" TEXTS_JOINT "16777217"), ERR_OK);
    assert_int_equal(b.count, 3);
    assert_int_equal(buckets_find(&b, 16777215), 0);
    assert_int_equal(buckets_find(&b, 16777216), 1);
    assert_int_equal(buckets_find(&b, 16777217), 2);
    buckets_close(&b);
}

static void a_number_moves_if_it_becomes_the_float_of_a_border_above_it(void **state)
{
    (void)state;
    struct buckets b = {.count = 1};
    assert_false(buckets_round_moves(&b, 1e300));
    assert_int_equal(buckets_given(&b, "0.7" TEXTS_JOINT "16777217"), ERR_OK);
    assert_false(buckets_round_moves(&b, 0.7)); /* the float below it, as is that of the border */
    assert_false(buckets_round_moves(&b, 0.69));
    assert_true(buckets_round_moves(&b, 0.699999999));
    assert_true(buckets_round_moves(&b, 16777216));
    assert_false(buckets_round_moves(&b, 16777217));
    buckets_close(&b);
    buckets_learn_range(&b, 0, 10);
    assert_false(buckets_round_moves(&b, 1.9));
    assert_true(buckets_round_moves(&b, 1.99999999999));
}

/* For an encoding that was made from floats. */
static void borders_can_be_rounded_to_floats(void **state)
{
    (void)state;
    struct buckets b = {.count = 1};
    buckets_round(&b);
    assert_int_equal(buckets_given(&b, "0.1" TEXTS_JOINT "2"), ERR_OK);
    assert_int_equal(buckets_find(&b, 0.1), 1);
    buckets_round(&b);
    assert_int_equal(buckets_find(&b, 0.1), 0);
    assert_int_equal(buckets_find(&b, (double)0.1f), 1);
    buckets_close(&b);
}

static void it_survives_every_allocation_that_fails(void **state)
{
    (void)state;
    const double x[] = {3, 1, 2};
    int fired = 1;
    for (long n = 0; fired; n++) {
        struct quantiles q;
        mem_fail_at(n);
        enum err err = quantiles_init(&q, 2, 3);
        for (int round = 0; round < QUANTILES_ROUNDS && !err; round++) {
            for (int i = 0; i < 3; i++)
                quantiles_count(&q, x[i]);
            err = quantiles_end_round(&q);
        }
        fired = mem_fail_fired();
        mem_fail_at(-1);
        assert_int_equal(err, fired ? ERR_NOMEM : ERR_OK);
        quantiles_close(&q);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_border_begins_its_bucket),
        cmocka_unit_test(log_squared_has_integers_up_to_two_and_squares_of_logarithms_above),
        cmocka_unit_test(a_bucket_begins_above_the_last_number_of_the_one_before),
        cmocka_unit_test(quantiles_are_those_of_sorted_numbers),
        cmocka_unit_test(equal_quantiles_are_one_border),
        cmocka_unit_test(numbers_that_are_one_float_are_in_their_own_buckets),
        cmocka_unit_test(a_number_moves_if_it_becomes_the_float_of_a_border_above_it),
        cmocka_unit_test(borders_can_be_rounded_to_floats),
        cmocka_unit_test(it_survives_every_allocation_that_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
