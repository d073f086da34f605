/* The end of the chief's run, as an evaluator reads it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/process/files.h"
#include "tests/lib/folder.h"
#include "worker/evaluator/evaluator_role.h"

static const struct job job = {.name = "people"};
static struct chief_end end;
static int code;
static struct errmsg why;

static void write_file(const char *name, const char *text)
{
    char path[FOLDER_BYTES + 32];
    struct errmsg e = {""};
    (void)snprintf(path, sizeof path, "%s/%s", folder_dir, name);
    assert_int_equal(files_write(path, text, strlen(text), &e), ERR_OK);
}

/* Its time, in seconds after 2020. */
static void set_time(const char *name, time_t s)
{
    char path[FOLDER_BYTES + 32];
    struct timespec at[2] = {{.tv_sec = 1577836800 + s}, {.tv_sec = 1577836800 + s}};
    (void)snprintf(path, sizeof path, "%s/%s", folder_dir, name);
    assert_int_equal(utimensat(AT_FDCWD, path, at, 0), 0);
}

static bool failed(void)
{
    why.text[0] = '\0';
    code = 0;
    return chief_end_failed(&end, &job, folder_dir, &code, &why);
}

static const char FAILED[] =
    "{\"status\": \"failed\", \"exit_code\": 2, \"error\": \"a.csv:4: no number\", "
    "\"job\": \"people\"}";

static void a_failure_that_is_written_is_heard_with_its_code_and_reason(void **state)
{
    (void)state;
    chief_end_begin(&end, folder_dir);
    assert_false(failed());
    write_file("summary.json", FAILED);
    assert_true(failed());
    assert_int_equal(code, 2);
    assert_string_equal(why.text, "the chief ended the job: a.csv:4: no number");
}

static void a_failure_of_an_earlier_run_is_not_heard_and_the_same_one_again_is(void **state)
{
    (void)state;
    write_file("summary.json", FAILED);
    chief_end_begin(&end, folder_dir);
    assert_false(failed());
    write_file("summary.json", FAILED);
    set_time("summary.json", 100);
    assert_true(failed());
}

static void a_run_that_has_begun_since_is_waited_for(void **state)
{
    (void)state;
    chief_end_begin(&end, folder_dir);
    write_file("summary.json", FAILED);
    write_file("lock", "17\n");
    set_time("summary.json", 100);
    set_time("lock", 99);
    assert_true(failed());
    set_time("lock", 101);
    assert_false(failed());
}

static void other_ends_are_none(void **state)
{
    (void)state;
    static const char *const others[] = {
        "{\"status\": \"done\", \"exit_code\": 0, \"error\": null, \"job\": \"people\"}",
        "{\"status\": \"interrupted\", \"exit_code\": 143, \"error\": \"x\", \"job\": \"people\"}",
        "{\"status\": \"failed\", \"exit_code\": 138, \"error\": \"x\", \"job\": \"people\"}",
        "{\"status\": \"failed\", \"exit_code\": 1, \"error\": \"x\", \"job\": \"others\"}",
        "{\"status\": \"failed\", \"exit_code\": -1, \"error\": \"x\", \"job\": \"people\"}",
        "{\"status\": 1, \"exit_code\": \"1\", \"error\": 4, \"job\": []}",
        "[1, 2]",
        "{\"status\": \"fai",
        "",
    };
    chief_end_begin(&end, folder_dir);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        write_file("summary.json", others[i]);
        if (failed())
            fail_msg("%s", others[i]);
    }
    write_file("summary.json", "{\"status\": \"failed\", \"exit_code\": 1, \"job\": \"people\"}");
    assert_true(failed());
    assert_string_equal(why.text, "the chief ended the job: its log has the reason");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, folder_setup, folder_teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_failure_that_is_written_is_heard_with_its_code_and_reason),
        TEST(a_failure_of_an_earlier_run_is_not_heard_and_the_same_one_again_is),
        TEST(a_run_that_has_begun_since_is_waited_for),
        TEST(other_ends_are_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
