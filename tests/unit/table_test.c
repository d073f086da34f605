/* Rows with `keys` columns: a row takes memory, and room in the file, for the keys that it has, whatever max_values is.
 * Wherever it is, it has what the text says. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/base/rng.h"
#include "tests/lib/idx_files.h"
#include "tests/lib/spill_file.h"
#include "data/meaning/schema.h"
#include "data/dataset.h"

/* `ids` comes before a key in the row, and `tags` after a number that is a double until it is scaled. */
#define COLUMNS                                                                                    \
    "number: {name: x, scale: standard}, keys: {name: ids, separator: ' ', hash: false, missing: " \
    "{key: 7}, max_values: 40}, key: {name: site, missing: none}, category: c, key: user, "        \
    "keys: {name: tags, separator: ' ', max_values: 64, weights: true}, weight: w, number: "       \
    "{name: z, buckets: {borders: [3]}}, cross: {name: both, of: [site, user]}, label: y"
/* label, weight, three inputs, keys: site (3), user (2), the cross (3), and the numbers of ids and tags */
enum { TAGS_MOST = 64, IDS_MOST = 40, FIXED = 5 + 3 + 2 + 3 + 2, DOUBLES = 2 };
enum { KEY_IDS, KEY_SITE, KEY_USER, KEY_TAGS, KEY_BOTH };
enum { ROWS = 30000, FEW = 3000, ROW_BYTES = 4096, BAD_EACH = 501 };

struct fixture {
    struct idx_files files;
    char folder[300];
    struct job job;
    struct dataset d;
    struct errmsg e;
};

/* ---- what a row has ---- */

static uint32_t drawn(uint64_t row, unsigned i)
{
    return (uint32_t)(rng_u64(rng_key(1, RNG_TEST, row, 0), i) >> 33);
}

/* Few, and now and then as many as there can be. */
static uint32_t number_of(uint64_t row, unsigned column, uint32_t most)
{
    return drawn(row, column) % 200 == 0 ? most : drawn(row, column) % 4;
}

static bool is_bad(uint64_t row)
{
    return row % BAD_EACH == 5;
}

static uint64_t id_of(uint64_t row, uint32_t i)
{
    return (uint64_t)drawn(row, 100 + i) << 20 | i;
}

static void tag_of(uint64_t row, uint32_t i, char out[static 16])
{
    snprintf(out, 16, "t%u", drawn(row, 200 + i) % 5000);
}

static float weight_of(uint64_t row, uint32_t i)
{
    return (float)(drawn(row, 300 + i) % 64) / 8;
}

static size_t write_row(char *out, uint64_t row)
{
    uint32_t ids = number_of(row, 1, IDS_MOST), tags = number_of(row, 2, TAGS_MOST);
    char tag[16];
    size_t n = (size_t)sprintf(out, "%u,", drawn(row, 3) % 1000);
    for (uint32_t i = 0; i < ids; i++)
        n += (size_t)sprintf(out + n, "%s%llu", i ? " " : "", (unsigned long long)id_of(row, i));
    n +=
        (size_t)sprintf(out + n, ",%s,%s,u%u,", drawn(row, 4) % 3 ? "s" : "", "red", drawn(row, 5));
    for (uint32_t i = 0; i < tags; i++) {
        tag_of(row, i, tag);
        n += (size_t)sprintf(out + n, "%s%s:%g", i ? " " : "", tag, (double)weight_of(row, i));
    }
    return n + (size_t)sprintf(out + n, ",%u,%u,%s\n", drawn(row, 6) % 3, drawn(row, 7) % 6,
                               is_bad(row) ? "bad"
                               : row % 2   ? "1"
                                           : "0");
}

/* The cells of the row with its keys alone. */
static size_t cells_of(uint64_t row)
{
    uint32_t ids = number_of(row, 1, IDS_MOST), tags = number_of(row, 2, TAGS_MOST);
    ids = ids ? ids : 1; /* a missing one is key 7 */
    return FIXED + (is_bad(row) ? 0 : 2 * ids + 3 * tags);
}

