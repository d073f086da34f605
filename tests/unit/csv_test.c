#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <iconv.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/math/kernels.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/base/rng.h"
#include "common/process/process_state.h"
#include "tests/lib/folder.h"
#include "tests/lib/idx_files.h"
#include "data/csv_rows.h"
#include "data/dataset.h"
#include "data/drawn/drawn.h"
#include "export/export.h"
#include "tests/lib/gathered.h"

/* ---- a job, files, and what is read of them ---- */

struct fixture {
    struct idx_files files;
    struct job job;
    struct dataset d;
    struct errmsg e;
};

static const char job_head[] = "model: {input: {shape: auto}, layers: [dense: 1], loss: mse}\n"
                               "optimizer: sgd\n"
                               "worker: {threads: 2}\n";

/* `data`: the keys of the map `data`, without format and train. */
static void setup(struct fixture *f, const char *data, const char *const *sets, size_t n_sets)
{
    char text[8192];
    *f = (struct fixture){.e = {""}};
    idx_files_init(&f->files);
    snprintf(text, sizeof text, "%sdata: {format: csv, train: '%s/*.csv', eval: '%s/*.eval', %s}\n",
             job_head, f->files.dir, f->files.dir, data);
    if (job_parse(&f->job, text, strlen(text), "j.yaml", "/", sets, n_sets, &f->e))
        fail_msg("%s", f->e.text);
}

static void teardown(struct fixture *f)
{
    dataset_close(&f->d);
    job_close(&f->job);
    idx_files_close(&f->files);
}

static void put(struct fixture *f, const char *name, const char *text, size_t bytes)
{
    idx_files_write(&f->files, name, (struct bytes){(uint8_t *)(uintptr_t)text, bytes});
}

static void loads(struct fixture *f, const char *text)
{
    put(f, "a.csv", text, strlen(text));
    if (dataset_load(&f->d, &f->job, 0, 0, &f->e))
        fail_msg("%s", f->e.text);
}

/* Its cells, maybe in the buffer of (TABLE_ROW_CELLS_MAX). */
static const uint32_t *cells_of(const struct dataset *d, uint64_t row, uint32_t *buffer)
{
    const uint32_t *cells;
    uint64_t n = 1;
    struct errmsg e;
    if (table_look(&d->table, row, &n, buffer, TABLE_ROW_CELLS_MAX, &cells, &e))
        fail_msg("%s", e.text);
    return cells;
}

/* Row `row` as "x0 x1 .. : y", or "-" where it is left out. */
static const char *row_text(const struct dataset *d, uint64_t row)
{
    static char out[4096];
    float x[256], y;
    size_t n = 0;
    assert_in_range(d->features, 1, 256);
    uint32_t there;
    assert_int_equal(gathered_rows(d, &row, 1, x, &y, &there, NULL), ERR_OK);
    if (!there)
        return "-";
    for (uint32_t i = 0; i < d->features; i++)
        n += (size_t)snprintf(out + n, sizeof out - n, "%g ", (double)x[i]);
    snprintf(out + n, sizeof out - n, ": %g", (double)y);
    return out;
}

static void rows_are(const struct dataset *d, const char *const *wanted, size_t n)
{
    assert_int_equal(d->rows, n);
    for (size_t i = 0; i < n; i++)
        assert_string_equal(row_text(d, i), wanted[i]);
}
#define ROWS_ARE(d, ...)                                                                           \
    do {                                                                                           \
        const char *const wanted[] = {__VA_ARGS__};                                                \
        rows_are(d, wanted, sizeof wanted / sizeof *wanted);                                       \
    } while (0)

static void reads(const char *data, const char *text, const char *const *wanted, size_t n)
{
    struct fixture f;
    setup(&f, data, NULL, 0);
    loads(&f, text);
    rows_are(&f.d, wanted, n);
    teardown(&f);
}
#define READS(data, text, ...)                                                                     \
    do {                                                                                           \
        const char *const wanted[] = {__VA_ARGS__};                                                \
        reads(data, text, wanted, sizeof wanted / sizeof *wanted);                                 \
    } while (0)

static void refuses_bytes(const char *data, const char *text, size_t bytes, uint32_t classes,
                          const char *why)
{
    struct fixture f;
    char wanted[1024];
    setup(&f, data, NULL, 0);
    put(&f, "a.csv", text, bytes);
    assert_int_equal(dataset_load(&f.d, &f.job, 0, classes, &f.e), ERR_INPUT);
    snprintf(wanted, sizeof wanted, "data.train: %s/a.csv%s%s", f.files.dir,
             *why == ':' ? "" : ": ", why);
    assert_string_equal(f.e.text, wanted);
    teardown(&f);
}

/* `why`: ":LINE: what is wrong", or where no line is named what is wrong. */
static void refuses(const char *data, const char *text, const char *why)
{
    refuses_bytes(data, text, strlen(text), 0, why);
}

#define NUMBER_LABEL "columns: [number: a, label: y]"
#define WORD_LABEL "columns: [category: w, label: y]"

/* ---- lines and quotes ---- */

static void lines_may_end_as_they_like(void **state)
{
    (void)state;
    READS(NUMBER_LABEL, "1,2\n3,4\n", "1 : 2", "3 : 4");
    READS(NUMBER_LABEL, "1,2\n3,4", "1 : 2", "3 : 4");
    READS(NUMBER_LABEL, "1,2\r\n3,4\r\n", "1 : 2", "3 : 4");
    READS(NUMBER_LABEL, "1,2\r\n3,4\r", "1 : 2", "3 : 4");
    READS(NUMBER_LABEL, "\n\n1,2\n\r\n\n3,4\n\n", "1 : 2", "3 : 4");
    READS(NUMBER_LABEL,
          "\xEF\xBB\xBF"
          "1,2\n",
          "1 : 2");
    READS(NUMBER_LABEL ", comment: '#'", "# a\n1,2\n#3,4\n", "1 : 2");
    READS(NUMBER_LABEL ", trim: true", "  \n 1 ,\t2 \n", "1 : 2");
}

#define CR_CR_LF "its line ends in CR CR LF; remove the CRs: tr -d '\\r' < FILE > NEW"
/* Python's csv and pandas end a row there. */
static void a_cr_that_no_lf_follows_is_named(void **state)
{
    (void)state;
    static const char *const headers[] = {"none", "skip", "names"};
    static char big[CSV_PIECE_BYTES + 64];
    for (size_t at = 0; at < CSV_PIECE_BYTES + 32; at += 4)
        memcpy(big + at, "w,1\r", 4);
    for (size_t i = 0; i < 3; i++) {
        char data[128];
        (void)snprintf(data, sizeof data, "%s, header: %s", WORD_LABEL, headers[i]);
        refuses(data, "w,y\ra,1\rb,2\r", ":1: " CSV_LONE_RETURN);
        refuses(data, "w,y\ra,1\rb,2", ":1: " CSV_LONE_RETURN);
        refuses(data, "w,y\r\r\na,1\r\r\n", ":1: " CR_CR_LF);
        refuses(data, big, ":1: a row of more than 524288 bytes: " CSV_LONE_RETURN);
    }
    refuses(WORD_LABEL, "a,1\nb\rc,2\n", ":2: " CSV_LONE_RETURN);
    refuses("columns: [ignore, category: w, label: y]", "a\r,x,1\n", ":1: " CSV_LONE_RETURN);
    refuses("columns: [ignore, category: w, label: y]", "\"a\"\r,x,1\n", ":1: " CSV_LONE_RETURN);
    /* behind a CR a quote is text, and so the one that closes its field seems to open another */
    refuses(WORD_LABEL, "x,1\r\"5,\",2\ry,3\r", ":1: " CSV_LONE_RETURN);
    refuses(WORD_LABEL ", bad_rows: skip", "x,1\n\"y\nz\"\r\"5,\",2\n", ":2: " CSV_LONE_RETURN);
    refuses(WORD_LABEL ", header: names", "w,y\r\"5,\",2\r", ":1: " CSV_LONE_RETURN);
    refuses(WORD_LABEL, "a,1\r\nb,2\r\r\n", ":2: " CR_CR_LF);
    READS(WORD_LABEL ", bad_rows: skip", "a,1\nb\rc,2\nd,3\n", "1 0 : 1", "-", "0 1 : 3");
    READS(WORD_LABEL, "\"a\rb\",1\r\n\"\r\",2\n", "1 0 : 1", "0 1 : 2");
}

static void converted(struct fixture *f, const char *text, size_t bytes, const char *to,
                      const char *mark, size_t mark_bytes)
{
    char out[1024], *from = (char *)(uintptr_t)text, *at = out + mark_bytes;
    size_t left = bytes, room = sizeof out - mark_bytes;
    iconv_t convert = iconv_open(to, "UTF-8");
    memcpy(out, mark, mark_bytes);
    assert_int_equal(iconv(convert, &from, &left, &at, &room), 0);
    (void)iconv_close(convert);
    put(f, "a.csv", out, (size_t)(at - out));
}

static void a_file_of_another_format_is_named(void **state)
{
    (void)state;
    static char posix[512] = "a.csv", gnu[512] = "a.csv";
    strcpy(posix + 257, "ustar");
    strcpy(gnu + 257, "ustar  ");
    static const struct {
        const char *text;
        size_t bytes;
        const char *says;
    } files[] = {
        {"PK\3\4 a,1\n", 9, "a.csv: it is a zip archive, and only text is read here; unpack it"},
        {"PK\3\4 of 30 bytes in all, then.[Content_Types].xml\n", 50,
         "it is an Excel workbook (.xlsx), and only text is read here; save it as csv"},
        {"PK\3\4 of 30 bytes in all, then.docProps/app.xml\n", 47, "it is an Excel workbook"},
        {"PAR1\x15 a,1\n", 10, "it is a Parquet file"},
        {"ARROW1\0\0 a,1\n", 13, "it is an Arrow (Feather) file"},
        {"\x04\x22\x4D\x18 a,1\n", 9, "it is compressed by lz4"},
        {"\x93NUMPY a,1\n", 11, "use data.format: npy"},
        {posix, 512, "it is a tar archive"},
        {gnu, 512, "it is a tar archive"},
        {"SQLite format 3\0 a,1\n", 21, "it is a database of SQLite"},
        {"\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1 a,1\n", 13, "it is an Excel workbook (.xls)"},
        {"%PDF-1.7\n", 9, "it is a PDF"},
        {"\x80\4\x95 a,1\n", 8, "it is a pickle of Python"},
        {"\x80\5\x95 a,1\n", 8, "it is a pickle of Python"},
        {"Obj\1 a,1\n", 9, "it is an Avro file"},
        {"\x89PNG\r\n\x1A\n a,1\n", 13, "it is a PNG image"},
        {"\xFF\xD8\xFF a,1\n", 8, "it is a JPEG image"},
        {"<!DOCTYPE html><p>a,1\n", 22,
         "it is an HTML page, and only text is read here; check what "
         "was downloaded"},
        {"<!doctype html>\n", 16, "it is an HTML page"},
        {"<html>\r\n<head>a,1\n", 18, "it is an HTML page"},
        {"<html><body>a,1\n", 16, "it is an HTML page"},
        {"<HTML>\n<body>a,1\n", 17, "it is an HTML page"},
        {"<html lang=\"en\">\n", 17, "it is an HTML page"},
        {"\xEF\xBB\xBF\r\n <!DocType HTML>\n", 22, "it is an HTML page"},
        {"<Head><title>502</title>\n", 25, "it is an HTML page"},
        {"<?xml version=\"1.0\"?>\n<Error>\n", 30,
         "it is an XML page, and only text is read here; check what"},
        {" {\"message\":\"Not Found\"}\n", 25,
         "it is one line of JSON, and only text is read here; check"},
        {"version https://git-lfs.github.com/spec/v1\noid sha256:12\n", 57, "git lfs pull"},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct fixture f;
        setup(&f, WORD_LABEL, NULL, 0);
        put(&f, "a.csv", files[i].text, files[i].bytes);
        assert_int_equal(dataset_load(&f.d, &f.job, 0, 0, &f.e), ERR_INPUT);
        if (!strstr(f.e.text, files[i].says))
            fail_msg("%s, not %s", f.e.text, files[i].says);
        teardown(&f);
    }
}

static void a_word_in_the_place_of_the_mark_of_tar_is_text(void **state)
{
    (void)state;
    enum { AT = 257, WORD_AT = 4 };
    char text[300] = "w,y\n";
    memset(text + WORD_AT, 'a', AT - WORD_AT);
    strcpy(text + AT - 3, ",1\n");
    strcpy(text + AT, "ustar,2\n");
    READS(WORD_LABEL ", header: skip", text, "1 0 : 1", "0 1 : 2");
}

static void a_tag_of_html_can_be_a_word(void **state)
{
    (void)state;
    READS(WORD_LABEL, "<html>,1\n<html>,2\n", "1 : 1", "1 : 2");
    READS(WORD_LABEL, "<header>,1\n", "1 : 1");
    READS(WORD_LABEL, "<?xmlns>,1\n", "1 : 1");
    READS(WORD_LABEL, "{\"a\":1},1\n", "1 : 1");
}

static void text_of_utf_16_and_utf_32_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *encoding, *mark;
        size_t mark_bytes;
    } all[] = {{"UTF-16LE", "\xFF\xFE", 2},
               {"UTF-16BE", "\xFE\xFF", 2},
               {"UTF-32LE", "\xFF\xFE\0\0", 4},
               {"UTF-32BE", "\0\0\xFE\xFF", 4}};
#define TEXT(t)                                                                                    \
    {                                                                                              \
        t, sizeof t - 1                                                                            \
    }
    static const struct {
        const char *text;
        size_t bytes;
    } texts[] = {
        TEXT("w,y\na,1\nb,2\n"),
        TEXT("\xE4\xB8\x80\xE4\xB8\x80\xE5\x80\x89\xE5\xBA\xAB\xE7\xAE\xA1\xE7\x90\x86,1\n"),
        TEXT("a\0lpha and beta,1\nb,2\n")};
#undef TEXT
    for (size_t i = 0; i < 24; i++) {
        struct fixture f;
        char name[16], why[300];
        size_t mark = i & 4 ? all[i & 3].mark_bytes : 0;
        setup(&f, i >> 3 ? WORD_LABEL : WORD_LABEL ", header: skip", NULL, 0);
        converted(&f, texts[i >> 3].text, texts[i >> 3].bytes, all[i & 3].encoding, all[i & 3].mark,
                  mark);
        assert_int_equal(dataset_load(&f.d, &f.job, 0, 0, &f.e), ERR_INPUT);
        (void)snprintf(name, sizeof name, "%.*s", mark ? 6 : 8, all[i & 3].encoding);
        (void)snprintf(why, sizeof why,
                       "a.csv: it is %s, and only UTF-8 is read; convert it: iconv -f %s -t "
                       "UTF-8 FILE > NEW",
                       name, name);
        if (!strstr(f.e.text, why))
            fail_msg("%s, not %s", f.e.text, why);
        teardown(&f);
    }
}

/* PowerShell's >> appends UTF-16 to a file of UTF-8. */
static void text_of_utf_16_behind_lines_of_utf_8_is_named(void **state)
{
    (void)state;
    enum { ROWS = 100000 };
    static const struct {
        const char *encoding, *mark;
    } of[] = {{"UTF-16LE", ""}, {"UTF-16BE", ""}, {"UTF-16LE", "\xFF\xFE"}};
    static const char lines[] = "p\xC3\xB6,1\r\nq,2\r\n";
    for (size_t i = 0; i < 3 * sizeof of / sizeof *of; i++) {
        const size_t k = i / 3, rows = i % 3 == 0 ? 1 : i % 3 == 1 ? 2 : ROWS;
        char name[10], wide[64], why[300], *text = malloc(8 * ROWS), *end = text, *to = wide;
        char *from = (char *)(uintptr_t)lines;
        size_t left = sizeof lines - 1, room = sizeof wide;
        struct fixture f;
        iconv_t convert = iconv_open(of[k].encoding, "UTF-8");
        assert_int_equal(iconv(convert, &from, &left, &to, &room), 0);
        (void)iconv_close(convert);
        for (size_t row = 0; row < rows; row++)
            end += sprintf(end, "ab,%d\n", row > 0);
        end = stpcpy(end, of[k].mark);
        memcpy(end, wide, sizeof wide - room);
        setup(&f, WORD_LABEL, NULL, 0);
        put(&f, "a.csv", text, (size_t)(end - text) + sizeof wide - room);
        assert_int_equal(dataset_load(&f.d, &f.job, 0, 0, &f.e), ERR_INPUT);
        (void)snprintf(name, sizeof name, "%.*s", *of[k].mark ? 6 : 8, of[k].encoding);
        (void)snprintf(
            why, sizeof why,
            "a.csv:%zu: %s text begins here, and the lines before are UTF-8, which alone "
            "is read; convert these lines: iconv -f %s -t UTF-8",
            rows + 1, name, name);
        if (!strstr(f.e.text, why))
            fail_msg("%zu: %s, not %s", i, f.e.text, why);
        teardown(&f);
        free(text);
    }
}

/* Load the text, and compare the last warning without the path's directory. A look tells it, too. */
static void warns(struct fixture *f, const char *text, const char *wanted)
{
    char words[400];
    log_init("test", LOG_WARN);
    log_warn("nothing");
    dataset_close(&f->d);
    loads(f, text);
    log_last_words(false, words, sizeof words);
    log_init("test", LOG_ERROR);
    if (!strstr(words, wanted))
        fail_msg("%s, not %s", words, wanted);
    struct dataset_look look = {0};
    assert_int_equal(dataset_look(&look, &f->job, 0, 0, &f->e), ERR_OK);
    assert_string_equal(look.warning.text, strcmp(wanted, "nothing") ? words : "");
}

/* As brotli writes it, and any other file without a mark of its own. */
static void a_file_that_is_no_text_is_named(void **state)
{
    (void)state;
    struct fixture f;
    char bytes[300];
    for (int i = 0; i < 300; i++)
        bytes[i] = (char)(unsigned char)rng_u64(1, (uint64_t)i);
    setup(&f, WORD_LABEL, NULL, 0);
    put(&f, "a.csv", bytes, sizeof bytes);
    assert_int_equal(dataset_load(&f.d, &f.job, 0, 0, &f.e), ERR_INPUT);
    assert_non_null(strstr(f.e.text,
                           "a.csv: it is not text, as it has many control characters: is it "
                           "compressed, or another file?"));
    warns(&f, "a\5b\x15\6,1\nb,2\n", "has control characters"); /* a few */
    teardown(&f);
}

/* The text is refused, and the error has `hint`. */
static void hints(const char *data, const char *text, const char *hint)
{
    struct fixture f;
    setup(&f, data, NULL, 0);
    put(&f, "a.csv", text, strlen(text));
    assert_int_equal(dataset_load(&f.d, &f.job, 0, 0, &f.e), ERR_INPUT);
    if (!strstr(f.e.text, hint))
        fail_msg("%s, not %s", f.e.text, hint);
    teardown(&f);
}

static void a_header_that_is_read_as_a_row_is_warned_of(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f, "header: names, columns: [number: 'Unnamed: 0', label: y]", NULL, 0);
    warns(&f, "Unnamed: 0,y\n0,0\n1,1\n", "column Unnamed: 0: pandas names an index so");
    teardown(&f);
    setup(&f, "columns: [category: town, ignore: i, label: {name: rich, classes: [no, '*']}]", NULL,
          0);
    warns(&f, "Town,x,\"rich\"\r\nRome,x,no\n",
          ".csv:1: this line has the names of the columns, but is read as a row: use data.header: "
          "names, or skip");
    warns(&f, "town,x,no\nRome,x,rich\n", "nothing");
    warns(&f, "x, RICH,town\nRome,x,no\n",
          ".csv:1: this line has the names of the columns in another order, but is read as a row: "
          "use data.header: names");
    warns(&f, "x,no,town\nRome,x,no\n", "nothing");
    teardown(&f);
    setup(&f,
          "columns: [category: town, ignore: i, label: {name: rich, classes: [no, '*']}], header: "
          "skip",
          NULL, 0);
    warns(&f, "Towns of Italy\n\n\"town\",x,Rich\r\nRome,x,no\n",
          ".csv:3: this line has the names of the columns, but is read as a row, as data.header: "
          "skip has left out line 1: remove the lines before it");
    warns(&f, "Towns of Italy\ntown,x,no\nRome,x,rich\n", "nothing");
    teardown(&f);
}

static void names_of_classes_can_have_tabs_pipes_and_line_ends(void **state)
{
    (void)state;
    READS("columns: [number: \"a\\tb\", label: {name: y, classes: ['x\\|y', \"n\\tz|o\", '\\|', "
          "'c:\\d']}], "
          "header: names, quotes: true",
          "y,a\tb\nx|y,1\nn\tz,2\no,3\n|,4\nc:\\d,5\n", "1 : 0", "2 : 1", "3 : 1", "4 : 2",
          "5 : 3");
    READS("columns: [category: {name: \"\\nc\", vocabulary: [\"a\\nb\", a]}, label: {name: y, "
          "classes: [\"n\\nz|o\", n]}], header: names, missing: [\"?\\n\"]",
          "\"\nc\",y\na,n\n\"a\nb\",\"n\nz\"\n\"?\n\",o\n", "0 1 0 : 1", "1 0 0 : 0", "0 0 1 : 0");
    hints("columns: [number: a, label: {name: y, classes: ['x\\|y', z]}]", "1,x\n",
          "\"x\" is not one of the label's classes: x|y, z");
}

static void rows_from_which_nothing_can_be_learned_are_warned_of(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f, "columns: [number: a, weight: w, label: y], bad_rows: skip", NULL, 0);
    warns(&f, "1,0,1\n2,0,0\n", "data.train: all rows have weight 0, so there is nothing to count");
    char values[200] = "", *few = values + strlen("2,1,7\n"); /* they are no classes */
    for (int i = 0; i < 20; i++)
        strcat(values, "2,1,7\n");
    warns(&f, few, "nothing");
    warns(&f, values,
          "data.train: all rows have the label 7: from one number alone nothing can be learned");
    values[0] = '1';
    values[4] = '8';
    warns(&f, values, "nothing");
    memcpy(values, "1,9,8\n2,9,7\n", strlen("1,9,8\n2,9,7\n"));
    warns(&f, values, "nothing");
    char weighs[220];
    (void)snprintf(weighs, sizeof weighs, "1,1e9,8\n%s", few);
    warns(&f, weighs,
          "data.train: one row has the weight 1e+09, and 19 rows have 27 together: losses and "
          "metrics are those of one row");
    f.job.model.head[0].loss = LOSS_BINARY_CROSSENTROPY;
    warns(&f, "1,2,1\n2,0,1\n",
          "data.train: all rows have the label 1: from one class alone nothing can be learned");
    warns(
        &f, "1,2,0\n2,0,1\n",
        "data.train: all rows with a weight above 0 have the label 0: from one class alone nothing "
        "can be learned");
    warns(&f, "1,2,0\n2,1,1\n", "nothing");
    f.job.model.head[0].loss = LOSS_SPARSE_CATEGORICAL_CROSSENTROPY;
    warns(&f, "1,2,1\n2,1,2\n",
          "data.train: no row has the label 0, but class numbers start at 0; if those of the file "
          "start at 1, list them: classes: [\"1\", \"2\"]");
    warns(&f, "1,2,1\n2,1,2\n3,1,0\n", "nothing");
    teardown(&f);
    setup(&f, "columns: [number: a, label: {name: y, classes: [x, y, z]}]", NULL, 0);
    f.job.model.head[0].loss = LOSS_SPARSE_CATEGORICAL_CROSSENTROPY;
    warns(&f, "1,z\n2,y\n", "nothing"); /* the file's own names */
    teardown(&f);
    char *text = mem_zalloc(CSV_PIECE_BYTES, 2), *at = text;
    assert_non_null(text);
    for (int i = 0; i < 200000; i++)
        at += sprintf(at, "1,%d\n", i >= 199999);
    setup(&f, NUMBER_LABEL, NULL, 0);
    f.job.model.head[0].loss = LOSS_BINARY_CROSSENTROPY;
    put(&f, "a.csv", text, strlen(text));
    assert_int_equal(dataset_load(&f.d, &f.job, 0, 0, &f.e), ERR_OK);
    assert_true(f.d.seen.min == 0 && f.d.seen.max == 1 && f.d.seen.classes[0] == 3);
    struct dataset_look look = {0};
    assert_int_equal(dataset_look(&look, &f.job, 0, 0, &f.e), ERR_OK);
    assert_string_equal(look.warning.text,
                        "data.train: the rows that were looked at have the label 0: from rows of "
                        "one class alone nothing can be learned");
    mem_free(text);
    teardown(&f);
}

static void delimiter_is_as_the_job_says(void **state)
{
    (void)state;
    READS(NUMBER_LABEL ", delimiter: tab", "1\t2\n", "1 : 2");
    READS(NUMBER_LABEL ", delimiter: semicolon", "1;2\n", "1 : 2");
    READS(NUMBER_LABEL ", delimiter: pipe", "1|2\n", "1 : 2");
    READS(NUMBER_LABEL ", delimiter: space", "1 2\n", "1 : 2");
}

static const char *word(const struct fixture *f, uint32_t input, uint32_t number)
{
    static char out[256];
    size_t bytes;
    const struct vocabulary *v = &f->d.table.schema->input[input].words;
    assert_in_range(number, 0, v->count - 1);
    const char *text = vocabulary_text(v, number, &bytes);
    snprintf(out, sizeof out, "%.*s", (int)bytes, text);
    return out;
}

static void quoted_fields_are_those_of_rfc_4180(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f, WORD_LABEL ", missing: NA", NULL, 0);
    loads(&f, "\"a,b\",1\n\"say \"\"hi\"\"\",\"2\"\n\"two\nlines\",3\r\n\"\",4\n\"\"\"\",5\n");
    static const char *const words[] = {"a,b", "say \"hi\"", "two\nlines", "", "\""};
    assert_int_equal(f.d.features, 5);
    for (uint32_t i = 0; i < 5; i++)
        assert_string_equal(word(&f, 0, i), words[i]);
    ROWS_ARE(&f.d, "1 0 0 0 0 : 1", "0 1 0 0 0 : 2", "0 0 1 0 0 : 3", "0 0 0 1 0 : 4",
             "0 0 0 0 1 : 5");
    teardown(&f);
}

