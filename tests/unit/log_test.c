#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "common/base/log.h"
#include "common/process/signals.h"

/* The line that log_warn("%s", text) writes to stderr. */
static void said(const char *text, char *out, size_t bytes)
{
    int pair[2], before = dup(STDERR_FILENO);
    assert_int_equal(pipe(pair), 0);
    assert_true(dup2(pair[1], STDERR_FILENO) >= 0);
    log_warn("%s", text);
    assert_true(dup2(before, STDERR_FILENO) >= 0);
    (void)close(before);
    (void)close(pair[1]);
    ssize_t n = read(pair[0], out, bytes - 1);
    (void)close(pair[0]);
    assert_true(n > 0);
    out[n] = 0;
}

static void what_others_cause_is_told_now_and_then_with_its_number(void **state)
{
    (void)state;
    struct log_budget b = {0};
    uint32_t left_out = 7;
    for (int i = 0; i < LOG_BURST; i++) {
        assert_true(log_may(&b, 5, &left_out));
        assert_int_equal(left_out, 0);
    }
    for (int i = 0; i < 100; i++)
        assert_false(log_may(&b, 5 + LOG_BURST_MS - 1, &left_out));
    assert_true(log_may(&b, 5 + LOG_BURST_MS, &left_out));
    assert_int_equal(left_out, 100);
    assert_true(log_may(&b, 5 + LOG_BURST_MS, &left_out));
    assert_int_equal(left_out, 0);
}

static void a_wait_that_is_over_is_no_kept_warning(void **state)
{
    (void)state;
    struct log_kept kept[LOG_KEPT];
    for (int i = 0; i < LOG_KEPT; i++) /* also where the ring has gone round */
        log_warn("older %d", i);
    log_warn("waiting 10 s for the chief, at most 600 s (timeouts.start_s)");
    log_warn("disk");
    log_error("step 7: waiting 20 s for worker 1, which is not connected");
    log_warn("waiting for nothing");
    log_wait_over();
    uint32_t n = log_warnings(kept);
    assert_int_equal(n, LOG_KEPT - 2);
    assert_string_equal(kept[n - 2].text, "disk");
    assert_string_equal(kept[n - 1].text, "waiting for nothing");
    log_warn("next");
    n = log_warnings(kept);
    assert_int_equal(n, LOG_KEPT - 1);
    assert_string_equal(kept[n - 1].text, "next");
    assert_string_equal(kept[0].text, "older 4");
}

static void the_last_warnings_are_kept_oldest_first(void **state)
{
    (void)state;
    struct log_kept kept[LOG_KEPT];
    char line[4096];
    for (int i = 0; i < LOG_KEPT + 3; i++) {
        (void)snprintf(line, sizeof line, "%d", i);
        said(line, line, sizeof line);
    }
    assert_int_equal(log_warnings(kept), LOG_KEPT);
    for (int i = 0; i < LOG_KEPT; i++) {
        assert_int_equal(atoi(kept[i].text), i + 3);
        assert_int_equal(kept[i].level, LOG_WARN);
        assert_true(kept[i].time_ms > 1600000000000);
    }
}

static void a_line_has_time_level_and_who(void **state)
{
    (void)state;
    char line[4096], longer[5000];
    log_init("worker 1", LOG_INFO);
    said("disk \"x\" is full", line, sizeof line);
    assert_string_equal(line + 24, " warn worker 1: disk \"x\" is full\n");
    assert_int_equal(line[23], 'Z');
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    said(longer, line, sizeof line);
    assert_int_equal(strlen(line), 2047); /* one write, cut */
    assert_string_equal(line + 2040, "xxxxxx\n");
}

static void a_line_is_one_line_whatever_is_said(void **state)
{
    (void)state;
    char line[4096];
    said("of job 'x\n2026-01-01T00:00:00.000Z info chief: done\x1b[2J\r|\t|\x7f'", line,
         sizeof line);
    assert_string_equal(
        line + 24,
        " warn worker 1: of job 'x?2026-01-01T00:00:00.000Z info chief: done?[2J?|?|?'\n");
    said("gr\xc3\xbc\xc3\x9f \xf0\x9f\x99\x82", line, sizeof line);
    assert_string_equal(line + 24, " warn worker 1: gr\xc3\xbc\xc3\x9f \xf0\x9f\x99\x82\n");
    said("M\xfcnchen", line, sizeof line);
    assert_string_equal(line + 24, " warn worker 1: M?nchen\n");
}

