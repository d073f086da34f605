/* Raw rows become features and keys with the bits of training's own reading of the same rows, as texts and as typed values. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/rng.h"
#include "predict/rows.h"
#include "tests/lib/trained.h"
#include "data/meaning/schema.h"
#include "tests/lib/gathered.h"

/* A column of each kind and with each option that changes what it becomes. */
static const char job[] =
    "model:\n"
    "  input: {shape: auto}\n"
    "  loss: binary_crossentropy\n"
    "  layers:\n"
    "    - linear: {inputs: [site, number, tags, both], name: wide}\n"
    "    - embedding: {inputs: [site, number], output_dim: 3, name: e}\n"
    "    - embedding_bag: {inputs: [tags, words], output_dim: 2, mode: mean, name: bag}\n"
    "    - dense: {inputs: [e, bag, age, income, share, log, town, size, price, rank, steps], "
    "units: 4, activation: relu}\n"
    "    - dense: {units: 1, name: deep}\n"
    "    - add: [wide, deep]\n"
    "    - sigmoid\n"
    "optimizer: adam\n"
    "data:\n"
    "  format: csv\n"
    "  train: train.txt\n"
    "  eval: eval.txt\n"
    "  trim: true\n"
    "  missing: ['', '?']\n"
    "  columns:\n"
    "    - ignore\n"
    "    - label: {name: answer, classes: ['no', 'yes']}\n"
    "    - number: {name: age, scale: standard}\n"
    "    - number: {name: income, scale: log1p, missing: {value: 3}}\n"
    "    - weight: weight\n"
    "    - number: {name: share, scale: min_max}\n"
    "    - number: {name: log, scale: log2}\n"
    "    - category: town\n"
    "    - category: {name: size, vocabulary: [S, M, L], encode: id}\n"
    "    - number: {name: price, buckets: {borders: [1, 2.5, 10]}}\n"
    "    - number: {name: rank, buckets: {quantiles: 4}, encode: id}\n"
    "    - number: {name: steps, buckets: log_squared, missing: {value: 2}}\n"
    "    - key: site\n"
    "    - key: {name: number, hash: false, buckets: 40, missing: {key: 7}}\n"
    "    - keys: {name: tags, separator: ' ', max_values: 4, weights: true}\n"
    "    - cross: {name: both, of: [site, number], buckets: 60}\n"
    "    - keys: {name: words, separator: ';', max_values: 3, missing: empty}\n";

enum { FIELDS = 16, COLUMNS = 13, ROWS = 300, FIELD_BYTES = 48 };

