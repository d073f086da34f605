/* A process notices that the directory that it has locked was removed or replaced, and writes nothing there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/place/place.h"
#include "common/process/dirlock.h"
#include "common/process/files.h"
#include "tests/lib/folder.h"

static char dir[FOLDER_BYTES + 16], aside[FOLDER_BYTES + 16];
static int lock = -1;

/* dir is locked and guarded. */
static int setup(void **state)
{
    struct errmsg e;
    if (folder_setup(state))
        return -1;
    (void)snprintf(dir, sizeof dir, "%s/dir", folder_dir);
    (void)snprintf(aside, sizeof aside, "%s/aside", folder_dir);
    return dirlock_take(dir, &lock, NULL, &e) || dirguard_begin(dir, lock, &e) ? -1 : 0;
}

static int teardown(void **state)
{
    struct errmsg e;
    char nowhere[FOLDER_BYTES + 16];
    (void)snprintf(nowhere, sizeof nowhere, "%s/nowhere", folder_dir);
    (void)close(lock);
    return dirguard_begin(nowhere, -1, &e) || folder_remove(aside) ? -1 : folder_teardown(state);
}

static void write_in_dir(enum err want)
{
    struct errmsg e = {""};
    char path[2 * FOLDER_BYTES];
    (void)snprintf(path, sizeof path, "%s/file", dir);
    assert_int_equal(files_write(path, "text", 4, &e), want);
    assert_int_equal(line_file_append(path, "line\n", 5, &e), want);
    (void)snprintf(path, sizeof path, "%s/a/b", dir);
    assert_int_equal(files_mkdirs(path, &e), want);
    assert_int_equal(access(path, F_OK) == 0, want == ERR_OK);
    assert_int_equal(files_remove_folder(path, &e), want);
    if (want)
        assert_non_null(strstr(e.text, "its lock is not the file that this job holds"));
}

static void dirguard_is_silent_while_the_directory_stays(void **state)
{
    (void)state;
    struct errmsg e;
    assert_int_equal(dirguard_check(&e), ERR_OK);
    write_in_dir(ERR_OK);
}

static void dirguard_notices_a_directory_that_is_gone(void **state)
{
    (void)state;
    assert_int_equal(rename(dir, aside), 0);
    struct errmsg e = {""};
    assert_int_equal(dirguard_check(&e), ERR_STATE);
    assert_non_null(strstr(e.text, dir));
    assert_null(strstr(e.text, "pid"));
    write_in_dir(ERR_STATE);
    assert_int_equal(access(dir, F_OK), -1);
}

static void dirguard_removes_nothing_from_the_place_of_another_job(void **state)
{
    (void)state;
    struct errmsg e = {""};
    char best[2 * FOLDER_BYTES], table[3 * FOLDER_BYTES];
    struct place place;
    (void)snprintf(best, sizeof best, "%s/best", dir);
    (void)snprintf(table, sizeof table, "%s/tables/t", best);
    place_folder(&place, NULL, best);
    assert_int_equal(rename(dir, aside), 0);
    assert_int_equal(dirguard_begin(aside, lock, &e), ERR_OK);
    assert_int_equal(place_put(&place, "tables/t", "rows", 4, &e), ERR_OK);
    assert_int_equal(dirguard_begin(dir, lock, &e), ERR_OK);
    place_clear(&place, "tables", false);
    assert_int_equal(access(table, F_OK), 0);
    assert_int_equal(place_remove(&place, "tables/t", &e), ERR_STATE);
    assert_non_null(strstr(e.text, "its lock is not the file that this job holds"));
    assert_int_equal(access(table, F_OK), 0);
}

static void dirguard_names_the_process_that_has_locked_another_directory_there(void **state)
{
    (void)state;
    struct errmsg e = {""};
    char mine[64];
    int other;
    assert_int_equal(rename(dir, aside), 0);
    assert_int_equal(mkdir(dir, 0777), 0);
    assert_int_equal(dirlock_take(dir, &other, NULL, &e),
                     ERR_STATE); /* it makes directories, too */
    assert_int_equal(dirguard_begin(aside, lock, &e), ERR_OK);
    assert_int_equal(dirlock_take(dir, &other, NULL, &e), ERR_OK);
    assert_int_equal(dirguard_begin(dir, lock, &e), ERR_OK);
    assert_int_equal(dirguard_check(&e), ERR_STATE);
    (void)snprintf(mine, sizeof mine, "; pid %ld has locked it now", (long)getpid());
    assert_non_null(strstr(e.text, mine));
    write_in_dir(ERR_STATE);
    (void)close(other);
}

static void dirguard_keeps_its_verdict_when_the_directory_comes_back(void **state)
{
    (void)state;
    struct errmsg e;
    assert_int_equal(rename(dir, aside), 0);
    assert_int_equal(dirguard_check(&e), ERR_STATE);
    assert_int_equal(rename(aside, dir), 0);
    assert_int_equal(dirguard_check(&e), ERR_STATE);
}

/* A directory that cannot be looked into may be the same. */
static void dirguard_does_not_take_an_error_for_a_removal(void **state)
{
    (void)state;
    struct errmsg e;
    char loop[FOLDER_BYTES + 32];
    (void)snprintf(loop, sizeof loop, "%s/lock", dir);
    assert_int_equal(unlink(loop), 0);
    assert_int_equal(symlink("lock", loop), 0); /* ELOOP */
    assert_int_equal(dirguard_check(&e), ERR_OK);
}

static void dirguard_without_a_lock_guards_nothing(void **state)
{
    (void)state;
    struct errmsg e;
    assert_int_equal(dirguard_begin(aside, -1, &e), ERR_OK);
    assert_int_equal(dirguard_check(&e), ERR_OK);
    assert_int_equal(dirguard_begin(dir, 999, &e), ERR_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(dirguard_is_silent_while_the_directory_stays, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(dirguard_notices_a_directory_that_is_gone, setup, teardown),
        cmocka_unit_test_setup_teardown(dirguard_removes_nothing_from_the_place_of_another_job,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(
            dirguard_names_the_process_that_has_locked_another_directory_there, setup, teardown),
        cmocka_unit_test_setup_teardown(dirguard_keeps_its_verdict_when_the_directory_comes_back,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(dirguard_does_not_take_an_error_for_a_removal, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(dirguard_without_a_lock_guards_nothing, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
