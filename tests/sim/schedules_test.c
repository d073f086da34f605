/* Schedules that were found, or thought of, to break something: each by its name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/lib/sim.h"

/* 2 ps, chunks enough for every shard; no faults but those of the schedule. */
static struct sim_config config_of(uint64_t seed, bool sync, uint32_t workers, uint32_t leaves)
{
    struct sim_config c;
    sim_config_random(&c, seed, sync);
    c.every_steps %= CHECKPOINT_AUTO;
    c.every_seconds = 0;
    c.ps = 2;
    c.threads[0] = c.threads[1] = 1;
    c.workers = workers;
    c.elems = 6 * 1024;
    c.settings.microbatches = leaves;
    c.settings.batch_size = 4 * leaves;
    c.settings.batches_per_epoch = 6;
    c.settings.epochs = 2;
    return c;
}

static uint64_t shard_step(struct sim *sim, uint32_t ps)
{
    const struct sim_ps *p = &sim->ps[ps];
    return p->threads ? shard_status(p->thread[0].core)->step : 0;
}

static bool shards_differ(struct sim *sim)
{
    return shard_step(sim, 0) > 2 && shard_step(sim, 0) != shard_step(sim, 1);
}

static bool worker_is_back(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->config.workers; i++)
        if (!sim->worker[i].proc.up)
            return false;
    return true;
}

static void assert_ends_well(struct sim *sim)
{
    sim_run(sim);
    if (sim->failed)
        fail_msg("%s", sim->failure);
    sim_free(sim);
}

/* One shard has the leaf and makes k + 1, the other has not, and its worker dies. Back again it hears of k + 1 and k. It
 * must compute k again, with the parameters of k from both: pulling the largest would wait for a step that only its own
 * leaf can make. */
static void recovers_a_leaf(uint32_t workers, uint32_t leaves, uint32_t victim)
{
    int trapped = 0;
    for (uint64_t seed = 0; seed < 40; seed++) {
        struct sim_config c = config_of(seed, true, workers, leaves);
        struct sim *sim = sim_new(&c);
        if (sim_run_until(sim, shards_differ)) {
            sim_kill(sim, &sim->worker[victim].proc, 100000);
            (void)sim_run_until(sim, worker_is_back);
            trapped += shards_differ(sim);
        }
        assert_ends_well(sim);
    }
    assert_true(trapped > 5);
}

static void sync_recovers_a_leaf_pushed_to_some_shards_only(void **state)
{
    (void)state;
    recovers_a_leaf(1, 1, 0);
    recovers_a_leaf(1, 4, 0);
    recovers_a_leaf(2, 2, 1);
}

/* The last step is made on one shard only when the chief dies: the new one must not call that learned. */
static bool last_step_on_one_shard(struct sim *sim)
{
    return shard_step(sim, 0) + shard_step(sim, 1) == 2 * 12 - 1;
}

static void chief_finishes_the_last_step_after_a_takeover(void **state)
{
    (void)state;
    int trapped = 0;
    for (uint64_t seed = 0; seed < 40; seed++) {
        struct sim_config c = config_of(seed, true, 1, 1);
        struct sim *sim = sim_new(&c);
        if (sim_run_until(sim, last_step_on_one_shard)) {
            sim_kill(sim, &sim->worker[0].proc, 100000);
            (void)sim_run_until(sim, worker_is_back);
            trapped += last_step_on_one_shard(sim);
        }
        assert_ends_well(sim);
    }
    assert_true(trapped > 5);
}

/* A worker is away, the others are dealt its leaves in the middle of a step, and it comes back with them. */
static void sync_goes_on_when_a_worker_joins_in_the_middle_of_a_step(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 40; seed++) {
        struct sim_config c = config_of(seed, true, 3, 8);
        c.worker_rejoin_s = 1;
        struct sim *sim = sim_new(&c);
        (void)sim_run_until(sim, shards_differ);
        sim_kill(sim, &sim->worker[1].proc, 1000000 + (int64_t)sim_below(sim, 200000));
        sim_kill(sim, &sim->worker[2].proc, 1000000 + (int64_t)sim_below(sim, 200000));
        assert_ends_well(sim);
    }
}

/* Nobody but the lost worker's connection knows of its half-applied batch: it is fenced, and the batch done again before
 * the cut. While the fence is under way a ps is not connected. */
static bool holds_without_worker(struct sim *sim)
{
    for (uint32_t i = 0; i < 2; i++)
        if (sim->ps[i].threads && sim->ps[i].thread[0].incarnation[1] == 0)
            return false;
    return sim->ps[0].threads && shard_step(sim, 0) > 2;
}

