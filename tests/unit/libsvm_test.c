/* data.format: libsvm: its keys in a job, and the rows that its lines give. */
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
#include "common/rows/key.h"
#include "tests/lib/idx_files.h"
#include "data/dataset.h"
#include "tests/lib/gathered.h"

#define COLUMNS "columns: [label: y, keys: {name: features, max_values: 3}]"

struct fixture {
    struct idx_files files;
    struct job job;
    struct dataset d;
    struct errmsg e;
};

static enum err parse(struct fixture *f, const char *loss, const char *data)
{
    char text[2048];
    snprintf(text, sizeof text,
             "model: {input: {shape: auto}, layers: [linear: features, sigmoid], loss: %s}\n"
             "optimizer: sgd\nworker: {threads: 2}\n"
             "data: {train: '%s/a.txt', %s}\n",
             loss, f->files.dir, data);
    return job_parse(&f->job, text, strlen(text), "j.yaml", "/", NULL, 0, &f->e);
}

static void begin(struct fixture *f, const char *loss, const char *data)
{
    *f = (struct fixture){.e = {""}};
    idx_files_init(&f->files);
    if (parse(f, loss, data))
        fail_msg("%s", f->e.text);
}

static enum err load(struct fixture *f, const char *text)
{
    idx_files_write(&f->files, "a.txt", (struct bytes){(uint8_t *)(uintptr_t)text, strlen(text)});
    return dataset_load(&f->d, &f->job, 0, 0, &f->e);
}

static void setup(struct fixture *f, const char *loss, const char *more, const char *text)
{
    char data[512];
    snprintf(data, sizeof data, "format: libsvm, %s%s", strstr(more, "columns") ? "" : COLUMNS ", ",
             more);
    begin(f, loss, data);
    if (load(f, text))
        fail_msg("%s", f->e.text);
}

static void end(struct fixture *f)
{
    job_close(&f->job);
    idx_files_close(&f->files);
}

static void teardown(struct fixture *f)
{
    dataset_close(&f->d);
    end(f);
}

static const uint32_t *cells_of(struct fixture *f, uint64_t row)
{
    static uint32_t buffer[TABLE_ROW_CELLS_MAX];
    const uint32_t *cells;
    uint64_t n = 1;
    assert_int_equal(table_look(&f->d.table, row, &n, buffer, TABLE_ROW_CELLS_MAX, &cells, &f->e),
                     ERR_OK);
    return cells;
}

static float label_of(struct fixture *f, uint64_t row)
{
    return schema_float(cells_of(f, row)[0]);
}

/* "3:1 7:0.5" */
static void assert_values(struct fixture *f, uint64_t row, const char *wanted)
{
    char is[256] = "";
    const uint32_t *cells = cells_of(f, row) + 1;
    size_t at = 0;
    for (uint32_t i = 0; i < cells[0]; i++) {
        const uint32_t *value = cells + 1 + (size_t)3 * i;
        at += (size_t)snprintf(is + at, sizeof is - at, "%s%llu:%g", i ? " " : "",
                               (unsigned long long)key_unmix(value[0] | (uint64_t)value[1] << 32),
                               (double)schema_float(value[2]));
    }
    assert_string_equal(is, wanted);
}

/* The text is refused, and the error ends so. */
static void refuses(const char *loss, const char *text, const char *why)
{
    struct fixture f;
    begin(&f, loss, "format: libsvm, " COLUMNS);
    assert_int_equal(load(&f, text), ERR_INPUT);
    if (!strstr(f.e.text, why))
        fail_msg("%s, not %s", f.e.text, why);
    end(&f);
}

static void a_label_with_a_comma_is_several_labels_or_a_row_of_csv(void **state)
{
    (void)state;
    static const char csv[] = "is not a number; the line has no pair index:value: if the file is "
                              "csv, use data.format: csv";
    refuses(
        "binary_crossentropy", "1 1:2\n1,3 5:1\n",
        "a.txt:2: the label \"1,3\" is not a number; a row has one label: several of them are not "
        "supported");
    refuses("mse", "1,3 5:1\n", "write numbers with a decimal point");
    refuses("mse", "72,14,31.88\n", csv);
    refuses("binary_crossentropy", "age;plan\n", csv);
    refuses("binary_crossentropy", "no 1:1\n",
            "name the values of the label by its classes: [...]");
}

