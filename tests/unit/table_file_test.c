/* Tables of a trained model, where they are: every key gets its row, and one without a row its first value. Damaged files are
 * errors that name the file. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/mem.h"
#include "common/base/rng.h"
#include "common/process/files.h"
#include "common/rows/key.h"
#include "predict/table_file.h"
#include "tests/lib/folder.h"
#include "data/spill.h"
#include "export/table_export.h"

enum { DIM = 3, ROWS = 5000, SEED = 5, PATH_BYTES = 256 };

static const struct row_table_spec table = {
    .name = "a b/c", .dim = DIM, .init = INIT_RANDOM_UNIFORM, .init_value = 0.05f};

/* ---- keys ---- */

typedef uint64_t keys_of(uint64_t i);

static uint64_t hashed(uint64_t i)
{
    return rng_u64(1, i);
}
static uint64_t counted(uint64_t i)
{
    return 3 * i;
}
/* all but the last in one part of the index */
static uint64_t clustered(uint64_t i)
{
    return i + 1 == ROWS ? UINT64_MAX : 7 * i;
}
static uint64_t high(uint64_t i)
{
    return UINT64_MAX - i;
}
static keys_of *const kinds[] = {hashed, counted, clustered, high};

static float value_of(uint64_t key, uint32_t i)
{
    return rng_unit(key, i);
}

static const char *tables_dir(void)
{
    static char path[FOLDER_BYTES + 8];
    (void)snprintf(path, sizeof path, "%s/tables", folder_dir);
    return path;
}

/* Element k of a row is value_of(key, first + k). */
static void write_table(const char *name, keys_of *key, uint64_t rows, uint64_t file_bytes,
                        uint32_t first)
{
    struct errmsg e;
    struct spill *spill;
    struct table_export *x;
    struct job job = {.data = {.memory_mb = 1}};
    assert_int_equal(spill_new(&spill, &job, &e), ERR_OK);
    assert_int_equal(table_export_new(&x, DIM, rows, 1 << 20, spill, &e), ERR_OK);
    for (uint64_t i = 0; i < rows; i++) {
        float w[DIM];
        for (uint32_t k = 0; k < DIM; k++)
            w[k] = value_of(key(i), first + k);
        assert_int_equal(table_export_add(x, key(i), 1, w, &e), ERR_OK);
    }
    assert_int_equal(table_export_write(x, folder_place(folder_dir), name, file_bytes, &e), ERR_OK);
    table_export_free(x);
    spill_unref(spill);
}

static void write_rows(keys_of *key, uint64_t rows, uint64_t file_bytes)
{
    write_table(table.name, key, rows, file_bytes, 0);
}

static void remove_files(void)
{
    files_clean(tables_dir(), false);
}

static struct table_file *open_it(void)
{
    struct table_file *t;
    struct errmsg e = {""};
    if (table_file_open(&t, tables_dir(), &table, SEED, &e))
        fail_msg("%s", e.text);
    return t;
}

static void refuse(enum err err, const char *why)
{
    struct table_file *t;
    struct errmsg e = {""};
    assert_int_equal(table_file_open(&t, tables_dir(), &table, SEED, &e), err);
    if (!strstr(e.text, folder_dir) || !strstr(e.text, why))
        fail_msg("%s", e.text);
}

/* ---- reading ---- */

static void check_rows(const struct table_file *t, keys_of *key)
{
    enum { N = 100 };
    uint64_t mixed[N];
    float w[N * DIM];
    for (uint64_t i = 0; i < ROWS; i += N) {
        for (uint64_t k = 0; k < N; k++)
            mixed[k] = key_mix(key((i + k * 37) % ROWS));
        uint8_t absent[N], none[N] = {0};
        memset(absent, 1, sizeof absent);
        table_file_read(t, mixed, N, w, absent);
        assert_memory_equal(absent, none, N);
        for (uint64_t k = 0; k < N; k++)
            for (uint32_t d = 0; d < DIM; d++)
                assert_true(w[k * DIM + d] == value_of(key_unmix(mixed[k]), d));
    }
}

static void check_absent(const struct table_file *t, keys_of *key)
{
    for (uint64_t i = 0; i < ROWS; i++) {
        uint64_t mixed = key_mix(key(i) + 1);
        float w[DIM], first[DIM];
        if (key == high || key(i) == UINT64_MAX) /* the next one is there */
            mixed = key_mix(i + 1);
        uint8_t absent = 1, other = 0; /* another table has it */
        table_file_read(t, &mixed, 1, w, &absent);
        assert_int_equal(absent, 1);
        table_file_read(t, &mixed, 1, w, &other);
        assert_int_equal(other, 0);
        row_absent_value(&table, SEED, mixed, first);
        assert_memory_equal(w, first, sizeof w);
    }
}

