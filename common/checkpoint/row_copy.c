#include "common/checkpoint/row_copy.h"

#include <assert.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/checkpoint/row_frame.h"

enum { PIECE_BYTES_MIN = 1 << 12, PIECE_BYTES_MAX = 1 << 20 };

/* Groups in the format of row_frame.h. */
struct row_piece {
    uint8_t *data; /* (room) */
    size_t room, used;
};

static enum err next(void *ctx, struct row_group *g, struct errmsg *e)
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
    c->head.next = next;
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
static enum err add_piece(struct row_copy *c, size_t least)
{
    struct row_piece *p = mem_extend(c->piece, c->pieces, 1, sizeof *p);
    if (!p)
        return ERR_NOMEM;
    c->piece = p;
    size_t room = (size_t)PIECE_BYTES_MIN << (c->pieces < 8 ? c->pieces : 8);
    assert(room <= PIECE_BYTES_MAX);
    room = room < least ? least : room;
    uint8_t *data = mem_resize(NULL, room, 1);
    if (!data)
        return ERR_NOMEM;
    c->piece[c->pieces++] = (struct row_piece){.data = data, .room = room};
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
    if (!last || last->room - last->used < bytes) {
        enum err err = add_piece(c, bytes);
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
