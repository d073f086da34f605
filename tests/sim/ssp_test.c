/* Bounded staleness: the bound holds at every read, for each s, under crashes, joins and leaves; nobody waits for ever, and
 * every batch is applied once. So that this says something, reads must have missed the most that the bound allows, and
 * workers must have come, gone and died while others trained. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <inttypes.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/base/rng.h"
#include "ps/core/shard_state.h"
#include "tests/lib/sim.h"

enum { RUNS = 160, SHORT_RUNS = 32 };

static uint64_t wanted_step;

static bool has_come_so_far(struct sim *sim)
{
    uint64_t step = 0;
    for (uint32_t i = 0; i < sim->config.ps; i++)
        for (uint32_t k = 0; k < sim->ps[i].threads; k++)
            if (sim->ps[i].thread[k].core->step > step)
                step = sim->ps[i].thread[k].core->step;
    return step >= wanted_step;
}

/* One worker is slow, so that the others are held up by it; one comes late. */
static struct sim_config config_of(uint64_t seed, uint64_t staleness)
{
    struct sim_config c;
    uint64_t r = rng_u64(rng_key(seed, RNG_TEST, 401, staleness), 0);
    sim_config_random(&c, seed, false);
    c.settings.update = GRADWIRE__UPDATE__SSP;
    c.settings.staleness = staleness;
    c.settings.epochs = 2 + r % 3;
    c.settings.batches_per_epoch = 16;
    c.workers = 2 + (uint32_t)(r / 4 % 4);
    c.elems = 1024 * (r / 16 % 9) + 16 * (1 + r / 256 % 64);
    c.late = c.workers > 2 && r / 65536 % 2;
    c.slow = 1 + (uint32_t)(r / 131072 % (c.workers - c.late));
    if (r / 1048576 % 2)
        sim_faults_random(&c);
    return c;
}

/* Leaves, dies permanently, or dies and comes back. */
static void worker_goes(struct sim *sim)
{
    uint32_t who = sim->config.slow > 1 ? sim->config.slow - 1 : 1;
    uint64_t how = sim_below(sim, 3);
    if (how == 0)
        sim_leave(sim, &sim->worker[who]);
    else
        sim_kill(sim, &sim->worker[who].proc, how == 1 ? -1 : 500000);
    sim->last_fault_us = sim->now_us;
}

static void run_one(uint64_t seed, uint64_t staleness)
{
    const struct sim_config c = config_of(seed, staleness);
    struct sim *sim = sim_new(&c);
    wanted_step = 1 + sim_below(sim, 8);
    if (c.late && sim_run_until(sim, has_come_so_far))
        sim_join(sim);
    wanted_step = 8 + sim_below(sim, 16);
    if (sim_run_until(sim, has_come_so_far))
        worker_goes(sim);
    sim_run(sim);
    if (sim->failed)
        fail_msg("s = %" PRIu64 ": GRADWIRE_SIM_SEED=%" PRIu64 " (%u ps, %u workers): %s",
                 staleness, seed, c.ps, c.workers, sim->failure);
    sim_free(sim);
}

static void sweep(uint64_t staleness)
{
    uint64_t n = sim_runs(RUNS, SHORT_RUNS);
    if (getenv("GRADWIRE_SIM_SEED")) {
        run_one(sim_number("GRADWIRE_SIM_SEED", 0), staleness);
        return;
    }
    sim_seen = (struct sim_seen){0};
    for (uint64_t seed = 1; seed <= n; seed++)
        run_one(seed, staleness);
    const struct sim_seen s = sim_seen;
    print_message("s = %" PRIu64 ", %" PRIu64 " seeds: %" PRIu64 " reads, %" PRIu64
                  " with somebody behind, %" PRIu64 " updates missed that may be; %" PRIu64
                  " joins, %" PRIu64 " leaves, %" PRIu64 " deaths, %" PRIu64
                  " clocks dropped, which let %" PRIu64 " reads go on\n",
                  staleness, n, s.reads, s.behind, s.missed, s.joins, s.leaves, s.deaths, s.gone,
                  s.freed);
    assert_true(s.reads > 50 * n && s.missed > n);
    assert_true(s.behind > n || staleness == 0);
    assert_true(s.joins > n / 4 && s.leaves > n / 8 && s.deaths > n / 4);
    assert_true(s.gone > n / 4 && s.freed > (staleness < 8 ? n / 2 : n / 32));
}

static void ssp_0_holds_its_bound_at_every_read(void **state)
{
    (void)state;
    sweep(0);
}

static void ssp_1_holds_its_bound_at_every_read(void **state)
{
    (void)state;
    sweep(1);
}

static void ssp_2_holds_its_bound_at_every_read(void **state)
{
    (void)state;
    sweep(2);
}

static void ssp_8_holds_its_bound_at_every_read(void **state)
{
    (void)state;
    sweep(8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ssp_0_holds_its_bound_at_every_read),
        cmocka_unit_test(ssp_1_holds_its_bound_at_every_read),
        cmocka_unit_test(ssp_2_holds_its_bound_at_every_read),
        cmocka_unit_test(ssp_8_holds_its_bound_at_every_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
