/* Rows of text on their way to cells: a batch is filled a row at a time, encoded as a whole, and its faults get their lines. */
#include "data/csv_batch.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "common/base/mem.h"
#include "common/base/printable.h"
#include "data/text/csv_hint.h"
#include "data/text/text_encoding.h"

/* ---- room ---- */

static enum err make_columns(struct csv_batch *b, uint32_t columns)
{
    mem_free(b->column);
    mem_free(b->view);
    mem_free(b->unreadable);
    b->column = mem_zalloc(columns, sizeof *b->column);
    b->view = mem_zalloc((size_t)columns * CSV_BATCH_VIEWS, sizeof *b->view);
    b->unreadable = mem_zalloc(columns, sizeof *b->unreadable);
    const bool all = b->column && b->view && b->unreadable;
    b->of.columns = all ? columns : 0;
    return all ? ERR_OK : ERR_NOMEM;
}

static enum err make_pairs(struct csv_batch *b, const struct table_schema *s)
{
    const size_t most = (size_t)b->rows_max * (s->key[0].options.max_values + (size_t)1);
    if (b->key)
        return ERR_OK;
    b->key = mem_zalloc(most, sizeof *b->key);
    b->weight = mem_zalloc(most, sizeof *b->weight);
    return b->key && b->weight ? ERR_OK : ERR_NOMEM;
}

static enum err keep_rows(struct csv_piece *p, const struct csv_format *f)
{
    const uint64_t rows = p->rows + ENCODE_ROWS;
    if (rows > p->present_rows) {
        uint8_t *present = mem_resize(p->present, 2 * rows / 8 + 1, 1);
        if (!present)
            return ERR_NOMEM;
        p->present = present;
        p->present_rows = 2 * rows;
    }
    if (!f->keep || rows <= p->kept_room)
        return ERR_OK;
    struct csv_text *kept = mem_resize(p->kept, 2 * rows * f->keep->columns, sizeof *kept);
    if (!kept)
        return ERR_NOMEM;
    p->kept = kept;
    p->kept_room = 2 * rows;
    return ERR_OK;
}

static void empty(struct csv_batch *b)
{
    b->of.rows = 0;
    b->list[0] = 0;
    b->fault.row = MEANING_NO_ROW;
    memset(b->absent, 0, sizeof b->absent);
    for (uint32_t i = 0; i < b->of.columns; i++)
        b->column[i].unreadable = NULL;
}

enum err csv_batch_begin(struct csv_piece *p, const struct csv_format *f)
{
    const struct table_schema *s = f->meaning.schema;
    const uint32_t columns = f->libsvm ? 2 : p->fields;
    struct csv_batch *b = p->batch = p->batch ? p->batch : mem_zalloc(1, sizeof *b);
    if (!b)
        return ERR_NOMEM;
    b->rows_max = encode_batch_rows(s);
    p->empty_rows = 0;
    assert(b->rows_max == 1 || b->rows_max * schema_raw_cells(s) <= ENCODE_CELLS);
    enum err err = b->of.columns == columns ? ERR_OK : make_columns(b, columns);
    if (!err && f->libsvm)
        err = make_pairs(b, s);
    if (!err)
        err = keep_rows(p, f);
    if (err)
        return err;
    for (uint32_t i = 0; i < columns; i++)
        b->column[i] = (struct batch_column){
            .type = BATCH_VIEWS, .values = b->view + (size_t)i * CSV_BATCH_VIEWS, .base = p->text};
    b->field = p->field;
    b->of.column = b->column;
    b->of.absent = b->absent;
    empty(b);
    return ERR_OK;
}

void csv_batch_free(struct csv_batch *b)
{
    if (!b)
        return;
    mem_free(b->column);
    mem_free(b->view);
    mem_free(b->unreadable);
    mem_free(b->key);
    mem_free(b->weight);
    mem_free(b);
}

/* ---- lines ---- */

/* One name alone is likely to be a value in another case, and with texts that are not read in any. */
static bool is_name(const struct csv_header_line *h, uint32_t k, const char *text, size_t bytes)
{
    return h->name[k].bytes == bytes &&
           (h->named > 1 ? strncasecmp : strncmp)(h->name[k].at, text, bytes) == 0;
}

/* The same names, in any order, with other quotes, blanks and case. Names that are all numbers are likely to be values, and without
 * a header a column that is not read has any text: then the others are at their places. */