static uint64_t cells_of_all(uint64_t rows)
{
    uint64_t cells = 0;
    for (uint64_t row = 0; row < rows; row++)
        cells += cells_of(row);
    return cells;
}

/* ---- a set ---- */

static void setup(struct fixture *f, uint64_t rows)
{
    char *text = malloc(rows * ROW_BYTES);
    size_t n = 0;
    assert_non_null(text);
    *f = (struct fixture){.e = {""}};
    idx_files_init(&f->files);
    snprintf(f->folder, sizeof f->folder, "%s/rows", f->files.dir);
    assert_int_equal(mkdir(f->folder, 0700), 0);
    for (uint64_t row = 0; row < rows; row++)
        n += write_row(text + n, row);
    idx_files_write(&f->files, "a.csv", (struct bytes){(uint8_t *)text, n});
    free(text);
}

static void set_columns(struct fixture *f, const char *columns, const char *inputs,
                        unsigned memory_mb, unsigned threads)
{
    char text[4096];
    size_t n = (size_t)snprintf(
        text, sizeof text,
        "model: {input: {shape: auto}, layers: [linear: {inputs: [%s]}], loss: mse}\n"
        "optimizer: sgd\nworker: {threads: %u}\n"
        "data: {format: csv, train: '%s/a.csv', memory_mb: %u, spill: '%s', bad_rows: skip, "
        "missing: '', columns: [%s]}\n",
        inputs, threads, f->files.dir, memory_mb, f->folder, columns);
    job_close(&f->job);
    if (job_parse(&f->job, text, n, "j.yaml", "/", NULL, 0, &f->e))
        fail_msg("%s", f->e.text);
}

static void set_job(struct fixture *f, unsigned memory_mb, unsigned threads)
{
    set_columns(f, COLUMNS, "tags, ids, both", memory_mb, threads);
}

static void load(struct fixture *f, unsigned memory_mb, unsigned threads)
{
    set_job(f, memory_mb, threads);
    if (dataset_load(&f->d, &f->job, 0, 0, &f->e))
        fail_msg("%s", f->e.text);
}

static void teardown(struct fixture *f)
{
    dataset_close(&f->d);
    job_close(&f->job);
    assert_int_equal(rmdir(f->folder), 0);
    idx_files_close(&f->files);
}

/* ---- the same rows ---- */

static void keys_are(const struct table_schema *s, unsigned column, const uint32_t *cells,
                     uint32_t n, const uint64_t *wanted, const float *weights)
{
    uint64_t key[TAGS_MOST];
    float weight[TAGS_MOST];
    const struct table_key *k = &s->key[column];
    schema_row_keys(k, table_key_cells(s, k, cells), key, weight);
    for (uint32_t i = 0; i < table_key_width(k); i++) {
        assert_true(key[i] == (i < n ? wanted[i] : 0));
        assert_true(weight[i] == (i >= n ? 0 : weights ? weights[i] : 1));
    }
}

static uint64_t hashed(const struct table_schema *s, unsigned column, const char *word, size_t n)
{
    uint64_t key = 0;
    assert_true(word_key(&s->key[column].options, s->key[column].seed, word, n, &key));
    return key;
}

static void ids_are(const struct table_schema *s, const uint32_t *cells, uint64_t row)
{
    uint64_t key[IDS_MOST] = {7};
    uint32_t n = number_of(row, 1, IDS_MOST);
    for (uint32_t i = 0; i < n; i++)
        key[i] = id_of(row, i);
    keys_are(s, KEY_IDS, cells, n ? n : 1, key, NULL);
}

static void tags_are(const struct table_schema *s, const uint32_t *cells, uint64_t row)
{
    uint64_t key[TAGS_MOST];
    float weight[TAGS_MOST];
    uint32_t n = number_of(row, 2, TAGS_MOST);
    char tag[16];
    for (uint32_t i = 0; i < n; i++) {
        tag_of(row, i, tag);
        key[i] = hashed(s, KEY_TAGS, tag, strlen(tag));
        weight[i] = weight_of(row, i);
    }
    keys_are(s, KEY_TAGS, cells, n, key, weight);
}

