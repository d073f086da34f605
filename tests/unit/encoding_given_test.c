#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/idx_files.h"
#include "data/dataset.h"
#include "data/meaning/encoding_given.h"
#include "export/export.h"
#include "tests/lib/gathered.h"

/* ---- a job, a file, and what is read of it ---- */

struct fixture {
    struct idx_files files;
    struct job job;
    struct dataset d;
    struct errmsg e;
};

/* `columns`: the list of data.columns, without the label; `missing`: the list of data.missing. */
static void setup_missing(struct fixture *f, const char *columns, const char *missing)
{
    char text[4096];
    *f = (struct fixture){.e = {""}};
    idx_files_init(&f->files);
    snprintf(text, sizeof text,
             "model: {input: {shape: auto}, layers: [dense: 1], loss: mse}\noptimizer: sgd\n"
             "worker: {threads: 2}\n"
             "data: {format: csv, train: '%s/a.csv', missing: [%s], columns: [%s, label: y]}\n",
             f->files.dir, missing, columns);
    if (job_parse(&f->job, text, strlen(text), "j.yaml", "/", NULL, 0, &f->e))
        fail_msg("%s", f->e.text);
}

static void setup(struct fixture *f, const char *columns)
{
    setup_missing(f, columns, "'', '?'");
}

static void teardown(struct fixture *f)
{
    dataset_close(&f->d);
    job_close(&f->job);
    idx_files_close(&f->files);
}

static enum err load(struct fixture *f, const char *rows, size_t bytes, const char *text,
                     bool extends)
{
    const struct encoding_given g = {text, text ? strlen(text) : 0, "cut 7", extends};
    idx_files_write(&f->files, "a.csv", (struct bytes){(uint8_t *)(uintptr_t)rows, bytes});
    dataset_close(&f->d);
    return dataset_load_given(&f->d, &f->job, text ? &g : NULL, 0, &f->e);
}

static void loads(struct fixture *f, const char *rows, const char *text, bool extends)
{
    if (load(f, rows, strlen(rows), text, extends))
        fail_msg("%s", f->e.text);
}

/* The caller's. */
static char *encoding_of(struct fixture *f)
{
    char *text = NULL;
    assert_int_equal(export_encoding_text(&f->job, f->d.table.schema, &text, &f->e), ERR_OK);
    return text;
}

/* The encoding that `columns` learned from `rows`. */
static char *learned(const char *columns, const char *rows)
{
    struct fixture f;
    setup(&f, columns);
    loads(&f, rows, NULL, false);
    char *text = encoding_of(&f);
    teardown(&f);
    return text;
}

static float feature(const struct dataset *d, uint64_t row, uint32_t feature)
{
    float x[64], y;
    uint32_t there;
    assert_true(d->features <= 64 && feature < d->features);
    assert_int_equal(gathered_rows(d, &row, 1, x, &y, &there, NULL), ERR_OK);
    return x[feature];
}

static void refuses(const char *columns, const char *rows, const char *text, enum err wanted,
                    const char *why)
{
    struct fixture f;
    setup(&f, columns);
    assert_int_equal(load(&f, rows, strlen(rows), text, true), wanted);
    if (!strstr(f.e.text, why))
        fail_msg("'%s' is not in '%s'", why, f.e.text);
    teardown(&f);
}

/* ---- tests ---- */

static const char EVERY[] =
    "number: {name: a, scale: standard}, number: {name: b, scale: min_max, missing: refuse}, "
    "number: {name: c, scale: log1p, missing: {value: 2}}, "
    "number: {name: d, buckets: {quantiles: 3}}, "
    "number: {name: e, buckets: log_squared, encode: id}, "
    "number: {name: f, buckets: {borders: [1.5, 3]}, missing: refuse}, category: {name: g}, "
    "category: {name: h, encode: id}, category: {name: i, vocabulary: [S, M]}";

