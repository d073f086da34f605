#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <xxhash.h>

#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/base/rng.h"
#include "common/process/files.h"
#include "data/csv_rows.h"
#include "data/readers.h"
#include "data/dataset.h"
#include "tests/lib/idx_files.h"

enum { MOST = 20000, RUNS = 600, FILES_MOST = 4 };

/* ---- files, and the index of them ---- */

struct fixture {
    struct idx_files files;
    struct paths paths;
    char *text[FILES_MOST];
    size_t bytes[FILES_MOST];
    struct pool *pool;
    struct text_index x;
    struct errmsg e;
};

static void setup(struct fixture *f, uint32_t threads)
{
    *f = (struct fixture){.e = {""}};
    idx_files_init(&f->files);
    assert_int_equal(pool_new(&f->pool, threads, &f->e), ERR_OK);
}

static void forget(struct fixture *f)
{
    text_index_close(&f->x);
    for (size_t i = 0; i < f->paths.count; i++)
        free(f->text[i]);
    paths_close(&f->paths);
    f->paths = (struct paths){0};
}

static void teardown(struct fixture *f)
{
    forget(f);
    pool_free(f->pool);
    idx_files_close(&f->files);
}

static void put(struct fixture *f, const char *text, size_t bytes)
{
    char name[16];
    const size_t i = f->paths.count;
    assert_in_range(i, 0, FILES_MOST - 1);
    snprintf(name, sizeof name, "%zu.csv", i);
    idx_files_write(&f->files, name, (struct bytes){(uint8_t *)(uintptr_t)text, bytes});
    assert_int_equal(paths_add(&f->paths, idx_files_path(&f->files, name), &f->e), ERR_OK);
    f->text[i] = calloc(bytes + CSV_SCAN_PAD, 1);
    assert_non_null(f->text[i]);
    memcpy(f->text[i], text, bytes);
    f->bytes[i] = bytes;
}

static enum err indexes(struct fixture *f, const struct csv_grammar *g, bool headers,
                        uint64_t cell_bytes)
{
    return csv_index(&f->x, &f->paths, g, headers, cell_bytes, CSV_PIECE_BYTES, NULL, f->pool,
                     &f->e);
}

/* ---- the rules once more: the rows of a whole text, as the reader finds them ---- */

struct row {
    size_t begin;
    uint64_t line;
    bool is; /* false: a record that is no row */
};

/* The records of a text that begins at `from`; returns how many. */
static size_t records_of(struct row *out, const char *text, size_t from, size_t bytes,
                         const struct csv_grammar *g)
{
    const struct csv_format format = {.grammar = *g};
    size_t n = 0;
    uint64_t line = 1;
    for (size_t at = from, end; at < bytes; at = end) {
        const size_t row = csv_scan_row(text + at, bytes - at, g);
        end = row ? at + row : bytes;
        out[n++] =
            (struct row){at, line, !csv_is_no_row(&format, text + at, text + end - (row > 0))};
        line += csv_count(text + at, end - at, '\n');
    }
    return n;
}

static void cells_are_those_of(const struct text_index *x, uint32_t file, const struct row *record,
                               size_t records, size_t bytes)
{
    const struct text_index_file *f = &x->file[file];
    uint64_t rows = 0;
    size_t next = 0;
    assert_int_equal(f->cells, (bytes + x->cell_bytes - 1) / x->cell_bytes);
    assert_int_equal(f->joined, f->cells);
    for (uint64_t i = 0; i < f->cells; i++) {
        const size_t begin = i * x->cell_bytes, end = begin + x->cell_bytes;
        for (; next < records && record[next].begin < begin; next++)
            rows += record[next].is;
        if (next == records || record[next].begin >= end) {
            assert_int_equal(f->entry[i].first, TEXT_INDEX_NONE);
            continue;
        }
        assert_int_equal(f->entry[i].first, record[next].begin - begin);
        assert_int_equal(f->entry[i].row, rows);
        assert_int_equal(f->entry[i].line, record[next].line);
    }
    for (; next < records; next++)
        rows += record[next].is;
    assert_int_equal(f->rows, rows);
}

/* The offset of row `row` of the file, a header among its rows, and its line, found from its place. */
static struct row read_from(const struct text_index_place *p, const char *text, size_t bytes,
                            const struct csv_grammar *g)
{
    const struct csv_format format = {.grammar = *g};
    uint64_t skip = p->skip, line = p->line;
    for (size_t at = p->at; at < bytes;) {
        const size_t row = csv_scan_row(text + at, bytes - at, g);
        const size_t end = row ? at + row : bytes;
        if (!csv_is_no_row(&format, text + at, text + end - (row > 0)) && !skip--)
            return (struct row){at, line, true};
        line += csv_count(text + at, end - at, '\n');
        at = end;
    }
    return (struct row){0};
}

/* ---- texts ---- */

/* As programs write it, with lines that are no rows; or any bytes that matter. */
static size_t random_text(char *text, size_t most, uint64_t run, const struct csv_grammar *g)
{
    static const char *const fields[] = {"\"a\"",
                                         "\"b,;c\\td|\n e\"",
                                         "\"q\"\"q\"\"\"",
                                         "\"\"",
                                         "",
                                         "\n                1.5",
                                         "a longer text",
                                         "\"two\nlines\"",
                                         "x\"y",
                                         "\n",
                                         "\n\r\n",
                                         "\n   \t           \r\n",
                                         "\n## it's \"\n",
                                         "\n\r##,\"\"",
                                         "\\,",
                                         "\"\\\\, a longer \\\"\ntext\""};
    static const char bytes_that_matter[] = "\",\n\r #\\x\"\n,\t";
    const uint64_t rare = 1 + rng_u64(run, 1) % 60;
    size_t n = 0;
    for (uint64_t i = 2; n + 64 < most; i++) {
        const uint64_t bits = rng_u64(run, i);
        if (run % 3 == 0)
            text[n++] = bits % rare ? 'x' : bytes_that_matter[bits >> 32 & 7];
        else
            n += (size_t)snprintf(text + n, most - n, "%s%s%s", bits >> 20 & 3 ? "" : " ",
                                  run % 3 == 1 && (bits & 15) < 4 ? "12" : fields[bits & 15],
                                  bits >> 24 & 3 ? "," : "\n");
    }
    (void)g;
    return n;
}

