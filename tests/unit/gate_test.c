#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/rng.h"
#include "ps/core/gate.h"

enum { ELEMS = 3 };

static float leaf_value(uint64_t seed, uint32_t leaf, size_t i)
{
    uint64_t key = rng_key(seed, RNG_TEST, leaf, i);
    return (rng_unit(key, 0) - 0.5f) * (float)(UINT64_C(1) << (rng_u64(key, 1) % 30));
}

static float oracle(uint64_t seed, struct tree_node n, size_t i)
{
    if (n.level == 0)
        return leaf_value(seed, n.index, i);
    return oracle(seed, (struct tree_node){n.level - 1, n.index * 2}, i) +
           oracle(seed, (struct tree_node){n.level - 1, n.index * 2 + 1}, i);
}

static uint32_t examples_of(struct tree_node n)
{
    uint32_t sum = 0;
    for (uint32_t leaf = tree_first_leaf(n); leaf < tree_end_leaf(n); leaf++)
        sum += leaf * 3 % 7; /* some leaves have none */
    return sum;
}

static enum gate_verdict admit(struct gate *g, struct buffer_pool *pool, uint32_t chunk,
                               uint64_t seed, struct tree_node node)
{
    struct buffer *b = buffer_acquire(pool, ELEMS);
    assert_non_null(b);
    for (size_t i = 0; i < ELEMS; i++)
        b->data[i] = oracle(seed, node, i);
    struct gate_node n = {.node = node, .examples = examples_of(node), .run = b, .value = b->data};
    enum gate_verdict v = gate_admit(g, chunk, &n);
    buffer_unref(b); /* the gate holds its own */
    return v;
}

static void assert_sum(const struct gate *g, uint32_t chunk, uint64_t seed)
{
    const struct gate_chunk *c = &g->chunk[chunk];
    struct tree_node node[TREE_LEAVES_MAX], root = {(uint32_t)__builtin_ctz(g->leaves), 0};
    const float *value[TREE_LEAVES_MAX];
    for (uint32_t i = 0; i < c->nodes; i++) {
        node[i] = c->node[i].node;
        value[i] = c->node[i].value;
    }
    struct tree_values v = {c->nodes, node, value};
    float scratch[ELEMS * TREE_LEVELS_MAX];
    const float *sum = tree_sum(&v, root, 0, ELEMS, scratch);
    for (size_t i = 0; i < ELEMS; i++) {
        float want = oracle(seed, root, i);
        assert_memory_equal(&sum[i], &want, sizeof want);
    }
    assert_int_equal(gate_examples(g, chunk), examples_of(root));
}

static void gate_sums_to_the_same_bits_in_any_order_with_duplicates(void **state)
{
    (void)state;
    struct buffer_pool pool = {0};
    for (uint64_t seed = 0; seed < 400; seed++) {
        struct gate g;
        uint32_t leaves = seed % 40 ? 1u << (seed % 6) : TREE_LEAVES_MAX;
        uint64_t key = rng_key(seed, RNG_TEST, 5, 0);
        uint8_t there[2][TREE_LEAVES_MAX] = {{0}};
        assert_int_equal(gate_init(&g, leaves, 2, false), ERR_OK);
        for (uint64_t i = 0; !gate_complete(&g, 0) || !gate_complete(&g, 1); i++) {
            uint64_t r = rng_u64(key, i);
            uint32_t level = (uint32_t)(r % (1 + (uint64_t)__builtin_ctz(leaves)));
            if (r >> 40 & 1)
                level = 0;
            struct tree_node node = {level, (uint32_t)(r >> 8) % (leaves >> level)};
            uint32_t chunk = r >> 50 & 1;
            bool new = false;
            for (uint32_t leaf = tree_first_leaf(node); leaf < tree_end_leaf(node); leaf++) {
                new = new || !there[chunk][leaf];
                there[chunk][leaf] = 1;
            }
            assert_int_equal(admit(&g, &pool, chunk, seed, node),
                             new ? GATE_ADDED : GATE_DUPLICATE);
            uint32_t missing = 0;
            while (missing < leaves && there[chunk][missing])
                missing++;
            assert_int_equal(gate_first_missing(&g, chunk), missing);
        }
        assert_sum(&g, 0, seed);
        assert_sum(&g, 1, seed);
        gate_close(&g);
    }
    buffer_pool_close(&pool);
}

