/* The launcher reads level and text from the log lines of its processes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "launch/local/process.h"

static void lines_of_both_formats_have_level_and_text(void **state)
{
    (void)state;
    struct log_line l;
    assert_true(log_line_parse(&l, "2026-01-31T12:00:00.000Z warn worker 1: cut 3: damaged"));
    assert_int_equal(l.level, LOG_WARN);
    assert_string_equal(l.text, "cut 3: damaged");
    assert_true(log_line_parse(&l, "{\"time\":\"2026-01-31T12:00:00.000Z\",\"level\":\"error\","
                                   "\"process\":\"ps 0\",\"message\":\"disk full\"}"));
    assert_int_equal(l.level, LOG_ERROR);
    assert_string_equal(l.text, "disk full");
    assert_false(log_line_parse(&l, "Traceback (most recent call last): not ours"));
    assert_false(log_line_parse(&l, "{\"level\":\"loud\",\"message\":\"x\"}"));
}

static void control_characters_do_not_reach_the_terminal(void **state)
{
    (void)state;
    struct log_line l;
    assert_true(
        log_line_parse(&l, "2026-01-31T12:00:00.000Z warn ps 0: \x1b[2Jgone\x7f\tM\xc3\xbcnchen"));
    assert_string_equal(l.text, "?[2Jgone??M\xc3\xbcnchen");
    assert_true(log_line_parse(&l, "{\"level\":\"warn\",\"message\":\"a\\u001b[31m\\nb\"}"));
    assert_string_equal(l.text, "a?[31m?b");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_of_both_formats_have_level_and_text),
        cmocka_unit_test(control_characters_do_not_reach_the_terminal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
