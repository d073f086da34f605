/* How long a ps's next snapshot takes, and whether there is time for it behind a SIGTERM. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "ps/life.h"

#define MIB ((uint64_t)1 << 20)

static void assert_about(double got, double want)
{
    if (fabs(got - want) > 1e-9)
        fail_msg("%g s, not %g s", got, want);
}

static void before_the_first_snapshot_a_slow_rate_is_assumed(void **state)
{
    (void)state;
    struct grace g = {.allowed_s = 30};
    assert_about(grace_needs_s(&g), 1); /* nothing is there, and all is said */
    grace_note(&g, 0, 700 * MIB, 0);
    grace_note(&g, 1, 700 * MIB, 0);
    assert_about(grace_needs_s(&g), 1 + 28);
    assert_true(grace_suffices(&g));
    grace_note(&g, 1, 800 * MIB, 0);
    assert_about(grace_needs_s(&g), 1 + 30);
    assert_false(grace_suffices(&g));
}

static void afterwards_the_last_ones_rate_counts(void **state)
{
    (void)state;
    struct grace g = {.allowed_s = 30};
    char text[200];
    grace_note(&g, 0, 100 * MIB, 0);
    grace_note(&g, 1, 100 * MIB, 0);
    grace_note(&g, 0, 100 * MIB, 10); /* the other thread still writes */
    assert_about(grace_needs_s(&g), 1 + 20);
    grace_note(&g, 1, 100 * MIB, 40); /* both at the same time, and the slower one counts */
    assert_about(grace_needs_s(&g), 1 + 40);
    grace_say(&g, text, sizeof text);
    assert_string_equal(text,
                        "a snapshot of its 200.0 MiB takes about 41 s (5.0 MiB/s, the rate of "
                        "the last one), and the grace after SIGTERM is 30 s");
    grace_note(&g, 1, 100 * MIB, 5);
    assert_about(grace_needs_s(&g), 1 + 10);
}

static void another_generation_of_the_same_size_keeps_what_was_measured(void **state)
{
    (void)state;
    struct grace g = {.allowed_s = 30};
    grace_note(&g, 0, 100 * MIB, 50);
    grace_note(&g, 0, 100 * MIB, 0);
    assert_about(grace_needs_s(&g), 1 + 50);
    grace_note(&g, 0, 200 * MIB, 0); /* another plan */
    assert_about(grace_needs_s(&g), 1 + 4);
    grace_note(&g, PLAN_SHARDS_MAX, 100 * MIB, 50);
    assert_true(grace_bytes(&g) == 200 * MIB);
}

static void who_is_killed_behind_the_grace_leaves_before(void **state)
{
    (void)state;
    struct grace g;
    grace_init(&g, 30, 0);
    assert_int_equal(g.allowed_s, 30);
    assert_int_equal(grace_bound_ms(&g), 30000);
    grace_init(&g, 30, 60); /* the job's is less */
    assert_int_equal(g.allowed_s, 30);
    assert_int_equal(grace_bound_ms(&g), 30000);
    grace_init(&g, 30, 30);
    assert_int_equal(grace_bound_ms(&g), 29000);
    grace_note(&g, 0, 1400 * MIB, 0);
    assert_true(grace_suffices(&g));
    grace_note(&g, 0, 1425 * MIB, 0); /* 29.5 s: it would have left by then */
    assert_false(grace_suffices(&g));
    grace_init(&g, 30, 10);
    assert_int_equal(g.allowed_s, 10);
    assert_int_equal(grace_bound_ms(&g), 9000);
    grace_init(&g, 30, 1);
    assert_int_equal(grace_bound_ms(&g), 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(before_the_first_snapshot_a_slow_rate_is_assumed),
        cmocka_unit_test(afterwards_the_last_ones_rate_counts),
        cmocka_unit_test(another_generation_of_the_same_size_keeps_what_was_measured),
        cmocka_unit_test(who_is_killed_behind_the_grace_leaves_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
