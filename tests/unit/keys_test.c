/* Keys of words, key columns of csv, and what microbatches look up. The numbers of hashes were computed by python-xxhash. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/base/rng.h"
#include "common/rows/key.h"
#include "tests/lib/folder.h"
#include "tests/lib/idx_files.h"
#include "data/meaning/encoding_given.h"
#include "data/meaning/schema.h"
#include "data/dataset.h"
#include "export/export.h"
#include "tests/lib/gathered.h"

/* xxhash.xxh3_64_intdigest(b"C1"), .. */
#define SEED_C1 UINT64_C(0x3b7d0d206099ca33)
#define SEED_SITE UINT64_C(0x25b7c686a87b82b7)
#define KEY_68FD1E64_C1 UINT64_C(0xbb7b4148340ac23e)
#define KEY_EMPTY_C1 UINT64_C(0xa6a7a7b5f160f36a)
#define KEY_LONG_C1 UINT64_C(0xb66077f2de25f0ab)
#define KEY_A_SITE UINT64_C(0x3231bb3a2b0f9c68)
#define KEY_B_SITE UINT64_C(0xb904fa7250e7342c)
#define KEY_EMPTY_SITE UINT64_C(0x9758fc8a1b41b9b2)

static uint64_t hashed(const char *word, const char *space, uint64_t buckets)
{
    struct job_key_column c = {.hash = true, .buckets = buckets};
    uint64_t key = 0;
    assert_true(word_key(&c, word_key_seed(space), word, strlen(word), &key));
    return key;
}

static void a_words_key_is_its_hash_seeded_by_that_of_its_space(void **state)
{
    (void)state;
    assert_true(word_key_seed("C1") == SEED_C1);
    assert_true(word_key_seed("site") == SEED_SITE);
    assert_true(hashed("68fd1e64", "C1", 0) == KEY_68FD1E64_C1);
    assert_true(hashed("", "C1", 0) == KEY_EMPTY_C1);
    assert_true(hashed("a longer word of more than sixteen bytes", "C1", 0) == KEY_LONG_C1);
    assert_true(hashed("a", "site", 0) == KEY_A_SITE);
    assert_true(hashed("68fd1e64", "C1", 1000) == 790);
    assert_true(hashed("gr\xc3\xbcn", "C1", 0) == UINT64_C(0x4bb51d5086f22136));
}

