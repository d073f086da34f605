/* Columns of values become rows of cells: the same ones from texts and from typed values, as Arrow keeps them; a fault has a
 * row, a column and a cause; and a bit says that a row is absent. No file is read. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <inttypes.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/base/mem.h"
#include "common/base/rng.h"
#include "common/math/kernels.h"
#include "common/math/simd.h"
#include "data/core/rounding.h"
#include "data/meaning/encode.h"
#include "data/text/csv_number.h"

enum { ROWS = 10, COLUMNS = 6, CELLS = 64 };

static const char text[] =
    "model: {input: {shape: auto}, layers: [{linear: {inputs: [user, tags], name: w}}, "
    "{dense: {inputs: [age, town], units: 1, name: d}}, {add: [w, d]}, sigmoid], "
    "loss: binary_crossentropy}\n"
    "optimizer: sgd\n"
    "data: {format: csv, train: a, missing: [''], columns: [label: y, number: {name: age, scale: "
    "standard}, category: town, key: {name: user, hash: false, missing: none}, keys: {name: tags, "
    "hash: false, missing: none, separator: ' ', max_values: 3, weights: true}, weight: w]}\n";

struct fixture {
    struct job job;
    struct table_schema *schema;
    struct meaning meaning;
    struct learned learned;
    struct meaning_field field[COLUMNS];
    struct batch_column column[COLUMNS];
    struct column_batch batch;
    uint32_t cells[ROWS * CELLS];
    uint8_t present[2];
    struct encoded_rows out;
    struct errmsg e;
};

/* Rows of texts; each column has its own. */
static void set_texts(struct fixture *f, uint32_t column, const struct batch_text *of)
{
    f->column[column] = (struct batch_column){.type = BATCH_TEXTS, .values = of};
}

#define T(s)                                                                                       \
    {                                                                                              \
        s, sizeof(s) - 1                                                                           \
    }
static const struct batch_text labels[ROWS] = {T("0"), T("1"), T("0"), T("1"), T("0"),
                                               T("1"), T("0"), T("1"), T("0"), T("1")};
static const struct batch_text ages[ROWS] = {T("1.5"), T(""),   T("3"), T("1e3"), T("-7"),
                                             T("0.1"), T("12"), T("8"), T("9"),   T("10")};
static const struct batch_text towns[ROWS] = {T("a"), T("b"), T("a"), T(""),  T("c"),
                                              T("d"), T("a"), T("e"), T("b"), T("f")};
static const struct batch_text users[ROWS] = {T("7"), T("8"),  T("9"),  T("10"), T("11"),
                                              T("3"), T("13"), T("14"), T("15"), T("16")};
static const struct batch_text tags[ROWS] = {T("1:0.5 2"), T("3:-2"),   T("4 5 6"),  T("7"),
                                             T("8:2"),     T("9 1:3"),  T("5:0.25"), T("6"),
                                             T("2:8 3"),   T("1 2:4 3")};
static const struct batch_text weights[ROWS] = {T("1"), T("2"), T("0"), T("1"), T("3"),
                                                T("1"), T("1"), T("2"), T("1"), T("1")};

static void setup(struct fixture *f)
{
    *f = (struct fixture){.e = {""}};
    if (job_parse(&f->job, text, sizeof text - 1, "j.yaml", "/", NULL, 0, &f->e) ||
        schema_new(&f->schema, &f->job.data.csv, &f->e) ||
        meaning_init(&f->meaning, &f->job.data.csv, f->schema, true, 2, &f->e))
        fail_msg("%s", f->e.text);
    assert_int_equal(learned_init(&f->learned, f->schema, true, true), ERR_OK);
    struct meaning_field *all = meaning_fields_new(&f->job.data.csv);
    memcpy(f->field, all, sizeof f->field);
    mem_free(all);
    set_texts(f, 0, labels);
    set_texts(f, 1, ages);
    set_texts(f, 2, towns);
    set_texts(f, 3, users);
    set_texts(f, 4, tags);
    set_texts(f, 5, weights);
    f->batch = (struct column_batch){.rows = ROWS, .columns = COLUMNS, .column = f->column};
    assert_true(schema_raw_cells(f->schema) <= CELLS);
}

static void teardown(struct fixture *f)
{
    learned_close(&f->learned, f->schema->inputs);
    meaning_close(&f->meaning);
    schema_unref(f->schema);
    job_close(&f->job);
}

