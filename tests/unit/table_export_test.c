/* Tables in model/: rows in ascending order of their keys, and the digest of a model with tables. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/mem.h"
#include "common/base/rng.h"
#include "common/checkpoint/checkpoint_rows.h"
#include "common/process/files.h"
#include "tests/lib/folder.h"
#include "tests/lib/spill_file.h"
#include "export/export.h"
#include "export/table_export.h"

static char dir[FOLDER_BYTES];
static struct job job;
static struct spill *spill;

static int make_folder(void **state)
{
    struct errmsg e;
    (void)state;
    if (folder_make(dir))
        return -1;
    job = (struct job){.data = {.memory_mb = 1}};
    job.data.spill = dir;
    return spill_new(&spill, &job, &e) != ERR_OK;
}

static int remove_folder(void **state)
{
    (void)state;
    spill_unref(spill);
    return folder_remove(dir);
}

/* ---- rows that tell where they belong ---- */

enum { DIM = 3 };

static uint64_t key_of(uint64_t i)
{
    return i % 5 ? rng_u64(1, i) : i; /* small ones and those of all 64 bits */
}

static float weight_of(uint64_t key, uint32_t j)
{
    return rng_unit(key, j) - 0.5f;
}

static enum err add_rows(struct table_export *x, uint64_t rows, struct errmsg *e)
{
    enum err err = ERR_OK;
    for (uint64_t i = 0; i < rows && !err; i++) {
        uint64_t key = key_of(i);
        float w[DIM];
        for (uint32_t j = 0; j < DIM; j++)
            w[j] = weight_of(key, j);
        err = table_export_add(x, key, (uint32_t)key * 3, w, e);
    }
    return err;
}

/* `memory_rows` fit into memory. */
static enum err export(uint64_t rows, size_t memory_rows, uint64_t file_rows, struct errmsg *e) {
    struct table_export *x = NULL; size_t record = 12 + DIM * sizeof(float);
    enum err err = table_export_new(&x, DIM, rows, memory_rows *(record + 16), spill, e);
    if (!err) err = add_rows(x, rows, e);
    if (!err) err = table_export_write(x, folder_place(dir), "t", file_rows *record, e);
    table_export_free(x);
    return err;
}

/* ---- reading back ---- */

static void assert_tensor(const json_t *header, const char *name, const char *type, uint64_t rows,
                          uint32_t dim, uint64_t begin, uint64_t bytes)
{
    const json_t *t = json_object_get(header, name), *at = json_object_get(t, "data_offsets");
    const json_t *shape = json_object_get(t, "shape");
    assert_string_equal(json_string_value(json_object_get(t, "dtype")), type);
    assert_int_equal(json_array_size(shape), dim ? 2 : 1);
    assert_int_equal(json_integer_value(json_array_get(shape, 0)), rows);
    if (dim)
        assert_int_equal(json_integer_value(json_array_get(shape, 1)), dim);
    assert_int_equal(json_integer_value(json_array_get(at, 0)), begin);
    assert_int_equal(json_integer_value(json_array_get(at, 1)), begin + bytes);
}

/* The file's rows are right, and go on ascending behind *before; how many they are. */
static uint64_t check_file(const char *name, const char *table, uint64_t *before, bool first)
{
    char path[FILES_PATH_MAX];
    uint8_t *data;
    size_t bytes;
    uint64_t header_bytes;
    struct errmsg e = {""};
    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    if (files_read(path, 1 << 28, &data, &bytes, &e))
        fail_msg("%s", e.text);
    memcpy(&header_bytes, data, 8);
    assert_int_equal(header_bytes % 8, 0);
    json_t *header = json_loadb((const char *)data + 8, header_bytes, 0, NULL);
    assert_non_null(header);
    assert_string_equal(
        json_string_value(json_object_get(json_object_get(header, "__metadata__"), "table")),
        table);
    const char *says =
        json_string_value(json_object_get(json_object_get(header, "__metadata__"), "counts"));
    assert_memory_equal(says, "updates since the row was made: each step", 41);
    uint64_t rows = (bytes - 8 - header_bytes) / (12 + 4 * DIM);
    assert_int_equal(bytes, 8 + header_bytes + rows * (12 + 4 * DIM));
    assert_tensor(header, "keys", "U64", rows, 0, 0, rows * 8);
    assert_tensor(header, "rows", "F32", rows, DIM, rows * 8, rows * DIM * 4);
    assert_tensor(header, "counts", "U32", rows, 0, rows * (8 + DIM * 4), rows * 4);
    const uint8_t *at = data + 8 + header_bytes;
    const uint64_t *keys = (const uint64_t *)(const void *)at;
    const float *w = (const float *)(const void *)(keys + rows);
    const uint32_t *counts = (const uint32_t *)(const void *)(w + rows * DIM);
    for (uint64_t i = 0; i < rows; i++) {
        assert_true((first && i == 0) || keys[i] > *before);
        assert_int_equal(counts[i], (uint32_t)keys[i] * 3);
        for (uint32_t j = 0; j < DIM; j++)
            assert_true(w[i * DIM + j] == weight_of(keys[i], j));
        *before = keys[i];
    }
    json_decref(header);
    mem_free(data);
    return rows;
}

