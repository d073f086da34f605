#include "worker/data/table.h"

#include <assert.h>
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "common/base/texts.h"
#include "common/base/crc32c.h"
#include "common/process/loading.h"
#include "common/base/mem.h"
#include "worker/data/csv_key.h"

/* ---- the schema ---- */

/* The words that the job gives, and one more for a missing value. */
static enum err given_words(struct table_input *in, const char *words, const char *missing)
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

static enum err init_buckets(struct table_input *in, const struct job_column *column)
{
    in->bucketing = column->buckets;
    in->quantiles = column->quantiles;
    in->buckets.count = 1; /* until it is learned */
    return in->bucketing == BUCKETS_BORDERS ? buckets_given(&in->buckets, column->words) : ERR_OK;
}

static enum err input_init(struct table_input *in, const struct job_column *column,
                           const char *missing)
{
    *in = (struct table_input){.kind = column->kind,
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
    struct table_input *in = &s->input[s->inputs++];
    enum err err = input_init(in, column, missing);
    in->wide = is_wide(column) ? ++s->wide : 0;
    if (!in->wide)
        in->missing_value = (double)(float)in->missing_value;
    return err;
}

static uint32_t key_cells(const struct table_key *k)
{
    if (k->kind == COLUMN_KEYS)
        return 1 + k->options.max_values * (TABLE_KEY_CELLS + k->options.weights);
    return TABLE_KEY_CELLS + (k->options.missing == KEY_MISSING_NONE);
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
                            .seed = csv_key_seed(column->key.space),
                            .cell = s->key_cells};
    k->cells = key_cells(k);
    s->key_cells += k->cells;
    if (k->kind == COLUMN_CROSS)
        k->crossed = job_cross_columns(csv, column, k->of);
    for (uint32_t i = 0; i < k->crossed; i++)
        k->of[i] = key_of(csv, k->of[i]);
}

enum err table_schema_look_up(struct table_schema *s, const struct job *job, struct errmsg *e)
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

enum err table_schema_new(struct table_schema **out, const struct job_csv *csv, struct errmsg *e)
{
    struct table_schema *s = mem_zalloc(1, sizeof *s);
    if (s)
        *s = (struct table_schema){.refs = 1,
                                   .input = mem_zalloc(csv->columns, sizeof *s->input),
                                   .missing = csv->missing};
    if (s)
        s->key = mem_zalloc(csv->columns, sizeof *s->key);
    enum err err = s && s->input && s->key ? ERR_OK : ERR_NOMEM;
    for (uint32_t i = 0; i < csv->columns && !err; i++) {
        enum column_kind kind = csv->column[i].kind;
        if (kind == COLUMN_NUMBER || kind == COLUMN_CATEGORY)
            err = add_input(s, &csv->column[i], csv->missing);
        else if (job_column_has_keys(&csv->column[i]))
            add_key(s, csv, &csv->column[i]);
        s->weighted |= kind == COLUMN_WEIGHT;
    }
    if (err) {
        table_schema_unref(s);
        return err_set(e, ERR_NOMEM, "out of memory for the columns");
    }
    *out = s;
    return ERR_OK;
}

void table_schema_round(struct table_schema *s)
{
    for (uint32_t i = 0; i < s->inputs; i++) {
        s->input[i].wide = 0;
        s->input[i].missing_value = (double)(float)s->input[i].missing_value;
        buckets_round(&s->input[i].buckets);
    }
    s->wide = 0;
}

struct table_schema *table_schema_ref(struct table_schema *s)
{
    s->refs++;
    return s;
}

void table_schema_unref(struct table_schema *s)
{
    if (!s || --s->refs)
        return;
    for (uint32_t i = 0; i < s->inputs; i++) {
        vocabulary_close(&s->input[i].words);
        buckets_close(&s->input[i].buckets);
    }
    mem_free(s->input);
    mem_free(s->key);
    mem_free(s->lookup);
    mem_free(s);
}

/* ---- rows ---- */

/* a chunk counts with its full size, however few rows it has */
enum { CHUNK_BYTES_MOST = 4 << 20 };