static void without_quotes_they_are_bytes(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f, WORD_LABEL ", quotes: false", NULL, 0);
    loads(&f, "5\" pipe,1\n\"x,2\n");
    assert_string_equal(word(&f, 0, 0), "5\" pipe");
    assert_string_equal(word(&f, 0, 1), "\"x");
    teardown(&f);
}

#define AFTER                                                                                      \
    "text follows the quotes of a field: double a quote that belongs to the text, or use "         \
    "data.quotes: false"
#define OPEN "a quote begins a field here, and is never closed; with data.quotes: false it is text"
static void text_after_the_quotes_of_a_field_is_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {"\"a\"b", "\"a\"\"\" \"\"", "\"a\"b\"c,d\""};
    refuses(WORD_LABEL, "x,1\n\"a\"b,2\n", ":2: column \"w\": " AFTER);
    refuses(WORD_LABEL, "x,1\n\"a\"\"\" \"\",2\n", ":2: column \"w\": " AFTER);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char text[64];
        (void)snprintf(text, sizeof text, "x,1\n%s,2\ny,3\n", wrong[i]);
        READS(WORD_LABEL ", bad_rows: skip", text, "1 0 : 1", "-", "0 1 : 3");
    }
    READS(WORD_LABEL ", trim: true", " \"a\" ,1\n", "1 : 1");
}

/* As in Python's csv: quotes inside a field are text, in each column, and no line after them is lost. */
static void a_quote_inside_a_field_is_text(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f, WORD_LABEL, NULL, 0);
    loads(&f, "12\" pipe,1\na\"\"b,2\nc\",3\n");
    static const char *const words[] = {"12\" pipe", "a\"\"b", "c\""};
    for (uint32_t i = 0; i < 3; i++)
        assert_string_equal(word(&f, 0, i), words[i]);
    ROWS_ARE(&f.d, "1 0 0 : 1", "0 1 0 : 2", "0 0 1 : 3");
    teardown(&f);
    READS("columns: [number: 'a\"b', label: y], header: names", "a\"b,y\n1,2\n", "1 : 2");
    refuses("columns: [category: a, category: b, label: y]", "a, \"b, c\",1\n",
            ":1: it has 4 fields, data.columns names 3; a quote after a blank is text: use "
            "data.trim: true");
}

static void quotes_of_columns_that_are_not_read_end_at_the_same_places(void **state)
{
    (void)state;
    static const char with[] =
        "n,what,y\n1,12\" pipe,0\n2,\"a, 6\"\" pipe\",1\n3,5\" x 4\" x 3\",2\n"
        "4,\"12\" pipe\",3\n5,two \"\nlines,4\n";
    READS("columns: [number: n, ignore, label: y], header: skip, bad_rows: skip", with, "1 : 0",
          "2 : 1", "3 : 2", "4 : 3", "-", "-");
    READS("columns: [number: n, label: y], header: names, bad_rows: skip", with, "1 : 0", "2 : 1",
          "3 : 2", "4 : 3", "-", "-");
    READS("columns: [number: n, label: y], comment: '#'", "# it is 12\" wide\n1,2\n3,4\n#\"\n5,6\n",
          "1 : 2", "3 : 4", "5 : 6");
}

static void a_quote_that_is_never_closed_names_the_line_where_it_begins(void **state)
{
    (void)state;
    refuses(WORD_LABEL, "x,1\n\"a,2\nb,3\n", ":2: " OPEN);
    refuses(WORD_LABEL ", bad_rows: skip", "x,1\n\"a,2\nb,3\n", ":2: " OPEN);
    refuses("columns: [category: a, category: b, label: y]", "x,x,1\n\"a\nb\n\",\"a,2\nb,3\n",
            ":4: " OPEN);
    refuses("columns: [ignore, number: b, label: y]", "x,1,1\n\"a,2,2\nb,3,3\n", ":2: " OPEN);
    refuses(NUMBER_LABEL ", header: names", "a,\"y\n1,2\n3,4\n", ":1: " OPEN);
    refuses(NUMBER_LABEL ", header: skip", "a,\"y\n1,2\n3,4\n", ":1: " OPEN);
    refuses(WORD_LABEL ", bad_rows: stop", "x,y\nx,\"1\n",
            ":1: column \"y\": the label \"y\" is not a number; if this line is a header, use "
            "data.header: skip, or names"); /* the first error in the text */
}

/* A field in quotes can have many lines; each of them is gone. */
static void each_line_of_a_bad_row_counts(void **state)
{
    (void)state;
    static const char text[] = "x,1\n\"a\nb\nc\" d,2\ny,3\n";
    READS(WORD_LABEL ", bad_rows: skip, bad_rows_max: 3", text, "1 0 : 1", "-", "0 1 : 3");
    struct fixture f;
    setup(&f, WORD_LABEL ", bad_rows: skip, bad_rows_max: 2", NULL, 0);
    put(&f, "a.csv", text, sizeof text - 1);
    assert_int_equal(dataset_load(&f.d, &f.job, 0, 0, &f.e), ERR_INPUT);
    assert_non_null(strstr(
        f.e.text, "more than 2 bad rows (data.bad_rows_max), each line counted; the first: "));
    assert_non_null(strstr(f.e.text, "a.csv:2: column \"w\": " AFTER));
    teardown(&f);
}

static void escapes_are_those_of_mysql_and_spark(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f, WORD_LABEL ", escape: backslash, missing: '\\N'", NULL, 0);
    loads(&f,
          "a\\,b,1\n\"say \\\"hi\\\"\",2\ntwo\\\nlines,\"\\3\"\n\\\\,4\n\"\\\\\",\\5\n\"\"\"\",6\n"
          "\\N,7\nc\\\r,8\n");
    static const char *const words[] = {"a,b", "say \"hi\"", "two\nlines", "\\",
                                        "\"",  "\\N",        "c\r"};
    for (uint32_t i = 0; i < 7; i++)
        assert_string_equal(word(&f, 0, i), words[i]);
    ROWS_ARE(&f.d, "1 0 0 0 0 0 0 : 1", "0 1 0 0 0 0 0 : 2", "0 0 1 0 0 0 0 : 3",
             "0 0 0 1 0 0 0 : 4", "0 0 0 1 0 0 0 : 5", "0 0 0 0 1 0 0 : 6", "0 0 0 0 0 1 0 : 7",
             "0 0 0 0 0 0 1 : 8");
    teardown(&f);
    READS("columns: [number: a, ignore, label: y], escape: '\\', quotes: false, delimiter: tab",
          "1\\2\t\"a\\\tb\t\\3\n4\t\\\n\t5\n", "12 : 3", "4 : 5");
    refuses(
        WORD_LABEL ", escape: backslash", "a,1\r\nb\\\r\nc,2\r\n",
        ":2: it has 1 field, data.columns names 2; a backslash before CR LF escapes the CR alone: "
        "convert the line ends: tr -d '\\r' < FILE > NEW");
    refuses(WORD_LABEL ", escape: backslash", "a,1\r\nb\\\\\r\nc,2\r\n",
            ":2: it has 1 field, data.columns names 2");
    refuses(NUMBER_LABEL ", escape: backslash", "1,2\n3,4\\",
            ":2: the file ends with an escape (data.escape)");
}

static void an_id_that_has_no_row_in_the_embedding_makes_its_row_bad(void **state)
{
    (void)state;
    static const char *const layers[] = {
        "model.layers=[embedding: {input_dim: 5, output_dim: 2}, flatten, dense: 1]"};
    static const struct {
        const char *column, *text, *why;
    } cases[] = {
        {"number: a", "4,1\n0,1\n5,1\n",
         "3: column \"a\": 5 is not an id: the embedding that reads it has rows 0 to 4"},
        {"number: a", "-1,1\n",
         "1: column \"a\": -1 is not an id: the embedding that reads it has rows 0 to 4"},
        {"number: a", "1.5,1\n",
         "1: column \"a\": 1.5 is not an id: the embedding that reads it has rows 0 to 4"},
        {"number: a", "1,1\n0.99999999,1\n",
         "2: column \"a\": 0.99999999 is not an id: the embedding that reads it has rows 0 to 4"},
        {"number: a", "2.0000000001,1\n",
         "1: column \"a\": 2.0000000001 is not an id: the embedding that reads it has rows 0 to 4"},
        {"number: a", "-1e-50,1\n",
         "1: column \"a\": -1e-50 is not an id: the embedding that reads it has rows 0 to 4"},
        {"number: a", "16777217,1\n",
         "1: column \"a\": 16777217 is not an id: the embedding that reads it has rows 0 to 4"},
        {"number: a", "1,1\n3,1\n?,1\n",
         "3: column \"a\": the id is missing; name one for such rows: missing: {value: ID}"},
        {"number: {name: a, missing: refuse}", "?,1\n",
         "1: column \"a\": the id is missing; name one for such rows: missing: {value: ID}"},
        {"number: {name: a, missing: {value: 3}}", "1,1\n?,1\n", NULL},
        {"number: {name: a, scale: standard}", "1,1\n7,1\n", NULL}, /* refused at the lookup */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct fixture f;
        char data[200], wanted[512];
        (void)snprintf(data, sizeof data, "columns: [%s, label: y], missing: '?'", cases[i].column);
        setup(&f, data, layers, 1);
        put(&f, "a.csv", cases[i].text, strlen(cases[i].text));
        enum err err = dataset_load(&f.d, &f.job, 0, 0, &f.e);
        assert_int_equal(err, cases[i].why ? ERR_INPUT : ERR_OK);
        (void)snprintf(wanted, sizeof wanted, "data.train: %s/a.csv:%s", f.files.dir, cases[i].why);
        if (err)
            assert_string_equal(f.e.text, wanted);
        teardown(&f);
    }
}

/* ---- what was likely forgotten ---- */

static void a_header_that_is_read_as_a_row_names_data_header(void **state)
{
    (void)state;
    refuses(NUMBER_LABEL, "\n\"age\",y\n1,2\n",
            ":2: column \"a\": \"age\" is not a number; if this line is a header, use data.header: "
            "skip, or names");
    refuses(WORD_LABEL, "w,y\na,2\n",
            ":1: column \"y\": the label \"y\" is not a number; if this line is a header, use "
            "data.header: skip, or names");
    refuses("columns: [category: w, label: {name: y, classes: [no, yes]}]", "w,y\na,no\n",
            ":1: column \"y\": \"y\" is not one of the label's classes: no, yes; if this line is a "
            "header, use data.header: skip, or names");
    refuses("columns: [category: w, weight: v, label: y]", "w,v,y\na,no,1\n",
            ":1: column \"v\": the weight \"v\" is not a finite number of at least 0; if this line "
            "is a header, use data.header: skip, or names");
    refuses("columns: [number, label]", "1,2\nage,2\n",
            ":2: column 1: \"age\" is not a number; use data.missing if it marks a missing value");
    refuses("columns: [number, label], header: skip", "a,y\nage,2\n",
            ":2: column 1: \"age\" is not a number; use data.missing if it marks a missing value");
    refuses(
        NUMBER_LABEL, "4x,2\n",
        ":1: column \"a\": \"4x\" is not a number; use data.missing if it marks a missing value");
    static const char *const others[] = {"1,5", "1,234.5", "-1.234,5", "1_000", "1'000"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        char line[32], why[200];
        (void)snprintf(line, sizeof line, "\"%s\",2\n", others[i]);
        (void)snprintf(why, sizeof why,
                       ":1: column \"a\": \"%s\" is not a number; write numbers with a decimal "
                       "point, and without other separators: 1234.5",
                       others[i]);
        refuses(NUMBER_LABEL, line, why);
    }
}

static void what_a_value_was_meant_to_be_is_named(void **state)
{
    (void)state;
    hints(NUMBER_LABEL, "1,2\n5.5-,2\n",
          "\"5.5-\" is not a number; write its minus before the digits");
    hints(NUMBER_LABEL, "1,2\n'-5.5,2\n",
          "\"'-5.5\" is not a number; remove the apostrophe before it");
    hints(NUMBER_LABEL, "1,2\n3-4,2\n", "use data.missing");
    hints(NUMBER_LABEL ", missing: ['0']", "1,2\n3,0\n",
          "the label is missing: \"0\" is in data.missing");
    hints(NUMBER_LABEL, "1,2\n3,nan\n",
          "the label \"nan\" is not a number; if it marks a missing label, data.bad_rows: skip "
          "leaves such rows out");
    hints(WORD_LABEL, "\"a \\\"b, c\\\" d\",2\n",
          "it has a quote behind a backslash: if that escapes it, use data.escape: backslash");
}

static void a_character_that_cannot_be_seen_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *text, *shown, *name;
    } of[] = {{"\xC2\xA0"
               "12",
               "<U+00A0>12", "U+00A0, a no-break space"},
              {"1\xE2\x80\x8B"
               "2",
               "1<U+200B>2", "U+200B, a space without width"},
              {"12\xE2\x80\xAF", "12<U+202F>", "U+202F, a narrow no-break space"}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        char line[32], why[200];
        (void)snprintf(line, sizeof line, "1,2\n%s,2\n", of[i].text);
        (void)snprintf(why, sizeof why,
                       ":2: column \"a\": \"%s\" is not a number; it has the invisible character "
                       "%s: remove it",
                       of[i].shown, of[i].name);
        refuses(NUMBER_LABEL, line, why);
    }
    refuses(NUMBER_LABEL, "1,2\n\u22125,2\n",
            ":2: column \"a\": \"\u22125\" is not a number; it has the character U+2212 in place "
            "of a minus: write -");
    hints(NUMBER_LABEL, "\u2212.5,2\n1,2\n", "it has the character U+2212 in place of");
    hints(NUMBER_LABEL, "\uFF15,2\n1,2\n", "it has digits of full width");
    hints(NUMBER_LABEL, "\u91CF\uFF15,\u91CF\n1,2\n", "if this line is a header");
    hints(NUMBER_LABEL, "1,2\n1e\u20135,2\n", "it has the character U+2013 in place of");
    hints(NUMBER_LABEL, "1,2\n\uFF15,2\n",
          "it has digits of full width, U+FF10 to U+FF19: write 0 to 9");
    hints(NUMBER_LABEL, "1,2\n\u2013,2\n", "use data.missing");   /* it stands for no number */
    hints(NUMBER_LABEL, "1,2\n5\u20136,2\n", "use data.missing"); /* a range */
    refuses(
        "columns: [number: a, weight: w, label: y]",
        "1,1,0\n1,\xC2\xA0"
        "3,0\n",
        ":2: column \"w\": the weight \"<U+00A0>3\" is not a finite number of at least 0; it has "
        "the invisible character U+00A0, a no-break space: remove it");
    static const char bare[] = "columns: [number: name, label: y], header: names",
                      accent[] = "columns: [number: \"caf\xC3\xA9\", label: y], header: names";
    refuses(bare, "y,na\xE2\x80\x8Bme\n1,2\n",
            ":1: its header does not name \"name\" of data.columns, it is \"y,na<U+200B>me\"; did "
            "you mean \"na<U+200B>me\"?");
    hints(bare, "y,na\xC2\xADme\n1,2\n", "did you mean \"na<U+00AD>me\"?");
    hints(accent, "a long name before the one that is wanted,y,cafe\xCC\x81\n1,2,3\n",
          "it is \"a long name before the one that is wante...\"; did you mean \"cafe<U+0301>\"?");
    hints("columns: [number: \"cafe\xCC\x81\", label: y], header: names", "y,caf\xC3\xA9\n1,2\n",
          "does not name \"cafe<U+0301>\" of data.columns, it is \"y,caf\xC3\xA9\"; did you mean "
          "\"caf\xC3\xA9\"?");
    hints("columns: [number: \"my name\", label: y], header: names", "y,my\xC2\xA0name\n1,2\n",
          "did you mean \"my<U+00A0>name\"?");
    hints(accent, "y,caf\xC3\xA8s\n1,2\n", "; the file needs this column");
}

#define BLANKS "; blanks around it count: use data.trim: true"
static void a_field_with_blanks_around_names_data_trim(void **state)
{
    (void)state;
    READS(NUMBER_LABEL, " 1 ,\t2 \n", "1 : 2"); /* numbers are read with them */
    refuses(NUMBER_LABEL ", missing: '?'", "1,2\n ?,2\n",
            ":2: column \"a\": \" ?\" is not a number" BLANKS);
    refuses(NUMBER_LABEL, "1,2\n  ,2\n", ":2: column \"a\": \"  \" is not a number" BLANKS);
    refuses("columns: [number: a, label: {name: y, classes: [no, yes]}]", "1, no\n",
            ":1: column \"y\": \" no\" is not one of the label's classes: no, yes" BLANKS);
    refuses(WORD_LABEL, "x,1\n \"a\",2\n",
            ":2: column \"w\": it has blanks around its quotes; use "
            "data.trim: true");
    refuses(WORD_LABEL, "x,1\n\"a\" ,2\n",
            ":2: column \"w\": it has blanks around its quotes; use "
            "data.trim: true");
    refuses(
        NUMBER_LABEL ", header: names", "\na, y\n1,2\n",
        ":2: its header does not name \"y\" of data.columns, it is \"a, y\"; blanks around a name "
        "count: use data.trim: true");
    refuses(NUMBER_LABEL, "1,2\n x ,2\n",
            ":2: column \"a\": \" x \" is not a number; use data.missing if it marks a missing "
            "value");
}

static void a_line_of_another_delimiter_names_data_delimiter(void **state)
{
    (void)state;
    static const char three[] = "columns: [number: a, number: b, label: y]";
    refuses(three, "1;2;3\n",
            ":1: it has 1 field, data.columns names 3; with data.delimiter: semicolon it has 3");
    refuses(three, "1\t2\t3\n",
            ":1: it has 1 field, data.columns names 3; with data.delimiter: tab it has 3");
    refuses(three, "1|2|3|4\n",
            ":1: it has 1 field, data.columns names 3; with data.delimiter: pipe it has 4");
    refuses(three, "1 2 3\n",
            ":1: it has 1 field, data.columns names 3; with data.delimiter: space it has 3");
    refuses(NUMBER_LABEL ", delimiter: tab", "1,2\n",
            ":1: it has 1 field, data.columns names 2; with data.delimiter: comma it has 2");
    refuses(NUMBER_LABEL, "a word\n1,2\n",
            ":1: it has 1 field, data.columns names 2; with "
            "data.delimiter: space it has 2");
    refuses(NUMBER_LABEL, "a b c\n", ":1: it has 1 field, data.columns names 2");
    refuses(three, "1,2,3,4\n", ":1: it has 4 fields, data.columns names 3");
    refuses(
        NUMBER_LABEL ", header: names", "a;y\n1;2\n",
        ":1: its header does not name \"a\" of data.columns, it is \"a;y\"; with data.delimiter: "
        "semicolon it has 2");
    refuses(NUMBER_LABEL ", header: names", "a,y\n1\n", ":2: it has 1 field, its header has 2");
    refuses(NUMBER_LABEL ", header: names", "a,y\n1,2\nSource: us\n",
            ":3: it has 1 field, its header has 2"); /* a footer, and no blank for a delimiter */
    refuses(NUMBER_LABEL ", header: skip", "sep=,\na,y\n1,2\n",
            ":2: column \"a\": \"a\" is not a number; the line has the names of the columns, as "
            "data.header: skip has left out the line before it: remove that");
    refuses(
        NUMBER_LABEL ", header: names", "Report 3,\n\n\"a\",y\r\n1,2\n",
        ":1: its header does not name \"a\" of data.columns, it is \"Report 3,\"; the line after "
        "it has these names: remove the lines before that");
    refuses(
        NUMBER_LABEL ", header: names, comment: '#'", "# of 3\n# a, y\n1,2\n",
        ":3: its header does not name \"a\" of data.columns, it is \"1,2\"; a line before it has "
        "these names, but begins with data.comment: remove that text from it");
    refuses(
        NUMBER_LABEL ", header: names, comment: '#'", "#\n#a\n1,2\n3,4\n",
        ":3: its header does not name \"a\" of data.columns, it is \"1,2\"; without a header in "
        "the file, leave data.header out");
}

static void files_of_xz_and_bzip2_are_refused_by_name(void **state)
{
    (void)state;
    static const char xz[] = "\xFD"
                             "7zXZ\0\0\4\xE6\xD6",
                      bzip2[] = "BZh91AY&SY\1\2\3\4",
                      none[] = "BZh9\x17\x72\x45\x38\x50\x90\0\0\0\0";
    static const char why[] =
        "it is compressed by %s, which is not read; decompress it, or compress "
        "it again by zstd or gzip: %s FILE | zstd > FILE.zst";
    char text[256];
    snprintf(text, sizeof text, why, "xz", "xzcat");
    refuses_bytes(WORD_LABEL, xz, sizeof xz - 1, 0, text);
    snprintf(text, sizeof text, why, "bzip2", "bzcat");
    refuses_bytes(WORD_LABEL, bzip2, sizeof bzip2 - 1, 0, text);
    refuses_bytes(WORD_LABEL, none, sizeof none - 1, 0, text);
    READS(WORD_LABEL, "BZh9 is a word,1\n", "1 : 1");
}

static void a_nul_byte_is_a_byte_with_a_warning(void **state)
{
    (void)state;
    struct fixture f;
    char words[400];
    static const char text[] = "a\0b,1\na,2\na\0b,3\n";
    setup(&f, WORD_LABEL, NULL, 0);
    put(&f, "a.csv", text, sizeof text - 1);
    log_init("test", LOG_WARN);
    assert_int_equal(dataset_load(&f.d, &f.job, 0, 0, &f.e), ERR_OK);
    log_last_words(false, words, sizeof words);
    log_init("test", LOG_ERROR);
    assert_non_null(
        strstr(words, "a.csv:1: a NUL byte, which is read like any other: is it text of UTF-16?"));
    ROWS_ARE(&f.d, "1 0 : 1", "0 1 : 2", "1 0 : 3");
    teardown(&f);
    refuses_bytes(NUMBER_LABEL, "1\0,2\n", 5, 0,
                  ":1: column \"a\": \"1<U+0000>\" is not a number; it has a NUL byte: is it text "
                  "of UTF-16?");
}

#define NULS                                                                                       \
    "has NUL bytes in a row, as a crash leaves them at the end of a file; remove them: tr -d "     \
    "'\\0' < FILE > NEW"
static void nul_bytes_that_a_crash_left_are_named(void **state)
{
    (void)state;
    static const char text[] = "1,2\n3,4\n\0\0\0\0\0\0\0\0\0", value[] = "1,2\n3,4\0\0\0\0\0\0\0\0",
                      word[] = "1,a\n2,b\n\0\0\0\0\0\0\0\0"
                               "3,c\n";
    refuses_bytes(NUMBER_LABEL, text, sizeof text - 1, 0,
                  ":3: it has 1 field, data.columns names 2; it " NULS);
    refuses_bytes(NUMBER_LABEL, value, sizeof value - 1, 0,
                  ":2: column \"y\": the label "
                  "\"4<U+0000><U+0000><U+0000><U+0000>...\" is not a number; it " NULS);
    struct fixture f;
    setup(&f, "columns: [category: w, label: {name: y, classes: [a, b, c]}]", NULL, 0);
    put(&f, "b.csv", word, sizeof word - 1);
    warns(&f, "1,a\n", "b.csv:3: this line " NULS);
    teardown(&f);
    char *big = calloc(CSV_PIECE_BYTES + 64, 1);
    assert_non_null(big);
    memcpy(big, "1,2\n", 4);
    refuses_bytes(NUMBER_LABEL, big, CSV_PIECE_BYTES + 64, 0,
                  ":2: a row of more than 524288 bytes: it " NULS);
    free(big);
}

#define MARK "\xEF\xBB\xBF"
#define MARK_HINT "; a byte order mark (U+FEFF) begins the line: if files were joined, remove it"
/* As `cat` joins files. The first mark of a file is no text. */
static void a_byte_order_mark_behind_the_first_line_is_named(void **state)
{
    (void)state;
    static const char *const first[] = {"category: w", "ignore"};
    static const char said[] =
        ".csv:3: a byte order mark (U+FEFF) begins this line, and belongs to its first field; if "
        "files were joined, remove it";
    struct fixture f;
    for (size_t i = 0; i < 2; i++) {
        char data[80];
        (void)snprintf(data, sizeof data, "columns: [%s, number: n, label: y]", first[i]);
        setup(&f, data, NULL, 0);
        warns(&f, MARK "a,1,1\nb,2,2\n" MARK "a,3,3\n" MARK "b,4,4\n", said);
        warns(&f, MARK "a,1,1\n\"b\n" MARK "\",2,2\na" MARK ",3,3\nb,4,4\n", "nothing");
        teardown(&f);
    }
    setup(&f, WORD_LABEL, NULL, 0);
    warns(&f, MARK MARK "a,1\nb,2\n", ".csv:1: a byte order mark (U+FEFF) begins this line");
    teardown(&f);
    refuses(NUMBER_LABEL, "1,2\n" MARK "3,4\n",
            ":2: column \"a\": \"<U+FEFF>3\" is not a number" MARK_HINT);
    refuses("columns: [label: y, number: a]", "1,2\n" MARK "3,4\n",
            ":2: column \"y\": the label \"<U+FEFF>3\" is not a number" MARK_HINT);
    refuses(WORD_LABEL, "a,1\n" MARK "\"b,c\",2\n",
            ":2: it has 3 fields, data.columns names 2" MARK_HINT);
    refuses(WORD_LABEL ", header: names", MARK MARK "w,y\na,1\n",
            ":1: its header does not name \"w\" of data.columns, it is \"<U+FEFF>w,y\"; a second "
            "byte order mark is before its first name: remove it");
}