static void what_was_learned_is_taken_to_the_bit_whatever_the_rows_are(void **state)
{
    (void)state;
    struct fixture f;
    const char first[] = "0.1,1,1,1,-7,1,\xff!,x,S,0\n0.7,5,?,2,9,2,\"a\"\"b\",y,M,1\n"
                         "?,3,4,3,100,5,z\0z,,L,1\n";
    const char other[] = "50,90,1,7,1000,9,a\"b,q,M,0\n?,-2,8,7,-3,0,new,y,S,1\n";
    setup(&f, EVERY);
    if (load(&f, first, sizeof first - 1, NULL, false))
        fail_msg("%s", f.e.text);
    char *text = encoding_of(&f);
    f.job.data.csv.quotes = false;
    if (load(&f, other, sizeof other - 1, text, false))
        fail_msg("%s", f.e.text);
    assert_true(f.d.table.schema->taught);
    char *again = encoding_of(&f);
    assert_string_equal(again, text);
    free(text);
    free(again);
    teardown(&f);
}

static void kept_words_have_their_numbers_and_new_ones_none(void **state)
{
    (void)state;
    const char columns[] = "category: {name: town, encode: id}";
    struct fixture f;
    char *text = learned(columns, "Rome,0\nOslo,1\n");
    setup(&f, columns);
    loads(&f, "Lima,0\nOslo,1\nRome,1\n", text, false);
    assert_true(feature(&f.d, 0, 0) == 0 && feature(&f.d, 1, 0) == 2 && feature(&f.d, 2, 0) == 1);
    free(text);
    teardown(&f);
}

static void new_words_are_numbered_behind_the_others_and_that_again_changes_nothing(void **state)
{
    (void)state;
    const char columns[] = "category: {name: town, encode: id}";
    const char rows[] = "Lima,0\nOslo,1\nRome,1\nCali,0\n";
    struct fixture f;
    char *text = learned(columns, "Rome,0\nOslo,1\n");
    setup(&f, columns);
    loads(&f, rows, text, true);
    assert_true(feature(&f.d, 0, 0) == 3 && feature(&f.d, 1, 0) == 2 && feature(&f.d, 2, 0) == 1 &&
                feature(&f.d, 3, 0) == 4);
    assert_int_equal(f.d.table.schema->input[0].known, 2);
    char *grown = encoding_of(&f);
    loads(&f, rows, grown, true);
    char *again = encoding_of(&f);
    assert_string_equal(again, grown);
    free(text);
    free(grown);
    free(again);
    teardown(&f);
}

/* That no row lacks a column is true of all rows that the model has learned. Keys: keys_test. */
static void a_column_stays_complete_until_a_row_lacks_it(void **state)
{
    (void)state;
    static const char columns[] = "category: {name: c, vocabulary: [S, M]}";
    static const char *const rows[] = {"S,0\nM,1\n", "S,0\n,1\n"};
    char *text[] = {learned(columns, rows[0]), learned(columns, rows[1])};
    assert_non_null(strstr(text[0], "\"complete\": true"));
    assert_null(strstr(text[1], "complete"));
    for (int k = 0; k < 4; k++) {
        struct fixture f;
        setup(&f, columns);
        loads(&f, rows[k % 2], text[k / 2], false);
        char *now = encoding_of(&f);
        assert_string_equal(now, text[k > 0]);
        free(now);
        teardown(&f);
    }
    free(text[0]);
    free(text[1]);
}

static void scales_stay(void **state)
{
    (void)state;
    const char columns[] = "number: {name: age, scale: min_max}";
    struct fixture f;
    char *text = learned(columns, "10,0\n20,1\n?,1\n");
    setup(&f, columns);
    loads(&f, "40,0\n?,1\n", text, true);
    assert_true(feature(&f.d, 0, 0) == 3 && feature(&f.d, 1, 0) == 0.5f);
    free(text);
    teardown(&f);
}

