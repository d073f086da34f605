/* The properties that every mode of training.update has, whatever else it promises: one table of modes, one list. The
 * checks are the cluster's own (tests/lib/sim_check.c, sim_stale.c, sim_ssp.c, sim_backup.c), at every push, read, cut and
 * at the end: each name is in the weights once, cuts are whole, counts add up. Here is what happens to the cluster
 * meanwhile. Against real processes: tests/e2e/modes_test.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/base/rng.h"
#include "ps/core/shard_state.h"
#include "tests/lib/sim.h"

enum { EPOCHS = 3, BATCHES = 8, RUNS = 12, SHORT_RUNS = 4 };

struct mode {
    const char *name;
    Gradwire__Update update;
    uint64_t staleness;
    bool backup, redo;
    float delay_compensation;
    bool staleness_rate;
};

static const struct mode modes[] = {
    {.name = "sync", .update = GRADWIRE__UPDATE__SYNC},
    {.name = "sync_with_backup_workers", .update = GRADWIRE__UPDATE__SYNC, .backup = true},
    {.name = "sync_that_redoes", .update = GRADWIRE__UPDATE__SYNC, .backup = true, .redo = true},
    {.name = "async", .update = GRADWIRE__UPDATE__ASYNC},
    {.name = "async_compensated", .update = GRADWIRE__UPDATE__ASYNC, .delay_compensation = 0.5f},
    {.name = "async_by_staleness", .update = GRADWIRE__UPDATE__ASYNC, .staleness_rate = true},
    {.name = "ssp_0", .update = GRADWIRE__UPDATE__SSP, .staleness = 0},
    {.name = "ssp_2", .update = GRADWIRE__UPDATE__SSP, .staleness = 2},
    {.name = "ssp_8", .update = GRADWIRE__UPDATE__SSP, .staleness = 8},
    {.name = "ssp_compensated_by_staleness",
     .update = GRADWIRE__UPDATE__SSP,
     .staleness = 2,
     .delay_compensation = 0.5f,
     .staleness_rate = true},
    {.name = "geo", .update = GRADWIRE__UPDATE__GEO},
};

/* ---- what happens ---- */

static struct sim_worker *some_worker(struct sim *sim)
{
    return &sim->worker[1 + sim_below(sim, sim->config.workers - 1)];
}

static int64_t soon(struct sim *sim)
{
    return 100000 + (int64_t)sim_below(sim, sim_chance(sim, 3) ? 6000000 : 300000);
}

/* Only one argument of a call is drawn in the call, here and below: compilers evaluate arguments in different orders, and
 * a seed must be the same run with each of them. */
static bool worker_dies(struct sim *sim)
{
    int64_t after_us = soon(sim);
    return sim_kill(sim, &some_worker(sim)->proc, after_us);
}

static bool ps_dies(struct sim *sim)
{
    int64_t after_us = soon(sim);
    return sim_kill(sim, &sim->ps[sim_below(sim, sim->config.ps)].proc, after_us);
}

static bool chief_dies(struct sim *sim)
{
    return sim_kill(sim, &sim->worker[0].proc, soon(sim));
}

static bool worker_goes_for_good(struct sim *sim)
{
    if (sim_chance(sim, 2))
        return sim_leave(sim, some_worker(sim));
    return sim_kill(sim, &some_worker(sim)->proc, -1);
}

static bool ps_or_chief_dies(struct sim *sim)
{
    return sim_chance(sim, 2) ? ps_dies(sim) : chief_dies(sim);
}

/* ---- a worker and a ps that do not reach each other, though the chief reaches both ---- */

static void block(struct sim *sim, uint32_t worker, int64_t until_us)
{
    sim_block(sim, worker, (uint32_t)sim_below(sim, sim->config.ps), until_us);
}

static int64_t for_a_while(struct sim *sim)
{
    return sim->now_us + 1000000 + (int64_t)sim_below(sim, sim_chance(sim, 3) ? 4000000 : 30000000);
}

static bool worker_loses_a_ps(struct sim *sim)
{
    int64_t until_us = for_a_while(sim);
    block(sim, some_worker(sim)->proc.index, until_us);
    return true;
}

