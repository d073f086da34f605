/* Sync with backup workers: whatever happens, every step is made of one set of leaves on all shards, of no fewer workers'
 * than were asked for, and nobody waits for ever. The plain loop goes through the same sets: final weights, cuts, and what
 * each worker begins a step with, are its, to the bit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/codec.h"
#include "common/rng.h"
#include "tests/lib/sim.h"

static uint64_t decided, dropped;

static struct sim_config config_of(uint64_t seed, bool faults)
{
    struct sim_config c;
    uint64_t r = rng_u64(rng_key(seed, RNG_TEST, 300, 0), 0);
    sim_config_random(&c, seed, true);
    c.workers = 2 + (uint32_t)(r % 3);
    c.settings.microbatches = 4u << r / 4 % 2;
    c.settings.batch_size = 4 * c.settings.microbatches;
    c.settings.replicas_to_aggregate = 1 + (uint32_t)(r / 16 % (c.workers - 1));
    c.slow = (uint32_t)(r / 64 % (c.workers + 1)); /* perhaps the chief, perhaps nobody */
    if (c.settings.nan_guard == NAN_GUARD_ROLLBACK)
        c.settings.nan_guard =
            NAN_GUARD_SKIP; /* or a batch is skipped for what another history had in it */
    if (r / 1024 % 4 == 0)
        c.settings.reply_codec = CODEC_INT8;
    if (faults)
        sim_faults_random(&c);
    return c;
}

static void run_one(const char *name, uint64_t seed, const struct sim_config *config)
{
    struct sim *sim = sim_new(config);
    sim_run(sim);
    char failure[sizeof sim->failure];
    memcpy(failure, sim->failure, sizeof failure);
    bool failed = sim->failed;
    decided += sim->deciding;
    dropped += sim->dropped;
    sim_free(sim);
    if (failed)
        fail_msg("%s: GRADWIRE_SIM_SEED=%" PRIu64
                 " (%u ps, %u workers, %u of them, %u leaves, slow %u): %s",
                 name, seed, config->ps, config->workers, config->settings.replicas_to_aggregate,
                 config->settings.microbatches, config->slow, failure);
}

static uint64_t number(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

static void sweep(const char *name, uint64_t base, uint64_t runs, bool faults)
{
    uint64_t only = number("GRADWIRE_SIM_SEED", UINT64_MAX);
    runs = number("GRADWIRE_SIM_RUNS", getenv("GRADWIRE_SHORT") ? runs / 8 : runs);
    decided = dropped = 0;
    for (uint64_t seed = base; seed < base + runs || (only != UINT64_MAX && seed == base); seed++) {
        struct sim_config c = config_of(only != UINT64_MAX ? only : seed, faults);
        run_one(name, only != UINT64_MAX ? only : seed, &c);
        if (only != UINT64_MAX)
            return;
    }
    print_message("%s: seeds %" PRIu64 "..%" PRIu64 ", %" PRIu64 " microbatches dropped in %" PRIu64
                  " steps\n",
                  name, base, base + runs - 1, dropped, decided);
    assert_true(decided > runs);
}

static void backup_steps_are_of_one_set_of_leaves_on_all_shards(void **state)
{
    (void)state;
    sweep(__func__, 1, 200, false);
}

static void backup_steps_are_of_one_set_of_leaves_on_all_shards_under_faults(void **state)
{
    (void)state;
    sweep(__func__, 1000, 2000, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(backup_steps_are_of_one_set_of_leaves_on_all_shards),
        cmocka_unit_test(backup_steps_are_of_one_set_of_leaves_on_all_shards_under_faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
