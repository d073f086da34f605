#include "ps/rows/row_tables.h"

#include <assert.h>
#include <string.h>

#include "ps/rows/row_update.h"

enum { READ_ROWS = 256 }; /* looked up at a time: what the caches hold on its way */

enum err row_tables_init(struct row_tables *t, const struct row_layout *l,
                         struct bucket_range buckets, const struct optimizer *o, uint64_t seed,
                         struct buffer_pool *pool)
{
    *t = (struct row_tables){
        .layout = l, .buckets = buckets, .seed = seed, .optimizer = *o, .pool = pool};
    for (uint32_t i = 0; i < l->tables; i++) {
        uint32_t dim = l->table[i].dim;
        if (row_table_new(&t->table[i], dim, row_update_slot_floats(o, dim), buckets)) {
            row_tables_close(t);
            return ERR_NOMEM;
        }
    }
    return ERR_OK;
}

void row_tables_close(struct row_tables *t)
{
    row_tables_forget_aside(t);
    for (uint32_t i = 0; i < ROW_TABLES_MAX; i++)
        row_table_free(t->table[i]);
    *t = (struct row_tables){.layout = NULL};
}

/* ---- what is set aside ---- */

void row_tables_forget_aside(struct row_tables *t)
{
    for (uint32_t part = 0; part < ROW_PARTS; part++) {
        buffer_unref(t->aside[part].memory);
        t->aside[part].memory = NULL;
    }
}

/* Where a reader with ascending keys stands in what is set aside. */
struct aside_at {
    uint32_t part, key;
};

/* Is the key set aside? Then *w is the row that it had, NULL: none. */
static bool aside_find(const struct row_tables *t, uint32_t table, uint64_t mixed,
                       struct aside_at *at, const float **w)
{
    const struct row_table_spec *spec = &t->layout->table[table];
    while (key_bucket(mixed) >= bucket_part(t->buckets, at->part).end)
        *at = (struct aside_at){.part = at->part + 1};
    const struct row_aside *a = &t->aside[at->part];
    if (!a->memory)
        return false;
    uint32_t keys = a->keys[spec->list];
    const uint64_t *has = a->mixed[spec->list];
    while (at->key < keys && has[at->key] < mixed)
        at->key++;
    if (at->key == keys || has[at->key] != mixed)
        return false;
    *w = a->there[table][at->key] ? a->w[table] + (size_t)at->key * spec->dim : NULL;
    return true;
}

/* ---- reading ---- */

static uint64_t mark_words(uint32_t keys)
{
    return ((uint64_t)keys + 31) / 32;
}

uint64_t row_tables_answer_most(const struct row_layout *l, const uint32_t *keys)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < l->tables; i++) {
        uint32_t n = keys[l->table[i].list];
        bytes += mark_words(n) * sizeof(uint32_t) + (uint64_t)n * l->table[i].dim * sizeof(float);
    }
    return bytes;
}

/* w[i] = the row of mixed[i] as it stands in the table, or NULL; on its way to the cache. */
static void look_up(const struct row_table *t, const uint64_t *mixed, uint32_t n, const float **w)
{
    uint32_t row[READ_ROWS];
    (void)row_table_find(t, mixed, n, row);
    for (uint32_t i = 0; i < n; i++) {
        w[i] = row[i] == ROW_NONE ? NULL : row_weights(t, row[i]);
        if (w[i])
            __builtin_prefetch(w[i]);
    }
}

static uint64_t read_table(const struct row_tables *t, uint32_t table, uint32_t n,
                           const uint64_t *mixed, bool aside, uint32_t *marks)
{
    uint32_t dim = t->layout->table[table].dim;
    float *out = (float *)(void *)(marks + mark_words(n));
    struct aside_at at = {0, 0};
    memset(marks, 0, mark_words(n) * sizeof *marks);
    for (uint32_t first = 0; first < n; first += READ_ROWS) {
        const float *w[READ_ROWS];
        uint32_t count = n - first < READ_ROWS ? n - first : READ_ROWS;
        look_up(t->table[table], mixed + first, count, w);
        for (uint32_t i = 0; i < count; i++) {
            if (aside)
                (void)aside_find(t, table, mixed[first + i], &at, &w[i]);
            if (!w[i])
                continue;
            marks[(first + i) / 32] |= UINT32_C(1) << ((first + i) % 32);
            memcpy(out, w[i], dim * sizeof *out);
            out += dim;
        }
    }
    return (uint64_t)((uint8_t *)out - (uint8_t *)marks);
}

uint64_t row_tables_read(const struct row_tables *t, const struct row_keys *of, bool aside,
                         void *out)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < t->layout->tables; i++) {
        uint32_t list = t->layout->table[i].list;
        uint32_t *marks = (uint32_t *)(void *)((uint8_t *)out + bytes);
        bytes += read_table(t, i, of->keys[list], of->mixed[list], aside, marks);
    }
    assert(bytes <= row_tables_answer_most(t->layout, of->keys));
    return bytes;
}

/* ---- updating ---- */

/* The touched rows of all tables, one behind the other. */
struct touched {
    struct buffer *memory;
    uint32_t *row[ROW_TABLES_MAX];    /* of each table: (keys of its list) */
    uint32_t *before[ROW_TABLES_MAX]; /* the same before rows were created */
};