static void indices_are_keys_and_values_are_their_weights(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f, "mse", "bad_rows: stop",
          "1.5 0:1 7:0.25 18446744073709551615:-2e1\n"
          "\n"
          "   # a comment\n"
          "-2 qid:12 3:0 # 4:4\r\n"
          "\t+3\t5:1  6:1 \n"
          "4#\n"
          "5 1:1#2:2\n"
          "6 2:3"); /* the last line may lack its end */
    assert_int_equal(f.d.rows, 6);
    assert_int_equal(f.d.features, 0);
    static const struct {
        float label;
        const char *values;
    } rows[] = {{1.5F, "0:1 7:0.25 18446744073709551615:-20"},
                {-2, "3:0"},
                {3, "5:1 6:1"},
                {4, ""},
                {5, "1:1"},
                {6, "2:3"}};
    for (uint64_t i = 0; i < 6; i++) {
        assert_true(label_of(&f, i) == rows[i].label);
        assert_values(&f, i, rows[i].values);
    }
    teardown(&f);
}

static void a_microbatch_looks_its_indices_up(void **state)
{
    (void)state;
    struct fixture f;
    struct leaf_buffer *room;
    const struct leaf_keys *k;
    static const uint64_t rows[] = {0, 1};
    setup(&f, "binary_crossentropy", "bad_rows: stop", "1 3:1 9:0.5\n-1 9:2\n");
    assert_int_equal(gathered_buffer(&room, f.d.table.schema, 2, &f.e), ERR_OK);
    assert_int_equal(gathered_keys(&f.d, rows, 2, room, &k, &f.e), ERR_OK);
    assert_int_equal(k->list[0].keys, 2);
    assert_true(k->column[0].count[0] == 2 && k->column[0].count[1] == 1);
    assert_true(k->column[0].weight[1] == 0.5F && k->column[0].weight[3] == 2);
    assert_int_equal(k->column[0].at[1], k->column[0].at[3]);
    leaf_buffer_free(room);
    teardown(&f);
}

static void buckets_take_indices_modulo(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f, "mse", "columns: [keys: {name: features, max_values: 2, buckets: 10}, label: y]",
          "0 7:1 27:2\n");
    assert_values(&f, 0, "7:1 7:2");
    teardown(&f);
}

static void a_label_of_minus_one_is_class_0_of_a_binary_loss(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f, "binary_crossentropy", "bad_rows: stop", "-1 1:1\n+1 1:1\n-1.0 2:1\n");
    assert_true(label_of(&f, 0) == 0 && label_of(&f, 1) == 1 && label_of(&f, 2) == 0);
    teardown(&f);
    setup(&f, "binary_crossentropy", "bad_rows: stop", "0 1:1\n1 1:1\n");
    assert_true(label_of(&f, 0) == 0 && label_of(&f, 1) == 1);
    teardown(&f);
    setup(&f, "mse", "bad_rows: stop", "-1 1:1\n0 1:1\n");
    assert_true(label_of(&f, 0) == -1 && label_of(&f, 1) == 0);
    teardown(&f);
    setup(&f, "binary_crossentropy",
          "columns: [label: {classes: ['0|-1', '+1']}, keys: {name: features, max_values: 3}]",
          "-1 1:1\n0 1:1\n+1 1:1\n");
    assert_true(label_of(&f, 0) == 0 && label_of(&f, 1) == 0 && label_of(&f, 2) == 1);
    teardown(&f);
}

static void only_libsvm_takes_a_label_of_minus_one_for_class_0(void **state)
{
    (void)state;
    struct fixture f;
    begin(
        &f, "binary_crossentropy",
        "format: csv, columns: [label: y, keys: {name: features, max_values: 3, separator: ' '}]");
    assert_int_equal(load(&f, "1,a\n-1,b\n"), ERR_INPUT);
    assert_non_null(strstr(f.e.text, "a.txt:2: column \"y\": label -1, the model has 2 classes"));
    end(&f);
}

