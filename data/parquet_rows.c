/* Columns of Parquet files as batches of columns (parquet.h has their values). Numbers are doubles; what becomes words, keys, labels
 * or weights has the text that a csv has for it, so the rows are the same. */
#include "data/arrow/parquet.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/printable.h"
#include "data/csv_batch.h"
#include "data/csv_header.h"

/* ---- columns ---- */

static bool is_numeric(enum arrow_kind k)
{
    return k == ARROW_INTEGER || k == ARROW_UNSIGNED || k == ARROW_FLOAT || k == ARROW_BOOLEAN;
}

/* Values with one text each. */
static bool is_text(enum arrow_kind k)
{
    return k != ARROW_OTHER && k != ARROW_LIST && k != ARROW_FLOAT;
}

static bool is_day(enum arrow_kind k)
{
    return k == ARROW_DATE || k == ARROW_TIMESTAMP;
}

/* Why the column cannot be what the job says; NULL: it can. */
static const char *unfit(const struct parquet_column *c, const struct meaning_field *field,
                         const struct csv_format *f, bool kept)
{
    const enum arrow_kind k = c->type.kind;
    const bool words = field->kind == COLUMN_CATEGORY || field->kind == COLUMN_KEY ||
                       field->kind == COLUMN_KEYS ||
                       (field->kind == COLUMN_LABEL && meaning_has_names(&f->meaning));
    if (k == ARROW_OTHER)
        return "which is not read: write it as columns of numbers and texts";
    if (k == ARROW_LIST && (field->kind != COLUMN_KEYS || kept))
        return "and only keys can be lists";
    if (k == ARROW_LIST && f->meaning.schema->key[field->cell].options.weights)
        return "and lists have no weights: use texts such as red:0.5,blue";
    if (k == ARROW_LIST && !is_text(c->item.kind))
        return "whose values are not read as keys: write integers or texts";
    if (k == ARROW_FLOAT && words)
        return "and floats have no one text: write integers or texts";
    if (is_day(k) && !words && field->kind != COLUMN_IGNORE)
        return "which is no number: write the number that the model needs";
    return NULL;
}

static bool are_alike(const struct arrow_type *a, const struct arrow_type *b)
{
    return a->kind == ARROW_NULL || b->kind == ARROW_NULL || strcmp(a->name, b->name) == 0;
}

enum { TYPE_BYTES = sizeof(struct arrow_type) + 8 };
static const char *type_words(char out[static TYPE_BYTES], const struct arrow_type *type,
                              const struct arrow_type *item)
{
    const bool list = type->kind == ARROW_LIST;
    (void)snprintf(out, TYPE_BYTES, "%s%s", list ? "list of " : "", list ? item->name : type->name);
    return out;
}

/* Is it like the column of the files before? Lists of nulls alone are like other lists. */
static enum err check_alike(struct parquet_known *known, const struct parquet_column *c,
                            const char *path, struct errmsg *e)
{
    const bool nulls = known->type.kind == ARROW_NULL;
    if (known->path &&
        !(are_alike(&known->type, &c->type) &&
          (nulls || c->type.kind == ARROW_NULL || are_alike(&known->item, &c->item))))
        return err_set(e, ERR_INPUT, "column \"%s\": its type is %s, but %s in %s", SHOWN(c->name),
                       type_words((char[TYPE_BYTES]){""}, &c->type, &c->item),
                       type_words((char[TYPE_BYTES]){""}, &known->type, &known->item), known->path);
    if (!known->path || nulls || (known->item.kind == ARROW_NULL && c->type.kind == ARROW_LIST))
        *known = (struct parquet_known){c->type, c->item, path};
    return ERR_OK;
}

/* likely: the number of the column of this name in the first file, if both have the same. */
static enum err check_column(const struct parquet *p, const struct parquet_column *c,
                             uint32_t likely, const struct meaning_field *field,
                             const struct csv_format *f, bool kept, struct errmsg *e)
{
    const uint32_t columns = p->first->columns;
    const char *why = unfit(c, field, f, kept);
    if (why)
        return err_set(e, ERR_INPUT, "column \"%s\": its type is %s, %s", SHOWN(c->name),
                       SHOWN(c->type.name), why);
    for (uint32_t i = 0; i < columns; i++) {
        const uint32_t at = (likely + i) % columns;
        if (strcmp(p->first->column[at].name, c->name) == 0)
            return check_alike(&p->first->column[at].known, c, p->file->path, e);
    }
    return ERR_OK;
}

