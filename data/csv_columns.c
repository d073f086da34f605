/* A file's fields are found by its header; a field of a batch is a column, and all its values are converted before the next. Rows
 * that cannot be read leave the columns again, and are faults (csv_batch.h). */
#include "data/csv_columns.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "data/bytes/stream.h"
#include "data/csv_batch.h"
#include "data/csv_header.h"
#include "data/text/csv_number.h"

/* A thread's pieces. */
struct csv_columns_received {
    struct columns *rows;          /* of the piece */
    struct csv_columns_seen *seen; /* (names.count) of all its pieces, while it looks */
    bool ascii;                    /* the piece is */
};

const char *csv_columns_name(const struct csv_columns *x, uint32_t i, size_t *bytes)
{
    return vocabulary_text(&x->names, i, bytes);
}

const char *csv_columns_shown(const struct csv_columns *x, uint32_t i,
                              char out[PRINTABLE_NAME_BYTES])
{
    size_t bytes;
    const char *name = csv_columns_name(x, i, &bytes);
    return printable_name(out, name, bytes);
}

#define AS_UTF8 "convert the file, as with: iconv -f latin1 -t UTF-8 FILE > NEW"

static bool is_all_utf8(struct batch_text t)
{
    uint32_t code;
    for (size_t i = 0, n; i < t.bytes; i += n)
        if (!(n = printable_character(t.at + i, t.bytes - i, &code)))
            return false;
    return true;
}

/* ---- names ---- */

/* Names of a line of csv, each with its number; column_N where there is none. The line's quotes are removed. CSV_SCAN_PAD bytes behind
 * it can be read. mark: memory for the marks. Errors:
 * ERR_INPUT: a name is there twice, or can be none. */
static enum err csv_columns_read_names(struct vocabulary *names, char *line, size_t bytes,
                                       const struct csv_grammar *g, uint32_t *mark,
                                       struct errmsg *e)
{
    const size_t n = csv_scan(mark, line, bytes, g);
    enum err err = ERR_OK;
    mark[n] = (uint32_t)bytes;
    for (size_t i = 0, begin = 0; i <= n && !err; i++) {
        char *from = line + begin, *to = line + mark[i], numbered[32];
        uint32_t number;
        begin = mark[i] + (size_t)1;
        if (!csv_field_text(&from, &to, g))
            return err_set(e, ERR_INPUT, "text follows the quotes of a name in its header");
        size_t length = (size_t)(to - from);
        if (!length) {
            length = (size_t)snprintf(numbered, sizeof numbered, "column_%zu", i + 1);
            from = numbered;
        }
        if (length > JOB_TEXT_MAX || memchr(from, '\0', length) || memchr(from, '\n', length))
            return err_set(e, ERR_INPUT,
                           "the name of its column %zu is too long, or has a line end", i + 1);
        if (!is_all_utf8((struct batch_text){from, length}))
            return err_set(
                e, ERR_INPUT,
                "the name of its column %zu is not UTF-8, which names of Parquet are; " AS_UTF8,
                i + 1);
        err = vocabulary_add(names, from, length, &number) ? err_memory(e) : ERR_OK;
        if (!err && number != i)
            return err_set(e, ERR_INPUT, "its header names \"%s\" twice: give each column a name",
                           printable_name((char[PRINTABLE_NAME_BYTES]){""}, from, length));
    }
    return err;
}

/* Without a header: as the job says, or by the number of the first row's fields. */
static enum err number_names(struct vocabulary *names, const struct job_csv *job, size_t fields,
                             struct errmsg *e)
{
    enum err err = ERR_OK;
    uint32_t place = 0, number;
    for (size_t i = 0; i < fields && !err; i++) {
        const struct job_column *c = job ? &job->column[i] : NULL;
        char numbered[32];
        if (c && c->kind == COLUMN_CROSS)
            continue;
        (void)snprintf(numbered, sizeof numbered, "column_%u", ++place);
        const char *name = c && *c->name ? c->name : numbered;
        err = vocabulary_add(names, name, strlen(name), &number) ? err_memory(e) : ERR_OK;
        if (!err && number + 1 != place)
            return err_set(e, ERR_INPUT, "data.columns: the name \"%s\" is there twice",
                           SHOWN(name));
    }
    return err;
}

