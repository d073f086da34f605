/* Tables: whatever happens, what each worker reads and what each cut has are a plain loop's, to the bit; async: each row
 * of a cut is what the resolved batches make of it, each once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/base/rng.h"
#include "tests/lib/sim.h"

enum { KINDS = 4 };

/* Settings that a job with tables cannot have yet are off; Adam's bias correction and the rest use the row's own count. */
static void config_of(struct sim_config *c, uint64_t seed, bool sync)
{
    uint64_t key = rng_key(seed, RNG_TEST, 600, sync);
    static const uint32_t optimizer[KINDS] = {OPT_SGD, OPT_ADAGRAD, OPT_ADAM, OPT_FTRL};
    sim_config_random(c, seed, sync);
    c->tables = true;
    Gradwire__Settings *s = &c->settings;
    s->staleness_rate = !sync && rng_u64(key, 3) % 4 == 0;
    s->optimizer = sync ? optimizer[rng_u64(key, 0) % KINDS] : OPT_SGD;
    s->use_ema = false;
    s->gradient_accumulation_steps = sync;
    s->weight_decay = 0;
    s->momentum = 0;
    s->schedule = SCHEDULE_CONSTANT;
    s->warmup_steps = 0;
    if (rng_u64(key, 2) % 3 == 0)
        c->kept_bytes = 1 + (uint32_t)(rng_u64(key, 3) % 200); /* a row, or some */
    if (rng_u64(key, 40) % 2) { /* no round: rows change as soon as their part is there */
        s->clip_norm = 0;
        s->nan_guard = NAN_GUARD_OFF;
        c->broken_one_in = 0;
        c->turns = false;
    }
    if (rng_u64(key, 1) % 3 == 0)
        c->elems = 16; /* one chunk: all shards but the lead have rows alone */
    if (sync && rng_u64(key, 4) % 3 == 0)
        sim_backup_random(c, rng_u64(key, 5));
}

/* Tables with admission and eviction, and one without now and then. */
static void admit_some(struct sim_config *c)
{
    uint64_t key = rng_key(c->seed, RNG_TEST, 602, 0);
    for (uint32_t i = 0; i < SIM_TABLES; i++)
        if (rng_u64(key, 16 + i) % 3)
            c->unseen_steps[i] = 1 + (uint32_t)(rng_u64(key, 24 + i) % 4);
    for (uint32_t i = 0; i < SIM_TABLES; i++) {
        struct row_admission *a = &c->admission[i];
        uint32_t n = (uint32_t)(rng_u64(key, i) % 6);
        *a = (struct row_admission){.initial = rng_u64(key, 8 + i) % 3 == 0};
        if (n == 5)
            a->probability = 0.25f;
        else if (n > 0)
            *a = (struct row_admission){1 + n, 0, a->initial, 1 + n % 2};
    }
}

static void sync_rows_are_the_plain_loop_to_the_bit(void **state)
{
    (void)state;
    uint64_t runs = sim_runs(200, 100);
    for (uint64_t seed = 1; seed <= runs; seed++) {
        struct sim_config c;
        config_of(&c, sim_number("GRADWIRE_SIM_SEED", seed), true);
        sim_try(&c, __func__, c.seed);
    }
}

