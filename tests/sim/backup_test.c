/* Sync with backup workers: whatever happens, every step is made of one set of leaves on all shards, of no fewer workers'
 * than were asked for, and nobody waits for ever. The plain loop goes through the same sets: final weights, cuts, and what
 * each worker begins a step with, are its, to the bit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/codec/codec.h"
#include "common/base/rng.h"
#include "tests/lib/sim.h"

static struct sim_config config_of(uint64_t seed, bool faults)
{
    struct sim_config c;
    uint64_t r = rng_u64(rng_key(seed, RNG_TEST, 300, 0), 0);
    sim_config_random(&c, seed, true);
    sim_backup_random(&c, r);
    if (r / 1024 % 4 == 0)
        c.settings.reply_codec = CODEC_INT8;
    if (faults)
        sim_faults_random(&c);
    return c;
}

static void run_one(const char *name, uint64_t seed, bool faults)
{
    char what[160];
    const struct sim_config c = config_of(seed, faults);
    (void)snprintf(what, sizeof what, "%s, %u wanted, %u slow%s", name,
                   c.settings.replicas_to_aggregate, c.slow, c.settings.redo ? ", redo" : "");
    sim_try(&c, what, seed);
}

static void sweep(const char *name, uint64_t base, uint64_t runs, bool faults)
{
    if (getenv("GRADWIRE_SIM_SEED")) {
        run_one(name, sim_number("GRADWIRE_SIM_SEED", 0), faults);
        return;
    }
    uint64_t n = sim_runs(runs, runs / 8);
    sim_backup_seen = (struct sim_backup_seen){0};
    sim_seen = (struct sim_seen){0};
    for (uint64_t i = 0; i < n; i++)
        run_one(name, base + i, faults);
    print_message("%s: seeds %" PRIu64 "..%" PRIu64 ", %" PRIu64 " microbatches dropped in %" PRIu64
                  " steps, %" PRIu64 " pushes answered with several steps, %" PRIu64
                  " extra steps, %" PRIu64 " skipped after a recovery\n",
                  name, base, base + n - 1, sim_backup_seen.dropped, sim_backup_seen.steps,
                  sim_backup_seen.mixed, sim_backup_seen.redone, sim_seen.skipped);
    assert_true(sim_backup_seen.steps > n && sim_backup_seen.mixed > n / 4 &&
                sim_backup_seen.redone > n / 4 && sim_seen.skipped > n / 16);
}

static void backup_steps_are_of_one_set_of_leaves_on_all_shards(void **state)
{
    (void)state;
    sweep(__func__, 1, 100, false);
}

static void backup_steps_are_of_one_set_of_leaves_on_all_shards_under_faults(void **state)
{
    (void)state;
    sweep(__func__, 1000, 1200, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(backup_steps_are_of_one_set_of_leaves_on_all_shards),
        cmocka_unit_test(backup_steps_are_of_one_set_of_leaves_on_all_shards_under_faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
