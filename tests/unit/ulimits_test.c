/* The limits of a process, as ulimit sets them: what errors say of them, and the exit code that follows. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/net/loop.h"
#include "common/process/cgroup.h"
#include "common/net/mailbox.h"

static struct rlimit was;

static int setup(void **state)
{
    (void)state;
    return getrlimit(RLIMIT_NOFILE, &was);
}

static int teardown(void **state)
{
    (void)state;
    err_limits_set(&(struct err_limits){.memory = ""});
    return setrlimit(RLIMIT_NOFILE, &was);
}

/* Leaves so many free descriptors; returns the limit. */
static rlim_t leave(rlim_t n)
{
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
    int lowest = dup(STDIN_FILENO); /* all below it are open; those above it are closed here */
    assert_true(lowest >= 0);
    assert_int_equal(close_range((unsigned)lowest, ~0U, 0), 0);
    const struct rlimit few = {.rlim_cur = (rlim_t)lowest + n, .rlim_max = was.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    return few.rlim_cur;
}

static void an_error_names_the_number_of_descriptors_that_is_needed_and_the_limit(void **state)
{
    (void)state;
    struct errmsg e = {""};
    char want[120];
    rlim_t limit = leave(5);
    ulimits_init();
    for (uint32_t n = 0; n <= 5; n++)
        assert_int_equal(ulimits_check_descriptors(n, &e), ERR_OK);
    assert_int_equal(ulimits_check_descriptors(8, &e), ERR_FILES);
    (void)snprintf(want, sizeof want,
                   "too few file descriptors: raise ulimit -n to %llu or more; ulimit -n is %llu",
                   (unsigned long long)limit + 3, (unsigned long long)limit);
    assert_string_equal(e.text, want);
    assert_int_equal(ulimits_check_descriptors(5, &e), ERR_OK); /* all were closed */
    assert_int_equal(err_exit_code(ERR_FILES), 138);
}

/* libevent itself would end the process. */
static void a_loop_without_descriptors_is_an_error(void **state)
{
    (void)state;
    struct loop l;
    for (rlim_t n = 0; n <= 3; n++) {
        (void)leave(n);
        assert_int_equal(loop_init(&l), n < 3 ? ERR_FILES : ERR_OK);
    }
    struct mailbox mb;
    assert_int_equal(mailbox_init(&mb, &l, NULL, NULL), ERR_FILES);
    loop_close(&l);
}

static void errors_of_memory_and_descriptors_name_the_limit_once_and_others_do_not(void **state)
{
    (void)state;
    struct errmsg e = {""}, outer = {""};
    err_limits_set(&(struct err_limits){"ulimit -v is 65536 KiB", "ulimit -n is 20"});
    (void)err_set(&e, ERR_NOMEM, "no memory for rows");
    assert_string_equal(e.text, "no memory for rows; ulimit -v is 65536 KiB");
    (void)err_set(&outer, ERR_NOMEM, "table 2: %s", e.text);
    assert_string_equal(outer.text, "table 2: no memory for rows; ulimit -v is 65536 KiB");
    assert_int_equal(err_memory_for(&e, "%u rows", 7), ERR_NOMEM);
    assert_string_equal(e.text, "no memory for 7 rows; ulimit -v is 65536 KiB");
    assert_int_equal(err_memory_of(&e, "job.yaml"), ERR_NOMEM);
    assert_string_equal(e.text, "job.yaml: out of memory; ulimit -v is 65536 KiB");
    assert_int_equal(err_memory(&e), ERR_NOMEM);
    assert_string_equal(e.text, "out of memory; ulimit -v is 65536 KiB");
    assert_int_equal(err_memory_for(NULL, "rows"), ERR_NOMEM);
    (void)err_set(&e, ERR_FILES, "job.yaml: %s", strerror(EMFILE));
    assert_string_equal(e.text, "job.yaml: Too many open files; ulimit -n is 20");
    (void)err_set(&e, ERR_IO, "job.yaml: %s", strerror(EIO));
    assert_string_equal(e.text, "job.yaml: Input/output error");
    err_limits_set(&(struct err_limits){.memory = ""});
    (void)err_set(&e, ERR_NOMEM, "no memory for rows");
    assert_string_equal(e.text, "no memory for rows");
}

/* Without a limit the memory is the host's, and another time there may be enough. */
static void a_restart_does_not_help_a_process_whose_memory_is_limited(void **state)
{
    (void)state;
    static const int resource[] = {RLIMIT_AS, RLIMIT_DATA};
    static const char *const names[] = {"no; ulimit -v is 4294967296 KiB",
                                        "no; ulimit -d is 4294967296 KiB"};
    struct errmsg e;
    ulimits_init();
    assert_int_equal(err_exit_code(ERR_NOMEM), 138);
    for (size_t i = 0; i < 2; i++) {
        struct rlimit none, much;
        assert_int_equal(getrlimit((__rlimit_resource_t)resource[i], &none), 0);
        much = (struct rlimit){.rlim_cur = (rlim_t)1 << 42, .rlim_max = none.rlim_max};
        assert_int_equal(setrlimit((__rlimit_resource_t)resource[i], &much), 0);
        ulimits_init();
        assert_int_equal(setrlimit((__rlimit_resource_t)resource[i], &none), 0);
        assert_int_equal(err_exit_code(err_set(&e, ERR_NOMEM, "no")), 1);
        assert_string_equal(e.text, names[i]);
        assert_int_equal(err_exit_code(ERR_FILES), 138);
        assert_int_equal(err_exit_code(ERR_DISK), 138);
    }
}

static void what_a_failed_open_means_depends_on_errno(void **state)
{
    (void)state;
    assert_int_equal(err_of_errno(EMFILE), ERR_FILES);
    assert_int_equal(err_of_errno(ENFILE), ERR_FILES);
    assert_int_equal(err_of_errno(ENOMEM), ERR_NOMEM);
    assert_int_equal(err_of_errno(EIO), ERR_IO);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_error_names_the_number_of_descriptors_that_is_needed_and_the_limit),
        TEST(a_loop_without_descriptors_is_an_error),
        TEST(errors_of_memory_and_descriptors_name_the_limit_once_and_others_do_not),
        TEST(a_restart_does_not_help_a_process_whose_memory_is_limited),
        TEST(what_a_failed_open_means_depends_on_errno),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
