/* The supervisor's rules (launch/policy.h). */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <stdbool.h>
#include <string.h>

#include "launch/policy.h"

enum { PROCESSES = 3, CHIEF = 1 };

static int exited(int code)
{
    return code << 8;
}

static int killed(int sig)
{
    return sig;
}

static int setup(void **state)
{
    static struct policy p;
    *state = &p;
    return (int)policy_init(&p, PROCESSES, CHIEF, 10);
}

static int teardown(void **state)
{
    policy_close(*state);
    return 0;
}

static void policy_ends_with_the_code_of_the_first_exit_below_128(void **state)
{
    struct policy *p = *state;
    for (int code = 1; code < 128; code++) {
        p->ending = false;
        struct policy_verdict v = policy_exit(p, 0, exited(code));
        assert_int_equal(v.action, POLICY_END);
        assert_int_equal(v.exit_code, code);
        assert_true(p->ending);
    }
    assert_int_equal(policy_exit(p, 2, exited(5)).action, POLICY_GONE);
}

static void policy_ends_nothing_by_the_deaths_of_a_spare_process(void **state)
{
    struct policy *p = *state;
    p->spare = 2;
    for (int i = 1; i < POLICY_DEATHS_WITHOUT_STEP; i++)
        assert_int_equal(policy_exit(p, 2, killed(SIGKILL)).action, POLICY_RESTART);
    struct policy_verdict v = policy_exit(p, 2, killed(SIGKILL));
    assert_int_equal(v.action, POLICY_GONE);
    assert_non_null(strstr(v.why, "the job continues without it"));
    assert_false(p->ending);
    assert_int_equal(policy_exit(p, 0, killed(SIGKILL)).action, POLICY_RESTART);
    assert_int_equal(policy_exit(p, 2, exited(2)).action, POLICY_END); /* its input is wrong */
}

static void policy_restarts_after_a_signal_and_after_128_and_more(void **state)
{
    struct policy *p = *state;
    static const int codes[] = {128, 138, 143, 255};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        policy_made_step(p);
        assert_int_equal(policy_exit(p, 0, exited(codes[i])).action, POLICY_RESTART);
    }
    assert_int_equal(policy_exit(p, 2, killed(SIGKILL)).action, POLICY_RESTART);
    assert_int_equal(p->restarts, 5);
}

static void policy_doubles_the_delay_of_each_process_up_to_5_s(void **state)
{
    struct policy *p = *state;
    static const uint32_t want_ms[] = {100, 200, 400, 800, 1600, 3200, 5000, 5000};
    for (size_t i = 0; i < sizeof want_ms / sizeof *want_ms; i++) {
        policy_made_step(p);
        assert_int_equal(policy_exit(p, 0, killed(SIGSEGV)).delay_ms, want_ms[i]);
    }
    assert_int_equal(policy_exit(p, 2, killed(SIGSEGV)).delay_ms, 100);
}

static void policy_begins_the_delays_anew_after_a_healthy_run(void **state)
{
    struct policy *p = *state;
    const struct {
        int64_t ran_ms;
        uint32_t delay_ms;
    } of[] = {{1, 100},
              {POLICY_HEALTHY_MS - 1, 200},
              {POLICY_HEALTHY_MS, 100},
              {1, 200},
              {24 * 3600 * 1000, 100}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        policy_made_step(p);
        policy_ran(p, 0, of[i].ran_ms);
        assert_int_equal(policy_exit(p, 0, killed(SIGKILL)).delay_ms, of[i].delay_ms);
    }
    assert_int_equal(p->process[0].restarts, 5); /* which still count */
}

static void policy_ends_with_1_when_all_restarts_are_used(void **state)
{
    struct policy *p = *state;
    for (uint32_t i = 0; i < 10; i++) {
        policy_made_step(p);
        assert_int_equal(policy_exit(p, i % PROCESSES, killed(SIGKILL)).action, POLICY_RESTART);
    }
    policy_made_step(p);
    struct policy_verdict v = policy_exit(p, 0, killed(SIGKILL));
    assert_int_equal(v.action, POLICY_END);
    assert_int_equal(v.exit_code, 1);
    assert_string_equal(v.why, "killed by signal 9 (Killed); all 10 restarts are used");
}

