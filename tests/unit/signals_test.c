#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/process/signals.h"

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

static void who_leaves_at_once_says_why(void **state)
{
    (void)state;
    char path[] = "/tmp/signals_test.XXXXXX", said[64] = "";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    const char *before = "what a life before has left, which is longer";
    assert_int_equal(write(fd, before, strlen(before)), (ssize_t)strlen(before));
    signals_last_words(path, "of the start");
    signals_last_words(path, "asked to stop");
    assert_int_equal(end_of(SIGTERM, false), 143);
    assert_int_equal(pread(fd, said, sizeof said - 1, 0), strlen("asked to stop"));
    assert_string_equal(said, "asked to stop");
    assert_int_equal(ftruncate(fd, 0), 0);
    assert_int_equal(end_of(SIGTERM, true), 7);
    assert_int_equal(pread(fd, said, sizeof said, 0), 0);
    signals_last_words("", "");
    assert_int_equal(end_of(SIGTERM, false), 143);
    (void)close(fd);
    (void)remove(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(told_to_go_a_process_leaves_at_once),
        cmocka_unit_test(one_that_is_ending_by_itself_is_not_cut_off),
        cmocka_unit_test(who_leaves_at_once_says_why),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