static bool worker_loses_a_ps_for_good(struct sim *sim)
{
    block(sim, some_worker(sim)->proc.index, INT64_MAX);
    return true;
}

static bool chiefs_own_worker_loses_a_ps(struct sim *sim)
{
    block(sim, 0, for_a_while(sim));
    return true;
}

static bool some_lose_a_ps_and_others_die(struct sim *sim)
{
    int64_t until_us = for_a_while(sim);
    block(sim, (uint32_t)sim_below(sim, sim->config.workers), until_us);
    switch (sim_below(sim, 3)) {
    case 0:
        return ps_dies(sim);
    case 1:
        return chief_dies(sim);
    default:
        return worker_dies(sim);
    }
}

/* ---- */

static bool chief_is_told_to_go(struct sim *sim)
{
    if (!sim->worker[0].proc.up)
        return false;
    sim_worker_go(sim, &sim->worker[0]);
    return true;
}

static bool late_ones_come(struct sim *sim)
{
    sim_join(sim);
    return true;
}

struct property {
    const char *name;
    bool (*act)(struct sim *sim); /* false: it could not be. NULL: nothing happens */
    uint32_t times;               /* spread over the job */
    uint32_t late;                /* workers that are not there at first */
    bool old;                     /* somebody says something of an old generation */
    bool looks;                   /* some lose a ps */
};

static const struct property properties[] = {
    {.name = "applies_each_name_once_and_all_end_by_themselves"},
    {.name = "outlives_the_death_of_a_worker", .act = worker_dies, .times = 2},
    {.name = "outlives_the_death_of_a_ps", .act = ps_dies, .times = 2},
    {.name = "outlives_the_death_of_the_chief", .act = chief_dies, .times = 2},
    {.name = "goes_on_without_a_worker_that_left_for_good",
     .act = worker_goes_for_good,
     .times = 1},
    {.name = "goes_on_without_a_worker_that_does_not_reach_a_ps",
     .act = worker_loses_a_ps,
     .times = 2,
     .looks = true},
    {.name = "goes_on_without_a_worker_that_never_reaches_a_ps_again",
     .act = worker_loses_a_ps_for_good,
     .times = 1,
     .looks = true},
    {.name = "goes_on_without_the_chiefs_own_worker_for_a_while",
     .act = chiefs_own_worker_loses_a_ps,
     .times = 2,
     .looks = true},
    {.name = "outlives_deaths_while_a_worker_does_not_reach_a_ps",
     .act = some_lose_a_ps_and_others_die,
     .times = 3,
     .looks = true},
    {.name = "takes_in_a_worker_that_joins", .act = late_ones_come, .times = 1, .late = 1},
    {.name = "goes_on_from_where_it_was_stopped_with_other_numbers",
     .act = chief_is_told_to_go,
     .times = 2},
    {.name = "heeds_no_push_of_an_old_generation",
     .act = ps_or_chief_dies,
     .times = 3,
     .old = true},
};

/* ---- a run ---- */

static struct sim_config config_of(const struct mode *m, const struct property *p, uint64_t seed)
{
    struct sim_config c;
    uint64_t r = rng_u64(rng_key(seed, RNG_TEST, 400, 0), 0);
    sim_config_random(&c, seed, m->update == GRADWIRE__UPDATE__SYNC);
    Gradwire__Settings *s = &c.settings;
    c.workers = 2 + (uint32_t)(r % 3);
    c.elems = 1024 * (r / 4 % 7) + 16 * (1 + r / 32 % 64);
    c.late = p->late;
    c.looks = p->looks;
    c.reshape = true;
    s->update = m->update;
    s->staleness = m->staleness;
    s->geo_every = 1 + (uint32_t)(seed % 5);
    s->geo_merge = seed % 2 ? GRADWIRE__GEO_MERGE__AVERAGE : GRADWIRE__GEO_MERGE__PADDLE;
    s->delay_compensation = m->delay_compensation;
    s->staleness_rate = m->staleness_rate;
    s->epochs = EPOCHS;
    s->batches_per_epoch = BATCHES;
    if (sim_stale_on(&c))
        c.gradient = SIM_TOY;
    if (m->backup) {
        s->microbatches = 4u << r / 2048 % 2;
        s->replicas_to_aggregate = 1 + (uint32_t)(r / 4096 % (c.workers - 1));
        s->redo = m->redo;
        c.slow = c.workers;
    }
    if (m->redo && s->nan_guard == NAN_GUARD_ROLLBACK)
        s->nan_guard = NAN_GUARD_SKIP; /* the two are refused together */
    return c;
}

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

