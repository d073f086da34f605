/* The encoding of csv columns (docs/reference/encoding.md) as nodes: a raw value goes in, the column's features come out.
 * Numbers are computed in double as in training (data/table.c). */
#include <math.h>
#include <string.h>

#include "common/base/texts.h"
#include "formats/graph/build.h"

/* ---- names and inputs ---- */

static const char *name_of(struct build *b, uint32_t column)
{
    const char *name = b->folder->job.data.csv.column[column].name;
    return *name ? name : build_text(b, "column_%u", column + 1);
}

static uint32_t input(struct build *b, enum graph_source source, uint32_t column,
                      enum graph_type type, uint32_t width)
{
    const struct graph_input of = {.source = source, .column = column};
    const char *name = name_of(b, column);
    if (source == GRAPH_WEIGHTS && name)
        name = build_text(b, "%s/weights", name);
    return build_input(b, &of, type, width ? 1 : 0, &width, name);
}

/* The column among the columns of the encoding. */
static const struct schema_input *encoding_of(const struct build *b, uint32_t column)
{
    const struct schema_input *in = b->folder->schema->input;
    for (uint32_t i = 0; i < column; i++) {
        enum column_kind kind = b->folder->job.data.csv.column[i].kind;
        in += kind == COLUMN_NUMBER || kind == COLUMN_CATEGORY;
    }
    return in;
}

/* ---- numbers ---- */

static uint32_t at_least(struct build *b, uint32_t x, double low)
{
    return build_binary(b, GRAPH_MAXIMUM, x, build_f64(b, low));
}

/* x: f64 */
static uint32_t scaled(struct build *b, const struct schema_input *in, uint32_t x)
{
    if (in->scale == SCALE_LOG1P) {
        uint32_t one = build_f64(b, 1);
        return build_unary(b, GRAPH_LOG, build_binary(b, GRAPH_ADD, at_least(b, x, 0), one));
    }
    if (in->scale == SCALE_LOG2) {
        uint32_t ln2 = build_f64(b, M_LN2);
        return build_binary(b, GRAPH_DIV, build_unary(b, GRAPH_LOG, at_least(b, x, 1)), ln2);
    }
    if (in->shift != 0)
        x = build_binary(b, GRAPH_SUB, x, build_f64(b, in->shift));
    return in->divisor == 1 ? x : build_binary(b, GRAPH_DIV, x, build_f64(b, in->divisor));
}

/* (n) f32 or f64 -> (n, 1) f32 */
static uint32_t number(struct build *b, const struct schema_input *in, uint32_t raw)
{
    uint32_t x = build_cast(b, GRAPH_F64, raw);
    if (in->missing != MISSING_REFUSE) {
        uint32_t fill = build_f64(b, in->fill);
        x = build_select(b, build_unary(b, GRAPH_IS_NAN, raw), fill, x);
    }
    return build_widen(b, build_cast(b, GRAPH_F32, scaled(b, in, x)));
}

/* ---- numbers that training requires ---- */

static void require(struct build *b, uint32_t raw)
{
    uint32_t lacks = build_cast(b, GRAPH_F32, build_unary(b, GRAPH_IS_NAN, raw));
    b->lacking = 1 + (b->lacking ? build_binary(b, GRAPH_ADD, b->lacking - 1, lacks) : lacks);
}

/* ---- buckets ---- */

/* Given borders and quantiles are rounded as the numbers of a graph of floats are (buckets_round_moves). Those of
 * log_squared are no numbers of files: no float below one reaches it. */
static float narrow_border(const struct buckets *of, double border)
{
    float near = (float)border;
    return of->log_squared && (double)near < border ? nextafterf(near, INFINITY) : near;
}

/* The borders, in the type of the numbers. Without any there is one that is NaN: it is above all. */
static uint32_t borders(struct build *b, const struct buckets *of, enum graph_type type)
{
    uint32_t n = of->count > 1 ? of->count - 1 : 1;
    float *narrow = build_own(b, n, sizeof *narrow);
    double *wide = build_own(b, n, sizeof *wide);
    if (!narrow || !wide)
        return 0;
    for (uint32_t i = 0; i < n; i++) {
        wide[i] = of->count > 1 ? buckets_begin(of, i + 1) : NAN;
        narrow[i] = narrow_border(of, wide[i]);
    }
    return build_constant(b, type, 1, &n, type == GRAPH_F64 ? (const void *)wide : narrow);
}

/* The number of borders that are at most x. Also for log_squared: the logarithms of other programs have other last
 * bits, which decide next to a border. */
static uint32_t by_borders(struct build *b, const struct buckets *of, uint32_t x)
{
    uint32_t border = borders(b, of, build_look(b, x).type);
    uint32_t reached = build_binary(b, GRAPH_GREATER_OR_EQUAL, build_widen(b, x), border);
    return build_reduce(b, GRAPH_REDUCE_SUM, build_cast(b, GRAPH_I64, reached), 1, 2, false);
}

/* The bucket's index; -1: none. */
static uint32_t bucket(struct build *b, const struct schema_input *in, uint32_t raw)
{
    bool filled = in->missing == MISSING_VALUE;
    uint32_t missing = build_unary(b, GRAPH_IS_NAN, raw);
    double fill = filled ? in->missing_value : 0;
    uint32_t value = in->needs_double ? build_f64(b, fill) : build_f32(b, (float)fill);
    uint32_t x = build_select(b, missing, value, raw);
    uint32_t index = by_borders(b, &in->buckets, x);
    return filled ? index : build_select(b, missing, build_i64(b, -1), index);
}

/* ---- categories ---- */

