#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/base/rng.h"
#include "data/dataset.h"
#include "tests/lib/gathered.h"

enum { ROWS = 203, FEATURES = 6, BATCH = 20, LEAVES = 4, DEPTH = 8, THREADS = 4, DEADLINE_S = 120 };

struct fixture {
    struct dataset data;
    struct dataset_source source;
    struct order order;
    struct loader *loader;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    struct errmsg e;
    f->data = (struct dataset){.rows = ROWS, .features = FEATURES, .scale = 255};
    f->data.x = malloc(ROWS * FEATURES);
    f->data.labels = malloc(ROWS);
    for (unsigned i = 0; i < ROWS * FEATURES; i++)
        f->data.x[i] = (uint8_t)rng_u64(1, i);
    for (unsigned i = 0; i < ROWS; i++)
        f->data.labels[i] = (uint8_t)i;
    f->order = (struct order){.rows = ROWS, .batch_size = BATCH, .seed = 3, .microbatches = LEAVES};
    assert_int_equal(
        loader_new(&f->loader, source_over(&f->source, &f->data, &f->order), DEPTH, &e), ERR_OK);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    loader_free(f->loader);
    free(f->data.x);
    free(f->data.labels);
    free(f);
    return 0;
}

/* Nonzero where m is not (id, leaf) as order.c and dataset_gather alone make it. Safe in any
 * thread. */
static int differs(const struct fixture *f, const struct leaf *m, uint64_t id, uint32_t leaf)
{
    uint64_t rows[BATCH];
    float x[BATCH * FEATURES], y[BATCH];
    uint32_t n = order_leaf(&f->order, id, leaf, rows);
    if (gathered_rows(&f->data, rows, n, x, y, &n, NULL))
        return 1;
    return m->id != id || m->leaf != leaf || m->n != n || (uintptr_t)m->x % MEM_ALIGN_BYTES ||
           (uintptr_t)m->y % MEM_ALIGN_BYTES || memcmp(m->x, x, n * FEATURES * sizeof *x) != 0 ||
           memcmp(m->y, y, n * sizeof *y) != 0;
}

static int get_and_release(struct fixture *f, uint64_t id, uint32_t leaf)
{
    struct leaf m;
    if (loader_get(f->loader, id, leaf, &m, NULL) != ERR_OK)
        return 1;
    int wrong = differs(f, &m, id, leaf);
    loader_release(f->loader, &m);
    return wrong;
}

static void loader_gives_what_order_and_gather_give_without_any_guess(void **state)
{
    struct fixture *f = *state;
    for (uint64_t i = 0; i < 200; i++)
        assert_int_equal(get_and_release(f, rng_u64(2, i) % 50, (uint32_t)(i % LEAVES)), 0);
    assert_int_equal(loader_stats(f->loader).prefetched, 0);
    assert_int_equal(loader_stats(f->loader).gathered, 200);
}

static void loader_gives_the_same_across_epochs_and_the_short_batch(void **state)
{
    struct fixture *f = *state;
    loader_want(f->loader, 0, 100, 0, LEAVES);
    for (uint64_t id = 0; id < 100; id++)
        for (uint32_t leaf = 0; leaf < LEAVES; leaf++)
            assert_int_equal(get_and_release(f, id, leaf), 0);
}

/* Until the thread has filled `count` microbatches in all. */
static void wait_filled(struct loader *l, uint64_t count)
{
    double deadline = clock_now_s() + DEADLINE_S;
    while (loader_stats(l).filled < count) {
        assert_true(clock_now_s() < deadline);
        sched_yield();
    }
}

static void loader_hands_out_what_it_prefetched(void **state)
{
    struct fixture *f = *state;
    loader_want(f->loader, 3, UINT64_MAX, 1, 2);
    wait_filled(f->loader, DEPTH);
    for (uint64_t i = 0; i < 4 * DEPTH;) { /* and continues with the next ones */
        /* it sleeps only with more than half of the ring filled, and may do so with all but that */
        wait_filled(f->loader, i + DEPTH / 2 + 1);
        for (uint64_t end = i + DEPTH / 2 + 1; i < end; i++)
            assert_int_equal(get_and_release(f, 3 + i / 2, 1 + (uint32_t)(i % 2)), 0);
        assert_int_equal(loader_stats(f->loader).prefetched, i);
    }
    assert_int_equal(loader_stats(f->loader).gathered, 0);
}

static void loader_drops_what_was_passed_by(void **state)
{
    struct fixture *f = *state;
    loader_want(f->loader, 0, UINT64_MAX, 0, LEAVES);
    wait_filled(f->loader, DEPTH);
    assert_int_equal(get_and_release(f, 50, 0), 0);
    wait_filled(f->loader, 2 * DEPTH);
    for (uint64_t i = 1; i <= DEPTH; i++)
        assert_int_equal(get_and_release(f, 50 + i / LEAVES, (uint32_t)(i % LEAVES)), 0);
    assert_int_equal(loader_stats(f->loader).prefetched, DEPTH);
}

