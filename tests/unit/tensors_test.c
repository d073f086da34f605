/* formats/tensors: headers of safetensors files that nobody honest writes. */
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
#include "formats/tensors/tensors.h"

static struct errmsg e;

/* A file with this header, which claims to have `claimed` bytes, and `data` zeros after it. */
static int file_of(const char *header, uint64_t claimed, size_t data)
{
    size_t n = strlen(header);
    int fd = memfd_create("tensors_test", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(tensors_pwrite(fd, "t", &claimed, sizeof claimed, 0, &e), ERR_OK);
    assert_int_equal(tensors_pwrite(fd, "t", header, n, sizeof claimed, &e), ERR_OK);
    assert_int_equal(ftruncate(fd, (off_t)(sizeof claimed + n + data)), 0);
    return fd;
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
        cmocka_unit_test(a_header_longer_than_its_file_is_refused_without_memory_for_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
