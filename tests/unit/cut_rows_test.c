/* Rows of tables out of a checkpoint: those that are wanted, by name of their table. */
#include "evaluate/evaluate.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/rng.h"
#include "common/checkpoint/checkpoint_rows.h"
#include "tests/lib/folder.h"

enum { KEYS = 500, SEED = 5, ELEMS = 16 };
static char *const dir = folder_dir;

/* The cut's tables have another order than the model's; both of these share a list there. */
static const struct checkpoint_table IN_CUT[] = {{"deep", 3, 3, 0}, {"wide", 1, 0, 0}};
static const struct row_layout LAYOUT = {
    .lists = 1,
    .tables = 2,
    .table = {{.name = "wide", .dim = 1, .init = INIT_ONES},
              {.name = "deep", .dim = 3, .init = INIT_CONSTANT, .init_value = 9}}};

/* ---- a cut of every second key ---- */

static uint64_t key[KEYS]; /* mixed, ascending */

static int ascending(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Several wanted keys in a row are not, and none of the last. */
static bool is_in_cut(uint32_t i)
{
    return i % 5 == 1 && i + 5 < KEYS;
}

static float value_of(uint32_t table, uint64_t mixed, uint32_t i)
{
    return rng_unit(mixed + table, i) - 0.5f;
}

/* Row by row, a group each: in ascending order of (bucket, table, key). */
struct cut_source {
    struct bucket_range of;
    uint32_t bucket, table, i;
    uint64_t mixed, stamp;
    uint32_t count;
    float values[6];
};

static bool is_next(const struct cut_source *s)
{
    return is_in_cut(s->i) && key_bucket(key[s->i]) == s->bucket;
}

static void go_on(struct cut_source *s)
{
    if (++s->i < KEYS)
        return;
    s->i = 0;
    if (++s->table < 2)
        return;
    s->table = 0;
    s->bucket++;
}

static enum err next(void *ctx, struct row_group *g, struct errmsg *e)
{
    struct cut_source *s = ctx;
    (void)e;
    while (s->bucket < s->of.end && !is_next(s))
        go_on(s);
    *g = (struct row_group){0};
    if (s->bucket >= s->of.end)
        return ERR_OK;
    s->mixed = key[s->i];
    for (uint32_t k = 0; k < 6; k++)
        s->values[k] = k < IN_CUT[s->table].dim ? value_of(s->table, s->mixed, k) : -1.0f;
    *g = (struct row_group){s->bucket, s->table,  1,    &s->mixed, &s->stamp,
                            &s->count, s->values, NULL, 0};
    go_on(s);
    return ERR_OK;
}

static enum err write_cut(uint32_t shards, struct manifest *m, struct errmsg *e)
{
    struct checkpoint_file file[4];
    float w[ELEMS] = {0};
    enum err err = ERR_OK;
    for (uint32_t i = 0; i < KEYS; i++)
        key[i] = key_mix(i);
    qsort(key, KEYS, sizeof *key, ascending);
    for (uint32_t i = 0; i < shards && !err; i++) {
        struct cut_source s = {.of = bucket_shard(i, shards),
                               .bucket = bucket_shard(i, shards).first};
        const struct checkpoint_rows rows = {
            .buckets = s.of, .tables = 2, .table = IN_CUT, .next = next, .ctx = &s};
        const struct checkpoint_shard shard = {.generation = 1,
                                               .shard = i,
                                               .first_elem = i * ELEMS,
                                               .elems = ELEMS,
                                               .w = w,
                                               .rows = &rows};
        err = checkpoint_write_shard((struct cut){folder_place(dir), 1}, &shard, &file[i], e);
    }
    const struct manifest made = {.cut = 1,
                                  .generation = 1,
                                  .tables = true,
                                  .total_elems = shards * ELEMS,
                                  .files = shards,
                                  .file = file};
    if (!err)
        err = checkpoint_publish(folder_place(dir), &made, e);
    return err ? err : checkpoint_load((struct cut){folder_place(dir), 1}, m, e);
}

/* ---- reading ---- */

/* Wanted are two keys of three. */
static void want(struct row_values *v, const struct row_layout *layout)
{
    static uint64_t wanted[KEYS];
    uint32_t n = 0;
    for (uint32_t i = 0; i < KEYS; i++)
        if (i % 3 != 0)
            wanted[n++] = key[i];
    const struct key_list list = {n, wanted};
    const struct leaf_keys keys = {.lists = 1, .list = &list}, *leaf = &keys;
    row_values_init(v, layout);
    assert_int_equal(row_values_want(v, &leaf, 1, NULL), ERR_OK);
}

static bool was_in_cut(uint64_t mixed)
{
    uint32_t i = 0;
    while (key[i] != mixed)
        i++;
    return is_in_cut(i);
}

static void rows_come_from_the_cut_and_others_have_their_first_value(void **state)
{
    (void)state;
    for (uint32_t shards = 1; shards <= 4; shards++) {
        struct errmsg e = {""};
        struct manifest m;
        struct row_values v;
        if (write_cut(shards, &m, &e))
            fail_msg("%s", e.text);
        want(&v, &LAYOUT);
        struct cut_rows cut = {folder_place(dir), &m, SEED};
        assert_int_equal(cut_rows_read(&cut, &v, &e), ERR_OK);
        for (uint32_t k = 0; k < v.list[0].keys; k++) {
            uint64_t mixed = v.list[0].mixed[k];
            bool there = was_in_cut(mixed);
            assert_true(v.w[0][k] == (there ? value_of(1, mixed, 0) : 1.0f));
            assert_int_equal(v.absent[0][k], !there);
            for (uint32_t i = 0; i < 3; i++)
                assert_true(v.w[1][3 * k + i] == (there ? value_of(0, mixed, i) : 9.0f));
        }
        row_values_close(&v);
        manifest_close(&m);
    }
}

static void rows_that_were_not_admitted_read_as_the_table_says(void **state)
{
    (void)state;
    struct errmsg e = {""};
    struct manifest m;
    struct row_values v;
    struct row_layout admits = LAYOUT;
    admits.table[0].admission = (struct row_admission){.min_count = 2, .sketch_mb = 1};
    admits.table[1].admission = (struct row_admission){.probability = 0.5f, .initial = true};
    assert_int_equal(write_cut(2, &m, &e), ERR_OK);
    want(&v, &admits);
    struct cut_rows cut = {folder_place(dir), &m, SEED};
    assert_int_equal(cut_rows_read(&cut, &v, &e), ERR_OK);
    for (uint32_t k = 0; k < v.list[0].keys; k++) {
        bool there = was_in_cut(v.list[0].mixed[k]);
        assert_true(there || (v.w[0][k] == 0.0f && v.w[1][3 * k] == 9.0f));
    }
    row_values_close(&v);
    manifest_close(&m);
}

static void assert_refused(const struct row_layout *layout, const char *why)
{
    struct errmsg e = {""};
    struct manifest m;
    struct row_values v;
    assert_int_equal(write_cut(2, &m, &e), ERR_OK);
    want(&v, layout);
    struct cut_rows cut = {folder_place(dir), &m, SEED};
    assert_int_equal(cut_rows_read(&cut, &v, &e), ERR_INPUT);
    if (!strstr(e.text, why))
        fail_msg("%s", e.text);
    row_values_close(&v);
    manifest_close(&m);
}

static void a_table_that_the_cut_lacks_or_has_otherwise_is_named(void **state)
{
    (void)state;
    struct row_layout other = LAYOUT;
    other.table[1].dim = 2;
    assert_refused(&other, "table deep of checkpoint 1 has rows of 3 numbers, the model's have 2");
    strcpy(other.table[1].name, "more");
    assert_refused(&other, "checkpoint 1 has no table more, but the model has one");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(rows_come_from_the_cut_and_others_have_their_first_value,
                                        folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(rows_that_were_not_admitted_read_as_the_table_says,
                                        folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(a_table_that_the_cut_lacks_or_has_otherwise_is_named,
                                        folder_setup, folder_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
