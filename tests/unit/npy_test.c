#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <zip.h>

#include "common/base/mem.h"
#include "common/process/files.h"
#include "common/base/log.h"
#include "tests/lib/idx_files.h"
#include "data/bytes/stream.h"
#include "data/dataset.h"
#include "tests/lib/gathered.h"

enum { CLASSES = 4 };

struct fixture {
    struct idx_files files;
    char patterns[2400];
    struct errmsg e;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    idx_files_init(&f->files);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    idx_files_close(&f->files);
    free(f);
    return 0;
}

/* ---- files ---- */

/* An array as numpy.save writes it, with this dictionary; format 1 to 3. */
static struct bytes array(int format, const char *dict, const void *data, size_t bytes)
{
    size_t head = strlen(dict), wide = format == 1 ? 2 : 4;
    struct bytes b = {calloc(1, 8 + wide + head + bytes + 1), 8 + wide + head + bytes};
    assert_non_null(b.data);
    memcpy(b.data, "\x93NUMPY", 6);
    b.data[6] = (uint8_t)format;
    b.data[8] = (uint8_t)head;
    b.data[9] = (uint8_t)(head >> 8);
    memcpy(b.data + 8 + wide, dict, head);
    memcpy(b.data + 8 + wide + head, data, bytes);
    return b;
}

static void put(struct fixture *f, const char *name, const char *dict, const void *data,
                size_t bytes)
{
    struct bytes b = array(1, dict, data, bytes);
    idx_files_write(&f->files, name, b);
    bytes_free(&b);
}

static const char LABELS[] = "{'descr': '|u1', 'fortran_order': False, 'shape': (2,), }";
static const uint8_t TWO[] = {1, 3};

static struct job job_of(struct fixture *f, const char *patterns)
{
    struct job job = idx_job(2, 1, f->patterns);
    job.data.format = DATA_NPY;
    job.data.scale = 1;
    snprintf(f->patterns, sizeof f->patterns, "%s", patterns);
    f->e.text[0] = '\0';
    return job;
}

static enum err load(struct fixture *f, struct dataset *d, const char *patterns)
{
    struct job job = job_of(f, patterns);
    return dataset_load(d, &job, 0, CLASSES, &f->e);
}

/* "DIR/a\nDIR/b" */
static char *both(struct fixture *f, const char *a, const char *b)
{
    static char out[1100];
    size_t n = (size_t)snprintf(out, sizeof out, "%s", idx_files_path(&f->files, a));
    snprintf(out + n, sizeof out - n, "\n%s", idx_files_path(&f->files, b));
    return out;
}

static enum err load_eval(struct fixture *f, struct dataset *d, const struct dataset *train,
                          char *patterns)
{
    struct job job = job_of(f, "unused");
    job.data.eval = patterns;
    return dataset_load_eval(d, &job, train, CLASSES, &f->e);
}

static enum err load_xy(struct fixture *f, struct dataset *d)
{
    return load(f, d, both(f, "x.npy", "y.npy"));
}

/* Rows can share a file of labels, and files of labels can be equal. */
static void rows_that_are_named_twice_with_their_labels_are_warned_of(void **state)
{
    struct fixture *f = *state;
    static const char rows[] = "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 2), }";
    static const uint8_t x[4] = {1, 2, 3, 4}, z[4] = {1, 2, 3, 5}, y[2] = {0, 1}, y3[2] = {1, 0};
    static const struct {
        const char *rows, *labels, *said;
    } second[] = {
        {"z.npy", "y.npy", "nothing"},
        {"z.npy", "y2.npy", "nothing"},
        {"x2.npy", "y3.npy", "nothing"},
        {"x.npy", "y.npy", "x.npy is named twice, so its rows count twice"},
        {"x2.npy", "y.npy", "x2.npy have the same contents, so their rows count twice"},
        {"x2.npy", "y2.npy", "x2.npy have the same contents, so their rows count twice"},
    };
    put(f, "x.npy", rows, x, sizeof x);
    put(f, "x2.npy", rows, x, sizeof x);
    put(f, "z.npy", rows, z, sizeof z);
    put(f, "y.npy", LABELS, y, 2);
    put(f, "y2.npy", LABELS, y, 2);
    put(f, "y3.npy", LABELS, y3, 2);
    for (size_t i = 0; i < sizeof second / sizeof *second; i++) {
        struct dataset d;
        char patterns[1200], words[400];
        int n = snprintf(patterns, sizeof patterns, "%s\n", both(f, "x.npy", "y.npy"));
        (void)snprintf(patterns + n, sizeof patterns - (size_t)n, "%s",
                       both(f, second[i].rows, second[i].labels));
        log_init("test", LOG_WARN);
        log_warn("nothing");
        assert_int_equal(load(f, &d, patterns), ERR_OK);
        dataset_close(&d);
        log_last_words(false, words, sizeof words);
        log_init("test", LOG_ERROR);
        if (!strstr(words, second[i].said))
            fail_msg("%zu: %s", i, words);
    }
}

/* Two rows for each name of x and two labels for each of y. Is a warning logged that has this text? NULL: is none? */
static void pairs_warn(struct fixture *f, const char *x, const char *y, const char *const *globs,
                       const char *warning)
{
    static const char rows[] = "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 2), }";
    static const uint8_t labels[2] = {0, 1};
    uint8_t four[4] = {1, 2, 3, 4}; /* no two files are the same */
    char name[64], patterns[2400] = "", words[1600];
    struct dataset d;
    idx_files_close(&f->files);
    idx_files_init(&f->files);
    for (int n, i = 0; i < 2; i++)
        for (const char *at = i ? y : x; sscanf(at, "%63s%n", name, &n) == 1; at += n, four[0]++)
            put(f, name, i ? LABELS : rows, i ? labels : four, i ? sizeof labels : sizeof four);
    for (size_t i = 0, n = 0; globs[i]; i++)
        n += (size_t)snprintf(patterns + n, sizeof patterns - n, "%s%s", n ? "\n" : "",
                              idx_files_path(&f->files, globs[i]));
    log_init("test", LOG_WARN);
    log_warn("nothing");
    assert_int_equal(load(f, &d, patterns), ERR_OK);
    dataset_close(&d);
    log_last_words(false, words, sizeof words);
    log_init("test", LOG_ERROR);
    if (!strstr(words, warning ? warning : "nothing"))
        fail_msg("%s %s: '%s' not in: %s", x, y, warning ? warning : "nothing", words);
}

static void pairs_whose_names_have_different_numbers_are_warned_of(void **state)
{
    static const char *const two[] = {"x*", "y*", NULL}, *const one[] = {"*.npy", NULL};
    static const char *const listed[] = {"x_1.npy", "x_2.npy", "y_02.npy", "y_01.npy", NULL};
    pairs_warn(*state, "x_1.npy x_2.npy x_10.npy", "y_01.npy y_02.npy y_10.npy", two,
               "y_02.npy, by the order of the names, which differ in \"10\" and \"02\"");
    pairs_warn(*state, "X1.npy x2.npy", "y1.npy Y2.npy", one, "differ in \"1\" and \"2\"");
    pairs_warn(*state, "x_a.npy x_b.npy", "y_a.npy y_c.npy", two, "differ in \"b\" and \"c\"");
    pairs_warn(*state, "x_9.npy x_19.npy", "y_09.npy y_19.npy", two, "in \"19\" and \"09\"");
    pairs_warn(*state, "x_1.npy x_2.npy x_10.npy", "y_1.npy y_2.npy y_10.npy", two, NULL);
    pairs_warn(*state, "x_1.npy x_2.npy", "y_001.npy y_002.npy", two, NULL);
    pairs_warn(*state, "x.npy x_1.npy", "y.npy y_1.npy", two, NULL);
    pairs_warn(*state, "train-images.npy", "train-labels.npy", one, NULL);
    pairs_warn(*state, "x_first.npy x_second.npy", "y_a.npy y_b.npy", two, NULL);
    pairs_warn(*state, "x_1.npy x_2.npy", "y_01.npy y_02.npy", listed, NULL);
}

