#include "ps/rows/row_table.h"

#include <assert.h>

#include "common/base/mem.h"

enum {
    SLAB_MIN_BYTES = 32 << 20, /* bodies and heads of a slab */
    SLAB_SHIFT_MAX = 20,
    SMALL_PAGES_BYTES = 4 << 20, /* a table's first rows use small pages */
    PACKED_MIN_BYTES = 1 << 20,  /* of rows: a table with less is not packed */
    LISTED_A_TIME = 1024,        /* rows visited for each added or moved row */
    PACKED_A_TIME = 256,         /* rows visited at a time */
    PACKED_TIMES = 8,            /* so many times, unless more bytes are moved: */
    PACKED_MOST_BYTES = 1 << 20,
    BATCH = 8 /* rows prefetched while the BATCH before is copied */
};

/* ---- slabs ---- */

static void lay_out(struct row_table *t)
{
    bool single = t->slot_floats == 1;
    t->body_floats = t->dim + (single ? 0 : t->slot_floats);
    t->head_bytes = ROW_HEAD_SLOT + (single ? (uint32_t)sizeof(float) : 0);
    size_t row_bytes = t->body_floats * sizeof(float) + t->head_bytes;
    while (t->shift < SLAB_SHIFT_MAX && row_bytes << t->shift < SLAB_MIN_BYTES)
        t->shift++;
    t->mask = (UINT32_C(1) << t->shift) - 1;
    size_t bodies = (t->body_floats * sizeof(float)) << t->shift;
    t->heads_at = (bodies + ROW_LINE_BYTES - 1) & ~(size_t)(ROW_LINE_BYTES - 1);
    t->slab_bytes = (t->heads_at + ((size_t)t->head_bytes << t->shift) + MEM_HUGE_PAGE_BYTES - 1) &
                    ~(size_t)(MEM_HUGE_PAGE_BYTES - 1);
    t->small_rows = (uint32_t)(SMALL_PAGES_BYTES / row_bytes);
}

static enum err add_slab(struct row_table *t)
{
    char **grown = mem_grow(t->slab, &t->slabs_capacity, (size_t)t->slabs + 1, sizeof *grown);
    if (!grown)
        return ERR_NOMEM;
    t->slab = grown;
    char *slab = mem_map(t->slab_bytes);
    if (!slab)
        return ERR_NOMEM;
    if (t->slabs > 0)
        mem_map_huge(slab, t->slab_bytes);
    t->slab[t->slabs++] = slab;
    return ERR_OK;
}

/* ---- the list of free rows: a free row's stamp has the number of the next one ---- */

static uint32_t next_of_free(const struct row_table *t, uint32_t row)
{
    return (uint32_t)row_stamp(t, row);
}

/* The row is free from now on. */
static void list_row(struct row_table *t, uint32_t row)
{
    row_set_stamp(t, row, ROW_FREE_STAMP | t->free);
    t->free = row;
}

static void free_row(struct row_table *t, uint32_t row)
{
    if (row < t->listed)
        list_row(t, row);
    else
        row_set_stamp(t, row, ROW_FREE_STAMP);
}

/* The list is empty: look for a free row that is not in it yet. */
static void list_some(struct row_table *t)
{
    uint32_t end = t->used < t->pack.limit ? t->used : t->pack.limit;
    for (uint32_t i = 0; t->free == ROW_NONE && t->listed < end && i < LISTED_A_TIME; i++) {
        uint32_t row = t->listed++;
        if (row_stamp(t, row) >= ROW_FREE_STAMP)
            list_row(t, row);
    }
}

/* Find the row for the next add, and map its memory. It is not marked as used yet. */
static enum err next_row(struct row_table *t, uint32_t *row)
{
    if (t->free == ROW_NONE)
        list_some(t);
    *row = t->free != ROW_NONE ? t->free : t->used;
    if (*row == ROW_NONE)
        return ERR_NOMEM;
    return *row >> t->shift < t->slabs ? ERR_OK : add_slab(t);
}

static void take_row(struct row_table *t, uint32_t row)
{
    if (t->free == ROW_NONE) {
        t->listed += t->listed == t->used;
        t->pack.again |= t->pack.limit != ROW_NONE;
        t->used++;                    /* its memory is still zero */
        if (t->used == t->small_rows) /* this table has more rows than most: use huge pages */
            mem_map_huge(t->slab[0], t->slab_bytes);
        return;
    }
    t->free = next_of_free(t, row);
    memset(row_weights(t, row), 0, t->body_floats * sizeof(float));
    memset(row_head(t, row), 0, t->head_bytes);
}

