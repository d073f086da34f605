/* Bounded staleness: the bound holds at every read, nobody waits for ever, and every batch is applied once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/lib/sim.h"

static void ssp_holds_its_bound_at_every_read(void **state)
{
    (void)state;
    sim_sweep_mode(__func__, 1, 400, GRADWIRE__UPDATE__SSP, false);
}

static void ssp_holds_its_bound_at_every_read_under_faults(void **state)
{
    (void)state;
    sim_sweep_mode(__func__, 1000, 4000, GRADWIRE__UPDATE__SSP, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ssp_holds_its_bound_at_every_read),
        cmocka_unit_test(ssp_holds_its_bound_at_every_read_under_faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