#define AGAIN_HINT "; the line is the header again: if files were joined, remove it"
static void a_header_that_comes_again_is_named(void **state)
{
    (void)state;
    static const char *const headers[] = {"skip", "names"};
    static const char said[] = ".csv:3: this line is the header again, and is read as a row; if "
                               "files were joined, remove it";
    struct fixture f;
    for (size_t i = 0; i < 2; i++) {
        char data[128];
        (void)snprintf(data, sizeof data,
                       "header: %s, columns: [category: w, label: {name: y, classes: [a, '*']}]",
                       headers[i]);
        setup(&f, data, NULL, 0);
        warns(&f, "\"w\",y\r\nb,a\r\n\"w\",y\r\nc,x\r\n\"w\",y", said);
        warns(&f, "w,y\nb,a\n" MARK "w,y\nc,x\n", said);
        warns(&f, "w,y\nb,a\nw,yy\nw\"w,y\"\n", "nothing");
        warns(&f, "w,y\nb,a\n\"y\",w\nc,x\n", said);
        warns(&f, "w,y\nb,a\nw,w\ny,y\n", "nothing");
        warns(&f, "w,y\nb,a\nW, Y\nc,x\n", said);
        teardown(&f);
        (void)snprintf(data, sizeof data, "%s, header: %s", WORD_LABEL, headers[i]);
        refuses(data, "w,y\na,1\nw,y\n",
                ":3: column \"y\": the label \"y\" is not a number" AGAIN_HINT);
        (void)snprintf(data, sizeof data, "%s, header: %s", NUMBER_LABEL, headers[i]);
        refuses(data, "a,y\n1,1\na,y\n", ":3: column \"a\": \"a\" is not a number" AGAIN_HINT);
    }
    setup(&f, "header: skip, columns: [category: w, label: {name: y, classes: [a, y]}]", NULL, 0);
    warns(&f, "w,y,z\nb,a\nw,y\n", "nothing"); /* a header of other columns than the rows */
    warns(&f, "w\nb,a\nw,y\nw,y\n", "nothing");
    teardown(&f);
    setup(&f, WORD_LABEL ", header: skip, bad_rows: skip", NULL, 0);
    warns(&f, "w,y\na,1\nw,y\n", "1 bad rows of 2 are left out; the first: ");
    teardown(&f);
    setup(&f,
          "header: skip, columns: [category: w, ignore: i, label: {name: y, classes: [a, '*']}]",
          NULL, 0);
    warns(&f, "w,,y\nb,1,a\nw,2,y\n", "nothing"); /* a name that is empty is no other text */
    warns(&f, "w,,y\nb,1,a\nY,\"\",w\n", said);
    teardown(&f);
    setup(&f, "header: names, columns: [category: '0', label: {name: '1', classes: ['0', '1']}]",
          NULL, 0);
    warns(&f, "0,1\n1,1\n0,0\n1,0\n", "nothing");
    warns(&f, "0,1\n1,1\n0,1\n0,0\n", said);
    teardown(&f);
}

static void a_header_behind_rows_without_one_is_named(void **state)
{
    (void)state;
    static const char said[] = ".csv:3: this line has the names of the columns, and is read as a "
                               "row; if files were joined, remove it",
                      first[] = ".csv:1: this line has the names of the columns, but is read as a "
                                "row: use data.header: names, or skip";
    static const struct {
        const char *text, *said;
    } files[] = {{"1,b,a\n2,c,x\nid,W,\"y\"\n3,b,a\nid,w,y\n", said},
                 {"1,b,a\n2,c,x\ny,id,w\nid,y,w\n1,y,w\n", "nothing"},
                 {"id,w,y\n2,c,a\n3,b,x\n", first},
                 {"1,b,a\nw,b,a\nw,w,x\ny,y,y\nw,b,x\n", "nothing"}};
    struct fixture f;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        setup(&f, "columns: [ignore: i, category: w, label: {name: y, classes: [a, '*']}]", NULL,
              0);
        warns(&f, files[i].text, files[i].said);
        teardown(&f);
    }
    setup(&f, "columns: [ignore: w, number, label: {name: y, classes: [a, '*']}]", NULL, 0);
    warns(&f, "1,1,a\n2,2,x\ny,3,a\n", "nothing"); /* a text that is not read */
    teardown(&f);
    setup(&f, "columns: [category: w, label: {name: y, classes: [a, '*']}]", NULL, 0);
    warns(&f, "b,a\nc,x\nY,w\n", said); /* in another order */
    teardown(&f);
    setup(&f, "columns: [category: '0', label: {name: '1', classes: ['0', '1']}]", NULL, 0);
    warns(&f, "1,1\n0,0\n1,0\n0,1\n", "nothing"); /* names as pandas gives them are values */
    teardown(&f);
    refuses(
        NUMBER_LABEL, "1,2\na,y\n",
        ":2: column \"a\": \"a\" is not a number; the line has the names of the columns: if files "
        "were joined, remove it");
}

static void a_class_whose_letters_are_other_bytes_is_named(void **state)
{
    (void)state;
    hints("columns: [number: n, label: {name: y, classes: [caf\xC3\xA9, tea]}]",
          "1,caf\xC3\xA9\n2,cafe\xCC\x81\n",
          "; it has combining marks, such as U+0301, and no class has one: normalize the file");
    hints("columns: [number: n, label: {name: y, classes: [cafe\xCC\x81, tea]}]",
          "2,tea\n1,caf\xC3\xA9\n",
          "; a class has combining marks, such as U+0301, but it has none: normalize the classes");
    hints("columns: [number: n, label: {name: y, classes: [cafe\xCC\x81, tea]}]",
          "2,tea\n1,coffee\n", "; if it is a class, add it to classes");
}

static void a_comment_that_reads_like_a_row_is_warned_of(void **state)
{
    (void)state;
    static const char said[] = ".csv:2: this line begins with data.comment and is left out, but it "
                               "reads like a row; if it is one, write its first field in quotes, "
                               "or choose another data.comment";
    struct fixture f;
    setup(&f, "columns: [category: w, number: x, label: y], comment: '#'", NULL, 0);
    warns(&f, "b,1,0\n#a,2,1\n#c,3,1\n", said);
    warns(&f, "b,1,0\r\n#a,\"2\",1\r\nb,2,1\r\n", said);
    warns(&f, "b,1,0\n# width,height,5 cm\n# b\n#a,2\n#,x,1\n#\"\n#\n\"b\",2,1\n", "nothing");
    teardown(&f);
    setup(&f, "columns: [label: {name: y, classes: ['#a', b]}, number: x], comment: '#'", NULL, 0);
    warns(&f, "b,1\n#a,2\nb,3\n", said);
    warns(&f, "b,1\n#,2\n# a,3\n\"#a\",3\n", "nothing");
    teardown(&f);
    setup(&f, NUMBER_LABEL ", comment: '#'", NULL, 0);
    warns(&f, "1,0\n#2,1\n2,1\n", "nothing"); /* #2 is no number */
    teardown(&f);
    setup(&f,
          "columns: [category: {name: w, vocabulary: [a, b]}, category: {name: x, vocabulary: [p, "
          "q]}, label: {name: y, classes: ['1', '*']}], comment: '#'",
          NULL, 0);
    warns(&f, "b,q,1\n#a,p,2\na,q,2\n", said);
    warns(&f, "b,q,1\n#w,x,y\na,q,2\n", "nothing");
    teardown(&f);
}

/* As Spark writes quotes. */
static void rows_that_an_ignored_field_swallows_are_warned_of(void **state)
{
    (void)state;
    static const char said[] =
        ".csv:2: a field in quotes of a column that is not read goes on over "
        "the ends of lines, and text follows its closing quote";
    struct fixture f;
    setup(&f, "header: skip, columns: [ignore: t, number: a, label: y]", NULL, 0);
    warns(&f, "t,a,y\n\"ends \\\"\",1,0\n\"too \\\"\",2,1\nplain,3,1\n", said);
    warns(&f, "t,a,y\n\"rock,1,0\nb,2,1\n\"q\",3,0\nx,4,1\n", said);
    warns(&f, "t,a,y\n\"two\nlines\",1,0\n\"a \"\"\n\",2,1\n\"b\"c,3,1\n", "nothing");
    teardown(&f);
}

/* pandas takes them for missing, too: na_values=[-999]. */
static void another_spelling_of_a_marker_that_is_a_number_is_warned_of(void **state)
{
    (void)state;
    static const struct {
        const char *options, *text, *column, *line, *shown; /* shown NULL: nothing is said */
    } of[] = {
        {"number: a", "1,1\n2,1\n-999,1\n-999.0,1\n-9.99e2,1\n", "a", "4", "-999.0"},
        {"number: a", "1,1\n -999,1\n-999.0,1\n", "a", "2", " -999"},
        {"number: ''", "1,1\n-9.99e2,1\n", "without a name", "2", "-9.99e2"},
        {"number: {name: a, scale: standard}", "1,1\n2,1\n-999.0,1\n", "a", "3", "-999.0"},
        {"number: {name: a, buckets: {quantiles: 2}}", "1,1\n2,1\n-999.0,1\n", "a", "3", "-999.0"},
        {"number: a", "1,-999.0\n2,1\n", "of the label", "1", "-999.0"},
        {"number: a", "1,1\n2,1\n-999,1\n-998.99999,1\n-999.00001,1\n999,1\n-99900e-1,1\n", NULL,
         NULL, NULL},
        {"number: {name: a, scale: standard}", "1,1\n-999.00000000001,1\n", NULL, NULL, NULL},
        {"category: a", "-999.0,1\n-999,1\n", NULL, NULL, NULL},
    };
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++) {
        struct fixture f;
        char data[128], said[300];
        (void)snprintf(data, sizeof data, "columns: [%s, label: y], missing: ['', NA, '-999']",
                       of[i].options);
        setup(&f, data, NULL, 0);
        (void)snprintf(said, sizeof said,
                       ".csv:%s: \"%s\" is a number and not missing, as data.missing has another "
                       "text for it, \"-999\"; if it marks a missing value, add it to data.missing",
                       of[i].line, of[i].shown);
        warns(&f, of[i].text, of[i].shown ? said : "nothing");
        (void)snprintf(said, sizeof said, "data.train: column %s: ", of[i].column);
        if (of[i].shown)
            warns(&f, of[i].text, said);
        teardown(&f);
    }
}

static void the_first_other_spelling_is_named_in_whatever_piece_it_is(void **state)
{
    (void)state;
    enum { ROWS = 150000 };
    struct fixture f;
    char *text = mem_zalloc(ROWS, 16), words[400];
    size_t at = 0;
    for (int i = 1; i <= ROWS; i++)
        at += (size_t)sprintf(text + at, "%d,%d.0\n", i < 100000 ? i : -5, i);
    setup(&f, "columns: [number: a, label: y], missing: ['-5.0', '']", NULL, 0);
    put(&f, "a.csv", text, at);
    log_init("test", LOG_WARN);
    assert_int_equal(dataset_load(&f.d, &f.job, 0, 0, &f.e), ERR_OK);
    log_last_words(false, words, sizeof words);
    log_init("test", LOG_ERROR);
    assert_non_null(strstr(words, "column a: "));
    assert_non_null(strstr(words, "a.csv:100000: \"-5\" is a number and not missing"));
    teardown(&f);
    mem_free(text);
}

static void a_field_may_be_huge_but_not_a_row_beyond_the_limit(void **state)
{
    (void)state;
    size_t most = CSV_PIECE_BYTES - 3; /* ",1\n" */
    char *text = malloc(CSV_PIECE_BYTES + 16);
    struct fixture f;
    assert_non_null(text);
    memset(text, 'x', CSV_PIECE_BYTES + 16);
    memcpy(text + most, ",1\ny,2\n", 7);
    setup(&f, WORD_LABEL, NULL, 0);
    put(&f, "a.csv", text, most + 7);
    if (dataset_load(&f.d, &f.job, 0, 0, &f.e))
        fail_msg("%s", f.e.text);
    ROWS_ARE(&f.d, "1 0 : 1", "0 1 : 2");
    teardown(&f);
    memcpy(text, "a,1\n", 4);
    memset(text + most, 'x', 16);
    refuses_bytes(WORD_LABEL, text, CSV_PIECE_BYTES + 16, 0, ":2: a row of more than 524288 bytes");
    memcpy(text + 4, "\"q\nq\",\"a\n", 9);
    refuses_bytes(WORD_LABEL, text, CSV_PIECE_BYTES + 16, 0,
                  ":3: a row of more than 524288 bytes: a quote begins a field here, and is not "
                  "closed; with data.quotes: false it is text");
    memset(text, ',', CSV_PIECE_BYTES + 16);
    refuses_bytes("header: names, " WORD_LABEL, text, CSV_PIECE_BYTES + 16, 0,
                  ":1: a row of more than 524288 bytes: it has 524289 fields and more; if "
                  "data.columns has them all, with ignore for what is not read, a row has up to "
                  "128 bytes for each");
    free(text);
}

/* In any order, and with rows and a header that are longer than a row of few columns can be. */
static void a_table_has_up_to_65536_columns(void **state)
{
    (void)state;
    enum { NUMBERS = 65535, ROWS = 3, EACH = 12 };
    static uint32_t buffer[TABLE_ROW_CELLS_MAX];
    char *text = malloc((ROWS + 1) * (NUMBERS + 1) * EACH), *at = text;
    struct fixture f;
    assert_non_null(text);
    for (int i = NUMBERS; i > 0; i--)
        at += sprintf(at, "number%05d,", i);
    at += sprintf(at, "y\n");
    assert_true(at - text > CSV_PIECE_BYTES);
    for (int row = 0; row < ROWS; row++) {
        for (int i = NUMBERS; i > 0; i--)
            at += sprintf(at, "%d.%05d,", row, i);
        at += sprintf(at, "%d\n", row);
    }
    setup(&f,
          "header: names, columns: [number: {name: 'number0000{1..9}', scale: none}, "
          "number: {name: 'number000{10..99}', scale: none}, "
          "number: {name: 'number00{100..999}', scale: none}, "
          "number: {name: 'number0{1000..9999}', scale: none}, "
          "number: {name: 'number{10000..65535}', scale: none}, label: y]",
          NULL, 0);
    loads(&f, text);
    assert_int_equal(f.d.rows, ROWS);
    assert_int_equal(f.d.features, NUMBERS);
    const uint32_t *cells = cells_of(&f.d, 2, buffer);
    for (int i = 1; i <= NUMBERS; i++)
        assert_true(schema_float(cells[i - 1]) == (float)(2 + 1e-5 * i));
    assert_true(schema_float(cells[NUMBERS]) == 2);
    teardown(&f);
    free(text);
}

/* The last newline of the first piece is the word's own: the piece ends before the word's row. */
static void a_piece_does_not_end_within_quotes(void **state)
{
    (void)state;
    const size_t half = CSV_PIECE_BYTES / 2;
    char *text = malloc(2 * CSV_PIECE_BYTES);
    struct fixture f;
    assert_non_null(text);
    memset(text, 'x', 2 * CSV_PIECE_BYTES);
    memcpy(text + half, ",1\n\"", 4);
    text[CSV_PIECE_BYTES - 20] = '\n';
    memcpy(text + CSV_PIECE_BYTES + 20, "\",2\n", 4);
    setup(&f, WORD_LABEL, NULL, 0);
    put(&f, "a.csv", text, CSV_PIECE_BYTES + 24);
    if (dataset_load(&f.d, &f.job, 0, 0, &f.e))
        fail_msg("%s", f.e.text);
    ROWS_ARE(&f.d, "1 0 : 1", "0 1 : 2");
    teardown(&f);
    free(text);
}

/* ---- columns ---- */

static void features_stand_in_the_order_of_the_columns(void **state)
{
    (void)state;
    READS("columns: [category: c, label: y, ignore: i, number: n]",
          "red,1,zz,5\nblue,2,,6\nred,3,\"a,b\",7\n", "1 0 5 : 1", "0 1 6 : 2", "1 0 7 : 3");
    READS("columns: [category: {name: c, encode: id}, number: n, label: y]",
          "red,5,1\nblue,6,2\nred,7,3\n", "1 5 : 1", "2 6 : 2", "1 7 : 3");
}

static void a_header_is_left_out_or_names_the_columns(void **state)
{
    (void)state;
    READS(NUMBER_LABEL ", header: skip", "what,ever\n1,2\n", "1 : 2");
    READS("columns: [number: a, number: b c, label: y], header: names",
          "y,\"b c\",unused,a\n1,2,x,3\n4,5,y,6\n", "3 2 : 1", "6 5 : 4");
    READS(NUMBER_LABEL ", header: names, comment: '#'", "\xEF\xBB\xBF\n# c\na,y\r\n1,2\n", "1 : 2");
    refuses(
        NUMBER_LABEL ", header: names", "a,z\n1,2\n",
        ":1: its header does not name \"y\" of data.columns, it is \"a,z\"; the file needs this "
        "column, or data.columns must not list it");
    refuses(NUMBER_LABEL ", header: names, delimiter: semicolon",
            "\xEF\xBB\xBFsep=;\r\na;y\r\n1;0\r\n",
            ":1: its header does not name \"a\" of data.columns, it is \"sep=;\"; this line tells "
            "Excel the "
            "delimiter: remove it");
    hints(NUMBER_LABEL ", header: names", "\"SEP=\t\"\na,y\n1,0\n", "this line tells Excel");
    hints("columns: [number: a, number: b, label: y]", "sep=,\n1,2,3\n",
          ":1: it has 2 fields, data.columns names 3; this line tells Excel the delimiter: remove "
          "it");
    hints(NUMBER_LABEL ", header: names", "a,7\n1,2\n",
          "without a header in the file, leave data.header out");
    refuses("columns: [number: size, label: y], header: names", "y,sise,age\n1,2,3\n",
            ":1: its header does not name \"size\" of data.columns, it is \"y,sise,age\"; did you "
            "mean \"sise\"?");
    hints("columns: [number: size, label: y], header: names", "\"y\",\"SIZE\",\"a, size\"\n1,2,3\n",
          "; did you mean \"SIZE\"?");
    hints("columns: [number: sex, label: y], header: names", "y,SEX,sax\n1,2,3\n",
          "; did you mean \"SEX\"?");
    hints("columns: [number: C2, number: C26, label: y], header: names", "y,C2,C25\n1,2,3\n",
          "; the file needs this column");
    hints("columns: [number: size, number: sizes, label: y], header: names", "y,sizes\n1,2\n",
          "; the file needs this column");
    hints("columns: [number: size, label: y], header: names", "y,\" size\"\n1,2\n",
          "; blanks around a name count: use data.trim: true");
    hints("columns: [number: size, label: y], header: names", "\"y\", \"size\"\n1,2\n",
          "; blanks around a name count: use data.trim: true");
    hints(NUMBER_LABEL, "\"_a\",\"b\",\"y\"\n1,2,3\n",
          "; if this line is a header, data.header: names finds");
    hints(NUMBER_LABEL, "\xC3\xA4,y\n1,2\n",
          "; if this line is a header, use data.header: skip, or names");
    refuses(NUMBER_LABEL ", header: names", "a,y,a\n1,2,3\n", ":1: its header names \"a\" twice");
    refuses(NUMBER_LABEL ", header: skip", "", "it has no row");
    refuses(NUMBER_LABEL, "a,b,y\n1,2,3\n",
            ":1: it has 3 fields, data.columns names 2; if this line is a header, data.header: "
            "names finds columns by it, and leaves the others out");
    refuses(NUMBER_LABEL ", header: skip", "a,b,y\n1,2,3\n",
            ":2: it has 3 fields, data.columns names 2; data.header: names finds columns by the "
            "header, and leaves the others out");
    refuses(NUMBER_LABEL ", header: skip", "a,b,y\n1,2\n1,2,3\n",
            ":3: it has 3 fields, data.columns names 2"); /* others have as many as they should */

    refuses(NUMBER_LABEL ", header: names", "a,y", "it has no row");
    refuses(
        NUMBER_LABEL ", header: names", "a,y\nx,2\n",
        ":2: column \"a\": \"x\" is not a number; use data.missing if it marks a missing value");
}

/* Spark writes such parts. */
static void an_empty_part_holds_no_rows_whatever_the_header(void **state)
{
    (void)state;
    static const char *const empty[] = {"", "\xEF\xBB\xBF", "\n\r\n", "# nothing\n", "# nothing"};
    static const struct {
        const char *header, *text, *only;
    } of[] = {
        {"none", "1,2\n", ""}, {"skip", "a,y\n1,2\n", "a,y\n"}, {"names", "y,a\n2,1\n", "y,a"}};
    for (size_t i = 0; i < 3; i++)
        for (size_t k = 0; k <= sizeof empty / sizeof *empty; k++) {
            struct fixture f;
            char data[128];
            const char *part = k < 5 ? empty[k] : of[i].only;
            (void)snprintf(data, sizeof data, NUMBER_LABEL ", comment: '#', header: %s",
                           of[i].header);
            setup(&f, data, NULL, 0);
            put(&f, "0.csv", part, strlen(part));
            put(&f, "b.csv", part, strlen(part));
            loads(&f, of[i].text);
            ROWS_ARE(&f.d, "1 : 2");
            dataset_close(&f.d);
            put(&f, "a.csv", part, strlen(part));
            assert_int_equal(dataset_load(&f.d, &f.job, 0, 0, &f.e), ERR_INPUT);
            assert_non_null(strstr(f.e.text, "0.csv: it has no row"));
            teardown(&f);
        }
}

/* More lines before the header than a piece has. */
static void a_header_may_begin_in_a_later_piece(void **state)
{
    (void)state;
    char *text = malloc(CSV_PIECE_BYTES + 64);
    assert_non_null(text);
    memset(text, '\n', CSV_PIECE_BYTES + 64);
    memcpy(text, "# 12\" wide", 10);
    strcpy(text + CSV_PIECE_BYTES + 10, "y,a\n2,1\n");
    READS(NUMBER_LABEL ", header: names, comment: '#'", text, "1 : 2");
    READS(NUMBER_LABEL ", header: skip, comment: '#'", text, "2 : 1");
    strcpy(text + CSV_PIECE_BYTES + 10, "2,1\nx,1\n");
    refuses(NUMBER_LABEL ", comment: '#'", text,
            ":524290: column \"a\": \"x\" is not a number; use data.missing if it marks a missing "
            "value");
    free(text);
}

#define SKIPS                                                                                      \
    ": data.header: skip leaves this line out, but it reads like a row%s; for files without a "    \
    "header use data.header: none"
static void a_skipped_line_that_reads_like_a_row_is_said(void **state)
{
    (void)state;
    static const char classes[] = "columns: [number: a, category: c, label: {classes: [no, yes]}]",
                      others[] = "columns: [category: c, label: {classes: [no, '*']}]";
    static const struct {
        const char *data, *text;
        bool said;
    } of[] = {
        {NUMBER_LABEL, "3,4\n1,2\n", true},    {NUMBER_LABEL, "a,y\n1,2\n", false},
        {NUMBER_LABEL, "a,4\n1,2\n", false},   {NUMBER_LABEL, ",4\n1,2\n", true},
        {NUMBER_LABEL, "3,4,5\n1,2\n", false}, {WORD_LABEL, "w,y\na,2\n", false},
        {classes, "3,x,yes\n1,y,no\n", true},  {classes, "3,x,answer\n1,y,no\n", false},
        {others, "c,y\nx,no\n", false},
    };
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        struct fixture f;
        char data[200], why[200];
        (void)snprintf(data, sizeof data, "%s, header: skip", of[i].data);
        (void)snprintf(why, sizeof why, "a.csv:1" SKIPS, "");
        setup(&f, data, NULL, 0);
        warns(&f, of[i].text, of[i].said ? why : "nothing");
        teardown(&f);
    }
    struct fixture f;
    char why[300];
    setup(&f, NUMBER_LABEL ", header: skip", NULL, 0);
    put(&f, "b.csv", "\n3,4\n", 5);
    put(&f, "c.csv", "3,4\n", 4);
    (void)snprintf(why, sizeof why, "b.csv:2" SKIPS, " (in 1 more files, too)");
    warns(&f, "a,y\n1,2\n", why);
    teardown(&f);
    setup(&f, "header: skip, columns: [category: c, label: {name: y, classes: [no, yes]}]", NULL,
          0);
    (void)snprintf(why, sizeof why, "a.csv:1" SKIPS, "");
    warns(&f, "x,no\nz,yes\nx,no\n", why); /* a row that is equal is no header */
    teardown(&f);
}

static void ctrl_z_at_the_end_is_named(void **state)
{
    (void)state;
    refuses(NUMBER_LABEL, "1,2\n\x1A",
            ":2: it has 1 field, data.columns names 2; the line is Ctrl-Z (0x1A), the end of a "
            "file in DOS: remove it");
}

static void the_name_that_pandas_shows_for_none_is_explained(void **state)
{
    (void)state;
    refuses(
        "columns: [category: \"Unnamed: 0\", label: y], header: names", ",y,a\n7,1,2\n",
        ":1: its header does not name \"Unnamed: 0\" of data.columns, it is \",y,a\"; its "
        "field 1 has no name, which pandas shows as \"Unnamed: 0\": give it a name in the file");
    refuses(
        "columns: [category: \"Unnamed: 1\", label: y], header: names", ",y,a\n7,1,2\n",
        ":1: its header does not name \"Unnamed: 1\" of data.columns, it is \",y,a\"; without a "
        "header in the file, leave data.header out");
}

static void lines_of_a_dump_and_of_json_are_named(void **state)
{
    (void)state;
    struct fixture f;
    refuses(
        NUMBER_LABEL, "1,2\n\\.\n",
        ":2: it has 1 field, data.columns names 2; the line is \\., the end of the data in a dump "
        "of PostgreSQL: remove it");
    refuses(NUMBER_LABEL, "INSERT INTO `a b` VALUES (1, 2)\n",
            ":1: column \"a\": \"INSERT INTO `a b` VALUES (1\" is not a number; the line is a "
            "statement of "
            "SQL: write the table as csv");
    refuses(NUMBER_LABEL, "insert into a VALUES (1,2,3)\n",
            ":1: it has 3 fields, data.columns names 2; the line is a statement of SQL: write the "
            "table as csv");
    refuses(
        NUMBER_LABEL ", header: skip", "{\n  \"entries\": [\n  ]\n}\n",
        ":2: it has 1 field, data.columns names 2; the line reads like JSON: check that it is the "
        "right file");
    refuses(NUMBER_LABEL, "{\"a\": 1, \"b\": 2, \"c\": 3}\n{\"a\": 1, \"b\": 2, \"c\": 3}\n",
            ":1: it has 3 fields, data.columns names 2; the line reads like JSON: check that it is "
            "the right file");
    setup(&f, "columns: [category: c, label: y]", NULL, 0);
    warns(&f, "a,1\nINSERT INTO t VALUES (b,1\n",
          ":2: this line is a statement of SQL, and is read as a row; write the table as csv");
    teardown(&f);
}

