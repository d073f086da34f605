/* A cut's rows, copied out while rows change, go and come: what leaves is a copy of all of them as they were, group by
 * group. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/rng.h"
#include "ps/rows/row_cut.h"

enum { TABLES = 3, CLOCK = 50, KEYS = 6000, GROUPS_MAX = 40000, MANY = 1 << 30 };

/* Rows of one float, with a slot in the head, and so wide that few are a group. */
static const struct {
    uint32_t dim, slots;
} SHAPE[TABLES] = {{1, 0}, {7, 1}, {300, 300}};

struct group {
    uint32_t bucket, table, rows;
    uint64_t *mixed, *stamp;
    uint32_t *count;
    float *values;
    uint8_t *sketch; /* NULL: they are rows */
};

struct world {
    uint64_t seed, drawn;
    struct bucket_range buckets;
    uint32_t tables;
    struct row_table *table[TABLES];
    struct row_admit admit[TABLES]; /* the first and the last one count touches */
    uint64_t key[KEYS];             /* mixed */
    uint64_t clock;
    struct group *group; /* that the cut should have; (GROUPS_MAX) */
    uint32_t groups, next;
    uint64_t rows; /* of all groups */
    struct row_cut cut;
};

static uint64_t draw(struct world *w, uint64_t n)
{
    return rng_u64(rng_key(w->seed, RNG_TEST, 1, 0), w->drawn++) % n;
}

/* A third of the keys are in one bucket, at its ends, too; so that some lists have many groups. */
static void draw_keys(struct world *w)
{
    uint64_t span = (uint64_t)(w->buckets.end - w->buckets.first) << (64 - ROW_BUCKET_BITS);
    uint64_t first = row_bucket_first(w->buckets.first);
    uint32_t one = w->buckets.first + (w->buckets.end - w->buckets.first) / 2;
    for (uint32_t i = 0; i < KEYS; i++) {
        uint64_t r = rng_u64(rng_key(w->seed, RNG_TEST, 2, 0), i);
        w->key[i] = i % 3 ? first + (span ? r % span : r) : row_bucket_first(one) + (r >> 12);
    }
    w->key[0] = row_bucket_first(one);
    w->key[3] = row_bucket_last(one);
    w->key[1] = first;
    w->key[2] = row_bucket_last(w->buckets.end - 1);
}

static void fill(struct world *w, struct row_table *t, uint32_t row, uint64_t stamp)
{
    row_set_stamp(t, row, stamp);
    row_set_count(t, row, (uint32_t)draw(w, 1000));
    for (uint32_t j = 0; j < t->dim; j++)
        row_weights(t, row)[j] = (float)draw(w, 1 << 20);
    for (uint32_t j = 0; j < t->slot_floats; j++)
        row_slots(t, row)[j] = (float)draw(w, 1 << 20);
}

static bool find(const struct world *w, uint32_t table, uint64_t mixed, uint32_t *row)
{
    return row_table_find(w->table[table], &mixed, 1, row) == 1;
}

static void add(struct world *w, uint32_t table, uint64_t mixed, uint64_t stamp)
{
    uint32_t row;
    if (find(w, table, mixed, &row))
        return;
    assert_int_equal(row_table_add(w->table[table], mixed, &row), ERR_OK);
    fill(w, w->table[table], row, stamp);
}

static void touch(struct world *w, uint32_t table, uint64_t mixed)
{
    uint32_t undo;
    row_cut_keep_sketch(&w->cut, table, key_bucket(mixed));
    (void)row_admit_touch(&w->admit[table], mixed, w->clock, &undo);
}

static struct world *world_new(uint64_t seed, uint32_t tables, struct bucket_range buckets,
                               uint32_t keys)
{
    struct world *w = calloc(1, sizeof *w);
    *w = (struct world){.seed = seed, .buckets = buckets, .tables = tables, .clock = CLOCK};
    w->group = calloc(GROUPS_MAX, sizeof *w->group);
    draw_keys(w);
    for (uint32_t i = 0; i < tables; i++) {
        const struct row_table_spec spec = {
            .admission = {.min_count = i == 1 ? 0 : 9, .sketch_mb = 1}};
        assert_int_equal(row_table_new(&w->table[i], SHAPE[i].dim, SHAPE[i].slots, buckets),
                         ERR_OK);
        assert_int_equal(row_admit_init(&w->admit[i], &spec, buckets, seed), ERR_OK);
    }
    for (uint32_t k = 0; k < keys; k++) {
        add(w, k % tables, w->key[k], draw(w, CLOCK + 1));
        if (k % 8 == 0)
            touch(w, k % tables, w->key[KEYS - 1 - k]);
    }
    return w;
}