/* The first row of a text; 0: it has none, or one that does not end. *begin moves to it. */
static size_t find_first_row(const struct csv_format *f, const struct csv_piece *p, size_t *begin)
{
    for (size_t at = 0, n; at < p->bytes; at += n) {
        n = csv_scan_row(p->text + at, p->bytes - at, &p->grammar);
        if (!n)
            n = p->bytes - at;
        const bool ends = p->text[at + n - 1] == '\n';
        *begin = at;
        if (!csv_is_no_row(f, p->text + at, p->text + at + n - ends))
            return n - ends;
    }
    return 0;
}

static enum err names_of_row(struct csv_columns *x, struct csv_piece *p, size_t begin, size_t bytes,
                             struct errmsg *e)
{
    char hint[CSV_HINT_BYTES];
    char *line = p->text + begin;
    bytes = csv_without_return(&p->grammar, line, bytes);
    double value;
    unsigned index;
    if (x->guesses && sscanf(line, "%lf %u:%lf", &value, &index, &value) == 3)
        return err_set(e, ERR_INPUT, "it is libsvm; " CSV_COLUMNS_NO_LIBSVM);
    if (x->guesses && csv_scan(p->mark, line, bytes, &p->grammar) == 0 &&
        csv_hint_delimiter(hint, &x->job->data.csv, line, bytes, 0))
        return err_set(e, ERR_INPUT, "its first line has one field; %s: use --set", hint);
    if (x->job->data.csv.header == HEADER_NAMES)
        return csv_columns_read_names(&x->names, line, bytes, &p->grammar, p->mark, e);
    return x->guesses
               ? number_names(&x->names, NULL, csv_scan(p->mark, line, bytes, &p->grammar) + 1, e)
               : number_names(&x->names, &x->job->data.csv, x->job->data.csv.columns, e);
}

/* The names of the columns, from the beginning of a file, if it has a row. */
static enum err names_of_file(struct csv_columns *x, const char *path, struct csv_piece *p,
                              struct errmsg *e)
{
    struct stream *s = NULL;
    size_t mark = 0, begin = 0;
    enum err err = stream_open(&s, path, e);
    if (!err)
        err = stream_read(s, p->text, x->format.piece_bytes, &p->bytes, e);
    stream_close(s);
    if (!err)
        err = csv_file_skip_mark(p, &mark, e);
    if (err)
        return err_wrap(e, err, "%s: ", path);
    csv_piece_grammar(p, &x->format);
    const size_t bytes = find_first_row(&x->format, p, &begin);
    if (!bytes)
        return ERR_OK;
    x->first = path;
    err = names_of_row(x, p, begin, bytes, e);
    return err ? err_wrap(e, err, "%s: ", path) : ERR_OK;
}

static enum err find_names(struct csv_columns *x, struct errmsg *e)
{
    const size_t text_bytes = x->format.piece_bytes + CSV_TEXT_PAD;
    char *text = mem_zalloc(text_bytes, 1);
    struct csv_piece p = {.mark = mem_zalloc(text_bytes, sizeof *p.mark)};
    enum err err = text && p.mark ? ERR_OK : err_memory(e);
    for (size_t i = 0; i < x->in->count && !err && !x->names.count; i++) {
        p.text = text;
        err = names_of_file(x, x->in->path[i], &p, e);
    }
    mem_free(text);
    mem_free(p.mark);
    if (!err && !x->names.count)
        err = err_set(e, ERR_INPUT, "%s: it has no row", x->in->path[0]);
    return err;
}

/* ---- types ---- */

static bool has_numbers(const struct csv_columns *x, const struct job_column *c)
{
    return c->kind == COLUMN_NUMBER || c->kind == COLUMN_WEIGHT ||
           (c->kind == COLUMN_LABEL && !meaning_has_names(&x->format.meaning));
}

/* Numbers of the job are doubles; all else is text. */
static void types_of_job(struct csv_columns *x)
{
    const struct job_csv *job = &x->job->data.csv;
    const bool named = job->header == HEADER_NAMES;
    for (uint32_t i = 0, place = 0; i < job->columns; i++) {
        const struct job_column *c = &job->column[i];
        if (c->kind == COLUMN_CROSS)
            continue;
        const uint32_t at = named ? vocabulary_find(&x->names, c->name, strlen(c->name)) : place++;
        if (at != VOCABULARY_NONE && has_numbers(x, c))
            x->types[at] = 'd';
    }
}

