#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "common/codec/codec_choice.h"

/* A sender's world: elements of a body, and what each codec costs and makes of them. */
struct world {
    double rate; /* bytes/s */
    double seconds_per_elem[CODECS], bytes_per_elem[CODECS];
    double latency; /* until the peer has read a body */
    struct codec_link link;
    struct link_progress at;
    int tried[CODECS];
};
enum { ELEMS = 65536, SAMPLE = 16384 };

static const struct world INT8_WORLD = {
    .seconds_per_elem = {[CODEC_INT8] = 1e-9, [CODEC_ZSTD] = 10e-9, [CODEC_FP16] = 0.3e-9},
    .bytes_per_elem = {4, 2, [CODEC_INT8] = 1.02, [CODEC_ZSTD] = 3.3},
};

/* Send so many bodies; how many each codec had. */
static void send_bodies(struct codec_choice *c, struct world *w, int bodies, int used[CODECS])
{
    for (int i = 0; i < bodies; i++) {
        enum codec codec = codec_choice_next(c), trial;
        uint64_t bytes = (uint64_t)(ELEMS * w->bytes_per_elem[codec]);
        used[codec]++;
        while ((trial = codec_choice_trial(c)) != CODEC_RAW) {
            w->tried[trial]++;
            codec_choice_cost(c, trial, SAMPLE, (uint64_t)(SAMPLE * w->bytes_per_elem[trial]),
                              SAMPLE * w->seconds_per_elem[trial]);
        }
        if (codec != CODEC_RAW)
            codec_choice_cost(c, codec, ELEMS, bytes, ELEMS * w->seconds_per_elem[codec]);
        w->at.waiting_bytes = (double)bytes / w->rate > 50e-6 ? bytes : 0;
        codec_choice_sent(c, &w->link, &w->at);
        w->at.acked_bytes += bytes;
        w->at.busy_s += w->latency + (double)bytes / w->rate;
        w->at.waiting_bytes = 0;
        codec_choice_link(c, &w->link, &w->at);
    }
}

static struct world settle(struct codec_choice *c, double rate, uint32_t allow, enum codec want)
{
    struct world w = INT8_WORLD;
    int used[CODECS] = {0};
    w.rate = rate;
    codec_choice_init(c, codec_mask(CODEC_AUTO, allow));
    send_bodies(c, &w, 200, used);
    for (int i = 0; i < CODECS; i++)
        used[i] = 0;
    send_bodies(c, &w, 2000, used);
    /* others are tried, and not sent; except a few raw ones, which show the rate */
    assert_true(used[want] >= (want == CODEC_RAW ? 2000 : 1980));
    assert_int_equal(used[want] + used[CODEC_RAW] * (want != CODEC_RAW), 2000);
    return w;
}

static void each_link_gets_the_codec_that_is_fastest_on_it(void **state)
{
    (void)state;
    struct codec_choice c;
    uint32_t all = 1u << CODEC_INT8 | 1u << CODEC_FP16;
    settle(&c, 12.5e6, all, CODEC_INT8);
    settle(&c, 125e6, all, CODEC_INT8);
    settle(&c, 10e9, all, CODEC_RAW);
    settle(&c, 12.5e6, 0, CODEC_ZSTD);
    settle(&c, 125e6, 0, CODEC_RAW);
    settle(&c, 2.5e9, 1u << CODEC_FP16, CODEC_FP16);
}

/* It takes as long for whatever is sent: no codec makes it shorter. */
static void what_the_peer_takes_is_not_the_links(void **state)
{
    (void)state;
    struct codec_choice c;
    int used[CODECS] = {0};
    struct world w = INT8_WORLD;
    w.rate = 10e9;
    w.latency = 1e-3;
    codec_choice_init(&c, codec_mask(CODEC_AUTO, 1u << CODEC_INT8 | 1u << CODEC_FP16));
    send_bodies(&c, &w, 2000, used);
    assert_int_equal(used[CODEC_RAW], 2000);
}

static void nothing_that_is_not_allowed_is_tried(void **state)
{
    (void)state;
    struct codec_choice c;
    struct world w = INT8_WORLD;
    int used[CODECS] = {0};
    w.rate = 1e6;
    codec_choice_init(&c, codec_mask(CODEC_AUTO, 1u << CODEC_FP16));
    send_bodies(&c, &w, 5000, used);
    assert_int_equal(
        used[CODEC_INT8] + used[CODEC_BF16] + used[CODEC_TOP_K] + used[CODEC_INT8_ZSTD], 0);
    assert_int_equal(w.tried[CODEC_INT8] + w.tried[CODEC_BF16] + w.tried[CODEC_TOP_K], 0);
    assert_true(w.tried[CODEC_ZSTD] > 10 && used[CODEC_FP16] > 4950);
}

