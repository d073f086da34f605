#include "worker/data/csv_rows.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "worker/data/csv_cell.h"
#include "worker/data/text/csv_hint.h"
#include "worker/data/csv_row.h"
#include "worker/data/text/csv_scan.h"

/* ---- the format ---- */

static enum err add_names(struct csv_format *f, const char *begin, const char *end, uint32_t number)
{
    uint32_t at;
    if (end - begin == 1 && *begin == '*') {
        f->others = number;
        return ERR_OK;
    }
    for (const char *p = begin; p <= end;) {
        size_t n = 0;
        while (p + n < end && p[n] != '|')
            n++;
        enum err err = vocabulary_add(&f->names, p, n, &at);
        uint32_t *grown = err ? NULL : mem_resize(f->class_of, f->names.count, sizeof *grown);
        if (!grown)
            return err ? err : ERR_NOMEM;
        f->class_of = grown;
        f->class_of[at] = number;
        p += n + 1;
    }
    return ERR_OK;
}

static enum err read_classes(struct csv_format *f, const char *classes, struct errmsg *e)
{
    uint32_t count = 0;
    for (const char *p = classes; p; count++) {
        const char *end = strchrnul(p, '\n');
        if (add_names(f, p, end, count))
            return err_set(e, ERR_NOMEM, "out of memory for the classes");
        p = *end ? end + 1 : NULL;
    }
    if (f->classes && count > f->classes)
        return err_set(e, ERR_INPUT, "the label column names %u classes, the model has %u", count,
                       f->classes);
    return ERR_OK;
}

static enum err read_missing(struct csv_format *f, const char *markers, struct errmsg *e)
{
    uint32_t number;
    for (const char *p = markers; p;) {
        const char *end = strchrnul(p, '\n');
        size_t n = (size_t)(end - p);
        if (vocabulary_add(&f->missing, p, n, &number))
            return err_set(e, ERR_NOMEM, "out of memory");
        f->missing_lengths |= UINT64_C(1) << (n < 63 ? n : 63);
        p = *end ? end + 1 : NULL;
    }
    return ERR_OK;
}

enum err csv_format_init(struct csv_format *out, const struct job_csv *job,
                         const struct table_schema *schema, bool learning, uint32_t classes,
                         struct errmsg *e)
{
    struct csv_format f = {.job = job,
                           .schema = schema,
                           .comment_bytes = strlen(job->comment),
                           .delimiter = job_delimiter_char(job),
                           .learning = learning,
                           .classes = classes,
                           .others = VOCABULARY_NONE};
    enum err err = read_missing(&f, job->missing, e);
    for (uint32_t i = 0; i < job->columns && !err; i++)
        if (job->column[i].kind == COLUMN_LABEL && job->column[i].words)
            err = read_classes(&f, job->column[i].words, e);
    if (err)
        csv_format_close(&f);
    else
        *out = f;
    return err;
}

void csv_format_close(struct csv_format *f)
{
    vocabulary_close(&f->names);
    vocabulary_close(&f->missing);
    mem_free(f->class_of);
    *f = (struct csv_format){0};
}

/* ---- a field ---- */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* Remove the quotes, and replace "" by one quote, in place. False: it has a single quote inside. */
static bool unquote(char **begin, char **end)
{
    char *p = *begin + 1, *last = *end - 1;
    if (last < p || *last != '"')
        return false;
    char *out = memchr(p, '"', (size_t)(last - p));
    *begin = p;
    *end = last;
    if (!out)
        return true;
    for (p = out; p < last; p++) {
        if (*p == '"' && (++p == last || *p != '"'))
            return false;
        *out++ = *p;
    }
    *end = out;
    return true;
}

bool csv_field_text(char **begin, char **end, const struct job_csv *job, bool has_quotes)
{
    if (job->trim) {
        while (*begin < *end && is_blank(**begin))
            ++*begin;
        while (*end > *begin && is_blank((*end)[-1]))
            --*end;
    }
    if (!has_quotes || *begin == *end)
        return true;
    if (**begin == '"')
        return unquote(begin, end);
    return !memchr(*begin, '"', (size_t)(*end - *begin));
}

/* ---- fields ---- */

static const char *quote_hint(const struct job_csv *job, const char *text, size_t bytes)
{
    if (!job->trim && csv_hint_trim(&text, &bytes) && *text == '"' && text[bytes - 1] == '"')
        return "it has blanks around its quotes; use data.trim: true";
    return "put the whole field in quotes and double the quote in it, or use data.quotes: false";
}

static void keep_text(const struct csv_row *r, uint32_t kept, const char *begin, const char *end)
{
    const struct csv_piece *p = r->piece;
    p->kept[p->rows * r->format->keep->columns + kept] =
        (struct csv_text){begin, (uint32_t)(end - begin)};
}