static void single_keys_are(const struct table_schema *s, const uint32_t *cells, uint64_t row)
{
    char word[32];
    const bool there = drawn(row, 4) % 3 != 0;
    uint64_t of[2] = {hashed(s, KEY_SITE, "s", 1),
                      hashed(s, KEY_USER, word, (size_t)sprintf(word, "u%u", drawn(row, 5)))};
    uint64_t both = hashed(s, KEY_BOTH, (char *)of, sizeof of);
    keys_are(s, KEY_SITE, cells, there, &of[0], NULL);
    keys_are(s, KEY_USER, cells, 1, &of[1], NULL);
    keys_are(s, KEY_BOTH, cells, there, &both, NULL);
}

static void row_is(const struct table_schema *s, const uint32_t *cells, uint64_t row)
{
    assert_int_equal(table_packed_cells(s, cells), cells_of(row));
    if (is_bad(row)) {
        assert_true(isnan(schema_float(cells[s->inputs])));
        return;
    }
    double x = drawn(row, 3) % 1000;
    assert_true(schema_float(cells[0]) == (float)((x - s->input[0].shift) / s->input[0].divisor));
    assert_int_equal(cells[1], 1);
    assert_int_equal(cells[2], drawn(row, 7) % 6 < 3 ? 1 : 2);
    assert_true(schema_float(cells[s->inputs]) == (float)(row % 2));
    assert_true(schema_float(cells[s->inputs + 1]) == (float)(drawn(row, 6) % 3));
    ids_are(s, cells, row);
    tags_are(s, cells, row);
    single_keys_are(s, cells, row);
}

/* In runs, as evaluation asks for them, and alone. */
static void rows_are(const struct dataset *d, uint64_t rows)
{
    static uint32_t buffer[TABLE_ROW_CELLS_MAX];
    struct errmsg e;
    assert_int_equal(d->rows, rows);
    for (uint64_t row = 0, most = 1; row < rows; most = most % 1000 * 2 + 1) {
        const uint32_t *cells;
        uint64_t n = most;
        if (table_look(&d->table, row, &n, buffer, TABLE_ROW_CELLS_MAX, &cells, &e))
            fail_msg("%s", e.text);
        assert_in_range(n, 1, most);
        for (; n > 0; n--, row++, cells += table_packed_cells(d->table.schema, cells))
            row_is(d->table.schema, cells, row);
    }
}

static void a_row_has_its_keys_wherever_it_is(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f, ROWS);
    for (unsigned memory_mb = 1; memory_mb <= 4; memory_mb++)
        for (unsigned threads = 1; threads <= 3; threads += 2) {
            load(&f, memory_mb, threads);
            assert_int_equal(f.d.bad_rows, (ROWS - 6) / BAD_EACH + 1);
            rows_are(&f.d, ROWS);
            uint64_t spilled = table_spilled_bytes(&f.d.table);
            assert_true(memory_mb < 4 ? spilled > 0 : spilled == 0);
            dataset_close(&f.d);
        }
    teardown(&f);
}

/* ---- no more memory than the keys need ---- */

/* With room for max_values they would have 34 MiB. */
static void memory_and_file_follow_the_keys_that_are_there(void **state)
{
    (void)state;
    struct fixture f;
    struct stat file;
    const uint64_t cells = cells_of_all(ROWS);
    assert_true(cells < ROWS * (uint64_t)30);
    setup(&f, ROWS);
    load(&f, 4, 2);
    assert_int_equal(table_spilled_bytes(&f.d.table), 0);
    assert_int_equal(table_bytes(&f.d.table), cells * sizeof(uint32_t));
    dataset_close(&f.d);
    load(&f, 1, 2);
    assert_true(table_spilled_bytes(&f.d.table) < cells * sizeof(uint32_t));
    assert_int_equal(fstat(spill_file(), &file), 0);
    assert_true((uint64_t)file.st_size <= (cells + ROWS * (DOUBLES + 1)) * sizeof(uint32_t));
    teardown(&f);
}

