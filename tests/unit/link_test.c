/* A remote shell that executes no runner: the reason has the last that it printed, also a prompt. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <event2/event.h>
#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "launch/remote/talk.h"

enum { DEADLINE_MS = 60000, WHY_BYTES = 1024 };

static struct event_base *base;
static struct link shell;
static char down_why[WHY_BYTES];

static void on_ready(void *arg, const json_t *about)
{
    (void)arg, (void)about;
}

static bool on_message(void *arg, enum talk_type type, uint32_t process, const char *data,
                       size_t bytes)
{
    (void)arg, (void)type, (void)process, (void)data, (void)bytes;
    return true;
}

static void on_down(void *arg, const char *why)
{
    (void)arg;
    (void)snprintf(down_why, sizeof down_why, "%s", why);
}

static int setup(void **state)
{
    (void)state;
    static const struct link_ops ops = {.ready = on_ready, .message = on_message, .down = on_down};
    base = event_base_new();
    assert_int_equal(link_init(&shell, base, &ops, NULL), ERR_OK);
    down_why[0] = 0;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    link_free(&shell);
    event_base_free(base);
    return 0;
}

static void open_shell(const char *script)
{
    struct errmsg e;
    assert_int_equal(link_open(&shell, "sh", "-c", script, &e), ERR_OK);
}

/* The reason why the link with a shell of this script goes down. */
static const char *reason(const char *script)
{
    int64_t end_ms = clock_now_ms() + DEADLINE_MS;
    open_shell(script);
    while (!down_why[0] && clock_now_ms() < end_ms)
        (void)event_base_loop(base, EVLOOP_ONCE);
    return down_why;
}

/* The same for one that prints, and then waits: its time is over when `seen` has text. */
static const char *reason_of_waiting(const char *script, const char *seen)
{
    int64_t end_ms = clock_now_ms() + DEADLINE_MS;
    open_shell(script);
    while (!down_why[0] && clock_now_ms() < end_ms) {
        if (*seen)
            shell.opened_ms = clock_now_ms() - LINK_READY_MS - 1;
        (void)event_base_loop(base, EVLOOP_ONCE);
    }
    return down_why;
}

static void a_prompt_on_stderr_is_shown(void **state)
{
    (void)state;
    assert_string_equal(reason_of_waiting("printf 'Hello\nPassword: ' >&2; read x", shell.words),
                        "no answer for 30 s (Password: )");
}

static void a_prompt_on_stdout_is_shown(void **state)
{
    (void)state;
    assert_string_equal(reason_of_waiting("printf 'Welcome\nCode: '; read x", shell.talk.greeting),
                        "no answer for 30 s (Code: )");
}

static void the_last_line_of_a_shell_that_ends_is_shown_with_or_without_its_end(void **state)
{
    (void)state;
    assert_string_equal(reason("printf 'no such key' >&2"),
                        "the connection is closed (no such key)");
}

static void an_account_that_is_not_available_says_so_on_stdout(void **state)
{
    (void)state;
    assert_string_equal(
        reason("printf 'Hello\\r\\n\\033This account is not available.\\r\\n\\r\\n'"),
        "the connection is closed (?This account is not available.)");
}

static void both_outputs_are_shown(void **state)
{
    (void)state;
    assert_string_equal(reason("echo Welcome; echo 'no such key' >&2; echo >&2"),
                        "the connection is closed (Welcome; no such key)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_prompt_on_stderr_is_shown, setup, teardown),
        cmocka_unit_test_setup_teardown(a_prompt_on_stdout_is_shown, setup, teardown),
        cmocka_unit_test_setup_teardown(
            the_last_line_of_a_shell_that_ends_is_shown_with_or_without_its_end, setup, teardown),
        cmocka_unit_test_setup_teardown(an_account_that_is_not_available_says_so_on_stdout, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(both_outputs_are_shown, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
