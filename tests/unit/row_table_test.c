/* The table of rows compared with a plain oracle: a list of keys, each with the contents of its row. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/mem.h"
#include "common/base/rng.h"
#include "ps/rows/row_table.h"

#if defined(__SANITIZE_THREAD__) /* slow, and a table has one thread */
enum { KEYS = 4000, MANY_ROWS = 200000 };
#elif defined(__SANITIZE_ADDRESS__) || !defined(__OPTIMIZE__)
enum { KEYS = 20000, MANY_ROWS = 1000000 };
#else
enum { KEYS = 20000, MANY_ROWS = 10000000 }; /* 1.6 GB */
#endif
enum { DIM = 3, SLOTS = 2, BATCH = 64, SEED = 7 };

/* ---- the oracle: keys in ascending order ---- */

struct oracle {
    uint32_t keys;
    uint64_t *key;
    bool *there;
    uint32_t *row, *value; /* its number, and what was written to it last */
};

static uint64_t draw(uint64_t i)
{
    return rng_u64(rng_key(SEED, RNG_TEST, 0, 0), i);
}

static int by_key(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static struct oracle oracle_of(const uint64_t *key, uint32_t keys)
{
    struct oracle o = {keys, calloc(keys, sizeof *o.key), calloc(keys, sizeof *o.there),
                       calloc(keys, sizeof *o.row), calloc(keys, sizeof *o.value)};
    memcpy(o.key, key, keys * sizeof *key);
    qsort(o.key, keys, sizeof *o.key, by_key);
    return o;
}

static void oracle_close(struct oracle *o)
{
    free(o->value);
    free(o->row);
    free(o->there);
    free(o->key);
}

/* ---- a row that says whose it is ---- */

static void fill(struct row_table *t, uint32_t row, uint32_t value)
{
    for (uint32_t i = 0; i < t->dim; i++)
        row_weights(t, row)[i] = (float)(value + i);
    for (uint32_t i = 0; i < t->slot_floats; i++)
        row_slots(t, row)[i] = -(float)(value + i);
    row_set_count(t, row, value);
    row_set_stamp(t, row, (uint64_t)value << 32);
}

static void check_row(const struct row_table *t, uint32_t row, uint32_t value)
{
    for (uint32_t i = 0; i < t->dim; i++)
        assert_true(row_weights(t, row)[i] == (float)(value ? value + i : 0));
    for (uint32_t i = 0; i < t->slot_floats; i++)
        assert_true(row_slots(t, row)[i] == -(float)(value ? value + i : 0));
    assert_int_equal(row_count(t, row), value);
    assert_true(row_stamp(t, row) == (uint64_t)value << 32);
}

/* ---- what is done to both ---- */

static void add(struct row_table *t, struct oracle *o, uint32_t i, uint32_t value)
{
    assert_int_equal(row_table_add(t, o->key[i], &o->row[i]), ERR_OK);
    check_row(t, o->row[i], 0);
    fill(t, o->row[i], value);
    o->there[i] = true;
    o->value[i] = value;
}

static void drop(struct row_table *t, struct oracle *o, uint32_t i)
{
    row_table_remove(t, o->key[i]);
    o->there[i] = false;
}

static void check_find(const struct row_table *t, const struct oracle *o)
{
    uint32_t *row = calloc(o->keys, sizeof *row);
    size_t found = row_table_find(t, o->key, o->keys, row), there = 0;
    for (uint32_t i = 0; i < o->keys; i++) {
        assert_int_equal(row[i], o->there[i] ? o->row[i] : ROW_NONE);
        if (o->there[i])
            check_row(t, row[i], o->value[i]);
        there += o->there[i];
    }
    assert_int_equal(found, there);
    assert_int_equal(row_table_rows(t), there);
    free(row);
}

/* Keys first .. last, some at a time. */
static void check_scan(const struct row_table *t, const struct oracle *o, uint64_t first,
                       uint64_t last, size_t room)
{
    uint64_t mixed[BATCH];
    uint32_t row[BATCH], i = 0;
    size_t n;
    do {
        n = row_table_scan(t, first, last, mixed, row, room);
        for (size_t k = 0; k < n; k++, i++) {
            while (i < o->keys && (!o->there[i] || o->key[i] < first))
                i++;
            assert_in_range(i, 0, o->keys - 1);
            assert_true(mixed[k] == o->key[i]);
            assert_int_equal(row[k], o->row[i]);
        }
        first = n ? mixed[n - 1] + 1 : first;
    } while (n == room && first && first <= last);
    while (i < o->keys && (!o->there[i] || o->key[i] < first))
        i++;
    assert_true(i == o->keys || o->key[i] > last || first == 0);
}

static void check_all(const struct row_table *t, const struct oracle *o)
{
    check_find(t, o);
    check_scan(t, o, 0, UINT64_MAX, BATCH);
    for (uint32_t bucket = t->index.buckets.first; bucket < t->index.buckets.end; bucket += 97)
        check_scan(t, o, row_bucket_first(bucket), row_bucket_last(bucket), 3);
}

/* Rows change their numbers. */
static void pack(struct row_table *t, struct oracle *o)
{
    row_table_pack(t, true);
    for (uint32_t i = 0; i < o->keys; i++)
        if (o->there[i])
            assert_int_equal(row_table_find(t, &o->key[i], 1, &o->row[i]), 1);
}

static void run_oracle(const uint64_t *key, uint32_t keys, struct bucket_range buckets,
                       uint32_t slots)
{
    struct row_table *t;
    struct oracle o = oracle_of(key, keys);
    assert_int_equal(row_table_new(&t, DIM, slots, buckets), ERR_OK);
    for (uint32_t step = 0; step < 4 * keys; step++) {
        uint32_t i = (uint32_t)(draw(step) % keys);
        bool grows = step < 2 * keys || draw(step + UINT32_MAX) % 2;
        if (!o.there[i])
            add(t, &o, i, step + 1);
        else if (!grows)
            drop(t, &o, i);
        if (step % (keys / 4) == 0)
            check_all(t, &o);
    }
    check_all(t, &o);
    for (uint32_t step = 0; row_table_rows(t) > 0; step++) { /* many go, some come: it shrinks */
        uint32_t i = (uint32_t)(draw(step + 5 * (uint64_t)UINT32_MAX) % keys);
        if (o.there[i])
            drop(t, &o, i);
        else if (step % 5 == 0 && step < 8 * keys)
            add(t, &o, i, step + 1);
        if (step % (keys / 16) == 0)
            pack(t, &o);
        if (step % (keys / 4) == 0)
            check_all(t, &o);
    }
    check_all(t, &o);
    for (uint32_t calls = 0; calls < 100 && t->used > 1; calls++)
        pack(t, &o);
    assert_in_range(t->used, 0, 1);
    row_table_free(t);
    oracle_close(&o);
}

/* Some keys come as a checkpoint has them, the others later, and some go. */
static void run_load(const uint64_t *key, uint32_t keys, uint32_t loaded_of_16,
                     struct bucket_range buckets)
{
    struct row_table *t;
    struct oracle o = oracle_of(key, keys);
    assert_int_equal(row_table_new(&t, DIM, SLOTS, buckets), ERR_OK);
    for (uint32_t i = 0; i < keys; i++) {
        if (draw(i) % 16 >= loaded_of_16)
            continue;
        assert_int_equal(row_table_load(t, o.key[i], &o.row[i]), ERR_OK);
        check_row(t, o.row[i], 0);
        fill(t, o.row[i], i + 1);
        o.there[i] = true;
        o.value[i] = i + 1;
    }
    assert_int_equal(row_table_loaded(t), ERR_OK);
    check_all(t, &o);
    for (uint32_t step = 0; step < 2 * keys; step++) {
        uint32_t i = (uint32_t)(draw(keys + step) % keys);
        if (!o.there[i])
            add(t, &o, i, step + 1);
        else if (step % 3 == 0)
            drop(t, &o, i);
    }
    check_all(t, &o);
    row_table_free(t);
    oracle_close(&o);
}

/* ---- the tests ---- */

static void a_key_leads_to_its_row_whatever_was_added_and_removed(void **state)
{
    (void)state;
    static const struct bucket_range ranges[] = {{0, ROW_BUCKETS}, {1365, 2730}, {4095, 4096}};
    static uint64_t key[KEYS];
    for (size_t r = 0; r < sizeof ranges / sizeof *ranges; r++) {
        uint64_t first = row_bucket_first(ranges[r].first);
        uint64_t keys = (ranges[r].end - ranges[r].first) * (UINT64_C(1) << 52);
        for (uint32_t i = 0; i < KEYS; i++)
            key[i] = first + (keys ? draw(i + (uint64_t)r * KEYS) % keys : draw(i));
        run_oracle(key, KEYS, ranges[r], (uint32_t)r);
    }
}

static void keys_that_stand_side_by_side_are_found_as_well(void **state)
{
    (void)state;
    enum { RUN = 600 };
    uint64_t key[2 * RUN];
    for (uint64_t i = 0; i < RUN; i++) {
        key[i] = i;
        key[RUN + i] = UINT64_MAX - i;
    }
    run_oracle(key, 2 * RUN, (struct bucket_range){0, ROW_BUCKETS}, SLOTS);
    run_oracle(key + RUN, RUN, (struct bucket_range){4095, ROW_BUCKETS}, SLOTS);
}

static void keys_that_are_loaded_in_order_are_found_and_make_room_for_others(void **state)
{
    (void)state;
    static const struct bucket_range ranges[] = {{0, ROW_BUCKETS}, {1365, 2730}, {4095, 4096}};
    static const uint32_t loaded_of_16[] = {0, 1, 10, 16};
    enum { RUN = 600 };
    static uint64_t key[KEYS], edge[2 * RUN];
    for (size_t r = 0; r < sizeof ranges / sizeof *ranges; r++) {
        uint64_t first = row_bucket_first(ranges[r].first);
        uint64_t keys = (ranges[r].end - ranges[r].first) * (UINT64_C(1) << 52);
        for (uint32_t i = 0; i < KEYS; i++)
            key[i] = first + (keys ? draw(i + (uint64_t)r * KEYS) % keys : draw(i));
        for (size_t k = 0; k < sizeof loaded_of_16 / sizeof *loaded_of_16; k++)
            run_load(key, KEYS, loaded_of_16[k], ranges[r]);
    }
    for (uint64_t i = 0; i < RUN; i++) {
        edge[i] = i;
        edge[RUN + i] = UINT64_MAX - i;
    }
    run_load(edge, 2 * RUN, 16, (struct bucket_range){0, ROW_BUCKETS});
    run_load(edge + RUN, RUN, 10, (struct bucket_range){4095, ROW_BUCKETS});
}

/* A table that searched or moved a run of all that is there for each would not come to an end. */
static void many_rows_are_loaded_into_at_most_1_3_times_the_payload(void **state)
{
    (void)state;
    enum { ROWS = MANY_ROWS / 4 };
    const uint64_t apart = UINT64_MAX / ROWS;
    struct row_table *t;
    uint32_t row;
    assert_int_equal(row_table_new(&t, 16, 16, (struct bucket_range){0, ROW_BUCKETS}), ERR_OK);
    for (uint32_t i = 0; i < ROWS; i++) {
        assert_int_equal(row_table_load(t, i * apart + draw(i) % apart, &row), ERR_OK);
        row_set_stamp(t, row, i);
    }
    assert_int_equal(row_table_loaded(t), ERR_OK);
    assert_int_equal(row_table_rows(t), ROWS);
    assert_in_range(t->index.places, ROWS / 3 * 5, ROWS / 3 * 7);
    assert_in_range(row_table_bytes(t), row_table_payload_bytes(t),
                    row_table_payload_bytes(t) / 10 * 13);
    for (uint64_t i = 0; i < ROWS; i += 997) {
        uint64_t mixed = i * apart + draw(i) % apart;
        assert_int_equal(row_table_find(t, &mixed, 1, &row), 1);
        assert_int_equal(row_stamp(t, row), i);
    }
    row_table_free(t);
}

/* The first step of a large batch: its keys come part by part, in each in ascending order. */
static void a_step_of_many_new_keys_spreads_them_from_its_first_part_on(void **state)
{
    (void)state;
    enum { PARTS = 16, ROWS = MANY_ROWS / 40, OF_PART = ROWS / PARTS };
    const uint64_t apart = UINT64_MAX / ROWS;
    struct row_table *t;
    uint32_t row;
    assert_int_equal(row_table_new(&t, 16, 16, (struct bucket_range){0, ROW_BUCKETS}), ERR_OK);
    for (uint64_t p = 0; p < PARTS; p++) {
        uint64_t first = p * 7 % PARTS * OF_PART; /* parts come in any order */
        for (uint64_t i = first; i < first + OF_PART; i++) {
            assert_int_equal(row_table_add(t, i * apart + draw(i) % apart, &row), ERR_OK);
            row_set_stamp(t, row, i);
        }
        if (OF_PART >= 10000)
            assert_in_range(t->index.places, ROWS / 10 * 9, 3 * ROWS);
    }
    assert_in_range(row_table_bytes(t), row_table_payload_bytes(t),
                    row_table_payload_bytes(t) / 10 * 13);
    for (uint64_t i = 0; i < PARTS * OF_PART; i++) {
        uint64_t mixed = i * apart + draw(i) % apart;
        assert_int_equal(row_table_find(t, &mixed, 1, &row), 1);
        assert_int_equal(row_stamp(t, row), i);
    }
    row_table_free(t);
}

static void a_row_keeps_its_number_and_place_while_the_table_grows(void **state)
{
    (void)state;
    struct row_table *t;
    uint32_t row, other;
    assert_int_equal(row_table_new(&t, DIM, SLOTS, (struct bucket_range){0, ROW_BUCKETS}), ERR_OK);
    assert_int_equal(row_table_add(t, draw(0), &row), ERR_OK);
    const float *w = row_weights(t, row), *slots = row_slots(t, row);
    for (uint32_t i = 1; i < 300000; i++)
        assert_int_equal(row_table_add(t, draw(i), &other), ERR_OK);
    uint64_t mixed = draw(0);
    assert_int_equal(row_table_find(t, &mixed, 1, &other), 1);
    assert_int_equal(other, row);
    assert_ptr_equal(row_weights(t, row), w);
    assert_ptr_equal(row_slots(t, row), slots);
    row_table_free(t);
}

static void a_key_outside_of_the_tables_buckets_is_not_there(void **state)
{
    (void)state;
    struct row_table *t;
    uint32_t row;
    const uint64_t outside[] = {0, row_bucket_first(100) - 1, row_bucket_last(199) + 1, UINT64_MAX};
    assert_int_equal(row_table_new(&t, DIM, SLOTS, (struct bucket_range){100, 200}), ERR_OK);
    for (uint64_t i = 0; i < 1000; i++)
        assert_int_equal(
            row_table_add(t, row_bucket_first(100) + draw(i) % (100 * (UINT64_C(1) << 52)), &row),
            ERR_OK);
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) {
        assert_int_equal(row_table_find(t, outside + i, 1, &row), 0);
        assert_int_equal(row, ROW_NONE);
    }
    assert_int_equal(row_table_scan(t, outside[2], UINT64_MAX, NULL, &row, 1), 0);
    assert_int_equal(row_table_scan(t, 0, outside[1], NULL, &row, 1), 0);
    row_table_free(t);
}