static void check_order(const struct table_file *t, keys_of *key)
{
    uint64_t before = 0, is;
    float w[DIM];
    (void)key;
    assert_int_equal(table_file_rows(t), ROWS);
    for (uint64_t i = 0; i < ROWS; i++, before = is) {
        table_file_row(t, i, &is, w);
        assert_true(i == 0 || is > before);
        assert_true(w[DIM - 1] == value_of(is, DIM - 1));
    }
}

static void every_key_gets_its_row_and_others_their_first_value(void **state)
{
    (void)state;
    static const uint64_t file_bytes[] = {TABLE_EXPORT_FILE_BYTES, 40000};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        for (size_t k = 0; k < 2; k++) {
            write_rows(kinds[i], ROWS, file_bytes[k]);
            struct table_file *t = open_it();
            check_rows(t, kinds[i]);
            check_absent(t, kinds[i]);
            check_order(t, kinds[i]);
            table_file_close(t);
            remove_files();
        }
}

static void a_table_without_rows_has_first_values(void **state)
{
    (void)state;
    write_rows(counted, 0, TABLE_EXPORT_FILE_BYTES);
    struct table_file *t = open_it();
    check_absent(t, counted);
    table_file_close(t);
    remove_files();
}

/* ---- damaged files ---- */

static const char *file(const char *name)
{
    static char path[PATH_BYTES];
    (void)snprintf(path, sizeof path, "%s/%s", tables_dir(), name);
    return path;
}

static const char one[] = "a%20b%2Fc.safetensors",
                  second[] = "a%20b%2Fc-00002-of-00004.safetensors";

static void missing_files_are_named(void **state)
{
    (void)state;
    refuse(ERR_NOTFOUND, one);
    write_rows(hashed, ROWS, 40000);
    assert_int_equal(unlink(file(second)), 0);
    refuse(ERR_NOTFOUND, second);
    write_rows(hashed, ROWS, 40000);
    write_rows(hashed, ROWS, TABLE_EXPORT_FILE_BYTES);
    refuse(ERR_CORRUPT, "from two exports");
    remove_files();
}

/* The file with one text of its header in place of another of the same length. */
static void edit(const char *name, const char *from, const char *to)
{
    uint8_t *data;
    size_t bytes;
    struct errmsg e;
    assert_int_equal(files_read(file(name), 1 << 20, &data, &bytes, &e), ERR_OK);
    char *at = memmem(data, bytes, from, strlen(from));
    assert_non_null(at);
    memcpy(at, to, strlen(to));
    assert_int_equal(files_write(file(name), data, bytes, &e), ERR_OK);
    mem_free(data);
}

static void a_damaged_header_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to, *why;
    } cases[] = {
        {"\"keys\"", "\"kegs\"", "no tensor keys"},
        {"\"U64\"", "\"I64\"", "no tensor keys"},
        {"\"F32\"", "\"F16\"", "no tensor rows"},
        {"[5000,3]", "[5001,3]", "data_offsets of tensor rows"},
        {"[5000,3]", "[3000,5]", "dimension of 3"},
        {"[5000]", "[5001]", "data_offsets of tensor keys"},
        {"{\"", "[\"", "not a safetensors file"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_rows(hashed, ROWS, TABLE_EXPORT_FILE_BYTES);
        edit(one, cases[i].from, cases[i].to);
        refuse(ERR_CORRUPT, cases[i].why);
    }
    struct row_table_spec longer = table;
    struct table_file *t;
    struct errmsg e = {""};
    longer.dim = DIM + 1;
    write_rows(hashed, ROWS, TABLE_EXPORT_FILE_BYTES);
    assert_int_equal(table_file_open(&t, tables_dir(), &longer, SEED, &e), ERR_CORRUPT);
    assert_non_null(strstr(e.text, "a dimension of 4"));
    assert_int_equal(truncate(file(one), 100), 0);
    refuse(ERR_CORRUPT, one);
    assert_int_equal(truncate(file(one), 3), 0);
    refuse(ERR_CORRUPT, one);
    remove_files();
}