static void loader_stops_where_the_range_ends(void **state)
{
    struct fixture *f = *state;
    loader_want(f->loader, 0, 1, 0, LEAVES);
    wait_filled(f->loader, LEAVES);
    for (uint32_t leaf = 0; leaf < LEAVES; leaf++)
        assert_int_equal(get_and_release(f, 1, leaf), 0);
    assert_int_equal(loader_stats(f->loader).prefetched, 0);
    assert_int_equal(loader_stats(f->loader).filled, LEAVES);
}

static void loader_is_woken_by_each_new_range(void **state)
{
    struct fixture *f = *state;
    for (uint64_t id = 0; id < 200; id++) {
        loader_want(f->loader, id, id + 1, 0, LEAVES);
        wait_filled(f->loader, (id + 1) * LEAVES);
    }
}

/* Rows so wide that the thread is met in the middle of one. */
static void loader_waits_for_what_is_being_filled(void **state)
{
    (void)state;
    enum { WIDE = 20000, TIMES = 300 };
    struct fixture f = {.data = {.rows = 8, .features = WIDE, .scale = 255},
                        .order = {.rows = 8, .batch_size = 8, .seed = 1, .microbatches = 1}};
    struct errmsg e;
    uint64_t rows[8];
    float *x = mem_floats(8 * WIDE), y[8];
    f.data.x = malloc(8 * WIDE);
    f.data.labels = calloc(8, 1);
    for (unsigned i = 0; i < 8 * WIDE; i++)
        f.data.x[i] = (uint8_t)rng_u64(1, i);
    assert_int_equal(loader_new(&f.loader, source_over(&f.source, &f.data, &f.order), 2, &e),
                     ERR_OK);
    for (uint64_t id = 0; id < TIMES; id++) {
        struct leaf m;
        uint32_t there;
        loader_want(f.loader, id, id + 1, 0, 1);
        for (uint64_t i = 0; i < id % 20; i++)
            sched_yield();
        assert_int_equal(loader_get(f.loader, id, 0, &m, NULL), ERR_OK);
        assert_int_equal(order_leaf(&f.order, id, 0, rows), m.n);
        assert_int_equal(gathered_rows(&f.data, rows, m.n, x, y, &there, NULL), ERR_OK);
        assert_memory_equal(m.x, x, m.n * WIDE * sizeof *x);
        loader_release(f.loader, &m);
    }
    loader_free(f.loader);
    mem_free(x);
    free(f.data.x);
    free(f.data.labels);
}

/* Every guess is wrong in another way; what comes is right, and prefetch comes back with a right
 * one. */
static void loader_survives_wrong_guesses(void **state)
{
    struct fixture *f = *state;
    double deadline = clock_now_s() + DEADLINE_S;
    for (uint64_t i = 0; i < 2000; i++) {
        uint64_t id = rng_u64(4, 4 * i) % 60;
        uint32_t first = (uint32_t)(rng_u64(4, 4 * i + 1) % LEAVES);
        uint32_t leaves = (uint32_t)(rng_u64(4, 4 * i + 2) % (LEAVES + 1 - first));
        loader_want(f->loader, id, id + rng_u64(4, 4 * i + 3) % 30, first, leaves);
        assert_int_equal(get_and_release(f, rng_u64(5, i) % 60, (uint32_t)(i % LEAVES)), 0);
    }
    uint64_t before = loader_stats(f->loader).prefetched;
    loader_want(f->loader, 7, UINT64_MAX, 0, LEAVES);
    for (uint64_t id = 7; loader_stats(f->loader).prefetched < before + 50; id++) {
        for (uint32_t leaf = 0; leaf < LEAVES; leaf++)
            assert_int_equal(get_and_release(f, id, leaf), 0);
        assert_true(clock_now_s() < deadline);
    }
}

static void loader_prefetches_again_after_going_back(void **state)
{
    struct fixture *f = *state;
    loader_want(f->loader, 1000000, UINT64_MAX, 0, LEAVES);
    wait_filled(f->loader, DEPTH);
    loader_want(f->loader, 10, UINT64_MAX, 0,
                LEAVES); /* the ring is full of what comes much later */
    wait_filled(f->loader, 2 * DEPTH);
    for (uint32_t i = 0; i < DEPTH; i++)
        assert_int_equal(get_and_release(f, 10 + i / LEAVES, i % LEAVES), 0);
    assert_int_equal(loader_stats(f->loader).prefetched, DEPTH);
}

