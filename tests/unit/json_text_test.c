/* Texts of others as JSON. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/base/json_text.h"

static void becomes(const char *text, const char *want)
{
    json_t *got = json_text(text);
    assert_non_null(got);
    if (want)
        assert_string_equal(json_string_value(got), want);
    else
        assert_true(json_is_null(got));
    json_decref(got);
}

static void a_text_that_is_not_utf_8_is_shown_all_the_same(void **state)
{
    (void)state;
    becomes("M\xc3\xbcnchen \"x\"", "M\xc3\xbcnchen \"x\"");
    becomes("M\xfcnchen", "M?nchen");
    becomes("cut within \xc3", "cut within ?");
    becomes("", "");
    becomes(NULL, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_that_is_not_utf_8_is_shown_all_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