static struct csv_grammar random_grammar(uint64_t run)
{
    return (struct csv_grammar){.delimiter = ',',
                                .quotes = run % 5 != 0,
                                .trim = run % 4 == 1,
                                .escape = run % 7 == 2 ? '\\' : '\0',
                                .comment = "##",
                                .comment_bytes = run % 2 ? 2 : 0};
}

static bool is_open(const char *text, size_t bytes, const struct csv_grammar *g)
{
    const struct csv_findings found = csv_scan_findings(text, bytes, g);
    return found.quote < bytes || found.escape;
}

static void an_index_has_the_rows_of_a_scan_from_the_beginning(void **state)
{
    (void)state;
    struct fixture f;
    char *text = malloc(MOST);
    struct row *record = malloc(MOST * sizeof *record);
    assert_non_null(text);
    assert_non_null(record);
    setup(&f, 3);
    unsigned open = 0;
    for (uint64_t run = 0; run < RUNS; run++) {
        const struct csv_grammar g = random_grammar(run);
        const bool headers = run % 6 == 0;
        const uint64_t cell_bytes =
            run % 10 == 9 ? 9000 : 3 + rng_u64(run, 0) % (run % 5 ? 40 : 300);
        bool opens = false;
        for (uint64_t i = 0; i < 1 + run % 3; i++) {
            const uint64_t many = 1 + rng_u64(run, i) % (run % 10 == 9 ? MOST : 3000);
            const size_t bytes = random_text(text, many, run * FILES_MOST + i, &g);
            opens |= is_open(text, bytes, &g);
            put(&f, text, bytes);
        }
        const enum err err = indexes(&f, &g, headers, cell_bytes);
        if (err != (opens ? ERR_INPUT : ERR_OK))
            fail_msg("run %d: %s", (int)run, f.e.text);
        open += opens;
        for (uint32_t i = 0; i < f.x.files; i++)
            cells_are_those_of(&f.x, i, record, records_of(record, f.text[i], 0, f.bytes[i], &g),
                               f.bytes[i]);
        uint64_t number = 0;
        for (uint32_t i = 0; i < f.x.files; i++) {
            const size_t records = records_of(record, f.text[i], 0, f.bytes[i], &g);
            bool header = headers;
            for (size_t k = 0; k < records; k++) {
                if (!record[k].is)
                    continue;
                if (!header) {
                    const struct text_index_place p = text_index_find(&f.x, number++);
                    const struct row got = read_from(&p, f.text[i], f.bytes[i], &g);
                    assert_int_equal(p.file, i);
                    assert_int_equal(got.begin, record[k].begin);
                    assert_int_equal(got.line, record[k].line);
                }
                header = false;
            }
        }
        assert_int_equal(number, text_index_rows(&f.x));
        forget(&f);
    }
    assert_in_range(open, 1, RUNS / 2);
    teardown(&f);
    free(record);
    free(text);
}

/* ---- the reader itself ---- */

