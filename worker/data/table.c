#include "worker/data/table.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "common/mem.h"

/* ---- the schema ---- */

/* The words that the job gives, and one more for a missing value. */
static enum err given_words(struct table_input *in, const char *words, const char *missing)
{
    enum err err = ERR_OK;
    uint32_t number;
    for (const char *p = words; p && !err; p = *p ? p + 1 : NULL) {
        size_t n = strcspn(p, "\n");
        err = vocabulary_add(&in->words, p, n, &number);
        p += n;
    }
    return err ? err : vocabulary_add(&in->words, missing, strcspn(missing, "\n"), &number);
}

static enum err input_init(struct table_input *in, const struct job_column *column,
                           const char *missing)
{
    in->kind = column->kind;
    in->scale = column->scale;
    in->missing = column->missing;
    in->missing_value = column->missing_value;
    in->encode = column->encode;
    in->divisor = 1;
    memcpy(in->name, column->name, sizeof in->name);
    if (in->kind != COLUMN_CATEGORY)
        return ERR_OK;
    in->learns = !column->words;
    return in->learns ? ERR_OK : given_words(in, column->words, missing);
}

enum err table_schema_new(struct table_schema **out, const struct job_csv *csv, struct errmsg *e)
{
    struct table_schema *s = mem_zalloc(1, sizeof *s);
    enum err err = s ? ERR_OK : ERR_NOMEM;
    if (s) {
        s->refs = 1;
        s->input = mem_zalloc(csv->columns, sizeof *s->input);
        err = s->input ? ERR_OK : ERR_NOMEM;
    }
    for (uint32_t i = 0; i < csv->columns && !err; i++) {
        enum column_kind kind = csv->column[i].kind;
        if (kind == COLUMN_NUMBER || kind == COLUMN_CATEGORY)
            err = input_init(&s->input[s->inputs++], &csv->column[i], csv->missing);
    }
    if (err) {
        table_schema_unref(s);
        return err_set(e, ERR_NOMEM, "out of memory for the columns");
    }
    *out = s;
    return ERR_OK;
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
    for (uint32_t i = 0; i < s->inputs; i++)
        vocabulary_close(&s->input[i].words);
    mem_free(s->input);
    mem_free(s);
}

/* ---- rows ---- */

enum err table_extend(struct table *t, uint64_t rows, struct errmsg *e)
{
    uint64_t wanted = (t->rows + rows + TABLE_CHUNK_ROWS - 1) / TABLE_CHUNK_ROWS;
    uint32_t **grown = wanted > t->chunks ? mem_resize(t->chunk, wanted, sizeof *grown) : t->chunk;
    if (wanted && !grown)
        return err_set(e, ERR_NOMEM, "out of memory for %llu rows",
                       (unsigned long long)(t->rows + rows));
    t->chunk = grown;
    for (; t->chunks < wanted; t->chunks++) {
        t->chunk[t->chunks] =
            mem_zalloc(((size_t)t->schema->inputs + 1) * TABLE_CHUNK_ROWS, sizeof **t->chunk);
        if (!t->chunk[t->chunks])
            return err_set(e, ERR_NOMEM, "out of memory for %llu rows",
                           (unsigned long long)(t->rows + rows));
    }
    t->rows += rows;
    return ERR_OK;
}

void table_close(struct table *t)
{
    for (uint64_t i = 0; i < t->chunks; i++)
        mem_free(t->chunk[i]);
    mem_free(t->chunk);
    table_schema_unref(t->schema);
    *t = (struct table){0};
}

static uint64_t chunk_rows(const struct table *t, uint64_t chunk)
{
    uint64_t first = chunk * TABLE_CHUNK_ROWS;
    return t->rows - first < TABLE_CHUNK_ROWS ? t->rows - first : TABLE_CHUNK_ROWS;
}

/* ---- statistics: a partial result for each chunk, put together in their order ---- */

struct moments {
    double count, sum, squares; /* squares: of x - mean */
    float min, max;
};

struct learning {
    struct table *table;
    struct moments *part;  /* (chunks, inputs) */
    struct moments *whole; /* (inputs) */
    atomic_ullong next;
    int pass; /* 0: sums; 1: squares; 2: scale the cells */
};

static int row_counts(const uint32_t *cells, uint32_t inputs)
{
    return !isnan(table_float(cells[inputs]));
}

static void add_sums(struct moments *m, const struct table_schema *s, const uint32_t *cells)
{
    for (uint32_t i = 0; i < s->inputs; i++) {
        float v = table_float(cells[i]);
        if (s->input[i].kind != COLUMN_NUMBER || isnan(v))
            continue;
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
        float v = table_float(cells[i]);
        if (s->input[i].kind != COLUMN_NUMBER || isnan(v))
            continue;
        double off = v - whole[i].sum / whole[i].count;
        m[i].squares += off * off;
    }
}