static void encode(struct fixture *f)
{
    learned_clear(&f->learned, f->schema->inputs);
    memset(f->cells, 0xff, sizeof f->cells);
    f->out = (struct encoded_rows){.cells = f->cells, .present = f->present};
    assert_int_equal(encode_batch(&f->meaning, f->field, &f->batch, 0, &f->learned, &f->out),
                     ERR_OK);
}

static const uint32_t *row_at(const struct fixture *f, uint32_t row)
{
    const uint32_t *cells = f->cells;
    for (; row > 0; row--)
        cells += schema_packed_raw_cells(f->schema, cells);
    return cells;
}

static const char *why(const struct fixture *f)
{
    static char out[MEANING_WHY_BYTES];
    meaning_why(&f->meaning, &f->out.first, NULL, out);
    return out;
}

static void typed_values_have_the_cells_of_the_same_values_as_text(void **state)
{
    static const double numbers[ROWS] = {1.5, -1, 3, 1e3, -7, 0.1, 12, 8, 9, 10};
    static const uint8_t there[] = {0xfd, 0xff}; /* all but row 1 */
    static const uint64_t keys[ROWS] = {7, 8, 9, 10, 11, 3, 13, 14, 15, 16};
    static const int32_t list[ROWS + 1] = {0, 2, 3, 6, 7, 8, 10, 11, 12, 14, 17};
    static const uint64_t of_lists[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 5, 6, 2, 3, 1, 2, 3};
    static const float weight[] = {0.5F, 1, -2, 1, 1, 1, 1, 2, 1, 3, 0.25F, 1, 8, 1, 1, 4, 1};
    struct fixture f;
    uint32_t cells[ROWS * CELLS];
    (void)state;
    setup(&f);
    encode(&f);
    assert_int_equal(f.out.first.row, MEANING_NO_ROW);
    const size_t used = f.out.used;
    memcpy(cells, f.cells, used * sizeof *cells);
    f.column[1] = (struct batch_column){.type = BATCH_DOUBLES, .values = numbers, .valid = there};
    f.column[3] = (struct batch_column){.type = BATCH_KEYS, .values = keys};
    f.column[4] = (struct batch_column){
        .type = BATCH_KEYS, .values = of_lists, .list = list, .weight = weight};
    encode(&f);
    assert_int_equal(f.out.first.row, MEANING_NO_ROW);
    assert_int_equal(f.out.used, used);
    assert_memory_equal(f.cells, cells, used * sizeof *cells);
    teardown(&f);
}

static void an_integer_is_hashed_as_its_text(void **state)
{
    static const int64_t integer[ROWS] = {7,         -8, 0,   1234567890, INT64_MIN,
                                          INT64_MAX, 99, 100, 10,         -1};
    struct batch_text some[ROWS];
    char shown[ROWS][24];
    struct fixture f;
    uint32_t cells[ROWS * CELLS];
    (void)state;
    setup(&f);
    f.schema->key[0].options.hash = true;
    for (uint32_t i = 0; i < ROWS; i++)
        some[i] = (struct batch_text){
            shown[i], (size_t)snprintf(shown[i], sizeof shown[i], "%" PRId64, integer[i])};
    set_texts(&f, 3, some);
    encode(&f);
    memcpy(cells, f.cells, f.out.used * sizeof *cells);
    f.column[3] = (struct batch_column){.type = BATCH_INTEGERS, .values = integer};
    encode(&f);
    assert_memory_equal(f.cells, cells, f.out.used * sizeof *cells);
    teardown(&f);
}

static void places_in_a_dictionary_have_the_cells_of_its_words(void **state)
{
    static const struct batch_text word[] = {T("x"), T(""), T("7")};
    static const int32_t place[ROWS] = {2, 1, 0, 0, 2, 1, 0, 2, 1, 0};
    static const uint8_t there[] = {0xEB, 0xFD};
    const struct batch_column words = {.type = BATCH_TEXTS, .values = word};
    (void)state;
    for (int missing = 0; missing < 2; missing++) {
        struct batch_codes codes = {.key = NULL};
        struct batch_text some[ROWS];
        struct fixture f;
        uint32_t cells[ROWS * CELLS];
        setup(&f);
        f.schema->key[0].options.hash = true;
        f.schema->key[0].options.missing = missing ? KEY_MISSING_NONE : KEY_MISSING_EMPTY;
        for (uint32_t i = 0; i < ROWS; i++)
            some[i] = word[place[i]];
        set_texts(&f, 3, some);
        f.column[3].valid = there;
        encode(&f);
        memcpy(cells, f.cells, f.out.used * sizeof *cells);
        assert_int_equal(encode_codes(&f.meaning, 0, &words, 3, &codes), ERR_OK);
        assert_int_equal(codes.none != NULL, missing);
        f.column[3] = (struct batch_column){
            .type = BATCH_CODES, .values = place, .codes = &codes, .valid = there};
        encode(&f);
        assert_memory_equal(f.cells, cells, f.out.used * sizeof *cells);
        mem_free(codes.key);
        mem_free(codes.none);
        teardown(&f);
    }
}

