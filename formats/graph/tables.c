/* Layers that look up a table: from keys to rows, and to the layer's output. Sums and weights are those of
 * model/lookup.c, first values of rows those of common/rows/row_layout.c. */
#include <stdio.h>

#include "common/base/rng.h"
#include "common/rows/key.h"
#include "common/rows/row_layout.h"
#include "formats/graph/build.h"
#include "predict/table_file.h"

/* ---- the value of a key without a row ---- */

static uint32_t integer(struct build *b, uint64_t bits)
{
    return build_i64(b, (int64_t)bits);
}

static uint32_t shifted(struct build *b, uint32_t x, uint64_t bits)
{
    return build_binary(b, GRAPH_SHIFT_RIGHT, x, integer(b, bits));
}

/* As key_mix. */
static uint32_t mix(struct build *b, uint32_t x)
{
    static const uint64_t factor[] = {UINT64_C(0xBF58476D1CE4E5B9), UINT64_C(0x94D049BB133111EB)};
    static const uint64_t bits[] = {30, 27, 31};
    for (int i = 0; i < 2; i++) {
        uint32_t folded = build_binary(b, GRAPH_XOR, x, shifted(b, x, bits[i]));
        x = build_binary(b, GRAPH_MUL, folded, integer(b, factor[i]));
    }
    return build_binary(b, GRAPH_XOR, x, shifted(b, x, bits[2]));
}

/* The step of rng_u64. */
static const uint64_t GAMMA = UINT64_C(0x9E3779B97F4A7C15);

/* rng_unit(key, i) for i from 0 to dim - 1: (..) i64 -> (.., dim) f32 */
static uint32_t units(struct build *b, uint32_t key, uint32_t dim)
{
    int64_t *step = build_own(b, dim, sizeof *step);
    for (uint32_t i = 0; step && i < dim; i++)
        step[i] = (int64_t)((i + 1) * GAMMA);
    uint32_t steps = build_constant(b, GRAPH_I64, 1, &dim, step);
    uint32_t bits = mix(b, build_binary(b, GRAPH_ADD, build_widen(b, key), steps));
    uint32_t whole = build_cast(b, GRAPH_F32, shifted(b, bits, 40));
    return build_binary(b, GRAPH_MUL, whole, build_f32(b, 0x1p-24f));
}

/* As row_first_value with a uniform initializer: keys (..) -> (.., dim) */
static uint32_t uniform(struct build *b, const struct row_table_spec *t, uint32_t keys)
{
    uint64_t stream = rng_u64(b->folder->job.training.seed, RNG_ROW);
    uint64_t base = rng_u64(stream, rng_name(t->name)) + GAMMA;
    uint32_t gamma = integer(b, GAMMA);
    uint32_t steps = build_binary(b, GRAPH_MUL, mix(b, keys), gamma);
    uint32_t key = mix(b, build_binary(b, GRAPH_ADD, steps, integer(b, base)));
    uint32_t u = units(b, key, t->dim);
    uint32_t twice = build_binary(b, GRAPH_MUL, u, build_f32(b, 2));
    uint32_t centered = build_binary(b, GRAPH_SUB, twice, build_f32(b, 1));
    uint32_t wide = build_binary(b, GRAPH_MUL, centered, build_f32(b, t->init_value));
    return build_binary(b, GRAPH_ADD, wide, build_f32(b, t->init_center));
}

/* Whether keys without a row all have the same value. */
static bool absent_is_constant(const struct row_table_spec *t)
{
    bool zeros = row_admission_on(&t->admission) && !t->admission.initial;
    return zeros || t->init == INIT_ZEROS || t->init == INIT_ONES || t->init == INIT_CONSTANT;
}

static uint32_t absent(struct build *b, const struct row_table_spec *t, uint32_t keys)
{
    float first[ROW_DIM_MAX];
    if (!absent_is_constant(t))
        return uniform(b, t, keys);
    row_absent_value(t, b->folder->job.training.seed, 0, first);
    return build_f32(b, first[0]);
}

/* ---- the rows of a table that is inside ---- */

struct table_rows {
    uint64_t rows;      /* at least 1 */
    const int64_t *key; /* (rows) the keys' bits, ascending as signed numbers; the graph's */
    const float *row;   /* (rows, dim); the graph's */
};

/* Write row i of the file at place `at`. */
static void put_row(const struct table_file *file, uint64_t i, int64_t *key, float *row,
                    uint64_t at, uint32_t dim)
{
    uint64_t bits;
    table_file_row(file, i, &bits, row + at * dim);
    key[at] = (int64_t)bits;
}

/* The file's keys ascend as numbers without a sign: those above INT64_MAX, which come last, are the lowest ones as signed
 * numbers. */
static void copy_rows(const struct table_file *file, int64_t *key, float *row, uint32_t dim)
{
    uint64_t rows = table_file_rows(file), high = rows, at = 0, bits;
    for (; high > 0; high--) {
        table_file_row(file, high - 1, &bits, row);
        if (bits <= INT64_MAX)
            break;
    }
    for (uint64_t i = high; i < rows; i++)
        put_row(file, i, key, row, at++, dim);
    for (uint64_t i = 0; i < high; i++)
        put_row(file, i, key, row, at++, dim);
}

