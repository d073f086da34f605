/* libFuzzer: rows of csv are those that a simple reader finds, a byte at a time: which lines are rows, which of them are bad, and the
 * word and the numbers of the others. Input: the grammar (a byte), then the text. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/base/log.h"
#include "data/dataset.h"

enum { FIELDS = 3, GRAMMARS = 16 };

struct grammar {
    bool quotes, escape, trim, comment;
};

struct text {
    char *at;
    size_t bytes;
};

/* The rest of a text, which ends with a newline and a NUL. */
struct input {
    struct grammar g;
    char *at, *end;
    bool open; /* it ends within quotes, or behind an escape */
};

static void must(int ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "%s\n", what);
    abort();
}

/* ---- the simple reader ---- */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static bool ends_row(const char *at)
{
    return *at == '\n' || (*at == '\r' && at[1] == '\n');
}

/* A field as it stands. *bad: a CR is neither in quotes nor part of a line's end. */
static struct text read_field(struct input *in, bool *bad)
{
    char *begin = in->at, *at = begin;
    while (in->g.trim && is_blank(*at))
        at++;
    bool inside = in->g.quotes && *at == '"';
    for (at += inside; at < in->end; at++)
        if (in->g.escape && *at == '\\')
            at++;
        else if (inside && *at == '"' && at[1] == '"')
            at++;
        else if (inside)
            at += !(inside = *at != '"') && at[1] == '\\'; /* directly behind quotes it is text */
        else if (*at == ',' || ends_row(at))
            break;
        else
            *bad |= *at == '\r';
    in->open |= at >= in->end;
    in->at = at;
    return (struct text){begin, (size_t)(at - begin)};
}

static bool is_escaped(const struct text *t)
{
    size_t n = 0;
    while (n + 1 < t->bytes && t->at[t->bytes - 2 - n] == '\\')
        n++;
    return n % 2;
}

static struct text trimmed(struct text t, bool escape)
{
    while (t.bytes && is_blank(*t.at))
        t = (struct text){t.at + 1, t.bytes - 1};
    while (t.bytes && is_blank(t.at[t.bytes - 1]) && !(escape && is_escaped(&t)))
        t.bytes--;
    return t;
}

/* The text of a field, in place. *bad: it cannot be read. */
static struct text read_text(struct text t, const struct grammar *g, bool *bad)
{
    const struct text bare = trimmed(t, g->escape);
    if (g->trim)
        t = bare;
    const bool quoted = g->quotes && t.bytes && *t.at == '"';
    if (g->quotes && bare.bytes > 1 && bare.bytes < t.bytes && *bare.at == '"')
        *bad |= bare.at[bare.bytes - 1] == '"'; /* blanks around quotes */
    if (g->escape && t.bytes == 2 && memcmp(t.at, "\\N", 2) == 0)
        return t;
    struct text out = {t.at, 0};
    size_t i = quoted;
    for (; i < t.bytes; i++) {
        if (g->escape && t.at[i] == '\\' && i + 1 < t.bytes)
            i++;
        else if (quoted && t.at[i] == '"' && (++i == t.bytes || t.at[i] != '"'))
            break;
        out.at[out.bytes++] = t.at[i];
    }
    *bad |= i < t.bytes;
    return out;
}

/* False: the line is no row. The fields beyond FIELDS are not kept. */
static bool read_row(struct input *in, struct text field[FIELDS], bool *bad)
{
    const char *at = in->at;
    size_t n = 0;
    while (*at == '\r' || (in->g.trim && is_blank(*at)))
        at++;
    if (*at == '\n' || (in->g.comment && *in->at == '#')) {
        in->at = memchr(in->at, '\n', (size_t)(in->end - in->at));
        in->at++;
        return false;
    }
    *bad = false;
    for (bool more = true; more && !in->open; n++) {
        const struct text t = read_field(in, bad);
        if (n < FIELDS)
            field[n] = t;
        more = !in->open && *in->at == ',';
        in->at += more || *in->at == '\r';
    }
    in->at++;
    *bad |= n != FIELDS;
    for (n = 0; n < FIELDS && !*bad; n++)
        field[n] = read_text(field[n], &in->g, bad);
    return true;
}

/* [+-] digits [. digits] [e [+-] digits], with blanks around it, of any length. */
static bool read_number(struct text t, float *out)
{
    static char copy[1 << 16];
    char *end;
    t = trimmed(t, false);
    if (t.bytes >= sizeof copy || t.bytes == 0)
        return false;
    memcpy(copy, t.at, t.bytes);
    copy[t.bytes] = '\0';
    *out = strtof(copy, &end);
    return strspn(copy, "+-.0123456789eE") == t.bytes && end == copy + t.bytes && isfinite(*out);
}

/* ---- the reader ---- */

