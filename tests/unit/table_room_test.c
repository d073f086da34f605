/* The room that tables will take: distinct keys of data by a sample, rows of all data by those of some, bytes by rows. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/mem.h"
#include "common/base/rng.h"
#include "common/rows/key.h"
#include "ps/rows/row_table.h"
#include "tests/lib/idx_files.h"
#include "data/core/rounding.h"
#include "data/core/key_growth.h"
#include "data/dataset.h"
#include "worker/doctor/estimate.h"

/* ---- the sketch ---- */

static void different_keys_are_counted_to_a_few_percent(void **state)
{
    (void)state;
    static const uint32_t wanted[] = {0, 1, 7, 100, 2000, 4096, 10000, 40000, 300000};
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        struct distinct d = {{0}};
        for (int again = 0; again < 2; again++)
            for (uint64_t key = 0; key < wanted[i]; key++)
                distinct_add(&d, key_mix(key + 1));
        double keys = distinct_keys(&d), off = fabs(keys - wanted[i]);
        if (off > 0.05 * wanted[i] + 0.5)
            fail_msg("%u keys are estimated as %g", wanted[i], keys);
    }
}

/* ---- blocks of which some are counted ---- */

enum { BLOCKS = 4096, BLOCK_ROWS = 256 };

/* A log of BLOCKS blocks: the key of a row, and `random` to draw it. */
struct law {
    const char *name;
    uint64_t (*key)(const struct law *l, uint64_t row, uint64_t random);
    double keys, power; /* power: of a rank in Zipf's law, not 1 */
    double off;         /* the estimate may be so many times too high or too low */
};

static double unit(uint64_t random)
{
    return (double)(random >> 11) * 0x1p-53;
}

static uint64_t new_key(const struct law *l, uint64_t row, uint64_t random)
{
    (void)l;
    (void)random;
    return row;
}

static uint64_t uniform_key(const struct law *l, uint64_t row, uint64_t random)
{
    (void)row;
    return (uint64_t)(unit(random) * l->keys);
}

static uint64_t zipf_key(const struct law *l, uint64_t row, uint64_t random)
{
    (void)row;
    double u = unit(random), most = l->keys + 1, left = 1 - l->power;
    return (uint64_t)pow(1 + u * (pow(most, left) - 1), 1 / left);
}

/* As the generated clicks. */
static uint64_t log_uniform_key(const struct law *l, uint64_t row, uint64_t random)
{
    (void)row;
    return (uint64_t)exp(unit(random) * log(l->keys + 1));
}

static uint64_t half_new_key(const struct law *l, uint64_t row, uint64_t random)
{
    return random % 2 ? uniform_key(l, row, random) : (uint64_t)1e9 + row;
}

/* Keys that are only in one of 20 parts of the log. */
static uint64_t drifting_key(const struct law *l, uint64_t row, uint64_t random)
{
    uint64_t part = row * 20 / (BLOCKS * BLOCK_ROWS);
    return part << 32 | uniform_key(l, row, random);
}

/* A user's 8 rows are neighbors. */
static uint64_t session_key(const struct law *l, uint64_t row, uint64_t random)
{
    (void)random;
    return uniform_key(l, row, rng_u64(9, row / 8));
}

static uint64_t key_of(const struct law *l, uint64_t row)
{
    return key_mix(l->key(l, row, rng_u64(5, row)) + 1);
}

static double all_keys(const struct law *l)
{
    struct distinct d = {{0}};
    for (uint64_t row = 0; row < BLOCKS * BLOCK_ROWS; row++)
        distinct_add(&d, key_of(l, row));
    return distinct_keys(&d);
}

/* From one block of `times`. */
static double estimated_keys(const struct law *l, uint32_t times)
{
    struct key_sample sample = {.slots = 0};
    struct key_growth g = {.rows = BLOCKS * BLOCK_ROWS};
    for (uint32_t block = 0; block < BLOCKS; block += times)
        for (uint32_t i = 0; i < BLOCK_ROWS; i++, g.counted++)
            assert_int_equal(key_sample_add(&sample, key_of(l, block * BLOCK_ROWS + i), block), 0);
    key_growth_finish(&g, &sample, 1);
    key_sample_close(&sample);
    assert_true(g.all[0] >= g.seen[0]);
    return g.all[0];
}

