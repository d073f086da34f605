/* Groups of rows as bytes: the contents of a checkpoint's frames of rows, and of a copy in memory, which has them in pieces
 * that grow. */
#include "common/checkpoint/row_frame.h"

#include <assert.h>
#include <string.h>

#include "common/base/mem.h"

enum { ROW_FIXED_BYTES = 8 + 8 + 4 }; /* key, stamp, count */
enum { GROUP_OF_ROWS = 0, GROUP_OF_A_SKETCH = 1 };

size_t row_group_bytes(uint64_t rows, uint32_t width)
{
    uint64_t row = ROW_FIXED_BYTES + (uint64_t)width * sizeof(float);
    return ROW_GROUP_HEAD_BYTES + (rows * row + 7) / 8 * 8;
}

uint32_t row_group_fits(size_t bytes, uint32_t width)
{
    if (bytes <= ROW_GROUP_HEAD_BYTES)
        return 0;
    uint64_t row = ROW_FIXED_BYTES + (uint64_t)width * sizeof(float);
    return (uint32_t)((bytes - ROW_GROUP_HEAD_BYTES) / 8 * 8 / row);
}

static uint8_t *frame_put(uint8_t *at, const void *from, size_t bytes)
{
    memcpy(at, from, bytes);
    return at + bytes;
}

void row_group_encode(void *out, const struct row_group *g, uint32_t first, uint32_t n,
                      uint32_t width)
{
    uint8_t *at = out, *end = at + row_group_bytes(n, width);
    uint32_t head[4] = {g->table, g->bucket, n, GROUP_OF_ROWS};
    at = frame_put(at, head, sizeof head);
    at = frame_put(at, g->mixed + first, n * sizeof *g->mixed);
    at = frame_put(at, g->stamp + first, n * sizeof *g->stamp);
    at = frame_put(at, g->count + first, n * sizeof *g->count);
    at = frame_put(at, g->values + (size_t)first * width, (size_t)n * width * sizeof *g->values);
    memset(at, 0, (size_t)(end - at));
}

size_t row_sketch_group_bytes(uint32_t sketch_bytes)
{
    return ROW_GROUP_HEAD_BYTES + (size_t)sketch_bytes;
}

void row_sketch_encode(void *out, const struct row_group *g)
{
    uint32_t head[4] = {g->table, g->bucket, g->sketch_bytes, GROUP_OF_A_SKETCH};
    (void)frame_put(frame_put(out, head, sizeof head), g->sketch, g->sketch_bytes);
}

/* `head` is the group's; `bytes` is all that can belong to it. */
static size_t decode_sketch(const void *data, size_t bytes, const uint32_t head[4],
                            const struct checkpoint_table *table, struct row_group *g)
{
    uint32_t sketch_bytes = table[head[0]].sketch_bytes;
    if (sketch_bytes == 0 || head[2] != sketch_bytes ||
        row_sketch_group_bytes(sketch_bytes) > bytes)
        return 0;
    *g = (struct row_group){.table = head[0],
                            .bucket = head[1],
                            .sketch = (const uint8_t *)data + ROW_GROUP_HEAD_BYTES,
                            .sketch_bytes = sketch_bytes};
    return row_sketch_group_bytes(sketch_bytes);
}

size_t row_group_decode(const void *data, size_t bytes, const struct checkpoint_table *table,
                        uint32_t tables, struct row_group *g)
{
    uint32_t head[4];
    if (bytes < sizeof head)
        return 0;
    memcpy(head, data, sizeof head);
    uint32_t rows = head[2];
    if (head[0] >= tables || head[1] >= ROW_BUCKETS || rows == 0)
        return 0;
    if (head[3] == GROUP_OF_A_SKETCH)
        return decode_sketch(data, bytes, head, table, g);
    size_t all = row_group_bytes(rows, table[head[0]].dim + table[head[0]].slots);
    if (all > bytes)
        return 0;
    const uint64_t *mixed = (const uint64_t *)data + ROW_GROUP_HEAD_BYTES / 8;
    const uint32_t *count = (const uint32_t *)(mixed + 2 * (size_t)rows);
    *g = (struct row_group){.table = head[0],
                            .bucket = head[1],
                            .rows = rows,
                            .mixed = mixed,
                            .stamp = mixed + rows,
                            .count = count,
                            .values = (const float *)(count + rows)};
    return all;
}

