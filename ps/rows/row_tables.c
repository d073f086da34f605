/* The tables of a shard: updates, reads, and the old rows that are set aside for readers. */
#include "ps/rows/row_tables.h"

#include <assert.h>
#include <string.h>

#include "common/rows/row_codec.h"
#include "ps/rows/row_update.h"

static uint64_t bytes_of(const struct row_layout *l, const struct row_grads *g)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < l->lists; i++)
        bytes += (uint64_t)g->keys[i] * sizeof(uint64_t);
    for (uint32_t i = 0; i < l->tables; i++)
        bytes += (uint64_t)g->keys[l->table[i].list] * (l->table[i].dim * sizeof(float) + 1);
    return bytes;
}

/* Set the pointers to keys, rows and marks in a->memory, in this order; a->keys is set. */
static void lay_out(struct row_aside *a, const struct row_layout *l)
{
    uint8_t *at = (uint8_t *)a->memory->data;
    for (uint32_t i = 0; i < l->lists; i++) {
        a->mixed[i] = (const uint64_t *)(void *)at;
        at += a->keys[i] * sizeof(uint64_t);
    }
    for (uint32_t i = 0; i < l->tables; i++) {
        a->w[i] = (const float *)(void *)at;
        at += (size_t)a->keys[l->table[i].list] * l->table[i].dim * sizeof(float);
    }
    for (uint32_t i = 0; i < l->tables; i++) {
        a->there[i] = at;
        at += a->keys[l->table[i].list];
    }
}

/* Set aside the rows of all keys of `g`; *a must be empty. row[i]: for table i the row of each key of its list, ROW_NONE if
 * it does not exist. Errors: ERR_NOMEM. */
static enum err row_aside_set(struct row_aside *a, const struct row_layout *l,
                              struct row_table *const *table, const struct row_grads *g,
                              uint32_t *const *row, struct buffer_pool *pool)
{
    assert(!a->memory);
    a->memory = buffer_acquire(pool, bytes_of(l, g) / sizeof(float) + 1);
    if (!a->memory)
        return ERR_NOMEM;
    memcpy(a->keys, g->keys, l->lists * sizeof *a->keys);
    lay_out(a, l);
    for (uint32_t i = 0; i < l->lists; i++)
        memcpy((uint64_t *)a->mixed[i], g->mixed[i], g->keys[i] * sizeof(uint64_t));
    for (uint32_t i = 0; i < l->tables; i++) {
        uint32_t n = g->keys[l->table[i].list];
        uint8_t *there = (uint8_t *)a->there[i];
        for (uint32_t k = 0; k < n; k++)
            there[k] = row[i][k] != ROW_NONE;
        row_table_gather(table[i], row[i], n, (float *)a->w[i]);
    }
    return ERR_OK;
}

/* Drop the copies, if there are any. */
static void row_aside_forget(struct row_aside *a)
{
    buffer_unref(a->memory);
    a->memory = NULL;
}

/* True: the key is set aside, and *w has the weights of its row in this table, valid until row_aside_forget; *w NULL:
 * it had no row. *at: the reader's position, 0 before the reader's first key; the reader's keys ascend. */
static bool row_aside_find(const struct row_aside *a, const struct row_layout *l, uint32_t table,
                           uint64_t mixed, uint32_t *at, const float **w)
{
    const struct row_table_spec *spec = &l->table[table];
    if (!a->memory)
        return false;
    uint32_t keys = a->keys[spec->list];
    const uint64_t *has = a->mixed[spec->list];
    while (*at < keys && has[*at] < mixed)
        ++*at;
    if (*at == keys || has[*at] != mixed)
        return false;
    *w = a->there[table][*at] ? a->w[table] + (size_t)*at * spec->dim : NULL;
    return true;
}

enum { READ_ROWS = 256 }; /* rows looked up at a time: as many as stay in the caches */

static const struct optimizer *optimizer_of(const struct row_table_spec *t,
                                            const struct optimizer *of_job)
{
    return t->has_optimizer ? &t->optimizer : of_job;
}

enum err row_tables_init(struct row_tables *t, const struct row_layout *l,
                         struct bucket_range buckets, const struct optimizer *o, uint64_t seed,
                         struct buffer_pool *pool)
{
    *t = (struct row_tables){.layout = l, .buckets = buckets, .seed = seed, .pool = pool};
    for (uint32_t i = 0; i < l->tables; i++) {
        uint32_t dim = l->table[i].dim;
        t->optimizer[i] = *optimizer_of(&l->table[i], o);
        uint32_t slots = row_update_slot_floats(&t->optimizer[i], dim);
        if (row_table_new(&t->table[i], dim, slots, buckets) ||
            row_admit_init(&t->admit[i], &l->table[i], buckets, seed) ||
            row_evict_init(&t->evict[i], l->table[i].unseen_steps)) {
            row_tables_close(t);
            return ERR_NOMEM;
        }
    }
    return ERR_OK;
}

