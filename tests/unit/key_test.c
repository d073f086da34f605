/* Keys, buckets and first values of rows. */
#include "common/rows/key.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/rng.h"
#include "common/rows/row_layout.h"

static void mixing_is_a_bijection(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 100000; i++) {
        uint64_t key = i < 1000 ? i : rng_u64(7, i);
        assert_true(key_unmix(key_mix(key)) == key);
    }
    assert_true(key_unmix(key_mix(UINT64_MAX)) == UINT64_MAX);
    assert_true(key_mix(1) ==
                UINT64_C(0x5692161D100B05E5)); /* as readers of docs/reference/data.md compute it */
}

static void shards_and_their_parts_own_each_bucket_once(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= 5000; n = n * 3 + 1) {
        uint32_t next = 0;
        for (uint32_t i = 0; i < n; i++) {
            struct bucket_range shard = bucket_shard(i, n);
            uint32_t part_next = shard.first;
            assert_int_equal(shard.first, next);
            for (uint32_t p = 0; p < ROW_PARTS; p++) {
                struct bucket_range part = bucket_part(shard, p);
                assert_int_equal(part.first, part_next);
                part_next = part.end;
            }
            assert_int_equal(part_next, shard.end);
            next = shard.end;
        }
        assert_int_equal(next, ROW_BUCKETS);
    }
}

static void keys_below_a_bucket_are_counted(void **state)
{
    (void)state;
    uint64_t bucket = UINT64_C(1) << 52;
    uint64_t mixed[] = {0, 5, bucket, bucket + 1, 3 * bucket - 1, UINT64_MAX};
    assert_int_equal(key_below(mixed, 6, 0), 0);
    assert_int_equal(key_below(mixed, 6, 1), 2);
    assert_int_equal(key_below(mixed, 6, 2), 4);
    assert_int_equal(key_below(mixed, 6, 3), 5);
    assert_int_equal(key_below(mixed, 6, 4095), 5);
    assert_int_equal(key_below(mixed, 6, ROW_BUCKETS), 6);
    assert_int_equal(key_below(mixed, 0, 9), 0);
}

static void a_first_value_follows_from_seed_table_and_key_alone(void **state)
{
    (void)state;
    struct row_table_spec a = {.name = "ids",
                               .dim = 4,
                               .init = INIT_RANDOM_UNIFORM,
                               .init_value = 0.05f},
                          b = a;
    (void)strcpy(b.name, "others");
    float w[4], again[4];
    row_first_value(&a, 1, 99, w);
    row_first_value(&a, 1, 99, again);
    assert_memory_equal(w, again, sizeof w);
    for (int i = 0; i < 4; i++)
        assert_true(w[i] >= -0.05f && w[i] <= 0.05f && (i == 0 || memcmp(&w[i], &w[0], 4)));
    row_first_value(&a, 1, key_mix(1), again); /* docs/explanation/tables.md */
    assert_float_equal(again[0], 0.030486, 1e-6);
    assert_float_equal(again[1], 0.047244, 1e-6);
    row_first_value(&b, 1, 99, again);
    assert_memory_not_equal(w, again, sizeof w);
    row_first_value(&a, 2, 99, again);
    assert_memory_not_equal(w, again, sizeof w);
    row_first_value(&a, 1, 98, again);
    assert_memory_not_equal(w, again, sizeof w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mixing_is_a_bijection),
        cmocka_unit_test(shards_and_their_parts_own_each_bucket_once),
        cmocka_unit_test(keys_below_a_bucket_are_counted),
        cmocka_unit_test(a_first_value_follows_from_seed_table_and_key_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