static void a_file_of_weights_is_asked_for_before_its_labels(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f, "binary_crossentropy", "format: libsvm, " COLUMNS);
    assert_int_equal(load(&f, "1.0\n2.0\n"), ERR_INPUT);
    assert_non_null(strstr(f.e.text,
                           "a.txt:2: label 2.0, the model has 2 classes (labels 0 to 1); no "
                           "pair index:value follows: is it a file of weights?"));
    assert_int_equal(load(&f, "0.5\n"), ERR_INPUT);
    assert_non_null(strstr(f.e.text, "(labels 0 to 1); no pair index:value follows"));
    assert_int_equal(load(&f, "1 1:1\n2 1:1\n"), ERR_INPUT);
    assert_non_null(strstr(f.e.text, "; if the labels start at 1, list them"));
    end(&f);
}

static void labels_minus_one_and_0_are_not_taken_for_one_class(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f, "binary_crossentropy", "format: libsvm, " COLUMNS);
    assert_int_equal(load(&f, "-1 1:1\n0 1:1\n0 1:1\n-1 1:1\n"), ERR_INPUT);
    assert_non_null(strstr(f.e.text, "a.txt:2: label 0, and "));
    assert_non_null(strstr(f.e.text, "a.txt:1 has label -1: name the classes: - label: "
                                     "{classes: [\"-1\", \"1\"]}"));
    end(&f);
    setup(&f, "binary_crossentropy", "bad_rows: skip", "-1 1:1\n0 1:x\n1 1:1\n");
    assert_int_equal(f.d.bad_rows, 1); /* a bad row's label says nothing */
    teardown(&f);
}

static void a_class_with_the_sign_of_a_comment_is_refused(void **state)
{
    (void)state;
    struct fixture f = {.e = {""}};
    assert_int_equal(parse(&f, "binary_crossentropy",
                           "format: libsvm, columns: [label: {name: y, classes: ['#a', b]}, keys: "
                           "{name: features, max_values: 3}]"),
                     ERR_INPUT);
    assert_non_null(strstr(f.e.text, "data.columns[0]"));
    assert_non_null(
        strstr(f.e.text, "its classes have a #, with which a comment begins in libsvm"));
}

static void a_label_of_minus_one_shows_the_line_that_names_it(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f, "sparse_categorical_crossentropy", "format: libsvm, " COLUMNS);
    idx_files_write(&f.files, "a.txt",
                    (struct bytes){(uint8_t *)(uintptr_t) "1 1:1\n\n-1 1:1\n", 14});
    assert_int_equal(dataset_load(&f.d, &f.job, 0, 2, &f.e), ERR_INPUT);
    assert_non_null(strstr(f.e.text, "a.txt:3: label -1, the model has 2 classes (labels 0 to "
                                     "1); name the labels as they are in the file: - label: "
                                     "{classes: [\"-1\", \"1\"]}"));
    end(&f);
}

static void bad_rows_keep_their_place(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f, "mse", "bad_rows: skip", "1 1:1\n2 1:1 x\n3 2:2\n");
    assert_int_equal(f.d.rows, 3);
    assert_int_equal(f.d.bad_rows, 1);
    assert_true(isnan(label_of(&f, 1)));
    assert_values(&f, 1, "");
    assert_values(&f, 2, "2:2");
    teardown(&f);
}

