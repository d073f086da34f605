#include "evaluate/ranking.h"

#include <assert.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/crc32c.h"
#include "common/base/mem.h"

enum { CURSOR_BYTES = 4096 }; /* the least that is read at a time of a run that is merged */

/* Sorted rows in the file. Each run is always read whole: the last rows bring the checksum, and before that no result is used. */
struct run {
    uint64_t first, rows; /* in the area */
    uint32_t crc;         /* of its bytes */
};

/* A thread's rows that are not in the file yet. */
struct lane {
    struct scored *row;
    uint64_t rows;
};

struct ranking {
    struct spill *spill;
    uint64_t rows_max, taken_bytes;
    /* (rows_max), or if in_file (room_rows): all lanes' rows, or those being merged */
    struct scored *row;
    atomic_ullong rows; /* rows in memory, or in runs */
    atomic_bool unordered;
    bool in_file;
    uint32_t lanes, fan_in; /* number of runs that are merged at a time */
    uint64_t room_rows,
        /* in the file: the runs are in the first, merged ones go to the other */
        area[2];
    struct lane *lane;
    struct run *run;
    uint64_t runs_max;
    atomic_ullong runs;
};

/* ---- life ---- */

/* qsort needs a copy of what it sorts, hence twice the size. */
static bool fits_in_memory(struct ranking *r)
{
    uint64_t bytes = 2 * r->rows_max * sizeof *r->row;
    if (!r->spill)
        return true;
    if (!spill_take_memory(r->spill, bytes))
        return false;
    r->taken_bytes = bytes;
    return true;
}

static enum err plan_file(struct ranking *r, uint64_t room_bytes, struct errmsg *e)
{
    r->in_file = true;
    r->room_rows = room_bytes / sizeof *r->row;
    r->fan_in = (uint32_t)(room_bytes / CURSOR_BYTES - 1);
    uint64_t run_rows = r->room_rows / r->lanes;
    r->runs_max = r->rows_max / run_rows + r->lanes;
    enum err err = ERR_OK;
    for (int i = 0; i < 2 && !err; i++)
        err = spill_reserve(r->spill, r->rows_max * sizeof *r->row, &r->area[i], e);
    return err;
}

static enum err make(struct ranking *r, uint64_t room_bytes, struct errmsg *e)
{
    enum err err = fits_in_memory(r) ? ERR_OK : plan_file(r, room_bytes, e);
    if (err)
        return err;
    r->row = mem_zalloc((r->in_file ? r->room_rows : r->rows_max) + 1, sizeof *r->row);
    r->lane = mem_zalloc(r->lanes, sizeof *r->lane);
    r->run = mem_zalloc(r->runs_max + 1, sizeof *r->run);
    if (!r->row || !r->lane || !r->run)
        return err_memory_for(e, "the scores of an evaluation");
    for (uint32_t i = 0; i < r->lanes && r->in_file; i++)
        r->lane[i].row = r->row + i * (r->room_rows / r->lanes);
    return ERR_OK;
}

enum err ranking_new(struct ranking **out, uint64_t rows, uint32_t threads, struct spill *spill,
                     uint64_t room_bytes, struct errmsg *e)
{
    assert(room_bytes >= 3 * CURSOR_BYTES); /* two that are read, one that is written */
    struct ranking *r = mem_zalloc(1, sizeof *r);
    if (!r)
        return err_memory_for(e, "the scores of an evaluation");
    r->spill = spill;
    r->rows_max = rows;
    r->lanes = threads;
    enum err err = make(r, room_bytes, e);
    if (err) {
        ranking_free(r);
        return err;
    }
    *out = r;
    return ERR_OK;
}

void ranking_free(struct ranking *r)
{
    if (!r)
        return;
    if (r->taken_bytes)
        spill_give_memory(r->spill, r->taken_bytes);
    mem_free(r->row);
    mem_free(r->lane);
    mem_free(r->run);
    mem_free(r);
}

bool ranking_is_in_file(const struct ranking *r)
{
    return r->in_file;
}

void ranking_begin(struct ranking *r)
{
    atomic_store(&r->rows, 0);
    atomic_store(&r->runs, 0);
    atomic_store(&r->unordered, false);
    for (uint32_t i = 0; i < r->lanes; i++)
        r->lane[i].rows = 0;
}

/* ---- adding ---- */

static int compare(float x, float y)
{
    return (x > y) - (x < y);
}

/* For qsort: by score; equal scores are ordered further, so that sorted rows are the same to the bit however they
 * were sorted. */
