/* Values of Arrow's columns, laid out by hand: each type has one text; nulls, dictionaries, lists and views are found; integers become
 * the nearest float. No module is loaded. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "data/arrow/arrow.h"

enum { SHOWN_BYTES = 100 };

/* The text of row i; "null". */
static const char *text_of(const char *format, const struct ArrowArray *a, int64_t i)
{
    static char out[SHOWN_BYTES];
    char made[ARROW_TEXT_BYTES];
    const struct ArrowSchema s = {.format = format};
    const struct arrow_type t = arrow_type_of(&s);
    int64_t at;
    if (!arrow_find(&t, &a, i, &at))
        return "null";
    const struct batch_text text = arrow_text(&t, a, at, made);
    (void)snprintf(out, sizeof out, "%.*s", (int)text.bytes, text.at);
    return out;
}

#define ARRAY(values)                                                                              \
    {                                                                                              \
        .length = 3, .n_buffers = 2, .buffers = (const void *[])                                   \
        {                                                                                          \
            NULL, values                                                                           \
        }                                                                                          \
    }

static void check_texts(const char *format, const void *values, const char *const want[3])
{
    const struct ArrowArray a = ARRAY(values);
    for (int64_t i = 0; i < 3; i++)
        assert_string_equal(text_of(format, &a, i), want[i]);
}

static void each_type_has_one_text(void **state)
{
    (void)state;
    check_texts("c", (const int8_t[]){-128, 0, 127}, (const char *const[]){"-128", "0", "127"});
    check_texts("C", (const uint8_t[]){0, 128, 255}, (const char *const[]){"0", "128", "255"});
    check_texts("s", (const int16_t[]){-1, 2, 3}, (const char *const[]){"-1", "2", "3"});
    check_texts("I", (const uint32_t[]){0, 1, UINT32_MAX},
                (const char *const[]){"0", "1", "4294967295"});
    check_texts("l", (const int64_t[]){INT64_MIN, -10, INT64_MAX},
                (const char *const[]){"-9223372036854775808", "-10", "9223372036854775807"});
    check_texts("L", (const uint64_t[]){0, 7, UINT64_MAX},
                (const char *const[]){"0", "7", "18446744073709551615"});
    check_texts("b", (const uint8_t[]){5}, (const char *const[]){"1", "0", "1"});
    check_texts("g", (const double[]){0.1, -3, 1e300},
                (const char *const[]){"0.1", "-3", "1e+300"});
    check_texts("d:5,2", (const int64_t[]){12345, 0, -5, -1, 0, 0},
                (const char *const[]){"123.45", "-0.05", "0.00"});
    check_texts("d:5,0", (const int64_t[]){12345, 0, -5, -1, 0, 0},
                (const char *const[]){"12345", "-5", "0"});
    check_texts("tdD", (const int32_t[]){0, -1, 20785},
                (const char *const[]){"1970-01-01", "1969-12-31", "2026-11-28"});
    check_texts("tdm", (const int64_t[]){86399999, -1, 951782400000},
                (const char *const[]){"1970-01-01", "1969-12-31", "2000-02-29"});
    check_texts(
        "tss:", (const int64_t[]){0, -1, 1795867445},
        (const char *const[]){"1970-01-01 00:00:00", "1969-12-31 23:59:59", "2026-11-28 12:04:05"});
    check_texts("tsm:UTC", (const int64_t[]){1, -1, 60000},
                (const char *const[]){"1970-01-01 00:00:00.001Z", "1969-12-31 23:59:59.999Z",
                                      "1970-01-01 00:01:00.000Z"});
    check_texts("tsn:", (const int64_t[]){1, 1000000000, INT64_MIN},
                (const char *const[]){"1970-01-01 00:00:00.000000001",
                                      "1970-01-01 00:00:01.000000000",
                                      "1677-09-21 00:12:43.145224192"});
}

