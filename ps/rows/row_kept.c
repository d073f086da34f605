#include "ps/rows/row_kept.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"

/* Chunks are mapped (mmap): the heap would return many of them to the system in a single call, at an arbitrary time. */
enum { CHUNK_BYTES = 1 << 20 };

enum err row_kept_init(struct row_kept *k, struct row_table *const *table, uint32_t tables,
                       struct bucket_range buckets)
{
    *k = (struct row_kept){.buckets = buckets, .tables = tables};
    k->list = mem_zalloc((size_t)(buckets.end - buckets.first) * tables, sizeof *k->list);
    if (!k->list)
        return ERR_NOMEM;
    for (uint32_t i = 0; i < tables; i++) {
        struct row_kept_pool *p = &k->pool[i];
        p->width = table[i]->dim + table[i]->slot_floats;
        size_t bytes = sizeof(struct row_kept_head) + p->width * sizeof(float);
        p->bytes = (uint32_t)((bytes + 7) & ~(size_t)7);
        while (p->bytes << (p->shift + 1) <= CHUNK_BYTES)
            p->shift++;
    }
    return ERR_OK;
}

static size_t chunk_bytes(const struct row_kept_pool *p)
{
    return (size_t)p->bytes << p->shift;
}

bool row_kept_close_some(struct row_kept *k)
{
    uint32_t i = 0;
    while (i < k->tables && !k->pool[i].chunks)
        i++;
    if (i < k->tables) {
        struct row_kept_pool *p = &k->pool[i];
        mem_unmap(p->chunk[--p->chunks], chunk_bytes(p));
        return false;
    }
    for (i = 0; i < k->tables; i++)
        mem_free(k->pool[i].chunk);
    mem_free(k->list);
    mem_free(k->key);
    *k = (struct row_kept){.tables = 0};
    return true;
}

void row_kept_close(struct row_kept *k)
{
    while (!row_kept_close_some(k))
        ;
}

/* ---- pools ---- */

static struct row_kept_head *at(const struct row_kept_pool *p, uint32_t row)
{
    uint8_t *chunk = p->chunk[row >> p->shift];
    size_t in_chunk = row & ((UINT32_C(1) << p->shift) - 1);
    return (struct row_kept_head *)(void *)(chunk + in_chunk * p->bytes);
}

static enum err add_chunk(struct row_kept_pool *p)
{
    uint8_t **grown = mem_grow(p->chunk, &p->capacity, (size_t)p->chunks + 1, sizeof *grown);
    if (!grown)
        return ERR_NOMEM;
    p->chunk = grown;
    uint8_t *chunk = mem_map(chunk_bytes(p));
    if (!chunk)
        return ERR_NOMEM;
    p->chunk[p->chunks++] = chunk;
    return ERR_OK;
}

static enum err take(struct row_kept_pool *p, uint32_t *row)
{
    if (p->free) {
        *row = p->free - 1;
        p->free = at(p, *row)->next;
        return ERR_OK;
    }
    if (p->rows >> p->shift == p->chunks && add_chunk(p))
        return ERR_NOMEM;
    *row = p->rows++;
    return ERR_OK;
}

/* ---- lists ---- */

static uint32_t *list_of(const struct row_kept *k, uint32_t bucket, uint32_t table)
{
    assert(bucket >= k->buckets.first && bucket < k->buckets.end && table < k->tables);
    return &k->list[(size_t)(bucket - k->buckets.first) * k->tables + table];
}

enum err row_kept_add(struct row_kept *k, const struct row_table *t, uint32_t table, uint64_t mixed,
                      uint32_t row)
{
    struct row_kept_pool *p = &k->pool[table];
    uint32_t *list = list_of(k, key_bucket(mixed), table), kept;
    enum err err = take(p, &kept);
    if (err)
        return err;
    struct row_kept_head *h = at(p, kept);
    float *values = (float *)(void *)(h + 1);
    *h = (struct row_kept_head){mixed, row_stamp(t, row), *list, row_count(t, row)};
    memcpy(values, row_weights(t, row), t->dim * sizeof *values);
    if (t->slot_floats)
        memcpy(values + t->dim, row_slots(t, row), t->slot_floats * sizeof *values);
    *list = kept + 1;
    k->bytes += p->bytes;
    return ERR_OK;
}

static int ascending(const void *a, const void *b)
{
    uint64_t x = ((const struct row_kept_key *)a)->mixed;
    uint64_t y = ((const struct row_kept_key *)b)->mixed;
    return (x > y) - (x < y);
}

enum err row_kept_turn(struct row_kept *k, uint32_t bucket, uint32_t table)
{
    const struct row_kept_pool *p = &k->pool[table];
    uint32_t *list = list_of(k, bucket, table);
    size_t more = 0;
    if (k->at == k->keys)
        k->at = k->keys = 0;
    if (!*list)
        return ERR_OK;
    for (uint32_t row = *list; row; row = at(p, row - 1)->next)
        more++;
    struct row_kept_key *key = mem_grow(k->key, &k->key_capacity, k->keys + more, sizeof *key);
    if (!key)
        return ERR_NOMEM;
    k->key = key;
    for (uint32_t row = *list; row; row = at(p, row - 1)->next)
        k->key[k->keys++] = (struct row_kept_key){at(p, row - 1)->mixed, row - 1};
    *list = 0;
    qsort(k->key + k->at, k->keys - k->at, sizeof *k->key, ascending);
    return ERR_OK;
}

const struct row_kept_head *row_kept_first(const struct row_kept *k, uint32_t table)
{
    return k->at < k->keys ? at(&k->pool[table], k->key[k->at].row) : NULL;
}

void row_kept_drop_first(struct row_kept *k, uint32_t table)
{
    struct row_kept_pool *p = &k->pool[table];
    assert(k->at < k->keys);
    uint32_t row = k->key[k->at++].row;
    at(p, row)->next = p->free;
    p->free = row + 1;
    k->bytes -= p->bytes;
}

uint64_t row_kept_memory(const struct row_kept *k)
{
    uint64_t bytes = k->key_capacity * sizeof *k->key;
    bytes += (uint64_t)(k->buckets.end - k->buckets.first) * k->tables * sizeof *k->list;
    for (uint32_t i = 0; i < k->tables; i++) {
        const struct row_kept_pool *p = &k->pool[i];
        bytes += p->capacity * sizeof *p->chunk + p->chunks * chunk_bytes(p);
    }
    return bytes;
}