static size_t row_cells(const struct table *t)
{
    return t->scaled ? table_row_cells(t->schema) : table_raw_cells(t->schema);
}

static size_t chunk_bytes(const struct table *t)
{
    return row_cells(t) * t->chunk_rows * sizeof(uint32_t);
}

void table_begin(struct table *t)
{
    t->chunk_rows = TABLE_CHUNK_ROWS;
    while (t->chunk_rows > 1 && chunk_bytes(t) > CHUNK_BYTES_MOST)
        t->chunk_rows /= 2;
    assert(t->chunk_rows == 1 || chunk_bytes(t) <= CHUNK_BYTES_MOST);
    assert(t->chunk_rows == TABLE_CHUNK_ROWS || 2 * chunk_bytes(t) > CHUNK_BYTES_MOST);
}

static enum err no_memory(const struct table *t, struct errmsg *e)
{
    return err_set(e, ERR_NOMEM, "out of memory for %llu rows", (unsigned long long)t->rows + 1);
}

/* A row in the file: its cells, and a checksum. */
static size_t file_row_cells(const struct table *t)
{
    return row_cells(t) + 1;
}

/* Of rows with `all` cells in the file. */
static uint64_t place_among(const struct table *t, uint64_t row, size_t all)
{
    return t->chunk[row / t->chunk_rows].at + row % t->chunk_rows * all * sizeof(uint32_t);
}

static uint64_t place_of(const struct table *t, uint64_t row)
{
    return place_among(t, row, file_row_cells(t));
}

/* Of the row's number, too: the bytes of another row are damage, and so is a place that was never written. */
static uint32_t row_checksum(uint64_t row, const uint32_t *cells, size_t n)
{
    return crc32c(crc32c(0, &row, sizeof row), cells, n * sizeof *cells);
}

/* Add a chunk, in memory while the budget allows it. */
static enum err add_chunk(struct table *t, struct errmsg *e)
{
    struct table_chunk *grown = mem_resize(t->chunk, t->chunks + 1, sizeof *grown), c = {NULL, 0};
    if (!grown)
        return no_memory(t, e);
    t->chunk = grown;
    if (!spill_take_memory(t->spill, chunk_bytes(t))) {
        uint64_t bytes = file_row_cells(t) * t->chunk_rows * sizeof(uint32_t);
        enum err err = spill_reserve(t->spill, bytes, &c.at, e);
        if (err)
            return err;
    } else if (!(c.cells = mem_zalloc(row_cells(t) * t->chunk_rows, sizeof *c.cells))) {
        spill_give_memory(t->spill, chunk_bytes(t));
        return no_memory(t, e);
    }
    t->chunk[t->chunks++] = c;
    return ERR_OK;
}

/* Offset of a row's cells in its chunk, in cells. */
static size_t row_at(const struct table *t, uint64_t row)
{
    return (size_t)(row % t->chunk_rows) * row_cells(t);
}

/* Put rows of `own` cells. */
static enum err put_in_file(struct table *t, uint64_t row, uint64_t n, const uint32_t *cells,
                            size_t own, struct errmsg *e)
{
    uint32_t block[TABLE_ROW_CELLS_MAX];
    const size_t all = own + 1, most = TABLE_ROW_CELLS_MAX / all;
    enum err err = ERR_OK;
    while (n > 0 && !err) {
        size_t some = n < most ? (size_t)n : most;
        for (size_t i = 0; i < some; i++, cells += own) {
            memcpy(block + i * all, cells, own * sizeof *cells);
            block[i * all + own] = row_checksum(row + i, cells, own);
        }
        err = spill_write(t->spill, place_among(t, row, all), block, some * all * sizeof *block, e);
        row += some;
        n -= some;
    }
    return err;
}

/* Read rows of one chunk to `to`, which has room for their checksums, too; then they close up. */
static enum err look_in_file(const struct table *t, uint64_t row, uint64_t n, uint32_t *to,
                             struct errmsg *e)
{
    const size_t own = row_cells(t), all = file_row_cells(t);
    enum err err = spill_read(t->spill, place_of(t, row), to, (size_t)n * all * sizeof *to, e);
    for (size_t i = 0; i < n && !err; i++) {
        const uint32_t *cells = to + i * all;
        if (cells[own] != row_checksum(row + i, cells, own))
            return spill_changed(t->spill, e);
        if (i > 0)
            memmove(to + i * own, cells, own * sizeof *cells);
    }
    return err;
}

