/* data.validation: what is learned is what a set teaches where the same rows are bad, and the rows that are held out are those of
 * a file of their own. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "common/base/rng.h"
#include "data/dataset.h"
#include "data/meaning/encoding_given.h"
#include "export/export.h"
#include "tests/lib/gathered.h"
#include "tests/lib/idx_files.h"

enum { FEW = 1500, ROWS_MAX = 24000, BATCH = 64, LEAVES = 4, SEED = 5, ROW_BYTES = 96 };

static uint64_t rows = FEW;

/* ---- rows, and which of them are held out ---- */

enum part { ALL, HELD_ARE_BAD, HELD_ALONE };
struct text {
    char text[(ROWS_MAX + 1) * ROW_BYTES];
    size_t bytes;
};

static bool is_bad_anyway(uint64_t row)
{
    return row % 50 == 7;
}

/* Users of a few rows each; towns of which some are in a few rows, and others at the end alone. */
static void row_text(char out[static ROW_BYTES], uint64_t row, bool bad)
{
    const uint64_t key = rng_key(SEED, RNG_TEST, row, 0);
    const uint64_t town = row > rows * 9 / 10 ? 90 + row % 5
                          : row % 7           ? rng_u64(key, 0) % 9
                                              : 10 + row % 61;
    (void)snprintf(out, ROW_BYTES, "u%u,%.3f,t%u,%.4f,i%u,%s,%u\n",
                   (unsigned)(rng_u64(key, 1) % (rows / 6)),
                   (double)(rng_u64(key, 2) % 90000) / 1000.0, (unsigned)town,
                   (double)(rng_u64(key, 3) % 70000) / 999.0, (unsigned)(rng_u64(key, 4) % 90),
                   bad                   ? "bad"
                   : rng_u64(key, 5) % 2 ? "1"
                                         : "0",
                   (unsigned)(1 + rng_u64(key, 6) % 3));
}

static void make_text(struct text *t, const bool held[static ROWS_MAX], enum part which)
{
    t->bytes = (size_t)snprintf(t->text, ROW_BYTES, "user,age,town,size,item,y,w\n");
    for (uint64_t row = 0; row < rows; row++) {
        char one[ROW_BYTES];
        if (which == HELD_ALONE && !held[row])
            continue;
        row_text(one, row, is_bad_anyway(row) || (which == HELD_ARE_BAD && held[row]));
        memcpy(t->text + t->bytes, one, strlen(one));
        t->bytes += strlen(one);
    }
}

/* As docs/reference/data.md says; the arithmetic of a share is in order_test. Returns how many. */
static uint64_t held_rows(bool held[static ROWS_MAX], const char *way)
{
    const bool column = strstr(way, "column"), last = strstr(way, "last");
    const uint64_t key = order_hold_key(SEED, column);
    uint64_t n = 0;
    for (uint64_t row = 0; row < rows; row++) {
        char one[ROW_BYTES];
        row_text(one, row, false);
        const uint64_t number = column ? XXH3_64bits(one, strcspn(one, ",")) : row;
        held[row] = last ? row >= rows - rows / 5 : order_holds_out(key, number, 0.2);
        n += held[row];
    }
    return n;
}

/* ---- sets ---- */

struct fixture {
    struct idx_files files;
    struct job job;
    struct dataset d, eval;
    struct errmsg e;
};

/* validation: "": the part to evaluate on has the file b.csv. */
static void setup(struct fixture *f, const char *validation, const char *more)
{
    char text[4096], eval[400];
    *f = (struct fixture){.e = {""}};
    idx_files_init(&f->files);
    (void)snprintf(eval, sizeof eval, "eval: '%s/b.csv'", f->files.dir);
    (void)snprintf(
        text, sizeof text,
        "model: {input: {shape: auto}, layers: [linear: {inputs: item, name: l}, dense: {units: 1, "
        "inputs: [age, town, size], name: d}, add: [l, d], sigmoid], loss: binary_crossentropy}\n"
        "optimizer: sgd\nworker: {threads: 3}\n"
        "training: {seed: %d, batch_size: %d, microbatches: %d}\n"
        "data: {format: csv, train: '%s/a.csv', header: names, bad_rows: skip, bad_rows_max: "
        "99999, columns: [{number: "
        "{name: age, scale: standard}}, {category: town}, {number: {name: size, buckets: "
        "{quantiles: 5}}}, {key: item}, {label: y}, {weight: w}], %s %s}\n",
        SEED, BATCH, LEAVES, f->files.dir, *validation ? validation : eval, more);
    if (job_parse(&f->job, text, strlen(text), "j.yaml", "/", NULL, 0, &f->e))
        fail_msg("%s", f->e.text);
}

