/* The frame against proto/README.md, which is the authority. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/crc32c.h"
#include "common/wire/frame.h"
#include "proto/gradwire.pb-c.h"

enum { README_MAX = 1 << 16 };

static const struct frame_limits all = {FRAME_PLAIN, FRAME_HEAD_MAX, FRAME_BODY_MAX},
                                 few = {FRAME_PLAIN, 100, 1000};

/* The page, or a failure: tests run in the folder of the sources. */
static const char *readme(void)
{
    static char text[README_MAX];
    FILE *f = fopen("proto/README.md", "r");
    assert_non_null(f);
    size_t n = fread(text, 1, sizeof(text) - 1, f);
    fclose(f);
    assert_true(n > 0 && n < sizeof(text) - 1);
    text[n] = '\0';
    return text;
}

/* One line "    18  0a 0b  words": its bytes behind those that are there; the offset must be their
 * number. */
static size_t read_line(const char *line, uint8_t *out, size_t n)
{
    char *at;
    if (strncmp(line, "    ", 4) != 0)
        return n;
    assert_int_equal(strtoul(line, &at, 16), n);
    for (at += 2; at[0] != ' ' && at[0] != '\n'; at += at[2] == ' ' ? 3 : 2) {
        char pair[3] = {at[0], at[1], '\0'}, *end;
        out[n++] = (uint8_t)strtoul(pair, &end, 16);
        assert_ptr_equal(end, pair + 2);
    }
    return n;
}

static size_t read_example(const char *name, uint8_t *out)
{
    const char *at = strstr(readme(), name), *end = at ? strstr(at, "<!-- end -->") : NULL;
    size_t n = 0;
    assert_true(at && end);
    for (at = strchr(at, '\n'); at && at < end; at = strchr(at + 1, '\n'))
        n = read_line(at + 1, out, n);
    return n;
}

static void the_worked_example_is_what_it_says(void **state)
{
    (void)state;
    uint8_t wire[256];
    struct frame f;
    size_t n = read_example("<!-- example -->", wire);
    assert_int_equal(frame_decode(&f, wire, &all), ERR_OK);
    assert_int_equal(f.type, FRAME_PUSH);
    assert_int_equal(FRAME_HEADER_BYTES + f.head_bytes + f.body_bytes, n);
    Gradwire__Push *m = gradwire__push__unpack(NULL, f.head_bytes, wire + FRAME_HEADER_BYTES);
    assert_non_null(m);
    assert_int_equal(m->generation->number, 2);
    assert_int_equal(m->generation->tag, UINT64_C(0x1122334455667788));
    assert_int_equal(m->name, 300);
    assert_int_equal(m->level, 1);
    assert_int_equal(m->index, 1);
    assert_int_equal(m->examples, 32);
    assert_int_equal(m->first_chunk, 0);
    assert_int_equal(m->chunks, 1);
    assert_int_equal(m->codec, GRADWIRE__CODEC__RAW);
    gradwire__push__free_unpacked(m, NULL);
    float body[2];
    memcpy(body, wire + FRAME_HEADER_BYTES + f.head_bytes, sizeof(body));
    assert_true(body[0] == 1.5f && body[1] == -2.0f);
}

static void the_code_makes_the_worked_example(void **state)
{
    (void)state;
    uint8_t want[256], wire[256];
    size_t n = read_example("<!-- example -->", want);
    const float body[2] = {1.5f, -2.0f};
    Gradwire__Generation generation = GRADWIRE__GENERATION__INIT;
    Gradwire__Push push = GRADWIRE__PUSH__INIT;
    generation.number = 2;
    generation.tag = UINT64_C(0x1122334455667788);
    push.generation = &generation;
    push.name = 300;
    push.level = push.index = push.chunks = 1;
    push.examples = 32;
    size_t head = gradwire__push__pack(&push, wire + FRAME_HEADER_BYTES);
    frame_encode(wire, &(struct frame){.version = FRAME_VERSION,
                                       .type = FRAME_PUSH,
                                       .head_bytes = (uint32_t)head,
                                       .body_bytes = sizeof(body)});
    memcpy(wire + FRAME_HEADER_BYTES + head, body, sizeof(body));
    assert_int_equal(FRAME_HEADER_BYTES + head + sizeof(body), n);
    assert_memory_equal(wire, want, n);
}

static const struct {
    uint16_t number;
    const char *name;
} types[] = {
#define X(name, message, number, to) {number, #name},
    FRAME_TYPE_MAP(X)
#undef X
};

enum { TYPES = sizeof(types) / sizeof(*types) };

static size_t rows_of_messages(const char *section)
{
    const char *end = strstr(section, "\n### ");
    size_t rows = 0;
    assert_non_null(end);
    for (const char *at = section; (at = strstr(at, "\n| ")) && at < end; at += 3)
        rows += at[3] >= '0' && at[3] <= '9';
    return rows;
}