static void an_index_has_as_many_rows_as_the_reader_reads(void **state)
{
    (void)state;
    static const struct {
        const char *keys, *text;
        bool headers;
        uint64_t rows;
    } cases[] = {
        {"header: none", "1,2\n3,4\n", false, 2},
        {"header: none", "1,2\n3,4", false, 2},
        {"header: none",
         "\xEF\xBB\xBF"
         "1,2\n\n\r\n3,4\r\n\n",
         false, 2},
        {"header: names", "y,x\n1,2\n\n3,4\n", true, 2},
        {"header: names", "\n\ny,x\n1,2\n3,4\n", true, 2},
        {"header: skip", "\"a\nb\",x\n1,\"2\"\n", true, 1},
        {"header: none, comment: '#'", "# 1,2\n1,2\n#3,4\n5,6\n", false, 2},
        {"header: none, trim: true", " \t \n1,2\n \r\n3,4\n", false, 2},
        {"header: none, bad_rows: skip", " \n1,2\nx\n3,4\n", false, 4},
        {"header: none, escape: backslash, bad_rows: skip", "1,2\\\n3\n3,4\n", false, 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct fixture f;
        struct job job;
        struct dataset d = {0};
        struct csv_format format;
        char text[1024];
        setup(&f, 2);
        put(&f, cases[i].text, strlen(cases[i].text));
        snprintf(text, sizeof text,
                 "model: {input: {shape: auto}, layers: [dense: 1], loss: mse}\noptimizer: sgd\n"
                 "data: {format: csv, train: '%s/*.csv', %s, columns: [label: y, number: x]}\n",
                 f.files.dir, cases[i].keys);
        if (job_parse(&job, text, strlen(text), "j.yaml", "/", NULL, 0, &f.e))
            fail_msg("case %zu: %s", i, f.e.text);
        if (dataset_load(&d, &job, 0, 0, &f.e))
            fail_msg("case %zu: %s", i, f.e.text);
        assert_int_equal(csv_format_init(&format, &job.data.csv, d.table.schema, false, 0, &f.e),
                         ERR_OK);
        if (indexes(&f, &format.grammar, cases[i].headers, 64))
            fail_msg("case %zu: %s", i, f.e.text);
        assert_int_equal(d.rows, cases[i].rows);
        assert_int_equal(text_index_rows(&f.x), d.rows);
        csv_format_close(&format);
        dataset_close(&d);
        job_close(&job);
        teardown(&f);
    }
}

/* ---- the fingerprint ---- */

static void fingerprint_of(struct fixture *f, uint8_t out[32])
{
    struct contents c = {.files = 0};
    assert_int_equal(csv_index_contents(&f->x, &f->paths, &c, &f->e), ERR_OK);
    memcpy(out, c.fingerprint, 32);
    assert_int_equal(c.files, f->paths.count);
    for (uint32_t i = 0; i < f->x.files; i++) {
        assert_int_equal(c.file[i].rows, text_index_file_rows(&f->x, i));
        assert_int_equal(c.file[i].bytes, f->x.file[i].bytes);
    }
    contents_close(&c);
}

static const struct csv_grammar quoted = {.delimiter = ',', .quotes = true, .comment = ""};

static void a_fingerprint_is_that_of_the_bytes_for_any_number_of_threads(void **state)
{
    (void)state;
    enum { BYTES = 10000 };
    char *text = malloc(BYTES);
    uint8_t first[32], print[32];
    assert_non_null(text);
    for (size_t i = 0; i < BYTES; i++)
        text[i] = i % 10 == 9 ? '\n' : (char)('a' + i % 7);
    for (uint32_t threads = 1; threads <= 4; threads++) {
        struct fixture f;
        setup(&f, threads);
        put(&f, text, BYTES);
        put(&f, text, 10);
        assert_int_equal(indexes(&f, &quoted, false, 64), ERR_OK);
        assert_int_equal(text_index_rows(&f.x), BYTES / 10 + 1);
        fingerprint_of(&f, threads == 1 ? first : print);
        if (threads > 1)
            assert_memory_equal(first, print, 32);
        teardown(&f);
    }
    for (size_t i = 0; i < BYTES; i += BYTES - 1) { /* one byte is another one */
        struct fixture f;
        setup(&f, 2);
        text[i] = 'z';
        put(&f, text, BYTES);
        put(&f, text, 10);
        assert_int_equal(indexes(&f, &quoted, false, 64), ERR_OK);
        fingerprint_of(&f, print);
        assert_memory_not_equal(first, print, 32);
        teardown(&f);
    }
    free(text);
}

/* ---- errors ---- */

static void refuses(struct fixture *f, uint64_t cell_bytes, const char *why)
{
    assert_int_equal(indexes(f, &quoted, false, cell_bytes), ERR_INPUT);
    if (!strstr(f->e.text, why))
        fail_msg("not \"%s\": %s", why, f->e.text);
    teardown(f);
}

static void a_quote_that_is_never_closed_is_refused_with_its_line(void **state)
{
    (void)state;
    struct fixture f;
    char text[5000];
    size_t n = 0;
    while (n < 4000)
        n += (size_t)snprintf(text + n, sizeof text - n, "1,\"a\nb\"\n");
    n += (size_t)snprintf(text + n, sizeof text - n, "2,\"open\n3,4\n");
    setup(&f, 3);
    put(&f, "1,2\n", 4);
    put(&f, text, n);
    refuses(&f, 64, "1.csv:1001: a quote begins a field here, and is never closed");
}

/* The reader finds it, too: it holds whole rows. */
static void a_row_that_covers_a_cell_of_a_piece_s_size_is_refused(void **state)
{
    (void)state;
    enum { BYTES = 3 * CSV_PIECE_BYTES };
    struct fixture f;
    char *text = malloc(BYTES);
    assert_non_null(text);
    memset(text, 'x', BYTES);
    memcpy(text, "1,2\n3,4\n\"", 9);
    setup(&f, 2);
    put(&f, text, BYTES);
    refuses(&f, CSV_PIECE_BYTES, "0.csv:3: a row of more than 524288 bytes: a quote begins");
    text[8] = 'x';
    text[BYTES - 1] = '\n';
    setup(&f, 2);
    put(&f, text, BYTES);
    refuses(&f, 1000, "0.csv:3: a row of more than 524288 bytes");
    text[1500] = '\n';
    memset(text + 1501, 'y', CSV_PIECE_BYTES - 1);
    text[1500 + CSV_PIECE_BYTES] = '\n';
    memset(text + 1501 + CSV_PIECE_BYTES, '\n', BYTES - 1501 - CSV_PIECE_BYTES);
    setup(&f, 2);
    put(&f, text, BYTES);
    assert_int_equal(indexes(&f, &quoted, false, 1000), ERR_OK);
    assert_int_equal(text_index_rows(&f.x), 4);
    teardown(&f);
    free(text);
}

static void files_that_cannot_be_indexed_are_refused_by_name(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f, 1);
    put(&f, "1,2\n", 4);
    assert_int_equal(paths_add(&f.paths, "/nothing/here.csv", &f.e), ERR_OK);
    refuses(&f, 64, "/nothing/here.csv: No such file");
    setup(&f, 1);
    put(&f,
        "\xFF\xFE"
        "1\0,\0",
        6);
    refuses(&f, 64, "0.csv: it is UTF-16");
    struct bytes packed = bytes_pack((struct bytes){(uint8_t *)(uintptr_t) "1,2\n", 4}, PACK_ZSTD);
    setup(&f, 1);
    put(&f, "1,2\n", 4);
    put(&f, (const char *)packed.data, packed.count - 1);
    put(&f, "1,\"2\n", 5);
    refuses(&f, 64, "1.csv: the zstd data ends early");
    bytes_free(&packed);
}

/* The text of each file, in two members or frames. */
static void put_packed(struct fixture *f, const char *text, size_t bytes, enum packing packing)
{
    struct bytes first = bytes_pack((struct bytes){(uint8_t *)(uintptr_t)text, bytes / 3}, packing),
                 rest = bytes_pack(
                     (struct bytes){(uint8_t *)(uintptr_t)text + bytes / 3, bytes - bytes / 3},
                     packing);
    char *all = malloc(first.count + rest.count);
    assert_non_null(all);
    memcpy(all, first.data, first.count);
    memcpy(all + first.count, rest.data, rest.count);
    put(f, all, first.count + rest.count);
    free(all);
    bytes_free(&first);
    bytes_free(&rest);
}