void row_tables_close(struct row_tables *t)
{
    row_tables_forget_aside(t);
    row_cut_close(&t->cut);
    for (uint32_t i = 0; i < ROW_TABLES_MAX; i++)
        row_table_free(t->table[i]);
    for (uint32_t i = 0; i < ROW_TABLES_MAX; i++) {
        row_admit_close(&t->admit[i]);
        row_evict_close(&t->evict[i]);
    }
    *t = (struct row_tables){.layout = NULL};
}

void row_tables_take_rates(struct row_tables *t, const struct row_layout *l,
                           const struct optimizer *o)
{
    assert(l->tables == t->layout->tables);
    for (uint32_t i = 0; i < l->tables; i++) {
        const struct optimizer *from = optimizer_of(&l->table[i], o);
        t->optimizer[i].learning_rate = from->learning_rate;
        t->optimizer[i].schedule = from->schedule;
    }
}

/* ---- rows set aside ---- */

void row_tables_forget_aside(struct row_tables *t)
{
    for (uint32_t part = 0; part < ROW_PARTS; part++)
        row_aside_forget(&t->aside[part]);
}

/* The position of a reader with ascending keys in the rows set aside. */
struct aside_at {
    uint32_t part, key;
};

/* The same as row_aside_find, in the part of the key. */
static bool aside_find(const struct row_tables *t, uint32_t table, uint64_t mixed,
                       struct aside_at *at, const float **w)
{
    while (key_bucket(mixed) >= bucket_part(t->buckets, at->part).end)
        *at = (struct aside_at){.part = at->part + 1};
    return row_aside_find(&t->aside[at->part], t->layout, table, mixed, &at->key, w);
}

/* ---- reading ---- */

static uint64_t mark_words(uint32_t keys)
{
    return ((uint64_t)keys + 31) / 32;
}

static enum row_codec codec_of(const struct row_layout *l, uint32_t table, bool plain)
{
    return plain ? ROW_CODEC_NONE : l->codecs.reply[table];
}

static uint64_t whole_marks(uint64_t bytes)
{
    return (bytes + 3) & ~UINT64_C(3);
}

uint64_t row_tables_answer_most(const struct row_layout *l, const uint32_t *keys, bool plain)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < l->tables; i++) {
        uint32_t n = keys[l->table[i].list];
        bytes += mark_words(n) * sizeof(uint32_t) +
                 whole_marks(row_codec_most(codec_of(l, i, plain), n, l->table[i].dim));
    }
    return bytes;
}

/* True: the row is present. *part: the part of the previous key; keys ascend. */
static bool is_there(const struct row_tables *t, uint32_t table, uint64_t mixed, uint32_t row,
                     const struct row_clocks *at, uint32_t *part)
{
    uint32_t unseen = t->evict[table].unseen_steps;
    if (row == ROW_NONE || (unseen == 0 && at->floor == 0))
        return row != ROW_NONE;
    while (key_bucket(mixed) >= bucket_part(t->buckets, *part).end)
        ++*part;
    uint64_t stamp = row_stamp(t->table[table], row);
    return row_is_above(at->floor, stamp) && row_is_there(unseen, stamp, at->of[*part]);
}

/* w[i] = the table's row of mixed[i], prefetched, or NULL. */
static void look_up(const struct row_tables *t, uint32_t table, const uint64_t *mixed, uint32_t n,
                    const struct row_clocks *at, const float **w)
{
    uint32_t row[READ_ROWS], part = 0;
    (void)row_table_find(t->table[table], mixed, n, row);
    for (uint32_t i = 0; i < n; i++) {
        w[i] = is_there(t, table, mixed[i], row[i], at, &part)
                   ? row_weights(t->table[table], row[i])
                   : NULL;
        if (w[i])
            row_ask(w[i], t->layout->table[table].dim, ROW_FIRST_CACHE);
    }
}