/* Whether the keys and rows take at most tables_inside_bytes in the file. row: room for one row */
static bool is_inside(const struct build *b, const struct table_file *file, float *row,
                      uint32_t dim)
{
    const struct graph_options *o = b->options;
    uint64_t rows = table_file_rows(file), left = o->tables_inside_bytes, key;
    for (uint64_t i = 0; i < rows && i <= INT32_MAX; i++) {
        uint64_t bytes = dim * sizeof(float) + sizeof key;
        if (o->key_bytes) {
            table_file_row(file, i, &key, row);
            bytes += o->key_bytes(key, i) - sizeof key;
        }
        if (bytes > left)
            return false;
        left -= bytes;
    }
    return rows <= INT32_MAX;
}

/* Read the rows of this table of the model. False: it is too large to be inside, or an error occurred (b->err). A table without
 * rows gets one, of key 0, with the value that this key has. */
static bool table_rows_read(struct build *b, uint32_t table, struct table_rows *out)
{
    const struct table_file *file = b->folder->table[table];
    const struct row_table_spec *t = &model_layout(b->folder->model)->rows->table[table];
    uint64_t rows = table_file_rows(file);
    float one[ROW_DIM_MAX];
    if (!is_inside(b, file, one, t->dim))
        return false;
    int64_t *key = build_own(b, rows ? rows : 1, sizeof *key);
    float *row = build_own(b, (rows ? rows : 1) * t->dim, sizeof *row);
    if (!row)
        return false;
    if (rows)
        copy_rows(file, key, row, t->dim);
    else
        row_absent_value(t, b->folder->job.training.seed, key_mix(0), row);
    *out = (struct table_rows){.rows = rows ? rows : 1, .key = key, .row = row};
    return true;
}

/* ---- the numbers of rows ---- */

/* The rows that layers find in one table. The table's keys and rows are in the graph once: one node finds the keys of all
 * columns, side by side. */
struct table_found {
    bool read, inside;
    uint32_t row; /* the rows (rows, dim) */
    /* The number of each key's row, or -1: i64 (n, width), or (n) if the only column has this shape. */
    uint32_t index;
    /* (columns of the job): the column's first place in `index`, + 1; 0: no layer looks it up in this table. */
    uint32_t *begin;
};

void tables_begin(struct build *b)
{
    uint32_t tables = b->folder->job.model.tables;
    b->found = build_own(b, tables, sizeof *b->found);
    for (uint32_t i = 0; b->found && i < tables; i++)
        b->found[i].begin = build_own(b, b->folder->job.data.csv.columns, sizeof(uint32_t));
}

/* The keys of this column of the layer, if they are not in the list yet. */
static void gather_keys(struct build *b, struct table_found *f, uint32_t column, uint32_t *list,
                        uint32_t *columns, uint32_t *width)
{
    uint32_t weights, keys = f->begin[column] ? 0 : encode_keys(b, column, &weights);
    if (f->begin[column] || b->err)
        return;
    const struct graph_value v = build_look(b, keys);
    f->begin[column] = *width + 1;
    *width += v.rank == 1 ? 1 : v.dim[1];
    list[(*columns)++] = keys;
}

/* The keys of all columns that look up the table, side by side. */
static uint32_t all_keys(struct build *b, struct table_found *f, uint32_t table)
{
    const struct job *job = &b->folder->job;
    uint32_t columns = 0, width = 0, *list = build_own(b, job->data.csv.columns, sizeof *list);
    for (uint32_t i = 0; list && i < job->model.layers; i++) {
        const struct job_layer *l = &job->model.layer[i];
        for (uint32_t k = 0; k < l->lookups && l->table == table; k++)
            gather_keys(b, f, job->model.lookup[l->first_lookup + k].column, list, &columns,
                        &width);
    }
    if (b->err)
        return 0;
    for (uint32_t i = 0; columns > 1 && i < columns; i++)
        if (build_look(b, list[i]).rank == 1)
            list[i] = build_widen(b, list[i]);
    return build_concat(b, list, columns);
}

/* False: the table is too large to be inside, or an error occurred. */
static bool table_find(struct build *b, const struct row_table_spec *t, uint32_t table)
{
    struct table_found *f = &b->found[table];
    struct table_rows of;
    if (f->read)
        return f->inside;
    f->read = true;
    f->inside = table_rows_read(b, table, &of);
    if (!f->inside)
        return false;
    uint32_t keys = all_keys(b, f, table), count = (uint32_t)of.rows, shape[] = {count, t->dim};
    uint32_t known = build_constant(b, GRAPH_I64, 1, &count, of.key);
    f->row = build_constant(b, GRAPH_F32, 2, shape, of.row);
    f->index = build_find(b, GRAPH_FIND_KEY, keys, known, GRAPH_NONE);
    return true;
}