static void an_index_of_compressed_files_is_that_of_their_text(void **state)
{
    (void)state;
    char *text = malloc(MOST);
    assert_non_null(text);
    for (uint64_t run = 0; run < RUNS; run += 5) {
        const struct csv_grammar g = random_grammar(run + 1);
        const enum packing packing = run % 2 ? PACK_ZSTD : PACK_GZIP;
        const uint64_t cell_bytes = 3 + rng_u64(run, 0) % 300;
        struct fixture plain, packed;
        uint8_t print[2][32], *kept;
        size_t kept_bytes;
        setup(&plain, 2);
        setup(&packed, 2);
        for (uint64_t i = 0; i < 3; i++) {
            const uint64_t many = rng_u64(run, i) % (i == 2 ? MOST : 3000);
            const size_t bytes = random_text(text, many, run * FILES_MOST + i, &g);
            put(&plain, text, bytes);
            if (i == 1)
                put(&packed, text, bytes);
            else
                put_packed(&packed, text, bytes, packing);
        }
        const enum err err = indexes(&plain, &g, run % 2, cell_bytes);
        assert_int_equal(indexes(&packed, &g, run % 2, cell_bytes), err);
        if (err) /* of the same file and line */
            assert_string_equal(strstr(packed.e.text, ".csv") - 1,
                                strstr(plain.e.text, ".csv") - 1);
        for (uint32_t i = 0; i < plain.x.files; i++) {
            const struct text_index_file *a = &plain.x.file[i], *b = &packed.x.file[i];
            assert_int_equal(a->cells, b->cells);
            assert_int_equal(a->bytes, b->bytes);
            assert_int_equal(a->rows, b->rows);
            assert_int_equal(b->compressed, i != 1);
            assert_int_equal(b->stored_bytes, packed.bytes[i]);
            assert_memory_equal(a->entry, b->entry, a->cells * sizeof *a->entry);
        }
        if (!err) {
            struct text_index again;
            fingerprint_of(&plain, print[0]);
            fingerprint_of(&packed, print[1]);
            assert_memory_equal(print[0], print[1], 32);
            assert_int_equal(text_index_pack(&packed.x, 7, &kept, &kept_bytes, &packed.e), ERR_OK);
            assert_int_equal(text_index_unpack(&again, 7, kept, kept_bytes, &packed.e), ERR_OK);
            for (uint32_t i = 0; i < again.files; i++) {
                const struct text_index_file *a = &again.file[i], *b = &packed.x.file[i];
                assert_int_equal(a->stored_bytes, b->stored_bytes);
                assert_int_equal(a->points_bytes, b->points_bytes);
                assert_true(!a->points_bytes || memcmp(a->points, b->points, a->points_bytes) == 0);
            }
            text_index_close(&again);
            mem_free(kept);
        }
        teardown(&plain);
        teardown(&packed);
    }
    free(text);
}

/* One thread has an error at the end of a file while the other has one at the beginning of the next. */
static void the_first_error_in_the_order_of_files_is_told(void **state)
{
    (void)state;
    enum { BYTES = 1 << 20 };
    struct fixture f;
    struct bytes text = {calloc(BYTES, 1), BYTES}, large, small;
    assert_non_null(text.data);
    memset(text.data, '\n', BYTES);
    large = bytes_pack(text, PACK_ZSTD);
    small = bytes_pack((struct bytes){text.data, 4}, PACK_ZSTD);
    setup(&f, 2);
    put(&f, (const char *)large.data, large.count - 1);
    put(&f, (const char *)small.data, small.count - 1);
    refuses(&f, 64, "0.csv: the zstd data ends early");
    bytes_free(&large);
    bytes_free(&small);
    bytes_free(&text);
}

static void a_file_that_changes_after_its_size_was_taken_is_refused(void **state)
{
    (void)state;
    struct fixture f;
    struct text_index_part part = {.cells = 1};
    setup(&f, 1);
    put(&f, "1,2\n3,4\n", 8);
    assert_int_equal(indexes(&f, &quoted, false, 64), ERR_OK);
    assert_int_equal(csv_index_scan(&part, &f.x, f.paths.path[0], &quoted, &f.e), ERR_OK);
    f.x.file[0].modified_ns--;
    assert_int_equal(csv_index_scan(&part, &f.x, f.paths.path[0], &quoted, &f.e), ERR_INPUT);
    assert_non_null(strstr(f.e.text, "0.csv: it changed while it was read"));
    f.x.file[0].modified_ns++;
    f.x.file[0].bytes++;
    assert_int_equal(csv_index_scan(&part, &f.x, f.paths.path[0], &quoted, &f.e), ERR_INPUT);
    assert_non_null(strstr(f.e.text, "0.csv: it became shorter"));
    teardown(&f);
}

static void parts_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    struct text_index x;
    struct errmsg e;
    assert_int_equal(text_index_init(&x, 1, 64, false, &e), ERR_OK);
    assert_int_equal(text_index_size(&x, 0, 100, 0, &e), ERR_OK);
    const struct text_index_part good = {
        .cells = 2, .starts = 1, .cell = {{.lines = 3, .seen = {{.rows = 3}}}}};
    struct text_index_part bad[] = {good, good, good, good, good, good, good, good};
    bad[0].file = 1;
    bad[1].first_cell = 1;
    bad[2].cells = 3;
    bad[3].starts = 2;
    bad[4].end[0] = TEXT_INDEX_STATES;
    bad[5].cell[0].seen[0].rows = 65;
    bad[6].cell[0].seen[0].first = 64;
    bad[7].cell[1].lines = 37;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(text_index_join(&x, &bad[i], &e), ERR_PROTO);
    assert_int_equal(x.file[0].joined, 0);
    assert_int_equal(text_index_join(&x, &good, &e), ERR_OK);
    assert_int_equal(text_index_rows(&x), 3);
    assert_int_equal(text_index_join(&x, &good, &e), ERR_PROTO);
    text_index_close(&x);
}

