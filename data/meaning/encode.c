/* Values as cells, a column at a time: from texts or from typed values. In a column, rows that are absent, or bad by an earlier
 * column, are passed by. Categories learn their words last, of the rows that are left, so bad rows teach none. */
#include "data/meaning/encode.h"

#include <assert.h>
#include <math.h>
#include <string.h>
#define XXH_INLINE_ALL /* a call for each key would take as long as a short key does */
#include <xxhash.h>

#include "common/base/digits.h"
#include "common/base/mem.h"
#include "common/math/kernels.h"
#include "common/math/simd.h"
#include "common/rows/key.h"
#include "data/core/rounding.h"
#include "data/text/csv_number.h"

/* ---- what values teach ---- */

/* A number that is a float from the start. A column with a scale that an older release has encoded keeps that encoding. */
static bool learned_is_rounded(const struct schema_input *in)
{
    return in->kind == COLUMN_NUMBER && !in->ids && in->scale == SCALE_NONE &&
           in->bucketing == BUCKETS_NONE;
}

/* The inputs below it are noted: of many columns the first ones, as a sample takes 16 KiB for each column and thread. */
static uint32_t rounded_inputs(const struct table_schema *s)
{
    enum { SAMPLE_COLUMNS = 256 };
    uint32_t i = 0;
    for (uint32_t n = 0; i < s->inputs && n < SAMPLE_COLUMNS; i++)
        n += learned_is_rounded(&s->input[i]);
    return i;
}

enum err learned_init(struct learned *t, const struct table_schema *s, bool samples, bool spelled)
{
    const uint32_t inputs = s->inputs;
    *t = (struct learned){.seen = mem_zalloc(inputs, sizeof *t->seen),
                          .unknown = mem_zalloc(inputs, sizeof *t->unknown),
                          .words = mem_zalloc(inputs, sizeof *t->words),
                          .lacking = mem_zalloc((size_t)inputs + s->keys, sizeof *t->lacking),
                          .rounded = rounded_inputs(s)};
    t->rounding = samples ? mem_zalloc(inputs + 1, sizeof *t->rounding) : NULL;
    t->divided = samples ? mem_zalloc((size_t)s->keys + 1, sizeof *t->divided) : NULL;
    t->key_words = samples ? mem_zalloc(LEARNED_KEYS, sizeof *t->key_words) : NULL;
    t->keys = !t->key_words ? 0 : s->keys < LEARNED_KEYS ? s->keys : LEARNED_KEYS;
    t->spelled = spelled ? mem_zalloc((size_t)inputs + 2, sizeof *t->spelled) : NULL;
    t->found = samples ? mem_zalloc(inputs, sizeof *t->found) : NULL;
    bool all = t->lacking && (t->found || !samples);
    for (uint32_t i = 0; i < inputs && t->found; i++)
        if (s->input[i].kind == COLUMN_CATEGORY && !s->input[i].learns)
            all &= (t->found[i] = mem_zalloc(s->input[i].words.count / 8 + 1, 1)) != NULL;
    return all && ((t->rounding && t->divided && t->key_words) || !samples) &&
                   (t->spelled || !spelled) && t->seen && t->unknown && t->words
               ? ERR_OK
               : ERR_NOMEM;
}

void learned_close(struct learned *t, uint32_t inputs)
{
    for (uint32_t i = 0; i < inputs && t->words; i++)
        vocabulary_close(&t->words[i]);
    for (uint32_t i = 0; i <= inputs && t->rounding; i++)
        mem_free(t->rounding[i]);
    for (uint32_t i = 0; i < inputs && t->found; i++)
        mem_free(t->found[i]);
    mem_free(t->found);
    mem_free(t->lacking);
    mem_free(t->seen);
    mem_free(t->unknown);
    mem_free(t->words);
    mem_free(t->spelled);
    for (uint32_t i = 0; i < t->keys; i++)
        vocabulary_close(&t->key_words[i]);
    vocabulary_close(&t->others);
    mem_free(t->key_words);
    mem_free(t->divided);
    mem_free(t->rounding);
    *t = (struct learned){.seen = NULL};
}

void learned_clear(struct learned *t, uint32_t inputs)
{
    if (t->spelled)
        memset(t->spelled, 0, ((size_t)inputs + 2) * sizeof *t->spelled);
    for (uint32_t i = 0; i < inputs; i++) {
        vocabulary_clear(&t->words[i]);
        if (t->any_unknown)
            t->unknown[i] = (struct learned_unknown){.rows = 0};
    }
    t->any_unknown = false;
}

static void learned_note_spelling(struct learned *t, const struct meaning *m, uint32_t cell,
                                  uint32_t row, struct batch_text text, double number)
{
    struct learned_spelling *of = &t->spelled[cell];
    double v;
    for (uint32_t i = 0; i < m->markers && !of->found; i++) {
        const struct meaning_marker *marker = &m->marker[i];
        if ((float)number != (float)marker->value) /* most do not */
            continue;
        if (!csv_number_wide(text.at, text.bytes, &v) || v != marker->value)
            continue;
        *of = (struct learned_spelling){.found = true, .row = row, .marker = marker->number};
        (void)csv_hint_shown(of->shown, text.at, text.bytes);
    }
}

