/* The columns of rows, and what the training part, the job or a checkpoint teaches of each. Cells become numbers for a model
 * here: fills, scales, buckets, one-hot. */
#include "data/meaning/schema.h"

#include <assert.h>
#include <math.h>
#include <string.h>
#define XXH_INLINE_ALL /* a call takes as long as the hash of a short word */
#include <xxhash.h>

#include "common/base/mem.h"
#include "common/base/texts.h"
#include "common/rows/key.h"

/* ---- keys of words ---- */

uint64_t word_key_seed(const char *space)
{
    return XXH3_64bits(space, strlen(space));
}

static bool integer(const char *word, size_t bytes, uint64_t *out)
{
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; i++)
        if (word[i] < '0' || word[i] > '9' || __builtin_mul_overflow(value, 10u, &value) ||
            __builtin_add_overflow(value, (uint64_t)(word[i] - '0'), &value))
            return false;
    *out = value;
    return bytes > 0;
}

bool word_key(const struct job_key_column *c, uint64_t seed, const char *word, size_t bytes,
              uint64_t *key)
{
    uint64_t value;
    if (c->hash)
        value = XXH3_64bits_withSeed(word, bytes, seed);
    else if (!integer(word, bytes, &value))
        return false;
    *key = word_key_fold(c, value);
    return true;
}

/* ---- columns ---- */

/* The words that the job gives, and one more for a missing value. */
static enum err given_words(struct schema_input *in, const char *words, const char *missing)
{
    enum err err = ERR_OK;
    uint32_t number;
    size_t n;
    for (const char *p = words, *next; p && !err; p = next) {
        next = texts_next(p, &n);
        err = vocabulary_add(&in->words, p, n, &number);
    }
    (void)texts_next(missing, &n);
    return err ? err : vocabulary_add(&in->words, missing, n, &number);
}

/* Whether the number must stay a double until it is encoded: otherwise large or close numbers become equal before that.
 */
static bool is_wide(const struct job_column *column)
{
    return column->kind == COLUMN_NUMBER &&
           (column->scale != SCALE_NONE || column->buckets != BUCKETS_NONE);
}

static enum err init_buckets(struct schema_input *in, const struct job_column *column)
{
    in->bucketing = column->buckets;
    in->quantiles = column->quantiles;
    in->buckets.count = 1; /* until it is learned */
    return in->bucketing == BUCKETS_BORDERS ? buckets_given(&in->buckets, column->words) : ERR_OK;
}

static enum err input_init(struct schema_input *in, const struct job_column *column,
                           const char *missing)
{
    *in = (struct schema_input){.kind = column->kind,
                                .name = column->name,
                                .scale = column->scale,
                                .missing = column->ids && column->missing == MISSING_MEAN
                                               ? MISSING_REFUSE
                                               : column->missing,
                                .ids = column->ids,
                                .missing_value = column->missing_value,
                                .encode = column->encode,
                                .divisor = 1};
    if (in->kind != COLUMN_CATEGORY)
        return init_buckets(in, column);
    in->learns = !column->words;
    return in->learns ? ERR_OK : given_words(in, column->words, missing);
}

static enum err add_input(struct table_schema *s, const struct job_column *column,
                          const char *missing)
{
    struct schema_input *in = &s->input[s->inputs++];
    enum err err = input_init(in, column, missing);
    in->wide = is_wide(column) ? ++s->wide : 0;
    if (!in->wide)
        in->missing_value = (double)(float)in->missing_value;
    return err;
}

static uint32_t key_cells(const struct table_key *k)
{
    if (k->kind == COLUMN_KEYS)
        return 1 + k->options.max_values * (SCHEMA_KEY_CELLS + k->options.weights);
    return SCHEMA_KEY_CELLS + (k->options.missing == KEY_MISSING_NONE);
}

/* Index of the column among the schema's keys. */
static uint32_t key_of(const struct job_csv *csv, uint32_t column)
{
    uint32_t key = 0;
    for (uint32_t i = 0; i < column; i++)
        key += job_column_has_keys(&csv->column[i]);
    return key;
}

static void add_key(struct table_schema *s, const struct job_csv *csv,
                    const struct job_column *column)
{
    struct table_key *k = &s->key[s->keys++];
    *k = (struct table_key){.kind = column->kind,
                            .name = column->name,
                            .options = column->key,
                            .seed = word_key_seed(column->key.space)};
    k->cells = key_cells(k);
    if (k->kind == COLUMN_CROSS)
        k->crossed = job_cross_columns(csv, column, k->of);
    for (uint32_t i = 0; i < k->crossed; i++)
        k->of[i] = key_of(csv, k->of[i]);
}

