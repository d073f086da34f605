/* The contents of the data that two processes have read, and the names of the files that differ. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "common/process/contents.h"
#include "tests/lib/idx_files.h"
#include "data/dataset.h"

/* ---- without files ---- */

/* A process that has read these files; a NULL ends them. */
static struct contents read_all(const char *const (*file)[2])
{
    struct contents c = {.files = 0};
    struct errmsg e;
    assert_int_equal(contents_begin(&c, &e), ERR_OK);
    for (; (*file)[0]; file++) {
        contents_file(&c, (*file)[0]);
        contents_add(&c, (*file)[1], strlen((*file)[1]));
        contents_count(&c, strlen((*file)[1]));
    }
    assert_int_equal(contents_finish(&c, &e), ERR_OK);
    return c;
}

static const char *difference(const struct contents *ours, const struct contents *theirs)
{
    static char text[400];
    contents_differ(ours, &theirs->print, "the chief", text, sizeof text);
    return text;
}

#define NONE                                                                                       \
    {                                                                                              \
        NULL, NULL                                                                                 \
    }

static void the_same_files_under_other_names_are_the_same(void **state)
{
    (void)state;
    static const char *const here[][2] = {{"a", "one"}, {"b", "two"}, NONE}, *const there[][2] = {
                                                                                 {"/x/c", "one"},
                                                                                 {"/y/d", "two"},
                                                                                 NONE};
    struct contents a = read_all(here), b = read_all(there);
    assert_true(contents_same(&a, b.fingerprint, sizeof b.fingerprint));
    assert_false(contents_same(&a, b.fingerprint, sizeof b.fingerprint - 1));
    assert_false(contents_same(&a, NULL, 0));
    contents_close(&a);
    contents_close(&b);
}

/* As hex, or the beginning of it. */
static void a_fingerprint_of_text_tells_that_of_an_earlier_release(void **state)
{
    (void)state;
    static const char *const files[][2] = {{"a", "one"}, NONE};
    struct contents old = read_all(files), text = {.files = 0};
    char hex[CONTENTS_HEX_BYTES], own[CONTENTS_HEX_BYTES];
    struct errmsg e;
    assert_int_equal(contents_begin(&text, &e), ERR_OK);
    contents_of_text(&text);
    assert_int_equal(contents_finish(&text, &e), ERR_OK);
    contents_hex(&text, own);
    contents_hex(&old, hex);
    assert_true(strncmp(own, "7833", 4) == 0 && strcmp(own + 60, "7833") == 0);
    assert_false(contents_is_untold(&old, text.fingerprint));
    assert_false(contents_is_untold(&text, text.fingerprint));
    assert_true(contents_is_untold(&text, old.fingerprint));
    assert_true(contents_same_hex(&text, hex) && contents_same_hex(&text, own));
    assert_false(contents_same_hex(&old, own));
    assert_false(contents_same_hex(&text, "7833000000000000"));
    assert_false(contents_same(&text, old.fingerprint, sizeof old.fingerprint));
    text.knows_before = true;
    assert_false(contents_is_untold(&text, old.fingerprint));
    assert_false(contents_same_hex(&text, hex));
    memcpy(text.before, old.fingerprint, sizeof text.before);
    hex[16] = '\0';
    assert_true(contents_same_hex(&text, hex));
    assert_true(contents_same(&text, old.fingerprint, sizeof old.fingerprint));
    contents_close(&old);
    contents_close(&text);
}

static void what_differs_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *const there[6][2], *says;
    } cases[] = {
        {{{"a", "one"}, {"b", "2"}, {"c", "three"}, NONE}, "b differs (1 bytes, 3 at the chief)"},
        {{{"a", "one"}, {"b", "owt"}, {"c", "three"}, NONE},
         "b differs (3 bytes, as at the chief, but other ones)"},
        {{{"a", "1"}, {"b", "2"}, {"c", "three"}, NONE},
         "a differs (1 bytes, 3 at the chief), b differs (1 bytes, 3 at the chief)"},
        {{{"a", "one"}, {"c", "three"}, NONE}, "it has read 2 files, the chief 3, and not b"},
        {{{"a", "one"}, {"b", "two"}, {"c", "three"}, {"d", "four"}, NONE},
         "it has read 4 files, the chief 3"},
        {{{"a", "one"}, {"c", "three"}, {"b", "two"}, NONE},
         "it has read the same files in another order"},
        {{NONE}, "it has read 0 files, the chief 3, and not a, b, c"},
    };
    static const char *const here[][2] = {{"a", "one"}, {"b", "two"}, {"c", "three"}, NONE};
    struct contents ours = read_all(here);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct contents theirs = read_all(cases[i].there);
        assert_false(contents_same(&ours, theirs.fingerprint, sizeof theirs.fingerprint));
        assert_string_equal(difference(&ours, &theirs), cases[i].says);
        contents_close(&theirs);
    }
    contents_close(&ours);
}