/* Which field of the file a column of a row is. */
static const uint32_t field_of[COLUMNS] = {2, 3, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

typedef char row_text[FIELDS][FIELD_BYTES];

/* ---- generated rows ---- */

static void a_number(char *out, uint64_t draw, float scale)
{
    static const char *const kinds[] = {"%.0f", "%.3f", "%.9g", " %.2e ", "%.12f"};
    if (draw % 7 == 0)
        strcpy(out, draw & 8 ? "?" : "");
    else
        (void)sprintf(out, kinds[draw / 7 % 5], (double)(scale * (rng_unit(draw, 1) - 0.3f)));
}

/* The eval part has words that the training part lacks; one of the words is not UTF-8. */
static void a_word(char *out, uint64_t draw, bool eval)
{
    static const char *const words[] = {"Bern", "Z\xc3\xbcrich", "\xff\xfe", "?",
                                        "",     "Chur",          "Uri"};
    strcpy(out, words[draw % (eval ? 7 : 6)]);
}

static void a_list(char *out, uint64_t draw, const char *separator, uint32_t most, bool weights)
{
    uint32_t n = (uint32_t)(draw % (most + 1));
    out[0] = '\0';
    for (uint32_t i = 0; i < n; i++) {
        uint64_t one = rng_u64(draw, i);
        (void)sprintf(out + strlen(out), "%st%u", i ? separator : "", (unsigned)(one % 9));
        if (weights && one & 16)
            (void)sprintf(out + strlen(out), ":%.2f", (double)(rng_unit(one, 0) - 0.2f));
    }
}

static void draw_row(row_text f, uint64_t row, bool eval)
{
    uint64_t d[FIELDS];
    for (uint32_t i = 0; i < FIELDS; i++)
        d[i] = rng_u64(eval ? 11 : 12, row * FIELDS + i);
    strcpy(f[0], "an id");
    strcpy(f[1], d[1] & 1 ? "yes" : "no");
    a_number(f[2], d[2], 90);
    a_number(f[3], d[3], 1e5f);
    strcpy(f[4], "1.5");
    a_number(f[5], d[5], 1);
    a_number(f[6], d[6], 1000);
    a_word(f[7], d[7], eval);
    strcpy(f[8], d[8] % 5 == 0 ? "XL" : d[8] % 5 == 1 ? "?" : d[8] % 5 == 2 ? "S" : "M");
    a_number(f[9], d[9], 20);
    a_number(f[10], d[10], 20);
    a_number(f[11], d[11], 300);
    (void)sprintf(f[12], "s%u", (unsigned)(d[12] % 50));
    if (d[12] % 9 == 0)
        f[12][0] = '\0';
    (void)sprintf(f[13], d[13] % 9 ? "%u" : "?", (unsigned)(d[13] % 1000));
    a_list(f[14], d[14], " ", 4, true);
    a_list(f[15], d[15], ";", 3, false);
}

static char *csv_of(bool eval)
{
    char *text = mem_zalloc(ROWS, sizeof(row_text)), *at = text;
    assert_non_null(text);
    for (uint64_t row = 0; row < ROWS; row++) {
        row_text f;
        draw_row(f, row, eval);
        for (uint32_t i = 0; i < FIELDS; i++)
            at += sprintf(at, row % 3 ? "%s%s" : "%s\"%s\"", i ? "," : "", f[i]);
        at += sprintf(at, "\n");
    }
    return text;
}

/* ---- the same rows, given to `rows` ---- */

struct fixture {
    struct trained t;
    struct folder folder;
    struct rows *rows;
    struct errmsg e;
};

static void setup(struct fixture *f)
{
    char *train = csv_of(false), *eval = csv_of(true);
    *f = (struct fixture){.e = {""}};
    trained_init(&f->t, job, train, eval);
    if (folder_open(&f->folder, f->t.dir, &f->e) || rows_new(&f->rows, &f->folder, ROWS, &f->e))
        fail_msg("%s", f->e.text);
    struct columns c;
    assert_int_equal(columns_init(&c, &f->folder, &f->e), ERR_OK);
    assert_int_equal(c.values, COLUMNS);
    assert_int_equal(c.crosses, 1);
    columns_close(&c);
    mem_free(train);
    mem_free(eval);
}

static void teardown(struct fixture *f)
{
    rows_free(f->rows);
    folder_close(&f->folder);
    trained_close(&f->t);
}

static struct gradwire_text text_of(const char *s)
{
    return (struct gradwire_text){s, strlen(s)};
}

/* The texts are in memory that ends with them, so a read beyond is seen by the sanitizer. */
static void add_text(struct fixture *f, row_text t)
{
    struct gradwire_text field[COLUMNS];
    uint32_t column;
    for (uint32_t i = 0; i < COLUMNS; i++) {
        field[i] = text_of(t[field_of[i]]);
        char *exact = malloc(field[i].bytes ? field[i].bytes : 1);
        assert_non_null(exact);
        field[i].text = memcpy(exact, field[i].text, field[i].bytes);
    }
    if (rows_add(f->rows, field, NULL, &column, &f->e))
        fail_msg("%s", f->e.text);
    for (uint32_t i = 0; i < COLUMNS; i++)
        free((void *)(uintptr_t)field[i].text);
}

static bool missing(const char *s)
{
    return !*s || strcmp(s, "?") == 0;
}

static struct gradwire_value number_of(const char *s)
{
    double v = missing(s) ? NAN : strtod(s, NULL);
    return (struct gradwire_value){.type = GRADWIRE_VALUE_DOUBLE, .as.real = v};
}

/* The key without its buckets, which `rows` applies. */
static uint64_t plain_key(const struct fixture *f, const char *column, const char *word, size_t n)
{
    struct job_key_column c = {.hash = true};
    const struct table_schema *s = f->folder.schema;
    uint32_t k = 0;
    uint64_t key;
    while (strcmp(s->key[k].name, column))
        k++;
    c.hash = s->key[k].options.hash;
    assert_true(word_key(&c, s->key[k].seed, word, n, &key));
    return key;
}

static struct gradwire_value key_of(const struct fixture *f, const char *column, const char *s)
{
    if (missing(s))
        return (struct gradwire_value){.type = GRADWIRE_VALUE_MISSING};
    return (struct gradwire_value){.type = GRADWIRE_VALUE_KEY,
                                   .as.key = plain_key(f, column, s, strlen(s))};
}

/* The values of a list; *n their number. */
struct list {
    struct gradwire_text word[4];
    uint64_t key[4];
    float weight[4];
    uint32_t n;
};

static void split(const struct fixture *f, const char *column, const char *s, char separator,
                  struct list *l)
{
    l->n = 0;
    while (*s) {
        const char *end = strchrnul(s, separator), *colon = memchr(s, ':', (size_t)(end - s));
        size_t bytes = (size_t)((colon ? colon : end) - s);
        l->word[l->n] = (struct gradwire_text){s, bytes};
        l->key[l->n] = plain_key(f, column, s, bytes);
        l->weight[l->n++] = colon ? strtof(colon + 1, NULL) : 1;
        s = *end ? end + 1 : end;
    }
}

static void add_values(struct fixture *f, row_text t)
{
    struct gradwire_value v[COLUMNS];
    struct list tags, words;
    uint32_t column;
    for (uint32_t i = 0; i < COLUMNS; i++)
        v[i] = number_of(t[field_of[i]]);
    v[4] = (struct gradwire_value){.type = GRADWIRE_VALUE_TEXT, .as.text = text_of(t[7])};
    v[5] = (struct gradwire_value){.type =
                                       missing(t[8]) ? GRADWIRE_VALUE_MISSING : GRADWIRE_VALUE_TEXT,
                                   .as.text = text_of(t[8])};
    v[9] = key_of(f, "site", t[12]);
    v[10] = key_of(f, "number", t[13]);
    split(f, "tags", t[14], ' ', &tags);
    v[11] = (struct gradwire_value){
        .type = GRADWIRE_VALUE_WORDS, .count = tags.n, .as.words = {tags.word, tags.weight}};
    split(f, "words", t[15], ';', &words);
    v[12] = (struct gradwire_value){.type = words.n ? GRADWIRE_VALUE_KEYS : GRADWIRE_VALUE_MISSING,
                                    .count = words.n,
                                    .as.keys = {words.key, NULL}};
    if (rows_add(f->rows, NULL, v, &column, &f->e))
        fail_msg("%s", f->e.text);
}

static void add_rows(struct fixture *f, void (*add)(struct fixture *, row_text))
{
    rows_clear(f->rows);
    for (uint64_t row = 0; row < ROWS; row++) {
        row_text t;
        draw_row(t, row, true);
        add(f, t);
    }
    assert_int_equal(rows_count(f->rows), ROWS);
}

/* ---- training's own reading ---- */

static uint64_t mixed_at(const struct leaf_keys *k, const struct table_schema *s, uint32_t lookup,
                         size_t place)
{
    uint32_t at = k->column[lookup].at[place];
    return at == LOOKUP_NONE ? 1 : k->list[s->lookup[lookup].list].mixed[at];
}

static void check_keys(const struct fixture *f, const struct leaf_keys *is,
                       const struct leaf_keys *wanted)
{
    const struct table_schema *s = f->folder.schema;
    assert_int_equal(is->columns, wanted->columns);
    for (uint32_t c = 0; c < is->columns; c++) {
        const struct lookup_column *a = &is->column[c], *b = &wanted->column[c];
        assert_int_equal(a->width, b->width);
        for (size_t row = 0; row < ROWS; row++) {
            uint32_t n = a->count ? a->count[row] : a->width;
            assert_int_equal(n, b->count ? b->count[row] : b->width);
            for (size_t i = row * a->width; i < row * a->width + n; i++) {
                assert_true(mixed_at(is, s, c, i) == mixed_at(wanted, s, c, i));
                assert_true(!a->weight || a->weight[i] == b->weight[i]);
            }
        }
    }
}

static void check_as_training_reads(struct fixture *f)
{
    uint64_t row[ROWS];
    float *x = mem_floats((size_t)ROWS * f->t.eval.features), y[ROWS];
    struct leaf_buffer *room = NULL;
    const struct leaf_keys *keys = NULL;
    uint32_t there;
    assert_non_null(x);
    for (uint64_t i = 0; i < ROWS; i++)
        row[i] = i;
    if (gathered_rows(&f->t.eval, row, ROWS, x, y, &there, &f->e) ||
        gathered_buffer(&room, f->t.eval.table.schema, ROWS, &f->e) ||
        gathered_keys(&f->t.eval, row, ROWS, room, &keys, &f->e))
        fail_msg("%s", f->e.text);
    assert_int_equal(there, ROWS);
    assert_int_equal(f->t.eval.features, model_features(f->folder.model));
    assert_memory_equal(rows_leaf(f->rows)->x, x, ROWS * f->t.eval.features * sizeof *x);
    check_keys(f, rows_leaf(f->rows)->keys, keys);
    leaf_buffer_free(room);
    mem_free(x);
}

static void text_rows_are_encoded_to_the_bit_as_training_reads_them(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f);
    add_rows(&f, add_text);
    check_as_training_reads(&f);
    teardown(&f);
}

