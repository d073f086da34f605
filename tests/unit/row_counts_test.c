/* The counts of a table's rows: present, admitted, refused, dropped and evicted ones. Each part's update counts them, and
 * manifests keep them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "common/base/mem.h"
#include "common/checkpoint/checkpoint.h"
#include "ps/rows/row_tables.h"
#include "tests/lib/folder.h"

enum { KEYS = 40 };

/* "plain" takes each key, "picky" those that have come twice. */
static const struct row_layout layout = {
    .lists = 1,
    .tables = 2,
    .table = {
        {.name = "plain", .dim = 2, .init = INIT_ZEROS, .unseen_steps = 3},
        {.name = "picky",
         .dim = 1,
         .init = INIT_ZEROS,
         .admission = {.min_count = 2, .sketch_mb = 1}},
    }};
static const struct optimizer sgd = {.kind = OPT_SGD, .learning_rate = 1};
static const struct bucket_range all = {0, ROW_BUCKETS};
static struct buffer_pool pool;
static uint64_t mixed[KEYS];
static float ones[2 * KEYS];

static int ascending(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static int begin(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < KEYS; i++)
        mixed[i] = key_mix(i + 1);
    qsort(mixed, KEYS, sizeof *mixed, ascending);
    for (uint32_t i = 0; i < 2 * KEYS; i++)
        ones[i] = 1;
    return 0;
}

static struct row_tables *tables_new(void)
{
    struct row_tables *t = malloc(sizeof *t);
    assert_int_equal(row_tables_init(t, &layout, all, &sgd, 1, &pool), ERR_OK);
    return t;
}

static void tables_free(struct row_tables *t)
{
    row_tables_close(t);
    free(t);
    buffer_pool_close(&pool);
}

/* The first `keys` keys are touched in the step that ends at `clock`. */
static enum err touch(struct row_tables *t, uint32_t keys, uint64_t clock)
{
    const struct row_grads g = {.keys = {keys}, .mixed = {mixed}, .g = {ones, ones}};
    const struct row_step u = {.t = clock, .inv_n = 1, .scale = 1, .clock = clock};
    return row_tables_update(t, 0, &g, &u);
}

static void assert_counts(const struct row_tables *t, uint32_t table, struct row_counts want)
{
    struct row_counts is = row_tables_counts(t, table);
#define X(name) assert_int_equal(is.name, want.name);
    ROW_COUNTS(X)
#undef X
}

static void each_table_counts_its_own_rows(void **state)
{
    (void)state;
    struct row_tables *t = tables_new();
    assert_int_equal(touch(t, 30, 1), ERR_OK);
    assert_counts(t, 0, (struct row_counts){.rows = 30, .admitted = 30});
    assert_counts(t, 1, (struct row_counts){.dropped = 30});
    row_tables_advance(t, 1);
    assert_int_equal(touch(t, 10, 2), ERR_OK);
    row_tables_advance(t, 2);
    row_tables_advance(t, 4); /* 20 rows have stamp 1 */
    assert_counts(t, 0, (struct row_counts){.rows = 10, .admitted = 30, .evicted = 20});
    assert_counts(t, 1, (struct row_counts){.rows = 10, .admitted = 10, .dropped = 30});
    assert_int_equal(row_tables_rows(t), 20);
    tables_free(t);
}

/* The update comes again, and counts once. */
static void an_update_without_memory_counts_nothing(void **state)
{
    (void)state;
    bool refused = false, fired = true;
    for (long n = 0; fired; n++) {
        struct row_tables *t = tables_new();
        assert_int_equal(touch(t, 20, 1), ERR_OK);
        mem_fail_at(n);
        enum err err = touch(t, KEYS, 2);
        fired = mem_fail_fired();
        mem_fail_at(-1);
        if (err) {
            refused = true;
            assert_counts(t, 0, (struct row_counts){.rows = 20, .admitted = 20});
            assert_counts(t, 1, (struct row_counts){.dropped = 20});
            assert_int_equal(touch(t, KEYS, 2), ERR_OK);
        }
        assert_counts(t, 0, (struct row_counts){.rows = KEYS, .admitted = KEYS});
        assert_counts(t, 1, (struct row_counts){.rows = 20, .admitted = 20, .dropped = KEYS});
        tables_free(t);
    }
    assert_true(refused);
}

/* ---- manifests ---- */

static const struct row_counts counts[2] = {{1, 2, 3, 4, 5}, {UINT64_MAX, 0, 7, 0, 9}};

static struct manifest manifest_of(struct checkpoint_file *file, bool tables)
{
    *file = (struct checkpoint_file){
        .name = "shard-0.gw", .elems = 4, .end_bucket = tables ? ROW_BUCKETS : 0};
    return (struct manifest){
        .cut = 1, .generation = 1, .tables = tables, .total_elems = 4, .files = 1, .file = file};
}

static void read_back(const struct manifest *m, enum err want, struct manifest *out)
{
    char folder[FOLDER_BYTES];
    struct errmsg e = {""};
    char cut[FOLDER_BYTES + 16];
    assert_int_equal(folder_make(folder), 0);
    (void)snprintf(cut, sizeof cut, "%s/cut-0000000001", folder);
    assert_int_equal(mkdir(cut, 0700), 0);
    assert_int_equal(checkpoint_publish(folder_place(folder), m, &e),
                     want); /* the writer has the reader's checks */
    if (want)
        assert_non_null(strstr(e.text, "its row counts do not match its tables"));
    else
        assert_int_equal(checkpoint_load_manifest((struct cut){folder_place(folder), 1}, out, &e),
                         ERR_OK);
    assert_int_equal(folder_remove(folder), 0);
}

static void a_manifest_keeps_the_counts_of_each_table(void **state)
{
    (void)state;
    struct checkpoint_file file;
    struct manifest m = manifest_of(&file, true), is;
    m.counted = 2;
    memcpy(m.table, counts, sizeof counts);
    read_back(&m, ERR_OK, &is);
    assert_int_equal(is.counted, 2);
    assert_memory_equal(is.table, counts, sizeof counts);
    manifest_close(&is);
}

static void a_manifest_of_a_release_that_did_not_count_is_read(void **state)
{
    (void)state;
    static const struct row_counts none[ROW_TABLES_MAX];
    struct checkpoint_file file;
    struct manifest m = manifest_of(&file, true), is;
    read_back(&m, ERR_OK, &is);
    assert_int_equal(is.counted, 0);
    assert_memory_equal(is.table, none, sizeof none);
    manifest_close(&is);
}

static void a_manifest_that_counts_what_it_has_not_is_damaged(void **state)
{
    (void)state;
    struct checkpoint_file file;
    struct manifest m = manifest_of(&file, false), is;
    m.counted = 1;
    read_back(&m, ERR_STATE, &is);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_table_counts_its_own_rows),
        cmocka_unit_test(an_update_without_memory_counts_nothing),
        cmocka_unit_test(a_manifest_keeps_the_counts_of_each_table),
        cmocka_unit_test(a_manifest_of_a_release_that_did_not_count_is_read),
        cmocka_unit_test(a_manifest_that_counts_what_it_has_not_is_damaged),
    };
    return cmocka_run_group_tests(tests, begin, NULL);
}