/* ---- */

static void rows_come_out_in_ascending_order_of_their_keys(void **state)
{
    (void)state;
    static const size_t memory[] = {1, 7, 999, 1000, 5000};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) {
        struct errmsg e = {""};
        uint64_t before = 0;
        if (export(1000, memory[i], 5000, &e))
            fail_msg("%s", e.text);
        assert_int_equal(check_file("tables/t.safetensors", "t", &before, true), 1000);
    }
}

static void a_large_table_is_split_into_files_of_consecutive_keys(void **state)
{
    (void)state;
    struct errmsg e = {""};
    uint64_t before = 0, rows = 0;
    assert_int_equal(export(1000, 90, 300, &e), ERR_OK);
    for (int i = 1; i <= 4; i++) {
        char name[64];
        (void)snprintf(name, sizeof name, "tables/t-%05d-of-00004.safetensors", i);
        uint64_t n = check_file(name, "t", &before, i == 1);
        assert_int_equal(n, i < 4 ? 300 : 100);
        rows += n;
    }
    assert_int_equal(rows, 1000);
}

static void a_table_without_rows_is_a_file_without_rows(void **state)
{
    (void)state;
    struct errmsg e = {""};
    uint64_t before = 0;
    assert_int_equal(export(0, 10, 10, &e), ERR_OK);
    assert_int_equal(check_file("tables/t.safetensors", "t", &before, true), 0);
}

/* Any bit of any record of the first pieces. */
static void a_changed_bit_of_the_spill_is_told(void **state)
{
    (void)state;
    enum { RECORD = 12 + DIM * sizeof(float) + 4 };
    for (int bit = 0; bit < 40 * 8 * RECORD; bit += 3) {
        struct spill *own;
        struct table_export *x = NULL;
        struct errmsg e = {""};
        assert_int_equal(spill_new(&own, &job, &e), ERR_OK);
        assert_int_equal(table_export_new(&x, DIM, 100, 30 * RECORD, own, &e), ERR_OK);
        assert_int_equal(add_rows(x, 100, &e), ERR_OK);
        spill_file_flip(bit);
        assert_int_equal(table_export_write(x, folder_place(dir), "t", 1 << 20, &e), ERR_DISK);
        assert_non_null(
            strstr(e.text, "(data.spill) cannot be read back: their checksum does not match"));
        table_export_free(x);
        spill_unref(own);
    }
}

static void any_failed_write_or_allocation_leaves_no_file(void **state)
{
    (void)state;
    char path[FILES_PATH_MAX];
    (void)snprintf(path, sizeof path, "%s/tables/t.safetensors", dir);
    long fired = 0;
    for (int what = 0; what < 3; what++) {
        bool more = true;
        for (long n = 0; more; n++, fired += more) {
            struct errmsg e = {""};
            if (what == 0)
                mem_fail_at(n);
            else if (what == 1)
                files_fail_at(n, ENOSPC);
            else
                spill_fail_at(n, EIO);
            enum err err = export(100, 30, 1000, &e);
            more = what == 0   ? mem_fail_fired()
                   : what == 1 ? files_fail_fired()
                               : spill_fail_fired();
            mem_fail_at(-1);
            files_fail_at(-1, 0);
            spill_fail_at(-1, 0);
            assert_int_equal(err != ERR_OK, more);
            assert_int_equal(e.text[0] != '\0', more);
            if (more)
                assert_int_equal(access(path, F_OK), -1);
        }
        assert_int_equal(unlink(path), 0);
    }
    assert_true(fired > 15);
}

/* ---- from the final checkpoint ---- */