static void no_memory_leaves_the_table_as_it_was(void **state)
{
    (void)state;
    enum { ROWS = 100000 };
    bool fired = true;
    for (long n = 0; fired; n++) {
        struct row_table *t = NULL;
        uint32_t row, errors = 0;
        mem_fail_at(n);
        if (row_table_new(&t, 64, 64, (struct bucket_range){0, ROW_BUCKETS})) {
            assert_null(t);
            continue;
        }
        for (uint32_t i = 0; i < ROWS; i++) {
            uint64_t before = row_table_rows(t);
            enum err e = row_table_add(t, draw(i), &row);
            errors += e != ERR_OK;
            assert_int_equal(row_table_rows(t), before + !e);
            if (e) {
                assert_int_equal(e, ERR_NOMEM);
                assert_int_equal(row_table_add(t, draw(i), &row), ERR_OK);
            }
        }
        fired = mem_fail_fired();
        assert_int_equal(errors, fired ? 1 : 0);
        assert_int_equal(row_table_rows(t), ROWS);
        row_table_free(t);
    }
    mem_fail_at(-1);
}

static void no_memory_leaves_a_run_of_keys_as_it_was(void **state)
{
    (void)state;
    enum { ROWS = KEYS };
    const uint64_t apart = UINT64_MAX / 16 / ROWS;
    bool fired = true;
    long n = 0;
    for (; fired; n++) {
        struct row_table *t = NULL;
        uint32_t row, errors = 0;
        assert_int_equal(row_table_new(&t, 4, 0, (struct bucket_range){0, ROW_BUCKETS}), ERR_OK);
        mem_fail_at(n);
        for (uint64_t i = 0; i < ROWS; i++) {
            enum err e = row_table_add(t, i * apart, &row);
            errors += e != ERR_OK;
            if (e)
                assert_int_equal(row_table_add(t, i * apart, &row), ERR_OK);
        }
        fired = mem_fail_fired();
        mem_fail_at(-1);
        assert_in_range(errors, 0, fired);
        for (uint64_t i = 0; i < ROWS; i++) {
            uint64_t mixed = i * apart;
            assert_int_equal(row_table_find(t, &mixed, 1, &row), 1);
        }
        assert_int_equal(row_table_rows(t), ROWS);
        row_table_free(t);
    }
    assert_true(n > 5);
}

