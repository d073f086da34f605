/* Tables with backup workers: a node counts when every chunk and every part of all shards has it, and rows are made of the
 * leaves that were picked, and of no other ones. The plain loop goes through the same sets: what each worker reads and what
 * each cut has are its rows, to the bit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/base/rng.h"
#include "tests/lib/sim.h"

/* Tables a to c with optimizers of their own, a few without a round, some with one chunk alone. */
static struct sim_config config_of(uint64_t seed)
{
    static const uint32_t optimizer[] = {OPT_SGD, OPT_ADAGRAD, OPT_ADAM, OPT_FTRL};
    uint64_t key = rng_key(seed, RNG_TEST, 610, 0);
    struct sim_config c;
    sim_config_random(&c, seed, true);
    sim_backup_random(&c, rng_u64(key, 0));
    c.tables = true;
    c.settings.optimizer = optimizer[rng_u64(key, 1) % 4];
    c.settings.use_ema = false; /* refused with tables */
    c.settings.gradient_accumulation_steps = 1;
    c.settings.weight_decay = 0; /* the plain loop of rows has no weight decay */
    c.settings.momentum = 0;
    c.settings.schedule = SCHEDULE_CONSTANT;
    c.settings.warmup_steps = 0;
    if (rng_u64(key, 2) % 3 == 0)
        c.elems = 16; /* one chunk: all shards but the lead have rows alone */
    if (rng_u64(key, 3) % 3 == 0)
        c.kept_bytes = 1 + (uint32_t)(rng_u64(key, 4) % 200); /* parts wait for the copy of a cut */
    for (uint32_t i = 0; i < SIM_TABLES; i++)
        if (rng_u64(key, 8 + i) % 4 == 0)
            c.unseen_steps[i] = 1 + (uint32_t)(rng_u64(key, 16 + i) % 4);
    if (rng_u64(key, 5) % 4 == 0)
        c.admission[0] = (struct row_admission){2, 0, false, 1};
    return c;
}

static void sweep(const char *name, uint64_t base, uint64_t runs, bool faults)
{
    sim_rows_seen = (struct sim_rows_seen){.cuts = 0};
    sim_backup_seen = (struct sim_backup_seen){0};
    for (uint64_t seed = base; seed < base + runs; seed++) {
        struct sim_config c = config_of(sim_number("GRADWIRE_SIM_SEED", seed));
        if (faults)
            sim_faults_random(&c);
        sim_try(&c, name, c.seed);
    }
    print_message(
        "%llu microbatches dropped, %llu extra steps, %llu pushes of rows came too late, %llu "
        "nodes half; %llu guesses, %llu wrong, %llu asks gone; %llu cuts\n",
        (unsigned long long)sim_backup_seen.dropped, (unsigned long long)sim_backup_seen.redone,
        (unsigned long long)sim_rows_seen.too_late, (unsigned long long)sim_rows_seen.torn,
        (unsigned long long)sim_rows_seen.guesses, (unsigned long long)sim_rows_seen.wrong_guesses,
        (unsigned long long)sim_rows_seen.gone, (unsigned long long)sim_rows_seen.cuts);
    print_message(
        "%llu takeovers of rows in a gate, %llu clipped, %llu rejected for a row, %llu gone\n",
        (unsigned long long)sim_rows_seen.taken_over, (unsigned long long)sim_rows_seen.clipped,
        (unsigned long long)sim_rows_seen.broken, (unsigned long long)sim_rows_seen.evicted);
}

/* One worker takes ten times as long: its leaves come when the set is closed, or later. They are dropped on all shards
 * alike, chunks and parts; with `redo` each is learned once, in an extra step. */
static void try_a_late_worker(bool redo, uint64_t base, const char *name)
{
    uint64_t runs = sim_runs(80, 40);
    sim_rows_seen = (struct sim_rows_seen){.cuts = 0};
    sim_backup_seen = (struct sim_backup_seen){0};
    for (uint64_t seed = base; seed < base + runs; seed++) {
        struct sim_config c = config_of(sim_number("GRADWIRE_SIM_SEED", seed));
        c.workers = 3;
        c.slow = 1 + (uint32_t)(seed % 3);
        c.settings.replicas_to_aggregate = 2;
        c.settings.redo = redo;
        if (seed % 2) { /* parts wait for the copy of a cut, and chunks are made */
            c.kept_bytes = 1 + (uint32_t)(seed % 64);
            c.every_steps = 1 + (uint32_t)(seed % 3);
            c.every_seconds %= CHECKPOINT_AUTO;
        }
        if (redo && c.settings.nan_guard == NAN_GUARD_ROLLBACK)
            c.settings.nan_guard = NAN_GUARD_SKIP;
        sim_try(&c, name, c.seed);
    }
    print_message(
        "%llu microbatches dropped in %llu steps, %llu extra steps, %llu late pushes, "
        "%llu nodes of which a shard had some chunks and parts\n",
        (unsigned long long)sim_backup_seen.dropped, (unsigned long long)sim_backup_seen.steps,
        (unsigned long long)sim_backup_seen.redone, (unsigned long long)sim_rows_seen.too_late,
        (unsigned long long)sim_rows_seen.torn);
    if (getenv("GRADWIRE_SIM_SEED"))
        return;
    assert_true(sim_backup_seen.dropped > runs && sim_rows_seen.too_late > runs);
    assert_true(sim_rows_seen.torn > 0 && sim_rows_seen.held > 0); /* some of it came in time */
    assert_true(redo ? sim_backup_seen.redone > runs / 2 : sim_backup_seen.redone == 0);
    assert_true(sim_rows_seen.chunkless > 0);
}

static void a_late_backup_worker_is_dropped_on_all_shards_chunks_and_parts(void **state)
{
    (void)state;
    try_a_late_worker(false, 6000, __func__);
}

static void a_late_backup_worker_is_learned_once_in_the_extra_steps(void **state)
{
    (void)state;
    try_a_late_worker(true, 6200, __func__);
}

static void rows_of_backup_workers_are_the_plain_loops_to_the_bit(void **state)
{
    (void)state;
    sweep(__func__, 6400, sim_runs(150, 50), false);
    if (getenv("GRADWIRE_SIM_SEED"))
        return;
    assert_true(sim_rows_seen.clipped > 10 && sim_rows_seen.broken > 0);
}

static void rows_of_backup_workers_are_the_plain_loops_under_faults(void **state)
{
    (void)state;
    sweep(__func__, 7000, sim_runs(600, 150), true);
    if (getenv("GRADWIRE_SIM_SEED"))
        return;
    assert_true(sim_backup_seen.redone > 10 && sim_rows_seen.taken_over > 0);
    assert_true(sim_rows_seen.gone > 0 && sim_rows_seen.cuts > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_late_backup_worker_is_dropped_on_all_shards_chunks_and_parts),
        cmocka_unit_test(a_late_backup_worker_is_learned_once_in_the_extra_steps),
        cmocka_unit_test(rows_of_backup_workers_are_the_plain_loops_to_the_bit),
        cmocka_unit_test(rows_of_backup_workers_are_the_plain_loops_under_faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