/* Digits with a sign or without, and perhaps blanks around them: *out differs for different integers below 2^64. */
static bool is_integer(struct batch_text t, uint64_t *out)
{
    const char *text = t.at, *end = text + t.bytes;
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

static enum err note_rounding(struct learned *t, uint32_t cell, uint64_t number, double left,
                              bool sampled)
{
    struct rounding **of = &t->rounding[cell];
    if (!*of)
        *of = mem_zalloc(1, sizeof **of);
    if (*of)
        rounding_add(*of, number, left, sampled);
    return *of ? ERR_OK : ERR_NOMEM;
}

/* Up to 8 characters have at most 8 digits, of which float32 keeps more than a tenth apart, unless their exponent makes them 0. In a
 * column that others were noted of they count as different numbers that are left. */
static enum err learned_note_float(struct learned *t, uint32_t cell, struct batch_text text,
                                   float v, bool sampled)
{
    enum { SHORT_BYTES = 8 };
    uint64_t integer;
    double wide;
    v = rounding_flushed(v);
    const bool tiny = v == 0 && memchr(text.at, '-', text.bytes);
    const bool kept = text.bytes <= SHORT_BYTES && !tiny;
    if (kept ? !sampled || !t->rounding[cell] : !sampled && !rounding_picks(v))
        return ERR_OK;
    if (is_integer(text, &integer))
        return note_rounding(t, cell, rounding_key_of_integer(integer), v, sampled);
    if (csv_number_wide(text.at, text.bytes, &wide))
        return note_rounding(t, cell, rounding_key(wide), v, sampled);
    return ERR_OK;
}

/* The same of a number that is no text. */
static enum err learned_note_number(struct learned *t, uint32_t cell, double number, bool sampled)
{
    const float v = rounding_flushed((float)number);
    return sampled || rounding_picks(v) ? note_rounding(t, cell, rounding_key(number), v, sampled)
                                        : ERR_OK;
}

/* A double has all digits of integers of up to 15 characters, and of what a double was printed as. */
static enum err learned_note_double(struct learned *t, uint32_t cell, struct batch_text text,
                                    double v, bool sampled)
{
    enum { SHORT_BYTES = 15 };
    uint64_t integer;
    if (text.bytes > SHORT_BYTES && (sampled || rounding_picks((float)v)) &&
        is_integer(text, &integer))
        return note_rounding(t, cell, rounding_key_of_integer(integer), v, sampled);
    return ERR_OK;
}

/* Those of Hive are control characters, and a newline is in a cell of Excel. */
const struct learned_separator learned_separators[LEARNED_SEPARATORS] = {
    {",", ","},   {";", ";"},      {"|", "|"},      {"\t", "\\t"},   {"，", "，"},  {"、", "、"},
    {"；", "；"}, {"\1", "\\x01"}, {"\2", "\\x02"}, {"\3", "\\x03"}, {"\n", "\\n"}, {" ", " "}};

static void learned_note_divided(struct learned_divided *d, struct batch_text text)
{
    bool any = false;
    for (size_t i = 0; i < LEARNED_SEPARATORS; i++) {
        const char *of = learned_separators[i].text;
        bool is = text.bytes > 2 && memmem(text.at + 1, text.bytes - 2, of, strlen(of));
        d->other[i] += is;
        any |= is;
    }
    d->fields++;
    d->others += any;
}

/* Add the text of a key to a sample, of which a few are enough. */
static enum err learned_note_key(struct vocabulary *words, struct batch_text t)
{
    enum { WORD_BYTES = 256 };
    uint32_t number;
    return words->count < LEARNED_KEY_WORDS && t.bytes <= WORD_BYTES
               ? vocabulary_add(words, t.at, t.bytes, &number)
               : ERR_OK;
}

/* True for "[a, b]", and not for "[CLS] a [SEP]", whose brackets belong to words. */
static bool is_list(struct batch_text t)
{
    static const char opening[] = "[({", closing[] = "])}";
    const char *of = t.bytes > 1 ? memchr(opening, *t.at, 3) : NULL;
    return of && memchr(t.at, closing[of - opening], t.bytes) == t.at + t.bytes - 1;
}

/* divided: it has the column's separator. "{a}" is an array of one value. */
static void learned_note_list(struct learned_divided *d, struct batch_text text, bool divided)
{
    const bool is = is_list(text);
    d->texts++;
    d->lists += is;
    d->divided_lists += is && (divided || *text.at == '{');
}

/* A number with a point, or of few digits, is no id, as in "user:71204". */
static void learned_note_value(struct learned_divided *d, struct batch_text text)
{
    enum { FEW = 3 };
    float v;
    const char *colon = memrchr(text.at, ':', text.bytes), *number = colon ? colon + 1 : NULL;
    const size_t n = colon ? text.bytes - (size_t)(number - text.at) : 0;
    d->values++;
    d->weights += n > 0 && (n <= FEW || memchr(number, '.', n)) && csv_number(number, n, &v);
}

static void learned_note_gap(struct learned_divided *d, const char *text, const char *stop,
                             size_t skip, const char *end)
{
    d->gaps++;
    d->before += stop > text && stop[-1] == ' ';
    d->after += end > stop + skip && stop[skip] == ' ';
}

/* ---- rows ---- */

struct encoding {
    const struct meaning *m;
    const struct table_schema *s;
    const struct column_batch *b;
    struct learned *t;
    struct encoded_rows *out;
    size_t stride; /* cells of a row, as long as it is not packed */
    uint32_t sampled;
    enum err err;
    /* the column that is encoded: */
    uint32_t column;
    const struct batch_column *c;
    const struct meaning_field *field;
};

static inline bool encode_is_there(const struct encoding *x, uint32_t row)
{
    return batch_bit(x->out->present, row);
}

static inline uint32_t *encode_row(const struct encoding *x, uint32_t row)
{
    return x->out->cells + row * x->stride;
}

/* Inlined, as is each_row's argument: one call for each value would take as long as many values do. */
#define INLINED static inline __attribute__((always_inline))

INLINED void each_row(struct encoding *x, void (*encode)(struct encoding *, uint32_t))
{
    for (uint32_t row = 0; row < x->b->rows; row++)
        if (encode_is_there(x, row))
            encode(x, row);
}

static void encode_fault(struct encoding *x, uint32_t row, enum meaning_cause cause,
                         struct batch_text text, double number)
{
    struct meaning_fault *first = &x->out->first;
    if (!encode_is_there(x, row))
        return;
    batch_clear_bit(x->out->present, row);
    if (row < first->row)
        *first = (struct meaning_fault){row, x->column, cause, x->field->cell, text, number};
}

static const struct batch_text no_text;

/* Note a text that is no marker of a missing value, but has the number of one. Its cell has been filled. */
INLINED void note_spelling(struct encoding *x, uint32_t row, struct batch_text t)
{
    const uint32_t cell = x->field->cell, *cells = encode_row(x, row);
    if (!x->t->spelled || x->t->spelled[cell].found)
        return;
    double number = cell < x->s->inputs
                        ? schema_number(x->s, cells, cells + schema_row_cells(x->s), cell)
                        : (double)schema_float(cells[cell]);
    learned_note_spelling(x->t, x->m, cell, row, t, number);
}

/* ---- numbers ---- */

static const struct schema_input *encode_input(const struct encoding *x)
{
    return &x->s->input[x->field->cell];
}

static void missing_number(struct encoding *x, uint32_t row)
{
    if (encode_input(x)->missing == MISSING_REFUSE)
        encode_fault(x, row, CAUSE_NUMBER_MISSING, no_text, 0);
    schema_put_number(x->s, encode_row(x, row), x->field->cell, NAN);
}

/* A number that is no id can become one as a float. */
static bool is_id(double number, uint32_t ids)
{
    return job_is_id((float)number, ids) && (double)(float)number == number;
}

static void put_id(struct encoding *x, uint32_t row, struct batch_text t, double v)
{
    if (!is_id(v, encode_input(x)->ids))
        encode_fault(x, row, CAUSE_ID, t, v);
    encode_row(x, row)[x->field->cell] = schema_bits((float)v);
}

static bool encode_is_noted(const struct encoding *x)
{
    return x->t->rounding && x->field->cell < x->t->rounded;
}

static void keep_error(struct encoding *x, enum err err)
{
    x->err = x->err ? x->err : err;
}

static bool put_float(struct encoding *x, uint32_t row, struct batch_text t)
{
    const uint32_t cell = x->field->cell;
    float v;
    if (!csv_number(t.at, t.bytes, &v))
        return false;
    encode_row(x, row)[cell] = schema_bits(v);
    if (encode_is_noted(x) && learned_is_rounded(encode_input(x)))
        keep_error(x, learned_note_float(x->t, cell, t, v, row < x->sampled));
    return true;
}

static bool put_double(struct encoding *x, uint32_t row, struct batch_text t)
{
    const uint32_t cell = x->field->cell;
    double v;
    if (!csv_number_wide(t.at, t.bytes, &v))
        return false;
    if (encode_input(x)->ids) {
        put_id(x, row, t, v);
        return true;
    }
    schema_put_number(x->s, encode_row(x, row), cell, v);
    if (encode_is_noted(x))
        keep_error(x, learned_note_double(x->t, cell, t, v, row < x->sampled));
    return true;
}

static void number_of_text(struct encoding *x, uint32_t row, struct batch_text t)
{
    const struct schema_input *in = encode_input(x);
    if (meaning_is_missing(x->m, t)) {
        missing_number(x, row);
    } else if (in->wide || in->ids ? put_double(x, row, t) : put_float(x, row, t)) {
        x->t->seen[x->field->cell] |= LEARNED_KNOWN;
        note_spelling(x, row, t);
    } else {
        encode_fault(x, row, CAUSE_NUMBER, t, 0);
    }
}

static void number_of_double(struct encoding *x, uint32_t row, double v)
{
    const struct schema_input *in = encode_input(x);
    assert(!(in->wide && in->ids));
    if (isnan(v))
        missing_number(x, row);
    else if (isinf(v))
        encode_fault(x, row, CAUSE_NUMBER_INFINITE, no_text, 0);
    else if (isinf((float)v))
        encode_fault(x, row, CAUSE_NUMBER_LARGE, no_text, 0);
    else if (in->ids)
        put_id(x, row, no_text, v);
    else
        schema_put_number(x->s, encode_row(x, row), x->field->cell, v);
    if (!isnan(v))
        x->t->seen[x->field->cell] |= LEARNED_KNOWN;
    if (encode_is_noted(x) && learned_is_rounded(in) && isfinite((float)v))
        keep_error(x, learned_note_number(x->t, x->field->cell, v, row < x->sampled));
}

INLINED void encode_number(struct encoding *x, uint32_t row)
{
    if (!batch_has(x->c, row))
        missing_number(x, row);
    else if (x->c->type == BATCH_DOUBLES)
        number_of_double(x, row, ((const double *)x->c->values)[row]);
    else
        number_of_text(x, row, batch_text(x->c, row));
}

/* The views of a file, most of which are a few digits or empty: such numbers are noted of sampled rows only. To an empty one a NaN
 * is added, without a branch, which the processor could not predict. */
static void encode_numbers_of_views(struct encoding *x)
{
    const struct batch_view *view = x->c->values;
    const struct schema_input *in = encode_input(x);
    const uint64_t markers = x->m->missing_lengths;
    const bool empty_is_missing = markers & 1 && in->missing != MISSING_REFUSE;
    const uint64_t lengths = (((UINT64_C(2) << CSV_DIGITS_MAX) - 2) & ~markers) | empty_is_missing;
    const uint32_t noted = encode_is_noted(x) ? x->sampled : 0;
    const double gap[] = {0, NAN};
    const size_t high = schema_high_of(x->s, x->field->cell);
    uint32_t *cell = encode_row(x, 0) + x->field->cell;
    size_t digits = 0;
    for (uint32_t row = 0; row < x->b->rows; row++, cell += x->stride) {
        const struct batch_text t = {x->c->base + view[row].at, view[row].bytes};
        double v;
        if (!encode_is_there(x, row))
            continue;
        if (row >= noted && lengths >> (t.bytes < 63 ? t.bytes : 63) & 1 &&
            csv_number_digits(t.at, t.bytes, &v)) {
            schema_put_double(cell, high, v + gap[t.bytes == 0]);
            digits |= t.bytes;
        } else {
            encode_number(x, row);
        }
    }
    x->t->seen[x->field->cell] |= digits ? LEARNED_KNOWN : 0;
}

/* Doubles, most of which are small whole numbers or missing: such numbers are noted of sampled rows only, as their texts are. */
static void encode_numbers_of_doubles(struct encoding *x)
{
    enum { SMALL = 10000000 };
    const struct schema_input *in = encode_input(x);
    const double *of = x->c->values;
    const bool missing = in->missing != MISSING_REFUSE;
    const uint32_t noted = encode_is_noted(x) ? x->sampled : 0;
    const size_t high = schema_high_of(x->s, x->field->cell);
    uint32_t *cell = encode_row(x, 0) + x->field->cell;
    bool any = false;
    for (uint32_t row = 0; row < x->b->rows; row++, cell += x->stride) {
        const bool has = batch_has(x->c, row);
        const double v = schema_pick(has, of[row], NAN);
        if (!encode_is_there(x, row))
            continue;
        if (row >= noted && (has ? fabs(v) < SMALL && (double)(int32_t)v == v : missing)) {
            schema_put_double(cell, high, v);
            any |= has;
        } else {
            encode_number(x, row);
        }
    }
    x->t->seen[x->field->cell] |= any ? LEARNED_KNOWN : 0;
}

static bool encode_has_views(const struct encoding *x)
{
    return x->c->type == BATCH_VIEWS && !x->c->valid && !x->c->list;
}

static void encode_numbers(struct encoding *x)
{
    const struct learned_spelling *spelled = x->t->spelled;
    assert(x->c->type < BATCH_INTEGERS);
    if (encode_has_views(x) && !encode_input(x)->ids && (!spelled || spelled[x->field->cell].found))
        encode_numbers_of_views(x);
    else if (x->c->type == BATCH_DOUBLES && !encode_input(x)->ids)
        encode_numbers_of_doubles(x);
    else
        each_row(x, encode_number);
}

/* The text of a label or a weight. Returns whether it is there. */
static bool encode_text(const struct encoding *x, uint32_t row, struct batch_text *t)
{
    const bool is = batch_has(x->c, row);
    *t = is ? batch_text(x->c, row) : (struct batch_text){"", 0};
    return is && !meaning_is_missing(x->m, *t);
}

static void encode_weight(struct encoding *x, uint32_t row)
{
    struct batch_text t;
    float v = 0;
    if (!encode_text(x, row, &t))
        encode_fault(x, row, CAUSE_WEIGHT_MISSING, t, 0);
    else if (!csv_number(t.at, t.bytes, &v) || v < 0)
        encode_fault(x, row, CAUSE_WEIGHT, t, 0);
    encode_row(x, row)[x->field->cell] = schema_bits(v);
    if (encode_is_there(x, row))
        note_spelling(x, row, t);
}

/* ---- categories ---- */

static bool encode_learns(const struct encoding *x)
{
    return x->m->learning && encode_input(x)->learns;
}

/* text: none for a missing value */
static void learned_note_unknown(struct learned *t, uint32_t cell, struct batch_text text)
{
    struct learned_unknown *u = &t->unknown[cell];
    t->any_unknown = true;
    u->rows++;
    if (!*u->shown)
        u->raw = csv_hint_shown_bytes(u->shown, text.at, text.bytes);
    if (!*u->marker && csv_hint_is_marker(text.at, text.bytes))
        (void)csv_hint_shown(u->marker, text.at, text.bytes);
}

/* The text is not one of several markers of a missing value. known: what it is if the vocabulary has it. */
static void put_word(struct encoding *x, uint32_t row, struct batch_text t, enum learned_seen known)
{
    const uint32_t cell = x->field->cell;
    uint32_t number = VOCABULARY_NONE;
    if (encode_learns(x)) {
        keep_error(x, vocabulary_add(&x->t->words[cell], t.at, t.bytes, &number));
    } else {
        number = vocabulary_find(&encode_input(x)->words, t.at, t.bytes);
        x->t->seen[cell] |= (uint8_t)(number != VOCABULARY_NONE ? known : LEARNED_OTHER);
        if (number == VOCABULARY_NONE)
            learned_note_unknown(x->t, cell, known == LEARNED_KNOWN ? t : no_text);
        else if (x->t->found && x->t->found[cell])
            batch_set_bit(x->t->found[cell], number);
    }
    encode_row(x, row)[cell] = number + 1; /* VOCABULARY_NONE + 1 is 0 */
}

/* All markers count as the first one. */
static void missing_word(struct encoding *x, uint32_t row)
{
    struct batch_text t = no_text;
    x->t->lacking[x->field->cell] += !encode_input(x)->learns;
    if (x->m->missing.count) {
        t.at = vocabulary_text(&x->m->missing, 0, &t.bytes);
        put_word(x, row, t, LEARNED_MISSING);
    } else {
        encode_row(x, row)[x->field->cell] = 0;
    }
}

INLINED void encode_category(struct encoding *x, uint32_t row)
{
    struct batch_text t = batch_has(x->c, row) ? batch_text(x->c, row) : no_text;
    if (!batch_has(x->c, row) || meaning_is_missing(x->m, t))
        missing_word(x, row);
    else
        put_word(x, row, t, LEARNED_KNOWN);
}

/* ---- labels ---- */

static void label_of_name(struct encoding *x, uint32_t row, struct batch_text t, float *label)
{
    const struct meaning *m = x->m;
    uint32_t name = vocabulary_find(&m->names, t.at, t.bytes);
    uint32_t number = name == VOCABULARY_NONE ? m->others : m->class_of[name];
    if (number == VOCABULARY_NONE)
        encode_fault(x, row, CAUSE_CLASS_NAME, t, 0);
    else
        *label = (float)number;
    if (name == VOCABULARY_NONE && number != VOCABULARY_NONE &&
        x->t->others.count < LEARNED_KEY_WORDS)
        keep_error(x, vocabulary_add(&x->t->others, t.at, t.bytes, &name));
}

static void label_of_number(struct encoding *x, uint32_t row, struct batch_text t, float *label)
{
    const struct meaning *m = x->m;
    double number; /* that is no class can become one as a float */
    if (!csv_number(t.at, t.bytes, label) || !csv_number_wide(t.at, t.bytes, &number))
        encode_fault(x, row, CAUSE_LABEL, t, 0);
    else if (!m->classes && m->whole && number != trunc(number) && *label == truncf(*label))
        encode_fault(x, row, CAUSE_CLASS_WHOLE, t, 0);
    else if (m->classes && (number < 0 || number >= m->classes || number != trunc(number)))
        encode_fault(x, row, CAUSE_CLASS_NUMBER, t, (double)*label);
}

static bool is_minus_one(struct batch_text t)
{
    float v;
    return csv_number(t.at, t.bytes, &v) && v == -1;
}

static void encode_label(struct encoding *x, uint32_t row)
{
    const bool named = meaning_has_names(x->m);
    struct batch_text t;
    const bool there = encode_text(x, row, &t);
    uint32_t *cell = &encode_row(x, row)[x->field->cell];
    float v = 0;
    *cell = schema_bits(0);
    if (x->m->signs && is_minus_one(t))
        return;
    if (!there)
        encode_fault(x, row, CAUSE_LABEL_MISSING, t, 0);
    else if (named)
        label_of_name(x, row, t, &v);
    else
        label_of_number(x, row, t, &v);
    *cell = schema_bits(v);
    if (named || !encode_is_there(x, row))
        return;
    if (!x->m->classes && x->t->rounding)
        keep_error(x, learned_note_float(x->t, x->field->cell, t, v, row < x->sampled));
    note_spelling(x, row, t);
}

/* ---- keys ---- */

static const struct table_key *encode_key_column(const struct encoding *x)
{
    return &x->s->key[x->field->cell];
}

static uint32_t *key_cells(const struct encoding *x, uint32_t row)
{
    return encode_row(x, row) + schema_keys_at(x->s) + encode_key_column(x)->cell;
}

static void no_keys(struct encoding *x, uint32_t row)
{
    const struct table_key *k = encode_key_column(x);
    memset(key_cells(x, row), 0, (k->kind == COLUMN_KEYS ? 1 : k->cells) * sizeof(uint32_t));
}

/* Mixed: lookups, sorting and messages all use mixed keys. cells: (SCHEMA_KEY_CELLS) */
static void put_key(uint32_t *cells, uint64_t mixed)
{
    cells[0] = (uint32_t)mixed;
    cells[1] = (uint32_t)(mixed >> 32);
}
static void put_mixed(uint32_t *cells, uint64_t key)
{
    put_key(cells, key_mix(key));
}

/* Add a key to those of `keys`. */
static void encode_add_value(struct encoding *x, uint32_t row, uint64_t key, float weight)
{
    const struct job_key_column *c = &encode_key_column(x)->options;
    uint32_t *cells = key_cells(x, row);
    if (cells[0] == c->max_values) {
        encode_fault(x, row, CAUSE_KEYS_MANY, no_text, 0);
        return;
    }
    uint32_t *at = cells + 1 + (size_t)cells[0]++ * (SCHEMA_KEY_CELLS + c->weights);
    put_mixed(at, key);
    if (c->weights)
        at[SCHEMA_KEY_CELLS] = schema_bits(weight);
}

INLINED void encode_add_key(struct encoding *x, uint32_t row, uint64_t key, float weight)
{
    const struct table_key *k = encode_key_column(x);
    if (k->kind == COLUMN_KEYS) {
        encode_add_value(x, row, key, weight);
        return;
    }
    uint32_t *cells = key_cells(x, row);
    put_mixed(cells, key);
    if (k->cells > SCHEMA_KEY_CELLS)
        cells[SCHEMA_KEY_CELLS] = 1;
}

static void missing_key(struct encoding *x, uint32_t row, float weight)
{
    const struct table_key *k = encode_key_column(x);
    uint64_t key;
    if (word_key_missing(&k->options, k->seed, &key))
        encode_add_key(x, row, key, weight);
    else if (k->kind == COLUMN_KEY)
        no_keys(x, row); /* the cells may be another row's */
}

/* The text of a number that buckets reduce. */
static void note_key_number(struct encoding *x, uint32_t row, struct batch_text t)
{
    const struct job_key_column *c = &encode_key_column(x)->options;
    if (row < x->sampled && x->field->cell < x->t->keys && !c->hash && c->buckets)
        keep_error(x, learned_note_key(&x->t->key_words[x->field->cell], t));
}

static void add_word(struct encoding *x, uint32_t row, struct batch_text t, float weight)
{
    const struct table_key *k = encode_key_column(x);
    uint64_t key;
    note_key_number(x, row, t);
    if (meaning_is_missing(x->m, t))
        missing_key(x, row, weight);
    else if (word_key(&k->options, k->seed, t.at, t.bytes, &key))
        encode_add_key(x, row, key, weight);
    else
        encode_fault(x, row, k->kind == COLUMN_KEY ? CAUSE_KEY : CAUSE_KEY_OF_LIST, t, 0);
}

/* Value i of the column. */
INLINED void add_at(struct encoding *x, uint32_t row, uint32_t i, float weight)
{
    const struct table_key *k = encode_key_column(x);
    assert(x->c->type != BATCH_INTEGERS);
    if (x->c->type == BATCH_KEYS) {
        const uint64_t number = ((const uint64_t *)x->c->values)[i];
        char digits[DIGITS_INTEGER_BYTES], *end = digits + sizeof digits;
        if (row < x->sampled) {
            const char *at = digits_unsigned(number, end);
            note_key_number(x, row, (struct batch_text){at, (size_t)(end - at)});
        }
        encode_add_key(x, row, word_key_fold(&k->options, number), weight);
    } else {
        add_word(x, row, batch_text(x->c, i), weight);
    }
}

/* A field with the texts of keys, not their numbers. */
static void note_key_text(struct encoding *x, uint32_t row)
{
    if (row < x->sampled && x->field->cell < x->t->keys && encode_key_column(x)->options.hash)
        keep_error(x, learned_note_key(&x->t->key_words[x->field->cell], batch_text(x->c, row)));
}

INLINED void encode_key(struct encoding *x, uint32_t row)
{
    if (batch_has(x->c, row) && x->c->type != BATCH_KEYS)
        note_key_text(x, row);
    if (batch_has(x->c, row))
        add_at(x, row, row, 1);
    else
        missing_key(x, row, 1);
}

/* Text i of a column of texts, or of integers, which are their texts: written up to `end`. */
INLINED struct batch_text hashed_text(const struct batch_column *c, uint32_t i, char *end)
{
    if (c->type != BATCH_INTEGERS)
        return batch_text(c, i);
    const char *at = digits_signed(((const int64_t *)c->values)[i], end);
    return (struct batch_text){at, (size_t)(end - at)};
}

/* A key a row, hashed from its text. */
__attribute__((flatten)) static void encode_hashed(struct encoding *x)
{
    const struct table_key *k = encode_key_column(x);
    const uint64_t seed = k->seed;
    const bool tells = k->cells > SCHEMA_KEY_CELLS;
    uint32_t *cells = key_cells(x, 0);
    uint64_t missing = 0;
    const bool filled = word_key_missing(&k->options, seed, &missing);
    char digits[DIGITS_INTEGER_BYTES];
    for (uint32_t row = 0; row < x->b->rows; row++, cells += x->stride) {
        if (!encode_is_there(x, row))
            continue;
        const bool has = batch_has(x->c, row);
        const struct batch_text t =
            has ? hashed_text(x->c, row, digits + sizeof digits) : (struct batch_text){0};
        const bool none = !has || meaning_is_missing(x->m, t);
        const uint64_t key =
            none ? missing : word_key_fold(&k->options, XXH3_64bits_withSeed(t.at, t.bytes, seed));
        put_mixed(cells, key); /* of no key: 0 */
        if (tells)
            cells[SCHEMA_KEY_CELLS] = !none || filled;
    }
}

/* ---- hashes of short texts, a column at a time ---- */

/* XXH3_64bits_withSeed has one way for these lengths, of the first 4 bytes and the last 4, which can overlap. The library hashes one
 * text at a time. */
enum { SHORT_LEAST = 4, SHORT_MOST = 8 };

struct short_texts {
    uint64_t word[ENCODE_ROWS], bytes[ENCODE_ROWS], hash[ENCODE_ROWS];
    uint32_t other[ENCODE_ROWS], others; /* rows with another text, or none */
};

/* Of the seed, and of the bytes 8 to 23 of the library's secret. */
static uint64_t short_flip(uint64_t seed)
{
    return UINT64_C(0xC73AB174C5ECD5A2) -
           (seed ^ (uint64_t)__builtin_bswap32((uint32_t)seed) << 32);
}

/* mix: as put_mixed does. */
#define SHORT_HASH(name, target)                                                                   \
    target static void name(struct short_texts *t, uint64_t flip, bool mix)                        \
    {                                                                                              \
        const uint64_t prime = UINT64_C(0x9FB21C651E98DF25);                                       \
        for (uint32_t i = 0; i < ENCODE_ROWS; i++) {                                               \
            uint64_t h = t->word[i] ^ flip;                                                        \
            h ^= (h << 49 | h >> 15) ^ (h << 24 | h >> 40);                                        \
            h *= prime;                                                                            \
            h ^= (h >> 35) + t->bytes[i];                                                          \
            h *= prime;                                                                            \
            h ^= h >> 28;                                                                          \
            t->hash[i] = mix ? key_mix(h) : h;                                                     \
        }                                                                                          \
    }

SHORT_HASH(short_hash_base, )
#if SIMD_X86
SHORT_HASH(short_hash_avx2, __attribute__((target("avx2"))))
SHORT_HASH(short_hash_avx512, __attribute__((target("avx512f,avx512dq"))))
#endif

static void short_hash(struct short_texts *t, uint64_t flip, bool mix)
{
#if SIMD_X86
    if (kernels() == &kernels_avx512) {
        short_hash_avx512(t, flip, mix);
        return;
    }
    if (kernels() == &kernels_avx2) {
        short_hash_avx2(t, flip, mix);
        return;
    }
#endif
    short_hash_base(t, flip, mix);
}

/* Gather the short texts that stand for no missing value. */
static void short_gather(struct short_texts *t, const struct encoding *x)
{
    static const char nothing[SHORT_MOST];
    const struct batch_view *view = x->c->values;
    const uint64_t markers = x->m->missing_lengths;
    t->others = 0;
    for (uint32_t row = 0; row < x->b->rows; row++) {
        const uint32_t bytes = view[row].bytes, beyond = bytes - SHORT_LEAST;
        const bool fits = encode_is_there(x, row) & (beyond <= SHORT_MOST - SHORT_LEAST) &
                          !(markers >> (bytes & 63) & 1);
        const char *at = fits ? x->c->base + view[row].at : nothing;
        uint32_t first, last;
        memcpy(&first, at, sizeof first);
        memcpy(&last, at + (fits ? beyond : 0), sizeof last);
        t->word[row] = (uint64_t)first << 32 | last;
        t->bytes[row] = bytes;
        t->other[t->others] = row;
        t->others += !fits;
    }
}

/* The views of a file, whose texts are hashed. */
static void encode_hashed_views(struct encoding *x)
{
    const struct table_key *k = encode_key_column(x);
    const uint64_t seed = k->seed;
    const bool tells = k->cells > SCHEMA_KEY_CELLS;
    struct short_texts t;
    uint64_t missing = 0;
    const bool filled = word_key_missing(&k->options, seed, &missing);
    short_gather(&t, x);
    short_hash(&t, short_flip(seed), !k->options.buckets);
    uint32_t *cells = key_cells(x, 0);
    for (uint32_t row = 0; row < x->b->rows; row++, cells += x->stride) {
        if (k->options.buckets)
            t.hash[row] = key_mix(word_key_fold(&k->options, t.hash[row]));
        put_key(cells, t.hash[row]); /* of a row that is not there in vain */
        if (tells)
            cells[SCHEMA_KEY_CELLS] = 1;
    }
    for (uint32_t i = 0; i < t.others; i++) {
        const struct batch_text text = batch_text(x->c, t.other[i]);
        if (!encode_is_there(x, t.other[i]))
            continue;
        const bool none = meaning_is_missing(x->m, text);
        const uint64_t key =
            none ? missing
                 : word_key_fold(&k->options, XXH3_64bits_withSeed(text.at, text.bytes, seed));
        cells = key_cells(x, t.other[i]);
        put_mixed(cells, key); /* of no key: 0 */
        if (tells)
            cells[SCHEMA_KEY_CELLS] = !none || filled;
    }
}

enum err encode_codes(const struct meaning *m, uint32_t cell, const struct batch_column *words,
                      uint32_t n, struct batch_codes *out)
{
    const struct table_key *k = &m->schema->key[cell];
    uint64_t missing = 0;
    const bool filled = word_key_missing(&k->options, k->seed, &missing);
    char digits[DIGITS_INTEGER_BYTES];
    out->key = mem_zalloc((size_t)n + 1, sizeof *out->key);
    for (uint32_t i = 0; i < n && out->key; i++) {
        const struct batch_text t = hashed_text(words, i, digits + sizeof digits);
        const bool none = meaning_is_missing(m, t);
        if (none && !filled && !out->none && !(out->none = mem_zalloc((size_t)n / 8 + 1, 1)))
            return ERR_NOMEM;
        if (none && !filled)
            batch_set_bit(out->none, i);
        out->key[i] = key_mix(
            none ? missing
                 : word_key_fold(&k->options, XXH3_64bits_withSeed(t.at, t.bytes, k->seed)));
    }
    return out->key ? ERR_OK : ERR_NOMEM;
}

static void encode_places(struct encoding *x)
{
    const struct table_key *k = encode_key_column(x);
    const struct batch_codes *codes = x->c->codes;
    const int32_t *place = x->c->values;
    const bool tells = k->cells > SCHEMA_KEY_CELLS;
    uint32_t *cells = key_cells(x, 0);
    uint64_t missing = 0;
    const bool filled = word_key_missing(&k->options, k->seed, &missing);
    missing = key_mix(missing);
    for (uint32_t row = 0; row < x->b->rows; row++, cells += x->stride) {
        if (!encode_is_there(x, row))
            continue;
        const bool has = batch_has(x->c, row);
        const uint64_t mixed = has ? codes->key[place[row]] : missing;
        cells[0] = (uint32_t)mixed;
        cells[1] = (uint32_t)(mixed >> 32);
        if (tells)
            cells[SCHEMA_KEY_CELLS] =
                has ? !codes->none || !batch_bit(codes->none, (uint32_t)place[row]) : filled;
    }
}

static void encode_key_texts(struct encoding *x)
{
    if (x->c->type == BATCH_CODES) {
        assert(encode_key_column(x)->options.hash && x->sampled == 0);
        encode_places(x);
        return;
    }
    if (x->c->type == BATCH_KEYS || x->c->list || !encode_key_column(x)->options.hash) {
        each_row(x, encode_key);
        return;
    }
    for (uint32_t row = 0; row < x->b->rows && row < x->sampled && x->c->type != BATCH_INTEGERS;
         row++)
        if (encode_is_there(x, row) && batch_has(x->c, row))
            note_key_text(x, row);
    if (encode_has_views(x))
        encode_hashed_views(x);
    else
        encode_hashed(x);
}

/* Remove ":0.5" from the end. False: the text after the last ':' is no weight; *large: as it is too large a number. */
static bool cut_weight(struct batch_text *t, float *weight, bool *large)
{
    enum { WEIGHT_BYTES = 48 };
    char number[WEIGHT_BYTES + 1];
    const char *colon = memrchr(t->at, ':', t->bytes);
    *weight = 1;
    *large = false;
    if (!colon)
        return true;
    size_t n = t->bytes - (size_t)(colon + 1 - t->at);
    if (n > WEIGHT_BYTES)
        return false;
    /* copied: the bytes that follow in the row may continue a number */
    memcpy(number, colon + 1, n);
    number[n] = 0;
    t->bytes = (size_t)(colon - t->at);
    if (csv_number(number, n, weight))
        return true;
    *large = csv_number_is_large(number, n);
    return false;
}

/* Add one value of a text with several. */
static void add_part(struct encoding *x, uint32_t row, struct batch_text t)
{
    struct batch_text word = t;
    float weight = 1;
    bool large = false;
    if (encode_key_column(x)->options.weights && !cut_weight(&word, &weight, &large))
        encode_fault(x, row, CAUSE_KEYS_WEIGHT, t, large);
    else
        add_word(x, row, word, weight);
}

/* Divide a text at the separators. */
static void add_parts(struct encoding *x, uint32_t row, struct batch_text t)
{
    struct learned_divided *divided = x->t->divided ? &x->t->divided[x->field->cell] : NULL;
    const char *separator = encode_key_column(x)->options.separator, *at = t.at,
               *end = at + t.bytes;
    const size_t skip = strlen(separator);
    const bool sampled = divided && row < x->sampled,
               weights = encode_key_column(x)->options.weights;
    if (sampled && !divided->is)
        learned_note_divided(divided, t);
    while (encode_is_there(x, row)) {
        const char *stop = memmem(at, (size_t)(end - at), separator, skip);
        if (stop && divided)
            divided->is = true;
        const struct batch_text part = {at, (size_t)((stop ? stop : end) - at)};
        if (sampled && at == t.at)
            learned_note_list(divided, t, stop != NULL);
        if (sampled && !weights)
            learned_note_value(divided, part);
        if (stop && sampled)
            learned_note_gap(divided, at, stop, skip, end);
        add_part(x, row, part);
        if (!stop)
            return;
        at = stop + skip;
    }
}

static void add_list(struct encoding *x, uint32_t row)
{
    const struct batch_column *c = x->c;
    for (int32_t i = c->list[row]; i < c->list[row + 1] && encode_is_there(x, row); i++)
        add_at(x, row, (uint32_t)i, c->weight ? c->weight[i] : 1);
}

static void encode_keys(struct encoding *x, uint32_t row)
{
    no_keys(x, row);
    if (!batch_has(x->c, row)) {
        missing_key(x, row, 1);
    } else if (x->c->list) {
        add_list(x, row);
    } else {
        struct batch_text t = batch_text(x->c, row);
        note_key_text(x, row);
        if (meaning_is_missing(x->m, t))
            add_part(x, row, t);
        else
            add_parts(x, row, t);
    }
}

/* Of a column whose missing value has no key. */
static void count_lacking(const struct encoding *x)
{
    const struct table_key *k = encode_key_column(x);
    const uint32_t at = k->kind == COLUMN_KEYS ? 0 : SCHEMA_KEY_CELLS;
    uint64_t rows = 0;
    for (uint32_t row = 0; row < x->b->rows && k->options.missing == KEY_MISSING_NONE; row++)
        rows += encode_is_there(x, row) && !key_cells(x, row)[at];
    x->t->lacking[x->s->inputs + x->field->cell] += rows;
}

/* ---- crosses ---- */

/* The key at these cells, not mixed. False: it is missing. */
static bool key_at(const struct table_key *k, const uint32_t *cells, uint64_t *key)
{
    *key = key_unmix(cells[0] | (uint64_t)cells[1] << 32);
    return k->cells == SCHEMA_KEY_CELLS || cells[SCHEMA_KEY_CELLS];
}

/* The hash of the keys that it combines, 8 bytes each, little-endian. */
static void make_cross(const struct encoding *x, uint32_t row, const struct table_key *k)
{
    uint32_t *keys = encode_row(x, row) + schema_keys_at(x->s);
    char bytes[8 * JOB_CROSS_MAX];
    uint64_t key;
    memset(keys + k->cell, 0, k->cells * sizeof *keys);
    for (uint32_t i = 0; i < k->crossed; i++) {
        const struct table_key *of = &x->s->key[k->of[i]];
        if (!key_at(of, keys + of->cell, &key))
            return;
        for (uint32_t b = 0; b < 8; b++)
            bytes[8 * i + b] = (char)(unsigned char)(key >> (8 * b));
    }
    if (word_key(&k->options, k->seed, bytes, (size_t)8 * k->crossed, &key)) {
        put_mixed(keys + k->cell, key);
        keys[k->cell + SCHEMA_KEY_CELLS] = 1;
    }
}

static void make_crosses(const struct encoding *x)
{
    for (uint32_t i = 0; i < x->s->keys; i++)
        if (x->s->key[i].kind == COLUMN_CROSS)
            for (uint32_t row = 0; row < x->b->rows; row++)
                if (encode_is_there(x, row))
                    make_cross(x, row, &x->s->key[i]);
}

/* ---- a batch ---- */

INLINED void find_unreadable(struct encoding *x, uint32_t row)
{
    if (batch_bit(x->c->unreadable, row))
        encode_fault(x, row, CAUSE_UNREADABLE, no_text, 0);
}

static void encode_column(struct encoding *x)
{
    if (x->c->unreadable)
        each_row(x, find_unreadable);
    switch (x->field->kind) {
    case COLUMN_NUMBER:
        encode_numbers(x);
        break;
    case COLUMN_CATEGORY:
        assert(x->c->type < BATCH_DOUBLES);
        if (!encode_learns(x))
            each_row(x, encode_category);
        break;
    case COLUMN_KEY:
        encode_key_texts(x);
        count_lacking(x);
        break;
    case COLUMN_KEYS:
        each_row(x, encode_keys);
        count_lacking(x);
        break;
    case COLUMN_WEIGHT:
        each_row(x, encode_weight);
        break;
    case COLUMN_LABEL:
        each_row(x, encode_label);
        break;
    case COLUMN_IGNORE:
    case COLUMN_CROSS:
        break;
    }
}

/* Encode the columns, or learn the words of those that do. */
static void encode_columns(struct encoding *x, const struct meaning_field *field, bool learn)
{
    const uint32_t columns = x->b->columns;
    for (uint32_t i = 0; i < columns; i++) {
        x->column = i;
        x->c = &x->b->column[i];
        x->field = &field[i];
        if (!learn)
            encode_column(x);
        else if (x->field->kind == COLUMN_CATEGORY && encode_learns(x))
            each_row(x, encode_category);
    }
}

static void begin_rows(const struct encoding *x)
{
    const struct table_schema *s = x->s;
    memset(x->out->present, 0, (x->b->rows + 7) / 8);
    for (uint32_t row = 0; row < x->b->rows; row++) {
        if (x->b->absent && batch_bit(x->b->absent, row))
            batch_clear_bit(x->out->present, row);
        else
            batch_set_bit(x->out->present, row);
        encode_row(x, row)[s->inputs] = schema_bits(0);
        if (s->weighted)
            encode_row(x, row)[s->inputs + 1] = schema_bits(1);
        for (uint32_t i = 0; i < s->keys && s->several;
             i++) /* also of columns that the batch lacks */
            if (s->key[i].kind == COLUMN_KEYS)
                encode_row(x, row)[schema_keys_at(s) + s->key[i].cell] = 0;
    }
}

/* Pack the rows, and remove the cells of those that are not there. */
static void end_rows(const struct encoding *x)
{
    struct encoded_rows *out = x->out;
    out->used = 0;
    assert(x->b->rows % 8 == 0 || out->present[x->b->rows / 8] >> x->b->rows % 8 == 0);
    for (uint32_t row = 0; row < x->b->rows; row++) {
        uint32_t *cells = encode_row(x, row);
        if (!encode_is_there(x, row)) {
            memset(cells, 0, x->stride * sizeof *cells);
            cells[x->s->inputs] = schema_bits(NAN);
        }
        size_t own = schema_pack(x->s, cells);
        if (out->cells + out->used != cells)
            memmove(out->cells + out->used, cells, own * sizeof *cells);
        out->used += own;
    }
}

enum err encode_batch(const struct meaning *m, const struct meaning_field *field,
                      const struct column_batch *b, uint32_t sampled, struct learned *t,
                      struct encoded_rows *out)
{
    struct encoding x = {.m = m,
                         .s = m->schema,
                         .b = b,
                         .t = t,
                         .out = out,
                         .stride = schema_raw_cells(m->schema),
                         .sampled = sampled};
    out->first = (struct meaning_fault){.row = MEANING_NO_ROW};
    begin_rows(&x);
    encode_columns(&x, field, false);
    make_crosses(&x);
    if (m->learning && !x.err)
        encode_columns(&x, field, true);
    end_rows(&x);
    return x.err;
}