static void refuses(struct fixture *f, const char *why)
{
    struct dataset d;
    if (load_xy(f, &d) == ERR_OK)
        fail_msg("it is taken: %s", why);
    if (!strstr(f->e.text, why))
        fail_msg("'%s' not in: %s", why, f->e.text);
}

/* ---- arrays ---- */

/* Numbers of 64 bits, of which float32 keeps a few: named with the column, of a look too. */
static void a_column_that_float32_makes_equal_is_warned_of(void **state)
{
    struct fixture *f = *state;
    enum { ROWS = 1000 };
    static uint64_t x[ROWS][2];
    static uint8_t y[ROWS];
    struct dataset_look look;
    /* the last ones are equal as doubles, too */
    static const uint64_t steps[] = {UINT64_C(1) << 40, 2048, 1};
    for (size_t k = 0; k < sizeof steps / sizeof *steps; k++) {
        for (uint64_t i = 0; i < ROWS; i++) {
            x[i][0] = i;
            x[i][1] = (UINT64_C(1) << 63) + steps[k] * i;
        }
        put(f, "x.npy", "{'descr': '<u8', 'fortran_order': False, 'shape': (1000, 2), }", x,
            sizeof x);
        put(f, "y.npy", "{'descr': '|u1', 'fortran_order': False, 'shape': (1000,), }", y,
            sizeof y);
        struct job job = job_of(f, both(f, "x.npy", "y.npy"));
        assert_int_equal(dataset_look(&look, &job, 0, CLASSES, &f->e), ERR_OK);
        if (k == 0)
            assert_string_equal(look.warning.text, "");
        else
            assert_non_null(
                strstr(look.warning.text, "x.npy: column 1 of its rows: a sample has about "));
    }
    static double tiny[ROWS][2]; /* a float holds them as denormals only */
    for (int i = 0; i < ROWS; i++)
        tiny[i][0] = i, tiny[i][1] = 1e-41 * i;
    put(f, "x.npy", "{'descr': '<f8', 'fortran_order': False, 'shape': (1000, 2), }", tiny,
        sizeof tiny);
    struct job job = job_of(f, both(f, "x.npy", "y.npy"));
    assert_int_equal(dataset_look(&look, &job, 0, CLASSES, &f->e), ERR_OK);
    assert_non_null(strstr(look.warning.text, "x.npy: column 1 of its rows: a sample has about "));
}

/* Floats that were scaled before they were saved, and numbers whose bytes are in another order. */
static void floats_of_a_strange_size_are_warned_of(void **state)
{
    struct fixture *f = *state;
    static const float shares[4] = {0, 0.25F, -0.5F, 0.94F}, pixels[4] = {0, 1, 2, 240};
    static const float swapped[4] = {0, 1e-41F, 4.6e-41F, 0}, zeros[4] = {0, 0, -0.0F, 0};
    static const float two[] = {0, 1}; /* labels are no rows: they are not divided */
    static const int32_t bits[4] = {0, 1, 1, 0};
    static const uint16_t deep[4] = {0, 257, 65535, 2};
    static const int64_t wide_bits[4] = {0, -1, 1, 0};
    static const uint8_t mask[4] = {0, 1, 1, 0}, bytes[4] = {0, 1, 2, 0};
    static const double swapped_wide[4] = {0, 3e-319, 0, 0};
    static const struct {
        const char *descr;
        const void *x;
        float scale;
        const char *warning; /* NULL: none */
    } cases[] = {
        {"<f4", shares, 255,
         "/x.npy: it has floats up to 0.94, and data.scale: 255 divides them again; remove "
         "data.scale if they are scaled already, else save them as they were"},
        {"<f4", shares, 2, NULL},
        {"<f4", pixels, 255, NULL},
        {"<f4", zeros, 255, NULL},
        {"<i4", bits, 255,
         "/x.npy: it has integers up to 1, and data.scale: 255 divides them again; "},
        {"<i8", wide_bits, 255, "/x.npy: it has integers up to 1, and data.scale: 255 divides"},
        {"|u1", mask, 255,
         "/x.npy: it has integers up to 1, and data.scale: 255 divides them again"},
        {"|b1", mask, 10, "/x.npy: it has integers up to 1, and data.scale: 10 divides them again"},
        {"|u1", mask, 2, NULL},
        {"|u1", bytes, 255, NULL},
        {"|u1", zeros, 255, NULL},
        {"<u2", deep, 255,
         "/x.npy: it has integers of 16 bits up to 65535, and data.scale: 255 is for pixels up to "
         "255; if they are pixels, use data.scale: 65535"},
        {"<u2", deep, 65535, NULL},
        {"<f4", pixels, 0.00390625f,
         "/x.npy: it has numbers up to 240, and data.scale: 0.00391, which divides them, makes "
         "them up to "
         "6.14e+04; if they are to be multiplied by it, use data.scale: 256"},
        {"<f4", pixels, 0.5f, NULL},
        {"|u1", bytes, 0.0001f, "/x.npy: it has numbers up to 2, and data.scale: 0.0001, which"},
        {"<f4", swapped, 1,
         "/x.npy: all its numbers are 0 or below 1.2e-38, as if their bytes were not in the order "
         "of the file, which is little-endian"},
        {"<f8", swapped_wide, 1, "/x.npy: all its numbers are 0 or below 1.2e-38"},
    };
    put(f, "y.npy", "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", two, sizeof two);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int eval = 0; eval < 2; eval++) {
            char dict[100], words[400];
            struct dataset_look look;
            struct dataset d;
            snprintf(dict, sizeof dict,
                     "{'descr': '%s', 'fortran_order': False, 'shape': (2, 2), }", cases[i].descr);
            put(f, "x.npy", dict, cases[i].x, 4 * (size_t)(cases[i].descr[2] - '0'));
            struct job job = job_of(f, both(f, "x.npy", "y.npy"));
            job.data.scale = cases[i].scale;
            job.data.eval = f->patterns;
            job.data.train = eval ? NULL : f->patterns;
            assert_int_equal(dataset_look(&look, &job, eval, CLASSES, &f->e), ERR_OK);
            log_init("test", LOG_WARN);
            log_warn("nothing");
            assert_int_equal(dataset_load(&d, &job, eval, CLASSES, &f->e), ERR_OK);
            log_last_words(false, words, sizeof words);
            log_init("test", LOG_ERROR);
            dataset_close(&d);
            if (!strstr(words, cases[i].warning ? cases[i].warning : "nothing"))
                fail_msg("%zu: %s", i, words);
            if (!strstr(look.warning.text, cases[i].warning ? cases[i].warning : "") ||
                (!cases[i].warning && look.warning.text[0]))
                fail_msg("%zu: %s", i, look.warning.text);
        }
}

