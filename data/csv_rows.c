#include "data/csv_rows.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "common/base/texts.h"
#include "common/base/mem.h"
#include "job/range.h"
#include "data/csv_cell.h"
#include "data/text/csv_hint.h"
#include "data/csv_row.h"
#include "data/text/csv_number.h"
#include "data/text/csv_scan.h"

/* ---- the format ---- */

static enum err add_names(struct csv_format *f, const char *begin, const char *end, uint32_t number)
{
    uint32_t at;
    if (end - begin == 1 && *begin == '*') {
        f->others = number;
        return ERR_OK;
    }
    char *plain = mem_zalloc((size_t)(end - begin), 1);
    enum err err = plain ? ERR_OK : ERR_NOMEM;
    for (const char *p = begin; p <= end && !err;) {
        size_t n = job_class_name_bytes(p, (size_t)(end - p));
        err = vocabulary_add(&f->names, plain, job_class_name_plain(plain, p, n), &at);
        uint32_t *grown = err ? NULL : mem_resize(f->class_of, f->names.count, sizeof *grown);
        err = !err && !grown ? ERR_NOMEM : err;
        if (grown) {
            f->class_of = grown;
            f->class_of[at] = number;
        }
        p += n + 1;
    }
    mem_free(plain);
    return err;
}

static enum err read_classes(struct csv_format *f, const char *classes, struct errmsg *e)
{
    uint32_t count = 0;
    for (const char *p = classes, *next; p; p = next, count++) {
        size_t n;
        next = texts_next(p, &n);
        if (add_names(f, p, p + n, count))
            return err_set(e, ERR_NOMEM, "out of memory for the classes");
    }
    if (f->classes && count > f->classes)
        return err_set(e, ERR_INPUT, "the label column names %u classes, the model has %u", count,
                       f->classes);
    return ERR_OK;
}

/* Note a marker that is a number. No number goes on behind the text. */
static enum err note_marker(struct csv_format *f, const char *text, size_t bytes, uint32_t number)
{
    double value;
    if (!csv_number_wide(text, bytes, &value))
        return ERR_OK;
    struct csv_marker *grown = mem_resize(f->marker, (size_t)f->markers + 1, sizeof *grown);
    if (!grown)
        return ERR_NOMEM;
    f->marker = grown;
    f->marker[f->markers++] = (struct csv_marker){value, number};
    return ERR_OK;
}

static enum err read_missing(struct csv_format *f, const char *markers, struct errmsg *e)
{
    uint32_t number;
    for (const char *p = markers, *next; p; p = next) {
        size_t n;
        next = texts_next(p, &n);
        if (vocabulary_add(&f->missing, p, n, &number) || note_marker(f, p, n, number))
            return err_memory(e);
        f->missing_lengths |= UINT64_C(1) << (n < 63 ? n : 63);
    }
    return ERR_OK;
}