static struct grammar grammar_of(unsigned i)
{
    return (struct grammar){.quotes = !(i & 1), .escape = i & 2, .trim = i & 4, .comment = i & 8};
}

static void make_jobs(struct job jobs[GRAMMARS], const char *path)
{
    char text[1024];
    struct errmsg e;
    for (unsigned i = 0; i < GRAMMARS; i++) {
        const struct grammar g = grammar_of(i);
        snprintf(text, sizeof text,
                 "model: {input: {shape: auto}, layers: [dense: 1], loss: mse}\n"
                 "optimizer: sgd\n"
                 "worker: {threads: 1}\n"
                 "data: {train: %s, format: csv, bad_rows: skip, bad_rows_max: 4294967295, "
                 "missing: [''], columns: [category: w, number: {name: n, missing: refuse}, label: "
                 "y], quotes: %s, trim: %s%s%s}\n",
                 path, g.quotes ? "true" : "false", g.trim ? "true" : "false",
                 g.escape ? ", escape: backslash" : "", g.comment ? ", comment: '#'" : "");
        must(job_parse(&jobs[i], text, strlen(text), "j", "/", NULL, 0, &e) == ERR_OK, e.text);
    }
}

/* Files that are no table of text are refused as a whole: the simple reader does not know them. */
static bool is_other_format(const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if ((unsigned char)text[i] < ' ' && !memchr("\t\n\r", text[i], 3))
            return true;
    return bytes && (strchr("<{[", *text) || (unsigned char)*text >= 0x80);
}

static uint64_t compare(const struct dataset *d, struct input *in)
{
    static uint32_t buffer[TABLE_ROW_CELLS_MAX];
    struct text field[FIELDS];
    uint64_t row = 0, good = 0, words = 0;
    bool bad;
    while (in->at < in->end && !in->open) {
        const uint32_t *cells;
        float number, label;
        size_t bytes;
        if (!read_row(in, field, &bad) || in->open)
            continue;
        bad = bad || !read_number(field[1], &number) || !read_number(field[2], &label);
        good += !bad;
        if (!d)
            continue;
        must(row < d->rows, "a row is missing");
        must(table_look(&d->table, row++, &(uint64_t){1}, buffer, TABLE_ROW_CELLS_MAX, &cells,
                        NULL) == ERR_OK,
             "look");
        must(bad == (bool)isnan(schema_float(cells[2])), "a row is bad for one reader alone");
        if (bad)
            continue;
        const char *word = vocabulary_text(&d->table.schema->input[0].words, cells[0] - 1, &bytes);
        must(bytes == field[0].bytes && memcmp(word, field[0].at, bytes) == 0, "another word");
        must(cells[0] <= words + 1, "a word is not where it was first");
        words = cells[0] > words ? cells[0] : words;
        must(schema_float(cells[1]) == number && schema_float(cells[2]) == label, "another number");
    }
    must(!d || (row == d->rows && !in->open), "rows behind the last");
    return in->open ? 0 : good;
}

static bool is_packed(const uint8_t *data, size_t bytes)
{
    return (bytes > 1 && memcmp(data, "\x1F\x8B", 2) == 0) ||
           (bytes > 3 && memcmp(data + 1, "\xB5\x2F\xFD", 3) == 0) ||
           (bytes > 3 && memcmp(data + 1, "\x2A\x4D\x18", 3) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int file = -1;
    static struct job jobs[GRAMMARS];
    if (file < 0) {
        char path[64];
        log_init("fuzz", LOG_ERROR);
        file = memfd_create("csv", 0);
        snprintf(path, sizeof path, "/proc/self/fd/%d", file);
        make_jobs(jobs, path);
    }
    if (size < 2 || is_packed(data + 1, size - 1))
        return 0;
    const char *text = (const char *)data + 1;
    const size_t bytes = size - 1, mark = bytes > 2 && memcmp(text, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
    must(ftruncate(file, 0) == 0, "ftruncate");
    must(pwrite(file, text, bytes, 0) == (ssize_t)bytes, "pwrite");
    char *copy = calloc(bytes + 3, 1);
    must(copy != NULL, "calloc");
    memcpy(copy, text, bytes);
    size_t end = bytes;
    if (copy[bytes - 1] != '\n')
        copy[end++] = '\n';
    struct input in = {grammar_of(*data % GRAMMARS), copy + mark, copy + end, false};
    struct dataset d;
    struct errmsg e = {""};
    const enum err err = dataset_load(&d, &jobs[*data % GRAMMARS], 0, 0, &e);
    const uint64_t good = compare(err ? NULL : &d, &in);
    if (err)
        must(err == ERR_INPUT && e.text[0] &&
                 (!good || is_other_format(text, bytes) || strstr(e.text, ": it is ")),
             e.text);
    else
        dataset_close(&d);
    free(copy);
    return 0;
}