static void a_peer_s_part_has_no_impossible_value_in_any_state(void **state)
{
    (void)state;
    enum { STATES = 1 | 1 << 4 };
    struct text_index x;
    struct errmsg e;
    assert_int_equal(text_index_init(&x, 1, 64, false, &e), ERR_OK);
    assert_int_equal(text_index_size(&x, 0, 200, 0, &e), ERR_OK);
    const struct text_index_part good = {
        .cells = 2, .first_cell = 2, .starts = STATES, .end = {[4] = 4}, .cell = {{.lines = 3}}};
    struct text_index_part bad[] = {good, good, good, good, good, good, good, good, good};
    bad[0].file = 1;
    bad[1].first_cell = 3;
    bad[2].first_cell = 5;
    bad[3].cells = 0;
    bad[4].cells = TEXT_INDEX_PART_CELLS + 1;
    bad[5].starts = 1;
    bad[6].end[4] = 1;
    bad[7].cell[1].seen[4].rows = 9; /* of 8 bytes */
    bad[8].first_cell = 0;
    assert_int_equal(text_index_check(&x, &good, STATES, &e), ERR_OK);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (text_index_check(&x, &bad[i], STATES, &e) != ERR_PROTO)
            fail_msg("case %zu", i);
    /* a file begins with a record: text_index_find relies on it */
    struct text_index_part of_begin[] = {bad[8], bad[8], bad[8]};
    for (size_t i = 0; i < 3; i++)
        of_begin[i].starts = 1;
    of_begin[0].cell[0].seen[0].first = TEXT_INDEX_NONE;
    of_begin[1].cell[0].seen[0] = (struct text_index_seen){.first = 5, .rows_before = 1, .rows = 2};
    of_begin[1].cell[0].lines = 5;
    assert_int_equal(text_index_check(&x, &of_begin[0], STATES, &e), ERR_PROTO);
    assert_int_equal(text_index_check(&x, &of_begin[1], STATES, &e), ERR_PROTO);
    assert_int_equal(text_index_check(&x, &of_begin[2], STATES, &e), ERR_OK);
    text_index_close(&x);
    assert_int_equal(text_index_init(&x, 1, 64, false, &e), ERR_OK);
    assert_int_equal(text_index_size(&x, 0, 3, 0, &e), ERR_OK);
    struct text_index_part of_mark = {
        .cells = 1, .starts = 1, .cell = {{.seen = {{.first = TEXT_INDEX_NONE}}}}};
    assert_int_equal(text_index_check(&x, &of_mark, STATES, &e), ERR_OK);
    of_mark.end[0] = 4;
    assert_int_equal(text_index_check(&x, &of_mark, STATES, &e), ERR_PROTO);
    of_mark.end[0] = 0;
    of_mark.cell[0].seen[0].rows = 1;
    assert_int_equal(text_index_check(&x, &of_mark, STATES, &e), ERR_PROTO);
    text_index_close(&x);
}

/* ---- parts that are dealt ---- */

/* A worker that scans what it gets, leaves, answers nonsense, or comes too late. */
struct dealt_worker {
    pthread_t thread;
    const struct fixture *f;
    const struct csv_grammar *g;
    const struct text_index *x; /* its own */
    uint64_t run, by, parts;
    atomic_bool quit;
};

/* By as much as a worker may have a part. */
static int64_t later_ms(void)
{
    static atomic_uint calls;
    return clock_now_ms() + INDEX_DEALS_LATE_MS * (int64_t)++calls;
}

static void *work(void *ctx)
{
    struct dealt_worker *w = ctx;
    for (uint64_t i = 0; !w->quit; i++) {
        struct index_deal deal;
        struct errmsg e = {""};
        if (!index_deal_next(w->by, &deal)) {
            index_deals_time(later_ms()); /* for parts that it has and never answers */
            sched_yield();
            continue;
        }
        struct text_index_part p = {
            .file = deal.file, .first_cell = deal.first_cell, .cells = deal.cells};
        uint8_t bytes[INDEX_PART_BYTES];
        assert_int_equal(deal.file_bytes, w->x->file[p.file].bytes);
        assert_int_equal(csv_index_scan(&p, w->x, w->f->paths.path[p.file], w->g, &e), ERR_OK);
        switch (rng_u64(w->run, 100 * w->by + i) % 8) {
        case 0: /* it is lost, and what it says is not waited for */
            index_deal_left(w->by);
            break;
        case 1:
            p.cells++;
            memcpy(bytes, &p, sizeof p);
            p.cells--;
            if (index_deal_answered(deal.number, bytes, &e)) /* else the other one was late */
                assert_non_null(strstr(e.text, "other cells than those that were dealt"));
            p.starts = 0;
            memcpy(bytes, &p, sizeof p);
            if (index_deal_answered(deal.number, bytes, &e))
                assert_non_null(strstr(e.text, "it is scanned from other states"));
            if (!index_deal_next(w->by, &deal))
                break;
            p = (struct text_index_part){
                .file = deal.file, .first_cell = deal.first_cell, .cells = deal.cells};
            assert_int_equal(csv_index_scan(&p, w->x, w->f->paths.path[p.file], w->g, &e), ERR_OK);
            for (uint32_t k = 0; k < p.cells; k++)
                p.cell[k].sum++; /* of a copy with other bytes, which the chief compares */
            memcpy(bytes, &p, sizeof p);
            if (index_deal_answered(deal.number, bytes, &e))
                assert_non_null(strstr(e.text, "has other bytes than the chief's"));
            index_deal_left(w->by);
            break;
        case 2: /* never */
            index_deals_time(later_ms());
            break;
        case 3: /* too late, perhaps */
            index_deals_time(later_ms());
            clock_sleep_ms(1);
            /* fall through */
        default:
            memcpy(bytes, &p, sizeof p);
            assert_int_equal(index_deal_answered(deal.number, bytes, &e), ERR_OK);
            w->parts++;
        }
    }
    index_deal_left(w->by);
    return NULL;
}