/* An integer as a number prints it: not 007, and of 64 bits. */
static bool read_integer(const char *text, size_t bytes, int64_t *out)
{
    enum { DIGITS_MAX = 18 };
    const bool minus = bytes && *text == '-';
    const size_t digits = bytes - minus;
    int64_t v = 0;
    if (!digits || digits > DIGITS_MAX || (text[minus] == '0' && (digits > 1 || minus)))
        return false;
    for (size_t i = minus; i < bytes; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        v = v * 10 + (text[i] - '0');
    }
    *out = minus ? -v : v;
    return true;
}

/* A number with a point or an exponent, and without zeros or a sign before it that its value has not. */
static bool is_fraction(const char *text, size_t bytes)
{
    const bool minus = bytes && *text == '-';
    double v;
    size_t digits = 0;
    while (minus + digits < bytes && text[minus + digits] >= '0' && text[minus + digits] <= '9')
        digits++;
    return minus + digits < bytes && !(digits > 1 && text[minus] == '0') &&
           (digits || text[minus] == '.') && csv_number_wide(text, bytes, &v);
}

static void note_place(struct csv_columns_place *s, const struct csv_piece *p, uint32_t row,
                       struct batch_text t)
{
    if (s->is)
        return;
    *s = (struct csv_columns_place){.is = true, .file = p->file, .line = p->batch->line[row]};
    (void)csv_hint_shown(s->shown, t.at, t.bytes);
}

static void see_value(struct csv_columns_seen *s, const struct csv_piece *p, uint32_t row,
                      struct batch_text t)
{
    const int64_t exact = INT64_C(1) << 53;
    int64_t v = 0;
    s->any = true;
    if (read_integer(t.at, t.bytes, &v))
        s->large |= v > exact || v < -exact;
    else if (is_fraction(t.at, t.bytes))
        note_place(&s->fraction, p, row, t);
    else
        note_place(&s->text, p, row, t);
}

static void join_place(struct csv_columns_place *to, const struct csv_columns_place *from)
{
    if (from->is &&
        (!to->is || from->file < to->file || (from->file == to->file && from->line < to->line)))
        *to = *from;
}

/* ---- rows ---- */

/* Of each field the column, by the file's header. */
static enum err make_map(const struct csv_columns *x, const struct csv_piece *p, uint32_t *map,
                         struct errmsg *e)
{
    const char *path = x->in->path[x->first_file + p->file];
    const uint32_t bytes = p->header.bytes, count = x->names.count;
    struct vocabulary names = {0};
    char *line = mem_zalloc(bytes + (size_t)CSV_SCAN_PAD, 1);
    uint32_t *mark = mem_zalloc(bytes + (size_t)CSV_SCAN_PAD, sizeof *mark);
    enum err err = line && mark ? ERR_OK : err_memory(e);
    if (!err) {
        memcpy(line, p->header.at, bytes);
        err = csv_columns_read_names(&names, line, bytes, &x->format.grammar, mark, e);
        err = err ? err_wrap(e, err, "%s: ", path) : err;
    }
    for (uint32_t i = 0; i < names.count && !err; i++) {
        size_t n;
        const char *name = vocabulary_text(&names, i, &n);
        char shown[PRINTABLE_NAME_BYTES];
        map[i] = vocabulary_find(&x->names, name, n);
        if (map[i] == VOCABULARY_NONE)
            err = err_set(e, ERR_INPUT, "%s: it has a column \"%s\", which %s has not", path,
                          printable_name(shown, name, n), x->first);
    }
    for (uint32_t i = 0; i < count && !err; i++) {
        size_t n;
        const char *name = csv_columns_name(x, i, &n);
        if (vocabulary_find(&names, name, n) == VOCABULARY_NONE)
            err = err_set(e, ERR_INPUT, "%s: it has no column \"%s\", which %s has", path,
                          csv_columns_shown(x, i, (char[PRINTABLE_NAME_BYTES]){""}), x->first);
    }
    vocabulary_close(&names);
    mem_free(line);
    mem_free(mark);
    return err;
}

/* NULL: the file's columns are others, or memory has run out, which csv_columns_of says. */
static const uint32_t *map_of(struct csv_columns *x, const struct csv_piece *p)
{
    pthread_mutex_lock(&x->lock);
    uint32_t **map = &x->map[x->first_file + p->file];
    if (!*map && !x->err) {
        *map = mem_zalloc(p->fields + (size_t)1, sizeof **map);
        x->err = *map ? ERR_OK : err_memory(&x->e);
        for (uint32_t i = 0; i < p->fields && *map; i++)
            (*map)[i] = i;
        if (!x->err && x->job->data.csv.header == HEADER_NAMES)
            x->err = make_map(x, p, *map, &x->e);
    }
    const uint32_t *out = x->err ? NULL : *map;
    pthread_mutex_unlock(&x->lock);
    return out;
}