/* ---- the table ---- */

enum err row_table_new(struct row_table **out, uint32_t dim, uint32_t slot_floats,
                       struct bucket_range buckets)
{
    assert(dim > 0 && buckets.first <= buckets.end && buckets.end <= ROW_BUCKETS);
    struct row_table *t = mem_zalloc(1, sizeof *t);
    if (!t)
        return ERR_NOMEM;
    *t = (struct row_table){
        .dim = dim, .slot_floats = slot_floats, .free = ROW_NONE, .pack.limit = ROW_NONE};
    lay_out(t);
    enum err e = row_index_init(&t->index, buckets);
    if (e) {
        mem_free(t);
        return e;
    }
    *out = t;
    return ERR_OK;
}

void row_table_free(struct row_table *t)
{
    if (!t)
        return;
    for (uint32_t i = 0; i < t->slabs; i++)
        mem_unmap(t->slab[i], t->slab_bytes);
    mem_free(t->slab);
    row_index_close(&t->index);
    mem_free(t);
}

size_t row_table_find(const struct row_table *t, const uint64_t *mixed, size_t n, uint32_t *row)
{
    return row_index_find(&t->index, mixed, n, row);
}

enum err row_table_add(struct row_table *t, uint64_t mixed, uint32_t *row)
{
    uint32_t next = 0;
    enum err e = next_row(t, &next);
    if (!e)
        e = row_index_add(&t->index, mixed, next);
    if (e)
        return e;
    take_row(t, next);
    *row = next;
    return ERR_OK;
}

enum err row_table_load(struct row_table *t, uint64_t mixed, uint32_t *row)
{
    uint32_t next = 0;
    enum err e = next_row(t, &next);
    if (!e)
        e = row_index_append(&t->index, mixed, next);
    if (e)
        return e;
    take_row(t, next);
    *row = next;
    return ERR_OK;
}

enum err row_table_loaded(struct row_table *t)
{
    return row_index_spread(&t->index);
}

void row_table_remove(struct row_table *t, uint64_t mixed)
{
    free_row(t, row_index_remove(&t->index, mixed));
}

size_t row_table_scan(const struct row_table *t, uint64_t first, uint64_t last, uint64_t *mixed,
                      uint32_t *row, size_t room)
{
    return row_index_scan(&t->index, first, last, mixed, row, room);
}

/* ---- packing ---- */

static uint64_t row_bytes_of(const struct row_table *t)
{
    return t->body_floats * sizeof(float) + t->head_bytes;
}

/* A packed table has room for some more rows. */
static void pack_begin(struct row_table *t, bool tight)
{
    uint64_t rows = row_table_rows(t), least = tight ? 1 : PACKED_MIN_BYTES / row_bytes_of(t) + 1;
    uint64_t most = tight ? rows + rows / 8 + least : 2 * (rows + least);
    if (t->used <= most)
        return;
    uint64_t limit = rows + rows / (tight ? 16 : 4) + least;
    t->pack = (struct row_packing){.limit = (uint32_t)limit};
    t->free = ROW_NONE;
    t->listed = 0;
}

static void pack_end(struct row_table *t)
{
    t->pack = (struct row_packing){.limit = ROW_NONE};
}

/* Move the row of this key to a free one below the limit. */
static void move_row(struct row_table *t, uint64_t mixed, uint32_t row)
{
    if (t->free == ROW_NONE)
        list_some(t);
    uint32_t to = t->free;
    if (to == ROW_NONE) {
        t->pack.again = true;
        return;
    }
    t->free = next_of_free(t, to);
    memcpy(row_weights(t, to), row_weights(t, row), t->body_floats * sizeof(float));
    memcpy(row_head(t, to), row_head(t, row), t->head_bytes);
    row_index_move(&t->index, mixed, to);
    free_row(t, row);
}

static void move_some(struct row_table *t)
{
    uint64_t mixed[PACKED_A_TIME], bytes = 0;
    uint32_t row[PACKED_A_TIME];
    for (int times = 0; times < PACKED_TIMES && bytes < PACKED_MOST_BYTES; times++) {
        size_t n = row_table_scan(t, t->pack.next, UINT64_MAX, mixed, row, PACKED_A_TIME);
        for (size_t i = 0; i < n; i++) {
            if (row[i] < t->pack.limit)
                continue;
            move_row(t, mixed[i], row[i]);
            bytes += row_bytes_of(t);
        }
        t->pack.next = n ? mixed[n - 1] + 1 : 0;
        if (n < PACKED_A_TIME || t->pack.next == 0) {
            /* All keys were visited. */
            bool fits = row_table_rows(t) <= t->pack.limit;
            t->pack.done = !t->pack.again;
            t->pack.again = false;
            t->pack.next = 0;
            if (!t->pack.done && !fits)
                pack_end(t);
            return;
        }
    }
}

