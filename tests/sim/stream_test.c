/* data.order: stream: whoever computes a leaf, after deaths, takeovers and resumes with other numbers of workers, seeks to the
 * same rows, and the final weights equal the plain loop's, to the bit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/lib/numbered.h"
#include "tests/lib/sim.h"

enum { RUNS = 250, SHORT_RUNS = 30 };

static void sweep(const char *name, uint64_t base, Gradwire__Update update, bool faults)
{
    const uint64_t runs = sim_runs(faults ? RUNS : RUNS / 3, faults ? SHORT_RUNS : SHORT_RUNS / 3);
    sim_stream_seen = (struct sim_stream_seen){0};
    for (uint64_t seed = base; seed < base + runs; seed++) {
        struct sim_config c;
        sim_config_random(&c, sim_number("GRADWIRE_SIM_SEED", seed),
                          update == GRADWIRE__UPDATE__SYNC);
        c.settings.update = update;
        c.settings.staleness = c.seed % 4;
        sim_stream_random(&c);
        if (faults)
            sim_faults_random(&c);
        sim_try(&c, name, c.seed);
    }
    print_message("%s: %llu rows\n", name, (unsigned long long)sim_stream_seen.rows);
    assert_true(getenv("GRADWIRE_SIM_SEED") || sim_stream_seen.rows > runs * 50);
}

static void sync_streams_are_the_plain_loop_to_the_bit(void **state)
{
    (void)state;
    sweep(__func__, 1, GRADWIRE__UPDATE__SYNC, false);
}

static void sync_streams_are_the_plain_loop_to_the_bit_under_faults(void **state)
{
    (void)state;
    sweep(__func__, 1000, GRADWIRE__UPDATE__SYNC, true);
}

static void async_streams_have_every_row_once_an_epoch(void **state)
{
    (void)state;
    sweep(__func__, 1, GRADWIRE__UPDATE__ASYNC, false);
}

static void async_streams_have_every_row_once_an_epoch_under_faults(void **state)
{
    (void)state;
    sweep(__func__, 1000, GRADWIRE__UPDATE__ASYNC, true);
}

static void ssp_streams_have_every_row_once_an_epoch_under_faults(void **state)
{
    (void)state;
    sweep(__func__, 2000, GRADWIRE__UPDATE__SSP, true);
}

/* A worker that waits for leases reads no window that another has, but at the job's end. */
static void a_window_is_read_by_one_worker(void **state)
{
    (void)state;
    const uint64_t runs = sim_runs(24, 8);
    uint64_t all = 0, before = numbered_read();
    for (uint64_t seed = 3000; seed < 3000 + runs; seed++) {
        struct sim_config c;
        sim_config_random(&c, 2 * seed, false); /* even: nothing is read ahead */
        sim_stream_random(&c);
        c.broken_one_in = 0;
        c.settings.batches_per_epoch = 100;
        c.stream.rows = 100 * c.settings.batch_size;
        c.settings.epochs = 1;
        c.workers = 4;
        sim_try(&c, __func__, c.seed);
        all += c.stream.rows * c.settings.epochs;
    }
    const double times = (double)(numbered_read() - before) / (double)all;
    print_message("each row is read %.2f times\n", times);
    assert_true(times >= 1 && times < 1.3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sync_streams_are_the_plain_loop_to_the_bit),
        cmocka_unit_test(sync_streams_are_the_plain_loop_to_the_bit_under_faults),
        cmocka_unit_test(async_streams_have_every_row_once_an_epoch),
        cmocka_unit_test(async_streams_have_every_row_once_an_epoch_under_faults),
        cmocka_unit_test(ssp_streams_have_every_row_once_an_epoch_under_faults),
        cmocka_unit_test(a_window_is_read_by_one_worker),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