/* Of `files` files, one of which may be another. */
static struct contents many(size_t files, size_t other)
{
    struct contents c = {.files = 0};
    struct errmsg e;
    assert_int_equal(contents_begin(&c, &e), ERR_OK);
    for (size_t i = 0; i < files; i++) {
        char name[16];
        snprintf(name, sizeof name, "f%zu", i);
        contents_file(&c, name);
        contents_add(&c, i == other ? "!" : name, i == other ? 1 : strlen(name));
    }
    assert_int_equal(contents_finish(&c, &e), ERR_OK);
    return c;
}

static void of_more_files_than_a_hello_holds_a_group_is_named(void **state)
{
    (void)state;
    enum { FILES = 3 * CONTENTS_ENTRIES_MAX - 1 };
    struct contents ours = many(FILES, FILES), theirs = many(FILES, 4),
                    last = many(FILES, FILES - 1), fewer = many(5, 5);
    assert_int_equal(ours.print.entries, CONTENTS_ENTRIES_MAX);
    assert_string_equal(difference(&ours, &theirs),
                        "f3 or a file up to f5 differs (0 bytes, as at the chief, but other ones)");
    assert_non_null(strstr(difference(&ours, &last), "f6141 or a file up to f6142 differs"));
    assert_string_equal(difference(&ours, &fewer), "it has read 5 files, the chief 6143");
    assert_string_equal(difference(&fewer, &ours), "it has read 6143 files, the chief 5");
    contents_close(&ours);
    contents_close(&theirs);
    contents_close(&last);
    contents_close(&fewer);
}

/* A peer may send anything. */
static void what_a_peer_sends_is_only_compared(void **state)
{
    (void)state;
    static const char *const here[][2] = {{"a", "one"}, {"b", "two"}, NONE};
    struct contents ours = read_all(here);
    char text[400];
    const struct contents_print none = {.files = UINT64_MAX}, same = {.files = 2};
    contents_differ(&ours, &none, "the chief", text, sizeof text);
    assert_string_equal(text, "it has read 18446744073709551615 files, the chief 2");
    contents_differ(&ours, &same, "the chief", text, sizeof text);
    assert_non_null(strstr(text, "it has read 2 files, the chief 2"));
    contents_differ(&ours, &ours.print, "the chief", text, sizeof text);
    assert_string_equal(text, "its contents differ");
    contents_differ(&ours, &same, "the chief", text, 8);
    assert_string_equal(text, "it has ");
    contents_close(&ours);
}

/* ---- of each format ---- */

enum { ROWS = 3 };
struct row {
    uint8_t x, label;
};

struct format {
    const char *name, *job, *file[2], *differs; /* differs: the file that has labels */
    void (*write)(struct idx_files *f, const struct format *of, const struct row *row, size_t n,
                  enum packing packing);
};

static void put(struct idx_files *f, const char *name, const void *data, size_t bytes,
                enum packing packing)
{
    struct bytes packed = bytes_pack((struct bytes){(uint8_t *)data, bytes}, packing);
    idx_files_write(f, name, packed);
    bytes_free(&packed);
}

static void write_text(struct idx_files *f, const struct format *of, const struct row *row,
                       size_t n, enum packing packing)
{
    char text[400];
    size_t at = 0;
    for (size_t i = 0; i < n; i++)
        at += (size_t)snprintf(text + at, sizeof text - at,
                               strcmp(of->name, "csv") == 0 ? "%2$u,%1$u\n" : "%u 1:%u\n",
                               row[i].label, row[i].x);
    put(f, of->file[0], text, at, packing);
}

static void write_idx(struct idx_files *f, const struct format *of, const struct row *row, size_t n,
                      enum packing packing)
{
    uint8_t x[16 + ROWS] = {0, 0, 8, 3, 0, 0, 0, (uint8_t)n, 0, 0, 0, 1, 0, 0, 0, 1},
                   y[8 + ROWS] = {0, 0, 8, 1, 0, 0, 0, (uint8_t)n};
    for (size_t i = 0; i < n; i++) {
        x[16 + i] = row[i].x;
        y[8 + i] = row[i].label;
    }
    put(f, of->file[0], x, 16 + n, packing);
    put(f, of->file[1], y, 8 + n, packing);
}

static void put_array(struct idx_files *f, const char *name, const char *shape, const uint8_t *data,
                      size_t n, enum packing packing)
{
    uint8_t all[200] = "\x93NUMPY\1";
    int head =
        snprintf((char *)all + 10, sizeof all - 10,
                 "{'descr': '|u1', 'fortran_order': False, 'shape': (%zu,%s), }\n", n, shape);
    all[8] = (uint8_t)head;
    memcpy(all + 10 + head, data, n);
    put(f, name, all, 10 + (size_t)head + n, packing);
}

static void write_npy(struct idx_files *f, const struct format *of, const struct row *row, size_t n,
                      enum packing packing)
{
    uint8_t x[ROWS], y[ROWS];
    for (size_t i = 0; i < n; i++) {
        x[i] = row[i].x;
        y[i] = row[i].label;
    }
    put_array(f, of->file[0], " 1, 1", x, n, packing);
    put_array(f, of->file[1], "", y, n, packing);
}

