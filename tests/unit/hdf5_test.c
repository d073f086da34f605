/* The child that reads and writes HDF5: formats/keras/hdf5.h and gradwire-hdf5.
 * starts programs */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/process/files.h"
#include "formats/keras/hdf5.h"
#include "formats/tensors/tensors.h"

enum { ROWS = 3, COLUMNS = 5 };

static struct errmsg e;

static int scratch(void)
{
    int fd = -1;
    assert_int_equal(hdf5_scratch(&fd, &e), ERR_OK);
    return fd;
}

static enum err run(const char *command, int from, int to)
{
    struct hdf5_call call = {.command = command, .name = "model.keras", .from = from, .to = to};
    e.text[0] = '\0';
    return hdf5_run(&call, &e);
}

/* An HDF5 file with layers/dense/vars/0 and 1. */
static int some_hdf5(float w[ROWS * COLUMNS])
{
    struct tensors list = {0};
    const uint64_t shape[] = {ROWS, COLUMNS}, one[] = {ROWS * COLUMNS};
    uint64_t at = 0;
    int from = scratch(), to = scratch();
    for (int i = 0; i < ROWS * COLUMNS; i++)
        w[i] = (float)i * 0.5f - 1.0f;
    assert_int_equal(tensors_add(&list, "layers/dense/vars/0", 2, shape, &e), ERR_OK);
    assert_int_equal(tensors_add(&list, "layers/dense/vars/1", 1, one, &e), ERR_OK);
    assert_int_equal(tensors_write_header(&list, from, "t", &at, &e), ERR_OK);
    for (uint64_t i = 0; i < list.n; i++)
        assert_int_equal(
            files_write_at(from, "t", at + list.entry[i].at, w, sizeof(float) * ROWS * COLUMNS, &e),
            ERR_OK);
    tensors_close(&list);
    if (run("write", from, to))
        fail_msg("%s", e.text);
    (void)close(from);
    return to;
}

static void tensors_come_back_from_hdf5(void **state)
{
    (void)state;
    float w[ROWS * COLUMNS], got[ROWS * COLUMNS];
    struct tensors list = {0};
    uint64_t at = 0;
    int file = some_hdf5(w), to = scratch();
    assert_int_equal(run("read", file, to), ERR_OK);
    assert_int_equal(tensors_read_header(&list, to, "t", &at, &e), ERR_OK);
    assert_int_equal(list.n, 2);
    const struct tensor_entry *t = tensors_find(&list, "layers/dense/vars/0");
    assert_non_null(t);
    assert_int_equal(t->rank, 2);
    assert_int_equal(t->shape[0], ROWS);
    assert_int_equal(t->shape[1], COLUMNS);
    assert_int_equal(tensors_read_values(to, "t", got, sizeof got, at + t->at, &e), ERR_OK);
    assert_memory_equal(got, w, sizeof w);
    tensors_close(&list);
    (void)close(file);
    (void)close(to);
}

static void a_damaged_file_is_an_error_that_names_the_users_file(void **state)
{
    (void)state;
    float w[ROWS * COLUMNS];
    static const char junk[] = "no HDF5";
    int file = some_hdf5(w), to = scratch(), text = scratch();
    assert_int_equal(ftruncate(file, 1000), 0);
    assert_int_equal(run("read", file, to), ERR_INPUT);
    assert_string_equal(e.text, "model.keras: not an HDF5 file, or a damaged one");
    assert_int_equal(write(text, junk, sizeof junk), sizeof junk);
    assert_int_equal(run("read", text, to), ERR_INPUT);
    assert_string_equal(e.text, "model.keras: not an HDF5 file, or a damaged one");
    assert_int_equal(run("write", text, to), ERR_CORRUPT);
    (void)close(file);
    (void)close(to);
    (void)close(text);
}

/* ---- children that do not do their work ---- */

static struct {
    char path[256];
} bin;

static void use_program(const char *script)
{
    char path[300];
    (void)snprintf(bin.path, sizeof bin.path, "/tmp/gradwire-hdf5-test-XXXXXX");
    assert_non_null(mkdtemp(bin.path));
    (void)snprintf(path, sizeof path, "%s/gradwire-hdf5", bin.path);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    (void)fprintf(f, "#!/bin/sh\n%s\n", script);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(chmod(path, 0700), 0);
    assert_int_equal(setenv("GRADWIRE_BIN_DIR", bin.path, 1), 0);
}

static int forget_program(void **state)
{
    (void)state;
    char path[300];
    (void)snprintf(path, sizeof path, "%s/gradwire-hdf5", bin.path);
    (void)unlink(path);
    (void)rmdir(bin.path);
    return unsetenv("GRADWIRE_BIN_DIR");
}

static void a_child_that_crashes_is_an_error_of_the_file(void **state)
{
    (void)state;
    int fd = scratch();
    use_program("kill -SEGV $$");
    assert_int_equal(run("read", fd, fd), ERR_CORRUPT);
    assert_string_equal(e.text,
                        "model.keras: gradwire-hdf5 ended by signal 11 (Segmentation fault): the "
                        "file is damaged, or made to do harm");
    (void)close(fd);
}

static void a_child_that_hangs_is_killed_at_the_deadline(void **state)
{
    (void)state;
    int fd = scratch();
    use_program("echo begins >&2; exec 2>&-; exec sleep 1000");
    struct hdf5_call call = {
        .command = "read", .name = "model.keras", .from = fd, .to = fd, .deadline_ms = 50};
    assert_int_equal(hdf5_run(&call, &e), ERR_TIMEOUT);
    assert_string_equal(e.text, "model.keras: gradwire-hdf5 was not done after 0 s");
    (void)close(fd);
}

static void a_child_that_talks_too_much_cannot_write_control_characters(void **state)
{
    (void)state;
    int fd = scratch();
    use_program(
        "printf '/proc/self/fd/3: bad \\033[31m' >&2; head -c 300000 /dev/zero | tr '\\0' x "
        ">&2; exit 2");
    assert_int_equal(run("read", fd, fd), ERR_INPUT);
    assert_memory_equal(e.text, "model.keras: bad ?[31mxxxx", 26);
    (void)close(fd);
}

static void a_missing_program_is_named(void **state)
{
    (void)state;
    int fd = scratch();
    assert_int_equal(setenv("GRADWIRE_BIN_DIR", "/nowhere", 1), 0);
    assert_int_equal(run("read", fd, fd), ERR_INPUT);
    assert_non_null(strstr(e.text, "gradwire-hdf5"));
    assert_int_equal(unsetenv("GRADWIRE_BIN_DIR"), 0);
    (void)close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_come_back_from_hdf5),
        cmocka_unit_test(a_damaged_file_is_an_error_that_names_the_users_file),
        cmocka_unit_test_teardown(a_child_that_crashes_is_an_error_of_the_file, forget_program),
        cmocka_unit_test_teardown(a_child_that_hangs_is_killed_at_the_deadline, forget_program),
        cmocka_unit_test_teardown(a_child_that_talks_too_much_cannot_write_control_characters,
                                  forget_program),
        cmocka_unit_test(a_missing_program_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