/* Swap two keys of the file, or write the first one in place of both. */
static void swap_keys(const char *name, size_t a, size_t b, bool both)
{
    uint8_t *data, was[8];
    size_t bytes;
    uint64_t header;
    struct errmsg e;
    assert_int_equal(files_read(file(name), 1 << 20, &data, &bytes, &e), ERR_OK);
    memcpy(&header, data, sizeof header);
    uint8_t *keys = data + sizeof header + header;
    memcpy(was, keys + 8 * a, 8);
    if (!both)
        memcpy(keys + 8 * a, keys + 8 * b, 8);
    memcpy(keys + 8 * b, was, 8);
    assert_int_equal(files_write(file(name), data, bytes, &e), ERR_OK);
    mem_free(data);
}

static void move(const char *from, const char *to)
{
    char was[PATH_BYTES];
    (void)snprintf(was, sizeof was, "%s", file(from));
    assert_int_equal(rename(was, file(to)), 0);
}

static void keys_out_of_order_are_refused(void **state)
{
    (void)state;
    static const size_t pair[][2] = {{0, 1}, {2000, 2001}, {0, ROWS - 1}, {ROWS - 2, ROWS - 1}};
    for (size_t i = 0; i < 2 * sizeof pair / sizeof *pair; i++) {
        write_rows(hashed, ROWS, TABLE_EXPORT_FILE_BYTES);
        swap_keys(one, pair[i / 2][0], pair[i / 2][1], i % 2);
        refuse(ERR_CORRUPT, "keys do not ascend");
    }
    remove_files();
    write_rows(hashed, ROWS, 40000);
    move(second, "x");
    move("a%20b%2Fc-00003-of-00004.safetensors", second);
    move("x", "a%20b%2Fc-00003-of-00004.safetensors");
    refuse(ERR_CORRUPT, "do not follow");
    remove_files();
}

static void memory_that_fails_is_an_error(void **state)
{
    (void)state;
    struct table_file *t;
    struct errmsg e;
    long n = 0;
    write_rows(hashed, ROWS, 40000);
    for (;; n++) {
        mem_fail_at(n);
        enum err err = table_file_open(&t, tables_dir(), &table, SEED, &e);
        bool fired = mem_fail_fired() != 0;
        mem_fail_at(-1);
        if (!fired) {
            assert_int_equal(err, ERR_OK);
            break;
        }
        assert_int_equal(err, ERR_NOMEM);
    }
    assert_true(n > 5);
    table_file_close(t);
    remove_files();
}

static void tables_with_the_same_keys_are_read_together(void **state)
{
    (void)state;
    enum { N = 100 };
    struct row_table_spec other = table;
    struct table_file *own[2], *third;
    struct errmsg e;
    uint64_t mixed[N];
    float rows[N * DIM], others[N * DIM], is[2][N * DIM], *const to[] = {is[0], is[1]};
    other.name[0] = 'o';
    write_rows(hashed, ROWS, ROWS * DIM); /* several files */
    write_table(other.name, hashed, ROWS, ROWS * DIM, DIM);
    own[0] = open_it();
    assert_int_equal(table_file_open(&own[1], tables_dir(), &other, SEED, &e), ERR_OK);
    const struct table_file *const both[] = {own[0], own[1]};
    assert_true(table_file_is_like(own[0], own[1]));
    for (uint64_t k = 0; k < N; k++) /* some are absent */
        mixed[k] = key_mix(k % 5 ? hashed(k * 37) : k);
    table_file_read_like(both, 2, mixed, N, to, NULL);
    table_file_read(own[0], mixed, N, rows, NULL);
    table_file_read(own[1], mixed, N, others, NULL);
    assert_memory_equal(is[0], rows, sizeof rows);
    assert_memory_equal(is[1], others, sizeof others);
    assert_true(is[1][DIM] == value_of(hashed(37), DIM));
    remove_files();
    write_rows(counted, ROWS, ROWS * DIM);
    third = open_it();
    assert_false(table_file_is_like(own[0], third));
    table_file_close(own[0]);
    write_rows(counted, ROWS - 1, ROWS * DIM); /* the last file has a key less */
    own[0] = open_it();
    assert_false(table_file_is_like(own[0], third));
    assert_false(table_file_is_like(third, own[0]));
    table_file_close(own[0]);
    table_file_close(own[1]);
    table_file_close(third);
    remove_files();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_with_the_same_keys_are_read_together),
        cmocka_unit_test(every_key_gets_its_row_and_others_their_first_value),
        cmocka_unit_test(a_table_without_rows_has_first_values),
        cmocka_unit_test(missing_files_are_named),
        cmocka_unit_test(a_damaged_header_is_named),
        cmocka_unit_test(keys_out_of_order_are_refused),
        cmocka_unit_test(memory_that_fails_is_an_error),
    };
    return cmocka_run_group_tests_name("table_file", tests, folder_setup, folder_teardown);
}
