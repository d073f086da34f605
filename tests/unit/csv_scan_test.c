#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/math/kernels.h"
#include "common/base/rng.h"
#include "data/text/csv_scan.h"

enum { MOST = 700, RUNS = 3000 };

struct texts {
    char text[MOST + CSV_SCAN_PAD];
    uint32_t wanted[MOST + CSV_SCAN_PAD], got[MOST + CSV_SCAN_PAD];
};

/* Bytes that matter, often enough; behind them what must not be seen. */
static size_t random_text(struct texts *t, uint64_t run, const struct csv_grammar *g)
{
    const char often[] = {g->delimiter, '\n',         '"',  'x', ' ', '#', '\\', '"',
                          '\r',         g->delimiter, '\t', '"', '"', ',', '\n', '\0'};
    size_t bytes = rng_u64(run, 0) % (MOST + 1);
    uint64_t rare = rng_u64(run, 1) % 40 + 1;
    for (size_t i = 0; i < bytes; i++) {
        uint64_t bits = rng_u64(run, 2 + i);
        t->text[i] = bits % rare == 0 ? often[bits >> 32 & 15] : (char)(bits >> 40 | 0x80);
    }
    memset(t->text + bytes, g->delimiter, sizeof t->text - bytes);
    return bytes;
}

/* Text as programs write it: each quote is where it belongs. */
static size_t written_text(struct texts *t, uint64_t run, const struct csv_grammar *g)
{
    static const char *const fields[] = {"\"a\"",
                                         "\"b,;c\\td| e\"",
                                         "\"q\"\"q\"\"\"",
                                         "\"\"",
                                         "",
                                         "1.5",
                                         "a long text without quotes",
                                         "\"two\nlines\""};
    size_t bytes = 0;
    for (uint64_t i = 2; bytes < MOST - 64; i++) {
        uint64_t bits = rng_u64(run, i);
        const char *blanks = g->trim && bits >> 20 & 1 ? " " : "", *field = fields[bits & 7];
        bytes += (size_t)snprintf(t->text + bytes, MOST - bytes, "%s%s%c", blanks, field,
                                  bits >> 24 & 3 ? g->delimiter : '\n');
    }
    memset(t->text + bytes, g->delimiter, sizeof t->text - bytes);
    return bytes;
}

/* ---- the rules once more, a field at a time ---- */

struct reader {
    const struct csv_grammar *g;
    const char *p, *end;
};

static bool take_escape(struct reader *r)
{
    if (!r->g->escape || r->p == r->end || *r->p != r->g->escape)
        return false;
    r->p += r->end - r->p > 1 ? 2 : 1;
    return true;
}

/* p moves to the end of the field. */
static void read_field(struct reader *r)
{
    bool after = false;
    while (r->g->trim && r->p < r->end && csv_is_blank(r->g, *r->p))
        r->p++;
    if (r->g->quotes && r->p < r->end && *r->p == '"') {
        for (r->p++; r->p < r->end; r->p++) {
            if (take_escape(r)) {
                r->p--;
            } else if (*r->p == '"') {
                if (r->p + 1 == r->end || r->p[1] != '"')
                    break;
                r->p++;
            }
        }
        r->p += r->p < r->end;
        after = true; /* here an escape is a byte */
    }
    while (r->p < r->end && *r->p != '\n' && *r->p != r->g->delimiter) {
        if (after || !take_escape(r))
            r->p++;
        after = false;
    }
}

static size_t scan_by_fields(uint32_t *at, const char *text, size_t bytes,
                             const struct csv_grammar *g)
{
    struct reader r = {g, text, text + bytes};
    size_t n = 0;
    for (bool row = true; r.p < r.end; r.p++) {
        size_t left = (size_t)(r.end - r.p);
        bool comment = row && g->comment_bytes && left >= g->comment_bytes &&
                       memcmp(r.p, g->comment, g->comment_bytes) == 0;
        if (comment)
            r.p = memchr(r.p, '\n', left) ? (const char *)memchr(r.p, '\n', left) : r.end;
        else
            read_field(&r);
        if (r.p >= r.end)
            break;
        row = *r.p == '\n';
        at[n++] = (uint32_t)(r.p - text);
    }
    return n;
}

/* Of the marks in a comment only the last one, at its end, matters. */
static size_t without_comments(uint32_t *at, size_t n, const char *text,
                               const struct csv_grammar *g)
{
    size_t kept = 0, begin = 0;
    for (size_t i = 0; i < n; i++) {
        bool comment = g->comment_bytes && text[begin] == *g->comment, ends = text[at[i]] == '\n';
        if (!comment || ends)
            at[kept++] = at[i];
        if (ends)
            begin = at[i] + (size_t)1;
    }
    return kept;
}