static void a_line_that_cannot_be_read_is_refused_with_file_and_line(void **state)
{
    static const struct {
        const char *line, *why;
    } cases[] = {
        {"x 1:1",
         "the label \"x\" is not a number; name the values of the label by its classes: [...]"},
        {"y,features", /* a csv */
         "the label \"y,features\" is not a number; the line has no pair index:value: if the file "
         "is csv, use data.format: csv"},
        {"1:1 2:1", "the line has no label, it begins with the pair \"1:1\""},
        {"1 1:1 # all\r0 2:2\r", CSV_LONE_RETURN},
        {"# all\r1 1:1", CSV_LONE_RETURN},
        {"\xEF\xBB\xBF"
         "1 1:1",
         "the label \"<U+FEFF>1\" is not a number; a byte order mark (U+FEFF) begins the "
         "line: if files were joined, remove it"},
        {"1 7", "\"7\" is not index:value, an index being an integer from 0 to 2^64 - 1"},
        {"1 :7", "\":7\" is not index:value, an index being an integer from 0 to 2^64 - 1"},
        {"1 -1:7", "\"-1:7\" is not index:value, an index being an integer from 0 to 2^64 - 1"},
        {"1 18446744073709551616:7",
         "\"18446744073709551616:7\" is not index:value, an index being "
         "an integer from 0 to 2^64 - 1"},
        {"1 2:1 qid:7",
         "\"qid:7\" is not index:value, an index being an integer from 0 to 2^64 - 1"},
        {"1 1:", "\"1:\" has a value that is not a finite number"},
        {"1 1: 2", "\"1:\" has a value that is not a finite number"},
        {"1 1:nan", "\"1:nan\" has a value that is not a finite number"},
        {"1 1:1e39", "\"1:1e39\" has a value that is too large for float32, which ends at 3.4e38"},
        {"1 1:1:2", "\"1:1:2\" has a value that is not a finite number"},
        {"1 2:1 1:5", "\"1:5\" has a lower index than the pair before it: indices must ascend"},
        {"1 0:1 0:1", "\"0:1\" has the same index as the pair before it"},
        {"1 1:1 2:1 3:1 4:1", "more than max_values: 3 values"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct fixture f;
        char text[256], wanted[512];
        begin(&f, "mse", "format: libsvm, " COLUMNS);
        snprintf(text, sizeof text, "1 1:1\n\n%s\n2 1:1\n", cases[i].line);
        snprintf(wanted, sizeof wanted, "data.train: %s:3: %s", idx_files_path(&f.files, "a.txt"),
                 cases[i].why);
        assert_int_equal(load(&f, text), ERR_INPUT);
        assert_string_equal(f.e.text, wanted);
        end(&f);
    }
}

static void packed_files_of_many_pieces_are_read_by_all_threads(void **state)
{
    enum { ROWS = 60000 };
    (void)state;
    struct fixture f;
    char *text = malloc(ROWS * 24);
    size_t at = 0;
    assert_non_null(text);
    for (int i = 0; i < ROWS; i++)
        at += (size_t)sprintf(text + at, "%d %d:1 %d:%d\n", i % 7, i, 70000 + i, i % 10);
    struct bytes plain = {(uint8_t *)text, at};
    for (enum packing packing = 0; packing < PACK_COUNT; packing++) {
        struct bytes packed = bytes_pack(plain, packing);
        begin(&f, "mse", "format: libsvm, " COLUMNS);
        idx_files_write(&f.files, "a.txt", packed);
        assert_int_equal(dataset_load(&f.d, &f.job, 0, 0, &f.e), ERR_OK);
        assert_int_equal(f.d.rows, ROWS);
        for (int i = 0; i < ROWS; i += 997) {
            char wanted[64];
            snprintf(wanted, sizeof wanted, "%d:1 %d:%d", i, 70000 + i, i % 10);
            assert_true(label_of(&f, (uint64_t)i) == (float)(i % 7));
            assert_values(&f, (uint64_t)i, wanted);
        }
        teardown(&f);
        bytes_free(&packed);
    }
    free(text);
}

/* ---- the job ---- */

static void the_lines_say_what_keys_are(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f, "mse", "format: libsvm, " COLUMNS);
    const struct job_key_column *k = &f.job.data.csv.column[1].key;
    assert_true(!k->hash && k->weights && k->missing == KEY_MISSING_NONE);
    assert_string_equal(k->space, "");
    struct job again;
    if (job_parse(&again, f.job.canonical, strlen(f.job.canonical), "job.yaml", "/", NULL, 0, &f.e))
        fail_msg("%s", f.e.text);
    assert_string_equal(again.canonical, f.job.canonical);
    assert_memory_equal(again.identity, f.job.identity, sizeof again.identity);
    job_close(&again);
    end(&f);
}

