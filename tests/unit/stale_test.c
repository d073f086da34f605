/* Staleness: what is counted, what delay compensation and the staleness-aware rate make of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/parameters/staleness.h"
#include "tests/lib/quiet.h"
#include "ps/core/shard.h"

enum { CHUNK = QUIET_CHUNK, CHUNKS = 2, ELEMS = CHUNK * CHUNKS, WORKERS = 3 };

struct fixture {
    struct shard *shard;
    struct buffer_pool pool;
    struct layout layout;
    struct shard_peer peer[WORKERS];
    uint64_t next_id;
};

static void io_send(void *ctx, struct shard_peer *to, enum frame_type type,
                    const ProtobufCMessage *m, const void *body, uint64_t bytes)
{
    (void)ctx, (void)to, (void)body, (void)bytes;
    (void)quiet_reply(type, m);
}

static void io_tell(void *ctx, enum frame_type type, const ProtobufCMessage *m)
{
    (void)ctx;
    assert_int_equal(type, FRAME_ENTERED);
    assert_string_equal(((const Gradwire__Entered *)m)->error, "");
}

static const struct shard_io io = {.send = io_send,
                                   .now_s = quiet_now_s,
                                   .progress = quiet_no_progress,
                                   .before_write = quiet_before_write,
                                   .tell = io_tell,
                                   .drop_peers = quiet_drop_peers};

static const float START = 2.0f, RATE = 0.5f;

/* The first chunk is a weight, the second a statistic. */
static void open_fixture(struct fixture *f, float lambda, bool staleness_rate)
{
    *f = (struct fixture){.next_id = 0};
    struct errmsg e;
    struct tensor w = {
        .name = "w", .rank = 1, .shape = {CHUNK}, .init = INIT_CONSTANT, .init_value = START};
    struct tensor mean = w;
    mean.name[0] = 'm';
    mean.role = TENSOR_STATISTIC;
    mean.momentum = 0.5f;
    const uint32_t threads = 1;
    Gradwire__Plan plan;
    Gradwire__Settings settings = GRADWIRE__SETTINGS__INIT;
    Gradwire__Enter m = GRADWIRE__ENTER__INIT;
    Gradwire__Generation g = quiet_generation(1);
    assert_int_equal(layout_add(&f->layout, &w, &e), ERR_OK);
    assert_int_equal(layout_add(&f->layout, &mean, &e), ERR_OK);
    assert_int_equal(msg_plan_set(&plan, &f->layout, &threads, 1), ERR_OK);
    settings.update = GRADWIRE__UPDATE__ASYNC;
    settings.optimizer = OPT_SGD;
    settings.learning_rate = RATE;
    settings.microbatches = 1;
    settings.batches_per_epoch = 1000;
    settings.delay_compensation = lambda;
    settings.staleness_rate = staleness_rate;
    assert_int_equal(shard_new(&f->shard, 0, 0, &io, f), ERR_OK);
    m.generation = &g;
    m.uuid = (char *)"job";
    m.plan = &plan;
    m.settings = &settings;
    shard_on_chief(f->shard, FRAME_ENTER, &m.base);
    msg_plan_close(&plan);
    for (uint32_t i = 0; i < WORKERS; i++) {
        Gradwire__Hello hello = GRADWIRE__HELLO__INIT;
        Gradwire__Refuse refuse;
        hello.generation = &g;
        hello.worker = i;
        hello.incarnation = 1;
        assert_int_equal(shard_on_hello(f->shard, &f->peer[i], &hello, &refuse), ERR_OK);
    }
}

static void close_fixture(struct fixture *f)
{
    shard_free(f->shard);
    buffer_pool_close(&f->pool);
    layout_close(&f->layout);
}

static void pull(struct fixture *f, uint32_t worker)
{
    struct errmsg e;
    Gradwire__Generation g = quiet_generation(1);
    Gradwire__Pull m = GRADWIRE__PULL__INIT;
    m.generation = &g;
    m.any = true;
    assert_int_equal(shard_on_worker(f->shard, &f->peer[worker], FRAME_PULL, &m.base, &e), ERR_OK);
}

/* A batch whose mean gradient is `g`, everywhere; of two examples. */
static void push(struct fixture *f, uint32_t worker, float g)
{
    struct errmsg e;
    Gradwire__Generation generation = quiet_generation(1);
    Gradwire__Push m = GRADWIRE__PUSH__INIT;
    m.generation = &generation;
    m.name = f->next_id++;
    m.examples = 2;
    m.chunks = CHUNKS;
    struct buffer *body = buffer_acquire(&f->pool, ELEMS);
    for (int i = 0; i < ELEMS; i++)
        body->data[i] = 2.0f * g;
    assert_int_equal(shard_on_push(f->shard, &f->peer[worker], &m, body, &e), ERR_OK);
    buffer_unref(body);
}