/* Add the records of a text, each in memory that ends with it. The last one may lack its line end. */
static void add_records(struct fixture *f, const char *text, size_t bytes)
{
    uint32_t column;
    for (size_t at = 0, n; at < bytes; at += n) {
        n = rows_record_bytes(f->rows, text + at, bytes - at);
        n = n ? n : bytes - at;
        char *exact = malloc(n);
        assert_non_null(exact);
        memcpy(exact, text + at, n);
        if (rows_add_record(f->rows, exact, n, &column, &f->e))
            fail_msg("%s", f->e.text);
        free(exact);
    }
}

static void records_are_encoded_to_the_bit_as_training_reads_them(void **state)
{
    (void)state;
    struct fixture f;
    char *text = csv_of(true);
    setup(&f);
    const size_t bytes = strlen(text);
    add_records(&f, text, bytes);
    assert_int_equal(rows_count(f.rows), ROWS);
    check_as_training_reads(&f);
    rows_clear(f.rows);
    rows_begin_file(f.rows, "again.csv");
    add_records(&f, "\xEF\xBB\xBF\n\r\n", 6);
    add_records(&f, text, bytes - 1);
    check_as_training_reads(&f);
    mem_free(text);
    teardown(&f);
}

static void typed_rows_are_encoded_to_the_bit_as_training_reads_them(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f);
    add_rows(&f, add_values);
    check_as_training_reads(&f);
    teardown(&f);
}

