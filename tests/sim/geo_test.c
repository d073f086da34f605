/* Local SGD: whatever happens all batches are resolved on every shard and nothing waits for ever; where nobody dies,
 * nothing that moved is missing from any cut. Every cut counts as lost exactly the batches that no push brought. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/lib/sim.h"

static void geo_has_all_that_moved_in_every_cut(void **state)
{
    (void)state;
    sim_sweep_mode(__func__, 1, 100, GRADWIRE__UPDATE__GEO, false);
}

/* Rounds are pushed again, whole, over new connections. */
static void geo_adds_each_round_once_whatever_connections_break(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct sim_config c;
        sim_config_random(&c, seed, false);
        c.settings.update = GRADWIRE__UPDATE__GEO;
        c.settings.geo_every = 1 + (uint32_t)(seed % 5);
        c.settings.geo_merge =
            seed % 2 ? GRADWIRE__GEO_MERGE__AVERAGE : GRADWIRE__GEO_MERGE__PADDLE;
        c.worker_rejoin_s = 60;
        c.faults = SIM_FAULTS_MAX;
        for (uint32_t i = 0; i < c.faults; i++)
            c.fault[i] = (struct sim_fault){40000 + 12000 * (int64_t)i,
                                            i % 4 == 3 ? FAULT_BREAK_ALL : FAULT_BREAK};
        struct sim *sim = sim_new(&c);
        sim_run(sim);
        if (sim->failed)
            fail_msg("seed %u: %s", (unsigned)seed, sim->failure);
        sim_free(sim);
    }
}

static void geo_ends_with_every_batch_resolved_under_faults(void **state)
{
    (void)state;
    enum { RUNS = 1500 };
    sim_sweep_mode(__func__, 1000, RUNS, GRADWIRE__UPDATE__GEO, true);
    assert_true(sim_seen.lost > 0 || sim_runs(RUNS, 0) < RUNS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(geo_has_all_that_moved_in_every_cut),
        cmocka_unit_test(geo_adds_each_round_once_whatever_connections_break),
        cmocka_unit_test(geo_ends_with_every_batch_resolved_under_faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