static bool has_names(const struct csv_piece *p, const char *text, size_t bytes)
{
    const struct csv_header_line *h = &p->header;
    const bool placed = !h->bytes && h->named < h->names;
    uint64_t found = 0;
    uint32_t fields = 0;
    if (h->names > CSV_HEADER_NAMES || !h->words || (h->named == 1 && h->names > 1))
        return false;
    for (const char *at = text, *end = text + bytes; at; fields++) {
        const char *stop = memchr(at, p->grammar.delimiter, (size_t)(end - at));
        size_t n = (size_t)((stop ? stop : end) - at);
        const uint32_t last = placed && fields < h->names ? fields + 1 : h->names;
        uint32_t k = placed ? fields : 0;
        if (!placed || (k < last && h->name[k].bytes)) {
            csv_hint_strip(&at, &n, p->grammar.quotes);
            while (k < last && (found >> k & 1 || !is_name(h, k, at, n)))
                k++;
        }
        if (k >= last)
            return false;
        found |= (uint64_t)1 << k;
        at = stop ? stop + 1 : NULL;
    }
    return fields == h->names;
}

static bool is_header(const struct csv_piece *p, const char *text, size_t bytes)
{
    const struct csv_header_line *h = &p->header;
    const char *at = text;
    while (at < text + bytes && (*at == '"' || csv_is_blank(&p->grammar, *at)))
        at++;
    if (at == text + bytes || !batch_bit(h->begins, (unsigned char)*at))
        return false;
    bytes = csv_without_return(&p->grammar, text, bytes);
    return (h->bytes && bytes == h->bytes && memcmp(text, h->at, bytes) == 0) ||
           has_names(p, text, bytes);
}

/* Delimiters alone, as spreadsheets write rows whose cells were cleared. */
static bool is_empty(const struct csv_piece *p, const char *text, size_t bytes)
{
    const char *end = text + csv_without_return(&p->grammar, text, bytes), *at = text;
    while (at < end && *at == p->grammar.delimiter)
        at++;
    return at == end && end > text;
}

/* The lines of a dump of a database that are no rows. */
static enum csv_odd line_of_dump(const struct csv_piece *p, const char *text, size_t bytes)
{
    static const char insert[] = "INSERT INTO ";
    if (!bytes || !memchr("\\Ii", *text, 3))
        return CSV_ODDS;
    bytes = csv_without_return(&p->grammar, text, bytes);
    if (bytes == 2 && memcmp(text, "\\.", 2) == 0)
        return CSV_ODD_COPY;
    return bytes >= sizeof insert && strncasecmp(text, insert, strlen(insert)) == 0 ? CSV_ODD_SQL
                                                                                    : CSV_ODDS;
}

/* first: of its file */
static enum csv_odd odd_line(const struct csv_piece *p, const char *text, size_t bytes, bool first)
{
    if (first && p->named && p->header.bytes)
        return CSV_ODD_SKIPPED;
    size_t mark = bytes && *text == '\xEF' ? text_encoding_mark_bytes(text, bytes) : 0;
    if (p->header.named && !(first && !p->header.bytes) && bytes > mark &&
        is_header(p, text + mark, bytes - mark))
        return p->header.bytes ? CSV_ODD_HEADER : CSV_ODD_NAMES;
    if (is_empty(p, text, bytes))
        return CSV_ODD_EMPTY;
    if (bytes == 1 && *text == '\x1A')
        return CSV_ODD_CTRL_Z;
    const enum csv_odd of_dump = line_of_dump(p, text, bytes);
    if (of_dump != CSV_ODDS)
        return of_dump;
    return mark ? CSV_ODD_MARK : text_has_nuls(text, bytes) ? CSV_ODD_NULS : CSV_ODDS;
}

const char *csv_batch_odd_hint(const struct csv_batch *b, uint32_t row)
{
    static const char *const hint[CSV_ODDS] = {
        [CSV_ODD_NULS] = "; it " TEXT_NULS,
        [CSV_ODD_MARK] =
            "; a byte order mark (U+FEFF) begins the line: if files were joined, remove it",
        [CSV_ODD_HEADER] = "; the line is the header again: if files were joined, remove it",
        [CSV_ODD_NAMES] =
            "; the line has the names of the columns: if files were joined, remove it",
        [CSV_ODD_EMPTY] = "; all fields of the line are empty: if it is no row, remove it",
        [CSV_ODD_CTRL_Z] = "; the line is Ctrl-Z (0x1A), the end of a file in DOS: remove it",
        [CSV_ODD_COPY] =
            "; the line is \\., the end of the data in a dump of PostgreSQL: remove it",
        [CSV_ODD_SQL] = "; the line is a statement of SQL: write the table as csv",
        [CSV_ODD_SKIPPED] =
            "; the line has the names of the columns, as data.header: skip has left "
            "out the line before it: remove that"};
    return b->odd[row] == CSV_ODDS ? NULL : hint[b->odd[row]];
}