static void views_of_one_text_have_the_cells_of_texts_apart(void **state)
{
    static const char line[] = "7,8,9,10,11,3,13,14,15,16,       ";
    struct batch_view view[ROWS];
    struct fixture f;
    uint32_t cells[ROWS * CELLS], at = 0;
    (void)state;
    setup(&f);
    encode(&f);
    memcpy(cells, f.cells, f.out.used * sizeof *cells);
    for (uint32_t i = 0; i < ROWS; at += (uint32_t)users[i++].bytes + 1)
        view[i] = (struct batch_view){at, (uint32_t)users[i].bytes};
    f.column[3] = (struct batch_column){.type = BATCH_VIEWS, .values = view, .base = line};
    encode(&f);
    assert_memory_equal(f.cells, cells, f.out.used * sizeof *cells);
    teardown(&f);
}

static void a_missing_key_leaves_nothing_of_what_its_cells_had(void **state)
{
    static const uint8_t there[] = {0xfd, 0xff}; /* all but row 1 */
    static const uint32_t none[SCHEMA_KEY_CELLS + 1];
    struct batch_text some[ROWS];
    struct fixture f;
    (void)state;
    setup(&f);
    memcpy(some, users, sizeof users);
    some[2] = (struct batch_text)T("");
    set_texts(&f, 3, some);
    f.column[3].valid = there;
    encode(&f);
    for (uint32_t row = 0; row < 3; row++) {
        const uint32_t *cells = table_key_cells(f.schema, &f.schema->key[0], row_at(&f, row));
        assert_int_equal(cells[SCHEMA_KEY_CELLS], row == 0);
        if (row > 0)
            assert_memory_equal(cells, none, sizeof none);
    }
    teardown(&f);
}

/* Views of numbers and of hashed keys are encoded a column at a time, texts apart by the rules for one value. The last view of a
 * row is a number's. */
static const char clicks[] =
    "model: {input: {shape: auto}, layers: [{linear: {inputs: [p, q, r], name: w}},\n"
    "  {dense: {inputs: [a, b, c, d], units: 1, name: n}}, {add: [w, n]}, sigmoid],\n"
    "  loss: binary_crossentropy}\n"
    "optimizer: sgd\n"
    "data: {format: csv, train: a, missing: %s, columns: [label: y, key: p,\n"
    "  key: {name: q, missing: none, buckets: 1000}, key: {name: r, buckets: 7},\n"
    "  number: {name: b, scale: log1p}, number: {name: c, missing: refuse},\n"
    "  number: {name: d, buckets: log_squared, missing: {value: 2}}, number: a]}\n";
enum { CLICK_COLUMNS = 8, CLICK_CELLS = 40, RUNS = 1000 };

struct clicks {
    char line[ENCODE_ROWS * CLICK_COLUMNS * 16];
    struct batch_view view[CLICK_COLUMNS][ENCODE_ROWS];
    struct batch_text apart[CLICK_COLUMNS][ENCODE_ROWS];
    uint32_t cells[2][ENCODE_ROWS * CLICK_CELLS];
    uint8_t present[2][ENCODE_ROWS / 8], absent[ENCODE_ROWS / 8];
};

static size_t random_value(char *out, uint64_t bits, bool good)
{
    static const char *const values[] = {
        "",         "-1",   "7",   "-0",     "12345678", "NA",   "00", "123456789",
        "-1234567", "3e38", "0.5", "a3f09c", "68fd1e64", "1e39", " 5", "-12345678"};
    const bool number = bits & 3 || good;
    if (bits >> 2 & 1)
        return (size_t)sprintf(out, "%u", (unsigned)(bits >> 8 & 0xffffffff) >> (bits >> 40 & 31));
    return (size_t)sprintf(out, "%s", values[number ? bits >> 4 & 3 : bits >> 4 & 15]);
}

