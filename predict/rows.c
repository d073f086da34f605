/* Rows on their way to the model. A row of text, of values or of a text file becomes cells by the functions that read training
 * data (data/csv_cell.h, data/csv_rows.h), so it gets the same bits; then features and keys are made of its cells. */
#include "predict/rows.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/math/kernels.h"
#include "data/csv_cell.h"
#include "data/csv_header.h"
#include "data/libsvm_rows.h"
#include "data/text/csv_hint.h"
#include "data/text/text_encoding.h"

struct rows {
    const struct folder *folder;
    const struct table_schema *schema; /* NULL: rows have no columns */
    uint32_t rows_max;
    struct leaf_buffer *buffer; /* the rows, encoded */
    struct leaf leaf;
    /* with columns: */
    struct columns columns;
    struct csv_format format;
    struct csv_piece piece; /* for csv_row: its fields, and a record with its marks */
    struct csv_file file;   /* the text file whose records are added */
    uint64_t line;          /* of the file's next record */
    uint32_t *cells;        /* (rows_max, schema_raw_cells), packed once they are whole */
    char *text; /* (CSV_TEXT_ROOM) a record; or a number, or libsvm's pairs, with an end */
};

/* ---- columns ---- */

static bool is_value(enum column_kind kind)
{
    return kind == COLUMN_NUMBER || kind == COLUMN_CATEGORY || kind == COLUMN_KEY ||
           kind == COLUMN_KEYS;
}

enum err columns_init(struct columns *out, const struct folder *f, struct errmsg *e)
{
    const struct job_csv *csv = &f->job.data.csv;
    struct columns c = {0};
    uint32_t keys = 0;
    if (f->schema && !(c.of = mem_zalloc(csv->columns, sizeof *c.of)))
        return err_memory_for(e, "the columns");
    for (uint32_t i = 0; f->schema && i < csv->columns; i++)
        if (is_value(csv->column[i].kind))
            c.of[c.values++] = csv_field_of(csv, i);
    for (uint32_t i = 0; f->schema && i < csv->columns; i++) {
        if (csv->column[i].kind == COLUMN_CROSS)
            c.of[c.values + c.crosses++] =
                (struct csv_field){.kind = COLUMN_CROSS, .cell = keys, .column = i};
        keys += job_column_has_keys(&csv->column[i]);
    }
    *out = c;
    return ERR_OK;
}

void columns_close(struct columns *c)
{
    mem_free(c->of);
    *c = (struct columns){0};
}

/* ---- construction ---- */

static enum err rows_make_columns(struct rows *r, struct errmsg *e)
{
    const struct job_csv *csv = &r->folder->job.data.csv;
    const struct table_schema *s = r->schema;
    enum err err = csv_format_init(&r->format, csv, s, false, model_classes(r->folder->model), e);
    if (err)
        return err;
    r->format.libsvm = r->folder->job.data.format == DATA_LIBSVM;
    r->format.grammar.quotes &= !r->format.libsvm;
    r->format.unlabeled = true;
    err = columns_init(&r->columns, r->folder, e);
    if (err)
        return err;
    r->piece.known = mem_zalloc(s->inputs, sizeof *r->piece.known);
    r->cells = mem_zalloc(r->rows_max, schema_raw_cells(s) * sizeof *r->cells);
    r->text = mem_zalloc(CSV_TEXT_ROOM, 1);
    r->piece.mark = mem_zalloc(CSV_TEXT_ROOM, sizeof *r->piece.mark);
    if (!r->piece.known || !r->cells || !r->text || !r->piece.mark)
        return err_memory_for(e, "%u rows", r->rows_max);
    return ERR_OK;
}

static enum err rows_make(struct rows *r, struct errmsg *e)
{
    const struct leaf_form form = folder_form(r->folder);
    enum err err = leaf_buffer_new(&r->buffer, &form, r->rows_max, LEAF_ALL | LEAF_REPEATED, e);
    return !err && r->schema ? rows_make_columns(r, e) : err;
}

enum err rows_new(struct rows **out, const struct folder *f, uint32_t rows_max, struct errmsg *e)
{
    struct rows *r = mem_zalloc(1, sizeof *r);
    if (!r)
        return err_memory_for(e, "rows");
    r->folder = f;
    r->schema = f->schema;
    r->rows_max = rows_max;
    rows_begin_file(r, NULL);
    enum err err = rows_make(r, e);
    if (err) {
        rows_free(r);
        return err;
    }
    *out = r;
    return ERR_OK;
}

