#include "data/csv_cell.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "common/base/digits.h"
#include "common/base/mem.h"
#include "common/rows/key.h"
#include "data/core/rounding.h"
#include "data/meaning/word_key.h"
#include "data/text/csv_hint.h"
#include "data/text/csv_number.h"

static const struct csv_field *field_of(const struct csv_row *r)
{
    return &r->piece->field[r->field];
}

/* ---- numbers ---- */

static void missing_number(struct csv_row *r)
{
    const struct csv_field *field = field_of(r);
    const struct schema_input *in = &r->format->schema->input[field->cell];
    if (in->missing == MISSING_REFUSE && in->ids)
        csv_row_bad(r, "the id is missing; name one for such rows: missing: {value: ID}");
    else if (in->missing == MISSING_REFUSE)
        csv_row_bad(r, "the number is missing");
    schema_put_number(r->format->schema, r->cells, field->cell, NAN);
}

/* A number that is no id can become one as a float. */
static bool is_id(double number, uint32_t ids)
{
    return job_is_id((float)number, ids) && (double)(float)number == number;
}

/* The number of a cell, which can be a label's or a weight's. */
static double number_at(const struct csv_row *r, uint32_t cell)
{
    const struct table_schema *s = r->format->schema;
    return cell < s->inputs ? schema_number(s, r->cells, r->cells + schema_row_cells(s), cell)
                            : (double)table_float(r->cells[cell]);
}

/* Note a field that is no marker of a missing value, but has the number of one. Its cell has been filled. */
static void note_spelling(struct csv_row *r, uint32_t cell, const char *text, size_t bytes)
{
    const struct csv_format *f = r->format;
    struct csv_spelling *of = &r->piece->spelled[cell];
    const double number = of->line ? 0 : number_at(r, cell);
    double v;
    for (uint32_t i = 0; i < f->markers && !of->line; i++) {
        const struct csv_marker *m = &f->marker[i];
        if ((float)number != (float)m->value) /* most do not */
            continue;
        if (!csv_number_wide(text, bytes, &v) || v != m->value)
            continue;
        of->line = r->line;
        of->marker = m->number;
        (void)csv_row_shown(of->shown, text, bytes);
    }
}

/* An input that stays a float; only such a one has ids. */
static void put_float(struct csv_row *r, const struct schema_input *in, double v)
{
    if (in->ids && !is_id(v, in->ids))
        csv_row_bad(r, "%.17g is not an id: the embedding that reads it has rows 0 to %u",
                    digits_printed(v), in->ids - 1);
    r->cells[field_of(r)->cell] = schema_bits((float)v);
}

/* A number that is looked up. */
static bool put_id(struct csv_row *r, const struct schema_input *in, const char *text, size_t bytes)
{
    char out[CSV_SHOWN_BYTES];
    double v;
    if (!csv_number_wide(text, bytes, &v))
        return false;
    if (!is_id(v, in->ids))
        csv_row_bad(r, "%s is not an id: the embedding that reads it has rows 0 to %u",
                    csv_row_shown(out, text, bytes), in->ids - 1);
    r->cells[field_of(r)->cell] = schema_bits((float)v);
    return true;
}

/* Samples are enough: of rows the first ones of each piece, and more of a file's first piece. */
static bool is_sampled(const struct csv_piece *p)
{
    enum { ROWS = 64, FIRST_ROWS = 4096 };
    return p->rows < (p->begins_file ? FIRST_ROWS : ROWS);
}

/* Digits with a sign or without, and perhaps blanks around them: *out differs for different integers below 2^64. */
static bool is_integer(const char *text, size_t bytes, uint64_t *out)
{
    const char *end = text + bytes;
    while (text < end && *text == ' ')
        text++;
    while (text < end && end[-1] == ' ')
        end--;
    bool minus = text < end && *text == '-';
    text += minus;
    uint64_t n = 0;
    const char *digits = text;
    for (; text < end && *text >= '0' && *text <= '9'; text++)
        n = n * 10 + (uint64_t)(*text - '0');
    *out = minus ? 0 - n : n;
    return text == end && text > digits;
}