enum err csv_format_init(struct csv_format *out, const struct job_csv *job,
                         const struct table_schema *schema, bool learning, uint32_t classes,
                         struct errmsg *e)
{
    struct csv_format f = {.job = job,
                           .schema = schema,
                           .grammar = {.delimiter = job_delimiter_char(job),
                                       .quotes = job->quotes,
                                       .trim = job->trim,
                                       .escape = job_escape_char(job),
                                       .comment = job->comment,
                                       .comment_bytes = strlen(job->comment)},
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
    mem_free(f->marker);
    *f = (struct csv_format){0};
}

/* ---- a field ---- */

/* Remove the quotes and escapes, and replace "" by one quote, in place. False: text follows the quotes. */
static bool unquote(char **begin, char **end, char escape)
{
    char *p = *begin + 1, *stop = *end, *out = p;
    *begin = p;
    for (; p < stop; p++) {
        if (escape && *p == escape && p + 1 < stop)
            p++;
        else if (*p == '"' && (++p == stop || *p != '"'))
            break;
        *out++ = *p;
    }
    *end = out;
    return p == stop;
}

static bool unquote_plain(char **begin, char **end)
{
    char *first = *begin + 1, *last = *end - 1;
    if (last < first || *last != '"' || memchr(first, '"', (size_t)(last - first)))
        return unquote(begin, end, '\0');
    *begin = first;
    *end = last;
    return true;
}

/* Remove the escapes of a field without quotes. \N alone, which MySQL writes for NULL, stays as it is. */
static void unescape(char *begin, char **end, char escape)
{
    char *p = memchr(begin, escape, (size_t)(*end - begin)), *out = p;
    if (!p || (*end - begin == 2 && p == begin && p[1] == 'N'))
        return;
    for (; p < *end; p++) {
        p += *p == escape && p + 1 < *end;
        *out++ = *p;
    }
    *end = out;
    *out = '\0';
}

/* True if the byte before `at` escapes the one at `at`. */
static bool is_escaped(const char *begin, const char *at, char escape)
{
    size_t n = 0;
    while (escape && at - n > begin && at[-1 - (ptrdiff_t)n] == escape)
        n++;
    return n % 2;
}

bool csv_field_text(char **begin, char **end, const struct csv_grammar *g)
{
    if (g->trim) {
        while (*begin < *end && csv_is_blank(g, **begin))
            ++*begin;
        while (*end > *begin && csv_is_blank(g, (*end)[-1]) &&
               !is_escaped(*begin, *end - 1, g->escape))
            --*end;
    }
    if (*begin < *end && g->quotes && **begin == '"')
        return g->escape ? unquote(begin, end, g->escape) : unquote_plain(begin, end);
    if (g->escape)
        unescape(*begin, end, g->escape);
    return true;
}

/* ---- fields ---- */

static bool is_quoted(const char *text, size_t bytes)
{
    return bytes > 1 && *text == '"' && text[bytes - 1] == '"';
}

/* True if the field has blanks around its quotes: with data.trim these would count. */
static bool has_blanks_around_quotes(const struct csv_grammar *g, const char *text, size_t bytes)
{
    if (g->trim || !bytes || (!csv_is_blank(g, *text) && !csv_is_blank(g, text[bytes - 1])))
        return false;
    return csv_hint_trim(&text, &bytes) && is_quoted(text, bytes);
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
    if (p->grammar.quotes && has_blanks_around_quotes(&p->grammar, begin, (size_t)(end - begin))) {
        csv_row_bad(r, "it has blanks around its quotes; use data.trim: true");
        return;
    }
    if (!csv_field_text(&begin, &end, &p->grammar)) {
        csv_row_bad(r, "text follows the quotes of a field: double a quote that belongs to the "
                       "text, or use data.quotes: false");
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
    const struct csv_grammar *g = &f->grammar;
    if (g->comment_bytes && (size_t)(end - begin) >= g->comment_bytes &&
        memcmp(begin, g->comment, g->comment_bytes) == 0)
        return true;
    while (begin < end && (*begin == '\r' || (g->trim && csv_is_blank(g, *begin))))
        begin++;
    return begin == end;
}

size_t csv_without_return(const struct csv_grammar *g, const char *text, size_t bytes)
{
    bool is = bytes && text[bytes - 1] == '\r' && !is_escaped(text, text + bytes - 1, g->escape);
    return bytes - is;
}

const char *csv_lone_return(const struct csv_grammar *g, const char *text, size_t bytes)
{
    if (!memchr(text, '\r', bytes))
        return NULL;
    size_t at = csv_scan_findings(text, bytes, g).cr;
    if (at == bytes)
        return NULL;
    if (at + 1 == bytes)
        return "its line ends in CR CR LF; remove the CRs: tr -d '\\r' < FILE > NEW";
    return CSV_LONE_RETURN;
}

/* Read a row that begins at `begin` and ends at *end; its fields end at [mark, end]. Of a bad row, texts are kept. */
static void read_fields(struct csv_row *r, size_t begin, const uint32_t *mark, const uint32_t *end)
{
    char *text = r->piece->text;
    for (; mark <= end && (!r->bad || r->format->keep); mark++, r->field++) {
        size_t stop = *mark;
        size_t cut =
            mark == end ? begin + csv_without_return(&r->piece->grammar, text + begin, stop - begin)
                        : stop;
        if (!r->bad || r->piece->field[r->field].kept)
            read_field(r, text + begin, text + cut);
        begin = stop + 1;
    }
}

/* True if a quote would open a field if data.trim were true. */
static bool has_blank_before_quote(const struct csv_grammar *g, const char *line, size_t bytes)
{
    const char *end = line + bytes;
    while (line && g->quotes && !g->trim) {
        const char *at = line;
        while (at < end && csv_is_blank(g, *at))
            at++;
        if (at > line && at < end && *at == '"')
            return true;
        line = memchr(line, g->delimiter, (size_t)(end - line));
        line = line ? line + 1 : NULL;
    }
    return false;
}

static void refuse_count(struct csv_row *r, const char *line, size_t bytes, size_t fields)
{
    char out[CSV_HINT_BYTES];
    uint32_t wanted = r->piece->fields;
    const char *hint = r->hint ? r->hint + strlen("; ")
                               : csv_hint_delimiter(out, r->format->job, line, bytes, wanted);
    if (!hint && has_blank_before_quote(&r->piece->grammar, line, bytes))
        hint = "a quote after a blank is text: use data.trim: true";
    if (!hint && fields > wanted)
        hint = csv_row_names_hint(r, line, bytes);
    csv_row_bad(r, "it has %zu field%s, %s %u%s%s", fields, fields == 1 ? "" : "s",
                r->format->job->header == HEADER_NAMES ? "its header has" : "data.columns names",
                wanted, hint ? "; " : "", hint ? hint : "");
}

static void refuse_return(struct csv_row *r, const char *text, size_t bytes)
{
    const struct csv_grammar *g = &r->piece->grammar;
    const char *wrong = csv_lone_return(g, text, csv_without_return(g, text, bytes));
    if (wrong)
        csv_row_bad(r, "%s", wrong);
}

void csv_rows_fields(struct csv_row *r, size_t begin, const uint32_t *mark, const uint32_t *end)
{
    const struct csv_piece *p = r->piece;
    csv_row_look(r, p->text + begin, *end - begin);
    if (p->lone_cr)
        refuse_return(r, p->text + begin, *end - begin);
    if ((size_t)(end - mark) + 1 != p->fields)
        refuse_count(r, p->text + begin, *end - begin, (size_t)(end - mark) + 1);
    r->field = 0;
    if (!r->bad)
        read_fields(r, begin, mark, end);
    assert(r->bad || r->failed || r->field == p->fields); /* each field was read */
}

static enum err read_row(struct csv_row *r, size_t begin, const uint32_t *mark, const uint32_t *end)
{
    enum err err = csv_row_begin(r);
    if (err)
        return err;
    csv_rows_fields(r, begin, mark, end);
    if (!r->bad)
        csv_cell_crosses(r);
    csv_row_end(r);
    return r->failed;
}

static bool has_lone_return(const char *text, size_t bytes)
{
    const char *end = text + bytes;
    while ((text = memchr(text, '\r', (size_t)(end - text))))
        if (++text == end || *text != '\n')
            return true;
    return false;
}

void csv_piece_look(struct csv_piece *p, const struct csv_format *f)
{
    struct csv_grammar *g = &p->grammar;
    *g = f->grammar;
    g->quotes = g->quotes && memchr(p->text, '"', p->bytes);
    if (g->escape && !memchr(p->text, g->escape, p->bytes))
        g->escape = '\0';
}

/* Why a text that begins a row has no end of it: lines that CR ends, or a quote. *line: of the row, or of the quote. "": neither.
 * A quote behind a CR can be one that begins a line, and then others seem to open. */
static const char *why_endless(const char *text, size_t bytes, const struct csv_grammar *g,
                               const char *quote, uint64_t *line)
{
    struct csv_findings found = csv_scan_findings(text, bytes, g);
    if (found.cr + 1 < bytes && found.cr < found.quote)
        return CSV_LONE_RETURN;
    if (found.quote == bytes)
        return "";
    *line += csv_count(text, found.quote, '\n');
    return quote;
}

enum err csv_refuse_open(struct errmsg *e, const char *text, size_t bytes, uint64_t line,
                         const struct csv_grammar *g)
{
    const char *why = why_endless(text, bytes, g,
                                  "a quote begins a field here, and is never closed; with "
                                  "data.quotes: false it is text",
                                  &line);
    if (*why)
        return err_set(e, ERR_INPUT, "%llu: %s", (unsigned long long)line, why);
    return err_set(e, ERR_INPUT, "%llu: the file ends with an escape (data.escape)",
                   (unsigned long long)(line + csv_count(text, bytes - (bytes > 0), '\n')));
}

enum err csv_refuse_long(struct errmsg *e, const char *text, size_t bytes, uint64_t line,
                         const struct csv_grammar *g)
{
    const char *why = why_endless(text, bytes, g,
                                  "a quote begins a field here, and is not closed; with "
                                  "data.quotes: false it is text",
                                  &line);
    return err_set(e, ERR_INPUT, "%llu: a row of more than %d bytes%s%s", (unsigned long long)line,
                   CSV_PIECE_BYTES, *why ? ": " : "", why);
}

/* A comment has no marks but its end, so behind the piece's `marks` there is room for its own. */
static void note_comment(struct csv_piece *p, const struct csv_format *f, size_t marks,
                         size_t begin, size_t end, uint64_t line)
{
    struct csv_grammar g = p->grammar;
    uint64_t *first = &p->odd_line[CSV_ODD_COMMENT];
    char *text = p->text + begin;
    if (*first || end - begin < g.comment_bytes || memcmp(text, g.comment, g.comment_bytes) != 0)
        return;
    g.comment_bytes = 0;
    size_t bytes = csv_without_return(&g, text, end - begin);
    if (csv_cell_fit_row(f, p->field, p->fields, &g, text, bytes, p->mark + marks))
        *first = line;
}

enum err csv_rows(struct csv_piece *p, const struct csv_format *f, struct errmsg *e)
{
    size_t marks = p->marks ? p->marks : csv_scan(p->mark, p->text, p->bytes, &p->grammar);
    const bool lines = !csv_is_plain(&p->grammar); /* a row can have several */
    const uint32_t *mark = p->mark, *last = mark + marks;
    struct csv_row r = {.piece = p, .format = f, .line = p->line};
    enum err err = ERR_OK;
    p->rows = p->bad = p->bad_lines = 0;
    p->used = 0;
    p->lone_cr = has_lone_return(p->text, p->bytes);
    for (size_t begin = 0; begin < p->bytes && !err;) {
        const uint32_t *end = mark;
        while (end < last && p->text[*end] != '\n')
            end++;
        if (end == last)
            return csv_refuse_open(e, p->text + begin, p->bytes - begin, r.line, &p->grammar);
        const uint64_t bad = p->bad, n = lines ? csv_count(p->text + begin, *end - begin, '\n') : 0;
        if (!csv_is_no_row(f, p->text + begin, p->text + *end))
            err = read_row(&r, begin, mark, end);
        else if (p->grammar.comment_bytes)
            note_comment(p, f, marks, begin, *end, r.line);
        if (p->bad && f->job->bad_rows == BAD_ROWS_STOP)
            return ERR_OK;
        p->bad_lines += p->bad > bad ? n + 1 : 0;
        r.line += n + 1;
        begin = *end + (size_t)1;
        mark = end + 1;
        assert(mark == last || *mark >= begin);
    }
    assert(p->bad <= p->rows && p->bad <= p->bad_lines && p->used <= p->cell_room);
    if (err == ERR_TOOBIG)
        return err_set(e, ERR_INPUT, "%llu: a category has more than %d words",
                       (unsigned long long)r.line - 1, VOCABULARY_MAX);
    return err ? err_set(e, err, "out of memory for %llu rows", (unsigned long long)p->rows)
               : ERR_OK;
}