static void policy_ends_at_the_third_death_of_one_process_without_a_new_step(void **state)
{
    struct policy *p = *state;
    policy_at_step(p, 7);
    assert_int_equal(policy_exit(p, 0, killed(SIGKILL)).action, POLICY_RESTART);
    assert_int_equal(policy_exit(p, 2, killed(SIGKILL)).action, POLICY_RESTART);
    assert_int_equal(policy_exit(p, 0, killed(SIGKILL)).action, POLICY_RESTART);
    policy_at_step(p, 7); /* the same step is no new one */
    struct policy_verdict v = policy_exit(p, 0, exited(138));
    assert_int_equal(v.action, POLICY_END);
    assert_int_equal(v.exit_code, 1);
    assert_string_equal(v.why, "exited with 138; 3 deaths without a new step or checkpoint");
}

/* As a chief that dies at the end of its job, where no step is left. */
static void policy_counts_a_newer_checkpoint_as_a_step(void **state)
{
    struct policy *p = *state;
    policy_at_step(p, 7);
    for (uint64_t cut = 4; cut < 8; cut++) {
        policy_published(p, cut);
        assert_int_equal(policy_exit(p, CHIEF, killed(SIGKILL)).action, POLICY_RESTART);
    }
    policy_published(p, 7); /* no newer one */
    assert_int_equal(policy_exit(p, CHIEF, killed(SIGKILL)).action, POLICY_RESTART);
    struct policy_verdict v = policy_exit(p, CHIEF, killed(SIGKILL));
    assert_int_equal(v.action, POLICY_END);
    assert_string_equal(v.why,
                        "killed by signal 9 (Killed); 3 deaths without a new step or checkpoint");
}

static void policy_counts_steps_again_after_a_rollback(void **state)
{
    struct policy *p = *state;
    policy_at_step(p, 500);
    for (int i = 0; i < 2; i++)
        assert_int_equal(policy_exit(p, 0, killed(SIGKILL)).action, POLICY_RESTART);
    policy_at_step(p, 20); /* rolled back: not yet a step */
    assert_int_equal(p->process[0].deaths_without_step, 2);
    policy_at_step(p, 21);
    assert_int_equal(p->process[0].deaths_without_step, 0);
}

static void policy_restarts_nobody_while_ending_or_once_the_chief_is_done(void **state)
{
    struct policy *p = *state;
    assert_int_equal(policy_exit(p, 0, exited(0)).action, POLICY_GONE);
    assert_false(p->chief_done);
    assert_int_equal(policy_exit(p, CHIEF, exited(0)).action, POLICY_GONE);
    assert_true(p->chief_done);
    assert_int_equal(policy_exit(p, 2, killed(SIGKILL)).action, POLICY_GONE);
    p->chief_done = false;
    p->ending = true;
    assert_int_equal(policy_exit(p, 2, exited(143)).action, POLICY_GONE);
    assert_int_equal(p->restarts, 0);
}

static void policy_ends_with_a_failure_that_comes_after_the_chief_is_done(void **state)
{
    struct policy *p = *state;
    (void)policy_exit(p, CHIEF, exited(0));
    struct policy_verdict v = policy_exit(p, 0, exited(1));
    assert_int_equal(v.action, POLICY_END);
    assert_int_equal(v.exit_code, 1);
}

static void policy_takes_a_lost_host_for_a_death_of_each_process_there(void **state)
{
    struct policy *p = *state;
    struct policy_verdict v = policy_lost(p, 0);
    assert_int_equal(v.action, POLICY_RESTART);
    assert_string_equal(v.why, "lost with its host");
    assert_int_equal(p->restarts, 1);
    assert_int_equal(policy_exit(p, 0, killed(SIGKILL)).action, POLICY_RESTART);
    v = policy_lost(p, 0);
    assert_int_equal(v.action, POLICY_END);
    assert_int_equal(v.exit_code, 1);
    assert_string_equal(v.why, "lost with its host; 3 deaths without a new step or checkpoint");
    assert_true(p->ending);
    assert_int_equal(policy_lost(p, 2).action, POLICY_GONE);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(policy_takes_a_lost_host_for_a_death_of_each_process_there,
                                        setup, teardown),
        TEST(policy_ends_with_the_code_of_the_first_exit_below_128),
        TEST(policy_restarts_after_a_signal_and_after_128_and_more),
        TEST(policy_ends_nothing_by_the_deaths_of_a_spare_process),
        TEST(policy_doubles_the_delay_of_each_process_up_to_5_s),
        TEST(policy_begins_the_delays_anew_after_a_healthy_run),
        TEST(policy_ends_with_1_when_all_restarts_are_used),
        TEST(policy_ends_at_the_third_death_of_one_process_without_a_new_step),
        TEST(policy_counts_a_newer_checkpoint_as_a_step),
        TEST(policy_counts_steps_again_after_a_rollback),
        TEST(policy_restarts_nobody_while_ending_or_once_the_chief_is_done),
        TEST(policy_ends_with_a_failure_that_comes_after_the_chief_is_done),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