/* Put rows of one chunk. */
static enum err put_rows(struct table *t, uint64_t row, uint64_t n, const uint32_t *cells,
                         struct errmsg *e)
{
    const struct table_chunk *c = &t->chunk[row / t->chunk_rows];
    if (!c->cells)
        return put_in_file(t, row, n, cells, row_cells(t), e);
    memcpy(c->cells + row_at(t, row), cells, (size_t)n * row_cells(t) * sizeof *cells);
    return ERR_OK;
}

enum err table_append(struct table *t, const uint32_t *cells, uint64_t rows, struct errmsg *e)
{
    loading_rows(rows);
    while (rows > 0) {
        uint64_t room = t->chunk_rows - t->rows % t->chunk_rows;
        uint64_t n = rows < room ? rows : room;
        enum err err = room == t->chunk_rows ? add_chunk(t, e) : ERR_OK;
        if (!err)
            err = put_rows(t, t->rows, n, cells, e);
        if (err)
            return err;
        cells += n * row_cells(t);
        t->rows += n;
        rows -= n;
        assert(t->chunks == (t->rows + t->chunk_rows - 1) / t->chunk_rows);
    }
    return ERR_OK;
}

void table_close(struct table *t)
{
    for (uint64_t i = 0; i < t->chunks; i++)
        if (t->chunk[i].cells) {
            mem_free(t->chunk[i].cells);
            spill_give_memory(t->spill, chunk_bytes(t));
        }
    mem_free(t->chunk);
    table_schema_unref(t->schema);
    spill_unref(t->spill);
    *t = (struct table){0};
}

static uint64_t rows_in(const struct table *t, uint64_t chunk)
{
    uint64_t first = chunk * t->chunk_rows;
    return t->rows - first < t->chunk_rows ? t->rows - first : t->chunk_rows;
}

uint64_t table_spilled_bytes(const struct table *t)
{
    uint64_t rows = 0;
    for (uint64_t i = 0; i < t->chunks; i++)
        rows += t->chunk[i].cells ? 0 : rows_in(t, i);
    return rows * row_cells(t) * sizeof(uint32_t);
}

enum err table_look(const struct table *t, uint64_t row, uint64_t *n, uint32_t *buffer, size_t room,
                    const uint32_t **cells, struct errmsg *e)
{
    const struct table_chunk *c = &t->chunk[row / t->chunk_rows];
    uint64_t left = rows_in(t, row / t->chunk_rows) - row % t->chunk_rows;
    uint64_t held = room / file_row_cells(t);
    *n = *n < left ? *n : left;
    if (c->cells) {
        *cells = c->cells + row_at(t, row);
        return ERR_OK;
    }
    *n = *n < held ? *n : held;
    *cells = buffer;
    return look_in_file(t, row, *n, buffer, e);
}

bool table_waits(const struct table *t, uint64_t row)
{
    return !t->chunk[row / t->chunk_rows].cells && spill_waits(t->spill, place_of(t, row));
}

void table_want(const struct table *t, uint64_t row)
{
    if (!t->chunk[row / t->chunk_rows].cells)
        spill_want(t->spill, place_of(t, row), file_row_cells(t) * sizeof(uint32_t));
}

/* ---- statistics: a partial result for each chunk, joined in their order ---- */

struct moments {
    double count, sum, squares; /* squares: sum of (x - mean)^2 */
    double min, max;
    double rounding; /* the most that one of them changes if it becomes a float */
};

struct learning {
    struct table *table;
    struct moments *part;  /* (chunks, inputs) */
    struct moments *whole; /* (inputs) */
    atomic_ullong next;
    enum { PASS_SUMS, PASS_SQUARES, PASS_QUANTILES, PASS_ROUNDING, PASS_SCALE } pass;
    struct quantiles *quantiles; /* (inputs) n > 0: to be learned */
    atomic_bool *moves; /* (inputs) a number is in another bucket if it is rounded to float32 */