uint32_t csv_batch_add(struct csv_piece *p, const struct csv_format *f, const char *text,
                       size_t bytes, uint64_t line, uint32_t lines)
{
    struct csv_batch *b = p->batch;
    const uint32_t row = b->of.rows++;
    assert(row < b->rows_max);
    b->line[row] = line;
    b->lines[row] = lines;
    b->odd[row] = (uint8_t)odd_line(p, text, bytes, csv_batch_is_first(p, f, row));
    for (uint32_t i = 0; f->keep && i < f->keep->columns; i++)
        p->kept[(p->rows + row) * f->keep->columns + i] = (struct csv_text){p->text, 0};
    return row;
}

static void set_unreadable(struct csv_batch *b, uint32_t field, uint32_t row)
{
    uint8_t *bits = b->unreadable[field];
    if (!b->column[field].unreadable)
        memset(bits, 0, sizeof b->unreadable[field]);
    b->column[field].unreadable = bits;
    batch_set_bit(bits, row);
}

void csv_batch_refuse(struct csv_piece *p, uint32_t field, const char *fmt, ...)
{
    struct csv_batch *b = p->batch;
    const uint32_t row = b->of.rows - 1;
    if (field == CSV_NO_FIELD)
        batch_set_bit(b->absent, row);
    else
        set_unreadable(b, field, row);
    if (b->fault.row != MEANING_NO_ROW)
        return;
    va_list args;
    va_start(args, fmt);
    (void)printable_vformat(b->fault.why, sizeof b->fault.why, fmt, args);
    va_end(args);
    b->fault.row = row;
    b->fault.field = field;
}

/* ---- faults ---- */

const char *csv_batch_text_hint(const struct csv_format *f, const struct meaning_fault *fault)
{
    const struct vocabulary *known;
    struct batch_text t = fault->text;
    if (!meaning_takes_hint(&f->meaning, fault, &known))
        return NULL;
    if (memchr(t.at, '\0', t.bytes))
        return "; it has a NUL byte: is it text of UTF-16?";
    if (!f->parquet && !f->job->trim && csv_hint_trim(&t.at, &t.bytes) &&
        (!known || meaning_is_missing(&f->meaning, t) ||
         vocabulary_find(known, t.at, t.bytes) != VOCABULARY_NONE))
        return "; blanks around it count: use data.trim: true";
    return NULL;
}

/* A label of libsvm with a comma, or a semicolon, is a row of csv or, before pairs, several labels. */
static const char *libsvm_hint(const struct csv_batch *b, const struct meaning *m,
                               const struct meaning_fault *fault)
{
    const struct batch_text *t = &fault->text;
    const char *comma = memchr(t->at, ',', t->bytes);
    if (!comma)
        comma = memchr(t->at, ';', t->bytes);
    if (!comma)
        return NULL;
    if (b->list[fault->row + 1] == b->list[fault->row])
        return "; the line has no pair index:value: if the file is csv, use data.format: csv";
    return m->whole || m->classes ? "; a row has one label: several of them are not supported"
                                  : NULL; /* it can be a number */
}

/* The key that fixes it, if the line or the text shows which; NULL: neither does. */
static const char *fault_hint(const struct csv_piece *p, const struct csv_format *f,
                              const struct meaning_fault *fault)
{
    const struct vocabulary *known;
    const struct batch_text *t = &fault->text;
    if (f->libsvm && fault->cause == CAUSE_CLASS_NUMBER &&
        p->batch->list[fault->row + 1] == p->batch->list[fault->row])
        return "; no pair index:value follows: is it a file of weights?";
    if (!meaning_takes_hint(&f->meaning, fault, &known) &&
        p->batch->odd[fault->row] != CSV_ODD_EMPTY)
        return NULL;
    const char *odd = csv_batch_odd_hint(p->batch, fault->row);
    if (odd)
        return odd;
    if (f->libsvm)
        return libsvm_hint(p->batch, &f->meaning, fault);
    if (!memchr(t->at, '\0', t->bytes) && f->job->header == HEADER_NONE &&
        csv_batch_is_first(p, f, fault->row) && csv_hint_is_name(t->at, t->bytes))
        return "; if this line is a header, use data.header: skip, or names";
    return csv_batch_text_hint(f, fault);
}

