#include "data/table.h"

#include <assert.h>
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "common/base/texts.h"
#include "common/base/crc32c.h"
#include "common/process/loading.h"
#include "common/base/mem.h"
#include "data/csv_key.h"

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
                            .seed = csv_key_seed(column->key.space)};
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
        s->each[s->several++] = TABLE_KEY_CELLS + k->options.weights;
    }
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
    mem_free(s->each);
    mem_free(s->lookup);
    mem_free(s);
}

/* ---- rows ---- */

size_t table_pack(const struct table_schema *s, uint32_t *cells)
{
    uint32_t *to = cells + table_keys_at(s) + s->several_at;
    if (!s->several)
        return table_raw_cells(s);
    for (uint32_t i = 0; i < s->keys; i++) {
        const struct table_key *k = &s->key[i];
        if (k->kind != COLUMN_KEYS)
            continue;
        const uint32_t *from = cells + table_keys_at(s) + k->cell;
        size_t n = 1 + (size_t)from[0] * s->each[k->nth];
        assert(n <= k->cells);
        if (to != from)
            memmove(to, from, n * sizeof *to);
        to += n;
    }
    if (s->wide)
        memmove(to, cells + table_row_cells(s), s->wide * sizeof *to);
    return (size_t)(to - cells) + s->wide;
}

/* The order of sums depends on the number of rows in a chunk, so this does not depend on their keys. */
enum { CHUNK_CELLS_MOST = 1 << 20 };

/* The most cells of a row. */
static size_t row_cells(const struct table *t)
{
    return t->scaled ? table_row_cells(t->schema) : table_raw_cells(t->schema);
}

/* The most cells of a chunk. */
static size_t chunk_cells(const struct table *t)
{
    return row_cells(t) * t->chunk_rows;
}

void table_begin(struct table *t)
{
    t->chunk_rows = TABLE_CHUNK_ROWS;
    while (t->chunk_rows > 1 && chunk_cells(t) > CHUNK_CELLS_MOST)
        t->chunk_rows /= 2;
    assert(t->chunk_rows == 1 || chunk_cells(t) <= CHUNK_CELLS_MOST);
    assert(t->chunk_rows == TABLE_CHUNK_ROWS || 2 * chunk_cells(t) > CHUNK_CELLS_MOST);
}

static enum err no_memory(const struct table *t, struct errmsg *e)
{
    return err_set(e, ERR_NOMEM, "out of memory for %llu rows", (unsigned long long)t->rows + 1);
}

/* Where row i of a chunk begins, in cells. The row before it ends there. */
static size_t begin_of(const struct table *t, const struct table_chunk *c, uint64_t i)
{
    return c->begin ? c->begin[i] : (size_t)i * row_cells(t);
}

/* The cells of n rows of a chunk, from row i on. */
static size_t cells_of(const struct table *t, const struct table_chunk *c, uint64_t i, uint64_t n)
{
    return begin_of(t, c, i + n) - begin_of(t, c, i);
}

/* The same in the file, where a checksum follows each row. */
static size_t file_cells(const struct table *t, const struct table_chunk *c, uint64_t i, uint64_t n)
{
    return cells_of(t, c, i, n) + (size_t)n;
}

/* Offset of a row in the file, once each row of its chunk has `fewer` cells. */
static uint64_t place_of(const struct table *t, uint64_t row, size_t fewer)
{
    const struct table_chunk *c = &t->chunk[row / t->chunk_rows];
    const uint64_t i = row % t->chunk_rows;
    return c->at + (file_cells(t, c, 0, i) - i * fewer) * sizeof(uint32_t);
}

/* Of the row's number, too: the bytes of another row are damage, and so is a place that was never written. */
static uint32_t row_checksum(uint64_t row, const uint32_t *cells, size_t n)
{
    return crc32c(crc32c(0, &row, sizeof row), cells, n * sizeof *cells);
}

/* ---- rows in the file ---- */

/* Put rows of one chunk, which have `fewer` cells than before. */
static enum err put_in_file(struct table *t, uint64_t row, uint64_t n, const uint32_t *cells,
                            size_t fewer, struct errmsg *e)
{
    const struct table_chunk *c = &t->chunk[row / t->chunk_rows];
    uint32_t block[TABLE_ROW_CELLS_MAX];
    enum err err = ERR_OK;
    while (n > 0 && !err) {
        const uint64_t first = row;
        size_t used = 0;
        for (; n > 0; n--, row++) {
            size_t own = cells_of(t, c, row % t->chunk_rows, 1) - fewer;
            if (used + own + 1 > TABLE_ROW_CELLS_MAX)
                break;
            memcpy(block + used, cells, own * sizeof *cells);
            block[used + own] = row_checksum(row, cells, own);
            cells += own;
            used += own + 1;
        }
        err = spill_write(t->spill, place_of(t, first, fewer), block, used * sizeof *block, e);
    }
    return err;
}