static void assert_message(const char *text, const char *wanted)
{
    char line[4096];
    said(text, line, sizeof line);
    json_t *all = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
    if (!all)
        fail_msg("no JSON: %s", line);
    assert_ptr_equal(strchr(line, '\n'), line + strlen(line) - 1);
    assert_int_equal(json_object_size(all), 4);
    assert_string_equal(json_string_value(json_object_get(all, "level")), "warn");
    assert_string_equal(json_string_value(json_object_get(all, "process")), "ps \"0\"");
    assert_int_equal(strlen(json_string_value(json_object_get(all, "time"))), 24);
    const char *got = json_string_value(json_object_get(all, "message"));
    if (wanted)
        assert_string_equal(got, wanted);
    else /* the beginning of it */
        assert_true(strlen(got) > 100 && strncmp(got, text, strlen(got)) == 0);
    json_decref(all);
}

static void a_json_line_is_json_whatever_is_said(void **state)
{
    (void)state;
    char longer[5000] = "";
    log_json();
    log_init("ps \"0\"", LOG_INFO);
    assert_message("plain", "plain");
    assert_message("a \"b\" \\ \n\t\x01", "a \"b\" \\ ???");
    assert_message("gr\xc3\xbc\xc3\x9f \xf0\x9f\x99\x82 \xe2\x82\xac",
                   "gr\xc3\xbc\xc3\x9f \xf0\x9f\x99\x82 \xe2\x82\xac");
    /* stray, cut short, overlong, a surrogate, beyond the last */
    assert_message("\xff|\x80|\xc3|\xc0\xaf|\xed\xa0\x80|\xf4\x90\x80\x80", "?|?|?|??|???|????");
    for (size_t i = 0; i + 4 < sizeof longer; i += 4)
        memcpy(longer + i, i % 3 ? "\xf0\x9f\x99\x82" : "\"\"\"\"", 5);
    assert_message(longer, NULL);
}

static void read_file(const char *path, char *out, size_t bytes)
{
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    size_t n = fread(out, 1, bytes - 1, f);
    out[n] = 0;
    (void)fclose(f);
}

static void the_last_words_depend_on_the_exit_code(void **state)
{
    (void)state;
    char path[] = "/tmp/gradwire-log-XXXXXX", text[256], line[4096];
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    (void)close(fd);
    said("seen", line, sizeof line);
    termination_end(path, 1); /* no error was said: the last line */
    read_file(path, text, sizeof text);
    assert_string_equal(text, "seen");
    fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    int before = dup(STDERR_FILENO);
    assert_true(dup2(fd, STDERR_FILENO) >= 0);
    log_error("no chief for 300 s");
    log_info("closing");
    log_debug("not worth a word");
    assert_true(dup2(before, STDERR_FILENO) >= 0);
    (void)close(before);
    (void)close(fd);
    termination_end(path, 1);
    read_file(path, text, sizeof text);
    assert_string_equal(text, "no chief for 300 s");
    termination_end(path, 143);
    read_file(path, text, sizeof text);
    assert_string_equal(text, "closing");
    termination_end(path, 0);
    read_file(path, text, sizeof text);
    assert_string_equal(text, "done");
    (void)unlink(path);
    termination_end("", 1); /* nowhere */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_warnings_are_kept_oldest_first),
        cmocka_unit_test(what_others_cause_is_told_now_and_then_with_its_number),
        cmocka_unit_test(a_line_has_time_level_and_who),
        cmocka_unit_test(a_line_is_one_line_whatever_is_said),
        cmocka_unit_test(a_json_line_is_json_whatever_is_said),
        cmocka_unit_test(the_last_words_depend_on_the_exit_code),
        cmocka_unit_test(a_wait_that_is_over_is_no_kept_warning),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