/* Takes a text from the list. Returns the rest; NULL: this was the last one. */
static const char *next_text(const char *at, struct graph_text *text)
{
    text->at = at;
    return texts_next(at, &text->bytes);
}

/* Whether a text of the list that begins before `end` (NULL: any) is this word. */
static bool lists(const char *missing, const char *end, const struct graph_text *word)
{
    struct graph_text text;
    for (const char *at = missing; at && at != end;) {
        at = next_text(at, &text);
        if (text.bytes == word->bytes && !memcmp(text.at, word->at, text.bytes))
            return true;
    }
    return false;
}

struct words {
    uint32_t count;
    struct graph_text *word;
    int64_t *number;
};

static void add_word(struct words *w, struct graph_text word, uint32_t number)
{
    w->word[w->count] = word;
    w->number[w->count++] = number;
}

/* The texts that mark a missing value: all count as the first one. */
static void add_missing(struct words *w, const struct vocabulary *v, const char *missing)
{
    struct graph_text text;
    (void)next_text(missing, &text);
    uint32_t number = vocabulary_find(v, text.at, text.bytes);
    for (const char *at = number == VOCABULARY_NONE ? NULL : missing; at;) {
        const char *next = next_text(at, &text);
        if (!lists(missing, at, &text))
            add_word(w, text, number);
        at = next;
    }
}

static struct words words_of(struct build *b, const struct vocabulary *v, const char *missing)
{
    struct graph_text text;
    uint32_t texts = 1;
    for (const char *p = missing; *p; p++)
        texts += *p == *TEXTS_JOINT;
    struct words w = {.word = build_own(b, (size_t)v->count + texts, sizeof *w.word),
                      .number = build_own(b, (size_t)v->count + texts, sizeof *w.number)};
    for (uint32_t i = 0; i < v->count && !b->err; i++) {
        text.at = vocabulary_text(v, i, &text.bytes);
        if (!lists(missing, NULL, &text))
            add_word(&w, text, i);
    }
    if (!b->err)
        add_missing(&w, v, missing);
    return w;
}

/* The word's number; -1: it is not in the vocabulary. */
static uint32_t word(struct build *b, const struct schema_input *in, uint32_t raw)
{
    struct words w = words_of(b, &in->words, b->folder->job.data.csv.missing);
    uint32_t number = build_constant(b, GRAPH_I64, 1, &w.count, w.number);
    uint32_t text = build_constant(b, GRAPH_TEXT, 1, &w.count, w.word);
    return build_find(b, GRAPH_FIND_WORD, raw, text, number);
}

/* ---- features ---- */

/* (n) i64 -> (n, width) f32: 1 in the place of the index */
static uint32_t one_hot(struct build *b, uint32_t index, uint32_t width)
{
    int64_t *place = build_own(b, width, sizeof *place);
    for (uint32_t i = 0; place && i < width; i++)
        place[i] = i;
    uint32_t places = build_constant(b, GRAPH_I64, 1, &width, place);
    return build_cast(b, GRAPH_F32, build_binary(b, GRAPH_EQUAL, build_widen(b, index), places));
}

static uint32_t features(struct build *b, uint32_t column)
{
    const struct schema_input *in = encoding_of(b, column);
    bool is_word = in->kind == COLUMN_CATEGORY;
    enum graph_type number_type = in->needs_double ? GRAPH_F64 : GRAPH_F32;
    uint32_t raw = input(b, is_word ? GRAPH_WORD : GRAPH_NUMBER, column,
                         is_word ? GRAPH_TEXT : number_type, 0);
    if (!is_word && in->missing == MISSING_REFUSE)
        require(b, raw);
    if (!schema_input_is_id(in))
        return number(b, in, raw);
    uint32_t index = is_word ? word(b, in, raw) : bucket(b, in, raw);
    if (in->encode == ENCODE_ONE_HOT)
        return one_hot(b, index, in->width);
    uint32_t id = build_binary(b, GRAPH_ADD, index, build_i64(b, 1));
    return build_widen(b, build_cast(b, GRAPH_F32, id));
}

uint32_t encode_column(struct build *b, uint32_t column)
{
    if (!b->column[column])
        b->column[column] = features(b, column) + 1;
    return b->column[column] - 1;
}

/* ---- keys ---- */

/* Whether a row of data can have no key in this column. */
static bool can_lack(const struct build *b, uint32_t column)
{
    const struct job_csv *csv = &b->folder->job.data.csv;
    const struct job_column *c = &csv->column[column];
    uint32_t of[JOB_CROSS_MAX];
    if (c->kind == COLUMN_KEY)
        return c->key.missing == KEY_MISSING_NONE;
    uint32_t crossed = c->kind == COLUMN_CROSS ? job_cross_columns(csv, c, of) : 0;
    for (uint32_t i = 0; i < crossed; i++)
        if (csv->column[of[i]].key.missing == KEY_MISSING_NONE)
            return true;
    return c->kind == COLUMN_KEYS;
}

uint32_t encode_keys(struct build *b, uint32_t column, uint32_t *weights)
{
    const struct job_column *c = &b->folder->job.data.csv.column[column];
    uint32_t width = c->kind == COLUMN_KEYS ? c->key.max_values : 0;
    if (!b->key[column]) {
        enum graph_source source = width ? GRAPH_KEYS : GRAPH_KEY;
        b->key[column] = input(b, source, column, GRAPH_I64, width) + 1;
        if (can_lack(b, column))
            b->weights[column] = input(b, GRAPH_WEIGHTS, column, GRAPH_F32, width) + 1;
    }
    *weights = b->weights[column] ? b->weights[column] - 1 : GRAPH_NONE;
    return b->key[column] - 1;
}