/* ---- keys of columns ---- */

static void keys_of_columns_are_those_that_are_looked_up(void **state)
{
    (void)state;
    enum { NUMBER = 10, TAGS = 11, WORDS = 12, BOTH = COLUMNS, MOST = 4 };
    struct fixture f;
    row_text t;
    uint64_t key[ROWS * MOST];
    float weight[ROWS * MOST];
    setup(&f);
    add_rows(&f, add_text);
    rows_column_keys(f.rows, TAGS, key, weight);
    for (uint64_t row = 0; row < ROWS; row++) {
        struct list l;
        draw_row(t, row, true);
        split(&f, "tags", t[14], ' ', &l);
        for (uint32_t i = 0; i < MOST; i++) {
            assert_true(key[row * MOST + i] == (i < l.n ? l.key[i] : 0));
            assert_true(weight[row * MOST + i] == (i < l.n ? l.weight[i] : 0));
        }
    }
    rows_column_keys(f.rows, WORDS, key, weight);
    for (uint64_t row = 0; row < ROWS; row++) {
        struct list l;
        draw_row(t, row, true);
        split(&f, "words", t[15], ';', &l);
        uint32_t n = l.n ? l.n : 1; /* missing: empty */
        for (uint32_t i = 0; i < 3; i++)
            assert_true(weight[row * 3 + i] == (i < n ? 1 : 0));
    }
    rows_column_keys(f.rows, NUMBER, key, NULL);
    for (uint64_t row = 0; row < ROWS; row++) {
        draw_row(t, row, true);
        uint64_t wanted = missing(t[13]) ? 7 : strtoull(t[13], NULL, 10) % 40;
        assert_true(key[row] == wanted);
    }
    rows_column_keys(f.rows, BOTH, key, weight);
    for (uint64_t row = 0; row < ROWS; row++)
        assert_true(key[row] < 60 && weight[row] == 1);
    teardown(&f);
}

