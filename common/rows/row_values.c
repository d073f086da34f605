#include "common/rows/row_values.h"

#include <assert.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/rows/key.h"

void row_values_init(struct row_values *v, const struct row_layout *layout)
{
    *v = (struct row_values){.layout = layout};
}

static void forget(struct row_values *v, uint32_t list)
{
    struct row_value_keys *k = &v->list[list];
    mem_free(k->mixed);
    mem_free(v->absent[list]);
    v->absent[list] = NULL;
    *k = (struct row_value_keys){0};
    for (uint32_t t = 0; t < v->layout->tables; t++)
        if (v->layout->table[t].list == list) {
            mem_free(v->w[t]);
            v->w[t] = NULL;
        }
}

void row_values_close(struct row_values *v)
{
    for (uint32_t i = 0; v->layout && i < v->layout->lists; i++)
        forget(v, i);
    mem_free(v->scratch);
    *v = (struct row_values){0};
}

/* A quarter more than requested, so that steps of similar size soon allocate nothing. */
static uint32_t roomy(uint32_t keys)
{
    uint64_t room = (uint64_t)keys + keys / 4 + 16;
    return room < UINT32_MAX ? (uint32_t)room : UINT32_MAX;
}

static bool allocate(struct row_values *v, uint32_t list, uint32_t room)
{
    v->list[list].mixed = mem_resize(NULL, room, sizeof *v->list[list].mixed);
    v->absent[list] = mem_resize(NULL, room, sizeof *v->absent[list]);
    bool all = v->list[list].mixed && v->absent[list];
    for (uint32_t t = 0; t < v->layout->tables && all; t++)
        if (v->layout->table[t].list == list) {
            v->w[t] = mem_floats((size_t)room * v->layout->table[t].dim);
            all = v->w[t] != NULL;
        }
    return all;
}

enum err row_values_reserve(struct row_values *v, uint32_t list, uint32_t keys, struct errmsg *e)
{
    assert(list < v->layout->lists);
    if (keys > v->list[list].room) {
        forget(v, list);
        if (!allocate(v, list, roomy(keys))) {
            forget(v, list);
            return err_memory_for(e, "%u rows of tables", keys);
        }
        v->list[list].room = roomy(keys);
    }
    v->list[list].keys = keys;
    if (keys)
        memset(v->absent[list], 1, keys * sizeof *v->absent[list]);
    return ERR_OK;
}

/* ---- the union of leaves' keys ---- */

/* Merges the ascending keys a (na) and b (nb) into `out` without duplicates; returns their number. `out` has room
 * for na + nb. */
static size_t merge(uint64_t *out, const uint64_t *a, size_t na, const uint64_t *b, size_t nb)
{
    size_t n = 0, i = 0, j = 0;
    while (i < na && j < nb) {
        uint64_t x = a[i], y = b[j];
        out[n++] = x < y ? x : y;
        i += x <= y;
        j += y <= x;
    }
    memcpy(out + n, a + i, (na - i) * sizeof *out);
    n += na - i;
    memcpy(out + n, b + j, (nb - j) * sizeof *out);
    return n + nb - j;
}

static size_t keys_of(const struct leaf_keys *leaf, uint32_t list)
{
    return leaf ? leaf->list[list].keys : 0;
}

/* Writes the union of n leaves' keys of one list to `out`. `out` and `scratch` have room for all keys of all
 * leaves. */
static size_t unite(uint64_t *out, uint64_t *scratch, const struct leaf_keys *const *leaf,
                    uint32_t n, uint32_t list)
{
    if (n == 1) {
        size_t keys = keys_of(leaf[0], list);
        if (keys)
            memcpy(out, leaf[0]->list[list].mixed, keys * sizeof *out);
        return keys;
    }
    size_t before = 0;
    for (uint32_t i = 0; i < n / 2; i++)
        before += keys_of(leaf[i], list);
    size_t left = unite(scratch, out, leaf, n / 2, list);
    size_t right = unite(scratch + before, out + before, leaf + n / 2, n - n / 2, list);
    return merge(out, scratch, left, scratch + before, right);
}