void rows_free(struct rows *r)
{
    if (!r)
        return;
    csv_format_close(&r->format);
    csv_file_close(&r->file);
    leaf_buffer_free(r->buffer);
    columns_close(&r->columns);
    mem_free(r->piece.known);
    mem_free(r->piece.mark);
    mem_free(r->cells);
    mem_free(r->text);
    mem_free(r);
}

/* ---- a field ---- */

/* The text with an end after it. False: it is too long. */
static bool copy_text(struct rows *r, const char *text, size_t bytes, char end)
{
    if (bytes > CSV_PIECE_BYTES)
        return false;
    memcpy(r->text, text, bytes);
    r->text[bytes] = end;
    return true;
}

static void rows_put_text(struct rows *r, struct csv_row *row, const struct gradwire_text *field)
{
    const char *text = field->bytes ? field->text : "";
    size_t bytes = field->bytes;
    if (r->format.job->trim)
        (void)csv_hint_trim(&text, &bytes);
    bool copied = r->format.libsvm || r->columns.of[row->field].kind == COLUMN_NUMBER;
    if (r->format.libsvm && memchr(text, '\n', bytes))
        csv_row_bad(row, "a newline in a row");
    else if (copied && !copy_text(r, text, bytes, r->format.libsvm ? '\n' : '\0'))
        csv_row_bad(row, "a field of more than %d bytes", CSV_PIECE_BYTES);
    else if (r->format.libsvm)
        libsvm_pairs(row, r->text);
    else
        csv_cell_text(row, copied ? r->text : text, bytes);
}

/* ---- a typed value ---- */

/* Weights of a list; false: they do not fit the column. */
static bool check_weights(const struct rows *r, struct csv_row *row, const float *weight,
                          uint32_t n)
{
    bool wanted = r->schema->key[r->columns.of[row->field].cell].options.weights;
    if (weight && !wanted)
        csv_row_bad(row, "its values have weights, and weights: true is not in data.columns");
    for (uint32_t i = 0; weight && i < n && !row->bad; i++)
        if (!isfinite(weight[i]))
            csv_row_bad(row, "the weight of value %u is not a finite number", i + 1);
    return !row->bad;
}

static void put_words(struct rows *r, struct csv_row *row, const struct gradwire_value *v)
{
    if (!check_weights(r, row, v->as.words.weight, v->count))
        return;
    csv_cell_no_keys(row);
    for (uint32_t i = 0; i < v->count && !row->bad; i++) {
        const struct gradwire_text *word = &v->as.words.word[i];
        csv_cell_add_word(row, word->bytes ? word->text : "", word->bytes,
                          v->as.words.weight ? v->as.words.weight[i] : 1);
    }
}

static void put_keys(struct rows *r, struct csv_row *row, const struct gradwire_value *v)
{
    if (!check_weights(r, row, v->as.keys.weight, v->count))
        return;
    csv_cell_no_keys(row);
    for (uint32_t i = 0; i < v->count && !row->bad; i++)
        csv_cell_add_key(row, v->as.keys.key[i], v->as.keys.weight ? v->as.keys.weight[i] : 1);
}

static void put_key(struct csv_row *row, uint64_t key)
{
    csv_cell_no_keys(row);
    csv_cell_add_key(row, key, 1);
}

static void rows_put_value(struct rows *r, struct csv_row *row, const struct gradwire_value *v)
{
    enum column_kind kind = r->columns.of[row->field].kind;
    if (v->type == GRADWIRE_VALUE_MISSING)
        csv_cell_missing(row);
    else if (v->type == GRADWIRE_VALUE_TEXT)
        rows_put_text(r, row, &v->as.text);
    else if (v->type == GRADWIRE_VALUE_NUMBER && kind == COLUMN_NUMBER)
        csv_cell_number(row, (double)v->as.number);
    else if (v->type == GRADWIRE_VALUE_DOUBLE && kind == COLUMN_NUMBER)
        csv_cell_number(row, v->as.real);
    else if (v->type == GRADWIRE_VALUE_KEY && kind == COLUMN_KEY)
        put_key(row, v->as.key);
    else if (v->type == GRADWIRE_VALUE_WORDS && kind == COLUMN_KEYS)
        put_words(r, row, v);
    else if (v->type == GRADWIRE_VALUE_KEYS && kind == COLUMN_KEYS)
        put_keys(r, row, v);
    else
        csv_row_bad(row, "a value of type %d does not fit this kind of column", (int)v->type);
}

/* ---- a row ---- */

void rows_clear(struct rows *r)
{
    leaf_buffer_clear(r->buffer);
}

