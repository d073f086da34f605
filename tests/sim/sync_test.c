/* Sync: whatever happens, the final weights equal the plain loop's, to the bit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/lib/sim.h"

static void sync_is_the_plain_loop_to_the_bit(void **state)
{
    (void)state;
    sim_sweep(__func__, 1, 100, true, false);
}

static void sync_is_the_plain_loop_to_the_bit_under_faults(void **state)
{
    (void)state;
    sim_sweep(__func__, 1000, 2000, true, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sync_is_the_plain_loop_to_the_bit),
        cmocka_unit_test(sync_is_the_plain_loop_to_the_bit_under_faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