static enum err grow_scratch(struct row_values *v, size_t keys, struct errmsg *e)
{
    if (keys <= v->scratch_keys)
        return ERR_OK;
    size_t room = keys + keys / 4;
    uint64_t *grown = mem_resize(v->scratch, room, sizeof *grown);
    if (!grown)
        return err_memory_for(e, "the keys of a batch");
    v->scratch = grown;
    v->scratch_keys = room;
    return ERR_OK;
}

static enum err want(struct row_values *v, uint32_t list, const struct leaf_keys *const *leaf,
                     uint32_t leaves, struct errmsg *e)
{
    size_t all = 0;
    for (uint32_t i = 0; i < leaves; i++)
        all += keys_of(leaf[i], list);
    v->list[list].keys = 0;
    enum err err = grow_scratch(v, 2 * all, e);
    if (err || all == 0)
        return err;
    size_t keys = unite(v->scratch, v->scratch + all, leaf, leaves, list);
    if (keys > UINT32_MAX)
        return err_set(e, ERR_NOMEM,
                       "a batch looks up %zu keys of one table; allowed: fewer than 2^32", keys);
    err = row_values_reserve(v, list, (uint32_t)keys, e);
    if (!err)
        memcpy(v->list[list].mixed, v->scratch, keys * sizeof *v->scratch);
    return err;
}

enum err row_values_want(struct row_values *v, const struct leaf_keys *const *leaf, uint32_t leaves,
                         struct errmsg *e)
{
    enum err err = ERR_OK;
    for (uint32_t i = 0; i < v->layout->lists && !err; i++)
        err = want(v, i, leaf, leaves, e);
    return err;
}

/* ---- reading ---- */

void row_values_miss(struct row_values *v, uint32_t table, uint64_t seed, uint32_t i)
{
    const struct row_table_spec *t = &v->layout->table[table];
    row_absent_value(t, seed, v->list[t->list].mixed[i], v->w[table] + (size_t)i * t->dim);
}

static void copy_row(const struct row_values *v, uint32_t list, size_t from, size_t to,
                     float *const *w)
{
    for (uint32_t t = 0; t < v->layout->tables; t++) {
        size_t dim = v->layout->table[t].dim;
        if (v->layout->table[t].list == list)
            memcpy(w[t] + to * dim, v->w[t] + from * dim, dim * sizeof *w[t]);
    }
}

uint32_t row_values_copy(const struct row_values *v, uint32_t list, const struct key_list *keys,
                         float *const *w, uint8_t *absent)
{
    const struct row_value_keys *have = &v->list[list];
    uint32_t found = 0;
    for (uint32_t i = 0, at = 0; i < keys->keys && at < have->keys; i++) {
        while (at < have->keys && have->mixed[at] < keys->mixed[i])
            at++;
        if (at == have->keys || have->mixed[at] != keys->mixed[i])
            continue;
        copy_row(v, list, at, i, w);
        if (absent)
            absent[i] = v->absent[list][at];
        found++;
    }
    return found;
}

/* ---- lookups that find nothing ---- */

static void keep_miss(struct row_misses *m, uint64_t mixed, uint64_t times)
{
    uint32_t i = 0;
    while (i < m->kept && m->mixed[i] != mixed)
        i++;
    if (i == ROW_MISSES_KEPT)
        return;
    m->mixed[i] = mixed;
    m->times[i] += times;
    m->kept += i == m->kept;
}

void row_misses_count(struct row_misses *m, const struct lookup_column *c, uint32_t n,
                      const struct key_list *list, const uint8_t *absent)
{
    const uint64_t zero = key_mix(0);
    m->rows += n;
    for (uint32_t row = 0; row < n; row++)
        for (uint32_t i = 0; i < (c->count ? c->count[row] : c->width); i++) {
            const uint32_t at = c->at[(size_t)row * c->width + i];
            m->lookups += at != LOOKUP_NONE;
            m->zeros += at != LOOKUP_NONE && list->mixed[at] == zero;
            if (at == LOOKUP_NONE || !absent[at])
                continue;
            m->missed++;
            keep_miss(m, list->mixed[at], 1);
        }
}

void row_misses_join(struct row_misses *m, const struct row_misses *other)
{
    m->lookups += other->lookups;
    m->missed += other->missed;
    m->rows += other->rows;
    m->zeros += other->zeros;
    for (uint32_t i = 0; i < other->kept; i++)
        keep_miss(m, other->mixed[i], other->times[i]);
}