/* *base: where the line stands. Before `end` CSV_DIGITS_MAX bytes can be read from the last view on, or it and one more. */
static uint32_t random_rows(struct clicks *c, uint64_t run, char *end, const char **base)
{
    const uint32_t rows = 1 + (uint32_t)(rng_u64(run, 0) % ENCODE_ROWS);
    char *to = c->line;
    size_t n = 0;
    memset(c->absent, 0, sizeof c->absent);
    for (uint32_t row = 0; row < rows; row++) {
        const bool good = rng_u64(run, 1 + row) & 3;
        if (!(rng_u64(run, 1 + row) >> 2 & 15))
            batch_set_bit(c->absent, row);
        for (uint32_t i = 0; i < CLICK_COLUMNS; i++) {
            uint64_t bits = rng_u64(run, 100 + row * CLICK_COLUMNS + i);
            n = i > 0 ? random_value(to, bits, good)
                      : (size_t)sprintf(to, "%u", (unsigned)bits & 1);
            c->view[i][row] = (struct batch_view){(uint32_t)(to - c->line), (uint32_t)n};
            c->apart[i][row] = (struct batch_text){to, n};
            to += n + 1;
        }
    }
    const size_t last = (size_t)(to - c->line) - n - 1;
    end -= last + (n < CSV_DIGITS_MAX ? CSV_DIGITS_MAX : n + 1);
    *base = memcpy(end, c->line, last + n + 1);
    return rows;
}

static void columns_of_views_have_the_cells_of_values_alone(void **state)
{
    static const char *const missing[] = {"['']", "['', '-1', NA]", "[NA, '7', a3f09c]"};
    struct clicks *c = calloc(1, sizeof *c);
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), room = sizeof c->line / page * page + page;
    char *pages =
        mmap(NULL, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    (void)state;
    assert_non_null(c);
    assert_true(pages != MAP_FAILED && mprotect(pages + room, page, PROT_NONE) == 0);
    for (uint64_t run = 0; run < RUNS; run++) {
        char job[sizeof clicks + 32];
        struct fixture f = {.e = {""}};
        struct meaning_field field[CLICK_COLUMNS];
        struct batch_column views[CLICK_COLUMNS], texts[CLICK_COLUMNS];
        struct learned other;
        int n = snprintf(job, sizeof job, clicks, missing[run % 3]);
        if (job_parse(&f.job, job, (size_t)n, "j.yaml", "/", NULL, 0, &f.e) ||
            schema_new(&f.schema, &f.job.data.csv, &f.e) ||
            meaning_init(&f.meaning, &f.job.data.csv, f.schema, true, 2, &f.e))
            fail_msg("%s", f.e.text);
        const bool spelled = run & 4;
        assert_int_equal(learned_init(&f.learned, f.schema, run & 8, spelled), ERR_OK);
        assert_int_equal(learned_init(&other, f.schema, run & 8, spelled), ERR_OK);
        assert_true(schema_raw_cells(f.schema) <= CLICK_CELLS);
        const char *base;
        const uint32_t rows = random_rows(c, run, pages + room, &base);
        struct meaning_field *all = meaning_fields_new(&f.job.data.csv);
        memcpy(field, all, sizeof field);
        mem_free(all);
        for (uint32_t i = 0; i < CLICK_COLUMNS; i++) {
            views[i] =
                (struct batch_column){.type = BATCH_VIEWS, .values = c->view[i], .base = base};
            texts[i] = (struct batch_column){.type = BATCH_TEXTS, .values = c->apart[i]};
        }
        struct column_batch a = {rows, CLICK_COLUMNS, views, c->absent}, b = a;
        struct encoded_rows out[2] = {{.cells = c->cells[0], .present = c->present[0]},
                                      {.cells = c->cells[1], .present = c->present[1]}};
        b.column = texts;
        assert_int_equal(encode_batch(&f.meaning, field, &a, 5, &f.learned, &out[0]), ERR_OK);
        assert_int_equal(encode_batch(&f.meaning, field, &b, 5, &other, &out[1]), ERR_OK);
        if (out[0].used != out[1].used ||
            memcmp(c->cells[0], c->cells[1], out[0].used * sizeof *c->cells[0]) != 0 ||
            memcmp(c->present[0], c->present[1], (a.rows + 7) / 8) != 0 ||
            out[0].first.row != out[1].first.row || out[0].first.cause != out[1].first.cause ||
            memcmp(f.learned.seen, other.seen, f.schema->inputs) != 0)
            fail_msg("run %d", (int)run);
        for (uint32_t i = 0; i < f.schema->inputs && f.learned.rounding; i++) {
            const struct rounding *noted = f.learned.rounding[i];
            assert_int_equal(!noted, !other.rounding[i]);
            if (noted)
                assert_memory_equal(noted, other.rounding[i], sizeof *noted);
        }
        for (uint32_t i = 0; i < f.schema->inputs + 2 && spelled; i++)
            assert_memory_equal(&f.learned.spelled[i], &other.spelled[i], sizeof *other.spelled);
        for (uint32_t i = 0; i < f.learned.keys; i++)
            assert_int_equal(f.learned.key_words[i].count, other.key_words[i].count);
        learned_close(&other, f.schema->inputs);
        teardown(&f);
    }
    assert_int_equal(munmap(pages, room + page), 0);
    free(c);
}

