/* Rows on their way to the model. A row of text, of values or of a text file is a batch, which becomes cells by the function that
 * training data go through (data/meaning/encode.h), so it gets the same bits; then features and keys are made of its cells. */
#include "predict/rows.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/printable.h"
#include "common/math/kernels.h"
#include "data/csv_batch.h"
#include "data/csv_header.h"
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
    struct csv_piece piece;      /* a record with its marks */
    struct batch_column *column; /* (columns.values) of one row by its values, */
    struct row_value *value;     /* (columns.values) and what stands behind them */
    struct batch_text *word;     /* of all keys columns, max_values + 1 each */
    size_t text_used;
    struct csv_file file; /* the text file whose records are added */
    uint64_t line;        /* of the file's next record */
    uint32_t *cells;      /* (rows_max, schema_raw_cells), packed once they are whole */
    /* (format.piece_bytes + CSV_TEXT_PAD) a record; or numbers, or libsvm's pairs, each with an end */
    char *text;
};

/* A value of a row, where a column of a batch can point at it. */
struct row_value {
    struct batch_text text;
    double number;
    uint64_t key;
    int32_t list[2];
    struct batch_text *word; /* (max_values + 1) of keys */
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
    if (f->schema && !(c.of = meaning_fields_new(csv)))
        return err_memory_for(e, "the columns");
    for (uint32_t i = 0; f->schema && i < csv->columns; i++)
        if (is_value(csv->column[i].kind))
            c.of[c.values++] = c.of[i]; /* values <= i */
    for (uint32_t i = 0; f->schema && i < csv->columns; i++) {
        if (csv->column[i].kind == COLUMN_CROSS)
            c.of[c.values + c.crosses++] =
                (struct meaning_field){.kind = COLUMN_CROSS, .cell = keys, .column = i};
        keys += job_column_has_keys(&csv->column[i]);
    }
    *out = c;
    return ERR_OK;
}

/* ---- construction ---- */

/* Room for the values of one row. */
static enum err make_values(struct rows *r)
{
    const struct columns *c = &r->columns;
    size_t words = 0;
    for (uint32_t i = 0; i < r->schema->keys; i++)
        words += (size_t)table_key_width(&r->schema->key[i]) + 1;
    r->column = mem_zalloc(c->values, sizeof *r->column);
    r->value = mem_zalloc(c->values, sizeof *r->value);
    r->word = mem_zalloc(words, sizeof *r->word);
    if (!r->column || !r->value || !r->word)
        return ERR_NOMEM;
    for (uint32_t i = 0, at = 0; i < c->values; i++) {
        r->value[i].word = r->word + at;
        if (c->of[i].kind == COLUMN_KEYS)
            at += table_key_width(&r->schema->key[c->of[i].cell]) + 1;
    }
    return ERR_OK;
}

static enum err rows_make_columns(struct rows *r, struct errmsg *e)
{
    const struct job_csv *csv = &r->folder->job.data.csv;
    const struct table_schema *s = r->schema;
    enum err err = csv_format_init(&r->format, csv, s, false, model_classes(r->folder->model), e);
    if (err)
        return err;
    r->format.libsvm = r->folder->job.data.format == DATA_LIBSVM;
    r->format.grammar.quotes &= !r->format.libsvm;
    r->format.meaning.unlabeled = true;
    err = columns_init(&r->columns, r->folder, e);
    if (err)
        return err;
    err = learned_init(&r->piece.learned, s, false, false);
    if (!err)
        err = make_values(r);
    if (!err && r->format.libsvm)
        err = libsvm_begin(&r->piece, &r->format);
    r->cells = mem_zalloc(r->rows_max, schema_raw_cells(s) * sizeof *r->cells);
    r->text = mem_zalloc(r->format.piece_bytes + CSV_TEXT_PAD, 1);
    r->piece.mark = mem_zalloc(r->format.piece_bytes + CSV_TEXT_PAD, sizeof *r->piece.mark);
    if (err || !r->cells || !r->text || !r->piece.mark)
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
    if (r->schema)
        learned_close(&r->piece.learned, r->schema->inputs);
    csv_batch_free(r->piece.batch);
    mem_free(r->piece.present);
    mem_free(r->column);
    mem_free(r->value);
    mem_free(r->word);
    mem_free(r->piece.mark);
    mem_free(r->cells);
    mem_free(r->text);
    mem_free(r);
}