/* Return the memory of the last slab, or of its end. */
static void give_back_slab(struct row_table *t)
{
    uint32_t first = (t->used - 1) & ~t->mask, end = t->used;
    t->used = first > t->pack.limit ? first : t->pack.limit;
    for (; t->slabs > 0 && (uint64_t)(t->slabs - 1) << t->shift >= t->used; t->slabs--)
        mem_unmap(t->slab[t->slabs - 1], t->slab_bytes);
    if (t->used > first) {
        mem_map_zero(row_weights(t, t->used),
                     (size_t)(end - t->used) * t->body_floats * sizeof(float));
        mem_map_zero(row_head(t, t->used), (size_t)(end - t->used) * t->head_bytes);
    }
    if (t->used == t->pack.limit)
        pack_end(t);
}

void row_table_pack(struct row_table *t, bool tight)
{
    if (t->pack.limit == ROW_NONE)
        pack_begin(t, tight);
    if (t->pack.limit == ROW_NONE)
        return;
    t->pack.done = t->pack.done && !t->pack.again;
    if (t->pack.done)
        give_back_slab(t);
    else
        move_some(t);
}

/* ---- many rows ---- */

/* w[i] = the weights of the row, prefetched; NULL for ROW_NONE. This is a separate loop, because a processor looks ahead by a
 * fixed number of instructions: with fewer instructions per row it waits for more rows at the same time. */
__attribute__((always_inline)) static inline void
ask(const struct row_table *t, const uint32_t *row, size_t n, uint32_t dim, const float **w)
{
    for (size_t i = 0; i < n; i++) {
        w[i] = row[i] == ROW_NONE ? NULL : row_weights(t, row[i]);
        if (w[i])
            row_ask(w[i], dim, ROW_FIRST_CACHE);
    }
}

/* `dim` is t->dim. It is a parameter so that calls with a constant are compiled for that constant. */
__attribute__((always_inline)) static inline void
gather(const struct row_table *t, const uint32_t *row, size_t n, uint32_t dim, float *out)
{
    const float *batch[2][BATCH];
    ask(t, row, n < BATCH ? n : BATCH, dim, batch[0]);
    for (size_t i = 0; i < n; i += BATCH) {
        const float *const *w = batch[i / BATCH % 2];
        size_t next = i + BATCH, left = next < n ? n - next : 0;
        if (left)
            ask(t, row + next, left < BATCH ? left : BATCH, dim, batch[next / BATCH % 2]);
        for (size_t k = i; k < n && k < next; k++)
            if (w[k - i])
                row_copy(out + k * dim, w[k - i], dim);
    }
}

void row_table_gather(const struct row_table *t, const uint32_t *row, size_t n, float *out)
{
    switch (t->dim) {
    case 8:
        gather(t, row, n, 8, out);
        return;
    case 16:
        gather(t, row, n, 16, out);
        return;
    case 32:
        gather(t, row, n, 32, out);
        return;
    default:
        gather(t, row, n, t->dim, out);
    }
}

/* ---- bytes ---- */

uint64_t row_table_payload_bytes(const struct row_table *t)
{
    uint64_t row_bytes = sizeof(uint64_t) + (t->dim + t->slot_floats) * sizeof(float);
    return row_table_rows(t) * row_bytes;
}

uint64_t row_table_growth_bytes(const struct row_table *t, uint64_t rows)
{
    uint64_t free_rows = t->used - row_table_rows(t);
    return (rows > free_rows ? (rows - free_rows) * row_bytes_of(t) : 0) +
           row_index_growth_bytes(&t->index, rows);
}

/* The index grows by a quarter at a load of 0.6, and then has 12 * 1.25 / 0.6 bytes per row. */
uint64_t row_table_row_bytes(const struct row_table *t)
{
    return row_bytes_of(t) + sizeof(struct row_entry) * 5 * 5 / (4 * 3);
}

uint64_t row_table_bytes(const struct row_table *t)
{
    uint64_t row_bytes = row_bytes_of(t);
    return sizeof *t + t->slabs_capacity * sizeof *t->slab + t->used * row_bytes +
           row_index_bytes(&t->index);
}
