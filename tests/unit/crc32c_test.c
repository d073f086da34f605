/* CRC-32C: known values, and the processor's instruction against the tables. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "common/base/crc32c.h"

/* RFC 3720, B.4. */
static void the_known_texts_have_their_crc(void **state)
{
    (void)state;
    uint8_t zeros[32] = {0}, ones[32], rising[32];
    memset(ones, 0xff, sizeof ones);
    for (int i = 0; i < 32; i++)
        rising[i] = (uint8_t)i;
    assert_int_equal(crc32c(0, zeros, 32), 0x8A9136AA);
    assert_int_equal(crc32c(0, ones, 32), 0x62A8AB43);
    assert_int_equal(crc32c(0, rising, 32), 0x46DD794E);
    assert_int_equal(crc32c(0, "123456789", 9), 0xE3069283);
    assert_int_equal(crc32c(0, NULL, 0), 0);
}

enum { LONGEST = 40000 };

static uint8_t text[LONGEST + 8];

static int fill(void **state)
{
    (void)state;
    uint64_t x = 1;
    for (size_t i = 0; i < sizeof text; i++) {
        x = x * UINT64_C(6364136223846793005) + 1442695040888963407;
        text[i] = (uint8_t)(x >> 56);
    }
    return 0;
}

/* One bit at a time, as the RFC defines it. */
static uint32_t by_bits(uint32_t before, const uint8_t *at, size_t bytes)
{
    uint32_t crc = ~before;
    for (size_t i = 0; i < 8 * bytes; i++) {
        uint32_t low = (crc ^ at[i / 8] >> i % 8) & 1;
        crc = crc >> 1 ^ (low ? 0x82F63B78 : 0);
    }
    return ~crc;
}

static void expect_equal(size_t from, size_t bytes, uint32_t before)
{
    uint32_t right = by_bits(before, text + from, bytes);
    assert_int_equal(crc32c(before, text + from, bytes), right);
    for (int way = 0; way < CRC32C_WAYS; way++) {
        uint32_t crc = before;
        bool there = crc32c_by((enum crc32c_way)way, &crc, text + from, bytes);
        assert_int_equal(crc, there ? right : before);
        assert_true(there || way != CRC32C_TABLE);
    }
}

static void every_short_length_at_every_alignment_has_the_same_crc_by_all_ways(void **state)
{
    (void)state;
    for (size_t from = 0; from < 8; from++)
        for (size_t bytes = 0; bytes <= 300; bytes++)
            expect_equal(from, bytes, (uint32_t)bytes * 0x9E3779B9);
}

/* Around multiples of the parts into which a text is divided. */
static void lengths_around_the_parts_of_a_long_text_have_the_same_crc_by_all_ways(void **state)
{
    (void)state;
    static const size_t around[] = {512, 768, 1024, 1280, 1536, 2304, 12288, 13056, 24576, 36864};
    for (size_t i = 0; i < sizeof around / sizeof *around; i++)
        for (size_t bytes = around[i] - 9; bytes <= around[i] + 9; bytes++)
            expect_equal(bytes % 8, bytes, 0xffffffff);
    expect_equal(1, LONGEST, 0);
}

static void a_text_in_two_parts_has_the_crc_of_the_whole(void **state)
{
    (void)state;
    uint32_t whole = crc32c(0, text, 5000);
    for (size_t first = 0; first <= 5000; first += 7)
        assert_int_equal(crc32c(crc32c(0, text, first), text + first, 5000 - first), whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_known_texts_have_their_crc),
        cmocka_unit_test(every_short_length_at_every_alignment_has_the_same_crc_by_all_ways),
        cmocka_unit_test(lengths_around_the_parts_of_a_long_text_have_the_same_crc_by_all_ways),
        cmocka_unit_test(a_text_in_two_parts_has_the_crc_of_the_whole),
    };
    return cmocka_run_group_tests(tests, fill, NULL);
}
