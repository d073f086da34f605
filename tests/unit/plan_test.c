#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/parameters/plan.h"
#include "common/base/rng.h"

static struct plan made(uint64_t elems, const uint32_t *threads, uint32_t ps)
{
    struct plan p = {0};
    struct errmsg e;
    assert_int_equal(plan_init(&p, elems, threads, ps, &e), ERR_OK);
    return p;
}

/* Shards lie one behind the other and cover every chunk and every element once. */
static void assert_tiles(const struct plan *p)
{
    uint32_t chunk = 0;
    uint64_t elem = 0;
    for (uint32_t i = 0; i < p->shards; i++) {
        const struct plan_shard *s = &p->shard[i];
        assert_int_equal(s->first_chunk, chunk);
        assert_int_equal(s->first_elem, elem);
        assert_true(s->chunks > 0);
        assert_int_equal(s->elems, plan_run_elems(p, s->first_chunk, s->chunks));
        chunk += s->chunks;
        elem += s->elems;
    }
    assert_int_equal(chunk, p->chunks);
    assert_int_equal(elem, p->elems);
}

static void plan_gives_every_element_to_exactly_one_shard(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 2000; i++) {
        uint64_t key = rng_key(i, RNG_TEST, 1, 0);
        uint64_t elems = 1 + rng_u64(key, 0) % (i % 2 ? 50000 : UINT64_C(1) << 33);
        uint32_t ps = 1 + (uint32_t)(rng_u64(key, 1) % 6), threads[6];
        for (uint32_t k = 0; k < ps; k++)
            threads[k] = 1 + (uint32_t)(rng_u64(key, 2 + k) % 9);
        struct plan p = made(elems, threads, ps);
        assert_tiles(&p);
        plan_close(&p);
    }
}

static void plan_borders_of_chunks_depend_on_the_model_alone(void **state)
{
    (void)state;
    uint32_t one[] = {1}, many[] = {3, 7, 2};
    for (uint64_t elems = 1; elems < 20000000; elems = elems * 3 + 1) {
        struct plan a = made(elems, one, 1), b = made(elems, many, 3);
        assert_int_equal(a.chunk_elems, b.chunk_elems);
        assert_int_equal(a.chunks, b.chunks);
        assert_int_equal(a.run_chunks, b.run_chunks);
        assert_true(a.chunk_elems * sizeof(float) >= PLAN_CHUNK_MIN_BYTES);
        assert_true(a.chunk_elems * sizeof(float) <= PLAN_CHUNK_MAX_BYTES);
        assert_int_equal(a.chunk_elems * sizeof(float) % PLAN_CHUNK_MIN_BYTES, 0);
        plan_close(&a);
        plan_close(&b);
    }
}

static void plan_shares_chunks_evenly(void **state)
{
    (void)state;
    uint32_t threads[] = {2, 2, 2};
    struct plan p = made(1000000, threads, 3);
    for (uint32_t i = 0; i < p.shards; i++) {
        assert_true(p.shard[i].chunks >= p.chunks / 6);
        assert_true(p.shard[i].chunks <= p.chunks / 6 + 1);
    }
    plan_close(&p);
}

static void plan_leaves_out_threads_that_would_own_nothing(void **state)
{
    (void)state;
    uint32_t threads[] = {4, 4};
    struct plan p = made(3 * 1024, threads, 2);
    assert_int_equal(p.chunks, 3);
    assert_int_equal(p.shards, 3);
    assert_tiles(&p);
    plan_close(&p);
}

static void plan_of_one_element_is_one_short_chunk(void **state)
{
    (void)state;
    uint32_t threads[] = {1};
    struct plan p = made(1, threads, 1);
    assert_int_equal(p.chunks, 1);
    assert_int_equal(plan_run_elems(&p, 0, 1), 1);
    assert_int_equal(plan_chunk_elem(&p, 1), 1);
    plan_close(&p);
}

static void plan_of_a_large_model_has_chunks_of_the_largest_size(void **state)
{
    (void)state;
    uint32_t threads[] = {3};
    struct plan p = made(UINT64_C(1) << 30, threads, 1);
    assert_int_equal(p.chunk_elems * sizeof(float), PLAN_CHUNK_MAX_BYTES);
    assert_int_equal(p.chunks, 4096);
    assert_tiles(&p);
    plan_close(&p);
}

static void plan_refuses_no_elements_no_threads_and_too_many(void **state)
{
    (void)state;
    struct plan p = {.elems = 77};
    struct errmsg e;
    uint32_t none[] = {0, 0}, one[] = {1}, many[] = {PLAN_SHARDS_MAX, 1};
    assert_int_equal(plan_init(&p, 0, one, 1, &e), ERR_INPUT);
    assert_int_equal(plan_init(&p, (UINT64_C(1) << 40) + 1, one, 1, &e), ERR_INPUT);
    assert_int_equal(plan_init(&p, 5, none, 2, &e), ERR_INPUT);
    assert_int_equal(plan_init(&p, 5, many, 2, &e), ERR_INPUT);
    assert_non_null(strstr(e.text, "4097 shard threads"));
    assert_int_equal(p.elems, 77); /* unchanged on error */
}

static void plan_says_so_when_memory_runs_out(void **state)
{
    (void)state;
    struct plan p = {0};
    struct errmsg e;
    uint32_t one[] = {1};
    mem_fail_at(0);
    assert_int_equal(plan_init(&p, 5, one, 1, &e), ERR_NOMEM);
    assert_true(mem_fail_fired());
    mem_fail_at(-1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plan_gives_every_element_to_exactly_one_shard),
        cmocka_unit_test(plan_borders_of_chunks_depend_on_the_model_alone),
        cmocka_unit_test(plan_shares_chunks_evenly),
        cmocka_unit_test(plan_leaves_out_threads_that_would_own_nothing),
        cmocka_unit_test(plan_of_one_element_is_one_short_chunk),
        cmocka_unit_test(plan_of_a_large_model_has_chunks_of_the_largest_size),
        cmocka_unit_test(plan_refuses_no_elements_no_threads_and_too_many),
        cmocka_unit_test(plan_says_so_when_memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