static void world_free(struct world *w)
{
    row_cut_close(&w->cut);
    for (uint32_t i = 0; i < w->tables; i++)
        row_table_free(w->table[i]);
    for (uint32_t i = 0; i < w->tables; i++)
        row_admit_close(&w->admit[i]);
    for (uint32_t i = 0; i < w->groups; i++) {
        free(w->group[i].mixed);
        free(w->group[i].stamp);
        free(w->group[i].count);
        free(w->group[i].values);
        free(w->group[i].sketch);
    }
    free(w->group);
    free(w);
}

/* ---- a plain copy: all rows in one go, in groups as full as they can be ---- */

static void copy_group(struct world *w, uint32_t bucket, uint32_t table, const uint64_t *mixed,
                       const uint32_t *row, uint32_t n)
{
    const struct row_table *t = w->table[table];
    uint32_t width = t->dim + t->slot_floats;
    assert_true(w->groups < GROUPS_MAX);
    struct group *g = &w->group[w->groups++];
    *g = (struct group){bucket,
                        table,
                        n,
                        malloc(n * sizeof(uint64_t)),
                        malloc(n * sizeof(uint64_t)),
                        malloc(n * sizeof(uint32_t)),
                        malloc((size_t)n * width * sizeof(float)),
                        NULL};
    for (uint32_t i = 0; i < n; i++) {
        g->mixed[i] = mixed[i];
        g->stamp[i] = row_stamp(t, row[i]);
        g->count[i] = row_count(t, row[i]);
        memcpy(g->values + (size_t)i * width, row_weights(t, row[i]), t->dim * sizeof(float));
        if (t->slot_floats)
            memcpy(g->values + (size_t)i * width + t->dim, row_slots(t, row[i]),
                   t->slot_floats * sizeof(float));
    }
    w->rows += n;
}

static void copy_sketch(struct world *w, uint32_t bucket, uint32_t table)
{
    static const uint8_t empty[256];
    const uint8_t *sketch = row_admit_sketch(&w->admit[table], bucket);
    if (!sketch || memcmp(sketch, empty, sizeof empty) == 0)
        return;
    assert_true(w->groups < GROUPS_MAX);
    struct group *g = &w->group[w->groups++];
    *g = (struct group){.bucket = bucket, .table = table, .sketch = malloc(sizeof empty)};
    memcpy(g->sketch, sketch, sizeof empty);
}

static void copy_all(struct world *w)
{
    static uint64_t mixed[KEYS];
    static uint32_t row[KEYS];
    for (uint32_t bucket = w->buckets.first; bucket < w->buckets.end; bucket++)
        for (uint32_t i = 0; i < w->tables; i++) {
            uint32_t most = row_cut_most_rows(w->table[i]->dim + w->table[i]->slot_floats);
            size_t n = row_table_scan(w->table[i], row_bucket_first(bucket),
                                      row_bucket_last(bucket), mixed, row, KEYS);
            copy_sketch(w, bucket, i);
            for (size_t at = 0; at < n; at += most)
                copy_group(w, bucket, i, mixed + at, row + at,
                           (uint32_t)(n - at < most ? n - at : most));
        }
}

static void begin(struct world *w, uint64_t most_bytes)
{
    copy_all(w);
    assert_int_equal(row_cut_begin(&w->cut, w->table, w->admit, w->tables, w->buckets,
                                   (struct row_moment){.clock = w->clock}, most_bytes),
                     ERR_OK);
}

/* ---- what happens meanwhile ---- */

static void change(struct world *w, uint32_t table, uint64_t mixed)
{
    uint32_t row;
    if (!find(w, table, mixed, &row))
        return;
    row_cut_keep(&w->cut, table, &mixed, &row, 1);
    fill(w, w->table[table], row, w->clock);
}

static void take_out(struct world *w, uint32_t table, uint64_t mixed)
{
    uint32_t row;
    if (!find(w, table, mixed, &row))
        return;
    row_cut_keep(&w->cut, table, &mixed, &row, 1);
    row_table_remove(w->table[table], mixed);
}

/* Some rows change, some go, some come; a key that went may come again. */
static void step(struct world *w, uint64_t actions)
{
    w->clock++;
    for (uint64_t i = 0; i < actions; i++) {
        uint64_t key = w->key[draw(w, KEYS)], what = draw(w, 9);
        uint32_t table = (uint32_t)draw(w, w->tables);
        if (what < 5)
            change(w, table, key);
        else if (what < 6)
            take_out(w, table, key);
        else if (what < 8)
            add(w, table, key, w->clock);
        else
            touch(w, table, key);
    }
}

