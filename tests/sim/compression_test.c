/* Compressed pushes and replies: whatever happens, all workers hold the same parameters, and a cut holds them too; what
 * is lossless, and replies that lose as long as nothing is restored, end with a plain loop's weights to the bit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/codec/codec.h"
#include "common/base/rng.h"
#include "tests/lib/sim.h"

static void sweep(const char *name, uint64_t base, uint32_t runs, Gradwire__Update update,
                  bool faults)
{
    static const enum codec codecs[] = {CODEC_RAW,  CODEC_FP16,      CODEC_BF16,
                                        CODEC_INT8, CODEC_INT8_ZSTD, CODEC_ZSTD};
    /* codecs that keep a few small numbers of a batch exactly; and async replies are no differences */
    static const enum codec async_codecs[] = {CODEC_RAW, CODEC_FP16, CODEC_BF16, CODEC_ZSTD};
    const char *only = getenv("GRADWIRE_SIM_SEED");
    uint64_t n = sim_runs(runs, runs / SIM_SHORT);
    for (uint64_t seed = base; seed < base + n; seed++) {
        if (only && strtoull(only, NULL, 10) != seed)
            continue;
        struct sim_config config;
        bool sync = update == GRADWIRE__UPDATE__SYNC;
        uint64_t r = rng_u64(rng_key(seed, RNG_TEST, 200, 0), 0);
        sim_config_random(&config, seed, sync);
        config.settings.update = update;
        config.settings.staleness = (uint64_t[]){0, 1, 2, 8}[seed % 4];
        config.broken_one_in =
            0; /* a codec may make a finite number of what the guard would reject */
        config.settings.push_codec = sync ? codecs[r % 6] : async_codecs[r % 4];
        config.settings.reply_codec = sync ? codecs[r / 8 % 6] : async_codecs[r / 8 % 4];
        if (faults)
            sim_faults_random(&config);
        char what[160];
        (void)snprintf(what, sizeof what, "%s, push %s, reply %s", name,
                       codec_str((enum codec)config.settings.push_codec),
                       codec_str((enum codec)config.settings.reply_codec));
        sim_try(&config, what, seed);
    }
}

static void sync_workers_hold_the_same_and_what_is_known_is_the_plain_loop(void **state)
{
    (void)state;
    sweep(__func__, 1, 100, GRADWIRE__UPDATE__SYNC, false);
}

static void sync_workers_hold_the_same_under_faults(void **state)
{
    (void)state;
    sweep(__func__, 1000, 1000, GRADWIRE__UPDATE__SYNC, true);
}

static void async_applies_what_travels_as_halves_once_under_faults(void **state)
{
    (void)state;
    sweep(__func__, 1, 300, GRADWIRE__UPDATE__ASYNC, true);
}

static void ssp_holds_its_bound_at_every_encoded_read_under_faults(void **state)
{
    (void)state;
    sim_seen = (struct sim_seen){0};
    sweep(__func__, 1, 300, GRADWIRE__UPDATE__SSP, true);
    if (!getenv("GRADWIRE_SIM_SEED"))
        assert_true(sim_seen.encoded > sim_seen.reads / 3 && sim_seen.encoded < sim_seen.reads);
}

/* Top-k on a model whose gradients do not depend on the parameters: a gradient is lost only with its worker, and none is
 * withheld from a cut. */
static void sweep_top_k(const char *name, uint64_t base, uint32_t runs, bool sync, bool faults)
{
    const char *only = getenv("GRADWIRE_SIM_SEED");
    uint64_t n = sim_runs(runs, runs / SIM_SHORT);
    for (uint64_t seed = base; seed < base + n; seed++) {
        if (only && strtoull(only, NULL, 10) != seed)
            continue;
        struct sim_config config;
        uint64_t r = rng_u64(rng_key(seed, RNG_TEST, 201, 0), 0);
        sim_config_random(&config, seed, sync);
        Gradwire__Settings *s = &config.settings;
        config.gradient = SIM_KNOWN;
        s->push_codec = CODEC_TOP_K;
        s->use_ema = false; /* an overwrite would move the weights, too */
        s->push_ratio = (float[]){0.001f, 0.01f, 0.1f, 0.25f}[r % 4];
        s->optimizer = OPT_SGD;
        s->learning_rate = 0.05f;
        s->momentum = s->weight_decay = s->clip_norm = 0;
        s->schedule = SCHEDULE_CONSTANT;
        s->warmup_steps = 0;
        s->gradient_accumulation_steps = 1;
        s->replicas_to_aggregate = 0;
        s->ema_overwrite_frequency = 0;
        s->use_ema = 0;
        if (faults)
            sim_faults_random(&config);
        char what[160];
        (void)snprintf(what, sizeof what, "%s, ratio %g", name, (double)s->push_ratio);
        sim_try(&config, what, seed);
    }
}

static void sync_top_k_withholds_nothing_from_a_cut(void **state)
{
    (void)state;
    sweep_top_k(__func__, 1, 100, true, false);
}

static void sync_top_k_loses_nothing_but_with_its_worker(void **state)
{
    (void)state;
    sweep_top_k(__func__, 1000, 300, true, true);
}

static void async_top_k_withholds_nothing_from_a_cut(void **state)
{
    (void)state;
    sweep_top_k(__func__, 1, 100, false, false);
}

static void async_top_k_loses_nothing_but_with_its_worker(void **state)
{
    (void)state;
    sweep_top_k(__func__, 1000, 300, false, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sync_workers_hold_the_same_and_what_is_known_is_the_plain_loop),
        cmocka_unit_test(sync_workers_hold_the_same_under_faults),
        cmocka_unit_test(async_applies_what_travels_as_halves_once_under_faults),
        cmocka_unit_test(ssp_holds_its_bound_at_every_encoded_read_under_faults),
        cmocka_unit_test(sync_top_k_withholds_nothing_from_a_cut),
        cmocka_unit_test(sync_top_k_loses_nothing_but_with_its_worker),
        cmocka_unit_test(async_top_k_withholds_nothing_from_a_cut),
        cmocka_unit_test(async_top_k_loses_nothing_but_with_its_worker),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
