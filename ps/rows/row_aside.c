#include "ps/rows/row_aside.h"

#include <assert.h>
#include <string.h>

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

enum err row_aside_set(struct row_aside *a, const struct row_layout *l,
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

void row_aside_forget(struct row_aside *a)
{
    buffer_unref(a->memory);
    a->memory = NULL;
}

bool row_aside_find(const struct row_aside *a, const struct row_layout *l, uint32_t table,
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