static void a_look_tells_the_memory_of_the_keys_that_are_there(void **state)
{
    (void)state;
    struct fixture f;
    struct dataset_look look = {0};
    setup(&f, ROWS);
    load(&f, 64, 2);
    const uint64_t bytes = table_bytes(&f.d.table) + ROWS * sizeof(uint32_t);
    assert_int_equal(dataset_look(&look, &f.job, 0, 0, &f.e), ERR_OK);
    assert_in_range(look.bytes, bytes * 4 / 5, bytes * 5 / 4);
    assert_in_range(look.loading_bytes, look.bytes + look.rows * 4 * DOUBLES,
                    look.bytes + look.rows * 4 * DOUBLES);
    teardown(&f);
}

/* Rows of one key, and then of forty; so many times as many that a look reads all, or blocks. */
static void looks_at_longer_rows(int times)
{
    enum { SHORT = 200000, LONG = 40000, KEYS = 40 };
    struct fixture f;
    struct dataset_look look = {0};
    char *text = malloc((size_t)times * (SHORT + LONG * KEYS) * 10), *end = text;
    assert_non_null(text);
    setup(&f, 1);
    for (int row = 0; row < times * (SHORT + LONG); row++) {
        for (int i = row < times * SHORT ? KEYS - 1 : 0; i < KEYS; i++)
            end += sprintf(end, i + 1 < KEYS ? "tag_a " : "tag_a,");
        end += sprintf(end, "1\n");
    }
    idx_files_write(&f.files, "a.csv", (struct bytes){(uint8_t *)text, (size_t)(end - text)});
    free(text);
    set_columns(&f, "keys: {name: tags, separator: ' ', max_values: 64}, label: y", "tags", 64, 1);
    assert_int_equal(dataset_look(&look, &f.job, 0, 0, &f.e), ERR_OK);
    uint64_t bytes = (uint64_t)times * ((SHORT + LONG) * 12 + (SHORT + LONG * KEYS) * UINT64_C(8));
    assert_int_equal(look.estimated, times > 1);
    assert_in_range(look.bytes, bytes * 2 / 3, bytes * 3 / 2);
    teardown(&f);
}

static void a_look_expects_more_keys_of_longer_rows(void **state)
{
    (void)state;
    looks_at_longer_rows(1);
    looks_at_longer_rows(4);
}

/* ---- small pieces, and what fails ---- */

/* Rows come a few at a time, so the budget ends within a chunk; those that were in memory go to the file, too. */
static enum err append_all(struct table *t, uint64_t rows, struct errmsg *e)
{
    enum { AT_A_TIME = 37 };
    const struct table_schema *s = t->schema;
    uint32_t *cells = calloc(AT_A_TIME + 1, schema_raw_cells(s) * sizeof *cells);
    enum err err = ERR_OK;
    assert_non_null(cells);
    for (uint64_t row = 0; row < rows && !err;) {
        uint32_t *at = cells;
        uint64_t n = 0;
        for (; n < AT_A_TIME && row < rows; n++, row++) {
            memset(at, 0, schema_raw_cells(s) * sizeof *at);
            uint32_t *ids = at + schema_keys_at(s) + s->key[KEY_IDS].cell;
            ids[0] = number_of(row, 1, IDS_MOST);
            for (uint32_t i = 0; i < ids[0]; i++)
                ids[1 + 2 * i] = drawn(row, 100 + i);
            schema_put_number(s, at, 0, (double)row);
            at += schema_pack(s, at);
        }
        err = table_append(t, cells, n, e);
    }
    free(cells);
    return err;
}

static enum err fill(struct table *t, const struct job *job, uint64_t rows, struct errmsg *e)
{
    struct pool *pool = NULL;
    *t = (struct table){0};
    enum err err = schema_new(&t->schema, &job->data.csv, e);
    if (!err)
        err = spill_new(&t->spill, job, e);
    if (!err)
        err = pool_new(&pool, 1, e);
    if (!err) {
        table_begin(t);
        err = append_all(t, rows, e);
    }
    if (!err)
        err = table_scale(t, pool, e);
    pool_free(pool);
    return err;
}

