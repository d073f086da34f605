/* The archive of arrays is on the disk before it gets its name. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "model_cli/array_file.h"

/* ---- the process's calls of fsync on files ---- */

static off_t synced_bytes; /* of the last one that has a name; -1: it has none */

__attribute__((visibility("default"))) int fsync(int fd)
{
    struct stat st;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
        synced_bytes = st.st_nlink > 0 ? st.st_size : -1;
    return (int)syscall(SYS_fsync, fd);
}

/* ---- tests ---- */

static void an_archive_is_synced_before_it_gets_its_name(void **state)
{
    (void)state;
    static const float row[] = {1, 2, 3};
    char folder[] = "/tmp/gradwire-array-file-XXXXXX", path[64];
    struct array_file a = {.name = "x", .kind = ARRAY_F32, .fd = -1};
    struct text t = {.at = NULL};
    struct errmsg e;
    struct stat st;
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/a.npz", folder);
    text_add(&t, row, sizeof row);
    assert_int_equal(array_file_open(&a, path, &e), ERR_OK);
    assert_int_equal(array_file_put(&a, &t, &e), ERR_OK);
    assert_int_equal(array_file_npz(&a, 1, 3, path, &e), ERR_OK);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(synced_bytes, st.st_size);
    text_close(&t);
    array_file_close(&a);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0); /* nothing else is there */
}

/* A layer over a table can have the name of its column. */
static void two_arrays_of_one_name_are_no_archive(void **state)
{
    (void)state;
    char folder[] = "/tmp/gradwire-array-file-XXXXXX", path[64];
    struct array_file a[2] = {{.name = "user", .kind = ARRAY_F32, .fd = -1},
                              {.name = "user", .kind = ARRAY_F32, .fd = -1}};
    struct errmsg e;
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/a.npz", folder);
    for (int i = 0; i < 2; i++)
        assert_int_equal(array_file_open(&a[i], path, &e), ERR_OK);
    assert_int_equal(array_file_npz(a, 2, 0, path, &e), ERR_INPUT);
    assert_non_null(strstr(e.text, "two of its arrays have the name \"user\": rename the column"));
    for (int i = 0; i < 2; i++)
        array_file_close(&a[i]);
    assert_int_equal(rmdir(folder), 0); /* nothing is there */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_arrays_of_one_name_are_no_archive),
        cmocka_unit_test(an_archive_is_synced_before_it_gets_its_name),
    };
    return cmocka_run_group_tests_name("array_file", tests, NULL, NULL);
}