    atomic_bool failed; /* the setter also sets err and e */
    enum err err;
    struct errmsg e;
};
enum { LOOK_CELLS = 1 << 18 }; /* cells of a chunk in the file that a thread reads at a time */

static void add_sums(struct moments *m, const struct table_schema *s, const uint32_t *cells)
{
    for (uint32_t i = 0; i < s->inputs; i++) {
        double v = s->input[i].kind == COLUMN_NUMBER ? table_number(s, cells, i) : NAN;
        if (isnan(v))
            continue;
        double off = fabs((double)(float)v - v);
        m[i].rounding = off > m[i].rounding ? off : m[i].rounding;
        m[i].min = m[i].count == 0 || v < m[i].min ? v : m[i].min;
        m[i].max = m[i].count == 0 || v > m[i].max ? v : m[i].max;
        m[i].count++;
        m[i].sum += v;
    }
}

static void add_squares(struct moments *m, const struct moments *whole,
                        const struct table_schema *s, const uint32_t *cells)
{
    for (uint32_t i = 0; i < s->inputs; i++) {
        double v = s->input[i].kind == COLUMN_NUMBER ? table_number(s, cells, i) : NAN;
        if (isnan(v))
            continue;
        double off = v - whole[i].sum / whole[i].count;
        m[i].squares += off * off;
    }
}

static void count_quantiles(struct quantiles *q, const struct table_schema *s,
                            const uint32_t *cells)
{
    for (uint32_t i = 0; i < s->inputs; i++)
        if (q[i].n > 0 && !isnan(table_number(s, cells, i)))
            quantiles_count(&q[i], table_number(s, cells, i));
}

static void find_moves(atomic_bool *moves, const struct table_schema *s, const uint32_t *cells)
{
    for (uint32_t i = 0; i < s->inputs; i++) {
        const struct table_input *in = &s->input[i];
        double v = in->bucketing == BUCKETS_NONE ? NAN : table_number(s, cells, i);
        if (!isnan(v) && buckets_round_moves(&in->buckets, v))
            atomic_store_explicit(&moves[i], true, memory_order_relaxed);
    }
}

static float scaled(const struct table_input *in, double v)
{
    double x = isnan(v) ? in->fill : v;
    if (in->scale == SCALE_LOG1P)
        return (float)log1p(x > 0 ? x : 0);
    if (in->scale == SCALE_LOG2)
        return (float)log2(x > 1 ? x : 1);
    return (float)((x - in->shift) / in->divisor);
}

static uint32_t bucket(const struct table_input *in, double v)
{
    if (isnan(v) && in->missing != MISSING_VALUE)
        return 0;
    return buckets_find(&in->buckets, isnan(v) ? in->missing_value : v) + 1;
}

void table_scale_row(const struct table_schema *s, uint32_t *cells)
{
    for (uint32_t i = 0; i < s->inputs; i++) {
        const struct table_input *in = &s->input[i];
        if (in->kind != COLUMN_NUMBER)
            continue;
        double v = table_number(s, cells, i);
        cells[i] = in->bucketing == BUCKETS_NONE ? table_bits(scaled(in, v)) : bucket(in, v);
    }
}

static bool is_bad(const struct table_schema *s, const uint32_t *cells)
{
    return isnan(table_float(cells[s->inputs]));
}

static void learn_rows(const struct learning *l, struct moments *part, const uint32_t *cells,
                       uint64_t n)
{
    const struct table_schema *s = l->table->schema;
    for (; n > 0; n--, cells += table_raw_cells(s)) {
        if (is_bad(s, cells))
            continue;
        if (l->pass == PASS_SUMS)
            add_sums(part, s, cells);
        else if (l->pass == PASS_SQUARES)
            add_squares(part, l->whole, s, cells);
        else if (l->pass == PASS_QUANTILES)
            count_quantiles(l->quantiles, s, cells);
        else
            find_moves(l->moves, s, cells);
    }
}

