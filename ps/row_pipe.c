#include "ps/row_pipe.h"

#include <assert.h>

#include "common/base/mem.h"
#include "common/checkpoint/row_frame.h"

/* Groups in the format of row_frame.h. */
struct row_piece {
    struct row_piece *next;
    size_t used, at; /* at: bytes that were read */
    uint64_t data[ROW_PIPE_PIECE_BYTES / sizeof(uint64_t)];
};

void row_pipe_open(struct row_pipe *p, const struct checkpoint_table *table, uint32_t tables,
                   void (*on_room)(void *ctx), void *ctx)
{
    *p = (struct row_pipe){.table = table, .tables = tables, .on_room = on_room, .ctx = ctx};
    p->full_end = &p->full;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->changed, NULL);
}

static void free_pieces(struct row_piece *first)
{
    while (first) {
        struct row_piece *next = first->next;
        mem_free(first);
        first = next;
    }
}

void row_pipe_close(struct row_pipe *p)
{
    free_pieces(p->full);
    free_pieces(p->empty);
    mem_free(p->filling);
    mem_free(p->reading);
    pthread_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->changed);
}

/* ---- called by the shard's thread ---- */

static size_t room_in(const struct row_piece *piece)
{
    return piece ? ROW_PIPE_PIECE_BYTES - piece->used : 0;
}

/* No group is larger than this; row_pipe_put asserts it. */
enum { GROUP_BYTES_MAX = ROW_PIPE_PIECE_BYTES / 2 };

bool row_pipe_room(struct row_pipe *p)
{
    if (room_in(p->filling) >= GROUP_BYTES_MAX || p->pieces < ROW_PIPE_PIECES)
        return true;
    pthread_mutex_lock(&p->lock);
    bool room = p->empty != NULL;
    p->wants_room = !room;
    pthread_mutex_unlock(&p->lock);
    return room;
}

static void send_piece(struct row_pipe *p, bool over)
{
    pthread_mutex_lock(&p->lock);
    if (p->filling) {
        *p->full_end = p->filling;
        p->full_end = &p->filling->next;
    }
    p->filling = NULL;
    p->over = over;
    pthread_cond_signal(&p->changed);
    pthread_mutex_unlock(&p->lock);
}

static struct row_piece *take_empty(struct row_pipe *p)
{
    pthread_mutex_lock(&p->lock);
    struct row_piece *piece = p->empty;
    if (piece)
        p->empty = piece->next;
    pthread_mutex_unlock(&p->lock);
    return piece;
}

static enum err begin_piece(struct row_pipe *p)
{
    struct row_piece *piece = take_empty(p);
    if (!piece) {
        assert(p->pieces < ROW_PIPE_PIECES); /* row_pipe_room */
        piece = mem_resize(NULL, 1, sizeof *piece);
        if (!piece)
            return ERR_NOMEM;
        p->pieces++;
    }
    piece->next = NULL;
    piece->used = piece->at = 0;
    p->filling = piece;
    return ERR_OK;
}

enum err row_pipe_put(struct row_pipe *p, const struct row_group *g)
{
    const struct checkpoint_table *t = &p->table[g->table];
    size_t bytes = g->sketch ? row_sketch_group_bytes(g->sketch_bytes)
                             : row_group_bytes(g->rows, t->dim + t->slots);
    assert(bytes <= GROUP_BYTES_MAX);
    if (p->filling && room_in(p->filling) < bytes)
        send_piece(p, false);
    enum err err = p->filling ? ERR_OK : begin_piece(p);
    if (err)
        return err;
    uint8_t *to = (uint8_t *)p->filling->data + p->filling->used;
    if (g->sketch)
        row_sketch_encode(to, g);
    else
        row_group_encode(to, g, 0, g->rows, t->dim + t->slots);
    p->filling->used += bytes;
    return ERR_OK;
}

void row_pipe_end(struct row_pipe *p)
{
    send_piece(p, true);
}

void row_pipe_give_up(struct row_pipe *p)
{
    pthread_mutex_lock(&p->lock);
    p->given_up = true;
    pthread_cond_signal(&p->changed);
    pthread_mutex_unlock(&p->lock);
}

/* ---- called by the writer's thread ---- */

/* Empty the piece that was read, for use by the shard's thread. */
static void give_back(struct row_pipe *p)
{
    pthread_mutex_lock(&p->lock);
    p->reading->next = p->empty;
    p->empty = p->reading;
    p->reading = NULL;
    bool tell = p->wants_room;
    p->wants_room = false;
    pthread_mutex_unlock(&p->lock);
    if (tell)
        p->on_room(p->ctx);
}

/* Wait for the next piece and make it p->reading; NULL after the last one. Errors: ERR_CLOSED. */
static enum err take_full(struct row_pipe *p)
{
    pthread_mutex_lock(&p->lock);
    while (!p->full && !p->over && !p->given_up)
        pthread_cond_wait(&p->changed, &p->lock);
    enum err err = p->given_up ? ERR_CLOSED : ERR_OK;
    p->reading = err ? NULL : p->full;
    if (p->reading)
        p->full = p->reading->next;
    if (!p->full)
        p->full_end = &p->full;
    pthread_mutex_unlock(&p->lock);
    return err;
}

enum err row_pipe_next(void *pipe, struct row_group *g, struct errmsg *e)
{
    struct row_pipe *p = pipe;
    *g = (struct row_group){0};
    if (p->reading && p->reading->at == p->reading->used)
        give_back(p);
    if (!p->reading && take_full(p))
        return err_set(e, ERR_CLOSED, "the checkpoint was given up");
    if (!p->reading)
        return ERR_OK;
    struct row_piece *r = p->reading;
    size_t used =
        row_group_decode((uint8_t *)r->data + r->at, r->used - r->at, p->table, p->tables, g);
    assert(used > 0);
    r->at += used;
    return ERR_OK;
}
