/* Rows in chunks, in memory or in a file, and what their columns teach: passes over all chunks, joined in their order. */
#include "data/table.h"

#include <assert.h>
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "common/base/crc32c.h"
#include "common/process/process_state.h"
#include "common/base/mem.h"

/* ---- rows ---- */

/* The order of sums depends on the number of rows in a chunk, so this does not depend on their keys. */
enum { CHUNK_CELLS_MOST = 1 << 20 };

/* The most cells of a row. */
static size_t row_cells(const struct table *t)
{
    return t->scaled ? schema_row_cells(t->schema) : schema_raw_cells(t->schema);
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

/* Cells of a buffer for rows of the file: for one at least, and its checksum. */
static size_t buffer_cells(const struct table *t)
{
    enum { CELLS = 1 << 15 };
    return schema_raw_cells(t->schema) < CELLS ? CELLS : TABLE_ROW_CELLS_MAX;
}

/* Put rows of one chunk, which have `fewer` cells than before. */
static enum err put_in_file(struct table *t, uint64_t row, uint64_t n, const uint32_t *cells,
                            size_t fewer, struct errmsg *e)
{
    const struct table_chunk *c = &t->chunk[row / t->chunk_rows];
    const size_t room = buffer_cells(t);
    uint32_t *block = mem_resize(NULL, room, sizeof *block);
    enum err err = block ? ERR_OK : no_memory(t, e);
    while (n > 0 && !err) {
        const uint64_t first = row;
        size_t used = 0;
        for (; n > 0; n--, row++) {
            size_t own = cells_of(t, c, row % t->chunk_rows, 1) - fewer;
            if (used + own + 1 > room)
                break;
            memcpy(block + used, cells, own * sizeof *cells);
            block[used + own] = row_checksum(row, cells, own);
            cells += own;
            used += own + 1;
        }
        err = spill_write(t->spill, place_of(t, first, fewer), block, used * sizeof *block, e);
    }
    mem_free(block);
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
    const bool fills = !c->cells && !c->begin && c > t->chunk; /* the first may stay almost empty */
    uint32_t *grown =
        fills ? mem_huge(room, sizeof *grown) : mem_resize(c->cells, room, sizeof *grown);
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
        size_t own = schema_packed_raw_cells(t->schema, cells);
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
    for (uint64_t i = 0; i < t->chunks && !t->lent; i++) {
        free_cells(t, &t->chunk[i]);
        mem_free(t->chunk[i].begin);
    }
    if (t->lent)
        spill_give_memory(t->spill, t->lent_bytes);
    mem_free(t->chunk);
    for (uint32_t i = 0; t->renumber && i < t->schema->inputs; i++)
        mem_free(t->renumber[i]);
    mem_free(t->renumber);
    schema_unref(t->schema);
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

size_t table_chunk_cells(const struct table *t, uint64_t chunk)
{
    return t->chunk[chunk].cells ? bytes_in(t, chunk) / sizeof(uint32_t) : 0;
}

/* The budget, which all processes of the host have together, counts them in each of them. */
void rows_lend(struct table *t)
{
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < t->chunks; i++) {
        struct table_chunk *c = &t->chunk[i];
        if (c->cells && c->room)
            spill_give_memory(t->spill, bytes_for(t, c, c->room));
        if (c->cells)
            bytes += bytes_for(t, c, table_chunk_cells(t, i));
        c->room = 0;
    }
    t->lent = true;
    t->lent_bytes = spill_take_memory(t->spill, bytes) ? bytes : 0;
}

static bool waits(const struct table *t, uint64_t row)
{
    return !t->chunk[row / t->chunk_rows].cells && spill_waits(t->spill, place_of(t, row, 0));
}

static void want(const struct table *t, uint64_t row)
{
    const struct table_chunk *c = &t->chunk[row / t->chunk_rows];
    if (!c->cells)
        spill_want(t->spill, place_of(t, row, 0),
                   file_cells(t, c, row % t->chunk_rows, 1) * sizeof(uint32_t));
}

/* The number of consecutive rows from `i` on. */
static uint64_t run_of(const uint64_t *rows, uint32_t i, uint32_t n)
{
    uint32_t end = i + 1;
    while (end < n && rows[end] == rows[end - 1] + 1)
        end++;
    return end - i;
}

/* If one in eight of the rows waits for the disk, prefetch all before the first wait. If they are in the page cache,
 * prefetching would cost half as much as reading. */
static void want_rows(const struct table *t, const uint64_t *rows, uint32_t n)
{
    enum { LOOK_AT_EACH = 8 };
    uint32_t i = 0;
    while (i < n && !waits(t, rows[i]))
        i += LOOK_AT_EACH;
    for (uint32_t k = 0; i < n && k < n; k++)
        want(t, rows[k]);
}

static enum err visit_rows(const struct table *t, const uint64_t *rows, uint32_t n,
                           table_visitor *visit, void *ctx, uint32_t *buffer, size_t room,
                           struct errmsg *e)
{
    enum err err = ERR_OK;
    want_rows(t, rows, n);
    for (uint32_t i = 0; i < n && !err;) {
        uint64_t run = run_of(rows, i, n);
        const uint32_t *cells;
        err = table_look(t, rows[i], &run, buffer, room, &cells, e);
        i += (uint32_t)run;
        for (; run > 0 && !err; run--, cells += table_packed_cells(t->schema, cells))
            err = visit(ctx, cells, e);
    }
    return err;
}

enum err table_visit(const struct table *t, const uint64_t *rows, uint32_t n, table_visitor *visit,
                     void *ctx, struct errmsg *e)
{
    const size_t room = buffer_cells(t);
    uint32_t *buffer = mem_resize(NULL, room, sizeof *buffer);
    enum err err = buffer ? visit_rows(t, rows, n, visit, ctx, buffer, room, e) : no_memory(t, e);
    mem_free(buffer);
    return err;
}

/* ---- statistics: a partial result for each chunk, joined in their order ---- */

struct learning {
    struct table *table;
    struct numbers numbers;
    double *part;                 /* (chunks, MOMENTS, padded) */
    struct number_moments *whole; /* (inputs) */
    double *mean;                 /* (padded) */
    atomic_ullong next;
    enum { PASS_SUMS, PASS_SQUARES, PASS_QUANTILES, PASS_ROUNDING, PASS_SCALE } pass;
    struct quantiles *quantiles; /* (inputs) n > 0: to be learned */
    atomic_bool *moves;  /* (inputs) a number is in another bucket if it is rounded to float32 */
    const uint8_t *held; /* bits of rows that teach nothing; NULL: all teach */
    bool spilled;        /* rows are in the file; the lengths of chunks change during PASS_SCALE */

    atomic_bool failed; /* the setter also sets err and e */
    enum err err;
    struct errmsg e;
};
enum { LOOK_CELLS = 1 << 18 }; /* cells of a chunk in the file that a thread reads at a time */

static double *chunk_moments(const struct learning *l, uint64_t chunk)
{
    return l->part + chunk * MOMENTS * numbers_padded(l->table->schema->inputs);
}

static void count_quantiles(struct quantiles *q, const struct table_schema *s,
                            const uint32_t *cells)
{
    const uint32_t *high = schema_high_cells(s, cells);
    for (uint32_t i = 0; i < s->inputs; i++)
        if (q[i].n > 0 && !isnan(schema_number(s, cells, high, i)))
            quantiles_count(&q[i], schema_number(s, cells, high, i));
}

static void find_moves(atomic_bool *moves, const struct table_schema *s, const uint32_t *cells)
{
    const uint32_t *high = schema_high_cells(s, cells);
    for (uint32_t i = 0; i < s->inputs; i++) {
        const struct schema_input *in = &s->input[i];
        double v = in->bucketing == BUCKETS_NONE ? NAN : schema_number(s, cells, high, i);
        if (!isnan(v) && buckets_round_moves(&in->buckets, v))
            atomic_store_explicit(&moves[i], true, memory_order_relaxed);
    }
}

static bool is_bad(const struct table_schema *s, const uint32_t *cells)
{
    return isnan(schema_float(cells[s->inputs]));
}

/* A pass reads little of each row, and waits for memory unless it is asked in time. */
static void await_row(const struct table_schema *s, const uint32_t *cells)
{
    enum { ROWS_AHEAD = 8 };
    __builtin_prefetch(cells + ROWS_AHEAD * schema_fixed_cells(s));
    __builtin_prefetch(cells + ROWS_AHEAD * schema_fixed_cells(s) + s->inputs);
}

/* v: (padded), of a row's numbers; NaN of other inputs */
static void learn_rows(const struct learning *l, double *part, uint64_t row, const uint32_t *cells,
                       uint64_t n, double *v)
{
    const struct table_schema *s = l->table->schema;
    for (; n > 0; n--, row++, cells += schema_packed_raw_cells(s, cells)) {
        await_row(s, cells);
        if (is_bad(s, cells) || (l->held && l->held[row / 8] >> row % 8 & 1))
            continue;
        if (l->pass == PASS_SUMS || l->pass == PASS_SQUARES)
            numbers_read(&l->numbers, cells, schema_high_cells(s, cells), v);
        if (l->pass == PASS_SUMS)
            numbers_add(part, v, s->inputs);
        else if (l->pass == PASS_SQUARES)
            numbers_add_squares(part, l->mean, v, s->inputs);
        else if (l->pass == PASS_QUANTILES)
            count_quantiles(l->quantiles, s, cells);
        else
            find_moves(l->moves, s, cells);
    }
}

static void renumber_row(const struct table *t, uint32_t *cells)
{
    for (uint32_t i = 0; t->renumber && i < t->schema->inputs; i++)
        if (t->renumber[i])
            cells[i] = t->renumber[i][cells[i]];
}

/* Scale rows, and move them together, as they lose the second cells of numbers. */
static void scale_rows(const struct learning *l, uint32_t *cells, uint64_t n, double *v)
{
    const struct table *t = l->table;
    const struct table_schema *s = t->schema;
    for (uint32_t *to = cells; n > 0; n--) {
        const size_t own = table_packed_cells(s, cells);
        await_row(s, cells);
        if (!is_bad(s, cells)) {
            renumber_row(t, cells);
            numbers_scale(&l->numbers, s, cells, v);
        }
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
static void work_on_rows(const struct learning *l, double *part, uint64_t row, uint32_t *cells,
                         uint64_t n, double *v)
{
    if (l->pass == PASS_SCALE)
        scale_rows(l, cells, n, v);
    else
        learn_rows(l, part, row, cells, n, v);
}

/* A chunk in the file is read into the buffer, and written back only if it was changed. */
static enum err learn_chunk(const struct learning *l, uint64_t chunk, uint32_t *buffer, double *v,
                            struct errmsg *e)
{
    struct table *t = l->table;
    uint64_t row = chunk * t->chunk_rows, end = row + rows_in(t, chunk);
    double *part = l->part ? chunk_moments(l, chunk) : NULL; /* NULL in PASS_SCALE */
    struct table_chunk *c = &t->chunk[chunk];
    enum err err = ERR_OK;
    if (c->cells) {
        work_on_rows(l, part, row, c->cells, end - row, v);
        row = end;
    }
    for (uint64_t n; row < end && !err; row += n) {
        const uint32_t *cells;
        n = end - row;
        err = table_look(t, row, &n, buffer, LOOK_CELLS, &cells, e);
        if (err)
            return err;
        work_on_rows(l, part, row, buffer, n, v);
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
    const uint32_t inputs = numbers_padded(l->table->schema->inputs);
    uint32_t *buffer = l->spilled ? mem_resize(NULL, LOOK_CELLS, sizeof *buffer) : NULL;
    double *v = mem_resize(NULL, inputs, sizeof *v);
    enum err err = !v || (l->spilled && !buffer) ? err_memory(&e) : ERR_OK;
    for (uint32_t i = 0; i < inputs && !err; i++)
        v[i] = NAN;
    while (!err && (chunk = atomic_fetch_add(&l->next, 1)) < l->table->chunks)
        err = learn_chunk(l, chunk, buffer, v, &e);
    if (err)
        atomic_store(&l->next, l->table->chunks);
    if (err && !atomic_exchange(&l->failed, true)) {
        l->err = err;
        l->e = e;
    }
    mem_free(buffer);
    mem_free(v);
}

static enum err run_pass(struct learning *l, struct pool *pool, int pass, struct errmsg *e)
{
    if (l->table->schema->inputs == 0) /* keys alone teach nothing, and stay as they are */
        return ERR_OK;
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
            struct number_moments *whole = &l->whole[i];
            const struct number_moments part = numbers_moments(chunk_moments(l, c), inputs, i);
            if (part.count == 0)
                continue;
            whole->min = whole->count == 0 || part.min < whole->min ? part.min : whole->min;
            whole->max = whole->count == 0 || part.max > whole->max ? part.max : whole->max;
            whole->rounding = part.rounding > whole->rounding ? part.rounding : whole->rounding;
            whole->count += part.count;
            whole->sum += part.sum;
            whole->offset += part.offset;
            whole->squares += part.squares;
        }
}

static enum err learn_squares(struct learning *l, struct pool *pool, struct errmsg *e)
{
    for (uint64_t c = 0; c < l->table->chunks; c++)
        numbers_begin_squares(chunk_moments(l, c), l->table->schema->inputs);
    enum err err = run_pass(l, pool, PASS_SQUARES, e);
    if (!err)
        join_parts(l);
    return err;
}

/* The roundings of a plain sum can move a mean: of many large numbers, or of one number that is no binary fraction. If they have
 * moved it so far that features show it, it is corrected by what the numbers are off on average, as in the corrected two-pass
 * algorithm (Chan, Golub and LeVeque 1983). True: squares must be summed again. */
static bool mend_means(struct learning *l)
{
    const double shown = 0x1p-26; /* of the deviation; a float has 24 bits */
    bool mended = false;
    for (uint32_t i = 0; i < l->table->schema->inputs; i++) {
        const struct number_moments *m = &l->whole[i];
        double off = m->count > 0 ? m->offset / m->count : 0;
        if (m->count == 0 || fabs(off) <= shown * sqrt(m->squares / m->count))
            continue;
        l->mean[i] = m->min < m->max ? l->mean[i] + off : m->min;
        mended = true;
    }
    return mended;
}

/* The mean and the deviation of each number column. */
static enum err learn_moments(struct learning *l, struct pool *pool, struct errmsg *e)
{
    enum { MENDED = 2 }; /* times; the first one leaves next to nothing */
    enum err err = run_pass(l, pool, PASS_SUMS, e);
    if (err)
        return err;
    join_parts(l);
    for (uint32_t i = 0; i < l->table->schema->inputs; i++)
        l->mean[i] = l->whole[i].count > 0 ? l->whole[i].sum / l->whole[i].count : 0;
    err = learn_squares(l, pool, e);
    for (int k = 0; k < MENDED && !err && mend_means(l); k++)
        err = learn_squares(l, pool, e);
    return err;
}

/* The borders of one input, from its last round. */
static enum err take_quantiles(struct schema_input *in, const struct quantiles *q)
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

/* Whether floats are enough for numbers in buckets, if not all numbers and borders are floats. */
static enum err learn_moves(struct learning *l, struct pool *pool, struct errmsg *e)
{
    struct table_schema *s = l->table->schema;
    bool any = false;
    for (uint32_t i = 0; i < s->inputs; i++) {
        any |= s->input[i].bucketing != BUCKETS_NONE &&
               (l->whole[i].rounding > 0 || !buckets_are_floats(&s->input[i].buckets));
        s->input[i].needs_double |= schema_fill_moves(&s->input[i]);
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

enum err table_learn(struct table *t, const uint8_t *held, struct pool *pool, struct errmsg *e)
{
    uint32_t inputs = t->schema->inputs;
    struct learning l = {
        .table = t,
        .held = held,
        .part = mem_zalloc((size_t)t->chunks * MOMENTS * numbers_padded(inputs), sizeof *l.part),
        .whole = mem_zalloc(inputs, sizeof *l.whole),
        .mean = mem_zalloc(numbers_padded(inputs), sizeof *l.mean)};
    enum err err = l.part && l.whole && l.mean && !numbers_init(&l.numbers, t->schema)
                       ? ERR_OK
                       : err_memory(e);
    for (uint64_t c = 0; c < t->chunks && !err; c++)
        numbers_begin(chunk_moments(&l, c), inputs);
    if (!err)
        err = learn_moments(&l, pool, e);
    for (uint32_t i = 0; i < inputs && !err; i++)
        if (t->schema->input[i].kind == COLUMN_NUMBER)
            schema_learn_number(&t->schema->input[i], &l.whole[i], l.mean[i]);
    if (!err)
        err = learn_quantiles(&l, pool, e);
    if (!err)
        err = learn_moves(&l, pool, e);
    numbers_close(&l.numbers);
    mem_free(l.part);
    mem_free(l.whole);
    mem_free(l.mean);
    return err ? err : schema_place_features(t->schema, e);
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
    enum err err = numbers_init(&l.numbers, t->schema) ? err_memory(e) : ERR_OK;
    if (!err)
        err = run_pass(&l, pool, PASS_SCALE, e);
    numbers_close(&l.numbers);
    return err ? err : shrink(t, e);
}