static void a_skipped_line_of_a_file_without_rows_is_named_if_it_is_no_header(void **state)
{
    (void)state;
    static const struct {
        const char *text, *said;
    } of[] = {
        {"\n{\"error\": \"not found\"",
         "b.csv:2: data.header: skip leaves this line out, and no row follows, but it has not the "
         "2 "
         "fields of data.columns, it is \"{\"error\": \"not found\"\"; check that it is the right "
         "file"},
        {"error\n# of the server\n", "b.csv:1: data.header: skip leaves this line out, and no row"},
        {"a,b\n", "nothing"},
        {"", "nothing"},
        {"error\n3,4\n", "nothing"},
    };
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        struct fixture f;
        setup(&f, NUMBER_LABEL ", header: skip, comment: '# '", NULL, 0);
        put(&f, "b.csv", of[i].text, strlen(of[i].text));
        warns(&f, "a,b\n1,2\n", of[i].said);
        teardown(&f);
    }
}

static void a_skipped_header_of_another_order_is_said(void **state)
{
    (void)state;
    static const struct {
        const char *text, *said; /* NULL: nothing */
    } of[] = {
        {"b,a,y\n10,1,0\n20,2,1\n", "names a in field 2, which data.columns has in field 1"},
        {"a,y,\"B\"\r\n10,1,0\r\n", "names b in field 3, which data.columns has in field 2"},
        {"A, b,y\n10,1,0\n", NULL},
        {"b,A,y\n10,1,0\n", "names a in field 2"},
        {"A,a,y\n10,1,0\n", "names a in field 2"}, /* one that has its case, too */
        {"x,A,a\n10,1,0\n", "names a in field 2"}, /* the first */
        {"x,x,B\n10,1,0\n", "names b in field 3"},
        {"x,z,y\n10,1,0\n", NULL},
        {"a,a,y\n10,1,0\n", NULL},
        {"b,y\n10,1,0\n", NULL}, /* R's: the first field is the number of the row */
    };
    struct fixture f;
    setup(&f, "columns: [number: a, number: b, label: y], header: skip", NULL, 0);
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        warns(&f, of[i].text, of[i].said ? of[i].said : "nothing");
    put(&f, "b.csv", "b,a,y\n1,2,3\n", 12);
    put(&f, "c.csv", "b,a,y\n", 6);
    warns(&f, "a,b,y\n1,2,3\n",
          "b.csv:1: data.header: skip leaves this line out, but it names a in field 2, which "
          "data.columns has in field 1 (in 1 more files, too); data.header: names finds columns by "
          "their names");
    teardown(&f);
}

static void skipped_headers_that_differ_are_said(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f, "columns: [number, number, label], header: skip", NULL, 0);
    put(&f, "b.csv", "\"a\", b,y\n1,2,3\n", 15);
    warns(&f, "a,b,y\n1,2,3\n", "nothing");
    put(&f, "c.csv", "of 3 May\n1,2,3\n", 15);
    warns(&f, "a,b,y\n1,2,3\n", "nothing");
    put(&f, "d.csv", "b,a,y\n1,2,3\n", 12);
    warns(&f, "a,b,y\n1,2,3\n", "d.csv: columns are read by their order");
    teardown(&f);
}

static void missing_numbers_are_filled(void **state)
{
    (void)state;
    READS(NUMBER_LABEL, "1,0\n,1\n4,2\n", "1 : 0", "2.5 : 1", "4 : 2");
    READS("columns: [number: {name: a, missing: {value: -1}}, label: y], missing: ['?', NA, '']",
          "1,0\n?,1\nNA,2\n,3\n", "1 : 0", "-1 : 1", "-1 : 2", "-1 : 3");
    READS(NUMBER_LABEL ", missing: '999'", "1,0\n999,1\n3,2\n", "1 : 0", "2 : 1", "3 : 2");
    refuses("columns: [number: {name: a, missing: refuse}, label: y]", "1,0\n,1\n",
            ":2: column \"a\": the number is missing");
    refuses(NUMBER_LABEL ", missing: '?'", "1,0\n,1\n",
            ":2: column \"a\": \"\" is not a number; use data.missing if it marks a missing value");
    refuses(NUMBER_LABEL, "1,\n", ":1: column \"y\": the label is missing");
}

static void a_missing_category_has_a_place_of_its_own(void **state)
{
    (void)state;
    READS(WORD_LABEL ", missing: ['?', '']", "a,0\n?,1\nb,2\n,3\n", "1 0 0 : 0", "0 1 0 : 1",
          "0 0 1 : 2", "0 1 0 : 3");
    READS("columns: [category: {name: w, vocabulary: [b, a]}, label: y]", "a,0\nz,1\n,2\nb,3\n",
          "0 1 0 : 0", "0 0 0 : 1", "0 0 1 : 2", "1 0 0 : 3");
}

static void numbers_are_scaled_by_the_training_part(void **state)
{
    (void)state;
    READS("columns: [number: {name: a, scale: min_max}, label: y]", "10,0\n,1\n30,2\n20,3\n",
          "0 : 0", "0.5 : 1", "1 : 2", "0.5 : 3");
    /* mean 3, deviation 2 */
    READS("columns: [number: {name: a, scale: standard}, label: y]", "1,0\n5,1\n,2\n", "-1 : 0",
          "1 : 1", "0 : 2");
    READS("columns: [number: {name: a, scale: standard, missing: {value: 9}}, label: y]",
          "1,0\n5,1\n,2\n", "-1 : 0", "1 : 1", "3 : 2");
    READS("columns: [number: {name: a, scale: standard}, label: y]", "7,0\n7,1\n", "0 : 0",
          "0 : 1");
    READS("columns: [number: {name: a, scale: min_max}, label: y]", "7,0\n7,1\n", "0 : 0", "0 : 1");
}

/* Sums that are rounded: a number that is no binary fraction, and microseconds since 1970. */
static void means_are_those_of_the_numbers(void **state)
{
    (void)state;
    enum { ROWS = 200000, BYTES = 24 };
    char *text = mem_zalloc(ROWS, BYTES), *at = text;
    struct fixture f;
    assert_non_null(text);
    for (int k = 0; k < 2; k++) {
        at = text;
        for (int i = 0; i < ROWS; i++)
            at += k ? sprintf(at, "%lld,%d\n", 1700000000000000LL + i % 60, i % 2)
                    : sprintf(at, "0.1,%d\n", i % 2);
        setup(&f, "columns: [number: {name: a, scale: standard}, label: y]", NULL, 0);
        put(&f, "a.csv", text, (size_t)(at - text));
        assert_int_equal(dataset_load(&f.d, &f.job, 0, 0, &f.e), ERR_OK);
        const struct schema_input *in = &f.d.table.schema->input[0];
        /* the mean and the deviation of i % 60, 200000 numbers, by numpy: 29.498, 17.31849 */
        assert_true(fabs(in->shift - (k ? 1700000000000029.498 : 0.1)) < (k ? 0.3 : 1e-300));
        assert_true(fabs(in->divisor - (k ? 17.31849 : 1)) < (k ? 1e-3 : 1e-300));
        teardown(&f);
    }
    mem_free(text);
}

#define A_NUMBER                                                                                   \
    "; if the answer is a number, use loss: mean_squared_error and a last layer of 1 unit"
static void labels_are_classes_by_name(void **state)
{
    (void)state;
    hints(
        "columns: [number: a, label: {name: y, classes: [no, yes]}]", "1,no\n2,No\n",
        "\"No\" is not one of the label's classes: no, yes; if it is the class \"no\", list both: "
        "\"no|No\"");
    hints("columns: [number: a, label: y]", "1,0\n72%,1\n",
          "\"72%\" is not a number; write the number alone, without its unit");
    hints("columns: [number: a, label: y]", "1,0\n-$1.5,1\n", "; write the number alone");
    hints("columns: [number: a, label: y]", "1,0\n3.5 \u20AC,1\n", "; write the number alone");
    hints("columns: [number: a, label: y]", "1,0\n0x4F,1\n",
          "; write hexadecimal numbers in decimal");
    hints("columns: [number: a, label: y]", "1,0\n$x,1\n", "; use data.missing");
    hints("columns: [number: a, label: y]", "1,0\n2,1,\n",
          "it has 3 fields, data.columns names 2; it ends with a delimiter, which has an empty "
          "field behind it: remove it");
    hints("header: names, columns: [number: a, label: y]", "a,y\n1,2,0\n",
          "it has 3 fields, its header has 2; if its first field is a name or a number of the row, "
          "as R writes it, begin the header with a name for it");
    hints("columns: [number: a, label: {name: y, classes: ['False', 'True']}]", "1,0\n2,1\n",
          "\"0\" is not one of the label's classes: False, True; 0 and 1, as bools of Parquet are "
          "read, "
          "are false and true if both are listed, as in [\"False|0\", \"True|1\"]");
    hints("columns: [number: a, label: {name: y, classes: ['a|b', c]}]", "1,a\n2,a|b\n",
          "\"a|b\" is not one of the label's classes: a, b, c; a | in classes divides two names: "
          "write "
          "it as \\|, as in 'a\\|b'");
    hints("columns: [number: a, label: {name: y, classes: ['a|b', c]}]", "1,a\n2,a|d\n",
          "; if it is a class, add it to classes");
    READS("columns: [number: a, label: {name: y, classes: ['no|no.', yes, '*']}]",
          "1,no\n2,yes\n3,no.\n4,perhaps\n", "1 : 0", "2 : 1", "3 : 0", "4 : 2");
    refuses("columns: [number: a, label: {name: y, classes: [no, yes]}]", "1,no\n2,maybe\n",
            ":2: column \"y\": \"maybe\" is not one of the label's classes: no, yes; if it is a "
            "class, add it to classes");
    refuses("columns: [number: a, label: {name: y, classes: [a-name-of-22-letters-a, "
            "a-name-of-22-letters-b, a-name-of-22-letters-c, a-name-of-22-letters-d]}]",
            "1,no\n",
            ":1: column \"y\": \"no\" is not one of the label's classes: a-name-of-22-letters-a, "
            "a-name-of-22-letters-b, a-name-of-22-letters-c .. (4); if this line is a header, use "
            "data.header: skip, or names");
    refuses(NUMBER_LABEL, "1,no\n",
            ":1: column \"y\": the label \"no\" is not a number; if this line is a header, use "
            "data.header: skip, or names");
    refuses(NUMBER_LABEL, "1,1\n1,no\n",
            ":2: column \"y\": the label \"no\" is not a number; name the values of the label by "
            "its classes: [...]");
    refuses_bytes(
        NUMBER_LABEL, "1,1\n2,2\n", 8, 2,
        ":2: column \"y\": label 2, the model has 2 classes (labels 0 to 1); if the labels "
        "start at 1, list them: - label: {classes: [\"1\", \"2\"]}");
    refuses_bytes(NUMBER_LABEL, "1,1\n2,-1\n", 9, 2,
                  ":2: column \"y\": label -1, the model has 2 classes (labels 0 to 1); name "
                  "the labels as they are in the file: - label: {classes: [\"-1\", \"1\"]}");
    refuses_bytes(NUMBER_LABEL, "1,0.99999999\n", 13, 2,
                  ":1: column \"y\": label 0.99999999, the model has 2 classes (labels 0 to 1)");
    refuses_bytes(NUMBER_LABEL, "1,-1.0\n", 7, 2,
                  ":1: column \"y\": label -1.0, the model has 2 classes (labels 0 to 1); name "
                  "the labels as they are in the file: - label: {classes: [\"-1.0\", \"1.0\"]}");
    refuses_bytes(NUMBER_LABEL, "1,0.5\n", 6, 2,
                  ":1: column \"y\": label 0.5, the model has 2 classes (labels 0 to 1)" A_NUMBER);
    refuses_bytes(
        NUMBER_LABEL, "1,219000\n", 9, 2,
        ":1: column \"y\": label 219000, the model has 2 classes (labels 0 to 1)" A_NUMBER);
}

static void classes_that_look_equal_are_said(void **state)
{
    (void)state;
    static const struct {
        const char *classes, *text, *said;
    } of[] = {
        {"no, yes, Yes", "1,no\n2,Yes\n",
         "data.train: the label \"Yes\" is a class of its own, but looks like the class \"yes\"; "
         "if it is that class, list it, as in \"yes|Yes\""},
        {"no, 'yes|Yes'", "1,no\n2,Yes\n", "nothing"},
        {"'1', '2|01'", "1,2\n2,1\n",
         "the label \"01\" is a class of its own, but looks like the class \"1\""},
        {"'-1', '1', '10'", "1,1\n2,10\n", "nothing"},
        {"a, A", "1,A\n2,a\n", "nothing"}, /* codes of one letter */
    };
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        char data[200];
        struct fixture f;
        snprintf(data, sizeof data, "columns: [number: n, label: {name: y, classes: [%s]}]",
                 of[i].classes);
        setup(&f, data, NULL, 0);
        warns(&f, of[i].text, of[i].said);
        teardown(&f);
    }
}

static void labels_of_other_names_that_look_like_a_class_are_said(void **state)
{
    (void)state;
    static const struct {
        const char *classes, *text, *said;
    } of[] = {
        {"'*', 'yes'", "1,yes\n2,no\n3,Yes\n",
         "data.train: the label \"Yes\" is taken by \"*\", but looks like the class \"yes\"; if it "
         "is that class, list it, as in \"yes|Yes\""},
        {"'*', 'yes'", "1,yes\n2,no\n3,yes \n", "the label \"yes \" is taken by"},
        {"'*', '1'", "1,1\n2,1.0\n", "the label \"1.0\" is taken by"},
        {"'*', '1'", "1,1\n2,+1\n", "the label \"+1\" is taken by"},
        {"'*', '1'", "1,1\n2,-1\n3,10\n4,0\n", "nothing"},
        {"'*', 'A'", "1,A\n2,a\n3,b\n", "nothing"},
        {"'*', 'yes|Yes'", "1,Yes\n2,yes\n3,yess\n", "nothing"},
        {"'*', '1'", "7,TARGET\n1,1\n2,0\n3,-1\n",
         "a.csv:1: 1 of 4 rows have no label in the label's field, the first has \"TARGET\": check "
         "whether this line is a header"},
        {"'*', '1'", "7,a\n1,1\n2,b\n", "nothing"}, /* names, and "*" is for them */
        {"'*', '1|x'", "7,TARGET\n1,1\n2,0\n", "nothing"},
        {"'*', '1'", "1,1\n7,a\n2,0\n", "nothing"},
        {"'*', 'yes'", "1,yes\n2,NA\n3,no\n",
         "column of the label: \"NA\": read as a word like others; if it marks a missing value"},
    };
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        char data[200];
        struct fixture f;
        snprintf(data, sizeof data, "columns: [number: n, label: {name: y, classes: [%s]}]",
                 of[i].classes);
        setup(&f, data, NULL, 0);
        warns(&f, of[i].text, of[i].said);
        teardown(&f);
    }
}

/* The model's shape, and with it the number of classes, comes from the data. */
static void
a_label_that_float32_rounds_to_a_class_is_refused_before_the_classes_are_known(void **state)
{
    (void)state;
    static const char *const loss[] = {"model.loss=sparse_categorical_crossentropy",
                                       "model.layers=[dense: 3]"};
    struct fixture f;
    setup(&f, NUMBER_LABEL, loss, 2);
    put(&f, "a.csv", "1,0\n1,0.99999999\n", 17);
    assert_int_equal(dataset_load(&f.d, &f.job, 0, 0, &f.e), ERR_INPUT);
    assert_non_null(strstr(f.e.text,
                           "a.csv:2: column \"y\": label 0.99999999 is not a class, which "
                           "is a whole number from 0"));
    teardown(&f);
}

static void evaluation_labels_that_are_all_of_no_listed_class_are_warned_of(void **state)
{
    (void)state;
    static const char *const text[] = {"3,1\n4,0\n", "3,1.0\n4,0.0\n"};
    for (size_t i = 0; i < 2; i++) {
        struct fixture f;
        struct dataset eval;
        char words[400];
        setup(&f, "columns: [number: n, label: {name: y, classes: ['1', '*']}]", NULL, 0);
        loads(&f, "1,1\n2,0\n");
        put(&f, "a.eval", text[i], strlen(text[i]));
        log_init("test", LOG_WARN);
        log_warn("nothing");
        if (dataset_load_eval(&eval, &f.job, &f.d, 2, &f.e))
            fail_msg("%s", f.e.text);
        log_last_words(false, words, sizeof words);
        log_init("test", LOG_ERROR);
        assert_string_equal(words, i ? "data.eval: no label is one of the classes that are listed, "
                                       "so all are \"*\": check how they are written"
                                     : "nothing");
        dataset_close(&eval);
        teardown(&f);
    }
}

static void the_eval_part_is_read_as_the_training_part_taught(void **state)
{
    (void)state;
    struct fixture f;
    struct dataset eval;
    static const char text[] = "blue,5,0\ngreen,,1\nred,7,2\n";
    setup(&f, "columns: [category: c, number: {name: n, scale: standard}, label: y]", NULL, 0);
    loads(&f, "red,1,0\nblue,5,1\n");
    put(&f, "a.eval", text, sizeof text - 1);
    if (dataset_load_eval(&eval, &f.job, &f.d, 0, &f.e))
        fail_msg("%s", f.e.text);
    ROWS_ARE(&eval, "0 1 1 : 0", "0 0 0 : 1", "1 0 2 : 2");
    assert_int_equal(dataset_load(&eval, &f.job, 1, 0, &f.e), ERR_STATE); /* not by itself */
    struct dataset train = f.d;
    f.d = eval; /* it outlives the training part */
    dataset_close(&train);
    ROWS_ARE(&f.d, "0 1 1 : 0", "0 0 0 : 1", "1 0 2 : 2");
    teardown(&f);
}

static void the_bytes_of_parquet_count_to_the_files_sizes(void **state)
{
    (void)state;
    static const char *const sets[] = {"data.format=parquet",
                                       "data.train=[tests/data/parquet/rows-0.parquet, "
                                       "tests/data/parquet/empty.parquet]"};
    uint64_t bytes = 0;
    struct fixture f;
    struct loading now;
    setup(&f, "columns: [label: y, number: age]", sets, 2);
    for (int i = 0; i < 2; i++) {
        struct stat s;
        assert_int_equal(
            stat(i ? "tests/data/parquet/empty.parquet" : "tests/data/parquet/rows-0.parquet", &s),
            0);
        bytes += (uint64_t)s.st_size;
    }
    loading_begin(1 << 30, NULL, NULL);
    enum err err = dataset_load(&f.d, &f.job, 0, 0, &f.e);
    assert_true(loading_now(&now));
    loading_end();
    const bool built = !strstr(f.e.text, "the module gradwire-arrow");
    teardown(&f);
    if (!built)
        skip();
    assert_int_equal(err, ERR_OK);
    assert_int_equal(now.bytes, bytes);
}

static void a_vocabulary_that_matches_no_word_is_said(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *said;
    } of[] = {{"1,red\n2, green\n", NULL},
              {"1, red\n2, green\n", " red"},
              {"1,\n2,\n", NULL}, /* missing, which is a word */
              {"1,\n2, green\n", " green"}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        char words[400];
        struct fixture f;
        setup(&f,
              "missing: [\"\"], columns: [label: y, category: {name: color, vocabulary: [red, "
              "green, \"\"]}]",
              NULL, 0);
        log_init("test", LOG_WARN);
        log_warn("nothing");
        loads(&f, of[i].text);
        log_last_words(false, words, sizeof words);
        log_init("test", LOG_ERROR);
        teardown(&f);
        char wanted[400] = "nothing";
        if (of[i].said)
            (void)snprintf(wanted, sizeof wanted,
                           "data.train: column color: no row has a word of its vocabulary, whose "
                           "first word is \"red\", but words such as \"%s\", so all are unknown: "
                           "check case, blanks (data.trim) and quotes",
                           of[i].said);
        assert_string_equal(words, wanted);
    }
}

static void evaluation_words_of_which_many_are_unknown_are_said_with_the_first(void **state)
{
    (void)state;
    static const struct {
        const char *columns;
        uint32_t rows, unknown;
        bool said;
        const char *first; /* word that is unknown */
    } of[] = {{"category: color", 100, 26, true, "Red"},
              {"category: color", 100, 25, false, "Red"}, /* a quarter: rare words are normal */
              {"category: color", 100, 26, true, ""},     /* that one has no value */
              {"category: color", 40, 19, false, "Red"},
              {"category: {name: color, vocabulary: [red, blue]}", 100, 26, true, "Red"},
              {"category: {name: color, vocabulary: [red, blue]}", 100, 25, false, "Red"}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        char columns[200], words[400], text[4000] = "";
        struct fixture f;
        struct dataset eval;
        size_t n = 0;
        (void)snprintf(columns, sizeof columns, "columns: [label: y, %s]", of[i].columns);
        setup(&f, columns, NULL, 0);
        loads(&f, "1,red\n2,blue\n");
        for (uint32_t row = 0; row < of[i].rows; row++)
            n += (size_t)snprintf(text + n, sizeof text - n, "1,%s\n",
                                  row == 0               ? "red"
                                  : row == 1             ? of[i].first
                                  : row <= of[i].unknown ? (*of[i].first ? "Blue" : "")
                                                         : "blue");
        put(&f, "a.eval", text, n);
        log_init("test", LOG_WARN);
        log_warn("nothing");
        if (dataset_load_eval(&eval, &f.job, &f.d, 0, &f.e))
            fail_msg("%s", f.e.text);
        log_last_words(false, words, sizeof words);
        log_init("test", LOG_ERROR);
        const char *said =
            strstr(of[i].columns, "vocabulary")
                ? "data.eval: column color: 26 of 100 rows have a word that its vocabulary lacks, "
                  "such as \"Red\" ("
            : *of[i].first ? "data.eval: column color: 26 of 100 rows have a word that is "
                             "not in data.train, such as \"Red\" ("
                           : "data.eval: column color: 26 of 100 rows have no value (";
        assert_string_equal(of[i].said ? strstr(words, said) ? said : words : words,
                            of[i].said ? said : "nothing");
        dataset_close(&eval);
        teardown(&f);
    }
}

/* As no row of data.train does. */
static void evaluation_rows_of_which_many_lack_a_value_are_said(void **state)
{
    (void)state;
    static const char *const linear[] = {"model.layers=[linear: {inputs: c}]"};
    static const struct {
        const char *column;
        const char *last; /* of data.train */
        uint32_t rows, lack;
        bool said;
    } of[] = {{"category: {name: c, vocabulary: [red, blue]}", "red", 100, 26, true},
              {"category: {name: c, vocabulary: [red, blue], encode: id}", "red", 100, 100, true},
              {"category: {name: c, vocabulary: [red, blue]}", "red", 100, 25, false},
              {"category: {name: c, vocabulary: [red, blue]}", "red", 40, 19, false},
              {"category: {name: c, vocabulary: [red, blue]}", "", 100, 100, false},
              {"key: {name: c, missing: none}", "red", 100, 26, true},
              {"key: {name: c, missing: none}", "red", 100, 25, false},
              {"key: {name: c, missing: none}", "", 100, 100, false},
              {"key: {name: c}", "red", 100, 100, false}, /* its key has no row */
              {"keys: {name: c, max_values: 4}", "red", 100, 26, true},
              {"keys: {name: c, max_values: 4}", "", 100, 100, false}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        char columns[200], words[400], train[100], text[4000] = "";
        struct fixture f;
        struct dataset eval;
        size_t n = 0;
        (void)snprintf(columns, sizeof columns, "columns: [label: y, %s]", of[i].column);
        (void)snprintf(train, sizeof train, "1,blue\n2,red\n1,%s\n", of[i].last);
        setup(&f, columns, linear, *of[i].column == 'k');
        loads(&f, train);
        for (uint32_t row = 0; row < of[i].rows; row++)
            n += (size_t)snprintf(text + n, sizeof text - n, "%u,%s\n", row % 2,
                                  row < of[i].lack ? "" : "red");
        put(&f, "a.eval", text, n);
        log_init("test", LOG_WARN);
        log_warn("nothing");
        if (dataset_load_eval(&eval, &f.job, &f.d, 0, &f.e))
            fail_msg("%s", f.e.text);
        log_last_words(false, words, sizeof words);
        log_init("test", LOG_ERROR);
        (void)snprintf(text, sizeof text,
                       "data.eval: column c: %u of %u rows have no value, as no row of data.train "
                       "has, so it is unknown to the model: check the files, and data.missing",
                       of[i].lack, of[i].rows);
        if (!strstr(words, of[i].said ? text : "nothing"))
            fail_msg("%zu: %s", i, words);
        dataset_close(&eval);
        teardown(&f);
    }
}

