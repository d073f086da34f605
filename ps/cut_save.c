/* Writes a shard's part of a cut, with the pipe that carries its rows to the thread that writes. */
#include "ps/cut_save.h"

#include <assert.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/process/fault.h"

/* Groups in the format of checkpoint_rows.h. */
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
    if (p->reading && p->reading->at == p->reading->used) {
        /* Empty the piece that was read, for use by the shard's thread. */
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

struct cut_save {
    struct cut_save_config config;
    uint64_t cut;
    bool has_rows;
    struct row_pipe pipe;
    atomic_int users; /* references: the shard's thread and the writer's */
    atomic_bool given_up;
    pthread_mutex_t lock; /* guards `image` until the writer has taken it */
    struct shard_image *image;
    struct cut_saved *out; /* the result that is being filled in */
    struct checkpoint_table table[ROW_TABLES_MAX];
    struct broken broken; /* the writer's thread: first value that is not finite so far */
    bool rows_over;       /* the shard's thread has passed all rows */
    uint64_t unslept;     /* bytes whose delay (--fault=disk) is still to be slept */
};

static void unref(struct cut_save *s)
{
    if (atomic_fetch_sub(&s->users, 1) > 1)
        return;
    shard_image_free(s->image);
    mem_free(s->out);
    if (s->has_rows)
        row_pipe_close(&s->pipe);
    pthread_mutex_destroy(&s->lock);
    mem_free(s);
}

/* ---- called by the writer's thread ---- */

/* Sleep as long as the slow disk of --fault=disk would take. */
static void sleep_as_the_disk(const struct cut_save *s, uint64_t bytes)
{
    double seconds = s->config.fault ? fault_disk_s(s->config.fault, bytes) : 0;
    if (seconds > 0)
        usleep((useconds_t)(seconds * 1e6));
}

static enum err next_rows(void *ctx, struct row_group *g, struct errmsg *e)
{
    struct cut_save *s = ctx;
    enum err err = row_pipe_next(&s->pipe, g, e);
    if (err)
        return err;
    const struct checkpoint_table *t = &s->pipe.table[g->table];
    broken_find_in_rows(&s->broken, g, t);
    s->unslept += row_group_bytes(g->rows, t->dim + t->slots);
    if (s->unslept >= ROW_PIPE_PIECE_BYTES || row_group_ends(g)) {
        sleep_as_the_disk(s, s->unslept);
        s->unslept = 0;
    }
    return ERR_OK;
}

static struct shard_image *take_image(struct cut_save *s)
{
    pthread_mutex_lock(&s->lock);
    struct shard_image *image = s->image;
    s->image = NULL;
    pthread_mutex_unlock(&s->lock);
    return image;
}

static void run(void *arg)
{
    struct cut_save *s = arg;
    struct shard_image *image = take_image(s);
    int64_t began_ms = clock_now_ms();
    if (image) {
        struct cut_saved *out = s->out;
        s->out = NULL;
        const struct cut_save_config *c = &s->config;
        const struct checkpoint_shard *b = &image->blocks;
        sleep_as_the_disk(s, b->elems * sizeof(float) * (1 + b->slots));
        broken_find(&s->broken, b);
        out->err = checkpoint_write_shard((struct cut){c->place, s->cut}, b, &out->file, &out->e);
        shard_image_free(image);
        out->seconds = (double)(clock_now_ms() - began_ms + 1) / 1000;
        out->broken = s->broken;
        out->given_up = atomic_load(&s->given_up);
        s->config.on_done(s->config.ctx, out);
    }
    unref(s);
}

/* ---- called by the shard's thread ---- */

enum err cut_save_begin(struct cut_save **out, struct disk_thread *writer,
                        const struct cut_save_config *config, struct shard_image *take)
{
    struct cut_save *s = mem_zalloc(1, sizeof *s);
    struct cut_saved *saved = mem_zalloc(1, sizeof *saved);
    if (!s || !saved) {
        mem_free(s);
        mem_free(saved);
        shard_image_free(take);
        return ERR_NOMEM;
    }
    saved->cut = s->cut = take->cut;
    s->config = *config;
    s->image = take;
    s->out = saved;
    s->has_rows = take->blocks.rows != NULL;
    s->rows_over = !s->has_rows;
    atomic_init(&s->users, 2);
    pthread_mutex_init(&s->lock, NULL);
    if (s->has_rows) {
        struct checkpoint_rows *rows = &s->image->rows;
        memcpy(s->table, rows->table, rows->tables * sizeof *rows->table);
        row_pipe_open(&s->pipe, s->table, rows->tables, s->config.on_room, s->config.ctx);
        rows->next = next_rows;
        rows->ctx = s;
    }
    enum err err = disk_thread_post(writer, run, s);
    if (err) {
        atomic_store(&s->users, 1);
        unref(s);
        return err;
    }
    *out = s;
    return ERR_OK;
}

uint64_t cut_save_number(const struct cut_save *s)
{
    return s->cut;
}

bool cut_save_room(struct cut_save *s)
{
    return row_pipe_room(&s->pipe);
}

enum err cut_save_rows(struct cut_save *s, const struct row_group *g)
{
    if (!row_group_ends(g))
        return row_pipe_put(&s->pipe, g);
    s->rows_over = true;
    row_pipe_end(&s->pipe);
    return ERR_OK;
}

void cut_save_give_up(struct cut_save *s)
{
    atomic_store(&s->given_up, true);
    if (s->has_rows)
        row_pipe_give_up(&s->pipe);
    shard_image_free(take_image(s)); /* NULL if the writer has begun */
    unref(s);
}

void cut_save_end(struct cut_save *s)
{
    if (s->rows_over)
        unref(s);
    else
        cut_save_give_up(s);
}