static void received_free(struct csv_columns_received *t)
{
    if (t) {
        columns_free(t->rows);
        mem_free(t->seen);
    }
    mem_free(t);
}

static struct csv_columns_received *received_new(struct csv_columns *x)
{
    struct csv_columns_received *t = mem_zalloc(1, sizeof *t);
    if (!t)
        return NULL;
    t->seen = x->looks ? mem_zalloc(x->names.count, sizeof *t->seen) : NULL;
    enum err err = x->looks ? ERR_OK : columns_new(&t->rows, x->names.count, x->types);
    if (!err && (t->seen || t->rows)) {
        pthread_mutex_lock(&x->lock);
        struct csv_columns_received **all = mem_extend(x->received, x->receivers, 1, sizeof *all);
        x->received = all ? all : x->received;
        if (all)
            all[x->receivers++] = t;
        pthread_mutex_unlock(&x->lock);
        if (all)
            return t;
    }
    received_free(t);
    return NULL;
}

static bool is_all_ascii(const struct csv_piece *p)
{
    uint64_t bits = 0, word;
    size_t i = 0;
    for (; i + sizeof word <= p->bytes; i += sizeof word) {
        memcpy(&word, p->text + i, sizeof word);
        bits |= word;
    }
    for (; i < p->bytes; i++)
        bits |= (unsigned char)p->text[i];
    return !(bits & UINT64_C(0x8080808080808080));
}

/* The thread's, empty at its beginning. NULL: no memory. */
static struct csv_columns_received *received_of(struct csv_columns *x, struct csv_piece *p)
{
    struct csv_columns_received *t = p->received = p->received ? p->received : received_new(x);
    if (t && p->rows == 0) {
        t->ascii = is_all_ascii(p);
        if (t->rows)
            columns_clear(t->rows);
    }
    return t;
}

/* A batch that is received. */
struct receiving {
    const struct csv_columns *x;
    struct csv_piece *p;
    struct columns *to;
    struct encoded_rows *out;
    bool ascii; /* of the batch */
};

static bool is_first_fault(const struct receiving *t, uint32_t row, uint32_t field)
{
    const struct meaning_fault *first = &t->out->first;
    return first->row == MEANING_NO_ROW || row < first->row ||
           (row == first->row && field < first->column);
}

static void refuse_value(struct receiving *t, uint32_t row, uint32_t field,
                         enum meaning_cause cause, struct batch_text text)
{
    batch_clear_bit(t->out->present, row);
    if (is_first_fault(t, row, field))
        t->out->first = (struct meaning_fault){row, field, cause, t->p->field[field].cell, text, 0};
}

/* Values that csv has and Parquet cannot tell apart, or not have. */
static void refuse_text(struct receiving *t, uint32_t row, uint32_t field, const char *why)
{
    struct csv_batch *b = t->p->batch;
    refuse_value(t, row, field, CAUSE_UNREADABLE, (struct batch_text){"", 0});
    if (b->fault.row == MEANING_NO_ROW || row < b->fault.row ||
        (row == b->fault.row && field < b->fault.field)) {
        (void)printable_format(b->fault.why, sizeof b->fault.why, "%s", why);
        b->fault.row = row;
        b->fault.field = field;
    }
}

static bool is_missing_number(const struct meaning *m, double v)
{
    uint32_t i = 0;
    while (i < m->markers && m->marker[i].value != v)
        i++;
    return i < m->markers;
}

/* The number of a column that is read as floats. In the middle of two of them a double is read as the digits that it is printed with
 * (parquet_rows.c): where these lead to another float than the text, the next double does not. */
static double as_read(const struct receiving *r, uint32_t field, struct batch_text text, double v)
{
    const struct meaning_field *of = &r->p->field[field];
    char shown[ARROW_TEXT_BYTES];
    uint64_t bits;
    float wanted = 0;
    memcpy(&bits, &v, sizeof bits);
    const bool middle = (bits & 0x1FFFFFFF) == 0x10000000;
    if (!middle || r->x->guesses ||
        (of->kind == COLUMN_NUMBER && r->x->schema->input[of->cell].wide) ||
        !csv_number(text.at, text.bytes, &wanted))
        return v;
    (void)arrow_shortest(v, shown);
    return strtof(shown, NULL) == wanted ? v : nextafter(v, (double)wanted);
}