static void without_a_hash_a_word_is_the_key_itself(void **state)
{
    (void)state;
    struct job_key_column c = {.hash = false};
    uint64_t key = 0;
    assert_true(word_key(&c, 0, "18446744073709551615", 20, &key) && key == UINT64_MAX);
    assert_true(word_key(&c, 0, "007", 3, &key) && key == 7);
    static const char *const wrong[] = {
        "18446744073709551616", "99999999999999999999", "-1", "", "1a", " 1", "1.0"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_false(word_key(&c, 0, wrong[i], strlen(wrong[i]), &key));
    c.buckets = 10;
    assert_true(word_key(&c, 0, "123", 3, &key) && key == 3);
}

static void a_missing_value_has_the_key_that_the_column_says(void **state)
{
    (void)state;
    struct job_key_column c = {.hash = true, .missing = KEY_MISSING_EMPTY};
    uint64_t key = 0;
    assert_true(word_key_missing(&c, SEED_C1, &key) && key == KEY_EMPTY_C1);
    c.missing = KEY_MISSING_NONE;
    assert_false(word_key_missing(&c, SEED_C1, &key));
    c = (struct job_key_column){.missing = KEY_MISSING_KEY, .missing_key = 5};
    assert_true(word_key_missing(&c, 0, &key) && key == 5);
}

/* ---- columns of csv ---- */

struct fixture {
    struct idx_files files;
    struct job job;
    struct dataset d;
    struct errmsg e;
};

static void setup(struct fixture *f, const char *layers, const char *columns, const char *csv)
{
    char text[4096];
    *f = (struct fixture){.e = {""}};
    idx_files_init(&f->files);
    snprintf(text, sizeof text,
             "model: {input: {shape: auto}, layers: [%s, dense: 1], loss: mse}\n"
             "optimizer: sgd\nworker: {threads: 2}\n"
             "data: {format: csv, train: '%s/*.csv', bad_rows: skip, columns: [%s]}\n",
             layers, f->files.dir, columns);
    if (job_parse(&f->job, text, strlen(text), "j.yaml", "/", NULL, 0, &f->e))
        fail_msg("%s", f->e.text);
    idx_files_write(&f->files, "a.csv", (struct bytes){(uint8_t *)(uintptr_t)csv, strlen(csv)});
    if (dataset_load(&f->d, &f->job, 0, 0, &f->e))
        fail_msg("%s", f->e.text);
}

static void teardown(struct fixture *f)
{
    dataset_close(&f->d);
    job_close(&f->job);
    idx_files_close(&f->files);
}

/* The key that a place names; 0: it names none. */
static uint64_t key_of(const struct leaf_keys *k, uint32_t list, uint32_t lookup, size_t place)
{
    uint32_t at = k->column[lookup].at[place];
    if (at == LOOKUP_NONE)
        return 0;
    assert_true(at < k->list[list].keys);
    return key_unmix(k->list[list].mixed[at]);
}

static const struct leaf_keys *gather(struct fixture *f, struct leaf_buffer **room, uint32_t n)
{
    const struct leaf_keys *keys = NULL;
    uint64_t rows[16];
    for (uint32_t i = 0; i < n; i++)
        rows[i] = i;
    assert_true(dataset_has_keys(&f->d));
    if (gathered_buffer(room, f->d.table.schema, n, &f->e) ||
        gathered_keys(&f->d, rows, n, *room, &keys, &f->e))
        fail_msg("%s", f->e.text);
    return keys;
}

static void key_columns_are_looked_up_row_by_row(void **state)
{
    (void)state;
    struct fixture f;
    struct leaf_buffer *room;
    setup(&f,
          "linear: {inputs: [C1, s], name: w}, embedding: {inputs: [s, C1], output_dim: 2, name: "
          "e}, embedding: {inputs: [s], output_dim: 2, name: z}, dense: {units: 1, inputs: [w, e, "
          "z]}",
          "key: C1, number: x, label: y, key: {name: s, space: site, missing: none}",
          "68fd1e64,1.5,0,a\n"
          ",2,1,\n"
          "68fd1e64,no number,1,b\n" /* a bad row */
          "68fd1e64,3,1,b\n");
    assert_int_equal(f.d.features, 1);
    const struct leaf_keys *k = gather(&f, &room, 4);
    assert_int_equal(k->lists, 2);
    assert_int_equal(k->columns, 5);
    assert_int_equal(k->list[0].keys, 4);
    assert_int_equal(k->list[1].keys, 2);
    for (uint32_t i = 1; i < 4; i++)
        assert_true(k->list[0].mixed[i] > k->list[0].mixed[i - 1]);
    assert_true(key_of(k, 0, 0, 0) == KEY_68FD1E64_C1);
    assert_true(key_of(k, 0, 0, 1) == KEY_EMPTY_C1);
    assert_true(key_of(k, 0, 0, 2) == KEY_68FD1E64_C1);
    assert_true(key_of(k, 0, 1, 0) == KEY_A_SITE);
    assert_int_equal(k->column[1].at[1], LOOKUP_NONE);
    assert_true(key_of(k, 0, 1, 2) == KEY_B_SITE);
    assert_true(key_of(k, 1, 4, 2) == KEY_B_SITE);
    assert_ptr_equal(k->column[2].at, k->column[1].at); /* the same column in the same list */
    assert_null(k->column[0].count);
    assert_null(k->column[0].weight);
    assert_int_equal(k->column[0].width, 1);
    leaf_buffer_free(room);
    teardown(&f);
}

static void several_values_of_a_field_have_places_and_weights(void **state)
{
    (void)state;
    struct fixture f;
    struct leaf_buffer *room;
    setup(&f, "embedding_bag: {inputs: [t, n], output_dim: 2, name: e}",
          "keys: {name: t, space: site, separator: ';', max_values: 3, weights: true}, "
          "keys: {name: n, hash: false, separator: ' ', max_values: 2, missing: {key: 9}}, "
          "label: y",
          "a:0.5;b,7 8,0\n"
          ",,1\n"
          "b:-2e1;;a:1,7,1\n"
          "a;a;a;a,1,1\n" /* too many */
          "a:x,1,1\n"     /* no weight */
          "a,1 x,1\n"     /* no integer */
          "b:3,7 7,0\n");
    assert_int_equal(f.d.bad_rows, 3);
    assert_int_equal(f.d.features, 0);
    const struct leaf_keys *k = gather(&f, &room, 7);
    const struct lookup_column *t = &k->column[0], *n = &k->column[1];
    assert_int_equal(k->lists, 1);
    assert_int_equal(t->width, 3);
    assert_true(t->count[0] == 2 && t->count[1] == 0 && t->count[2] == 2 && t->count[3] == 1);
    assert_true(t->weight[0] == 0.5f && t->weight[1] == 1 && t->weight[6] == -20 &&
                t->weight[7] == 1 && t->weight[9] == 3);
    assert_true(key_of(k, 0, 0, 0) == KEY_A_SITE && key_of(k, 0, 0, 1) == KEY_B_SITE);
    assert_true(key_of(k, 0, 0, 6) == KEY_B_SITE && key_of(k, 0, 0, 7) == KEY_A_SITE);
    assert_true(n->count[0] == 2 && n->count[1] == 1 && n->count[2] == 1 && n->count[3] == 2);
    assert_true(key_of(k, 0, 1, 0) == 7 && key_of(k, 0, 1, 1) == 8 && key_of(k, 0, 1, 2) == 9);
    assert_true(key_of(k, 0, 1, 6) == 7 && key_of(k, 0, 1, 7) == 7);
    assert_null(n->weight);
    leaf_buffer_free(room);
    teardown(&f);
}

static void a_row_of_weight_zero_looks_nothing_up(void **state)
{
    (void)state;
    struct fixture f;
    struct leaf_buffer *room;
    setup(&f,
          "linear: {inputs: a, name: w}, embedding_bag: {inputs: b, output_dim: 2, name: e}, "
          "dense: {inputs: [w, e], units: 1}",
          "key: {name: a, space: site}, keys: {name: b, space: site, max_values: 2, separator: "
          "';'}, label: y, weight: v",
          "a,a;b,1,0.5\n"
          "c,d;b,0,0\n"
          "b,a,1,2\n");
    const struct leaf_keys *k = gather(&f, &room, 3);
    assert_int_equal(k->list[0].keys, 2);
    assert_int_equal(k->list[1].keys, 2);
    assert_true(key_of(k, 0, 0, 0) == KEY_A_SITE && key_of(k, 0, 0, 2) == KEY_B_SITE);
    assert_int_equal(k->column[0].at[1], LOOKUP_NONE);
    assert_true(k->column[1].count[0] == 2 && k->column[1].count[1] == 0 &&
                k->column[1].count[2] == 1);
    leaf_buffer_free(room);
    teardown(&f);
}

#define LISTS                                                                                      \
    "fields are lists in brackets, as [a, b] in Python and JSON, so their brackets and quotes "    \
    "are "                                                                                         \
    "part of the keys; write the values alone, with the separator between them"
#define WEIGHTS                                                                                    \
    "values end with \":\" and a number, which is part of the key; if it is a weight, use "        \
    "weights: "                                                                                    \
    "true"
/* Then all words of a field would be one key, or a key would have more than the word. */
static void keys_that_are_likely_no_words_are_warned_of(void **state)
{
    static const struct {
        const char *separator, *csv, *said; /* NULL: nothing */
    } of[] = {
        {" ", "a\tb,1\nc,1\na\tb\tc,1\n",
         "no field has the separator \" \", and many have \"\\t\"; if that separates the values, "
         "use separator: \"\\t\""},
        {"|", "\"a, b\",1\n\"c,d\",1\ne f,1\n",
         "no field has the separator \"|\", and many have \",\"; if that separates the values, use "
         "separator: \",\""},
        {"|", "a，b,1\nc，d，e,1\n",
         "and many have \"，\"; if that separates the values, use separator: \"，\""},
        {"|", "a、b,1\nc、d,1\n", "use separator: \"、\""},
        {"|", "a；b,1\nc；d,1\n", "use separator: \"；\""},
        {"|",
         "a\x02"
         "b,1\nc\x02"
         "d,1\n",
         "and many have \"\\x02\"; if that separates the values, use separator: \"\\x02\""},
        {"|",
         "a\x01"
         "b,1\nc\x01"
         "d,1\n",
         "use separator: \"\\x01\""},
        {"|",
         "a\x03"
         "b,1\nc\x03"
         "d,1\n",
         "use separator: \"\\x03\""},
        {"|", "\"a\nb\",1\n\"c\nd\",1\n",
         "and many have \"\\n\"; if that separates the values, replace it in the files by \"|\""},
        {", ", "a;b,1\n;c;,1\nd;e,1\n",
         "no field has the separator \", \", and many have \";\"; if"},
        {",", "\"a, b\",1\n\"c, d, e\",1\n",
         "all values begin with a blank, which makes another key of a word; use separator: \", \""},
        {"|", "a | b,1\nc | d,1\n",
         "all values begin or end with a blank, which makes another key of a word; use separator: "
         "\" | \""},
        {"|", "a| b,1\nc| d,1\ne|f,1\n",
         "many values begin with a blank, which makes another key of a word; remove the blanks"},
        {"|", "a| b,1\nc|d,1\n", NULL},
        {"|", "a b,1\nc d,1\nc|d,1\n", NULL},
        {"|", "a b,1\nc,1\nd,1\n", NULL}, /* one is not many */
        {"|", "a ,1\n b,1\n c,1\n", NULL},
        {"|", "a b,1\n\"c,d\",1\ne;f,1\n", NULL},
        {"|", ",1\n,1\na,1\n", NULL},
        {",", "\"[1,2]\",1\n[3],1\n", LISTS},
        {" ", "\"['a' 'b']\",1\n[],1\n", LISTS},
        {", ", "\"(1, 2)\",1\n\"(3, 4)\",1\n", LISTS},
        {";", "{a;b},1\n{c;d},1\n", LISTS},
        {";", "{a},1\n{b},1\n", LISTS}, /* of Postgres, which so writes one value, too */
        {" ", "NULL,1\na b,1\nNULL,1\n", "\"NULL\": read as a word like others"},
        {" ", "see NULL,1\na b,1\nA b,1\n", NULL},
        {" ", "[a b],1\nc d,1\n", NULL}, /* half of them */
        {" ", "[CLS] a [SEP],1\n[CLS] b [SEP],1\n", NULL},
        {" ", "[UNK],1\n[UNK],1\na b,1\n", NULL}, /* brackets are part of a word */
        {" ", "a:2 b:0.5,1\nc:1,1\n", WEIGHTS},
        {" ", "a:2 b,1\nc:1,1\n", NULL},
        {" ", "user:71204 b:0.5,1\nuser:82305 c:1,1\n", NULL}, /* ids */
        {" ", "a:b c:d,1\n", NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++) {
        struct fixture f;
        char columns[128], words[400];
        (void)snprintf(columns, sizeof columns,
                       "keys: {name: tags, separator: '%s', max_values: 4}, label: y",
                       of[i].separator);
        log_init("test", LOG_WARN);
        log_warn("nothing");
        setup(&f, "linear: {inputs: tags}", columns, of[i].csv);
        log_last_words(false, words, sizeof words);
        log_init("test", LOG_ERROR);
        if (!strstr(words, of[i].said ? of[i].said : "nothing"))
            fail_msg("%zu: %s", i, words);
        assert_true(!of[i].said || strstr(words, "data.train: column tags: "));
        teardown(&f);
    }
}

/* Ids of which each is `factor` times a number. */
static void numbers_that_buckets_make_equal_are_warned_of(void **state)
{
    static const struct {
        const char *kind, *options;
        uint64_t factor;
        uint32_t rows;
        const char *said;
    } of[] = {{"key", "buckets: 1024, missing: none", 4194304, 100,
               "100 different numbers of a sample are 1 key modulo the 1024 buckets, as numbers "
               "with a common factor are: leave hash: false out, or choose a prime number"},
              {"keys", "buckets: 1024, max_values: 2", 512, 100,
               "100 different numbers of a sample "
               "are 2 keys modulo"},
              {"key", "buckets: 1021, missing: none", 4194304, 100, "nothing"},
              {"key", "buckets: 1024, missing: none", 4194304, 19, "nothing"},
              {"key", "buckets: 1000, missing: none", 100, 100, "nothing"}, /* a tenth */
              {"key", "buckets: 4, missing: none", 1, 100, "nothing"},
              {"key", "missing: none", 4194304, 100, "nothing"}};
    (void)state;
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++) {
        struct fixture f;
        char columns[128], words[400], csv[4000] = "";
        for (uint32_t row = 0, n = 0; row < of[i].rows; row++)
            n += (uint32_t)snprintf(csv + n, sizeof csv - n, "%llu,%u\n",
                                    (unsigned long long)(row * of[i].factor), row % 2);
        (void)snprintf(columns, sizeof columns, "%s: {name: u, hash: false, %s}, label: y",
                       of[i].kind, of[i].options);
        log_init("test", LOG_WARN);
        log_warn("nothing");
        setup(&f, "linear: {inputs: u}", columns, csv);
        log_last_words(false, words, sizeof words);
        log_init("test", LOG_ERROR);
        if (!strstr(words, of[i].said))
            fail_msg("%zu: %s", i, words);
        teardown(&f);
    }
}

/* As of a category: to a reader they are one word, or a missing value. */
static void words_of_a_key_that_look_equal_or_missing_are_said(void **state)
{
    static const struct {
        const char *csv, *said;
    } of[] = {
        {"u1,1\nu2,1\nu1 ,1\n", "column u: \"u1\" and \"u1 \" are two words; 1 of 3 words differ"},
        {"7,1\n7.0,1\n", "\"7\" and \"7.0\" are two words"},
        {"\\N,1\nu1,1\n\\N,1\n", "column u: \"\\N\": read as a word like others"},
        {"u1,1\nu2,1\n,1\n", "nothing"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++) {
        struct fixture f;
        char words[400];
        log_init("test", LOG_WARN);
        log_warn("nothing");
        setup(&f, "linear: {inputs: u}", "key: u, label: y", of[i].csv);
        log_last_words(false, words, sizeof words);
        log_init("test", LOG_ERROR);
        if (!strstr(words, of[i].said))
            fail_msg("%zu: %s", i, words);
        teardown(&f);
    }
}

/* The words of the first rows are enough, and they do not depend on which thread reads which piece. */
static void a_sample_of_words_is_that_of_the_first_rows(void **state)
{
    enum { ROWS = 150000, FIRST = 5000, BYTES = 16 };
    (void)state;
    struct fixture f;
    char words[400], *text = malloc((size_t)ROWS * BYTES), *at = text;
    assert_non_null(text);
    for (int i = 0; i < ROWS; i++)
        at += sprintf(at, i < FIRST ? "user%07d,1\n" : "USER%07d,1\n", i < FIRST ? i : i % 100);
    log_init("test", LOG_WARN);
    log_warn("nothing");
    setup(&f, "linear: {inputs: u}", "key: u, label: y", text);
    log_last_words(false, words, sizeof words);
    log_init("test", LOG_ERROR);
    assert_non_null(strstr(words, "nothing"));
    teardown(&f);
    free(text);
}

static void a_key_that_cannot_be_read_is_refused_with_its_line(void **state)
{
    static const struct {
        const char *column, *csv, *why;
    } cases[] = {
        {"key: {name: C1, hash: false, missing: none}", "7,1\n-7,1\n",
         ":2: column \"C1\": \"-7\" is not an integer from 0 to 2^64 - 1; use data.missing if it "
         "marks a missing value, or hash: true, which takes any word"},
        {"key: {name: C1, hash: false, missing: none}", "7,1\n 8,1\n",
         ":2: column \"C1\": \" 8\" is not an integer from 0 to 2^64 - 1; blanks around it count: "
         "use data.trim: true"},
        {"key: {name: C1, hash: false, missing: none}",
         "7,1\n\xEF\xBB\xBF"
         "8,1\n",
         ":2: column \"C1\": \"<U+FEFF>8\" is not an integer from 0 to 2^64 - 1; a byte order "
         "mark (U+FEFF) begins the line: if files were joined, remove it"},
        {"keys: {name: C1, separator: ' ', max_values: 2}", "a b c,1\n",
         ":1: column \"C1\": more than max_values: 2 values"},
        {"keys: {name: C1, separator: ' ', max_values: 2, weights: true}", "a b:1:x,1\n",
         ":1: column \"C1\": the weight of \"b:1:x\" is not a number"},
        {"keys: {name: C1, separator: ' ', max_values: 2, weights: true}", "a b:1e39,1\n",
         ":1: column \"C1\": the weight of \"b:1e39\" is too large for float32, which ends at "
         "3.4e38"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct fixture f;
        struct dataset d;
        char wanted[512];
        setup(&f, "linear: {inputs: C1}", "key: C1, label: y", "a,1\n");
        char text[1024];
        struct job job;
        snprintf(
            text, sizeof text,
            "model: {input: {shape: auto}, layers: [linear: {inputs: C1}], loss: mse}\n"
            "optimizer: sgd\ndata: {format: csv, train: '%s/b.csv', columns: [%s, label: y]}\n",
            f.files.dir, cases[i].column);
        if (job_parse(&job, text, strlen(text), "j.yaml", "/", NULL, 0, &f.e))
            fail_msg("%s", f.e.text);
        idx_files_write(&f.files, "b.csv",
                        (struct bytes){(uint8_t *)(uintptr_t)cases[i].csv, strlen(cases[i].csv)});
        assert_int_equal(dataset_load(&d, &job, 0, 0, &f.e), ERR_INPUT);
        snprintf(wanted, sizeof wanted, "data.train: %s/b.csv%s", f.files.dir, cases[i].why);
        assert_string_equal(f.e.text, wanted);
        job_close(&job);
        teardown(&f);
    }
}

static void a_cross_has_a_key_for_each_combination(void **state)
{
    (void)state;
    struct fixture f;
    struct leaf_buffer *room;
    setup(&f, "linear: {inputs: [C1xsite, small, back]}",
          "cross: {name: C1xsite, of: [C1, s]}, key: C1, label: y, key: {name: s, space: site, "
          "missing: none}, cross: {name: small, space: C1xsite, of: [C1, s], buckets: 100}, cross: "
          "{name: back, space: C1xsite, of: [s, C1]}",
          "68fd1e64,0,a\n68fd1e64,1,\n,1,a\n68fd1e64,1,a\n");
    const struct leaf_keys *k = gather(&f, &room, 4);
    assert_int_equal(k->columns, 3);
    assert_true(key_of(k, 0, 0, 0) == UINT64_C(0xc5446c880bde638f)); /* xxhash of both keys */
    assert_true(key_of(k, 0, 1, 0) == 19);
    assert_true(key_of(k, 0, 2, 0) == UINT64_C(0x5b760b2cc006bcc8));
    assert_int_equal(k->column[0].at[1], LOOKUP_NONE);
    assert_true(key_of(k, 0, 0, 2) != 0 && key_of(k, 0, 0, 2) != key_of(k, 0, 0, 0));
    assert_true(key_of(k, 0, 0, 3) == key_of(k, 0, 0, 0));
    leaf_buffer_free(room);
    teardown(&f);
}

static void a_header_names_no_cross(void **state)
{
    (void)state;
    struct fixture f;
    struct leaf_buffer *room;
    setup(&f, "linear: {inputs: [x]}",
          "cross: {name: x, of: [b, a]}, key: a, key: b, label: y], header: names, missing: ['-'",
          "y,x,b,a,x\n1,9,p,q,8\n1,9,p,r,8\n");
    uint64_t row = 0;
    uint32_t there;
    float x, y;
    assert_int_equal(gathered_rows(&f.d, &row, 1, &x, &y, &there, &f.e), ERR_OK);
    assert_true(there == 1 && y == 1);
    const struct leaf_keys *k = gather(&f, &room, 2);
    assert_int_equal(k->list[0].keys, 2);
    leaf_buffer_free(room);
    teardown(&f);
}

static void the_exported_encoding_says_how_keys_are_made(void **state)
{
    (void)state;
    struct fixture f;
    char path[512];
    json_error_t why;
    setup(&f,
          "embedding_bag: {inputs: [C1, t, x], output_dim: 2, mode: sqrtn, table: ids, name: e}, "
          "linear: {inputs: d, name: l}, add: [e, l]",
          "key: {name: C1, space: site, buckets: 1000}, cross: {name: x, of: [C1, d]}, key: {name: "
          "d, "
          "missing: none}, label: y, keys: {name: t, hash: false, "
          "missing: {key: 18446744073709551615}, separator: ' ', max_values: 2, weights: true}]}\n"
          "tables: {l: {min_count: 2}}\n#",
          "a,b,1,7\n");
    snprintf(path, sizeof path, "%s/encoding.json", f.files.dir);
    assert_int_equal(export_encoding(folder_place(f.files.dir), &f.job, f.d.table.schema, &f.e),
                     ERR_OK);
    json_t *all = json_load_file(path, 0, &why);
    json_t *wanted = json_loads(
        "{\"features\": 0, \"missing\": [\"\"], \"columns\": ["
        "{\"name\": \"C1\", \"kind\": \"key\", \"key\": {\"hash\": true, \"space\": \"site\", "
        "\"buckets\": \"1000\", \"missing\": \"empty\"}},"
        "{\"name\": \"x\", \"kind\": \"cross\", \"key\": {\"hash\": true, \"space\": \"x\", "
        "\"buckets\": null, \"missing\": \"none\", \"of\": [\"C1\", \"d\"]}},"
        "{\"name\": \"d\", \"kind\": \"key\", \"key\": {\"hash\": true, \"space\": \"d\", "
        "\"buckets\": null, \"missing\": \"none\", \"complete\": true}},"
        "{\"name\": \"y\", \"kind\": \"label\"},"
        "{\"name\": \"t\", \"kind\": \"keys\", \"key\": {\"hash\": false, \"space\": null, "
        "\"buckets\": null, \"missing\": \"key\", \"missing_key\": \"18446744073709551615\", "
        "\"separator\": \" \", \"max_values\": 2, \"weights\": true}}],"
        "\"lookups\": [{\"layer\": \"e\", \"table\": \"ids\", \"columns\": [\"C1\", \"t\", \"x\"], "
        "\"combine\": \"sqrtn\", \"output\": \"concat\", \"bias\": false},"
        "{\"layer\": \"l\", \"table\": \"l\", \"columns\": [\"d\"], "
        "\"combine\": \"sum\", \"output\": \"sum\", \"bias\": true}],"
        "\"tables\": [{\"name\": \"ids\", \"dim\": 2, \"seed\": \"1\", \"absent\": \"initial\", "
        "\"initializer\": {\"random_uniform\": {\"minval\": -0.05000000074505806, \"maxval\": "
        "0.05000000074505806}}},"
        "{\"name\": \"l\", \"dim\": 1, \"seed\": \"1\", \"absent\": \"zeros\", \"initializer\": "
        "{\"zeros\": {}}}]}",
        0, &why);
    assert_non_null(all);
    assert_non_null(wanted);
    assert_true(json_equal(all, wanted));
    json_decref(all);
    json_decref(wanted);
    teardown(&f);
}

/* That no row lacks a key is true of all rows that the model has learned. */
static void a_key_stays_complete_until_a_row_lacks_it(void **state)
{
    (void)state;
    static const char *const rows[] = {"a,1\nb,2\n", "a,1\n,2\n"};
    for (int first = 0; first < 2; first++) {
        struct fixture f;
        char *text;
        setup(&f, "linear: {inputs: k}", "keys: {name: k, max_values: 2}, label: y", rows[first]);
        assert_true(f.d.table.schema->key[0].complete == !first);
        assert_int_equal(export_encoding_text(&f.job, f.d.table.schema, &text, &f.e), ERR_OK);
        const struct encoding_given given = {text, strlen(text), "cut 7", false};
        for (int then = 0; then < 2; then++) {
            dataset_close(&f.d);
            idx_files_write(&f.files, "a.csv",
                            (struct bytes){(uint8_t *)(uintptr_t)rows[then], strlen(rows[then])});
            assert_int_equal(dataset_load_given(&f.d, &f.job, &given, 0, &f.e), ERR_OK);
            assert_true(f.d.table.schema->key[0].complete == (!first && !then));
        }
        free(text);
        teardown(&f);
    }
}

/* ---- the loader ---- */

static void a_microbatch_brings_the_keys_of_its_rows(void **state)
{
    (void)state;
    struct fixture f;
    struct dataset_source source;
    struct loader *l;
    char csv[4096];
    size_t at = 0;
    for (int i = 0; i < 64; i++)
        at += (size_t)snprintf(csv + at, sizeof csv - at, "%d,%d\n", i % 7, i);
    setup(&f, "linear: {inputs: C1, name: w}",
          "key: {name: C1, hash: false, missing: none}, "
          "label: y",
          csv);
    struct order order = {.rows = 64, .batch_size = 16, .seed = 1, .microbatches = 2};
    assert_int_equal(loader_new(&l, source_over(&source, &f.d, &order), 4, &f.e), ERR_OK);
    for (int ahead = 0; ahead < 2; ahead++) {
        if (ahead)
            loader_want(l, 0, 4, 0, 2);
        for (uint32_t id = 0; id < 4; id++) {
            struct leaf m;
            if (loader_get(l, id, 1, &m, &f.e))
                fail_msg("%s", f.e.text);
            assert_int_equal(m.n, 8);
            assert_non_null(m.keys);
            for (uint32_t i = 0; i < m.n; i++)
                assert_true(key_of(m.keys, 0, 0, i) == (uint64_t)m.y[i] % 7);
            loader_release(l, &m);
        }
    }
    loader_free(l);
    teardown(&f);
}

static void the_job_is_told_where_columns_stand_in_the_models_input(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f, "linear: {inputs: C1, name: w}, dense: {inputs: [w, x, c], units: 1}",
          "category: c, key: C1, number: x, label: y", "a,1,1,1\nb,1,1,1\nc,2,2,1\n");
    assert_true(job_needs_data(&f.job));
    dataset_tell(&f.d, &f.job);
    const struct job_column *c = f.job.data.csv.column;
    assert_int_equal(f.job.model.rank, 1);
    assert_int_equal(f.job.model.shape[0], 4);
    assert_true(c[0].feature == 0 && c[0].width == 3);
    assert_true(c[2].feature == 3 && c[2].width == 1);
    teardown(&f);
}

/* ---- lists of keys, against the plainest way ---- */

static int ascending(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static uint32_t distinct(uint64_t *keys, uint32_t n)
{
    uint32_t out = 0;
    qsort(keys, n, sizeof *keys, ascending);
    for (uint32_t i = 0; i < n; i++)
        if (out == 0 || keys[out - 1] != keys[i])
            keys[out++] = keys[i];
    return out;
}

enum { ORACLE_ROWS = 3000 };

/* Rows of one key column, a third of them of one key; `spread`: how many other keys there are. */
static void check_lists(struct leaf_buffer *room, uint64_t seed, uint32_t rows, uint64_t spread,
                        bool narrow)
{
    static uint64_t mixed[ORACLE_ROWS], sorted[ORACLE_ROWS];
    struct leaf leaf;
    struct errmsg e = {""};
    leaf_buffer_clear(room);
    for (uint32_t i = 0; i < rows; i++) {
        uint64_t draw = rng_u64(seed, i);
        mixed[i] = draw % 3 ? key_mix(draw / 3 % spread) : key_mix(7);
        if (narrow) /* all in one bucket of the sort */
            mixed[i] >>= 40;
        uint32_t cells[3] = {0, (uint32_t)mixed[i], (uint32_t)(mixed[i] >> 32)};
        assert_int_equal(leaf_buffer_add(room, cells, &e), ERR_OK);
    }
    assert_int_equal(leaf_buffer_finish(room, &leaf, &e), ERR_OK);
    const struct leaf_keys *k = leaf.keys;
    memcpy(sorted, mixed, rows * sizeof *mixed);
    assert_int_equal(k->list[0].keys, distinct(sorted, rows));
    assert_memory_equal(k->list[0].mixed, sorted, k->list[0].keys * sizeof *sorted);
    for (uint32_t i = 0; i < rows; i++)
        assert_true(k->list[0].mixed[k->column[0].at[i]] == mixed[i]);
}

static void keys_are_distinct_ascending_and_found_again(void **state)
{
    (void)state;
    struct table_key key = {.kind = COLUMN_KEY, .cells = SCHEMA_KEY_CELLS};
    struct table_lookup lookup = {0, 0};
    struct table_schema s = {.keys = 1, .key_cells = 2, .key = &key, .lists = 1, .lookups = 1};
    s.lookup = &lookup;
    struct leaf_buffer *room;
    struct errmsg e = {""};
    assert_int_equal(gathered_buffer(&room, &s, ORACLE_ROWS, &e), ERR_OK);
    for (uint64_t seed = 1; seed < 30; seed++) {
        check_lists(room, seed, (uint32_t)(seed * 100), seed % 4 ? seed * seed : 1000000, false);
        check_lists(room, seed, 200, 1000, true);
    }
    check_lists(room, 1, 0, 1, false);
    check_lists(room, 1, 1, 1, false);
    leaf_buffer_free(room);
}

static void no_memory_for_keys_is_an_error_wherever_it_ends(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f, "embedding_bag: {inputs: [t], output_dim: 2, name: e}",
          "keys: {name: t, separator: ' ', max_values: 3, weights: true}, label: y",
          "a b:2 c,0\nd,1\n");
    uint64_t rows[2] = {0, 1};
    bool fired = true;
    for (long n = 0; fired; n++) {
        struct leaf_buffer *room = NULL;
        const struct leaf_keys *keys;
        mem_fail_at(n);
        enum err err = gathered_buffer(&room, f.d.table.schema, 2, &f.e);
        if (!err)
            err = gathered_keys(&f.d, rows, 2, room, &keys, &f.e);
        fired = mem_fail_fired();
        mem_fail_at(-1);
        assert_int_equal(err, fired ? ERR_NOMEM : ERR_OK);
        leaf_buffer_free(room);
    }
    teardown(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_words_key_is_its_hash_seeded_by_that_of_its_space),
        cmocka_unit_test(without_a_hash_a_word_is_the_key_itself),
        cmocka_unit_test(a_missing_value_has_the_key_that_the_column_says),
        cmocka_unit_test(key_columns_are_looked_up_row_by_row),
        cmocka_unit_test(several_values_of_a_field_have_places_and_weights),
        cmocka_unit_test(a_row_of_weight_zero_looks_nothing_up),
        cmocka_unit_test(keys_that_are_likely_no_words_are_warned_of),
        cmocka_unit_test(numbers_that_buckets_make_equal_are_warned_of),
        cmocka_unit_test(words_of_a_key_that_look_equal_or_missing_are_said),
        cmocka_unit_test(a_sample_of_words_is_that_of_the_first_rows),
        cmocka_unit_test(a_key_that_cannot_be_read_is_refused_with_its_line),
        cmocka_unit_test(a_cross_has_a_key_for_each_combination),
        cmocka_unit_test(a_header_names_no_cross),
        cmocka_unit_test(the_exported_encoding_says_how_keys_are_made),
        cmocka_unit_test(a_key_stays_complete_until_a_row_lacks_it),
        cmocka_unit_test(a_microbatch_brings_the_keys_of_its_rows),
        cmocka_unit_test(the_job_is_told_where_columns_stand_in_the_models_input),
        cmocka_unit_test(keys_are_distinct_ascending_and_found_again),
        cmocka_unit_test(no_memory_for_keys_is_an_error_wherever_it_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
