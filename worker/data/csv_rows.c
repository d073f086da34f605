#include "worker/data/csv_rows.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/rows/key.h"
#include "worker/data/csv_key.h"
#include "worker/data/text/csv_hint.h"
#include "worker/data/text/csv_number.h"
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

/* ---- cells ---- */

static void read_number(struct csv_row *r, const struct csv_field *field, const char *text,
                        size_t bytes)
{
    char out[CSV_SHOWN_BYTES];
    float v = NAN;
    if (csv_is_missing(r->format, text, bytes)) {
        if (r->format->schema->input[field->cell].missing == MISSING_REFUSE)
            csv_row_bad(r, "the number is missing");
    } else if (!csv_number(text, bytes, &v)) {
        csv_row_bad(r, "\"%s\" is not a number%s", csv_row_shown(out, text, bytes),
                    csv_row_hint(r, text, bytes, &r->format->missing,
                                 "; use data.missing if it marks a missing value"));
    }
    r->cells[field->cell] = table_bits(v);
}

static void read_category(struct csv_row *r, const struct csv_field *field, const char *text,
                          size_t bytes)
{
    const struct csv_format *f = r->format;
    const struct table_input *in = &f->schema->input[field->cell];
    uint32_t number;
    if (csv_is_missing(f, text, bytes))
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
        r->piece->known[field->cell] |= number != VOCABULARY_NONE;
    }
    r->cells[field->cell] = number + 1; /* VOCABULARY_NONE + 1 is 0 */
}

static void read_weight(struct csv_row *r, const struct csv_field *field, const char *text,
                        size_t bytes)
{
    char out[CSV_SHOWN_BYTES];
    float v = 0;
    if (csv_is_missing(r->format, text, bytes))
        csv_row_bad(r, "the weight is missing");
    else if (!csv_number(text, bytes, &v) || v < 0)
        csv_row_bad(r, "the weight \"%s\" is not a finite number of at least 0%s",
                    csv_row_shown(out, text, bytes),
                    csv_row_hint(r, text, bytes, &r->format->missing, ""));
    r->cells[field->cell] = table_bits(v);
}

/* A field is trimmed as a whole, so each of several values keeps its blanks. */
static const char *key_hint(const struct csv_row *r, const struct table_key *k, const char *text,
                            size_t bytes)
{
    static const char usual[] =
        "; use data.missing if it marks a missing value, or hash: true, which takes any word";
    return k->kind == COLUMN_KEY ? csv_row_hint(r, text, bytes, NULL, usual) : usual;
}

/* A word's key; *there: the word has one. False: the row is bad. */
static bool word_key(struct csv_row *r, const struct table_key *k, const char *text, size_t bytes,
                     uint64_t *key, bool *there)
{
    char out[CSV_SHOWN_BYTES];
    if (csv_is_missing(r->format, text, bytes)) {
        *there = csv_key_missing(&k->options, k->seed, key);
        return true;
    }
    *there = csv_key(&k->options, k->seed, text, bytes, key);
    if (!*there)
        csv_row_bad(r, "\"%s\" is not an integer from 0 to 2^64 - 1%s",
                    csv_row_shown(out, text, bytes), key_hint(r, k, text, bytes));
    return *there;
}

static void read_key(struct csv_row *r, const struct csv_field *field, const char *text,
                     size_t bytes)
{
    const struct table_key *k = &r->format->schema->key[field->cell];
    uint32_t *cells = r->cells + table_keys_at(r->format->schema) + k->cell;
    uint64_t key = 0;
    bool there;
    memset(cells, 0, k->cells * sizeof *cells);
    if (!word_key(r, k, text, bytes, &key, &there) || !there)
        return;
    csv_put_key(cells, key);
    if (k->cells > TABLE_KEY_CELLS)
        cells[TABLE_KEY_CELLS] = 1;
}

/* Remove ":0.5" from the end. False: the text after the last ':' is not a number. */
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
    /* copied: the bytes that follow in the row may continue a number */
    memcpy(number, colon + 1, n);
    number[n] = 0;
    *bytes = (size_t)(colon - text);
    return csv_number(number, n, weight);
}

/* Read one value of keys. */
static void read_value(struct csv_row *r, const struct table_key *k, uint32_t *cells,
                       const char *text, size_t bytes)
{
    char out[CSV_SHOWN_BYTES];
    size_t word = bytes;
    uint64_t key = 0;
    float weight = 1;
    bool there;
    if (k->options.weights && !take_weight(text, &word, &weight)) {
        csv_row_bad(r, "the weight of \"%s\" is not a number", csv_row_shown(out, text, bytes));
        return;
    }
    if (!word_key(r, k, text, word, &key, &there) || !there)
        return;
    if (cells[0] == k->options.max_values) {
        csv_row_bad(r, "more than max_values: %u values", k->options.max_values);
        return;
    }
    uint32_t *at = cells + 1 + (size_t)cells[0]++ * (TABLE_KEY_CELLS + k->options.weights);
    csv_put_key(at, key);
    if (k->options.weights)
        at[TABLE_KEY_CELLS] = table_bits(weight);
}

static void read_keys(struct csv_row *r, const struct csv_field *field, const char *text,
                      size_t bytes)
{
    const struct table_key *k = &r->format->schema->key[field->cell];
    const char *separator = k->options.separator, *end = text + bytes;
    uint32_t *cells = r->cells + table_keys_at(r->format->schema) + k->cell;
    size_t skip = strlen(separator);
    memset(cells, 0, k->cells * sizeof *cells);
    if (csv_is_missing(r->format, text, bytes)) {
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

/* The hash of the keys that it combines, 8 bytes each, little-endian. */
static void make_cross(struct csv_row *r, const struct table_key *k)
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
        csv_put_key(keys + k->cell, key);
        keys[k->cell + TABLE_KEY_CELLS] = 1;
    }
}

static void make_crosses(struct csv_row *r)
{
    const struct table_schema *s = r->format->schema;
    for (uint32_t i = 0; i < s->keys; i++)
        if (s->key[i].kind == COLUMN_CROSS)
            make_cross(r, &s->key[i]);
}

static const char *quote_hint(const struct job_csv *job, const char *text, size_t bytes)
{
    if (!job->trim && csv_hint_trim(&text, &bytes) && *text == '"' && text[bytes - 1] == '"')
        return "it has blanks around its quotes; use data.trim: true";
    return "put the whole field in quotes and double the quote in it, or use data.quotes: false";
}

static void read_field(struct csv_row *r, char *begin, char *end)
{
    const struct csv_piece *p = r->piece;
    const struct csv_field *field = &p->field[r->field];
    if (field->kind == COLUMN_IGNORE)
        return;
    if (!csv_field_text(&begin, &end, r->format->job, p->has_quotes)) {
        csv_row_bad(r, "a quote inside a field: %s",
                    quote_hint(r->format->job, begin, (size_t)(end - begin)));
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
        csv_row_label(r, field->cell, begin, bytes);
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

/* Read a row that begins at `begin` and ends at *end; its fields end at [mark, end]. */
static void read_fields(struct csv_row *r, size_t begin, const uint32_t *mark, const uint32_t *end)
{
    char *text = r->piece->text;
    for (; mark <= end && !r->bad; mark++, r->field++) {
        size_t stop = *mark;
        size_t cut = mark == end && stop > begin && text[stop - 1] == '\r' ? stop - 1 : stop;
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
        make_crosses(r);
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