static void put(struct fixture *f, const char *name, const char *text, size_t bytes)
{
    idx_files_write(&f->files, name, (struct bytes){(uint8_t *)(uintptr_t)text, bytes});
}

static void loads(struct fixture *f)
{
    if (dataset_load(&f->d, &f->job, 0, 0, &f->e) ||
        dataset_load_eval(&f->eval, &f->job, &f->d, 0, &f->e))
        fail_msg("%s", f->e.text);
}

static void teardown(struct fixture *f)
{
    dataset_close(&f->eval);
    dataset_close(&f->d);
    job_close(&f->job);
    idx_files_close(&f->files);
}

static void leaves_are_equal(const struct leaf *a, const struct leaf *b, uint32_t features)
{
    assert_int_equal(a->n, b->n);
    if (!a->n)
        return;
    assert_memory_equal(a->x, b->x, (size_t)a->n * features * sizeof *a->x);
    assert_memory_equal(a->y, b->y, a->n * sizeof *a->y);
    assert_memory_equal(a->weight, b->weight, a->n * sizeof *a->weight);
    assert_int_equal(a->keys->list[0].keys, b->keys->list[0].keys);
    assert_memory_equal(a->keys->list[0].mixed, b->keys->list[0].mixed,
                        a->keys->list[0].keys * sizeof *a->keys->list[0].mixed);
}

/* All leaves of two epochs. Returns the rows of one. */
static uint64_t same_leaves(const struct dataset *a, const struct dataset *b)
{
    const struct order order = {
        .rows = rows, .batch_size = BATCH, .seed = SEED, .microbatches = LEAVES};
    struct dataset_source sa, sb;
    struct source *of_a = source_over(&sa, a, &order), *of_b = source_over(&sb, b, &order);
    struct leaf_buffer *room[2];
    struct errmsg e;
    uint64_t there = 0;
    assert_int_equal(of_a->absent, of_b->absent);
    for (int i = 0; i < 2; i++)
        assert_int_equal(
            leaf_buffer_new(&room[i], &of_a->form, order_leaf_rows_max(&order), LEAF_ALL, &e), 0);
    for (uint64_t id = 0; id < 2 * order_batches(&order); id++)
        for (uint32_t i = 0; i < LEAVES; i++) {
            struct leaf leaf[2];
            assert_int_equal(of_a->type->leaf(of_a, id, i, room[0], &leaf[0], &e), ERR_OK);
            assert_int_equal(of_b->type->leaf(of_b, id, i, room[1], &leaf[1], &e), ERR_OK);
            leaves_are_equal(&leaf[0], &leaf[1], of_a->form.features);
            there += leaf[0].n;
        }
    leaf_buffer_free(room[0]);
    leaf_buffer_free(room[1]);
    assert_int_equal(there % 2, 0);
    assert_int_equal(there / 2, of_a->rows - of_a->absent);
    return there / 2;
}

static void same_blocks(const struct dataset *a, const struct dataset *b)
{
    enum { N = 100 };
    struct dataset_source sa, sb;
    struct source *of_a = source_over(&sa, a, NULL), *of_b = source_over(&sb, b, NULL);
    struct leaf_buffer *room[2];
    struct errmsg e;
    assert_int_equal(of_a->rows, of_b->rows);
    assert_int_equal(of_a->absent, of_b->absent);
    for (int i = 0; i < 2; i++)
        assert_int_equal(leaf_buffer_new(&room[i], &of_a->form, N, LEAF_ALL, &e), 0);
    for (uint64_t first = 0; first < of_a->rows; first += N) {
        const uint64_t left = of_a->rows - first;
        const uint32_t n = left < N ? (uint32_t)left : N;
        struct leaf leaf[2];
        assert_int_equal(source_block(of_a, first, n, room[0], &leaf[0], &e), ERR_OK);
        assert_int_equal(source_block(of_b, first, n, room[1], &leaf[1], &e), ERR_OK);
        leaves_are_equal(&leaf[0], &leaf[1], of_a->form.features);
    }
    leaf_buffer_free(room[0]);
    leaf_buffer_free(room[1]);
}