/* Bytes of this process that are in memory. */
static uint64_t resident_bytes(void)
{
    unsigned long all, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%lu %lu", &all, &resident), 2);
    fclose(file);
    return (uint64_t)resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* A sanitizer has memory of its own for what it sees, and an emulator for what it translates. */
static void check_resident(uint64_t before, uint64_t least, uint64_t most)
{
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    if (!getenv("GRADWIRE_EMULATED"))
        assert_in_range(resident_bytes() - before, least, most);
#else
    (void)before, (void)least, (void)most;
#endif
}

static void memory_is_at_most_1_3_times_the_payload_while_it_grows(void **state)
{
    (void)state;
    enum { ROWS = MANY_ROWS, LEAST = 50000 };
    struct row_table *t;
    uint32_t row;
    uint64_t before = resident_bytes();
    assert_int_equal(row_table_new(&t, 16, 16, (struct bucket_range){0, ROW_BUCKETS}), ERR_OK);
    for (uint32_t i = 1; i <= ROWS; i++) {
        assert_int_equal(row_table_add(t, draw(i), &row), ERR_OK);
        row_set_stamp(t, row, i);
        memset(row_weights(t, row), 1, 2 * 16 * sizeof(float));
        assert_int_equal(row_table_payload_bytes(t), i * UINT64_C(136));
        if (i >= LEAST && i % 5000 == 0) {
            uint64_t most = row_table_payload_bytes(t) / 10 * 13;
            assert_in_range(row_table_bytes(t), row_table_payload_bytes(t), most);
            if (i >= 8 * LEAST) /* huge pages come as wholes */
                check_resident(before, row_table_payload_bytes(t), most);
        }
    }
    row_table_free(t);
    uint64_t after = resident_bytes();
    check_resident(after < before ? after : before, 0, 4 << 20);
}

static void tables_of_few_rows_take_little(void **state)
{
    (void)state;
    enum { TABLES = 26, ROWS = 1000 };
    struct row_table *t[TABLES];
    uint32_t row;
    uint64_t bytes = 0, before = resident_bytes();
    for (uint32_t k = 0; k < TABLES; k++) {
        assert_int_equal(row_table_new(&t[k], 16, 16, (struct bucket_range){0, ROW_BUCKETS}),
                         ERR_OK);
        for (uint32_t i = 0; i < ROWS; i++) {
            assert_int_equal(row_table_add(t[k], draw(i), &row), ERR_OK);
            row_set_stamp(t[k], row, 1);
        }
        bytes += row_table_bytes(t[k]);
    }
    assert_in_range(bytes, 0, 8 << 20);
    check_resident(before, 0, 8 << 20);
    for (uint32_t k = 0; k < TABLES; k++)
        row_table_free(t[k]);
}

static void no_add_moves_more_than_some_places(void **state)
{
    (void)state;
    enum { ROWS = 200000, PLACES_A_TIME = 32 };
    struct row_table *t;
    uint32_t row, grew = 0;
    assert_int_equal(row_table_new(&t, 1, 0, (struct bucket_range){0, ROW_BUCKETS}), ERR_OK);
    for (uint32_t i = 0; i < ROWS; i++) {
        bool grows = t->index.places != t->index.grown;
        uint64_t cursor = t->index.cursor;
        assert_int_equal(row_table_add(t, draw(i), &row), ERR_OK);
        if (grows)
            assert_in_range(cursor - t->index.cursor, 0, PLACES_A_TIME);
        grew += grows;
        assert_true(t->index.entries * 4 < t->index.grown * 3);
    }
    assert_true(grew > ROWS / 100);
    row_table_free(t);
}

static void removed_rows_are_taken_again(void **state)
{
    (void)state;
    enum { ROWS = 5000 };
    struct row_table *t;
    uint32_t row;
    assert_int_equal(row_table_new(&t, DIM, SLOTS, (struct bucket_range){0, ROW_BUCKETS}), ERR_OK);
    for (uint32_t i = 0; i < 10 * ROWS; i++) {
        if (i >= ROWS)
            row_table_remove(t, draw(i - ROWS));
        assert_int_equal(row_table_add(t, draw(i), &row), ERR_OK);
        check_row(t, row, 0);
        assert_in_range(row, 0, ROWS);
        fill(t, row, i + 1);
    }
    assert_int_equal(row_table_rows(t), ROWS);
    row_table_free(t);
}

static void the_index_shrinks_with_its_rows(void **state)
{
    (void)state;
    enum { ROWS = MANY_ROWS / 20, LEFT = 8 };
    struct row_table *t;
    uint32_t row[ROWS / 1000];
    assert_int_equal(row_table_new(&t, 1, 0, (struct bucket_range){0, ROW_BUCKETS}), ERR_OK);
    for (uint32_t i = 0; i < ROWS; i++)
        assert_int_equal(row_table_add(t, draw(i), row), ERR_OK);
    for (uint32_t i = LEFT; i < ROWS; i++) {
        uint64_t cursor = t->index.cursor;
        bool shrinks = t->index.shrinks;
        row_table_remove(t, draw(i));
        if (shrinks && t->index.shrinks)
            assert_in_range(t->index.cursor - cursor, 0, 32); /* no removal moves many */
    }
    assert_in_range(row_index_bytes(&t->index), 0, 16 << 10);
    assert_in_range(t->index.room_bytes, 0, 64 << 10);
    assert_int_equal(row_table_scan(t, 0, UINT64_MAX, NULL, row, LEFT + 1), LEFT);
    row_table_free(t);
}

/* Rows that expired leave no memory; no call returns more than a slab. Rows that are added later find zeros. */
static void the_memory_of_rows_shrinks_with_their_number(void **state)
{
    (void)state;
    enum { ROWS = MANY_ROWS / 8, LEFT = 8 };
    struct row_table *t;
    uint32_t row;
    uint64_t before = resident_bytes();
    assert_int_equal(row_table_new(&t, 16, 16, (struct bucket_range){0, ROW_BUCKETS}), ERR_OK);
    for (int turn = 0; turn < 2; turn++) {
        for (uint32_t i = turn ? LEFT : 0; i < ROWS; i++) {
            assert_int_equal(row_table_add(t, draw(i), &row), ERR_OK);
            check_row(t, row, 0);
            fill(t, row, i + 1);
        }
        assert_in_range(row_table_bytes(t), row_table_payload_bytes(t),
                        row_table_payload_bytes(t) / 10 * 13);
        for (uint32_t i = LEFT; i < ROWS; i++)
            row_table_remove(t, draw(i));
        for (int call = 0; call == 0 || (t->pack.limit != ROW_NONE && call < 1000); call++) {
            uint32_t used = t->used;
            row_table_pack(t, false);
            assert_in_range(used - t->used, 0, UINT32_C(1) << t->shift);
        }
        assert_in_range(row_table_bytes(t), 1, 3 << 19);
        check_resident(before, 0, 8 << 20); /* some huge pages */
        for (uint32_t i = 0; i < LEFT; i++) {
            uint64_t mixed = draw(i);
            assert_int_equal(row_table_find(t, &mixed, 1, &row), 1);
            check_row(t, row, i + 1);
        }
    }
    row_table_free(t);
}

/* Rows that are added while others move, more than there is free room below the limit. */
static void a_table_that_grows_while_it_is_packed_loses_no_row(void **state)
{
    (void)state;
    enum { ROWS = 60000 };
    for (uint32_t added = 0; added <= 2048; added = 2 * added + 1) {
        struct row_table *t;
        uint32_t row, all = ROWS;
        assert_int_equal(row_table_new(&t, 1, 0, (struct bucket_range){0, ROW_BUCKETS}), ERR_OK);
        for (uint32_t i = 0; i < ROWS; i++) {
            assert_int_equal(row_table_add(t, draw(i), &row), ERR_OK);
            fill(t, row, i + 1);
        }
        for (uint32_t i = 0; i < ROWS / 4 * 3; i++)
            row_table_remove(t, draw(i));
        for (uint32_t call = 0; call == 0 || (t->pack.limit != ROW_NONE && all < 4 * ROWS);
             call++) {
            for (uint32_t i = 0; i < added; i++, all++) {
                assert_int_equal(row_table_add(t, draw(all), &row), ERR_OK);
                check_row(t, row, 0);
                fill(t, row, all + 1);
            }
            row_table_pack(t, true);
        }
        assert_in_range(t->used, row_table_rows(t), row_table_rows(t) + ROWS / 4 * 3);
        for (uint32_t i = ROWS / 4 * 3; i < all; i++) {
            uint64_t mixed = draw(i);
            assert_int_equal(row_table_find(t, &mixed, 1, &row), 1);
            check_row(t, row, i + 1);
        }
        assert_int_equal(row_table_rows(t), all - ROWS / 4 * 3);
        row_table_free(t);
    }
}

/* Otherwise a checkpoint of a table that fills ps.memory could not be read. */
static void a_table_that_shrank_takes_no_less_than_when_it_is_loaded(void **state)
{
    (void)state;
    enum { ROWS = 20000 };
    uint32_t row;
    for (uint32_t left = 500; left < 1500; left += 100) {
        struct row_table *t, *loaded;
        struct bucket_range all = {0, ROW_BUCKETS};
        assert_int_equal(row_table_new(&t, 1, 0, all), ERR_OK);
        assert_int_equal(row_table_new(&loaded, 1, 0, all), ERR_OK);
        uint64_t fixed = row_index_bytes(&loaded->index);
        for (uint32_t i = 0; i < ROWS; i++)
            assert_int_equal(row_table_add(t, draw(i), &row), ERR_OK);
        for (uint32_t i = left; i < ROWS; i++)
            row_table_remove(t, draw(i));
        for (uint32_t i = 0; i < ROWS; i++) {
            if (i >= left)
                assert_int_equal(row_table_add(t, draw(i), &row), ERR_OK);
            uint64_t loads = row_index_growth_bytes(&loaded->index, 1);
            assert_int_equal(row_table_load(loaded, (uint64_t)i + 1, &row), ERR_OK);
            if (i >= left && t->index.places == t->index.grown)
                assert_in_range(fixed + loads, 0, row_index_bytes(&t->index));
        }
        row_table_free(loaded);
        row_table_free(t);
    }
}

/* Keys of one bucket, and keys that stand side by side. */
static void a_search_visits_few_places_however_close_keys_are(void **state)
{
    (void)state;
    enum { ROWS = 16000, MOST = 4 * 512 };
    for (int shift = 12; shift < 64; shift += 38) {
        struct row_table *t;
        uint64_t key[ROWS];
        uint32_t row;
        assert_int_equal(row_table_new(&t, 1, 0, (struct bucket_range){0, ROW_BUCKETS}), ERR_OK);
        for (uint32_t i = 0; i < ROWS; i++) {
            key[i] = row_bucket_first(7) + (shift == 12 ? draw(i) >> 12 : i);
            assert_int_equal(row_table_add(t, key[i], &row), ERR_OK);
        }
        uint64_t run = 0;
        for (uint64_t i = 0; i < t->index.grown; i++) {
            run = t->index.entry[i].row_1 ? run + 1 : 0;
            assert_in_range(run, 0, MOST);
        }
        assert_in_range(row_index_bytes(&t->index), 0, ROWS * 12 * 4);
        assert_in_range(row_crowd_bytes(&t->index.crowd), 0, ROWS * 64);
        for (uint32_t i = 0; i < ROWS; i++)
            assert_int_equal(row_table_find(t, key + i, 1, &row), 1);
        row_table_free(t);
    }
}

static void many_rows_are_gathered_and_those_not_there_passed_over(void **state)
{
    (void)state;
    enum { ROWS = 100 };
    struct row_table *t;
    uint32_t row[ROWS];
    float out[ROWS * DIM];
    assert_int_equal(row_table_new(&t, DIM, SLOTS, (struct bucket_range){0, ROW_BUCKETS}), ERR_OK);
    for (uint32_t i = 0; i < ROWS; i++) {
        row[i] = ROW_NONE;
        if (i % 3 == 0)
            continue;
        assert_int_equal(row_table_add(t, draw(i), &row[i]), ERR_OK);
        fill(t, row[i], 10 * i);
    }
    for (uint32_t i = 0; i < ROWS * DIM; i++)
        out[i] = -1;
    row_table_gather(t, row, ROWS, out);
    for (uint32_t i = 0; i < ROWS * DIM; i++)
        assert_true(out[i] == (i / DIM % 3 ? (float)(10 * (i / DIM) + i % DIM) : -1));
    row_table_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_leads_to_its_row_whatever_was_added_and_removed),
        cmocka_unit_test(keys_that_stand_side_by_side_are_found_as_well),
        cmocka_unit_test(keys_that_are_loaded_in_order_are_found_and_make_room_for_others),
        cmocka_unit_test(many_rows_are_loaded_into_at_most_1_3_times_the_payload),
        cmocka_unit_test(a_step_of_many_new_keys_spreads_them_from_its_first_part_on),
        cmocka_unit_test(a_row_keeps_its_number_and_place_while_the_table_grows),
        cmocka_unit_test(a_key_outside_of_the_tables_buckets_is_not_there),
        cmocka_unit_test(no_memory_leaves_the_table_as_it_was),
        cmocka_unit_test(no_memory_leaves_a_run_of_keys_as_it_was),
        cmocka_unit_test(memory_is_at_most_1_3_times_the_payload_while_it_grows),
        cmocka_unit_test(tables_of_few_rows_take_little),
        cmocka_unit_test(no_add_moves_more_than_some_places),
        cmocka_unit_test(removed_rows_are_taken_again),
        cmocka_unit_test(the_index_shrinks_with_its_rows),
        cmocka_unit_test(the_memory_of_rows_shrinks_with_their_number),
        cmocka_unit_test(a_table_that_grows_while_it_is_packed_loses_no_row),
        cmocka_unit_test(a_table_that_shrank_takes_no_less_than_when_it_is_loaded),
        cmocka_unit_test(a_search_visits_few_places_however_close_keys_are),
        cmocka_unit_test(many_rows_are_gathered_and_those_not_there_passed_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
