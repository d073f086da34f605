/* Csv text, as rows of a batch: the fields of a row are found, unquoted in place, and become views. */
#include "data/csv_rows.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "job/range.h"
#include "data/csv_batch.h"
#include "data/readers.h"
#include "data/text/csv_hint.h"
#include "data/text/csv_number.h"
#include "data/text/csv_scan.h"
#include "data/text/text_encoding.h"

/* ---- the format ---- */

enum err csv_format_init(struct csv_format *f, const struct job_csv *job,
                         const struct table_schema *schema, bool learning, uint32_t classes,
                         struct errmsg *e)
{
    *f = (struct csv_format){
        .job = job, .grammar = csv_grammar_of(job), .piece_bytes = csv_piece_bytes(job)};
    f->field = meaning_fields_new(job);
    enum err err =
        f->field ? meaning_init(&f->meaning, job, schema, learning, classes, e) : err_memory(e);
    if (err)
        csv_format_close(f);
    return err;
}

void csv_format_close(struct csv_format *f)
{
    meaning_close(&f->meaning);
    mem_free(f->field);
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

bool csv_field_text(char **begin, char **end, const struct csv_grammar *g)
{
    if (g->trim) {
        while (*begin < *end && csv_is_blank(g, **begin))
            ++*begin;
        while (*end > *begin && csv_is_blank(g, (*end)[-1]) &&
               !csv_is_escaped(*begin, *end - 1, g->escape))
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

/* The text of one field; false: it cannot be read, and the row is bad. */
static bool split_field(struct csv_piece *p, uint32_t field, char **begin, char **end)
{
    const struct csv_grammar *g = &p->grammar;
    if (g->quotes && has_blanks_around_quotes(g, *begin, (size_t)(*end - *begin))) {
        csv_batch_refuse(p, field, "it has blanks around its quotes; use data.trim: true");
        return false;
    }
    if (csv_field_text(begin, end, g))
        return true;
    csv_batch_refuse(p, field,
                     "text follows the quotes of a field: double a quote that belongs to the "
                     "text, or use data.quotes: false");
    return false;
}

/* True if the text has nothing to be removed: most fields of a file with quotes have none themselves. */
static inline bool is_bare(const struct csv_grammar *g, const char *begin, const char *end)
{
    return begin == end ||
           (!g->escape && (unsigned char)*begin > '"' && (unsigned char)end[-1] > ' ');
}

/* Put the field's view into the batch, and keep its text. */
static void put_field(struct csv_piece *p, const struct csv_format *f, uint32_t field, uint32_t row,
                      char *begin, char *end)
{
    struct batch_view *view = &p->batch->view[(size_t)field * CSV_BATCH_VIEWS + row];
    const uint32_t kept = p->kept_as[field];
    if (p->field[field].kind == COLUMN_IGNORE && !kept && !f->receiver)
        return;
    if (!is_bare(&p->grammar, begin, end) && !split_field(p, field, &begin, &end))
        return;
    *view = (struct batch_view){(uint32_t)(begin - p->text), (uint32_t)(end - begin)};
    if (kept)
        p->kept[(p->rows + row) * f->keep->columns + kept - 1] =
            (struct csv_text){begin, view->bytes};
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

/* A hint for a row with more fields than the job has columns: the header could name the wanted ones. NULL: no hint. */
static const char *names_hint(const struct csv_piece *p, const struct csv_format *f,
                              const char *line, size_t bytes)
{
    const bool first = csv_batch_is_first(p, f, p->batch->of.rows - 1);
    if (f->job->header == HEADER_SKIP && first)
        return "data.header: names finds columns by the header, and leaves the others out";
    if (f->job->header == HEADER_NONE && first && csv_hint_is_name(line, bytes))
        return "if this line is a header, data.header: names finds columns by it, and leaves the "
               "others out";
    return NULL;
}

/* A hint for a row with one field too many, which no other can be. NULL: no hint. */
static const char *one_more_hint(const struct csv_piece *p, const struct csv_format *f,
                                 const char *line, size_t bytes)
{
    if (bytes && line[bytes - 1] == p->grammar.delimiter)
        return "it ends with a delimiter, which has an empty field behind it: remove it";
    return f->job->header == HEADER_NAMES && csv_batch_is_first(p, f, p->batch->of.rows - 1)
               ? "if its first field is a name or a number of the row, as R writes it, begin the "
                 "header with a name for it"
               : NULL;
}

/* As files of MySQL have it on Windows: the escape was meant for the line end. [line, bytes) ends before the '\n'. */
static bool escapes_return(const struct csv_grammar *g, const char *line, size_t bytes)
{
    return g->escape && bytes && line[bytes - 1] == '\r' &&
           csv_is_escaped(line, line + bytes - 1, g->escape);
}

/* The source of the number of fields that a row must have: the first row, if it lacks the label. */
static const char *counted_by(const struct csv_piece *p, const struct csv_format *f)
{
    uint32_t named = 0;
    for (uint32_t i = 0; i < f->job->columns; i++)
        named += f->job->column[i].kind != COLUMN_CROSS;
    return f->job->header == HEADER_NAMES ? "its header has"
           : named > p->fields            ? "the lines before it have"
                                          : "data.columns names";
}

/* A bracket alone, or a name and a colon. */
static bool reads_like_json(const char *line, size_t bytes)
{
    (void)csv_hint_trim(&line, &bytes);
    const bool bracket = bytes && memchr("{[", *line, 2);
    return (bracket && bytes == 1) ||
           (bytes > 1 && line[bracket] == '"' && memmem(line, bytes, "\": ", 3));
}

static void refuse_count(struct csv_piece *p, const struct csv_format *f, uint32_t row,
                         const char *line, size_t bytes, size_t fields)
{
    char out[CSV_HINT_BYTES];
    const uint32_t wanted = p->fields;
    const char *odd = csv_batch_odd_hint(p->batch, row);
    const size_t text_bytes = csv_without_return(&p->grammar, line, bytes);
    const char *hint = odd ? odd + strlen("; ")
                       : escapes_return(&p->grammar, line, bytes)
                           ? "a backslash before CR LF escapes the CR alone: convert the line "
                             "ends: tr -d '\\r' < FILE > NEW"
                           : csv_hint_excel(line, text_bytes);
    if (!hint && !(f->job->header == HEADER_NAMES && wanted > 1)) /* the header has it */
        hint = csv_hint_delimiter(out, f->job, line, bytes, wanted);
    if (!hint && reads_like_json(line, text_bytes))
        hint = "the line reads like JSON: check that it is the right file";
    if (!hint && has_blank_before_quote(&p->grammar, line, bytes))
        hint = "a quote after a blank is text: use data.trim: true";
    if (!hint && f->job->quotes && !p->grammar.escape && memmem(line, text_bytes, "\\\"", 2))
        hint = "it has a quote behind a backslash: if that escapes it, use data.escape: backslash";
    if (!hint && fields == wanted + 1)
        hint = one_more_hint(p, f, line, text_bytes);
    if (!hint && fields > wanted)
        hint = names_hint(p, f, line, bytes);
    csv_batch_refuse(p, CSV_NO_FIELD, "it has %zu field%s, %s %u%s%s", fields,
                     fields == 1 ? "" : "s", counted_by(p, f), wanted, hint ? "; " : "",
                     hint ? hint : "");
}

/* False: the row is bad. */
static bool check_return(struct csv_piece *p, const char *text, size_t bytes)
{
    const struct csv_grammar *g = &p->grammar;
    const char *wrong =
        p->lone_cr ? csv_lone_return(g, text, csv_without_return(g, text, bytes)) : NULL;
    if (wrong)
        csv_batch_refuse(p, CSV_NO_FIELD, "%s", wrong);
    return !wrong;
}

/* Fields without escapes and blanks to be removed, whose quotes are neat, are views of the text as it stands. */
static void split_neat(struct csv_piece *p, uint32_t row, size_t begin, const uint32_t *mark,
                       size_t last)
{
    struct batch_view *view = p->batch->view + row;
    for (uint32_t i = 0; i < p->fields; i++, view += CSV_BATCH_VIEWS) {
        const size_t stop = i + 1 < p->fields ? mark[i] : last;
        const uint32_t quote = p->grammar.quotes && p->text[begin] == '"';
        *view = (struct batch_view){(uint32_t)begin + quote, (uint32_t)(stop - begin) - 2 * quote};
        begin = stop + 1;
    }
    assert(begin == last + 1); /* each field has a view */
}

/* Of a row of several lines: a field that is not read, and whose quotes do not end with it, may have swallowed rows. */
static void note_swallowed(struct csv_piece *p, size_t begin, const uint32_t *mark, size_t last,
                           uint64_t line)
{
    uint64_t *first = &p->odd_line[CSV_ODD_QUOTE];
    for (uint32_t i = 0; i < p->fields && !*first; i++) {
        const size_t stop = i + 1 < p->fields ? mark[i] : last;
        char *from = p->text + begin, *to = p->text + stop;
        if (p->field[i].kind == COLUMN_IGNORE && !p->kept_as[i] &&
            memchr(from, '\n', stop - begin) && !csv_field_text(&from, &to, &p->grammar))
            *first = line;
        begin = stop + 1;
    }
}

/* Count the row by the text of the label's field, before it is read. One with quotes or escapes of its own is taken for a label. */
static void note_label(struct csv_piece *p, const struct csv_format *f, uint32_t row,
                       struct batch_text t)
{
    struct csv_labels *l = &p->labels;
    const bool first = csv_batch_is_first(p, f, row);
    char shown[CSV_SHOWN_BYTES];
    csv_hint_strip(&t.at, &t.bytes, p->grammar.quotes);
    if (!meaning_tells_label(&f->meaning, t) || p->batch->odd[row] != CSV_ODDS ||
        (first && p->named))
        return;
    l->rows++;
    if (meaning_is_label(&f->meaning, t) || memchr(t.at, '"', t.bytes) ||
        memchr(t.at, '\\', t.bytes))
        return;
    if (l->none++ == 0) {
        l->first = first;
        l->line = p->batch->line[row];
        (void)csv_hint_shown(l->shown, t.at, t.bytes);
    } else if (!l->differ) {
        l->differ = strcmp(csv_hint_shown(shown, t.at, t.bytes), l->shown) != 0;
    }
}

void csv_rows_split(struct csv_piece *p, const struct csv_format *f, size_t begin,
                    const uint32_t *mark, const uint32_t *end, uint64_t line, uint32_t lines)
{
    const struct csv_grammar *g = &p->grammar;
    char *text = p->text;
    const size_t bytes = *end - begin, fields = (size_t)(end - mark) + 1;
    const uint32_t row = csv_batch_add(p, f, text + begin, bytes, line, lines);
    if (!check_return(p, text + begin, bytes))
        return;
    if (fields != p->fields) {
        refuse_count(p, f, row, text + begin, bytes, fields);
        return;
    }
    const size_t last = begin + csv_without_return(g, text + begin, bytes);
    const uint32_t label = p->labels.field;
    if (label) {
        const size_t from = label > 1 ? mark[label - 2] + (size_t)1 : begin;
        const size_t stop = label < p->fields ? mark[label - 1] : last;
        note_label(p, f, row, (struct batch_text){text + from, stop - from});
    }
    if ((csv_is_plain(g) || p->neat) && !g->trim && !f->keep) {
        split_neat(p, row, begin, mark, last);
        return;
    }
    if (lines > 1)
        note_swallowed(p, begin, mark, last, line);
    for (uint32_t i = 0; i < p->fields; i++) {
        const size_t stop = i + 1 < p->fields ? mark[i] : last;
        put_field(p, f, i, row, text + begin, text + stop);
        begin = stop + 1;
    }
    assert(begin == last + 1); /* each field was read */
}

static bool has_lone_return(const char *text, size_t bytes)
{
    const char *end = text + bytes;
    while ((text = memchr(text, '\r', (size_t)(end - text))))
        if (++text == end || *text != '\n')
            return true;
    return false;
}

void csv_piece_grammar(struct csv_piece *p, const struct csv_format *f)
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
                         const struct csv_format *f)
{
    char many[160];
    const size_t fields = csv_count(text, bytes, f->grammar.delimiter) + 1;
    const char *why = why_endless(text, bytes, &f->grammar,
                                  "a quote begins a field here, and is not closed; with "
                                  "data.quotes: false it is text",
                                  &line);
    if (!*why && text_has_nuls(text, bytes))
        why = "it " TEXT_NULS;
    if (!*why && !f->libsvm && f->job && fields > f->job->columns &&
        fields * CSV_COLUMN_BYTES > f->piece_bytes) {
        (void)snprintf(many, sizeof many,
                       "it has %zu fields and more; if data.columns has them all, with ignore for "
                       "what is not read, a row has up to %d bytes for each",
                       fields, CSV_COLUMN_BYTES);
        why = many;
    }
    return err_set(e, ERR_INPUT, "%llu: a row of more than %zu bytes%s%s", (unsigned long long)line,
                   f->piece_bytes, *why ? ": " : "", why);
}

/* ---- lines that are left out ---- */

/* True if the text fits the column as few headers and comments do: a number, a name of a class, or a word that
 * is known. *other: no row has this text. */
static bool is_value(const struct csv_format *f, const struct meaning_field *field,
                     const char *text, size_t bytes, bool *other)
{
    const struct meaning *m = &f->meaning;
    const bool named = field->kind == COLUMN_LABEL && meaning_has_names(m);
    const struct vocabulary *words = named ? &m->names
                                     : field->kind == COLUMN_CATEGORY
                                         ? &m->schema->input[field->cell].words
                                         : NULL;
    const bool number =
        field->kind == COLUMN_NUMBER || field->kind == COLUMN_WEIGHT || field->kind == COLUMN_LABEL;
    float v;
    if ((!number && !words) || meaning_is_missing(m, (struct batch_text){text, bytes}))
        return false;
    bool is = words ? vocabulary_find(words, text, bytes) != VOCABULARY_NONE
                    : csv_number(text, bytes, &v);
    *other = !is && number && !(named && m->others != VOCABULARY_NONE);
    return is;
}

bool csv_reads_like_row(const struct csv_format *f, const struct meaning_field *field,
                        uint32_t fields, const struct csv_grammar *g, char *text, size_t bytes,
                        uint32_t *mark)
{
    size_t n = csv_scan(mark, text, bytes, g);
    bool value = false, other = n + 1 != fields;
    mark[n] = (uint32_t)bytes;
    for (size_t i = 0, begin = 0; i <= n && !other; i++) {
        char *from = text + begin, *to = text + mark[i];
        begin = mark[i] + (size_t)1;
        other = !csv_field_text(&from, &to, g);
        if (!other)
            value |= is_value(f, &field[i], from, (size_t)(to - from), &other);
    }
    return value && !other;
}

/* A comment has no marks but its end, so behind the piece's `marks` there is room for its own. */
static void note_comment(struct csv_piece *p, const struct csv_format *f, size_t marks,
                         size_t begin, size_t end, uint64_t line)
{
    struct csv_grammar g = p->grammar;
    uint64_t *first = &p->odd_line[CSV_ODD_COMMENT];
    char *text = p->text + begin;
    if (*first)
        return;
    g.comment_bytes = 0;
    size_t bytes = csv_without_return(&g, text, end - begin);
    if (csv_reads_like_row(f, p->field, p->fields, &g, text, bytes, p->mark + marks))
        *first = line;
}

/* ---- rows ---- */

/* A line that is no row: a comment, or an empty one. */
static void note_no_row(struct csv_piece *p, const struct csv_format *f, size_t marks, size_t begin,
                        size_t end, uint64_t line)
{
    const struct csv_grammar *g = &p->grammar;
    const bool comment = g->comment_bytes && end - begin >= g->comment_bytes &&
                         memcmp(p->text + begin, g->comment, g->comment_bytes) == 0;
    if (comment)
        note_comment(p, f, marks, begin, end, line);
    else if (p->fields == 1)
        csv_empty_move(&p->behind, &(struct csv_empty){1, line});
}

/* True if the rows that were read so far are all that is wanted. */
static bool is_enough(const struct csv_piece *p, const struct csv_format *f)
{
    return p->bad && f->job->bad_rows == BAD_ROWS_STOP;
}

/* True if each row is a line with as many fields as the piece should have: each line's last mark is a newline, and there are no
 * others. */
static bool is_even(const struct csv_piece *p, size_t marks)
{
    const size_t lines = csv_count(p->text, p->bytes, '\n');
    if (!marks || marks != lines * p->fields)
        return false;
    for (size_t i = p->fields; i <= marks; i += p->fields)
        if (p->text[p->mark[i - 1]] != '\n')
            return false;
    return true;
}

static enum err rows_split(struct csv_piece *p, const struct csv_format *f, struct errmsg *e)
{
    size_t marks =
        p->marks ? p->marks : csv_scan_neat(p->mark, p->text, p->bytes, &p->grammar, &p->neat);
    const bool even = is_even(p, marks),
               multiline = !even && !csv_is_plain(&p->grammar); /* a row can have several lines */
    const uint32_t *mark = p->mark, *last = mark + marks;
    uint64_t line = p->line;
    enum err err = ERR_OK;
    for (size_t begin = 0; begin < p->bytes && !err && !is_enough(p, f);) {
        const uint32_t *end = even && mark < last ? mark + p->fields - 1 : mark;
        while (end < last && p->text[*end] != '\n')
            end++;
        if (end == last) {
            err = csv_batch_finish(p, f);
            return err || is_enough(p, f)
                       ? err
                       : csv_refuse_open(e, p->text + begin, p->bytes - begin, line, &p->grammar);
        }
        const size_t n = multiline ? csv_count(p->text + begin, *end - begin, '\n') : 0;
        if (csv_is_no_row(f, p->text + begin, p->text + *end)) {
            note_no_row(p, f, marks, begin, *end, line);
        } else {
            if (p->behind.lines)
                csv_empty_move(&p->between, &p->behind);
            csv_rows_split(p, f, begin, mark, end, line, (uint32_t)n + 1);
        }
        if (p->batch->of.rows == p->batch->rows_max)
            err = csv_batch_finish(p, f);
        line += n + 1;
        begin = *end + (size_t)1;
        mark = end + 1;
        assert(mark == last || *mark >= begin);
    }
    return err || is_enough(p, f) ? err : csv_batch_finish(p, f);
}

enum err csv_rows(struct csv_piece *p, const struct csv_format *f, struct errmsg *e)
{
    p->rows = p->bad = p->bad_lines = 0;
    p->labels = (struct csv_labels){.field = p->labels.field};
    p->used = 0;
    p->between = p->behind = (struct csv_empty){0};
    p->lone_cr = has_lone_return(p->text, p->bytes);
    enum err err = csv_batch_begin(p, f);
    if (!err)
        err = rows_split(p, f, e);
    assert(p->bad <= p->rows && p->bad <= p->bad_lines && p->used <= p->cell_room);
    return err && err != ERR_INPUT
               ? err_set(e, err, "out of memory for %llu rows", (unsigned long long)p->rows)
               : err;
}

/* ---- rows of a piece, one after another ---- */

/* Row i of the piece, whose number is `row`. */
static bool is_held(const struct row_reader *r, const struct csv_piece *p, uint64_t i, uint64_t row)
{
    return r->share > 0 &&
           order_holds_out(r->hold_key, *r->column ? csv_text_key(&p->kept[i]) : row, r->share);
}

enum err row_reader_give(const struct row_reader *r, const struct csv_piece *p, uint64_t row,
                         uint64_t *rows, row_visitor *visit, void *ctx, struct errmsg *e)
{
    uint32_t *cells = p->cells;
    enum err err = r->learn ? r->learn(ctx, p->learned.words, e) : ERR_OK;
    for (uint64_t i = 0; i < p->rows && *rows && !err; i++, --*rows) {
        const size_t raw = schema_packed_raw_cells(r->schema, cells);
        const bool good = batch_bit(p->present, (uint32_t)i), held = is_held(r, p, i, row + i);
        if (held && !r->held)
            cells[r->schema->inputs] = schema_bits(NAN);
        if (good && !r->raw)
            schema_scale_row(r->schema, cells);
        if (held || !r->held)
            err = visit(ctx, cells, r->raw ? raw : raw - r->schema->wide, !good || (held && r->raw),
                        e);
        cells += raw;
    }
    return err;
}