/* The columns whose cells differ in number from row to row come last. */
static void place_keys(struct table_schema *s, bool several)
{
    for (uint32_t i = 0; i < s->keys; i++) {
        struct table_key *k = &s->key[i];
        if ((k->kind == COLUMN_KEYS) != several)
            continue;
        k->cell = s->key_cells;
        s->key_cells += k->cells;
        if (!several)
            continue;
        k->nth = s->several;
        s->each[s->several++] = SCHEMA_KEY_CELLS + k->options.weights;
    }
}

enum err schema_look_up(struct table_schema *s, const struct job *job, struct errmsg *e)
{
    if (job->model.lookups == 0)
        return ERR_OK;
    s->lookup = mem_zalloc(job->model.lookups, sizeof *s->lookup);
    if (!s->lookup)
        return err_set(e, ERR_NOMEM, "out of memory for the columns");
    s->lists = job->model.lists;
    for (uint32_t i = 0; i < job->model.lookups; i++) {
        const struct job_lookup *from = &job->model.lookup[i];
        s->lookup[s->lookups++] =
            (struct table_lookup){from->list, key_of(&job->data.csv, from->column)};
    }
    return ERR_OK;
}

enum err schema_of_job(struct table_schema **s, const struct job *job, struct errmsg *e)
{
    enum err err = schema_new(s, &job->data.csv, e);
    return err ? err : schema_look_up(*s, job, e);
}

enum err schema_new(struct table_schema **out, const struct job_csv *csv, struct errmsg *e)
{
    struct table_schema *s = mem_zalloc(1, sizeof *s);
    if (s)
        *s = (struct table_schema){.refs = 1,
                                   .input = mem_zalloc(csv->columns, sizeof *s->input),
                                   .missing = csv->missing};
    if (s) {
        s->key = mem_zalloc(csv->columns, sizeof *s->key);
        s->each = mem_zalloc(csv->columns, sizeof *s->each);
    }
    enum err err = s && s->input && s->key && s->each ? ERR_OK : ERR_NOMEM;
    for (uint32_t i = 0; i < csv->columns && !err; i++) {
        enum column_kind kind = csv->column[i].kind;
        if (kind == COLUMN_NUMBER || kind == COLUMN_CATEGORY)
            err = add_input(s, &csv->column[i], csv->missing);
        else if (job_column_has_keys(&csv->column[i]))
            add_key(s, csv, &csv->column[i]);
        s->weighted |= kind == COLUMN_WEIGHT;
    }
    if (!err) {
        place_keys(s, false);
        s->several_at = s->key_cells;
        place_keys(s, true);
    }
    if (err) {
        schema_unref(s);
        return err_set(e, ERR_NOMEM, "out of memory for the columns");
    }
    *out = s;
    return ERR_OK;
}

struct table_schema *schema_ref(struct table_schema *s)
{
    s->refs++;
    return s;
}

void schema_unref(struct table_schema *s)
{
    if (!s || --s->refs)
        return;
    for (uint32_t i = 0; i < s->inputs; i++) {
        vocabulary_close(&s->input[i].words);
        buckets_close(&s->input[i].buckets);
    }
    mem_free(s->input);
    mem_free(s->key);
    mem_free(s->each);
    mem_free(s->lookup);
    mem_free(s);
}

bool schema_input_is_id(const struct schema_input *in)
{
    return in->kind == COLUMN_CATEGORY || in->bucketing != BUCKETS_NONE;
}

bool schema_input_grows(const struct schema_input *in)
{
    return in->learns || in->bucketing == BUCKETS_LOG_SQUARED || in->bucketing == BUCKETS_QUANTILES;
}

bool schema_fill_moves(const struct schema_input *in)
{
    return in->bucketing != BUCKETS_NONE && in->missing == MISSING_VALUE &&
           buckets_round_moves(&in->buckets, in->missing_value);
}

enum err schema_place_features(struct table_schema *s, struct errmsg *e)
{
    enum { FEATURES_MAX = 1 << 24 };
    uint64_t at = 0;
    for (uint32_t i = 0; i < s->inputs; i++) {
        struct schema_input *in = &s->input[i];
        int one_hot = schema_input_is_id(in) && in->encode == ENCODE_ONE_HOT;
        uint32_t ids = in->kind == COLUMN_CATEGORY ? in->words.count : in->buckets.count;
        in->feature = (uint32_t)at;
        in->width = one_hot ? ids : 1;
        at += in->width;
        if (at > FEATURES_MAX)
            return err_set(e, ERR_INPUT,
                           "the columns make more than %d features; a category of many words is "
                           "better encoded as id",
                           FEATURES_MAX);
    }
    s->features = (uint32_t)at;
    return ERR_OK;
}

/* ---- the cells of a row ---- */