static void scale_cells(const struct table_schema *s, uint32_t *cells)
{
    for (uint32_t i = 0; i < s->inputs; i++) {
        const struct table_input *in = &s->input[i];
        if (in->kind != COLUMN_NUMBER)
            continue;
        float v = table_float(cells[i]);
        double x = isnan(v) ? in->fill : (double)v;
        cells[i] = table_bits((float)((x - in->shift) / in->divisor));
    }
}

static void learn_chunk(struct learning *l, uint64_t chunk)
{
    struct table *t = l->table;
    uint32_t inputs = t->schema->inputs;
    uint32_t *cells = t->chunk[chunk];
    struct moments *part = l->part ? l->part + chunk * inputs : NULL; /* pass 2 has none */
    for (uint64_t n = chunk_rows(t, chunk); n > 0; n--, cells += inputs + 1) {
        if (!row_counts(cells, inputs))
            continue;
        if (l->pass == 0)
            add_sums(part, t->schema, cells);
        else if (l->pass == 1)
            add_squares(part, l->whole, t->schema, cells);
        else
            scale_cells(t->schema, cells);
    }
}

static void learn_chunks(void *ctx, uint32_t thread)
{
    struct learning *l = ctx;
    uint64_t chunk;
    (void)thread;
    while ((chunk = atomic_fetch_add(&l->next, 1)) < l->table->chunks)
        learn_chunk(l, chunk);
}

static void run_pass(struct learning *l, struct pool *pool, int pass)
{
    l->pass = pass;
    atomic_store(&l->next, 0);
    pool_run(pool, learn_chunks, l);
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
            whole->count += part->count;
            whole->sum += part->sum;
            whole->squares += part->squares;
        }
}

/* A column of one value alone is moved to 0 and not divided. */
static void learn_input(struct table_input *in, const struct moments *m)
{
    double mean = m->count > 0 ? m->sum / m->count : 0;
    double deviation = m->count > 0 ? sqrt(m->squares / m->count) : 0;
    double range = m->count > 0 ? (double)m->max - (double)m->min : 0;
    in->fill = in->missing == MISSING_VALUE ? (double)in->missing_value : mean;
    if (in->scale == SCALE_STANDARD) {
        in->shift = mean;
        in->divisor = deviation > 0 ? deviation : 1;
    } else if (in->scale == SCALE_MIN_MAX) {
        in->shift = m->count > 0 ? (double)m->min : 0;
        in->divisor = range > 0 ? range : 1;
    }
}

static enum err number_features(struct table_schema *s, struct errmsg *e)
{
    enum { FEATURES_MAX = 1 << 24 };
    uint64_t at = 0;
    for (uint32_t i = 0; i < s->inputs; i++) {
        struct table_input *in = &s->input[i];
        int one_hot = in->kind == COLUMN_CATEGORY && in->encode == ENCODE_ONE_HOT;
        in->feature = (uint32_t)at;
        in->width = one_hot ? in->words.count : 1;
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

enum err table_learn(struct table *t, struct pool *pool, struct errmsg *e)
{
    uint32_t inputs = t->schema->inputs;
    struct learning l = {.table = t,
                         .part = mem_zalloc((size_t)t->chunks * inputs, sizeof *l.part),
                         .whole = mem_zalloc(inputs, sizeof *l.whole)};
    enum err err = l.part && l.whole ? ERR_OK : err_set(e, ERR_NOMEM, "out of memory");
    for (int pass = 0; pass < 2 && !err; pass++) {
        run_pass(&l, pool, pass);
        join_parts(&l);
    }
    for (uint32_t i = 0; i < inputs && !err; i++)
        if (t->schema->input[i].kind == COLUMN_NUMBER)
            learn_input(&t->schema->input[i], &l.whole[i]);
    mem_free(l.part);
    mem_free(l.whole);
    return err ? err : number_features(t->schema, e);
}

void table_scale(struct table *t, struct pool *pool)
{
    struct learning l = {.table = t};
    run_pass(&l, pool, 2);
}

/* ---- a row for a batch ---- */

void table_gather(const struct table *t, uint64_t row, float *x)
{
    const struct table_schema *s = t->schema;
    const uint32_t *cells = table_row(t, row);
    memset(x, 0, s->features * sizeof *x);
    for (uint32_t i = 0; i < s->inputs; i++) {
        const struct table_input *in = &s->input[i];
        if (in->kind == COLUMN_NUMBER)
            x[in->feature] = table_float(cells[i]);
        else if (in->encode == ENCODE_ID)
            x[in->feature] = (float)cells[i];
        else if (cells[i])
            x[in->feature + cells[i] - 1] = 1;
    }
}
