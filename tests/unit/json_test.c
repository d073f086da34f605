/* Values that JSON has no words for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/json.h"

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

static void a_text_of_any_bytes_and_any_length_is_a_string(void **state)
{
    (void)state;
    becomes("M\xc3\xbcnchen \"x\"", "M\xc3\xbcnchen \"x\"");
    becomes("M\xfcnchen", "M?nchen");
    becomes("cut within \xc3", "cut within ?");
    becomes("a\n\x1b[2Jb", "a??[2Jb");
    becomes("", "");
    char longer[5000], want[5000];
    memset(longer, 0xff, sizeof longer - 1);
    memset(want, '?', sizeof want - 1);
    longer[sizeof longer - 1] = want[sizeof want - 1] = 0;
    becomes(longer, want);
    becomes(NULL, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_of_any_bytes_and_any_length_is_a_string),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