/* ---- a value ---- */

static const uint8_t no_value = 0; /* a validity bitmap */

/* Values that cannot be a column: the reason why, in `why`. Returns false. */
PRINTF_LIKE(2, 3) static bool refuse_value(char why[static MEANING_WHY_BYTES], const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    (void)printable_vformat(why, MEANING_WHY_BYTES, fmt, args);
    va_end(args);
    return false;
}

/* A copy of the text with an end after it; NULL: there is no room. */
static char *copy_text(struct rows *r, const char *text, size_t bytes, char end)
{
    char *copy = r->text + r->text_used;
    if (bytes > r->format.piece_bytes || r->text_used + bytes > r->format.piece_bytes)
        return NULL;
    memcpy(copy, text, bytes);
    copy[bytes] = end;
    r->text_used += bytes + 1;
    return copy;
}

/* Libsvm's pairs. */
static bool put_pairs(struct rows *r, uint32_t i, const char *text, size_t bytes, char *why)
{
    const char *copy = copy_text(r, text, bytes, '\n');
    if (memchr(text, '\n', bytes))
        return refuse_value(why, "a newline in a row");
    if (!copy)
        return refuse_value(why, "a field of more than %zu bytes", r->format.piece_bytes);
    if (libsvm_begin(&r->piece, &r->format))
        return refuse_value(why, "out of memory");
    libsvm_pairs(&r->piece, &r->format, copy);
    r->column[i] = r->piece.batch->column[LIBSVM_PAIRS];
    return r->column[i].unreadable ? refuse_value(why, "%s", r->piece.batch->fault.why) : true;
}

static bool put_text(struct rows *r, uint32_t i, const struct gradwire_text *field, char *why)
{
    struct row_value *v = &r->value[i];
    v->text = (struct batch_text){field->bytes ? field->text : "", field->bytes};
    if (r->format.job->trim)
        (void)csv_hint_trim(&v->text.at, &v->text.bytes);
    if (r->format.libsvm)
        return put_pairs(r, i, v->text.at, v->text.bytes, why);
    if (r->columns.of[i].kind == COLUMN_NUMBER)
        v->text.at = copy_text(r, v->text.at, v->text.bytes, '\0');
    if (!v->text.at)
        return refuse_value(why, "the numbers of a row have more than %zu bytes of text",
                            r->format.piece_bytes);
    r->column[i] = (struct batch_column){.type = BATCH_TEXTS, .values = &v->text};
    return true;
}

/* Weights of a list; false: they do not fit the column. */
static bool check_weights(const struct rows *r, uint32_t i, const float *weight, uint32_t n,
                          char *why)
{
    if (weight && !r->schema->key[r->columns.of[i].cell].options.weights)
        return refuse_value(why,
                            "its values have weights, and weights: true is not in data.columns");
    for (uint32_t k = 0; weight && k < n; k++)
        if (!isfinite(weight[k]))
            return refuse_value(why, "the weight of value %u is not a finite number", k + 1);
    return true;
}

/* A list of so many values; the first one too many is a fault. */
static uint32_t put_list(struct rows *r, uint32_t i, enum batch_type type, const void *values,
                         const float *weight, uint32_t n)
{
    const uint32_t most = table_key_width(&r->schema->key[r->columns.of[i].cell]) + 1;
    struct row_value *v = &r->value[i];
    v->list[1] = (int32_t)(n < most ? n : most);
    r->column[i] =
        (struct batch_column){.type = type, .values = values, .list = v->list, .weight = weight};
    return (uint32_t)v->list[1];
}