static void the_first_fault_of_the_first_bad_row_is_told(void **state)
{
    struct batch_text wrong_ages[ROWS], wrong_users[ROWS];
    struct fixture f;
    (void)state;
    setup(&f);
    memcpy(wrong_ages, ages, sizeof ages);
    memcpy(wrong_users, users, sizeof users);
    wrong_ages[6] = (struct batch_text)T("4x");
    wrong_users[4] = (struct batch_text)T("bob");
    wrong_users[6] = (struct batch_text)T("eve");
    set_texts(&f, 1, wrong_ages);
    set_texts(&f, 3, wrong_users);
    encode(&f);
    assert_int_equal(f.out.first.row, 4);
    assert_int_equal(f.out.first.column, 3);
    assert_int_equal(f.out.first.cause, CAUSE_KEY);
    assert_non_null(strstr(why(&f), "\"bob\" is not an integer from 0"));
    set_texts(&f, 3, users);
    encode(&f);
    assert_int_equal(f.out.first.row, 6);
    assert_int_equal(f.out.first.column, 1);
    assert_string_equal(why(&f), "\"4x\" is not a number; use data.missing if it marks a missing "
                                 "value");
    teardown(&f);
}

static void a_value_that_its_reader_cannot_make_is_a_fault_in_its_turn(void **state)
{
    static const uint8_t unreadable[] = {1 << 2, 1 << 0}; /* rows 2 and 8 */
    struct batch_text wrong[ROWS];
    struct fixture f;
    (void)state;
    setup(&f);
    memcpy(wrong, ages, sizeof ages);
    wrong[2] = (struct batch_text)T("x");
    set_texts(&f, 1, wrong);
    f.column[3].unreadable = unreadable;
    encode(&f);
    assert_int_equal(f.out.first.row, 2);
    assert_int_equal(f.out.first.cause, CAUSE_NUMBER);
    set_texts(&f, 1, ages);
    encode(&f);
    assert_int_equal(f.out.first.row, 2);
    assert_int_equal(f.out.first.column, 3);
    assert_int_equal(f.out.first.cause, CAUSE_UNREADABLE);
    assert_false(batch_bit(f.present, 8));
    teardown(&f);
}

static void a_label_or_weight_that_is_null_is_missing(void **state)
{
    static const uint8_t there[] = {0xf7, 0xff}; /* all but row 3 */
    static const enum meaning_cause cause[] = {CAUSE_LABEL_MISSING, CAUSE_WEIGHT_MISSING};
    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        struct fixture f;
        setup(&f);
        f.column[i ? 5 : 0].valid = there;
        encode(&f);
        assert_int_equal(f.out.first.row, 3);
        assert_int_equal(f.out.first.cause, cause[i]);
        assert_string_equal(why(&f), i ? "the weight is missing" : "the label is missing");
        assert_false(batch_bit(f.present, 3));
        teardown(&f);
    }
}