/* Read rows of one chunk to `to`, which has room for their checksums, too; then they close up. */
static enum err look_in_file(const struct table *t, uint64_t row, uint64_t n, uint32_t *to,
                             struct errmsg *e)
{
    const struct table_chunk *c = &t->chunk[row / t->chunk_rows];
    const uint64_t first = row % t->chunk_rows;
    const uint32_t *from = to;
    enum err err =
        spill_read(t->spill, place_of(t, row, 0), to, file_cells(t, c, first, n) * sizeof *to, e);
    for (uint64_t i = 0; i < n && !err; i++) {
        const size_t own = cells_of(t, c, first + i, 1);
        if (from[own] != row_checksum(row + i, from, own))
            return spill_changed(t->spill, e);
        if (i > 0)
            memmove(to, from, own * sizeof *to);
        to += own;
        from += own + 1;
    }
    return err;
}

/* Add rows to a chunk whose earlier rows, if any, are the last ones in the file. */
static enum err add_to_file(struct table *t, uint64_t row, uint64_t n, const uint32_t *cells,
                            struct errmsg *e)
{
    struct table_chunk *c = &t->chunk[row / t->chunk_rows];
    const uint64_t i = row % t->chunk_rows;
    uint64_t at;
    enum err err = spill_reserve(t->spill, file_cells(t, c, i, n) * sizeof *cells, &at, e);
    if (err)
        return err;
    c->at = i ? c->at : at;
    assert(at == place_of(t, row, 0));
    return put_in_file(t, row, n, cells, 0, e);
}

/* ---- rows in memory ---- */

/* Bytes of memory that a chunk with room for so many cells takes. */
static uint64_t bytes_for(const struct table *t, const struct table_chunk *c, size_t cells)
{
    return (cells + (c->begin ? t->chunk_rows + 1 : 0)) * sizeof *c->cells;
}

static void free_cells(struct table *t, struct table_chunk *c)
{
    if (c->cells)
        spill_give_memory(t->spill, bytes_for(t, c, c->room));
    mem_free(c->cells);
    c->cells = NULL;
}

/* Make room for so many cells of the chunk; *there becomes false if the budget does not allow it. Rows that all have the
 * same number of cells get the room of a whole chunk. */
static enum err make_room(struct table *t, struct table_chunk *c, size_t cells, bool *there,
                          struct errmsg *e)
{
    size_t most = chunk_cells(t), twice = 2 * c->room < most ? 2 * c->room : most;
    size_t room = !c->begin ? most : cells > twice ? cells : twice;
    *there = true;
    if (cells <= c->room)
        return ERR_OK;
    uint64_t more = bytes_for(t, c, room) - (c->cells ? bytes_for(t, c, c->room) : 0);
    *there = spill_take_memory(t->spill, more);
    if (!*there)
        return ERR_OK;
    uint32_t *grown = mem_resize(c->cells, room, sizeof *grown);
    if (!grown) {
        spill_give_memory(t->spill, more);
        return no_memory(t, e);
    }
    c->cells = grown;
    c->room = room;
    return ERR_OK;
}

/* Give back the memory behind the chunk's rows. */
static enum err fit(struct table *t, struct table_chunk *c, uint64_t rows, struct errmsg *e)
{
    const size_t cells = begin_of(t, c, rows);
    if (!c->cells || c->room == cells)
        return ERR_OK;
    uint32_t *fitted = mem_resize(c->cells, cells, sizeof *fitted);
    if (!fitted)
        return no_memory(t, e);
    spill_give_memory(t->spill, (c->room - cells) * sizeof *fitted);
    c->cells = fitted;
    c->room = cells;
    return ERR_OK;
}

/* ---- a table ---- */

static enum err add_chunk(struct table *t, struct errmsg *e)
{
    struct table_chunk *grown = mem_resize(t->chunk, t->chunks + 1, sizeof *grown),
                       c = {.cells = NULL};
    if (!grown)
        return no_memory(t, e);
    t->chunk = grown;
    if (t->chunks > 0) {
        enum err err = fit(t, &t->chunk[t->chunks - 1], t->chunk_rows, e);
        if (err)
            return err;
    }
    if (t->schema->several && !(c.begin = mem_zalloc((size_t)t->chunk_rows + 1, sizeof *c.begin)))
        return no_memory(t, e);
    t->chunk[t->chunks++] = c;
    return ERR_OK;
}