static void a_file_that_ends_with_rows_of_zeros_is_warned_of(void **state)
{
    enum { ROWS = 200 };
    static const struct {
        int from, of_labels; /* the first row, and label, of zeros alone */
        bool said;
    } of[] = {{180, 180, true}, {180, 100, true}, {181, 2, false}, {180, 200, false}};
    struct fixture *f = *state;
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        for (int wide = 0; wide < 2; wide++) {
            uint8_t bytes[2 * ROWS] = {0}, labels[ROWS] = {0};
            float floats[2 * ROWS] = {0};
            struct dataset d;
            char words[400];
            for (int row = 0; row < ROWS; row++) {
                bytes[2 * row + row % 2] = row < of[i].from;
                floats[2 * row + row % 2] = row < of[i].from;
                labels[row] = row < of[i].of_labels && row % 2;
            }
            put(f, "x.npy",
                wide ? "{'descr': '<f4', 'fortran_order': False, 'shape': (200, 2), }"
                     : "{'descr': '|u1', 'fortran_order': False, 'shape': (200, 2), }",
                wide ? (const void *)floats : bytes, wide ? sizeof floats : sizeof bytes);
            put(f, "y.npy", "{'descr': '|u1', 'fortran_order': False, 'shape': (200,), }", labels,
                sizeof labels);
            log_init("test", LOG_WARN);
            log_warn("nothing");
            assert_int_equal(load_xy(f, &d), ERR_OK);
            log_last_words(false, words, sizeof words);
            log_init("test", LOG_ERROR);
            dataset_close(&d);
            if (!strstr(words, of[i].said ? "/x.npy: its last 20 of 200 rows are zeros alone, and "
                                            "so are their labels: was it written to its end?"
                                          : "nothing"))
                fail_msg("%zu: %s", i, words);
        }
}

static void labels_that_float32_makes_equal_are_warned_of(void **state)
{
    struct fixture *f = *state;
    enum { ROWS = 400 };
    static int64_t y[ROWS];
    static float x[ROWS][2];
    struct dataset_look look;
    struct dataset d;
    char words[400];
    for (int64_t i = 0; i < ROWS; i++)
        y[i] = 1764400000000 + 400 * i; /* two floats */
    put(f, "x.npy", "{'descr': '<f4', 'fortran_order': False, 'shape': (400, 2), }", x, sizeof x);
    put(f, "y.npy", "{'descr': '<i8', 'fortran_order': False, 'shape': (400,), }", y, sizeof y);
    struct job job = job_of(f, both(f, "x.npy", "y.npy"));
    job.model.head[0].loss = LOSS_MEAN_SQUARED_ERROR;
    assert_int_equal(dataset_look(&look, &job, 0, 0, &f->e), ERR_OK);
    assert_non_null(strstr(look.warning.text, "y.npy: its labels: a sample has about "));
    log_init("test", LOG_WARN);
    log_warn("nothing");
    assert_int_equal(dataset_load(&d, &job, 0, 0, &f->e), ERR_OK);
    log_last_words(false, words, sizeof words);
    log_init("test", LOG_ERROR);
    assert_non_null(strstr(words, "y.npy: its labels: a sample has about "));
    dataset_close(&d);
}

static void rows_in_any_order_are_warned_of(void **state)
{
    struct fixture *f = *state;
    enum { ROWS = 100000, STRIDE = 7919 };
    static int64_t x[ROWS][2];
    static uint8_t y[ROWS];
    for (int step = 1; step <= 128; step *= 128) {
        char words[400];
        struct dataset d;
        for (int64_t i = 0; i < ROWS; i++) {
            y[i] = (uint8_t)(i % 2);
            x[i][0] = i;
            x[i][1] = 1700000000 + i * STRIDE % ROWS * step;
        }
        put(f, "x.npy", "{'descr': '<i8', 'fortran_order': False, 'shape': (100000, 2), }", x,
            sizeof x);
        put(f, "y.npy", "{'descr': '|u1', 'fortran_order': False, 'shape': (100000,), }", y,
            sizeof y);
        log_init("test", LOG_WARN);
        log_warn("nothing");
        assert_int_equal(load_xy(f, &d), ERR_OK);
        log_last_words(false, words, sizeof words);
        log_init("test", LOG_ERROR);
        if (!strstr(words,
                    step == 1 ? "x.npy: column 1 of its rows: a sample has about " : "nothing"))
            fail_msg("%s", words);
        dataset_close(&d);
    }
}

struct type_case {
    const char *descr;
    uint8_t data[32];
    size_t bytes;
};

static void each_type_reads_as_its_numbers_in_either_order_of_bytes(void **state)
{
    struct fixture *f = *state;
    static const struct type_case cases[] = {
        {"|u1", {1, 2, 3, 250}, 4},
        {"|b1", {0, 1, 255, 0}, 4}, /* a mask of 0 and 255 */
        {"|i1", {1, 2, 3, 0xFB}, 4},
        {"<i2", {1, 0, 2, 0, 3, 0, 0xFB, 0xFF}, 8},
        {">i2", {0, 1, 0, 2, 0, 3, 0xFF, 0xFB}, 8},
        {"<u2", {1, 0, 2, 0, 3, 0, 0xFB, 0xFF}, 8},
        {"=i2", {1, 0, 2, 0, 3, 0, 0xFB, 0xFF}, 8},
        {"<i4", {1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 0xFB, 0xFF, 0xFF, 0xFF}, 16},
        {">u4", {0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0xFF, 0, 0, 0}, 16},
        {"<i8",
         {1, 0, 0, 0, 0, 0, 0, 0, 2,    0,    0,    0,    0,    0,    0,    0,
          3, 0, 0, 0, 0, 0, 0, 0, 0xFB, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF},
         32},
        {">u8",
         {0, 0, 0, 0, 0, 0, 0, 1, 0,    0, 0, 0, 0, 0, 0, 2,
          0, 0, 0, 0, 0, 0, 0, 3, 0x80, 0, 0, 0, 0, 0, 0, 0},
         32},
        {"<f2", {0x00, 0x3C, 0x00, 0xC0, 0x01, 0x00, 0xFF, 0x7B}, 8},
        {">f4", {0x3F, 0x80, 0, 0, 0xC0, 0, 0, 0, 0x3F, 0, 0, 0, 0x42, 0xC8, 0, 0}, 16},
        {"<f8",
         {0, 0, 0, 0, 0, 0, 0xF0, 0x3F, 0, 0, 0, 0, 0, 0, 0,    0xC0,
          0, 0, 0, 0, 0, 0, 0xE0, 0x3F, 0, 0, 0, 0, 0, 0, 0x59, 0x40},
         32},
    };
    static const float wanted[][4] = {
        {1, 2, 3, 250},     {0, 1, 1, 0},       {1, 2, 3, -5},
        {1, 2, 3, -5},      {1, 2, 3, -5},      {1, 2, 3, 65531},
        {1, 2, 3, -5},      {1, 2, 3, -5},      {1, 2, 3, 4278190080.0F},
        {1, 2, 3, -5},      {1, 2, 3, 0x1p63F}, {1, -2, 0x1p-24F, 65504},
        {1, -2, 0.5F, 100}, {1, -2, 0.5F, 100}};
    put(f, "y.npy", LABELS, TWO, 2);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct dataset d;
        char dict[200];
        uint64_t rows[] = {0, 1};
        float x[4], y[2];
        uint32_t there;
        snprintf(dict, sizeof dict, "{'descr': '%s', 'fortran_order': False, 'shape': (2, 2)}",
                 cases[i].descr);
        put(f, "x.npy", dict, cases[i].data, cases[i].bytes);
        if (load_xy(f, &d))
            fail_msg("%s: %s", cases[i].descr, f->e.text);
        assert_int_equal(gathered_rows(&d, rows, 2, x, y, &there, &f->e), ERR_OK);
        for (int k = 0; k < 4; k++)
            if (x[k] != wanted[i][k])
                fail_msg("%s: number %d is %g, not %g", cases[i].descr, k, (double)x[k],
                         (double)wanted[i][k]);
        assert_true(y[0] == 1 && y[1] == 3);
        bool bytes = strcmp(cases[i].descr, "|u1") == 0 || strcmp(cases[i].descr, "|b1") == 0;
        assert_int_equal(d.x != NULL, bytes);
        dataset_close(&d);
    }
}