static bool put_words(struct rows *r, uint32_t i, const struct gradwire_value *v, char *why)
{
    struct batch_text *to = r->value[i].word;
    if (!check_weights(r, i, v->as.words.weight, v->count, why))
        return false;
    uint32_t n = put_list(r, i, BATCH_TEXTS, to, v->as.words.weight, v->count);
    for (uint32_t k = 0; k < n; k++) {
        const struct gradwire_text *word = &v->as.words.word[k];
        to[k] = (struct batch_text){word->bytes ? word->text : "", word->bytes};
    }
    return true;
}

static bool put_keys(struct rows *r, uint32_t i, const struct gradwire_value *v, char *why)
{
    if (!check_weights(r, i, v->as.keys.weight, v->count, why))
        return false;
    (void)put_list(r, i, BATCH_KEYS, v->as.keys.key, v->as.keys.weight, v->count);
    return true;
}

static bool put_number(struct rows *r, uint32_t i, double number)
{
    r->value[i].number = number;
    r->column[i] = (struct batch_column){.type = BATCH_DOUBLES, .values = &r->value[i].number};
    return true;
}

static bool put_key(struct rows *r, uint32_t i, uint64_t key)
{
    r->value[i].key = key;
    r->column[i] = (struct batch_column){.type = BATCH_KEYS, .values = &r->value[i].key};
    return true;
}