/* Leave the fields that are read. */
static enum err choose_columns(struct parquet *p, struct csv_file *file,
                               const struct csv_format *format, struct errmsg *e)
{
    enum err err = ERR_OK;
    uint32_t fields = 0;
    for (uint32_t i = 0; i < file->fields && !err; i++) {
        const bool kept = file->kept_as[i] > 0;
        if (file->field[i].kind == COLUMN_IGNORE && !kept)
            continue;
        file->field[fields] = file->field[i];
        file->kept_as[fields] = file->kept_as[i];
        struct parquet_column *c = parquet_read(p, i);
        const struct ArrowSchema *s = c->of == PARQUET_OF_PATH ? NULL : p->file->schema.children[i];
        if (s)
            c->type = arrow_type_of(s);
        if (s && c->type.kind == ARROW_LIST && s->n_children == 1)
            c->item = arrow_type_of(s->children[0]);
        c->coded = file->field[fields].kind == COLUMN_KEY && !c->type.index_bytes &&
                   format->meaning.schema->key[file->field[fields].cell].options.hash;
        err = check_column(p, c, fields, &file->field[fields], format, kept, e);
        fields++;
    }
    file->fields = fields;
    return err;
}

static bool is_named(const struct parquet *p, const char *name)
{
    const struct parquet_file *f = p->file;
    bool is = false;
    for (int64_t i = 0; i < f->schema.n_children && !is; i++)
        is = strcmp(f->schema.children[i]->name, name) == 0;
    for (uint32_t i = 0; i < f->parts && !is; i++)
        is = strcmp(f->part[i].name, name) == 0;
    return is;
}

/* The columns that the file lacks: a name that the first one has is no mistake of spelling. */
static enum err add_absent(struct parquet *p, const struct csv_format *f, struct errmsg *e)
{
    enum err err = ERR_OK;
    for (uint32_t i = 0; i < f->job->columns && p->file != p->first && !err; i++) {
        const struct job_column *c = &f->job->column[i];
        const bool can = c->kind == COLUMN_NUMBER || c->kind == COLUMN_CATEGORY ||
                         c->kind == COLUMN_KEY || c->kind == COLUMN_KEYS;
        if (can && f->job->absent_columns == ABSENT_MISSING && !is_named(p, c->name))
            err = parquet_lacks(p, c->name, e);
    }
    return err;
}

static enum err find_columns(struct parquet *p, struct csv_file *file,
                             const struct csv_format *format, struct errmsg *e)
{
    const struct ArrowSchema *s = &p->file->schema;
    enum err err = add_absent(p, format, e);
    const uint32_t parts = p->file->parts;
    uint32_t columns = (uint32_t)s->n_children;
    const char **name = mem_zalloc((size_t)columns + parts + 1, sizeof *name);
    err = err || name ? err : err_memory(e);
    for (uint32_t i = 0; i < columns && !err; i++)
        name[i] = s->children[i]->name;
    for (uint32_t i = 0; i < parts && !err; i++)
        name[columns++] = p->file->part[i].name;
    if (!err)
        err = csv_file_columns(file, format, name, columns, e);
    if (!err)
        err = choose_columns(p, file, format, e);
    mem_free(name);
    return err;
}

enum err parquet_rows_begin(struct csv_file *file, const struct csv_format *f, struct parquet *p,
                            struct errmsg *e)
{
    enum err err = parquet_open(p, file->path, e);
    if (!err)
        err = find_columns(p, file, f, e);
    return err ? err_wrap(e, err, "%s: ", file->path) : ERR_OK;
}

/* ---- values ---- */

/* The text of a value. ends: it is copied, with an end behind it, as texts of numbers need one. */
static struct batch_text put_text(struct parquet_piece *q, const struct arrow_type *t,
                                  const struct ArrowArray *a, int64_t at, bool ends)
{
    char made[ARROW_TEXT_BYTES];
    const struct batch_text none = {"", 0}, text = arrow_text(t, a, at, made);
    if (t->kind == ARROW_TEXT && !ends)
        return text;
    char *copy = parquet_hold(q, text.bytes + 1);
    if (!copy)
        return none;
    memcpy(copy, text.at, text.bytes);
    copy[text.bytes] = '\0';
    return (struct batch_text){copy, text.bytes};
}