static void loader_keeps_borrowed_microbatches_unchanged(void **state)
{
    struct fixture *f = *state;
    struct leaf held[DEPTH * 3];
    loader_want(f->loader, 0, UINT64_MAX, 0, LEAVES);
    for (uint32_t i = 0; i < DEPTH * 3; i++)
        assert_int_equal(loader_get(f->loader, i / LEAVES, i % LEAVES, &held[i], NULL), ERR_OK);
    for (uint64_t id = 20; id < 40; id++)
        assert_int_equal(get_and_release(f, id, 0), 0);
    for (uint32_t i = 0; i < DEPTH * 3; i++) {
        assert_int_equal(differs(f, &held[i], i / LEAVES, i % LEAVES), 0);
        loader_release(f->loader, &held[i]);
    }
}

static void loader_says_not_now_when_all_spares_are_lent(void **state)
{
    struct fixture *f = *state;
    static struct leaf held[JOB_MICROBATCHES_MAX];
    struct leaf m = {.n = 77};
    for (uint32_t i = 0; i < JOB_MICROBATCHES_MAX; i++)
        assert_int_equal(loader_get(f->loader, i, 0, &held[i], NULL), ERR_OK);
    assert_int_equal(loader_get(f->loader, 0, 1, &m, NULL), ERR_STATE);
    assert_int_equal(m.n, 77);
    for (uint32_t i = 0; i < JOB_MICROBATCHES_MAX; i++)
        loader_release(f->loader, &held[i]);
    assert_int_equal(get_and_release(f, 0, 1), 0);
}

struct consumer {
    struct fixture *f;
    pthread_t thread;
    uint32_t leaf;
    int wrong;
};

static void *consume(void *arg)
{
    struct consumer *c = arg;
    for (uint64_t id = 0; id < 1500; id++)
        c->wrong |= get_and_release(c->f, id, c->leaf);
    return NULL;
}

static void loader_serves_threads_that_take_leaves_of_the_same_batch(void **state)
{
    struct fixture *f = *state;
    struct consumer c[THREADS];
    loader_want(f->loader, 0, 1500, 0, LEAVES);
    for (uint32_t i = 0; i < THREADS; i++) {
        c[i] = (struct consumer){.f = f, .leaf = i};
        assert_int_equal(pthread_create(&c[i].thread, NULL, consume, &c[i]), 0);
    }
    for (uint64_t id = 0; id < 300; id += 3) /* leases come and go meanwhile */
        loader_want(f->loader, id, 1500, 0, LEAVES);
    for (uint32_t i = 0; i < THREADS; i++) {
        pthread_join(c[i].thread, NULL);
        assert_int_equal(c[i].wrong, 0);
    }
    struct loader_stats stats = loader_stats(f->loader);
    assert_int_equal(stats.prefetched + stats.gathered, 1500 * THREADS);
}

static void loader_ends_while_it_is_filling(void **state)
{
    struct fixture *f = *state;
    struct errmsg e;
    for (uint32_t depth = 1; depth < 60; depth++) {
        struct loader *l;
        assert_int_equal(loader_new(&l, &f->source.source, depth, &e), ERR_OK);
        loader_want(l, depth, UINT64_MAX, 0, LEAVES);
        loader_free(l);
    }
}

static void loader_gives_all_back_when_any_allocation_fails(void **state)
{
    struct fixture *f = *state;
    long n = 0;
    for (int fired = 1; fired; n++) {
        struct loader *l = NULL;
        struct errmsg e;
        mem_fail_at(n);
        enum err err = loader_new(&l, &f->source.source, 2, &e);
        mem_fail_at(-1);
        fired = err != ERR_OK;
        assert_int_equal(err, fired ? ERR_NOMEM : ERR_OK);
        assert_true(fired ? l == NULL : l != NULL);
        loader_free(l);
    }
    assert_int_equal(n - 1,
                     2 + 4 * 2); /* the loader, its slots, a buffer of four blocks in each of two */
    struct leaf m;
    mem_fail_at(0);
    assert_int_equal(loader_get(f->loader, 1, 0, &m, NULL), ERR_NOMEM);
    mem_fail_at(-1);
    assert_int_equal(get_and_release(f, 1, 0), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(loader_gives_what_order_and_gather_give_without_any_guess),
        TEST(loader_gives_the_same_across_epochs_and_the_short_batch),
        TEST(loader_hands_out_what_it_prefetched),
        TEST(loader_drops_what_was_passed_by),
        TEST(loader_stops_where_the_range_ends),
        TEST(loader_is_woken_by_each_new_range),
        cmocka_unit_test(loader_waits_for_what_is_being_filled),
        TEST(loader_survives_wrong_guesses),
        TEST(loader_prefetches_again_after_going_back),
        TEST(loader_keeps_borrowed_microbatches_unchanged),
        TEST(loader_says_not_now_when_all_spares_are_lent),
        TEST(loader_serves_threads_that_take_leaves_of_the_same_batch),
        TEST(loader_ends_while_it_is_filling),
        TEST(loader_gives_all_back_when_any_allocation_fails),
    };
#undef TEST
    return cmocka_run_group_tests(tests, NULL, NULL);
}