static int scored_compare(const void *a, const void *b)
{
    const struct scored *x = a, *y = b;
    int order = compare(x->score, y->score);
    if (order == 0)
        order = x->positive - y->positive;
    return order ? order : compare(x->weight, y->weight);
}

static uint64_t row_at(const struct ranking *r, int area, uint64_t row)
{
    return r->area[area] + row * sizeof *r->row;
}

/* Sort and write the lane's rows. */
static enum err end_run(struct ranking *r, struct lane *l, struct errmsg *e)
{
    if (l->rows == 0)
        return ERR_OK;
    struct run run = {.first = atomic_fetch_add(&r->rows, l->rows), .rows = l->rows};
    assert(run.first + run.rows <= r->rows_max);
    qsort(l->row, l->rows, sizeof *l->row, scored_compare);
    run.crc = crc32c(0, l->row, run.rows * sizeof *l->row);
    enum err err =
        spill_write(r->spill, row_at(r, 0, run.first), l->row, run.rows * sizeof *l->row, e);
    if (err)
        return err;
    uint64_t at = atomic_fetch_add(&r->runs, 1);
    assert(at < r->runs_max);
    r->run[at] = run;
    l->rows = 0;
    return ERR_OK;
}

static enum err put(struct ranking *r, struct lane *l, const struct scored *row, struct errmsg *e)
{
    if (!r->in_file) {
        uint64_t at = atomic_fetch_add(&r->rows, 1);
        assert(at < r->rows_max);
        r->row[at] = *row;
        return ERR_OK;
    }
    l->row[l->rows++] = *row;
    return l->rows == r->room_rows / r->lanes ? end_run(r, l, e) : ERR_OK;
}

enum err ranking_add(struct ranking *r, uint32_t thread, const struct scored *rows, uint32_t n,
                     struct errmsg *e)
{
    enum err err = ERR_OK;
    assert(thread < r->lanes);
    for (uint32_t i = 0; i < n && !err; i++) {
        if (isnan(rows[i].score))
            atomic_store(&r->unordered, true);
        else if (rows[i].weight > 0.0f)
            err = put(r, &r->lane[thread], &rows[i], e);
    }
    return err;
}

/* ---- merging ---- */

/* The position of a merge in one of its runs. */
struct cursor {
    struct scored *row;  /* (share) the rows that were read last */
    uint64_t i, n;       /* i: index of the next row; n: number of rows */
    uint64_t next, end;  /* part of the run that is not read yet */
    uint32_t crc, whole; /* of what is read, and of the run */
};

/* A heap of cursors, the lowest row first. */
struct merge {
    struct ranking *r;
    struct cursor *cursor;
    uint32_t n;
    uint64_t share; /* rows in memory for each run, and for the output */
};

/* False for a row that no evaluation adds, and that no metric accepts. The checksum comes later, with the run's end. */
static bool is_possible(const struct scored *row)
{
    uint8_t positive;
    memcpy(&positive, &row->positive, sizeof positive);
    return !isnan(row->score) && row->weight > 0.0f && positive <= 1;
}

static enum err refill(const struct merge *m, struct cursor *c, struct errmsg *e)
{
    uint64_t rows = c->end - c->next < m->share ? c->end - c->next : m->share;
    enum err err =
        spill_read(m->r->spill, row_at(m->r, 0, c->next), c->row, rows * sizeof *c->row, e);
    if (err)
        return err;
    c->i = 0;
    c->n = rows;
    c->next += rows;
    c->crc = crc32c(c->crc, c->row, rows * sizeof *c->row);
    bool right = c->next < c->end || c->crc == c->whole;
    for (uint64_t i = 0; i < rows && right; i++)
        right = is_possible(&c->row[i]);
    return right ? ERR_OK : spill_changed(m->r->spill, e);
}

static bool is_lower(const struct cursor *a, const struct cursor *b)
{
    return scored_compare(&a->row[a->i], &b->row[b->i]) < 0;
}

static void sift_down(struct merge *m, uint32_t at)
{
    for (;;) {
        uint32_t low = at, left = 2 * at + 1;
        for (uint32_t child = left; child < left + 2 && child < m->n; child++)
            if (is_lower(&m->cursor[child], &m->cursor[low]))
                low = child;
        if (low == at)
            return;
        struct cursor c = m->cursor[at];
        m->cursor[at] = m->cursor[low];
        m->cursor[low] = c;
        at = low;
    }
}