static void keys_of_all_blocks_are_estimated_from_some(void **state)
{
    (void)state;
    static const struct law laws[] = {
        {"all new", new_key, 0, 0, 1.5},
        {"of 1,000", uniform_key, 1e3, 0, 1.1},
        {"of 20,000", uniform_key, 2e4, 0, 1.1},
        {"of 100,000", uniform_key, 1e5, 0, 1.5},
        {"of a million", uniform_key, 1e6, 0, 1.5},
        {"Zipf 0.8", zipf_key, 1e6, 0.8, 1.5},
        {"Zipf 1.01", zipf_key, 1e5, 1.01, 1.5},
        {"Zipf 1.2", zipf_key, 1e6, 1.2, 1.5},
        {"Zipf 1.5", zipf_key, 1e6, 1.5, 1.5},
        {"clicks, a million", log_uniform_key, 1e6, 0, 1.5},
        {"clicks, 30,000", log_uniform_key, 3e4, 0, 1.5},
        {"half of 1,000, half new", half_new_key, 1e3, 0, 1.5},
        {"drifting", drifting_key, 1e3, 0, 1.5},
        {"sessions of 20,000 users", session_key, 2e4, 0, 1.5},
        {"sessions of a million", session_key, 1e6, 0, 1.5},
    };
    static const uint32_t times[] = {2, 4, 16};
    for (size_t i = 0; i < sizeof laws / sizeof *laws; i++) {
        double all = all_keys(&laws[i]);
        for (size_t k = 0; k < sizeof times / sizeof *times; k++) {
            double of = estimated_keys(&laws[i], times[k]) / all;
            if (of > laws[i].off || of < 1 / laws[i].off)
                fail_msg("%s: from one block of %u: %.2f times the keys", laws[i].name, times[k],
                         of);
        }
    }
}

static void a_sample_of_keys_counts_them_and_their_blocks(void **state)
{
    (void)state;
    static const uint32_t wanted[] = {1, 1000, KEY_SAMPLE_MAX, KEY_SAMPLE_MAX + 1, 2000000};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        struct key_sample s = {.slots = 0};
        double in[2];
        for (uint32_t block = 0; block < 3; block++) /* all keys in one, twice; even ones in all */
            for (uint32_t key = 0; key < wanted[i]; key++)
                for (int again = 0; again < 2 && (block == 0 || key % 2 == 0); again++)
                    assert_int_equal(key_sample_add(&s, key_mix(key + 1), block), ERR_OK);
        key_sample_spectrum(&s, in, 2);
        assert_true(in[0] + in[1] == key_sample_keys(&s));
        assert_true(fabs(in[0] - wanted[i] / 2) <= (s.bits ? 0.05 * wanted[i] : 0));
        double keys = key_sample_keys(&s);
        assert_true(fabs(keys - wanted[i]) <= (s.bits ? 0.04 * wanted[i] : 0));
        assert_true(s.keys <= KEY_SAMPLE_MAX && s.slots <= 2 * KEY_SAMPLE_MAX);
        key_sample_close(&s);
    }
}

/* ---- rows of data ---- */

struct fixture {
    struct idx_files files;
    struct job job;
    struct dataset d;
    struct errmsg e;
};

/* Row i has `key(i)` in one column, as the printf format writes it, and the same word in the other. A row has up to
 * `row_bytes`. */
static void setup_as(struct fixture *f, uint32_t rows, uint64_t (*key)(uint32_t row),
                     const char *format, size_t row_bytes)
{
    *f = (struct fixture){.e = {""}};
    size_t room = row_bytes * rows, at = 0;
    char text[1024], *csv = malloc(room);
    assert_non_null(csv);
    idx_files_init(&f->files);
    (void)snprintf(
        text, sizeof text,
        "model: {input: {shape: auto}, layers: [linear: {inputs: [a, b], name: w}, embedding: "
        "{inputs: a, output_dim: 16, name: e}, dense: {units: 1, inputs: e}, add: [w, dense]], "
        "loss: mse}\noptimizer: adagrad\ndata: {format: csv, train: '%s/*.csv', columns: [key: a, "
        "key: {name: b, space: a}, label: y]}\n",
        f->files.dir);
    if (job_parse(&f->job, text, strlen(text), "j.yaml", "/", NULL, 0, &f->e))
        fail_msg("%s", f->e.text);
    for (uint32_t i = 0; i < rows; i++) {
        at += (size_t)snprintf(csv + at, room - at, format, (unsigned long long)key(i));
        at += (size_t)snprintf(csv + at, room - at, ",same,%u\n", i % 2);
    }
    idx_files_write(&f->files, "a.csv", (struct bytes){(uint8_t *)csv, at});
    free(csv);
    if (dataset_load(&f->d, &f->job, 0, 0, &f->e))
        fail_msg("%s", f->e.text);
}

