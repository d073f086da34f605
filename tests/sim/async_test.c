/* Async: every batch is applied once on every chunk in the history that survives. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/lib/sim.h"

static void async_applies_every_batch_once(void **state)
{
    (void)state;
    sim_sweep(__func__, 1, 100, false, false);
}

static void async_applies_every_batch_once_under_faults(void **state)
{
    (void)state;
    sim_sweep(__func__, 1000, 2500, false, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(async_applies_every_batch_once),
        cmocka_unit_test(async_applies_every_batch_once_under_faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