static enum meaning_cause cause_of(enum column_kind kind)
{
    return kind == COLUMN_LABEL ? CAUSE_LABEL : kind == COLUMN_WEIGHT ? CAUSE_WEIGHT : CAUSE_NUMBER;
}

static void put_number(struct receiving *t, uint32_t field, uint32_t column, uint32_t row,
                       uint64_t at, struct batch_text text)
{
    const struct meaning *m = &t->x->format.meaning;
    const bool whole = t->x->types[column] == 'i';
    double v = 0;
    int64_t integer = 0;
    if (!whole && text.bytes && !m->markers && csv_number_digits(text.at, text.bytes, &v))
        columns_set_double(t->to, column, at, v);
    else if (whole && read_integer(text.at, text.bytes, &integer))
        columns_set_integer(t->to, column, at, integer);
    else if (whole || !csv_number_wide(text.at, text.bytes, &v))
        refuse_value(t, row, field, cause_of(t->p->field[field].kind), text);
    else if (m->markers && is_missing_number(m, v))
        refuse_text(t, row, field,
                    "it is a number of data.missing in another spelling, which Parquet cannot "
                    "tell apart: list each spelling");
    else
        columns_set_double(t->to, column, at, as_read(t, field, text, v));
}

static enum err put_utf8(struct receiving *t, uint32_t field, uint32_t column, uint32_t row,
                         uint64_t at, struct batch_text text)
{
    if (t->ascii || is_all_utf8(text))
        return columns_set_text(t->to, column, at, text.at, text.bytes);
    refuse_text(t, row, field, "it is not UTF-8, which texts of Parquet are; " AS_UTF8);
    columns_set_null_text(t->to, column, at);
    return ERR_OK;
}

static enum err put_column(struct receiving *t, uint32_t field, uint32_t column, uint64_t first)
{
    const struct csv_batch *b = t->p->batch;
    const struct batch_column *c = &b->column[field];
    const bool text = t->x->types[column] == 's';
    enum err err = ERR_OK;
    for (uint32_t row = 0; row < b->of.rows && !err; row++) {
        const struct batch_text value = batch_text(c, row);
        const bool is =
            batch_bit(t->out->present, row) && !meaning_is_missing(&t->x->format.meaning, value);
        if (is && text)
            err = put_utf8(t, field, column, row, first + row, value);
        else if (is)
            put_number(t, field, column, row, first + row, value);
        else if (text)
            columns_set_null_text(t->to, column, first + row);
    }
    return err;
}

static void see_column(struct csv_columns_seen *s, const struct csv_columns *x,
                       const struct csv_piece *p, uint32_t field, const uint8_t *present)
{
    for (uint32_t row = 0; row < p->batch->of.rows && !s->text.is; row++) {
        const struct batch_text value = batch_text(&p->batch->column[field], row);
        if (batch_bit(present, row) && !meaning_is_missing(&x->format.meaning, value))
            see_value(s, p, row, value);
    }
}

/* The rows that can be read: present and faults that csv itself has. */
static void settle_rows(struct csv_piece *p, struct encoded_rows *out)
{
    const struct csv_batch *b = p->batch;
    out->used = 0;
    out->first.row = MEANING_NO_ROW;
    memset(out->present, 0xFF, (b->of.rows + 7) / 8);
    if (b->fault.row == MEANING_NO_ROW)
        return;
    for (uint32_t row = 0; row < b->of.rows; row++) {
        bool bad = batch_bit(b->absent, row);
        for (uint32_t i = 0; i < p->fields && !bad; i++)
            bad = b->column[i].unreadable && batch_bit(b->column[i].unreadable, row);
        if (bad)
            batch_clear_bit(out->present, row);
    }
    out->first = (struct meaning_fault){
        .row = b->fault.row, .column = b->fault.field, .cause = CAUSE_UNREADABLE};
}

enum err csv_columns_receive(void *ctx, struct csv_piece *p, struct encoded_rows *out)
{
    struct csv_columns *x = ctx;
    const uint32_t rows = p->batch->of.rows, *map = map_of(x, p);
    settle_rows(p, out);
    if (!map)
        return ERR_OK; /* csv_columns_of says why */
    struct csv_columns_received *of = received_of(x, p);
    enum err err = !of ? ERR_NOMEM : x->looks ? ERR_OK : columns_extend(of->rows, rows);
    if (err)
        return err;
    struct receiving t = {x, p, of->rows, out, of->ascii};
    for (uint32_t i = 0; i < p->fields && !err; i++)
        if (x->looks)
            see_column(&of->seen[map[i]], x, p, i, out->present);
        else
            err = put_column(&t, i, map[i], of->rows->rows - rows);
    if (!x->looks && out->first.row != MEANING_NO_ROW)
        columns_keep(of->rows, rows, out->present);
    return err;
}