/* Workers die, connections break, chiefs take over: the ps stay. */
static void sync_rows_survive_workers_chiefs_and_connections(void **state)
{
    (void)state;
    static const enum sim_fault_kind kinds[] = {FAULT_KILL_WORKER, FAULT_KILL_CHIEF,
                                                FAULT_BREAK,       FAULT_BREAK_ALL,
                                                FAULT_GO_WORKER,   FAULT_FREEZE_WORKER};
    uint64_t runs = sim_runs(600, 150);
    for (uint64_t seed = 1000; seed < 1000 + runs; seed++) {
        struct sim_config c;
        config_of(&c, sim_number("GRADWIRE_SIM_SEED", seed), true);
        sim_faults_random(&c);
        c.reshape = false;
        for (uint32_t i = 0; i < c.faults; i++)
            c.fault[i].kind = kinds[rng_u64(rng_key(c.seed, RNG_TEST, 601, 0), i) % 6];
        sim_try(&c, __func__, c.seed);
    }
    if (getenv("GRADWIRE_SIM_SEED"))
        return;
    const struct sim_rows_seen *seen = &sim_rows_seen;
    print_message("%llu guesses, %llu wrong; answers: %llu of the step before, %llu in its making, "
                  "%llu gone; %llu takeovers of rows in a gate\n",
                  (unsigned long long)seen->guesses, (unsigned long long)seen->wrong_guesses,
                  (unsigned long long)seen->before, (unsigned long long)seen->making,
                  (unsigned long long)seen->gone, (unsigned long long)seen->taken_over);
    assert_true(seen->guesses > 1000 && seen->wrong_guesses > 0); /* a deal changed after the ask */
    assert_true(seen->chunkless > 0 && seen->keyless > 0);
    assert_true(seen->before > 0 && seen->making > 0); /* a leaf taken over while some have k + 1 */
    assert_true(seen->taken_over > 0);
    assert_true(seen->by_ask > seen->by_keys &&
                seen->by_keys > 0); /* a new connection has no asks */
}

/* Everything may die and come back with other numbers of ps and workers: cuts bring the rows back. */
static void sweep_faults(const char *name, uint64_t base, uint64_t runs, Gradwire__Update update,
                         bool admits)
{
    for (uint64_t seed = base; seed < base + runs; seed++) {
        struct sim_config c;
        config_of(&c, sim_number("GRADWIRE_SIM_SEED", seed), update == GRADWIRE__UPDATE__SYNC);
        if (admits)
            admit_some(&c);
        c.settings.update = update;
        c.settings.staleness = c.seed % 4;
        if (update == GRADWIRE__UPDATE__SSP && c.seed % 2)
            c.slow = 1 + (uint32_t)(c.seed / 2 % c.workers);
        sim_faults_random(&c);
        sim_try(&c, name, c.seed);
    }
}

static void print_cuts(void)
{
    print_message(
        "%llu cuts with %llu rows, %llu rows read in async, %llu duplicates; %llu rows kept for a "
        "cut, %llu times training waited for it, %llu cuts ended before they were copied\n",
        (unsigned long long)sim_rows_seen.cuts, (unsigned long long)sim_rows_seen.cut_rows,
        (unsigned long long)sim_rows_seen.reads, (unsigned long long)sim_rows_seen.duplicates,
        (unsigned long long)sim_rows_seen.kept, (unsigned long long)sim_rows_seen.held,
        (unsigned long long)sim_rows_seen.ended);
}

/* Cuts are copied while steps are made, wait for their turn, and are given up meanwhile. */
static void assert_cuts_were_copied_in_training(void)
{
    print_cuts();
    if (getenv("GRADWIRE_SIM_SEED"))
        return;
    assert_true(sim_rows_seen.cut_rows > 1000 && sim_rows_seen.kept > 50);
    assert_true(sim_rows_seen.held > 3 && sim_rows_seen.ended > 0);
}

static void sync_rows_come_back_out_of_cuts(void **state)
{
    (void)state;
    sim_rows_seen = (struct sim_rows_seen){.cuts = 0};
    sweep_faults(__func__, 2000, sim_runs(400, 100), GRADWIRE__UPDATE__SYNC, false);
    assert_cuts_were_copied_in_training();
    if (getenv("GRADWIRE_SIM_SEED"))
        return;
    const struct sim_rows_seen *seen = &sim_rows_seen;
    print_message("%llu steps clipped, %llu rejected for a row, %llu decisions held for a cut\n",
                  (unsigned long long)seen->clipped, (unsigned long long)seen->broken,
                  (unsigned long long)seen->late);
    assert_true(seen->clipped > 50 && seen->broken > 10);
    assert_true(seen->late > 0); /* a cut between sum and decision */
}