static void a_row_that_is_absent_is_told_by_a_bit_and_teaches_nothing(void **state)
{
    static const uint8_t absent[] = {1 << 4,
                                     1 << 1}; /* rows 4 and 9, which alone have the words c and f */
    struct batch_text wrong[ROWS];
    struct fixture f;
    (void)state;
    setup(&f);
    memcpy(wrong, users, sizeof users);
    wrong[5] =
        (struct batch_text)T("bob"); /* of the row that alone has the word d, before this column */
    set_texts(&f, 3, wrong);
    f.batch.absent = absent;
    encode(&f);
    for (uint32_t row = 0; row < ROWS; row++) {
        const bool there = row != 4 && row != 5 && row != 9;
        const uint32_t *cells = row_at(&f, row);
        assert_int_equal(batch_bit(f.present, row), there);
        assert_int_equal(isnan(schema_float(cells[f.schema->inputs])) == 0, there);
        assert_true(there || cells[0] == 0);
    }
    const struct vocabulary *words = &f.learned.words[1];
    assert_int_equal(words->count, 4); /* a, b, the missing one, e */
    assert_int_equal(vocabulary_find(words, "c", 1), VOCABULARY_NONE);
    assert_int_equal(vocabulary_find(words, "d", 1), VOCABULARY_NONE);
    assert_int_equal(vocabulary_find(words, "e", 1), 3);
    teardown(&f);
}

static void a_weight_of_zero_is_another_thing_than_an_absent_row(void **state)
{
    struct fixture f;
    (void)state;
    setup(&f);
    encode(&f);
    const uint32_t *cells = row_at(&f, 2);
    assert_true(batch_bit(f.present, 2));
    assert_true(schema_float(cells[f.schema->inputs]) == 0);
    assert_true(schema_float(cells[f.schema->inputs + 1]) == 0);
    teardown(&f);
}

/* ---- many numbers of a row at a time ---- */

enum { MANY = 24, MANY_ROWS = 300, MANY_CELLS = 2 * MANY + 8 };

static const char many_text[] =
    "model: {input: {shape: auto}, layers: [{dense: {units: 1}}, sigmoid], loss: "
    "binary_crossentropy}\noptimizer: sgd\n"
    "data: {format: csv, train: a, missing: [''], columns: [label: y, "
    "number: {name: 'a{1..13}', scale: standard}, category: {name: c, vocabulary: [x, z]}, "
    "number: {name: 'b{1..3}', missing: {value: 2}}, number: {name: l, scale: log1p}, number: "
    "{name: m, scale: "
    "min_max, missing: {value: -3}}, number: {name: 'q{1..2}', buckets: {borders: [0, 2.5]}}, "
    "number: {name: 'd{1..3}', scale: min_max}]}\n";

static double many_number(uint64_t row, uint32_t i)
{
    static const double rare[] = {NAN, -0.0, 0, 5e-324, -1e-310, 1e-42, INFINITY, 1e300, 3.5, -7};
    const uint64_t bits = rng_u64(rng_key(1, RNG_TEST, row, i), 0);
    return bits % 5 == 0 ? rare[bits / 5 % 10] : (double)(int32_t)bits / 1000;
}

/* The moments of a row are added one after another. */
static void add_plainly(struct number_moments *m, const double *mean, const double *v)
{
    for (uint32_t i = 0; i < MANY; i++) {
        if (isnan(v[i]))
            continue;
        const double off = fabs((double)(float)v[i] - v[i]);
        m[i].count += isfinite(v[i]);
        m[i].sum += v[i];
        m[i].min = schema_pick(v[i] < m[i].min, v[i], m[i].min);
        m[i].max = schema_pick(v[i] > m[i].max, v[i], m[i].max);
        m[i].rounding = off > m[i].rounding ? off : m[i].rounding;
        m[i].offset += v[i] - mean[i];
        m[i].squares += (v[i] - mean[i]) * (v[i] - mean[i]);
    }
}

static void put_many(const struct table_schema *s, uint64_t row, uint32_t *cells, double *v)
{
    memset(cells, 0, MANY_CELLS * sizeof *cells);
    for (uint32_t i = 0; i < MANY; i++) {
        v[i] = s->input[i].kind == COLUMN_NUMBER ? many_number(row, i) : NAN;
        if (s->input[i].kind == COLUMN_NUMBER)
            schema_put_double(&cells[i], schema_high_of(s, i), v[i]);
        if (!s->input[i].wide)
            v[i] = (double)(float)v[i];
    }
}