static void rows_that_outgrow_memory_within_a_chunk_are_whole_in_the_file(void **state)
{
    (void)state;
    static uint32_t buffer[TABLE_ROW_CELLS_MAX];
    struct fixture f;
    struct table t;
    setup(&f, 1);
    set_job(&f, 1, 1);
    if (fill(&t, &f.job, FEW * 5, &f.e))
        fail_msg("%s", f.e.text);
    uint32_t in_memory = 0, in_file = 0;
    for (uint64_t i = 0; i < t.chunks; i++)
        *(t.chunk[i].cells ? &in_memory : &in_file) += 1;
    assert_true(in_memory > 0 && in_file > 1);
    for (uint64_t row = 0; row < t.rows; row++) {
        const uint32_t *cells;
        uint64_t one = 1;
        assert_int_equal(table_look(&t, row, &one, buffer, TABLE_ROW_CELLS_MAX, &cells, &f.e), 0);
        const uint32_t *ids = table_key_cells(t.schema, &t.schema->key[KEY_IDS], cells);
        assert_true(schema_float(cells[0]) == (float)row);
        assert_int_equal(ids[0], number_of(row, 1, IDS_MOST));
        for (uint32_t i = 0; i < ids[0]; i++)
            assert_int_equal(ids[1 + 2 * i], drawn(row, 100 + i));
    }
    table_close(&t);
    teardown(&f);
}

static void every_failure_of_the_file_and_of_an_allocation_is_reported(void **state)
{
    (void)state;
    struct fixture f;
    struct table t;
    setup(&f, 1);
    set_job(&f, 1, 1);
    int fired = 1, failed = 0;
    for (long n = 0; fired; n += n < 40 ? 1 : 29) {
        spill_fail_at(n, ENOSPC);
        enum err err = fill(&t, &f.job, FEW * 5, &f.e);
        fired = spill_fail_fired();
        spill_fail_at(-1, 0);
        assert_true(fired ? err == ERR_INPUT || err == ERR_DISK : err == ERR_OK);
        failed += err != ERR_OK;
        table_close(&t);
    }
    fired = 1;
    for (long n = 0; fired; n++) {
        mem_fail_at(n);
        enum err err = fill(&t, &f.job, FEW * 5, &f.e);
        fired = mem_fail_fired();
        mem_fail_at(-1);
        assert_int_equal(err, fired ? ERR_NOMEM : ERR_OK);
        failed += fired;
        table_close(&t);
    }
    assert_true(failed > 40);
    teardown(&f);
}

static void a_row_of_which_any_bit_has_changed_is_not_read(void **state)
{
    (void)state;
    static uint32_t buffer[TABLE_ROW_CELLS_MAX];
    struct fixture f;
    const uint64_t row = ROWS - 40;
    setup(&f, ROWS);
    load(&f, 1, 1);
    const struct table *t = &f.d.table;
    const struct table_chunk *c = &t->chunk[t->chunks - 1];
    assert_null(c->cells);
    for (uint64_t r = row; r < row + 3; r++) {
        const uint64_t i = r % t->chunk_rows;
        uint64_t place = c->at + (c->begin[i] + i) * sizeof(uint32_t), n = 1;
        const uint32_t *cells;
        for (uint64_t bit = 8 * place; bit < 8 * (place + (cells_of(r) + 1) * 4); bit++) {
            spill_file_flip((int)bit);
            assert_int_equal(table_look(t, r, &n, buffer, TABLE_ROW_CELLS_MAX, &cells, &f.e),
                             ERR_DISK);
            spill_file_flip((int)bit);
        }
        assert_int_equal(table_look(t, r, &n, buffer, TABLE_ROW_CELLS_MAX, &cells, &f.e), ERR_OK);
    }
    teardown(&f);
}

int main(void)
{
    log_init("table_test", LOG_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_has_its_keys_wherever_it_is),
        cmocka_unit_test(memory_and_file_follow_the_keys_that_are_there),
        cmocka_unit_test(a_look_tells_the_memory_of_the_keys_that_are_there),
        cmocka_unit_test(a_look_expects_more_keys_of_longer_rows),
        cmocka_unit_test(rows_that_outgrow_memory_within_a_chunk_are_whole_in_the_file),
        cmocka_unit_test(every_failure_of_the_file_and_of_an_allocation_is_reported),
        cmocka_unit_test(a_row_of_which_any_bit_has_changed_is_not_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
