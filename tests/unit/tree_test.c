#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "common/base/rng.h"
#include "common/parameters/tree.h"

enum { ELEMS = 5, NODES_MAX = TREE_LEAVES_MAX };

/* Values whose sum depends on the order in which they are added. */
static float leaf_value(uint64_t seed, uint32_t leaf, size_t i)
{
    uint64_t key = rng_key(seed, RNG_TEST, leaf, i);
    float scale = (float)(UINT64_C(1) << (rng_u64(key, 1) % 30));
    return (rng_unit(key, 0) - 0.5f) * scale;
}

/* The definition, written down: a node is its left half plus its right half. */
static float oracle(uint64_t seed, struct tree_node n, size_t i)
{
    if (n.level == 0)
        return leaf_value(seed, n.index, i);
    return oracle(seed, (struct tree_node){n.level - 1, n.index * 2}, i) +
           oracle(seed, (struct tree_node){n.level - 1, n.index * 2 + 1}, i);
}

struct cut {
    uint32_t nodes;
    struct tree_node node[NODES_MAX];
    float value[NODES_MAX][ELEMS];
    const float *at[NODES_MAX];
    double sums[NODES_MAX * 2];
};

/* A random way to cover `n` by nodes, in random order. */
static void cut_randomly(struct cut *c, uint64_t seed, struct tree_node n)
{
    uint64_t r = rng_u64(rng_key(seed, RNG_TEST, n.level, 1000 + n.index), 0);
    if (n.level > 0 && r % 3) {
        cut_randomly(c, seed, (struct tree_node){n.level - 1, n.index * 2 + (r >> 8 & 1)});
        cut_randomly(c, seed, (struct tree_node){n.level - 1, n.index * 2 + !(r >> 8 & 1)});
        return;
    }
    uint32_t k = c->nodes++, to = (uint32_t)(r % c->nodes);
    c->node[k] = c->node[to];
    c->node[to] = n;
}

static void fill(struct cut *c, uint64_t seed)
{
    for (uint32_t k = 0; k < c->nodes; k++) {
        for (size_t i = 0; i < ELEMS; i++)
            c->value[k][i] = oracle(seed, c->node[k], i);
        c->at[k] = c->value[k];
    }
}

static void tree_gives_the_same_bits_for_any_partition_into_nodes(void **state)
{
    (void)state;
    static struct cut c;
    float scratch[ELEMS * TREE_LEVELS_MAX];
    for (uint64_t seed = 0; seed < 600; seed++) {
        struct tree_node root = {(uint32_t)(seed % TREE_LEVELS_MAX), 0};
        c.nodes = 0;
        cut_randomly(&c, seed, root);
        fill(&c, seed);
        struct tree_values v = {c.nodes, c.node, c.at};
        for (size_t at = 0; at < ELEMS; at += 2) {
            size_t n = at + 2 < ELEMS ? 2 : ELEMS - at;
            const float *sum = tree_sum(&v, root, at, n, scratch);
            for (size_t i = 0; i < n; i++) {
                float want = oracle(seed, root, at + i);
                assert_memory_equal(&sum[i], &want, sizeof want);
            }
        }
    }
}

static void tree_sum_copies_nothing_where_the_root_is_there(void **state)
{
    (void)state;
    float v[ELEMS] = {1, 2, 3, 4, 5}, scratch[1];
    const float *at[] = {v};
    struct tree_node root = {3, 0};
    struct tree_values values = {1, &root, at};
    assert_ptr_equal(tree_sum(&values, root, 2, 2, scratch), v + 2);
}

static double double_oracle(uint64_t seed, struct tree_node n, size_t i)
{
    if (n.level == 0)
        return (double)leaf_value(seed, n.index, i) * 1e-7;
    return double_oracle(seed, (struct tree_node){n.level - 1, n.index * 2}, i) +
           double_oracle(seed, (struct tree_node){n.level - 1, n.index * 2 + 1}, i);
}