/* ---- rows that do not fit ---- */

static void refuse_text(struct fixture *f, uint32_t column, const char *text, const char *why)
{
    struct gradwire_text field[COLUMNS];
    row_text t;
    uint32_t at = COLUMNS;
    draw_row(t, 1, true);
    for (uint32_t i = 0; i < COLUMNS; i++)
        field[i] = text_of(i == column ? text : t[field_of[i]]);
    assert_int_equal(rows_add(f->rows, field, NULL, &at, &f->e), ERR_INPUT);
    assert_int_equal(at, column);
    if (!strstr(f->e.text, why))
        fail_msg("%s", f->e.text);
}

static void refuse_value(struct fixture *f, uint32_t column, const struct gradwire_value *value,
                         const char *why)
{
    struct gradwire_value v[COLUMNS] = {{.type = GRADWIRE_VALUE_MISSING}};
    uint32_t at = COLUMNS;
    v[column] = *value;
    assert_int_equal(rows_add(f->rows, NULL, v, &at, &f->e), ERR_INPUT);
    assert_int_equal(at, column);
    if (!strstr(f->e.text, why))
        fail_msg("%s", f->e.text);
}

static void a_bad_row_names_its_column_and_is_not_added(void **state)
{
    (void)state;
    struct fixture f;
    row_text t;
    setup(&f);
    draw_row(t, 0, true);
    add_text(&f, t);
    refuse_text(&f, 0, "4x", "column \"age\": \"4x\" is not a number");
    refuse_text(&f, 3, "nan", "column \"log\": \"nan\" is not a number");
    refuse_text(&f, 10, "-1", "column \"number\": \"-1\" is not an integer");
    refuse_text(&f, 11, "a b c d e", "column \"tags\": more than max_values: 4");
    refuse_text(&f, 11, "a:x", "column \"tags\": the weight of \"a:x\"");
    const float nan[] = {NAN}, one[] = {1};
    const uint64_t keys[] = {1, 2, 3, 4};
    refuse_value(&f, 0, &(struct gradwire_value){GRADWIRE_VALUE_NUMBER, 0, {.number = INFINITY}},
                 "\"age\": the number is not finite");
    refuse_value(&f, 0, &(struct gradwire_value){GRADWIRE_VALUE_KEY, 0, {.key = 1}},
                 "\"age\": a value of type 3 does not fit");
    refuse_value(&f, 0, &(struct gradwire_value){GRADWIRE_VALUE_DOUBLE, 0, {.real = -INFINITY}},
                 "the number is not finite");
    refuse_value(&f, 0, &(struct gradwire_value){GRADWIRE_VALUE_DOUBLE, 0, {.real = 1e39}},
                 "the number is too large for float32, which ends at 3.4e38");
    refuse_value(&f, 4, &(struct gradwire_value){GRADWIRE_VALUE_NUMBER, 0, {.number = 1}},
                 "\"town\": a value of type 2 does not fit");
    refuse_value(&f, 11, &(struct gradwire_value){GRADWIRE_VALUE_KEYS, 1, {.keys = {keys, nan}}},
                 "\"tags\": the weight of value 1 is not a finite number");
    refuse_value(&f, 12, &(struct gradwire_value){GRADWIRE_VALUE_KEYS, 1, {.keys = {keys, one}}},
                 "\"words\": its values have weights");
    refuse_value(&f, 12, &(struct gradwire_value){GRADWIRE_VALUE_KEYS, 4, {.keys = {keys, NULL}}},
                 "\"words\": more than max_values: 3");
    assert_int_equal(rows_count(f.rows), 1);
    assert_int_equal(rows_add_numbers(f.rows, one, &f.e), ERR_INPUT);
    add_rows(&f, add_text);
    check_as_training_reads(&f);
    struct gradwire_text field[COLUMNS];
    uint32_t column;
    for (uint32_t i = 0; i < COLUMNS; i++)
        field[i] = text_of("");
    assert_int_equal(rows_add(f.rows, field, NULL, &column, &f.e), ERR_INPUT);
    assert_non_null(strstr(f.e.text, "no room for more than 300 rows"));
    teardown(&f);
}