static const float FOUR[] = {1, 2, 3, 4};

static void headers_are_read_as_versions_of_numpy_spell_them(void **state)
{
    struct fixture *f = *state;
    static const char *const dicts[] = {
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }        \n",
        "{\"shape\":(2,2),\"descr\":\"<f4\",\"fortran_order\":False}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2L, 2L)}",
        " { 'fortran_order' : False , 'shape' : ( 2 , 2 , ) , 'descr' : '<f4' } ",
    };
    struct dataset first = {0}, d;
    put(f, "y.npy", LABELS, TWO, 2);
    for (size_t i = 0; i < 3 * (sizeof dicts / sizeof *dicts); i++) {
        struct bytes b = array(1 + (int)(i % 3), dicts[i / 3], FOUR, sizeof FOUR);
        idx_files_write(&f->files, "x.npy", b);
        bytes_free(&b);
        if (load_xy(f, &d))
            fail_msg("%s: %s", dicts[i / 3], f->e.text);
        assert_memory_equal(d.x_float, FOUR, sizeof FOUR);
        if (i) /* how it is spelled does not matter */
            assert_memory_equal(d.contents.fingerprint, first.contents.fingerprint,
                                sizeof d.contents.fingerprint);
        dataset_close(&first);
        first = d;
    }
    dataset_close(&first);
}

static void arrays_that_cannot_be_read_are_refused_by_name(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *dict, *why;
    } cases[] = {
        {"{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2)}", "numpy.ascontiguousarray"},
        {"{'descr': '|O', 'fortran_order': False, 'shape': (2, 2)}", "'|O' (Python objects)"},
        {"{'descr': '<c8', 'fortran_order': False, 'shape': (2, 2)}", "of type '<c8', which"},
        {"{'descr': '<U5', 'fortran_order': False, 'shape': (2, 2)}",
         "of type '<U5', which is not read: save numbers (bool, integers of 8 to 64 bits, floats "
         "of 16 to "
         "64), as by numpy.unique(y, return_inverse=True)[1], the class numbers of texts"},
        {"{'descr': '<M8[ns]', 'fortran_order': False, 'shape': (2, 2)}",
         "as by (x - x.min()) / numpy.timedelta64(1, \"s\"), the seconds from the first time"},
        {"{'descr': '|O', 'fortran_order': False, 'shape': (2, 2)}",
         "of type '|O' (Python objects), which is not read: save numbers (bool, integers of 8 to "
         "64 bits, floats of 16 to 64), as by x.astype(\"float32\")"},
        {"{'descr': [('a', '<f4'), ('b', '<i4')], 'fortran_order': False, 'shape': (2,)}",
         "records of several fields"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': ()}", "it has 0 dimensions"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 1, 1, 2, 2)}",
         "it has 6 dimensions"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 0)}", "dimension 1 is 0"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}",
         "truncated: its header asks for 24 + "},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1)}", "has rows of shape [1]"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 2)}", "its header is not"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, -2)}", "its header is not"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2)", "its header is not"},
        {"{'descr': '<f4', 'fortran_order': False}", "its header is not"},
        {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2, 2)}",
         "its header is not"},
        {"{'descr': '<f4', 'fortran_order': None, 'shape': (2, 2)}", "its header is not"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), 'more': 1}",
         "its header is not"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2)} and more", "its header is not"},
        {"", "its header is not"},
    };
    put(f, "y.npy", LABELS, TWO, 2);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put(f, "x.npy", cases[i].dict, FOUR, sizeof FOUR);
        refuses(f, cases[i].why);
        assert_non_null(strstr(f->e.text, "x.npy"));
    }
    struct bytes b = array(4, "", FOUR, sizeof FOUR);
    idx_files_write(&f->files, "x.npy", b);
    refuses(f, "its format is 4.0; 1.0 to 3.0 are read");
    b.data[1] = 'n';
    idx_files_write(&f->files, "x.npy", b);
    refuses(f, "not an npy file");
    b.data[1] = 'N';
    b.data[6] = 2;
    b.data[10] = 1;
    idx_files_write(&f->files, "x.npy", b);
    refuses(f, "its header has 65536 bytes");
    bytes_free(&b);
}

static void a_file_cut_at_any_length_is_refused(void **state)
{
    struct fixture *f = *state;
    struct bytes b =
        array(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2)}", FOUR, sizeof FOUR);
    put(f, "y.npy", LABELS, TWO, 2);
    for (size_t n = 0; n < b.count; n++) {
        idx_files_write(&f->files, "x.npy", (struct bytes){b.data, n});
        refuses(f, "x.npy: ");
    }
    idx_files_write(&f->files, "x.npy", (struct bytes){b.data, b.count + 1}); /* its NUL */
    refuses(f, "bytes follow after");
    bytes_free(&b);
}

static void a_column_of_one_holds_labels_where_there_are_no_others(void **state)
{
    struct fixture *f = *state;
    struct dataset d;
    put(f, "x.npy", "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2)}", FOUR, sizeof FOUR);
    put(f, "y.npy", "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 1)}", TWO, 2);
    if (load_xy(f, &d))
        fail_msg("%s", f->e.text);
    assert_memory_equal(d.labels, TWO, 2);
    dataset_close(&d);
    put(f, "y.npy", "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2)}", FOUR, sizeof FOUR);
    refuses(f, "labels (1 dimension) are missing; if the labels are one-hot, save numpy.argmax");
    put(f, "y.npy", "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 1)}", TWO, 2);
    put(f, "x.npy", "{'descr': '|u1', 'fortran_order': False, 'shape': (2,)}", TWO, 2);
    refuses(f, "has rows of shape [1], model.input.shape is [2, 1]"); /* y are the rows */
    static const uint8_t numbers[] = {7, 9};
    char files[2400];
    (void)snprintf(files, sizeof files, "%s", both(f, "x.npy", "y.npy"));
    struct job job = idx_job(1, 1, files);
    job.model.rank = 1;
    job.data.format = DATA_NPY;
    put(f, "x.npy", "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 1)}", numbers, 2);
    if (dataset_load(&d, &job, 0, CLASSES, &f->e))
        fail_msg("%s", f->e.text);
    assert_memory_equal(d.x, numbers, 2);
    assert_memory_equal(d.labels, TWO, 2);
    dataset_close(&d);
    struct dataset_look look;
    assert_int_equal(dataset_look(&look, &job, 0, CLASSES, &f->e), ERR_OK);
    assert_string_equal(look.warning.text, "");
    char pattern[600];
    (void)snprintf(pattern, sizeof pattern, "%s", idx_files_path(&f->files, "?.npy"));
    job.data.train = pattern; /* the order is that of the names */
    assert_int_equal(dataset_look(&look, &job, 0, CLASSES, &f->e), ERR_OK);
    assert_non_null(strstr(look.warning.text, "/x.npy and "));
    assert_non_null(
        strstr(look.warning.text,
               "/y.npy both have the shape (n, 1): the first is read as the rows, the second as "
               "the labels; name them in this order, or save the labels with the shape (n)"));
    job.data.train = files;
    (void)snprintf(files + strlen(files), sizeof files - strlen(files), "\n%s",
                   idx_files_path(&f->files, "y.npy"));
    assert_int_equal(dataset_load(&d, &job, 0, CLASSES, &f->e), ERR_INPUT);
    assert_non_null(
        strstr(f->e.text, "/x.npy has the shape (2, 1), as all 3 arrays have one column"));
}