static void the_readme_lists_every_message_with_its_number(void **state)
{
    (void)state;
    const char *at = strstr(readme(), "## Messages");
    assert_non_null(at);
    assert_int_equal(rows_of_messages(at), TYPES);
    for (size_t i = 0; i < TYPES; i++) {
        char row[64];
        snprintf(row, sizeof(row), "\n| %u | %s |", types[i].number, types[i].name);
        at = strstr(at, row); /* in this order */
        if (!at)
            fail_msg("proto/README.md lacks the row%s", row);
    }
}

static void every_type_and_no_other_number_has_a_name(void **state)
{
    (void)state;
    size_t named = 0;
    for (uint32_t type = 0; type <= UINT16_MAX; type++)
        named += frame_type_str((uint16_t)type) != NULL;
    assert_int_equal(named, TYPES);
    for (size_t i = 0; i < TYPES; i++)
        assert_string_equal(frame_type_str(types[i].number), types[i].name);
}

static void a_header_is_little_endian_at_the_offsets_of_the_page(void **state)
{
    (void)state;
    const uint8_t want[FRAME_HEADER_BYTES] = {0x47, 0x52, 0x57, 0x31, 0x34, 0x12, 0x78, 0x56,
                                              0x04, 0x03, 0x02, 0x01, 0x14, 0x13, 0x12, 0x11,
                                              0x28, 0x27, 0x26, 0x25, 0x24, 0x23, 0x22, 0x21};
    uint8_t got[FRAME_HEADER_BYTES];
    frame_encode(got, &(struct frame){.version = 0x1234,
                                      .type = 0x5678,
                                      .head_bytes = 0x01020304,
                                      .flags = 0x11121314,
                                      .body_bytes = UINT64_C(0x2122232425262728)});
    assert_memory_equal(got, want, sizeof(want));
}

static void what_is_encoded_is_decoded(void **state)
{
    (void)state;
    for (size_t i = 0; i < TYPES; i++) {
        struct frame f = {.version = FRAME_VERSION,
                          .type = types[i].number,
                          .head_bytes = (uint32_t)(FRAME_HEAD_MAX >> i % 20),
                          .body_bytes = FRAME_BODY_MAX >> i % 36};
        struct frame got = {0};
        uint8_t wire[FRAME_HEADER_BYTES];
        frame_encode(wire, &f);
        assert_int_equal(frame_decode(&got, wire, &all), ERR_OK);
        assert_int_equal(got.version, f.version);
        assert_int_equal(got.type, f.type);
        assert_int_equal(got.head_bytes, f.head_bytes);
        assert_int_equal(got.flags, 0);
        assert_true(got.body_bytes == f.body_bytes);
    }
}

/* Refused with `code`, explained with `words`, and nothing written. */
static void expect_refused(const uint8_t *wire, enum err code, const char *words)
{
    struct frame got, untouched;
    char why[128];
    memset(&got, 0xaa, sizeof(got));
    memset(&untouched, 0xaa, sizeof(untouched));
    assert_int_equal(frame_decode(&got, wire, &few), code);
    assert_memory_equal(&got, &untouched, sizeof(got));
    frame_explain(wire, &few, why, sizeof(why));
    assert_string_equal(why, words);
}

static void refuse(struct frame f, enum err code, const char *words)
{
    uint8_t wire[FRAME_HEADER_BYTES];
    frame_encode(wire, &f);
    expect_refused(wire, code, words);
}

static void a_wrong_header_is_refused_with_its_reason(void **state)
{
    (void)state;
    const struct frame ok = {.version = FRAME_VERSION, .type = FRAME_PULL};
    struct frame f = ok;
    expect_refused((const uint8_t *)"GET / HTTP/1.1\r\nHost: ps", ERR_PROTO,
                   "magic 0x20544547, not a gradwire peer");
    f.version = 2;
    refuse(f, ERR_PROTO, "frame version 2; this release uses version 1");
    f = ok, f.type = 0;
    refuse(f, ERR_PROTO, "frame type 0 is unknown");
    f = ok, f.type = 26; /* reserved for rows by key */
    refuse(f, ERR_PROTO, "frame type 26 is unknown");
    f = ok, f.flags = FRAME_FLAG_CRC;
    refuse(f, ERR_PROTO, "flags 0x1 of a PULL frame were not negotiated");
    f = ok, f.flags = UINT32_C(1) << 31;
    refuse(f, ERR_PROTO, "flags 0x80000000 of a PULL frame were not negotiated");
}

static void one_byte_over_a_limit_is_refused(void **state)
{
    (void)state;
    struct frame f = {
        .version = FRAME_VERSION, .type = FRAME_PULL, .head_bytes = 100, .body_bytes = 1000};
    struct frame got;
    uint8_t wire[FRAME_HEADER_BYTES];
    frame_encode(wire, &f);
    assert_int_equal(frame_decode(&got, wire, &few), ERR_OK);
    f.head_bytes = 101;
    refuse(f, ERR_TOOBIG, "the head of a PULL frame has 101 bytes; allowed: up to 100");
    f.head_bytes = 100, f.body_bytes = 1001;
    refuse(f, ERR_TOOBIG, "the body of a PULL frame has 1001 bytes; allowed: up to 1000");
}

/* ---- checksums ---- */

enum { CHECKED_BYTES = FRAME_HEADER_BYTES + FRAME_CHECKSUMS_BYTES };