static void tree_sums_doubles_in_the_same_order(void **state)
{
    (void)state;
    static struct cut c;
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct tree_node root = {(uint32_t)(seed % 7), 0};
        c.nodes = 0;
        cut_randomly(&c, seed, root);
        for (uint32_t k = 0; k < c.nodes; k++)
            for (size_t i = 0; i < 2; i++)
                c.sums[k * 2 + i] = double_oracle(seed, c.node[k], i);
        double out[2];
        assert_true(tree_sum_doubles(c.node, c.nodes, c.sums, 2, root, out));
        for (size_t i = 0; i < 2; i++) {
            double want = double_oracle(seed, root, i);
            assert_memory_equal(&out[i], &want, sizeof want);
        }
    }
}

/* As its definition; false: nothing is there. */
static bool double_oracle_of(uint64_t seed, const struct tree_leaves *there, struct tree_node n,
                             size_t i, double *out)
{
    double left, right;
    if (n.level == 0) {
        *out = double_oracle(seed, n, i);
        return tree_has_leaf(there, n.index);
    }
    bool has_left =
        double_oracle_of(seed, there, (struct tree_node){n.level - 1, n.index * 2}, i, &left);
    bool has_right =
        double_oracle_of(seed, there, (struct tree_node){n.level - 1, n.index * 2 + 1}, i, &right);
    *out = has_left && has_right ? left + right : has_left ? left : right;
    return has_left || has_right;
}

static bool oracle_of(uint64_t seed, const struct tree_leaves *there, struct tree_node n, size_t i,
                      float *out)
{
    float left, right;
    if (n.level == 0) {
        *out = leaf_value(seed, n.index, i);
        return tree_has_leaf(there, n.index);
    }
    bool has_left = oracle_of(seed, there, (struct tree_node){n.level - 1, n.index * 2}, i, &left);
    bool has_right =
        oracle_of(seed, there, (struct tree_node){n.level - 1, n.index * 2 + 1}, i, &right);
    *out = has_left && has_right ? left + right : has_left ? left : right;
    return has_left || has_right;
}

/* Of a random partition some nodes are taken away. */
static void tree_skips_what_is_absent(void **state)
{
    (void)state;
    static struct cut c;
    float scratch[ELEMS * TREE_LEVELS_MAX];
    for (uint64_t seed = 0; seed < 600; seed++) {
        struct tree_node root = {(uint32_t)(seed % TREE_LEVELS_MAX), 0};
        struct tree_leaves there = {{0}};
        c.nodes = 0;
        cut_randomly(&c, seed, root);
        fill(&c, seed);
        uint32_t kept = 0;
        for (uint32_t k = 0; k < c.nodes; k++) {
            if (rng_u64(rng_key(seed, RNG_TEST, k, 77), 0) % 3 == 0)
                continue;
            tree_add_leaves(&there, tree_first_leaf(c.node[k]), tree_end_leaf(c.node[k]));
            for (size_t i = 0; i < 2; i++)
                c.sums[kept * 2 + i] = double_oracle(seed, c.node[k], i);
            c.at[kept] = c.at[k];
            c.node[kept++] = c.node[k];
        }
        struct tree_values v = {kept, c.node, c.at};
        const float *sum = tree_sum(&v, root, 0, ELEMS, scratch);
        double out[2], want_out;
        assert_int_equal(tree_sum_doubles(c.node, kept, c.sums, 2, root, out), kept > 0);
        assert_int_equal(sum != NULL, kept > 0);
        for (size_t i = 0; i < ELEMS && kept; i++) {
            float want;
            assert_true(oracle_of(seed, &there, root, i, &want));
            assert_memory_equal(&sum[i], &want, sizeof want);
        }
        for (size_t i = 0; i < 2 && kept; i++) {
            assert_true(double_oracle_of(seed, &there, root, i, &want_out));
            assert_memory_equal(&out[i], &want_out, sizeof want_out);
        }
    }
}