static void an_index_is_the_same_bytes_with_workers_that_scan_parts_of_it(void **state)
{
    (void)state;
    enum { DEALT_RUNS = 60, WORKERS = 2 };
    struct fixture f;
    char *text = malloc(MOST);
    uint64_t parts = 0;
    assert_non_null(text);
    setup(&f, 2);
    for (uint64_t run = 0; run < DEALT_RUNS; run++) {
        struct csv_grammar g = random_grammar(run);
        struct dealt_worker w[WORKERS];
        struct text_index alone;
        uint8_t *want, *got;
        size_t want_bytes, bytes;
        const uint64_t cell_bytes = 8 + rng_u64(run, 0) % 60;
        for (uint64_t i = 0; i < 3; i++)
            put(&f, text, random_text(text, i == 1 ? MOST : 600, run * FILES_MOST + i, &g));
        const enum err expected = indexes(&f, &g, false, cell_bytes);
        struct errmsg why = f.e;
        if (expected) { /* a quote is open at the end: sizes alone, for the workers */
            assert_int_equal(text_index_init(&f.x, 3, cell_bytes, false, &f.e), ERR_OK);
            struct stat st;
            for (uint32_t i = 0; i < 3; i++)
                assert_int_equal(stat(f.paths.path[i], &st) |
                                     (int)text_index_size(&f.x, i, (uint64_t)st.st_size,
                                                          st.st_mtim.tv_sec * INT64_C(1000000000) +
                                                              st.st_mtim.tv_nsec,
                                                          &f.e),
                                 0);
        }
        alone = f.x;
        for (size_t i = 0; i < WORKERS; i++) {
            w[i] = (struct dealt_worker){.f = &f, .g = &g, .x = &alone, .run = run, .by = i + 1};
            assert_int_equal(pthread_create(&w[i].thread, NULL, work, &w[i]), 0);
        }
        const enum err err = indexes(&f, &g, false, cell_bytes);
        for (size_t i = 0; i < WORKERS; i++) {
            w[i].quit = true;
            pthread_join(w[i].thread, NULL);
            parts += w[i].parts;
        }
        assert_int_equal(err, expected);
        if (err) {
            assert_string_equal(f.e.text, why.text);
            f.x = alone;
        } else {
            assert_int_equal(text_index_pack(&alone, 1, &want, &want_bytes, &f.e), ERR_OK);
            assert_int_equal(text_index_pack(&f.x, 1, &got, &bytes, &f.e), ERR_OK);
            assert_int_equal(bytes, want_bytes);
            assert_memory_equal(got, want, bytes);
            mem_free(got);
            mem_free(want);
            text_index_close(&alone);
        }
        forget(&f);
    }
    assert_in_range(parts, DEALT_RUNS, UINT64_MAX);
    teardown(&f);
    free(text);
}

/* ---- as bytes, and kept in a file ---- */

static void an_index_is_the_same_from_its_bytes(void **state)
{
    (void)state;
    struct fixture f;
    char text[3000];
    uint8_t *packed, *again;
    size_t bytes, again_bytes;
    setup(&f, 2);
    for (uint64_t i = 0; i < 2; i++)
        put(&f, text, random_text(text, sizeof text, 1 + 3 * i, &quoted));
    put(&f, "", 0);
    struct csv_grammar g = quoted;
    g.quotes = false;
    assert_int_equal(indexes(&f, &g, true, 50), ERR_OK);
    assert_int_equal(text_index_pack(&f.x, 7, &packed, &bytes, &f.e), ERR_OK);
    struct text_index x;
    assert_int_equal(text_index_unpack(&x, 8, packed, bytes, &f.e), ERR_NOTFOUND);
    assert_int_equal(text_index_unpack(&x, 7, packed, bytes, &f.e), ERR_OK);
    assert_int_equal(text_index_rows(&x), text_index_rows(&f.x));
    assert_int_equal(text_index_pack(&x, 7, &again, &again_bytes, &f.e), ERR_OK);
    assert_int_equal(again_bytes, bytes);
    assert_memory_equal(again, packed, bytes);
    text_index_close(&x);
    mem_free(again);
    mem_free(packed);
    teardown(&f);
}

/* As a sender would make it. */
static void sum_again(uint8_t *packed, size_t bytes)
{
    enum { SUM_AT = 8, SUMMED = 16 };
    const uint64_t sum = bytes > SUMMED ? XXH3_64bits(packed + SUMMED, bytes - SUMMED) : 0;
    memcpy(packed + SUM_AT, &sum, sizeof sum);
}

static void bytes_with_one_that_differs_are_refused(void **state)
{
    (void)state;
    struct fixture f;
    struct text_index x;
    uint8_t *packed;
    size_t bytes;
    setup(&f, 1);
    put(&f, "1,2\n3,4\n", 8);
    assert_int_equal(indexes(&f, &quoted, false, 64), ERR_OK);
    assert_int_equal(text_index_pack(&f.x, 7, &packed, &bytes, &f.e), ERR_OK);
    struct text_index_entry *entry =
        (struct text_index_entry *)(void *)(packed + bytes - sizeof *entry);
    assert_int_equal(entry->sum, f.x.file[0].entry[0].sum);
    entry->sum++;
    assert_int_equal(text_index_unpack(&x, 7, packed, bytes, &f.e), ERR_CORRUPT);
    sum_again(packed, bytes);
    assert_int_equal(text_index_unpack(&x, 7, packed, bytes, &f.e), ERR_OK);
    text_index_close(&x);
    entry->first = TEXT_INDEX_NONE; /* row 0 begins nowhere */
    sum_again(packed, bytes);
    assert_int_equal(text_index_unpack(&x, 7, packed, bytes, &f.e), ERR_CORRUPT);
    mem_free(packed);
    teardown(&f);
}