static void a_missing_value_stays_the_word_that_it_was(void **state)
{
    (void)state;
    static const char town[] = "category: {name: town, encode: id}", rows[] = "Rome,0\n,1\nNA,1\n";
    struct fixture f;
    char *text = learned(town, "Rome,0\n?,1\n");
    setup_missing(&f, town, "'', 'NA'");
    loads(&f, rows, text, true);
    assert_true(feature(&f.d, 1, 0) == 2 && feature(&f.d, 2, 0) == 2);
    teardown(&f);
    setup_missing(&f, town, "'NA', ''");
    assert_int_equal(load(&f, rows, strlen(rows), text, true), ERR_INPUT);
    assert_string_equal(
        f.e.text,
        "data.train: input column 1 (town): a missing value is the word \"NA\", the first text "
        "of data.missing, but the word \"\" in cut 7, with which the weights were "
        "learned: write that text first in data.missing");
    teardown(&f);
    free(text);
    text = learned("number: a", "1,0\n?,1\n");
    setup_missing(&f, "number: a", "'NA', ''"); /* has no such word */
    loads(&f, "1,0\nNA,1\n", text, true);
    teardown(&f);
    free(text);
}

static void another_column_is_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *was, *is, *why;
    } cases[] = {
        {"number: a", "number: b", "input column 1 (b): its name differs from that of cut 7"},
        {"number: a", "category: a", "(a): its kind differs"},
        {"number: a", "number: a, number: b", "has 2 input columns, but cut 7"},
        {"number: a, number: b", "number: a, ignore", "has 1 input columns"},
        {"number: {name: a, scale: standard}", "number: a", "(a): its scale differs"},
        {"number: {name: a, scale: log2}", "number: a", "(a): its scale differs"},
        {"number: {name: a, missing: refuse}", "number: a", "(a): its value for a missing number"},
        {"number: a", "number: {name: a, buckets: {quantiles: 2}}", "(a): its kind of buckets"},
        {"number: {name: a, buckets: log_squared}", "number: {name: a, buckets: {quantiles: 2}}",
         "(a): its kind of buckets"},
        {"number: {name: a, buckets: {borders: [1, 2]}}",
         "number: {name: a, buckets: {borders: [1, 3]}}", "(a): its list of borders"},
        {"number: {name: a, buckets: {borders: [1, 2]}}",
         "number: {name: a, buckets: {borders: [1, 2]}, encode: id}", "(a): its encode"},
        {"category: a", "category: {name: a, encode: id}", "(a): its encode"},
        {"category: {name: a, vocabulary: ['1', '2']}",
         "category: {name: a, vocabulary: ['2', '1']}", "(a): its vocabulary"},
        {"category: {name: a, vocabulary: ['1', '2']}",
         "category: {name: a, vocabulary: ['1', '2', '3']}", "(a): its vocabulary"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool two = strstr(cases[i].was, ", number: b"),
             now = strchr(cases[i].is, ',') &&
                   (strstr(cases[i].is, ", number: b") || strstr(cases[i].is, "ignore"));
        char *text = learned(cases[i].was, two ? "1,1,0\n2,2,1\n" : "1,0\n2,1\n");
        refuses(cases[i].is, now ? "1,1,0\n2,2,1\n" : "1,0\n2,1\n", text, ERR_INPUT, cases[i].why);
        /* with data.encoding: learn the weights would get inputs of another meaning */
        refuses(cases[i].is, now ? "1,1,0\n2,2,1\n" : "1,0\n2,1\n", text, ERR_INPUT,
                ", or start from scratch with another --output");
        free(text);
    }
}

static void a_key_that_occurs_twice_is_refused_by_name(void **state)
{
    (void)state;
    char *text = learned("number: a", "1,0\n2,1\n"), twice[4000];
    (void)snprintf(twice, sizeof twice, "{\n\"columns\": [],%s", text + 1);
    refuses("number: a", "1,0\n2,1\n", twice, ERR_CORRUPT,
            "cut 7: not a valid encoding.json: line 8: duplicate object key near '\"columns\"'");
    free(text);
}