/* Scale rows, and move them together, as they lose the second cells of numbers. */
static void scale_rows(const struct table_schema *s, uint32_t *cells, uint64_t n)
{
    for (uint32_t *to = cells; n > 0; n--, cells += table_raw_cells(s), to += table_row_cells(s)) {
        if (!is_bad(s, cells))
            table_scale_row(s, cells);
        if (to != cells)
            memmove(to, cells, table_row_cells(s) * sizeof *to);
    }
}

/* Rows of one chunk, at `cells`. */
static void work_on_rows(const struct learning *l, struct moments *part, uint32_t *cells,
                         uint64_t n)
{
    if (l->pass == PASS_SCALE)
        scale_rows(l->table->schema, cells, n);
    else
        learn_rows(l, part, cells, n);
}

/* A chunk in the file is read into the buffer, and written back only if it was changed. */
static enum err learn_chunk(const struct learning *l, uint64_t chunk, uint32_t *buffer,
                            struct errmsg *e)
{
    struct table *t = l->table;
    uint64_t row = chunk * t->chunk_rows, end = row + rows_in(t, chunk);
    struct moments *part =
        l->part ? l->part + chunk * t->schema->inputs : NULL; /* NULL in PASS_SCALE */
    uint32_t *there = t->chunk[chunk].cells;
    if (there) {
        work_on_rows(l, part, there, end - row);
        return ERR_OK;
    }
    enum err err = ERR_OK;
    for (uint64_t n; row < end && !err; row += n) {
        const uint32_t *cells;
        n = end - row;
        err = table_look(t, row, &n, buffer, LOOK_CELLS, &cells, e);
        if (err)
            return err;
        work_on_rows(l, part, buffer, n);
        if (l->pass == PASS_SCALE) /* shorter rows: none is written over one to be read */
            err = put_in_file(t, row, n, buffer, table_row_cells(t->schema), e);
    }
    return err;
}

static void learn_chunks(void *ctx, uint32_t thread)
{
    struct learning *l = ctx;
    struct errmsg e = {""};
    uint64_t chunk;
    (void)thread;
    bool spilled = table_spilled_bytes(l->table) > 0;
    uint32_t *buffer = spilled ? mem_resize(NULL, LOOK_CELLS, sizeof *buffer) : NULL;
    enum err err = spilled && !buffer ? err_set(&e, ERR_NOMEM, "out of memory") : ERR_OK;
    while (!err && (chunk = atomic_fetch_add(&l->next, 1)) < l->table->chunks)
        err = learn_chunk(l, chunk, buffer, &e);
    if (err)
        atomic_store(&l->next, l->table->chunks);
    if (err && !atomic_exchange(&l->failed, true)) {
        l->err = err;
        l->e = e;
    }
    mem_free(buffer);
}

static enum err run_pass(struct learning *l, struct pool *pool, int pass, struct errmsg *e)
{
    l->pass = (unsigned)pass; /* only reached if no earlier pass failed */
    atomic_store(&l->next, 0);
    pool_run(pool, learn_chunks, l);
    return l->err ? err_set(e, l->err, "%s", l->e.text) : ERR_OK;
}

static void join_parts(struct learning *l)
{
    uint32_t inputs = l->table->schema->inputs;
    memset(l->whole, 0, inputs * sizeof *l->whole);
    for (uint64_t c = 0; c < l->table->chunks; c++)
        for (uint32_t i = 0; i < inputs; i++) {
            struct moments *whole = &l->whole[i];
            const struct moments *part = &l->part[c * inputs + i];
            if (part->count == 0)
                continue;
            whole->min = whole->count == 0 || part->min < whole->min ? part->min : whole->min;
            whole->max = whole->count == 0 || part->max > whole->max ? part->max : whole->max;
            whole->rounding = part->rounding > whole->rounding ? part->rounding : whole->rounding;
            whole->count += part->count;
            whole->sum += part->sum;
            whole->squares += part->squares;
        }
}

/* Whether a program that reads the column as floats would get features that differ by more than a few units in their last
 * place. Logarithms differ less. For buckets, see learn_moves. */