/* The bytes of a peer, or of another program: their checksum can be right. */
static void damaged_bytes_are_refused_or_find_rows_within_their_files(void **state)
{
    (void)state;
    enum { TRIES = 20000 };
    struct fixture f;
    char text[3000];
    uint8_t *packed;
    size_t bytes;
    unsigned refused = 0;
    setup(&f, 2);
    put(&f, text, random_text(text, sizeof text, 1, &quoted));
    put_packed(&f, text, random_text(text, sizeof text, 4, &quoted), PACK_ZSTD);
    struct csv_grammar g = quoted;
    g.quotes = false;
    assert_int_equal(indexes(&f, &g, true, 50), ERR_OK);
    assert_int_equal(text_index_pack(&f.x, 7, &packed, &bytes, &f.e), ERR_OK);
    uint8_t *copy = malloc(bytes);
    assert_non_null(copy);
    for (uint64_t i = 0; i < TRIES; i++) {
        struct text_index x;
        size_t left = i % 9 ? bytes : rng_u64(i, 0) % bytes;
        memcpy(copy, packed, bytes);
        for (uint64_t k = 0; k <= rng_u64(i, 1) % 3; k++)
            copy[rng_u64(i, 2 + k) % bytes] = (uint8_t)(rng_u64(i, 9 + k) >> (k ? 0 : 60));
        if (i % 5)
            sum_again(copy, left);
        const enum err err = text_index_unpack(&x, 7, copy, left, &f.e);
        refused += err != ERR_OK;
        for (uint64_t row = 0; !err && row < text_index_rows(&x) && row < 5000; row += 7) {
            const struct text_index_place p = text_index_find(&x, row);
            assert_true(p.at < x.file[p.file].bytes && p.left > 0);
        }
        if (!err)
            text_index_close(&x);
    }
    assert_in_range(refused, TRIES / 4, TRIES - 100);
    free(copy);
    mem_free(packed);
    teardown(&f);
}

static void an_index_is_kept_while_names_sizes_and_times_agree(void **state)
{
    (void)state;
    struct fixture f;
    char kept[300];
    setup(&f, 2);
    put(&f, "1,2\n3,4\n", 8);
    snprintf(kept, sizeof kept, "%s/index", f.files.dir);
    struct text_index first, x;
    const uint64_t cell = 64;
    assert_int_equal(
        csv_index(&first, &f.paths, &quoted, false, cell, CSV_PIECE_BYTES, kept, f.pool, &f.e),
        ERR_OK);
    const int64_t modified_ns = first.file[0].modified_ns;
    const struct timespec times[] = {
        {.tv_nsec = UTIME_OMIT},
        {.tv_sec = modified_ns / 1000000000, .tv_nsec = modified_ns % 1000000000}};
    idx_files_write(&f.files, "0.csv", (struct bytes){(uint8_t *)(uintptr_t) "1,2,3,4\n", 8});
    assert_int_equal(utimensat(AT_FDCWD, f.paths.path[0], times, 0), 0);
    assert_int_equal(
        csv_index(&x, &f.paths, &quoted, false, cell, CSV_PIECE_BYTES, kept, f.pool, &f.e), ERR_OK);
    assert_int_equal(text_index_rows(&x), 2); /* it was not read again */
    assert_int_equal(x.file[0].entry[0].sum, first.file[0].entry[0].sum);
    text_index_close(&x);
    struct csv_grammar other = quoted;
    other.delimiter = ';';
    assert_int_equal(
        csv_index(&x, &f.paths, &other, false, cell, CSV_PIECE_BYTES, kept, f.pool, &f.e), ERR_OK);
    assert_int_equal(text_index_rows(&x), 1);
    text_index_close(&x);
    assert_int_equal(
        csv_index(&x, &f.paths, &quoted, true, cell, CSV_PIECE_BYTES, kept, f.pool, &f.e), ERR_OK);
    assert_int_equal(text_index_rows(&x), 0); /* other keys */
    text_index_close(&x);
    assert_int_equal(
        csv_index(&x, &f.paths, &quoted, false, cell, CSV_PIECE_BYTES, kept, f.pool, &f.e), ERR_OK);
    assert_int_equal(text_index_rows(&x), 1);
    text_index_close(&x);
    idx_files_write(&f.files, "0.csv", (struct bytes){(uint8_t *)(uintptr_t) "1,2\n3,4\n", 8});
    const struct timespec later[] = {times[0],
                                     {.tv_sec = times[1].tv_sec + 1, .tv_nsec = times[1].tv_nsec}};
    assert_int_equal(utimensat(AT_FDCWD, f.paths.path[0], later, 0), 0);
    assert_int_equal(
        csv_index(&x, &f.paths, &quoted, false, cell, CSV_PIECE_BYTES, kept, f.pool, &f.e), ERR_OK);
    assert_int_equal(text_index_rows(&x), 2);
    text_index_close(&x);
    idx_files_write(&f.files, "index", (struct bytes){(uint8_t *)(uintptr_t) "damaged", 7});
    assert_int_equal(
        csv_index(&x, &f.paths, &quoted, false, cell, CSV_PIECE_BYTES, kept, f.pool, &f.e), ERR_OK);
    text_index_close(&x);
    text_index_close(&first);
    teardown(&f);
}

