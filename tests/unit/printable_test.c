/* Text of others as people may see it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/err.h"
#include "common/base/printable.h"
#include "common/base/rng.h"

enum { TEXTS = 20000, TEXT_BYTES = 24, SEED = 28 };

static void becomes(const char *text, const char *want)
{
    char got[256];
    assert_string_equal(printable_text(got, sizeof got, text), want);
    assert_string_equal(PRINTABLE(text), want);
}

static void control_characters_and_broken_ones_become_question_marks(void **state)
{
    (void)state;
    becomes("gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x99\x82",
            "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x99\x82");
    becomes("M\xfcnchen", "M?nchen");
    becomes("a\nb\tc\x1b[2J\x7f", "a?b?c?[2J?");
    becomes("csi \xc2\x9b"
            "2J",
            "csi ?2J");
    becomes("\xff|\x80|\xc3|\xe2\x82|\xf0\x9f\x99",
            "?|?|?|?|?"); /* one for each character that lacks its end */
    becomes("\xc0\xaf|\xed\xa0\x80|\xf4\x90\x80\x80",
            "??|???|????"); /* overlong, a surrogate, beyond the last */
}

static void a_cut_is_before_a_character_that_does_not_fit(void **state)
{
    (void)state;
    static const char text[] = "ab\xe2\x82\xac"
                               "c";
    static const size_t want[] = {0, 0, 1, 2, 2, 2, 5, 6};
    for (size_t room = 1; room < sizeof want / sizeof *want; room++) {
        char copied[8], formatted[8], wanted[8];
        (void)snprintf(wanted, sizeof wanted, "%.*s", (int)want[room], text);
        assert_int_equal(printable_copy(copied, room, text, strlen(text)), want[room]);
        assert_string_equal(copied, wanted);
        assert_int_equal(printable_format(formatted, room, "%s", text), want[room]);
        assert_string_equal(formatted, wanted);
    }
    assert_string_equal(printable_end(text, 4), "\xe2\x82\xac"
                                                "c");
    assert_string_equal(printable_end(text, 3), "c");
    assert_string_equal(printable_end(text, 6), text);
}

static void a_quoted_text_ends_where_its_quotes_do(void **state)
{
    (void)state;
    char got[16];
    assert_int_equal(printable_quoted(got, sizeof got, "a\"\\\n"), 6);
    assert_string_equal(got, "a\\\"\\\\?");
    assert_int_equal(printable_quoted(got, 3, "a\"b"), 1); /* no half of an escape */
    assert_string_equal(got, "a");
}

/* Of random bytes and every room: what is made is UTF-8 without a control character, fits, and stays as it is. */
static void any_bytes_become_text_that_fits(void **state)
{
    (void)state;
    static const unsigned char first[] = {0x41, 0x0a, 0x80, 0xbf, 0xc2, 0xc3,
                                          0xe2, 0xed, 0xf0, 0xf4, 0xff, 0x9b};
    uint64_t at = 0;
    for (int i = 0; i < TEXTS; i++) {
        char text[TEXT_BYTES], out[TEXT_BYTES], again[TEXT_BYTES];
        size_t n = rng_u64(SEED, at++) % TEXT_BYTES;
        for (size_t k = 0; k < n; k++)
            text[k] = (char)first[rng_u64(SEED, at++) % sizeof first];
        size_t room = 1 + rng_u64(SEED, at++) % TEXT_BYTES,
               made = printable_copy(out, room, text, n);
        assert_true(made < room && strlen(out) == made && printable_is_utf8(out));
        for (size_t k = 0; k < made; k++)
            assert_true((unsigned char)out[k] >= ' ' && out[k] != 0x7f);
        assert_string_equal(printable_text(again, sizeof again, out), out);
        assert_int_equal(printable_copy(text, room, text, n), made);
        assert_string_equal(text, out);
    }
}

/* An error is quoted by other errors, and cut by them. */
static void an_error_is_printable_whatever_it_quotes(void **state)
{
    (void)state;
    struct errmsg e;
    char name[600];
    (void)err_set(&e, ERR_INPUT, "column \"%s\": \"%s\" is not a number",
                  "Gr\xf6\xdf"
                  "e",
                  "1\n\x1b[2J");
    assert_string_equal(e.text, "column \"Gr??e\": \"1??[2J\" is not a number");
    (void)err_wrap(&e, ERR_INPUT, "M\xfcnchen.csv:%d: ", 3);
    assert_string_equal(e.text, "M?nchen.csv:3: column \"Gr??e\": \"1??[2J\" is not a number");
    for (size_t before = 480; before < 520; before++) {
        memset(name, 'x', before);
        (void)strcpy(name + before, "\xf0\x9f\x99\x82\xf0\x9f\x99\x82");
        (void)err_set(&e, ERR_INPUT, "%s", name);
        assert_true(printable_is_utf8(e.text) && !strchr(e.text, '?'));
        (void)err_wrap(&e, ERR_INPUT, "ab: ");
        assert_true(printable_is_utf8(e.text) && !strchr(e.text, '?'));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(control_characters_and_broken_ones_become_question_marks),
        cmocka_unit_test(a_cut_is_before_a_character_that_does_not_fit),
        cmocka_unit_test(a_quoted_text_ends_where_its_quotes_do),
        cmocka_unit_test(any_bytes_become_text_that_fits),
        cmocka_unit_test(an_error_is_printable_whatever_it_quotes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