static void refuse_record(struct fixture *f, const char *record, uint32_t column, const char *why)
{
    uint32_t at = GRADWIRE_NONE;
    assert_int_equal(rows_add_record(f->rows, record, strlen(record), &at, &f->e), ERR_INPUT);
    assert_int_equal(at, column);
    if (!strstr(f->e.text, why))
        fail_msg("%s", f->e.text);
}

/* The numbers of a row share their room. A record has as much, however long its fields are. */
static void numbers_as_long_as_their_room_leave_none(void **state)
{
    (void)state;
    struct fixture f;
    row_text t;
    struct gradwire_text field[COLUMNS];
    char *long_text = malloc(CSV_PIECE_BYTES + 1);
    setup(&f);
    assert_non_null(long_text);
    memset(long_text, '1', CSV_PIECE_BYTES);
    long_text[CSV_PIECE_BYTES] = '\0';
    draw_row(t, 0, true);
    for (uint32_t i = 0; i < COLUMNS; i++)
        field[i] = text_of(t[i]);
    field[0] = (struct gradwire_text){long_text, CSV_PIECE_BYTES};
    field[1] = (struct gradwire_text){long_text, CSV_PIECE_BYTES};
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t column = COLUMNS;
        assert_int_equal(rows_add(f.rows, field, NULL, &column, &f.e), ERR_INPUT);
        assert_true(column <= 1);
        field[0] = text_of("1");
    }
    assert_non_null(strstr(f.e.text, "the numbers of a row have more than"));
    assert_int_equal(rows_count(f.rows), 0);
    free(long_text);
    teardown(&f);
}

/* The room of an earlier row is used again. */
static void a_value_that_is_refused_packs_nothing_of_an_earlier_row(void **state)
{
    (void)state;
    struct fixture f;
    row_text t;
    const float nan[] = {NAN};
    const uint64_t keys[] = {1};
    setup(&f);
    for (uint32_t i = 0; i < 2000; i++) {
        draw_row(t, i, true);
        add_text(&f, t);
        rows_clear(f.rows);
        refuse_value(&f, 11,
                     &(struct gradwire_value){GRADWIRE_VALUE_KEYS, 1, {.keys = {keys, nan}}},
                     "the weight of value 1 is not a finite number");
    }
    teardown(&f);
}

