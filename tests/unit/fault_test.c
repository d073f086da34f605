/* --fault: what it may say, and what follows from it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/process/fault.h"

static struct fault read(const char *text)
{
    struct fault f = {.kind = FAULT_NONE};
    struct errmsg e = {""};
    assert_int_equal(fault_parse(&f, text, &e), ERR_OK);
    return f;
}

static void a_nan_is_in_the_batches_that_are_named(void **state)
{
    (void)state;
    struct fault one = read("nan:7"), some = read("nan:0-2"), none = read("");
    assert_true(fault_breaks(&one, 7) && !fault_breaks(&one, 6) && !fault_breaks(&one, 8));
    assert_true(fault_breaks(&some, 0) && fault_breaks(&some, 2) && !fault_breaks(&some, 3));
    assert_false(fault_breaks(&none, 0));
    assert_true(fault_sleep_s(&one, 5) <= 0);
}

static void a_slow_disk_takes_as_long_as_its_bytes(void **state)
{
    (void)state;
    struct fault slow = read("disk:500"), none = read("nan:1");
    assert_true(fault_disk_s(&slow, 1000) > 1.99 && fault_disk_s(&slow, 1000) < 2.01);
    assert_true(fault_disk_s(&none, 1000) <= 0);
    assert_true(fault_sleep_s(&slow, 5) <= 0);
}

static void a_checkpoint_is_hidden_from_a_ps_by_its_number(void **state)
{
    (void)state;
    struct fault hides = read("eio:0"), disk = read("disk:500"), nan = read("nan:0");
    assert_true(fault_hides(&hides, 0) && !fault_hides(&hides, 1) && !fault_hides(&nan, 0));
    assert_true(fault_is_of_ps(&hides) && fault_is_of_ps(&disk) && !fault_is_of_ps(&nan));
}

static void a_straggler_sleeps_a_multiple_of_the_median(void **state)
{
    (void)state;
    struct fault f = read("straggle:2.5");
    assert_true(fault_sleep_s(&f, 4) == 10);
    assert_true(fault_sleep_s(&f, 100) == 250);
    assert_true(fault_sleep_s(&f, 4) == 10);
    for (int i = 0; i < FAULT_TIMES; i++) /* the first ones are forgotten */
        (void)fault_sleep_s(&f, 6);
    assert_true(fault_sleep_s(&f, 1) == 15);
    assert_false(fault_breaks(&f, 0));
}

static void a_sleeper_sleeps_as_long_as_it_is_told(void **state)
{
    (void)state;
    struct fault f = read("sleep:0.25"), nan = read("nan:7"), slow = read("straggle:2");
    assert_true(fault_sleep_s(&f, 4) == 0.25 && fault_sleep_s(&f, 100) == 0.25);
    assert_true(fault_delays(&f) && fault_delays(&slow) && !fault_delays(&nan));
    assert_false(fault_breaks(&f, 0));
}

static void what_is_neither_is_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {"nan",          "nan:",        "nan:x",     "nan:3x",
                                        "nan:5-3",      "nan:5-",      "straggle:", "straggle:0",
                                        "straggle:x",   "straggle:-1", "sleep:0",   "sleep:61",
                                        "straggle:nan", "sleep"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct fault f = {.kind = FAULT_STRAGGLE};
        struct errmsg e = {""};
        assert_int_equal(fault_parse(&f, wrong[i], &e), ERR_INPUT);
        assert_int_equal(f.kind, FAULT_STRAGGLE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_nan_is_in_the_batches_that_are_named),
        cmocka_unit_test(a_slow_disk_takes_as_long_as_its_bytes),
        cmocka_unit_test(a_checkpoint_is_hidden_from_a_ps_by_its_number),
        cmocka_unit_test(a_straggler_sleeps_a_multiple_of_the_median),
        cmocka_unit_test(a_sleeper_sleeps_as_long_as_it_is_told),
        cmocka_unit_test(what_is_neither_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
