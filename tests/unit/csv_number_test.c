#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/rng.h"
#include "data/text/csv_number.h"

static void agrees(const char *text)
{
    float wanted = strtof(text, NULL), got = -1;
    bool is = csv_number(text, strlen(text), &got);
    if (is != (bool)isfinite(wanted) || (is && memcmp(&got, &wanted, sizeof got) != 0))
        fail_msg("%s: %.9g, wanted %.9g", text, (double)got, (double)wanted);
}

static void agrees_wide(const char *text)
{
    double wanted = strtod(text, NULL), got = -1;
    bool is = csv_number_wide(text, strlen(text), &got);
    if (is != (bool)isfinite((float)wanted) || (is && memcmp(&got, &wanted, sizeof got) != 0))
        fail_msg("%s: %.17g, wanted %.17g", text, got, wanted);
}

static void number_is_the_nearest_double(void **state)
{
    (void)state;
    static const char *const hard[] = {"0",
                                       "-0",
                                       "-0.0",
                                       "+1",
                                       ".5",
                                       "5.",
                                       "1e3",
                                       "0e99999999999",
                                       "16777217",
                                       "9007199254740993",
                                       "-9007199254740993",
                                       "9223372036854775807",
                                       "-9223372036854775808",
                                       "9223372036854775809",
                                       "18446744073709551615",
                                       "1700000000123456789",
                                       "1700000000.123456789",
                                       "0.1",
                                       "1e-40",
                                       "1e-400",
                                       "3.4028235e38",
                                       "3.5e38",
                                       "1e39",
                                       "9999999999999999999",
                                       "99999999999999999999",
                                       "12345678901234567e3",
                                       "0.30000000000000004",
                                       "1.00000000000000011102230246251565404",
                                       "123456789.5",
                                       "1e22",
                                       "1e23"};
    for (size_t i = 0; i < sizeof hard / sizeof *hard; i++)
        agrees_wide(hard[i]);
}

static void number_is_the_nearest_float(void **state)
{
    (void)state;
    static const char *const hard[] = {
        "0", "-0", "0.0", "1", "+1", "-1.5", ".5", "5.", "1e3", "1E+3", "1e-3", "0e99999999999",
        "16777216", "16777217", "16777219", "33554435", "9007199254740993", "0.1", "3.4028235e38",
        "3.4028236e38", "3.5e38", "1e39", "1e-45", "7e-46", "1.17549435e-38", "1.1754942e-38",
        /* in the middle of two floats, and next to it */
        "1.00000005960464477539062", "1.00000005960464477539063", "1.000000059604644775390625",
        "1.000000178813934326171875", "99999999999999999999", "123456789012345678901234567890",
        "0.00000000000000000000000000000001234567890123456789", "8388608.5", "8388609.5"};
    for (size_t i = 0; i < sizeof hard / sizeof *hard; i++)
        agrees(hard[i]);
}

static void number_is_the_nearest_float_of_random_text(void **state)
{
    (void)state;
    char text[64];
    for (uint64_t i = 0; i < 300000; i++) {
        uint64_t bits = rng_u64(1, i), more = rng_u64(2, i);
        int before = (int)(more % 12), after = (int)(more >> 8 & 0xffff) % 12;
        int n = snprintf(text, sizeof text, "%s%0*llu.%0*llu", more >> 60 & 1 ? "-" : "", before,
                         (unsigned long long)(bits % (uint64_t)pow(10, before)), after,
                         (unsigned long long)(bits >> 20) % (uint64_t)pow(10, after));
        if (more >> 61 & 1)
            snprintf(text + n, sizeof text - (size_t)n, "e%d", (int)(more >> 32 & 127) - 64);
        agrees(text);
        agrees_wide(text);
    }
}