struct filling {
    struct parquet_piece *q;
    const struct csv_format *f;
    const struct parquet_column *column;
    struct arrow_type type; /* the column's, or of indices in a dictionary of its values */
    const struct meaning_field *field;
    const struct ArrowArray *array; /* NULL: the path has the value */
    int64_t first;                  /* row of the array */
    uint32_t rows;
    uint8_t *valid; /* bits of rows */
    bool nulls;
    bool coded, sampled; /* sampled: texts of these rows are in the sample */
};

static void set_null(struct filling *x, uint32_t row)
{
    batch_clear_bit(x->valid, row);
    x->nulls = true;
}

/* The text of the path, or null. */
static void fill_of_path(struct filling *x, struct batch_text *to)
{
    const char *value = x->column->value;
    for (uint32_t i = 0; i < x->rows; i++) {
        to[i] = (struct batch_text){value ? value : "", value ? strlen(value) : 0};
        if (!value)
            set_null(x, i);
    }
}

static void *fill_texts(struct filling *x)
{
    const enum column_kind kind = x->field->kind;
    const bool ends = kind == COLUMN_NUMBER || kind == COLUMN_LABEL || kind == COLUMN_WEIGHT;
    struct batch_text *to = parquet_hold(x->q, x->rows * sizeof *to);
    if (to && !x->array)
        fill_of_path(x, to);
    for (uint32_t i = 0; i < x->rows && to && x->array; i++) {
        const struct ArrowArray *a = x->array;
        const struct arrow_type *t = &x->type;
        int64_t at;
        to[i] = (struct batch_text){"", 0};
        if (!arrow_find(t, &a, x->first + i, &at) ||
            (t->kind == ARROW_FLOAT && isnan(arrow_double(t, a, at))))
            set_null(x, i);
        else
            to[i] = put_text(x->q, t, a, at, ends);
    }
    return to;
}

/* In the middle of two floats: the digits that it is written with can be nearer to one of them. */
static double as_written(double v)
{
    char text[ARROW_TEXT_BYTES];
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    if ((bits & 0x1FFFFFFF) != 0x10000000 || !isfinite(v))
        return v;
    (void)arrow_shortest(v, text);
    return (double)strtof(text, NULL);
}

static bool is_marker(const struct meaning *m, double v)
{
    for (uint32_t i = 0; i < m->markers; i++)
        if (m->marker[i].value == v)
            return true;
    return false;
}

static void *fill_doubles(struct filling *x)
{
    const struct meaning *m = &x->f->meaning;
    const struct schema_input *in = &m->schema->input[x->field->cell];
    const struct arrow_type *t = &x->type;
    const bool rounds = !in->wide && !in->ids;
    const size_t bytes = x->rows * sizeof(double);
    double *to = parquet_hold(x->q, bytes), *exact = m->markers ? parquet_hold(x->q, bytes) : to;
    if (!to || !exact)
        return NULL;
    if (m->markers)
        (void)arrow_doubles(t, x->array, x->first, x->rows, false, exact, x->valid);
    x->nulls = arrow_doubles(t, x->array, x->first, x->rows, rounds, to, x->valid);
    for (uint32_t i = 0; i < x->rows && rounds && t->kind == ARROW_FLOAT && t->bytes == 8; i++)
        to[i] = as_written(to[i]);
    for (uint32_t i = 0; i < x->rows && m->markers; i++)
        if (is_marker(m, exact[i]))
            set_null(x, i);
    return to;
}

/* Integers that a double does not hold: in the sample rows are texts, whose digits are all compared. */
static bool are_long(const struct filling *x)
{
    const struct arrow_type *t = &x->type;
    return (t->kind == ARROW_INTEGER || t->kind == ARROW_UNSIGNED) && t->bytes == 8;
}

/* Keys that are hashed as their texts, which encode_batch makes. */
static bool are_integers(const struct filling *x)
{
    const struct arrow_type *t = &x->type;
    return x->array && x->field->kind == COLUMN_KEY &&
           (t->kind == ARROW_INTEGER || (t->kind == ARROW_UNSIGNED && t->bytes < 8)) &&
           x->f->meaning.schema->key[x->field->cell].options.hash;
}

static void *fill_integers(struct filling *x)
{
    int64_t *to = parquet_hold(x->q, x->rows * sizeof *to);
    if (to)
        x->nulls = arrow_integers(&x->type, x->array, x->first, x->rows, to, x->valid);
    return to;
}

