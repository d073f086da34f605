/* Which warnings of the processes reach the terminal (launch/log_watch.h), and the lines of their logs
 * (launch/local/process.h). */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "launch/local/process.h"
#include "launch/log_watch.h"

static struct warnings w;

static int setup(void **state)
{
    (void)state;
    w = (struct warnings){0};
    return 0;
}

/* The next line, "" if there is none. */
static const char *next(void)
{
    static char line[WARNINGS_LINE_BYTES];
    return warnings_take(&w, line) ? line : "";
}

static void a_wait_that_goes_on_is_shown_once_and_again_when_it_is_new(void **state)
{
    (void)state;
    char text[64];
    int64_t now_ms = 1000;
    for (int s = 10; s <= 600; s += 10, now_ms += 10000) {
        (void)snprintf(text, sizeof text, "waiting %d s for ps 0", s);
        warnings_hear(&w, "worker 1", text, now_ms);
        assert_string_equal(next(), s == 10 ? "worker 1: waiting 10 s for ps 0" : "");
    }
    warnings_hear(&w, "worker 1", "waiting 10 s for ps 1",
                  now_ms); /* another ps is another thing */
    assert_string_equal(next(), "worker 1: waiting 10 s for ps 1");
    warnings_hear(&w, "worker 1", "waiting 10 s for ps 0", now_ms + WARNINGS_QUIET_MS);
    assert_string_equal(next(), "worker 1: waiting 10 s for ps 0");
}

static void processes_that_say_the_same_share_a_line(void **state)
{
    (void)state;
    char name[16];
    for (int i = 0; i < 6; i++) {
        (void)snprintf(name, sizeof name, "worker %d", i % 5);
        warnings_hear(&w, name, "data.train: 3 bad rows of 900 are left out", 5);
    }
    warnings_hear(&w, "ps 0", "another", 5);
    assert_string_equal(next(),
                        "worker 0, worker 1, worker 2 and 3 more: data.train: 3 bad rows of "
                        "900 are left out");
    assert_string_equal(next(), "ps 0: another");
    assert_string_equal(next(), "");
    warnings_hear(&w, "worker 9", "data.train: 3 bad rows of 900 are left out", 6);
    assert_string_equal(next(), "");
}

static void numbers_that_tell_things_apart_make_another_warning(void **state)
{
    (void)state;
    static const struct {
        const char *a, *b;
        bool same;
    } of[] = {{"waiting 10 s for ps 0", "waiting 20 s for ps 0", true},
              {"waiting 10 s for ps 0", "waiting 10 s for ps 10", false},
              {"127.0.0.1:4711 is refused: x", "127.0.0.1:815 is refused: x", true},
              {"[::1]:4711 is refused: x", "[::1]:815 is refused: x", true},
              {"cut 7 cannot be used", "cut 8 cannot be used", false},
              {"step 7: the loss is nan", "step 8: the loss is nan", true},
              {"a.csv:14: bad", "a.csv:15: bad", false},
              {"4 more peers were refused", "9 more peers were refused", true},
              {"3 bad rows", "4 bad rows", false}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        if ((warnings_key(of[i].a) == warnings_key(of[i].b)) != of[i].same)
            fail_msg("'%s' and '%s'", of[i].a, of[i].b);
}

static void a_flood_is_cut_off_and_counted(void **state)
{
    (void)state;
    char text[32];
    int shown = 0;
    for (int i = 0; i < 1000; i++) {
        (void)snprintf(text, sizeof text, "row %d is bad", i);
        warnings_hear(&w, "worker 0", text, i);
        shown += *next() != 0;
    }
    assert_int_equal(shown, LOG_BURST);
    warnings_hear(&w, "worker 0", "another", 2 * LOG_BURST_MS);
    assert_string_equal(next(), "980 more warnings are in the logs of the processes");
    assert_string_equal(next(), "worker 0: another");
}

static void a_line_is_read_as_text_and_as_json(void **state)
{
    (void)state;
    struct log_line l = {.text = "untouched"};
    static const char *const others[] = {"",
                                         "{",
                                         "{}",
                                         "libfoo: warn: x",
                                         "{\"level\":\"warn\"}",
                                         "{\"level\":7,\"message\":\"x\"}",
                                         "2026-01-31T12:00:00.123Z loud worker 1: x",
                                         "2026-01-31T12:00:00.123Z warn"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_false(log_line_parse(&l, others[i]));
    assert_string_equal(l.text, "untouched");
    assert_true(log_line_parse(&l, "2026-01-31T12:00:00.123Z warn worker 1: a: b"));
    assert_int_equal(l.level, LOG_WARN);
    assert_string_equal(l.text, "a: b");
    assert_true(log_line_parse(&l, "{\"time\":\"2026-01-31T12:00:00.123Z\",\"level\":\"error\","
                                   "\"process\":\"ps 0\",\"message\":\"it \\\"is\\\"\"}"));
    assert_int_equal(l.level, LOG_ERROR);
    assert_string_equal(l.text, "it \"is\"");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, setup)
    const struct CMUnitTest tests[] = {
        TEST(a_wait_that_goes_on_is_shown_once_and_again_when_it_is_new),
        TEST(processes_that_say_the_same_share_a_line),
        TEST(numbers_that_tell_things_apart_make_another_warning),
        TEST(a_flood_is_cut_off_and_counted),
        TEST(a_line_is_read_as_text_and_as_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