static void a_text_is_where_its_offsets_or_its_view_say(void **state)
{
    (void)state;
    const int32_t at32[] = {0, 2, 2, 5};
    const int64_t at64[] = {0, 2, 2, 5};
    const uint8_t valid = 5; /* the second row is null */
    const struct ArrowArray small = {
        .length = 3, .n_buffers = 3, .buffers = (const void *[]){&valid, at32, "abcde"}};
    const struct ArrowArray large = {
        .length = 2, .offset = 1, .n_buffers = 3, .buffers = (const void *[]){NULL, at64, "abcde"}};
    assert_string_equal(text_of("u", &small, 0), "ab");
    assert_string_equal(text_of("u", &small, 1), "null");
    assert_string_equal(text_of("z", &small, 2), "cde");
    assert_string_equal(text_of("U", &large, 0), "");
    assert_string_equal(text_of("Z", &large, 1), "cde");
    char views[32] = {3, 0, 0, 0, 'x', 'y', 'z'};
    memcpy(views + 16, (const int32_t[]){14, 0, 0, 2}, 16);
    const struct ArrowArray viewed = {
        .length = 2,
        .n_buffers = 4,
        .buffers = (const void *[]){NULL, views, "..more than twelve", NULL}};
    assert_string_equal(text_of("vu", &viewed, 0), "xyz");
    assert_string_equal(text_of("vu", &viewed, 1), "more than twel");
}

static void a_dictionary_has_the_values_of_its_indices(void **state)
{
    (void)state;
    const int32_t offset[] = {0, 1, 3};
    const uint8_t word_valid = 1;
    struct ArrowSchema of = {.format = "u"};
    const struct ArrowSchema s = {.format = "c", .dictionary = &of};
    struct ArrowArray words = {
        .length = 2, .n_buffers = 3, .buffers = (const void *[]){&word_valid, offset, "abc"}};
    const struct ArrowArray a = {.length = 3,
                                 .n_buffers = 2,
                                 .buffers = (const void *[]){NULL, (const int8_t[]){0, 1, 9}},
                                 .dictionary = &words};
    const struct arrow_type t = arrow_type_of(&s);
    char made[ARROW_TEXT_BYTES];
    const struct ArrowArray *found = &a;
    int64_t at;
    assert_int_equal(t.kind, ARROW_TEXT);
    assert_true(arrow_find(&t, &found, 0, &at));
    assert_int_equal(arrow_text(&t, found, at, made).bytes, 1);
    for (int64_t i = 1; i < 3; i++) { /* a null word, and an index beyond the words */
        found = &a;
        assert_false(arrow_find(&t, &found, i, &at));
    }
}

static void a_list_is_between_its_offsets_or_has_one_size(void **state)
{
    (void)state;
    const struct ArrowArray a = ARRAY(((const int32_t[]){0, 2, 2, 5}));
    const struct ArrowSchema of_offsets = {.format = "+l"}, of_size = {.format = "+w:3"};
    const struct arrow_type offsets = arrow_type_of(&of_offsets), size = arrow_type_of(&of_size);
    int64_t begin, end;
    arrow_list(&offsets, &a, 2, &begin, &end);
    assert_int_equal(begin, 2);
    assert_int_equal(end, 5);
    arrow_list(&size, &a, 2, &begin, &end);
    assert_int_equal(begin, 6);
    assert_int_equal(end, 9);
}

static void an_integer_becomes_the_nearest_float(void **state)
{
    (void)state;
    /* 2^30 (2^24 + 1) + 1: behind the middle of two floats, on which the double is */
    const int64_t behind = (INT64_C(1) << 30) * ((1 << 24) + 1) * 256 + 1, small = 16777217;
    const struct ArrowSchema s = {.format = "l"};
    const struct arrow_type t = arrow_type_of(&s);
    const struct ArrowArray a = ARRAY(((const int64_t[]){behind, small, -behind}));
    double v[3];
    uint8_t valid = 7;
    assert_false(arrow_doubles(&t, &a, 0, 3, true, v, &valid));
    assert_true(v[0] == (double)(float)behind);
    assert_true((float)arrow_double(&t, &a, 0) != (float)behind);
    assert_true(v[1] == 16777217);
    assert_true(v[2] == -(double)(float)behind);
    assert_int_equal(valid, 7);
}

static void numbers_of_rows_are_not_valid_where_they_are_null(void **state)
{
    (void)state;
    const uint8_t nulls = 0x0B; /* of the values 5, 6, 7, 8: 7 is null */
    const struct ArrowArray a = {.length = 3,
                                 .offset = 1,
                                 .n_buffers = 2,
                                 .buffers =
                                     (const void *[]){&nulls, (const int16_t[]){5, 6, 7, -8}}};
    const struct ArrowSchema s = {.format = "s"};
    const struct arrow_type t = arrow_type_of(&s);
    int64_t integer[3];
    double number[3];
    uint8_t valid = 0xFF;
    assert_true(arrow_integers(&t, &a, 0, 3, integer, &valid));
    assert_int_equal(integer[0], 6);
    assert_int_equal(integer[2], -8);
    assert_int_equal(valid, 0xFD);
    assert_true(arrow_doubles(&t, &a, 1, 2, false, number, &valid));
    assert_true(number[1] == -8);
    assert_int_equal(valid, 0xFC);
    assert_false(arrow_doubles(&t, &a, 2, 1, false, number, &valid));
    assert_int_equal(valid, 0xFC);
}