/* The next group, if there is one, is the plain copy's. */
static void copy_on(struct world *w)
{
    struct row_cut_rows g;
    row_cut_copy(&w->cut, &g);
    if (g.rows == 0 && !g.sketch)
        return;
    assert_true(w->next < w->groups);
    const struct group *want = &w->group[w->next++];
    assert_int_equal(g.sketch != NULL, want->sketch != NULL);
    uint32_t width = w->table[g.table]->dim + w->table[g.table]->slot_floats;
    assert_int_equal(g.bucket, want->bucket);
    assert_int_equal(g.table, want->table);
    assert_int_equal(g.rows, want->rows);
    if (g.sketch) {
        assert_int_equal(g.sketch_bytes, 256);
        assert_memory_equal(g.sketch, want->sketch, 256);
        return;
    }
    assert_memory_equal(g.mixed, want->mixed, g.rows * sizeof *g.mixed);
    assert_memory_equal(g.stamp, want->stamp, g.rows * sizeof *g.stamp);
    assert_memory_equal(g.count, want->count, g.rows * sizeof *g.count);
    assert_memory_equal(g.values, want->values, (size_t)g.rows * width * sizeof *g.values);
}

static void finish(struct world *w)
{
    while (!row_cut_is_out(&w->cut))
        copy_on(w);
    assert_false(w->cut.failed);
    assert_int_equal(w->next, w->groups);
    assert_int_equal(w->cut.kept.bytes + w->cut.kept_sketch_bytes, 0);
}

/* ---- */

static void a_cut_has_all_rows_as_they_were_when_it_began(void **state)
{
    (void)state;
    static const struct bucket_range RANGE[] = {
        {0, ROW_BUCKETS}, {ROW_BUCKETS - 1, ROW_BUCKETS}, {100, 103}, {0, 1}};
    uint64_t kept = 0;
    for (uint64_t seed = 0; seed < 24; seed++) {
        struct world *w = world_new(seed, 1 + (uint32_t)(seed % TABLES), RANGE[seed % 4],
                                    seed % 6 == 5 ? 0 : KEYS / 2);
        begin(w, MANY);
        while (!row_cut_is_out(&w->cut)) {
            if (draw(w, 2) == 0)
                step(w, draw(w, seed % 2 ? 40 : 400));
            copy_on(w);
        }
        kept += w->cut.kept_rows;
        finish(w);
        world_free(w);
    }
    assert_true(kept > 10000);
}

/* All but the rows that leave first change before anything is copied; then everything is new. */
static void rows_that_have_all_changed_or_gone_come_from_what_was_kept(void **state)
{
    (void)state;
    struct world *w = world_new(7, TABLES, (struct bucket_range){0, ROW_BUCKETS}, KEYS);
    begin(w, MANY);
    w->clock++;
    for (uint32_t k = 0; k < KEYS; k++)
        for (uint32_t i = 0; i < TABLES; i++)
            if (k % 2)
                change(w, i, w->key[k]);
            else
                take_out(w, i, w->key[k]);
    assert_int_equal(w->cut.kept_rows, w->rows);
    for (uint32_t k = 0; k < KEYS; k++)
        for (uint32_t i = 0; i < TABLES; i++)
            add(w, i, w->key[k], w->clock);
    step(w, 4 * KEYS);
    assert_int_equal(w->cut.kept_rows, w->rows); /* each once */
    finish(w);
    world_free(w);
}

/* Rows that are out have left: no copy of them is kept, not even in the bucket in turn. */
static void rows_that_are_out_are_not_kept(void **state)
{
    (void)state;
    struct world *w = world_new(8, 1, (struct bucket_range){5, 6}, KEYS);
    begin(w, MANY);
    for (int i = 0; i < 4; i++) /* a sketch, and rows */
        copy_on(w);
    uint64_t out = 3 * row_cut_most_rows(SHAPE[0].dim);
    w->clock++;
    for (uint32_t k = 0; k < KEYS; k++)
        change(w, 0, w->key[k]);
    assert_int_equal(w->cut.kept_rows, w->rows - out);
    finish(w);
    w->cut.kept_rows = 0;
    w->clock++;
    for (uint32_t k = 0; k < KEYS; k++)
        change(w, 0, w->key[k]);
    assert_int_equal(w->cut.kept_rows, 0);
    world_free(w);
}

/* A call looks at a bounded number of lists and of rows, whatever is in them. */
static void no_call_takes_long(void **state)
{
    (void)state;
    struct world *w = world_new(9, TABLES, (struct bucket_range){0, ROW_BUCKETS}, 0);
    begin(w, MANY);
    uint32_t calls = 0;
    for (; !row_cut_is_out(&w->cut); calls++) {
        struct row_cut_rows g;
        uint32_t before = w->cut.bucket * TABLES + w->cut.in_table;
        row_cut_copy(&w->cut, &g);
        assert_int_equal(g.rows, 0);
        assert_true(w->cut.bucket * TABLES + w->cut.in_table - before <= 64);
    }
    assert_int_equal(calls, ROW_BUCKETS * TABLES / 64);
    world_free(w);

    /* Rows that came later are passed over, and make a call no longer. */
    w = world_new(10, 1, (struct bucket_range){5, 6}, 0);
    begin(w, MANY);
    for (uint32_t k = 0; k < KEYS; k++)
        add(w, 0, w->key[k], CLOCK + 1);
    for (calls = 0; !row_cut_is_out(&w->cut); calls++)
        copy_on(w);
    assert_true(calls > 2);
    world_free(w);
}

