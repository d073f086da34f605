/* Headers of safetensors files that nobody honest writes, read by each reader: as exchanged with gradwire-hdf5, as weights of a
 * model, and as arrays of a table. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/base/mem.h"
#include "common/process/files.h"
#include "export/export.h"
#include "formats/tensors/tensors.h"
#include "tests/lib/folder.h"

static struct errmsg e;

/* A file with this header, which claims to have `claimed` bytes, and `data` zeros after it. */
static int file_of(const char *header, uint64_t claimed, size_t data)
{
    size_t n = strlen(header);
    int fd = memfd_create("tensors_test", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(files_write_at(fd, "t", 0, &claimed, sizeof claimed, &e), ERR_OK);
    assert_int_equal(files_write_at(fd, "t", sizeof claimed, header, n, &e), ERR_OK);
    assert_int_equal(ftruncate(fd, (off_t)(sizeof claimed + n + data)), 0);
    return fd;
}

/* The file as a model's weights. */
static const struct place *linked(int fd)
{
    char from[64], to[FOLDER_BYTES + 32];
    (void)snprintf(from, sizeof from, "/proc/self/fd/%d", fd);
    (void)snprintf(to, sizeof to, "%s/" EXPORT_WEIGHTS, folder_dir);
    (void)unlink(to);
    assert_int_equal(symlink(from, to), 0);
    return folder_place(folder_dir);
}

static void refused(const char *header, uint64_t claimed, const char *why)
{
    struct tensors list = {0};
    uint64_t at = 7;
    int fd = file_of(header, claimed, 16);
    enum err err = tensors_read_header(&list, fd, "t", &at, &e);
    if (!err || !strstr(e.text, why))
        fail_msg("%s: %s", header, err ? e.text : "accepted");
    assert_int_equal(list.n, 0);
    assert_int_equal(at, 7);
    (void)close(fd);
}

static void sizes_that_no_file_has_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *shape, *offsets, *why;
    } cases[] = {
        {"[-4]", "[0,16]", "t: not a safetensors file"},
        {"[-2,-2]", "[0,16]", "t: not a safetensors file"},
        {"[4.0]", "[0,16]", "t: not a safetensors file"},
        {"[4]", "[-16,0]", "the data_offsets of tensor w are wrong"},
        {"[4]", "[0,-1]", "the data_offsets of tensor w are wrong"},
        {"[4]", "[16,0]", "the data_offsets of tensor w are wrong"},
        {"[4]", "[16,32]", "the data_offsets of tensor w are wrong"},
        {"[4]", "[0,4294967312]", "the data_offsets of tensor w are wrong"},
        {"[4]", "[]", "the data_offsets of tensor w are wrong"},
        {"[5]", "[0,20]", "t: its size does not fit its header"},
        {"[3]", "[0,12]", "t: its size does not fit its header"},
        {"[9223372036854775807]", "[0,16]", "w"},
        {"[4611686018427387905]", "[0,4]", "w"},       /* 4 times it is 4, modulo 2^64 */
        {"[4294967296,4294967296]", "[0,0]", "w"},     /* its product is 0, modulo 2^64 */
        {"[4294967296,1073741824,4,1]", "[0,0]", "w"}, /* 2^64 */
        {"[9223372036854775808]", "[0,16]", "t: "},    /* no integer of JSON's reader */
        {"[1,1,1,1,1,1,1,1,4]", "[0,16]", "at most 8 dimensions"},
    };
    char header[256];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int n = snprintf(header, sizeof header,
                         "{\"w\":{\"dtype\":\"F32\",\"shape\":%s,\"data_offsets\":%s}}",
                         cases[i].shape, cases[i].offsets);
        refused(header, (uint64_t)n, cases[i].why);
    }
}

/* The same as the weights of a model, in any order. */
static void weights_that_are_not_where_their_header_says_are_refused(void **state)
{
    (void)state;
    static const char sizes[] = "the data_offsets of tensor w do not fit the file",
                      shape[] = "tensor w is not float32 of the model's shape";
    static const struct {
        const char *shape, *offsets, *why;
    } cases[] = {
        {"[4]", "[-16,0]", sizes},         {"[4]", "[16,0]", sizes},
        {"[4]", "[4,20]", sizes},          {"[4]", "[0,4294967312]", sizes},
        {"[4]", "[0,12]", sizes},          {"[4]", "[]", sizes},
        {"[4]", "[\"0\",16]", sizes},      {"[-4]", "[0,16]", shape},
        {"[4.0]", "[0,16]", shape},        {"[2,2]", "[0,16]", shape},
        {"[4294967300]", "[0,16]", shape}, {"[1,1,1,1,1,1,1,1,4]", "[0,16]", shape},
        {"\"4\"", "[0,16]", shape},
    };
    struct tensor w = {.name = "w", .rank = 1, .shape = {4}, .elems = 4};
    const struct layout l = {.tensors = 1, .tensor = &w, .elems = 4};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char header[256];
        float values[4];
        int n = snprintf(header, sizeof header,
                         "{\"w\":{\"dtype\":\"F32\",\"shape\":%s,\"data_offsets\":%s}}",
                         cases[i].shape, cases[i].offsets);
        int fd = file_of(header, (uint64_t)n, 16);
        if (export_read_safetensors(linked(fd), &l, values, &e) != ERR_CORRUPT ||
            !strstr(e.text, cases[i].why))
            fail_msg("%s: %s", header, e.text);
        (void)close(fd);
    }
}