/* Except a worker whose first attempt to connect came before the chief, and the next one when all was over. */
static void assert_all_ended(const struct sim *sim)
{
    for (uint32_t i = 0; i < sim->config.ps; i++)
        assert_true(sim->ps[i].proc.exited && sim->ps[i].proc.exit_code == 0);
    for (uint32_t i = 0; i < sim->config.workers; i++) {
        const struct sim_worker *k = &sim->worker[i];
        bool came = !k->proc.up || session_phase(k->session) != SESSION_NEW;
        assert_true(!came || (k->proc.exited && k->proc.exit_code == 0));
    }
}

struct cell {
    const struct mode *mode;
    const struct property *property;
    char name[128];
};

/* How often what was to happen did. */
static uint32_t run_one(const struct cell *cell, uint64_t seed)
{
    const struct property *p = cell->property;
    const struct sim_config c = config_of(cell->mode, p, seed);
    struct sim *sim = sim_new(&c);
    uint32_t happened = 0;
    for (uint32_t i = 0; i < p->times; i++) {
        wanted_step = 1 + sim_below(sim, 5) + i * EPOCHS * BATCHES / (p->times + 1);
        if (!sim_run_until(sim, has_come_so_far))
            break;
        happened += p->act(sim);
        sim->last_fault_us = sim->now_us;
    }
    sim_run(sim);
    if (sim->failed)
        fail_msg("%s: GRADWIRE_SIM_SEED=%" PRIu64 " (%u ps, %u workers, %u leaves): %s", cell->name,
                 seed, c.ps, c.workers, c.settings.microbatches, sim->failure);
    if (!p->act)
        assert_all_ended(sim);
    sim_free(sim);
    return happened;
}

static void run_cell(void **state)
{
    const struct cell *cell = *state;
    const struct sim_seen before = sim_seen;
    uint64_t n = sim_runs(RUNS, SHORT_RUNS);
    uint64_t happened = 0;
    if (getenv("GRADWIRE_SIM_SEED")) {
        (void)run_one(cell, sim_number("GRADWIRE_SIM_SEED", 0));
        return;
    }
    for (uint64_t i = 0; i < n; i++)
        happened += run_one(cell, 1 + i);
    if (n < SHORT_RUNS) /* too few to count what happened in them */
        return;
    assert_true(happened >= n * cell->property->times * 2 / 3);
    if (cell->property->late)
        assert_true(sim_seen.late_tasks >= before.late_tasks + n);
    if (cell->property->looks && !cell->mode->backup) /* else nobody may have to wait for it */
        assert_true(sim_seen.parked >= before.parked + n / 4);
    if (cell->property->old)
        assert_true(sim_seen.old > before.old + n / 2);
    if (cell->mode->delay_compensation > 0 || cell->mode->staleness_rate)
        assert_true(sim_seen.stale > before.stale + n);
}

enum { MODES = sizeof modes / sizeof *modes, PROPERTIES = sizeof properties / sizeof *properties };

int main(void)
{
    static struct cell cells[MODES * PROPERTIES];
    static struct CMUnitTest tests[MODES * PROPERTIES];
    for (size_t i = 0; i < MODES * PROPERTIES; i++) {
        struct cell *c = &cells[i];
        c->mode = &modes[i / PROPERTIES];
        c->property = &properties[i % PROPERTIES];
        (void)snprintf(c->name, sizeof c->name, "%s_%s", c->mode->name, c->property->name);
        tests[i] = (struct CMUnitTest){.name = c->name, .test_func = run_cell, .initial_state = c};
    }
    cmocka_set_test_filter(getenv("GRADWIRE_SIM_CELL")); /* of a name; NULL: all */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