/* Begin a merge of the runs [first, first + n), n <= fan_in. */
static enum err merge_begin(struct merge *m, const struct run *run, uint32_t n, struct errmsg *e)
{
    enum err err = ERR_OK;
    m->n = n;
    m->share = m->r->room_rows / (n + 1);
    for (uint32_t i = 0; i < n && !err; i++) {
        m->cursor[i] = (struct cursor){.row = m->r->row + (i + 1) * m->share,
                                       .next = run[i].first,
                                       .end = run[i].first + run[i].rows,
                                       .whole = run[i].crc};
        err = refill(m, &m->cursor[i], e);
    }
    for (uint32_t i = n / 2; i-- > 0 && !err;)
        sift_down(m, i);
    return err;
}

/* Take the lowest row into *row; there must be one. */
static enum err merge_next(struct merge *m, struct scored *row, struct errmsg *e)
{
    struct cursor *c = &m->cursor[0];
    enum err err = ERR_OK;
    *row = c->row[c->i++];
    if (c->i == c->n && c->next < c->end)
        err = refill(m, c, e);
    else if (c->i == c->n)
        *c = m->cursor[--m->n];
    if (!err)
        sift_down(m, 0);
    return err;
}

/* Write all rows of a merge as the run `to` to the other area, at the same position. */
static enum err merge_into(struct merge *m, struct run *to, struct errmsg *e)
{
    struct scored *out = m->r->row;
    uint64_t first = to->first;
    enum err err = ERR_OK;
    for (uint64_t n = 0; m->n > 0 && !err;) {
        err = merge_next(m, &out[n++], e);
        if (err || (n < m->share && m->n > 0))
            continue;
        to->crc = crc32c(to->crc, out, n * sizeof *out);
        err = spill_write(m->r->spill, row_at(m->r, 1, first), out, n * sizeof *out, e);
        first += n;
        n = 0;
    }
    return err;
}

static int by_place(const void *a, const void *b)
{
    uint64_t x = ((const struct run *)a)->first, y = ((const struct run *)b)->first;
    return (x > y) - (x < y);
}

/* Merge groups of adjacent runs. */
static enum err merge_pass(struct merge *m, struct errmsg *e)
{
    struct ranking *r = m->r;
    uint64_t runs = atomic_load(&r->runs), left = 0;
    enum err err = ERR_OK;
    for (uint64_t i = 0; i < runs && !err;) {
        uint32_t n = runs - i < r->fan_in ? (uint32_t)(runs - i) : r->fan_in;
        struct run all = {.first = r->run[i].first};
        for (uint32_t k = 0; k < n; k++)
            all.rows += r->run[i + k].rows;
        err = merge_begin(m, r->run + i, n, e);
        if (!err)
            err = merge_into(m, &all, e);
        r->run[left++] = all;
        i += n;
    }
    uint64_t area = r->area[0];
    r->area[0] = r->area[1];
    r->area[1] = area;
    atomic_store(&r->runs, left);
    return err;
}

static enum err merge_all(struct merge *m, ranking_row *visit, void *ctx, struct errmsg *e)
{
    struct ranking *r = m->r;
    struct scored row;
    enum err err = ERR_OK;
    qsort(r->run, atomic_load(&r->runs), sizeof *r->run, by_place);
    while (!err && atomic_load(&r->runs) > r->fan_in)
        err = merge_pass(m, e);
    if (!err)
        err = merge_begin(m, r->run, (uint32_t)atomic_load(&r->runs), e);
    while (!err && m->n > 0) {
        err = merge_next(m, &row, e);
        if (!err)
            visit(ctx, &row);
    }
    return err;
}

/* ---- the result ---- */

static enum err walk_file(struct ranking *r, ranking_row *visit, void *ctx, struct errmsg *e)
{
    enum err err = ERR_OK;
    struct merge m = {.r = r, .cursor = mem_zalloc(r->fan_in, sizeof *m.cursor)};
    if (!m.cursor)
        return err_set(e, ERR_NOMEM, "no memory to sort the scores of an evaluation");
    for (uint32_t i = 0; i < r->lanes && !err; i++)
        err = end_run(r, &r->lane[i], e);
    if (!err)
        err = merge_all(&m, visit, ctx, e);
    mem_free(m.cursor);
    return err;
}

static void walk_memory(struct ranking *r, ranking_row *visit, void *ctx)
{
    uint64_t rows = atomic_load(&r->rows);
    qsort(r->row, rows, sizeof *r->row, scored_compare);
    for (uint64_t i = 0; i < rows; i++)
        visit(ctx, &r->row[i]);
}

enum err ranking_walk(struct ranking *r, ranking_row *visit, void *ctx, struct errmsg *e)
{
    if (atomic_load(&r->unordered))
        return ERR_OK;
    if (r->in_file)
        return walk_file(r, visit, ctx, e);
    walk_memory(r, visit, ctx);
    return ERR_OK;
}
