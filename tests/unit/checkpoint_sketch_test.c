/* Counts of admission in checkpoints: they come back with their buckets, and what does not fit is found. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/rng.h"
#include "common/checkpoint/checkpoint_rows.h"
#include "tests/lib/folder.h"

static char *const dir = folder_dir;

enum { TABLES = 2, SKETCH = 1 << 18, EACH = 100 };
static const struct checkpoint_table TABLE[TABLES] = {{"plain", 1, 0, 0}, {"ids", 2, 0, SKETCH}};

static uint8_t counts[SKETCH];

static const uint8_t *sketch_of(uint32_t bucket)
{
    for (uint32_t i = 0; i < SKETCH; i += 8) {
        uint64_t word = rng_u64(bucket, i / 64);
        memcpy(counts + i, &word, sizeof word);
    }
    return counts;
}

static struct row_group a_sketch(uint32_t bucket)
{
    return (struct row_group){
        .bucket = bucket, .table = 1, .sketch = sketch_of(bucket), .sketch_bytes = SKETCH};
}

/* The first row that a bucket can have. */
static struct row_group a_row(uint32_t bucket, uint32_t table)
{
    static uint64_t mixed, stamp = 3;
    static const uint32_t count = 1;
    static const float values[2] = {1, 2};
    mixed = (uint64_t)bucket << (64 - ROW_BUCKET_BITS);
    return (struct row_group){.bucket = bucket,
                              .table = table,
                              .rows = 1,
                              .mixed = &mixed,
                              .stamp = &stamp,
                              .count = &count,
                              .values = values};
}

static void add(struct row_copy *c, struct row_group g)
{
    assert_int_equal(row_copy_add(c, &g), ERR_OK);
}

static enum err write_copy(struct row_copy *c, uint32_t shard, struct checkpoint_file *file,
                           struct errmsg *e)
{
    const struct checkpoint_shard s = {.generation = 7, .shard = shard, .rows = &c->head};
    enum err err = checkpoint_write_shard((struct cut){folder_place(dir), 1}, &s, file, e);
    row_copy_close(c);
    return err;
}

/* Every EACH-th bucket has a sketch, and a row of each table. */
static void write_cut(uint32_t shards, struct manifest *m)
{
    struct checkpoint_file file[4];
    struct errmsg e = {""};
    for (uint32_t i = 0; i < shards; i++) {
        struct row_copy c;
        struct bucket_range of = bucket_shard(i, shards);
        row_copy_init(&c, TABLE, TABLES, of, 9);
        for (uint32_t b = of.first; b < of.end; b++) {
            if (b % EACH)
                continue;
            add(&c, a_row(b, 0));
            add(&c, a_sketch(b));
            add(&c, a_row(b, 1));
        }
        if (write_copy(&c, i, &file[i], &e))
            fail_msg("%s", e.text);
    }
    const struct manifest made = {
        .cut = 1, .generation = 7, .tables = true, .files = shards, .file = file};
    if (checkpoint_publish(folder_place(dir), &made, &e) ||
        checkpoint_load((struct cut){folder_place(dir), 1}, m, &e) ||
        checkpoint_verify(folder_place(dir), m, &e))
        fail_msg("%s", e.text);
}

struct seen {
    uint32_t rows, sketches;
};

static enum err take(void *ctx, const struct row_group *g, struct errmsg *e)
{
    struct seen *seen = ctx;
    (void)e;
    assert_null(g->sketch);
    assert_int_equal(g->bucket % EACH, 0);
    seen->rows += g->rows;
    return ERR_OK;
}

static enum err take_sketch(void *ctx, const struct row_group *g, struct errmsg *e)
{
    struct seen *seen = ctx;
    (void)e;
    assert_int_equal(g->table, 1);
    assert_int_equal(g->sketch_bytes, SKETCH);
    assert_memory_equal(g->sketch, sketch_of(g->bucket), SKETCH);
    seen->sketches++;
    return ERR_OK;
}

static void sketches_of_any_number_of_shards_load_into_any_other(void **state)
{
    (void)state;
    for (uint32_t shards = 1; shards <= 4; shards++) {
        struct manifest m;
        struct errmsg e = {""};
        write_cut(shards, &m);
        for (uint32_t others = 1; others <= 5; others++) {
            struct seen with = {0}, without = {0};
            for (uint32_t i = 0; i < others; i++) {
                struct bucket_range of = bucket_shard(i, others);
                const struct row_sink sink = {take, &with, take_sketch},
                                      rows = {take, &without, NULL};
                assert_int_equal(checkpoint_read_rows(folder_place(dir), &m, of, &sink, &e),
                                 ERR_OK);
                assert_int_equal(checkpoint_read_rows(folder_place(dir), &m, of, &rows, &e),
                                 ERR_OK);
            }
            assert_int_equal(with.sketches, (ROW_BUCKETS - 1) / EACH + 1);
            assert_int_equal(with.rows, 2 * with.sketches);
            assert_int_equal(without.rows, with.rows);
        }
        manifest_close(&m);
    }
}

static void a_sketch_out_of_order_is_not_written(void **state)
{
    (void)state;
    const struct row_group one = a_sketch(5), row = a_row(5, 1), before = a_row(5, 0);
    const struct row_group wrong[][2] = {{one, one}, {row, one}, {one, before}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct row_copy c;
        struct checkpoint_file file;
        struct errmsg e = {""};
        row_copy_init(&c, TABLE, TABLES, (struct bucket_range){0, ROW_BUCKETS}, 9);
        add(&c, wrong[i][0]);
        add(&c, wrong[i][1]);
        assert_int_equal(write_copy(&c, 0, &file, &e), ERR_STATE);
        assert_non_null(strstr(e.text, "out of order"));
    }
}

static void a_sketch_of_another_size_does_not_decode(void **state)
{
    (void)state;
    static uint64_t bytes[(SKETCH + ROW_GROUP_HEAD_BYTES) / 8];
    struct checkpoint_table table[TABLES] = {TABLE[0], TABLE[1]};
    struct row_group g = a_sketch(3), back;
    row_sketch_encode(bytes, &g);
    assert_int_equal(row_group_decode(bytes, sizeof bytes, table, TABLES, &back), sizeof bytes);
    assert_int_equal(row_group_decode(bytes, sizeof bytes - 8, table, TABLES, &back), 0);
    table[1].sketch_bytes = SKETCH / 2;
    assert_int_equal(row_group_decode(bytes, sizeof bytes, table, TABLES, &back), 0);
    table[1].sketch_bytes = 0; /* the table counts nothing */
    assert_int_equal(row_group_decode(bytes, sizeof bytes, table, TABLES, &back), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(sketches_of_any_number_of_shards_load_into_any_other,
                                        folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(a_sketch_out_of_order_is_not_written, folder_setup,
                                        folder_teardown),
        cmocka_unit_test(a_sketch_of_another_size_does_not_decode),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