enum { TABLES = 2, ROWS = 500 };
static const struct checkpoint_table TABLE[TABLES] = {{"z/deep", DIM, 2, 0}, {"a", DIM, 0, 0}};

static struct layout layout_with_tables(void)
{
    struct layout l = {0};
    struct tensor t = {.name = "w", .rank = 1, .shape = {16}, .init = INIT_ZEROS};
    struct errmsg e;
    assert_int_equal(layout_add(&l, &t, &e), ERR_OK);
    l.rows = mem_zalloc(1, sizeof *l.rows);
    l.rows->lists = 1;
    l.rows->tables = TABLES;
    for (int i = 0; i < TABLES; i++) {
        l.rows->table[i].dim = TABLE[i].dim;
        memcpy(l.rows->table[i].name, TABLE[i].name, sizeof TABLE[i].name);
    }
    return l;
}

static int ascending(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* The rows of both tables: all in table 0, every third in table 1. */
static void copy_rows(struct row_copy *c, struct bucket_range of)
{
    static uint64_t mixed[ROWS];
    for (uint64_t i = 0; i < ROWS; i++)
        mixed[i] = key_mix(key_of(i));
    qsort(mixed, ROWS, sizeof *mixed, ascending);
    row_copy_init(c, TABLE, TABLES, of, 9);
    for (uint64_t i = 0; i < ROWS; i++) { /* each in a bucket of its own, or nearly */
        for (uint32_t t = 0; t < TABLES; t++) {
            uint64_t key = key_unmix(mixed[i]), stamp = 1;
            uint32_t count = (uint32_t)key * 3;
            float values[DIM + 2] = {weight_of(key, 0), weight_of(key, 1), weight_of(key, 2), 8, 9};
            struct row_group g = {
                key_bucket(mixed[i]), t, 1, &mixed[i], &stamp, &count, values, NULL, 0};
            bool twice = i > 0 && key_bucket(mixed[i - 1]) == g.bucket;
            if (g.bucket >= of.first && g.bucket < of.end && !twice && (t == 0 || key % 3 == 0))
                assert_int_equal(row_copy_add(c, &g), ERR_OK);
        }
    }
}

static void write_cut(uint32_t shards, struct manifest *m)
{
    struct checkpoint_file file[4];
    struct errmsg e = {""};
    float w[16] = {0};
    for (uint32_t i = 0; i < shards; i++) {
        struct row_copy c;
        copy_rows(&c, bucket_shard(i, shards));
        struct checkpoint_shard s = {.generation = 1,
                                     .shard = i,
                                     .first_elem = i ? 16 : 0,
                                     .elems = i ? 0 : 16,
                                     .w = w,
                                     .rows = &c.head};
        if (checkpoint_write_shard((struct cut){folder_place(dir), 1}, &s, &file[i], &e))
            fail_msg("%s", e.text);
        row_copy_close(&c);
    }
    struct manifest made = {.cut = 1,
                            .generation = 1,
                            .tables = true,
                            .total_elems = 16,
                            .files = shards,
                            .file = file};
    if (checkpoint_publish(folder_place(dir), &made, &e) ||
        checkpoint_load((struct cut){folder_place(dir), 1}, m, &e))
        fail_msg("%s", e.text);
}

/* name, dimension, digest of each table behind the tensors, `a` first. */
static void digest_plainly(const float *w, const struct checkpoint_tables *t, char hex[65])
{
    struct sha256 *h = sha256_new();
    uint32_t one = 1, sixteen = 16, dim = DIM;
    sha256_add(h, "w", 1);
    sha256_add(h, &one, 4);
    sha256_add(h, &sixteen, 4);
    sha256_add(h, w, 16 * sizeof *w);
    sha256_add(h, "a", 1);
    sha256_add(h, &dim, 4);
    sha256_add(h, t->digest[1], SHA256_BYTES);
    sha256_add(h, "z/deep", 6);
    sha256_add(h, &dim, 4);
    sha256_add(h, t->digest[0], SHA256_BYTES);
    assert_int_equal(sha256_hex(h, hex), 0);
}

static const struct place *model_place(void)
{
    char path[FILES_PATH_MAX];
    (void)snprintf(path, sizeof path, "%s/model", dir);
    return folder_place(path);
}

static void a_final_cut_becomes_a_file_of_each_table_and_one_digest(void **state)
{
    (void)state;
    struct layout l = layout_with_tables();
    const float w[16] = {1, 2, 3};
    char digest[2][65] = {"", ""}, want[65];
    struct errmsg e = {""};
    assert_int_equal(export_safetensors(model_place(), &l, w, NULL, 0, &e), ERR_OK);
    for (uint32_t shards = 1; shards <= 2; shards++) {
        struct manifest m;
        struct checkpoint_tables t;
        uint64_t before = 0;
        write_cut(shards, &m);
        const struct cut_tables end = {.job = &job,
                                       .layout = &l,
                                       .to = model_place(),
                                       .checkpoints = folder_place(dir),
                                       .memory_bytes = 1000};
        if (cut_tables_export(&end, &m, digest[shards - 1], &e))
            fail_msg("%s", e.text);
        assert_int_equal(checkpoint_read_tables(folder_place(dir), &m, &t, &e), ERR_OK);
        assert_true(t.rows[0] > ROWS / 2 && t.rows[1] > ROWS / 10);
        assert_int_equal(check_file("model/tables/z%2Fdeep.safetensors", "z/deep", &before, true),
                         t.rows[0]);
        assert_int_equal(check_file("model/tables/a.safetensors", "a", &before, true), t.rows[1]);
        digest_plainly(w, &t, want);
        assert_string_equal(digest[shards - 1], want);
        manifest_close(&m);
    }
    assert_string_equal(digest[0], digest[1]);
    layout_close(&l);
}

/* DIR/model/tables/NAME: is it there? */
static bool is_there(const char *name)
{
    char path[FILES_PATH_MAX];
    (void)snprintf(path, sizeof path, "%s/model/tables/%s", dir, name);
    return access(path, F_OK) == 0;
}

static void what_an_earlier_end_wrote_of_a_larger_table_is_removed(void **state)
{
    (void)state;
    static const char *const stale[] = {"a-00001-of-00002.safetensors",
                                        "a-00002-of-00002.safetensors"};
    struct layout l = layout_with_tables();
    struct manifest m;
    struct errmsg e = {""};
    char digest[65], path[FILES_PATH_MAX];
    const float w[16] = {1, 2, 3};
    write_cut(1, &m);
    (void)snprintf(path, sizeof path, "%s/model/tables", dir);
    assert_int_equal(files_mkdirs(path, &e), ERR_OK);
    assert_int_equal(export_safetensors(model_place(), &l, w, NULL, 0, &e), ERR_OK);
    for (int i = 0; i < 3; i++) {
        (void)snprintf(path, sizeof path, "%s/model/tables/%s", dir, i < 2 ? stale[i] : "notes");
        assert_int_equal(files_write(path, "x", 1, &e), ERR_OK);
    }
    const struct cut_tables end = {.job = &job,
                                   .layout = &l,
                                   .to = model_place(),
                                   .checkpoints = folder_place(dir),
                                   .memory_bytes = 1000};
    if (cut_tables_export(&end, &m, digest, &e))
        fail_msg("%s", e.text);
    assert_false(is_there(stale[0]) || is_there(stale[1]));
    assert_true(is_there("a.safetensors") && is_there("z%2Fdeep.safetensors"));
    assert_true(is_there("notes")); /* the user's */
    manifest_close(&m);
    layout_close(&l);
}

static void a_cut_of_other_tables_is_not_exported(void **state)
{
    (void)state;
    struct layout l = layout_with_tables();
    struct manifest m;
    struct errmsg e = {""};
    char digest[65] = "";
    write_cut(1, &m);
    l.rows->table[1].dim++;
    const struct cut_tables end = {
        .job = &job, .layout = &l, .to = model_place(), .checkpoints = folder_place(dir)};
    assert_int_equal(cut_tables_export(&end, &m, digest, &e), ERR_STATE);
    assert_non_null(strstr(e.text, "checkpoint 1 has other tables than the job"));
    manifest_close(&m);
    layout_close(&l);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(rows_come_out_in_ascending_order_of_their_keys),
        TEST(a_large_table_is_split_into_files_of_consecutive_keys),
        TEST(a_table_without_rows_is_a_file_without_rows),
        TEST(any_failed_write_or_allocation_leaves_no_file),
        TEST(a_changed_bit_of_the_spill_is_told),
        TEST(a_final_cut_becomes_a_file_of_each_table_and_one_digest),
        TEST(what_an_earlier_end_wrote_of_a_larger_table_is_removed),
        TEST(a_cut_of_other_tables_is_not_exported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