enum err csv_columns_of(struct csv_columns *x, const struct csv_piece *p,
                        const struct columns **rows, struct errmsg *e)
{
    const struct csv_columns_received *t = p->received;
    pthread_mutex_lock(&x->lock);
    enum err err = x->err ? err_set(e, x->err, "%s", x->e.text) : ERR_OK;
    pthread_mutex_unlock(&x->lock);
    if (!err)
        *rows = p->rows && t ? t->rows : NULL;
    return err;
}

static void forget_received(struct csv_columns *x)
{
    for (uint32_t i = 0; i < x->receivers; i++)
        received_free(x->received[i]);
    mem_free(x->received);
    x->received = NULL;
    x->receivers = 0;
}

void csv_columns_looked(struct csv_columns *x)
{
    for (uint32_t i = 0; i < x->names.count; i++) {
        struct csv_columns_seen *all = &x->seen[i];
        for (uint32_t k = 0; k < x->receivers; k++) {
            const struct csv_columns_seen *s = &x->received[k]->seen[i];
            all->any |= s->any;
            all->large |= s->large;
            join_place(&all->fraction, &s->fraction);
            join_place(&all->text, &s->text);
        }
        x->types[i] = !all->any || all->text.is || (all->fraction.is && all->large) ? 's'
                      : all->fraction.is                                            ? 'd'
                                                                                    : 'i';
    }
    forget_received(x);
}

/* ---- all ---- */

/* Without a job its columns are as many as the files have, and nothing is known of them. */
static enum err make_columns(struct csv_columns *x, struct errmsg *e)
{
    struct job_csv *job = &x->job->data.csv;
    if (x->names.count > JOB_COLUMNS_MAX)
        return err_set(e, ERR_INPUT, "%s: it has more than %d columns", x->first, JOB_COLUMNS_MAX);
    mem_free(job->column); /* of plain_job, without words */
    mem_free(job->named);
    job->named = NULL;
    job->columns = job->places = 0;
    job->column = mem_zalloc(x->names.count, sizeof *job->column);
    if (!job->column)
        return err_memory(e);
    job->columns = x->names.count;
    for (uint32_t i = 0; i < job->columns; i++)
        job->column[i] = (struct job_column){.kind = COLUMN_IGNORE, .name = ""};
    return ERR_OK;
}

static void close_format(struct csv_columns *x)
{
    csv_format_close(&x->format);
    if (x->schema)
        schema_unref(x->schema);
    x->schema = NULL;
}

static enum err make_format(struct csv_columns *x, struct errmsg *e)
{
    close_format(x);
    enum err err = schema_new(&x->schema, &x->job->data.csv, e);
    return err ? err : csv_format_init(&x->format, &x->job->data.csv, x->schema, false, 0, e);
}

enum err csv_columns_init(struct csv_columns *x, struct job *job, bool guesses,
                          const struct paths *in, struct errmsg *e)
{
    *x = (struct csv_columns){
        .job = job, .guesses = guesses, .in = in, .lock = PTHREAD_MUTEX_INITIALIZER};
    enum err err = make_format(x, e);
    if (!err)
        err = find_names(x, e);
    if (!err && guesses)
        err = make_columns(x, e);
    if (!err && guesses)
        err = make_format(x, e);
    if (err)
        return err;
    x->types = mem_zalloc(x->names.count + (size_t)1, 1);
    x->seen = mem_zalloc(x->names.count, sizeof *x->seen);
    x->map = mem_zalloc(in->count, sizeof *x->map);
    if (!x->types || !x->seen || !x->map)
        return err_memory(e);
    memset(x->types, 's', x->names.count);
    if (!guesses)
        types_of_job(x);
    return ERR_OK;
}

void csv_columns_close(struct csv_columns *x)
{
    forget_received(x);
    for (size_t i = 0; x->map && i < x->in->count; i++)
        mem_free(x->map[i]);
    mem_free(x->map);
    mem_free(x->types);
    mem_free(x->seen);
    vocabulary_close(&x->names);
    close_format(x);
}