static void a_number_for_missing_ones_is_a_double_until_it_is_encoded(void **state)
{
    (void)state;
    static const char columns[] =
        "number: {name: a, scale: min_max, missing: {value: 16777217}}, number: {name: b, buckets: "
        "{borders: [16777217]}, encode: id, missing: {value: 16777216.5}}, "
        "number: {name: c, missing: {value: 16777217}}";
    static const char rows[] = "16777216,1,1,0\n16777218,1,1,1\n?,?,?,1\n";
    const struct encoding_given old = {.from = "cut 7"};
    struct fixture f;
    setup(&f, columns);
    loads(&f, rows, NULL, false);
    assert_true(feature(&f.d, 2, 0) == 0.5f && feature(&f.d, 2, 1) == 1);
    assert_true(feature(&f.d, 2, 2) == 16777216);
    char *text = encoding_of(&f); /* a graph's float32 would be at the border */
    assert_non_null(strstr(text, "\"input\": \"float64\""));
    assert_non_null(strstr(text, "\"missing\": 16777217.0"));
    loads(&f, rows, text, false);
    assert_true(feature(&f.d, 2, 0) == 0.5f && feature(&f.d, 2, 1) == 1);
    char *same = encoding_of(&f);
    assert_string_equal(same, text);
    dataset_close(&f.d);
    assert_int_equal(dataset_load_given(&f.d, &f.job, &old, 0, &f.e), ERR_OK); /* release 0.1.0 */
    assert_true(feature(&f.d, 2, 0) == 0 && feature(&f.d, 2, 1) == 2);
    free(text);
    free(same);
    teardown(&f);
}

/* Its numbers were floats before they were encoded, and so were its borders. */
static void an_encoding_of_release_0_1_0_is_applied_with_its_arithmetic(void **state)
{
    (void)state;
    static const char columns[] = "number: {name: a, scale: standard}, number: {name: b, buckets: "
                                  "{quantiles: 2}, encode: id}, "
                                  "number: {name: c, buckets: {borders: [0.1, 2]}, encode: id}";
    static const char rows[] = "16777216,16777216,0.1,0\n16777217,16777217,0.05,1\n"
                               "16777219,16777219,3,1\n16777220,16777220,0.1,0\n";
    const struct encoding_given again = {.from = "cut 7"};
    struct fixture f, now;
    setup(&f, columns);
    idx_files_write(&f.files, "a.csv", (struct bytes){(uint8_t *)(uintptr_t)rows, strlen(rows)});
    assert_int_equal(dataset_load_given(&f.d, &f.job, &again, 0, &f.e), ERR_OK);
    /* the mean of 2^24, 2^24, 2^24 + 4 and 2^24 + 4 */
    assert_true(feature(&f.d, 0, 0) == -1 && feature(&f.d, 1, 0) == -1);
    assert_true(feature(&f.d, 2, 0) == 1 && feature(&f.d, 3, 0) == 1);
    assert_true(feature(&f.d, 0, 2) == 2 && feature(&f.d, 1, 2) == 1);
    char *text = encoding_of(&f);
    assert_null(strstr(text, "arithmetic"));
    loads(&f, rows, text, true);
    assert_true(feature(&f.d, 0, 0) == -1 && feature(&f.d, 1, 0) == -1);
    assert_true(feature(&f.d, 0, 1) == feature(&f.d, 1, 1));
    assert_true(feature(&f.d, 0, 2) == 2 && feature(&f.d, 1, 2) == 1);
    char *same = encoding_of(&f);
    assert_string_equal(same, text);
    setup(&now, columns);
    loads(&now, rows, NULL, false);
    char *other = encoding_of(&now);
    assert_non_null(strstr(other, "\"arithmetic\": \"float64\""));
    assert_non_null(strstr(other, "\"input\": \"float64\""));
    assert_true(feature(&now.d, 0, 0) < feature(&now.d, 1, 0));
    assert_true(feature(&now.d, 0, 1) < feature(&now.d, 1, 1) ||
                feature(&now.d, 1, 1) < feature(&now.d, 2, 1));
    loads(&now, rows, other, true);
    char *taken = encoding_of(&now);
    assert_string_equal(taken, other);
    free(text);
    free(same);
    free(other);
    free(taken);
    teardown(&f);
    teardown(&now);
}