static void note_rounding(struct csv_row *r, uint32_t cell, uint64_t number, double left)
{
    struct rounding **of = &r->piece->rounding[cell];
    if (!*of)
        *of = mem_zalloc(1, sizeof **of);
    if (*of)
        rounding_add(*of, number, left, is_sampled(r->piece));
    else
        r->failed = ERR_NOMEM;
}

/* Up to 8 characters have at most 8 digits, of which float32 keeps more than a tenth apart. */
static void note_float(struct csv_row *r, uint32_t cell, const char *text, size_t bytes, float v)
{
    enum { SHORT_BYTES = 8 };
    uint64_t integer;
    double wide;
    if (bytes <= SHORT_BYTES || !(is_sampled(r->piece) || rounding_picks(v)))
        return;
    if (is_integer(text, bytes, &integer))
        note_rounding(r, cell, rounding_key_of_integer(integer), v);
    else if (csv_number_wide(text, bytes, &wide))
        note_rounding(r, cell, rounding_key(wide), v);
}

/* A double has all digits of integers of up to 15 characters, and of what a double was printed as. */
static void note_double(struct csv_row *r, uint32_t cell, const char *text, size_t bytes, double v)
{
    enum { SHORT_BYTES = 15 };
    uint64_t integer;
    if (bytes > SHORT_BYTES && (is_sampled(r->piece) || rounding_picks((float)v)) &&
        is_integer(text, bytes, &integer))
        note_rounding(r, cell, rounding_key_of_integer(integer), v);
}

static bool is_noted(const struct csv_row *r, uint32_t cell)
{
    return r->piece->rounding && cell < r->piece->rounded;
}

static bool put_number(struct csv_row *r, const struct schema_input *in, const char *text,
                       size_t bytes)
{
    float v;
    double wide;
    if (in->ids)
        return put_id(r, in, text, bytes);
    if (!in->wide) {
        if (!csv_number(text, bytes, &v))
            return false;
        r->cells[field_of(r)->cell] = schema_bits(v);
        if (is_noted(r, field_of(r)->cell) && csv_is_rounded(in))
            note_float(r, field_of(r)->cell, text, bytes, v);
        return true;
    }
    if (!csv_number_wide(text, bytes, &wide))
        return false;
    schema_put_number(r->format->schema, r->cells, field_of(r)->cell, wide);
    if (is_noted(r, field_of(r)->cell))
        note_double(r, field_of(r)->cell, text, bytes, wide);
    return true;
}

static void know_number(struct csv_row *r, const char *text, size_t bytes)
{
    r->piece->known[field_of(r)->cell] = true;
    if (r->piece->spelled)
        note_spelling(r, field_of(r)->cell, text, bytes);
}

static void read_number(struct csv_row *r, const char *text, size_t bytes)
{
    char out[CSV_SHOWN_BYTES];
    if (csv_is_missing(r->format, text, bytes))
        missing_number(r);
    else if (put_number(r, &r->format->schema->input[field_of(r)->cell], text, bytes))
        know_number(r, text, bytes);
    else
        csv_row_bad(
            r, "\"%s\" %s%s", csv_row_shown(out, text, bytes),
            csv_number_is_large(text, bytes) ? CSV_NUMBER_LARGE : "is not a number",
            csv_row_hint(
                r, text, bytes, &r->format->missing,
                csv_hint_number(text, bytes, "; use data.missing if it marks a missing value")));
}

void csv_cell_number(struct csv_row *r, double v)
{
    const struct table_schema *s = r->format->schema;
    const struct schema_input *in = &s->input[field_of(r)->cell];
    assert(field_of(r)->kind == COLUMN_NUMBER && !(in->wide && in->ids));
    if (isnan(v))
        missing_number(r);
    else if (isinf(v))
        csv_row_bad(r, "the number is not finite");
    else if (isinf((float)v))
        csv_row_bad(r, "the number " CSV_NUMBER_LARGE);
    else if (in->wide)
        schema_put_number(s, r->cells, field_of(r)->cell, v);
    else
        put_float(r, in, v);
}