static void same_encoding(const struct fixture *a, const struct fixture *b)
{
    char *text[2] = {NULL, NULL};
    struct errmsg e;
    assert_int_equal(export_encoding_text(&a->job, a->d.table.schema, &text[0], &e), ERR_OK);
    assert_int_equal(export_encoding_text(&b->job, b->d.table.schema, &text[1], &e), ERR_OK);
    assert_string_equal(text[0], text[1]);
    free(text[0]);
    free(text[1]);
}

static const char *const ways[] = {"validation: {last: 0.2}", "validation: {share: 0.2}",
                                   "validation: {column: user, share: 0.2}"};

static void holds_out(const char *way, const char *more, bool spills)
{
    static struct text text;
    struct fixture held, bad;
    bool is[ROWS_MAX];
    const uint64_t n = held_rows(is, way);
    assert_in_range(n, rows / 8, rows / 4);
    setup(&held, way, more);
    make_text(&text, is, ALL);
    put(&held, "a.csv", text.text, text.bytes);
    setup(&bad, "", "");
    make_text(&text, is, HELD_ARE_BAD);
    put(&bad, "a.csv", text.text, text.bytes);
    make_text(&text, is, HELD_ALONE);
    put(&bad, "b.csv", text.text, text.bytes);
    loads(&held);
    loads(&bad);
    assert_int_equal(table_spilled_bytes(&held.d.table) > 0, spills);
    same_encoding(&held, &bad);
    assert_int_equal(held.eval.rows, n);
    assert_memory_equal(&held.d.seen, &bad.d.seen, sizeof held.d.seen);
    assert_memory_equal(&held.eval.seen, &bad.eval.seen, sizeof held.eval.seen);
    assert_in_range(same_leaves(&held.d, &bad.d), rows / 2, rows - n);
    same_blocks(&held.eval, &bad.eval);
    /* a process without rows to train on reads them all, by the encoding that others have */
    struct dataset other,
        none = {.table = {.schema = bad.d.table.schema, .spill = bad.d.table.spill}};
    assert_int_equal(dataset_load_eval(&other, &held.job, &none, 0, &held.e), ERR_OK);
    same_blocks(&other, &bad.eval);
    dataset_close(&other);
    teardown(&held);
    teardown(&bad);
}

static void rows_that_are_held_out_teach_nothing_and_are_a_part_of_their_own(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        holds_out(ways[i], "", false);
}

static void rows_in_a_file_are_held_out_alike(void **state)
{
    (void)state;
    rows = ROWS_MAX;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        holds_out(ways[i], ", memory_mb: 1", true);
    rows = FEW;
}

static void the_fingerprint_tells_which_rows_are_held_out(void **state)
{
    enum { WAYS = sizeof ways / sizeof *ways };
    static struct text text;
    uint8_t print[WAYS][sizeof((struct contents *)0)->fingerprint];
    const bool none[ROWS_MAX] = {false};
    (void)state;
    make_text(&text, none, ALL);
    for (size_t i = 0; i < WAYS; i++) {
        struct fixture f;
        setup(&f, ways[i], "");
        put(&f, "a.csv", text.text, text.bytes);
        loads(&f);
        memcpy(print[i], f.eval.contents.fingerprint, sizeof print[i]);
        assert_memory_not_equal(print[i], f.d.contents.fingerprint, sizeof print[i]);
        for (size_t j = 0; j < i; j++)
            assert_memory_not_equal(print[i], print[j], sizeof print[i]);
        teardown(&f);
    }
}

static void load_words(struct fixture *f, const char *lines, const char *encoding)
{
    const struct encoding_given given = {encoding, encoding ? strlen(encoding) : 0, "cut 7", true};
    char text[200];
    const int n = snprintf(text, sizeof text, "user,age,town,size,item,y,w\n%s", lines);
    put(f, "a.csv", text, (size_t)n);
    if (dataset_load_given(&f->d, &f->job, encoding ? &given : NULL, 0, &f->e))
        fail_msg("%s", f->e.text);
}