static void a_cut_is_full_when_what_is_kept_reaches_its_bound_until_some_is_free(void **state)
{
    (void)state;
    struct world *w = world_new(11, 1, (struct bucket_range){0, ROW_BUCKETS}, KEYS);
    begin(w, 1000 * (sizeof(struct row_kept_head) + 8)); /* touches are counted no more */
    w->clock++;
    uint32_t k = 0;
    for (; !w->cut.full; k++)
        change(w, 0, w->key[k]);
    assert_int_equal(w->cut.kept_rows, 1000);
    while (w->cut.full)
        copy_on(w);
    uint64_t left = w->cut.kept.bytes / (sizeof(struct row_kept_head) + 8);
    assert_true(left < 985 && left > 0);
    assert_int_equal(w->cut.kept_most_bytes, w->cut.most_bytes);
    uint32_t rows = w->cut.kept.pool[0].rows;
    for (uint64_t kept = w->cut.kept_rows; w->cut.kept_rows < kept + 1000 - left; k++)
        change(w, 0, w->key[k]);
    assert_int_equal(w->cut.kept.pool[0].rows, rows); /* room of rows that are out */
    finish(w);
    world_free(w);
}

/* Some MiB a call; another cut may begin meanwhile. */
static void memory_of_a_cut_that_is_over_is_given_back_piece_by_piece(void **state)
{
    (void)state;
    struct world *w = world_new(13, TABLES, (struct bucket_range){0, ROW_BUCKETS}, KEYS);
    begin(w, MANY);
    w->clock++;
    for (uint32_t k = 0; k < KEYS; k++)
        for (uint32_t i = 0; i < TABLES; i++)
            change(w, i, w->key[k]);
    uint64_t memory = row_kept_memory(&w->cut.kept), calls = 1;
    assert_true(memory > 4 << 20);
    row_cut_end(&w->cut);
    assert_int_equal(row_kept_memory(&w->cut.left), memory);
    for (; !row_cut_give_back(&w->cut); calls++) {
        uint64_t left = row_kept_memory(&w->cut.left);
        assert_true(memory - left <= 2 << 20);
        memory = left;
    }
    assert_true(calls > 3 && row_cut_give_back(&w->cut));
    world_free(w);
}

static void no_memory_to_begin_is_an_error_and_none_to_keep_a_row_fails_the_cut_alone(void **state)
{
    (void)state;
    struct world *w = world_new(12, TABLES, (struct bucket_range){0, ROW_BUCKETS}, KEYS);
    for (long fired = 0, more = 1; more; fired++) {
        mem_fail_at(fired);
        enum err err = row_cut_begin(&w->cut, w->table, w->admit, TABLES, w->buckets,
                                     (struct row_moment){.clock = CLOCK}, MANY);
        more = mem_fail_fired();
        mem_fail_at(-1);
        assert_int_equal(err, more ? ERR_NOMEM : ERR_OK);
        assert_int_equal(w->cut.on, !more);
        row_cut_end(&w->cut);
    }
    copy_all(w);
    int failed = 0;
    for (long at = 0; at < 12; at++) {
        assert_int_equal(row_cut_begin(&w->cut, w->table, w->admit, TABLES, w->buckets,
                                       (struct row_moment){.clock = w->clock}, MANY),
                         ERR_OK);
        mem_fail_at(at);
        step(w, 3000);
        struct row_cut_rows g;
        for (int i = 0; i < 2000 && !w->cut.failed && !row_cut_is_out(&w->cut); i++)
            row_cut_copy(&w->cut, &g);
        assert_true(mem_fail_fired() || !w->cut.failed); /* an index goes on without more places */
        failed += w->cut.failed;
        mem_fail_at(-1);
        row_cut_end(&w->cut);
    }
    assert_in_range(failed, 6, 12);
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cut_has_all_rows_as_they_were_when_it_began),
        cmocka_unit_test(rows_that_have_all_changed_or_gone_come_from_what_was_kept),
        cmocka_unit_test(rows_that_are_out_are_not_kept),
        cmocka_unit_test(no_call_takes_long),
        cmocka_unit_test(a_cut_is_full_when_what_is_kept_reaches_its_bound_until_some_is_free),
        cmocka_unit_test(memory_of_a_cut_that_is_over_is_given_back_piece_by_piece),
        cmocka_unit_test(no_memory_to_begin_is_an_error_and_none_to_keep_a_row_fails_the_cut_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