static void a_link_that_became_slow_is_noticed(void **state)
{
    (void)state;
    struct codec_choice c;
    int used[CODECS] = {0};
    struct world w = settle(&c, 10e9, 1u << CODEC_INT8, CODEC_RAW);
    w.rate = 12.5e6;
    send_bodies(&c, &w, 200, used);
    assert_int_equal(c.now, CODEC_INT8);
    w.rate = 10e9; /* and one that became fast again, when the slow windows are over */
    send_bodies(&c, &w, 2000, used);
    assert_int_equal(c.now, CODEC_RAW);
}

static void data_that_pack_better_later_are_noticed(void **state)
{
    (void)state;
    struct codec_choice c;
    int used[CODECS] = {0};
    struct world w = settle(&c, 125e6, 0, CODEC_RAW);
    w.bytes_per_elem[CODEC_ZSTD] = 0.2;
    w.seconds_per_elem[CODEC_ZSTD] = 2e-9;
    send_bodies(&c, &w, 20 * CODEC_CHOICE_EVERY, used);
    assert_int_equal(c.now, CODEC_ZSTD);
}

static void what_its_bytes_alone_rule_out_is_not_tried_again(void **state)
{
    (void)state;
    struct codec_choice c;
    struct world w = settle(&c, 12.5e6, 1u << CODEC_INT8 | 1u << CODEC_FP16, CODEC_INT8);
    assert_int_equal(w.tried[CODEC_FP16], 1);
    assert_true(w.tried[CODEC_ZSTD] > 10); /* its bytes may change */
}

static void what_is_hardly_better_changes_nothing(void **state)
{
    (void)state;
    struct codec_choice c;
    int used[CODECS] = {0};
    struct world w = settle(&c, 12.5e6, 1u << CODEC_INT8, CODEC_INT8);
    w.bytes_per_elem[CODEC_ZSTD] = 1.0;
    w.seconds_per_elem[CODEC_ZSTD] = 0;
    send_bodies(&c, &w, 2000, used);
    assert_int_equal(c.now, CODEC_INT8);
    w.bytes_per_elem[CODEC_ZSTD] = 0.5;
    send_bodies(&c, &w, 4000, used);
    assert_int_equal(c.now, CODEC_ZSTD);
}

static void one_slow_measurement_does_not_count(void **state)
{
    (void)state;
    struct codec_choice c;
    settle(&c, 12.5e6, 1u << CODEC_INT8, CODEC_INT8);
    codec_choice_cost(&c, CODEC_INT8, ELEMS, ELEMS, 1.0);
    assert_int_equal(codec_choice_next(&c), CODEC_INT8);
}

/* A busy peer: now and then half of a body waits for it. */
static void a_fast_link_that_looks_slow_now_and_then_is_soon_known(void **state)
{
    (void)state;
    struct codec_choice c;
    int used[CODECS] = {0};
    struct world busy = INT8_WORLD;
    codec_choice_init(&c, codec_mask(CODEC_AUTO, 1u << CODEC_INT8));
    busy.latency = 1e-3;
    for (int i = 0; i < 5000; i++) {
        busy.rate = i % 4 == 1 ? 100e6 : 10e9;
        send_bodies(&c, &busy, 1, used);
    }
    assert_true(used[CODEC_RAW] > 4800);
}

static void a_new_connection_starts_its_counters_anew(void **state)
{
    (void)state;
    struct codec_choice c;
    codec_choice_init(&c, codec_mask(CODEC_AUTO, 0));
    struct codec_link l = {0};
    codec_choice_sent(&c, &l, &(struct link_progress){.waiting_bytes = 8 << 20});
    codec_choice_link(&c, &l, &(struct link_progress){8 << 20, 1.0, 0});
    assert_true(codec_choice_rate(&c) == (double)(8 << 20));
    codec_choice_link(&c, &l, &(struct link_progress){100, 0.1, 0});
    codec_choice_sent(&c, &l, &(struct link_progress){100, 0.1, 8 << 20});
    codec_choice_link(&c, &l, &(struct link_progress){100 + (16 << 20), 1.1, 0});
    assert_int_equal(c.windows, 2);
    assert_true(codec_choice_rate(&c) == (double)(8 << 20));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_link_gets_the_codec_that_is_fastest_on_it),
        cmocka_unit_test(what_the_peer_takes_is_not_the_links),
        cmocka_unit_test(nothing_that_is_not_allowed_is_tried),
        cmocka_unit_test(a_link_that_became_slow_is_noticed),
        cmocka_unit_test(data_that_pack_better_later_are_noticed),
        cmocka_unit_test(what_its_bytes_alone_rule_out_is_not_tried_again),
        cmocka_unit_test(what_is_hardly_better_changes_nothing),
        cmocka_unit_test(one_slow_measurement_does_not_count),
        cmocka_unit_test(a_fast_link_that_looks_slow_now_and_then_is_soon_known),
        cmocka_unit_test(a_new_connection_starts_its_counters_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