/* The numbers of the rows of this column's keys, in their shape. */
static uint32_t index_of(struct build *b, const struct table_found *f, uint32_t column,
                         uint32_t keys)
{
    const struct graph_value like = build_look(b, keys);
    if (build_look(b, f->index).rank == 1)
        return f->index;
    uint32_t width = like.rank == 1 ? 1 : like.dim[1];
    uint32_t part = build_slice(b, f->index, f->begin[column] - 1, width);
    return build_reshape(b, part, like.rank - 1, like.dim + 1);
}

/* ---- rows ---- */

/* keys (..) of the column -> rows (.., dim) */
static uint32_t rows(struct build *b, const struct row_table_spec *t, const struct table_found *f,
                     uint32_t column, uint32_t keys)
{
    uint32_t index = index_of(b, f, column, keys), zero = build_i64(b, 0);
    uint32_t found = build_binary(b, GRAPH_GREATER_OR_EQUAL, index, zero);
    uint32_t there = build_gather(b, f->row, build_binary(b, GRAPH_MAXIMUM, index, zero));
    uint32_t other = absent(b, t, keys);
    return build_select(b, build_widen(b, found), there, other);
}

/* ---- bags ---- */

/* weights (n, places) -> the factor of each row */
static uint32_t shares(struct build *b, enum bag_mode mode, uint32_t weights)
{
    if (mode == BAG_SUM)
        return weights;
    uint32_t positive = build_unary(b, GRAPH_RELU, weights);
    uint32_t x = build_cast(b, GRAPH_F64, positive);
    if (mode == BAG_SQRTN)
        x = build_binary(b, GRAPH_MUL, x, x);
    uint32_t norm = build_reduce(b, GRAPH_REDUCE_SUM, x, 1, 2, true);
    if (mode == BAG_SQRTN)
        norm = build_unary(b, GRAPH_SQRT, norm);
    norm = build_cast(b, GRAPH_F32, norm);
    uint32_t empty = build_binary(b, GRAPH_EQUAL, norm, build_f32(b, 0));
    return build_binary(b, GRAPH_DIV, positive, build_select(b, empty, build_f32(b, 1), norm));
}

/* The vector (n, dim) of one column. */
static uint32_t bag(struct build *b, const struct row_table_spec *t, const struct table_found *f,
                    enum bag_mode mode, uint32_t column)
{
    uint32_t weights, keys = encode_keys(b, column, &weights);
    uint32_t vectors = rows(b, t, f, column, keys);
    if (weights == GRAPH_NONE)
        return vectors;
    if (build_look(b, keys).rank == 1) {
        vectors = build_reshape(b, vectors, 2, (uint32_t[]){1, t->dim});
        weights = build_widen(b, weights);
    }
    uint32_t share = build_widen(b, shares(b, mode, weights));
    uint32_t weighed = build_binary(b, GRAPH_MUL, vectors, share);
    return build_reduce(b, GRAPH_REDUCE_SUM, weighed, 1, 2, false);
}

/* ---- layers ---- */

static uint32_t inside(struct build *b, const struct job_layer *l, const struct row_table_spec *t,
                       const struct table_found *f)
{
    enum bag_mode mode = l->kind == LAYER_EMBEDDING_BAG ? l->embedding_bag.mode : BAG_SUM;
    uint32_t *vector = build_own(b, l->lookups, sizeof *vector);
    for (uint32_t i = 0; vector && i < l->lookups; i++)
        vector[i] = bag(b, t, f, mode, b->folder->job.model.lookup[l->first_lookup + i].column);
    if (b->err)
        return 0;
    uint32_t y = l->kind == LAYER_LINEAR ? vector[0] : build_concat(b, vector, l->lookups);
    for (uint32_t i = 1; l->kind == LAYER_LINEAR && i < l->lookups; i++)
        y = build_binary(b, GRAPH_ADD, y, vector[i]);
    return l->use_bias ? build_binary(b, GRAPH_ADD, y, build_tensor(b, l->name, "bias")) : y;
}

/* The layer's output is an input of the graph. */
static uint32_t beside(struct build *b, uint32_t layer, uint32_t dim, const char *why)
{
    const struct job_layer *l = &b->folder->job.model.layer[layer];
    const struct graph_input of = {.source = GRAPH_VECTORS, .layer = layer, .why = why};
    uint32_t width = l->kind == LAYER_LINEAR ? dim : l->lookups * dim;
    return build_input(b, &of, GRAPH_F32, 1, &width, l->name);
}

uint32_t table_layer_build(struct build *b, uint32_t layer)
{
    const struct job_layer *l = &b->folder->job.model.layer[layer];
    const struct row_table_spec *t = &model_layout(b->folder->model)->rows->table[l->table];
    if (!absent_is_constant(t) && t->init != INIT_RANDOM_UNIFORM)
        return beside(b, layer, t->dim,
                      "a graph cannot compute the first value of a row with its initializer, which "
                      "keys without a row have");
    if (!table_find(b, t, l->table))
        return beside(b, layer, t->dim, "its table is larger than --tables_mb");
    return inside(b, l, t, &b->found[l->table]);
}
