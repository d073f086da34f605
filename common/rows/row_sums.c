#include "common/rows/row_sums.h"

#include <assert.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/math/kernels.h"

void row_sums_init(struct row_sums *s, const struct row_layout *layout)
{
    *s = (struct row_sums){.layout = layout};
}

void row_sums_close(struct row_sums *s)
{
    for (uint32_t i = 0; i < ROW_TABLES_MAX; i++) {
        mem_free(s->list[i].mixed);
        mem_free(s->g[i]);
    }
    *s = (struct row_sums){.layout = s->layout};
}

static void forget_room(struct row_sums *s, uint32_t list)
{
    mem_free(s->list[list].mixed);
    s->list[list] = (struct row_sums_list){0};
    for (uint32_t t = 0; t < s->layout->tables; t++) {
        if (s->layout->table[t].list != list)
            continue;
        mem_free(s->g[t]);
        s->g[t] = NULL;
    }
}

/* Makes room for `keys` keys of a list. If it must grow, its contents are lost. */
static enum err reserve(struct row_sums *s, uint32_t list, uint64_t keys)
{
    if (keys <= s->list[list].room)
        return ERR_OK;
    uint64_t room = keys + keys / 4;
    forget_room(s, list);
    bool there = room <= UINT32_MAX && (s->list[list].mixed = mem_zalloc(room, sizeof(uint64_t)));
    for (uint32_t t = 0; t < s->layout->tables && there; t++)
        if (s->layout->table[t].list == list)
            there = (s->g[t] = mem_floats(room * s->layout->table[t].dim)) != NULL;
    if (!there) {
        forget_room(s, list);
        return ERR_NOMEM;
    }
    s->list[list].room = (uint32_t)room;
    return ERR_OK;
}

static void no_keys(struct row_sums *s)
{
    for (uint32_t i = 0; i < s->layout->lists; i++)
        s->list[i].keys = 0;
}

enum err row_sums_begin(struct row_sums *s, const struct leaf_keys *keys)
{
    no_keys(s);
    for (uint32_t i = 0; keys && i < s->layout->lists; i++) {
        uint32_t n = keys->list[i].keys;
        if (reserve(s, i, n)) {
            no_keys(s);
            return ERR_NOMEM;
        }
        if (n)
            memcpy(s->list[i].mixed, keys->list[i].mixed, n * sizeof(uint64_t));
        s->list[i].keys = n;
    }
    for (uint32_t t = 0; t < s->layout->tables; t++) {
        size_t n = s->list[s->layout->table[t].list].keys;
        if (n)
            memset(s->g[t], 0, n * s->layout->table[t].dim * sizeof(float));
    }
    return ERR_OK;
}

/* One side of a merge. */
struct side {
    const struct row_sums *of;
    uint32_t at, keys;
    const uint64_t *mixed;
};

static struct side side_of(const struct row_sums *s, uint32_t list)
{
    return (struct side){s, 0, s->list[list].keys, s->list[list].mixed};
}

static void put(struct row_sums *out, uint32_t list, uint32_t at, const struct side *a,
                const struct side *b)
{
    for (uint32_t t = 0; t < out->layout->tables; t++) {
        if (out->layout->table[t].list != list)
            continue;
        size_t dim = out->layout->table[t].dim;
        float *g = out->g[t] + at * dim;
        const float *one = a->of->g[t] + a->at * dim;
        if (b)
            kernels()->add(g, one, b->of->g[t] + b->at * dim, dim);
        else
            memcpy(g, one, dim * sizeof *g);
    }
}

static void merge(struct row_sums *out, uint32_t list, struct side l, struct side r)
{
    uint32_t n = 0;
    while (l.at < l.keys || r.at < r.keys) {
        bool left = r.at == r.keys || (l.at < l.keys && l.mixed[l.at] <= r.mixed[r.at]);
        bool right = l.at == l.keys || (r.at < r.keys && r.mixed[r.at] <= l.mixed[l.at]);
        out->list[list].mixed[n] = left ? l.mixed[l.at] : r.mixed[r.at];
        put(out, list, n++, left ? &l : &r, left && right ? &r : NULL);
        l.at += left;
        r.at += right;
    }
    out->list[list].keys = n;
}

enum err row_sums_add(struct row_sums *out, const struct row_sums *left,
                      const struct row_sums *right)
{
    assert(out != left && out != right);
    no_keys(out);
    for (uint32_t i = 0; i < out->layout->lists; i++) {
        struct side l = side_of(left, i), r = side_of(right, i);
        if (reserve(out, i, (uint64_t)l.keys + r.keys)) {
            no_keys(out);
            return ERR_NOMEM;
        }
        merge(out, i, l, r);
    }
    return ERR_OK;
}

void row_squares_add(double *squares, struct bucket_range of, const uint64_t *mixed, const float *g,
                     uint32_t n, uint32_t dim)
{
    for (uint32_t first = 0, end = 0; first < n; first = end) {
        uint32_t bucket = key_bucket(mixed[first]);
        assert(bucket >= of.first && bucket < of.end);
        while (end < n && key_bucket(mixed[end]) == bucket)
            end++;
        squares[bucket - of.first] +=
            kernels()->sum_squares(g + (size_t)first * dim, (size_t)(end - first) * dim);
    }
}

uint32_t row_squares_beyond(const float *g, double most, uint32_t n, uint32_t dim)
{
    uint32_t i = 0;
    while (i < n && kernels()->sum_squares(g + (size_t)i * dim, dim) <= most)
        i++;
    return i;
}
