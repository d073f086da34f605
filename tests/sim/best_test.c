/* Sync: the chief dies at each moment between the end of an epoch's evaluation and the moment when the epoch is kept as the
 * best, and a little later. No epoch is lost (sim_chief.c checks that), and each cut that is kept is of the epoch's end.
 * GRADWIRE_SIM_STRIDE=1 tries every moment, GRADWIRE_SIM_EVENT the one after so many events. Also: the next chief is in a
 * directory without a journal. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/base/rng.h"
#include "tests/lib/sim.h"

enum {
    PER_EPOCH = 4,
    EPOCHS = 3,
    KILLED_EPOCH = 2,
    LATER = 40,
    RUNS = 12,
    SHORT_RUNS = 3,
    MOVES = 80,
    SHORT_MOVES = 20,
    STRIDE = 11
};

/* Every moment is an event: `left` of them are to happen behind the evaluation. */
static uint64_t left, kept_for;

static bool is_the_moment(struct sim *sim)
{
    const struct sim_worker *chief = &sim->worker[0];
    bool evaluated = chief->kept_epoch == KILLED_EPOCH || sim->best_epoch >= KILLED_EPOCH;
    if (!evaluated || !chief->proc.up)
        return false;
    kept_for += sim->best_epoch >= KILLED_EPOCH;
    return left-- == 0;
}

static struct sim_config config_of(uint64_t seed)
{
    struct sim_config c;
    uint64_t key = rng_key(seed, RNG_TEST, 700, 0);
    sim_config_random(&c, seed, true);
    c.keeps = true;
    c.tables = seed % 2;
    c.ps = 1 + (uint32_t)(rng_u64(key, 0) % 3);
    c.workers = 1 + (uint32_t)(rng_u64(key, 1) % 3);
    c.every_steps = (uint32_t)(rng_u64(key, 2) % 4);
    c.every_seconds = 0;
    c.broken_one_in = 0;
    c.settings.push_codec = c.settings.reply_codec = CODEC_RAW;
    c.settings.use_ema = false;
    c.settings.gradient_accumulation_steps = 1;
    c.settings.optimizer = OPT_SGD;
    c.settings.momentum = 0;
    c.settings.weight_decay = 0;
    c.settings.schedule = SCHEDULE_CONSTANT;
    c.settings.warmup_steps = 0;
    c.settings.batches_per_epoch = PER_EPOCH;
    c.settings.epochs = EPOCHS;
    return c;
}

/* False: the epoch had been kept for long. */
static bool kill_after(uint64_t seed, uint64_t events)
{
    const struct sim_config c = config_of(seed);
    struct sim *sim = sim_new(&c);
    left = events;
    kept_for = 0;
    if (sim_run_until(sim, is_the_moment))
        sim_kill(sim, &sim->worker[0].proc, 50000 + (int64_t)(seed % 5) * 100000);
    sim_run(sim);
    if (sim->failed)
        fail_msg("GRADWIRE_SIM_SEED=%" PRIu64 ", killed after %" PRIu64 " events: %s", seed, events,
                 sim->failure);
    sim_free(sim);
    return kept_for < LATER;
}

static void a_chief_that_dies_at_any_moment_of_an_epochs_end_loses_no_best_epoch(void **state)
{
    (void)state;
    bool one = getenv("GRADWIRE_SIM_SEED") != NULL;
    uint64_t first = sim_number("GRADWIRE_SIM_SEED", 1), kills = 0;
    uint64_t n = one ? 1 : sim_runs(RUNS, SHORT_RUNS);
    uint64_t stride = sim_number("GRADWIRE_SIM_STRIDE", STRIDE);
    for (uint64_t seed = first; seed < first + n; seed++) {
        uint64_t events = sim_number("GRADWIRE_SIM_EVENT", seed % stride);
        for (; kill_after(seed, events); events += stride)
            kills++;
    }
    print_message("%" PRIu64 " kills: %" PRIu64 " cuts were kept, %" PRIu64
                  " by the next chief; %" PRIu64 " rollbacks to an epoch's end\n",
                  kills, sim_seen.kept, sim_seen.adopted, sim_seen.gone_back);
    assert_true(one || (sim_seen.adopted > 0 && sim_seen.gone_back > 0));
}

/* The next chief has another journal. It dies, too: a little later with each run. */
static void a_chief_that_moves_notes_its_unknown_past_before_any_ps_is_its_own(void **state)
{
    (void)state;
    uint64_t first = sim_number("GRADWIRE_SIM_SEED", 1);
    uint64_t n = sim_runs(MOVES, SHORT_MOVES), noted = 0;
    for (uint64_t seed = first; seed < first + n; seed++) {
        const struct sim_config c = config_of(seed);
        struct sim *sim = sim_new(&c);
        left = 0;
        bool moves = sim_run_until(sim, is_the_moment);
        if (moves) {
            sim_kill(sim, &sim->worker[0].proc, 50000);
            sim_move_chief(sim);
            left = seed % LATER;
        }
        if (moves && sim_run_until(sim, is_the_moment))
            sim_kill(sim, &sim->worker[0].proc, 50000);
        sim_run(sim);
        if (sim->failed)
            fail_msg("GRADWIRE_SIM_SEED=%" PRIu64 ": %s", seed, sim->failure);
        noted += journal_inexact(&sim->journal) != NULL;
        sim_free(sim);
    }
    print_message("%" PRIu64 " of %" PRIu64 " jobs have an unknown past\n", noted, n);
    assert_true(sim_seen.moved > 0 && noted > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chief_that_dies_at_any_moment_of_an_epochs_end_loses_no_best_epoch),
        cmocka_unit_test(a_chief_that_moves_notes_its_unknown_past_before_any_ps_is_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