static void scan_is_the_same_at_every_level_as_a_field_at_a_time(void **state)
{
    (void)state;
    static const char delimiters[] = {',', '\t', ';', '|', ' '};
    struct texts *t = calloc(1, sizeof *t);
    assert_non_null(t);
    for (int level = KERNELS_BASE; level <= KERNELS_AVX512; level++) {
        if (!kernels_use((enum kernels_level)level))
            continue;
        for (uint64_t run = 0; run < RUNS; run++) {
            struct csv_grammar g = {.delimiter = delimiters[run % sizeof delimiters],
                                    .quotes = run % 3,
                                    .trim = run % 4 == 1,
                                    .escape = run % 7 == 2 ? '\\' : '\0',
                                    .comment = "#",
                                    .comment_bytes = run % 5 == 3};
            size_t bytes = run & 8 ? random_text(t, run, &g) : written_text(t, run, &g);
            size_t wanted = scan_by_fields(t->wanted, t->text, bytes, &g);
            size_t got = csv_scan(t->got, t->text, bytes, &g);
            size_t row = 0;
            while (row < got && t->text[t->got[row]] != '\n')
                row++;
            assert_int_equal(csv_scan_row(t->text, bytes, &g), row < got ? t->got[row] + 1 : 0);
            got = without_comments(t->got, got, t->text, &g);
            if (got != wanted || memcmp(t->got, t->wanted, got * sizeof *t->got) != 0)
                fail_msg("level %d, run %d", level, (int)run);
        }
    }
    free(t);
}

/* Of text whose last field ends at a mark, or has no quote. */
static bool is_neat(const char *text, const uint32_t *at, size_t n, size_t bytes,
                    const struct csv_grammar *g)
{
    size_t begin = 0;
    for (size_t i = 0; i < n && g->quotes; begin = at[i++] + (size_t)1) {
        const char *field = text + begin;
        const size_t end =
            at[i] - (at[i] > begin && text[at[i]] == '\n' && text[at[i] - 1] == '\r');
        const size_t last = end - begin - 1;
        const bool opens = end > begin && *field == '"';
        if (opens ? last < 1 || field[last] != '"' || memchr(field + 1, '"', last - 1)
                  : memchr(field, '"', at[i] - begin) != NULL)
            return false;
    }
    return !g->quotes || !memchr(text + begin, '"', bytes - begin);
}

static void quotes_are_neat_if_each_field_with_one_has_two_at_its_ends(void **state)
{
    (void)state;
    struct texts *t = calloc(1, sizeof *t);
    uint64_t neat_runs = 0;
    assert_non_null(t);
    for (int level = KERNELS_BASE; level <= KERNELS_AVX512; level++) {
        if (!kernels_use((enum kernels_level)level))
            continue;
        for (uint64_t run = 0; run < 2 * RUNS; run++) {
            static const char *const fields[] = {"\"a\"", "\"b,\nc\"",  "",     "1.5",
                                                 "\"\"",  "\"a\"\"b\"", "a\"b", "\"a\"b"};
            struct csv_grammar g = {.delimiter = ',', .quotes = run % 5};
            size_t bytes = 0, rare = rng_u64(run, 0) % 100 + 1;
            bool neat;
            for (uint64_t i = 1; bytes < rng_u64(run, 1) % (MOST - 16); i++) {
                uint64_t bits = rng_u64(run, 1 + i);
                bytes += (size_t)sprintf(
                    t->text + bytes, "%s%s",
                    fields[bits >> 8 & (bits >> 16 & 255) % rare ? 3 : bits & 7 >> (run & 1)],
                    bits >> 32 & 3                     ? ","
                    : run & 2 && (bits >> 34) % rare   ? "\r\n"
                    : run & 4 && !((bits >> 40) & 255) ? "\r"
                                                       : "\n");
            }
            memset(t->text + bytes, '"', sizeof t->text - bytes);
            size_t n = csv_scan_neat(t->got, t->text, bytes, &g, &neat);
            const bool whole = n && t->got[n - 1] + 1 == bytes;
            const bool wanted = is_neat(t->text, t->got, n, bytes, &g);
            if (whole ? neat != wanted
                      : neat && n && !is_neat(t->text, t->got, n, t->got[n - 1] + 1, &g))
                fail_msg("level %d, run %d", level, (int)run);
            neat_runs += neat && g.quotes && memchr(t->text, '"', bytes);
        }
    }
    assert_true(neat_runs > RUNS / 10);
    free(t);
}

/* The marks of rows alone, as csv_scan finds them. */
static size_t row_marks(uint32_t *at, size_t n, const char *text)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (text[at[i]] == '\n')
            at[kept++] = at[i];
    return kept;
}

