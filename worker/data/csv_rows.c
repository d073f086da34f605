#include "worker/data/csv_rows.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/rows/key.h"
#include "worker/data/csv_key.h"
#include "worker/data/csv_number.h"
#include "worker/data/csv_scan.h"

enum { SHOWN_BYTES = 40 };
#define NO_FIELD UINT32_MAX /* what is wrong is the row's fault, not a field's */

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
    static const char delimiters[] = {',', '\t', ';', '|', ' '};
    struct csv_format f = {.job = job,
                           .schema = schema,
                           .comment_bytes = strlen(job->comment),
                           .delimiter = delimiters[job->delimiter],
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

/* Take the quotes off, and make "" a single one, in place. False: a quote stands alone in it. */
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

static bool is_missing(const struct csv_format *f, const char *text, size_t bytes)
{
    return f->missing_lengths >> (bytes < 63 ? bytes : 63) & 1 &&
           vocabulary_find(&f->missing, text, bytes) != VOCABULARY_NONE;
}

/* ---- what is wrong with a row ---- */

struct row {
    struct csv_piece *piece;
    const struct csv_format *format;
    uint64_t line;
    uint32_t *cells;
    uint32_t field; /* being read, or NO_FIELD */
    uint32_t added; /* categories that learned a word from it */
    bool bad;
    enum err failed; /* not the row's fault */
};

static const char *shown(char out[static SHOWN_BYTES + 8], const char *text, size_t bytes)
{
    size_t n = bytes < SHOWN_BYTES ? bytes : SHOWN_BYTES;
    for (size_t i = 0; i < n; i++)
        out[i] = (unsigned char)text[i] < 0x20 || text[i] == 0x7f ? '?' : text[i];
    (void)snprintf(out + n, 8, "%s", bytes > n ? "..." : "");
    return out;
}

/* "line 12: column 3 (age): ..." */
static void PRINTF_LIKE(2, 3) bad(struct row *r, const char *fmt, ...)
{
    struct csv_piece *p = r->piece;
    const struct job_csv *job = r->format->job;
    char why[300], which[JOB_NAME_MAX + 64] = "";
    if (r->bad)
        return;
    r->bad = true;
    if (p->bad++)
        return;
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(why, sizeof why, fmt, args);
    va_end(args);
    if (r->field != NO_FIELD) {
        const char *name = job->column[p->field[r->field].column].name;
        (void)snprintf(which, sizeof which, "column %u%s%s%s: ", r->field + 1, *name ? " (" : "",
                       name, *name ? ")" : "");
    }
    (void)err_set(&p->first_bad, ERR_INPUT, "line %llu: %s%s", (unsigned long long)r->line, which,
                  why);
}

/* ---- cells ---- */

static void read_number(struct row *r, const struct csv_field *field, const char *text,
                        size_t bytes)
{
    char out[SHOWN_BYTES + 8];
    float v = NAN;
    if (is_missing(r->format, text, bytes)) {
        if (r->format->schema->input[field->cell].missing == MISSING_REFUSE)
            bad(r, "the number is missing");
    } else if (!csv_number(text, bytes, &v)) {
        bad(r, "'%s' is no number, and no marker of data.missing", shown(out, text, bytes));
    }
    r->cells[field->cell] = table_bits(v);
}

static void read_category(struct row *r, const struct csv_field *field, const char *text,
                          size_t bytes)
{
    const struct csv_format *f = r->format;
    const struct table_input *in = &f->schema->input[field->cell];
    uint32_t number;
    if (is_missing(f, text, bytes))
        text = vocabulary_text(&f->missing, 0, &bytes);
    if (f->learning && in->learns) {
        struct vocabulary *words = &r->piece->words[field->cell];
        uint32_t before = words->count;
        r->failed = vocabulary_add(words, text, bytes, &number);
        if (r->failed)
            return;
        assert(number < words->count && words->count - before <= 1);
        if (words->count > before)
            r->piece->added[r->added++] = field->cell;
        assert(r->added <= f->schema->inputs);
    } else {
        number = vocabulary_find(&in->words, text, bytes);
    }
    r->cells[field->cell] = number + 1; /* VOCABULARY_NONE + 1 is 0 */
}

static void read_class(struct row *r, const char *text, size_t bytes, float *label)
{
    const struct csv_format *f = r->format;
    char out[SHOWN_BYTES + 8], first[SHOWN_BYTES + 8];
    uint32_t name = vocabulary_find(&f->names, text, bytes);
    uint32_t number = name == VOCABULARY_NONE ? f->others : f->class_of[name];
    if (number == VOCABULARY_NONE) {
        size_t n;
        const char *known = vocabulary_text(&f->names, 0, &n);
        bad(r, "'%s' is none of the label's classes, like '%s'", shown(out, text, bytes),
            shown(first, known, n));
        return;
    }
    *label = (float)number;
}

static void read_label(struct row *r, const struct csv_field *field, const char *text, size_t bytes)
{
    const struct csv_format *f = r->format;
    char out[SHOWN_BYTES + 8];
    float v = 0;
    if (is_missing(f, text, bytes))
        bad(r, "the label is missing");
    else if (f->names.count || f->others != VOCABULARY_NONE)
        read_class(r, text, bytes, &v);
    else if (!csv_number(text, bytes, &v))
        bad(r, "the label '%s' is no number; classes: [..] of the label would name its values",
            shown(out, text, bytes));
    else if (f->classes && (v < 0 || v >= (float)f->classes || v != truncf(v)))
        bad(r, "label %s, the model has %u classes (labels 0 to %u)", shown(out, text, bytes),
            f->classes, f->classes - 1);
    r->cells[field->cell] = table_bits(v);
}

static void read_weight(struct row *r, const struct csv_field *field, const char *text,
                        size_t bytes)
{
    char out[SHOWN_BYTES + 8];
    float v = 0;
    if (is_missing(r->format, text, bytes))
        bad(r, "the weight is missing");
    else if (!csv_number(text, bytes, &v) || v < 0)
        bad(r, "the weight '%s' is not a finite number of at least 0", shown(out, text, bytes));
    r->cells[field->cell] = table_bits(v);
}

/* A word's key; *there: it has one. False: the row is bad. */
static bool word_key(struct row *r, const struct table_key *k, const char *text, size_t bytes,
                     uint64_t *key, bool *there)
{
    char out[SHOWN_BYTES + 8];
    if (is_missing(r->format, text, bytes)) {
        *there = csv_key_missing(&k->options, k->seed, key);
        return true;
    }
    *there = csv_key(&k->options, k->seed, text, bytes, key);
    if (!*there)
        bad(r,
            "'%s' is no integer from 0 to 2^64 - 1, and no marker of data.missing; with hash: "
            "true it may be any word",
            shown(out, text, bytes));
    return *there;
}

/* Mixed: what is looked up, sorted and sent are mixed keys. */
static void put_key(uint32_t *cells, uint64_t key)
{
    uint64_t mixed = key_mix(key);
    cells[0] = (uint32_t)mixed;
    cells[1] = (uint32_t)(mixed >> 32);
}

static void read_key(struct row *r, const struct csv_field *field, const char *text, size_t bytes)
{
    const struct table_key *k = &r->format->schema->key[field->cell];
    uint32_t *cells = r->cells + table_keys_at(r->format->schema) + k->cell;
    uint64_t key = 0;
    bool there;
    memset(cells, 0, k->cells * sizeof *cells);
    if (!word_key(r, k, text, bytes, &key, &there) || !there)
        return;
    put_key(cells, key);
    if (k->cells > TABLE_KEY_CELLS)
        cells[TABLE_KEY_CELLS] = 1;
}

/* Take ":0.5" off the end. False: what stands behind the last ':' is no number. */
static bool take_weight(const char *text, size_t *bytes, float *weight)
{
    enum { WEIGHT_BYTES = 48 };
    char number[WEIGHT_BYTES + 1];
    const char *colon = memrchr(text, ':', *bytes);
    *weight = 1;
    if (!colon)
        return true;
    size_t n = *bytes - (size_t)(colon + 1 - text);
    if (n > WEIGHT_BYTES)
        return false;
    memcpy(number, colon + 1, n); /* what follows it in the row may go on a number */
    number[n] = 0;
    *bytes = (size_t)(colon - text);
    return csv_number(number, n, weight);
}

/* One value of keys. */
static void read_value(struct row *r, const struct table_key *k, uint32_t *cells, const char *text,
                       size_t bytes)
{
    char out[SHOWN_BYTES + 8];
    size_t word = bytes;
    uint64_t key = 0;
    float weight = 1;
    bool there;
    if (k->options.weights && !take_weight(text, &word, &weight)) {
        bad(r, "the weight of '%s' is no number", shown(out, text, bytes));
        return;
    }
    if (!word_key(r, k, text, word, &key, &there) || !there)
        return;
    if (cells[0] == k->options.max_values) {
        bad(r, "more than max_values: %u values", k->options.max_values);
        return;
    }
    uint32_t *at = cells + 1 + (size_t)cells[0]++ * (TABLE_KEY_CELLS + k->options.weights);
    put_key(at, key);
    if (k->options.weights)
        at[TABLE_KEY_CELLS] = table_bits(weight);
}

static void read_keys(struct row *r, const struct csv_field *field, const char *text, size_t bytes)
{
    const struct table_key *k = &r->format->schema->key[field->cell];
    const char *separator = k->options.separator, *end = text + bytes;
    uint32_t *cells = r->cells + table_keys_at(r->format->schema) + k->cell;
    size_t skip = strlen(separator);
    memset(cells, 0, k->cells * sizeof *cells);
    if (is_missing(r->format, text, bytes)) {
        read_value(r, k, cells, text, bytes);
        return;
    }
    while (!r->bad) {
        const char *stop = memmem(text, (size_t)(end - text), separator, skip);
        read_value(r, k, cells, text, (size_t)((stop ? stop : end) - text));
        if (!stop)
            return;
        text = stop + skip;
    }
}

/* The key at these cells, not mixed. False: it is missing. */
static bool key_at(const struct table_key *k, const uint32_t *cells, uint64_t *key)
{
    *key = key_unmix(cells[0] | (uint64_t)cells[1] << 32);
    return k->cells == TABLE_KEY_CELLS || cells[TABLE_KEY_CELLS];
}

/* The hash of the keys that it is of, 8 bytes each, the lowest first. */
static void make_cross(struct row *r, const struct table_key *k)
{
    const struct table_schema *s = r->format->schema;
    uint32_t *keys = r->cells + table_keys_at(s);
    char bytes[8 * JOB_CROSS_MAX];
    uint64_t key;
    memset(keys + k->cell, 0, k->cells * sizeof *keys);
    for (uint32_t i = 0; i < k->crossed; i++) {
        const struct table_key *of = &s->key[k->of[i]];
        if (!key_at(of, keys + of->cell, &key))
            return;
        for (uint32_t b = 0; b < 8; b++)
            bytes[8 * i + b] = (char)(unsigned char)(key >> (8 * b));
    }
    if (csv_key(&k->options, k->seed, bytes, (size_t)8 * k->crossed, &key)) {
        put_key(keys + k->cell, key);
        keys[k->cell + TABLE_KEY_CELLS] = 1;
    }
}

static void make_crosses(struct row *r)
{
    const struct table_schema *s = r->format->schema;
    for (uint32_t i = 0; i < s->keys; i++)
        if (s->key[i].kind == COLUMN_CROSS)
            make_cross(r, &s->key[i]);
}

static void read_field(struct row *r, char *begin, char *end)
{
    const struct csv_piece *p = r->piece;
    const struct csv_field *field = &p->field[r->field];
    if (field->kind == COLUMN_IGNORE)
        return;
    if (!csv_field_text(&begin, &end, r->format->job, p->has_quotes)) {
        bad(r, "a quote inside of a field: the whole field is to be in quotes, and a quote in it "
               "doubled");
        return;
    }
    size_t bytes = (size_t)(end - begin);
    if (field->kind == COLUMN_NUMBER)
        read_number(r, field, begin, bytes);
    else if (field->kind == COLUMN_CATEGORY)
        read_category(r, field, begin, bytes);
    else if (field->kind == COLUMN_KEY)
        read_key(r, field, begin, bytes);
    else if (field->kind == COLUMN_KEYS)
        read_keys(r, field, begin, bytes);
    else if (field->kind == COLUMN_WEIGHT)
        read_weight(r, field, begin, bytes);
    else
        read_label(r, field, begin, bytes);
}

/* ---- rows ---- */

static uint32_t row_cells(const struct csv_format *f)
{
    return table_row_cells(f->schema);
}

/* Room for one more row. */
static enum err reserve(struct csv_piece *p, const struct csv_format *f)
{
    if (p->rows < p->room)
        return ERR_OK;
    uint64_t room = p->room ? 2 * p->room : 1024;
    uint32_t *cells = mem_resize(p->cells, room * row_cells(f), sizeof *cells);
    if (!cells)
        return ERR_NOMEM;
    p->cells = cells;
    p->room = room;
    return ERR_OK;
}

bool csv_is_no_row(const struct csv_format *f, const char *begin, const char *end)
{
    size_t comment = f->comment_bytes;
    if (comment && (size_t)(end - begin) >= comment && memcmp(begin, f->job->comment, comment) == 0)
        return true;
    while (begin < end && (*begin == '\r' || (f->job->trim && is_blank(*begin))))
        begin++;
    return begin == end;
}

/* A row that begins at `begin` and ends at *end; its fields end at [mark, end]. */
static void read_fields(struct row *r, size_t begin, const uint32_t *mark, const uint32_t *end)
{
    char *text = r->piece->text;
    for (; mark <= end && !r->bad; mark++, r->field++) {
        size_t stop = *mark;
        size_t cut = mark == end && stop > begin && text[stop - 1] == '\r' ? stop - 1 : stop;
        read_field(r, text + begin, text + cut);
        begin = stop + 1;
    }
}

/* As above; `end` is NULL where no mark ends the row. */
static enum err read_row(struct row *r, size_t begin, const uint32_t *mark, const uint32_t *end)
{
    struct csv_piece *p = r->piece;
    const struct csv_format *f = r->format;
    if (reserve(p, f))
        return ERR_NOMEM;
    r->cells = p->cells + p->rows * row_cells(f);
    r->field = NO_FIELD;
    r->added = 0;
    r->bad = false;
    if (!end)
        bad(r, "a quote is never closed");
    else if ((size_t)(end - mark) + 1 != p->fields)
        bad(r, "it has %zu fields, not %u", (size_t)(end - mark) + 1, p->fields);
    r->field = 0;
    if (!r->bad)
        read_fields(r, begin, mark, end);
    if (!r->bad)
        make_crosses(r);
    if (r->bad) {
        while (r->added)
            vocabulary_drop_last(&p->words[p->added[--r->added]]);
        memset(r->cells, 0, row_cells(f) * sizeof *r->cells);
        r->cells[f->schema->inputs] = table_bits(NAN);
    }
    assert(r->bad || r->failed || r->field == p->fields); /* each field was read */
    assert(!r->bad || (r->added == 0 && p->bad > 0));
    p->rows++;
    return r->failed;
}

enum err csv_rows(struct csv_piece *p, const struct csv_format *f, struct errmsg *e)
{
    size_t marks = csv_scan(p->mark, p->text, p->bytes, f->delimiter, p->has_quotes);
    const uint32_t *mark = p->mark, *last = mark + marks;
    struct row r = {.piece = p, .format = f, .line = p->line};
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
