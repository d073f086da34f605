#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/process/child.h"
#include "common/process/signals.h"

enum { LONG_MS = 100000 };

static struct errmsg e;

static enum err run(const char *script, uint32_t deadline_ms, bool (*ends)(void))
{
    const char *const argv[] = {"helper", "-c", script, NULL};
    const struct child_call call = {
        .program = "/bin/sh", .argv = argv, .deadline_ms = deadline_ms, .ends = ends};
    e.text[0] = '\0';
    enum err err = child_run(&call, &e);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* none is left */
    assert_int_equal(errno, ECHILD);
    return err;
}

static void a_child_that_succeeds_is_no_error_whatever_it_says(void **state)
{
    (void)state;
    assert_int_equal(run("echo out; echo a warning >&2", LONG_MS, NULL), ERR_OK);
    assert_int_equal(run("read line && exit 1; exit 0", LONG_MS, NULL),
                     ERR_OK); /* stdin is empty */
}

static void the_last_line_of_a_child_that_fails_is_the_error(void **state)
{
    (void)state;
    assert_int_equal(
        run("echo first >&2; echo 'gradwire: a.onnx: \033full' >&2; exit 1", LONG_MS, NULL),
        ERR_STATE);
    assert_string_equal(e.text, "a.onnx: ?full");
    assert_int_equal(run("echo 'no such layer' >&2; exit 2", LONG_MS, NULL), ERR_INPUT);
    assert_string_equal(e.text, "no such layer");
    assert_int_equal(run("exit 3", LONG_MS, NULL), ERR_STATE);
    assert_string_equal(e.text, "helper: exit code 3");
    assert_int_equal(run("head -c 100000 /dev/zero | tr '\\0' x >&2; exit 1", LONG_MS, NULL),
                     ERR_STATE);
    assert_int_equal(strlen(e.text), 399);
}

static void a_signal_is_named(void **state)
{
    (void)state;
    assert_int_equal(run("kill -SEGV $$", LONG_MS, NULL), ERR_STATE);
    assert_string_equal(e.text, "helper: signal 11 (Segmentation fault) ended it");
}

static void a_child_that_is_not_done_in_time_is_killed(void **state)
{
    (void)state;
    int64_t began_ms = clock_now_ms();
    assert_int_equal(run("while :; do :; done", 1000, NULL), ERR_TIMEOUT);
    assert_string_equal(e.text, "helper: it was not done after 1 s");
    assert_true(clock_now_ms() - began_ms >= 1000);
}

static bool at_once(void)
{
    return true;
}

static void a_child_that_is_not_wanted_any_more_is_killed(void **state)
{
    (void)state;
    assert_int_equal(run("trap '' TERM; while :; do :; done", LONG_MS, at_once), ERR_CLOSED);
    assert_string_equal(e.text, "helper: interrupted");
}

static void a_program_that_does_not_exist_is_named(void **state)
{
    (void)state;
    const char *const argv[] = {"helper", NULL};
    const struct child_call call = {
        .program = "/nonexistent/helper", .argv = argv, .deadline_ms = LONG_MS};
    assert_int_equal(child_run(&call, &e), ERR_STATE);
    assert_string_equal(e.text, "/nonexistent/helper: No such file or directory");
}

static void a_child_does_not_inherit_held_signals(void **state)
{
    (void)state;
    signals_hold();
    assert_int_equal(run("kill -TERM $$; exit 0", LONG_MS, NULL), ERR_STATE);
    assert_string_equal(e.text, "helper: signal 15 (Terminated) ended it");
}

static void a_child_has_no_open_files_of_ours(void **state)
{
    (void)state;
    char script[64];
    int fd = open("/dev/null", O_RDONLY); /* as what a launcher hands down */
    assert_true(fd > STDERR_FILENO);
    (void)snprintf(script, sizeof script, "test ! -e /proc/$$/fd/%d", fd);
    assert_int_equal(run(script, LONG_MS, NULL), ERR_OK);
    assert_int_equal(close(fd), 0);
}

static void what_a_child_leaves_running_is_not_awaited(void **state)
{
    (void)state;
    char folder[] = "/tmp/gradwire-child-XXXXXX", script[128];
    assert_non_null(mkdtemp(folder));
    (void)snprintf(script, sizeof script, "(while test -e %s; do :; done) & exit 3", folder);
    assert_int_equal(run(script, LONG_MS, NULL), ERR_STATE);
    assert_string_equal(e.text, "helper: exit code 3");
    assert_int_equal(rmdir(folder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_child_that_succeeds_is_no_error_whatever_it_says),
        cmocka_unit_test(the_last_line_of_a_child_that_fails_is_the_error),
        cmocka_unit_test(a_signal_is_named),
        cmocka_unit_test(a_child_that_is_not_done_in_time_is_killed),
        cmocka_unit_test(a_child_that_is_not_wanted_any_more_is_killed),
        cmocka_unit_test(a_program_that_does_not_exist_is_named),
        cmocka_unit_test(a_child_does_not_inherit_held_signals),
        cmocka_unit_test(a_child_has_no_open_files_of_ours),
        cmocka_unit_test(what_a_child_leaves_running_is_not_awaited),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