static void note_begins(const struct table *t, struct table_chunk *c, uint64_t i, uint64_t n,
                        const uint32_t *cells)
{
    for (; c->begin && n > 0; n--, i++) {
        size_t own = table_packed_raw_cells(t->schema, cells);
        c->begin[i + 1] = c->begin[i] + (uint32_t)own;
        cells += own;
    }
}

/* Put rows of one chunk in memory while the budget allows it. If not, all rows of the chunk are in the file. *used: their
 * number of cells. */
static enum err put_rows(struct table *t, uint64_t row, uint64_t n, const uint32_t *cells,
                         size_t *used, struct errmsg *e)
{
    struct table_chunk *c = &t->chunk[row / t->chunk_rows];
    const uint64_t i = row % t->chunk_rows;
    bool there = i == 0 || c->cells;
    note_begins(t, c, i, n, cells);
    *used = cells_of(t, c, i, n);
    enum err err = there ? make_room(t, c, begin_of(t, c, i + n), &there, e) : ERR_OK;
    if (!err && there) {
        memcpy(c->cells + begin_of(t, c, i), cells, *used * sizeof *cells);
        return ERR_OK;
    }
    if (!err && c->cells) {
        err = add_to_file(t, row - i, i, c->cells, e);
        free_cells(t, c);
    }
    return err ? err : add_to_file(t, row, n, cells, e);
}

enum err table_append(struct table *t, const uint32_t *cells, uint64_t rows, struct errmsg *e)
{
    loading_rows(rows);
    while (rows > 0) {
        uint64_t room = t->chunk_rows - t->rows % t->chunk_rows;
        uint64_t n = rows < room ? rows : room;
        size_t used = 0;
        enum err err = room == t->chunk_rows ? add_chunk(t, e) : ERR_OK;
        if (!err)
            err = put_rows(t, t->rows, n, cells, &used, e);
        if (err)
            return err;
        cells += used;
        t->rows += n;
        rows -= n;
        assert(t->chunks == (t->rows + t->chunk_rows - 1) / t->chunk_rows);
    }
    return ERR_OK;
}

void table_close(struct table *t)
{
    for (uint64_t i = 0; i < t->chunks; i++) {
        free_cells(t, &t->chunk[i]);
        mem_free(t->chunk[i].begin);
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

static uint64_t bytes_in(const struct table *t, uint64_t chunk)
{
    return begin_of(t, &t->chunk[chunk], rows_in(t, chunk)) * sizeof(uint32_t);
}

uint64_t table_bytes(const struct table *t)
{
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < t->chunks; i++)
        bytes += bytes_in(t, i);
    return bytes;
}

uint64_t table_spilled_bytes(const struct table *t)
{
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < t->chunks; i++)
        bytes += t->chunk[i].cells ? 0 : bytes_in(t, i);
    return bytes;
}

enum err table_look(const struct table *t, uint64_t row, uint64_t *n, uint32_t *buffer, size_t room,
                    const uint32_t **cells, struct errmsg *e)
{
    const struct table_chunk *c = &t->chunk[row / t->chunk_rows];
    const uint64_t i = row % t->chunk_rows, left = rows_in(t, row / t->chunk_rows) - i;
    uint64_t held = 1;
    *n = *n < left ? *n : left;
    if (c->cells) {
        *cells = c->cells + begin_of(t, c, i);
        return ERR_OK;
    }
    while (held < *n && file_cells(t, c, i, held + 1) <= room)
        held++;
    *n = held;
    *cells = buffer;
    return look_in_file(t, row, held, buffer, e);
}

bool table_waits(const struct table *t, uint64_t row)
{
    return !t->chunk[row / t->chunk_rows].cells && spill_waits(t->spill, place_of(t, row, 0));
}

void table_want(const struct table *t, uint64_t row)
{
    const struct table_chunk *c = &t->chunk[row / t->chunk_rows];
    if (!c->cells)
        spill_want(t->spill, place_of(t, row, 0),
                   file_cells(t, c, row % t->chunk_rows, 1) * sizeof(uint32_t));
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
    bool spilled;       /* rows are in the file; the lengths of chunks change during PASS_SCALE */

    atomic_bool failed; /* the setter also sets err and e */
    enum err err;
    struct errmsg e;
};
enum { LOOK_CELLS = 1 << 18 }; /* cells of a chunk in the file that a thread reads at a time */