/* The value of column i; false: it cannot be one. */
static bool put_value(struct rows *r, uint32_t i, const struct gradwire_value *v, char *why)
{
    const enum column_kind kind = r->columns.of[i].kind;
    if (v->type == GRADWIRE_VALUE_MISSING)
        r->column[i] = (struct batch_column){.type = BATCH_NOTHING, .valid = &no_value};
    else if (v->type == GRADWIRE_VALUE_TEXT)
        return put_text(r, i, &v->as.text, why);
    else if (v->type == GRADWIRE_VALUE_NUMBER && kind == COLUMN_NUMBER)
        return put_number(r, i, (double)v->as.number);
    else if (v->type == GRADWIRE_VALUE_DOUBLE && kind == COLUMN_NUMBER)
        return put_number(r, i, v->as.real);
    else if (v->type == GRADWIRE_VALUE_KEY && kind == COLUMN_KEY)
        return put_key(r, i, v->as.key);
    else if (v->type == GRADWIRE_VALUE_WORDS && kind == COLUMN_KEYS)
        return put_words(r, i, v, why);
    else if (v->type == GRADWIRE_VALUE_KEYS && kind == COLUMN_KEYS)
        return put_keys(r, i, v, why);
    else
        return refuse_value(why, "a value of type %d does not fit this kind of column",
                            (int)v->type);
    return true;
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

static uint32_t *rows_cells(const struct rows *r, uint32_t row)
{
    return r->cells + (size_t)row * schema_raw_cells(r->schema);
}

/* All values are in the row's cells. */
static enum err row_finish(struct rows *r, struct errmsg *e)
{
    uint32_t *cells = rows_cells(r, rows_count(r));
    schema_scale_row(r->schema, cells);
    return leaf_buffer_add(r->buffer, cells, e);
}

/* Encode the row whose first values are in columns. Returns the column of a value that does not fit, with the reason why;
 * GRADWIRE_NONE: all do. */
static uint32_t encode_values(struct rows *r, uint32_t columns, char why[static MEANING_WHY_BYTES])
{
    const struct column_batch b = {.rows = 1, .columns = columns, .column = r->column};
    uint8_t present;
    struct encoded_rows out = {.cells = rows_cells(r, rows_count(r)), .present = &present};
    enum err err = encode_batch(&r->format.meaning, r->columns.of, &b, 0, &r->piece.learned, &out);
    assert(!err); /* the row teaches nothing */
    (void)err;
    if (out.first.row == MEANING_NO_ROW)
        return GRADWIRE_NONE;
    meaning_why(&r->format.meaning, &out.first, csv_batch_text_hint(&r->format, &out.first), why);
    return out.first.column;
}

enum err rows_add(struct rows *r, const struct gradwire_text *field,
                  const struct gradwire_value *value, uint32_t *column, struct errmsg *e)
{
    char refused[MEANING_WHY_BYTES], why[MEANING_WHY_BYTES];
    uint32_t i = 0;
    enum err err = rows_check_columns(r, true, e);
    if (!err)
        err = check_full(r, e);
    if (err)
        return err;
    r->text_used = 0;
    while (i < r->columns.values &&
           (field ? put_text(r, i, &field[i], refused) : put_value(r, i, &value[i], refused)))
        i++;
    uint32_t wrong = encode_values(r, i, why); /* one before it comes first */
    if (wrong == GRADWIRE_NONE && i == r->columns.values)
        return row_finish(r, e);
    *column = wrong == GRADWIRE_NONE ? i : wrong;
    csv_batch_describe(e, r->format.job, r->columns.of, *column,
                       wrong == GRADWIRE_NONE ? refused : why);
    return ERR_INPUT;
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
    size_t most = bytes - mark < r->format.piece_bytes ? bytes - mark : r->format.piece_bytes;
    size_t row = r->schema ? csv_scan_row(text + mark, most, &r->format.grammar) : 0;
    return row ? mark + row : 0;
}

/* Put the record into the piece, with a newline at its end. */
static enum err put_record(struct rows *r, const char *text, size_t bytes, struct errmsg *e)
{
    struct csv_piece *p = &r->piece;
    size_t mark = 0;
    enum err err = ERR_OK;
    if (bytes > r->format.piece_bytes)
        return csv_refuse_long(e, text, bytes, r->line, &r->format);
    memcpy(r->text, text, bytes);
    p->text = r->text;
    p->bytes = bytes;
    if (r->line == 1)
        err = csv_file_skip_mark(p, &mark, e);
    if (err)
        return err_wrap(e, err, "%llu: ", (unsigned long long)r->line);
    if (!p->bytes || p->text[p->bytes - 1] != '\n')
        p->text[p->bytes++] = '\n';
    csv_piece_grammar(p, &r->format);
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
static uint32_t column_at_fault(const struct rows *r)
{
    const uint32_t wrong = r->piece.first_bad_field;
    for (uint32_t i = 0; wrong != CSV_NO_FIELD && i < r->columns.values; i++)
        if (r->columns.of[i].column == r->file.field[wrong].column)
            return i;
    return GRADWIRE_NONE;
}

/* Add the piece's one row to its batch, which is empty. */
static enum err split_record(struct rows *r, uint64_t line)
{
    struct csv_piece *p = &r->piece;
    p->field = r->file.field;
    p->kept_as = r->file.kept_as;
    p->fields = r->file.fields;
    p->rows = p->bad = 0;
    p->lone_cr = true; /* to be looked for */
    enum err err = r->format.libsvm ? libsvm_begin(p, &r->format) : csv_batch_begin(p, &r->format);
    if (err)
        return err;
    if (r->format.libsvm) {
        libsvm_row(p, &r->format, p->text, p->text + p->bytes - 1, line);
    } else {
        size_t marks = csv_scan(p->mark, p->text, p->bytes, &p->grammar);
        csv_rows_split(p, &r->format, 0, p->mark, p->mark + marks - 1, line, 1);
    }
    return ERR_OK;
}

/* Read the piece's one row, if it has one; `line` is for messages. */
static enum err read_record(struct rows *r, uint64_t line, uint32_t *column, struct errmsg *e)
{
    struct csv_piece *p = &r->piece;
    struct encoded_rows out = {.cells = NULL};
    const char *end = p->text + p->bytes - 1;
    if (p->bytes == 0 || (r->format.libsvm ? libsvm_is_no_row(p->text, end)
                                           : csv_is_no_row(&r->format, p->text, end)))
        return ERR_OK;
    enum err err = check_full(r, e);
    if (err)
        return err;
    out.cells = rows_cells(r, rows_count(r));
    if (split_record(r, line) || csv_batch_encode(p, &r->format, &out))
        return err_memory_for(e, "a record");
    if (!p->bad)
        return row_finish(r, e);
    *column = column_at_fault(r);
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