/* The counts of touches are part of cuts: whoever comes back admits the same rows in the same steps. A row goes at its
 * clock, on every shard, and from every cut. */
static void sync_admission_and_eviction_are_the_plain_loops_through_kills_and_cuts(void **state)
{
    (void)state;
    sim_rows_seen = (struct sim_rows_seen){.cuts = 0};
    sweep_faults(__func__, 5000, sim_runs(600, 150), GRADWIRE__UPDATE__SYNC, true);
    print_cuts();
    print_message("%llu rows admitted, %llu gradients dropped, %llu rows gone\n",
                  (unsigned long long)sim_rows_seen.admitted,
                  (unsigned long long)sim_rows_seen.dropped,
                  (unsigned long long)sim_rows_seen.evicted);
    assert_true(getenv("GRADWIRE_SIM_SEED") ||
                (sim_rows_seen.cut_rows > 1000 && sim_rows_seen.dropped > 1000 &&
                 sim_rows_seen.evicted > 1000));
}

/* Each shard has room for some rows. Which rows it evicts, or refuses, follows from its rows at the end of a step: it does the
 * same as the plain loop, also after it is restored from a cut. */
static void bound(struct sim_config *c)
{
    uint64_t key = rng_key(c->seed, RNG_TEST, 604, 0);
    admit_some(c);
    for (uint32_t i = 0; i < SIM_TABLES; i++)
        if (c->admission[i].min_count > 1) /* a sketch takes memory, and its share is not even */
            c->admission[i] = (struct row_admission){.probability = 0.5f};
    uint32_t rows = 4 + (uint32_t)(rng_u64(key, 0) % 40);
    c->settings.row_memory = SIM_TABLES * 8192 * SIM_THREADS_MAX + rows * 60;
    c->settings.row_full = rng_u64(key, 1) % 3 ? ROW_FULL_EVICT : ROW_FULL_REFUSE;
    c->reshape = false;
}

static void sync_rows_that_have_no_room_are_the_plain_loops_through_kills_and_cuts(void **state)
{
    (void)state;
    uint64_t runs = sim_runs(600, 150);
    sim_rows_seen = (struct sim_rows_seen){.cuts = 0};
    for (uint64_t seed = 7000; seed < 7000 + runs; seed++) {
        struct sim_config c;
        config_of(&c, sim_number("GRADWIRE_SIM_SEED", seed), true);
        sim_faults_random(&c);
        bound(&c);
        sim_try(&c, __func__, c.seed);
    }
    print_cuts();
    print_message("%llu rows evicted for want of room, %llu gradients refused, %llu rows too old\n",
                  (unsigned long long)sim_rows_seen.squeezed,
                  (unsigned long long)sim_rows_seen.refused,
                  (unsigned long long)sim_rows_seen.evicted);
    assert_true(getenv("GRADWIRE_SIM_SEED") ||
                (sim_rows_seen.cut_rows > 1000 && sim_rows_seen.squeezed > 300 &&
                 sim_rows_seen.refused > 1000));
}

static void async_rows_have_every_batch_once(void **state)
{
    (void)state;
    uint64_t runs = sim_runs(100, 50);
    for (uint64_t seed = 1; seed <= runs; seed++) {
        struct sim_config c;
        config_of(&c, sim_number("GRADWIRE_SIM_SEED", seed), false);
        sim_try(&c, __func__, c.seed);
    }
}

static void async_rows_have_every_batch_once_under_faults(void **state)
{
    (void)state;
    sim_rows_seen = (struct sim_rows_seen){.cuts = 0};
    sweep_faults(__func__, 3100, sim_runs(600, 150), GRADWIRE__UPDATE__ASYNC, false);
    assert_cuts_were_copied_in_training();
    if (getenv("GRADWIRE_SIM_SEED"))
        return;
    assert_true(sim_rows_seen.reads > 1000 && sim_rows_seen.duplicates > 0);
    assert_true(sim_rows_seen.stale > 0);
}