static void a_number_that_float32_rounds_is_neither_a_class_nor_an_id(void **state)
{
    struct fixture *f = *state;
    static const double labels[] = {1, 0.99999999};
    static const double rows[] = {0, 2, 2.0000000001, 6};
    static const char text[] =
        "model: {input: {shape: [2]}, loss: mse, layers: [{reshape: {target_shape: [2, 1]}}, "
        "flatten, {embedding: {input_dim: 8, output_dim: 1}}, flatten, dense: 1]}\n"
        "optimizer: sgd\ndata: {format: npy, scale: 1, train: [";
    struct job job;
    struct dataset d;
    char all[2048];
    put(f, "x.npy", "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 2)}", rows, sizeof rows);
    put(f, "y.npy", "{'descr': '<f8', 'fortran_order': False, 'shape': (2,)}", labels,
        sizeof labels);
    refuses(f, "0.99999998999999995, is not a class: a float32 would be 1");
    job = job_of(f, both(f, "x.npy", "y.npy"));
    job.model.head[0].loss = LOSS_SPARSE_CATEGORICAL_CROSSENTROPY;
    assert_int_equal(dataset_load(&d, &job, 0, 0, &f->e),
                     ERR_INPUT); /* classes are not known yet */
    assert_non_null(strstr(f->e.text, "is not a class: a float32 would be 1"));
    put(f, "y.npy", LABELS, TWO, 2);
    (void)snprintf(all, sizeof all, "%s'%s', ", text, idx_files_path(&f->files, "x.npy"));
    (void)snprintf(all + strlen(all), sizeof all - strlen(all), "'%s']}\n",
                   idx_files_path(&f->files, "y.npy"));
    if (job_parse(&job, all, strlen(all), "j.yaml", "/", NULL, 0, &f->e))
        fail_msg("%s", f->e.text);
    assert_int_equal(dataset_load(&d, &job, 0, 0, &f->e), ERR_INPUT);
    if (!strstr(f->e.text, ", 2.0000000001, is not an id: a float32 would be 2"))
        fail_msg("%s", f->e.text);
    job_close(&job);
}

/* A job whose rows of 2 numbers are ids of an embedding. */
static void ids_that_an_embedding_does_not_have_are_named_with_file_row_and_range(void **state)
{
    struct fixture *f = *state;
    static const char text[] =
        "model: {input: {shape: [2]}, loss: mse, layers: [{reshape: {target_shape: [2, 1]}}, "
        "flatten, {embedding: {input_dim: 4, output_dim: 2}}, flatten, dense: 1]}\n"
        "optimizer: sgd\ndata: {format: npy, scale: 2, train: [";
    static const float ids[][4] = {{0, 2, 4, 8}, {0, 2, 3, 6}, {0, 2, -2, 6}, {0, 6, 2, 4}};
    static const char *const wanted[] = {
        "row 1, number 1 of it (both counted from 0): 4 is not an id",
        "row 1, number 0 of it (both counted from 0): 1.5 is not",
        "row 1, number 0 of it (both counted from 0): -1 is not", NULL};
    put(f, "y.npy", LABELS, TWO, 2);
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        struct job job;
        struct dataset d;
        char all[2048], why[1200];
        put(f, "x.npy", "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2)}", ids[i], 16);
        (void)snprintf(all, sizeof all, "%s'%s', ", text, idx_files_path(&f->files, "x.npy"));
        (void)snprintf(all + strlen(all), sizeof all - strlen(all), "'%s']}\n",
                       idx_files_path(&f->files, "y.npy"));
        if (job_parse(&job, all, strlen(all), "j.yaml", "/", NULL, 0, &f->e))
            fail_msg("%s", f->e.text);
        enum err err = dataset_load(&d, &job, 0, 0, &f->e);
        assert_int_equal(err, wanted[i] ? ERR_INPUT : ERR_OK);
        (void)snprintf(why, sizeof why, "data.train: %s: %s", idx_files_path(&f->files, "x.npy"),
                       wanted[i] ? wanted[i] : "");
        if (err && (strncmp(f->e.text, why, strlen(why)) != 0 ||
                    !strstr(f->e.text, "the embedding that reads it has rows 0 to 3")))
            fail_msg("%s, not %s", f->e.text, why);
        if (!err)
            dataset_close(&d);
        job_close(&job);
    }
}

/* ---- archives ---- */

struct member {
    const char *name, *dict;
    const void *data;
    size_t bytes;
};

static void archive_at(struct fixture *f, const char *name, const struct member *m, size_t n,
                       bool packed)
{
    struct bytes b[8];
    int code = 0;
    zip_t *z = zip_open(idx_files_path(&f->files, name), ZIP_CREATE | ZIP_TRUNCATE, &code);
    assert_non_null(z);
    for (size_t i = 0; i < n; i++) {
        b[i] = array(1, m[i].dict, m[i].data, m[i].bytes);
        zip_source_t *s = zip_source_buffer(z, b[i].data, b[i].count, 0);
        zip_int64_t at = zip_file_add(z, m[i].name, s, 0);
        assert_true(at >= 0);
        assert_int_equal(zip_set_file_compression(z, (zip_uint64_t)at,
                                                  packed ? ZIP_CM_DEFLATE : ZIP_CM_STORE, 0),
                         0);
    }
    assert_int_equal(zip_close(z), 0);
    for (size_t i = 0; i < n; i++)
        bytes_free(&b[i]);
}

static void archive(struct fixture *f, const struct member *m, size_t n, bool packed)
{
    archive_at(f, "set.npz", m, n, packed);
}

enum { MANY = 40000 }; /* rows of two floats: more bytes than one read takes */
static const char MANY_ROWS[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (40000, 2)}";
static const char MANY_LABELS[] = "{'descr': '|u1', 'fortran_order': False, 'shape': (40000,)}";
static float many[2 * MANY];
static uint8_t many_labels[MANY];

static void make_many(void)
{
    for (size_t i = 0; i < 2 * MANY; i++)
        many[i] = (float)(i / 3);
    for (size_t i = 0; i < MANY; i++)
        many_labels[i] = (uint8_t)(i / 100 % CLASSES);
}

static void many_are(const struct dataset *d, size_t rows)
{
    assert_int_equal(d->rows, rows);
    assert_memory_equal(d->x_float, many, sizeof many);
    for (size_t i = 0; i < MANY; i++)
        assert_true((d->labels ? (float)d->labels[i] : d->y_float[i]) == (float)many_labels[i]);
}