/* A listed word that no row has is a likely slip of the list if others have none. */
static void training_words_that_a_given_vocabulary_lacks_are_said(void **state)
{
    (void)state;
    static const struct {
        const char *vocabulary;
        uint32_t rows, unknown;
        const char *said, *why;
    } of[] = {{"red, blue", 100, 26, "26 of 100 rows", "), so it tells the model nothing: check"},
              {"red, blue", 100, 25, "nothing", "nothing"},
              {"red, bleu", 100, 26, "26 of 100 rows", "), and none has its word \"bleu\", so"},
              {"red, bleu", 100, 25, "nothing", "nothing"},
              {"red", 100, 61, "nothing", "nothing"}}; /* on purpose */
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        char columns[200], text[4000] = "", said[200] = "nothing";
        const char *blue = strstr(of[i].vocabulary, "blue") ? "blue" : "red";
        struct fixture f;
        size_t n = 0;
        (void)snprintf(columns, sizeof columns,
                       "columns: [label: y, category: {name: color, vocabulary: [%s]}]",
                       of[i].vocabulary);
        for (uint32_t row = 0; row < of[i].rows; row++)
            n += (size_t)snprintf(text + n, sizeof text - n, "%u,%s\n", row % 2,
                                  row == 0               ? "red"
                                  : row <= of[i].unknown ? "Blue"
                                                         : blue);
        if (*of[i].said != 'n')
            (void)snprintf(said, sizeof said,
                           "data.train: column color: %s have a word that its vocabulary lacks, "
                           "such as \"Blue\" (",
                           of[i].said);
        setup(&f, columns, NULL, 0);
        warns(&f, text, said);
        teardown(&f);
        setup(&f, columns, NULL, 0);
        warns(&f, text, of[i].why);
        teardown(&f);
    }
}

static void words_that_look_equal_or_missing_are_said(void **state)
{
    (void)state;
    static const struct {
        const char *missing, *text, *said;
    } of[] = {
        {"[\"\"]", "1,red\n2,red \n1,Red\n2,blue\n",
         "data.train: column c: \"red\" and \"red \" are two words; 2 of 4 words differ"},
        {"[\"\"]", "1,1\n2,1.0\n", "\"1\" and \"1.0\" are two words; 1 of 2"},
        {"[\"\"]", "1,01\n2,1\n", "\"01\" and \"1\""},
        {"[\"\"]", "1,02.\n2,2.00\n", "\"02.\" and \"2.00\""},
        {"[\"\"]", "1,2e3\n2,2000\n1,1999\n2,60150001022E+3\n1,60150001022000\n2,\n",
         "\"2e3\" and \"2000\" are two words; 2 of 6"},
        {"[\"\"]", "1,-1\n2,-1.0\n1,1\n", "\"-1\" and \"-1.0\" are two words; 1 of 3"},
        {"[\"\"]", "1,2e3\n2,2000\n1,1f\n2,3b\n", "nothing"}, /* of digits in hex */
        {"[\"\"]", "1,0x1e\n2,30\n1,2e-3\n2,0.002\n1,9e99\n2,5e\n", "nothing"},
        {"[\"\"]", "1,3.1\n2,3.10\n1,10\n2,1\n", "nothing"}, /* of versions, or chapters */
        {"[\"\"]", "1,u\xE2\x80\x8Bv\n2,uv\n", "\"u<U+200B>v\" and \"uv\" are two words; 1 of 2"},
        {"[\"\"]", "1,u  v\n2,u\xC2\xA0v\n1,u\xE2\x80\x89v\n2,u\tv\n1,u v\n2,uv\n",
         "\"u  v\" and \"u<U+00A0>v\" are two words; 4 of 6"},
        {"[\"\"]", "1,\"u\n\"\n2,u\n1,\"u\r\"\n", "are two words; 2 of 3"},
        {"[\"\"]", "1,uv\n2,u\u00ADv\n1,uv\uFE0F\n2,\uFF35v\n", "are two words; 3 of 4"},
        {"[\"\"]", "1,\u00C9T\u00C9\n2,\u00E9t\u00E9\n1,E\u0301t\u00E9\n2,e\u0301te\u0301\n",
         "are two words; 3 of 4"},
        {"[\"\"]", "1,\u0416\u0418\u0306\n2,\u0436\u0439\n", "are two words; 1 of 2"},
        {"[\"\"]", "1,\u1EAFn\n2,a\u0306\u0301n\n", "are two words; 1 of 2"}, /* two marks */
        {"[\"\"]", "1,ｱﾊﾟｰﾄ\n2,アパート\n", "\"ｱﾊﾟｰﾄ\" and \"アパート\" are two words; 1 of 2"},
        {"[\"\"]", "1,｢ｶﾞｷﾞ｣ｳﾞﾜﾝ･\n2,「ガギ」ヴワン・\n1,「カ\u3099キ\u3099」ウ\u3099ワン・\n",
         "are two words; 2 of 3"},
        {"[\"\"]", "1,がば\n2,か\u3099は\u3099\n", "are two words; 1 of 2"},
        {"[\"\"]", "1,ﾊﾊ\n2,パパ\n1,ババ\n2,ァア\n1,アア\n", "nothing"},
        {"[\"\"]", "1,\x1B[01;31mpro\x1B[m\n2,pro\n1,\x1B[K\n",
         "data.train: column c: \"<U+001B>[01;31mpro<U+001B>[m\" (and 1 word more) has control "
         "characters, which "
         "are part of the word; if they are not meant, remove them"},
        {"[\"\"]", "1,a\x7F\n2,b\n", "column c: \"a<U+007F>\" has control characters"},
        {"[\"\"]", "1,\"a\tb\nc\r\n\"\n2,b\n", "nothing"},
        {"[\"\"]", "1,n/a\n2,#N/A N/A\n1,#NA\n2,#NULL!\n1,1.#QNAN\n2,-1.#IND\n",
         "\"n/a\", \"#NA\", \"#N/A N/A\", \"#NULL!\", \"1.#QNAN\", \"-1.#IND\": read as a word"},
        {"[\"\"]", "1,cote\n2,cot\u00E9\n1,c\u00F4te\n2,cote\u0303\n1,\u00E9\n2,\u00C9\n",
         "nothing"},
        {"[\"\"]", "1,caf\xE9\n2,caf\u00E9\n1,caf\n",
         "\"caf?\" and \"caf\u00E9\" are two words; 1 of 3"},
        {"[\"\"]", "1,\u00D6l\n2,\xF6l\n1,\xD6l\n2,k\xF6ln\n1,k\u00F6ln\n",
         "are two words; 3 of 5"},
        {"[\"\"]",
         "1,M\u00FCnchen\n2,M\u00C3\u00BCnchen\n1,\u20AC5\n2,\u00E2\u201A\u00AC5\n1,\u00C3\n",
         "\"M\u00FCnchen\" and \"M\u00C3\u00BCnchen\" are two words; 2 of 5"}, /* UTF-8 twice */
        {"[\"\"]", "1,M\\u00fcnchen\n2,M\u00FCnchen\n1,\\u00\n2,\\ud83d\n",
         "\"M\\u00fcnchen\" and \"M\u00FCnchen\" are two words; 1 of 4"}, /* of JSON */
        {"[\"\"]", "1,\\0\n2,x\n", "\"\\0\": read as a word"},
        {"[\"\"]", "1,R&D\n2,R&amp;D\n1,R&amp\n2,R&\n",
         "\"R&D\" and \"R&amp;D\" are two words; 1 of 4"},
        {"[\"\"]", "1,basic\n2,\u201Cbasic\u201D\n1,18-24\n2,18\u201324\n1,a\"b\n2,ab\n",
         "\"basic\" and \"\u201Cbasic\u201D\" are two words; 2 of 6"},
        {"[\"\"]", "1,O'Neill\n2,O\u2019Neill\n1,5\"\n2,5\n1,\"\"\"\"\n2,''\n",
         "\"O'Neill\" and \"O\u2019Neill\" are two words; 1 of 6"},
        {"[\"\"]", "1,M\uFFFDnchen\n2,K\uFFFDln\n1,Bonn\n",
         "data.train: column c: \"M\uFFFDnchen\" (and 1 word more) has U+FFFD in place of a "
         "character "
         "that another program could not read"},
        {"[\"\"]", "1,\xC4\xE3\n2,\xE4\xC3\n1,\xE4\xE3\n2,a\xA0\n1,a\n2,\xA4\n1,\u00A4\n",
         "nothing"}, /* other encodings */
        {"[\"\"]", "1,A\n2,a\n1,A \n", "\"A\" and \"A \" are two words; 1 of 3"},
        {"[\"\"]", "1,a\n2,A\n1,0\n2,10\n1,1e1\n2,0.1\n1,1.2.0\n2,1.2\n1,\n", "nothing"},
        {"[\"\"]", "1,\\N\n2,x\n1,None\n",
         "data.train: column c: \"\\N\", \"None\": read as a word like others; if it marks a "
         "missing "
         "value, add it to data.missing"},
        {"[\"\"]",
         "1,(null)\n2,[NULL]\n1,<NA>\n2,NaT\n1,#DIV/"
         "0!\n2,#NUM!\n1,Null\n2,-nan\n1,#REF!\n2,#VALUE!\n1,#NAME?\n",
         "\"-nan\", \"Null\", \"(null)\", \"[NULL]\", \"<NA>\", \"NaT\", \"#DIV/0!\", "
         "\"#NUM!\", "
         "\"#REF!\", \"#VALUE!\", \"#NAME?\": read as a word"},
        {"[\"\"]",
         "1,undefined\n2,[object "
         "Object]\n1,#ERROR!\n2,Loading...\n1,0000-00-00\n2,System.String[]\n",
         "\"undefined\", \"[object Object]\", \"System.String[]\", \"#ERROR!\", \"Loading...\", "
         "\"0000-00-00\": read as a word"},
        {"[\"\", NA]", "1,NA\n2,x\n", "nothing"},
        {"[\"NA,null\"]", "1,NA\n2,x\n",
         "add it to data.missing; \"NA,null\" there is one text: for several write a list"},
        {"[\"NA,null\"]", "1,y\n2,x\n", "nothing"},
        {"[\"\"]", "1,1.23457E+12\n2,1.23457E+12\n",
         "data.train: column c: 1 of 1 words are numbers such as \"1.23457E+12\": Excel writes "
         "long "
         "ids so, and many become one; export their digits"},
        {"[\"\"]", "1,1.2e+15\n2,7\n1,-3.25E+09\n", "2 of 3 words are numbers such as"},
        {"[\"\"]", "1,1.2e+15\n2,7\n1,8\n2,1e+05\n1,2E10\n", "nothing"},
    };
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        char data[200];
        struct fixture f;
        snprintf(data, sizeof data, "missing: %s, columns: [label: y, category: c]", of[i].missing);
        setup(&f, data, NULL, 0);
        warns(&f, of[i].text, of[i].said);
        teardown(&f);
    }
}

static void a_number_that_no_row_has_is_said(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool said;
    } of[] = {{"1,5\n2,\n", false}, {"1,\n", false}, {"1,\n2,\n", true}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        char words[400];
        struct fixture f;
        struct dataset_look look = {0};
        setup(&f, "columns: [label: y, number: {name: age, scale: standard}]", NULL, 0);
        log_init("test", LOG_WARN);
        log_warn("nothing");
        loads(&f, of[i].text);
        log_last_words(false, words, sizeof words);
        log_init("test", LOG_ERROR);
        static const char said[] = "data.train: column age: no row has a number, so all are "
                                   "missing: check the files, and data.missing";
        assert_string_equal(words, of[i].said ? said : "nothing");
        assert_int_equal(dataset_look(&look, &f.job, 0, 0, &f.e), ERR_OK);
        assert_string_equal(look.warning.text, of[i].said ? said : "");
        teardown(&f);
    }
}

static void nothing_is_said_of_the_vocabulary_without_rows(void **state)
{
    (void)state;
    char words[400];
    struct fixture f;
    setup(&f, "columns: [label: y, category: {name: color, vocabulary: [red, green]}]", NULL, 0);
    put(&f, "a.csv", "\n", 1);
    log_init("test", LOG_WARN);
    log_warn("nothing");
    assert_int_equal(dataset_load(&f.d, &f.job, 0, 0, &f.e), ERR_INPUT);
    log_last_words(false, words, sizeof words);
    log_init("test", LOG_ERROR);
    teardown(&f);
    assert_string_equal(words, "nothing");
}

static void a_shape_that_does_not_fit_names_the_right_one(void **state)
{
    (void)state;
    struct fixture f;
    static const char *const set[] = {"model.input.shape=[3]"};
    setup(&f, WORD_LABEL, set, 1);
    put(&f, "a.csv", "a,1\nb,2\n", 8);
    assert_int_equal(dataset_load(&f.d, &f.job, 0, 0, &f.e), ERR_INPUT);
    assert_string_equal(f.e.text, "data.train: data.columns has rows of shape [2], "
                                  "model.input.shape is [3]");
    teardown(&f);
}

/* ---- bad rows ---- */

static void a_row_of_another_length_is_refused(void **state)
{
    (void)state;
    refuses(NUMBER_LABEL, "1,2\n3\n", ":2: it has 1 field, data.columns names 2");
    refuses(NUMBER_LABEL, "1,2\n\n\n3,4,5\n", ":4: it has 3 fields, data.columns names 2");
    refuses(WORD_LABEL, "\"a\nb\",2\n3\n", ":3: it has 1 field, data.columns names 2");
    refuses(NUMBER_LABEL, "", "it has no row");
    refuses(WORD_LABEL, "", "it has no row");
    refuses(NUMBER_LABEL, "\n\n", "it has no row");
}

static void a_label_that_the_loss_does_not_know_is_a_bad_row_before_there_is_a_model(void **state)
{
    struct fixture f;
    char why[1024];
    (void)state;
    setup(&f, "columns: [number: a, label: y], header: skip", NULL, 0);
    f.job.model.head[0].loss = LOSS_BINARY_CROSSENTROPY;
    put(&f, "a.csv", "a,y\n0,1\n1,2\n", 12);
    assert_int_equal(dataset_load(&f.d, &f.job, 0, 0, &f.e), ERR_INPUT);
    snprintf(why, sizeof why,
             "data.train: %s/a.csv:3: column \"y\": label 2, the model has 2 classes (labels "
             "0 to 1); if the labels start at 1, list them: - label: {classes: [\"1\", \"2\"]}",
             f.files.dir);
    assert_string_equal(f.e.text, why);
    f.job.data.csv.bad_rows = BAD_ROWS_SKIP;
    assert_int_equal(dataset_load(&f.d, &f.job, 0, 0, &f.e), ERR_OK);
    ROWS_ARE(&f.d, "0 : 1", "-");
    teardown(&f);
}

static void a_label_that_the_model_does_not_have_is_named_with_file_and_line(void **state)
{
    struct fixture f;
    char why[1024];
    (void)state;
    setup(&f, "columns: [number: a, label: y], header: skip", NULL, 0);
    loads(&f, "a,y\n0,1\n\n1,-1\n2,2\n");
    assert_int_equal(dataset_check_classes(&f.d, 2, &f.e), ERR_INPUT);
    assert_int_equal(dataset_name_label(&f.job, NULL, 2, &f.e), ERR_INPUT);
    snprintf(why, sizeof why, "data.train: %s/a.csv:4: column \"y\": label -1", f.files.dir);
    assert_memory_equal(f.e.text, why, strlen(why));
    f.job.data.csv.bad_rows = BAD_ROWS_SKIP;
    assert_int_equal(dataset_name_label(&f.job, NULL, 2, &f.e), ERR_INPUT);
    assert_non_null(strstr(f.e.text, "only if model.input.shape is not auto"));
    teardown(&f);
}

static void bad_rows_keep_their_place_with_weight_0(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f, "columns: [number: {name: a, scale: min_max}, label: y], bad_rows: skip", NULL, 0);
    loads(&f, "0,1\nx,2\n10\n10,3\n5,\n5,4\n");
    ROWS_ARE(&f.d, "0 : 1", "-", "-", "1 : 3", "-", "0.5 : 4");
    assert_int_equal(f.d.bad_rows, 3);
    static const uint64_t all[] = {5, 4, 3, 2, 1, 0};
    float x[6], y[6];
    uint32_t there;
    assert_int_equal(gathered_rows(&f.d, all, 6, x, y, &there, NULL), ERR_OK);
    assert_int_equal(there, 3);
    assert_true(y[0] == 4 && y[1] == 3 && y[2] == 1 && x[0] == 0.5F);
    assert_int_equal(dataset_check_classes(&f.d, 5, &f.e), ERR_OK);
    assert_int_equal(dataset_check_classes(&f.d, 4, &f.e), ERR_INPUT);
    assert_string_equal(f.e.text, "a label is 4, the model has 4 classes (labels 0 to 3)");
    teardown(&f);
}

static void bad_rows_are_skipped_up_to_a_limit(void **state)
{
    (void)state;
    READS(NUMBER_LABEL ", bad_rows: skip, bad_rows_max: 2", "x,1\n1,2\ny,3\n", "-", "1 : 2", "-");
    struct fixture f;
    char wanted[512];
    setup(&f, NUMBER_LABEL ", bad_rows: skip, bad_rows_max: 1", NULL, 0);
    put(&f, "a.csv", "1,2\nx,1\ny,3\n", 12);
    assert_int_equal(dataset_load(&f.d, &f.job, 0, 0, &f.e), ERR_INPUT);
    snprintf(wanted, sizeof wanted,
             "data.train: more than 1 bad rows (data.bad_rows_max); the first: %s/a.csv:2: "
             "column \"a\": \"x\" is not a number; use data.missing if it marks a missing value",
             f.files.dir);
    assert_string_equal(f.e.text, wanted);
    teardown(&f);
    refuses(NUMBER_LABEL ", bad_rows: skip", "x,1\n", "it has no row that can be read");
}

static void a_microbatch_has_fewer_rows_where_some_are_bad(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f, NUMBER_LABEL ", bad_rows: skip", NULL, 0);
    loads(&f, "0,0\nx,1\n2,2\n3,3\n");
    struct order order = {f.d.rows, 2, 1, 1, 0};
    struct dataset_source source;
    struct loader *l;
    assert_int_equal(loader_new(&l, source_over(&source, &f.d, &order), 1, &f.e), ERR_OK);
    uint32_t rows = 0, seen = 0;
    for (uint64_t id = 0; id < 2; id++) {
        struct leaf m;
        uint64_t names[2];
        assert_int_equal(loader_get(l, id, 0, &m, NULL), ERR_OK);
        assert_int_equal(order_leaf(&order, id, 0, names), 2);
        uint32_t there = 0;
        for (int i = 0; i < 2; i++)
            if (names[i] != 1)
                assert_true(m.y[there++] == (float)names[i]);
        assert_int_equal(m.n, there);
        rows += m.n;
        for (uint32_t i = 0; i < m.n; i++)
            seen |= 1U << (int)m.y[i];
        loader_release(l, &m);
    }
    assert_int_equal(rows, 3);
    assert_int_equal(seen, 1 | 4 | 8);
    loader_free(l);
    teardown(&f);
}

static void bad_rows_teach_no_words(void **state)
{
    (void)state;
    READS("columns: [category: w, number: n, label: y], bad_rows: skip",
          "a,1,1\nb,x,2\nc,1,3\nb,2,4\na,x,5\n", "1 0 0 1 : 1", "-", "0 1 0 1 : 3", "0 0 1 2 : 4",
          "-");
}

/* ---- against a simple reader, and against itself ---- */

/* Random rows of a word, a number and a label, some of them bad. */
static size_t random_csv(char *out, size_t room, uint64_t seed, uint64_t rows)
{
    static const char *const words[] = {
        "red", "\"a,b\"", "\"x\ny\"", "\"q\"\"q\"", "",           "Z z",  "\"bad\"", "good\"",
        "d\"", "go\"\"d", "\"\"",     "\r",         "\"bad\"b\"", "#\"c", "\"b\"\r", "\"b\"c\"d"};
    static const char *const ends[] = {"\n", "\r\n", "\n\n", "\n", ",\n"};
    size_t n = 0;
    for (uint64_t i = 0; i < rows && n + 200 < room; i++) {
        uint64_t bits = rng_u64(seed, i);
        uint64_t word = bits % 97 == 0 ? bits >> 8 & 7 : bits >> 8 & 3;
        word = bits % 89 == 0 ? 8 + (bits >> 8 & 7) : word;
        if (bits >> 20 & 1)
            n += (size_t)snprintf(out + n, room - n, "w%u", (unsigned)(bits >> 24 & 0x3ff));
        else
            n += (size_t)snprintf(out + n, room - n, "%s", words[word]);
        n += (size_t)snprintf(out + n, room - n, ",%s%u%s,%u%s", bits >> 40 & 1 ? "-" : "",
                              (unsigned)(bits >> 41 & 0xffff), bits % 83 == 0 ? "x" : ".25",
                              (unsigned)(bits >> 60), ends[bits % 79 ? bits >> 58 & 1 : bits % 5]);
    }
    return n;
}

struct simple_row {
    bool bad;
    char word[64];
    size_t word_bytes;
    float number, label;
};

/* p at the end of a field: a delimiter, or the end of its row. */
static bool ends_field(const char *p)
{
    return *p == ',' || *p == '\n' || (*p == '\r' && p[1] == '\n');
}

/* Read a field as text with an end. *bad: text follows its quotes, or it has a '\r' on its own. Returns its end. */
static const char *simple_field(char out[static 64], const char *p, bool *bad)
{
    size_t n = 0;
    if (*p == '"') {
        for (p++; *p != '"' || *++p == '"'; p++)
            out[n++] = *p;
        *bad |= !ends_field(p);
    }
    for (; !ends_field(p); p++) {
        out[n++] = *p;
        *bad |= *p == '\r';
    }
    out[n] = 0;
    return p;
}

/* Read the record at p, and return its end. */
static const char *simple_record(struct simple_row *row, const char *p)
{
    char field[8][64], *stop;
    size_t n = 0;
    *row = (struct simple_row){.bad = false};
    for (;; p++) {
        assert_true(n < 8);
        p = simple_field(field[n++], p, &row->bad);
        if (*p != ',')
            break;
    }
    p += *p == '\r';
    row->bad |= n != 3;
    if (row->bad)
        return p + 1;
    row->word_bytes = strlen(field[0]);
    memcpy(row->word, field[0], row->word_bytes);
    row->number = strtof(field[1], &stop);
    row->bad |= *stop != 0;
    row->label = strtof(field[2], &stop);
    row->bad |= *stop != 0;
    return p + 1;
}

static size_t simple_read(struct simple_row *row, const char *text, size_t bytes)
{
    size_t rows = 0;
    for (const char *p = text; p < text + bytes;)
        if (*p == '\n')
            p++;
        else
            p = simple_record(&row[rows++], p);
    return rows;
}

static void same_as_simple(const struct dataset *d, const struct simple_row *row, size_t rows)
{
    assert_int_equal(d->rows, rows);
    const struct vocabulary *v = &d->table.schema->input[0].words;
    uint32_t buffer[TABLE_ROW_CELLS_MAX];
    for (size_t i = 0; i < rows; i++) {
        const uint32_t *cells = cells_of(d, i, buffer);
        if (row[i].bad != (bool)isnan(schema_float(cells[2])))
            fail_msg("row %zu is %s", i, row[i].bad ? "bad" : "not bad");
        if (row[i].bad)
            continue;
        size_t bytes;
        const char *text = vocabulary_text(v, cells[0] - 1, &bytes);
        assert_int_equal(bytes, row[i].word_bytes);
        assert_memory_equal(text, row[i].word, bytes);
        assert_true(schema_float(cells[1]) == row[i].number);
        assert_true(schema_float(cells[2]) == row[i].label);
    }
}

static void it_reads_what_a_simple_reader_reads(void **state)
{
    (void)state;
    enum { ROOM = 1 << 16, ROWS_MOST = 4000 };
    char *text = malloc(ROOM);
    struct simple_row *row = calloc(ROWS_MOST, sizeof *row);
    assert_true(text && row);
    size_t bad = 0, all = 0;
    for (int level = KERNELS_BASE; level <= KERNELS_AVX512; level++) {
        if (!kernels_use((enum kernels_level)level))
            continue;
        for (uint64_t seed = 0; seed < 40; seed++) {
            struct fixture f;
            size_t bytes = random_csv(text, ROOM, seed, seed * 20);
            size_t rows = simple_read(row, text, bytes), good = 0;
            for (size_t i = 0; i < rows; i++)
                good += !row[i].bad;
            bad += rows - good;
            all += rows;
            setup(&f,
                  "columns: [category: w, number: n, label: y], bad_rows: skip, missing: 'none'",
                  NULL, 0);
            put(&f, "a.csv", text, bytes);
            enum err err = dataset_load(&f.d, &f.job, 0, 0, &f.e);
            if (good == 0)
                assert_int_equal(err, ERR_INPUT);
            else if (err)
                fail_msg("seed %d: %s", (int)seed, f.e.text);
            else
                same_as_simple(&f.d, row, rows);
            teardown(&f);
        }
    }
    assert_in_range(bad, all / 100, all * 4 / 5); /* neither rare nor the rule */
    free(text);
    free(row);
}

/* Where a piece begins, each quote means what it means in the whole text. */
static void a_text_of_many_pieces_is_read_as_one(void **state)
{
    (void)state;
    enum { ROOM = 4 << 20, ROWS = 150000 };
    struct fixture f;
    char *text = malloc(ROOM);
    struct simple_row *row = calloc(ROWS, sizeof *row);
    assert_true(text && row);
    size_t bytes = random_csv(text, ROOM, 6, ROWS), rows = simple_read(row, text, bytes);
    assert_true(bytes > 3 * (size_t)CSV_PIECE_BYTES);
    setup(&f,
          "columns: [category: w, number: n, label: y], bad_rows: skip, bad_rows_max: 100000, "
          "missing: 'none'",
          NULL, 0);
    put(&f, "a.csv", text, bytes);
    if (dataset_load(&f.d, &f.job, 0, 0, &f.e))
        fail_msg("%s", f.e.text);
    same_as_simple(&f.d, row, rows);
    teardown(&f);
    free(text);
    free(row);
}

static void same_dataset(const struct dataset *a, const struct dataset *b)
{
    assert_int_equal(a->rows, b->rows);
    assert_int_equal(a->bad_rows, b->bad_rows);
    assert_int_equal(a->features, b->features);
    assert_memory_equal(a->contents.fingerprint, b->contents.fingerprint,
                        sizeof a->contents.fingerprint);
    size_t width = a->table.schema->inputs + (size_t)1;
    uint32_t a_buffer[TABLE_ROW_CELLS_MAX], b_buffer[TABLE_ROW_CELLS_MAX];
    for (uint64_t row = 0; row < a->rows; row++)
        assert_memory_equal(cells_of(a, row, a_buffer), cells_of(b, row, b_buffer),
                            width * sizeof(uint32_t));
}

