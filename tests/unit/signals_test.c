#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/signals.h"

/* How a process ends that gets the signal, and would end with 7. */
static int end_of(int number, bool held)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        signals_init();
        if (held)
            signals_hold();
        (void)raise(number);
        _exit(7);
    }
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void told_to_go_a_process_leaves_at_once(void **state)
{
    (void)state;
    assert_int_equal(end_of(SIGTERM, false), 143);
    assert_int_equal(end_of(SIGINT, false), 143);
    assert_int_equal(end_of(SIGPIPE, false), 7);
    assert_int_equal(end_of(SIGXFSZ, false), 7);
}

static void one_that_is_ending_by_itself_is_not_cut_off(void **state)
{
    (void)state;
    assert_int_equal(end_of(SIGTERM, true), 7);
    assert_int_equal(end_of(SIGINT, true), 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(told_to_go_a_process_leaves_at_once),
        cmocka_unit_test(one_that_is_ending_by_itself_is_not_cut_off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