static void gate_gives_all_buffers_back(void **state)
{
    (void)state;
    struct buffer_pool pool = {0};
    struct gate g;
    assert_int_equal(gate_init(&g, 4, 1, false), ERR_OK);
    assert_int_equal(admit(&g, &pool, 0, 1, (struct tree_node){0, 0}), GATE_ADDED);
    assert_int_equal(admit(&g, &pool, 0, 1, (struct tree_node){0, 1}), GATE_ADDED);
    assert_int_equal(admit(&g, &pool, 0, 1, (struct tree_node){0, 3}), GATE_ADDED);
    assert_int_equal(admit(&g, &pool, 0, 1, (struct tree_node){1, 0}), GATE_DUPLICATE);
    assert_int_equal(admit(&g, &pool, 0, 1, (struct tree_node){1, 1}), GATE_ADDED);
    assert_int_equal(g.chunk[0].nodes, 3); /* two leaves, and the node that replaced leaf 3 */
    gate_clear(&g, 0);
    assert_int_equal(gate_first_missing(&g, 0), 0);
    assert_int_equal(pool.kept[8], 4); /* as many as were out at a time */
    gate_close(&g);
    buffer_pool_close(&pool);
}

static void gate_counts_a_leaf_without_examples(void **state)
{
    (void)state;
    struct gate g;
    assert_int_equal(gate_init(&g, 1, 1, false), ERR_OK);
    struct gate_node n = {.node = {0, 0}, .examples = 0};
    assert_int_equal(gate_admit(&g, 0, &n), GATE_ADDED);
    assert_true(gate_complete(&g, 0));
    assert_int_equal(gate_examples(&g, 0), 0);
    gate_close(&g);
}

/* It takes nothing that comes later: another leaf, one that was dropped, a node above the picked ones. */
static void gate_takes_nothing_when_it_is_picked(void **state)
{
    (void)state;
    struct buffer_pool pool = {0};
    struct tree_leaves picked = {{0}};
    struct gate g;
    assert_int_equal(gate_init(&g, 4, 1, true), ERR_OK);
    assert_int_equal(admit(&g, &pool, 0, 1, (struct tree_node){0, 0}), GATE_ADDED);
    assert_int_equal(admit(&g, &pool, 0, 1, (struct tree_node){0, 1}), GATE_ADDED);
    assert_int_equal(admit(&g, &pool, 0, 1, (struct tree_node){0, 2}), GATE_ADDED);
    tree_add_leaves(&picked, 0, 2);
    assert_true(gate_covers(&g, 0, &picked));
    assert_false(gate_complete(&g, 0));
    gate_pick(&g, 0, &picked);
    assert_true(gate_complete(&g, 0));
    for (int again = 0; again < 2; again++) {
        assert_int_equal(admit(&g, &pool, 0, 1, (struct tree_node){0, 3}), GATE_DUPLICATE);
        assert_int_equal(admit(&g, &pool, 0, 1, (struct tree_node){0, 2}), GATE_DUPLICATE);
        assert_int_equal(admit(&g, &pool, 0, 1, (struct tree_node){1, 0}), GATE_DUPLICATE);
        assert_int_equal(g.chunk[0].nodes, 2);
        gate_pick(&g, 0, &picked); /* sent again */
    }
    assert_int_equal(gate_examples(&g, 0), examples_of((struct tree_node){1, 0}));
    gate_clear(&g, 0);
    assert_int_equal(admit(&g, &pool, 0, 1, (struct tree_node){0, 3}), GATE_ADDED);
    gate_close(&g);
    buffer_pool_close(&pool);
}

static void gate_says_so_when_memory_runs_out(void **state)
{
    (void)state;
    long n = 0;
    for (;; n++) {
        struct gate g = {0};
        mem_fail_at(n);
        enum err err = gate_init(&g, 4, 3, false);
        int fired = mem_fail_fired();
        mem_fail_at(-1);
        assert_int_equal(err, fired ? ERR_NOMEM : ERR_OK);
        if (!fired) {
            gate_close(&g);
            break;
        }
    }
    assert_int_equal(n, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gate_sums_to_the_same_bits_in_any_order_with_duplicates),
        cmocka_unit_test(gate_gives_all_buffers_back),
        cmocka_unit_test(gate_counts_a_leaf_without_examples),
        cmocka_unit_test(gate_takes_nothing_when_it_is_picked),
        cmocka_unit_test(gate_says_so_when_memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
