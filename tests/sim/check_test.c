/* training.nan_guard: check. A loss that is not finite ends the job, whichever process dies meanwhile; started again it resumes
 * from a cut that is finite, and ends with the weights of a plain loop that never saw such a loss. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/lib/sim.h"

enum { RUNS = 400, SHORT_RUNS = 60 };

static void run(const char *name, uint64_t seed, Gradwire__Update update)
{
    struct sim_config c;
    sim_config_random(&c, seed, update == GRADWIRE__UPDATE__SYNC);
    c.settings.update = update;
    c.settings.staleness = 8;
    c.settings.nan_guard = NAN_GUARD_CHECK;
    c.broken_one_in = 1 + (uint32_t)(seed % 6);
    c.broken_once = seed % 2;
    if (c.broken_once)
        c.settings.gradient_accumulation_steps =
            1; /* a sum of gradients is no weight: no cut looks at it */
    if (seed % 4)
        sim_faults_random(&c);
    sim_try(&c, name, seed);
}

static void sweep(const char *name, Gradwire__Update update)
{
    bool one = getenv("GRADWIRE_SIM_SEED") != NULL;
    uint64_t first = sim_number("GRADWIRE_SIM_SEED", 1), before = sim_seen.flaws;
    uint64_t n = one ? 1 : sim_runs(RUNS, SHORT_RUNS);
    for (uint64_t seed = first; seed < first + n; seed++)
        run(name, seed, update);
    assert_true(one || sim_seen.flaws - before > n / 2);
    print_message("%" PRIu64 " ends, by cuts so far %" PRIu64 "\n", sim_seen.flaws - before,
                  sim_seen.flawed_cuts);
}

static void sync_ends_by_a_loss_that_is_not_finite(void **state)
{
    (void)state;
    sweep(__func__, GRADWIRE__UPDATE__SYNC);
}

static void async_ends_by_a_loss_that_is_not_finite(void **state)
{
    (void)state;
    sweep(__func__, GRADWIRE__UPDATE__ASYNC);
}

static void ssp_ends_by_a_loss_that_is_not_finite(void **state)
{
    (void)state;
    sweep(__func__, GRADWIRE__UPDATE__SSP);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sync_ends_by_a_loss_that_is_not_finite),
        cmocka_unit_test(async_ends_by_a_loss_that_is_not_finite),
        cmocka_unit_test(ssp_ends_by_a_loss_that_is_not_finite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