static void async_cut_outlives_a_fence_that_is_lost(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 40; seed++) {
        struct sim_config c = config_of(seed, false, 2, 2);
        c.every_steps = 1;
        c.worker_rejoin_s = 60;
        c.settings.epochs = 6;
        struct sim *sim = sim_new(&c);
        (void)sim_run_until(sim, holds_without_worker);
        int64_t began_us = sim->now_us;
        sim_kill(sim, &sim->worker[1].proc, -1);
        for (int i = 0; i < 30 && !sim->over; i++) { /* around the bound of a second */
            while (!sim->over && !sim->failed && sim->now_us < began_us + 900000 + i * 20000 &&
                   sim_next(sim))
                ;
            for (struct sim_conn *conn = sim->conns; conn; conn = conn->next)
                if (conn->kind == CONN_CONTROL && sim_open(conn, 0) && sim_open(conn, 1))
                    sim_break(sim, conn);
        }
        assert_ends_well(sim);
    }
}

static bool worker_has_a_lease(struct sim *sim)
{
    struct session_range held;
    return sim->worker[1].proc.up && session_leases(sim->worker[1].session, &held, 1) > 0;
}

static bool window_is_full(struct sim *sim)
{
    return shard_step(sim, 0) + shard_step(sim, 1) >= IDS_WINDOW - 8; /* one of the two owns all */
}

/* A worker dies with ids that nobody else has; the others go on until the window is full, wait, and are dealt them. */
static void async_waits_at_the_end_of_the_window_for_a_lost_batch(void **state)
{
    (void)state;
    struct sim_config c = config_of(3, false, 2, 1);
    c.elems = 16;
    c.every_steps = 0;
    c.worker_rejoin_s = 60;
    c.settings.batches_per_epoch = 3 * IDS_WINDOW;
    c.settings.epochs = 1;
    c.delay_us = 100;
    c.compute_us = 100;
    struct sim *sim = sim_new(&c);
    assert_true(sim_run_until(sim, worker_has_a_lease));
    sim_kill(sim, &sim->worker[1].proc, -1);
    bool full = sim_run_until(sim, window_is_full);
    assert_ends_well(sim);
    assert_true(full);
}

static uint64_t cuts_seen;

static bool cut_begins(struct sim *sim)
{
    for (uint32_t i = 0; i < 2; i++)
        if (sim->ps[i].threads && sim->ps[i].thread[0].next_cut > cuts_seen)
            return true;
    return false;
}

/* The control connection of a ps breaks somewhere in each cut; its shard trains on, and is asked again. */
static void cut_is_of_one_step_whatever_is_asked_again(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 150; seed++) {
        struct sim_config c = config_of(seed, true, 2, 2);
        c.elems = seed % 2 ? 512 : 6 * 1024; /* one shard, or several */
        c.every_steps = 1;
        c.delay_us = 500;
        c.compute_us = 20000;
        c.settings.epochs = 6;
        struct sim *sim = sim_new(&c);
        for (cuts_seen = 0; sim_run_until(sim, cut_begins); cuts_seen++) {
            for (uint64_t i = sim_below(sim, 25); i > 0 && sim_next(sim); i--)
                ;
            struct sim_conn *conn = sim->worker[0].control[sim_below(sim, 2)];
            if (conn && sim_open(conn, 0) && sim_open(conn, 1))
                sim_break(sim, conn);
        }
        assert_ends_well(sim);
    }
}

static bool cut_is_published(struct sim *sim)
{
    const struct sim_worker *chief = &sim->worker[0];
    return chief->proc.up && chief_facts(chief->chief).cut == cuts_seen;
}

static bool all_is_learned(struct sim *sim)
{
    const struct chief_facts f = chief_facts(sim->worker[0].chief);
    return f.steps == f.total;
}

/* 20 to 60 s; a cut takes some 50 ms. */
static void cuts_are_as_frequent_as_one_percent_of_the_time_allows(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 6; seed++) {
        struct sim_config c = config_of(seed, seed % 2, 2, 2);
        c.every_steps = c.every_seconds = CHECKPOINT_AUTO;
        c.broken_one_in = 0;
        c.keeps = false;
        c.delay_us = 500;
        c.compute_us = 20000;
        c.settings.batches_per_epoch = seed % 2 ? 800 : 1600;
        c.settings.epochs = 1;
        struct sim *sim = sim_new(&c);
        int64_t last_us = 0;
        cuts_seen = 0;
        while (sim_run_until(sim, cut_is_published) && !all_is_learned(sim)) {
            if (cuts_seen > 0) /* their ends; their beginnings are 1 s apart */
                assert_true(sim->now_us - last_us >= 900000);
            last_us = sim->now_us;
            cuts_seen++;
        }
        assert_true(cuts_seen > 2);
        print_message("%u cuts in %u ms\n", (unsigned)cuts_seen, (unsigned)(sim->now_us / 1000));
        assert_ends_well(sim);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sync_recovers_a_leaf_pushed_to_some_shards_only),
        cmocka_unit_test(chief_finishes_the_last_step_after_a_takeover),
        cmocka_unit_test(sync_goes_on_when_a_worker_joins_in_the_middle_of_a_step),
        cmocka_unit_test(async_cut_outlives_a_fence_that_is_lost),
        cmocka_unit_test(async_waits_at_the_end_of_the_window_for_a_lost_batch),
        cmocka_unit_test(cut_is_of_one_step_whatever_is_asked_again),
        cmocka_unit_test(cuts_are_as_frequent_as_one_percent_of_the_time_allows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