/* The keys of the words of the dictionary, each hashed once. NULL: no memory. */
static const struct batch_codes *codes_of(struct filling *x)
{
    struct parquet_codes *all = x->q->batch->codes;
    struct batch_codes *codes = &all->of[x->column->child];
    const struct ArrowArray *words = x->array->dictionary;
    const uint32_t n = (uint32_t)words->length;
    bool made = true;
    (void)pthread_mutex_lock(&all->lock);
    if (!codes->key) {
        const bool text = x->column->type.kind == ARROW_TEXT;
        const size_t each = text ? sizeof(struct batch_text) : sizeof(int64_t);
        struct batch_column c = {.type = text ? BATCH_TEXTS : BATCH_INTEGERS};
        uint8_t valid[] = {0};
        void *values = mem_zalloc((size_t)n + 1, each);
        for (uint32_t i = 0; i < n && values; i++)
            if (text)
                ((struct batch_text *)values)[i] = arrow_text(
                    &x->column->type, words, words->offset + i, (char[ARROW_TEXT_BYTES]){""});
            else
                (void)arrow_integers(&x->column->type, words, i, 1, (int64_t *)values + i, valid);
        c.values = values;
        made = values && encode_codes(&x->f->meaning, x->field->cell, &c, n, codes) == ERR_OK;
        mem_free(values);
    }
    (void)pthread_mutex_unlock(&all->lock);
    x->q->starved |= !made;
    return made ? codes : NULL;
}

/* Texts of 32-bit offsets are views of the array, unless a number needs an end behind them. */
static bool are_views(const struct filling *x)
{
    const enum column_kind kind = x->field->kind;
    return x->array && x->type.kind == ARROW_TEXT && x->type.bytes == 4 && !x->type.index_bytes &&
           (kind == COLUMN_KEY || kind == COLUMN_KEYS || kind == COLUMN_CATEGORY);
}

static void *fill_views(struct filling *x)
{
    const struct ArrowArray *a = x->array;
    const int32_t *offset = (const int32_t *)a->buffers[1] + a->offset + x->first;
    struct batch_view *to = parquet_hold(x->q, x->rows * sizeof *to);
    for (uint32_t i = 0; i < x->rows && to; i++)
        to[i] = (struct batch_view){(uint32_t)offset[i], (uint32_t)(offset[i + 1] - offset[i])};
    x->nulls = arrow_nulls(a, x->first, x->rows, x->valid);
    return to;
}

/* The first of data.missing, as a value within a list cannot be null. False: there is none. */
static bool put_missing(const struct meaning *m, struct batch_text *to)
{
    if (m->missing.count)
        to->at = vocabulary_text(&m->missing, 0, &to->bytes);
    return m->missing.count > 0;
}

/* The values of rows as one array; one too many of a row is a fault. */
static void *fill_lists(struct filling *x, int32_t *list)
{
    const uint32_t most = x->f->meaning.schema->key[x->field->cell].options.max_values + 1;
    struct batch_text *to = parquet_hold(x->q, (size_t)x->rows * most * sizeof *to);
    int32_t n = 0;
    list[0] = 0;
    for (uint32_t i = 0; i < x->rows && to; i++) {
        const struct ArrowArray *a = x->array;
        int64_t at, begin = 0, end = 0;
        if (arrow_find(&x->type, &a, x->first + i, &at))
            arrow_list(&x->type, a, at, &begin, &end);
        else
            set_null(x, i);
        for (int64_t k = begin; k < end && (uint32_t)(n - list[i]) < most; k++) {
            const struct ArrowArray *of = x->array->children[0];
            if (arrow_find(&x->column->item, &of, k, &at))
                to[n++] = put_text(x->q, &x->column->item, of, at, false);
            else
                n += put_missing(&x->f->meaning, &to[n]);
        }
        list[i + 1] = n;
    }
    return to;
}