static void add_sums(struct moments *m, const struct table_schema *s, const uint32_t *cells)
{
    const uint32_t *high = table_high_cells(s, cells);
    for (uint32_t i = 0; i < s->inputs; i++) {
        double v = s->input[i].kind == COLUMN_NUMBER ? table_number(s, cells, high, i) : NAN;
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
    const uint32_t *high = table_high_cells(s, cells);
    for (uint32_t i = 0; i < s->inputs; i++) {
        double v = s->input[i].kind == COLUMN_NUMBER ? table_number(s, cells, high, i) : NAN;
        if (isnan(v))
            continue;
        double off = v - whole[i].sum / whole[i].count;
        m[i].squares += off * off;
    }
}

static void count_quantiles(struct quantiles *q, const struct table_schema *s,
                            const uint32_t *cells)
{
    const uint32_t *high = table_high_cells(s, cells);
    for (uint32_t i = 0; i < s->inputs; i++)
        if (q[i].n > 0 && !isnan(table_number(s, cells, high, i)))
            quantiles_count(&q[i], table_number(s, cells, high, i));
}

static void find_moves(atomic_bool *moves, const struct table_schema *s, const uint32_t *cells)
{
    const uint32_t *high = table_high_cells(s, cells);
    for (uint32_t i = 0; i < s->inputs; i++) {
        const struct table_input *in = &s->input[i];
        double v = in->bucketing == BUCKETS_NONE ? NAN : table_number(s, cells, high, i);
        if (!isnan(v) && buckets_round_moves(&in->buckets, v))
            atomic_store_explicit(&moves[i], true, memory_order_relaxed);
    }
}

float table_scaled(const struct table_input *in, double v)
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
    const uint32_t *high = table_high_cells(s, cells);
    for (uint32_t i = 0; i < s->inputs; i++) {
        const struct table_input *in = &s->input[i];
        if (in->kind != COLUMN_NUMBER)
            continue;
        double v = table_number(s, cells, high, i);
        cells[i] = in->bucketing == BUCKETS_NONE ? table_bits(table_scaled(in, v)) : bucket(in, v);
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
    for (; n > 0; n--, cells += table_packed_raw_cells(s, cells)) {
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
    for (uint32_t *to = cells; n > 0; n--) {
        const size_t own = table_packed_cells(s, cells);
        if (!is_bad(s, cells))
            table_scale_row(s, cells);
        if (to != cells)
            memmove(to, cells, own * sizeof *to);
        cells += own + s->wide;
        to += own;
    }
}

/* Each row of the chunk has lost the second cells of numbers. */
static void move_begins(const struct table_schema *s, struct table_chunk *c, uint64_t rows)
{
    for (uint64_t i = 1; c->begin && i <= rows; i++)
        c->begin[i] -= (uint32_t)i * s->wide;
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
    struct table_chunk *c = &t->chunk[chunk];
    enum err err = ERR_OK;
    if (c->cells) {
        work_on_rows(l, part, c->cells, end - row);
        row = end;
    }
    for (uint64_t n; row < end && !err; row += n) {
        const uint32_t *cells;
        n = end - row;
        err = table_look(t, row, &n, buffer, LOOK_CELLS, &cells, e);
        if (err)
            return err;
        work_on_rows(l, part, buffer, n);
        if (l->pass == PASS_SCALE) /* shorter rows: none is written over one to be read */
            err = put_in_file(t, row, n, buffer, t->schema->wide, e);
    }
    if (l->pass == PASS_SCALE)
        move_begins(t->schema, c, rows_in(t, chunk));
    return err;
}

static void learn_chunks(void *ctx, uint32_t thread)
{
    struct learning *l = ctx;
    struct errmsg e = {""};
    uint64_t chunk;
    (void)thread;
    uint32_t *buffer = l->spilled ? mem_resize(NULL, LOOK_CELLS, sizeof *buffer) : NULL;
    enum err err = l->spilled && !buffer ? err_memory(&e) : ERR_OK;
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
    l->spilled = table_spilled_bytes(l->table) > 0;
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
    enum err err = l->moves ? run_pass(l, pool, PASS_ROUNDING, e) : err_memory(e);
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
    enum err err = l.part && l.whole ? ERR_OK : err_memory(e);
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

/* Give back the memory of the second cells, and behind the last row. */
static enum err shrink(struct table *t, struct errmsg *e)
{
    enum err err = ERR_OK;
    t->scaled = true;
    for (uint64_t i = 0; i < t->chunks && !err; i++)
        err = fit(t, &t->chunk[i], rows_in(t, i), e);
    return err;
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
    bool weighs = several && k->options.weights;
    uint32_t n = several ? cells[0] : k->cells == TABLE_KEY_CELLS || cells[TABLE_KEY_CELLS];
    for (uint32_t i = 0; i < width; i++) {
        const uint32_t *at = several ? cells + 1 + (size_t)i * each : cells;
        key[i] = i < n ? key_unmix(at[0] | (uint64_t)at[1] << 32) : 0;
        if (weight)
            weight[i] = i >= n ? 0 : weighs ? table_float(at[TABLE_KEY_CELLS]) : 1;
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
