/* Copies the rows of a cut, and keeps rows that change before they are copied. */
#include "ps/rows/row_cut.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"

/* Chunks are mapped (mmap): the heap would return many of them to the system in a single call, at an arbitrary time. */
enum { CHUNK_BYTES = 1 << 20 };

/* Errors: ERR_NOMEM: *k is zeros. Free with row_kept_close, which takes zeros. */
static enum err row_kept_init(struct row_kept *k, struct row_table *const *table, uint32_t tables,
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

/* Free about 1 MiB. True: all is freed, and *k is zeros. After the first call only this function can be called. */
static bool row_kept_close_some(struct row_kept *k)
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

static void row_kept_close(struct row_kept *k)
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

/* Keep a copy of the row. Errors: ERR_NOMEM: it is not kept. */
static enum err row_kept_add(struct row_kept *k, const struct row_table *t, uint32_t table,
                             uint64_t mixed, uint32_t row)
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

/* Make the list of this bucket and table the current one. The current list before must be empty, or this one.
 * Errors: ERR_NOMEM: no row is lost. */
static enum err row_kept_turn(struct row_kept *k, uint32_t bucket, uint32_t table)
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

/* The first row of the current list, which belongs to `table`; valid until it is dropped. NULL: the list is empty. */
static const struct row_kept_head *row_kept_first(const struct row_kept *k, uint32_t table)
{
    return k->at < k->keys ? at(&k->pool[table], k->key[k->at].row) : NULL;
}

/* Drop it; the list is not empty. */
static void row_kept_drop_first(struct row_kept *k, uint32_t table)
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

/* Limits for one call without a result: empty lists that it skips, and scans of rows that are not in the cut. */
enum { WORK_MAX = 64, SCAN_WORK = 8, PREFETCH_BYTES = 256 };

/* The rows collected for the next row_cut_rows, and the rows that were found in the table. */
struct row_cut_room {
    uint32_t rows;
    uint64_t mixed[ROW_CUT_ROWS], stamp[ROW_CUT_ROWS];
    uint32_t count[ROW_CUT_ROWS];
    float *values; /* (ROW_CUT_FLOATS, or one row of any table) */
    uint64_t found[ROW_CUT_ROWS];
    uint32_t row[ROW_CUT_ROWS];
};

static struct row_cut_room *room_new(struct row_table *const *table, uint32_t tables)
{
    struct row_cut_room *r = mem_zalloc(1, sizeof *r);
    size_t floats = ROW_CUT_FLOATS;
    for (uint32_t i = 0; i < tables; i++) {
        uint32_t width = table[i]->dim + table[i]->slot_floats;
        floats = width > floats ? width : floats;
    }
    if (r)
        r->values = mem_floats(floats);
    if (r && !r->values) {
        mem_free(r);
        r = NULL;
    }
    return r;
}

static size_t lists(const struct row_cut *c)
{
    return (size_t)(c->buckets.end - c->buckets.first) * c->tables;
}

enum err row_cut_begin(struct row_cut *c, struct row_table *const *table,
                       const struct row_admit *admit, uint32_t tables, struct bucket_range buckets,
                       struct row_moment moment, uint64_t most_bytes)
{
    assert(!c->on && tables > 0);
    *c = (struct row_cut){.left = c->left,
                          .on = true,
                          .moment = moment,
                          .table = table,
                          .admit = admit,
                          .tables = tables,
                          .buckets = buckets,
                          .bucket = buckets.first,
                          .mixed = row_bucket_first(buckets.first),
                          .most_bytes = most_bytes};
    c->room = room_new(table, tables);
    c->sketch = mem_zalloc(lists(c), sizeof *c->sketch);
    if (c->room && c->sketch && row_kept_init(&c->kept, table, tables, buckets) == ERR_OK)
        return ERR_OK;
    row_cut_end(c);
    return ERR_NOMEM;
}

/* Marks a kept sketch whose counters were all 0. */
static uint8_t empty_sketch;

static void free_sketch(struct row_cut *c, uint8_t **sketch, uint32_t table)
{
    if (*sketch && *sketch != &empty_sketch) {
        c->kept_sketch_bytes -= c->admit[table].bucket_bytes;
        mem_free(*sketch);
    }
    *sketch = NULL;
}

void row_cut_end(struct row_cut *c)
{
    for (size_t i = 0; c->sketch && i < lists(c); i++)
        free_sketch(c, &c->sketch[i], (uint32_t)(i % c->tables));
    mem_free(c->sketch);
    row_kept_close(&c->left);
    c->left = c->kept;
    if (c->room)
        mem_free(c->room->values);
    mem_free(c->room);
    *c = (struct row_cut){.left = c->left};
}

bool row_cut_give_back(struct row_cut *c)
{
    return row_kept_close_some(&c->left);
}

void row_cut_close(struct row_cut *c)
{
    row_cut_end(c);
    row_kept_close(&c->left);
}

uint32_t row_cut_most_rows(uint32_t width)
{
    uint32_t most = ROW_CUT_FLOATS / width;
    return most < 1 ? 1 : most > ROW_CUT_ROWS ? ROW_CUT_ROWS : most;
}

/* ---- keeping ---- */

/* True: a row with this stamp has not changed since the cut began, and belongs to it. */
static bool has(const struct row_moment *m, uint32_t table, uint64_t stamp)
{
    return stamp <= m->clock && row_is_above(m->floor, stamp) &&
           (!m->evict || row_is_there(m->evict[table].unseen_steps, stamp, m->clock));
}

static bool is_out(const struct row_cut *c, uint32_t table, uint64_t mixed)
{
    uint32_t bucket = key_bucket(mixed);
    if (bucket != c->bucket)
        return bucket < c->bucket;
    return table != c->in_table ? table < c->in_table : mixed < c->mixed;
}

/* `full` stays true until a good part is free. Otherwise training would stop and start all the time. */
static void note_bytes(struct row_cut *c)
{
    uint64_t bytes = c->kept.bytes + c->kept_sketch_bytes;
    if (bytes > c->kept_most_bytes)
        c->kept_most_bytes = bytes;
    c->full = bytes >= (c->full ? c->most_bytes - c->most_bytes / 64 : c->most_bytes);
}

void row_cut_keep(struct row_cut *c, uint32_t table, const uint64_t *mixed, const uint32_t *row,
                  size_t n)
{
    const struct row_table *t = c->on && !c->failed ? c->table[table] : NULL;
    for (size_t i = 0; t && i < n; i++) {
        if (row[i] == ROW_NONE || is_out(c, table, mixed[i]) ||
            !has(&c->moment, table, row_stamp(t, row[i])))
            continue;
        if (row_kept_add(&c->kept, t, table, mixed[i], row[i])) {
            c->failed = true;
            return;
        }
        c->kept_rows++;
    }
    if (t)
        note_bytes(c);
}

static uint8_t **sketch_of(const struct row_cut *c, uint32_t bucket, uint32_t table)
{
    return &c->sketch[(size_t)(bucket - c->buckets.first) * c->tables + table];
}

static bool is_empty(const uint8_t *sketch, uint32_t bytes)
{
    uint32_t i = 0;
    while (i < bytes && sketch[i] == 0)
        i++;
    return i == bytes;
}

/* True: the sketch is copied. In the checkpoint it comes before the rows of its list. */
static bool sketch_is_out(const struct row_cut *c, uint32_t bucket, uint32_t table)
{
    if (bucket == c->bucket && table == c->in_table)
        return c->sketch_out;
    return is_out(c, table, row_bucket_first(bucket));
}

void row_cut_keep_sketch(struct row_cut *c, uint32_t table, uint32_t bucket)
{
    const struct row_admit *a = c->on && !c->failed ? &c->admit[table] : NULL;
    if (!a || !a->counters || sketch_is_out(c, bucket, table) || *sketch_of(c, bucket, table))
        return;
    const uint8_t *now = row_admit_sketch(a, bucket);
    uint8_t *kept = &empty_sketch;
    if (!is_empty(now, a->bucket_bytes)) {
        kept = mem_resize(NULL, a->bucket_bytes, 1);
        c->failed = !kept;
        if (!kept)
            return;
        memcpy(kept, now, a->bucket_bytes);
        c->kept_sketch_bytes += a->bucket_bytes;
    }
    *sketch_of(c, bucket, table) = kept;
    note_bytes(c);
}

/* ---- copying ---- */

/* Copy the sketch of the current list as it was. False: the table has no sketch, or its counters were all 0. */
static bool copy_sketch(struct row_cut *c, struct row_cut_rows *out)
{
    const struct row_admit *a = &c->admit[c->in_table];
    uint8_t **kept = sketch_of(c, c->bucket, c->in_table);
    const uint8_t *was = *kept ? *kept : a->counters ? row_admit_sketch(a, c->bucket) : NULL;
    c->sketch_out = true;
    bool there = was && was != &empty_sketch && !is_empty(was, a->bucket_bytes);
    if (there) {
        uint8_t *to = (uint8_t *)c->room->values;
        static_assert(sizeof(float) * ROW_CUT_FLOATS >= (ROW_SKETCH_MB_MAX << 20) / ROW_BUCKETS,
                      "a sketch fits where values do");
        memcpy(to, was, a->bucket_bytes);
        *out = (struct row_cut_rows){.bucket = c->bucket,
                                     .table = c->in_table,
                                     .sketch = to,
                                     .sketch_bytes = a->bucket_bytes};
    }
    free_sketch(c, kept, c->in_table);
    note_bytes(c);
    return there;
}

static float *values_at(struct row_cut_room *r, uint32_t width)
{
    return r->values + (size_t)r->rows * width;
}

/* Copy kept rows up to key `last`, at most `most` rows; if rows are left, c->mixed becomes the first of them. */
static void merge_kept(struct row_cut *c, uint64_t last, uint32_t most)
{
    const struct row_kept_head *h;
    struct row_cut_room *r = c->room;
    uint32_t width = c->kept.pool[c->in_table].width;
    while ((h = row_kept_first(&c->kept, c->in_table)) && h->mixed <= last) {
        if (r->rows == most) {
            c->mixed = h->mixed;
            return;
        }
        r->mixed[r->rows] = h->mixed;
        r->stamp[r->rows] = h->stamp;
        r->count[r->rows] = h->count;
        memcpy(values_at(r, width), h + 1, width * sizeof *r->values); /* the values follow */
        r->rows++;
        row_kept_drop_first(&c->kept, c->in_table);
    }
}

/* Copy the bucket's rows of this table from key c->mixed on, as many as fit. True: none is left. */
static bool copy_some(struct row_cut *c, uint32_t most)
{
    struct row_cut_room *r = c->room;
    const struct row_table *t = c->table[c->in_table];
    uint64_t last = row_bucket_last(c->bucket);
    size_t n = row_table_scan(t, c->mixed, last, r->found, r->row, most);
    /* Prefetch the rows that were found. */
    size_t bytes = t->body_floats * sizeof(float);
    bytes = bytes < PREFETCH_BYTES ? bytes : PREFETCH_BYTES;
    for (size_t i = 0; i < n; i++) {
        const char *w = (const char *)row_weights(t, r->row[i]);
        __builtin_prefetch(row_head(t, r->row[i]));
        for (size_t at = 0; at < bytes; at += 64)
            __builtin_prefetch(w + at);
    }
    for (size_t i = 0; i < n; i++) {
        c->mixed = r->found[i];
        merge_kept(c, r->found[i], most);
        if (r->rows == most)
            return false;
        if (has(&c->moment, c->in_table, row_stamp(t, r->row[i]))) {
            float *to = values_at(r, t->dim + t->slot_floats);
            r->mixed[r->rows] = r->found[i];
            r->stamp[r->rows] = row_stamp(t, r->row[i]);
            r->count[r->rows] = row_count(t, r->row[i]);
            memcpy(to, row_weights(t, r->row[i]), t->dim * sizeof *to);
            if (t->slot_floats)
                memcpy(to + t->dim, row_slots(t, r->row[i]), t->slot_floats * sizeof *to);
            r->rows++;
        }
    }
    if (n == most && r->found[n - 1] < last) { /* the table can have more */
        c->mixed = r->found[n - 1] + 1;
        return false;
    }
    merge_kept(c, last, most);
    return !row_kept_first(&c->kept, c->in_table);
}

/* Return the rows in c->room; the next call overwrites them. */
static void hand_out(struct row_cut *c, uint32_t bucket, uint32_t table, struct row_cut_rows *out)
{
    struct row_cut_room *r = c->room;
    *out = (struct row_cut_rows){.bucket = bucket,
                                 .table = table,
                                 .rows = r->rows,
                                 .mixed = r->mixed,
                                 .stamp = r->stamp,
                                 .count = r->count,
                                 .values = r->values};
    r->rows = 0;
    note_bytes(c);
}

void row_cut_copy(struct row_cut *c, struct row_cut_rows *out)
{
    assert(c->on && !row_cut_is_out(c));
    *out = (struct row_cut_rows){.rows = 0};
    for (uint32_t work = 0; work < WORK_MAX && !row_cut_is_out(c);) {
        uint32_t bucket = c->bucket, table = c->in_table;
        uint32_t most = row_cut_most_rows(c->kept.pool[table].width);
        if (row_kept_turn(&c->kept, bucket, table)) {
            c->failed = true;
            return;
        }
        if (!c->sketch_out && copy_sketch(c, out))
            return;
        bool over = copy_some(c, most);
        if (over) {
            if (++c->in_table == c->tables) {
                c->in_table = 0;
                c->bucket++;
            }
            c->mixed = row_bucket_first(c->bucket);
            c->sketch_out = false;
        }
        if (c->room->rows == most || (over && c->room->rows)) {
            hand_out(c, bucket, table, out);
            return;
        }
        work += over ? 1 : SCAN_WORK;
    }
}