#define WIDE                                                                                       \
    "columns: [category: w, number: {name: n, scale: standard}, label: y], bad_rows: skip, "       \
    "bad_rows_max: 100000"

/* Several pieces in several files: words, rows, statistics and the fingerprint stay the same. */
static void threads_and_packing_change_nothing(void **state)
{
    (void)state;
    enum { ROOM = 4 << 20, ROWS = 150000 };
    char *text = malloc(ROOM);
    assert_non_null(text);
    size_t bytes = random_csv(text, ROOM, 5, ROWS);
    assert_true(bytes > 3 * (size_t)CSV_PIECE_BYTES);
    struct fixture one;
    for (uint32_t threads = 1; threads <= 5; threads += 2)
        for (enum packing p = 0; p < PACK_COUNT; p++) {
            struct fixture f;
            struct bytes plain = {(uint8_t *)text, bytes}, packed = bytes_pack(plain, p);
            setup(&f, WIDE, NULL, 0);
            f.job.worker.threads = threads;
            idx_files_write(&f.files, "a.csv", packed);
            idx_files_write(&f.files, "b.csv", packed);
            if (dataset_load(&f.d, &f.job, 0, 0, &f.e))
                fail_msg("%s", f.e.text);
            if (threads == 1 && p == PACK_PLAIN) {
                one = f;
            } else {
                same_dataset(&f.d, &one.d);
                teardown(&f);
            }
            bytes_free(&packed);
        }
    teardown(&one);
    free(text);
}

/* The first error in the text is reported, though a later piece is read sooner. */
static void the_first_complaint_is_the_first_in_the_text(void **state)
{
    (void)state;
    enum { BYTES = 4 * CSV_PIECE_BYTES };
    char *text = malloc(BYTES + 16);
    assert_non_null(text);
    for (size_t i = 0; i < BYTES; i += 4)
        memcpy(text + i, "1,2\n", 4);
    text[1 * CSV_PIECE_BYTES + 400] = 'x'; /* line 131173 */
    text[3 * CSV_PIECE_BYTES + 400] = 'z';
    for (uint32_t threads = 1; threads <= 4; threads++) {
        struct fixture f;
        setup(&f, NUMBER_LABEL, NULL, 0);
        f.job.worker.threads = threads;
        put(&f, "a.csv", text, BYTES);
        assert_int_equal(dataset_load(&f.d, &f.job, 0, 0, &f.e), ERR_INPUT);
        assert_non_null(strstr(f.e.text, "a.csv:131173: column \"a\": \"x\" is not a number"));
        teardown(&f);
    }
    free(text);
}

/* Row by row, what encoding.json says of two fields gives the features that training gets. */
static void the_exported_encoding_makes_the_same_features(void **state)
{
    (void)state;
    struct fixture f;
    char path[300];
    setup(&f,
          "missing: ['', '?'], columns: [number: {name: x, scale: standard}, ignore, "
          "category: {name: c}, category: {name: s, encode: id, vocabulary: [S, M]}, label: y, "
          "weight: w]",
          NULL, 0);
    loads(&f, "1,q,a,M,0,1\n4,q,\xff!,S,1,2\n?,q,?,L,1,3\n3,q,a,?,0,4\n");
    snprintf(path, sizeof path, "%s/encoding.json", f.files.dir);
    assert_int_equal(export_encoding(folder_place(f.files.dir), &f.job, f.d.table.schema, &f.e),
                     ERR_OK);
    json_t *all = json_load_file(path, 0, NULL);
    json_int_t features, at[3], width;
    double shift, divisor, missing;
    const char *arithmetic, *markers[2], *words[2], *hex, *sizes[3], *encode[2], *weight[2];
    assert_int_equal(
        json_unpack(all,
                    "{s:s s:I s:[ss!] s:[{s:s s:s s:I s:i s:{s:F s:F s:F !} !} {s:n s:s !}"
                    "{s:s s:s s:I s:I s:{s:s s:[s {s:s !} s !] !} !}"
                    "{s:s s:s s:I s:i s:{s:s s:[sss!] !} !} {s:s s:s !} {s:s s:s !} !] !}",
                    "arithmetic", &arithmetic, "features", &features, "missing", &markers[0],
                    &markers[1], "columns", "name", &words[0], "kind", &words[0], "feature", &at[0],
                    "width", &(int){0}, "number", "shift", &shift, "divisor", &divisor, "missing",
                    &missing, "name", "kind", &words[0], "name", &words[0], "kind", &words[0],
                    "feature", &at[1], "width", &width, "category", "encode", &encode[0], "words",
                    &words[0], "hex", &hex, &words[1], "name", &sizes[0], "kind", &sizes[0],
                    "feature", &at[2], "width", &(int){0}, "category", "encode", &encode[1],
                    "words", &sizes[0], &sizes[1], &sizes[2], "name", &sizes[0], "kind", &sizes[1],
                    "name", &weight[0], "kind", &weight[1]),
        0);
    assert_string_equal(arithmetic, "float64");
    assert_true(features == 5 && at[0] == 0 && at[1] == 1 && width == 3 && at[2] == 4);
    assert_string_equal(weight[0], "w");
    assert_string_equal(weight[1], "weight");
    assert_string_equal(encode[0], "one_hot");
    assert_string_equal(encode[1], "id");
    assert_string_equal(words[0], "a");
    assert_string_equal(hex, "ff21");
    assert_string_equal(words[1], ""); /* with any marker */
    assert_string_equal(markers[1], "?");
    char row[4][64];
    const double x[] = {1, 4, missing, 3};
    const char *const rest[] = {"1 0 0 2 : 0", "0 1 0 1 : 1", "0 0 1 0 : 1", "1 0 0 3 : 0"};
    for (int i = 0; i < 4; i++)
        snprintf(row[i], sizeof row[i], "%g %s", (double)(float)((x[i] - shift) / divisor),
                 rest[i]);
    ROWS_ARE(&f.d, row[0], row[1], row[2], row[3]);
    json_decref(all);
    teardown(&f);
}

static void logarithms_of_numbers_have_a_floor(void **state)
{
    (void)state;
    char rows[6][64];
    const char *const wanted[] = {rows[0], rows[1], rows[2], rows[3], rows[4], rows[5]};
    const double log1p_of[] = {0, log1p(3), 0, log1p(0.5), log1p(1e30), log1p(9)},
                 log2_of[] = {0, log2(3), 0, 0, log2(1e30), log2(9)};
    struct fixture f;
    for (int i = 0; i < 6; i++)
        snprintf(rows[i], sizeof rows[i], "%g %g : 1", (double)(float)log1p_of[i],
                 (double)(float)log2_of[i]);
    setup(&f,
          "missing: '?', columns: [number: {name: a, scale: log1p, missing: {value: 9}}, "
          "number: {name: b, scale: log2, missing: {value: 9}}, label: y]",
          NULL, 0);
    loads(&f, "0,0,1\n3,3,1\n-5,-5,1\n0.5,0.5,1\n1e30,1e30,1\n?,?,1\n");
    rows_are(&f.d, wanted, 6);
    teardown(&f);
    refuses(
        "columns: [number: {name: a, scale: log1p}, label: y]", "nan,1\n",
        ":1: column \"a\": \"nan\" is not a number; use data.missing if it marks a missing value");
    refuses(
        "columns: [number: {name: a, scale: log2}, label: y]", "inf,1\n",
        ":1: column \"a\": \"inf\" is not a number; use data.missing if it marks a missing value");
}

static void a_number_in_buckets_is_as_a_category(void **state)
{
    (void)state;
    READS("missing: '?', columns: [number: {name: a, buckets: {borders: [0, 10]}}, label: y]",
          "-1,1\n0,1\n9.5,1\n10,1\n?,1\n", "1 0 0 : 1", "0 1 0 : 1", "0 1 0 : 1", "0 0 1 : 1",
          "0 0 0 : 1");
    READS("missing: '?', columns: [number: {name: a, buckets: {borders: [0, 10]}, encode: id, "
          "missing: {value: 3}}, label: y]",
          "-1,1\n0,1\n10,1\n?,1\n", "1 : 1", "2 : 1", "3 : 1", "2 : 1");
    READS("columns: [number: {name: a, buckets: log_squared, encode: id}, label: y]",
          "-1,1\n0,1\n2,1\n3,1\n100,1\n", "1 : 1", "2 : 1", "4 : 1", "6 : 1", "26 : 1");
    READS("columns: [number: {name: a, buckets: {quantiles: 2}, encode: id}, number: b, label: y]",
          "1,5,1\n2,6,1\n3,7,1\n4,8,1\n", "1 5 : 1", "2 6 : 1", "2 7 : 1", "2 8 : 1");
}

/* And whether the rows are in memory changes nothing. */
static void quantiles_do_not_depend_on_the_order_of_rows(void **state)
{
    (void)state;
    enum { N = 40000 };
    char *text = malloc((size_t)N * 16);
    assert_non_null(text);
    double borders[3][16];
    for (unsigned round = 0; round < 3; round++) {
        struct fixture f;
        size_t n = 0;
        for (unsigned i = 0; i < N; i++)
            n += (size_t)sprintf(text + n, "%u,1\n", (round ? N - 1 - i : i) % 9973);
        setup(&f, "columns: [number: {name: a, buckets: {quantiles: 10}}, label: y]", NULL, 0);
        f.job.data.memory_mb = round == 2 ? 1 : 64;
        f.job.worker.threads = round + 1;
        loads(&f, text);
        const struct buckets *b = &f.d.table.schema->input[0].buckets;
        assert_int_equal(b->count, 10);
        memcpy(borders[round], b->border, 9 * sizeof(double));
        teardown(&f);
    }
    assert_memory_equal(borders[0], borders[1], 9 * sizeof(double));
    assert_memory_equal(borders[0], borders[2], 9 * sizeof(double));
    assert_true(borders[0][4] > 4800 && borders[0][4] < 5100);
    free(text);
}

static void a_weight_is_gathered_with_its_row(void **state)
{
    (void)state;
    struct fixture f;
    const uint64_t rows[] = {3, 1, 0};
    float x[3], y[3], weight[3];
    uint32_t there;
    setup(&f, "columns: [weight: w, number: a, label: y], bad_rows: skip", NULL, 0);
    loads(&f, "0.5,1,7\n-1,2,8\n3,3,9\n0,4,1\n");
    assert_true(dataset_form(&f.d).weighted);
    assert_int_equal(gathered_weighted(&f.d, rows, 3, x, y, weight, &there, &f.e), ERR_OK);
    assert_int_equal(there, 2);
    assert_true(x[0] == 4 && y[0] == 1 && weight[0] == 0);
    assert_true(x[1] == 1 && y[1] == 7 && weight[1] == 0.5f);
    ROWS_ARE(&f.d, "1 : 7", "-", "3 : 9", "4 : 1");
    teardown(&f);
    READS("columns: [number: a, label: y, weight: w], header: names", "w,y,a\n1,2,3\n", "3 : 2");
}

/* The n-th value of a column that has `count` of them, from 0. */
typedef double series(uint64_t n);

static double seconds(uint64_t n)
{
    return 1.7e9 + (double)n;
}
static double milliseconds(uint64_t n)
{
    return 1.7e12 + (double)n * 1000;
}
static double microseconds(uint64_t n)
{
    return 1.7e15 + (double)n;
}
static double nanoseconds(uint64_t n) /* a double's step there is 256 */
{
    return 1.7e18 + (double)n * 256;
}
static double above_2_to_24(uint64_t n)
{
    return 0x1p24 + (double)n;
}
static double above_2_to_63(uint64_t n)
{
    return 0x1p63 + (double)n * 2048;
}
static double cents(uint64_t n)
{
    return (double)(99999999900 + n) / 100;
}

/* The mean and the standard deviation by plain sums; the mean is corrected where float32 would show what it is off. */
static void standard_of(series *x, uint64_t n, double *mean, double *deviation)
{
    double sum = 0, offset = 1;
    for (uint64_t i = 0; i < n; i++)
        sum += x(i);
    *mean = sum / (double)n;
    *deviation = 0;
    for (int k = 0; k < 3 && fabs(offset / (double)n) > 0x1p-26 * *deviation; k++) {
        double squares = 0;
        *mean += k ? offset / (double)n : 0;
        offset = 0;
        for (uint64_t i = 0; i < n; i++) {
            offset += x(i) - *mean;
            squares += (x(i) - *mean) * (x(i) - *mean);
        }
        *deviation = sqrt(squares / (double)n);
    }
}

/* Columns: standard, min_max, log1p, log2, quantiles and borders of the same number. In float32 the column has one value, or
 * a few. */
static void numbers_are_doubles_until_they_are_encoded(void **state)
{
    (void)state;
    enum { N = 379, COLUMNS = 6 };
    static series *const of[] = {seconds,       milliseconds,  microseconds, nanoseconds,
                                 above_2_to_24, above_2_to_63, cents};
    static char text[N * 200], border[64], columns[700];
    for (size_t k = 0; k < sizeof of / sizeof *of; k++) {
        struct fixture f;
        size_t n = 0;
        double mean, deviation;
        uint64_t row[N];
        float x[N * COLUMNS], y[N];
        uint32_t there;
        standard_of(of[k], N, &mean, &deviation);
        for (uint64_t i = 0; i < N; i++) {
            row[i] = i;
            for (int c = 0; c < COLUMNS; c++)
                n += (size_t)sprintf(text + n, "%.17g,", of[k](i));
            n += (size_t)sprintf(text + n, "0\n");
        }
        snprintf(border, sizeof border, "%.17g", of[k](100));
        snprintf(
            columns, sizeof columns,
            "columns: [number: {name: a, scale: standard}, number: {name: b, scale: min_max}, "
            "number: {name: c, scale: log1p}, number: {name: d, scale: log2}, number: {name: e, "
            "buckets: {quantiles: 379}, encode: id}, number: {name: f, buckets: {borders: "
            "[%s]}, encode: id}, label: y]",
            border);
        setup(&f, columns, NULL, 0);
        loads(&f, text);
        assert_int_equal(gathered_rows(&f.d, row, N, x, y, &there, &f.e), ERR_OK);
        for (uint64_t i = 0; i < N; i++) {
            double v = of[k](i), low = of[k](0), high = of[k](N - 1);
            const float wanted[COLUMNS] = {
                (float)((v - mean) / deviation),
                (float)((v - low) / (high - low)),
                (float)log1p(v),
                (float)log2(v),
                (float)(i < N - 1 ? i + 2 : N), /* each number but the last is a border */
                i < 100 ? 1 : 2};
            if (memcmp(x + i * COLUMNS, wanted, sizeof wanted) != 0)
                fail_msg("series %zu, row %llu: %.9g, wanted %.9g", k, (unsigned long long)i,
                         (double)x[i * COLUMNS], (double)wanted[0]);
        }
        teardown(&f);
    }
}

/* A number that is not scaled is the float nearest to its text, as before. */
static void a_number_without_a_scale_is_the_nearest_float(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f, "columns: [number: a, label: y]", NULL, 0);
    loads(&f, "16777217,0\n1.00000005960464477539063,1\n");
    assert_int_equal(f.d.table.schema->wide, 0);
    const uint64_t row[] = {0, 1};
    float x[2], y[2];
    uint32_t there;
    assert_int_equal(gathered_rows(&f.d, row, 2, x, y, &there, &f.e), ERR_OK);
    assert_true(x[0] == 0x1p24f && x[1] == nextafterf(1, 2));
    teardown(&f);
}

/* The reader's warning about rows of this column; fmt: of the n-th number. */
static void warning_of(const char *column, const char *fmt, double first, double step, int rows,
                       char out[static sizeof(struct errmsg)])
{
    struct fixture f;
    struct dataset_look look;
    char columns[200];
    char *text = malloc((size_t)rows * 40);
    size_t n = 0;
    assert_non_null(text);
    for (int i = 0; i < rows; i++)
        n += (size_t)sprintf(text + n, fmt, first + i * step, i % 2);
    snprintf(columns, sizeof columns, "columns: [%s, label: y]", column);
    setup(&f, columns, NULL, 0);
    put(&f, "a.csv", text, n);
    assert_int_equal(dataset_look(&look, &f.job, 0, 0, &f.e), ERR_OK);
    memcpy(out, look.warning.text, sizeof look.warning.text);
    teardown(&f);
    free(text);
}

static void a_column_that_float32_makes_equal_is_warned_of(void **state)
{
    (void)state;
    char said[sizeof(struct errmsg)];
    warning_of("number: t", "%.0f,%d\n", 1.7e9, 10, 379, said);
    assert_non_null(strstr(said, "data.train: column t: a sample has about 3"));
    assert_non_null(strstr(said, " different numbers, but about 3"));
    assert_non_null(strstr(said, "give the column a scale"));
    warning_of("number: t", "%.0f,%d\n", 1.7e12, 1, 20000, said); /* of several pieces */
    assert_non_null(strstr(said, "column t: "));
    static const char *const tiny[] = {"%.0fe-60,%d\n", "-%.0fE-60,%d\n", "%.0fe-43,%d\n"};
    for (size_t i = 0; i < sizeof tiny / sizeof *tiny; i++) { /* all are 0 */
        warning_of("number: t", tiny[i], 1, 1, 60, said);
        assert_non_null(strstr(said, "a sample has about 60 different numbers, but about 1 in"));
    }
    struct fixture f;
    setup(&f, "columns: [number: t, label: y]", NULL, 0); /* most are left */
    char text[100 * 16], *at = text;
    for (int i = 0; i < 100; i++)
        at += sprintf(at, i % 5 ? "0.%03d,%d\n" : "%de-60,%d\n", i + 1, i % 2);
    warns(&f, text, "nothing");
    teardown(&f);
    static const struct {
        const char *column, *fmt;
        double first, step;
    } right[] = {
        {"number: {name: t, scale: standard}", "%.0f,%d\n", 1.7e9, 1},
        {"number: {name: t, buckets: {quantiles: 4}}", "%.0f,%d\n", 1.7e9, 1},
        {"number: t", "%.0f,%d\n", 1.7e9, 128},     /* each is a float */
        {"number: t", "%.0f,%d\n", 123456789, 2},   /* a quarter is left */
        {"number: t", "%.9f,%d\n", 0.123456, 0.37}, /* decimals */
        {"number: t", "%.1f,%d\n", 999990, 0.1},
        {"number: t", "%.0f,%d\n", 1.7e9, 0}, /* one number */
        {"number: t", "%.0fe-37,%d\n", 1, 1},
        {"number: {name: t, scale: standard}", "%.0fe-60,%d\n", 1, 1},
    };
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
        warning_of(right[i].column, right[i].fmt, right[i].first, right[i].step, 400, said);
        assert_string_equal(said, "");
    }
}

/* In another order, or behind one number: the first rows show little. Equal numbers and others that float32 holds are right. */
static void rows_in_any_order_are_warned_of(void **state)
{
    (void)state;
    enum { ROWS = 100000, STRIDE = 7919 };
    static const struct {
        long step, equal_rows;
        const char *wanted;
    } cases[] = {{1, 0, "column t: a sample has about "},
                 {1, ROWS / 2, "column t: a sample has about "},
                 {128, 0, "nothing"}};
    struct fixture f;
    char *text = malloc((size_t)ROWS * 20);
    assert_non_null(text);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        size_t n = 0;
        for (long i = 0; i < ROWS; i++)
            n += (size_t)sprintf(text + n, "%ld,%d\n",
                                 i < cases[c].equal_rows
                                     ? 1000000000
                                     : 1700000000 + i * STRIDE % ROWS * cases[c].step,
                                 (int)(i % 2));
        setup(&f, "columns: [number: t, label: y]", NULL, 0);
        log_init("test", LOG_WARN);
        log_warn("nothing");
        loads(&f, text);
        char words[400];
        log_last_words(false, words, sizeof words);
        log_init("test", LOG_ERROR);
        if (!strstr(words, cases[c].wanted))
            fail_msg("%s, not %s", words, cases[c].wanted);
        teardown(&f);
    }
    free(text);
}

static void a_label_that_float32_makes_equal_is_warned_of(void **state)
{
    (void)state;
    struct fixture f;
    char text[8000], *at = text;
    for (int i = 0; i < 400; i++)
        at += sprintf(at, "%lld,1\n", 1764400000000LL + i);
    strcpy(at, "0,1\n");
    setup(&f, "columns: [label: t, number: a]", NULL, 0);
    warns(&f, text, "in float32, which has about 7 digits; subtract their mean, or divide them");
    warns(&f, "1764400000000,1\n1764400000001,1\n", "nothing");
    teardown(&f);
}

/* A logarithm of times, of fractions, and one number far from the others. */
static void numbers_that_their_scale_makes_equal_are_warned_of(void **state)
{
    (void)state;
    static const struct {
        const char *scale, *fmt;
        double first, step;
        const char *outlier, *said;
    } of[] = {
        {"scale: log1p", "%.0f,%d\n", 1.7e12, 1, "",
         " different numbers, but scale: log1p makes "
         "them about 1 features in float32; use scale: standa"},
        {"scale: log2", "%.3f,%d\n", 0, 0.002, "", "scale: log2 makes them about 1 features"},
        {"scale: standard", "%.0f,%d\n", 0, 1, "1e18,1\n",
         "scale: standard makes them about 2 features in "
         "float32; remove the numbers that are far from"},
        {"scale: min_max", "%.0f,%d\n", 0, 1, "-1e18,1\n",
         "scale: min_max makes them about 2 features"},
        {"scale: min_max", "%.0f,%d\n", 0, 1, "9.96921e+36,1\n", /* floats near 0 differ */
         "scale: min_max makes them about 2 features"},
        {"scale: min_max", "%.0f,%d\n", 0, 1, "1e7,1\n", "nothing"}, /* 336 are left */
        {"scale: min_max", "%.0f,%d\n", 0, 1, "1e12,1\n", "about 2 features"},
        {"scale: standard", "%.0f,%d\n", 1.7e12, 1, "", "nothing"},
        {"scale: standard", "%.0f,%d\n", 7, 0, "", "nothing"}, /* one number */
        {"scale: log1p", "%.0f,%d\n", 0, 1000, "", "nothing"},
        {"buckets: {borders: [10, 50]}", "%.3f,%d\n", 0, 0.002, "",
         "different numbers, all in one bucket: are its borders in the numbers' unit?"},
        {"buckets: log_squared", "%.3f,%d\n", 0, 0.002, "", "all in one bucket"},
        {"buckets: {borders: [10, 50]}", "%.3f,%d\n", 0, 0.002, "10,1\n", "nothing"},
    };
    for (size_t k = 0; k < sizeof of / sizeof *of; k++) {
        struct fixture f;
        char text[16000], job[200], *at = text;
        for (int i = 0; i < 400; i++)
            at += sprintf(at, of[k].fmt, of[k].first + i * of[k].step, i % 2);
        strcpy(at, of[k].outlier);
        snprintf(job, sizeof job, "columns: [number: {%s}, label]", of[k].scale);
        setup(&f, job, NULL, 0);
        warns(&f, text, of[k].said);
        teardown(&f);
    }
}

static void columns_of_an_eval_part_that_are_others_are_warned_of(void **state)
{
    (void)state;
    static const char unit[] = "column a: as the model reads it, a sample has the mean ",
                      one[] = "column a: in data.train all rows of a sample have one number, and "
                              "here many have others",
                      zero[] = "column a: all rows of a sample have 0, and in data.train none has";
    static const struct {
        const char *scale;
        double least, step, factor; /* of data.train, and how many times it data.eval is */
        int more;                   /* rows of 8 in data.eval that have more than the least, + 1 */
        const char *said;
    } of[] = {{"", 1, .5, 1, 8, NULL},
              {"", 1, .5, 1000, 8, unit},
              {", scale: standard", 1, .5, 1000, 8, unit},
              {"", 1, .5, 3, 8, NULL},
              {"", 5, 0, 1, 4, one},
              {", scale: standard", 5, 0, 1, 4, one},
              {", scale: min_max", 5, 0, 2, 1, one},
              {"", 5, 0, 1, 3, NULL}, /* a quarter, as of a rare mark */
              {"", 5, 0, 1, 2, NULL},
              {"", 1, .5, 0, 8, zero},
              {", scale: log1p", 1, .5, 0, 8, zero},
              {", scale: standard", 1, .5, 0, 8, zero},
              {"", 0, .5, 0, 8, NULL},
              {"", 1, .5, 1, 1, NULL}}; /* a day */
    for (size_t k = 0; k < sizeof of / sizeof *of; k++) {
        struct fixture f;
        struct dataset eval;
        char text[2][8000] = {"", ""}, job[200], words[400], said[200] = "nothing";
        for (int i = 0, n[2] = {0, 0}; i < 400; i++) {
            const double more = i % 8 < of[k].more ? i % 8 * .5 : 0;
            n[0] += sprintf(text[0] + n[0], "%.2f,%d\n", of[k].least + i % 7 * of[k].step, i % 2);
            n[1] +=
                sprintf(text[1] + n[1], "%.2f,%d\n", (of[k].least + more) * of[k].factor, i % 2);
        }
        snprintf(job, sizeof job, "columns: [number: {name: a%s}, label]", of[k].scale);
        setup(&f, job, NULL, 0);
        loads(&f, text[0]);
        put(&f, "a.eval", text[1], strlen(text[1]));
        log_init("test", LOG_WARN);
        log_warn("nothing");
        assert_int_equal(dataset_load_eval(&eval, &f.job, &f.d, 0, &f.e), ERR_OK);
        log_last_words(false, words, sizeof words);
        log_init("test", LOG_ERROR);
        if (of[k].said)
            snprintf(said, sizeof said, "data.eval: %s", of[k].said);
        if (!strstr(words, said))
            fail_msg("%zu: %s, not %s", k, words, said);
        dataset_close(&eval);
        teardown(&f);
    }
}