uint32_t rows_count(const struct rows *r)
{
    return leaf_buffer_rows(r->buffer);
}

static enum err rows_check_columns(const struct rows *r, bool columns, struct errmsg *e)
{
    if (columns == (r->schema != NULL))
        return ERR_OK;
    return err_set(e, ERR_INPUT, "a row of this model %s",
                   columns ? "has no columns: its values are plain numbers"
                           : "has columns: it is not just numbers");
}

static enum err check_full(const struct rows *r, struct errmsg *e)
{
    if (rows_count(r) == r->rows_max)
        return err_set(e, ERR_INPUT, "no room for more than %u rows", r->rows_max);
    return ERR_OK;
}

/* The row has these fields. */
static struct csv_row row_begin(struct rows *r, const struct csv_field *field, uint32_t fields)
{
    uint32_t *cells = r->cells + (size_t)rows_count(r) * schema_raw_cells(r->schema);
    r->piece.field = field;
    r->piece.fields = fields;
    r->piece.bad = 0;
    cells[r->schema->inputs] = schema_bits(0); /* the label */
    if (r->schema->weighted)
        cells[r->schema->inputs + 1] = schema_bits(1);
    return (struct csv_row){.piece = &r->piece, .format = &r->format, .cells = cells};
}

/* All values are in the row's cells. */
static enum err row_finish(struct rows *r, struct csv_row *row, struct errmsg *e)
{
    csv_cell_crosses(row);
    (void)schema_pack(r->schema, row->cells);
    schema_scale_row(r->schema, row->cells);
    return leaf_buffer_add(r->buffer, row->cells, e);
}

/* Add a row of texts or, if there are none, of values. */
static enum err rows_add(struct rows *r, const struct gradwire_text *field,
                         const struct gradwire_value *value, uint32_t *column, struct errmsg *e)
{
    enum err err = rows_check_columns(r, true, e);
    if (!err)
        err = check_full(r, e);
    if (err)
        return err;
    struct csv_row row = row_begin(r, r->columns.of, r->columns.values);
    for (; row.field < r->columns.values; row.field++) {
        if (field)
            rows_put_text(r, &row, &field[row.field]);
        else
            rows_put_value(r, &row, &value[row.field]);
        if (row.bad) {
            *column = row.field;
            return err_set(e, ERR_INPUT, "%s", r->piece.first_bad.text);
        }
    }
    return row_finish(r, &row, e);
}

enum err rows_add_text(struct rows *r, const struct gradwire_text *field, uint32_t *column,
                       struct errmsg *e)
{
    return rows_add(r, field, NULL, column, e);
}

enum err rows_add_values(struct rows *r, const struct gradwire_value *value, uint32_t *column,
                         struct errmsg *e)
{
    return rows_add(r, NULL, value, column, e);
}

static enum err refuse_number(const float *numbers, struct errmsg *e)
{
    uint32_t i = 0;
    while (isfinite(numbers[i]))
        i++;
    return err_set(e, ERR_INPUT, "number %u of the row is not finite", i + 1);
}

enum err rows_add_numbers(struct rows *r, const float *numbers, struct errmsg *e)
{
    const uint32_t features = model_features(r->folder->model), inf_bits = 0x7f800000;
    enum err err = rows_check_columns(r, false, e);
    if (!err)
        err = check_full(r, e);
    if (!err && kernels()->abs_bits(numbers, features) >= inf_bits)
        err = refuse_number(numbers, e);
    if (err)
        return err;
    kernels()->scale(leaf_buffer_add_numbers(r->buffer, 0), numbers,
                     1.0F / r->folder->job.data.scale, features);
    return ERR_OK;
}

/* ---- a record of a text file ---- */

void rows_begin_file(struct rows *r, const char *name)
{
    csv_file_close(&r->file);
    r->file.path = name ? name : "input";
    r->line = 1;
}

size_t rows_record_bytes(const struct rows *r, const char *text, size_t bytes)
{
    const size_t mark = r->line == 1 ? text_encoding_mark_bytes(text, bytes) : 0;
    size_t most = bytes - mark < CSV_PIECE_BYTES ? bytes - mark : CSV_PIECE_BYTES;
    size_t row = r->schema ? csv_scan_row(text + mark, most, &r->format.grammar) : 0;
    return row ? mark + row : 0;
}

