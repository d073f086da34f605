#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "common/base/version.h"

static void one_release_agrees_with_itself(void **state)
{
    (void)state;
    char why[200] = "as it was";
    assert_true(version_same(GRADWIRE_HELLO, "worker", "ps", why, sizeof why));
    assert_string_equal(why, "as it was");
}

static void another_release_is_refused_naming_both(void **state)
{
    (void)state;
    static const char *const others[] = {"", "9.9", GRADWIRE_VERSION,
                                         GRADWIRE_VERSION " (protocol 1)",
                                         "a version that is far too long to be one"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        char why[200] = "", want[200] = "a worker of version ";
        (void)strncat(want, others[i], 32);
        (void)strcat(want, " connected to a ps of version " GRADWIRE_HELLO
                           ": all processes of a job must run the same release");
        assert_false(version_same(others[i], "worker", "ps", why, sizeof why));
        assert_string_equal(why, want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_release_agrees_with_itself),
        cmocka_unit_test(another_release_is_refused_naming_both),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