/* Connections break while pushes are on their way, and workers die before they push again: of a batch some parts are
 * applied, and another worker pushes all. */
static void an_async_batch_of_which_some_parts_are_applied_is_redone_by_another(void **state)
{
    (void)state;
    sim_rows_seen = (struct sim_rows_seen){.cuts = 0};
    uint64_t runs = sim_runs(200, 60);
    for (uint64_t seed = 5100; seed < 5100 + runs; seed++) {
        struct sim_config c;
        config_of(&c, sim_number("GRADWIRE_SIM_SEED", seed), false);
        uint64_t key = rng_key(c.seed, RNG_TEST, 602, 0);
        c.workers = 3 + (uint32_t)(c.seed % 2);
        c.delay_us = 5000;
        c.compute_us = 10000;
        c.settings.epochs = 4;
        c.settings.batches_per_epoch = 8;
        c.faults = SIM_FAULTS_MAX;
        for (uint32_t i = 0; i < c.faults; i++)
            c.fault[i] = (struct sim_fault){120000 + 60000 * (i / 4) + 3000 * (i % 4) +
                                                (int64_t)(rng_u64(key, i / 4) % 50000),
                                            i % 4 ? FAULT_KILL_WORKER : FAULT_BREAK_ALL};
        sim_try(&c, __func__, c.seed);
    }
    print_cuts();
    print_message("%llu pushes go on with another's batch, %llu parts by their staleness\n",
                  (unsigned long long)sim_rows_seen.half_redone,
                  (unsigned long long)sim_rows_seen.stale);
    assert_true(getenv("GRADWIRE_SIM_SEED") || sim_rows_seen.half_redone > 3);
}

/* The bound holds for rows: sim_ssp.c looks at each push of them. */
static void ssp_rows_have_every_batch_once_and_hold_the_bound(void **state)
{
    (void)state;
    sim_seen = (struct sim_seen){0};
    sim_rows_seen = (struct sim_rows_seen){.cuts = 0};
    sweep_faults(__func__, 4100, sim_runs(400, 100), GRADWIRE__UPDATE__SSP, false);
    print_message("%llu reads, %llu with somebody behind, %llu updates missed that may be\n",
                  (unsigned long long)sim_seen.reads, (unsigned long long)sim_seen.behind,
                  (unsigned long long)sim_seen.missed);
    print_message("%llu answers with rows at a clock, %llu guesses, %llu wrong\n",
                  (unsigned long long)sim_rows_seen.bounded,
                  (unsigned long long)sim_rows_seen.guesses,
                  (unsigned long long)sim_rows_seen.wrong_guesses);
    assert_true(getenv("GRADWIRE_SIM_SEED") || sim_rows_seen.bounded > 100);
    assert_true(getenv("GRADWIRE_SIM_SEED") || (sim_seen.behind > 100 && sim_seen.missed > 100));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sync_rows_are_the_plain_loop_to_the_bit),
        cmocka_unit_test(sync_rows_survive_workers_chiefs_and_connections),
        cmocka_unit_test(sync_rows_come_back_out_of_cuts),
        cmocka_unit_test(sync_admission_and_eviction_are_the_plain_loops_through_kills_and_cuts),
        cmocka_unit_test(sync_rows_that_have_no_room_are_the_plain_loops_through_kills_and_cuts),
        cmocka_unit_test(async_rows_have_every_batch_once),
        cmocka_unit_test(async_rows_have_every_batch_once_under_faults),
        cmocka_unit_test(an_async_batch_of_which_some_parts_are_applied_is_redone_by_another),
        cmocka_unit_test(ssp_rows_have_every_batch_once_and_hold_the_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