static const struct frame_limits checked = {FRAME_CHECKED, FRAME_HEAD_MAX, FRAME_BODY_MAX};

/* The worked example once more, as the third frame with checksums of its direction. */
static size_t make_checked(uint8_t *out)
{
    uint8_t plain[256];
    struct frame f;
    size_t n = read_example("<!-- example -->", plain);
    assert_int_equal(frame_decode(&f, plain, &all), ERR_OK);
    const uint8_t *head = plain + FRAME_HEADER_BYTES, *body = head + f.head_bytes;
    const struct frame_checksums sums = {crc32c(0, head, f.head_bytes),
                                         crc32c(0, body, f.body_bytes)};
    f.flags = FRAME_FLAG_CRC;
    frame_encode(out, &f);
    frame_checksums_encode(out, &sums, 2);
    memcpy(out + CHECKED_BYTES, head, n - FRAME_HEADER_BYTES);
    return n + FRAME_CHECKSUMS_BYTES;
}

static void the_code_makes_the_example_with_checksums(void **state)
{
    (void)state;
    uint8_t want[256], made[256];
    struct frame f;
    struct frame_checksums sums = {0};
    size_t n = make_checked(made);
    assert_int_equal(read_example("<!-- checksums -->", want), CHECKED_BYTES);
    assert_memory_equal(made, want, CHECKED_BYTES);
    assert_int_equal(frame_decode(&f, made, &checked), ERR_OK);
    assert_int_equal(frame_checksums_decode(&sums, made, 2), ERR_OK);
    assert_int_equal(CHECKED_BYTES + f.head_bytes + f.body_bytes, n);
    assert_int_equal(sums.head, crc32c(0, made + CHECKED_BYTES, f.head_bytes));
    assert_int_equal(sums.body, crc32c(0, made + n - f.body_bytes, f.body_bytes));
}

static void a_change_of_any_bit_of_header_or_checksums_is_refused(void **state)
{
    (void)state;
    uint8_t wire[256];
    const struct frame_checksums none = {0};
    (void)make_checked(wire);
    for (size_t bit = 0; bit < 8 * CHECKED_BYTES; bit++) {
        struct frame f;
        struct frame_checksums sums = none;
        wire[bit / 8] ^= (uint8_t)(1 << bit % 8);
        bool taken = frame_decode(&f, wire, &checked) == ERR_OK &&
                     frame_checksums_decode(&sums, wire, 2) == ERR_OK;
        assert_false(taken);
        assert_memory_equal(&sums, &none, sizeof sums);
        wire[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
}

static void a_frame_in_the_place_of_another_is_refused(void **state)
{
    (void)state;
    uint8_t wire[256];
    struct frame_checksums sums;
    (void)make_checked(wire);
    assert_int_equal(frame_checksums_decode(&sums, wire, 1), ERR_PROTO);
    assert_int_equal(frame_checksums_decode(&sums, wire, 3), ERR_PROTO);
    assert_int_equal(frame_checksums_decode(&sums, wire, 2 | UINT64_C(1) << 32), ERR_PROTO);
}

static void frames_with_and_without_checksums_are_taken_as_agreed(void **state)
{
    (void)state;
    const struct frame_limits both = {FRAME_PLAIN | FRAME_CHECKED, 100, 1000};
    struct frame f = {.version = FRAME_VERSION, .type = FRAME_PULL}, got;
    uint8_t wire[FRAME_HEADER_BYTES];
    char why[128];
    frame_encode(wire, &f);
    assert_int_equal(frame_decode(&got, wire, &both), ERR_OK);
    assert_int_equal(frame_decode(&got, wire, &checked), ERR_PROTO);
    frame_explain(wire, &checked, why, sizeof why);
    assert_string_equal(why, "a PULL frame has no checksums, on which both sides have agreed");
    f.flags = FRAME_FLAG_CRC;
    frame_encode(wire, &f);
    assert_int_equal(frame_decode(&got, wire, &both), ERR_OK);
    assert_int_equal(got.flags, FRAME_FLAG_CRC);
    f.flags = FRAME_FLAG_CRC | 2;
    frame_encode(wire, &f);
    assert_int_equal(frame_decode(&got, wire, &both), ERR_PROTO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_worked_example_is_what_it_says),
        cmocka_unit_test(the_code_makes_the_worked_example),
        cmocka_unit_test(the_readme_lists_every_message_with_its_number),
        cmocka_unit_test(every_type_and_no_other_number_has_a_name),
        cmocka_unit_test(a_header_is_little_endian_at_the_offsets_of_the_page),
        cmocka_unit_test(what_is_encoded_is_decoded),
        cmocka_unit_test(a_wrong_header_is_refused_with_its_reason),
        cmocka_unit_test(one_byte_over_a_limit_is_refused),
        cmocka_unit_test(the_code_makes_the_example_with_checksums),
        cmocka_unit_test(a_change_of_any_bit_of_header_or_checksums_is_refused),
        cmocka_unit_test(a_frame_in_the_place_of_another_is_refused),
        cmocka_unit_test(frames_with_and_without_checksums_are_taken_as_agreed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