static void what_libsvm_cannot_have_is_refused(void **state)
{
#define IN_LIBSVM "in libsvm the index is the key, and the value its weight; remove this option"
#define MEANT                                                                                      \
    "data.columns: a row of libsvm is a label and index:value pairs; write [label, keys: {name: "  \
    "features, max_values: 64}]"
    static const struct {
        const char *data, *why;
    } cases[] = {
        {"format: libsvm",
         "data.columns: it is missing; libsvm needs [label, keys: {name: features, max_values: "
         "64}]"},
        {"format: libsvm, columns: [label, number: x, keys: {name: features, max_values: 3}]",
         MEANT},
        {"format: libsvm, columns: [label, key: features]", MEANT},
        {"format: libsvm, columns: [keys: {name: features, max_values: 3}, keys: {name: b, "
         "max_values: 3}]",
         MEANT},
        {"format: libsvm, columns: [keys: {name: features, max_values: 3, hash: true}, label]",
         "data.columns[0].keys.hash: " IN_LIBSVM},
        {"format: libsvm, columns: [label, keys: {name: features, max_values: 3, separator: ';'}]",
         "data.columns[1].keys.separator: " IN_LIBSVM},
        {"format: libsvm, columns: [label, keys: {name: features, max_values: 3, weights: false}]",
         "data.columns[1].keys.weights: " IN_LIBSVM},
        {"format: libsvm, columns: [label, keys: {name: features, max_values: 3, space: s}]",
         "data.columns[1].keys.space: " IN_LIBSVM},
        {"format: libsvm, columns: [label, keys: {name: features, max_values: 3, missing: empty}]",
         "data.columns[1].keys.missing: " IN_LIBSVM},
        {"format: libsvm, scale: 2, " COLUMNS,
         "data.scale: libsvm's values are not scaled; remove it"},
        {"format: libsvm, delimiter: tab, " COLUMNS,
         "data.delimiter: it is for csv data: data.format: csv, or synthetic with data.synthetic: "
         "census or clicks; remove it"},
        {"format: idx, bad_rows: skip", "data.bad_rows: it is for data.format: csv, libsvm or "
                                        "parquet, or synthetic with data.synthetic: "
                                        "census or clicks; remove it"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct fixture f = {.e = {""}};
        idx_files_init(&f.files);
        bool keyed = strstr(cases[i].data, "features") != NULL;
        char text[1024];
        snprintf(text, sizeof text,
                 "model: {input: {shape: auto}, layers: [%s, sigmoid], loss: mse}\n"
                 "optimizer: sgd\ndata: {train: a, %s}\n",
                 keyed ? "linear: features" : "dense: 1", cases[i].data);
        assert_int_equal(job_parse(&f.job, text, strlen(text), "j.yaml", "/", NULL, 0, &f.e),
                         ERR_INPUT);
        assert_non_null(strstr(f.e.text, ": "));
        assert_string_equal(strstr(f.e.text, ": ") + 2, cases[i].why);
        idx_files_close(&f.files);
    }
}

static void no_memory_while_rows_are_read_is_an_error(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f, "mse", "format: libsvm, " COLUMNS);
    long n = 0;
    bool fired = true;
    while (fired) {
        mem_fail_at(n++);
        enum err err = load(&f, "1.00000001 1:1\n1.00000002 1:1 2:1\n1.00000003 1:1 2:1 3:1\n");
        fired = mem_fail_fired();
        mem_fail_at(-1);
        if (err)
            assert_int_equal(err, ERR_NOMEM);
        else
            dataset_close(&f.d);
        assert_int_equal(err != ERR_OK, fired);
    }
    assert_true(n > 20);
    end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_label_with_a_comma_is_several_labels_or_a_row_of_csv),
        cmocka_unit_test(indices_are_keys_and_values_are_their_weights),
        cmocka_unit_test(a_microbatch_looks_its_indices_up),
        cmocka_unit_test(buckets_take_indices_modulo),
        cmocka_unit_test(a_label_of_minus_one_is_class_0_of_a_binary_loss),
        cmocka_unit_test(only_libsvm_takes_a_label_of_minus_one_for_class_0),
        cmocka_unit_test(a_file_of_weights_is_asked_for_before_its_labels),
        cmocka_unit_test(labels_minus_one_and_0_are_not_taken_for_one_class),
        cmocka_unit_test(a_class_with_the_sign_of_a_comment_is_refused),
        cmocka_unit_test(a_label_of_minus_one_shows_the_line_that_names_it),
        cmocka_unit_test(bad_rows_keep_their_place),
        cmocka_unit_test(a_line_that_cannot_be_read_is_refused_with_file_and_line),
        cmocka_unit_test(packed_files_of_many_pieces_are_read_by_all_threads),
        cmocka_unit_test(the_lines_say_what_keys_are),
        cmocka_unit_test(what_libsvm_cannot_have_is_refused),
        cmocka_unit_test(no_memory_while_rows_are_read_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