/* The bits are those of single numbers, also where denormal ones are flushed, as in the threads of a job. */
static void check_many(const struct table_schema *s)
{
    static uint32_t cells[MANY_CELLS], plain[MANY_CELLS];
    static double moments[MOMENTS * 2 * MANY], mean[2 * MANY], v[2 * MANY], read[2 * MANY];
    struct number_moments m[MANY];
    struct numbers x;
    assert_int_equal(numbers_init(&x, s), ERR_OK);
    assert_in_range(numbers_padded(MANY), MANY, 2 * MANY);
    numbers_begin(moments, MANY);
    for (uint32_t i = 0; i < 2 * MANY; i++)
        v[i] = read[i] = NAN, mean[i] = 0.125 * i;
    for (uint32_t i = 0; i < MANY; i++)
        m[i] = (struct number_moments){.min = INFINITY, .max = -INFINITY};
    for (uint64_t row = 0; row < MANY_ROWS; row++) {
        put_many(s, row, cells, v);
        memcpy(plain, cells, sizeof plain);
        numbers_read(&x, cells, schema_high_cells(s, cells), read);
        for (uint32_t i = 0; i < MANY; i++)
            assert_true(isnan(v[i]) ? isnan(read[i]) : !memcmp(&v[i], &read[i], sizeof *v));
        add_plainly(m, mean, v);
        numbers_add(moments, read, MANY);
        numbers_add_squares(moments, mean, read, MANY);
        numbers_scale(&x, s, cells, read);
        schema_scale_row(s, plain);
        assert_memory_equal(cells, plain, sizeof plain);
    }
    for (uint32_t i = 0; i < MANY; i++) {
        const struct number_moments got = numbers_moments(moments, MANY, i);
        assert_true(got.count == m[i].count &&
                    (got.count > 0) == (s->input[i].kind == COLUMN_NUMBER));
        assert_memory_equal(&got.min, &m[i].min, sizeof got.min);
        assert_memory_equal(&got.max, &m[i].max, sizeof got.max);
        assert_memory_equal(&got.rounding, &m[i].rounding, sizeof got.rounding);
        assert_true(isnan(m[i].sum) ? isnan(got.sum) : got.sum == m[i].sum);
        assert_true(isnan(m[i].squares) ? isnan(got.squares) : got.squares == m[i].squares);
        assert_true(isnan(m[i].offset) ? isnan(got.offset) : got.offset == m[i].offset);
    }
    numbers_close(&x);
}

static void many_numbers_have_the_bits_of_single_ones(void **state)
{
    struct job job;
    struct table_schema *s = NULL;
    struct errmsg e = {""};
    (void)state;
    if (job_parse(&job, many_text, sizeof many_text - 1, "j.yaml", "/", NULL, 0, &e) ||
        schema_new(&s, &job.data.csv, &e))
        fail_msg("%s", e.text);
    assert_int_equal(s->inputs, MANY);
    for (uint32_t i = 0; i < MANY; i++)
        if (s->input[i].kind == COLUMN_NUMBER)
            schema_learn_number(
                &s->input[i],
                &(struct number_moments){.count = 9, .squares = 5e3 * i, .min = -7, .max = i}, i);
    for (int level = KERNELS_BASE; level <= KERNELS_AVX512; level++) {
        if (!kernels_use((enum kernels_level)level))
            continue;
        check_many(s);
        const unsigned was = simd_flush();
        check_many(s);
        simd_restore(was);
    }
    schema_unref(s);
    job_close(&job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(typed_values_have_the_cells_of_the_same_values_as_text),
        cmocka_unit_test(an_integer_is_hashed_as_its_text),
        cmocka_unit_test(places_in_a_dictionary_have_the_cells_of_its_words),
        cmocka_unit_test(views_of_one_text_have_the_cells_of_texts_apart),
        cmocka_unit_test(a_missing_key_leaves_nothing_of_what_its_cells_had),
        cmocka_unit_test(columns_of_views_have_the_cells_of_values_alone),
        cmocka_unit_test(the_first_fault_of_the_first_bad_row_is_told),
        cmocka_unit_test(a_value_that_its_reader_cannot_make_is_a_fault_in_its_turn),
        cmocka_unit_test(a_label_or_weight_that_is_null_is_missing),
        cmocka_unit_test(a_row_that_is_absent_is_told_by_a_bit_and_teaches_nothing),
        cmocka_unit_test(a_weight_of_zero_is_another_thing_than_an_absent_row),
        cmocka_unit_test(many_numbers_have_the_bits_of_single_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
