/* Async: every batch is applied once on every chunk in the history that survives. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <inttypes.h>
#include <stdlib.h>

#include <cmocka.h>

#include "ps/core/shard_state.h"
#include "tests/lib/sim.h"

enum { ODD_RUNS = 150, ODD_SHORT_RUNS = 40 };

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

/* Some batches are not finite for workers with an odd index, and finite for the others. */
static struct sim_config config_where_workers_differ(uint64_t seed)
{
    struct sim_config c;
    sim_config_random(&c, seed, false);
    c.settings.update = seed % 4 == 3 ? GRADWIRE__UPDATE__SSP : GRADWIRE__UPDATE__ASYNC;
    c.settings.staleness = 8;
    c.settings.nan_guard = NAN_GUARD_SKIP;
    c.settings.epochs = 3;
    c.settings.batches_per_epoch = 16;
    c.broken_one_in = 1 + (uint32_t)(seed % 2);
    c.broken_odd = true;
    c.ps = 2 + (uint32_t)(seed % 2);
    c.workers = 4;
    c.elems = (uint64_t)8 * 1024;
    c.compute_us = 20000;
    return c;
}

/* The batch of worker 2 is whole on one shard, and not on another. */
static bool has_pushed_half(struct sim *sim)
{
    const struct sim_worker *k = &sim->worker[2];
    bool whole = false, lacks = false;
    for (uint32_t i = 0; i < sim->config.ps && k->proc.up; i++)
        for (uint32_t t = 0; t < sim->ps[i].threads && sim->ps[i].proc.up; t++) {
            bool has = ids_has(&sim->ps[i].thread[t].core->async.once.resolved, k->task_name);
            whole = whole || has;
            lacks = lacks || !has;
        }
    return whole && lacks;
}

/* Worker 2 dies with half of a batch pushed, so that another one redoes it. */
static void run_where_workers_differ(uint64_t seed)
{
    const struct sim_config c = config_where_workers_differ(seed);
    struct sim *sim = sim_new(&c);
    for (uint32_t i = 0; i < 3 && sim_run_until(sim, has_pushed_half); i++) {
        (void)sim_kill(sim, &sim->worker[2].proc, 20000);
        sim->last_fault_us = sim->now_us;
    }
    sim_run(sim);
    if (sim->failed)
        fail_msg("GRADWIRE_SIM_SEED=%" PRIu64 " (%u ps): %s", seed, c.ps, sim->failure);
    sim_free(sim);
}

static void async_cuts_go_on_after_a_redo_that_is_not_finite(void **state)
{
    (void)state;
    bool one = getenv("GRADWIRE_SIM_SEED") != NULL;
    uint64_t first = sim_number("GRADWIRE_SIM_SEED", 1);
    uint64_t n = one ? 1 : sim_runs(ODD_RUNS, ODD_SHORT_RUNS);
    for (uint64_t seed = first; seed < first + n; seed++)
        run_where_workers_differ(seed);
    assert_true(one || sim_seen.raised > 0);
}

/* ---- training.epochs is lowered ---- */

enum { SHORTENED_RUNS = 300, SHORTENED_SHORT_RUNS = 60 };

/* The second epoch has begun. */
static bool is_beyond_one_epoch(struct sim *sim)
{
    const struct sim_worker *k = &sim->worker[0];
    return k->chief && chief_facts(k->chief).steps >
                           sim->config.settings.batches_per_epoch + sim->config.seed % 8;
}

/* Batches that the killed chief has dealt are learned, too: parts of them may be in the parameters. */
static void run_shortened(uint64_t seed)
{
    static const Gradwire__Update update[] = {GRADWIRE__UPDATE__ASYNC, GRADWIRE__UPDATE__SSP,
                                              GRADWIRE__UPDATE__GEO};
    struct sim_config c;
    sim_config_random(&c, seed, false);
    c.settings.update = update[seed % 3];
    c.settings.staleness = 8;
    c.settings.geo_every = 1 + (uint32_t)(seed % 5);
    c.settings.epochs = 3;
    c.settings.batches_per_epoch = 16;
    c.workers = 2 + (uint32_t)(seed % 3);
    c.compute_us = 20000;
    struct sim *sim = sim_new(&c);
    if (sim_run_until(sim, is_beyond_one_epoch)) {
        sim_shorten(sim, 1);
        (void)sim_kill(sim, &sim->worker[0].proc, 20000);
        if (seed % 4 == 3) /* the job goes back to a cut that may have gaps */
            (void)sim_kill(sim, &sim->ps[0].proc, 20000);
        sim->last_fault_us = sim->now_us;
    }
    sim_run(sim);
    if (sim->failed)
        fail_msg("GRADWIRE_SIM_SEED=%" PRIu64 ": %s", seed, sim->failure);
    sim_free(sim);
}

static void a_job_with_fewer_epochs_learns_what_was_dealt(void **state)
{
    (void)state;
    bool one = getenv("GRADWIRE_SIM_SEED") != NULL;
    uint64_t first = sim_number("GRADWIRE_SIM_SEED", 1);
    uint64_t n = one ? 1 : sim_runs(SHORTENED_RUNS, SHORTENED_SHORT_RUNS);
    for (uint64_t seed = first; seed < first + n; seed++)
        run_shortened(seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(async_applies_every_batch_once),
        cmocka_unit_test(async_applies_every_batch_once_under_faults),
        cmocka_unit_test(async_cuts_go_on_after_a_redo_that_is_not_finite),
        cmocka_unit_test(a_job_with_fewer_epochs_learns_what_was_dealt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