static float weight(const struct fixture *f, uint32_t chunk)
{
    uint64_t first, elems;
    const float *w = quiet_weights(f->shard, &first, &elems);
    for (uint32_t i = 0; i < CHUNK; i++)
        assert_true(w[chunk * CHUNK + i] == w[chunk * CHUNK]);
    return w[chunk * CHUNK];
}

static const Gradwire__WorkerStaleness *counted(struct fixture *f, uint32_t worker)
{
    const Gradwire__ShardStatus *status = shard_status(f->shard);
    for (size_t i = 0; i < status->n_staleness; i++)
        if (status->staleness[i]->worker == worker)
            return status->staleness[i];
    fail_msg("worker %u is not counted", worker);
    return NULL;
}

static void staleness_is_the_updates_between_a_pull_and_its_push(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, 0, false);
    for (uint32_t i = 0; i < WORKERS; i++)
        pull(&f, i);
    push(&f, 0, 1); /* nobody before it; its reply is a pull */
    push(&f, 0, 1);
    push(&f, 1, 1); /* after two of worker 0 */
    push(&f, 2, 1); /* after three */
    pull(&f, 0);
    push(&f, 0, 1);
    const Gradwire__WorkerStaleness *of = counted(&f, 0);
    assert_int_equal(of->count, 3);
    assert_int_equal(of->max, 0);
    assert_int_equal(of->histogram[0], 3);
    of = counted(&f, 1);
    assert_int_equal(of->sum, 2);
    assert_int_equal(of->histogram[2], 1);
    of = counted(&f, 2);
    assert_int_equal(of->max, 3);
    assert_int_equal(of->count, 1);
    close_fixture(&f);
}

static void the_rate_is_divided_by_the_staleness_from_two_on(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, 0, true);
    for (uint32_t i = 0; i < WORKERS; i++)
        pull(&f, i);
    float w = START;
    push(&f, 0, 0.25f); /* tau 0 */
    w -= RATE * 0.25f;
    assert_true(weight(&f, 0) == w);
    push(&f, 1, 0.25f); /* tau 1 */
    w -= RATE * 0.25f;
    assert_true(weight(&f, 0) == w);
    push(&f, 2, 0.25f); /* tau 2 */
    w -= RATE / 2 * 0.25f;
    assert_true(weight(&f, 0) == w);
    push(&f, 2, 0.25f); /* it has seen all */
    w -= RATE * 0.25f;
    assert_true(weight(&f, 0) == w);
    close_fixture(&f);
}

static void delay_compensation_mends_a_gradient_by_what_has_moved_since_its_pull(void **state)
{
    (void)state;
    struct fixture f;
    const float lambda = 0.5f, g = 0.5f;
    open_fixture(&f, lambda, false);
    pull(&f, 0);
    pull(&f, 1);
    float mean = START;
    push(&f, 0, g);
    float seen = START, w = START - RATE * g;
    assert_true(weight(&f, 0) == w); /* nothing had moved */
    mean = 0.5f * mean + 0.5f * g;
    push(&f, 1, g);
    w -= RATE * (g + lambda * g * g * (w - seen));
    assert_true(weight(&f, 0) == w);
    mean = 0.5f * mean + 0.5f * g;
    assert_true(weight(&f, 1) == mean); /* statistics are averaged as they come */
    push(&f, 1, g);                     /* the reply was seen: nothing has moved since */
    w -= RATE * g;
    assert_true(weight(&f, 0) == w);
    seen = START - RATE * g; /* worker 0 has seen its own */
    push(&f, 0, g);
    w -= RATE * (g + lambda * g * g * (w - seen));
    assert_true(weight(&f, 0) == w);
    close_fixture(&f);
}

static void buckets_are_exact_up_to_15_and_then_double(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < STALENESS_BUCKETS; i++) {
        assert_int_equal(staleness_bucket(staleness_least(i)), i);
        if (i)
            assert_int_equal(staleness_bucket(staleness_least(i) - 1), i - 1);
    }
    assert_int_equal(staleness_bucket(15), 15);
    assert_int_equal(staleness_bucket(31), 16);
    assert_int_equal(staleness_bucket(UINT64_MAX), STALENESS_BUCKETS - 1);
    struct staleness a = {0}, b = {0};
    staleness_add(&a, 3);
    staleness_add(&b, 40);
    staleness_join(&a, &b);
    assert_int_equal(a.count, 2);
    assert_int_equal(a.sum, 43);
    assert_int_equal(a.max, 40);
    assert_int_equal(a.bucket[3] + a.bucket[17], 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(staleness_is_the_updates_between_a_pull_and_its_push),
        cmocka_unit_test(the_rate_is_divided_by_the_staleness_from_two_on),
        cmocka_unit_test(delay_compensation_mends_a_gradient_by_what_has_moved_since_its_pull),
        cmocka_unit_test(buckets_are_exact_up_to_15_and_then_double),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