static uint64_t read_table(struct row_tables *t, uint32_t table, uint32_t n, const uint64_t *mixed,
                           struct row_reading how, uint32_t *marks)
{
    const struct row_table_spec *spec = &t->layout->table[table];
    struct row_encoder out;
    struct aside_at at = {0, 0};
    uint64_t read = 0;
    row_encoder_begin(&out, codec_of(t->layout, table, how.plain), spec, 0, n,
                      (uint8_t *)(marks + mark_words(n)));
    memset(marks, 0, mark_words(n) * sizeof *marks);
    for (uint32_t first = 0; first < n; first += READ_ROWS) {
        const float *w[READ_ROWS];
        uint32_t count = n - first < READ_ROWS ? n - first : READ_ROWS;
        look_up(t, table, mixed + first, count, how.at, w);
        for (uint32_t i = 0; i < count; i++) {
            if (how.aside)
                (void)aside_find(t, table, mixed[first + i], &at, &w[i]);
            if (!w[i])
                continue;
            marks[(first + i) / 32] |= UINT32_C(1) << ((first + i) % 32);
            row_encoder_put(&out, first + i, mixed[first + i], w[i]);
            read++;
        }
    }
    t->traffic.asked += n;
    t->traffic.read += read;
    t->traffic.read_bytes += read * spec->dim * sizeof(float);
    uint64_t bytes = (uint64_t)(out.out - (uint8_t *)marks);
    memset(out.out, 0, whole_marks(bytes) - bytes);
    return whole_marks(bytes);
}

uint64_t row_tables_read(struct row_tables *t, const struct row_keys *of, struct row_reading how,
                         void *out)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < t->layout->tables; i++) {
        uint32_t list = t->layout->table[i].list;
        uint32_t *marks = (uint32_t *)(void *)((uint8_t *)out + bytes);
        bytes += read_table(t, i, of->keys[list], of->mixed[list], how, marks);
    }
    assert(bytes <= row_tables_answer_most(t->layout, of->keys, how.plain));
    return bytes;
}

/* ---- updating ---- */

/* The touched rows of all tables, one table after the other. */
struct touched {
    uint32_t part;
    struct buffer *memory;
    uint32_t *row[ROW_TABLES_MAX];    /* of each table: (keys of its list) */
    uint32_t *before[ROW_TABLES_MAX]; /* the same before rows were created */
    uint32_t *old[ROW_TABLES_MAX];    /* the same with absent rows that are still in memory */
    uint32_t *undo[ROW_TABLES_MAX];   /* for row_admit_undo */
};

/* A position in the touched rows: a table, and a key of its list. */
struct touched_end {
    uint32_t table, key;
};

/* Replace the rows of row[] that are absent at this clock by ROW_NONE. */
static void drop_absent(const struct row_tables *t, uint32_t table, uint64_t clock, uint32_t *row,
                        uint32_t n)
{
    uint32_t unseen = t->evict[table].unseen_steps;
    uint64_t floor = t->budget.floor;
    for (uint32_t k = 0; (unseen || floor) && k < n; k++) {
        uint64_t stamp = row[k] == ROW_NONE ? 0 : row_stamp(t->table[table], row[k]);
        if (row[k] != ROW_NONE &&
            (!row_is_above(floor, stamp) || !row_is_there(unseen, stamp, clock)))
            row[k] = ROW_NONE;
    }
}

/* Find the touched rows that are present at this clock. */
static enum err find_touched(const struct row_tables *t, const struct row_grads *g, uint64_t clock,
                             struct touched *of)
{
    const struct row_layout *l = t->layout;
    size_t all = 0;
    for (uint32_t i = 0; i < l->tables; i++)
        all += g->keys[l->table[i].list];
    of->memory = buffer_acquire(t->pool, 4 * all);
    if (!of->memory)
        return ERR_NOMEM;
    uint32_t *at = (uint32_t *)(void *)of->memory->data;
    for (uint32_t i = 0; i < l->tables; i++) {
        uint32_t list = l->table[i].list, n = g->keys[list];
        of->row[i] = at;
        of->before[i] = at + n;
        of->undo[i] = at + 2 * (size_t)n;
        of->old[i] = at + 3 * (size_t)n;
        (void)row_table_find(t->table[i], g->mixed[list], n, of->row[i]);
        memcpy(of->old[i], of->row[i], n * sizeof *at);
        drop_absent(t, i, clock, of->row[i], n);
        memcpy(of->before[i], of->row[i], n * sizeof *at);
        at += 4 * (size_t)n;
    }
    return ERR_OK;
}