/* Ids of 2^60 and more: float64 has 53 bits. */
static void integers_that_float64_makes_equal_are_warned_of(void **state)
{
    (void)state;
    static const char *const columns[] = {"number: {name: t, scale: standard}",
                                          "number: {name: t, buckets: {quantiles: 4}}"};
    struct fixture f;
    char text[16000], job[200], *at = text;
    for (int i = 0; i < 400; i++)
        at += sprintf(at, " %lld,%d\n", (1LL << 60) + i, i % 2);
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        snprintf(job, sizeof job, "columns: [%s, label: y]", columns[i]);
        setup(&f, job, NULL, 0);
        warns(&f, text, "but about 3 in float64, which has about 16 digits; subtract the smallest");
        warns(&f, "1152921504606846976,1\n1152921504606847232,1\n", "nothing");
        teardown(&f);
        setup(&f, job, NULL, 0);     /* other numbers have other borders */
        char odd[16000], *end = odd; /* of every second one none is left as it is */
        for (int n = 0; n < 400; n++)
            end += sprintf(end, "%lld,%d\n", (1LL << 53) + 1 + 2 * n, n % 2);
        warns(&f, odd, "but about 20");
        end = odd; /* nanoseconds, of which float64 has each 256th */
        for (int n = 0; n < 400; n++)
            end += sprintf(end, "%lld,%d\n", 1700000000000000000LL + n * 256, n % 2);
        warns(&f, odd, "nothing");
        teardown(&f);
    }
    setup(&f, "columns: [number: t, label: y]", NULL, 0);
    warns(&f, text, "but about 1 in float32");
    teardown(&f);
}

/* A sample takes 16 KiB for each column and thread. */
static void of_many_columns_the_first_and_the_label_are_noted(void **state)
{
    (void)state;
    enum { COLUMNS = 258, NOTED = 256, ROWS = 200 };
    static const struct {
        int column; /* with times */
        const char *said;
    } of[] = {{NOTED, "in float32"}, {NOTED + 1, "nothing"}, {COLUMNS, "column of the label"}};
    /* scaled ones do not count */
    char columns[8000] = "columns: [number: {scale: standard}", *at = columns + strlen(columns);
    for (int i = 1; i < COLUMNS; i++)
        at += sprintf(at, ", number");
    strcpy(at, ", label]");
    struct fixture f;
    char *text = malloc((size_t)ROWS * (2 * COLUMNS + 20));
    assert_non_null(text);
    setup(&f, columns, NULL, 0);
    for (size_t k = 0; k < sizeof of / sizeof *of; k++) {
        at = text;
        for (int i = 0; i < ROWS * (COLUMNS + 1); i++)
            at += sprintf(at, "%lld%c",
                          i % (COLUMNS + 1) == of[k].column ? 1764400000000LL + 4 * i : i % 5,
                          (i + 1) % (COLUMNS + 1) ? ',' : '\n');
        warns(&f, text, of[k].said);
    }
    free(text);
    teardown(&f);
}

static void the_encoding_says_functions_buckets_and_what_training_refused(void **state)
{
    (void)state;
    struct fixture f;
    char path[300];
    setup(&f,
          "columns: [number: {name: a, scale: log1p}, number: {name: b, buckets: log_squared}, "
          "number: {name: c, buckets: {borders: [0, 0.5]}, encode: id, missing: {value: 7}}, "
          "number: {name: d, buckets: {borders: [0, 0.5]}, encode: id, missing: refuse}, label: y]",
          NULL, 0);
    loads(&f, "1,-2,3,3,0\n4,9,6,6,1\n");
    snprintf(path, sizeof path, "%s/encoding.json", f.files.dir);
    assert_int_equal(export_encoding(folder_place(f.files.dir), &f.job, f.d.table.schema, &f.e),
                     ERR_OK);
    json_t *all = json_load_file(path, 0, NULL), *columns = json_object_get(all, "columns");
    static const char *const wanted[] = {
        "{\"feature\":0,\"kind\":\"number\",\"name\":\"a\",\"number\":{\"divisor\":1.0,"
        "\"function\":\"log1p\",\"missing\":2.5,\"shift\":0.0},\"width\":1}",
        "{\"buckets\":{\"count\":10,\"encode\":\"one_hot\",\"log_squared\":-2,\"missing\":null},"
        "\"feature\":1,\"kind\":\"number\",\"name\":\"b\",\"width\":10}",
        "{\"buckets\":{\"borders\":[0.0,0.5],\"count\":3,\"encode\":\"id\",\"missing\":7.0},"
        "\"feature\":11,\"kind\":\"number\",\"name\":\"c\",\"width\":1}",
        "{\"buckets\":{\"borders\":[0.0,0.5],\"count\":3,\"encode\":\"id\",\"missing\":null,"
        "\"refuses_missing\":true},"
        "\"feature\":12,\"kind\":\"number\",\"name\":\"d\",\"width\":1}"};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        char *is = json_dumps(json_array_get(columns, i), JSON_COMPACT | JSON_SORT_KEYS);
        assert_string_equal(is, wanted[i]);
        free(is);
    }
    json_decref(all);
    teardown(&f);
}

/* All numbers are floats. 16777216 is the float of the border above it; 2 is a float that is no border's. */
static void a_float_that_is_that_of_a_border_above_it_needs_double(void **state)
{
    (void)state;
    static const struct {
        const char *borders, *rows;
        bool needs_double;
    } of[] = {{"[0, 16777217]", "16777216,0\n3,1\n", true},
              {"[0, 16777217]", "16777218,0\n3,1\n", false},
              {"[0, 16777216]", "16777216,0\n3,1\n", false},
              {"[0.7]", "0.699999988079071044921875,0\n3,1\n", true}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        char columns[128];
        struct fixture f;
        snprintf(columns, sizeof columns,
                 "columns: [number: {name: a, buckets: {borders: %s}}, label: y]", of[i].borders);
        setup(&f, columns, NULL, 0);
        loads(&f, of[i].rows);
        assert_int_equal(f.d.table.schema->input[0].needs_double, of[i].needs_double);
        teardown(&f);
    }
}

static void a_weight_that_cannot_be_makes_its_row_bad(void **state)
{
    (void)state;
    static const char *const weights[] = {"-1", "-0.001", "inf", "nan", "x"};
    static const char data[] = "columns: [number: a, label: y, weight: w], missing: '?'";
    for (size_t i = 0; i < sizeof weights / sizeof weights[0]; i++) {
        char text[64], why[128];
        snprintf(text, sizeof text, "1,2,3\n1,2,%s\n", weights[i]);
        snprintf(why, sizeof why,
                 ":2: column \"w\": the weight \"%s\" is not a finite number of at least 0",
                 weights[i]);
        refuses(data, text, why);
    }
    refuses(data, "1,2,?\n", ":1: column \"w\": the weight is missing: \"?\" is in data.missing");
    refuses(data, "1,2,1e39\n",
            ":1: column \"w\": the weight \"1e39\" is too large for float32, which ends at 3.4e38");
    refuses(data, "-1e39,2,1\n",
            ":1: column \"a\": \"-1e39\" is too large for float32, which ends at 3.4e38; use "
            "data.missing if it marks a missing value");
    refuses(data, "1,4e38,1\n",
            ":1: column \"y\": the label \"4e38\" is too large for float32, which ends at 3.4e38");
    /* the nearest float is the largest one, but the nearest double is too large for a float */
    hints("columns: [number: {name: a, scale: standard}, label: y]", "3.4028235677973366e38,1\n",
          "\"3.4028235677973366e38\" is too large for float32");
    hints(NUMBER_LABEL, "1,3.4028235677973366e38\n", "3366e38\" is too large for float32");
}

static void contents_that_differ_have_another_fingerprint(void **state)
{
    (void)state;
    struct fixture a, b;
    setup(&a, NUMBER_LABEL ", header: skip", NULL, 0);
    setup(&b, NUMBER_LABEL ", header: skip", NULL, 0);
    loads(&a, "a,b\n1,2\n");
    loads(&b, "a,c\n1,2\n");
    assert_memory_not_equal(a.d.contents.fingerprint, b.d.contents.fingerprint,
                            sizeof a.d.contents.fingerprint);
    teardown(&a);
    teardown(&b);
}

static void it_survives_every_allocation_that_fails(void **state)
{
    (void)state;
    static const char text[] = "w,n,y\n\"a\",1.00000001,2\nb,x,3\nc,,4\n";
    struct fixture f;
    int fired = 1;
    setup(&f, WIDE ", header: names", NULL, 0);
    f.job.worker.threads = 1;
    put(&f, "a.csv", text, sizeof text - 1);
    for (long n = 0; fired; n++) {
        struct dataset d;
        mem_fail_at(n);
        enum err err = dataset_load(&d, &f.job, 0, 0, &f.e);
        fired = mem_fail_fired();
        mem_fail_at(-1);
        assert_int_equal(err, fired ? ERR_NOMEM : ERR_OK);
        if (!err)
            dataset_close(&d);
    }
    teardown(&f);
}

/* Learned words, a scale, and keys by which rows are held out: whatever memory is missing, nothing stays. */
static void memory_that_runs_out_while_rows_are_held_out_is_an_error(void **state)
{
    (void)state;
    static const char text[] =
        "w,n,u,y\na,1,k0,2\nb,5,k1,3\nc,4,k2,4\nd,3,k3,4\ne,2,k4,1\nf,9,k5,1\n";
    struct fixture f;
    int fired = 1;
    setup(&f, WIDE ", header: names", NULL, 0);
    f.job.worker.threads = 1;
    mem_free(f.job.data.eval);
    f.job.data.eval = NULL;
    f.job.data.validation = (struct job_validation){.share = 0.5, .column = "u"};
    put(&f, "a.csv", text, sizeof text - 1);
    for (long n = 0; fired; n++) {
        struct dataset d, eval;
        mem_fail_at(n);
        enum err err = dataset_load(&d, &f.job, 0, 0, &f.e);
        enum err also = err ? ERR_OK : dataset_load_eval(&eval, &f.job, &d, 0, &f.e);
        fired = mem_fail_fired();
        mem_fail_at(-1);
        assert_int_equal(err ? err : also, fired ? ERR_NOMEM : ERR_OK);
        if (!err && !also) {
            assert_true(eval.rows > 0 && eval.rows < d.rows);
            assert_int_equal(d.table.schema->input[0].words.count, d.rows - eval.rows);
            dataset_close(&eval);
        }
        if (!err)
            dataset_close(&d);
    }
    teardown(&f);
}

/* Whole keys are held out. The hash of a key tells whether it is. */
static void a_key_by_which_far_more_or_fewer_rows_are_held_out_is_named(void **state)
{
    static const struct {
        const char *most, *said;
        double held;
    } of[] = {{"",
               "data.validation.column u: 1272 of 2000 rows are held out, and the share is 0.1, as "
               "all rows of a key stay together, and at least 1200 have \"\"; name another column, "
               "or none",
               0.636},
              {"r1",
               "data.validation.column u: 72 of 2000 rows are held out, and the share is 0.1, as "
               "all rows of a key stay together, and at least 1208 have \"r1\"; name another "
               "column, or none",
               0.036},
              {NULL, "nothing", 0.09}};
    (void)state;
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        struct fixture f;
        char *text = mem_zalloc(2000, 16), *at = text + sprintf(text, "u,n,y\n");
        for (int row = 0; row < 2000; row++)
            at += of[i].most && row % 5 < 3 ? sprintf(at, "%s,1,%d\n", of[i].most, row % 2)
                                            : sprintf(at, "r%d,1,%d\n", row / 5 % 100, row % 2);
        setup(&f, "columns: [number: n, label: y], header: names", NULL, 0);
        mem_free(f.job.data.eval);
        f.job.data.eval = NULL;
        f.job.data.validation = (struct job_validation){.share = 0.1, .column = "u"};
        warns(&f, text, of[i].said);
        struct dataset_look look = {0};
        assert_int_equal(dataset_look(&look, &f.job, 0, 0, &f.e), ERR_OK);
        assert_true(look.held_part == of[i].held);
        mem_free(text);
        teardown(&f);
    }
}

/* ---- a census drawn by code ---- */

static struct job census_job(uint32_t rows, const char *root)
{
    char path[1024], set[64];
    struct job job;
    struct errmsg e;
    snprintf(path, sizeof path, "%s/examples/adult/mlp.yaml", root ? root : ".");
    snprintf(set, sizeof set, "data.synthetic_train_rows=%u", rows);
    const char *const sets[] = {set, "data.synthetic_eval_rows=2000"};
    if (job_load(&job, path, sets, 2, &e))
        fail_msg("%s", e.text);
    return job;
}

/* The fingerprint was made on x86-64 by gcc -O3; the text is the same on any machine. `before`: by an earlier release. */
static void the_census_is_the_same_text_everywhere(void **state)
{
    (void)state;
    struct job job = census_job(10000, getenv("GRADWIRE_ROOT"));
    struct dataset train, eval;
    struct errmsg e;
    char text[2 * sizeof train.contents.fingerprint + 1];
    if (dataset_load(&train, &job, 0, 2, &e) || dataset_load_eval(&eval, &job, &train, 2, &e))
        fail_msg("%s", e.text);
    assert_int_equal(train.rows, 10000);
    assert_int_equal(eval.rows, 2000);
    double rich = 0;
    uint32_t buffer[TABLE_ROW_CELLS_MAX];
    for (uint64_t i = 0; i < train.rows; i++)
        rich += (double)schema_float(cells_of(&train, i, buffer)[14]);
    assert_in_range((uint64_t)rich, 2200, 2900);
    contents_hex(&train.contents, text);
    assert_string_equal(text, "7833ca753e68623ef80cfe080b7674d08a656db78cf44a66d06f68cc9f3e7833");
    assert_int_equal(dataset_know_before(&train, &job, 0, &e), ERR_OK);
    assert_true(contents_same_hex(
        &train.contents, "fa0431af71f0bf255d14b7bb4702418e07908094a5e917846fed4d46bf7ee4b0"));
    assert_memory_not_equal(train.contents.fingerprint, eval.contents.fingerprint,
                            sizeof eval.contents.fingerprint);
    dataset_close(&eval);
    dataset_close(&train);
    job_close(&job);
}

static void a_row_of_the_census_depends_on_its_number_alone(void **state)
{
    (void)state;
    struct drawn many = {.kind = SYNTHETIC_CENSUS, .rows = 3000},
                 few = {.kind = SYNTHETIC_CENSUS, .rows = 10};
    char a[4096], b[4096];
    size_t n = drawn_read(&few, a, sizeof a), got = 0;
    assert_in_range(n, 500, 2000);
    while (got < n) /* in small reads */
        got += drawn_read(&many, b + got, n - got < 7 ? n - got : 7);
    assert_memory_equal(a, b, n);
    assert_int_equal(drawn_read(&few, a, sizeof a), 0);
}

/* ---- the real files, if they are available ---- */

static void adult_loads_whole(void **state)
{
    (void)state;
    const char *data = getenv("GRADWIRE_DATA"), *root = getenv("GRADWIRE_ROOT");
    if (!data) {
        print_message("GRADWIRE_DATA is not set: adult is not read\n");
        skip();
    }
    char path[1024], train[1024], eval[1024];
    struct fixture f = {0};
    struct dataset v;
    snprintf(path, sizeof path, "%s/examples/adult/mlp.yaml", root ? root : ".");
    snprintf(train, sizeof train, "data.train=%s/adult/adult.data.gz", data);
    snprintf(eval, sizeof eval, "data.eval=%s/adult/adult.test.gz", data);
    const char *const sets[] = {"data.format=csv", train, eval};
    if (job_load(&f.job, path, sets, 3, &f.e) || dataset_load(&f.d, &f.job, 0, 2, &f.e) ||
        dataset_load_eval(&v, &f.job, &f.d, 2, &f.e))
        fail_msg("%s", f.e.text);
    assert_int_equal(f.d.rows, 32561);
    assert_int_equal(v.rows, 16281);
    assert_int_equal(f.d.features, 108); /* 6 numbers; 9 + 16 + 7 + 15 + 6 + 5 + 2 + 42 words */
    double positive = 0;
    uint32_t buffer[TABLE_ROW_CELLS_MAX];
    for (uint64_t i = 0; i < f.d.rows; i++)
        positive += (double)schema_float(cells_of(&f.d, i, buffer)[14]);
    assert_int_equal(positive, 7841); /* the set's own count of >50K */
    dataset_close(&v);
    dataset_close(&f.d);
    job_close(&f.job);
}

/* ---- a look ---- */

static void look_says(struct fixture *f, struct bytes text, bool estimated, uint64_t least,
                      uint64_t most)
{
    struct dataset_look look = {0};
    idx_files_write(&f->files, "a.csv", text);
    if (dataset_look(&look, &f->job, 0, 0, &f->e))
        fail_msg("%s", f->e.text);
    assert_int_equal(look.estimated, estimated);
    assert_in_range(look.rows, least, most);
}

static void a_look_says_of_how_many_rows_it_is_sure(void **state)
{
    (void)state;
    enum { ROWS = 170000, ROW_BYTES = 6 };
    struct fixture f;
    struct bytes text = {malloc(ROWS * ROW_BYTES), ROWS * ROW_BYTES};
    assert_non_null(text.data);
    for (size_t i = 0; i < ROWS; i++)
        memcpy(text.data + i * ROW_BYTES, "1,2,3\n", ROW_BYTES);
    setup(&f, "columns: [number: a, number: b, label: y]", NULL, 0);
    for (enum packing p = 0; p < PACK_COUNT; p++) {
        struct bytes all = bytes_pack(text, p), few = bytes_pack((struct bytes){text.data, 60}, p);
        look_says(&f, few, false, 10, 10);
        look_says(&f, all, true, p == PACK_PLAIN ? ROWS - 1 : ROWS / 2,
                  p == PACK_PLAIN ? ROWS : 2 * ROWS);
        bytes_free(&all);
        bytes_free(&few);
    }
    free(text.data);
    teardown(&f);
}

/* As numbers of real files are packed: as much for each byte all the way. */
static void a_look_counts_the_rows_of_packed_files_by_their_size(void **state)
{
    (void)state;
    enum { ROWS = 200000, ROW_BYTES = 12 };
    struct fixture f;
    struct bytes text = {malloc((size_t)ROWS * ROW_BYTES + 1), 0};
    assert_non_null(text.data);
    for (unsigned i = 0; i < ROWS; i++)
        text.count += (size_t)sprintf((char *)text.data + text.count, "%05u,%u,%u\n",
                                      (unsigned)(rng_u64(7, i) % 100000), i % 7, i % 2);
    setup(&f, "columns: [number: a, number: b, label: y]", NULL, 0);
    for (enum packing p = 0; p < PACK_COUNT; p++) {
        struct bytes all = bytes_pack(text, p);
        look_says(&f, all, true, ROWS / 100 * 95, ROWS / 100 * 105);
        bytes_free(&all);
    }
    free(text.data);
    teardown(&f);
}

/* Rows of 4 KiB: a piece has 128. */
static void a_look_reads_the_first_thousand_rows_of_each_file(void **state)
{
    (void)state;
    enum { ROWS = 3000, ROW_BYTES = 4096, WRONG = 990 };
    struct fixture f;
    struct dataset_look look = {0};
    struct bytes text = {malloc((size_t)ROWS * ROW_BYTES), (size_t)ROWS * ROW_BYTES};
    assert_non_null(text.data);
    memset(text.data, ' ', text.count);
    for (size_t i = 0; i < ROWS; i++) {
        memcpy(text.data + i * ROW_BYTES, "1,2,", 4);
        memcpy(text.data + (i + 1) * ROW_BYTES - 2, "3\n", 2);
    }
    setup(&f, "columns: [number: a, number: b, label: y]", NULL, 0);
    look_says(&f, text, true, ROWS - 1, ROWS);
    idx_files_write(&f.files, "b.csv", text);
    text.data[(size_t)(WRONG - 1) * ROW_BYTES] = 'x';
    idx_files_write(&f.files, "a.csv", text);
    assert_int_equal(dataset_look(&look, &f.job, 0, 0, &f.e), ERR_INPUT);
    assert_non_null(strstr(f.e.text, "a.csv:990: column \"a\": \"x\" is not a number"));
    free(text.data);
    teardown(&f);
}

/* Wrong rows tell which of many files a look opens. */
/* The job's names of files; @: their folder. */
static void name_files(const struct fixture *f, char **of, const char *names)
{
    char text[2048] = "";
    size_t at = 0;
    for (; *names; names++)
        at += (size_t)snprintf(text + at, sizeof text - at, *names == '@' ? "%s" : "%.1s",
                               *names == '@' ? f->files.dir : names);
    mem_free(*of);
    *of = mem_strdup(text);
    assert_non_null(*of);
}

/* The last warning of both parts, without the folder. */
static const char *files_warning(struct fixture *f)
{
    static char words[400];
    struct dataset eval;
    char *dir;
    log_init("test", LOG_WARN);
    log_warn("nothing");
    dataset_close(&f->d);
    assert_int_equal(dataset_load(&f->d, &f->job, 0, 0, &f->e), ERR_OK);
    assert_int_equal(dataset_load_eval(&eval, &f->job, &f->d, 0, &f->e), ERR_OK);
    dataset_close(&eval);
    log_last_words(false, words, sizeof words);
    log_init("test", LOG_ERROR);
    while ((dir = strstr(words, f->files.dir)))
        memmove(dir, dir + strlen(f->files.dir), strlen(dir + strlen(f->files.dir)) + 1);
    return words;
}

static void files_that_are_named_twice_are_warned_of(void **state)
{
    static const struct {
        const char *train, *eval, *said;
    } of[] = {
        {"@/*.csv", "@/e.eval", "nothing"},
        {"@/a.csv\n@/a.csv", "@/e.eval",
         "data.train: /a.csv is named twice, so its rows count twice; name it once"},
        {"@/b.csv\n@/?.csv", "@/e.eval",
         "data.train: /b.csv is named twice, so its rows count twice; name it once"},
        {"@/*.csv\n@/?.csv", "@/e.eval",
         "data.train: /a.csv is named twice (and 1 more file), so its rows count twice; name it "
         "once"},
        {"@/a.csv\n@/hard", "@/e.eval",
         "data.train: /a.csv and /hard are one file, so its rows count twice; name it once"},
        {"@/soft\n@/a.csv", "@/e.eval",
         "data.train: /soft and /a.csv are one file, so its rows count twice; name it once"},
        {"@/a.csv", "@/e.eval\n@/e.eval",
         "data.eval: /e.eval is named twice, so its rows count twice; name it once"},
        {"@/*.csv", "@/e.eval\n@/b.csv",
         "data.eval: /b.csv is a file of data.train: the model is evaluated on rows from which it "
         "learns"},
        {"@/*.csv", "@/[ab].csv",
         "data.eval: /a.csv is a file of data.train (and 1 more file): the model is evaluated on "
         "rows from which it learns"},
        {"@/*.csv", "@/soft",
         "data.eval: /soft is /a.csv of data.train: the model is evaluated on rows from which it "
         "learns"},
    };
    (void)state;
    struct fixture f;
    char from[300], to[300];
    setup(&f, NUMBER_LABEL, NULL, 0);
    put(&f, "a.csv", "1,2\n2,3\n", 8);
    put(&f, "b.csv", "1,2\n2,4\n", 8);
    put(&f, "e.eval", "1,2\n", 4);
    (void)snprintf(from, sizeof from, "%s/a.csv", f.files.dir);
    (void)snprintf(to, sizeof to, "%s/hard", f.files.dir);
    assert_int_equal(link(from, to), 0);
    (void)snprintf(to, sizeof to, "%s/soft", f.files.dir);
    assert_int_equal(symlink(from, to), 0);
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++) {
        name_files(&f, &f.job.data.train, of[i].train);
        name_files(&f, &f.job.data.eval, of[i].eval);
        assert_string_equal(files_warning(&f), of[i].said);
    }
    f.job.data.eval_named = true; /* of evaluate's arguments: the training data may be meant */
    assert_string_equal(files_warning(&f), "nothing");
    teardown(&f);
}

static void files_whose_numbers_are_not_in_order_are_warned_of_if_their_order_tells(void **state)
{
    static const char said[] =
        "data.train: the order of the files is that of their names, with /day-12.csv before "
        "/day-9.csv, and data.validation.last holds out the last rows; rename the files, with all "
        "numbers of one width, or list them in their order";
    static const char *const other[] = {"day-9.csv\n@/day-12.csv", "day-12.csv\n@/day-9.csv",
                                        "x*.csv", "h*.csv", "z*.csv"};
    static const char *const name[] = {"day-9.csv", "day-12.csv", "x2a.csv", "x12.csv",
                                       "h1f2.csv",  "h12a.csv",   "z09.csv", "z12.csv"};
    (void)state;
    struct fixture f;
    char text[16], train[40];
    setup(&f, NUMBER_LABEL, NULL, 0);
    mem_free(f.job.data.eval);
    f.job.data.eval = NULL;
    f.job.data.validation.last = 0.5;
    for (int i = 0; i < 8; i++)
        put(&f, name[i], text, (size_t)snprintf(text, sizeof text, "1,%d\n2,3\n", i));
    name_files(&f, &f.job.data.train, "@/day-*.csv");
    assert_string_equal(files_warning(&f), said);
    struct dataset_look look = {0};
    assert_int_equal(dataset_look(&look, &f.job, 0, 0, &f.e), ERR_OK);
    assert_non_null(strstr(look.warning.text, "day-9.csv, and data.validation.last"));
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        (void)snprintf(train, sizeof train, "@/%s", other[i]);
        name_files(&f, &f.job.data.train, train);
        assert_string_equal(files_warning(&f), "nothing");
    }
    name_files(&f, &f.job.data.train, "@/day-*.csv");
    f.job.data.validation.last = 0;
    assert_int_equal(dataset_look(&look, &f.job, 0, 0, &f.e), ERR_OK);
    assert_string_equal(look.warning.text, "");
    f.job.metrics.progressive = true;
    f.job.data.order = ORDER_STREAM;
    assert_int_equal(dataset_look(&look, &f.job, 0, 0, &f.e), ERR_OK);
    assert_non_null(strstr(look.warning.text, "and metrics.progressive tests each row before"));
    teardown(&f);
}

