/* The times at which a wait is logged. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "worker/core/unreached.h"

static void a_wait_is_told_once_and_then_ever_more_rarely(void **state)
{
    (void)state;
    enum { TICK_MS = 100, BEGIN_MS = 777 };
    const int64_t wanted[] = {10, 20, 40, 80, 160, 320};
    struct patience p;
    size_t told = 0;
    patience_begin(&p, BEGIN_MS);
    for (int64_t ms = 0; ms <= 500000; ms += TICK_MS) {
        int64_t waited_s = -1;
        if (!patience_over(&p, BEGIN_MS + ms, &waited_s))
            continue;
        assert_true(told < sizeof wanted / sizeof *wanted);
        assert_int_equal(waited_s, wanted[told++]);
    }
    assert_int_equal(told, sizeof wanted / sizeof *wanted);
}

static void another_wait_is_told_as_the_first_was(void **state)
{
    (void)state;
    struct patience p;
    int64_t waited_s;
    patience_begin(&p, 0);
    assert_true(patience_over(&p, 100000, &waited_s));
    assert_false(patience_over(&p, 101000, &waited_s)); /* once, also behind a clock that jumped */
    patience_begin(&p, 200000);
    assert_false(patience_over(&p, 200000 + PATIENCE_FIRST_MS - 1, &waited_s));
    assert_true(patience_over(&p, 200000 + PATIENCE_FIRST_MS, &waited_s));
    assert_int_equal(waited_s, PATIENCE_FIRST_MS / 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wait_is_told_once_and_then_ever_more_rarely),
        cmocka_unit_test(another_wait_is_told_as_the_first_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