/* At any bit of the bitmap, of each type: the values are those that are found one by one. */
static void the_numbers_of_a_column_are_those_of_its_rows(void **state)
{
    (void)state;
    enum { VALUES = 40 };
    uint8_t bytes[VALUES * 8], nulls[VALUES / 8];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 167 % 251);
    for (size_t i = 0; i < sizeof nulls; i++)
        nulls[i] = (uint8_t)(0xB7 + 60 * i);
    for (const char *format = "cCsSiIlLfgb"; *format; format++) {
        const struct ArrowSchema s = {.format = (const char[]){*format, '\0'}};
        const struct arrow_type t = arrow_type_of(&s);
        for (int64_t first = 0; first < 11; first++)
            for (uint32_t rows = 1; first + rows < VALUES - 3; rows++) {
                const struct ArrowArray a = {
                    .offset = 3, .n_buffers = 2, .buffers = (const void *[]){nulls, bytes}};
                double number[VALUES];
                int64_t integer[VALUES];
                uint8_t valid[VALUES / 8], other[VALUES / 8];
                memset(valid, 0xFF, sizeof valid);
                memset(other, 0xFF, sizeof other);
                (void)arrow_doubles(&t, &a, first, rows, false, number, valid);
                if (t.kind != ARROW_FLOAT)
                    (void)arrow_integers(&t, &a, first, rows, integer, other);
                assert_true(t.kind == ARROW_FLOAT || memcmp(valid, other, sizeof valid) == 0);
                for (uint32_t i = 0; i < rows; i++) {
                    const struct ArrowArray *of = &a;
                    int64_t at;
                    const bool is = arrow_find(&t, &of, first + i, &at);
                    assert_int_equal(is, valid[i / 8] >> i % 8 & 1);
                    const double v = is ? arrow_double(&t, of, at) : 0;
                    assert_true(!is || memcmp(&v, &number[i], sizeof v) == 0);
                    assert_true(!is || t.kind == ARROW_FLOAT || t.kind == ARROW_UNSIGNED ||
                                (double)integer[i] == v);
                }
            }
    }
}

static void all_of_a_column_of_nulls_are_null(void **state)
{
    (void)state;
    const struct ArrowArray a = {.length = 2, .null_count = 2};
    const struct ArrowSchema s = {.format = "n"};
    const struct arrow_type t = arrow_type_of(&s);
    assert_int_equal(t.kind, ARROW_NULL);
    assert_string_equal(t.name, "null");
    for (int64_t i = 0; i < 2; i++)
        assert_string_equal(text_of("n", &a, i), "null");
}

static void other_types_are_named(void **state)
{
    (void)state;
    static const char *const of[][2] = {{"+s", "struct"},
                                        {"+m", "map"},
                                        {"e", "half float"},
                                        {"d:50,2,256", "decimal256(50, 2)"},
                                        {"d:5,-2", "decimal128(5, -2)"},
                                        {"ttu", "time"},
                                        {"w:16", "fixed_size_binary[16]"},
                                        {"tDs", "of Arrow's type \"tDs\""}};
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++) {
        const struct ArrowSchema s = {.format = of[i][0]};
        const struct arrow_type t = arrow_type_of(&s);
        assert_int_equal(t.kind, ARROW_OTHER);
        assert_string_equal(t.name, of[i][1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_type_has_one_text),
        cmocka_unit_test(a_text_is_where_its_offsets_or_its_view_say),
        cmocka_unit_test(a_dictionary_has_the_values_of_its_indices),
        cmocka_unit_test(a_list_is_between_its_offsets_or_has_one_size),
        cmocka_unit_test(an_integer_becomes_the_nearest_float),
        cmocka_unit_test(numbers_of_rows_are_not_valid_where_they_are_null),
        cmocka_unit_test(the_numbers_of_a_column_are_those_of_its_rows),
        cmocka_unit_test(all_of_a_column_of_nulls_are_null),
        cmocka_unit_test(other_types_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