static enum err find_touched(const struct row_tables *t, const struct row_grads *g,
                             struct touched *of)
{
    const struct row_layout *l = t->layout;
    size_t all = 0;
    for (uint32_t i = 0; i < l->tables; i++)
        all += g->keys[l->table[i].list];
    of->memory = buffer_acquire(t->pool, 2 * all);
    if (!of->memory)
        return ERR_NOMEM;
    uint32_t *at = (uint32_t *)(void *)of->memory->data;
    for (uint32_t i = 0; i < l->tables; i++) {
        uint32_t list = l->table[i].list, n = g->keys[list];
        of->row[i] = at;
        of->before[i] = at + n;
        (void)row_table_find(t->table[i], g->mixed[list], n, of->row[i]);
        memcpy(of->before[i], of->row[i], n * sizeof *at);
        at += 2 * (size_t)n;
    }
    return ERR_OK;
}

static uint64_t aside_bytes(const struct row_layout *l, const struct row_grads *g)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < l->lists; i++)
        bytes += (uint64_t)g->keys[i] * sizeof(uint64_t);
    for (uint32_t i = 0; i < l->tables; i++)
        bytes += (uint64_t)g->keys[l->table[i].list] * (l->table[i].dim * sizeof(float) + 1);
    return bytes;
}

/* Point to keys, then rows, then marks in a->memory; a->keys is set. */
static void aside_lay_out(struct row_aside *a, const struct row_layout *l)
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

static enum err set_aside(struct row_tables *t, uint32_t part, const struct row_grads *g,
                          const struct touched *of)
{
    const struct row_layout *l = t->layout;
    struct row_aside *a = &t->aside[part];
    assert(!a->memory);
    a->memory = buffer_acquire(t->pool, aside_bytes(l, g) / sizeof(float) + 1);
    if (!a->memory)
        return ERR_NOMEM;
    memcpy(a->keys, g->keys, l->lists * sizeof *a->keys);
    aside_lay_out(a, l);
    for (uint32_t i = 0; i < l->lists; i++)
        memcpy((uint64_t *)a->mixed[i], g->mixed[i], g->keys[i] * sizeof(uint64_t));
    for (uint32_t i = 0; i < l->tables; i++) {
        uint32_t n = g->keys[l->table[i].list];
        uint8_t *there = (uint8_t *)a->there[i];
        for (uint32_t k = 0; k < n; k++)
            there[k] = of->before[i][k] != ROW_NONE;
        row_table_gather(t->table[i], of->before[i], n, (float *)a->w[i]);
    }
    return ERR_OK;
}

/* Those that were created go again. */
static void uncreate(struct row_tables *t, const struct row_grads *g, const struct touched *of)
{
    for (uint32_t i = 0; i < t->layout->tables; i++) {
        uint32_t list = t->layout->table[i].list;
        for (uint32_t k = 0; k < g->keys[list]; k++)
            if (of->before[i][k] == ROW_NONE && of->row[i][k] != ROW_NONE)
                row_table_remove(t->table[i], g->mixed[list][k]);
    }
}

static enum err create(struct row_tables *t, const struct row_grads *g, struct touched *of)
{
    for (uint32_t i = 0; i < t->layout->tables; i++) {
        const struct row_table_spec *spec = &t->layout->table[i];
        for (uint32_t k = 0; k < g->keys[spec->list]; k++) {
            uint64_t mixed = g->mixed[spec->list][k];
            uint32_t *row = &of->row[i][k];
            if (*row != ROW_NONE)
                continue;
            if (row_table_add(t->table[i], mixed, row)) {
                *row = ROW_NONE;
                uncreate(t, g, of);
                return ERR_NOMEM;
            }
            row_first_value(spec, t->seed, mixed, row_weights(t->table[i], *row));
            row_update_begin(t->table[i], &t->optimizer, *row);
        }
    }
    return ERR_OK;
}

static void update(struct row_tables *t, const struct row_grads *g, const struct touched *of,
                   const struct row_step *u)
{
    for (uint32_t i = 0; i < t->layout->tables; i++) {
        uint32_t n = g->keys[t->layout->table[i].list];
        const struct row_update how = {.t = u->t, .inv_n = u->inv_n, .stamp = u->clock};
        row_update_apply(t->table[i], &t->optimizer, &how, of->row[i], n, g->g[i]);
    }
}

enum err row_tables_update(struct row_tables *t, uint32_t part, const struct row_grads *g,
                           const struct row_step *u)
{
    struct touched of;
    assert(part < ROW_PARTS && u->t > 0);
    enum err err = find_touched(t, g, &of);
    if (err)
        return err;
    if (u->aside)
        err = set_aside(t, part, g, &of);
    if (!err)
        err = create(t, g, &of);
    if (!err) {
        update(t, g, &of, u);
    } else {
        buffer_unref(t->aside[part].memory);
        t->aside[part].memory = NULL;
    }
    buffer_unref(of.memory);
    return err;
}

/* ---- numbers ---- */

uint64_t row_tables_rows(const struct row_tables *t)
{
    uint64_t rows = 0;
    for (uint32_t i = 0; i < t->layout->tables; i++)
        rows += row_table_rows(t->table[i]);
    return rows;
}

uint64_t row_tables_bytes(const struct row_tables *t)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < t->layout->tables; i++)
        bytes += row_table_bytes(t->table[i]);
    return bytes;
}