/* A float printed in full, and what lies exactly between it and the next. */
static void number_rounds_halves_to_even(void **state)
{
    (void)state;
    char text[128];
    for (uint64_t i = 0; i < 50000; i++) {
        float f = (float)(rng_u64(3, i) >> 40) * 0x1p-10F;
        double half = (double)f + ((double)nextafterf(f, INFINITY) - (double)f) / 2;
        snprintf(text, sizeof text, "%.30f", half);
        agrees(text);
        snprintf(text, sizeof text, "%.17g", half);
        agrees(text);
    }
}

/* The double nearest to such a text is the middle of two floats; the text itself is not. */
static void number_beside_a_middle_goes_to_its_own_side(void **state)
{
    (void)state;
    char text[64];
    for (uint64_t i = 0; i < 50000; i++) {
        float f = (float)(rng_u64(4, i) >> 40) * 0x1p-30F;
        double half = (double)f + ((double)nextafterf(f, INFINITY) - (double)f) / 2;
        for (int digits = 8; digits <= 17; digits++) {
            snprintf(text, sizeof text, "%.*g", digits, half);
            agrees(text);
        }
    }
}

static void number_refuses_what_is_none(void **state)
{
    (void)state;
    static const char *const none[] = {"",      " ",    "-",   "+",    ".",   "e1",  "1e",
                                       "1e+",   "0x10", "nan", "inf",  "1 2", "1,5", "--1",
                                       "1.2.3", "1f",   "NaN", "1e5.", "1_0", "١",   "1e400"};
    float v;
    double wide;
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        if (csv_number(none[i], strlen(none[i]), &v) ||
            csv_number_wide(none[i], strlen(none[i]), &wide))
            fail_msg("'%s' was taken for a number", none[i]);
    assert_false(csv_number("1\0002", 3, &v));
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        assert_int_equal(csv_number_is_large(none[i], strlen(none[i])),
                         strcmp(none[i], "1e400") == 0);
    assert_true(csv_number_is_large(" -3.5e38 ", 9));
    assert_false(csv_number_is_large("3.4e38", 6));
}

/* Each byte at each place; behind the text is what must not be seen. */
static void digits_are_the_number_that_they_are_one_at_a_time(void **state)
{
    (void)state;
    char text[2 * CSV_DIGITS_MAX + 1];
    for (uint64_t i = 0; i < 300000; i++) {
        uint64_t bits = rng_u64(5, i);
        size_t bytes = bits % (CSV_DIGITS_MAX + 2);
        double got = -1, wanted = -2;
        for (size_t k = 0; k < sizeof text; k++)
            text[k] = (char)('0' + rng_u64(6 + i, k) % 10);
        if (bits >> 8 & 1 && bytes)
            text[(bits >> 9) % bytes] = (char)(bits >> 32);
        bool all = bytes <= CSV_DIGITS_MAX;
        for (size_t k = 0; k < bytes; k++)
            all &= text[k] >= '0' && text[k] <= '9';
        assert_int_equal(csv_number_digits(text, bytes, &got), all);
        text[bytes] = ',';
        if (all && bytes == 0)
            assert_true(got == 0);
        else if (all && (!csv_number_wide(text, bytes, &wanted) || got != wanted))
            fail_msg("%.*s: %.17g, wanted %.17g", (int)bytes, text, got, wanted);
    }
}

static void number_may_have_blanks_around(void **state)
{
    (void)state;
    float v = 0;
    assert_true(csv_number(" \t-2.5\t ", 8, &v));
    assert_true(v == -2.5F);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(number_is_the_nearest_float),
        cmocka_unit_test(number_is_the_nearest_double),
        cmocka_unit_test(number_is_the_nearest_float_of_random_text),
        cmocka_unit_test(number_rounds_halves_to_even),
        cmocka_unit_test(number_beside_a_middle_goes_to_its_own_side),
        cmocka_unit_test(number_refuses_what_is_none),
        cmocka_unit_test(digits_are_the_number_that_they_are_one_at_a_time),
        cmocka_unit_test(number_may_have_blanks_around),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