static void read_field(struct csv_row *r, char *begin, char *end)
{
    const struct csv_piece *p = r->piece;
    const struct csv_field *field = &p->field[r->field];
    if (field->kind == COLUMN_IGNORE && !field->kept)
        return;
    if (!csv_field_text(&begin, &end, r->format->job, p->has_quotes)) {
        csv_row_bad(r, "a quote inside a field: %s",
                    quote_hint(r->format->job, begin, (size_t)(end - begin)));
        return;
    }
    if (field->kept)
        keep_text(r, field->kept - 1, begin, end);
    if (r->bad || field->kind == COLUMN_IGNORE)
        return;
    csv_cell_text(r, begin, (size_t)(end - begin));
}

/* ---- rows ---- */

bool csv_is_no_row(const struct csv_format *f, const char *begin, const char *end)
{
    size_t comment = f->comment_bytes;
    if (comment && (size_t)(end - begin) >= comment && memcmp(begin, f->job->comment, comment) == 0)
        return true;
    while (begin < end && (*begin == '\r' || (f->job->trim && is_blank(*begin))))
        begin++;
    return begin == end;
}

/* Read a row that begins at `begin` and ends at *end; its fields end at [mark, end]. Of a bad row, texts are kept. */
static void read_fields(struct csv_row *r, size_t begin, const uint32_t *mark, const uint32_t *end)
{
    char *text = r->piece->text;
    for (; mark <= end && (!r->bad || r->format->keep); mark++, r->field++) {
        size_t stop = *mark;
        size_t cut = mark == end && stop > begin && text[stop - 1] == '\r' ? stop - 1 : stop;
        if (!r->bad || r->piece->field[r->field].kept)
            read_field(r, text + begin, text + cut);
        begin = stop + 1;
    }
}

static void refuse_count(struct csv_row *r, const char *line, size_t bytes, size_t fields)
{
    char out[CSV_HINT_BYTES];
    uint32_t wanted = r->piece->fields;
    const char *hint = csv_hint_delimiter(out, r->format->job, line, bytes, wanted);
    if (!hint && fields > wanted)
        hint = csv_row_names_hint(r, line, bytes);
    csv_row_bad(r, "it has %zu field%s, %s %u%s%s", fields, fields == 1 ? "" : "s",
                r->format->job->header == HEADER_NAMES ? "its header has" : "data.columns names",
                wanted, hint ? "; " : "", hint ? hint : "");
}

/* The same; `end` is NULL if no mark ends the row. */
static enum err read_row(struct csv_row *r, size_t begin, const uint32_t *mark, const uint32_t *end)
{
    struct csv_piece *p = r->piece;
    enum err err = csv_row_begin(r);
    if (err)
        return err;
    if (!end)
        csv_row_bad(r, "a quote is never closed; with data.quotes: false it is text");
    else if ((size_t)(end - mark) + 1 != p->fields)
        refuse_count(r, p->text + begin, *end - begin, (size_t)(end - mark) + 1);
    r->field = 0;
    if (!r->bad)
        read_fields(r, begin, mark, end);
    if (!r->bad)
        csv_cell_crosses(r);
    assert(r->bad || r->failed || r->field == p->fields); /* each field was read */
    csv_row_end(r);
    return r->failed;
}

enum err csv_rows(struct csv_piece *p, const struct csv_format *f, struct errmsg *e)
{
    size_t marks = csv_scan(p->mark, p->text, p->bytes, f->delimiter, p->has_quotes);
    const uint32_t *mark = p->mark, *last = mark + marks;
    struct csv_row r = {.piece = p, .format = f, .line = p->line};
    enum err err = ERR_OK;
    p->rows = p->bad = 0;
    for (size_t begin = 0; begin < p->bytes && !err;) {
        const uint32_t *end = mark;
        while (end < last && p->text[*end] != '\n')
            end++;
        size_t stop = end < last ? *end : p->bytes;
        if (!csv_is_no_row(f, p->text + begin, p->text + stop))
            err = read_row(&r, begin, mark, end < last ? end : NULL);
        if (p->bad && f->job->bad_rows == BAD_ROWS_STOP)
            return ERR_OK;
        r.line += p->has_quotes ? csv_count(p->text + begin, stop - begin, '\n') + 1 : 1;
        begin = stop + 1;
        mark = end + (end < last);
        assert(mark == last || *mark >= begin);
    }
    assert(p->bad <= p->rows && p->rows <= p->room);
    if (err == ERR_TOOBIG)
        return err_set(e, ERR_INPUT, "a category has more than %d words", VOCABULARY_MAX);
    return err ? err_set(e, err, "out of memory for %llu rows", (unsigned long long)p->rows)
               : ERR_OK;
}