size_t schema_pack(const struct table_schema *s, uint32_t *cells)
{
    uint32_t *to = cells + schema_keys_at(s) + s->several_at;
    if (!s->several)
        return schema_raw_cells(s);
    for (uint32_t i = 0; i < s->keys; i++) {
        const struct table_key *k = &s->key[i];
        if (k->kind != COLUMN_KEYS)
            continue;
        const uint32_t *from = cells + schema_keys_at(s) + k->cell;
        size_t n = 1 + (size_t)from[0] * s->each[k->nth];
        assert(n <= k->cells);
        if (to != from)
            memmove(to, from, n * sizeof *to);
        to += n;
    }
    if (s->wide)
        memmove(to, cells + schema_row_cells(s), s->wide * sizeof *to);
    return (size_t)(to - cells) + s->wide;
}

/* Whether a program that reads the column as floats would get features that differ by more than a few units in their last
 * place. Logarithms differ less. For buckets, see learn_moves. */
static bool needs_double(const struct schema_input *in, double rounding)
{
    const double enough = 0x1p-20;
    return (in->scale == SCALE_STANDARD || in->scale == SCALE_MIN_MAX) &&
           rounding > enough * in->divisor;
}

void schema_learn_number(struct schema_input *in, const struct number_moments *m, double mean)
{
    double deviation = m->count > 0 ? sqrt(m->squares / m->count) : 0;
    double range = m->count > 0 ? m->max - m->min : 0;
    in->fill = in->missing == MISSING_VALUE ? in->missing_value : mean;
    if (in->scale == SCALE_STANDARD) {
        in->shift = mean;
        in->divisor = deviation > 0 ? deviation : 1;
    } else if (in->scale == SCALE_MIN_MAX) {
        in->shift = m->count > 0 ? m->min : 0;
        in->divisor = range > 0 ? range : 1;
    }
    if (in->bucketing == BUCKETS_LOG_SQUARED && m->count > 0)
        buckets_learn_range(&in->buckets, m->min, m->max);
    in->needs_double = needs_double(in, m->rounding);
}

/* The feature of a number without buckets. */
static float scaled_number(const struct schema_input *in, double v)
{
    double x = isnan(v) ? in->fill : v;
    if (in->scale == SCALE_LOG1P)
        return (float)log1p(x > 0 ? x : 0);
    if (in->scale == SCALE_LOG2)
        return (float)log2(x > 1 ? x : 1);
    return (float)((x - in->shift) / in->divisor);
}

static uint32_t bucket(const struct schema_input *in, double v)
{
    if (isnan(v) && in->missing != MISSING_VALUE)
        return 0;
    return buckets_find(&in->buckets, isnan(v) ? in->missing_value : v) + 1;
}

uint32_t schema_scaled_cell(const struct schema_input *in, double v)
{
    if (in->bucketing != BUCKETS_NONE)
        return bucket(in, v);
    return schema_bits(in->scale == SCALE_NONE ? (float)schema_number_or(v, in->fill)
                                               : scaled_number(in, v));
}

void schema_scale_row(const struct table_schema *s, uint32_t *cells)
{
    const uint32_t *high = schema_high_cells(s, cells);
    for (uint32_t i = 0; i < s->inputs; i++)
        if (s->input[i].kind == COLUMN_NUMBER)
            cells[i] = schema_scaled_cell(&s->input[i], schema_number(s, cells, high, i));
}

void schema_row_keys(const struct table_key *k, const uint32_t *cells, uint64_t *key, float *weight)
{
    bool several = k->kind == COLUMN_KEYS;
    uint32_t width = table_key_width(k), each = SCHEMA_KEY_CELLS + k->options.weights;
    bool weighs = several && k->options.weights;
    uint32_t n = several ? cells[0] : k->cells == SCHEMA_KEY_CELLS || cells[SCHEMA_KEY_CELLS];
    for (uint32_t i = 0; i < width; i++) {
        const uint32_t *at = several ? cells + 1 + (size_t)i * each : cells;
        key[i] = i < n ? key_unmix(at[0] | (uint64_t)at[1] << 32) : 0;
        if (weight)
            weight[i] = i >= n ? 0 : weighs ? schema_float(at[SCHEMA_KEY_CELLS]) : 1;
    }
}

void table_features(const struct table_schema *s, const uint32_t *cells, float *x)
{
    if (s->features) /* rows with keys only have none, and no memory for them */
        memset(x, 0, s->features * sizeof *x);
    for (uint32_t i = 0; i < s->inputs; i++) {
        const struct schema_input *in = &s->input[i];
        if (!schema_input_is_id(in))
            x[in->feature] = schema_float(cells[i]);
        else if (in->encode == ENCODE_ID)
            x[in->feature] = (float)cells[i];
        else if (cells[i])
            x[in->feature + cells[i] - 1] = 1;
    }
}