/* Files of another host have other names and other times. */
static void an_index_is_taken_for_the_same_files_elsewhere(void **state)
{
    (void)state;
    struct fixture f;
    char kept[300];
    const struct timespec epoch[] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = 1}};
    uint8_t *packed;
    size_t bytes;
    struct text_index x, again;
    const uint64_t cell = 64;
    setup(&f, 2);
    put(&f, "1,2\n3,4\n", 8);
    snprintf(kept, sizeof kept, "%s/index", f.files.dir);
    assert_int_equal(
        csv_index(&x, &f.paths, &quoted, false, cell, CSV_PIECE_BYTES, kept, f.pool, &f.e), ERR_OK);
    assert_int_equal(files_read(kept, 1 << 20, &packed, &bytes, &f.e), ERR_OK);
    idx_files_write(&f.files, "b.csv", (struct bytes){(uint8_t *)(uintptr_t) "1,2\n3,4\n", 8});
    paths_close(&f.paths);
    f.paths = (struct paths){0};
    const char *there = idx_files_path(&f.files, "b.csv");
    assert_int_equal(paths_add(&f.paths, there, &f.e), ERR_OK);
    assert_int_equal(utimensat(AT_FDCWD, there, epoch, 0), 0);
    assert_int_equal(
        csv_index_of_chief(&again, &f.paths, &quoted, false, cell, packed, bytes, &f.e), ERR_OK);
    assert_int_equal(text_index_rows(&again), 2);
    assert_int_equal(again.file[0].modified_ns, 1000000000); /* so that later changes are seen */
    text_index_close(&again);
    /* not for others: other cells, another number of files, another size, no file */
    assert_int_equal(csv_index_of_chief(&again, &f.paths, &quoted, true, cell, packed, bytes, &f.e),
                     ERR_NOTFOUND);
    assert_int_equal(csv_index_of_chief(&again, &f.paths, &quoted, false, 128, packed, bytes, &f.e),
                     ERR_NOTFOUND);
    idx_files_write(&f.files, "b.csv", (struct bytes){(uint8_t *)(uintptr_t) "1,2\n3,4,\n", 9});
    assert_int_equal(
        csv_index_of_chief(&again, &f.paths, &quoted, false, cell, packed, bytes, &f.e), ERR_INPUT);
    assert_non_null(strstr(f.e.text, "9 bytes here, and 8 at the chief"));
    unlink(there);
    assert_int_equal(
        csv_index_of_chief(&again, &f.paths, &quoted, false, cell, packed, bytes, &f.e), ERR_INPUT);
    assert_non_null(strstr(f.e.text, "b.csv: No such file"));
    assert_int_equal(paths_add(&f.paths, there, &f.e), ERR_OK);
    assert_int_equal(
        csv_index_of_chief(&again, &f.paths, &quoted, false, cell, packed, bytes, &f.e), ERR_INPUT);
    assert_non_null(strstr(f.e.text, "2 files here, and 1 at the chief"));
    free(f.text[0]);
    paths_close(&f.paths);
    f.paths = (struct paths){0};
    mem_free(packed);
    text_index_close(&x);
    teardown(&f);
}

/* It says which cells and headers it has, and the hash that it says does not prove it. */
static void an_index_that_contradicts_itself_is_refused(void **state)
{
    (void)state;
    enum { CELL_BYTES_AT = 32, HEADERS_AT = 40 };
    struct fixture f;
    char kept[300];
    uint8_t *packed;
    size_t bytes;
    struct text_index x;
    setup(&f, 2);
    put(&f, "1,2\n3,4\n", 8);
    snprintf(kept, sizeof kept, "%s/index", f.files.dir);
    assert_int_equal(
        csv_index(&x, &f.paths, &quoted, false, 64, CSV_PIECE_BYTES, kept, f.pool, &f.e), ERR_OK);
    text_index_close(&x);
    assert_int_equal(files_read(kept, 1 << 20, &packed, &bytes, &f.e), ERR_OK);
    assert_int_equal(packed[CELL_BYTES_AT], 64);
    packed[CELL_BYTES_AT] = 32;
    sum_again(packed, bytes);
    assert_int_equal(csv_index_of_chief(&x, &f.paths, &quoted, false, 64, packed, bytes, &f.e),
                     ERR_CORRUPT);
    packed[CELL_BYTES_AT] = 64;
    packed[HEADERS_AT] = 1;
    sum_again(packed, bytes);
    assert_int_equal(csv_index_of_chief(&x, &f.paths, &quoted, false, 64, packed, bytes, &f.e),
                     ERR_CORRUPT);
    mem_free(packed);
    teardown(&f);
}

static void an_index_fails_cleanly_at_each_allocation(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f, 1);
    put(&f, "1,2\n", 4);
    put_packed(&f, "3,4\n", 4, PACK_GZIP);
    enum err err = ERR_NOMEM;
    for (long n = 0; err; n++) {
        mem_fail_at(n);
        err = indexes(&f, &quoted, false, 64);
        const int fired = mem_fail_fired();
        mem_fail_at(-1);
        assert_int_equal(err, fired ? ERR_NOMEM : ERR_OK);
    }
    assert_int_equal(text_index_rows(&f.x), 2);
    teardown(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_index_has_the_rows_of_a_scan_from_the_beginning),
        cmocka_unit_test(an_index_has_as_many_rows_as_the_reader_reads),
        cmocka_unit_test(a_fingerprint_is_that_of_the_bytes_for_any_number_of_threads),
        cmocka_unit_test(a_quote_that_is_never_closed_is_refused_with_its_line),
        cmocka_unit_test(a_row_that_covers_a_cell_of_a_piece_s_size_is_refused),
        cmocka_unit_test(files_that_cannot_be_indexed_are_refused_by_name),
        cmocka_unit_test(an_index_of_compressed_files_is_that_of_their_text),
        cmocka_unit_test(the_first_error_in_the_order_of_files_is_told),
        cmocka_unit_test(a_file_that_changes_after_its_size_was_taken_is_refused),
        cmocka_unit_test(parts_that_do_not_fit_are_refused),
        cmocka_unit_test(a_peer_s_part_has_no_impossible_value_in_any_state),
        cmocka_unit_test(an_index_is_the_same_bytes_with_workers_that_scan_parts_of_it),
        cmocka_unit_test(an_index_is_the_same_from_its_bytes),
        cmocka_unit_test(bytes_with_one_that_differs_are_refused),
        cmocka_unit_test(damaged_bytes_are_refused_or_find_rows_within_their_files),
        cmocka_unit_test(an_index_is_kept_while_names_sizes_and_times_agree),
        cmocka_unit_test(an_index_is_taken_for_the_same_files_elsewhere),
        cmocka_unit_test(an_index_that_contradicts_itself_is_refused),
        cmocka_unit_test(an_index_fails_cleanly_at_each_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
