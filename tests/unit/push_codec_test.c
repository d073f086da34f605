/* How gradients leave a worker: what top-k withholds and when it comes back, and what is not finite. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/rng.h"
#include "job/job.h"
#include "worker/driver/push_codec.h"

enum { CHUNK = PLAN_CHUNK_MIN_BYTES / 4, CHUNKS = 3, ELEMS = CHUNKS * CHUNK };

struct fixture {
    struct session_terms terms;
    bool whole; /* pushes withhold nothing */
    struct layout layout;
    struct push_codec *codec;
    struct coder *coder;
    float g[ELEMS], applied[ELEMS], sum[ELEMS]; /* applied, and to be applied, of mean gradients */
    uint64_t name;
};

/* One shard of three chunks. */
static void open_fixture(struct fixture *f, enum codec codec, uint32_t nan_guard)
{
    struct errmsg e;
    const uint32_t threads = 1;
    const struct tensor t = {.name = "dense/kernel", .rank = 1, .shape = {ELEMS}};
    memset(f, 0, sizeof *f);
    assert_int_equal(layout_add(&f->layout, &t, &e), ERR_OK);
    assert_int_equal(plan_init(&f->terms.plan, ELEMS, &threads, 1, &e), ERR_OK);
    gradwire__settings__init(&f->terms.settings);
    f->terms.settings.push_codec = codec;
    f->terms.settings.push_ratio = 0.05f;
    f->terms.settings.nan_guard = nan_guard;
    f->terms.settings.seed = 7;
    f->terms.sync = true;
    f->terms.feedback = codec == CODEC_TOP_K;
    assert_int_equal(coder_new(&f->coder), ERR_OK);
    assert_int_equal(push_codec_new(&f->codec, &f->layout), ERR_OK);
    assert_int_equal(push_codec_restart(f->codec, &f->terms), ERR_OK);
}

static void close_fixture(struct fixture *f)
{
    push_codec_free(f->codec);
    coder_free(f->coder);
    plan_close(&f->terms.plan);
    layout_close(&f->layout);
}

static void draw(struct fixture *f, uint64_t name)
{
    for (uint64_t i = 0; i < ELEMS; i++)
        f->g[i] = rng_unit(rng_key(3, RNG_TEST, name, 0), i) - 0.5f;
}

static enum err make(struct fixture *f, uint64_t name, uint32_t examples, struct push_body *body,
                     struct errmsg *e)
{
    const struct gradient_node n = {.examples = examples, .value = f->g};
    push_codec_task(f->codec,
                    &(struct push_task){.name = name, .whole = f->whole, .weight = examples});
    return push_codec_run(f->codec, 0, &n, 0, CHUNKS, body, e);
}

static void decoded(struct fixture *f, const struct push_body *body, float *out)
{
    const struct codec_shape shape = {&f->terms.plan, &f->layout, 0.05f};
    assert_int_equal(
        codec_decode(f->coder, &shape, body->codec, 0, CHUNKS, body->data, body->bytes, out),
        ERR_OK);
}

/* The step is over; of the push `number` these chunks were taken. */
static void answer(struct fixture *f, uint64_t name, uint64_t number, uint32_t first,
                   uint32_t chunks)
{
    Gradwire__Reply m = GRADWIRE__REPLY__INIT;
    Gradwire__Taken taken = GRADWIRE__TAKEN__INIT, *at[] = {&taken};
    taken.number = number;
    taken.first_chunk = first;
    taken.chunks = chunks;
    m.step = name + 1;
    m.chunks = CHUNKS;
    m.taken = at;
    m.n_taken = chunks ? 1 : 0;
    push_codec_answered(f->codec, &m);
}

/* A step of `examples` whose gradient counts if its push is taken. */
static void step(struct fixture *f, uint32_t examples, bool taken)
{
    struct errmsg e;
    struct push_body body;
    float out[ELEMS];
    draw(f, f->name);
    assert_int_equal(make(f, f->name, examples, &body, &e), ERR_OK);
    decoded(f, &body, out);
    for (uint64_t i = 0; i < ELEMS && taken; i++) {
        f->applied[i] += out[i] / (float)examples;
        f->sum[i] += f->g[i] / (float)examples;
    }
    answer(f, f->name++, body.number, 0, taken ? CHUNKS : 0);
}

static void assert_all_is_applied(const struct fixture *f)
{
    assert_false(push_codec_withholds(f->codec));
    for (uint64_t i = 0; i < ELEMS; i++)
        assert_true(fabsf(f->applied[i] - f->sum[i]) < 1e-5f);
}

static void top_k_sends_later_what_it_does_not_send_now(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, CODEC_TOP_K, NAN_GUARD_OFF);
    for (int i = 0; i < 20; i++)
        step(&f, 8, true);
    assert_true(push_codec_withholds(f.codec));
    f.whole = true;
    step(&f, 8, true);
    assert_all_is_applied(&f);
    close_fixture(&f);
}

/* The update divides by the step's examples: what was left by a step of 8 counts twice in the sums of one of 16. */
static void what_is_withheld_keeps_its_weight_in_steps_of_other_sizes(void **state)
{
    (void)state;
    struct fixture f;
    static const uint32_t sizes[] = {8, 16, 3, 8, 1, 12};
    open_fixture(&f, CODEC_TOP_K, NAN_GUARD_OFF);
    for (int i = 0; i < 24; i++)
        step(&f, sizes[i % 6], true);
    f.whole = true;
    step(&f, 5, true);
    assert_all_is_applied(&f);
    close_fixture(&f);
}