static void a_set_of_leaves_is_the_same_unpacked(void **state)
{
    (void)state;
    for (uint32_t bits = 1; bits <= TREE_NODES_MAX; bits *= 2) {
        uint64_t in[TREE_NODES_MAX / 64] = {0}, out[TREE_NODES_MAX / 64] = {0};
        uint8_t bytes[TREE_NODES_MAX / 8];
        for (uint32_t i = 0; i < bits; i += 3)
            in[i / 64] |= UINT64_C(1) << (i % 64);
        size_t n = tree_pack(in, bits, bytes);
        assert_int_equal(n, (bits + 7) / 8);
        assert_int_equal(tree_unpack(out, bits, bytes, n), ERR_OK);
        assert_memory_equal(in, out, sizeof in);
        assert_int_equal(tree_unpack(out, bits, bytes, n - 1), ERR_PROTO);
        assert_int_equal(tree_unpack(out, bits, bytes, n + 1), ERR_PROTO);
        if (bits < 8) {
            bytes[0] |= (uint8_t)(1u << bits); /* a leaf that does not exist */
            assert_int_equal(tree_unpack(out, bits, bytes, n), ERR_PROTO);
        }
    }
}

static bool inside(struct tree_node n, uint32_t first, uint32_t count)
{
    return tree_first_leaf(n) >= first && tree_end_leaf(n) <= first + count;
}

/* The fewest nodes are those inside the range whose parent is not. */
static uint32_t fewest(uint32_t leaves, uint32_t first, uint32_t count)
{
    uint32_t n = 0;
    for (uint32_t level = 0; (leaves >> level) > 0; level++)
        for (uint32_t i = 0; i < leaves >> level; i++)
            n += inside((struct tree_node){level, i}, first, count) &&
                 ((leaves >> level) == 1 ||
                  !inside((struct tree_node){level + 1, i / 2}, first, count));
    return n;
}

static void tree_cover_is_exact_and_the_smallest(void **state)
{
    (void)state;
    for (uint32_t leaves = 1; leaves <= 64; leaves *= 2) {
        for (uint32_t first = 0; first < leaves; first++) {
            for (uint32_t count = 0; count <= leaves - first; count++) {
                struct tree_node node[2 * TREE_LEVELS_MAX];
                uint32_t n = tree_cover(first, count, node), at = first;
                for (uint32_t i = 0; i < n; i++) {
                    assert_true(tree_valid(leaves, node[i].level, node[i].index));
                    assert_int_equal(tree_first_leaf(node[i]), at);
                    at = tree_end_leaf(node[i]);
                }
                assert_int_equal(at, first + count);
                assert_int_equal(n, fewest(leaves, first, count));
            }
        }
    }
}

static void tree_shares_leaves_evenly_and_the_first_never_go_without(void **state)
{
    (void)state;
    for (uint32_t leaves = 1; leaves <= TREE_LEAVES_MAX; leaves *= 2) {
        for (uint32_t workers = 1; workers <= 40; workers++) {
            uint32_t next = 0;
            for (uint32_t p = 0; p < workers; p++) {
                uint32_t first, count;
                tree_share(leaves, workers, p, &first, &count);
                assert_int_equal(first, next);
                assert_true(count >= leaves / workers && count <= leaves / workers + 1);
                assert_true(count > 0 || p > 0);
                next += count;
            }
            assert_int_equal(next, leaves);
        }
    }
}

static void tree_valid_knows_the_nodes_of_the_tree(void **state)
{
    (void)state;
    assert_true(tree_valid(4, 0, 3));
    assert_false(tree_valid(4, 0, 4));
    assert_true(tree_valid(4, 2, 0));
    assert_false(tree_valid(4, 2, 1));
    assert_false(tree_valid(4, 3, 0));
    assert_false(tree_valid(4, UINT32_MAX, 0));
    assert_false(tree_valid(4, 32, 0)); /* a shift by 32 is no shift */
    assert_true(tree_valid(TREE_LEAVES_MAX, TREE_LEVELS_MAX - 1, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tree_gives_the_same_bits_for_any_partition_into_nodes),
        cmocka_unit_test(tree_sum_copies_nothing_where_the_root_is_there),
        cmocka_unit_test(tree_sums_doubles_in_the_same_order),
        cmocka_unit_test(tree_skips_what_is_absent),
        cmocka_unit_test(a_set_of_leaves_is_the_same_unpacked),
        cmocka_unit_test(tree_cover_is_exact_and_the_smallest),
        cmocka_unit_test(tree_shares_leaves_evenly_and_the_first_never_go_without),
        cmocka_unit_test(tree_valid_knows_the_nodes_of_the_tree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