/* Remove the rows that were created, and undo the counted touches of the keys before `end`, the last one first. */
static void uncreate(struct row_tables *t, const struct row_grads *g, const struct touched *of,
                     struct touched_end end)
{
    for (uint32_t i = end.table + 1; i-- > 0;) {
        uint32_t list = t->layout->table[i].list;
        for (uint32_t k = i == end.table ? end.key : g->keys[list]; k-- > 0;) {
            if (of->before[i][k] != ROW_NONE)
                continue;
            if (of->row[i][k] != ROW_NONE) {
                /* If it used the memory of an absent row, that row's contents are lost (a cut has kept its copy), so the
                 * absent row is removed, too, as the sweeper would do. */
                if (of->old[i][k] != ROW_NONE)
                    t->counts[i].evicted +=
                        row_evict_leave(&t->evict[i], row_stamp(t->table[i], of->old[i][k]));
                row_table_remove(t->table[i], g->mixed[list][k]);
            }
            row_admit_undo(&t->admit[i], g->mixed[list][k], of->undo[i][k]);
        }
    }
}

/* Create a row for key k of a table's list, in new memory or in the memory of the key's absent row. Errors: ERR_NOMEM. */
static enum err make_row(struct row_tables *t, uint32_t table, uint64_t mixed, uint32_t old,
                         uint32_t *row)
{
    struct row_table *to = t->table[table];
    if (old == ROW_NONE && row_table_add(to, mixed, row))
        return ERR_NOMEM;
    if (old != ROW_NONE) { /* a cut of an earlier moment can contain it */
        row_cut_keep(&t->cut, table, &mixed, &old, 1);
        row_evict_left(&t->evict[table]);
        *row = old;
        row_set_count(to, old, 0);
    }
    row_first_value(&t->layout->table[table], t->seed, mixed, row_weights(to, *row));
    row_update_begin(to, &t->optimizer[table], *row);
    return ERR_OK;
}

/* True: the budget has room for the row. *err: the job must end because it has not. */
static bool has_room(struct row_tables *t, uint32_t part, uint32_t table, enum err *err)
{
    if (row_budget_takes(t, part, table))
        return true;
    t->budget.full_table = table;
    *err = t->budget.full == ROW_FULL_STOP ? ERR_TOOBIG : ERR_OK;
    return false;
}

/* Key k of a table's list is touched and missing: create its row if it is admitted and the budget has room. */
static enum err touch_absent(struct row_tables *t, uint32_t table, uint64_t mixed, uint32_t k,
                             uint64_t clock, struct touched *of)
{
    uint32_t *row = &of->row[table][k], *undo = &of->undo[table][k], old = of->old[table][k];
    enum err err = ERR_OK;
    row_cut_keep_sketch(&t->cut, table, key_bucket(mixed));
    if (!row_admit_touch(&t->admit[table], mixed, clock, undo)) {
        t->counts[table].dropped++;
        return ERR_OK;
    }
    bool made = has_room(t, of->part, table, &err);
    if (made)
        err = make_row(t, table, mixed, old, row);
    if (err) {
        row_admit_undo(&t->admit[table], mixed, *undo);
        *row = ROW_NONE;
        return err;
    }
    t->counts[table].admitted += made;
    t->counts[table].refused += !made;
    return ERR_OK;
}

/* Create rows in ascending order of the keys, because the counts of a sketch depend on the order. */
static enum err create(struct row_tables *t, const struct row_grads *g, uint64_t clock,
                       struct touched *of)
{
    struct row_counts before[ROW_TABLES_MAX];
    uint32_t tables = t->layout->tables;
    uint64_t taken = t->budget.taken[of->part];
    memcpy(before, t->counts, tables * sizeof *before);
    for (uint32_t i = 0; i < tables; i++) {
        uint32_t list = t->layout->table[i].list;
        for (uint32_t k = 0; k < g->keys[list]; k++) {
            enum err err = of->row[i][k] == ROW_NONE
                               ? touch_absent(t, i, g->mixed[list][k], k, clock, of)
                               : ERR_OK;
            if (err) {
                memcpy(t->counts, before, tables * sizeof *before);
                t->budget.taken[of->part] = taken;
                uncreate(t, g, of, (struct touched_end){i, k});
                return err;
            }
        }
    }
    return ERR_OK;
}

/* Count the new stamps of touched rows. */
static void count_stamps(struct row_tables *t, const struct row_grads *g, const struct touched *of,
                         uint64_t clock)
{
    for (uint32_t i = 0; i < t->layout->tables; i++) {
        uint32_t n = g->keys[t->layout->table[i].list];
        for (uint32_t k = 0; t->evict[i].unseen_steps && k < n; k++) {
            if (of->row[i][k] == ROW_NONE)
                continue;
            bool left = of->old[i][k] != ROW_NONE &&
                        row_evict_leave(&t->evict[i], row_stamp(t->table[i], of->old[i][k]));
            t->counts[i].evicted += left && of->before[i][k] == ROW_NONE;
            row_evict_enter(&t->evict[i], clock);
        }
    }
}