static void read_weight(struct csv_row *r, const char *text, size_t bytes)
{
    char out[CSV_SHOWN_BYTES];
    float v = 0;
    if (csv_is_missing(r->format, text, bytes))
        csv_row_bad(r, "the weight is missing");
    else if (!csv_number(text, bytes, &v) || v < 0)
        csv_row_bad(
            r, "the weight \"%s\" %s%s", csv_row_shown(out, text, bytes),
            csv_number_is_large(text, bytes) ? CSV_NUMBER_LARGE
                                             : "is not a finite number of at least 0",
            csv_row_hint(r, text, bytes, &r->format->missing, csv_hint_number(text, bytes, "")));
    r->cells[field_of(r)->cell] = schema_bits(v);
    if (r->piece->spelled && !r->bad)
        note_spelling(r, field_of(r)->cell, text, bytes);
}

/* ---- categories ---- */

static void learn_word(struct csv_row *r, const char *text, size_t bytes, uint32_t *number)
{
    uint32_t cell = field_of(r)->cell;
    struct vocabulary *words = &r->piece->words[cell];
    uint32_t before = words->count;
    r->failed = vocabulary_add(words, text, bytes, number);
    if (r->failed)
        return;
    assert(*number < words->count && words->count - before <= 1);
    if (words->count > before)
        r->piece->added[r->added++] = cell;
    assert(r->added <= r->format->schema->inputs);
}

/* The text is not one of several markers of a missing value. */
static void put_word(struct csv_row *r, const char *text, size_t bytes)
{
    uint32_t cell = field_of(r)->cell, number = VOCABULARY_NONE;
    const struct schema_input *in = &r->format->schema->input[cell];
    if (r->format->learning && in->learns) {
        learn_word(r, text, bytes, &number);
        if (r->failed)
            return;
    } else {
        number = vocabulary_find(&in->words, text, bytes);
        r->piece->known[cell] |= number != VOCABULARY_NONE;
    }
    r->cells[cell] = number + 1; /* VOCABULARY_NONE + 1 is 0 */
}

/* All markers count as the first one. */
static void missing_word(struct csv_row *r)
{
    const struct vocabulary *markers = &r->format->missing;
    size_t bytes = 0;
    if (markers->count) {
        const char *text = vocabulary_text(markers, 0, &bytes);
        put_word(r, text, bytes);
    } else {
        r->cells[field_of(r)->cell] = 0;
    }
}

static void read_category(struct csv_row *r, const char *text, size_t bytes)
{
    if (csv_is_missing(r->format, text, bytes))
        missing_word(r);
    else
        put_word(r, text, bytes);
}

/* ---- labels ---- */

void csv_cell_label(struct csv_row *r, uint32_t cell, const char *text, size_t bytes)
{
    const struct csv_format *f = r->format;
    csv_row_label(r, cell, text, bytes);
    bool number = !f->names.count && f->others == VOCABULARY_NONE;
    if (number && !f->classes && r->piece->rounding && !r->bad)
        note_float(r, cell, text, bytes, table_float(r->cells[cell]));
    if (number && r->piece->spelled && !r->bad)
        note_spelling(r, cell, text, bytes);
}

/* ---- keys ---- */

static const struct table_key *key_of(const struct csv_row *r)
{
    return &r->format->schema->key[field_of(r)->cell];
}

static uint32_t *cells_of(const struct csv_row *r, const struct table_key *k)
{
    return r->cells + schema_keys_at(r->format->schema) + k->cell;
}

void csv_cell_no_keys(struct csv_row *r)
{
    const struct table_key *k = key_of(r);
    uint32_t *cells = cells_of(r, k);
    memset(cells, 0, (k->kind == COLUMN_KEYS ? 1 : k->cells) * sizeof *cells);
}

/* Add a key to those of `keys`. */
static void put_value(struct csv_row *r, const struct table_key *k, uint64_t key, float weight)
{
    uint32_t *cells = cells_of(r, k);
    if (cells[0] == k->options.max_values) {
        csv_row_bad(r, "more than max_values: %u values", k->options.max_values);
        return;
    }
    uint32_t *at = cells + 1 + (size_t)cells[0]++ * (SCHEMA_KEY_CELLS + k->options.weights);
    csv_put_key(at, key);
    if (k->options.weights)
        at[SCHEMA_KEY_CELLS] = schema_bits(weight);
}