static void large_arrays_and_several_of_other_types_stand_one_behind_the_other(void **state)
{
    struct fixture *f = *state;
    static const uint8_t bytes[] = {9, 8, 7, 6}, wide[] = {1, 0, 3, 0};
    struct dataset d;
    char why[64];
    make_many();
    put(f, "a-x.npy", MANY_ROWS, many, sizeof many);
    put(f, "a-y.npy", MANY_LABELS, many_labels, sizeof many_labels);
    put(f, "b-x.npy", "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 2)}", bytes, 4);
    put(f, "b-y.npy", "{'descr': '<i2', 'fortran_order': False, 'shape': (2,)}", wide, 4);
    if (load(f, &d, idx_files_path(&f->files, "*.npy")))
        fail_msg("%s", f->e.text);
    many_are(&d, MANY + 2);
    for (size_t i = 0; i < 4; i++)
        assert_true(d.x_float[sizeof many / sizeof *many + i] == (float)bytes[i]);
    assert_true(d.y_float[MANY] == 1 && d.y_float[MANY + 1] == 3);
    dataset_close(&d);
    many[2 * MANY - 1] = NAN;
    put(f, "a-x.npy", MANY_ROWS, many, sizeof many);
    assert_int_equal(load(f, &d, both(f, "a-x.npy", "a-y.npy")), ERR_INPUT);
    snprintf(why, sizeof why, "a-x.npy: the number at offset %zu is not finite",
             10 + strlen(MANY_ROWS) + sizeof many - 4);
    assert_non_null(strstr(f->e.text, why));
}

static const char ROWS[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }";

/* Write set.npz: the bytes of two other files, one behind the other. Returns the size of the first. */
static size_t joined(struct fixture *f, const char *first, const void *behind, size_t bytes)
{
    struct errmsg e;
    uint8_t *a;
    size_t n;
    assert_int_equal(files_read_regular(idx_files_path(&f->files, first), 1 << 20, &a, &n, &e), 0);
    FILE *to = fopen(idx_files_path(&f->files, "set.npz"), "wb");
    assert_non_null(to);
    assert_int_equal(fwrite(a, 1, n, to), n);
    assert_int_equal(fwrite(behind, 1, bytes, to), bytes);
    assert_int_equal(fclose(to), 0);
    mem_free(a);
    return n;
}

static void bytes_before_or_behind_an_archive_are_refused(void **state)
{
    struct fixture *f = *state;
    const struct member m[] = {{"y.npy", LABELS, TWO, 2}, {"x.npy", ROWS, FOUR, sizeof FOUR}};
    struct dataset d;
    char why[100];
    uint8_t *second;
    size_t bytes;
    archive_at(f, "a.zip", m, 2, true);
    snprintf(why, sizeof why, "set.npz: the zip archive ends at offset %zu, and 4 bytes follow",
             joined(f, "a.zip", "more", 4));
    assert_int_equal(load(f, &d, idx_files_path(&f->files, "set.npz")), ERR_INPUT);
    assert_non_null(strstr(f->e.text, why));
    assert_int_equal(
        files_read_regular(idx_files_path(&f->files, "a.zip"), 1 << 20, &second, &bytes, &f->e), 0);
    snprintf(why, sizeof why,
             "set.npz: the zip archive does not begin at the file's beginning, but at offset %zu:",
             joined(f, "a.zip", second, bytes));
    assert_int_equal(load(f, &d, idx_files_path(&f->files, "set.npz")), ERR_INPUT);
    assert_non_null(strstr(f->e.text, why));
    idx_files_write(&f->files, "script", (struct bytes){(uint8_t *)(uintptr_t) "#!/bin/sh\n", 10});
    (void)joined(f, "script", second, bytes);
    mem_free(second);
    assert_int_equal(load(f, &d, idx_files_path(&f->files, "set.npz")), ERR_INPUT);
    assert_non_null(strstr(f->e.text,
                           "set.npz: the zip archive does not begin at the file's "
                           "beginning, but at offset 10: write it to a file of its own"));
    put(f, "set.npz", ROWS, FOUR, sizeof FOUR); /* its name does not make it an archive */
    put(f, "y.npy", LABELS, TWO, 2);
    assert_int_equal(load(f, &d, both(f, "set.npz", "y.npy")), ERR_OK);
    dataset_close(&d);
}

static void an_archive_that_changes_while_it_is_read_is_refused_at_its_members_end(void **state)
{
    struct fixture *f = *state;
    const struct member m[] = {{"x.npy", ROWS, FOUR, sizeof FOUR}};
    const struct timespec later[2] = {{0, UTIME_OMIT}, {2000000000, 1}};
    struct errmsg e;
    struct stream *s;
    char bytes[1000];
    size_t got;
    archive(f, m, 1, true);
    const char *path = idx_files_path(&f->files, "set.npz");
    assert_int_equal(stream_open_member(&s, path, "x", &e), ERR_OK);
    assert_int_equal(stream_read(s, bytes, 2, &got, &e), ERR_OK);
    assert_int_equal(utimensat(AT_FDCWD, path, later, 0), 0);
    assert_int_equal(stream_read(s, bytes, sizeof bytes, &got, &e), ERR_INPUT);
    assert_non_null(strstr(e.text, "it changed while it was read"));
    stream_close(s);
}

static void an_archive_of_rows_and_labels_is_read_and_of_more_they_are_named(void **state)
{
    struct fixture *f = *state;
    const struct member m[] = {
        {"y.npy", LABELS, TWO, 2}, {"x.npy", ROWS, FOUR, sizeof FOUR}, {"z.npy", LABELS, TWO, 2}};
    struct dataset first, d;
    for (int packed = 0; packed < 2; packed++) {
        archive(f, m, 2, packed);
        if (load(f, &first, idx_files_path(&f->files, "set.npz")))
            fail_msg("%s", f->e.text);
        assert_memory_equal(first.x_float, FOUR, sizeof FOUR);
        assert_memory_equal(first.labels, TWO, 2);
        archive(f, m, 3, packed);
        if (load(f, &d, both(f, "s*.npz:z", "set.npz:x.npy")))
            fail_msg("%s", f->e.text);
        assert_memory_equal(d.contents.fingerprint, first.contents.fingerprint,
                            sizeof d.contents.fingerprint);
        dataset_close(&d);
        dataset_close(&first);
    }
    assert_int_equal(load(f, &d, idx_files_path(&f->files, "set.npz")), ERR_INPUT);
    assert_non_null(
        strstr(f->e.text, "it has 3 arrays (y, x, z): name one of rows and one of labels"));
    static const struct member sparse[] = {{"indices.npy", LABELS, TWO, 2},
                                           {"indptr.npy", LABELS, TWO, 2},
                                           {"data.npy", LABELS, TWO, 2}};
    archive_at(f, "sparse.npz", sparse, 3, true);
    assert_int_equal(load(f, &d, idx_files_path(&f->files, "sparse.npz")), ERR_INPUT);
    assert_non_null(strstr(f->e.text, "sparse.npz: it is a sparse matrix of scipy: save x."));
    assert_int_equal(load(f, &d, both(f, "set.npz:x", "set.npz:w")), ERR_INPUT);
    assert_non_null(strstr(f->e.text, "set.npz: it has no array w; it has y, x, z"));
    assert_int_equal(load(f, &d, both(f, "other.npz:x", "set.npz:y")), ERR_INPUT);
    assert_non_null(strstr(f->e.text, "other.npz"));
}