static void update(struct row_tables *t, const struct row_grads *g, const struct touched *of,
                   const struct row_step *u)
{
    for (uint32_t i = 0; i < t->layout->tables; i++) {
        uint32_t n = g->keys[t->layout->table[i].list];
        const struct row_update how = {.t = u->t,
                                       .inv_n = u->inv_n,
                                       .scale = u->scale,
                                       .staleness = u->staleness,
                                       .stamp = u->clock};
        row_update_apply(t->table[i], &t->optimizer[i], &how, of->row[i], n, g->g[i]);
        uint64_t there = 0, floats = 2 * t->table[i]->dim + t->table[i]->slot_floats;
        for (uint32_t k = 0; k < n; k++)
            there += of->row[i][k] != ROW_NONE;
        t->traffic.touched += there;
        t->traffic.touched_bytes += there * floats * sizeof(float);
    }
}

enum err row_tables_update(struct row_tables *t, uint32_t part, const struct row_grads *g,
                           const struct row_step *u)
{
    struct touched of = {.part = part};
    assert(part < ROW_PARTS && u->t > 0);
    if (t->budget.bytes)
        row_budget_begin(t, part, g, row_tables_bytes(t));
    enum err err = find_touched(t, g, u->clock - 1, &of);
    if (err)
        return err;
    if (u->aside)
        err = row_aside_set(&t->aside[part], t->layout, t->table, g, of.before, t->pool);
    if (!err)
        err = create(t, g, u->clock, &of);
    if (!err) {
        /* Keep copies of the rows that a cut still needs before they change. Created rows are not in the cut. */
        for (uint32_t i = 0; i < t->layout->tables; i++) {
            uint32_t list = t->layout->table[i].list;
            row_cut_keep(&t->cut, i, g->mixed[list], of.before[i], g->keys[list]);
        }
        count_stamps(t, g, &of, u->clock);
        update(t, g, &of, u);
    } else {
        row_aside_forget(&t->aside[part]);
    }
    buffer_unref(of.memory);
    return err;
}

enum err row_tables_begin_cut(struct row_tables *t, struct row_moment moment, uint64_t most_bytes)
{
    return row_cut_begin(&t->cut, t->table, t->admit, t->layout->tables, t->buckets, moment,
                         most_bytes);
}

/* ---- eviction ---- */

void row_tables_advance(struct row_tables *t, uint64_t clock)
{
    for (uint32_t i = 0; i < t->layout->tables; i++)
        t->counts[i].evicted += row_evict_advance(&t->evict[i], clock);
    row_budget_step(t, clock);
}

void row_tables_sweep(struct row_tables *t, uint64_t clock)
{
    uint64_t floor = t->budget.floor;
    bool tight = t->budget.bytes && row_tables_bytes(t) > t->budget.bytes;
    if (t->cut.on && t->cut.moment.clock < clock)
        clock = t->cut.moment.clock;
    if (t->cut.on && t->cut.moment.floor < floor)
        floor = t->cut.moment.floor;
    for (uint32_t i = 0; i < t->layout->tables; i++) {
        row_evict_sweep(&t->evict[i], t->table[i], clock, floor);
        row_index_tend(&t->table[i]->index);
        row_table_pack(t->table[i], tight);
    }
}

void row_tables_count(struct row_tables *t, uint64_t clock)
{
    for (uint32_t i = 0; i < t->layout->tables; i++)
        row_evict_count(&t->evict[i], t->table[i], clock);
    row_budget_step(t, clock);
}

/* ---- numbers ---- */

struct row_counts row_tables_counts(const struct row_tables *t, uint32_t table)
{
    struct row_counts counts = t->counts[table];
    counts.rows = row_evict_rows(&t->evict[table], t->table[table]);
    return counts;
}

uint64_t row_tables_rows(const struct row_tables *t)
{
    uint64_t rows = 0;
    for (uint32_t i = 0; i < t->layout->tables; i++)
        rows += row_evict_rows(&t->evict[i], t->table[i]);
    return rows;
}

uint64_t row_tables_bytes(const struct row_tables *t)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < t->layout->tables; i++)
        bytes += row_table_bytes(t->table[i]) + row_admit_bytes(&t->admit[i]);
    return bytes;
}