void csv_batch_describe(struct errmsg *e, const struct job_csv *job,
                        const struct meaning_field *field, uint32_t at, const char *why)
{
    char which[PRINTABLE_NAME_BYTES + 64] = "";
    const char *name = at == CSV_NO_FIELD ? "" : job->column[field[at].column].name;
    if (*name && field[at].kind != COLUMN_IGNORE)
        (void)snprintf(which, sizeof which, "column \"%s\": ", SHOWN(name));
    else if (at != CSV_NO_FIELD)
        (void)snprintf(which, sizeof which, "column %u: ", at + 1);
    (void)err_set(e, ERR_INPUT, "%s%s", which, why);
}

/* The first bad row of the piece: by its text, or by a value. */
static void describe_first(struct csv_piece *p, const struct csv_format *f,
                           const struct meaning_fault *by_value)
{
    const struct csv_batch *b = p->batch;
    char why[MEANING_WHY_BYTES];
    const bool text = b->fault.row < by_value->row || by_value->cause == CAUSE_UNREADABLE;
    const uint32_t row = text ? b->fault.row : by_value->row;
    const uint32_t field = text ? b->fault.field : by_value->column;
    if (!text)
        meaning_why(&f->meaning, by_value, fault_hint(p, f, by_value), why);
    p->first_bad_line = b->line[row];
    p->first_bad_field = f->libsvm ? CSV_NO_FIELD : field;
    csv_batch_describe(&p->first_bad, f->job, b->field, p->first_bad_field,
                       text ? b->fault.why : why);
}

/* ---- encoding ---- */

/* An error of the row has its hint. */
static void note_odd(struct csv_piece *p, uint32_t row)
{
    const struct csv_batch *b = p->batch;
    if (b->odd[row] != CSV_ODDS && !p->odd_line[b->odd[row]])
        p->odd_line[b->odd[row]] = b->line[row];
    p->empty_rows += b->odd[row] == CSV_ODD_EMPTY;
}

static void note_sign(struct csv_piece *p, uint32_t row)
{
    const struct csv_batch *b = p->batch;
    if (b->sign[row] == SIGN_MINUS && !p->minus_line)
        p->minus_line = b->line[row];
    if (b->sign[row] == SIGN_ZERO && !p->zero_line)
        p->zero_line = b->line[row];
}

/* Count the rows, and note their lines. */
static void settle(struct csv_piece *p, const struct csv_format *f,
                   const struct meaning_fault *first)
{
    const struct csv_batch *b = p->batch;
    const uint64_t bad = p->bad;
    for (uint32_t row = 0; row < b->of.rows; row++)
        if (batch_bit(b->present, row)) {
            batch_set_bit(p->present, (uint32_t)p->rows + row);
            note_odd(p, row);
            if (f->libsvm)
                note_sign(p, row);
        } else {
            batch_clear_bit(p->present, (uint32_t)p->rows + row);
            p->bad++;
            p->bad_lines += b->lines[row];
        }
    if (!bad && p->bad)
        describe_first(p, f, first);
    for (uint32_t i = 0; p->learned.spelled && i < f->meaning.schema->inputs + 2; i++) {
        struct learned_spelling *s = &p->learned.spelled[i];
        if (s->found && !s->line)
            s->line = b->line[s->row];
    }
}

enum err csv_batch_encode(struct csv_piece *p, const struct csv_format *f, struct encoded_rows *out)
{
    struct csv_batch *b = p->batch;
    out->present = b->present;
    enum err err = f->receiver ? f->receiver->receive(f->receiver->ctx, p, out)
                               : encode_batch(&f->meaning, b->field, &b->of, csv_batch_sampled(p),
                                              &p->learned, out);
    if (err)
        return err;
    settle(p, f, &out->first);
    p->rows += b->of.rows;
    empty(b);
    return keep_rows(p, f);
}

enum err csv_batch_finish(struct csv_piece *p, const struct csv_format *f)
{
    const size_t wanted = p->used + (size_t)p->batch->of.rows * schema_raw_cells(f->meaning.schema);
    if (p->batch->of.rows == 0)
        return ERR_OK;
    uint32_t *cells = mem_grow(p->cells, &p->cell_room, wanted, sizeof *cells);
    if (!cells)
        return ERR_NOMEM;
    p->cells = cells;
    struct encoded_rows out = {.cells = cells + p->used};
    enum err err = csv_batch_encode(p, f, &out);
    p->used += out.used;
    return err;
}