static void setup(struct fixture *f, uint32_t rows, uint64_t (*key)(uint32_t row))
{
    setup_as(f, rows, key, "%llu", 48);
}

static void teardown(struct fixture *f)
{
    dataset_close(&f->d);
    job_close(&f->job);
    idx_files_close(&f->files);
}

static uint64_t of_3000(uint32_t row)
{
    return row % 3000;
}

static uint64_t of_its_own(uint32_t row)
{
    return row;
}

#define ASSERT_NEAR(is, wanted, part)                                                              \
    do {                                                                                           \
        if (fabs((double)(is) - (double)(wanted)) > (part) * (double)(wanted))                     \
            fail_msg(#is ": %g, and not %g", (double)(is), (double)(wanted));                      \
    } while (0)

static void each_list_has_the_keys_of_its_columns(void **state)
{
    (void)state;
    struct fixture f;
    struct key_growth g;
    char text[400];
    setup(&f, 20000, of_3000);
    assert_int_equal(dataset_count_keys(&f.d, 20000, DATASET_COUNTED_LOOKUPS, &g, &f.e), ERR_OK);
    assert_true(g.lists == 2 && g.rows == 20000 && g.counted == 20000);
    ASSERT_NEAR(g.all[0], 3001, 0.05);
    ASSERT_NEAR(g.all[1], 3000, 0.05);
    const struct table_room r = table_room_of(&f.job, &g);
    assert_int_equal(r.tables, 2);
    ASSERT_NEAR(r.all.rows, 6001, 0.05);
    assert_false(r.sampled);
    assert_true(r.least.rows == r.all.rows);
    f.job.model.table[0].min_count = 2; /* some keys may come once only */
    f.job.model.table[0].sketch_mb = 3;
    const struct table_room some = table_room_of(&f.job, &g);
    assert_true(some.admits && !r.admits && some.all.rows == r.all.rows);
    ASSERT_NEAR(some.least.rows, 3000, 0.05);
    assert_true(some.all.memory_bytes == r.all.memory_bytes + 3 * 0x1p20);
    table_room_text(&some, 2, text, sizeof text);
    assert_memory_equal(text, "at most ", 8);
    teardown(&f);
}

static void of_a_large_set_some_rows_are_counted_and_their_growth_goes_on(void **state)
{
    (void)state;
    struct fixture f;
    struct key_growth g;
    setup(&f, 40000, of_its_own);
    assert_int_equal(dataset_count_keys(&f.d, 40000, 12000, &g, &f.e), ERR_OK);
    assert_in_range(g.counted, 2000, 6000);
    ASSERT_NEAR(g.seen[1], g.counted, 0.05);
    ASSERT_NEAR(g.all[1], 40000, 0.15); /* each row has a key of its own */
    teardown(&f);
    setup(&f, 40000, of_3000);
    assert_int_equal(dataset_count_keys(&f.d, 400000, 36000, &g, &f.e), ERR_OK);
    ASSERT_NEAR(g.all[1], 3000, 0.2); /* no more come */
    char text[400];
    const struct table_room r = table_room_of(&f.job, &g);
    table_room_text(&r, 2, text, sizeof text);
    assert_true(r.sampled);
    assert_non_null(strstr(text, "of each of 2 ps; at least "));
    assert_non_null(strstr(text, "of about 400000 rows of data"));
    teardown(&f);
}

static void a_look_counts_them_too(void **state)
{
    (void)state;
    struct fixture f;
    struct dataset_look look;
    setup(&f, 5000, of_3000);
    assert_int_equal(dataset_look(&look, &f.job, 0, 0, &f.e), ERR_OK);
    assert_int_equal(look.keys.lists, 2);
    ASSERT_NEAR(look.keys.seen[1], 3000, 0.05);
    teardown(&f);
}

static uint64_t late(uint32_t row)
{
    return row > 50000 ? row : 0;
}

static void a_look_counts_all_keys_of_a_file_that_is_not_large(void **state)
{
    (void)state;
    struct fixture f;
    struct dataset_look look;
    setup(&f, 100000, late);
    assert_int_equal(dataset_look(&look, &f.job, 0, 0, &f.e), ERR_OK);
    assert_false(look.estimated);
    assert_true(look.rows == 100000 && look.keys.counted == 100000);
    ASSERT_NEAR(look.keys.all[1], 50000, 0.05);
    teardown(&f);
}

/* 50 keys in each part of the data. */
static uint64_t of_a_part(uint32_t row)
{
    return row / 5000 * 50 + row % 50;
}

static void a_look_counts_keys_in_blocks_of_a_large_file(void **state)
{
    (void)state;
    struct fixture f;
    struct dataset_look look;
    enum { ROWS = 110000, KEYS = ROWS / 5000 * 50 };
    static const char *const format[] = {"%0350llu", "\"%0340llu\nline\""}; /* 40 MB */
    for (size_t i = 0; i < sizeof format / sizeof *format; i++) {
        setup_as(&f, ROWS, of_a_part, format[i], 400);
        assert_int_equal(dataset_look(&look, &f.job, 0, 0, &f.e), ERR_OK);
        assert_true(look.estimated && look.keys.counted < ROWS);
        ASSERT_NEAR(look.rows, ROWS, 0.02);
        ASSERT_NEAR(look.keys.all[1], KEYS, 0.05);
        assert_string_equal(look.warning.text, "");
        teardown(&f);
    }
}

enum { MANY_FILES = 2 * DATASET_SAMPLE_FILES + 1 };

/* a.csv is there by more names. */
static void add_links(struct fixture *f)
{
    char name[32], target[512];
    (void)snprintf(target, sizeof target, "%s", idx_files_path(&f->files, "a.csv"));
    for (int i = 1; i < MANY_FILES; i++) {
        (void)snprintf(name, sizeof name, "b%02d.csv", i);
        assert_int_equal(symlink(target, idx_files_path(&f->files, name)), 0);
    }
}

static void a_look_counts_keys_in_blocks_of_each_file_of_its_sample(void **state)
{
    (void)state;
    struct fixture f;
    struct dataset_look look;
    enum { ROWS = 8000, ROW_BYTES = 350 + 8 };
    setup_as(&f, ROWS, of_a_part, "%0350llu", 400);
    add_links(&f);
    assert_int_equal(dataset_look(&look, &f.job, 0, 0, &f.e), ERR_OK);
    assert_true(look.estimated && look.files == MANY_FILES);
    ASSERT_NEAR(look.rows, ROWS * MANY_FILES, 0.02);
    ASSERT_NEAR(look.keys.counted * ROW_BYTES, 32 << 20, 0.05);
    teardown(&f);
}

/* By the lines of its first rows the file has few rows. */
static void a_look_expects_as_many_rows_as_it_has_read(void **state)
{
    (void)state;
    struct fixture f;
    struct dataset_look look;
    enum { LONG_ROWS = 1400, ROWS = 200000, LINES = 400 };
    char lines[LINES + 1], *csv = malloc(4 << 20);
    size_t at = 0;
    assert_non_null(csv);
    memset(lines, '\n', LINES);
    lines[LINES] = '\0';
    for (int i = 0; i < ROWS; i++)
        at += (size_t)sprintf(csv + at, "\"%d%s\",same,1\n", i, i < LONG_ROWS ? lines : "");
    setup(&f, 10, of_its_own);
    idx_files_write(&f.files, "a.csv", (struct bytes){(uint8_t *)csv, at});
    free(csv);
    add_links(&f);
    assert_int_equal(dataset_look(&look, &f.job, 0, 0, &f.e), ERR_OK);
    assert_true(look.estimated && look.rows >= look.keys.counted);
    teardown(&f);
}

static void no_memory_to_count_is_an_error(void **state)
{
    (void)state;
    struct fixture f;
    struct key_growth g;
    setup(&f, 300, of_3000);
    long n = 0;
    do {
        mem_fail_at(n++);
        enum err err = dataset_count_keys(&f.d, 300, DATASET_COUNTED_LOOKUPS, &g, &f.e);
        assert_int_equal(err, mem_fail_fired() ? ERR_NOMEM : ERR_OK);
        assert_int_equal(g.lists, mem_fail_fired() ? 0 : 2);
    } while (mem_fail_fired());
    mem_fail_at(-1);
    assert_true(n > 2);
    teardown(&f);
}

/* ---- bytes ---- */

/* A table as the ps has it, of as many rows as its index is full or just grown with. */
static void a_row_takes_what_is_estimated(void **state)
{
    (void)state;
    struct fixture f;
    struct row_table *t;
    uint32_t row;
    setup(&f, 10, of_3000);
    assert_int_equal(
        row_table_new(&t, 16, optimizer_row_slots(&f.job.optimizer, 16), bucket_shard(0, 1)),
        ERR_OK);
    for (uint64_t key = 0; key < 200000; key++) {
        assert_int_equal(row_table_add(t, key_mix(key), &row), ERR_OK);
        if (key >= 100000 && key % 10000 == 0)
            ASSERT_NEAR((double)row_table_bytes(t) / (double)row_table_rows(t),
                        (double)table_room_row_bytes(&f.job, 1), 0.1);
    }
    row_table_free(t);
    uint64_t whole = table_room_row_bytes(&f.job, 1);
    f.job.model.table[1].optimizer.rowwise = true; /* its own: one accumulator for 16 */
    assert_int_equal(whole - table_room_row_bytes(&f.job, 1), 15 * sizeof(float));
    teardown(&f);
}

static void a_ps_has_its_share_and_what_a_checkpoint_takes(void **state)
{
    (void)state;
    assert_int_equal(table_room_ps_bytes(1000, 0, 0), 2000);
    assert_int_equal(table_room_ps_bytes(1000, 1, 0), 2000);
    assert_in_range(table_room_ps_bytes(1000, 2, 0), 1000, 1100);
    assert_int_equal(table_room_ps_bytes(100 * 0x1p20, 1, 0), 164 << 20);
    assert_int_equal(table_room_ps_bytes(1e10, 1, 0), 11500000000);
    assert_int_equal(table_room_ps_bytes(1e10, 1, 1000), 1150 << 20);
    assert_int_equal(table_room_ps_bytes(100 * 0x1p20, 1, 1000), 164 << 20);
}

static void a_bound_that_has_no_room_for_all_is_said(void **state)
{
    (void)state;
    static struct job job;
    char text[200] = "";
    const struct table_room room = {.all.memory_bytes = 100 * 0x1p20};
    assert_true(table_room_fits(&room, &job, 1, text, sizeof text));
    job.ps.memory = 100;
    assert_true(table_room_fits(&room, &job, 1, text, sizeof text));
    job.ps.memory = 50;
    job.ps.when_full = ROW_FULL_EVICT;
    assert_false(table_room_fits(&room, &job, 2, text, sizeof text)); /* a share may be 5 % more */
    assert_string_equal(text, "ps.memory is 50 MiB on each ps, but the rows may need 52 MiB: "
                              "the least recently used rows will be removed (ps.when_full: evict)");
    job.ps.memory = 53;
    assert_true(table_room_fits(&room, &job, 2, text, sizeof text));
}

static void ps_on_this_host_are_known_by_their_address(void **state)
{
    (void)state;
    char a[] = "127.0.0.1:1", b[] = "node1:2", c[] = "node2:3", self[] = "node2:9";
    char *ps[] = {a, b, c};
    struct cluster cluster = {.n_ps = 3, .ps = ps, .self = self};
    assert_int_equal(table_room_ps_here(&cluster), 2);
    cluster.self = NULL;
    assert_int_equal(table_room_ps_here(&cluster), 1);
    cluster.n_ps = 0;
    assert_int_equal(table_room_ps_here(&cluster), 1);
    assert_true(table_room_free_bytes() > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(different_keys_are_counted_to_a_few_percent),
        cmocka_unit_test(a_sample_of_keys_counts_them_and_their_blocks),
        cmocka_unit_test(keys_of_all_blocks_are_estimated_from_some),
        cmocka_unit_test(each_list_has_the_keys_of_its_columns),
        cmocka_unit_test(of_a_large_set_some_rows_are_counted_and_their_growth_goes_on),
        cmocka_unit_test(a_look_counts_them_too),
        cmocka_unit_test(a_look_counts_all_keys_of_a_file_that_is_not_large),
        cmocka_unit_test(a_look_counts_keys_in_blocks_of_a_large_file),
        cmocka_unit_test(a_look_counts_keys_in_blocks_of_each_file_of_its_sample),
        cmocka_unit_test(a_look_expects_as_many_rows_as_it_has_read),
        cmocka_unit_test(no_memory_to_count_is_an_error),
        cmocka_unit_test(a_row_takes_what_is_estimated),
        cmocka_unit_test(a_ps_has_its_share_and_what_a_checkpoint_takes),
        cmocka_unit_test(a_bound_that_has_no_room_for_all_is_said),
        cmocka_unit_test(ps_on_this_host_are_known_by_their_address),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