static void fill_column(struct filling *x, struct batch_column *to)
{
    int32_t *list = NULL;
    *to = (struct batch_column){.type = BATCH_NOTHING};
    x->valid = parquet_hold(x->q, ENCODE_ROWS / 8);
    if (!x->valid || x->field->kind == COLUMN_IGNORE)
        return;
    memset(x->valid, 0xFF, ENCODE_ROWS / 8);
    x->nulls = false;
    to->type = BATCH_TEXTS;
    if (x->type.kind == ARROW_LIST) {
        list = parquet_hold(x->q, (ENCODE_ROWS + 1) * sizeof *list);
        to->values = list ? fill_lists(x, list) : NULL;
    } else if (x->field->kind == COLUMN_NUMBER && is_numeric(x->type.kind) &&
               !(x->sampled && are_long(x))) {
        to->type = BATCH_DOUBLES;
        to->values = fill_doubles(x);
    } else if (x->coded && !x->sampled) {
        to->type = BATCH_CODES;
        to->codes = codes_of(x);
        to->values = (const int32_t *)x->array->buffers[1] + x->array->offset + x->first;
        x->nulls = arrow_nulls(x->array, x->first, x->rows, x->valid);
    } else if (are_views(x)) {
        to->type = BATCH_VIEWS;
        to->base = x->array->buffers[2] ? x->array->buffers[2] : "";
        to->values = fill_views(x);
    } else if (are_integers(x)) {
        to->type = BATCH_INTEGERS;
        to->values = fill_integers(x);
    } else {
        to->values = fill_texts(x);
    }
    to->list = list;
    to->valid = x->nulls ? x->valid : NULL;
}

/* Texts that are wanted as they are: none of a missing value. */
static void keep_texts(struct csv_piece *p, const struct filling *x, uint32_t as)
{
    const char *value = x->column->value ? x->column->value : "";
    for (uint32_t i = 0; i < x->rows; i++) {
        const struct ArrowArray *a = x->array;
        struct batch_text t = {a ? "" : value, a ? 0 : strlen(value)};
        int64_t at;
        if (a && arrow_find(&x->type, &a, x->first + i, &at))
            t = put_text(x->q, &x->type, a, at, false);
        p->kept[(p->rows + i) * x->f->keep->columns + as - 1] =
            (struct csv_text){t.at, (uint32_t)t.bytes};
    }
}

/* ---- rows ---- */

/* NULL: the column is of the path. */
static const struct ArrowArray *child_of(const struct parquet_piece *q, uint32_t i)
{
    const struct parquet_column *c = &q->file->column[i];
    return c->of == PARQUET_OF_PATH ? NULL : q->batch->rows.children[c->child];
}

static void fill_batch(struct csv_piece *p, const struct csv_format *f, uint32_t from,
                       uint32_t rows)
{
    struct parquet_piece *q = p->parquet;
    struct csv_batch *b = p->batch;
    b->of.rows = rows;
    for (uint32_t i = 0; i < rows; i++) {
        b->line[i] = parquet_line(q->group, q->row + from + i);
        b->lines[i] = 1;
        b->odd[i] = CSV_ODDS;
    }
    for (uint32_t i = 0; i < p->fields; i++) {
        struct filling x = {.q = q,
                            .f = f,
                            .column = &q->file->column[i],
                            .field = &p->field[i],
                            .array = child_of(q, i),
                            .first = q->batch->rows.offset + q->first + from,
                            .rows = rows,
                            .sampled = csv_batch_sampled(p) > 0};
        x.type = x.column->type;
        x.coded = x.array && x.array->dictionary && !x.type.index_bytes;
        if (x.coded) {
            x.type.index_bytes = sizeof(int32_t);
            x.type.index_signed = true;
        }
        fill_column(&x, &b->column[i]);
        if (p->kept_as[i])
            keep_texts(p, &x, p->kept_as[i]);
    }
}

enum err parquet_rows(struct csv_piece *p, const struct csv_format *f, struct errmsg *e)
{
    struct parquet_piece *q = p->parquet;
    p->rows = p->bad = p->bad_lines = 0;
    p->used = 0;
    p->between = p->behind = (struct csv_empty){0};
    parquet_let_go(q);
    enum err err = csv_batch_begin(p, f);
    for (uint32_t row = 0, n; row < q->rows && !err; row += n) {
        n = q->rows - row < p->batch->rows_max ? q->rows - row : p->batch->rows_max;
        if (!f->keep)
            parquet_let_go(q);
        fill_batch(p, f, row, n);
        err = q->starved ? ERR_NOMEM : csv_batch_finish(p, f);
        if (p->bad && f->job->bad_rows == BAD_ROWS_STOP)
            break;
    }
    assert(p->bad <= p->rows);
    return err ? err_memory_for(e, "%" PRIu64 " rows", p->rows) : ERR_OK;
}