static void what_is_no_encoding_is_corrupt(void **state)
{
    (void)state;
    const char number[] = "number: a", words[] = "category: a",
               steps[] = "number: {name: a, buckets: log_squared}",
               parts[] = "number: {name: a, buckets: {quantiles: 3}}";
#define COLUMN(kind, rest)                                                                         \
    "{\"columns\": [{\"name\": \"a\", \"kind\": \"" kind "\", \"feature\": 0, " rest "}]}"
    const struct {
        const char *columns, *text;
    } cases[] = {
        {number, ""},
        {number, "[1, 2"},
        {number, "{\"columns\": 1}"},
        {number, "{\"arithmetic\": \"float128\", \"columns\": []}"},
        {number, "{\"arithmetic\": 64, \"columns\": []}"},
        {number, COLUMN("number", "\"number\": {\"shift\": 0}")},
        {number, COLUMN("number", "\"number\": {\"shift\": 0, \"divisor\": 0, \"missing\": 1}")},
        {words, COLUMN("category", "\"category\": {\"encode\": \"one_hot\"}")},
        {words, COLUMN("category", "\"category\": {\"encode\": \"one_hot\", \"words\": [1]}")},
        {words,
         COLUMN("category", "\"category\": {\"encode\": \"one_hot\", \"words\": [\"x\", \"x\"]}")},
        {words, COLUMN("category",
                       "\"category\": {\"encode\": \"one_hot\", \"words\": [{\"hex\": \"f\"}]}")},
        {words, COLUMN("category",
                       "\"category\": {\"encode\": \"one_hot\", \"words\": [{\"hex\": \"fg\"}]}")},
        {steps, COLUMN("number", "\"buckets\": {\"encode\": \"one_hot\", \"log_squared\": 1}")},
        {steps, COLUMN("number", "\"buckets\": {\"encode\": \"one_hot\", \"log_squared\": 1, "
                                 "\"count\": 99999999}")},
        {parts, COLUMN("number", "\"buckets\": {\"encode\": \"one_hot\"}")},
        {parts, COLUMN("number", "\"buckets\": {\"encode\": \"one_hot\", \"borders\": [2, 1]}")},
        {parts, COLUMN("number", "\"buckets\": {\"encode\": \"one_hot\", \"borders\": [\"2\"]}")},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        refuses(cases[i].columns, "1,0\n", cases[i].text, ERR_CORRUPT, "cut 7");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_learned_is_taken_to_the_bit_whatever_the_rows_are),
        cmocka_unit_test(kept_words_have_their_numbers_and_new_ones_none),
        cmocka_unit_test(new_words_are_numbered_behind_the_others_and_that_again_changes_nothing),
        cmocka_unit_test(a_column_stays_complete_until_a_row_lacks_it),
        cmocka_unit_test(scales_stay),
        cmocka_unit_test(a_missing_value_stays_the_word_that_it_was),
        cmocka_unit_test(another_column_is_refused_by_name),
        cmocka_unit_test(a_key_that_occurs_twice_is_refused_by_name),
        cmocka_unit_test(a_number_for_missing_ones_is_a_double_until_it_is_encoded),
        cmocka_unit_test(an_encoding_of_release_0_1_0_is_applied_with_its_arithmetic),
        cmocka_unit_test(what_is_no_encoding_is_corrupt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
