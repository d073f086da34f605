#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "common/base/rng.h"
#include "common/base/real.h"

/* In [low, high). */
static double any(uint64_t i, double low, double high)
{
    return low + (high - low) * (double)(rng_u64(rng_key(1, RNG_TEST, 0, 0), i) >> 11) * 0x1p-53;
}

static void logarithm_and_exponential_are_those_of_libm_but_for_their_last_places(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 100000; i++) {
        double x = any(i, -700, 700), near = any(i, -2, 2), y = exp(any(i, -600, 600));
        assert_true(fabs(series_exp(x) / exp(x) - 1) < 2e-15);
        assert_true(fabs(series_exp(near) / exp(near) - 1) < 1e-15);
        assert_true(fabs(series_log(y) - log(y)) <= 1e-15 * fabs(log(y)) + 1e-16);
    }
    assert_true(series_exp(0) == 1 && series_log(1) == 0);
}

/* The numbers were made on x86-64 by gcc -O0; they are the same on any machine, at any optimization. */
static void their_bits_are_the_same_everywhere(void **state)
{
    (void)state;
    uint64_t bits = 0;
    for (uint64_t i = 0; i < 1000; i++) {
        union {
            double number;
            uint64_t bits;
        } a = {series_exp(any(i, -30, 30))}, b = {series_log(a.number)};
        bits = rng_u64(bits, a.bits ^ (b.bits << 1));
    }
    assert_int_equal(bits, UINT64_C(0x1ddfb81f4121d58b));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logarithm_and_exponential_are_those_of_libm_but_for_their_last_places),
        cmocka_unit_test(their_bits_are_the_same_everywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
