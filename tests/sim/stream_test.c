/* data.order: stream: whoever computes a leaf, after deaths, takeovers and resumes with other numbers of workers, seeks to the
 * same rows, and the final weights equal the plain loop's, to the bit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/lib/sim.h"

enum { RUNS = 300, SHORT_RUNS = 60 };

static void sweep(const char *name, uint64_t base, Gradwire__Update update, bool faults)
{
    const uint64_t runs = sim_runs(faults ? RUNS : RUNS / 3, faults ? SHORT_RUNS : SHORT_RUNS / 3);
    sim_stream_seen = (struct sim_stream_seen){0};
    for (uint64_t seed = base; seed < base + runs; seed++) {
        struct sim_config c;
        sim_config_random(&c, sim_number("GRADWIRE_SIM_SEED", seed),
                          update == GRADWIRE__UPDATE__SYNC);
        c.settings.update = update;
        sim_stream_random(&c);
        if (faults)
            sim_faults_random(&c);
        sim_try(&c, name, c.seed);
    }
    print_message("%s: %llu rows\n", name, (unsigned long long)sim_stream_seen.rows);
    assert_true(getenv("GRADWIRE_SIM_SEED") || sim_stream_seen.rows > runs * 50);
}

static void sync_streams_are_the_plain_loop_to_the_bit(void **state)
{
    (void)state;
    sweep(__func__, 1, GRADWIRE__UPDATE__SYNC, false);
}

static void sync_streams_are_the_plain_loop_to_the_bit_under_faults(void **state)
{
    (void)state;
    sweep(__func__, 1000, GRADWIRE__UPDATE__SYNC, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sync_streams_are_the_plain_loop_to_the_bit),
        cmocka_unit_test(sync_streams_are_the_plain_loop_to_the_bit_under_faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