static void arrays_whose_labels_are_not_known_are_shown_with_their_shapes(void **state)
{
    struct fixture *f = *state;
    static const char column[] = "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 1)}";
    const struct member thin[] = {{"x.npy", column, TWO, 2}, {"y.npy", column, TWO, 2}};
    const struct member flat[] = {{"x.npy", ROWS, FOUR, sizeof FOUR}, {"y.npy", LABELS, TWO, 2}};
    const struct member half[] = {{"x.npy", ROWS, FOUR, sizeof FOUR}, {"y.npy", column, TWO, 2}};
    struct dataset d;
    archive_at(f, "a.npz", thin, 2, false);
    archive_at(f, "b.npz", thin, 2, false);
    assert_int_equal(load(f, &d, both(f, "a.npz", "b.npz")), ERR_INPUT);
    assert_non_null(strstr(f->e.text,
                           "a.npz:x has the shape (2, 1), as all 4 arrays have one column, "
                           "so which are the labels is not known: save them as y.ravel()"));
    archive_at(f, "a.npz", flat, 2, false);
    archive_at(f, "b.npz", half, 2, false);
    assert_int_equal(load(f, &d, both(f, "a.npz", "b.npz")), ERR_INPUT);
    assert_non_null(strstr(f->e.text, "3 files of rows and 1 files of labels"));
    assert_non_null(
        strstr(f->e.text, "b.npz:y has the shape (2, 1): if it has labels, save y.ravel()"));
    archive_at(f, "b.npz", (const struct member[]){{"x.npy", column, TWO, 2}, flat[1]}, 2, false);
    assert_int_equal(load(f, &d, both(f, "a.npz", "b.npz")), ERR_INPUT);
    assert_non_null(strstr(f->e.text, "b.npz:x has the shape (2, 1), and "));
    assert_non_null(strstr(f->e.text, "a.npz:x (2, 2): the rows have another shape"));
}

static void an_archive_whose_members_shrink_much_is_read_to_the_end(void **state)
{
    struct fixture *f = *state;
    struct dataset d;
    make_many();
    const struct member m[] = {{"y.npy", MANY_LABELS, many_labels, sizeof many_labels},
                               {"x.npy", MANY_ROWS, many, sizeof many}};
    archive(f, m, 2, true);
    if (load(f, &d, idx_files_path(&f->files, "set.npz")))
        fail_msg("%s", f->e.text);
    many_are(&d, MANY);
    dataset_close(&d);
}

/* 8 MB of zeros in 8 KB, behind headers that ask for less, and for more than any archive of that size can have. */
static void an_archive_that_grows_is_refused_by_what_its_headers_ask_for(void **state)
{
    struct fixture *f = *state;
    enum { BOMB_BYTES = 8 << 20 };
    static const char few[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2)}";
    static const char lots[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 500000000)}";
    struct dataset d;
    float *zeros = calloc(1, BOMB_BYTES);
    assert_non_null(zeros);
    for (int i = 0; i < 2; i++) {
        const struct member m[] = {{"y.npy", LABELS, TWO, 2},
                                   {"x.npy", i ? lots : few, zeros, BOMB_BYTES}};
        archive(f, m, 2, true);
        assert_int_equal(load(f, &d, idx_files_path(&f->files, "set.npz")), ERR_INPUT);
        if (!strstr(f->e.text, i ? "truncated: its header asks for" : "bytes follow after"))
            fail_msg("%s", f->e.text);
    }
    free(zeros);
}

static void a_member_is_found_in_a_file_whose_name_reads_as_a_glob(void **state)
{
    struct fixture *f = *state;
    const struct member m[] = {{"y.npy", LABELS, TWO, 2}, {"x.npy", ROWS, FOUR, sizeof FOUR}};
    static const char *const names[] = {"set[1].npz", "set*.npz", "s?t.npz"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct dataset d;
        char x[64], y[64];
        snprintf(x, sizeof x, "%s:x", names[i]);
        snprintf(y, sizeof y, "%s:y", names[i]);
        archive_at(f, names[i], m, 2, true);
        if (load(f, &d, both(f, x, y)))
            fail_msg("%s", f->e.text);
        assert_memory_equal(d.labels, TWO, 2);
        dataset_close(&d);
    }
}

static void names_of_members_are_shown_without_control_characters(void **state)
{
    struct fixture *f = *state;
    const struct member m[] = {{"a\x1b[31mred\n2026 line\x7f.npy", LABELS, TWO, 2},
                               {"x\r.npy", ROWS, FOUR, sizeof FOUR},
                               {"z.npy", LABELS, TWO, 2}};
    struct dataset d;
    archive(f, m, 3, true);
    assert_int_equal(load(f, &d, idx_files_path(&f->files, "set.npz")), ERR_INPUT);
    assert_non_null(strstr(f->e.text, "it has 3 arrays (a?[31mred?2026 line?, x?, z): name"));
    assert_int_equal(load(f, &d, both(f, "set.npz:w", "set.npz:z")), ERR_INPUT);
    assert_non_null(strstr(f->e.text, "no array w; it has a?[31mred?2026 line?, x?, z"));
    archive(f, m, 2, true);
    assert_int_equal(load(f, &d, idx_files_path(&f->files, "set.npz")), ERR_INPUT);
    assert_non_null(strstr(f->e.text, "no array a?[31mred?2026 line?; it has a?[31mred?"));
}

/* Every byte that is changed is seen, or changes nothing. */
static void an_archive_that_was_damaged_is_refused_or_reads_the_same(void **state)
{
    struct fixture *f = *state;
    const struct member m[] = {{"y.npy", LABELS, TWO, 2}, {"x.npy", ROWS, FOUR, sizeof FOUR}};
    char path[600];
    uint8_t all[4096];
    archive(f, m, 2, true);
    snprintf(path, sizeof path, "%s", idx_files_path(&f->files, "set.npz"));
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t n = fread(all, 1, sizeof all, file);
    fclose(file);
    assert_true(n > 200 && n < sizeof all);
    size_t refused = 0;
    for (size_t i = 0; i < n; i++) {
        struct dataset d;
        all[i] ^= 0x10;
        idx_files_write(&f->files, "set.npz", (struct bytes){all, n});
        all[i] ^= 0x10;
        enum err err = load(f, &d, both(f, "set.npz:x", "set.npz:y"));
        refused += err != ERR_OK;
        assert_true(err == ERR_OK || (err == ERR_INPUT && f->e.text[0]));
        if (err)
            continue;
        assert_memory_equal(d.x_float, FOUR, sizeof FOUR);
        assert_memory_equal(d.labels, TWO, 2);
        dataset_close(&d);
    }
    assert_true(refused > n / 3);
    struct dataset d;
    idx_files_write(&f->files, "set.npz", (struct bytes){all, n - 30});
    assert_int_equal(load(f, &d, both(f, "set.npz:x", "set.npz:y")), ERR_INPUT);
    assert_non_null(strstr(f->e.text, "set.npz: not a zip archive, or its end is missing"));
}

static void all_is_given_back_when_any_allocation_fails(void **state)
{
    struct fixture *f = *state;
    const struct member m[] = {{"y.npy", LABELS, TWO, 2}, {"x.npy", ROWS, FOUR, sizeof FOUR}};
    long n = 0;
    archive(f, m, 2, true);
    for (int fired = 1; fired; n++) {
        struct dataset d = {.rows = 99};
        mem_fail_at(n);
        enum err err = load(f, &d, idx_files_path(&f->files, "set.npz"));
        fired = mem_fail_fired();
        assert_int_equal(err, fired ? ERR_NOMEM : ERR_OK);
        if (!err)
            dataset_close(&d);
    }
    mem_fail_at(-1);
    assert_true(n > 10);
}