static void a_bad_record_names_its_line_and_is_not_added(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f);
    rows_begin_file(f.rows, "new.csv");
#define REST ",3,1,1,1,Bern,S,1,1,1,s1,1,t1,w1\n"
    assert_int_equal(rows_record_bytes(f.rows, "a,\"\n\"\nb", 7), 6);
    assert_int_equal(rows_record_bytes(f.rows, "a,\"\n\nb", 6), 0);
    refuse_record(&f, "id,yes,\"4\nx\"" REST, 0, "new.csv:1: column \"age\": \"4");
    refuse_record(&f, "id,yes,4" REST "id,yes,4" REST, GRADWIRE_NONE,
                  "new.csv:3: it is more than one record");
    refuse_record(&f, "id,yes,4,5" REST, GRADWIRE_NONE,
                  "new.csv:3: it has 17 fields, data.columns names 16");
    refuse_record(&f, "id,4\n", GRADWIRE_NONE, "new.csv:4: it has 2 fields, data.columns names 16");
    refuse_record(&f, "id,\"yes,4\n", GRADWIRE_NONE, "new.csv:5: a quote begins a field here");
    refuse_record(&f, "id\ryes,4" REST, GRADWIRE_NONE, "new.csv:5: it has a CR");
    assert_int_equal(rows_count(f.rows), 0);
    add_records(&f, "id,no such class,4" REST, strlen("id,no such class,4" REST));
    assert_int_equal(rows_count(f.rows), 1);
    const size_t bytes = CSV_PIECE_BYTES + 1;
    char *text = mem_zalloc(bytes, 1);
    uint32_t column;
    assert_non_null(text);
    memset(text, 'x', bytes);
    text[bytes - 1] = '\n';
    assert_int_equal(rows_record_bytes(f.rows, text, bytes), 0);
    assert_int_equal(rows_add_record(f.rows, text, bytes, &column, &f.e), ERR_INPUT);
    assert_string_equal(f.e.text, "new.csv:7: a row of more than 524288 bytes");
    rows_begin_file(f.rows, NULL);
    assert_int_equal(rows_add_record(f.rows, "\xff\xfei\0d\0", 6, &column, &f.e), ERR_INPUT);
    assert_non_null(strstr(f.e.text, "input:1: it is UTF-16"));
    mem_free(text);
    teardown(&f);
}

/* ---- memory ---- */

static void memory_that_fails_is_an_error(void **state)
{
    (void)state;
    struct fixture f;
    long n = 0;
    setup(&f);
    rows_free(f.rows);
    for (bool fired = true; fired; n++) {
        mem_fail_at(n);
        enum err err = rows_new(&f.rows, &f.folder, 3, &f.e);
        fired = mem_fail_fired() != 0;
        mem_fail_at(-1);
        assert_int_equal(err, fired ? ERR_NOMEM : ERR_OK);
    }
    assert_true(n > 10);
    teardown(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_rows_are_encoded_to_the_bit_as_training_reads_them),
        cmocka_unit_test(records_are_encoded_to_the_bit_as_training_reads_them),
        cmocka_unit_test(typed_rows_are_encoded_to_the_bit_as_training_reads_them),
        cmocka_unit_test(keys_of_columns_are_those_that_are_looked_up),
        cmocka_unit_test(a_bad_row_names_its_column_and_is_not_added),
        cmocka_unit_test(numbers_as_long_as_their_room_leave_none),
        cmocka_unit_test(a_value_that_is_refused_packs_nothing_of_an_earlier_row),
        cmocka_unit_test(a_bad_record_names_its_line_and_is_not_added),
        cmocka_unit_test(memory_that_fails_is_an_error),
    };
    return cmocka_run_group_tests_name("rows", tests, NULL, NULL);
}