static void what_a_push_carried_comes_back_where_it_is_not_taken(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, CODEC_TOP_K, NAN_GUARD_OFF);
    for (int i = 0; i < 20; i++)
        step(&f, 8, i % 3 != 1);
    f.whole = true;
    step(&f, 8, false);
    assert_true(push_codec_withholds(f.codec));
    step(&f, 8, true);
    assert_all_is_applied(&f);
    close_fixture(&f);
}

static void what_is_taken_is_told_chunk_by_chunk(void **state)
{
    (void)state;
    struct fixture f;
    struct errmsg e;
    struct push_body body;
    float out[ELEMS], rest[ELEMS];
    open_fixture(&f, CODEC_TOP_K, NAN_GUARD_OFF);
    draw(&f, 0);
    assert_int_equal(make(&f, 0, 1, &body, &e), ERR_OK);
    decoded(&f, &body, out);
    answer(&f, 0, body.number, 1, 1);
    for (uint64_t i = 0; i < ELEMS; i++) /* of the others nothing was withheld */
        rest[i] = i / CHUNK == 1 ? f.g[i] - out[i] : 0;
    f.whole = true;
    memset(f.g, 0, sizeof f.g);
    assert_int_equal(make(&f, 1, 1, &body, &e), ERR_OK);
    assert_memory_equal(body.data, rest, sizeof rest);
    close_fixture(&f);
}

static void a_retry_sends_the_same_and_nothing_is_carried_twice(void **state)
{
    (void)state;
    struct fixture f;
    struct errmsg e;
    struct push_body first, again;
    uint8_t bytes[ELEMS * sizeof(float)];
    open_fixture(&f, CODEC_TOP_K, NAN_GUARD_OFF);
    step(&f, 8, true);
    draw(&f, 1);
    assert_int_equal(make(&f, 1, 8, &first, &e), ERR_OK);
    memcpy(bytes, first.data, first.bytes);
    memset(f.g, 0, sizeof f.g);
    assert_int_equal(make(&f, 1, 8, &again, &e), ERR_OK);
    assert_int_equal(again.number, first.number);
    assert_int_equal(again.bytes, first.bytes);
    assert_memory_equal(again.data, bytes, first.bytes);
    assert_int_equal(make(&f, 2, 8, &again, &e), ERR_OK); /* the other's outcome is not known */
    float out[ELEMS];
    decoded(&f, &again, out);
    for (uint64_t i = 0; i < ELEMS; i++)
        assert_true(out[i] == 0);
    close_fixture(&f);
}

static void a_push_without_examples_carries_nothing(void **state)
{
    (void)state;
    struct fixture f;
    struct errmsg e;
    struct push_body body;
    open_fixture(&f, CODEC_TOP_K, NAN_GUARD_OFF);
    step(&f, 8, true);
    memset(f.g, 0, sizeof f.g);
    f.whole = true;
    assert_int_equal(make(&f, 1, 0, &body, &e), ERR_OK);
    for (uint64_t i = 0; i < ELEMS; i++)
        assert_true(((const float *)body.data)[i] == 0);
    close_fixture(&f);
}

/* A shard's guard can reject only what it sees. */
static void what_is_not_finite_goes_raw_to_a_guard_and_is_refused_without_one(void **state)
{
    (void)state;
    static const enum codec codecs[] = {CODEC_INT8, CODEC_INT8_ZSTD, CODEC_TOP_K};
    for (int i = 0; i < 3; i++) {
        struct fixture f;
        struct errmsg e;
        struct push_body body;
        open_fixture(&f, codecs[i], NAN_GUARD_SKIP);
        draw(&f, 0);
        f.g[5] = NAN;
        assert_int_equal(make(&f, 0, 1, &body, &e), ERR_OK);
        assert_int_equal(body.codec, CODEC_RAW);
        assert_memory_equal(body.data, f.g, sizeof f.g);
        close_fixture(&f);
        open_fixture(&f, codecs[i], NAN_GUARD_OFF);
        draw(&f, 0);
        f.g[5] = INFINITY;
        assert_int_equal(make(&f, 0, 1, &body, &e), ERR_INPUT);
        assert_non_null(strstr(e.text, "the gradient of dense/kernel is not finite"));
        close_fixture(&f);
    }
}

/* The rejected step gives back what was not in it. */
static void what_is_not_finite_takes_nothing_along(void **state)
{
    (void)state;
    struct fixture f;
    struct errmsg e;
    struct push_body body;
    open_fixture(&f, CODEC_TOP_K, NAN_GUARD_SKIP);
    for (int i = 0; i < 5; i++)
        step(&f, 8, true);
    f.g[1] = NAN;
    assert_int_equal(make(&f, f.name, 8, &body, &e), ERR_OK);
    answer(&f, f.name++, body.number, 0, 0);
    f.whole = true;
    step(&f, 8, true);
    assert_all_is_applied(&f);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(top_k_sends_later_what_it_does_not_send_now),
        cmocka_unit_test(what_is_withheld_keeps_its_weight_in_steps_of_other_sizes),
        cmocka_unit_test(what_a_push_carried_comes_back_where_it_is_not_taken),
        cmocka_unit_test(what_is_taken_is_told_chunk_by_chunk),
        cmocka_unit_test(a_retry_sends_the_same_and_nothing_is_carried_twice),
        cmocka_unit_test(a_push_without_examples_carries_nothing),
        cmocka_unit_test(what_is_not_finite_goes_raw_to_a_guard_and_is_refused_without_one),
        cmocka_unit_test(what_is_not_finite_takes_nothing_along),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