/* Does the group start after `at`? */
static bool row_place_is_before(const struct row_place *at, const struct row_group *g)
{
    if (!at->there || g->bucket > at->bucket)
        return true;
    if (g->bucket < at->bucket || g->table < at->table)
        return false;
    if (g->table > at->table)
        return true;
    return !g->sketch && (at->sketch || g->mixed[0] > at->mixed);
}

bool row_place_advance(struct row_place *at, const struct row_group *g)
{
    if (!row_place_is_before(at, g))
        return false;
    if (g->sketch) {
        *at = (struct row_place){true, true, g->bucket, g->table, 0};
        return true;
    }
    uint32_t last = g->rows - 1;
    for (uint32_t i = 1; i < g->rows; i++)
        if (g->mixed[i] <= g->mixed[i - 1])
            return false;
    if (key_bucket(g->mixed[0]) != g->bucket || key_bucket(g->mixed[last]) != g->bucket)
        return false;
    *at = (struct row_place){true, false, g->bucket, g->table, g->mixed[last]};
    return true;
}

/* ---- a copy in memory ---- */

enum { PIECE_BYTES_MIN = 1 << 12, PIECE_BYTES_MAX = 1 << 20 };

/* Groups in the format of row_frame.h. */
struct row_piece {
    uint8_t *data; /* (bytes) */
    size_t bytes, used;
};

static enum err row_copy_next(void *ctx, struct row_group *g, struct errmsg *e)
{
    struct row_copy *c = ctx;
    (void)e;
    *g = (struct row_group){0};
    if (c->next_piece < c->pieces && c->next_at == c->piece[c->next_piece].used) {
        c->next_piece++;
        c->next_at = 0;
    }
    if (c->next_piece == c->pieces)
        return ERR_OK;
    const struct row_piece *p = &c->piece[c->next_piece];
    size_t used =
        row_group_decode(p->data + c->next_at, p->used - c->next_at, c->table, c->head.tables, g);
    assert(used > 0);
    c->next_at += used;
    return ERR_OK;
}

void row_copy_init(struct row_copy *c, const struct checkpoint_table *table, uint32_t tables,
                   struct bucket_range buckets, uint64_t clock)
{
    assert(tables <= ROW_TABLES_MAX);
    *c = (struct row_copy){.head = {.buckets = buckets, .clock = clock, .tables = tables}};
    memcpy(c->table, table, tables * sizeof *table);
    c->head.table = c->table;
    c->head.next = row_copy_next;
    c->head.ctx = c;
}

void row_copy_close(struct row_copy *c)
{
    for (uint32_t i = 0; i < c->pieces; i++)
        mem_free(c->piece[i].data);
    mem_free(c->piece);
    *c = (struct row_copy){.pieces = 0};
}

/* Adds a piece of at least `least` bytes. The first pieces are small. */
static enum err row_copy_grow(struct row_copy *c, size_t least)
{
    struct row_piece *p = mem_extend(c->piece, c->pieces, 1, sizeof *p);
    if (!p)
        return ERR_NOMEM;
    c->piece = p;
    size_t size = (size_t)PIECE_BYTES_MIN << (c->pieces < 8 ? c->pieces : 8);
    assert(size <= PIECE_BYTES_MAX);
    size = size < least ? least : size;
    uint8_t *data = mem_resize(NULL, size, 1);
    if (!data)
        return ERR_NOMEM;
    c->piece[c->pieces++] = (struct row_piece){.data = data, .bytes = size};
    return ERR_OK;
}

enum err row_copy_add(struct row_copy *c, const struct row_group *g)
{
    assert(g->table < c->head.tables && !row_group_ends(g));
    const struct checkpoint_table *t = &c->table[g->table];
    uint32_t width = t->dim + t->slots;
    size_t bytes =
        g->sketch ? row_sketch_group_bytes(g->sketch_bytes) : row_group_bytes(g->rows, width);
    const struct row_piece *last = c->pieces ? &c->piece[c->pieces - 1] : NULL;
    if (!last || last->bytes - last->used < bytes) {
        enum err err = row_copy_grow(c, bytes);
        if (err)
            return err;
    }
    struct row_piece *p = &c->piece[c->pieces - 1];
    if (g->sketch)
        row_sketch_encode(p->data + p->used, g);
    else
        row_group_encode(p->data + p->used, g, 0, g->rows, width);
    p->used += bytes;
    c->rows += g->rows;
    return ERR_OK;
}

void row_copy_rewind(struct row_copy *c)
{
    c->next_piece = 0;
    c->next_at = 0;
}