static void put_key(struct csv_row *r, const struct table_key *k, uint64_t key, float weight)
{
    uint32_t *cells = cells_of(r, k);
    if (k->kind == COLUMN_KEYS) {
        put_value(r, k, key, weight);
        return;
    }
    csv_put_key(cells, key);
    if (k->cells > SCHEMA_KEY_CELLS)
        cells[SCHEMA_KEY_CELLS] = 1;
}

static void missing_key(struct csv_row *r, float weight)
{
    const struct table_key *k = key_of(r);
    uint64_t key;
    if (word_key_missing(&k->options, k->seed, &key))
        put_key(r, k, key, weight);
}

/* A field is trimmed as a whole, so each of several values keeps its blanks. */
static const char *key_hint(const struct csv_row *r, const struct table_key *k, const char *text,
                            size_t bytes)
{
    static const char usual[] =
        "; use data.missing if it marks a missing value, or hash: true, which takes any word";
    return k->kind == COLUMN_KEY ? csv_row_hint(r, text, bytes, NULL, usual) : usual;
}

void csv_cell_add_word(struct csv_row *r, const char *word, size_t bytes, float weight)
{
    const struct table_key *k = key_of(r);
    char out[CSV_SHOWN_BYTES];
    uint64_t key;
    if (csv_is_missing(r->format, word, bytes))
        missing_key(r, weight);
    else if (word_key(&k->options, k->seed, word, bytes, &key))
        put_key(r, k, key, weight);
    else
        csv_row_bad(r, "\"%s\" is not an integer from 0 to 2^64 - 1%s",
                    csv_row_shown(out, word, bytes), key_hint(r, k, word, bytes));
}

void csv_cell_add_key(struct csv_row *r, uint64_t key, float weight)
{
    const struct table_key *k = key_of(r);
    put_key(r, k, word_key_fold(&k->options, key), weight);
}

/* Remove ":0.5" from the end. NULL, or the reason why the text after the last ':' is no weight. */
static const char *take_weight(const char *text, size_t *bytes, float *weight)
{
    enum { WEIGHT_BYTES = 48 };
    char number[WEIGHT_BYTES + 1];
    const char *colon = memrchr(text, ':', *bytes);
    *weight = 1;
    if (!colon)
        return NULL;
    size_t n = *bytes - (size_t)(colon + 1 - text);
    if (n > WEIGHT_BYTES)
        return "is not a number";
    /* copied: the bytes that follow in the row may continue a number */
    memcpy(number, colon + 1, n);
    number[n] = 0;
    *bytes = (size_t)(colon - text);
    if (csv_number(number, n, weight))
        return NULL;
    return csv_number_is_large(number, n) ? CSV_NUMBER_LARGE : "is not a number";
}

/* Read one value of keys. */
static void read_value(struct csv_row *r, const struct table_key *k, const char *text, size_t bytes)
{
    char out[CSV_SHOWN_BYTES];
    size_t word = bytes;
    float weight = 1;
    const char *fault = k->options.weights ? take_weight(text, &word, &weight) : NULL;
    if (fault)
        csv_row_bad(r, "the weight of \"%s\" %s", csv_row_shown(out, text, bytes), fault);
    else
        csv_cell_add_word(r, text, word, weight);
}

/* A separator between two words. */
static void note_divided(struct csv_divided *d, const char *text, size_t bytes)
{
    bool any = false;
    for (size_t i = 0; i < sizeof CSV_SEPARATORS - 1; i++) {
        bool is = bytes > 2 && memchr(text + 1, CSV_SEPARATORS[i], bytes - 2);
        d->other[i] += is;
        any |= is;
    }
    d->fields++;
    d->others += any;
}

/* A blank next to a separator belongs to the value: data.trim is for fields. */
static void note_gap(struct csv_divided *d, const char *text, const char *stop, size_t skip,
                     const char *end)
{
    d->gaps++;
    d->before += stop > text && stop[-1] == ' ';
    d->after += end > stop + skip && stop[skip] == ' ';
}