/* Put the record into the piece, with a newline at its end. */
static enum err put_record(struct rows *r, const char *text, size_t bytes, struct errmsg *e)
{
    struct csv_piece *p = &r->piece;
    size_t mark = 0;
    enum err err = ERR_OK;
    if (bytes > CSV_PIECE_BYTES)
        return csv_refuse_long(e, text, bytes, r->line, &r->format.grammar);
    memcpy(r->text, text, bytes);
    p->text = r->text;
    p->bytes = bytes;
    if (r->line == 1)
        err = csv_file_skip_mark(p, &mark, e);
    if (err)
        return err_wrap(e, err, "%llu: ", (unsigned long long)r->line);
    if (!p->bytes || p->text[p->bytes - 1] != '\n')
        p->text[p->bytes++] = '\n';
    csv_piece_look(p, &r->format);
    size_t row = csv_scan_row(p->text, p->bytes, &p->grammar);
    if (row == 0)
        return csv_refuse_open(e, p->text, p->bytes, r->line, &p->grammar);
    if (row < p->bytes)
        return err_set(e, ERR_INPUT, "%llu: it is more than one record",
                       (unsigned long long)r->line);
    return ERR_OK;
}

/* Find the columns of the file, and remove its header from the piece. */
static enum err begin_records(struct rows *r, struct errmsg *e)
{
    const char *name = r->file.path;
    enum err err = csv_file_begin(&r->file, &r->piece, &r->format, e);
    if (err) {
        csv_file_close(&r->file);
        r->file.path = name;
    }
    r->piece.header = r->file.header;
    return err;
}

/* The column of the field at fault. */
static uint32_t column_at_fault(const struct rows *r, const struct csv_row *row)
{
    for (uint32_t i = 0; row->wrong != CSV_NO_FIELD && i < r->columns.values; i++)
        if (r->columns.of[i].column == r->file.field[row->wrong].column)
            return i;
    return GRADWIRE_NONE;
}

/* Read the piece's one row, if it has one; `line` is for messages. */
static enum err read_record(struct rows *r, uint64_t line, uint32_t *column, struct errmsg *e)
{
    struct csv_piece *p = &r->piece;
    const char *end = p->text + p->bytes - 1;
    if (p->bytes == 0 || (r->format.libsvm ? libsvm_is_no_row(p->text, end)
                                           : csv_is_no_row(&r->format, p->text, end)))
        return ERR_OK;
    enum err err = check_full(r, e);
    if (err)
        return err;
    struct csv_row row = row_begin(r, r->file.field, r->file.fields);
    row.field = CSV_NO_FIELD;
    p->lone_cr = true; /* to be looked for */
    if (r->format.libsvm) {
        libsvm_row(&row, p->text, end);
    } else {
        size_t marks = csv_scan(p->mark, p->text, p->bytes, &p->grammar);
        csv_rows_fields(&row, 0, p->mark, p->mark + marks - 1);
    }
    if (!row.bad)
        return row_finish(r, &row, e);
    *column = column_at_fault(r, &row);
    return err_set(e, ERR_INPUT, "%s:%llu: %s", r->file.path, (unsigned long long)line,
                   p->first_bad.text);
}

enum err rows_add_record(struct rows *r, const char *record, size_t bytes, uint32_t *column,
                         struct errmsg *e)
{
    struct csv_piece *p = &r->piece;
    const uint64_t line = r->line;
    enum err err = rows_check_columns(r, true, e);
    if (err)
        return err;
    err = put_record(r, record, bytes, e);
    if (err)
        return err_wrap(e, err, "%s:", r->file.path);
    p->line = line;
    r->line += csv_count(p->text, p->bytes, '\n');
    p->begins_file = !r->file.begun;
    if (!r->file.begun)
        err = begin_records(r, e);
    return err ? err : read_record(r, line, column, e);
}

/* ---- encoded ---- */

const struct leaf *rows_leaf(struct rows *r)
{
    enum err err = leaf_buffer_finish(r->buffer, &r->leaf, NULL);
    assert(!err); /* all memory is there */
    (void)err;
    return &r->leaf;
}

void rows_column_keys(const struct rows *r, uint32_t i, uint64_t *key, float *weight)
{
    const struct table_schema *s = r->schema;
    assert(i < r->columns.values + r->columns.crosses &&
           job_column_has_keys(&r->folder->job.data.csv.column[r->columns.of[i].column]));
    const struct table_key *k = &s->key[r->columns.of[i].cell];
    uint32_t width = table_key_width(k);
    for (uint32_t row = 0; row < rows_count(r); row++) {
        const uint32_t *cells = r->cells + (size_t)row * schema_raw_cells(s);
        schema_row_keys(k, table_key_cells(s, k, cells), key + (size_t)row * width,
                        weight ? weight + (size_t)row * width : NULL);
    }
}