static bool needs_double(const struct table_input *in, double rounding)
{
    const double enough = 0x1p-20;
    return (in->scale == SCALE_STANDARD || in->scale == SCALE_MIN_MAX) &&
           rounding > enough * in->divisor;
}

/* A column with only one value is shifted to 0 and not divided. */
static void learn_input(struct table_input *in, const struct moments *m)
{
    double mean = m->count > 0 ? m->sum / m->count : 0;
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

bool table_input_is_id(const struct table_input *in)
{
    return in->kind == COLUMN_CATEGORY || in->bucketing != BUCKETS_NONE;
}

bool table_input_grows(const struct table_input *in)
{
    return in->learns || in->bucketing == BUCKETS_LOG_SQUARED || in->bucketing == BUCKETS_QUANTILES;
}

enum err table_schema_number(struct table_schema *s, struct errmsg *e)
{
    enum { FEATURES_MAX = 1 << 24 };
    uint64_t at = 0;
    for (uint32_t i = 0; i < s->inputs; i++) {
        struct table_input *in = &s->input[i];
        int one_hot = table_input_is_id(in) && in->encode == ENCODE_ONE_HOT;
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

/* The borders of one input, from its last round. */
static enum err take_quantiles(struct table_input *in, const struct quantiles *q)
{
    double value[JOB_QUANTILES_MAX];
    quantiles_values(q, value);
    return buckets_learn_borders(&in->buckets, value, q->n);
}

static enum err begin_quantiles(struct learning *l)
{
    const struct table_schema *s = l->table->schema;
    enum err err = ERR_OK;
    for (uint32_t i = 0; i < s->inputs && !err; i++)
        if (s->input[i].bucketing == BUCKETS_QUANTILES && l->whole[i].count > 0)
            err = quantiles_init(&l->quantiles[i], s->input[i].quantiles - 1,
                                 (uint64_t)l->whole[i].count);
    return err;
}

static enum err end_round(struct learning *l, bool last)
{
    const struct table_schema *s = l->table->schema;
    enum err err = ERR_OK;
    for (uint32_t i = 0; i < s->inputs && !err; i++) {
        if (l->quantiles[i].n == 0)
            continue;
        err = quantiles_end_round(&l->quantiles[i]);
        if (!err && last)
            err = take_quantiles(&s->input[i], &l->quantiles[i]);
    }
    return err;
}

static bool wants_quantiles(const struct table_schema *s)
{
    for (uint32_t i = 0; i < s->inputs; i++)
        if (s->input[i].bucketing == BUCKETS_QUANTILES)
            return true;
    return false;
}

static enum err learn_quantiles(struct learning *l, struct pool *pool, struct errmsg *e)
{
    uint32_t inputs = l->table->schema->inputs;
    if (!wants_quantiles(l->table->schema))
        return ERR_OK;
    l->quantiles = mem_zalloc(inputs, sizeof *l->quantiles);
    enum err err = l->quantiles ? begin_quantiles(l) : ERR_NOMEM;
    for (int round = 0; round < QUANTILES_ROUNDS && !err; round++) {
        err = run_pass(l, pool, PASS_QUANTILES, e);
        if (!err)
            err = end_round(l, round + 1 == QUANTILES_ROUNDS);
    }
    for (uint32_t i = 0; i < inputs && l->quantiles; i++)
        quantiles_close(&l->quantiles[i]);
    mem_free(l->quantiles);
    return err == ERR_NOMEM ? err_set(e, err, "out of memory for quantiles") : err;
}

bool table_fill_moves(const struct table_input *in)
{
    return in->bucketing != BUCKETS_NONE && in->missing == MISSING_VALUE &&
           buckets_round_moves(&in->buckets, in->missing_value);
}

/* Whether floats are enough for numbers in buckets, if not all numbers and borders are floats. */
static enum err learn_moves(struct learning *l, struct pool *pool, struct errmsg *e)
{
    struct table_schema *s = l->table->schema;
    bool any = false;
    for (uint32_t i = 0; i < s->inputs; i++) {
        any |= s->input[i].bucketing != BUCKETS_NONE &&
               (l->whole[i].rounding > 0 || !buckets_are_floats(&s->input[i].buckets));
        s->input[i].needs_double |= table_fill_moves(&s->input[i]);
    }
    if (!any)
        return ERR_OK;
    l->moves = mem_zalloc(s->inputs, sizeof *l->moves);
    enum err err =
        l->moves ? run_pass(l, pool, PASS_ROUNDING, e) : err_set(e, ERR_NOMEM, "out of memory");
    for (uint32_t i = 0; i < s->inputs && !err; i++)
        s->input[i].needs_double |= atomic_load(&l->moves[i]);
    mem_free(l->moves);
    return err;
}

enum err table_learn(struct table *t, struct pool *pool, struct errmsg *e)
{
    uint32_t inputs = t->schema->inputs;
    struct learning l = {.table = t,
                         .part = mem_zalloc((size_t)t->chunks * inputs, sizeof *l.part),
                         .whole = mem_zalloc(inputs, sizeof *l.whole)};
    enum err err = l.part && l.whole ? ERR_OK : err_set(e, ERR_NOMEM, "out of memory");
    for (int pass = PASS_SUMS; pass <= PASS_SQUARES && !err; pass++) {
        err = run_pass(&l, pool, pass, e);
        if (!err)
            join_parts(&l);
    }
    for (uint32_t i = 0; i < inputs && !err; i++)
        if (t->schema->input[i].kind == COLUMN_NUMBER)
            learn_input(&t->schema->input[i], &l.whole[i]);
    if (!err)
        err = learn_quantiles(&l, pool, e);
    if (!err)
        err = learn_moves(&l, pool, e);
    mem_free(l.part);
    mem_free(l.whole);
    return err ? err : table_schema_number(t->schema, e);
}

/* Give back the memory of the second cells. */
static enum err shrink(struct table *t, struct errmsg *e)
{
    const size_t before = chunk_bytes(t);
    enum err err = ERR_OK;
    t->scaled = true;
    const size_t after = chunk_bytes(t);
    for (uint64_t i = 0; i < t->chunks && after < before; i++) {
        struct table_chunk *c = &t->chunk[i];
        if (!c->cells)
            continue;
        uint32_t *cells = mem_resize(c->cells, after, 1);
        spill_give_memory(t->spill, before - after);
        c->cells = cells ? cells : c->cells;
        err = cells ? err : ERR_NOMEM;
    }
    return err ? err_set(e, err, "out of memory") : ERR_OK;
}

enum err table_scale(struct table *t, struct pool *pool, struct errmsg *e)
{
    struct learning l = {.table = t};
    enum err err = run_pass(&l, pool, PASS_SCALE, e);
    return err ? err : shrink(t, e);
}

/* ---- a row for a batch ---- */

void table_row_keys(const struct table_key *k, const uint32_t *cells, uint64_t *key, float *weight)
{
    bool several = k->kind == COLUMN_KEYS;
    uint32_t width = table_key_width(k), each = TABLE_KEY_CELLS + k->options.weights;
    bool one = k->cells == TABLE_KEY_CELLS || cells[TABLE_KEY_CELLS];
    uint32_t n = several ? cells[0] : one;
    for (uint32_t i = 0; i < width; i++) {
        const uint32_t *at = several ? cells + 1 + (size_t)i * each : cells;
        float w = several && k->options.weights ? table_float(at[TABLE_KEY_CELLS]) : 1;
        key[i] = i < n ? key_unmix(at[0] | (uint64_t)at[1] << 32) : 0;
        if (weight)
            weight[i] = i < n ? w : 0;
    }
}

void table_features(const struct table_schema *s, const uint32_t *cells, float *x)
{
    if (s->features) /* rows with keys only have none, and no memory for them */
        memset(x, 0, s->features * sizeof *x);
    for (uint32_t i = 0; i < s->inputs; i++) {
        const struct table_input *in = &s->input[i];
        if (!table_input_is_id(in))
            x[in->feature] = table_float(cells[i]);
        else if (in->encode == ENCODE_ID)
            x[in->feature] = (float)cells[i];
        else if (cells[i])
            x[in->feature + cells[i] - 1] = 1;
    }
}