static void read_keys(struct csv_row *r, const char *text, size_t bytes)
{
    struct csv_divided *divided = r->piece->divided ? &r->piece->divided[field_of(r)->cell] : NULL;
    const struct table_key *k = key_of(r);
    const char *separator = k->options.separator, *end = text + bytes;
    size_t skip = strlen(separator);
    csv_cell_no_keys(r);
    if (csv_is_missing(r->format, text, bytes)) {
        read_value(r, k, text, bytes);
        return;
    }
    const bool sampled = divided && is_sampled(r->piece);
    if (sampled && !divided->is)
        note_divided(divided, text, bytes);
    while (!r->bad) {
        const char *stop = memmem(text, (size_t)(end - text), separator, skip);
        if (stop && divided)
            divided->is = true;
        if (stop && sampled)
            note_gap(divided, text, stop, skip, end);
        read_value(r, k, text, (size_t)((stop ? stop : end) - text));
        if (!stop)
            return;
        text = stop + skip;
    }
}

static void read_key(struct csv_row *r, const char *text, size_t bytes)
{
    csv_cell_no_keys(r);
    csv_cell_add_word(r, text, bytes, 1);
}

/* ---- a field ---- */

void csv_cell_text(struct csv_row *r, const char *text, size_t bytes)
{
    switch (field_of(r)->kind) {
    case COLUMN_NUMBER:
        read_number(r, text, bytes);
        break;
    case COLUMN_CATEGORY:
        read_category(r, text, bytes);
        break;
    case COLUMN_KEY:
        read_key(r, text, bytes);
        break;
    case COLUMN_KEYS:
        read_keys(r, text, bytes);
        break;
    case COLUMN_WEIGHT:
        read_weight(r, text, bytes);
        break;
    case COLUMN_LABEL:
        csv_cell_label(r, field_of(r)->cell, text, bytes);
        break;
    case COLUMN_IGNORE:
    case COLUMN_CROSS:
        break;
    }
}

void csv_cell_missing(struct csv_row *r)
{
    enum column_kind kind = field_of(r)->kind;
    if (kind == COLUMN_NUMBER) {
        missing_number(r);
    } else if (kind == COLUMN_CATEGORY) {
        missing_word(r);
    } else {
        csv_cell_no_keys(r);
        missing_key(r, 1);
    }
}

/* ---- crosses ---- */

/* The key at these cells, not mixed. False: it is missing. */
static bool key_at(const struct table_key *k, const uint32_t *cells, uint64_t *key)
{
    *key = key_unmix(cells[0] | (uint64_t)cells[1] << 32);
    return k->cells == SCHEMA_KEY_CELLS || cells[SCHEMA_KEY_CELLS];
}

/* The hash of the keys that it combines, 8 bytes each, little-endian. */
static void make_cross(struct csv_row *r, const struct table_key *k)
{
    const struct table_schema *s = r->format->schema;
    uint32_t *keys = r->cells + schema_keys_at(s);
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
    if (word_key(&k->options, k->seed, bytes, (size_t)8 * k->crossed, &key)) {
        csv_put_key(keys + k->cell, key);
        keys[k->cell + SCHEMA_KEY_CELLS] = 1;
    }
}

void csv_cell_crosses(struct csv_row *r)
{
    const struct table_schema *s = r->format->schema;
    for (uint32_t i = 0; i < s->keys; i++)
        if (s->key[i].kind == COLUMN_CROSS)
            make_cross(r, &s->key[i]);
}

/* ---- lines that are left out ---- */

/* True if the text fits the column as few headers and comments do: a number, or a name of a class. *other: no row has this text. */
static bool is_value(const struct csv_format *f, const struct csv_field *field, const char *text,
                     size_t bytes, bool *other)
{
    bool named = field->kind == COLUMN_LABEL && (f->names.count || f->others != VOCABULARY_NONE);
    bool number =
        field->kind == COLUMN_NUMBER || field->kind == COLUMN_WEIGHT || field->kind == COLUMN_LABEL;
    float v;
    if (!number || csv_is_missing(f, text, bytes) || (named && f->others != VOCABULARY_NONE))
        return false;
    bool is = named ? vocabulary_find(&f->names, text, bytes) != VOCABULARY_NONE
                    : csv_number(text, bytes, &v);
    *other = !is;
    return is;
}

bool csv_cell_fit_row(const struct csv_format *f, const struct csv_field *field, uint32_t fields,
                      const struct csv_grammar *g, char *text, size_t bytes, uint32_t *mark)
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