static void rows_end_at_the_same_places_however_the_text_is_cut(void **state)
{
    (void)state;
    struct texts *t = calloc(1, sizeof *t);
    assert_non_null(t);
    for (int level = KERNELS_BASE; level <= KERNELS_AVX512; level++) {
        if (!kernels_use((enum kernels_level)level))
            continue;
        for (uint64_t run = 0; run < RUNS; run++) {
            struct csv_grammar g = {.delimiter = ',',
                                    .quotes = run % 3,
                                    .trim = run % 4 == 1,
                                    .escape = run % 7 == 2 ? '\\' : '\0',
                                    .comment = "##",
                                    .comment_bytes = run % 5 == 3 ? 2 : 0};
            enum csv_place place = PLACE_ROW;
            size_t bytes = run & 8 ? random_text(t, run, &g) : written_text(t, run, &g);
            for (size_t i = 0; i + 2 < bytes && g.comment_bytes; i++)
                if (t->text[i] == '\n' && rng_u64(run, i) % 3)
                    t->text[i + 1] = t->text[i + 2] = '#';
            size_t wanted = csv_scan(t->wanted, t->text, bytes, &g), n = 0;
            wanted = row_marks(t->wanted, wanted, t->text);
            for (size_t at = 0, end; at < bytes; at = end) {
                end = at + 1 + rng_u64(run, MOST + at) % (run % 2 ? 150 : 9);
                end = end < bytes ? end : bytes;
                const size_t more = bytes - end < 2 ? bytes - end : 2;
                size_t got = csv_scan_rows(t->got + n, t->text + at, end - at, more, &g, &place);
                for (; got; got--)
                    t->got[n++] += (uint32_t)at;
            }
            if (n != wanted || memcmp(t->got, t->wanted, n * sizeof *t->got) != 0)
                fail_msg("level %d, run %d", level, (int)run);
        }
    }
    free(t);
}

static void marks_are(const struct csv_grammar *g, const char *line, const uint32_t *wanted,
                      size_t n)
{
    char text[64 + CSV_SCAN_PAD] = "";
    uint32_t at[64 + CSV_SCAN_PAD];
    memcpy(text, line, strlen(line));
    assert_int_equal(csv_scan(at, text, strlen(line), g), n);
    assert_memory_equal(at, wanted, n * sizeof *at);
}
#define MARKS(g, text, ...)                                                                        \
    do {                                                                                           \
        const uint32_t wanted[] = {__VA_ARGS__};                                                   \
        marks_are(g, text, wanted, sizeof wanted / sizeof *wanted);                                \
    } while (0)

static void a_quote_counts_only_where_a_field_begins(void **state)
{
    (void)state;
    struct csv_grammar plain = {.delimiter = ','}, quotes = {.delimiter = ',', .quotes = true},
                       trim = quotes, escape = quotes, comment = quotes;
    trim.trim = true;
    escape.escape = '\\';
    comment.comment = "#";
    comment.comment_bytes = 1;
    MARKS(&quotes, "a,\"b,\n\"\"\",c\n\"d\n", 1, 9, 11);
    MARKS(&plain, "a,\"b,\n\"\"\",c\n\"d\n", 1, 4, 5, 9, 11, 14);
    MARKS(&quotes, "12\" pipe,1\n\"a\"b\"c,d\"\n", 8, 10, 17, 20);
    MARKS(&quotes, "a, \"b,c\"\n", 1, 5, 8);
    MARKS(&trim, "a, \t\"b,c\" ,d\n", 1, 10, 12);
    MARKS(&escape, "a\\,b,\"c\\\",d\"\\,e\n", 4, 13, 15);
    MARKS(&comment, "# it's 12\"\n\"a\n#\",b\n", 10, 16, 18);
}

static void findings_are_of_the_end_and_of_carriage_returns(void **state)
{
    (void)state;
    const struct csv_grammar g = {.delimiter = ',', .quotes = true, .escape = '\\'};
    struct csv_findings found = csv_scan_findings("a,\"b\r\"\"\n,", 9, &g);
    assert_true(found.quote == 2 && found.cr == 9 && found.marks == 1 && !found.escape);
    found = csv_scan_findings("\"a\"\r,\\", 6, &g);
    assert_true(found.quote == 6 && found.cr == 3 && found.marks == 1 && found.escape);
    found = csv_scan_findings("a\\\rb", 4, &g);
    assert_true(found.quote == 4 && found.cr == 4 && !found.escape);
}

static void count_counts_every_byte(void **state)
{
    (void)state;
    enum { BYTES = 100000 };
    char *text = malloc(BYTES);
    assert_non_null(text);
    for (int level = KERNELS_BASE; level <= KERNELS_AVX512; level++) {
        if (!kernels_use((enum kernels_level)level))
            continue;
        memset(text, 'x', BYTES);
        assert_int_equal(csv_count(text, BYTES, 'x'), BYTES);
        assert_int_equal(csv_count(text, BYTES, '\n'), 0);
        assert_int_equal(csv_count(text, 0, 'x'), 0);
        text[4095] = text[4096] = text[BYTES - 1] = '\n';
        assert_int_equal(csv_count(text, BYTES, '\n'), 3);
        assert_int_equal(csv_count(text + 1, BYTES - 2, '\n'), 2);
    }
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_end_at_the_same_places_however_the_text_is_cut),
        cmocka_unit_test(scan_is_the_same_at_every_level_as_a_field_at_a_time),
        cmocka_unit_test(quotes_are_neat_if_each_field_with_one_has_two_at_its_ends),
        cmocka_unit_test(a_quote_counts_only_where_a_field_begins),
        cmocka_unit_test(findings_are_of_the_end_and_of_carriage_returns),
        cmocka_unit_test(count_counts_every_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