static void files_of_one_part_in_other_units_are_warned_of(void **state)
{
    struct fixture *f = *state;
    static const char floats[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }",
                      bytes[] = "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 2), }";
    static const float shares[4] = {0, 0.5F, 1, 0.25F}, large[4] = {0, 0.5F, 1.5F, 0.25F},
                       zeros[4] = {0};
    static const uint8_t pixels[4] = {0, 255, 128, 3}, bits[4] = {0, 1, 1, 0};
    static const struct {
        const float *x;
        const uint8_t *z;
        bool said;
    } of[] = {{shares, pixels, true},
              {large, pixels, false},
              {shares, bits, false},
              {zeros, pixels, false}};
    put(f, "y.npy", LABELS, "\0\1", 2);
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        struct dataset d;
        char patterns[2400], words[400];
        put(f, "x.npy", floats, of[i].x, sizeof shares);
        put(f, "z.npy", bytes, of[i].z, sizeof pixels);
        int n = snprintf(patterns, sizeof patterns, "%s\n", both(f, "x.npy", "y.npy"));
        (void)snprintf(patterns + n, sizeof patterns - (size_t)n, "%s", both(f, "z.npy", "y.npy"));
        log_init("test", LOG_WARN);
        log_warn("nothing");
        assert_int_equal(load(f, &d, patterns), ERR_OK);
        dataset_close(&d);
        log_last_words(false, words, sizeof words);
        log_init("test", LOG_ERROR);
        assert_int_equal(strstr(words, "z.npy has bytes up to 255, and ") != NULL, of[i].said);
        for (int turned = 0; turned < 2; turned++) { /* in one part each */
            const char *train = both(f, turned ? "z.npy" : "x.npy", "y.npy");
            struct dataset eval;
            (void)snprintf(patterns, sizeof patterns, "%s", train);
            assert_int_equal(load(f, &d, patterns), ERR_OK);
            log_init("test", LOG_WARN);
            log_warn("nothing");
            assert_int_equal(load_eval(f, &eval, &d, both(f, turned ? "x.npy" : "z.npy", "y.npy")),
                             ERR_OK);
            log_last_words(false, words, sizeof words);
            log_init("test", LOG_ERROR);
            assert_int_equal(strstr(words, turned
                                               ? "x.npy has floats up to 1, and data.train has "
                                                 "bytes up to 255: is one of them divided by 255?"
                                               : "z.npy has bytes up to 255, and data.train has "
                                                 "floats up to 1") != NULL,
                             of[i].said);
            dataset_close(&eval);
            dataset_close(&d);
        }
    }
}

static void signed_bytes_with_the_scale_of_pixels_are_warned_of(void **state)
{
    struct fixture *f = *state;
    static const char rows[] = "{'descr': '|i1', 'fortran_order': False, 'shape': (2, 2), }";
    static const int8_t x[4] = {-1, 3, 100, -128};
    for (int i = 0; i < 2; i++) {
        struct dataset d;
        char words[400];
        put(f, "x.npy", rows, x, sizeof x);
        put(f, "y.npy", LABELS, "\0\1", 2);
        struct job job = job_of(f, both(f, "x.npy", "y.npy"));
        job.data.scale = i ? 255 : 128;
        log_init("test", LOG_WARN);
        log_warn("nothing");
        assert_int_equal(dataset_load(&d, &job, 0, CLASSES, &f->e), ERR_OK);
        dataset_close(&d);
        log_last_words(false, words, sizeof words);
        log_init("test", LOG_ERROR);
        assert_int_equal(strstr(words, "x.npy: it has integers from -128 to 127, and data.scale: "
                                       "255 is for pixels up to 255, of which those above 127 are "
                                       "then negative: save them as uint8") != NULL,
                         i);
    }
}

/* doctor and training refuse the same files, for the same reason. */
static void a_look_refuses_what_loading_refuses_at_once(void **state)
{
    struct fixture *f = *state;
    static const char rows[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }",
                      halves[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }";
    static const float good[4] = {1, 2, 3, 4}, nan[4] = {1, NAN, 3, 4}, half[2] = {0, 0.5F},
                       signs[2] = {-1, 1};
    static const uint8_t last[2] = {1, 4};
    static const struct {
        const char *labels;
        const void *x, *y;
        size_t x_bytes, y_bytes;
        const char *said;
    } of[] = {
        {LABELS, good, last, sizeof good, 2, "(item 1, counted from 0) is 4, the model has 4"},
        {halves, good, half, sizeof good, sizeof half, "(item 1, counted from 0) is 0.5"},
        {halves, good, signs, sizeof good, sizeof signs, "(item 0, counted from 0) is -1"},
        {LABELS, good, "\1\2\3", sizeof good, 3, "bytes follow after the 2 + "},
        {LABELS, nan, TWO, sizeof nan, 2,
         "is not finite, or beyond 32-bit floats (row 0, number 1"},
        {LABELS, good, TWO, sizeof good + 0, 2, NULL},
    };
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        struct dataset_look look;
        struct dataset d;
        char refused[sizeof f->e.text];
        put(f, "x.npy", rows, of[i].x, of[i].x_bytes);
        put(f, "y.npy", of[i].labels, of[i].y, of[i].y_bytes);
        struct job job = job_of(f, both(f, "x.npy", "y.npy"));
        enum err err = dataset_load(&d, &job, 0, CLASSES, &f->e);
        assert_int_equal(err, of[i].said ? ERR_INPUT : ERR_OK);
        (void)snprintf(refused, sizeof refused, "%s", f->e.text);
        if (!err)
            dataset_close(&d);
        f->e.text[0] = '\0';
        assert_int_equal(dataset_look(&look, &job, 0, CLASSES, &f->e), err);
        assert_string_equal(f->e.text, refused);
        assert_true(!of[i].said || strstr(refused, of[i].said));
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(signed_bytes_with_the_scale_of_pixels_are_warned_of),
        TEST(a_look_refuses_what_loading_refuses_at_once),
        TEST(files_of_one_part_in_other_units_are_warned_of),
        TEST(pairs_whose_names_have_different_numbers_are_warned_of),
        TEST(rows_that_are_named_twice_with_their_labels_are_warned_of),
        TEST(a_column_that_float32_makes_equal_is_warned_of),
        TEST(rows_in_any_order_are_warned_of),
        TEST(each_type_reads_as_its_numbers_in_either_order_of_bytes),
        TEST(headers_are_read_as_versions_of_numpy_spell_them),
        TEST(arrays_that_cannot_be_read_are_refused_by_name),
        TEST(a_file_cut_at_any_length_is_refused),
        TEST(a_number_that_float32_rounds_is_neither_a_class_nor_an_id),
        TEST(floats_of_a_strange_size_are_warned_of),
        TEST(a_file_that_ends_with_rows_of_zeros_is_warned_of),
        TEST(labels_that_float32_makes_equal_are_warned_of),
        TEST(ids_that_an_embedding_does_not_have_are_named_with_file_row_and_range),
        TEST(a_column_of_one_holds_labels_where_there_are_no_others),
        TEST(an_archive_of_rows_and_labels_is_read_and_of_more_they_are_named),
        TEST(bytes_before_or_behind_an_archive_are_refused),
        TEST(an_archive_that_changes_while_it_is_read_is_refused_at_its_members_end),
        TEST(large_arrays_and_several_of_other_types_stand_one_behind_the_other),
        TEST(arrays_whose_labels_are_not_known_are_shown_with_their_shapes),
        TEST(an_archive_whose_members_shrink_much_is_read_to_the_end),
        TEST(an_archive_that_grows_is_refused_by_what_its_headers_ask_for),
        TEST(a_member_is_found_in_a_file_whose_name_reads_as_a_glob),
        TEST(names_of_members_are_shown_without_control_characters),
        TEST(an_archive_that_was_damaged_is_refused_or_reads_the_same),
        TEST(all_is_given_back_when_any_allocation_fails),
    };
#undef TEST
    return cmocka_run_group_tests(tests, NULL, NULL);
}