static void write_cifar10(struct idx_files *f, const struct format *of, const struct row *row,
                          size_t n, enum packing packing)
{
    enum { RECORD = 3073 };
    uint8_t all[ROWS * RECORD] = {0};
    for (size_t i = 0; i < n; i++) {
        all[i * RECORD] = row[i].label;
        all[i * RECORD + 1] = row[i].x;
    }
    put(f, of->file[0], all, n * RECORD, packing);
}

#define MODEL(shape)                                                                               \
    "name: t\noptimizer: sgd\ntraining: {batch_size: 2}\n"                                         \
    "model: {input: {shape: " shape                                                                \
    "}, loss: sparse_categorical_crossentropy, layers: [flatten, dense: {units: 2, activation: "   \
    "softmax}]}\n"

static const struct format formats[] = {
    {"csv",
     MODEL("auto") "data: {format: csv, train: a, columns: [number: x, label: {name: y}]}\n",
     {"a", NULL},
     "a",
     write_text},
    {"libsvm",
     "name: t\noptimizer: sgd\ntraining: {batch_size: 2}\n"
     "model: {input: {shape: auto}, loss: binary_crossentropy, layers: [linear: {inputs: [f]}, "
     "sigmoid]}\n"
     "data: {format: libsvm, train: a, columns: [label: {name: y}, keys: {name: f, max_values: "
     "4}]}\n",
     {"a", NULL},
     "a",
     write_text},
    {"idx",
     MODEL("[1, 1]") "data: {format: idx, train: [x, y], scale: 1}\n",
     {"x", "y"},
     "y",
     write_idx},
    {"npy",
     MODEL("[1, 1]") "data: {format: npy, train: [x.npy, y.npy], scale: 1}\n",
     {"x.npy", "y.npy"},
     "y.npy",
     write_npy},
    {"cifar10",
     MODEL("[32, 32, 3]") "data: {format: cifar10, train: a, scale: 1}\n",
     {"a", NULL},
     "a",
     write_cifar10},
};

static struct contents load(const struct format *of, const char *dir)
{
    struct errmsg e = {""};
    struct job job;
    struct dataset d;
    if (job_parse(&job, of->job, strlen(of->job), "job.yaml", dir, NULL, 0, &e) ||
        dataset_load(&d, &job, 0, 2, &e))
        fail_msg("%s: %s", of->name, e.text);
    struct contents c = d.contents;
    d.contents = (struct contents){.files = 0};
    dataset_close(&d);
    job_close(&job);
    return c;
}

static struct contents written(const struct format *of, const struct row *row, size_t n,
                               enum packing packing)
{
    struct idx_files files;
    idx_files_init(&files);
    of->write(&files, of, row, n, packing);
    struct contents c = load(of, files.dir);
    idx_files_close(&files);
    return c;
}

static void other_rows_are_told_in_every_format(void **state)
{
    (void)state;
    static const struct row rows[ROWS] = {{1, 0}, {2, 1}, {3, 0}},
                            order[] = {{2, 1}, {1, 0}, {3, 0}},
                            flipped[] = {{1, 0}, {2, 0}, {3, 0}};
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        const struct format *of = &formats[i];
        struct contents ours = written(of, rows, ROWS, PACK_PLAIN);
        assert_int_equal(ours.file[ours.files - 1].rows, ROWS);
        assert_true(ours.files == 1 || !ours.file[0].rows); /* labels */
        for (enum packing p = PACK_PLAIN; p < PACK_COUNT; p++) {
            struct contents copy = written(of, rows, ROWS, p),
                            in_order = written(of, order, ROWS, p),
                            label = written(of, flipped, ROWS, p), fewer = written(of, rows, 2, p);
            const struct contents *other[] = {&in_order, &label, &fewer};
            assert_true(contents_same(&ours, copy.fingerprint, sizeof copy.fingerprint));
            for (size_t k = 0; k < 3; k++) {
                assert_false(contents_same(&ours, other[k]->fingerprint, sizeof ours.fingerprint));
                if (!strstr(difference(&ours, other[k]), of->differs))
                    fail_msg("%s: %zu: %s", of->name, k, difference(&ours, other[k]));
                bool counts = strstr(difference(&ours, other[k]), "it has 2 rows, the chief 3; ");
                assert_int_equal(counts, other[k] == &fewer);
            }
            contents_close(&copy);
            contents_close(&in_order);
            contents_close(&label);
            contents_close(&fewer);
        }
        contents_close(&ours);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_files_under_other_names_are_the_same),
        cmocka_unit_test(a_fingerprint_of_text_tells_that_of_an_earlier_release),
        cmocka_unit_test(what_differs_is_named),
        cmocka_unit_test(of_more_files_than_a_hello_holds_a_group_is_named),
        cmocka_unit_test(what_a_peer_sends_is_only_compared),
        cmocka_unit_test(other_rows_are_told_in_every_format),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
