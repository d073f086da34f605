#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "common/math/kernels.h"
#include "common/base/rng.h"
#include "worker/data/text/csv_scan.h"

enum { MOST = 700, RUNS = 3000 };

struct texts {
    char text[MOST + CSV_SCAN_PAD];
    uint32_t wanted[MOST + CSV_SCAN_PAD], got[MOST + CSV_SCAN_PAD];
};

/* Bytes that matter, often enough; behind them what must not be seen. */
static size_t random_text(struct texts *t, uint64_t run, char delimiter)
{
    const char often[] = {delimiter, '\n', '"', 'x', ' ', '\0', (char)0xff, '"'};
    size_t bytes = rng_u64(run, 0) % (MOST + 1);
    uint64_t rare = rng_u64(run, 1) % 40 + 1;
    for (size_t i = 0; i < bytes; i++) {
        uint64_t bits = rng_u64(run, 2 + i);
        t->text[i] = bits % rare == 0 ? often[bits >> 32 & 7] : (char)(bits >> 40);
    }
    memset(t->text + bytes, delimiter, sizeof t->text - bytes);
    return bytes;
}

static size_t scan_bytewise(uint32_t *at, const char *text, size_t bytes, char delimiter,
                            bool quotes)
{
    size_t n = 0;
    bool inside = false;
    for (size_t i = 0; i < bytes; i++) {
        if (quotes && text[i] == '"')
            inside = !inside;
        else if (!inside && (text[i] == delimiter || text[i] == '\n'))
            at[n++] = (uint32_t)i;
    }
    return n;
}

static void scan_is_the_same_at_every_level_as_a_byte_at_a_time(void **state)
{
    (void)state;
    static const char delimiters[] = {',', '\t', ';', '|', ' '};
    struct texts *t = calloc(1, sizeof *t);
    assert_non_null(t);
    for (int level = KERNELS_BASE; level <= KERNELS_AVX512; level++) {
        if (!kernels_use((enum kernels_level)level))
            continue;
        for (uint64_t run = 0; run < RUNS; run++) {
            char delimiter = delimiters[run % sizeof delimiters];
            bool quotes = run % 3;
            size_t bytes = random_text(t, run, delimiter);
            size_t wanted = scan_bytewise(t->wanted, t->text, bytes, delimiter, quotes);
            size_t got = csv_scan(t->got, t->text, bytes, delimiter, quotes);
            if (got != wanted || memcmp(t->got, t->wanted, got * sizeof *t->got) != 0)
                fail_msg("level %d, run %d", level, (int)run);
        }
    }
    free(t);
}

static void scan_finds_ends_outside_of_quotes(void **state)
{
    (void)state;
    char text[64 + CSV_SCAN_PAD] = "a,\"b,\n\"\"\",c\n\"d\n";
    uint32_t at[64 + CSV_SCAN_PAD];
    static const uint32_t wanted[] = {1, 9, 11};
    assert_int_equal(csv_scan(at, text, strlen(text), ',', true), 3);
    assert_memory_equal(at, wanted, sizeof wanted);
    assert_int_equal(csv_scan(at, text, strlen(text), ',', false), 6);
}

static void count_counts_every_byte(void **state)
{
    (void)state;
    enum { BYTES = 100000 };
    char *text = malloc(BYTES);
    assert_non_null(text);
    memset(text, 'x', BYTES);
    assert_int_equal(csv_count(text, BYTES, 'x'), BYTES);
    assert_int_equal(csv_count(text, BYTES, '\n'), 0);
    assert_int_equal(csv_count(text, 0, 'x'), 0);
    text[4095] = text[4096] = text[BYTES - 1] = '\n';
    assert_int_equal(csv_count(text, BYTES, '\n'), 3);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scan_is_the_same_at_every_level_as_a_byte_at_a_time),
        cmocka_unit_test(scan_finds_ends_outside_of_quotes),
        cmocka_unit_test(count_counts_every_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