static void tensors_that_overlap_or_leave_a_gap_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *w, *v, *why; /* NULL: it is read */
    } cases[] = {
        {"0,8", "8,16", NULL},
        {"8,16", "0,8", NULL},
        {"0,8", "4,12",
         "the data_offsets of tensor v are wrong: it begins at 4, and the tensor before it ends at "
         "8"},
        {"0,8", "0,8", "are wrong: it begins at 0, and the tensor before it ends at 8"},
        {"8,16", "16,24",
         "the data_offsets of tensor w are wrong: it begins at 8, and the tensor before it ends at "
         "0"},
        {"12,20", "0,8", "tensor w are wrong: it begins at 12, and the tensor before it ends at 8"},
    };
    struct tensor both[] = {{.name = "w", .rank = 1, .shape = {2}, .elems = 2},
                            {.name = "v", .rank = 1, .shape = {2}, .offset_elems = 2, .elems = 2}};
    const struct layout l = {.tensors = 2, .tensor = both, .elems = 4};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char header[256];
        float values[4];
        int n =
            snprintf(header, sizeof header,
                     "{\"__metadata__\":{},\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":"
                     "[%s]},\"v\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[%s]}}",
                     cases[i].w, cases[i].v);
        int fd = file_of(header, (uint64_t)n, 24);
        enum err err = export_read_safetensors(linked(fd), &l, values, &e);
        if (err != (cases[i].why ? ERR_CORRUPT : ERR_OK) ||
            (cases[i].why && !strstr(e.text, cases[i].why)))
            fail_msg("%s: %s", header, e.text);
        (void)close(fd);
    }
}

static void a_table_whose_product_of_sizes_wraps_is_refused(void **state)
{
    (void)state;
    static const char header[] = "{\"rows\":{\"dtype\":\"F32\",\"shape\":[4294967296,1073741824],"
                                 "\"data_offsets\":[0,0]}}";
    struct safetensors s;
    struct safetensors_array a;
    int fd = file_of(header, sizeof header - 1, 0);
    assert_int_equal(safetensors_open_fd(&s, fd, "t", &e), ERR_OK);
    assert_int_equal(safetensors_array(&s, "rows", "F32", 2, 4, &a, &e), ERR_CORRUPT);
    assert_string_equal(e.text, "t: it has no tensor rows of type F32 and rank 2");
    assert_int_equal(safetensors_array(&s, "keys", "U64", 1, 8, &a, &e), ERR_CORRUPT);
    safetensors_close(&s);
    (void)close(fd);
}

static void two_tensors_of_one_name_are_refused(void **state)
{
    (void)state;
    static const char header[] = "{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
                                 "\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,16]}}";
    struct safetensors s;
    refused(header, sizeof header - 1, "t: not a safetensors file");
    int fd = file_of(header, sizeof header - 1, 16);
    assert_int_equal(safetensors_open_fd(&s, fd, "t", &e), ERR_CORRUPT);
    (void)close(fd);
}

static void a_header_longer_than_its_file_is_refused_without_memory_for_it(void **state)
{
    (void)state;
    static const uint64_t claimed[] = {
        19, 1 << 20, UINT64_C(1) << 32, UINT64_C(1) << 63, UINT64_MAX - 7, UINT64_MAX};
    for (size_t i = 0; i < sizeof claimed / sizeof *claimed; i++) {
        mem_fail_at(0);
        refused("{}", claimed[i], "t: not a safetensors file");
        mem_fail_at(-1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_that_no_file_has_are_refused),
        cmocka_unit_test(weights_that_are_not_where_their_header_says_are_refused),
        cmocka_unit_test(tensors_that_overlap_or_leave_a_gap_are_refused),
        cmocka_unit_test(a_table_whose_product_of_sizes_wraps_is_refused),
        cmocka_unit_test(two_tensors_of_one_name_are_refused),
        cmocka_unit_test(a_header_longer_than_its_file_is_refused_without_memory_for_it),
    };
    return cmocka_run_group_tests(tests, folder_setup, folder_teardown);
}
