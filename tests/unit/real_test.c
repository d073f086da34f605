#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "common/base/digits.h"
#include "common/base/real.h"

/* libm's, which is within an ulp, in some thousand places. */
static void assert_near(double is, double want, double ulps)
{
    if (!(fabs(is - want) <= ulps * 0x1p-52 * fabs(want)))
        fail_msg("%.17g is not near %.17g", is, want);
}

static void exp_and_log_are_those_of_libm_to_a_few_ulp(void **state)
{
    (void)state;
    for (int i = -7000; i <= 7000; i++) {
        double x = i * 0.10137;
        if (fabs(x) < 700)
            assert_near(real_exp(x), exp(x), 3);
        assert_near(real_log(exp(x / 2)), log(exp(x / 2)), 4);
        assert_near(real_log(1 + i * 1e-5), log(1 + i * 1e-5), 4);
    }
}

static void cos_is_that_of_libm_and_exact_where_it_is_known(void **state)
{
    const double pi = 3.14159265358979323846;
    (void)state;
    for (int i = -1000; i <= 1000; i++)
        assert_true(fabs(real_cos_pi(i / 1000.0) - cos(pi * (i / 1000.0))) < 4e-16);
    assert_true(real_cos_pi(0) == 1 && real_cos_pi(0.5) == 0 && real_cos_pi(1) == -1);
}

static void pow_is_that_of_libm(void **state)
{
    (void)state;
    for (int i = 1; i < 200; i++)
        for (int k = -20; k <= 20; k++)
            assert_near(real_pow(i * 0.05, k * 0.25), pow(i * 0.05, k * 0.25), 60);
    assert_true(real_pow(0, 0) == 1 && real_pow(0, 0.7) == 0 && real_pow(7, 2) == 49);
}

static void what_is_beyond_the_range_is_told(void **state)
{
    (void)state;
    assert_true(real_exp(710) == INFINITY && real_exp(-710) == 0);
    assert_true(isnan(real_exp(NAN)) && isnan(real_log(NAN)) && isnan(real_log(-1)));
    assert_true(real_log(0) == -INFINITY && real_log(INFINITY) == INFINITY);
}

static void a_number_is_written_in_the_fewest_digits_that_read_back_the_same(void **state)
{
    (void)state;
    char text[DIGITS_REAL_BYTES];
    assert_string_equal(digits_float((double)0.001f, text), "0.001");
    assert_string_equal(digits_double(0.001, text), "0.001");
    assert_string_equal(digits_double((double)0.001f, text), "0.0010000000474974513");
    assert_string_equal(digits_float(1 / 3.0, text), "0.33333333"); /* of x, not of its float */
    assert_string_equal(digits_float(-0.0, text), "-0");
    assert_string_equal(digits_double(-DBL_MAX, text), "-1.7976931348623157e+308");
    assert_string_equal(digits_float((double)INFINITY, text), "inf");
    assert_string_equal(digits_float(-(double)NAN, text), "nan"); /* never by its sign */
    assert_string_equal(digits_double(-(double)NAN, text), "nan");
    for (int i = 1; i < 4000; i++) {
        float x = (float)exp(i * 0.04 - 80);
        assert_true(strtof(digits_float((double)x, text), NULL) == x);
        assert_true(strtod(digits_double(exp(i * 0.3 - 600), text), NULL) == exp(i * 0.3 - 600));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exp_and_log_are_those_of_libm_to_a_few_ulp),
        cmocka_unit_test(cos_is_that_of_libm_and_exact_where_it_is_known),
        cmocka_unit_test(pow_is_that_of_libm),
        cmocka_unit_test(what_is_beyond_the_range_is_told),
        cmocka_unit_test(a_number_is_written_in_the_fewest_digits_that_read_back_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