static void words_are(const struct fixture *f, const char *const *wanted, uint32_t n)
{
    const struct vocabulary *words = &f->d.table.schema->input[1].words;
    assert_int_equal(words->count, n);
    for (uint32_t i = 0; i < n; i++) {
        size_t bytes;
        const char *word = vocabulary_text(words, i, &bytes);
        assert_int_equal(bytes, strlen(wanted[i]));
        assert_memory_equal(word, wanted[i], bytes);
    }
}
#define WORDS_ARE(f, ...)                                                                          \
    do {                                                                                           \
        const char *const wanted[] = {__VA_ARGS__};                                                \
        words_are(f, wanted, sizeof wanted / sizeof *wanted);                                      \
    } while (0)

static void words_of_a_checkpoint_keep_their_numbers_where_rows_are_held_out(void **state)
{
    (void)state;
    struct fixture first, next;
    char *encoding = NULL;
    setup(&first, "validation: {last: 0.5}", "");
    load_words(&first, "u,1,z,2,i,0,1\nu,3,y,4,i,1,1\nu,1,q,2,i,0,1\nu,3,z,4,i,1,1\n", NULL);
    WORDS_ARE(&first, "z", "y");
    assert_int_equal(export_encoding_text(&first.job, first.d.table.schema, &encoding, &first.e),
                     ERR_OK);
    setup(&next, "validation: {last: 0.5}", "");
    load_words(&next, "u,1,c,2,i,0,1\nu,3,y,4,i,1,1\nu,1,b,2,i,0,1\nu,3,c,4,i,1,1\n", encoding);
    WORDS_ARE(&next, "z", "y", "c");
    free(encoding);
    teardown(&first);
    teardown(&next);
}

static void a_look_at_all_rows_sees_the_features_that_are_learned(void **state)
{
    (void)state;
    static struct text text;
    bool is[ROWS_MAX];
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        struct fixture f;
        struct dataset_look look;
        (void)held_rows(is, ways[i]);
        make_text(&text, is, ALL);
        setup(&f, ways[i], "");
        put(&f, "a.csv", text.text, text.bytes);
        assert_int_equal(dataset_look(&look, &f.job, 0, 0, &f.e), ERR_OK);
        assert_false(look.estimated);
        loads(&f);
        assert_int_equal(look.shape[0], f.d.features);
        assert_memory_equal(&look.seen, &f.d.seen, sizeof look.seen);
        teardown(&f);
    }
}

/* It has rows without numbers, of blocks that are spread over the file. */
static void a_look_at_some_rows_holds_none_out(void **state)
{
    (void)state;
    enum { TIMES = 1000 }; /* more than is read of rows with keys */
    static struct text text;
    static char long_text[TIMES * FEW * ROW_BYTES / 2];
    bool is[ROWS_MAX];
    (void)held_rows(is, ways[2]);
    make_text(&text, is, ALL);
    size_t bytes = text.bytes, header = strcspn(text.text, "\n") + 1;
    memcpy(long_text, text.text, bytes);
    for (int i = 1; i < TIMES; i++, bytes += text.bytes - header)
        memcpy(long_text + bytes, text.text + header, text.bytes - header);
    struct fixture f;
    struct dataset_look look;
    setup(&f, ways[2], "");
    put(&f, "a.csv", long_text, bytes);
    if (dataset_look(&look, &f.job, 0, 0, &f.e))
        fail_msg("%s", f.e.text);
    assert_true(look.estimated);
    assert_in_range(look.rows, TIMES * FEW / 10 * 9, TIMES * FEW / 10 * 11);
    teardown(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_that_are_held_out_teach_nothing_and_are_a_part_of_their_own),
        cmocka_unit_test(rows_in_a_file_are_held_out_alike),
        cmocka_unit_test(the_fingerprint_tells_which_rows_are_held_out),
        cmocka_unit_test(words_of_a_checkpoint_keep_their_numbers_where_rows_are_held_out),
        cmocka_unit_test(a_look_at_all_rows_sees_the_features_that_are_learned),
        cmocka_unit_test(a_look_at_some_rows_holds_none_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