static void sets_of_files_that_lack_one_and_two_sets_are_warned_of(void **state)
{
    static const char *const name[] = {
        "b-0-of-2.csv", "b-1-of-2.csv", "b-0-of-3.csv", "b-1-of-3.csv", "b-2-of-3.csv",
        "c_1-of-2.csv", "c_2-of-2.csv", "d-of-9.csv",   "e-1-of-a.csv", "f-0-of-4.csv"};
    static const struct {
        const char *train, *said;
    } cases[] = {
        {"@/b-*.csv",
         "data.train: /b-0-of-2.csv and /b-0-of-3.csv are of two sets of files, as of two "
         "writes: rows that are in both count twice; name one set"},
        {"@/b-*-of-3.csv", "nothing"},
        {"@/b-[01]-of-3.csv", "nothing"}, /* the third one is there */
        {"@/c_*.csv", "nothing"},
        {"@/d-*.csv", "nothing"},
        {"@/e-*.csv", "nothing"},
        {"@/f-*.csv", "data.train: the name of /f-0-of-4.csv says that there are 4 such files, and "
                      "there are 1"},
        {"@/f-0-of-4.csv", "nothing"},
    };
    (void)state;
    struct fixture f;
    char text[16];
    setup(&f, NUMBER_LABEL, NULL, 0);
    put(&f, "eval.csv", "8,9\n", 4);
    name_files(&f, &f.job.data.eval, "@/eval.csv");
    for (int i = 0; i < (int)(sizeof name / sizeof *name); i++)
        put(&f, name[i], text, (size_t)snprintf(text, sizeof text, "1,%d\n2,3\n", i));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        name_files(&f, &f.job.data.train, cases[i].train);
        assert_string_equal(files_warning(&f), cases[i].said);
    }
    teardown(&f);
}

static void files_with_equal_rows_are_warned_of(void **state)
{
    static const struct {
        const char *train, *eval, *said;
    } of[] = {
        {"@/a.csv\n@/b.csv", "@/e.eval", "nothing"},
        {"@/a.csv\n@/a.csv.gz", "@/e.eval",
         "data.train: /a.csv and /a.csv.gz have the same contents, so their rows count twice; name "
         "one of them"},
        {"@/b.csv\n@/copy\n@/a.csv.gz\n@/a.csv", "@/e.eval",
         "data.train: /copy and /a.csv.gz have the same contents (and 1 more file), so their rows "
         "count twice; name one of them"},
        {"@/b.csv", "@/e.eval\n@/a.csv\n@/copy",
         "data.eval: /a.csv and /copy have the same contents, so their rows count twice; name one "
         "of them"},
        {"@/b.csv\n@/a.csv.gz", "@/e.eval\n@/a.csv",
         "data.eval: /a.csv has the contents of /a.csv.gz of data.train: the model is evaluated on "
         "rows from which it learns"},
        /* without rows, as Spark writes some parts */
        {"@/a.csv\n@/head\n@/head2", "@/e.eval\n@/head3", "nothing"},
        {"@/a.csv\n@/empty\n@/empty2", "@/e.eval\n@/empty3", "nothing"},
    };
    static const char text[] = "x,y\n1,2\n2,3\n";
    static const char *const heads[] = {"head", "head2", "head3"}, *const empty[] = {
                                                                       "empty", "empty2", "empty3"};
    (void)state;
    struct fixture f;
    setup(&f, NUMBER_LABEL ", header: skip", NULL, 0);
    struct bytes packed =
        bytes_pack((struct bytes){(uint8_t *)(uintptr_t)text, sizeof text - 1}, PACK_GZIP);
    put(&f, "a.csv", text, sizeof text - 1);
    put(&f, "copy", text, sizeof text - 1);
    idx_files_write(&f.files, "a.csv.gz", packed);
    bytes_free(&packed);
    put(&f, "b.csv", "x,y\n1,2\n2,4\n", 12);
    put(&f, "e.eval", "x,y\n1,2\n", 8);
    for (size_t i = 0; i < 3; i++) {
        put(&f, heads[i], "x,y\n", 4);
        put(&f, empty[i], "", 0);
    }
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++) {
        name_files(&f, &f.job.data.train, of[i].train);
        name_files(&f, &f.job.data.eval, of[i].eval);
        assert_string_equal(files_warning(&f), of[i].said);
    }
    f.job.data.eval_named = true; /* of evaluate's arguments: the training data may be meant */
    name_files(&f, &f.job.data.train, "@/a.csv.gz");
    name_files(&f, &f.job.data.eval, "@/a.csv");
    assert_string_equal(files_warning(&f), "nothing");
    teardown(&f);
}

static void a_look_before_a_start_opens_some_of_many_files(void **state)
{
    (void)state;
    enum { FILES = 40, ROWS = 20 };
    struct fixture f;
    struct dataset_look look = {0};
    struct table_schema *schema;
    char name[16], text[ROWS * 6 + 1] = "";
    unsigned opened = 0;
    for (int i = 0; i < ROWS; i++)
        strcat(text, "1,2,3\n");
    setup(&f, "columns: [number: a, number: b, label: y]", NULL, 0);
    struct bytes right = {(unsigned char *)text, strlen(text)}, wrong = {(unsigned char *)"x", 1};
    for (unsigned i = 0; i < FILES; i++) {
        (void)snprintf(name, sizeof name, "a%02u.csv", i);
        idx_files_write(&f.files, name, right);
    }
    assert_int_equal(dataset_look(&look, &f.job, 0, 0, &f.e), ERR_OK);
    assert_int_equal(look.files, FILES);
    assert_true(look.estimated);
    assert_int_equal(look.rows, FILES * ROWS);
    for (unsigned i = 0; i < FILES; i++) {
        (void)snprintf(name, sizeof name, "a%02u.csv", i);
        idx_files_write(&f.files, name, wrong);
        bool fails = dataset_look(&look, &f.job, 0, 0, &f.e) != ERR_OK;
        opened += fails;
        assert_true(fails || (i > 0 && i + 1 < FILES)); /* the first and the last are looked at */
        assert_int_equal(dataset_look_given(&look, &f.job, NULL, 0, 0, &schema, &f.e), ERR_INPUT);
        idx_files_write(&f.files, name, right);
    }
    assert_int_equal(opened, DATASET_SAMPLE_FILES);
    teardown(&f);
}

/* Rows of 6 bytes, and of `longer` bytes where long_row is true. */
static struct bytes uneven_text(size_t rows, size_t longer, bool (*long_row)(size_t row))
{
    struct bytes text = {malloc(rows * longer), 0};
    assert_non_null(text.data);
    for (size_t i = 0; i < rows; i++) {
        size_t n = long_row(i) ? longer : 6;
        memset(text.data + text.count, ' ', n);
        memcpy(text.data + text.count, "1,2,", 4);
        memcpy(text.data + text.count + n - 2, "3\n", 2);
        text.count += n;
    }
    return text;
}

enum { UNEVEN_ROWS = 120000 };
static bool long_at_the_end(size_t row)
{
    return row >= UNEVEN_ROWS / 2;
}
static bool long_at_the_beginning(size_t row)
{
    return row < UNEVEN_ROWS / 2;
}
static bool long_at_random(size_t row)
{
    return rng_u64(11, row) % 8 == 0;
}
static bool long_in_the_middle(size_t row)
{
    return row > UNEVEN_ROWS / 3 && row < UNEVEN_ROWS / 3 * 2;
}

/* A file's beginning has other rows than its rest. */
static void a_look_estimates_rows_from_blocks_spread_over_the_file(void **state)
{
    (void)state;
    bool (*const shape[])(size_t) = {long_at_the_end, long_at_the_beginning, long_at_random,
                                     long_in_the_middle};
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++) {
        struct fixture f;
        struct bytes text = uneven_text(UNEVEN_ROWS, 90, shape[i]);
        setup(&f, "columns: [number: a, number: b, label: y]", NULL, 0);
        look_says(&f, text, true, UNEVEN_ROWS * 2 / 3, UNEVEN_ROWS * 3 / 2);
        free(text.data);
        teardown(&f);
    }
}

/* A look does not open the others, and they are larger. */
static void a_look_weighs_files_that_it_does_not_open_by_their_size(void **state)
{
    (void)state;
    enum { FILES = 40 };
    struct fixture f;
    char name[16], text[200 * 6 + 1] = "";
    uint64_t rows = 0;
    struct dataset_look look = {0};
    for (int i = 0; i < 200; i++)
        strcat(text, "1,2,3\n");
    setup(&f, "columns: [number: a, number: b, label: y]", NULL, 0);
    for (unsigned i = 0; i < FILES; i++) {
        bool opened = i == 0 || i * (DATASET_SAMPLE_FILES - 1) / FILES !=
                                    (i + 1) * (DATASET_SAMPLE_FILES - 1) / FILES;
        struct bytes part = {(unsigned char *)text, opened ? 60 : strlen(text)};
        (void)snprintf(name, sizeof name, "a%02u.csv", i);
        idx_files_write(&f.files, name, part);
        rows += part.count / 6;
    }
    assert_int_equal(dataset_look(&look, &f.job, 0, 0, &f.e), ERR_OK);
    assert_in_range(look.rows, rows - 1, rows);
    teardown(&f);
}

/* Numbers with a scale are doubles until all rows are read. */
static void a_look_tells_the_memory_of_rows_that_are_loaded(void **state)
{
    (void)state;
    struct fixture f;
    struct dataset_look look = {0};
    setup(&f,
          "columns: [number: {name: a, scale: standard}, number: {name: b, scale: standard}, "
          "label: y]",
          NULL, 0);
    idx_files_write(&f.files, "a.csv", (struct bytes){(unsigned char *)"1,2,3\n2,3,4\n", 12});
    assert_int_equal(dataset_look(&look, &f.job, 0, 0, &f.e), ERR_OK);
    assert_int_equal(look.rows, 2);
    assert_int_equal(look.bytes, 2 * 3 * sizeof(float));
    assert_int_equal(look.loading_bytes, 2 * 5 * sizeof(float));
    teardown(&f);
}

/* Rows, some of whose fields have quotes; in one run of two only at their ends, and in one of four all have the right number of
 * fields. */
static size_t quoted_csv(char *out, size_t most, uint64_t run)
{
    static const char *const fields[] = {"1",         "\"25\"", "",        "-0.5",
                                         "\"\"",      "\"x\"",  "\"a,b\"", "\"two\nlines\"",
                                         "\"3\"\"\"", "4\"",    "\"5\"x",  "x"};
    const uint64_t kinds = run & 1 ? 8 : 12;
    size_t bytes = 0;
    for (uint64_t row = 0; bytes + 256 < most; row++) {
        const uint64_t bits = rng_u64(run, row);
        const uint32_t columns = (run & 3) && bits % 32 == 0 ? 3 : 4;
        for (uint32_t i = 0; i < columns; i++) {
            const uint64_t of = rng_u64(run, 1000 + 4 * row + i);
            const bool odd = (of >> 16) % 64 < run % 7;
            const char *field = i == 3 && !odd ? "7" : fields[odd ? of % kinds : of % 5];
            bytes += (size_t)sprintf(out + bytes, "%s%s", field,
                                     i + 1 < columns ? ","
                                     : run & 16      ? "\r\n"
                                                     : "\n");
        }
    }
    return bytes;
}

/* With data.trim each field is read for itself, and these fields have no blanks around them. */
static void rows_are_the_same_as_a_field_at_a_time(void **state)
{
    enum { RUNS = 64, MOST = 6000 };
    static const char *const columns[] = {"bad_rows: skip, bad_rows_max: 100000, columns: "
                                          "[category: {name: a, encode: id}, number: b, "
                                          "number: {name: c, scale: standard}, label: y]",
                                          "columns: [category: {name: a, encode: id}, ignore, "
                                          "number: {name: c, scale: standard}, label: "
                                          "y]"};
    static uint32_t buffers[2][TABLE_ROW_CELLS_MAX];
    char *text = malloc(MOST);
    uint64_t rows = 0;
    (void)state;
    assert_non_null(text);
    for (int level = KERNELS_BASE; level <= KERNELS_AVX512; level++) {
        if (!kernels_use((enum kernels_level)level))
            continue;
        for (uint64_t run = 0; run < RUNS; run++) {
            struct fixture f;
            struct dataset apart;
            struct errmsg e = {""};
            setup(&f, columns[run >> 3 & 1], NULL, 0);
            put(&f, "a.csv", text, quoted_csv(text, rng_u64(run, 999) % MOST, run));
            const enum err err = dataset_load(&f.d, &f.job, 0, 0, &f.e);
            f.job.data.csv.trim = true;
            if (dataset_load(&apart, &f.job, 0, 0, &e) != err || strcmp(e.text, f.e.text) != 0)
                fail_msg("run %d: %s, but %s", (int)run, f.e.text, e.text);
            if (!err) {
                assert_int_equal(f.d.rows, apart.rows);
                assert_int_equal(f.d.bad_rows, apart.bad_rows);
                rows += f.d.rows - f.d.bad_rows;
                for (uint64_t row = 0; row < f.d.rows; row++)
                    assert_memory_equal(cells_of(&f.d, row, buffers[0]),
                                        cells_of(&apart, row, buffers[1]),
                                        schema_row_cells(f.d.table.schema) * sizeof **buffers);
                dataset_close(&apart);
            }
            teardown(&f);
        }
    }
    assert_true(rows > 1000);
    free(text);
}

/* Keys of a column are hashed many at a time where their texts are short. */
static void keys_of_texts_of_each_length_are_their_hashes(void **state)
{
    enum { ROWS = 1000, LENGTHS = 22 };
    static const char *const columns[] = {
        "columns: [key: a, label: y]", "columns: [key: {name: a, buckets: 1000}, label: y]",
        "columns: [key: {name: a, missing: none}, label: y], missing: ['', abcde]"};
    static const char *const model[] = {"model.layers=[linear: a]"};
    char text[ROWS * (LENGTHS + 3)], word[ROWS][LENGTHS];
    static uint32_t buffer[TABLE_ROW_CELLS_MAX];
    (void)state;
    for (int level = KERNELS_BASE; level <= KERNELS_AVX512; level++) {
        if (!kernels_use((enum kernels_level)level))
            continue;
        for (size_t c = 0; c < sizeof columns / sizeof *columns; c++) {
            struct fixture f;
            size_t bytes = 0;
            for (uint64_t row = 0; row < ROWS; row++) {
                size_t n = rng_u64(row, 0) % LENGTHS;
                for (size_t i = 0; i < n; i++)
                    word[row][i] = (char)('a' + rng_u64(row, 1 + i) % 26);
                word[row][n] = '\0';
                if (n == 5 && row % 2)
                    strcpy(word[row], "abcde");
                bytes += (size_t)sprintf(text + bytes, "%s,1\n", word[row]);
            }
            setup(&f, columns[c], model, 1);
            put(&f, "a.csv", text, bytes);
            if (dataset_load(&f.d, &f.job, 0, 0, &f.e))
                fail_msg("%s", f.e.text);
            const struct table_schema *s = f.d.table.schema;
            const struct table_key *k = &s->key[0];
            for (uint64_t row = 0; row < ROWS; row++) {
                uint64_t wanted = 0, got;
                const uint32_t *cells = table_key_cells(s, k, cells_of(&f.d, row, buffer));
                const bool none = c == 2 && (!word[row][0] || strcmp(word[row], "abcde") == 0);
                if (!none)
                    assert_true(
                        word_key(&k->options, k->seed, word[row], strlen(word[row]), &wanted));
                schema_row_keys(k, cells, &got, NULL);
                if (got != wanted || (c == 2 && cells[SCHEMA_KEY_CELLS] == none))
                    fail_msg("level %d, %s: %s", level, columns[c], word[row]);
            }
            teardown(&f);
        }
    }
}

/* Threads that learn flush denormals, which an instruction for the minimum would do, too. */
static void a_denormal_minimum_is_the_shift_to_the_bit(void **state)
{
    static const char rows[] = "1,0\n4.9e-324,1\n2,1\n";
    const double least = 0x1p-1074;
    struct fixture f;
    (void)state;
    setup(&f, "columns: [number: {name: a, scale: min_max}, label: y]", NULL, 0);
    put(&f, "a.csv", rows, sizeof rows - 1);
    const unsigned was = kernels_flush_begin();
    const enum err err = dataset_load(&f.d, &f.job, 0, 0, &f.e);
    kernels_flush_end(was);
    assert_int_equal(err, ERR_OK);
    assert_memory_equal(&f.d.table.schema->input[0].shift, &least, sizeof least);
    teardown(&f);
}

int main(void)
{
    log_init("csv_test", LOG_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_may_end_as_they_like),
        cmocka_unit_test(a_header_that_is_read_as_a_row_is_warned_of),
        cmocka_unit_test(names_of_classes_can_have_tabs_pipes_and_line_ends),
        cmocka_unit_test(rows_from_which_nothing_can_be_learned_are_warned_of),
        cmocka_unit_test(delimiter_is_as_the_job_says),
        cmocka_unit_test(quoted_fields_are_those_of_rfc_4180),
        cmocka_unit_test(without_quotes_they_are_bytes),
        cmocka_unit_test(text_after_the_quotes_of_a_field_is_refused),
        cmocka_unit_test(a_quote_inside_a_field_is_text),
        cmocka_unit_test(quotes_of_columns_that_are_not_read_end_at_the_same_places),
        cmocka_unit_test(a_quote_that_is_never_closed_names_the_line_where_it_begins),
        cmocka_unit_test(each_line_of_a_bad_row_counts),
        cmocka_unit_test(escapes_are_those_of_mysql_and_spark),
        cmocka_unit_test(a_header_that_is_read_as_a_row_names_data_header),
        cmocka_unit_test(a_character_that_cannot_be_seen_is_named),
        cmocka_unit_test(ctrl_z_at_the_end_is_named),
        cmocka_unit_test(the_name_that_pandas_shows_for_none_is_explained),
        cmocka_unit_test(lines_of_a_dump_and_of_json_are_named),
        cmocka_unit_test(what_a_value_was_meant_to_be_is_named),
        cmocka_unit_test(columns_of_an_eval_part_that_are_others_are_warned_of),
        cmocka_unit_test(a_field_with_blanks_around_names_data_trim),
        cmocka_unit_test(a_line_of_another_delimiter_names_data_delimiter),
        cmocka_unit_test(files_of_xz_and_bzip2_are_refused_by_name),
        cmocka_unit_test(a_nul_byte_is_a_byte_with_a_warning),
        cmocka_unit_test(nul_bytes_that_a_crash_left_are_named),
        cmocka_unit_test(a_byte_order_mark_behind_the_first_line_is_named),
        cmocka_unit_test(a_header_that_comes_again_is_named),
        cmocka_unit_test(a_header_behind_rows_without_one_is_named),
        cmocka_unit_test(a_class_whose_letters_are_other_bytes_is_named),
        cmocka_unit_test(a_comment_that_reads_like_a_row_is_warned_of),
        cmocka_unit_test(rows_that_an_ignored_field_swallows_are_warned_of),
        cmocka_unit_test(evaluation_labels_that_are_all_of_no_listed_class_are_warned_of),
        cmocka_unit_test(another_spelling_of_a_marker_that_is_a_number_is_warned_of),
        cmocka_unit_test(the_first_other_spelling_is_named_in_whatever_piece_it_is),
        cmocka_unit_test(a_cr_that_no_lf_follows_is_named),
        cmocka_unit_test(a_file_of_another_format_is_named),
        cmocka_unit_test(a_word_in_the_place_of_the_mark_of_tar_is_text),
        cmocka_unit_test(a_tag_of_html_can_be_a_word),
        cmocka_unit_test(text_of_utf_16_and_utf_32_is_named),
        cmocka_unit_test(text_of_utf_16_behind_lines_of_utf_8_is_named),
        cmocka_unit_test(a_file_that_is_no_text_is_named),
        cmocka_unit_test(a_field_may_be_huge_but_not_a_row_beyond_the_limit),
        cmocka_unit_test(features_stand_in_the_order_of_the_columns),
        cmocka_unit_test(a_header_is_left_out_or_names_the_columns),
        cmocka_unit_test(an_empty_part_holds_no_rows_whatever_the_header),
        cmocka_unit_test(a_header_may_begin_in_a_later_piece),
        cmocka_unit_test(a_skipped_line_that_reads_like_a_row_is_said),
        cmocka_unit_test(a_skipped_line_of_a_file_without_rows_is_named_if_it_is_no_header),
        cmocka_unit_test(a_skipped_header_of_another_order_is_said),
        cmocka_unit_test(skipped_headers_that_differ_are_said),
        cmocka_unit_test(missing_numbers_are_filled),
        cmocka_unit_test(a_missing_category_has_a_place_of_its_own),
        cmocka_unit_test(numbers_are_scaled_by_the_training_part),
        cmocka_unit_test(means_are_those_of_the_numbers),
        cmocka_unit_test(labels_are_classes_by_name),
        cmocka_unit_test(classes_that_look_equal_are_said),
        cmocka_unit_test(labels_of_other_names_that_look_like_a_class_are_said),
        cmocka_unit_test(
            a_label_that_float32_rounds_to_a_class_is_refused_before_the_classes_are_known),
        cmocka_unit_test(the_eval_part_is_read_as_the_training_part_taught),
        cmocka_unit_test(the_bytes_of_parquet_count_to_the_files_sizes),
        cmocka_unit_test(a_vocabulary_that_matches_no_word_is_said),
        cmocka_unit_test(evaluation_words_of_which_many_are_unknown_are_said_with_the_first),
        cmocka_unit_test(training_words_that_a_given_vocabulary_lacks_are_said),
        cmocka_unit_test(evaluation_rows_of_which_many_lack_a_value_are_said),
        cmocka_unit_test(words_that_look_equal_or_missing_are_said),
        cmocka_unit_test(a_number_that_no_row_has_is_said),
        cmocka_unit_test(nothing_is_said_of_the_vocabulary_without_rows),
        cmocka_unit_test(a_shape_that_does_not_fit_names_the_right_one),
        cmocka_unit_test(a_row_of_another_length_is_refused),
        cmocka_unit_test(a_table_has_up_to_65536_columns),
        cmocka_unit_test(a_piece_does_not_end_within_quotes),
        cmocka_unit_test(a_label_that_the_loss_does_not_know_is_a_bad_row_before_there_is_a_model),
        cmocka_unit_test(a_label_that_the_model_does_not_have_is_named_with_file_and_line),
        cmocka_unit_test(bad_rows_keep_their_place_with_weight_0),
        cmocka_unit_test(bad_rows_are_skipped_up_to_a_limit),
        cmocka_unit_test(a_microbatch_has_fewer_rows_where_some_are_bad),
        cmocka_unit_test(bad_rows_teach_no_words),
        cmocka_unit_test(it_reads_what_a_simple_reader_reads),
        cmocka_unit_test(a_text_of_many_pieces_is_read_as_one),
        cmocka_unit_test(threads_and_packing_change_nothing),
        cmocka_unit_test(the_first_complaint_is_the_first_in_the_text),
        cmocka_unit_test(the_exported_encoding_makes_the_same_features),
        cmocka_unit_test(logarithms_of_numbers_have_a_floor),
        cmocka_unit_test(a_number_in_buckets_is_as_a_category),
        cmocka_unit_test(quantiles_do_not_depend_on_the_order_of_rows),
        cmocka_unit_test(numbers_are_doubles_until_they_are_encoded),
        cmocka_unit_test(a_number_without_a_scale_is_the_nearest_float),
        cmocka_unit_test(a_column_that_float32_makes_equal_is_warned_of),
        cmocka_unit_test(rows_in_any_order_are_warned_of),
        cmocka_unit_test(a_label_that_float32_makes_equal_is_warned_of),
        cmocka_unit_test(integers_that_float64_makes_equal_are_warned_of),
        cmocka_unit_test(numbers_that_their_scale_makes_equal_are_warned_of),
        cmocka_unit_test(of_many_columns_the_first_and_the_label_are_noted),
        cmocka_unit_test(the_encoding_says_functions_buckets_and_what_training_refused),
        cmocka_unit_test(a_weight_is_gathered_with_its_row),
        cmocka_unit_test(a_float_that_is_that_of_a_border_above_it_needs_double),
        cmocka_unit_test(a_weight_that_cannot_be_makes_its_row_bad),
        cmocka_unit_test(an_id_that_has_no_row_in_the_embedding_makes_its_row_bad),
        cmocka_unit_test(contents_that_differ_have_another_fingerprint),
        cmocka_unit_test(it_survives_every_allocation_that_fails),
        cmocka_unit_test(the_census_is_the_same_text_everywhere),
        cmocka_unit_test(a_row_of_the_census_depends_on_its_number_alone),
        cmocka_unit_test(memory_that_runs_out_while_rows_are_held_out_is_an_error),
        cmocka_unit_test(adult_loads_whole),
        cmocka_unit_test(a_look_says_of_how_many_rows_it_is_sure),
        cmocka_unit_test(a_look_counts_the_rows_of_packed_files_by_their_size),
        cmocka_unit_test(a_look_reads_the_first_thousand_rows_of_each_file),
        cmocka_unit_test(a_look_estimates_rows_from_blocks_spread_over_the_file),
        cmocka_unit_test(a_look_weighs_files_that_it_does_not_open_by_their_size),
        cmocka_unit_test(a_look_tells_the_memory_of_rows_that_are_loaded),
        cmocka_unit_test(files_that_are_named_twice_are_warned_of),
        cmocka_unit_test(a_key_by_which_far_more_or_fewer_rows_are_held_out_is_named),
        cmocka_unit_test(files_whose_numbers_are_not_in_order_are_warned_of_if_their_order_tells),
        cmocka_unit_test(sets_of_files_that_lack_one_and_two_sets_are_warned_of),
        cmocka_unit_test(files_with_equal_rows_are_warned_of),
        cmocka_unit_test(a_look_before_a_start_opens_some_of_many_files),
        cmocka_unit_test(rows_are_the_same_as_a_field_at_a_time),
        cmocka_unit_test(keys_of_texts_of_each_length_are_their_hashes),
        cmocka_unit_test(a_denormal_minimum_is_the_shift_to_the_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
